/* SPDX-License-Identifier: Apache-2.0 */
/* From a file of yoke train --trace back to the timeline, and to the costs of the simulator. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/diagnose.h"
#include "core/base/base.h"
#include "parallel/program.h"

#define LONGEST_FILE ((size_t)1 << 30)
enum { MOST_RANKS = 4096, MOST_STEPS = 4096, MOST_CHUNKS = 4096, MOST_BUCKETS = 1 << 16 };

struct reader {
    const char *path;
    const json_t *events;
    struct yokei_timeline *t;
    int *next; /* [n_ranks][n_steps] the next instruction of each rank's list */
};

static yoke_status refuse(const struct reader *r, const char *why)
{
    return yoke_fail(YOKE_EDATA, "%s: %s", r->path, why);
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int whole_of(const json_t *object, const char *key, int otherwise)
{
    const json_t *value = json_object_get(object, key);
    const json_int_t n = json_integer_value(value);
    return json_is_integer(value) && n >= 0 && n <= INT32_MAX ? (int)n : otherwise;
}

/* The kind of an instruction by the name of its event. -1: none. */
static int kind_of(const char *name, int *recomputes_out)
{
    int kind = -1;
    size_t longest = 0;
    *recomputes_out = !strncmp(name, "R ", 2);
    if (*recomputes_out) return YOKEI_FORWARD;
    for (int k = 0; k < YOKEI_N_INSTRUCTIONS; k++) {
        const size_t n = strlen(yokei_instruction_names[k]);
        if (n > longest && !strncmp(name, yokei_instruction_names[k], n) && (!name[n] || name[n] == ' '))
            kind = k, longest = n;
    }
    return kind;
}

/* A measured event. False: the event is something else. */
struct event {
    int rank, step;
    struct yokei_timeline_instruction what;
    double begin, end;
};
static bool event_of(const struct reader *r, const json_t *e, struct event *out)
{
    const json_t *args = json_object_get(e, "args");
    const char *phase = json_string_value(json_object_get(e, "ph")),
               *group = json_string_value(json_object_get(e, "cat")),
               *name = json_string_value(json_object_get(e, "name"));
    if (!phase || !group || !name || strcmp(phase, "X") != 0 || strcmp(group, "measured") != 0) return false;
    const double begin = number_of(e, "ts"), length = number_of(e, "dur");
    int recomputes;
    *out = (struct event){ .rank = whole_of(e, "pid", -1),
                           .step = (int)(whole_of(args, "step", -1) - r->t->first_step),
                           .begin = begin * 1e-6,
                           .end = (begin + length) * 1e-6 };
    out->what.kind = kind_of(name, &recomputes);
    out->what.recomputes = recomputes;
    out->what.layer = -1;
    out->what.micro_batch = whole_of(args, "micro-batch", 0);
    out->what.chunk = whole_of(args, "chunk", 0);
    out->what.bucket = whole_of(args, "bucket", 0);
    out->what.stream = whole_of(e, "tid", 1) - 1;
    out->what.bytes = number_of(args, "bytes"), out->what.flops = number_of(args, "flops");
    return out->what.kind >= 0 && out->what.chunk < MOST_CHUNKS && out->what.bucket < MOST_BUCKETS
           && out->rank >= 0 && out->rank < r->t->n_ranks && out->step >= 0 && out->step < r->t->n_steps
           && isfinite(begin) && length >= 0 && fabs(begin) < 1e15;
}

static bool are_same(const struct yokei_timeline_instruction *a, const struct yokei_timeline_instruction *b)
{
    return a->kind == b->kind && a->recomputes == b->recomputes && a->micro_batch == b->micro_batch
           && a->chunk == b->chunk && a->bucket == b->bucket;
}

/* The lists of instructions: those of the step in which a rank ran most of them. */
static yoke_status make_lists(struct reader *r)
{
    struct yokei_timeline *t = r->t;
    int *count = calloc((size_t)t->n_ranks * (size_t)t->n_steps + 1, sizeof *count);
    size_t i;
    const json_t *json;
    struct event e;
    if (!count) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a timeline");
    json_array_foreach(r->events, i, json) if (event_of(r, json, &e)) count[e.rank * t->n_steps + e.step]++;
    yoke_status status = YOKE_OK;
    for (int k = 0; k < t->n_ranks && !status; k++) {
        struct yokei_timeline_rank *rank = &t->rank[k];
        int best = 0;
        for (int s = 1; s < t->n_steps; s++)
            if (count[k * t->n_steps + s] > count[k * t->n_steps + best]) best = s;
        const int n = count[k * t->n_steps + best];
        if (!n) {
            status = refuse(r, "a rank has no instructions");
            break;
        }
        rank->list = calloc((size_t)n, sizeof *rank->list);
        rank->span = malloc((size_t)n * (size_t)t->n_steps * sizeof *rank->span);
        if (!rank->list || !rank->span) status = yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a timeline");
        rank->n = n;
        for (size_t s = 0; rank->span && s < (size_t)n * (size_t)t->n_steps; s++)
            rank->span[s] = (struct yokei_timeline_span){ NAN, NAN, NAN, NAN };
        count[k * t->n_steps] = best; /* from here on: the step whose list is taken */
    }
    int *at = calloc((size_t)t->n_ranks + 1, sizeof *at);
    if (!at && !status) status = yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a timeline");
    if (!status) json_array_foreach(r->events, i, json)
        {
            if (event_of(r, json, &e) && count[e.rank * t->n_steps] == e.step
                && at[e.rank] < t->rank[e.rank].n)
                t->rank[e.rank].list[at[e.rank]++] = e.what;
        }
    free(at);
    free(count);
    return status;
}

static yoke_status fill_spans(struct reader *r)
{
    struct yokei_timeline *t = r->t;
    size_t i;
    const json_t *json;
    struct event e;
    r->next = calloc((size_t)t->n_ranks * (size_t)t->n_steps + 1, sizeof *r->next);
    if (!r->next) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a timeline");
    json_array_foreach(r->events, i, json)
    {
        if (!event_of(r, json, &e)) continue;
        const struct yokei_timeline_rank *rank = &t->rank[e.rank];
        int *n = &r->next[e.rank * t->n_steps + e.step];
        while (*n < rank->n && !are_same(&rank->list[*n], &e.what)) ++*n; /* it did not run in this step */
        if (*n == rank->n) return refuse(r, "the steps of a rank have different instructions");
        *yokei_timeline_span_of(t, e.rank, e.step, (*n)++) = (struct yokei_timeline_span){ e.begin, e.begin,
                                                                                           e.begin, e.end };
    }
    return YOKE_OK;
}

static bool is_pass(int kind)
{
    return kind == YOKEI_FORWARD || kind == YOKEI_BACKWARD_INPUT || kind == YOKEI_BACKWARD_WEIGHT;
}

/* The seconds of a sum during which a pass of the rank ran. */
static double beside_passes(const struct yokei_timeline *t, int rank, int step, int sum)
{
    const struct yokei_timeline_span *s = yokei_timeline_span_of(t, rank, step, sum);
    double seconds = 0;
    for (int n = 0; n < t->rank[rank].n; n++) {
        const struct yokei_timeline_span *p = yokei_timeline_span_of(t, rank, step, n);
        if (!is_pass(t->rank[rank].list[n].kind) || isnan(p->begin)) continue;
        seconds += fmax(fmin(p->end, s->end) - fmax(p->begin, s->begin), 0);
    }
    return seconds;
}

/*
 * The file does not say when a call returned. If the sums ran beside passes for less than a twentieth of
 * their time, they blocked their callers. Times of the file are rounded, so calls that follow each other may
 * seem to overlap a little.
 */
static void find_returns(struct yokei_timeline *t)
{
    for (int k = 0; k < t->n_ranks; k++) {
        double beside = 0, sums = 0;
        for (int s = 0; s < t->n_steps; s++)
            for (int n = 0; n < t->rank[k].n; n++) {
                const struct yokei_timeline_span *p = yokei_timeline_span_of(t, k, s, n);
                if (t->rank[k].list[n].kind != YOKEI_REDUCE || isnan(p->begin)) continue;
                beside += beside_passes(t, k, s, n);
                sums += p->end - p->begin;
            }
        for (int s = 0; s < t->n_steps; s++)
            for (int n = 0; n < t->rank[k].n; n++) {
                struct yokei_timeline_span *p = yokei_timeline_span_of(t, k, s, n);
                const enum yokei_instruction_kind kind = (enum yokei_instruction_kind)t->rank[k].list[n].kind;
                if (!yokei_goes_on(kind) || (kind == YOKEI_REDUCE && beside < 0.05 * sums))
                    p->returned = p->end;
            }
    }
}

/* "rank 3 (host a, device host): replica 1, stage 0, tensor 1" */
static yoke_status find_places(struct reader *r, int **widths_out)
{
    struct yokei_timeline *t = r->t;
    int data = 0, stages = 0, n_named = 0, chunks = 1;
    size_t i;
    const json_t *json;
    json_array_foreach(r->events, i, json)
    {
        const char *event = json_string_value(json_object_get(json, "name")),
                   *name = json_string_value(json_object_get(json_object_get(json, "args"), "name"));
        const int k = whole_of(json, "pid", -1);
        const char *at = name ? strrchr(name, ')') : NULL;
        if (!event || !at || strcmp(event, "process_name") != 0 || k < 0 || k >= t->n_ranks) continue;
        struct yokei_timeline_rank *rank = &t->rank[k];
        if (sscanf(at, "): replica %d, stage %d, tensor %d", &rank->d, &rank->s, &rank->t) != 3 || rank->d < 0
            || rank->d >= t->n_ranks || rank->s < 0 || rank->s >= t->n_ranks)
            return refuse(r, "the place of a rank is impossible");
        n_named++;
        if (sscanf(name, "rank %*d (host %63[^,], device %31[^)]", rank->host, rank->device) < 1)
            rank->host[0] = '\0';
        data = YOKE_MAX(data, rank->d + 1), stages = YOKE_MAX(stages, rank->s + 1);
    }
    if (n_named != t->n_ranks) return refuse(r, "it does not say the places of all ranks");
    int *widths = calloc((size_t)stages + 1, sizeof *widths);
    if (!widths) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a timeline");
    for (int k = 0; k < t->n_ranks; k++) {
        if (t->rank[k].d == 0) widths[t->rank[k].s]++;
        for (int n = 0; n < t->rank[k].n; n++) chunks = YOKE_MAX(chunks, t->rank[k].list[n].chunk + 1);
    }
    *widths_out = widths;
    YOKE_TRY(yokei_mesh_create(t->n_ranks, 0, data, stages, widths[0], widths, chunks, &t->mesh));
    for (int k = 0; k < t->n_ranks; k++) {
        const struct yokei_mesh own = yokei_mesh_at(&t->mesh, k);
        if (own.d != t->rank[k].d || own.s != t->rank[k].s || own.t != t->rank[k].t)
            return refuse(r, "the places of its ranks do not form a mesh");
    }
    return YOKE_OK;
}

static yoke_status find_bytes(struct diagnose_timeline *d)
{
    const struct yokei_timeline *t = &d->timeline;
    const struct yokei_costs *c = &d->simulation.costs;
    const int lines = t->mesh.data * t->mesh.pipeline;
    d->sum_bytes = calloc((size_t)(lines * c->n_sums) + 1, sizeof(double));
    d->hop_bytes = calloc((size_t)lines + 1, sizeof(double));
    d->flops = calloc((size_t)t->n_ranks + 1, sizeof(double));
    if (!d->sum_bytes || !d->hop_bytes || !d->flops)
        return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a timeline");
    for (int k = 0; k < t->n_ranks; k++) {
        const struct yokei_timeline_rank *r = &t->rank[k];
        const int line = r->d * t->mesh.pipeline + r->s;
        for (int n = 0; n < r->n; n++) {
            if (is_pass(r->list[n].kind) && isfinite(r->list[n].flops)) d->flops[k] += r->list[n].flops;
            if (r->t || !isfinite(r->list[n].bytes)) continue;
            if (r->list[n].kind == YOKEI_SEND_ACTIVATION) d->hop_bytes[line] = r->list[n].bytes;
            if (r->list[n].kind == YOKEI_REDUCE)
                d->sum_bytes[line * c->n_sums + r->list[n].bucket] = r->list[n].bytes;
        }
    }
    return YOKE_OK;
}

static yoke_status read_tree(struct reader *r, const json_t *root, struct diagnose_timeline *out)
{
    const json_t *other = json_object_get(root, "otherData");
    const size_t n_ranks = json_array_size(json_object_get(other, "clocks"));
    int *widths = NULL;
    r->events = json_object_get(root, "traceEvents");
    if (!json_is_array(r->events) || !n_ranks || n_ranks > MOST_RANKS)
        return refuse(r, "it is no timeline of yoke train --trace");
    r->t->n_ranks = (int)n_ranks;
    r->t->n_steps = whole_of(other, "steps", 0);
    r->t->first_step = whole_of(other, "first_step", 0);
    if (r->t->n_steps < 1 || r->t->n_steps > MOST_STEPS) return refuse(r, "it has no steps");
    r->t->rank = calloc(n_ranks, sizeof *r->t->rank);
    if (!r->t->rank) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a timeline");
    yoke_status status = make_lists(r);
    if (!status) status = fill_spans(r);
    if (!status) status = find_places(r, &widths);
    if (!status) find_returns(r->t);
    if (!status) status = yokei_timeline_simulate(r->t, &out->simulation);
    r->t->mesh.widths = NULL;
    free(widths);
    if (!status) status = find_bytes(out);
    out->is_there = !status;
    return status;
}

yoke_status diagnose_timeline_read(const char *path, struct diagnose_timeline *out)
{
    struct reader r = { .path = path, .t = &out->timeline };
    void *text;
    size_t bytes;
    json_error_t error;
    *out = (struct diagnose_timeline){ .is_there = false };
    YOKE_TRY(yokei_file_read_as(path, YOKE_EDATA, LONGEST_FILE, &text, &bytes));
    json_t *root = json_loadb(text, bytes, 0, &error);
    free(text);
    if (!root)
        return yoke_fail(YOKE_EDATA, "%s: it is no JSON at line %d, so it may be torn: %.200s", path,
                         error.line, error.text);
    const yoke_status status = read_tree(&r, root, out);
    json_decref(root);
    free(r.next);
    return status == YOKE_ECONFIG ? yoke_fail(YOKE_EDATA, "%s: %s", path, yoke_last_error()) : status;
}

void diagnose_timeline_free(struct diagnose_timeline *d)
{
    if (d->is_there) yokei_timeline_simulation_free(&d->simulation);
    for (int k = 0; k < d->timeline.n_ranks && d->timeline.rank; k++) {
        free(d->timeline.rank[k].list);
        free(d->timeline.rank[k].span);
    }
    free(d->timeline.rank);
    free(d->sum_bytes);
    free(d->hop_bytes);
    free(d->flops);
    memset(d, 0, sizeof *d);
}
