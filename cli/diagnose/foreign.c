/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines of other programs: Chrome traces of PyTorch's profiler and the like. Each event gets a class. The
 * classes divide each step of each rank. The division has the form of rows of metrics.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/diagnose.h"
#include "cli/diagnose/events.h"
#include "core/base/base.h"

enum { MOST_RANKS = 4096, MOST_SUMS = 512 };

/* What an event is. Bits, so that several of them can be asked for. */
enum class {
    KERNEL = 1, /* computing on the device */
    COLLECTIVE = 2,
    MESSAGE = 4,
    OPERATOR = 8, /* computing on the host */
    HOST_COLLECTIVE = 16,
    HOST_MESSAGE = 32,
    DATA = 64,
    SAVE = 128,
    COMPILE = 256,
};

struct interval {
    double begin, end; /* seconds */
    enum class class;
    int rank; /* by the event's arguments; -1: not said */
    int64_t pid;
    int64_t step; /* by the event's arguments; -1: not said */
    double bytes;
};
struct window {
    int64_t step;
    double begin, end;
    int rank;
    int64_t pid;
};

struct job {
    struct diagnose_run *run;
    const char *path;
    int file;
    int file_rank; /* distributedInfo of this file; -1: not said */
    struct interval *intervals;
    size_t n, capacity;
    struct window *windows;
    size_t n_windows, window_capacity;
    struct {
        int64_t pid;
        int rank, file;
    } * processes; /* names such as "rank 3" */
    size_t n_processes, process_capacity;
    size_t first_interval, first_window; /* of this file */
    int n_ranks;
    double longest;
};

static yoke_status grow(void **list, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity) return YOKE_OK;
    const size_t wanted = *capacity ? 2 * *capacity : 1024;
    void *more = realloc(*list, wanted * size);
    if (!more) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for the events");
    *list = more;
    *capacity = wanted;
    return YOKE_OK;
}

/* ---- events ---- */

static bool begins(const char *text, const char *with) { return !strncasecmp(text, with, strlen(with)); }
static bool has(const char *text, const char *word) { return strcasestr(text, word) != NULL; }

static bool is_message(const char *name)
{
    return has(name, "SendRecv") || has(name, ":send") || has(name, ":recv") || has(name, "isend")
           || has(name, "irecv");
}

/* 0: the event is not counted. */
static enum class class_of(const char *category, const char *name) {
    const bool device = !strcmp(category, "kernel") || begins(category, "gpu_mem");
    if (has(category, "gpu_user_annotation")) return 0;
    if (device && has(name, "nccl")) return is_message(name) ? MESSAGE : COLLECTIVE;
    if (device) return KERNEL;
    if (begins(name, "nccl:") || begins(name, "gloo:") || begins(name, "mpi:")) return is_message(name)
        ? HOST_MESSAGE
        : HOST_COLLECTIVE;
    if (has(name, "DataLoader") || has(name, "get_batch")) return DATA;
    if (has(name, "save_checkpoint") || has(name, "torch.save") || has(name, "dcp.save")) return SAVE;
    if (has(name, "torch.compile") || has(name, "inductor") || has(name, "compile_fx")) return COMPILE;
    if (!strcmp(category, "cpu_op") && strcmp(name, "record_param_comms") != 0) return OPERATOR;
    return 0;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value)) return strtod(json_string_value(value), NULL);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The process of an event. It may be a name, such as "Spans", which no rank has. */
static int64_t pid_of(const json_t *e)
{
    const json_t *pid = json_object_get(e, "pid");
    return json_is_integer(pid) ? (int64_t)json_integer_value(pid) : -1;
}

static int rank_of(const json_t *args)
{
    double rank = number_of(args, "rank");
    if (isnan(rank)) rank = number_of(args, "Rank");
    return rank >= 0 && rank < MOST_RANKS ? (int)rank : -1;
}

/* The bytes of a collective, as PyTorch's profiler says them. NaN: unknown. */
static double bytes_of(const json_t *args)
{
    const char *type = json_string_value(json_object_get(args, "dtype"));
    const double n = number_of(args, "In msg nelems");
    if (!type) return NAN;
    return n
           * (has(type, "half") || has(type, "BFloat16") ? 2
              : has(type, "double") || has(type, "long") ? 8
                                                         : 4);
}

