/* SPDX-License-Identifier: Apache-2.0 */
/** Embeddings of tokens and positions; the vocabulary may be sharded. */
#ifndef YOKE_OPS_EMBED_H
#define YOKE_OPS_EMBED_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_EMBED_OPS(OP) OP(embed_forward) OP(embed_backward)

/*
 * Shards of a vocabulary: wte holds its V rows from vocab_start on. The sum of all shards' y, of which one has wpe and the
 * others NULL, is the embedding; a token outside the whole vocabulary takes 0 on each of them, as it does without shards.
 * `vocabulary` is the number of rows of all shards together; the shard must lie inside it. 0: not said, and not checked.
 */

/**
 * Embedding, forward.
 * Maths:  y[n, :] = wte[token[n] - vocab_start, :] + wpe[pos_start + n mod T, :]; rows whose token lies outside
 *         [vocab_start, vocab_start + V) take 0 for the first term (a vocabulary shard), wpe NULL drops the second
 * Shapes: tokens [N], wte [V, C], wpe [at least pos_start + T, C], y [N, C] contiguous; N a multiple of T
 * Types:  tokens i32; wte, wpe, y in {f32, f16, bf16}, the same; the sum in f32, rounded once
 * Writes: y                          Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type)
 * Bound:  |y - ref| <= (u + u32) |ref|; exact where one of the two terms is absent
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

/**
 * Embedding, backward.
 * Maths:  dwte[token[n] - vocab_start, :] += dy[n, :] in ascending n (tokens outside the shard are skipped);
 *         dwpe[pos_start + n mod T, :] += dy[n, :] in ascending n
 * Shapes: as forward                 Types: tokens i32; dy in {f32, f16, bf16}; dwte, dwpe wide
 * Writes: dwte, dwpe accumulated (+=; either may be NULL: not wanted); the same bits on every run: no atomics
 * Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type), YOKE_ENOMEM (scratch: counting sort by token)
 * Bound:  |dwte - ref| <= gamma(n) (sum |dy| + |dwte0|), n the occurrences of the token (0: untouched); dwpe with n = N / T
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

YOKE_EMBED_OPS(YOKE_OP_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
