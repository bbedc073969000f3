/* SPDX-License-Identifier: Apache-2.0 */
/** Fused softmax cross-entropy; the vocabulary may be sharded. */
#ifndef YOKE_OPS_LOSS_H
#define YOKE_OPS_LOSS_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_LOSS_OPS(OP) OP(xent_forward) OP(xent_backward)

/**
 * Softmax cross-entropy, forward.
 * Maths:  lse[n] = log sum over v of exp(logits[n, v]);  picked[n] = logits[n, targets[n] - vocab_start];
 *         losses[n] = lse[n] - picked[n]. A target below 0 is ignored: its loss is 0. A target outside this shard
 *         [vocab_start, vocab_start + V) gives picked = 0. Shards are merged by lse = log sum exp(lse_i), picked = sum picked_i.
 * Shapes: logits [N, V], ld >= V; targets, lse, picked, losses [N]
 * Types:  logits in {f32, f16, bf16}; targets i32; lse, picked, losses wide; computed in f32 (maximum subtracted)
 * Writes: lse; picked and losses where not NULL       Errors: YOKE_EINVAL (shape), YOKE_EUNSUPPORTED (type)
 *         A logit of +infinity makes lse infinite or NaN.
 * Bound:  |lse - ref| <= sum_v p_v u32 |l_v - max l| + 6 u32 + gamma(V + 8) + 4 u32 |lse - max l| + u32 |lse|;  picked exact;
 *         losses: u32 |loss| more
 */
struct yoke_xent_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, V;
    int64_t vocab_start;
    const void *logits;
    int64_t ld;
    const int32_t *targets;
    void *lse, *picked, *losses;
};

/**
 * Softmax cross-entropy, backward.
 * Maths:  dlogits[n, v] = scale * (exp(logits[n, v] - lse[n]) - [v + vocab_start == targets[n]]); 0 for an ignored target.
 *         scale is the loss scale over the number of tokens, the same for all rows.
 * Shapes: logits, dlogits [N, V]; targets, lse [N]     Types: logits, dlogits in {f32, f16, bf16}, the same; rounded once
 * Writes: dlogits; may alias logits (same ld)          Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |d - ref| <= u |ref| + |scale| (p (u32 |l - lse| + 8 u32) + 2 u32 |p - [target]| + 2^-126) + eta
 */
struct yoke_xent_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, V;
    int64_t vocab_start;
    const void *logits;
    int64_t ld;
    const int32_t *targets;
    const void *lse;
    float scale;
    void *dlogits;
    int64_t lddlogits;
};

YOKE_LOSS_OPS(YOKE_OP_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