static yoke_status add_window(struct job *j, int64_t step, double begin, double end, int rank, int64_t pid)
{
    YOKE_TRY(grow((void **)&j->windows, j->n_windows, &j->window_capacity, sizeof *j->windows));
    j->windows[j->n_windows++] = (struct window){ step, begin, end, rank, pid };
    return YOKE_OK;
}

static yoke_status name_process(struct job *j, const json_t *e)
{
    const char *name = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
    const char *at = name ? strcasestr(name, "rank ") : NULL;
    if (!at || at[5] < '0' || at[5] > '9') return YOKE_OK;
    const long rank = strtol(at + 5, NULL, 10);
    if (rank >= MOST_RANKS) return YOKE_OK;
    YOKE_TRY(grow((void **)&j->processes, j->n_processes, &j->process_capacity, sizeof *j->processes));
    j->processes[j->n_processes].pid = pid_of(e);
    j->processes[j->n_processes].file = j->file;
    j->processes[j->n_processes++].rank = (int)rank;
    return YOKE_OK;
}

static yoke_status take_event(struct job *j, const json_t *e)
{
    const json_t *args = json_object_get(e, "args");
    const char *phase = json_string_value(json_object_get(e, "ph")),
               *category = json_string_value(json_object_get(e, "cat")),
               *name = json_string_value(json_object_get(e, "name"));
    if (!phase || !name) return YOKE_OK;
    if (!strcmp(name, "process_name")) return name_process(j, e);
    const double begin = number_of(e, "ts") * 1e-6, length = number_of(e, "dur") * 1e-6,
                 step = number_of(args, "step");
    if (strcmp(phase, "X") != 0 || !isfinite(begin) || !(length >= 0) || length > 1e9) return YOKE_OK;
    const int64_t pid = pid_of(e);
    if (begins(name, "ProfilerStep#") && !(category && has(category, "gpu")))
        return add_window(j, strtoll(name + 13, NULL, 10), begin, begin + length, rank_of(args), pid);
    const enum class class = class_of(category ? category : "", name);
    if (!class) return YOKE_OK;
    YOKE_TRY(grow((void **)&j->intervals, j->n, &j->capacity, sizeof *j->intervals));
    j->intervals[j->n++] = (struct interval){ begin,         begin + length,
                                              class,         rank_of(args),
                                              pid,           step >= 0 && step < 1e15 ? (int64_t)step : -1,
                                              bytes_of(args) };
    return YOKE_OK;
}

static yoke_status visit(void *context, const char *key, const json_t *value)
{
    struct job *j = context;
    if (!key) return take_event(j, value);
    if (!strcmp(key, "distributedInfo")) j->file_rank = rank_of(value);
    return YOKE_OK;
}

/* ---- ranks and steps ---- */

/* The rank of an event of this file: by distributedInfo, by its arguments, by the process, by the file. */
static int resolve(const struct job *j, int own, int64_t pid, int n_files)
{
    if (j->file_rank >= 0) return j->file_rank;
    if (own >= 0) return own;
    for (size_t i = 0; i < j->n_processes; i++)
        if (j->processes[i].pid == pid && j->processes[i].file == j->file) return j->processes[i].rank;
    return n_files > 1 ? j->file : 0;
}

/* Without events for steps, the events that name a step make its window. */
static yoke_status windows_of_arguments(struct job *j)
{
    for (size_t i = j->first_interval; i < j->n; i++) {
        const struct interval *v = &j->intervals[i];
        size_t w = j->n_windows;
        if (v->step < 0) continue;
        while (w > j->first_window
               && !(j->windows[w - 1].step == v->step && j->windows[w - 1].rank == v->rank
                    && j->windows[w - 1].pid == v->pid))
            w--;
        if (w == j->first_window) {
            YOKE_TRY(add_window(j, v->step, v->begin, v->end, v->rank, v->pid));
            continue;
        }
        j->windows[w - 1].begin = fmin(j->windows[w - 1].begin, v->begin);
        j->windows[w - 1].end = fmax(j->windows[w - 1].end, v->end);
    }
    return YOKE_OK;
}

