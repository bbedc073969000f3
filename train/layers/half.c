/* SPDX-License-Identifier: Apache-2.0 */
/* What both halves of a GPT-2 block share: the norm before, the product into the half, the one out of it, and x on top. */
#include <math.h>
#include "core/base/base.h"
#include "train/layers/layers.h"

void yokei_half_lay_out(const struct yokei_half_type *type, const yoke_layer *layer, const struct yoke_shape *shape,
                        const struct yoke_layer_call *call, struct yokei_half *h, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_gpt2_config *c = layer->config;
    const int64_t N = shape->B * shape->T, C = c->n_embd;
    const size_t narrow = yoke_dtype_bytes(shape->dtype), wide = yoke_dtype_bytes(yoke_dtype_wide(shape->dtype));
    h->in = (struct yokei_linear){ N, C, type->inner * C };
    h->out = (struct yokei_linear){ N, type->outer * C, C };
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    h->inner = yoke_part_field(call, bytes, YOKE_F_TO_B, N * h->in.out, narrow);
    h->ln = yoke_part_field(call, bytes, YOKE_F_TO_W, N * C, narrow);
    void *mean = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide), *rstd = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide);
    h->norm = (struct yokei_norm){ N, C, (float)c->layer_norm_epsilon, mean, rstd };
    h->outer = yoke_part_field(call, bytes, YOKE_F_TO_W, N * h->out.in, narrow);
    h->dinner = yoke_part_field(call, bytes, YOKE_B_TO_W, N * h->in.out, narrow);
    h->dln = yoke_part_field(call, bytes, YOKE_B_TO_W, N * C, narrow);
}

bool yokei_half_parameter(const struct yokei_half_type *type, const yoke_layer *layer, int index, struct yoke_parameter *out)
{
    const struct yoke_gpt2_config *c = layer->config;
    const int64_t C = c->n_embd;
    const double std = c->initializer_range;
    const struct {
        const char *name, *kind;
        enum yoke_init init;
        double std;
        int64_t rows, columns;
    } list[] = {
        [YOKEI_HALF_GAMMA] = { type->norm, "weight", YOKE_INIT_ONES, 0, C, 0 },
        [YOKEI_HALF_BETA] = { type->norm, "bias", YOKE_INIT_ZEROS, 0, C, 0 },
        [YOKEI_HALF_IN_WEIGHT] = { type->in, "weight", YOKE_INIT_NORMAL, std, C, type->inner * C },
        [YOKEI_HALF_IN_BIAS] = { type->in, "bias", YOKE_INIT_ZEROS, 0, type->inner * C, 0 },
        /* GPT-2 draws what ends on the residual narrower, by the number of halves that add to it. */
        [YOKEI_HALF_OUT_WEIGHT] = { type->out, "weight", YOKE_INIT_NORMAL, std / sqrt(2.0 * (double)c->n_layer), type->outer * C, C },
        [YOKEI_HALF_OUT_BIAS] = { type->out, "bias", YOKE_INIT_ZEROS, 0, C, 0 },
    };
    char suffix[64];
    if (index < 0 || index >= (int)YOKE_COUNT(list)) return false;
    yokei_text(suffix, sizeof suffix, "%s.%s", list[index].name, list[index].kind);
    yokei_parameter(out, layer->name, suffix, list[index].init, list[index].std, list[index].rows, list[index].columns);
    return true;
}

yoke_status yokei_half_enter(const struct yoke_layer_call *call, const struct yokei_half *h, bool gelu)
{
    const void *const *w = call->weights;
    YOKE_TRY(yokei_norm_forward(call, &h->norm, call->x, w[YOKEI_HALF_GAMMA], w[YOKEI_HALF_BETA], h->ln));
    return yokei_linear_forward(call, &h->in, h->ln, w[YOKEI_HALF_IN_WEIGHT], w[YOKEI_HALF_IN_BIAS], false, gelu, gelu ? h->inner : NULL,
                                gelu ? h->outer : h->inner);
}

yoke_status yokei_half_leave(const struct yoke_layer_call *call, const struct yokei_half *h)
{
    const void *const *w = call->weights;
    /* The residual goes through the product's beta: x + out(...) is rounded once. */
    YOKE_TRY(yoke_call_copy(call, call->y, call->x, (size_t)(h->in.N * h->in.in) * yoke_dtype_bytes(call->shape->dtype)));
    return yokei_linear_forward(call, &h->out, h->outer, w[YOKEI_HALF_OUT_WEIGHT], w[YOKEI_HALF_OUT_BIAS], true, false, NULL, call->y);
}

yoke_status yokei_half_backward_leave(const struct yoke_layer_call *call, const struct yokei_half *h, void *douter)
{
    return yokei_linear_backward_input(call, &h->out, call->dy, call->weights[YOKEI_HALF_OUT_WEIGHT], douter);
}

yoke_status yokei_half_backward_enter(const struct yoke_layer_call *call, const struct yokei_half *h)
{
    const void *const *w = call->weights;
    YOKE_TRY(yokei_linear_backward_input(call, &h->in, h->dinner, w[YOKEI_HALF_IN_WEIGHT], h->dln));
    return yokei_norm_backward_input(call, &h->norm, h->dln, call->x, w[YOKEI_HALF_GAMMA], call->dy, call->dx);
}

yoke_status yokei_half_backward_weight(const struct yoke_layer_call *call, const struct yokei_half *h)
{
    void *const *g = call->gradients;
    YOKE_TRY(yokei_linear_backward_weight(call, &h->out, h->outer, call->dy, g[YOKEI_HALF_OUT_WEIGHT], g[YOKEI_HALF_OUT_BIAS]));
    YOKE_TRY(yokei_linear_backward_weight(call, &h->in, h->ln, h->dinner, g[YOKEI_HALF_IN_WEIGHT], g[YOKEI_HALF_IN_BIAS]));
    return yokei_norm_backward_weight(call, &h->norm, h->dln, call->x, call->weights[YOKEI_HALF_GAMMA], g[YOKEI_HALF_GAMMA],
                                      g[YOKEI_HALF_BETA]);
}
