/* SPDX-License-Identifier: Apache-2.0 */
/** Fused softmax cross-entropy; the vocabulary may be sharded. */
#ifndef YOKE_OPS_LOSS_H
#define YOKE_OPS_LOSS_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_LOSS_OPS(OP) OP(xent_forward) OP(xent_backward) OP(xent_join)

/*
 * Shards of a vocabulary: logits holds its V columns from vocab_start on. Each shard's xent_forward gives a part, lse and
 * picked; xent_join makes lse and losses of all parts; with that lse each shard's xent_backward gives its columns' gradient.
 * `vocabulary` is the number of columns of all shards together; the shard must lie inside it. 0: not said, and not checked.
 */

/**
 * Softmax cross-entropy, forward.
 * Maths:  lse[n] = log sum over v of exp(logits[n, v]);  picked[n] = logits[n, targets[n] - vocab_start];
 *         losses[n] = lse[n] - picked[n]. A target below 0 is ignored: its loss is 0. A target outside this shard
 *         [vocab_start, vocab_start + V) gives picked = 0, also where it is outside the whole vocabulary.
 * Shapes: logits [N, V], ld >= V; targets, lse, picked, losses [N]
 * Types:  logits in {f32, f16, bf16}; targets i32; lse, picked, losses wide; computed in f32 (maximum subtracted)
 * Writes: lse; picked and losses where not NULL       Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type)
 *         A logit of +infinity makes lse infinite or NaN. Where all logits are -infinity (masked columns), lse is -infinity.
 * Bound:  |lse - ref| <= sum_v p_v u32 |l_v - max l| + 6 u32 + gamma(V + 8) + 4 u32 |lse - max l| + u32 |lse|;  picked exact;
 *         losses: u32 |loss| more
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

/**
 * Softmax cross-entropy, backward.
 * Maths:  dlogits[n, v] = scale * (exp(logits[n, v] - lse[n]) - [v + vocab_start == targets[n]]); 0 for an ignored target.
 *         scale is the loss scale over the number of tokens, the same for all rows. Of a shard lse is the joined one.
 * Shapes: logits, dlogits [N, V]; targets, lse [N]     Types: logits, dlogits in {f32, f16, bf16}, the same; rounded once
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

/**
 * Softmax cross-entropy of P shards of the vocabulary, from what xent_forward made of each for the same rows.
 * Maths:  lse[n] = log sum over p of exp(lse_parts[p, n]);  losses[n] = lse[n] - sum over p of picked_parts[p, n], 0 for an
 *         ignored target (below 0); both sums in ascending p, so parts in the order of the ranks give all ranks of one kind of
 *         device the same bits. One part: lse is that part, and losses are those of xent_forward.
 * Shapes: lse_parts, picked_parts [P, N], both with ld >= N (2 N where each rank sent its lse and picked as one message);
 *         targets, lse, losses [N]; P >= 1
 * Types:  dtype is that of the logits; targets i32, all others wide; computed in f32 (maximum subtracted)
 * Writes: lse; losses where not NULL (picked_parts and targets are read for them alone, and may then be NULL)
 * Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type)
 *         A part of -infinity adds nothing; where all are, lse is -infinity. One of +infinity makes lse infinite or NaN.
 * Bound:  P = 1: exact. |lse - ref| <= sum_p w_p u32 |lse_p - max| + 6 u32 + gamma(P) + 4 u32 |lse - max| + u32 |lse|,
 *         w_p = exp(lse_p - lse), and sum_p w_p e_p more where the parts themselves are off by e_p;
 *         losses: gamma(P - 1) sum_p |picked_p| (0 where one part alone has the target) and u32 |loss| more
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

YOKE_LOSS_OPS(YOKE_OP_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