static yoke_status read_file(struct job *j, int file, int n_files)
{
    struct diagnose_ending ending;
    j->file = file, j->file_rank = -1;
    j->first_interval = j->n, j->first_window = j->n_windows;
    YOKE_TRY(diagnose_events(j->path, visit, j, &ending));
    if (ending.torn)
        diagnose_problem(j->run, "%s: %s, so only the events before the end are used", j->path, ending.torn);
    if (ending.n_bad)
        diagnose_problem(j->run, "%s: %lld events are no JSON, and are left out", j->path,
                         (long long)ending.n_bad);
    if (ending.n_long)
        diagnose_problem(j->run, "%s: %lld values above 1 MiB are left out", j->path,
                         (long long)ending.n_long);
    if (j->n_windows == j->first_window) YOKE_TRY(windows_of_arguments(j));
    for (size_t i = j->first_interval; i < j->n; i++) {
        struct interval *v = &j->intervals[i];
        v->rank = resolve(j, v->rank, v->pid, n_files);
        j->n_ranks = YOKE_MAX(j->n_ranks, v->rank + 1);
        j->longest = fmax(j->longest, v->end - v->begin);
    }
    for (size_t i = j->first_window; i < j->n_windows; i++)
        j->windows[i].rank = resolve(j, j->windows[i].rank, j->windows[i].pid, n_files);
    return YOKE_OK;
}

static int by_rank_and_time(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->rank != y->rank) return x->rank - y->rank;
    return (x->begin > y->begin) - (x->begin < y->begin);
}
static int by_step_and_rank(const void *a, const void *b)
{
    const struct window *x = a, *y = b;
    if (x->step != y->step) return (x->step > y->step) - (x->step < y->step);
    return x->rank - y->rank;
}

