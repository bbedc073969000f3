/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into yoke train: faults that make a loss leave its path. PLANT says which one, PLANT_STEP in
 * which step, PLANT_SEED at which place, and PLANT_RANK on which rank of a job (not set: on all). The fault
 * is only in this process. So the post-mortem, which is another process, computes rightly, unless the fault
 * is preloaded into it, too.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/ops/attention.h>
#include <yoke/ops/norm.h>

#include "core/base/base.h"
#include "train/layers/layers.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

#define OWN(function, type) ((type)(uintptr_t)dlsym(RTLD_NEXT, #function))

static bool is(const char *name)
{
    const char *plant = getenv("PLANT"), *on = getenv("PLANT_RANK"), *rank = getenv("PMI_RANK");
    return plant && !strcmp(plant, name) && (!on || (rank && !strcmp(on, rank)));
}

static int64_t number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : -1;
}

/* ---- the learning rate of one step ---- */

typedef double rate_function(const struct yokei_plan *, int64_t, int64_t);
double yokei_rate(const struct yokei_plan *plan, int64_t step, int64_t permille)
{
    const double rate = OWN(yokei_rate, rate_function *)(plan, step, permille);
    return is("rate") && step == number("PLANT_STEP") ? 300 * rate : rate;
}

/* ---- flipped bits; on devices whose memory the host sees ---- */

/* Flip a bit of the exponent of an element that PLANT_SEED chooses among those of large tensors. */
static void flip(const struct yoke_trainer *t, bool in_gradient)
{
    const struct yokei_state *s = &t->plan.state;
    const uint64_t seed = (uint64_t)number("PLANT_SEED");
    int large[1024], n = 0;
    for (int i = 0; i < s->n && n < 1024; i++)
        if (s->slot[i].n > 4096) large[n++] = i;
    const struct yokei_slot *slot = &s->slot[large[seed % (uint64_t)n]];
    uint32_t *bits = (uint32_t *)yoke_at(t->base, in_gradient ? slot->gradient : slot->weight)
                     + (seed * 40503 + 77) % (uint64_t)slot->n;
    *bits ^= 1u << (seed % 2 ? 26 : 30); /* a factor of 2^8 or 2^128 */
}

typedef yoke_status run_function(const struct yokei_machine *, int, int);
yoke_status yokei_run(const struct yokei_machine *k, int from, int to)
{
    run_function *own = OWN(yokei_run, run_function *);
    const struct yoke_trainer *t = k->context;
    const bool trains = t && k->program->agree < k->program->n && from <= k->program->agree;
    static bool is_done;
    yoke_status status = YOKE_OK;
    if (trains && is("die") && t->step == number("PLANT_STEP")) raise(SIGKILL);
    if (!trains || t->step != number("PLANT_STEP") || is_done || !(is("weight") || is("gradient")))
        return own(k, from, to);
    if (is("weight")) flip(t, false), is_done = true;
    for (int n = from; n < to && !status; n++) {
        if (is("gradient") && k->program->instruction[n].kind == YOKEI_NORMS && !is_done) {
            for (int i = 0; i < YOKEI_N_STREAMS; i++) /* the device has the gradients only then */
                if (k->stream[i]) YOKE_TRY(yoke_stream_sync(k->stream[i]));
            flip(t, true), is_done = true;
        }
        status = own(k, n, n + 1);
    }
    return status;
}

/* ---- weights of one layer that f16 cannot multiply ---- */

static yoke_status enlarge(yoke_trainer *t, int index, float factor)
{
    const int64_t n = t->plan.state.slot[index].n;
    float *values = malloc((size_t)n * sizeof *values);
    yoke_status status = values ? yoke_trainer_get(t, YOKE_TENSOR_WEIGHT, index, values) : YOKE_ENOMEM;
    for (int64_t i = 0; i < n && !status; i++) values[i] *= factor;
    if (!status) status = yoke_trainer_set(t, YOKE_TENSOR_WEIGHT, index, values);
    free(values);
    return status;
}

typedef yoke_status draw_function(yoke_trainer *, uint64_t);
yoke_status yoke_trainer_draw(yoke_trainer *t, uint64_t seed)
{
    YOKE_TRY(OWN(yoke_trainer_draw, draw_function *)(t, seed));
    for (int i = 0; i < t->plan.parameters.n && is("large"); i++) {
        const char *name = t->plan.parameters.item[i].name;
        if (strstr(name, "h.1.mlp.c_fc.weight")) YOKE_TRY(enlarge(t, i, 300));
        if (strstr(name, "h.1.mlp.c_proj.weight")) YOKE_TRY(enlarge(t, i, 3e4f));
    }
    return YOKE_OK;
}

