/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attention sub-layer of a GPT-2 block: y = x + proj(attention(qkv(norm(x)))). W needs the norm's output,
 * the attention's output, and the gradient of qkv. B computes the gradients of the norm's parameters. B needs
 * qkv and the log-sum-exp, from which the backward pass of attention computes the probabilities again.
 */
#include <math.h>
#include "train/layers/layers.h"

static const struct yokei_gpt2_type sublayer_type = { "ln_1", "attn.c_attn", "attn.c_proj", 3, 1, true };

struct fields {
    struct yokei_gpt2_sublayer sublayer; /* inner: qkv [N, 3 H D]; outer: the attention's output [N, H D] */
    int64_t H, D;                        /* heads of this rank, and channels of each head */
    int64_t first;                       /* index of this rank's first head among all heads */
    int64_t ld;                          /* H D, the width of q, k and v in a row of qkv */
    size_t part;                         /* bytes from q to k, and from k to v */
    void *lse;                           /* stash from F to B: [B, H, T] */
    void *d_o;                           /* workspace: [N, H D] */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_gpt2_config *c = layer->config;
    yokei_gpt2_lay_out(&sublayer_type, layer, shape, call, &f->sublayer, bytes);
    const int64_t N = f->sublayer.out.N, width = f->sublayer.out.in;
    f->D = c->n_embd / c->n_head;
    f->H = width / f->D;
    f->first = yoke_place_range(shape->place, c->n_head).begin;
    f->ld = width;
    f->part = (size_t)width * yoke_dtype_bytes(shape->dtype);
    f->lse = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, N * f->H,
                             yoke_dtype_bytes(yoke_dtype_wide(shape->dtype)));
    f->d_o = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, N * width, yoke_dtype_bytes(shape->dtype));
}

YOKEI_BYTES_OF

/*
 * The geometry and inputs of the attention, which both directions share. q, k and v lie side by side in the
 * rows of qkv.
 */
#define ATTENTION_OF(s, f)                                                                               \
    .head_start = (f).first,                                                                             \
    .p = yokei_drop_p(s, ((const struct yoke_gpt2_config *)layer->config)->attn_pdrop),                  \
    .key = yokei_drop_key(layer, call, "probabilities"), .sample_start = call->pass->sample_offset,      \
    .dtype = (s)->dtype, .causal = true, .B = (s)->B, .T = (s)->T, .H = (f).H, .Hkv = (f).H, .D = (f).D, \
    .scale = (float)(1.0 / sqrt((double)(f).D)), .q = (f).sublayer.inner, .ldq = 3 * (f).ld,             \
    .k = yoke_at((f).sublayer.inner, (f).part), .ldk = 3 * (f).ld,                                       \
    .v = yoke_at((f).sublayer.inner, 2 * (f).part), .ldv = 3 * (f).ld, .o = (f).sublayer.outer,          \
    .ldo = (f).ld, .lse = (f).lse

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_shape *s = call->shape;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);
    YOKE_TRY(yokei_gpt2_enter(call, &f.sublayer, false));
    YOKE_TRY(YOKE_CALL(call, attention_forward, ATTENTION_OF(s, f)));
    return yokei_gpt2_leave(call, &f.sublayer);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_shape *s = call->shape;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);
    void *dqkv = f.sublayer.dinner;
    YOKE_TRY(yokei_gpt2_backward_leave(call, &f.sublayer, f.d_o));
    YOKE_TRY(YOKE_CALL(call, attention_backward, ATTENTION_OF(s, f), .d_o = f.d_o, .lddo = f.ld, .dq = dqkv,
                       .lddq = 3 * f.ld, .dk = yoke_at(dqkv, f.part), .lddk = 3 * f.ld,
                       .dv = yoke_at(dqkv, 2 * f.part), .lddv = 3 * f.ld));
    return yokei_gpt2_backward_enter(call, &f.sublayer);
}

static yoke_status check(const yoke_layer *layer, const struct yoke_place *place)
{
    const struct yoke_gpt2_config *c = layer->config;
    YOKE_TRY(yoke_gpt2_check(c));
    return yokei_deal_check(layer, place, c->n_head, "heads");
}

YOKEI_SUBLAYER(gpt2, attention);
