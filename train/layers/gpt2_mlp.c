/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MLP sub-layer of a GPT-2 block: y = x + proj(gelu(fc(norm(x)))), with 4 C hidden features. GELU is
 * fused into the first product. Its rounded argument is kept for B, and its value for W.
 */
#include "train/layers/layers.h"

static const struct yokei_gpt2_type sublayer_type = { "ln_2", "mlp.c_fc", "mlp.c_proj", 1, 4, false };

static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    struct yokei_gpt2_sublayer sub;
    size_t bytes[YOKE_N_PARTS];
    yokei_gpt2_lay_out(&sublayer_type, layer, shape, NULL, &sub, bytes);
    return bytes[part];
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_gpt2_sublayer sub;
    size_t bytes[YOKE_N_PARTS];
    yokei_gpt2_lay_out(&sublayer_type, layer, call->shape, call, &sub, bytes);
    YOKE_TRY(yokei_gpt2_enter(call, &sub, true));
    return yokei_gpt2_leave(call, &sub);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_gpt2_sublayer sub;
    size_t bytes[YOKE_N_PARTS];
    yokei_gpt2_lay_out(&sublayer_type, layer, call->shape, call, &sub, bytes);
    YOKE_TRY(yokei_gpt2_backward_leave(call, &sub, sub.dinner));
    YOKE_TRY(YOKE_CALL(call, gelu_backward, .dtype = call->shape->dtype, .n = sub.in.N * sub.in.out,
                       .x = sub.inner, .dy = sub.dinner, .dx = sub.dinner));
    return yokei_gpt2_backward_enter(call, &sub);
}

static yoke_status check(const yoke_layer *layer, const struct yoke_place *place)
{
    int64_t width;
    return yokei_deal_check(layer, place, yokei_gpt2_units(&sublayer_type, layer, &width), "hidden features");
}

YOKEI_SUBLAYER(gpt2, mlp);