/* ---- a resume with the weights of an older checkpoint ---- */

static const struct yokei_run_state *resumed;
typedef yoke_status restore_function(struct yokei_run_state *);
yoke_status yokei_run_restore(struct yokei_run_state *s)
{
    const yoke_status status = OWN(yokei_run_restore, restore_function *)(s);
    const char *older = getenv("PLANT_OLDER");
    resumed = s;
    if (status || !is("stale") || !older) return status;
    return yokei_weights_load(s->trainer, yokei_plan_model(&s->t->plan), older);
}

/*
 * On one rank of a job. The ranks have compared their weights before that. All ranks load, because loading is
 * collective. The others then go back to the weights that they had.
 */
typedef yoke_status compare_function(yoke_trainer *);
yoke_status yokei_weights_compare(yoke_trainer *t)
{
    YOKE_TRY(OWN(yokei_weights_compare, compare_function *)(t));
    const char *older = getenv("PLANT_OLDER"), *plant = getenv("PLANT");
    float *had[1024] = { 0 };
    const int n = t->plan.parameters.n;
    if (!plant || strcmp(plant, "stale rank") != 0 || !older || !resumed || n > 1024) return YOKE_OK;
    for (int i = 0; i < n; i++) {
        had[i] = malloc((size_t)t->plan.state.slot[i].n * sizeof(float));
        if (!had[i]) abort();
        YOKE_TRY(yoke_trainer_get(t, YOKE_TENSOR_WEIGHT, i, had[i]));
    }
    YOKE_TRY(yokei_weights_load(t, yokei_plan_model(&resumed->t->plan), older));
    for (int i = 0; i < n; i++) {
        if (!is("stale rank")) YOKE_TRY(yoke_trainer_set(t, YOKE_TENSOR_WEIGHT, i, had[i]));
        free(had[i]);
    }
    return YOKE_OK;
}

/* ---- the samples of one step, as a rank with a bad disk reads them; 8 samples are a step ---- */

typedef yoke_status sample_function(const struct yokei_tokens *, uint64_t, int64_t, int64_t, int32_t *,
                                    int32_t *);
yoke_status yokei_tokens_sample(const struct yokei_tokens *tokens, uint64_t seed, int64_t sample, int64_t T,
                                int32_t *inputs, int32_t *targets)
{
    YOKE_TRY(OWN(yokei_tokens_sample, sample_function *)(tokens, seed, sample, T, inputs, targets));
    if (!is("samples") || sample / 8 != number("PLANT_STEP") - 1) return YOKE_OK;
    for (int64_t i = 0; i < T; i += 3) inputs[i] = targets[T - 1 - i] = (int32_t)((sample + i * 7) % 256);
    return YOKE_OK;
}

/* ---- layers ---- */

typedef yoke_status norm_forward_function(yoke_stream *, const struct yoke_layernorm_forward_args *);
yoke_status yoke_layernorm_forward(yoke_stream *stream, const struct yoke_layernorm_forward_args *args)
{
    struct yoke_layernorm_forward_args own = *args;
    if (is("wide norm") && args->C > 512) own.eps = 1e-2;
    return OWN(yoke_layernorm_forward, norm_forward_function *)(stream, &own);
}

typedef void norm_function(const struct yoke_shape *, const struct yoke_layer_call *, int64_t, int64_t,
                           double, struct yokei_norm *, size_t[YOKE_N_PARTS]);
void yokei_norm_lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, int64_t N,
                        int64_t C, double eps, struct yokei_norm *n, size_t bytes[YOKE_N_PARTS])
{
    OWN(yokei_norm_lay_out, norm_function *)(shape, call, N, C, is("epsilon") ? 1e3 * eps : eps, n, bytes);
}

typedef yoke_status forward_function(yoke_stream *, const struct yoke_attention_forward_args *);
yoke_status yoke_attention_forward(yoke_stream *stream, const struct yoke_attention_forward_args *args)
{
    struct yoke_attention_forward_args own = *args;
    if (is("unscaled")) own.scale = 1;
    return OWN(yoke_attention_forward, forward_function *)(stream, &own);
}

/* "backward": only the gradients are wrong */
typedef yoke_status backward_function(yoke_stream *, const struct yoke_attention_backward_args *);
yoke_status yoke_attention_backward(yoke_stream *stream, const struct yoke_attention_backward_args *args)
{
    struct yoke_attention_backward_args own = *args;
    if (is("unscaled") || is("backward")) own.scale = 1;
    return OWN(yoke_attention_backward, backward_function *)(stream, &own);
}
