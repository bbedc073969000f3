/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements of a step: when its instructions ran, how long the rank waited, and how many arithmetic
 * operations it did.
 */
#include <string.h>
#include "core/base/base.h"
#include "train/trainer/trainer.h"

/* ---- collectives inside layers: the caller waits in them if streams run each call before it returns ---- */

static yoke_status timed(struct yoke_trainer *t, uint64_t begun_ns, yoke_status status)
{
    if (t->record.eager) t->record.in_layers_ns += yokei_now_ns() - begun_ns;
    return status;
}

static yoke_status timed_sum(void *context, void *x, int64_t n, yoke_dtype dtype, yoke_stream *stream)
{
    struct yoke_trainer *t = context;
    const struct yoke_tensor_group *g = &t->groups.tensor_group;
    const uint64_t begun = yokei_now_ns();
    return timed(t, begun, g->sum(g->context, x, n, dtype, stream));
}

static yoke_status timed_gather(void *context, const void *mine, void *all, const int64_t counts[],
                                yoke_dtype dtype, yoke_stream *stream)
{
    struct yoke_trainer *t = context;
    const struct yoke_tensor_group *g = &t->groups.tensor_group;
    const uint64_t begun = yokei_now_ns();
    return timed(t, begun, g->gather(g->context, mine, all, counts, dtype, stream));
}

static yoke_status timed_scatter_sum(void *context, const void *all, void *mine, const int64_t counts[],
                                     yoke_dtype dtype, yoke_stream *stream)
{
    struct yoke_trainer *t = context;
    const struct yoke_tensor_group *g = &t->groups.tensor_group;
    const uint64_t begun = yokei_now_ns();
    return timed(t, begun, g->scatter_sum(g->context, all, mine, counts, dtype, stream));
}

/* ---- creation ---- */

yoke_status yokei_timing_create(struct yoke_trainer *t)
{
    const bool eager = yokei_is_eager(t->device);
    t->timed = (struct yoke_tensor_group){ sizeof t->timed, t, timed_sum, timed_gather, timed_scatter_sum };
    t->overlaps = eager && t->plan.mesh.data > 1 && t->config.overlap != YOKE_OVERLAP_OFF;
    if (t->overlaps && t->config.overlap == YOKE_OVERLAP_AUTO) {
        bool stays;
        YOKE_TRY(yokei_ranks_stay_on_host(t->groups.data ? t->groups.data : t->config.comm, &stays));
        t->overlaps = !stays;
    }
    return yokei_record_create(t->plan.train.n, eager, &t->record);
}

void yokei_trainer_exact(yoke_trainer *t, bool exact) { t->record.exact = exact; }

/* ---- a step ---- */

yoke_status yokei_trainer_record(yoke_trainer *t, const struct yokei_record **record_out)
{
    YOKE_TRY(yokei_record_look(&t->machine));
    *record_out = &t->record;
    return YOKE_OK;
}

/* The time of the gradients' norms, which are the last measured part of the step. */
static double norms_seconds(const struct yoke_trainer *t)
{
    for (int n = 0; n < t->record.n; n++)
        if (t->plan.train.instruction[n].kind == YOKEI_NORMS)
            return yokei_seconds_between(t->record.at[n].begin, t->record.at[n].end);
    return 0;
}

/*
 * Queued streams that are not synchronised. The host detects when the last pass is complete and when the
 * norms have arrived. The passes are assumed to take as long as in the last step that was synchronised. This
 * is slightly longer than without synchronisation, so the remaining time is a lower bound of the waiting
 * time.
 */
static void derive(const struct yoke_trainer *t, struct yokei_step_times *out)
{
    const double passes = yokei_seconds_between(t->begun_ns, t->passed_ns),
                 behind = yokei_seconds_between(t->passed_ns, t->fetched_ns) - t->norms_seconds;
    out->busy = YOKE_MIN(t->times.busy, passes);
    out->useful = YOKE_MIN(t->times.useful, passes);
    out->span = passes;
    out->exposed = (t->plan.n_ranks > 1 ? passes - out->busy + YOKE_MAX(behind, 0) : 0);
}

yoke_status yokei_timing_measure(struct yoke_trainer *t, struct yokei_step_times *out)
{
    const struct yokei_record *r = &t->record;
    if (!r->eager && !r->exact) {
        derive(t, out);
        return YOKE_OK;
    }
    YOKE_TRY(yokei_record_look(&t->machine));
    yokei_record_measure(&t->machine, &t->times);
    t->norms_seconds = norms_seconds(t);
    *out = t->times;
    return YOKE_OK;
}

/* ---- arithmetic ---- */

struct yoke_cost yokei_instruction_cost(const struct yokei_program *p, const struct yokei_instruction *i)
{
    struct yoke_cost cost = { .size = sizeof cost };
    for (int op = i->first_op; op < i->first_op + i->n_ops; op++) {
        cost.flops += p->planner.ops[op].flops;
        cost.bytes += p->planner.ops[op].bytes;
    }
    return cost;
}

/*
 * Matrix products and attentions count. The backward pass of attention reports five products of the scores'
 * shape. The first product repeats work of the forward pass, and this is not work of the model.
 */
static double model_flops(const struct yokei_op *op)
{
    if (strcmp(op->name, "attention_backward") == 0) return op->flops * 4 / 5;
    return strcmp(op->name, "gemm") == 0 || strcmp(op->name, "attention_forward") == 0 ? op->flops : 0;
}

double yokei_trainer_flops(const struct yoke_trainer *t)
{
    const struct yokei_program *p = &t->plan.train;
    double flops = 0;
    for (int n = 0; n < p->n; n++) {
        const struct yokei_instruction *i = &p->instruction[n];
        const bool is_pass = i->kind == YOKEI_FORWARD || i->kind == YOKEI_BACKWARD_INPUT
                             || i->kind == YOKEI_BACKWARD_WEIGHT;
        if (!is_pass || i->recomputes) continue;
        for (int op = i->first_op; op < i->first_op + i->n_ops; op++)
            flops += model_flops(&p->planner.ops[op]);
    }
    return flops;
}
