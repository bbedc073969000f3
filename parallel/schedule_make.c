/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates schedules. All kinds have one order: first some forward passes (the warm-up), then forward and
 * backward passes in turn, then the remaining backward passes. The kinds differ in the length of the warm-up,
 * in the number of chunks, and in the place of W.
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
    int n; /* number of forward passes: micro-batches times chunks. A slot is the index of a pass */
    yoke_status status; /* sticky: out of memory */
};

static void put(struct line *l, enum yokei_action_kind kind, int index, int chunk)
{
    if (!l->status) l->status = yokei_schedule_append(l->schedule, kind, index, chunk);
}

static int virtual_stage(const struct line *l, int chunk) { return chunk * l->shape->n_stages + l->stage; }

/*
 * Micro-batches go through the chunks in groups. A group has as many micro-batches as there are stages. Group
 * 0 goes through chunk 0, then through chunk 1, and so on; then comes group 1.
 */
static int micro_batch_of(const struct line *l, int slot)
{
    const int p = l->shape->n_stages;
    return l->n_chunks == 1 ? slot : slot / (p * l->n_chunks) * p + slot % p;
}
static int chunk_forward(const struct line *l, int slot)
{
    return l->n_chunks == 1 ? 0 : slot / l->shape->n_stages % l->n_chunks;
}
static int chunk_backward(const struct line *l, int slot) { return l->n_chunks - 1 - chunk_forward(l, slot); }

static void receive_forward(struct line *l, int slot)
{
    const int c = chunk_forward(l, slot);
    if (slot < l->n && virtual_stage(l, c) > 0) put(l, YOKEI_ACTION_RA, micro_batch_of(l, slot), c);
}

static void receive_backward(struct line *l, int slot)
{
    const int c = chunk_backward(l, slot);
    if (slot < l->n && virtual_stage(l, c) < l->last_virtual)
        put(l, YOKEI_ACTION_RG, micro_batch_of(l, slot), c);
}

/*
 * With chunks, messages go round in a circle. Suppose that each stage went on only when its message was
 * taken, and took a message only when it needed it. Then all stages could wait for each other. So with chunks
 * a receive is listed one pass early.
 */
static bool receives_early(const struct line *l) { return l->n_chunks > 1; }

static void forward(struct line *l, int slot)
{
    const int m = micro_batch_of(l, slot), c = chunk_forward(l, slot);
    if (!receives_early(l) || slot == 0) receive_forward(l, slot);
    put(l, YOKEI_ACTION_F, m, c);
    if (virtual_stage(l, c) < l->last_virtual) put(l, YOKEI_ACTION_SA, m, c);
    if (receives_early(l)) receive_forward(l, slot + 1);
}

/* W is done this many micro-batches later than B; 0 outside zb-h1. */
static int lag(const struct line *l) { return l->shape->kind == YOKEI_PIPELINE_ZB_H1 ? l->stage : 0; }

static void backward(struct line *l, int slot)
{
    const int m = micro_batch_of(l, slot), c = chunk_backward(l, slot);
    const bool sends = virtual_stage(l, c) > 0, at_once = l->shape->kind == YOKEI_PIPELINE_ZB_H1;
    if (!receives_early(l) || slot == 0) receive_backward(l, slot);
    if (l->shape->recompute && l->shape->recompute[l->stage]) put(l, YOKEI_ACTION_R, m, c);
    put(l, YOKEI_ACTION_B, m, c);
    if (sends && at_once) put(l, YOKEI_ACTION_SG, m, c);
    if (m >= lag(l)) put(l, YOKEI_ACTION_W, m - lag(l), c);
    if (sends && !at_once) put(l, YOKEI_ACTION_SG, m, c);
    if (receives_early(l)) receive_backward(l, slot + 1);
}

/* The number of forward passes, of n, before the first backward pass. Stage 0 needs most to be kept busy. */
static int warm_up(const struct line *l)
{
    const int n = l->n, p = l->shape->n_stages, behind = p - 1 - l->stage;
    if (p == 1) return 0;
    switch (l->shape->kind) {
    case YOKEI_PIPELINE_GPIPE: return n;
    case YOKEI_PIPELINE_1F1B:
    case YOKEI_PIPELINE_ZB_H1: return YOKE_MIN(behind, n);
    case YOKEI_PIPELINE_INTERLEAVED: return YOKE_MIN(2 * behind + (l->n_chunks - 1) * p, n);
    default: return 0;
    }
}

static void make_line(struct line *l)
{
    const int warm = warm_up(l);
    for (int slot = 0; slot < l->n + warm; slot++) {
        if (slot < l->n) forward(l, slot);
        if (slot >= warm) backward(l, slot - warm);
    }
    /* Only zb-h1 delays W, and it has one chunk. */
    for (int m = YOKE_MAX(l->n - lag(l), 0); m < l->n; m++) put(l, YOKEI_ACTION_W, m, 0);
    for (int b = 0; l->shape->n_buckets && b < l->shape->n_buckets[l->stage]; b++)
        put(l, YOKEI_ACTION_REDUCE, b, 0);
    if (l->shape->tied && l->last_virtual > 0 && (l->stage == 0 || l->stage == l->shape->n_stages - 1))
        put(l, YOKEI_ACTION_TIED, 0, 0);
    put(l, YOKEI_ACTION_AGREE, 0, 0);
    put(l, YOKEI_ACTION_STEP, 0, 0);
}

static yoke_status add_line(const struct yokei_pipeline *shape, int stage, struct yokei_schedule *schedule)
{
    const int n_chunks = YOKE_MAX(shape->n_chunks, 1);
    struct line l = {
        shape,  schedule, stage, n_chunks, n_chunks * shape->n_stages - 1, shape->n_micro_batches * n_chunks,
        YOKE_OK
    };
    YOKE_TRY(yokei_schedule_add_line(schedule));
    make_line(&l);
    return l.status;
}

static yoke_status check_shape(const struct yokei_pipeline *shape)
{
    const char *name = yokei_pipeline_names[shape->kind];
    const int p = shape->n_stages, m = shape->n_micro_batches, n_chunks = YOKE_MAX(shape->n_chunks, 1);
    const bool interleaved = shape->kind == YOKEI_PIPELINE_INTERLEAVED;
    if (p < 1 || m < 0)
        return yoke_fail(YOKE_ECONFIG,
                         "schedule: %d stages and %d micro-batches; there must be at least 1 and 0", p, m);
    if (n_chunks > 1 && (!interleaved || p == 1))
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule: %s on %d stages with %d chunks each: only interleaved on several stages has chunks; set 1",
            name, p, n_chunks);
    if (interleaved && n_chunks == 1 && p > 1)
        return yoke_fail(YOKE_ECONFIG,
                         "schedule: interleaved with 1 chunk per stage: set at least 2, or take 1f1b");
    if (interleaved && m % p)
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule: interleaved takes micro-batches in groups of the %d stages, and %d is no multiple: set %d or %d, "
            "or take 1f1b",
            p, m, YOKE_MAX(m / p, 1) * p, (m / p + 1) * p);
    return YOKE_OK;
}

yoke_status yokei_schedule_pipeline(const struct yokei_pipeline *shape, struct yokei_schedule *schedule_out)
{
    struct yokei_schedule schedule = { 0, NULL };
    yoke_status status = check_shape(shape);
    for (int s = 0; !status && s < shape->n_stages; s++) status = add_line(shape, s, &schedule);
    if (status)
        yokei_schedule_free(&schedule);
    else
        *schedule_out = schedule;
    return status;
}
