/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head: logits = x wte^T, tied to the embedding, and the softmax cross-entropy of each token.
 * The logits are the layer's output y; B turns them into their own gradient in place, and W reads that.
 */
#include "train/layers/layers.h"

static void *lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, size_t bytes[YOKE_N_PARTS])
{
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    return yoke_part_field(call, bytes, YOKE_F_TO_B, shape->B * shape->T,
                           yoke_dtype_bytes(yoke_dtype_wide(shape->dtype))); /* lse [N] */
}

static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    size_t bytes[YOKE_N_PARTS];
    (void)layer;
    lay_out(shape, NULL, bytes);
    return bytes[part];
}

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index, struct yoke_parameter *out)
{
    const struct yoke_gpt2_config *c = layer->config;
    (void)place;
    if (index > 0) return false;
    yokei_parameter(out, NULL, "wte.weight", YOKE_INIT_NORMAL, c->initializer_range, c->vocab_size, c->n_embd);
    return true;
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t N = s->B * s->T, C = c->n_embd, V = c->vocab_size;
    size_t bytes[YOKE_N_PARTS];
    void *lse = lay_out(s, call, bytes);
    YOKE_TRY(YOKE_CALL(call, gemm, .dtype = s->dtype, .out_dtype = s->dtype, .trans_b = true, .M = N, .N = V, .K = C,
                       .batch = 1, .a = call->x, .lda = C, .b = call->weights[0], .ldb = C, .c = call->y, .ldc = V,
                       .alpha = 1.0f));
    return YOKE_CALL(call, xent_forward, .dtype = s->dtype, .N = N, .V = V, .logits = call->y, .ld = V,
                     .targets = call->targets, .lse = lse, .losses = call->losses);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t N = s->B * s->T, C = c->n_embd, V = c->vocab_size;
    size_t bytes[YOKE_N_PARTS];
    void *lse = lay_out(s, call, bytes);
    float scale = (float)((double)call->pass->loss_scale / (double)call->pass->normaliser);
    YOKE_TRY(YOKE_CALL(call, xent_backward, .dtype = s->dtype, .N = N, .V = V, .logits = call->y, .ld = V,
                       .targets = call->targets, .lse = lse, .scale = scale, .dlogits = call->y, .lddlogits = V));
    return YOKE_CALL(call, gemm, .dtype = s->dtype, .out_dtype = s->dtype, .M = N, .N = C, .K = V, .batch = 1,
                     .a = call->y, .lda = V, .b = call->weights[0], .ldb = C, .c = call->dx, .ldc = C, .alpha = 1.0f);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_gpt2_config *c = layer->config;
    const struct yoke_shape *s = call->shape;
    int64_t N = s->B * s->T, C = c->n_embd, V = c->vocab_size;
    return YOKE_CALL(call, gemm, .dtype = s->dtype, .out_dtype = yoke_dtype_wide(s->dtype), .trans_a = true, .M = V,
                     .N = C, .K = N, .batch = 1, .a = call->y, .lda = V, .b = call->x, .ldb = C,
                     .c = call->gradients[0], .ldc = C, .alpha = 1.0f, .beta = 1.0f);
}

const struct yoke_layer_type yoke_layer_head = {
    .size = sizeof(struct yoke_layer_type),
    .name = "head",
    .config_bytes = sizeof(struct yoke_gpt2_config),
    .input_until = YOKE_UNTIL_W,
    .output_until = YOKE_UNTIL_W,
    .gradient_until = YOKE_UNTIL_F,
    .parameter = parameter,
    .bytes = bytes_of,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
