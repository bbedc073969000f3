/* SPDX-License-Identifier: Apache-2.0 */
/* yoke trace: read the flight records of a run. A record may be damaged, so its content is not trusted. */
#include "cli/show/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/base/base.h"

#define MOST_RANKS 65536 /* a larger number in a record is damage */

static void trace_free(struct cli_trace *t)
{
    for (int r = 0; r < t->n && t->files; r++) free(t->files[r]);
    free(t->files);
    free(t->problems);
    free(t->fates);
    free(t->to_wall);
    free(t->shares);
    free(t->candidates);
}

/* ---- reading ---- */

/* The highest rank whose record is in the folder; -1: there is none. */
static yoke_status highest_rank(const char *folder, int *highest_out)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return yoke_fail(yokei_input_status(errno, YOKE_EDATA),
                         "%s: %s; give the folder of a run, such as the one that its error named", folder,
                         yokei_why(errno));
    *highest_out = -1;
    for (struct dirent *e; (e = readdir(dir));) {
        char name[32];
        int rank = -1;
        if (sscanf(e->d_name, "flight-%5d.bin", &rank) != 1 || rank < 0 || rank >= MOST_RANKS) continue;
        yokei_flight_name(rank, name, sizeof name);
        if (!strcmp(name, e->d_name)) *highest_out = YOKE_MAX(*highest_out, rank);
    }
    closedir(dir);
    return YOKE_OK;
}

static yoke_status read_records(struct cli_trace *t, int n_files)
{
    int n_read = 0;
    char first[512] = "";
    for (int r = 0; r < n_files; r++) {
        char name[32], path[4200];
        yokei_flight_name(r, name, sizeof name);
        yokei_text(path, sizeof path, "%s/%s", t->folder, name);
        if (access(path, F_OK) && errno == ENOENT) continue;
        if (!yokei_flight_read(path, &t->files[r])) {
            n_read++;
            continue;
        }
        yokei_text(t->problems[r], sizeof t->problems[r], "%s", yoke_last_error());
        if (!first[0]) memcpy(first, t->problems[r], sizeof first);
    }
    return n_read ? YOKE_OK : yoke_fail(YOKE_EDATA, "%s", first);
}

/*
 * The number of ranks in the job. It is the least number that a record states, but large enough for the
 * highest rank that has a record.
 */
static int ranks_of_job(struct yokei_flight_file *const files[], int n_files)
{
    int n = 0;
    for (int r = 0; r < n_files; r++) {
        if (!files[r] || files[r]->n_ranks <= 0 || files[r]->n_ranks > MOST_RANKS) continue;
        n = n ? YOKE_MIN(n, files[r]->n_ranks) : files[r]->n_ranks;
    }
    return YOKE_MAX(n, n_files);
}

static yoke_status make_room(struct cli_trace *t, int n)
{
    const size_t size = (size_t)n;
    t->files = calloc(size, sizeof t->files[0]);
    t->problems = calloc(size, sizeof t->problems[0]);
    t->fates = calloc(size, sizeof t->fates[0]);
    t->to_wall = calloc(size, sizeof t->to_wall[0]);
    t->shares = calloc(size, sizeof t->shares[0]);
    t->candidates = calloc(size, sizeof t->candidates[0]);
    t->n = n;
    if (t->files && t->problems && t->fates && t->to_wall && t->shares && t->candidates) return YOKE_OK;
    return yoke_fail(YOKE_ENOMEM, "yoke trace: no memory for %d ranks", n);
}

/* Memory is allocated twice: first for the files, then for the ranks that the files know of. */
static yoke_status load(struct cli_trace *t)
{
    int highest = -1;
    YOKE_TRY(highest_rank(t->folder, &highest));
    if (highest < 0)
        return yoke_fail(
            YOKE_EDATA,
            "%s: no flight records here; a run keeps them in its --run-dir, or in a temporary folder when it fails; "
            "without yoke run, set YOKE_RUN_DIR",
            t->folder);
    YOKE_TRY(make_room(t, highest + 1));
    YOKE_TRY(read_records(t, highest + 1));
    const int n = ranks_of_job(t->files, highest + 1);
    if (n == t->n) return YOKE_OK;
    struct cli_trace more = *t;
    const yoke_status status = make_room(&more, n);
    if (!status) {
        memcpy(more.files, t->files, (size_t)t->n * sizeof t->files[0]);
        memcpy(more.problems, t->problems, (size_t)t->n * sizeof t->problems[0]);
        memset(t->files, 0, (size_t)t->n * sizeof t->files[0]);
        trace_free(t);
        *t = more;
        return YOKE_OK;
    }
    trace_free(&more);
    t->n = 0;
    return status;
}

/* ---- the times of all ranks by one clock ---- */

