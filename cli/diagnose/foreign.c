/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines of other programs: Chrome traces of PyTorch's profiler and the like. Each event gets a class. The
 * classes divide each step of each rank. The division has the form of rows of metrics.
 */
#include "cli/diagnose/foreign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/events.h"
#include "core/base/base.h"

enum { LOOKED_AT = 64 };

/* ---- ranks ---- */

static const struct foreign_process *process_of(const struct foreign_job *j, int64_t pid)
{
    for (size_t i = j->n_processes; i-- > 0 && j->processes[i].file == j->file;)
        if (j->processes[i].pid == pid) return &j->processes[i];
    return NULL;
}

/* The rank of an event of this file: by distributedInfo, by its arguments, by the process, by the file. */
static int resolve(const struct foreign_job *j, int own, int64_t pid, int n_files)
{
    if (j->file_rank >= 0) return j->file_rank;
    if (own >= 0) return own;
    const struct foreign_process *process = process_of(j, pid);
    if (process) return process->rank;
    return n_files > 1 ? j->file : 0;
}

/* ---- steps ---- */

/*
 * Without events for steps, the events that name a step make its window. Events come about in their order, so
 * only the last windows are looked at.
 */
static yoke_status windows_of_arguments(struct foreign_job *j)
{
    for (size_t i = j->first_interval; i < j->n; i++) {
        const struct foreign_interval *v = &j->intervals[i];
        size_t w = j->n_windows;
        const size_t least = YOKE_MAX(j->first_window, w > LOOKED_AT ? w - LOOKED_AT : 0);
        if (v->step < 0) continue;
        while (w > least
               && !(j->windows[w - 1].step == v->step && j->windows[w - 1].rank == v->rank
                    && j->windows[w - 1].pid == v->pid))
            w--;
        if (w == least) {
            YOKE_TRY(foreign_window_add(j, &(struct foreign_window){ v->step, v->begin, v->end, v->rank,
                                                                     v->pid, v->tid }));
            continue;
        }
        j->windows[w - 1].begin = fmin(j->windows[w - 1].begin, v->begin);
        j->windows[w - 1].end = fmax(j->windows[w - 1].end, v->end);
    }
    return YOKE_OK;
}

/* Steps that the host of XLA's devices names are steps of all its devices. Its other events are no rank's. */
static yoke_status give_to_devices(struct foreign_job *j)
{
    const size_t last = j->n_windows;
    size_t kept = j->first_interval;
    bool any = false, own = false;
    for (size_t i = j->n_processes; i-- > 0 && j->processes[i].file == j->file;)
        any = any || j->processes[i].is_device;
    if (!any) return YOKE_OK;
    for (size_t i = j->first_interval; i < j->n; i++)
        if (process_of(j, j->intervals[i].pid)) j->intervals[kept++] = j->intervals[i];
    j->n = kept;
    for (size_t w = j->first_window; w < last; w++) own = own || process_of(j, j->windows[w].pid);
    for (size_t w = j->first_window; w < last; w++) {
        struct foreign_window of_host = j->windows[w];
        if (process_of(j, of_host.pid)) continue;
        j->windows[w].begin = j->windows[w].end = NAN; /* it is no device's */
        for (size_t i = j->n_processes; !own && i-- > 0 && j->processes[i].file == j->file;) {
            if (!j->processes[i].is_device) continue;
            of_host.pid = j->processes[i].pid;
            YOKE_TRY(foreign_window_add(j, &of_host));
        }
    }
    kept = j->first_window;
    for (size_t w = j->first_window; w < j->n_windows; w++)
        if (isfinite(j->windows[w].begin)) j->windows[kept++] = j->windows[w];
    j->n_windows = kept;
    return YOKE_OK;
}

/* Whether the steps of this file are already there, because the file was given twice. */
static bool is_double(const struct foreign_job *j)
{
    if (j->first_window == j->n_windows) return false;
    const struct foreign_window *first = &j->windows[j->first_window];
    for (size_t o = 0; o < j->first_window; o++) {
        const struct foreign_window *old = &j->windows[o];
        if (old->rank == first->rank && old->step == first->step && old->begin < first->end
            && first->begin < old->end)
            return true;
    }
    return false;
}

