/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of a GPT-2 block: y = x + proj(gelu(fc(norm(x)))), with 4 C hidden features. GELU is fused
 * into the first product. Its rounded argument is kept for B, and its value for W.
 */
#include "train/layers/layers.h"

static const struct yokei_half_type half_type = { "ln_2", "mlp.c_fc", "mlp.c_proj", 1, 4, false };

static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)
{
    struct yokei_half h;
    size_t bytes[YOKE_N_PARTS];
    yokei_half_lay_out(&half_type, layer, shape, NULL, &h, bytes);
    return bytes[part];
}

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                      struct yoke_parameter *out)
{
    return yokei_half_parameter(&half_type, layer, place, index, out);
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_half h;
    size_t bytes[YOKE_N_PARTS];
    yokei_half_lay_out(&half_type, layer, call->shape, call, &h, bytes);
    YOKE_TRY(yokei_half_enter(call, &h, true));
    return yokei_half_leave(call, &h);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_half h;
    size_t bytes[YOKE_N_PARTS];
    yokei_half_lay_out(&half_type, layer, call->shape, call, &h, bytes);
    YOKE_TRY(yokei_half_backward_leave(call, &h, h.dinner));
    YOKE_TRY(YOKE_CALL(call, gelu_backward, .dtype = call->shape->dtype, .n = h.in.N * h.in.out, .x = h.inner,
                       .dy = h.dinner, .dx = h.dinner));
    return yokei_half_backward_enter(call, &h);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct yokei_half h;
    size_t bytes[YOKE_N_PARTS];
    yokei_half_lay_out(&half_type, layer, call->shape, call, &h, bytes);
    return yokei_half_backward_weight(call, &h);
}

static yoke_status check(const yoke_layer *layer, const struct yoke_place *place)
{
    int64_t width;
    return yokei_deal_check(layer, place, yokei_half_units(&half_type, layer, &width), "hidden features");
}

const struct yoke_layer_type yoke_layer_mlp = {
    .size = sizeof(struct yoke_layer_type),
    .name = "mlp",
    .config_bytes = sizeof(struct yoke_gpt2_config),
    .input_until = YOKE_UNTIL_B,
    .output_until = YOKE_UNTIL_F,
    .gradient_until = YOKE_UNTIL_W,
    .check = check,
    .parameter = parameter,
    .bytes = bytes_of,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
