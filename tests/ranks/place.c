/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of ranks on the mesh, by host and kind of device, and how ranks are left out and wait.
 *   tests/ranks/place [DEVICE...]     the ranks use these devices in turn; default: host
 */
#include "tests/ranks/ranks.h"

#include <yoke/device.h>

#include "core/base/base.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

enum { MOST = 8 };

static const char *devices[MOST];
static char noted[4096];

static void note(void *context, const char *text)
{
    (void)context;
    snprintf(noted + strlen(noted), sizeof noted - strlen(noted), "%s\n", text);
}

static char host_letter(int rank) { return ranks_hosts() ? ranks_hosts()[rank] : 'a'; }

/*
 * Compute the expected order in another way: hosts in order of appearance, within a host the kinds of device
 * in order of appearance, and within a kind the ranks.
 */
static void expect_order(int *order)
{
    int n = 0;
    char hosts[MOST + 1] = { 0 };
    const char *kinds[MOST];
    int n_kinds = 0;
    for (int r = 0; r < ranks_size; r++) {
        if (!strchr(hosts, host_letter(r))) hosts[strlen(hosts)] = host_letter(r);
        int k = 0;
        while (k < n_kinds && strcmp(kinds[k], devices[r]) != 0) k++;
        if (k == n_kinds) kinds[n_kinds++] = devices[r];
    }
    for (const char *h = hosts; *h; h++)
        for (int k = 0; k < n_kinds; k++)
            for (int r = 0; r < ranks_size; r++)
                if (host_letter(r) == *h && strcmp(devices[r], kinds[k]) == 0) order[n++] = r;
}

struct job {
    struct yokei_training t;
    struct yokei_run_state s;
};

static yoke_status open_job(struct job *j, const char *placement, int pipeline, int tensor)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    memset(j, 0, sizeof *j);
    noted[0] = 0;
    j->t.plan.pipeline = pipeline;
    j->t.plan.tensor = tensor;
    j->t.plan.batch = 8;
    snprintf(j->t.plan.placement, sizeof j->t.plan.placement, "%s", placement);
    j->t.note = note;
    j->s.t = &j->t;
    config.timeout_ms = 4000;
    config.stall_ms = 3000;
    YOKE_TRY(yoke_device_open(devices[ranks_rank], NULL, &j->t.device));
    YOKE_TRY(yoke_comm_create(ranks_world, j->t.device, &config, &j->t.comm));
    YOKE_TRY(yoke_comm_create(ranks_world, NULL, &config, &j->t.control));
    yokei_run_begin_ranks(&j->s);
    j->s.ranks = calloc(MOST, sizeof *j->s.ranks);
    j->s.shares = calloc(MOST, sizeof *j->s.shares);
    j->s.threads = calloc(MOST, sizeof *j->s.threads);
    return yokei_run_place(&j->s);
}

static yoke_status close_job(struct job *j)
{
    yokei_run_end_ranks(&j->s);
    YOKE_TRY(yoke_comm_destroy(j->t.control));
    YOKE_TRY(yoke_comm_destroy(j->t.comm));
    YOKE_TRY(yoke_device_close(j->t.device));
    void *const lists[] = { j->s.ranks,  j->s.shares,      j->s.threads,
                            j->s.placed, j->s.job.rank_of, j->s.job.host_of };
    for (size_t i = 0; i < YOKE_COUNT(lists); i++) free(lists[i]);
    return YOKE_OK;
}

static int order_is(const struct job *j, const int *order)
{
    const struct yokei_run_state *s = &j->s;
    const struct yoke_trainer_config c = { .comm = s->comm, .control = s->control };
    double mine = ranks_rank, all[MOST];
    int ok = s->n_ranks == ranks_size && order[s->rank] == ranks_rank && yoke_comm_rank(s->comm) == s->rank;
    for (int i = 0; i < ranks_size; i++) {
        ok = ok && s->job.rank_of[i] == order[i] && strcmp(s->ranks[i].device, devices[order[i]]) == 0;
        ok = ok
             && (s->job.host_of[i] == s->job.host_of[0]) == (host_letter(order[i]) == host_letter(order[0]));
    }
    RANKS_TRY(yokei_ranks_gather(&c, &mine, 1, all));
    for (int i = 0; i < ranks_size; i++)
        ok = ok && all[i] == order[i]; /* the communicator must have this order, too */
    return ok;
}

static int hosts_are_known(const yoke_comm *comm)
{
    int ok = yoke_comm_host(comm, -1) == -1 && yoke_comm_host(comm, ranks_size) == -1
             && yoke_comm_host(NULL, 0) == -1;
    int next = 0;
    for (int r = 0; r < ranks_size; r++) {
        int first = 0;
        while (host_letter(first) != host_letter(r)) first++;
        ok = ok && yoke_comm_host(comm, r) == (first == r ? next++ : yoke_comm_host(comm, first));
    }
    return ok;
}

/* Whether any group of `tensor` adjacent ranks spans more than one host (what 0) or kind of device (what 1).
 */
static int spans(const int *order, int tensor, int what)
{
    for (int i = 0; i < ranks_size; i++) {
        const int a = order[i / tensor * tensor], b = order[i];
        if (what == 0 ? host_letter(a) != host_letter(b) : strcmp(devices[a], devices[b]) != 0) return 1;
    }
    return 0;
}