/* ---- files ---- */

static void say_ending(struct foreign_job *j, const struct diagnose_ending *ending)
{
    if (ending->torn)
        diagnose_problem(j->run, "%s: %s, so only the events before the end are used", j->path, ending->torn);
    if (ending->n_bad)
        diagnose_problem(j->run, "%s: %lld events are no JSON, and are left out", j->path,
                         (long long)ending->n_bad);
    if (ending->n_long)
        diagnose_problem(j->run, "%s: %lld values above 1 MiB are left out", j->path,
                         (long long)ending->n_long);
    if (j->n_impossible > 1 + (j->n - j->first_interval) / 100)
        diagnose_problem(j->run, "%s: %zu events have impossible times, and are left out", j->path,
                         j->n_impossible);
}

/* The times of each file count from a base of its own. All are made to count from that of the first file. */
static void shift(struct foreign_job *j)
{
    if (!j->first_base) j->first_base = j->base;
    const double seconds = j->base - j->first_base;
    for (size_t i = j->first_interval; i < j->n; i++)
        j->intervals[i].begin += seconds, j->intervals[i].end += seconds;
    for (size_t w = j->first_window; w < j->n_windows; w++)
        j->windows[w].begin += seconds, j->windows[w].end += seconds;
}

static yoke_status read_file(struct foreign_job *j, int file, int n_files)
{
    struct diagnose_ending ending;
    j->file = file, j->file_rank = -1, j->n_impossible = 0, j->first_device = j->n_ranks, j->base = 0;
    j->first_interval = j->n, j->first_window = j->n_windows;
    const yoke_status status = diagnose_events(j->path, foreign_event, j, &ending);
    foreign_file_end(j);
    YOKE_TRY(status);
    say_ending(j, &ending);
    YOKE_TRY(give_to_devices(j));
    shift(j);
    if (j->n_windows == j->first_window) YOKE_TRY(windows_of_arguments(j));
    for (size_t i = j->first_window; i < j->n_windows; i++)
        j->windows[i].rank = resolve(j, j->windows[i].rank, j->windows[i].pid, n_files);
    if (n_files > 1 && is_double(j)) {
        diagnose_problem(
            j->run, "%s: another file has the same steps of the same rank, so this one is left out", j->path);
        j->n = j->first_interval, j->n_windows = j->first_window;
        return YOKE_OK;
    }
    for (size_t i = j->first_interval; i < j->n; i++) {
        struct foreign_interval *v = &j->intervals[i];
        v->rank = resolve(j, v->rank, v->pid, n_files);
        j->longest = fmax(j->longest, v->end - v->begin);
        j->n_ranks = YOKE_MAX(j->n_ranks, v->rank + 1);
    }
    for (size_t i = j->first_window; i < j->n_windows; i++)
        j->n_ranks = YOKE_MAX(j->n_ranks, j->windows[i].rank + 1);
    return YOKE_OK;
}

/* Ranks without a step have no file. Those that are there get numbers without gaps. */
static yoke_status close_gaps(struct foreign_job *j)
{
    int *number = calloc((size_t)j->n_ranks + 1, sizeof *number), n = 0, first_missing = -1;
    if (!number) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", j->n_ranks);
    for (size_t w = 0; w < j->n_windows; w++) number[j->windows[w].rank] = 1;
    for (int r = 0; r < j->n_ranks; r++) {
        if (!number[r] && first_missing < 0) first_missing = r;
        number[r] = number[r] ? n++ : -1;
    }
    if (n && n < YOKE_MAX(j->n_ranks, j->world))
        diagnose_problem(
            j->run,
            "%d of %d ranks are there%s; rank %d is the first that is missing; give the files of all "
            "ranks",
            n, YOKE_MAX(j->n_ranks, j->world), n < j->n_ranks ? ", and are numbered anew" : "",
            first_missing >= 0 ? first_missing : n);
    size_t kept = 0;
    for (size_t i = 0; i < j->n && n; i++) {
        struct foreign_interval v = j->intervals[i];
        v.rank = number[v.rank];
        if (v.peer >= 0) v.peer = v.peer < j->n_ranks ? number[v.peer] : -1;
        if (v.rank >= 0) j->intervals[kept++] = v;
    }
    if (n) j->n = kept, j->n_ranks = n;
    for (size_t w = 0; w < j->n_windows; w++) j->windows[w].rank = number[j->windows[w].rank];
    free(number);
    return YOKE_OK;
}

