/* SPDX-License-Identifier: Apache-2.0 */
/** Embeddings of tokens and positions. The vocabulary may be sharded: each rank then holds a part of it. */
#ifndef YOKE_OPS_EMBED_H
#define YOKE_OPS_EMBED_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_EMBED_OPS(OP) OP(embed_forward) OP(embed_backward)

/*
 * Shards of a vocabulary: wte holds the V rows of this shard, from row vocab_start on. The embedding is the
 * sum of y over all shards. One shard has wpe, and the others have NULL. A token outside the whole vocabulary
 * gives 0 on every shard, as it does without shards.
 * `vocabulary` is the number of rows of all shards together, and the shard must lie inside it. 0 means that
 * the number is not given, and then nothing is checked.
 */

/**
 * Embedding, forward.
 * Maths:  y[n, :] = wte[token[n] - vocab_start, :] + wpe[pos_start + n mod T, :]. If a token lies outside
 *         [vocab_start, vocab_start + V), the first term is 0 (the token belongs to another shard). If wpe is
 *         NULL, the second term is left out.
 * Shapes: tokens [N], wte [V, C], wpe [at least pos_start + T, C], y [N, C] contiguous; N is a multiple of T
 * Types:  tokens are i32. wte, wpe and y have the same type, one of {f32, f16, bf16}. The sum is in f32 and
 *         rounded once.
 * Writes: y                          Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type)
 * Bound:  |y - ref| <= (u + u32) |ref|; exact if one of the two terms is absent
 */
struct yoke_embed_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, T, C, V;
    int64_t vocab_start, pos_start;
    int64_t vocabulary; /* 0, or at least vocab_start + V */
    const int32_t *tokens;
    const void *wte, *wpe;
    void *y;
};
yoke_status yoke_embed_forward(yoke_stream *stream, const struct yoke_embed_forward_args *args);
yoke_status yoke_embed_forward_can(const yoke_device *device, const struct yoke_embed_forward_args *args,
                                   struct yoke_cost *cost_out);

/**
 * Embedding, backward.
 * Maths:  dwte[token[n] - vocab_start, :] += dy[n, :] in ascending n (tokens outside the shard are skipped);
 *         dwpe[pos_start + n mod T, :] += dy[n, :] in ascending n
 * Shapes: as in forward              Types: tokens i32; dy in {f32, f16, bf16}; dwte, dwpe wide
 * Writes: dwte and dwpe are accumulated (+=). Either may be NULL if it is not wanted. No atomics are used, so
 *         every run gives the same bits.
 * Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type), YOKE_ENOMEM (scratch memory to sort the tokens)
 * Bound:  |dwte - ref| <= gamma(n) (sum |dy| + |dwte0|), where n is how often the token occurs (0: its row is
 *         not touched); dwpe with n = N / T
 */
struct yoke_embed_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, T, C, V;
    int64_t vocab_start, pos_start;
    int64_t vocabulary; /* 0, or at least vocab_start + V */
    const int32_t *tokens;
    const void *dy;
    void *dwte, *dwpe;
};
yoke_status yoke_embed_backward(yoke_stream *stream, const struct yoke_embed_backward_args *args);
yoke_status yoke_embed_backward_can(const yoke_device *device, const struct yoke_embed_backward_args *args,
                                    struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
