/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits inside MPI: at the start of a job, while a communicator is made, and at the end. No communicator
 * watches over these waits (verdict.c), and MPI itself waits for ever for a rank that died.
 * So a rank that waits there watches the other ranks of the job itself. It reads their agents' words in the
 * run directory. If there are no agents, it looks at the processes that it knows of. As in collectives, an
 * error names a rank that died after 10 ms, and a stopped rank after a second.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectives/faults/roll.h"
#include "collectives/ground/comm.h"

static const uint64_t MS = 1000000;
static const uint64_t LOOK_EVERY = 2, READ_EVERY = 50, DEAD_GRACE = 10, ORDER_GRACE = 1000, AWAY = 100,
                      BROKEN_GRACE = 2000, BEAT_GRACE = 1000, DEFAULT_STALL = 10000, GUARD_EVERY = 50;
enum { FAR_AT_ONCE = 4 };

/* What is known of a rank of the job without a communicator. */
struct entry {
    /* mapped, or a copy if the rank is on another host; NULL: not found */
    const struct yokei_flight_file *file;
    bool far;
    int pid; /* 0, or the process number that the rank has reported */
    uint64_t nonce, start_time;
    uint64_t read_ns, process_ns; /* when the record was last read, and when the process was last looked at */
    /* when the rank was last looked at; since when it looks gone or stopped, 0: it does not */
    uint64_t looked_ns, since_ns;
    enum yokei_agent_state process; /* the process's state by /proc */
    struct yokei_beats beats;
};

static struct {
    struct entry *of; /* [n] */
    int n, self, next_far;
    bool has_agents;
    /* how long the agent of a host must show no life, so that the host counts as down or cut off */
    uint64_t stall_ns;
    char folder[4096];
} roll;

bool yokei_roll_begin(void)
{
    const char *folder = getenv("YOKE_RUN_DIR");
    if (roll.of) return true;
    PMPI_Comm_rank(MPI_COMM_WORLD, &roll.self);
    PMPI_Comm_size(MPI_COMM_WORLD, &roll.n);
    yokei_text(roll.folder, sizeof roll.folder, "%s",
               folder && strlen(folder) < sizeof roll.folder ? folder : "");
    roll.has_agents = getenv("YOKE_SUPERVISOR") != NULL;
    const char *stall = getenv("YOKE_STALL_MS");
    roll.stall_ns = (stall && atoll(stall) > 0 ? (uint64_t)atoll(stall) : DEFAULT_STALL) * MS;
    roll.of = calloc((size_t)roll.n, sizeof roll.of[0]);
    return roll.of != NULL;
}

void yokei_roll_note(const struct yokei_peer_info *info)
{
    if (!yokei_roll_begin() || info->world_rank < 0 || info->world_rank >= roll.n) return;
    struct entry *e = &roll.of[info->world_rank];
    e->nonce = info->nonce;
    e->pid = info->host_id == yokei_host_id() ? info->pid : 0;
    e->start_time = info->start_time;
}

/*
 * Without agents, an earlier job's record may lie there until the rank has made its own. So its nonce must be
 * known.
 */
static bool is_of_this_job(const struct entry *e, const struct yokei_flight_file *file)
{
    if (e->nonce && file->nonce) return e->nonce == file->nonce;
    return roll.has_agents;
}

static const struct yokei_flight_file *read_record(struct entry *e, int r)
{
    const struct yokei_flight_file *file;
    if (e->far) {
        yokei_flight_look(roll.folder, r, &e->file);
        return e->file;
    }
    if (yokei_flight_open(roll.folder, r, &file)) return NULL;
    if (file->host_id == yokei_host_id() && is_of_this_job(e, file)) return e->file = file;
    e->far = file->host_id != yokei_host_id();
    yokei_flight_close(file);
    return NULL;
}

/*
 * If a record cannot be read, that is no error of the calling function. The caller may have an error text of
 * its own that it is about to report to the others, so this function restores the text.
 */
