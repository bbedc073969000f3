/* SPDX-License-Identifier: Apache-2.0 */
/* The layer norm in front of the head. */
#include "train/layers/layers.h"

struct fields {
    int64_t N;         /* own rows */
    void *mean, *rstd; /* F to W: [N] */
};

static void lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, struct fields *f,
                    size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_range own = yoke_place_rows(shape->place, shape->B * shape->T);
    const int64_t N = own.end - own.begin;
    size_t wide = yoke_dtype_bytes(yoke_dtype_wide(shape->dtype));
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    f->N = N;
    f->mean = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide);
    f->rstd = yoke_part_field(call, bytes, YOKE_F_TO_W, N, wide);
}

static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    (void)layer;
    lay_out(shape, NULL, &f, bytes);
    return bytes[part];
}

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index, struct yoke_parameter *out)
{
    const struct yoke_gpt2_config *c = layer->config;
    if (index == 0) yokei_parameter(out, NULL, "ln_f.weight", YOKE_INIT_ONES, 0, c->n_embd, 0);
    else if (index == 1) yokei_parameter(out, NULL, "ln_f.bias", YOKE_INIT_ZEROS, 0, c->n_embd, 0);
    if (index < 2) yokei_replicate(out, place, true);
    return index < 2;
}

static struct yokei_norm norm_of(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(call->shape, call, &f, bytes);
    return (struct yokei_norm){ f.N, c->n_embd, (float)c->layer_norm_epsilon, f.mean, f.rstd };
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_norm norm = norm_of(layer, call);
    return yokei_norm_forward(call, &norm, call->x, call->weights[0], call->weights[1], call->y);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_norm norm = norm_of(layer, call);
    return yokei_norm_backward_input(call, &norm, call->dy, call->x, call->weights[0], NULL, call->dx);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_norm norm = norm_of(layer, call);
    return yokei_norm_backward_weight(call, &norm, call->dy, call->x, call->weights[0], call->gradients[0],
                                      call->gradients[1]);
}

const struct yoke_layer_type yoke_layer_norm = {
    .size = sizeof(struct yoke_layer_type),
    .name = "norm",
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
