/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates schedules. All kinds have one order: first some forward passes (the warm-up), then forward and
 * backward passes in turn, then the remaining backward passes. The kinds differ in the length of the warm-up,
 * in the number of chunks, and in the place of W. The row of a kind in schedule.h says all of this.
 */
#include <string.h>
#include "core/base/base.h"
#include "parallel/schedule.h"

#define NAME(name, text, ...) text,
const char *const yokei_pipeline_names[YOKEI_N_PIPELINES + 1] = { YOKEI_PIPELINES(NAME) NULL };
#undef NAME

/* The columns of a row that depend on nothing else. */
static const struct {
    bool sends_early, has_chunks;
} facts[YOKEI_N_PIPELINES] = {
#define FACTS(name, text, warm_up, lag, sends_early, has_chunks, help) { sends_early, has_chunks },
    YOKEI_PIPELINES(FACTS)
#undef FACTS
};

bool yokei_pipeline_has_chunks(enum yokei_pipeline_kind kind) { return facts[kind].has_chunks; }

enum yokei_pipeline_kind yokei_pipeline_default(int n_chunks)
{
    return n_chunks > 1 ? YOKEI_PIPELINE_INTERLEAVED : YOKEI_PIPELINE_1F1B;
}

yoke_status yokei_pipeline_named(const char *name, int n_chunks, enum yokei_pipeline_kind *kind_out)
{
    *kind_out = yokei_pipeline_default(n_chunks);
    for (int k = 0; name && k < YOKEI_N_PIPELINES; k++)
        if (!strcmp(yokei_pipeline_names[k], name)) {
            *kind_out = (enum yokei_pipeline_kind)k;
            return YOKE_OK;
        }
#define COMMA_NAME(kind, text, ...) ", " text
    return name ? yoke_fail(YOKE_ECONFIG, "pipeline schedule \"%s\" is none of %s", name,
                            &(YOKEI_PIPELINES(COMMA_NAME))[2])
                : YOKE_OK;
#undef COMMA_NAME
}

