/* SPDX-License-Identifier: Apache-2.0 */
/** Fused softmax cross-entropy. The vocabulary may be sharded: each rank then holds a part of it. */
#ifndef YOKE_OPS_LOSS_H
#define YOKE_OPS_LOSS_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_LOSS_OPS(OP) OP(xent_forward) OP(xent_backward) OP(xent_join)

/*
 * Shards of a vocabulary: logits holds the V columns of this shard, from column vocab_start on.
 * 1. Each shard's xent_forward gives its part of lse and picked.
 * 2. xent_join computes lse and losses from the parts of all shards.
 * 3. With that lse, each shard's xent_backward gives the gradient of its columns.
 * `vocabulary` is the number of columns of all shards together, and the shard must lie inside it. 0 means
 * that the number is not given, and then nothing is checked.
 */

/**
 * Softmax cross-entropy, forward.
 * Maths:  lse[n] = log sum over v of exp(logits[n, v]);  picked[n] = logits[n, targets[n] - vocab_start];
 *         losses[n] = lse[n] - picked[n]. A target below 0 is ignored: its loss is 0. A target outside this
 *         shard [vocab_start, vocab_start + V) gives picked = 0, even if it is outside the whole vocabulary.
 * Shapes: logits [N, V], ld >= V; targets, lse, picked, losses [N]
 * Types:  logits in {f32, f16, bf16}; targets i32; lse, picked, losses wide; computed in f32 (maximum
 *         subtracted)
 * Writes: lse; picked and losses if they are not NULL. A logit of +infinity makes lse infinite or NaN. If all
 *         logits are -infinity (masked columns), lse is -infinity.
 * Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type)
 * Bound:  |lse - ref| <= sum_v p_v u32 |l_v - max l| + 6 u32 + gamma(V + 8) + 4 u32 |lse - max l|
 *         + u32 |lse|;
 *         picked is exact;  losses: the bound of lse plus u32 |loss|
 */
struct yoke_xent_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, V;
    int64_t vocab_start;
    int64_t vocabulary; /* 0, or at least vocab_start + V */
    const void *logits;
    int64_t ld;
    const int32_t *targets;
    void *lse, *picked, *losses;
};
yoke_status yoke_xent_forward(yoke_stream *stream, const struct yoke_xent_forward_args *args);
yoke_status yoke_xent_forward_can(const yoke_device *device, const struct yoke_xent_forward_args *args,
                                  struct yoke_cost *cost_out);

/**
 * Softmax cross-entropy, backward.
 * Maths:  dlogits[n, v] = scale * (exp(logits[n, v] - lse[n]) - [v + vocab_start == targets[n]]); 0 for an
 *         ignored target. scale is the loss scale over the number of tokens, the same for all rows. For a
 *         shard, lse is the joined one.
 * Shapes: logits, dlogits [N, V]; targets, lse [N]
 * Types:  logits and dlogits have the same type, one of {f32, f16, bf16}; rounded once
 * Writes: dlogits; may alias logits (same ld)          Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |d - ref| <= u |ref| + |scale| (p (u32 |l - lse| + 8 u32) + 2 u32 |p - [target]| + 2^-126) + eta
 */
struct yoke_xent_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, V;
    int64_t vocab_start;
    int64_t vocabulary; /* 0, or at least vocab_start + V */
    const void *logits;
    int64_t ld;
    const int32_t *targets;
    const void *lse;
    float scale;
    void *dlogits;
    int64_t lddlogits;
};
yoke_status yoke_xent_backward(yoke_stream *stream, const struct yoke_xent_backward_args *args);
yoke_status yoke_xent_backward_can(const yoke_device *device, const struct yoke_xent_backward_args *args,
                                   struct yoke_cost *cost_out);

/**
 * Softmax cross-entropy over P shards of the vocabulary, from the outputs of xent_forward of each shard for
 * the same rows.
 * Maths:  lse[n] = log sum over p of exp(lse_parts[p, n]);  losses[n] = lse[n] - sum over p of
 *         picked_parts[p, n], and 0 for an ignored target (below 0). Both sums are in ascending p. So if the
 *         parts are in the order of the ranks, all ranks with the same kind of device get the same bits. With
 *         one part, lse is that part, and losses are those of xent_forward.
 * Shapes: lse_parts, picked_parts [P, N], both with ld >= N (2 N if each rank sent its lse and picked as one
 *         message); targets, lse, losses [N]; P >= 1
 * Types:  dtype is the type of the logits; targets i32, all others wide; computed in f32 (maximum subtracted)
 * Writes: lse; losses if it is not NULL. picked_parts and targets are read for losses alone, and may be NULL
 *         if losses is NULL. A part of -infinity adds nothing. If all parts are -infinity, lse is -infinity.
 *         A part of +infinity makes lse infinite or NaN.
 * Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type)
 * Bound:  P = 1: exact. |lse - ref| <= sum_p w_p u32 |lse_p - max| + 6 u32 + gamma(P) + 4 u32 |lse - max|
 *         + u32 |lse|,
 *         w_p = exp(lse_p - lse).  If the parts themselves are off by e_p, add sum_p w_p e_p.
 *         losses: add gamma(P - 1) sum_p |picked_p| (0 if one part alone has the target) and u32 |loss|
 */
struct yoke_xent_join_args {
    size_t size;
    yoke_dtype dtype;
    int64_t P, N;
    const void *lse_parts, *picked_parts;
    int64_t ld;
    const int32_t *targets;
    void *lse, *losses;
};
yoke_status yoke_xent_join(yoke_stream *stream, const struct yoke_xent_join_args *args);
yoke_status yoke_xent_join_can(const yoke_device *device, const struct yoke_xent_join_args *args,
                               struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
