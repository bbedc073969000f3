/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a schedule is valid. First each line is checked by itself, then the messages between the
 * stages, then whether all stages reach the end.
 */
#include <stdlib.h>
#include "core/base/base.h"
#include "parallel/simulate.h"

/*
 * For one micro-batch and chunk: `kind` must come after `needs`. A rule does not apply if the virtual stage
 * has no action `needs`.
 */
static const struct {
    enum yokei_action_kind kind, needs;
} rules[] = {
    { YOKEI_ACTION_F, YOKEI_ACTION_RA }, { YOKEI_ACTION_SA, YOKEI_ACTION_F },
    { YOKEI_ACTION_R, YOKEI_ACTION_F },  { YOKEI_ACTION_B, YOKEI_ACTION_F },
    { YOKEI_ACTION_B, YOKEI_ACTION_RG }, { YOKEI_ACTION_B, YOKEI_ACTION_R },
    { YOKEI_ACTION_W, YOKEI_ACTION_B },  { YOKEI_ACTION_SG, YOKEI_ACTION_B },
};

struct check {
    const struct yokei_pipeline *shape;
    const struct yokei_actions *list;
    int stage; /* index of the stage in the pipeline */
    int n_chunks, last_virtual, n_buckets;
    bool recomputes;
    int *next; /* [kind][chunk]: the next micro-batch that is expected */
    int reduced;
    bool tied, agreed, stepped;
};

static int *next_of(struct check *c, enum yokei_action_kind kind, int chunk)
{
    return &c->next[(int)kind * c->n_chunks + chunk];
}

/* Whether a chunk of this stage has actions of this kind. */
static bool exists(const struct check *c, enum yokei_action_kind kind, int chunk)
{
    const int at = chunk * c->shape->n_stages + c->stage;
    switch (kind) {
    case YOKEI_ACTION_RA:
    case YOKEI_ACTION_SG: return at > 0;
    case YOKEI_ACTION_SA:
    case YOKEI_ACTION_RG: return at < c->last_virtual;
    case YOKEI_ACTION_R: return c->recomputes;
    default: return true;
    }
}

/*
 * Find an action, of the kinds up to last_kind, that a chunk still lacks at the end. Returns false if there
 * is none.
 */
static bool lacks(struct check *c, enum yokei_action_kind last_kind, struct yokei_action *out)
{
    for (int k = 0; k <= (int)last_kind; k++)
        for (int chunk = 0; chunk < c->n_chunks; chunk++) {
            const enum yokei_action_kind kind = (enum yokei_action_kind)k;
            if (!exists(c, kind, chunk) || *next_of(c, kind, chunk) == c->shape->n_micro_batches) continue;
            *out = (struct yokei_action){ kind, *next_of(c, kind, chunk), chunk };
            return true;
        }
    return false;
}

static bool needs_tied(const struct check *c)
{
    return c->shape->tied && c->shape->n_stages > 1 && (c->stage == 0 || c->stage == c->shape->n_stages - 1);
}

/* The error of an action that cannot be there at all. */
static yoke_status refuse_action(const struct check *c, int i, const struct yokei_action *a)
{
    char word[48];
    yokei_action_text(a, word, sizeof word);
    if (a->chunk >= c->n_chunks && c->n_chunks == 1)
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule, stage %d, action %d: %s names a chunk, but the stage's layers are one chunk: leave \".%d\" out",
            c->stage, i + 1, word, a->chunk);
    if (a->chunk >= c->n_chunks)
        return yoke_fail(YOKE_ECONFIG, "schedule, stage %d, action %d: %s, but the chunks are 0 to %d",
                         c->stage, i + 1, word, c->n_chunks - 1);
    if (a->kind == YOKEI_ACTION_R && !c->recomputes)
        return yoke_fail(YOKE_ECONFIG,
                         "schedule, stage %d, action %d: %s, but nothing is recomputed here: leave it out",
                         c->stage, i + 1, word);
    return yoke_fail(
        YOKE_ECONFIG,
        "schedule, stage %d, action %d: %s has no other end: the first layers receive no activations and send no "
        "gradient, the last ones the other way round; leave it out",
        c->stage, i + 1, word);
}

