/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of a GPT-2 block: y = x + proj(gelu(fc(norm(x)))), with 4 C hidden features.
 * GELU is fused into the first product; its rounded argument is kept for B, its value for W.
 */
#include <math.h>
#include "train/layers/layers.h"

enum { LN_GAMMA, LN_BETA, FC_WEIGHT, FC_BIAS, PROJ_WEIGHT, PROJ_BIAS, N_PARAMETERS };

struct fields {
    void *pre;                  /* F to B: [N, 4C] */
    void *ln, *mean, *rstd, *h; /* F to W: [N, C], [N], [N], [N, 4C] */
    void *dpre, *dln;           /* B to W: [N, 4C], [N, C] */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape, const struct yoke_layer_call *call,
                    struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_gpt2_config *c = layer->config;
    int64_t N = shape->B * shape->T, C = c->n_embd;
    size_t narrow = yoke_dtype_bytes(shape->dtype), wide = yoke_dtype_bytes(yoke_dtype_wide(shape->dtype));
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    f->pre = yoke_part_field(call, bytes, YOKE_F_TO_B, N * 4 * C, narrow);
    f->ln = yoke_part_field(call, bytes, YOKE_F_TO_W, N * C, narrow);
    f->mean = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide);
    f->rstd = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide);
    f->h = yoke_part_field(call, bytes, YOKE_F_TO_W, N * 4 * C, narrow);
    f->dpre = yoke_part_field(call, bytes, YOKE_B_TO_W, N * 4 * C, narrow);
    f->dln = yoke_part_field(call, bytes, YOKE_B_TO_W, N * C, narrow);
}

static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, shape, NULL, &f, bytes);
    return bytes[part];
}

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index, struct yoke_parameter *out)
{
    const struct yoke_gpt2_config *c = layer->config;
    const char *name = layer->name;
    int64_t C = c->n_embd;
    double std = c->initializer_range;
    (void)place;
    switch (index) {
    case LN_GAMMA: yokei_parameter(out, name, "ln_2.weight", YOKE_INIT_ONES, 0, C, 0); break;
    case LN_BETA: yokei_parameter(out, name, "ln_2.bias", YOKE_INIT_ZEROS, 0, C, 0); break;
    case FC_WEIGHT: yokei_parameter(out, name, "mlp.c_fc.weight", YOKE_INIT_NORMAL, std, C, 4 * C); break;
    case FC_BIAS: yokei_parameter(out, name, "mlp.c_fc.bias", YOKE_INIT_ZEROS, 0, 4 * C, 0); break;
    case PROJ_WEIGHT:
        std /= sqrt(2.0 * (double)c->n_layer);
        yokei_parameter(out, name, "mlp.c_proj.weight", YOKE_INIT_NORMAL, std, 4 * C, C);
        break;
    case PROJ_BIAS: yokei_parameter(out, name, "mlp.c_proj.bias", YOKE_INIT_ZEROS, 0, C, 0); break;
    default: return false;
    }
    return true;
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t C = c->n_embd, N = s->B * s->T;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);

    struct yokei_norm norm = { N, C, (float)c->layer_norm_epsilon, f.mean, f.rstd };
    struct yokei_linear fc = { N, C, 4 * C }, proj = { N, 4 * C, C };
    const void *const *w = call->weights;
    YOKE_TRY(yokei_norm_forward(call, &norm, call->x, w[LN_GAMMA], w[LN_BETA], f.ln));
    YOKE_TRY(yokei_linear_forward(call, &fc, f.ln, w[FC_WEIGHT], w[FC_BIAS], false, true, f.pre, f.h));
    YOKE_TRY(yoke_call_copy(call, call->y, call->x, (size_t)(N * C) * yoke_dtype_bytes(s->dtype)));
    return yokei_linear_forward(call, &proj, f.h, w[PROJ_WEIGHT], w[PROJ_BIAS], true, false, NULL, call->y);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t C = c->n_embd, N = s->B * s->T;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);

    struct yokei_norm norm = { N, C, (float)c->layer_norm_epsilon, f.mean, f.rstd };
    struct yokei_linear fc = { N, C, 4 * C }, proj = { N, 4 * C, C };
    const void *const *w = call->weights;
    YOKE_TRY(yokei_linear_backward_input(call, &proj, call->dy, w[PROJ_WEIGHT], f.dpre));
    YOKE_TRY(YOKE_CALL(call, gelu_backward, .dtype = s->dtype, .n = N * 4 * C, .x = f.pre, .dy = f.dpre, .dx = f.dpre));
    YOKE_TRY(yokei_linear_backward_input(call, &fc, f.dpre, w[FC_WEIGHT], f.dln));
    return yokei_norm_backward_input(call, &norm, f.dln, call->x, w[LN_GAMMA], call->dy, call->dx);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t C = c->n_embd, N = s->B * s->T;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);

    struct yokei_norm norm = { N, C, (float)c->layer_norm_epsilon, f.mean, f.rstd };
    struct yokei_linear fc = { N, C, 4 * C }, proj = { N, 4 * C, C };
    void *const *g = call->gradients;
    YOKE_TRY(yokei_linear_backward_weight(call, &proj, f.h, call->dy, g[PROJ_WEIGHT], g[PROJ_BIAS]));
    YOKE_TRY(yokei_linear_backward_weight(call, &fc, f.ln, f.dpre, g[FC_WEIGHT], g[FC_BIAS]));
    return yokei_norm_backward_weight(call, &norm, f.dln, call->x, call->weights[LN_GAMMA], g[LN_GAMMA], g[LN_BETA]);
}

const struct yoke_layer_type yoke_layer_mlp = {
    .size = sizeof(struct yoke_layer_type),
    .name = "mlp",
    .config_bytes = sizeof(struct yoke_gpt2_config),
    .input_until = YOKE_UNTIL_W,
    .output_until = YOKE_UNTIL_F,
    .gradient_until = YOKE_UNTIL_W,
    .parameter = parameter,
    .bytes = bytes_of,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
