/* SPDX-License-Identifier: Apache-2.0 */
/* Write the chosen division of the work into the plan, and as lines for the user. */
#include <string.h>
#include "core/base/base.h"
#include "train/run/division.h"

/*
 * Write the numbers with `between` between them. If the field is too small, the text is empty, which means
 * equal numbers.
 */
void yokei_run_numbers_text(const int64_t *list, int n, char between, char *out, size_t bytes)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        char number[24];
        yokei_text(number, sizeof number, "%.*s%lld", i > 0, &between, (long long)list[i]);
        if (at + strlen(number) >= bytes) {
            out[0] = 0;
            return;
        }
        yokei_text(out + at, bytes - at, "%s", number);
        at += strlen(number);
    }
}

/* ---- the choice in the plan ---- */

void yokei_run_write_division(struct yokei_run_state *s, const struct yokei_division *c)
{
    struct yokei_plan *p = &s->t->plan;
    double sum = 0;
    for (int d = 0; d < s->mesh.data; d++) sum += 1 / c->cost[d];
    for (int r = 0; r < s->n_ranks; r++) {
        struct yokei_plan_rank *rank = &p->ranks[s->placed[r]];
        const int d = yokei_mesh_at(&s->mesh, r).d;
        s->shares[r] = c->shares[d];
        rank->samples = c->shares[d];
        rank->share = c->shares[d] ? 1 / c->cost[d] / sum : 0;
        rank->predicted_seconds = (double)c->shares[d] * c->seconds[r];
        rank->micro_batch = c->shares[d] ? yokei_mesh_micro_batch(&s->mesh, c->shares[d], s->t->micro_batch)
                                         : 0;
    }
    p->predicted_step_seconds = c->step_seconds;
}

void yokei_run_report_division(const struct yokei_run_state *s, const struct yokei_division *c)
{
    const struct yokei_plan *p = &s->t->plan;
    char alone[128] = "", blocks[64] = "", tensors[64];
    for (int r = 0; r < s->n_ranks; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        if (at.pipeline > 1)
            yokei_text(blocks, sizeof blocks, ", stage %d with %lld of %d blocks", at.s + 1,
                       (long long)yokei_run_blocks_of_stage(s, at.s), yokei_run_n_blocks(s->model));
        tensors[0] = 0;
        if (at.tensor > 1)
            yokei_text(tensors, sizeof tensors, ", %.0f%% of each layer's tensors", 100 * c->part[r]);
        if (s->shares[r])
            yokei_text(alone, sizeof alone, "predicted %.3g s of computing a step",
                       (double)s->shares[r] * c->seconds[r]);
        else
            yokei_text(alone, sizeof alone,
                       "too slow to help with this batch, summing with it included: it is left out");
        yokei_run_note(s, "rank %d %s: %.1f sequences/s%s%s, gets %lld of %lld sequences a step; %s",
                       s->job.rank_of[s->placed[r]], s->ranks[r].device, 1 / c->seconds[r], blocks, tensors,
                       (long long)s->shares[r], (long long)p->batch, alone);
    }
    if (c->sums_seconds > 0)
        yokei_run_note(s, "predicted step: %.3g s, %.3g s of them to sum gradients", c->step_seconds,
                       c->sums_seconds);
    else
        yokei_run_note(s, "predicted step: %.3g s", c->step_seconds);
}
