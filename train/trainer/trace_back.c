/* SPDX-License-Identifier: Apache-2.0 */
/* Where numbers that are not finite came from: see yokei_trainer_trace_back. */
#include <math.h>
#include "core/base/base.h"
#include "train/trainer/facts.h"

/* Count the elements of a parameter's gradient on this rank that are not finite. */
static yoke_status count_bad(yoke_trainer *t, int parameter, int64_t *n_bad)
{
    enum { PIECE = 1 << 16 };
    const struct yokei_state *s = &t->plan.state;
    const struct yokei_slot *slot = &s->slot[parameter];
    const size_t wide = yoke_dtype_bytes(s->wide);
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    float largest = 0;
    for (int64_t at = 0; at < slot->n; at += PIECE) {
        const int64_t n = YOKE_MIN(slot->n - at, (int64_t)PIECE);
        YOKE_TRY(yoke_copy_to_host(stream, t->facts->outputs,
                                   yoke_at(t->base, slot->gradient + (size_t)at * wide), (size_t)n * wide));
        YOKE_TRY(yoke_stream_sync(stream));
        yokei_step_facts_scan(s->wide, t->facts->outputs, n, &largest, n_bad);
    }
    return YOKE_OK;
}

static yoke_status search_gradients(yoke_trainer *t)
{
    struct yokei_step_facts *f = t->facts;
    const int *layer_of = t->plan.parameters.first_layer;
    for (int i = 0; i < t->plan.state.n; i++) {
        int64_t n_bad = 0;
        YOKE_TRY(count_bad(t, i, &n_bad));
        f->own_bad += n_bad;
        if (n_bad && (f->own_bad_tensor < 0 || layer_of[i] >= layer_of[f->own_bad_tensor]))
            f->own_bad_tensor = i;
    }
    return YOKE_OK;
}

yoke_status yokei_trainer_trace_back(yoke_trainer *t, const int32_t *tokens, const int32_t *targets)
{
    struct yokei_step_facts *f = t->facts;
    const struct yokei_program *p = &t->plan.train;
    const int64_t n = t->plan.shares[t->plan.mesh.d] * t->config.sequence;
    for (int l = 0; l < t->model->n_layers; l++) {
        f->layer[l].largest = NAN;
        f->layer[l].outputs_bad = f->layer[l].n_outputs = 0;
    }
    f->bad_layer = f->bad_micro_batch = f->own_bad_tensor = -1;
    f->own_bad = 0;
    f->samples = f->is_traced = true;
    t->ready = false;
    yokei_step_set_up(t, &t->plan.train_job, p);
    t->machine.pass.loss_scale = (float)t->gradient_scale;
    t->machine.after = yokei_step_facts_output;
    YOKE_TRY(yokei_step_load(t, tokens, targets, n));
    YOKE_TRY(yokei_annotate_clear(t->stream[YOKEI_COMPUTE], t->base, &t->plan.state,
                                  YOKEI_CLEAR_GRADIENTS | YOKEI_CLEAR_NORMS));
    YOKE_TRY(yokei_run(&t->machine, 0, yokei_step_end_of_compute(p)));
    YOKE_TRY(yokei_step_drain(t));
    YOKE_TRY(search_gradients(t));
    return YOKE_OK;
}