static const struct yokei_flight_file *record_of(struct entry *e, int r, uint64_t now)
{
    struct yokei_error text;
    if ((e->file && !e->far) || !roll.folder[0] || (e->read_ns && now - e->read_ns < READ_EVERY * MS))
        return e->file;
    e->read_ns = now;
    yokei_error_save(&text);
    const struct yokei_flight_file *file = read_record(e, r);
    yokei_error_restore(&text);
    return file;
}

/*
 * The state of a rank without an agent's word. It is looked at less often, because this takes several system
 * calls.
 */
static enum yokei_agent_state by_process(struct entry *e, const struct yokei_flight_file *file, uint64_t now)
{
    const int pid = e->pid ? e->pid : file && !e->far ? file->pid : 0;
    const uint64_t started = e->pid ? e->start_time : file ? file->start_time : 0;
    uint64_t start = 0;
    if (!pid || !started) return YOKEI_AGENT_NONE;
    if (e->process_ns && now - e->process_ns < READ_EVERY * MS) return e->process;
    e->process_ns = now;
    const char state = yokei_process_state(pid, &start);
    const bool gone = !state || state == 'Z' || state == 'X' || start != started;
    return e->process = gone                           ? YOKEI_AGENT_DEAD
                        : state == 'T' || state == 't' ? YOKEI_AGENT_STOPPED
                                                       : YOKEI_AGENT_ALIVE;
}

/* How surely a rank is the cause of a wait, from the least to the most, and what became of it. */
enum weight { FINE, LEFT, REPORTED, HALTED, DIED };
struct finding {
    enum weight weight;
    int rank;
    struct yokei_agent_verdict verdict;
};

/*
 * A rank does not count as failed at once. Data that a dead rank had sent may still be on its way, and a
 * stopped rank may be continued.
 */
static struct finding look_at(int r, bool may_leave, uint64_t now)
{
    struct entry *e = &roll.of[r];
    const struct yokei_flight_file *file = record_of(e, r, now);
    struct finding found = { .rank = r, .verdict = { .state = YOKEI_AGENT_NONE } };
    if (file) found.verdict = yokei_flight_agent(file);
    struct yokei_agent_verdict *v = &found.verdict;
    if (v->state == YOKEI_AGENT_NONE) v->state = by_process(e, file, now);
    if (file && e->far && !yokei_agent_gone(v->state)
        && yokei_beats_stand(&e->beats, file, now) > roll.stall_ns + BEAT_GRACE * MS)
        v->state = YOKEI_AGENT_SILENT;
    const bool gone = yokei_agent_gone(v->state), away = now - e->looked_ns > AWAY * MS;
    if (!gone && v->state != YOKEI_AGENT_STOPPED)
        e->since_ns = 0;
    else if (!e->since_ns)
        e->since_ns = now;
    /* while this rank did not look, it may itself have stood still */
    else if (away)
        e->since_ns += now - e->looked_ns - AWAY * MS;
    e->looked_ns = now;
    const uint64_t seen = now - e->since_ns;
    if (!e->since_ns) return found;
    /* Or it may have ended normally. A process that is gone does not tell how it ended. A launcher without
       agents ends all ranks if one did not end normally. */
    const bool saved = file && atomic_load(&file->status) == YOKE_EPREEMPTED; /* all ranks end so, in order */
    const bool in_order = v->state == YOKEI_AGENT_DEAD && !v->signal && (!v->exit_code || saved);
    if (!gone)
        found.weight = yokei_stopped_for_long(v, seen, !e->far) ? HALTED : FINE;
    else if ((in_order && may_leave) || seen < (in_order ? ORDER_GRACE : DEAD_GRACE) * MS)
        found.weight = FINE;
    else if (v->pid && v->state == YOKEI_AGENT_DEAD && !v->signal)
        found.weight = file && atomic_load(&file->status) ? REPORTED : LEFT;
    else
        found.weight = DIED;
    return found;
}