/* ---- rows ---- */

static int by_rank_and_time(const void *a, const void *b)
{
    const struct foreign_interval *x = a, *y = b;
    if (x->rank != y->rank) return x->rank - y->rank;
    if (x->begin != y->begin) return x->begin > y->begin ? 1 : -1;
    return (x->end < y->end) - (x->end > y->end); /* the outer event first */
}
static int by_step_and_rank(const void *a, const void *b)
{
    const struct foreign_window *x = a, *y = b;
    if (x->step != y->step) return (x->step > y->step) - (x->step < y->step);
    if (x->rank != y->rank) return x->rank - y->rank;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* One window for each rank and step. */
static void sort(struct foreign_job *j)
{
    size_t kept = 0;
    if (j->n) qsort(j->intervals, j->n, sizeof *j->intervals, by_rank_and_time);
    if (j->n_windows) qsort(j->windows, j->n_windows, sizeof *j->windows, by_step_and_rank);
    for (size_t w = 0; w < j->n_windows; w++)
        if (!kept || j->windows[kept - 1].step != j->windows[w].step
            || j->windows[kept - 1].rank != j->windows[w].rank)
            j->windows[kept++] = j->windows[w];
    j->n_windows = kept;
}

static yoke_status add_rows(struct foreign_job *j, struct yokei_metrics_rank *ranks,
                            struct yokei_facts_rows *rows, size_t *dropped_out)
{
    struct yokei_metrics_row row = { .ranks = ranks, .n_ranks = j->n_ranks };
    *dropped_out = 0;
    for (size_t i = 0, end; i < j->n_windows; i = end) {
        double seconds = 0;
        for (end = i; end < j->n_windows && j->windows[end].step == j->windows[i].step; end++) {
            seconds = fmax(seconds, j->windows[end].end - j->windows[end].begin);
            YOKE_TRY(foreign_divide(j, &j->windows[end], &ranks[j->windows[end].rank]));
        }
        if (end - i < (size_t)j->n_ranks || !(seconds > 0)) {
            ++*dropped_out;
            continue;
        }
        row.step++; /* from 1, whatever the numbers in the file */
        row.seconds += seconds;
        YOKE_TRY(yokei_facts_row(rows, &row));
    }
    return YOKE_OK;
}

/* Rows of the steps that all ranks have. */
static yoke_status make_rows(struct foreign_job *j, bool *messages_out)
{
    struct yokei_facts_rows *rows;
    struct yokei_metrics_rank *ranks = calloc((size_t)j->n_ranks + 1, sizeof *ranks);
    size_t dropped = 0;
    *messages_out = false;
    j->has_kernels = calloc((size_t)j->n_ranks + 1, sizeof *j->has_kernels);
    if (!ranks || !j->has_kernels) {
        free(ranks);
        return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", j->n_ranks);
    }
    for (size_t i = 0; i < j->n; i++) {
        *messages_out = *messages_out || (j->intervals[i].class & (FOREIGN_MESSAGE | FOREIGN_HOST_MESSAGE));
        if (j->intervals[i].class == FOREIGN_KERNEL) j->has_kernels[j->intervals[i].rank] = true;
    }
    yoke_status status = yokei_facts_begin(*messages_out, &rows);
    if (!status) {
        status = add_rows(j, ranks, rows, &dropped);
        if (!status && yokei_facts_end(rows, &j->run->facts))
            status = yoke_fail(
                YOKE_EDATA,
                "%s: no step is there for all %d ranks; give the files of all ranks, with events "
                "ProfilerStep#N (profiler.step()), or an argument step",
                j->run->name, j->n_ranks);
        yokei_facts_free(rows);
    }
    if (!status && dropped)
        diagnose_problem(j->run, "%zu steps are not there for all ranks, and are left out", dropped);
    free(ranks);
    return status;
}

/*
 * What a rank does between its events keeps the others waiting, too. On the host it is Python, which is part
 * of the passes. On a device only what exceeds the other ranks' share counts.
 */
static void add_gaps(const struct foreign_job *j)
{
    struct yokei_facts *f = &j->run->facts;
    double least = INFINITY;
    for (int r = 0; r < f->n_ranks; r++) least = fmin(least, f->rank[r].parts[YOKEI_STEP_OTHER]);
    for (int r = 0; r < f->n_ranks; r++)
        f->rank[r].busy += f->rank[r].parts[YOKEI_STEP_OTHER] - (j->has_kernels[r] ? least : 0);
}

/* Replicas of different work: their batches are not known, so the work is cut into equal pieces. */
static yoke_status cut_batch(struct diagnose_run *run)
{
    struct yokei_facts *f = &run->facts;
    double least = INFINITY, most = 0;
    for (int r = 0; r < f->n_ranks; r++) {
        if (!isfinite(f->rank[r].work)) return YOKE_OK;
        least = fmin(least, f->rank[r].work), most = fmax(most, f->rank[r].work);
    }
    if (!(most > 1.05 * least) || most > 100 * least || f->n_ranks > 256) return YOKE_OK;
    run->shares = calloc((size_t)f->n_ranks, sizeof *run->shares);
    if (!run->shares) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", f->n_ranks);
    for (int r = 0; r < f->n_ranks; r++) run->shares[r] = lround(32 * f->rank[r].work / least);
    f->shares = run->shares;
    return YOKE_OK;
}

static yoke_status judge(struct foreign_job *j, bool messages)
{
    struct yokei_facts *f = &j->run->facts;
    bool host = true, known = true, pipeline = false;
    f->data = f->n_ranks, f->pipeline = f->tensor = f->chunks = 1, f->kind = YOKEI_PIPELINE_1F1B;
    for (int r = 0; r < f->n_ranks; r++) f->rank[r].d = r, host = host && !j->has_kernels[r];
    f->cannot_overlap = host; /* the sums need the cores that compute */
    f->least_rate = host ? 125e6 : 1.25e9;
    YOKE_TRY(foreign_work(j, f));
    add_gaps(j);
    if (messages) YOKE_TRY(foreign_stages(j, &pipeline));
    if (!messages) YOKE_TRY(foreign_sums(j));
    if (!messages) YOKE_TRY(cut_batch(j->run));
    for (int r = 0; r < f->n_ranks; r++) known = known && isfinite(f->rank[r].work);
    f->no_stage_peers = !known;
    for (int r = 0; r < f->n_ranks && messages && !pipeline; r++) f->rank[r].t = r;
    YOKE_TRY(yokei_diagnose(f, &j->run->found));
    foreign_words(j);
    return YOKE_OK;
}

yoke_status diagnose_foreign(char *const *paths, int n_paths, struct diagnose_run *run)
{
    struct foreign_job j = { .run = run };
    *run = (struct diagnose_run){ .name = paths[0], .is_foreign = true };
    run->plan = (struct yokei_plan)YOKEI_PLAN_INIT;
    yoke_status status = YOKE_OK;
    bool messages = false;
    for (int i = 0; i < n_paths && !status; i++) {
        j.path = paths[i];
        status = read_file(&j, i, n_paths);
    }
    if (!status) status = close_gaps(&j);
    if (!status) {
        sort(&j);
        status = make_rows(&j, &messages);
    }
    if (!status) status = judge(&j, messages);
    free(j.intervals);
    free(j.windows);
    free(j.processes);
    free(j.threads);
    free(j.open);
    free(j.has_kernels);
    return status == YOKE_ECONFIG ? yoke_fail(YOKE_EDATA, "%s: %s", paths[0], yoke_last_error()) : status;
}
