/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MLP sub-layer of a Llama block: y = x + down(silu(gate) * up), with gate and up of norm(x). They lie
 * side by side in inner.
 */
#include "train/layers/layers.h"

static void describe(const yoke_layer *layer, const struct yoke_place *place,
                     struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN], int64_t *outer, struct yoke_range *held)
{
    const struct yoke_llama_config *c = layer->config;
    const struct yoke_range own = yoke_place_range(place, c->intermediate_size);
    in[0] = (struct yokei_llama_in){ "mlp.gate_proj", c->intermediate_size, own, own, false };
    in[1] = (struct yokei_llama_in){ "mlp.up_proj", c->intermediate_size, own, own, false };
    *outer = c->intermediate_size;
    *held = own;
}

static const struct yokei_llama_type sublayer_type = { "post_attention_layernorm", "mlp.down_proj", 2,
                                                       describe };

struct fields {
    struct yokei_llama_sublayer sublayer; /* inner: gate and up [N, 2 F]; outer: [N, F] */
    void *douter;                         /* workspace: [N, F] */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    yokei_llama_lay_out(&sublayer_type, layer, shape, call, &f->sublayer, bytes);
    f->douter = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE,
                                f->sublayer.rows.N * f->sublayer.outer_width, yoke_dtype_bytes(shape->dtype));
}

YOKEI_BYTES_OF

/* The bytes from gate to up in a row of inner. */
static size_t up_of(const struct yoke_layer_call *call, const struct yokei_llama_sublayer *sub)
{
    return (size_t)sub->outer_width * yoke_dtype_bytes(call->shape->dtype);
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    const struct yokei_llama_sublayer *sub = &f.sublayer;
    YOKE_TRY(yokei_llama_enter(call, sub));
    YOKE_TRY(YOKE_CALL(call, swiglu_forward, .dtype = call->shape->dtype, .N = sub->rows.N,
                       .F = sub->outer_width, .gate = sub->inner, .ldgate = sub->width,
                       .up = yoke_at(sub->inner, up_of(call, sub)), .ldup = sub->width, .y = sub->outer,
                       .ldy = sub->outer_width));
    return yokei_llama_leave(call, sub);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    const struct yokei_llama_sublayer *sub = &f.sublayer;
    void *dgate = sub->dinner, *dup = yoke_at(sub->dinner, up_of(call, sub));
    YOKE_TRY(yokei_llama_backward_leave(call, sub, f.douter));
    YOKE_TRY(YOKE_CALL(call, swiglu_backward, .dtype = call->shape->dtype, .N = sub->rows.N,
                       .F = sub->outer_width, .gate = sub->inner, .ldgate = sub->width,
                       .up = yoke_at(sub->inner, up_of(call, sub)), .ldup = sub->width, .dy = f.douter,
                       .lddy = sub->outer_width, .dgate = dgate, .lddgate = sub->width, .dup = dup,
                       .lddup = sub->width));
    return yokei_llama_backward_enter(call, sub);
}

static yoke_status check(const yoke_layer *layer, const struct yoke_place *place)
{
    const struct yoke_llama_config *c = layer->config;
    return yokei_deal_check(layer, place, c->intermediate_size, "hidden features");
}

YOKEI_SUBLAYER(llama, mlp);
