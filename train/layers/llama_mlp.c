/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of a Llama block: y = x + down(silu(gate) * up), with gate and up of norm(x). They lie side
 * by side in inner.
 */
#include "train/layers/layers.h"

static void describe(const yoke_layer *layer, const struct yoke_place *place,
                     struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN], int64_t *outer, struct yoke_range *held)
{
    const struct yoke_llama_config *c = layer->config;
    const struct yoke_range own = yoke_place_range(place, c->intermediate_size);
    in[0] = (struct yokei_llama_in){ "mlp.gate_proj", c->intermediate_size, own, own };
    in[1] = (struct yokei_llama_in){ "mlp.up_proj", c->intermediate_size, own, own };
    *outer = c->intermediate_size;
    *held = own;
}

static const struct yokei_llama_type half_type = { "post_attention_layernorm", "mlp.down_proj", 2, describe };

struct fields {
    struct yokei_llama_half half; /* inner: gate and up [N, 2 F]; outer: [N, F] */
    void *douter;                 /* workspace: [N, F] */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    yokei_llama_lay_out(&half_type, layer, shape, call, &f->half, bytes);
    f->douter = yoke_part_field(call, bytes, YOKE_WORKSPACE, f->half.rows.N * f->half.outer_width,
                                yoke_dtype_bytes(shape->dtype));
}

YOKEI_BYTES_OF

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                      struct yoke_parameter *out)
{
    return yokei_llama_parameter(&half_type, layer, place, index, out);
}

/* The bytes from gate to up in a row of inner. */
static size_t up_of(const struct yoke_layer_call *call, const struct yokei_llama_half *h)
{
    return (size_t)h->outer_width * yoke_dtype_bytes(call->shape->dtype);
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    const struct yokei_llama_half *h = &f.half;
    YOKE_TRY(yokei_llama_enter(call, h));
    YOKE_TRY(YOKE_CALL(call, swiglu_forward, .dtype = call->shape->dtype, .N = h->rows.N, .F = h->outer_width,
                       .gate = h->inner, .ldgate = h->width, .up = yoke_at(h->inner, up_of(call, h)),
                       .ldup = h->width, .y = h->outer, .ldy = h->outer_width));
    return yokei_llama_leave(call, h);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    const struct yokei_llama_half *h = &f.half;
    void *dgate = h->dinner, *dup = yoke_at(h->dinner, up_of(call, h));
    YOKE_TRY(yokei_llama_backward_leave(call, h, f.douter));
    YOKE_TRY(YOKE_CALL(call, swiglu_backward, .dtype = call->shape->dtype, .N = h->rows.N,
                       .F = h->outer_width, .gate = h->inner, .ldgate = h->width,
                       .up = yoke_at(h->inner, up_of(call, h)), .ldup = h->width, .dy = f.douter,
                       .lddy = h->outer_width, .dgate = dgate, .lddgate = h->width, .dup = dup,
                       .lddup = h->width));
    return yokei_llama_backward_enter(call, h);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    const struct yokei_llama_half *h = &f.half;
    return yokei_llama_backward_weight(call, h);
}

static yoke_status check(const yoke_layer *layer, const struct yoke_place *place)
{
    const struct yoke_llama_config *c = layer->config;
    return yokei_deal_check(layer, place, c->intermediate_size, "hidden features");
}

const struct yoke_layer_type yoke_layer_llama_mlp = {
    .size = sizeof(struct yoke_layer_type),
    .name = "mlp",
    .config_bytes = sizeof(struct yoke_llama_config),
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
