/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedding of tokens, and for GPT-2 also of learnt positions: y = wte[token] [+ wpe[position]]. It is the
 * first layer and has no input. Ranks that share the layer divide the words. Each rank looks up its own
 * words, and one of them adds the positions. The sum over the ranks is done in the type of y. At most two of
 * the summed numbers are not 0, so the sum is rounded in the same way as on one rank alone.
 */
#include "train/layers/layers.h"

static struct yoke_range words(const yoke_layer *layer, const struct yoke_place *place)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    return yoke_place_range(place, c.V);
}

struct fields {
    struct yokei_rows rows;
    float drop;    /* probability that an element of y is dropped */
    void *dropped; /* workspace: dy of own rows after dropout; NULL: there is no dropout */
};

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    yokei_rows_lay_out(shape, call, c.C, shape->dtype, &f->rows, bytes);
    f->drop = yokei_drop_p(shape, c.drop);
    f->dropped = f->drop > 0 ? yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, f->rows.n_own * f->rows.C,
                                               yoke_dtype_bytes(shape->dtype))
                             : NULL;
}

YOKEI_BYTES_OF

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                      struct yoke_parameter *out)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    if (index == 0) {
        yokei_parameter(out, NULL, c.embedding, YOKE_INIT_NORMAL, c.std, c.V, c.C);
        yokei_deal(&out->shard[0], place, c.V, 1, 1);
    } else if (index == 1 && c.n_positions) {
        yokei_parameter(out, NULL, c.positions, YOKE_INIT_NORMAL, c.std, c.n_positions, c.C);
        yokei_replicate(out, place, false); /* W has dy of all rows, because it needs them for its words */
    }
    out->overwrites = false; /* W writes only rows of words that occur */
    return index < (c.n_positions ? 2 : 1);
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    const struct yoke_shape *s = call->shape;
    const struct yoke_range own = words(layer, s->place);
    const bool adds = c.n_positions && (!yokei_is_dealt(s->place) || s->place->tensor_rank == 0);
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);
    YOKE_TRY(YOKE_CALL(call, embed_forward, .dtype = s->dtype, .N = f.rows.N, .T = s->T, .C = c.C,
                       .V = own.end - own.begin, .vocab_start = own.begin, .vocabulary = c.V,
                       .pos_start = call->pass->token_offset, .tokens = call->tokens, .wte = call->weights[0],
                       .wpe = adds ? call->weights[1] : NULL, .y = yokei_rows_partial(&f.rows, call->y)));
    YOKE_TRY(yokei_rows_sum(call, &f.rows, call->y));
    return f.drop > 0 ? yokei_drop_rows(layer, call, "embedding", f.drop, &f.rows, call->y, NULL, call->y)
                      : YOKE_OK;
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    const struct yoke_shape *s = call->shape;
    const struct yoke_range own = words(layer, s->place);
    const void *dy;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);
    if (f.drop > 0)
        YOKE_TRY(yokei_drop_rows(layer, call, "embedding", f.drop, &f.rows, call->dy, NULL, f.dropped));
    YOKE_TRY(yokei_rows_all(call, &f.rows, f.drop > 0 ? f.dropped : call->dy, &dy));
    return YOKE_CALL(call, embed_backward, .dtype = s->dtype, .N = f.rows.N, .T = s->T, .C = c.C,
                     .V = own.end - own.begin, .vocab_start = own.begin, .vocabulary = c.V,
                     .pos_start = call->pass->token_offset, .tokens = call->tokens, .dy = dy,
                     .dwte = call->gradients[0], .dwpe = c.n_positions ? call->gradients[1] : NULL);
}

#define EMBEDDING(config_)                                                           \
    YOKEI_LAYER_TYPE("embedding", config_, YOKE_UNTIL_F, YOKE_UNTIL_F, YOKE_UNTIL_W, \
                     .check = yokei_vocabulary_check)
const struct yoke_layer_type yoke_layer_gpt2_embedding = EMBEDDING(yoke_gpt2_config);
const struct yoke_layer_type yoke_layer_llama_embedding = EMBEDDING(yoke_llama_config);
