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

void cli_trace_free(struct cli_trace *t)
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

static yoke_status make_room_for_ranks(struct cli_trace *t, int n)
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
static yoke_status load_records(struct cli_trace *t)
{
    int highest = -1;
    YOKE_TRY(highest_rank(t->folder, &highest));
    if (highest < 0)
        return yoke_fail(
            YOKE_EDATA,
            "%s: no flight records here; a run keeps them in its --run-dir, or in a temporary folder when it fails; "
            "without yoke run, set YOKE_RUN_DIR",
            t->folder);
    YOKE_TRY(make_room_for_ranks(t, highest + 1));
    YOKE_TRY(read_records(t, highest + 1));
    const int n = ranks_of_job(t->files, highest + 1);
    if (n == t->n) return YOKE_OK;
    struct cli_trace more = *t;
    const yoke_status status = make_room_for_ranks(&more, n);
    if (!status) {
        memcpy(more.files, t->files, (size_t)t->n * sizeof t->files[0]);
        memcpy(more.problems, t->problems, (size_t)t->n * sizeof t->problems[0]);
        memset(t->files, 0, (size_t)t->n * sizeof t->files[0]);
        cli_trace_free(t);
        *t = more;
        return YOKE_OK;
    }
    cli_trace_free(&more);
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

yoke_status cli_trace_read(const char *folder, struct cli_trace *t)
{
    *t = (struct cli_trace){ .folder = folder };
    YOKE_TRY(load_records(t));
    for (int r = 0; r < t->n; r++) t->fates[r] = yokei_fate(t->files[r]);
    yokei_find_lost((const struct yokei_flight_file *const *)t->files, t->n, &t->lost);
    t->blame = yokei_blame((const struct yokei_flight_file *const *)t->files, t->fates, t->n, t->candidates);
    align_clocks(t);
    return compare_ranks(t);
}

/* ---- the verb ---- */

/* A trace, and the format in which it is printed. */
struct printed_trace {
    const struct cli_trace *trace;
    const char *format;
};

static yoke_status print_trace(void *context, FILE *to)
{
    const struct printed_trace *printed = context;
    const struct cli_trace *t = printed->trace;
    const char *format = printed->format;
    if (!strcmp(format, "json")) return cli_trace_json(t, to);
    if (!strcmp(format, "chrome"))
        cli_trace_chrome(t, to);
    else
        cli_trace_text(t, to);
    return YOKE_OK;
}

yoke_status cli_trace(const struct cli_context *context)
{
    const char *to = cli_text(context->options, "output"), *format = cli_text(context->options, "format");
    if (cli_flag(context->options, "json")) format = "json";
    if (context->n_words != 1)
        return yoke_fail(YOKE_EINVAL,
                         "yoke trace: which run? Give its folder: yoke trace runs/20240131-120000");
    YOKE_TRY(cli_check_output(to, (const char *const *)context->words, 1));
    struct cli_trace t;
    yoke_status status = cli_trace_read(context->words[0], &t);
    t.last = (int)cli_int(context->options, "last");
    for (int r = 0; r < t.n && !status; r++)
        if (t.problems[r][0]) cli_warn("%s", t.problems[r]);
    if (!status) status = cli_write_results(to, print_trace, &(struct printed_trace){ &t, format });
    cli_trace_free(&t);
    return status;
}
