/* SPDX-License-Identifier: Apache-2.0 */
/* The layer norm before GPT-2's head. */
#include "train/layers/layers.h"

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct yokei_norm *n, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_range own = yoke_place_rows(shape->place, shape->B * shape->T);
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    yokei_norm_lay_out(shape, call, own.end - own.begin, c->n_embd, c->layer_norm_epsilon, n, bytes);
}

static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    struct yokei_norm n;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, shape, NULL, &n, bytes);
    return bytes[part];
}

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                      struct yoke_parameter *out)
{
    const struct yoke_gpt2_config *c = layer->config;
    if (index == 0)
        yokei_parameter(out, NULL, "ln_f.weight", YOKE_INIT_ONES, 0, c->n_embd, 0);
    else if (index == 1)
        yokei_parameter(out, NULL, "ln_f.bias", YOKE_INIT_ZEROS, 0, c->n_embd, 0);
    if (index < 2) yokei_replicate(out, place, true);
    return index < 2;
}

static struct yokei_norm norm_of(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_norm n;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &n, bytes);
    return n;
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
    return yokei_norm_backward_weight(call, &norm, 0, 1);
}

const struct yoke_layer_type yoke_layer_gpt2_norm = YOKEI_LAYER_TYPE(
    "norm", yoke_gpt2_config, YOKE_UNTIL_B, YOKE_UNTIL_F, YOKE_UNTIL_B, .backward_input = backward_input);