/* One stage's line. */
struct line {
    const struct yokei_pipeline *shape;
    struct yokei_schedule *schedule;
    int stage, n_chunks, last_virtual;
    int n; /* number of forward passes: micro-batches times chunks. A slot is the index of a pass */
    int warm_up, lag;
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

/*
 * The number of forward passes before the first backward pass, and the number of micro-batches by which W is
 * later than B, for this line.
 */
static void find_delays(struct line *l)
{
    const int n = l->n, p = l->shape->n_stages, s = l->stage, v = l->n_chunks;
    l->warm_up = l->lag = 0;
    if (p == 1) return; /* a single stage has the order of data parallelism */
    switch (l->shape->kind) {
#define DELAYS(name, text, warm_up_, lag_, ...) \
    case YOKEI_PIPELINE_##name: l->warm_up = warm_up_, l->lag = lag_; break;
        YOKEI_PIPELINES(DELAYS)
#undef DELAYS
    case YOKEI_N_PIPELINES: break;
    }
    (void)v; /* every expression may use it */
    l->warm_up = YOKE_MIN(l->warm_up, n);
}

static void backward(struct line *l, int slot)
{
    const int m = micro_batch_of(l, slot), c = chunk_backward(l, slot);
    const bool sends = virtual_stage(l, c) > 0, at_once = facts[l->shape->kind].sends_early;
    if (!receives_early(l) || slot == 0) receive_backward(l, slot);
    if (l->shape->recompute && l->shape->recompute[l->stage]) put(l, YOKEI_ACTION_R, m, c);
    put(l, YOKEI_ACTION_B, m, c);
    if (sends && at_once) put(l, YOKEI_ACTION_SG, m, c);
    if (m >= l->lag) put(l, YOKEI_ACTION_W, m - l->lag, c);
    if (sends && !at_once) put(l, YOKEI_ACTION_SG, m, c);
    if (receives_early(l)) receive_backward(l, slot + 1);
}

static void make_line(struct line *l)
{
    for (int slot = 0; slot < l->n + l->warm_up; slot++) {
        if (slot < l->n) forward(l, slot);
        if (slot >= l->warm_up) backward(l, slot - l->warm_up);
    }
    /* A kind that delays W has one chunk. */
    for (int m = YOKE_MAX(l->n - l->lag, 0); m < l->n; m++) put(l, YOKEI_ACTION_W, m, 0);
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
    struct line l = { .shape = shape,
                      .schedule = schedule,
                      .stage = stage,
                      .n_chunks = n_chunks,
                      .last_virtual = n_chunks * shape->n_stages - 1,
                      .n = shape->n_micro_batches * n_chunks };
    find_delays(&l);
    YOKE_TRY(yokei_schedule_add_line(schedule));
    make_line(&l);
    return l.status;
}

yoke_status yokei_schedule_check_shape(const struct yokei_pipeline *shape)
{
    const char *name = yokei_pipeline_names[shape->kind],
               *chunked = yokei_pipeline_names[yokei_pipeline_default(2)],
               *other = yokei_pipeline_names[yokei_pipeline_default(1)];
    const int p = shape->n_stages, m = shape->n_micro_batches, n_chunks = YOKE_MAX(shape->n_chunks, 1);
    const bool has_chunks = yokei_pipeline_has_chunks(shape->kind);
    if (p < 1 || m < 0)
        return yoke_fail(YOKE_ECONFIG,
                         "schedule: %d stages and %d micro-batches; there must be at least 1 and 0", p, m);
    if (n_chunks > 1 && (!has_chunks || p == 1))
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule: %s on %d stages with %d chunks each: only a kind such as %s has chunks, on several stages; set 1",
            name, p, n_chunks, chunked);
    if (has_chunks && n_chunks == 1 && p > 1)
        return yoke_fail(YOKE_ECONFIG, "schedule: %s with 1 chunk per stage: set at least 2, or take %s",
                         name, other);
    if (has_chunks && m % p)
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule: %s takes micro-batches in groups of the %d stages, and %d is no multiple: set %d or %d, "
            "or take %s",
            name, p, m, YOKE_MAX(m / p, 1) * p, (m / p + 1) * p, other);
    return YOKE_OK;
}

yoke_status yokei_schedule_line(const struct yokei_pipeline *shape, int stage,
                                struct yokei_schedule *schedule_out)
{
    struct yokei_schedule schedule = { 0, NULL };
    yoke_status status = yokei_schedule_check_shape(shape);
    if (!status) status = add_line(shape, stage, &schedule);
    if (status)
        yokei_schedule_free(&schedule);
    else
        *schedule_out = schedule;
    return status;
}

void yokei_schedule_order(const struct yokei_pipeline *shape, int stage, struct yokei_schedule_order *out)
{
    const int n_chunks = YOKE_MAX(shape->n_chunks, 1);
    struct line l = {
        .shape = shape, .stage = stage, .n_chunks = n_chunks, .n = shape->n_micro_batches * n_chunks
    };
    find_delays(&l);
    *out = (struct yokei_schedule_order){ .n_micro_batches = shape->n_micro_batches,
                                          .n_chunks = n_chunks,
                                          .warm_up = l.warm_up,
                                          .lag = l.lag,
                                          .sends_early = facts[shape->kind].sends_early,
                                          .is_first = stage == 0,
                                          .is_last = stage == shape->n_stages - 1,
                                          .recomputes = shape->recompute && shape->recompute[stage],
                                          .group = n_chunks > 1 ? shape->n_stages : 0 };
}

yoke_status yokei_schedule_pipeline(const struct yokei_pipeline *shape, struct yokei_schedule *schedule_out)
{
    struct yokei_schedule schedule = { 0, NULL };
    yoke_status status = yokei_schedule_check_shape(shape);
    for (int s = 0; !status && s < shape->n_stages; s++) status = add_line(shape, s, &schedule);
    if (status)
        yokei_schedule_free(&schedule);
    else
        *schedule_out = schedule;
    return status;
}