/*
 * Ranks of one host share a clock. They share the offset too, so that their times can be compared to the
 * nanosecond.
 */
static void align_clocks(struct cli_trace *t)
{
    uint64_t now = UINT64_MAX;
    t->origin = UINT64_MAX;
    t->end = 0;
    for (int r = 0; r < t->n; r++) {
        if (!t->files[r]) continue;
        int first = r;
        for (int s = 0; s < r && first == r; s++)
            if (t->files[s] && t->files[s]->host_id == t->files[r]->host_id) first = s;
        t->to_wall[r] = (uint64_t)t->files[first]->clock_offset_ns;
        if (t->fates[r] == YOKEI_FATE_RUNNING) now = yokei_now_ns() + t->to_wall[r];
        const uint64_t last = yokei_last_activity(t->files[r]);
        if (last) t->end = YOKE_MAX(t->end, last + t->to_wall[r]);
        for (uint64_t i = 0; i < YOKEI_FLIGHT_ENTRIES; i++) {
            const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], i);
            if (e) t->origin = YOKE_MIN(t->origin, e->start_ns + t->to_wall[r]);
        }
    }
    if (now != UINT64_MAX) t->end = YOKE_MAX(t->end, now);
    if (t->origin == UINT64_MAX) t->origin = t->end;
}

struct part {
    uint32_t comm, sequence;
    int rank;
    uint64_t start; /* in nanoseconds since 1970 */
};

static int by_operation(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->comm != y->comm) return x->comm < y->comm ? -1 : 1;
    if (x->sequence != y->sequence) return x->sequence < y->sequence ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

/*
 * Add up the waiting times of one operation. `parts` are in the order in which the ranks came, and all ranks
 * waited for the last one.
 */
static void share_out(struct cli_trace *t, const struct part *parts, size_t n)
{
    const struct part *last = &parts[n - 1];
    const struct yokei_flight_comm *comm = yokei_flight_comm_of(t->files[last->rank], last->comm);
    /* some ranks have overwritten their entry, or have not begun */
    if (!comm || comm->size < 2 || (size_t)comm->size != n) return;
    for (size_t i = 0; i < n; i++) {
        const double waited = (double)(last->start - parts[i].start) * 1e-9;
        t->shares[parts[i].rank].n_operations++;
        t->shares[parts[i].rank].waited += waited;
        t->shares[last->rank].caused += waited;
    }
    t->shares[last->rank].n_last++;
}

static yoke_status compare_ranks(struct cli_trace *t)
{
    size_t n = 0;
    struct part *parts = malloc((size_t)t->n * YOKEI_FLIGHT_ENTRIES * sizeof *parts);
    if (!parts) return yoke_fail(YOKE_ENOMEM, "yoke trace: no memory to compare %d ranks", t->n);
    for (int r = 0; r < t->n; r++)
        for (uint64_t i = 0; i < YOKEI_FLIGHT_ENTRIES && t->files[r]; i++) {
            const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], i);
            if (e && e->algorithm != YOKEI_PAIRS)
                parts[n++] = (struct part){ e->comm, e->sequence, r, e->start_ns + t->to_wall[r] };
        }
    qsort(parts, n, sizeof *parts, by_operation);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && parts[j].comm == parts[i].comm && parts[j].sequence == parts[i].sequence;)
            j++;
        share_out(t, parts + i, j - i);
    }
    free(parts);
    return YOKE_OK;
}

/* ---- what all formats say ---- */

const char *cli_trace_comm_name(const struct yokei_flight_file *file, uint32_t comm)
{
    const struct yokei_flight_comm *c = yokei_flight_comm_of(file, comm);
    return c ? c->name : "?";
}

int cli_trace_member(const struct cli_trace *t, uint32_t comm, int member)
{
    for (int r = 0; r < t->n; r++) {
        const struct yokei_flight_comm *c = t->files[r] ? yokei_flight_comm_of(t->files[r], comm) : NULL;
        if (c && c->rank == member) return r;
    }
    return -1;
}

double cli_trace_bytes(const struct yokei_flight_entry *entry)
{
    return (double)entry->count * (double)yoke_dtype_bytes((yoke_dtype)entry->dtype);
}

void cli_trace_who(const struct cli_trace *t, int r, char *out, size_t bytes)
{
    const struct yokei_flight_file *f = t->files[r];
    if (f)
        yokei_text(out, bytes, "rank %d (host %s, pid %d%s%s)", r, f->host[0] ? f->host : "unknown", f->pid,
                   f->device[0] ? ", " : "", f->device);
    else
        yokei_text(out, bytes, "rank %d", r);
}

