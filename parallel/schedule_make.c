/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules that are generated. All kinds are one order: some forward passes first (the warm-up), then forward and backward in
 * turn, then what is left of backward; they differ in the length of the warm-up, in chunks, and in when W comes.
 */
#include "core/base/base.h"
#include "parallel/schedule.h"

#define NAME(name, text) text,
const char *const yokei_pipeline_names[YOKEI_N_PIPELINES + 1] = { YOKEI_PIPELINES(NAME) NULL };
#undef NAME

/* One stage's line. */
struct line {
    const struct yokei_pipeline *shape;
    struct yokei_schedule *schedule;
    int stage, n_chunks, last_virtual;
    yoke_status status; /* sticky: out of memory */
};

static void put(struct line *l, enum yokei_action_kind kind, int index, int chunk)
{
    if (!l->status) l->status = yokei_schedule_append(l->schedule, kind, index, chunk);
}

static int virtual_stage(const struct line *l, int chunk) { return chunk * l->shape->n_stages + l->stage; }

static void forward(struct line *l, int m, int c)
{
    if (virtual_stage(l, c) > 0) put(l, YOKEI_ACTION_RA, m, c);
    put(l, YOKEI_ACTION_F, m, c);
    if (virtual_stage(l, c) < l->last_virtual) put(l, YOKEI_ACTION_SA, m, c);
}

/* W is put off by so many micro-batches; 0 outside zb-h1. */
static int lag(const struct line *l) { return l->shape->kind == YOKEI_PIPELINE_ZB_H1 ? l->stage : 0; }

static void backward(struct line *l, int m, int c)
{
    const bool sends = virtual_stage(l, c) > 0, at_once = l->shape->kind == YOKEI_PIPELINE_ZB_H1;
    if (virtual_stage(l, c) < l->last_virtual) put(l, YOKEI_ACTION_RG, m, c);
    if (l->shape->recompute && l->shape->recompute[l->stage]) put(l, YOKEI_ACTION_R, m, c);
    put(l, YOKEI_ACTION_B, m, c);
    if (sends && at_once) put(l, YOKEI_ACTION_SG, m, c);
    if (m >= lag(l)) put(l, YOKEI_ACTION_W, m - lag(l), c);
    if (sends && !at_once) put(l, YOKEI_ACTION_SG, m, c);
}

/* How many forward passes come before the first backward pass, of n; stage 0 needs the most to be kept busy. */
static int warm_up(const struct line *l, int n)
{
    const int p = l->shape->n_stages, behind = p - 1 - l->stage;
    if (p == 1) return 0;
    switch (l->shape->kind) {
    case YOKEI_PIPELINE_GPIPE: return n;
    case YOKEI_PIPELINE_1F1B:
    case YOKEI_PIPELINE_ZB_H1: return YOKE_MIN(behind, n);
    case YOKEI_PIPELINE_INTERLEAVED: return YOKE_MIN(2 * behind + (l->n_chunks - 1) * p, n);
    default: return 0;
    }
}

/* Micro-batches go through the chunks in groups of as many as there are stages: group 0 through chunk 0, then chunk 1, ... */
static int micro_batch_of(const struct line *l, int slot)
{
    const int p = l->shape->n_stages;
    return l->n_chunks == 1 ? slot : slot / (p * l->n_chunks) * p + slot % p;
}
static int chunk_of(const struct line *l, int slot) { return l->n_chunks == 1 ? 0 : slot / l->shape->n_stages % l->n_chunks; }

static void make_line(struct line *l)
{
    const int n = l->shape->n_micro_batches * l->n_chunks, warm = warm_up(l, n);
    for (int slot = 0; slot < n + warm; slot++) {
        const int back = slot - warm;
        if (slot < n) forward(l, micro_batch_of(l, slot), chunk_of(l, slot));
        if (back >= 0) backward(l, micro_batch_of(l, back), l->n_chunks - 1 - chunk_of(l, back));
    }
    for (int m = YOKE_MAX(n - lag(l), 0); m < n; m++) put(l, YOKEI_ACTION_W, m, 0); /* zb-h1 alone puts W off, and has one chunk */
    for (int b = 0; l->shape->n_buckets && b < l->shape->n_buckets[l->stage]; b++) put(l, YOKEI_ACTION_REDUCE, b, 0);
    if (l->shape->tied && l->last_virtual > 0 && (l->stage == 0 || l->stage == l->shape->n_stages - 1)) put(l, YOKEI_ACTION_TIED, 0, 0);
    put(l, YOKEI_ACTION_AGREE, 0, 0);
    put(l, YOKEI_ACTION_STEP, 0, 0);
}

static yoke_status add_line(const struct yokei_pipeline *shape, int stage, struct yokei_schedule *schedule)
{
    const int n_chunks = YOKE_MAX(shape->n_chunks, 1);
    struct line l = { shape, schedule, stage, n_chunks, n_chunks * shape->n_stages - 1, YOKE_OK };
    YOKE_TRY(yokei_schedule_add_line(schedule));
    make_line(&l);
    return l.status;
}

static yoke_status check_shape(const struct yokei_pipeline *shape)
{
    const char *name = yokei_pipeline_names[shape->kind];
    const int p = shape->n_stages, m = shape->n_micro_batches, n_chunks = YOKE_MAX(shape->n_chunks, 1);
    const bool interleaved = shape->kind == YOKEI_PIPELINE_INTERLEAVED;
    if (p < 1 || m < 0) return yoke_fail(YOKE_ECONFIG, "schedule: %d stages and %d micro-batches; there must be at least 1 and 0", p, m);
    if (n_chunks > 1 && (!interleaved || p == 1))
        return yoke_fail(YOKE_ECONFIG, "schedule: %s on %d stages with %d chunks each: only interleaved on several stages has chunks; set 1", name, p,
                         n_chunks);
    if (interleaved && n_chunks == 1 && p > 1)
        return yoke_fail(YOKE_ECONFIG, "schedule: interleaved with 1 chunk per stage: set at least 2, or take 1f1b");
    if (interleaved && m % p)
        return yoke_fail(YOKE_ECONFIG, "schedule: interleaved takes micro-batches in groups of the %d stages, and %d is no multiple: set %d or %d, "
                         "or take 1f1b", p, m, YOKE_MAX(m / p, 1) * p, (m / p + 1) * p);
    return YOKE_OK;
}

yoke_status yokei_schedule_pipeline(const struct yokei_pipeline *shape, struct yokei_schedule *schedule_out)
{
    struct yokei_schedule schedule = { 0, NULL };
    yoke_status status = check_shape(shape);
    for (int s = 0; !status && s < shape->n_stages; s++) status = add_line(shape, s, &schedule);
    if (status) yokei_schedule_free(&schedule);
    else *schedule_out = schedule;
    return status;
}

yoke_status yokei_schedule_data_parallel(int n_ranks, const int *n_micro_batches, int n_buckets,
                                         struct yokei_schedule *schedule_out)
{
    struct yokei_schedule schedule = { 0, NULL };
    yoke_status status = YOKE_OK;
    for (int r = 0; !status && r < n_ranks; r++) {
        const struct yokei_pipeline alone = { .n_stages = 1, .n_micro_batches = n_micro_batches[r], .n_buckets = &n_buckets };
        status = add_line(&alone, 0, &schedule);
    }
    if (status) yokei_schedule_free(&schedule);
    else *schedule_out = schedule;
    return status;
}
