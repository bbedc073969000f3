/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attention half of a GPT-2 block: y = x + proj(attention(qkv(norm(x)))).
 * W needs the norm's output, the attention's output, and the gradients of qkv and of the norm's output; B needs qkv and
 * the log-sum-exp, from which attention's backward pass rebuilds its probabilities.
 */
#include <math.h>
#include "train/layers/layers.h"

enum { LN_GAMMA, LN_BETA, QKV_WEIGHT, QKV_BIAS, PROJ_WEIGHT, PROJ_BIAS, N_PARAMETERS };

struct fields {
    void *qkv, *lse;             /* F to B: [N, 3C], [B, H, T] */
    void *ln, *mean, *rstd, *o;  /* F to W: [N, C], [N], [N], [N, C] */
    void *dqkv, *dln;            /* B to W: [N, 3C], [N, C] */
    void *d_o;                   /* workspace: [N, C] */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape, const struct yoke_layer_call *call,
                    struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_gpt2_config *c = layer->config;
    int64_t N = shape->B * shape->T, C = c->n_embd;
    size_t narrow = yoke_dtype_bytes(shape->dtype), wide = yoke_dtype_bytes(yoke_dtype_wide(shape->dtype));
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    f->qkv = yoke_part_field(call, bytes, YOKE_F_TO_B, N * 3 * C, narrow);
    f->lse = yoke_part_field(call, bytes, YOKE_F_TO_B, N * c->n_head, wide);
    f->ln = yoke_part_field(call, bytes, YOKE_F_TO_W, N * C, narrow);
    f->mean = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide);
    f->rstd = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide);
    f->o = yoke_part_field(call, bytes, YOKE_F_TO_W, N * C, narrow);
    f->dqkv = yoke_part_field(call, bytes, YOKE_B_TO_W, N * 3 * C, narrow);
    f->dln = yoke_part_field(call, bytes, YOKE_B_TO_W, N * C, narrow);
    f->d_o = yoke_part_field(call, bytes, YOKE_WORKSPACE, N * C, narrow);
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
    case LN_GAMMA: yokei_parameter(out, name, "ln_1.weight", YOKE_INIT_ONES, 0, C, 0); break;
    case LN_BETA: yokei_parameter(out, name, "ln_1.bias", YOKE_INIT_ZEROS, 0, C, 0); break;
    case QKV_WEIGHT: yokei_parameter(out, name, "attn.c_attn.weight", YOKE_INIT_NORMAL, std, C, 3 * C); break;
    case QKV_BIAS: yokei_parameter(out, name, "attn.c_attn.bias", YOKE_INIT_ZEROS, 0, 3 * C, 0); break;
    case PROJ_WEIGHT:
        std /= sqrt(2.0 * (double)c->n_layer);
        yokei_parameter(out, name, "attn.c_proj.weight", YOKE_INIT_NORMAL, std, C, C);
        break;
    case PROJ_BIAS: yokei_parameter(out, name, "attn.c_proj.bias", YOKE_INIT_ZEROS, 0, C, 0); break;
    default: return false;
    }
    return true;
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t C = c->n_embd, N = s->B * s->T, D = C / c->n_head;
    size_t part = (size_t)C * yoke_dtype_bytes(s->dtype);
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);

    struct yokei_norm norm = { N, C, (float)c->layer_norm_epsilon, f.mean, f.rstd };
    struct yokei_linear qkv = { N, C, 3 * C }, proj = { N, C, C };
    const void *const *w = call->weights;
    YOKE_TRY(yokei_norm_forward(call, &norm, call->x, w[LN_GAMMA], w[LN_BETA], f.ln));
    YOKE_TRY(yokei_linear_forward(call, &qkv, f.ln, w[QKV_WEIGHT], w[QKV_BIAS], false, false, NULL, f.qkv));
    YOKE_TRY(YOKE_CALL(call, attention_forward, .dtype = s->dtype, .causal = true, .B = s->B, .T = s->T,
                       .H = c->n_head, .Hkv = c->n_head, .D = D, .scale = (float)(1.0 / sqrt((double)D)), .q = f.qkv,
                       .ldq = 3 * C, .k = yoke_at(f.qkv, part), .ldk = 3 * C, .v = yoke_at(f.qkv, 2 * part),
                       .ldv = 3 * C, .o = f.o, .ldo = C, .lse = f.lse));
    /* The residual goes through the product's beta: x + proj(o) is rounded once. */
    YOKE_TRY(yoke_call_copy(call, call->y, call->x, (size_t)N * part));
    return yokei_linear_forward(call, &proj, f.o, w[PROJ_WEIGHT], w[PROJ_BIAS], true, false, NULL, call->y);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t C = c->n_embd, N = s->B * s->T, D = C / c->n_head;
    size_t part = (size_t)C * yoke_dtype_bytes(s->dtype);
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);

    struct yokei_norm norm = { N, C, (float)c->layer_norm_epsilon, f.mean, f.rstd };
    struct yokei_linear qkv = { N, C, 3 * C }, proj = { N, C, C };
    const void *const *w = call->weights;
    YOKE_TRY(yokei_linear_backward_input(call, &proj, call->dy, w[PROJ_WEIGHT], f.d_o));
    YOKE_TRY(YOKE_CALL(call, attention_backward, .dtype = s->dtype, .causal = true, .B = s->B, .T = s->T,
                       .H = c->n_head, .Hkv = c->n_head, .D = D, .scale = (float)(1.0 / sqrt((double)D)), .q = f.qkv,
                       .ldq = 3 * C, .k = yoke_at(f.qkv, part), .ldk = 3 * C, .v = yoke_at(f.qkv, 2 * part),
                       .ldv = 3 * C, .o = f.o, .ldo = C, .d_o = f.d_o, .lddo = C, .lse = f.lse, .dq = f.dqkv,
                       .lddq = 3 * C, .dk = yoke_at(f.dqkv, part), .lddk = 3 * C, .dv = yoke_at(f.dqkv, 2 * part),
                       .lddv = 3 * C));
    YOKE_TRY(yokei_linear_backward_input(call, &qkv, f.dqkv, w[QKV_WEIGHT], f.dln));
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
    struct yokei_linear qkv = { N, C, 3 * C }, proj = { N, C, C };
    void *const *g = call->gradients;
    YOKE_TRY(yokei_linear_backward_weight(call, &proj, f.o, call->dy, g[PROJ_WEIGHT], g[PROJ_BIAS]));
    YOKE_TRY(yokei_linear_backward_weight(call, &qkv, f.ln, f.dqkv, g[QKV_WEIGHT], g[QKV_BIAS]));
    return yokei_norm_backward_weight(call, &norm, f.dln, call->x, call->weights[LN_GAMMA], g[LN_GAMMA], g[LN_BETA]);
}

static yoke_status check(const yoke_layer *layer) { return yoke_gpt2_check(layer->config); }

const struct yoke_layer_type yoke_layer_attention = {
    .size = sizeof(struct yoke_layer_type),
    .name = "attention",
    .config_bytes = sizeof(struct yoke_gpt2_config),
    .input_until = YOKE_UNTIL_W,
    .output_until = YOKE_UNTIL_F,
    .gradient_until = YOKE_UNTIL_W,
    .check = check,
    .parameter = parameter,
    .bytes = bytes_of,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
