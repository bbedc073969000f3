/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attention sub-layer of a Llama block: y = x + o(attention(rope(q), rope(k), v)), with q, k, v of
 * norm(x) and grouped query heads. q, k and v may have biases. They lie side by side in inner. One call
 * rotates q and k in place, and they stay rotated for B. B rotates their gradients back.
 */
#include <math.h>
#include "core/base/base.h"
#include "train/layers/layers.h"

/* Whether every rank's query heads are whole groups. Then the K/V heads can be divided with them. */
static bool are_groups_whole(const struct yoke_llama_config *c, const struct yoke_place *place)
{
    const int64_t group = c->num_attention_heads / c->num_key_value_heads;
    for (int r = 0; yokei_is_dealt(place) && r < place->tensor_size; r++) {
        struct yoke_place other = *place;
        other.tensor_rank = r;
        if (yoke_place_range(&other, c->num_attention_heads).begin % group) return false;
    }
    return true;
}

static void describe(const yoke_layer *layer, const struct yoke_place *place,
                     struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN], int64_t *outer, struct yoke_range *held)
{
    static const char *const names[YOKEI_LLAMA_MOST_IN] = { "self_attn.q_proj", "self_attn.k_proj",
                                                            "self_attn.v_proj" };
    const struct yoke_llama_config *c = layer->config;
    const int64_t D = yokei_llama_head_dim(c), H = c->num_attention_heads, Hkv = c->num_key_value_heads,
                  group = H / Hkv;
    const struct yoke_range q = yoke_place_range(place, H);
    const struct yoke_range kv = { q.begin / group,
                                   q.end > q.begin ? (q.end - 1) / group + 1 : q.begin / group };
    const bool dealt = are_groups_whole(c, place);
    for (int i = 0; i < YOKEI_LLAMA_MOST_IN; i++) {
        const struct yoke_range used = i ? kv : q;
        in[i] = (struct yokei_llama_in){
            .name = names[i],
            .whole = (i ? Hkv : H) * D,
            .held = { used.begin * D, used.end * D },
            .used = { used.begin * D, used.end * D },
            .has_bias = c->qkv_bias,
        };
        if (i && !dealt) in[i].held = (struct yoke_range){ 0, Hkv * D };
    }
    *outer = H * D;
    *held = in[0].held;
}

static const struct yokei_llama_type sublayer_type = { "input_layernorm", "self_attn.o_proj", 3, describe };

struct fields {
    /* inner: q, k, v [N, (H + 2 Hkv) D]; outer: the attention's output [N, H D] */
    struct yokei_llama_sublayer sublayer;
    int64_t D, H, Hkv;    /* channels of a head, and numbers of heads on this rank */
    int64_t first, group; /* index of its first query head, and the number of query heads per K/V head */
    size_t k, v;          /* the bytes at which k and v begin in the rows of inner */
    void *lse;            /* stash from F to B: [B, H, T] */
    void *d_o;            /* workspace: [N, H D] */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_llama_config *c = layer->config;
    yokei_llama_lay_out(&sublayer_type, layer, shape, call, &f->sublayer, bytes);
    const struct yokei_llama_in *in = f->sublayer.in;
    f->D = yokei_llama_head_dim(c);
    f->H = (in[0].used.end - in[0].used.begin) / f->D;
    f->Hkv = (in[1].used.end - in[1].used.begin) / f->D;
    f->first = in[0].used.begin / f->D;
    f->group = c->num_attention_heads / c->num_key_value_heads;
    f->k = (size_t)(f->H * f->D) * yoke_dtype_bytes(shape->dtype);
    f->v = f->k + (size_t)(f->Hkv * f->D) * yoke_dtype_bytes(shape->dtype);
    f->lse = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, f->sublayer.rows.N * f->H,
                             yoke_dtype_bytes(yoke_dtype_wide(shape->dtype)));
    f->d_o = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, f->sublayer.rows.N * f->H * f->D,
                             yoke_dtype_bytes(shape->dtype));
}

YOKEI_BYTES_OF

/* The geometry and inputs of the attention, which both directions share. */
#define ATTENTION_OF(c, s, f)                                                                              \
    .dtype = (s)->dtype, .causal = true, .B = (s)->B, .T = (s)->T, .H = (f).H, .Hkv = (f).Hkv, .D = (f).D, \
    .head_start = (f).first, .group = (f).group, .scale = (float)(1.0 / sqrt((double)(f).D)),              \
    .p = yokei_drop_p(s, (c)->attention_dropout), .key = yokei_drop_key(layer, call, "probabilities"),     \
    .sample_start = call->pass->sample_offset, .q = (f).sublayer.inner, .ldq = (f).sublayer.width,         \
    .k = yoke_at((f).sublayer.inner, (f).k), .ldk = (f).sublayer.width,                                    \
    .v = yoke_at((f).sublayer.inner, (f).v), .ldv = (f).sublayer.width, .o = (f).sublayer.outer,           \
    .ldo = (f).sublayer.outer_width, .lse = (f).lse

/* Rotate q and k, which lie side by side. With `inverse`, rotate their gradients back. */
static yoke_status turn(const yoke_layer *layer, const struct yoke_layer_call *call, const struct fields *f,
                        void *qkv, bool inverse)
{
    const struct yoke_llama_config *c = layer->config;
    return YOKE_CALL(call, rope, .dtype = call->shape->dtype, .N = f->sublayer.rows.N, .T = call->shape->T,
                     .H = f->H + f->Hkv, .D = f->D, .pos_start = call->pass->token_offset,
                     .theta = c->rope_theta, .inverse = inverse, .x = qkv, .ldx = f->sublayer.width);
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_llama_config *c = layer->config;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    if (c->sliding_window && call->shape->T > c->sliding_window)
        return yoke_fail(
            YOKE_ECONFIG,
            "layer %s: sequences of %lld tokens are longer than its sliding window of %lld, which Yoke does not compute: "
            "take sequences of at most %lld tokens",
            layer->name, (long long)call->shape->T, (long long)c->sliding_window,
            (long long)c->sliding_window);
    YOKE_TRY(yokei_llama_enter(call, &f.sublayer));
    YOKE_TRY(turn(layer, call, &f, f.sublayer.inner, false));
    YOKE_TRY(YOKE_CALL(call, attention_forward, ATTENTION_OF(c, call->shape, f)));
    return yokei_llama_leave(call, &f.sublayer);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_llama_config *c = layer->config;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, &f, bytes);
    void *dqkv = f.sublayer.dinner;
    YOKE_TRY(yokei_llama_backward_leave(call, &f.sublayer, f.d_o));
    YOKE_TRY(YOKE_CALL(call, attention_backward, ATTENTION_OF(c, call->shape, f), .d_o = f.d_o,
                       .lddo = f.sublayer.outer_width, .dq = dqkv, .lddq = f.sublayer.width,
                       .dk = yoke_at(dqkv, f.k), .lddk = f.sublayer.width, .dv = yoke_at(dqkv, f.v),
                       .lddv = f.sublayer.width));
    YOKE_TRY(turn(layer, call, &f, dqkv, true));
    return yokei_llama_backward_enter(call, &f.sublayer);
}

static yoke_status check(const yoke_layer *layer, const struct yoke_place *place)
{
    const struct yoke_llama_config *c = layer->config;
    YOKE_TRY(yoke_llama_check(c));
    return yokei_deal_check(layer, place, c->num_attention_heads, "heads");
}

YOKEI_SUBLAYER(llama, attention);