/* Only rank 0 prints notes. */
static int notes_fit(const int *order, int tensor)
{
    const int hosts = spans(order, tensor, 0), kinds = spans(order, tensor, 1);
    if (ranks_rank != 0) return !*noted;
    return (strstr(noted, "share tensors across") != NULL) == (hosts || kinds)
           && (!hosts || strstr(noted, "hosts")) && (!kinds || strstr(noted, "kinds of devices"));
}

static int placed(const char *placement, int pipeline, int tensor, bool moves)
{
    struct job j;
    int order[MOST];
    for (int r = 0; r < ranks_size; r++) order[r] = r;
    if (moves) expect_order(order);
    RANKS_TRY(open_job(&j, placement, pipeline, tensor));
    int ok = hosts_are_known(j.t.comm) && order_is(&j, order) && notes_fit(order, tensor);
    ok = ok && j.s.mesh.t == j.s.rank % tensor && j.s.mesh.s == j.s.rank / (ranks_size / pipeline);
    RANKS_TRY(close_job(&j));
    return ok;
}

/* A sum over the ranks that work, which now have new numbers. */
static int works(const struct yokei_run_state *s, const int *workers, int n)
{
    const struct yoke_trainer_config c = { .comm = s->comm, .control = s->control };
    double mine = ranks_rank, all[MOST];
    int ok = s->n_ranks == n && workers[s->rank] == ranks_rank && s->placed[s->rank] == s->job.rank
             && s->mesh.data == n;
    RANKS_TRY(yokei_ranks_gather(&c, &mine, 1, all));
    for (int i = 0; i < n; i++) ok = ok && all[i] == workers[i];
    return ok;
}

/*
 * Ranks without a share are left out, first one rank, then another. They must end with the same status as the
 * other ranks.
 */
static int left_out(yoke_status end, double seconds)
{
    struct job j;
    struct yokei_run_state *s = &j.s;
    int workers[MOST], n = 0, ok = 1;
    bool any = true;
    RANKS_TRY(open_job(&j, "host", 1, 1)); /* with replicas of one rank each, the order is that of the job */
    for (int r = 0; r < ranks_size; r++) s->shares[r] = 1;
    RANKS_TRY(yokei_run_leave_out(s, &any));
    ok = !any && !s->job.end && s->comm == j.t.comm;
    s->shares[0] = 0;
    RANKS_TRY(yokei_run_leave_out(s, &any));
    for (int r = 1; r < ranks_size; r++) workers[n++] = r;
    ok = ok && any && (ranks_rank == 0 ? s->rank == -1 && !s->comm : works(s, workers, n));
    if (s->rank >= 0 && n > 1) {
        s->shares[n - 1] = 0;
        RANKS_TRY(yokei_run_leave_out(s, &any));
        n--;
        ok = ok && any && (ranks_rank == ranks_size - 1 ? s->rank == -1 : works(s, workers, n));
    }
    uint64_t called = 0, all[MOST]; /* by the clock that the processes of this machine share */
    if (s->rank >= 0) {
        usleep((useconds_t)(seconds * 1e6)); /* busy with something else */
        called = yokei_now_ns();
    }
    const yoke_status status = yokei_run_meet(s, s->rank >= 0 ? end : YOKE_OK);
    ok = ok && status == end && (!end || s->rank >= 0 || strstr(yoke_last_error(), "asked to stop"));
    const uint64_t returned = yokei_now_ns();
    PMPI_Allgather(&called, sizeof called, MPI_BYTE, all, sizeof called, MPI_BYTE, ranks_world);
    for (int r = 0; r < ranks_size; r++) ok = ok && returned >= all[r];
    RANKS_TRY(close_job(&j));
    return ok;
}

static int warnings;
static void count_warnings(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    if (strstr(text, "end of the run")) warnings++;
    if (level <= YOKE_LOG_WARN) fprintf(stderr, "# rank %d: %s\n", ranks_rank, text);
}

int main(int argc, char **argv)
{
    ranks_start();
    for (int r = 0; r < MOST; r++) devices[r] = argc > 1 ? argv[1 + r % (argc - 1)] : "host";
    yoke_log_set(count_warnings, NULL, YOKE_LOG_WARN);
    const char *how = ranks_hosts() ? ranks_hosts() : "one host";
    ranks_check(placed("host", 1, 1, false), "replicas of one rank stay in the job's order, %s", how);
    if (ranks_size % 2 == 0) {
        ranks_check(placed("host", 2, 1, true), "two stages are placed by host and kind of device, %s", how);
        ranks_check(placed("host", 1, 2, true), "groups of two that share tensors are, %s", how);
        ranks_check(placed("rank", 1, 2, false), "they are not where it is not wanted, and that is told, %s",
                    how);
    }
    if (ranks_size == 4) ranks_check(placed("host", 2, 2, true), "both together, %s", how);
    if (ranks_size > 1) {
        ranks_check(left_out(YOKE_OK, 5), "who is left out waits to the end, longer than any deadline, %s",
                    how);
        ranks_check(left_out(YOKE_EPREEMPTED, 0.1), "and ends as the others do, %s", how);
        ranks_check(!warnings, "nobody is called late for it, %s", how);
    }
    return ranks_end();
}
