/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says of a place in the mesh, and the end of a plan. */
#include <stdlib.h>
#include <string.h>
#include "train/trainer/trainer.h"

/* The index of a stage's first share in the list of all stages' shares. */
static int shares_before(const struct yokei_mesh *m, int stage)
{
    int n = 0;
    for (int s = 0; s < stage && m->widths; s++) n += m->widths[s];
    return n;
}

struct yoke_place yokei_plan_place(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *p,
                                   int s, int t)
{
    const int width = yokei_mesh_width(&p->mesh, s);
    return (struct yoke_place){ .size = sizeof(struct yoke_place),
                                .tensor_rank = t,
                                .tensor_size = width,
                                .tensor_shares = p->tensor_shares
                                                     ? p->tensor_shares + shares_before(&p->mesh, s)
                                                     : NULL,
                                .sequence_parallel = c->sequence_parallel && width > 1 };
}

void yokei_counted_once_free(struct yokei_counted_once *once)
{
    free(once->op);
    free(once->bucket);
    *once = (struct yokei_counted_once){ 0 };
}

void yokei_trainer_plan_free(struct yokei_trainer_plan *p)
{
    yokei_program_free(&p->train);
    yokei_program_free(&p->evaluate);
    yokei_program_free(&p->logits);
    yokei_counted_once_free(&p->once);
    yokei_state_free(&p->state);
    yokei_parameters_free(&p->parameters);
    yokei_parameters_free(&p->logical);
    void *const lists[] = { p->widths,     p->tensor_shares, p->chunk,           p->held,
                            p->recomputed, p->stage_of,      p->n_buckets,       p->stage_recomputes,
                            p->shares,     p->first,         p->n_micro_batches, p->counted,
                            p->tied,       p->ties,          p->tied_piece,      p->zero_shares };
    for (size_t i = 0; i < YOKE_COUNT(lists); i++) free(lists[i]);
    memset(p, 0, sizeof *p);
}