/*
 * The rank that is most likely the cause, among the awaited ranks (NULL: all other ranks). Weight FINE: no
 * rank is.
 */
static struct finding look_at_ranks(const bool *awaited, bool may_leave, uint64_t now)
{
    struct finding worst = { .rank = -1, .weight = FINE };
    int n_far = 0;
    for (int i = 0; i < roll.n; i++) {
        const int r = (roll.next_far + i) % roll.n;
        if (r == roll.self || (awaited && !awaited[r])) continue;
        if (roll.of[r].far && n_far++ >= FAR_AT_ONCE) continue;
        const struct finding found = look_at(r, may_leave, now);
        if (found.weight > worst.weight || (found.weight == worst.weight && found.rank < worst.rank))
            worst = found;
    }
    if (n_far) roll.next_far = (roll.next_far + FAR_AT_ONCE) % roll.n;
    return worst;
}

/* This rank's own record, even if it has no communicator. *opened_out: the caller must close it. */
static struct yokei_flight_file *own_record(bool *opened_out)
{
    struct yokei_flight_file *file = yokei_process.flight;
    *opened_out = !file && roll.folder[0] && roll.has_agents
                  && !yokei_flight_create(roll.folder, roll.self, false, &file);
    return file;
}

/*
 * Write the error to this rank's record, if it has one, and return the error. MPI is not finalised any more.
 */
static yoke_status roll_fail(yoke_status status, int culprit, const char *text)
{
    bool opened;
    struct yokei_flight_file *file = own_record(&opened);
    yokei_process.faulted = true;
    if (file) {
        yokei_text(file->error, sizeof file->error, "%s", text);
        atomic_store(&file->status, (uint32_t)status);
        atomic_store(&file->culprit, culprit);
        atomic_store(&file->heartbeat_ns, yokei_now_ns());
        atomic_store_explicit(&file->state, YOKEI_RANK_FAILED, memory_order_release);
        if (roll.folder[0]) yokei_flight_publish(file);
    }
    if (opened) yokei_flight_close(file);
    yoke_log(YOKE_LOG_ERROR, "%s", text);
    return yoke_fail(status, "%s", text);
}

static void name_of(int r, char *out, size_t bytes)
{
    const struct entry *e = &roll.of[r];
    char host[65] = "";
    if (e->file) yokei_text(host, sizeof host, "%.64s", e->file->host);
    if (!host[0] && !e->far) gethostname(host, sizeof host - 1);
    const int pid = e->pid ? e->pid : e->file ? yokei_flight_agent(e->file).pid : 0;
    yokei_text(out, bytes, "rank %d (host %s, pid %d)", r, host[0] ? host : "unknown", pid);
}

/* "; it was outside collectives", or nothing if the record says nothing. */
static void roll_did_text(int r, char *out, size_t bytes)
{
    const struct entry *e = &roll.of[r];
    char what[512];
    out[0] = '\0';
    if (!e->file || atomic_load(&e->file->state) == YOKEI_RANK_UNBORN) return;
    yokei_flight_describe(e->file, !e->far, what, sizeof what);
    yokei_text(out, bytes, "; it was %s", what);
}

/*
 * Return an error that names the rank. If the rank recorded an error of its own, return that error, because
 * it is nearer to the cause.
 */