void cli_trace_fate_text(const struct cli_trace *t, int r, char *out, size_t bytes)
{
    const struct yokei_flight_file *f = t->files[r];
    struct yokei_agent_verdict agent;
    switch (t->fates[r]) {
    case YOKEI_FATE_MISSING:
        yokei_text(out, bytes, "%s", t->problems[r][0] ? "unreadable" : "no record");
        return;
    case YOKEI_FATE_FAILED:
        yokei_text(out, bytes, "failed with %s", yoke_status_name((yoke_status)atomic_load(&f->status)));
        return;
    case YOKEI_FATE_DEAD:
        agent = yokei_flight_agent(f);
        yokei_agent_verdict_text(&agent, out, bytes);
        return;
    case YOKEI_FATE_KILLED: yokei_text(out, bytes, "was ended by its agent"); return;
    case YOKEI_FATE_GONE: yokei_text(out, bytes, "its process is gone, without a word"); return;
    case YOKEI_FATE_UNKNOWN: yokei_text(out, bytes, "cannot be seen from this host"); return;
    case YOKEI_FATE_STOPPED: yokei_text(out, bytes, "is stopped"); return;
    case YOKEI_FATE_ENDED: yokei_text(out, bytes, "ended in order"); return;
    default: yokei_text(out, bytes, "runs"); return;
    }
}

/* Write the candidates, such as "ranks 0, 2-5". */
static void list_candidates(const struct cli_trace *t, char *out, size_t bytes)
{
    yokei_text(out, bytes, "ranks ");
    for (int r = 0, any = 0; r < t->n; r++) {
        int end = r;
        if (!t->candidates[r]) continue;
        while (end + 1 < t->n && t->candidates[end + 1]) end++;
        const size_t used = strlen(out);
        yokei_text(out + used, bytes - used, end > r ? "%s%d-%d" : "%s%d", any ? ", " : "", r, end);
        any = 1;
        r = end;
    }
}

/* How many ranks' records say that this rank ended first. */
static int n_witnesses(const struct cli_trace *t, int rank)
{
    int n = 0;
    for (int r = 0; r < t->n; r++) n += t->files[r] && atomic_load(&t->files[r]->first_gone) == rank;
    return n;
}

static void why_text(const struct cli_trace *t, char *out, size_t bytes)
{
    const struct yokei_blame *b = &t->blame;
    char who[256] = "", fate[160] = "", list[512];
    bool runs = false;
    for (int r = 0; r < t->n; r++) runs |= t->fates[r] == YOKEI_FATE_RUNNING;
    if (b->rank >= 0) cli_trace_who(t, b->rank, who, sizeof who);
    if (b->rank >= 0) cli_trace_fate_text(t, b->rank, fate, sizeof fate);
    list_candidates(t, list, sizeof list);
    switch (b->evidence) {
    case YOKEI_EVIDENCE_AGENT: yokei_text(out, bytes, "%s %s", who, fate); return;
    case YOKEI_EVIDENCE_STOPPED: yokei_text(out, bytes, "%s is stopped", who); return;
    case YOKEI_EVIDENCE_GONE:
        yokei_text(out, bytes, "%s died: its process is gone, and no other's is", who);
        return;
    case YOKEI_EVIDENCE_WITNESS:
        yokei_text(out, bytes, "%s died: its process was the first to end, as %d of the others saw", who,
                   n_witnesses(t, b->rank));
        return;
    case YOKEI_EVIDENCE_ERROR:
        yokei_text(out, bytes, "%s%s%s, says rank %d: %s", who, b->by == b->rank ? " " : ": ",
                   b->by == b->rank ? "failed" : fate, b->by, t->files[b->by]->error);
        return;
    case YOKEI_EVIDENCE_WAITED:
        if (t->blame.n_candidates > 1)
            yokei_text(
                out, bytes,
                "one of %s died first, and the records cannot tell which; likeliest %s, for which the others waited",
                list, who);
        else
            yokei_text(out, bytes, "nobody failed; the others wait for %s, which %s", who, fate);
        return;
    default: break;
    }
    if (b->n_candidates > 1)
        yokei_text(out, bytes, "one of %s died first, and the records cannot tell which", list);
    else
        yokei_text(out, bytes, "%s", runs ? "nobody failed, and nobody waits" : "nobody failed");
}

int cli_trace_waits_for(const struct cli_trace *t, int r)
{
    const int now = yokei_rank_waits_for((const struct yokei_flight_file *const *)t->files, t->n, r);
    if (now >= 0 || t->fates[r] != YOKEI_FATE_FAILED) return now;
    const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], 0);
    const int then = e && e->status ? atomic_load(&e->waits_for) : -1;
    return then < t->n && then != r ? then : -1;
}

