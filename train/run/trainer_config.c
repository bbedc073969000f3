/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a run's trainer, from the run's plan and state. */
#include "core/base/base.h"
#include "train/run/loop.h"

struct yoke_trainer_config yokei_run_trainer_config(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    yoke_dtype_parse(p->precision, &c.precision);
    c.batch = p->batch;
    c.micro_batch = p->n_ranks && s->placed ? p->ranks[s->placed[s->rank]].micro_batch
                                            : YOKE_MIN(s->t->micro_batch, p->batch);
    c.sequence = p->sequence;
    c.shares = s->replica_shares;
    c.data = s->mesh.data;
    c.pipeline = (int)p->pipeline;
    c.tensor = (int)p->tensor;
    c.stage_tensor = s->widths;
    c.chunks = (int)p->chunks;
    c.pipeline_kind = p->schedule[0] ? p->schedule : NULL;
    c.schedule = p->schedule_text;
    c.stage_blocks = s->stage_blocks;
    c.tensor_shares = s->tensor_shares;
    c.sequence_parallel = p->sequence_parallel != 0;
    c.recompute = p->recompute[0] ? p->recompute : NULL;
    c.zero = (int)p->zero;
    c.zero_shares = s->zero_shares;
    c.bucket_bytes = (size_t)p->bucket_bytes;
    c.seed = p->seed;
    c.beta1 = p->beta1;
    c.beta2 = p->beta2;
    c.weight_decay = p->weight_decay;
    c.clip = p->clip;
    c.loss_scale = p->loss_scale;
    c.memory_limit = s->t->memory_limit;
    c.overlap = s->t->overlap;
    c.comm = s->comm;
    c.control = s->control;
    return c;
}