/* The first interval of the rank that may reach into the window. */
static size_t first_of(const struct job *j, const struct window *w)
{
    size_t low = 0, high = j->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct interval *v = &j->intervals[middle];
        if (v->rank < w->rank || (v->rank == w->rank && v->begin < w->begin - j->longest))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Seconds of the window in which any event of these classes runs. */
static double covered(const struct job *j, const struct window *w, int classes)
{
    double until = w->begin, seconds = 0;
    for (size_t i = first_of(j, w);
         i < j->n && j->intervals[i].rank == w->rank && j->intervals[i].begin < w->end; i++) {
        const struct interval *v = &j->intervals[i];
        if (!((int)v->class & classes)) continue;
        const double begin = fmax(v->begin, until), end = fmin(v->end, w->end);
        if (end > begin) seconds += end - begin, until = end;
    }
    return seconds;
}

/* Whether the rank has kernels. If not, its computing is that of the host. */
static bool has_kernels(const struct job *j, int rank)
{
    const struct window all = { 0, -INFINITY, INFINITY, rank, 0 };
    for (size_t i = first_of(j, &all); i < j->n && j->intervals[i].rank == rank; i++)
        if (j->intervals[i].class & KERNEL) return true;
    return false;
}

static void fill_rank(const struct job *j, const struct window *w, struct yokei_metrics_rank *out)
{
    const bool device = has_kernels(j, w->rank);
    const int compute = device ? KERNEL : OPERATOR, sums = device ? COLLECTIVE : HOST_COLLECTIVE,
              messages = device ? MESSAGE : HOST_MESSAGE;
    const double network = covered(j, w, sums | messages);
    /* on the host, the operators around a collective wait in it */
    const double busy = device ? covered(j, w, compute)
                               : fmax(covered(j, w, compute | sums | messages) - network, 0);
    const double with_sums = device ? covered(j, w, compute | sums) : busy + covered(j, w, sums),
                 all = device ? covered(j, w, compute | sums | messages) : busy + network,
                 idle = all - with_sums;
    *out = (struct yokei_metrics_rank){ .share = NAN, .mfu = NAN };
    yokei_text(out->device, sizeof out->device, "%s", device ? "gpu" : "host");
    out->busy_seconds = busy;
    out->exposed_communication_seconds = all - busy;
    out->bubble = idle > 0 ? idle / (idle + busy) : 0;
    const int before = compute | sums | messages;
    out->data_seconds = covered(j, w, before | DATA) - covered(j, w, before);
    out->checkpoint_seconds = covered(j, w, before | DATA | SAVE) - covered(j, w, before | DATA);
    out->compile_seconds = fmin(covered(j, w, COMPILE), w->end - w->begin);
    out->processor_seconds = out->queued_seconds = out->preemptions = out->major_faults = NAN;
}

/* Rows of the steps that all ranks have. */
static yoke_status make_rows(struct job *j)
{
    struct yokei_facts_rows *rows;
    struct yokei_metrics_rank *ranks = calloc((size_t)j->n_ranks + 1, sizeof *ranks);
    struct yokei_metrics_row row = { .ranks = ranks, .n_ranks = j->n_ranks };
    bool messages = false;
    if (!ranks) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", j->n_ranks);
    for (size_t i = 0; i < j->n; i++)
        messages = messages || (j->intervals[i].class & (MESSAGE | HOST_MESSAGE));
    yoke_status status = yokei_facts_begin(messages, &rows);
    size_t dropped = 0;
    for (size_t i = 0; i < j->n_windows && !status;) {
        size_t end = i, n = 0;
        double seconds = 0;
        for (; end < j->n_windows && j->windows[end].step == j->windows[i].step; end++) {
            if (end > i && j->windows[end].rank == j->windows[end - 1].rank) continue;
            seconds = fmax(seconds, j->windows[end].end - j->windows[end].begin);
            if (j->windows[end].rank < j->n_ranks)
                fill_rank(j, &j->windows[end], &ranks[j->windows[end].rank]);
            n++;
        }
        if (n == (size_t)j->n_ranks) {
            row.step++; /* from 1, whatever the numbers in the file */
            row.seconds += seconds;
            status = yokei_facts_row(rows, &row);
        } else {
            dropped++;
        }
        i = end;
    }
    if (!status && yokei_facts_end(rows, &j->run->facts))
        status = yoke_fail(YOKE_EDATA,
                           "%s: no step is there for all %d ranks; give the files of all ranks, with "
                           "events ProfilerStep#N or an argument step",
                           j->run->name, j->n_ranks);
    if (!status && dropped)
        diagnose_problem(j->run, "%zu steps are not there for all ranks, and are left out", dropped);
    yokei_facts_free(rows);
    free(ranks);
    j->run->facts.pipeline = messages ? j->n_ranks : 1; /* only to say that there are stages */
    return status;
}

/* ---- the sums ---- */

/* What the collectives of a rank take in a step, on average. */
struct sums {
    double n, seconds, bytes, shortest;
};
static struct sums sums_of(const struct job *j, int rank)
{
    const int kind = has_kernels(j, rank) ? COLLECTIVE : HOST_COLLECTIVE;
    struct sums s = { 0, 0, 0, INFINITY };
    size_t n_steps = 0;
    for (size_t w = 0; w < j->n_windows; w++) {
        if (j->windows[w].rank != rank) continue;
        n_steps++;
        for (size_t i = first_of(j, &j->windows[w]);
             i < j->n && j->intervals[i].rank == rank && j->intervals[i].begin < j->windows[w].end; i++) {
            const struct interval *v = &j->intervals[i];
            if (!((int)v->class & kind) || v->begin < j->windows[w].begin) continue;
            s.n++, s.seconds += v->end - v->begin;
            s.bytes += isfinite(v->bytes) ? v->bytes : 0;
            s.shortest = fmin(s.shortest, v->end - v->begin);
        }
    }
    if (n_steps) s.n /= (double)n_steps, s.seconds /= (double)n_steps, s.bytes /= (double)n_steps;
    return s;
}

/*
 * The costs of replicas whose collectives are sums. The rank whose sums are shortest waits for nobody. What
 * is not exposed of them ran beside the passes.
 */
static yoke_status make_costs(struct job *j)
{
    struct diagnose_run *run = j->run;
    struct yokei_facts *f = &run->facts;
    struct sums least = { 0, INFINITY, 0, INFINITY };
    double exposed = INFINITY;
    for (int r = 0; r < f->n_ranks; r++) {
        const struct sums s = sums_of(j, r);
        if (r && lround(s.n) != lround(least.n)) return YOKE_OK; /* the ranks have different roles */
        const double shortest = fmin(least.shortest, s.shortest);
        if (s.seconds < least.seconds) least = s;
        least.shortest = shortest;
        exposed = fmin(exposed, f->rank[r].parts[YOKEI_STEP_EXPOSED]);
    }
    const int n = (int)lround(least.n);
    if (n < 1 || n > MOST_SUMS || f->n_ranks < 2) return YOKE_OK;
    struct yokei_costs *c = &run->costs;
    *c = (struct yokei_costs){ .n_stages = 1,
                               .n_chunks = 1,
                               .n_replicas = f->n_ranks,
                               .n_sums = n,
                               .receiver_takes = true,
                               .chunk = calloc((size_t)f->n_ranks, sizeof *c->chunk),
                               .hop = calloc((size_t)f->n_ranks, sizeof *c->hop),
                               .sum = calloc((size_t)(f->n_ranks * n), sizeof *c->sum),
                               .once = calloc((size_t)f->n_ranks, sizeof *c->once) };
    run->sum_bytes = calloc((size_t)(f->n_ranks * n), sizeof(double));
    run->hop_bytes = calloc((size_t)f->n_ranks, sizeof(double));
    run->schedule = (struct yokei_schedule){ 0, NULL };
    if (!c->chunk || !c->hop || !c->sum || !c->once || !run->sum_bytes || !run->hop_bytes)
        return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", f->n_ranks);
    const double hidden = fmax(least.seconds - exposed, 0);
    c->sums_block = hidden < 0.1 * least.seconds;
    c->agree = least.shortest;
    for (int r = 0; r < f->n_ranks; r++) {
        YOKE_TRY(yokei_schedule_add_line(&run->schedule));
        for (int k = YOKEI_ACTION_F; k <= YOKEI_ACTION_W; k++)
            YOKE_TRY(yokei_schedule_append(&run->schedule, (enum yokei_action_kind)k, 0, 0));
        for (int b = 0; b < n; b++) {
            YOKE_TRY(yokei_schedule_append(&run->schedule, YOKEI_ACTION_REDUCE, b, 0));
            c->sum[r * n + b].seconds = least.seconds / n;
            c->sum[r * n + b].early = c->sums_block ? 0 : fmax(hidden - b * least.seconds / n, 0);
            run->sum_bytes[r * n + b] = least.bytes / n;
        }
        YOKE_TRY(yokei_schedule_append(&run->schedule, YOKEI_ACTION_AGREE, 0, 0));
        YOKE_TRY(yokei_schedule_append(&run->schedule, YOKEI_ACTION_STEP, 0, 0));
        const double pass = f->rank[r].busy / 3;
        c->chunk[r] = (struct yokei_chunk_costs){ pass, pass, pass, 0, 0, 0, 0 };
    }
    f->costs = c, f->schedule = &run->schedule;
    f->sum_bytes = run->sum_bytes, f->hop_bytes = run->hop_bytes;
    return YOKE_OK;
}

yoke_status diagnose_foreign(char *const *paths, int n_paths, struct diagnose_run *run)
{
    struct job j = { .run = run };
    *run = (struct diagnose_run){ .name = paths[0], .is_foreign = true };
    run->plan = (struct yokei_plan)YOKEI_PLAN_INIT;
    struct yokei_facts *f = &run->facts;
    yoke_status status = YOKE_OK;
    for (int i = 0; i < n_paths && !status; i++) {
        j.path = paths[i];
        status = read_file(&j, i, n_paths);
    }
    if (!status) {
        if (j.n) qsort(j.intervals, j.n, sizeof *j.intervals, by_rank_and_time);
        if (j.n_windows) qsort(j.windows, j.n_windows, sizeof *j.windows, by_step_and_rank);
        status = make_rows(&j);
    }
    if (!status) {
        const bool stages = f->pipeline > 1;
        f->data = f->n_ranks, f->pipeline = f->tensor = f->chunks = 1, f->kind = YOKEI_PIPELINE_1F1B;
        for (int r = 0; r < f->n_ranks; r++) f->rank[r].d = r, f->rank[r].work = 1;
        if (!stages) status = make_costs(&j);
        if (stages) f->no_stage_peers = true;
        for (int r = 0; r < f->n_ranks && stages; r++) f->rank[r].work = NAN, f->rank[r].t = r;
    }
    if (!status) status = yokei_diagnose(f, &run->found);
    free(j.intervals);
    free(j.windows);
    free(j.processes);
    return status == YOKE_ECONFIG ? yoke_fail(YOKE_EDATA, "%s: %s", paths[0], yoke_last_error()) : status;
}