void cli_trace_doing(const struct cli_trace *t, int r, char *out, size_t bytes)
{
    const struct yokei_flight_file *f = t->files[r];
    const struct yokei_flight_entry *e = f ? yokei_flight_operation(f, 0) : NULL;
    const uint32_t state = f ? atomic_load(&f->state) : YOKEI_RANK_UNBORN;
    char name[128] = "";
    if (e)
        yokei_text(name, sizeof name, "%s #%u of \"%s\"", yokei_kind_name(e->kind), e->sequence,
                   cli_trace_comm_name(f, e->comm));
    const double since = e ? cli_trace_seconds(t, r, t->end - t->to_wall[r])
                                 - cli_trace_seconds(t, r, YOKE_MAX(e->start_ns, e->end_ns))
                           : 0;
    out[0] = '\0';
    if (!f) return;
    if (state == YOKEI_RANK_BUSY)
        yokei_text(out, bytes, "busy: %s", f->busy);
    else if (!e)
        yokei_text(out, bytes, "before its first operation");
    else if (atomic_load(&e->state) == 1)
        yokei_text(out, bytes, "in %s, step %d, for %.6f s", name, e->step, since);
    else if (e->status)
        yokei_text(out, bytes, "in %s, step %d, when it failed", name, e->step);
    else if (state == YOKEI_RANK_LEFT)
        yokei_text(out, bytes, "after %s, its last", name);
    else
        yokei_text(out, bytes, "outside collectives for %.6f s, after %s", since, name);
}

/*
 * Write which ranks were lost before the failure, such as "the job went on without rank 1 (host a, pid 4711,
 * host), which died by signal 9 (Killed); after that ".
 */
static void lost_text(const struct cli_trace *t, char *out, size_t bytes)
{
    int n = 0;
    out[0] = '\0';
    for (int r = 0; r < t->n; r++) {
        char who[256], fate[160];
        const size_t used = strlen(out);
        if (!yokei_was_lost(&t->lost, r)) continue;
        cli_trace_who(t, r, who, sizeof who);
        cli_trace_fate_text(t, r, fate, sizeof fate);
        if (n < 4)
            yokei_text(out + used, bytes - used, "%s%s, which %s",
                       n ? "; without " : "the job went on without ", who, fate);
        else if (n == 4)
            yokei_text(out + used, bytes - used, "; and without others, see below");
        n++;
    }
    const size_t used = strlen(out);
    if (n) yokei_text(out + used, bytes - used, "; after that ");
}

void cli_trace_blame_text(const struct cli_trace *t, char *out, size_t bytes)
{
    char lost[2048], why[2048], doing[256] = "";
    lost_text(t, lost, sizeof lost);
    why_text(t, why, sizeof why);
    if (t->blame.rank >= 0) cli_trace_doing(t, t->blame.rank, doing, sizeof doing);
    yokei_text(out, bytes, "%s%s%s%s", lost, why, doing[0] ? "; it was " : "", doing);
}

/* ---- the verb ---- */

static yoke_status print(const struct cli_trace *t, const char *format, FILE *to)
{
    if (!strcmp(format, "json")) return cli_trace_json(t, to);
    if (!strcmp(format, "chrome"))
        cli_trace_chrome(t, to);
    else
        cli_trace_text(t, to);
    return YOKE_OK;
}

/* Write to a file, as a whole or not at all. */
static yoke_status print_to(const struct cli_trace *t, const char *format, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "yoke trace: no memory for its output");
    yoke_status status = print(t, format, to);
    if (fclose(to) && !status) status = yoke_fail(YOKE_ENOMEM, "yoke trace: no memory for its output");
    if (!status) status = yokei_file_write(path, text, bytes);
    free(text);
    return status;
}

yoke_status cli_trace(const struct cli_context *context)
{
    const char *to = cli_text(context->options, "output"), *format = cli_text(context->options, "format");
    if (cli_flag(context->options, "json")) format = "json";
    if (context->n_words != 1)
        return yoke_fail(YOKE_EINVAL,
                         "yoke trace: which run? Give its folder: yoke trace runs/20240131-120000");
    struct cli_trace t = { .folder = context->words[0], .last = (int)cli_int(context->options, "last") };
    yoke_status status;
    YOKE_TRY_GOTO(load(&t), out);
    for (int r = 0; r < t.n; r++) t.fates[r] = yokei_fate(t.files[r]);
    yokei_find_lost((const struct yokei_flight_file *const *)t.files, t.n, &t.lost);
    t.blame = yokei_blame((const struct yokei_flight_file *const *)t.files, t.fates, t.n, t.candidates);
    align_clocks(&t);
    YOKE_TRY_GOTO(compare_ranks(&t), out);
    for (int r = 0; r < t.n; r++)
        if (t.problems[r][0]) cli_warn("%s", t.problems[r]);
    status = to ? print_to(&t, format, to) : print(&t, format, stdout);
out:
    trace_free(&t);
    return status;
}
