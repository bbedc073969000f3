/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding of tokens and learnt positions: y = wte[token] + wpe[position]. The first layer: it has no input. */
#include "train/layers/layers.h"

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index, struct yoke_parameter *out)
{
    const struct yoke_gpt2_config *c = layer->config;
    (void)place;
    if (index == 0)
        yokei_parameter(out, NULL, "wte.weight", YOKE_INIT_NORMAL, c->initializer_range, c->vocab_size, c->n_embd);
    else if (index == 1)
        yokei_parameter(out, NULL, "wpe.weight", YOKE_INIT_NORMAL, c->initializer_range, c->n_positions, c->n_embd);
    return index < 2;
}

static size_t bytes(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    (void)layer, (void)shape, (void)part;
    return 0;
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    return YOKE_CALL(call, embed_forward, .dtype = s->dtype, .N = s->B * s->T, .T = s->T, .C = c->n_embd,
                     .V = c->vocab_size, .pos_start = call->pass->token_offset, .tokens = call->tokens,
                     .wte = call->weights[0], .wpe = call->weights[1], .y = call->y);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    return YOKE_CALL(call, embed_backward, .dtype = s->dtype, .N = s->B * s->T, .T = s->T, .C = c->n_embd,
                     .V = c->vocab_size, .pos_start = call->pass->token_offset, .tokens = call->tokens,
                     .dy = call->dy, .dwte = call->gradients[0], .dwpe = call->gradients[1]);
}

const struct yoke_layer_type yoke_layer_embedding = {
    .size = sizeof(struct yoke_layer_type),
    .name = "embedding",
    .config_bytes = sizeof(struct yoke_gpt2_config),
    .input_until = YOKE_UNTIL_F,
    .output_until = YOKE_UNTIL_F,
    .gradient_until = YOKE_UNTIL_W,
    .parameter = parameter,
    .bytes = bytes,
    .forward = forward,
    .backward_weight = backward_weight,
};