static yoke_status roll_blame(const struct finding *found, const char *what)
{
    const struct entry *e = &roll.of[found->rank];
    char text[1024], who[192], how[160], did[600];
    if (found->weight == REPORTED) {
        const int blamed = atomic_load(&e->file->culprit);
        yokei_text(text, sizeof text, "%.1023s", e->file->error);
        return roll_fail((yoke_status)atomic_load(&e->file->status), blamed < 0 ? found->rank : blamed, text);
    }
    name_of(found->rank, who, sizeof who);
    roll_did_text(found->rank, did, sizeof did);
    if (found->verdict.pid || found->verdict.state == YOKEI_AGENT_SILENT)
        yokei_agent_verdict_text(&found->verdict, how, sizeof how);
    else
        yokei_text(how, sizeof how, "%s",
                   found->weight == HALTED ? "was stopped (SIGSTOP or a debugger)"
                                           : "died (its process is gone)");
    yokei_text(text, sizeof text, "%s: %s %s%s", what, who, how, did);
    return roll_fail(YOKE_EDEAD, found->rank, text);
}

static yoke_status judge_awaited(const bool *awaited, bool may_leave, const char *what)
{
    if (!yokei_roll_begin() || roll.n == 1) return YOKE_OK;
    const struct finding found = look_at_ranks(awaited, may_leave, yokei_now_ns());
    return found.weight == FINE ? YOKE_OK : roll_blame(&found, what);
}

yoke_status yokei_roll_look(const char *what) { return judge_awaited(NULL, true, what); }

/*
 * No rank is dead, and the time is up. Name the first rank that does not wait here too, among the ranks whose
 * records can be seen.
 */
static yoke_status roll_too_late(const bool *awaited, const struct yokei_mpi_wait *wait)
{
    char text[1024], who[192], did[600];
    const bool meets = yokei_process.flight
                       && atomic_load(&yokei_process.flight->state) == YOKEI_RANK_MEETING;
    for (int r = 0; r < roll.n && roll.of && meets; r++) {
        const struct yokei_flight_file *file = roll.of[r].file;
        if (r == roll.self || (awaited && !awaited[r]) || !file
            || atomic_load(&file->state) == YOKEI_RANK_MEETING)
            continue;
        name_of(r, who, sizeof who);
        roll_did_text(r, did, sizeof did);
        yokei_text(text, sizeof text, "%s: %s has not called for %lld ms%s", wait->what, who,
                   (long long)wait->timeout_ms, did);
        return roll_fail(YOKE_ETIMEOUT, r, text);
    }
    yokei_text(text, sizeof text, "%s: not all of its ranks called within %lld ms", wait->what,
               (long long)wait->timeout_ms);
    return roll_fail(YOKE_ETIMEOUT, -1, text);
}

/* Which ranks of the job are in `comm`. NULL: all of them, or there is no memory for the list. */
static bool *members_of(MPI_Comm comm)
{
    MPI_Group some = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
    int n = 0;
    if (comm == MPI_COMM_WORLD) return NULL;
    PMPI_Comm_size(comm, &n);
    bool *awaited = calloc((size_t)roll.n, sizeof *awaited);
    int *ranks = malloc(2 * (size_t)n * sizeof *ranks);
    if (!awaited || !ranks) {
        free(awaited);
        awaited = NULL;
    } else {
        PMPI_Comm_group(comm, &some);
        PMPI_Comm_group(MPI_COMM_WORLD, &all);
        for (int i = 0; i < n; i++) ranks[i] = i;
        PMPI_Group_translate_ranks(some, n, ranks, all, ranks + n);
        for (int i = 0; i < n; i++)
            if (ranks[n + i] >= 0 && ranks[n + i] < roll.n) awaited[ranks[n + i]] = true;
        PMPI_Group_free(&some);
        PMPI_Group_free(&all);
    }
    free(ranks);
    return awaited;
}

static yoke_status mpi_failed(const struct yokei_mpi_wait *wait, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    PMPI_Error_string(code, text, &length);
    yokei_process.faulted = true;
    return yoke_fail(YOKE_EBACKEND, "%s: %s: %s", wait->what, wait->call, text);
}

