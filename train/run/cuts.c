/* SPDX-License-Identifier: Apache-2.0 */
/* How the layers and the tensors of a run are cut. */
#include <stdlib.h>
#include "core/base/base.h"
#include "train/run/division.h"
#include "train/trainer/trainer.h"

yoke_status yokei_run_read_cuts(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    free(s->stage_blocks);
    free(s->tensor_shares);
    s->stage_blocks = s->tensor_shares = NULL;
    YOKE_TRY(yokei_plan_numbers("--layers", p->layers, s->mesh.pipeline * s->mesh.chunks, &s->stage_blocks));
    return yokei_plan_numbers("--tensor-shares", p->tensor_shares,
                              s->widths ? yokei_mesh_replica(&s->mesh) : s->mesh.tensor, &s->tensor_shares);
}

int yokei_run_n_blocks(const yoke_model *m)
{
    return (m->n_layers - m->before - m->after) / YOKE_MAX(m->per_block, 1);
}

/* The stages are cut as by yokei_mesh_chunks. */
int64_t yokei_run_blocks_of_stage(const struct yokei_run_state *s, int stage)
{
    const int n = s->mesh.pipeline * s->mesh.chunks, all = yokei_run_n_blocks(s->model);
    int64_t sum = 0;
    for (int v = stage; v < n; v += s->mesh.pipeline)
        sum += s->stage_blocks ? s->stage_blocks[v] : all / n + (v < all % n);
    return sum;
}