/* The error of an action that is out of order: `expected` or, if it is NULL, `needed` must come first. */
static yoke_status refuse_order(const struct check *c, int i, const struct yokei_action *a,
                                const struct yokei_action *expected, const struct yokei_action *needed)
{
    char word[48], other[48];
    yokei_action_text(a, word, sizeof word);
    yokei_action_text(expected ? expected : needed, other, sizeof other);
    if (expected)
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule, stage %d, action %d: %s, expected %s of %d: every micro-batch once, in ascending order in each chunk",
            c->stage, i + 1, word, other, c->shape->n_micro_batches);
    return yoke_fail(YOKE_ECONFIG,
                     "schedule, stage %d, action %d: %s comes before %s, which it needs: put it behind",
                     c->stage, i + 1, word, other);
}

static yoke_status check_micro_batch(struct check *c, int i, const struct yokei_action *a)
{
    if (a->chunk >= c->n_chunks || !exists(c, a->kind, a->chunk)) return refuse_action(c, i, a);
    int *next = next_of(c, a->kind, a->chunk);
    if (a->index != *next || a->index >= c->shape->n_micro_batches)
        return refuse_order(c, i, a, &(struct yokei_action){ a->kind, *next, a->chunk }, NULL);
    for (size_t r = 0; r < YOKE_COUNT(rules); r++) {
        const struct yokei_action needed = { rules[r].needs, a->index, a->chunk };
        if (rules[r].kind != a->kind || !exists(c, needed.kind, a->chunk)
            || *next_of(c, needed.kind, a->chunk) > a->index)
            continue;
        return refuse_order(c, i, a, NULL, &needed);
    }
    (*next)++;
    return YOKE_OK;
}

static yoke_status check_reduce(struct check *c, int i, const struct yokei_action *a)
{
    struct yokei_action missing;
    char word[48];
    if (a->index != c->reduced || a->index >= c->n_buckets)
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule, stage %d, action %d: REDUCE%d, expected REDUCE%d of %d: every bucket once, in ascending order",
            c->stage, i + 1, a->index, c->reduced, c->n_buckets);
    if (lacks(c, YOKEI_ACTION_W, &missing))
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule, stage %d, action %d: REDUCE%d comes before %s: a gradient would be summed before it is whole; put it "
            "behind the last W",
            c->stage, i + 1, a->index, yokei_action_text(&missing, word, sizeof word));
    c->reduced++;
    return YOKE_OK;
}

/* Check TIED, AGREE and STEP: everything that belongs before them must be there, and each comes once. */
static yoke_status check_end(struct check *c, int i, const struct yokei_action *a)
{
    struct yokei_action missing = { YOKEI_ACTION_REDUCE, c->reduced, 0 };
    char word[48], other[48];
    const char *name = yokei_action_text(a, word, sizeof word);
    if (a->kind == YOKEI_ACTION_TIED && !needs_tied(c))
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule, stage %d, action %d: TIED, but this stage shares no parameters: leave it out",
            c->stage, i + 1);
    if ((a->kind == YOKEI_ACTION_TIED && c->tied) || (a->kind == YOKEI_ACTION_AGREE && c->agreed))
        return yoke_fail(YOKE_ECONFIG, "schedule, stage %d, action %d: a second %s: leave it out", c->stage,
                         i + 1, name);
    bool early = lacks(c, a->kind == YOKEI_ACTION_TIED ? YOKEI_ACTION_W : YOKEI_ACTION_RG, &missing)
                 || c->reduced < c->n_buckets;
    if (!early && a->kind != YOKEI_ACTION_TIED && needs_tied(c) && !c->tied)
        early = true, missing.kind = YOKEI_ACTION_TIED;
    if (!early && a->kind == YOKEI_ACTION_STEP && !c->agreed) early = true, missing.kind = YOKEI_ACTION_AGREE;
    if (!early && a->kind == YOKEI_ACTION_STEP && i + 1 < c->list->n)
        early = true, missing = c->list->action[i + 1];
    if (early)
        return yoke_fail(
            YOKE_ECONFIG,
            "schedule, stage %d, action %d: %s is too early, %s is not there yet: all micro-batches, all of REDUCE, TIED where "
            "parameters are shared, AGREE, and STEP as the last",
            c->stage, i + 1, name, yokei_action_text(&missing, other, sizeof other));
    c->tied |= a->kind == YOKEI_ACTION_TIED;
    c->agreed |= a->kind == YOKEI_ACTION_AGREE;
    c->stepped |= a->kind == YOKEI_ACTION_STEP;
    return YOKE_OK;
}