yoke_status yokei_mpi_finish(MPI_Request *request, int code, const struct yokei_mpi_wait *how)
{
    struct yokei_wait wait;
    yoke_status status = YOKE_OK;
    bool *awaited = NULL;
    int complete = 0;
    /* Without memory for the list of ranks nobody is watched, and only the time limit ends the wait. */
    yokei_roll_begin();
    yokei_wait_init(&wait, YOKEI_WAIT_YIELD, 1, 1);
    const uint64_t begun = yokei_now_ns();
    uint64_t looked = 0, broken = code ? begun : 0;
    while (!status) {
        if (!broken && (code = PMPI_Test(request, &complete, MPI_STATUS_IGNORE))) broken = yokei_now_ns();
        if (complete && !code) break;
        const uint64_t now = yokei_now_ns();
        if (now - looked > LOOK_EVERY * MS && roll.of && roll.n > 1) {
            if (!looked) awaited = members_of(how->comm);
            looked = now;
            status = judge_awaited(awaited, false, how->what);
        }
        /* An error of MPI is most often the first sign that a rank died, but the error does not say so. */
        if (!status && broken && now - broken > (roll.n > 1 ? BROKEN_GRACE * MS : 0))
            status = mpi_failed(how, code);
        if (!status && now - begun > (uint64_t)how->timeout_ms * MS) status = roll_too_late(awaited, how);
        if (!status) yokei_wait_idle(&wait);
    }
    free(awaited);
    return status;
}

/* ---- MPI's own collectives ---- */

void yokei_handlers_set(struct yokei_handlers *saved, const MPI_Comm *parent)
{
    const MPI_Comm of[] = { MPI_COMM_WORLD, MPI_COMM_SELF, parent ? *parent : MPI_COMM_NULL };
    saved->n = parent ? 3 : 2;
    for (int i = 0; i < saved->n; i++) {
        saved->of[i] = of[i];
        PMPI_Comm_get_errhandler(of[i], &saved->was[i]);
        PMPI_Comm_set_errhandler(of[i], MPI_ERRORS_RETURN);
    }
}

void yokei_handlers_restore(struct yokei_handlers *saved)
{
    for (int i = saved->n - 1; i >= 0; i--) {
        PMPI_Comm_set_errhandler(saved->of[i], saved->was[i]);
        if (saved->was[i] != MPI_ERRORS_ARE_FATAL && saved->was[i] != MPI_ERRORS_RETURN)
            PMPI_Errhandler_free(&saved->was[i]);
    }
}

/* ---- calls that block inside MPI ---- */

static struct {
    pthread_t thread;
    atomic_bool ends;
    bool runs;
    char what[96];
} guard;

static void *keep_guard(void *unused)
{
    (void)unused;
    while (!atomic_load(&guard.ends)) {
        nanosleep(&(struct timespec){ .tv_nsec = (long)(GUARD_EVERY * MS) }, NULL);
        pthread_mutex_lock(&yokei_process.lock);
        const yoke_status status = yokei_roll_look(guard.what);
        pthread_mutex_unlock(&yokei_process.lock);
        if (status) fflush(NULL), _exit(yoke_status_exit_code(status));
    }
    return NULL;
}

void yokei_guard_begin(const char *what)
{
    if (!yokei_roll_begin() || roll.n == 1 || guard.runs) return;
    yokei_text(guard.what, sizeof guard.what, "%s", what);
    atomic_store(&guard.ends, false);
    guard.runs = !pthread_create(&guard.thread, NULL, keep_guard, NULL);
}

void yokei_guard_end(void)
{
    if (!guard.runs) return;
    atomic_store(&guard.ends, true);
    pthread_join(guard.thread, NULL);
    guard.runs = false;
}

/* ---- what MPI may still write to ---- */

static struct yokei_kept {
    struct yokei_kept *next;
    void *memory;
} * kept;

void yokei_keep(void *memory)
{
    struct yokei_kept *k = memory ? malloc(sizeof *k) : NULL;
    if (!k) return; /* without memory for the list it is not reachable, but it is still kept */
    *k = (struct yokei_kept){ kept, memory };
    kept = k;
}
