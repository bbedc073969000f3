/* SPDX-License-Identifier: Apache-2.0 */
/* The RMS norm before Llama's head. */
#include "train/layers/layers.h"

struct fields {
    int64_t N, C; /* own rows */
    void *rstd;   /* stash from F to B: [N] */
    void *dgamma; /* stash from B to W: [C] */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_llama_config *c = layer->config;
    const struct yoke_range own = yoke_place_rows(shape->place, shape->B * shape->T);
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    f->N = own.end - own.begin;
    f->C = c->hidden_size;
    f->rstd = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, f->N,
                              yoke_dtype_bytes(yoke_dtype_wide(shape->dtype)));
    f->dgamma = yoke_part_field(shape, call, bytes, YOKE_B_TO_W, f->C,
                                yoke_dtype_bytes(yoke_dtype_wide(shape->dtype)));
}

YOKEI_BYTES_OF

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                      struct yoke_parameter *out)
{
    const struct yoke_llama_config *c = layer->config;
    if (index != 0) return false;
    yokei_parameter(out, NULL, "model.norm.weight", YOKE_INIT_ONES, 0, c->hidden_size, 0);
    yokei_replicate(out, place, true);
    return true;
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_llama_config *c = layer->config;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    return YOKE_CALL(call, rmsnorm_forward, .dtype = call->shape->dtype, .N = f.N, .C = f.C, .x = call->x,
                     .ldx = f.C, .gamma = call->weights[0], .eps = (float)c->rms_norm_eps, .y = call->y,
                     .ldy = f.C, .rstd = f.rstd);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    YOKE_TRY(
        yoke_call_zero(call, f.dgamma, (size_t)f.C * yoke_dtype_bytes(yoke_dtype_wide(call->shape->dtype))));
    return YOKE_CALL(call, rmsnorm_backward, .dtype = call->shape->dtype, .N = f.N, .C = f.C, .dy = call->dy,
                     .lddy = f.C, .x = call->x, .ldx = f.C, .gamma = call->weights[0], .rstd = f.rstd,
                     .dx = call->dx, .lddx = f.C, .dgamma = f.dgamma);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    return yokei_gradient_add(call, 0, f.dgamma, f.C);
}

const struct yoke_layer_type yoke_layer_llama_norm = YOKEI_LAYER_TYPE(
    "norm", yoke_llama_config, YOKE_UNTIL_B, YOKE_UNTIL_F, YOKE_UNTIL_B, .backward_input = backward_input);