/* The actions end without STEP. Say what is missing first. */
static yoke_status unfinished(struct check *c)
{
    for (int chunk = 0; chunk < c->n_chunks; chunk++)
        if (*next_of(c, YOKEI_ACTION_W, chunk) < c->shape->n_micro_batches)
            return yoke_fail(YOKE_ECONFIG,
                             "schedule, stage %d: micro-batches are missing: %d of %d have W in chunk %d",
                             c->stage, *next_of(c, YOKEI_ACTION_W, chunk), c->shape->n_micro_batches, chunk);
    if (c->reduced < c->n_buckets)
        return yoke_fail(YOKE_ECONFIG, "schedule, stage %d: buckets are missing: %d of %d have REDUCE",
                         c->stage, c->reduced, c->n_buckets);
    return yoke_fail(YOKE_ECONFIG, "schedule, stage %d: it does not end in AGREE,STEP", c->stage);
}

static yoke_status check_actions(struct check *c)
{
    for (int i = 0; i < c->list->n; i++) {
        const struct yokei_action *a = &c->list->action[i];
        if (yokei_action_has_micro_batch(a->kind))
            YOKE_TRY(check_micro_batch(c, i, a));
        else if (a->kind == YOKEI_ACTION_REDUCE)
            YOKE_TRY(check_reduce(c, i, a));
        else
            YOKE_TRY(check_end(c, i, a));
    }
    return c->stepped ? YOKE_OK : unfinished(c);
}

/* Check one line: the actions of a stage. */
static yoke_status check_line(const struct yokei_actions *list, const struct yokei_pipeline *shape, int stage)
{
    const int n_chunks = YOKE_MAX(shape->n_chunks, 1);
    struct check c = { .shape = shape,
                       .list = list,
                       .stage = stage,
                       .n_chunks = n_chunks,
                       .last_virtual = n_chunks * shape->n_stages - 1,
                       .n_buckets = shape->n_buckets ? shape->n_buckets[stage] : 0 };
    if (shape->recompute)
        c.recomputes = shape->recompute[stage];
    else
        for (int i = 0; i < list->n; i++) c.recomputes |= list->action[i].kind == YOKEI_ACTION_R;
    c.next = calloc((size_t)YOKEI_N_ACTIONS * (size_t)n_chunks, sizeof *c.next);
    if (!c.next) return yoke_fail(YOKE_ENOMEM, "schedule: no host memory to check %d chunks", n_chunks);
    const yoke_status status = check_actions(&c);
    free(c.next);
    return status;
}

yoke_status yokei_schedule_check(const struct yokei_schedule *schedule, const struct yokei_pipeline *shape)
{
    const int n_chunks = YOKE_MAX(shape->n_chunks, 1);
    if (schedule->n_ranks != shape->n_stages)
        return yoke_fail(YOKE_ECONFIG,
                         "the schedule has %d lines, but there are %d stages: one line per stage",
                         schedule->n_ranks, shape->n_stages);
    if (shape->n_stages == 1 && n_chunks > 1)
        return yoke_fail(YOKE_ECONFIG,
                         "the schedule has %d chunks on one stage: one stage's layers are one chunk",
                         n_chunks);
    for (int s = 0; s < shape->n_stages; s++) YOKE_TRY(check_line(&schedule->rank[s], shape, s));
    struct yokei_costs costs;
    struct yokei_simulated simulated;
    YOKE_TRY(yokei_costs_equal(shape->n_stages, n_chunks, 1, 1, 1, 0, &costs));
    costs.waits_for_receiver = true;
    const yoke_status status = yokei_simulate(schedule, &costs, &simulated);
    yokei_costs_free(&costs);
    if (!status) yokei_simulated_free(&simulated);
    return status;
}
