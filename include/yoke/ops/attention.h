/* SPDX-License-Identifier: Apache-2.0 */
/** Scaled dot-product attention, in blocks with a running softmax: never a T x T matrix in memory. */
#ifndef YOKE_OPS_ATTENTION_H
#define YOKE_OPS_ATTENTION_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_ATTENTION_OPS(OP) OP(attention_forward) OP(attention_backward)

/**
 * Attention, forward: o, lse from q, k, v.
 * Maths:  S = scale * Q K^T per (b, h);  causal: S[t, j] = -inf for j > t;  lse = log sum exp S;  O = exp(S - lse) V
 * Shapes: q, o [B, T, H, D], k, v [B, T, Hkv, D]; element (b, t, h, d) of q at q + (b T + t) ldq + h D + d, likewise the
 *         others with their ld (>= heads * D), so that the three parts of a fused QKV matrix can be read in place;
 *         lse [B, H, T]
 * Groups: `group` query heads read one K/V head (grouped-query attention). group 0: Hkv divides H, and head h reads K/V head h / (H / Hkv).
 *         Else the heads are a piece of more, from head_start on, as ranks hold them that share a layer: head h is head_start + h of the
 *         layer, and reads the layer's K/V head (head_start + h) / group, of which those that are read are here, Hkv in number.
 * Dropout: with p > 0 the probabilities: O = s (mask * P) V,  s = 1 / (1 - p) rounded to f32; lse is of all of them. Whether the pair of
 *         query t and key j of head h of sample b is kept follows from `key` as in yoke_dropout_args, the word at counter
 *         (16 (j / 64) + j mod 16, t, sample_start + b, head_start + h) and of number (j / 16) mod 4.
 * Types:  q, k, v, o in {f32, f16, bf16}, the same; lse wide. Scores, softmax and sums in f32.
 * Rounds: P = exp(S - running max) to the storage type before P V (its sum is taken before rounding); O, times s, once.
 * scale:  usually 1 / sqrt(D); must not be 0 (an unset field).
 * Writes: o, lse (NULL: not wanted). No aliases.
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type, D), YOKE_ENOMEM
 * NaN:    a causal row depends on keys up to its own alone: NaN in a later key or value does not reach it.
 * Bound:  |O - ref| <= u |ref| + sum_j P_j ((u + gamma(2T + 8)) |v_j| + rho_j (|v_j| + |O|)) + gamma(2T + 8) |O| + eta sum_j |v_j|,
 *         with dropout |v_j| is s |v_j| of kept keys and 0 of the others, and 2 u32 |O| is added;
 *         rho_j = gamma(D + 2) |scale| |q||k_j| + u32 |s_j - max s| + 6 u32;  eta at least 2^-126 (flushed subnormals);
 *         in bf16 also, for each product x y that a sum takes, phi = 2^-126 (|x| + |y| + 1): matrix units take subnormals for 0
 *         |lse - ref| <= sum_j P_j rho_j + gamma(2T + 8) + 4 u32 |log l| + u32 |lse|,  l = sum exp(s - max s)
 * Source: Vaswani et al. 2017, arXiv:1706.03762; Dao et al. 2022, arXiv:2205.14135, algorithm 1; Ainslie et al. 2023, arXiv:2305.13245
 */
struct yoke_attention_forward_args {
    size_t size;
    yoke_dtype dtype;
    bool causal;
    int64_t B, T, H, Hkv, D;
    int64_t head_start, group; /* 0, 0: whole groups */
    float scale;
    float p;                   /* dropout, in [0, 1) */
    uint64_t key;              /* yoke_random_key() */
    int64_t sample_start;
    const void *q;
    int64_t ldq;
    const void *k;
    int64_t ldk;
    const void *v;
    int64_t ldv;
    void *o;
    int64_t ldo;
    void *lse;
};

/**
 * Attention, backward: dq, dk, dv from do, recomputing P from q, k and lse.
 * Maths:  P = exp(S - lse);  dV = P^T dO;  dP = dO V^T;  delta = row sums of dO * O;  dS = P * (dP - delta)
 *         dQ = scale * dS K;  dK = scale * dS^T Q;  dk, dv summed over the query heads of a group, in head order;
 *         with dropout dV = s (mask * P)^T dO and dP = s mask * (dO V^T), of the mask that forward drew (the same key)
 *         Of a group that is not whole here dk and dv are this piece's part.
 * Shapes: as forward; d_o, dq as q; dk, dv as k      Types: as forward; sums in f32
 * Rounds: P and dS to the storage type before they enter a product; dq, dk, dv once.
 * Writes: dq, dk, dv overwritten. No aliases (dq, dk, dv may be the three parts of one matrix).
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type, D), YOKE_ENOMEM (scratch)
 * Bound:  rho_j as forward, with lse for max s;  d = gamma(D + 1) (|dO||v_j| + |dO||O|);  R = T H / Hkv
 *         e = |dS| (rho + 3 u32) + |P| d + 2^-126 |dP - delta|,  then e + u (|dS| + e) + eta for its rounding;  and u |ref| for each result:
 *         with dropout |v_j| is as in forward, and so is |dO| in the line of dV
 *         dV: sum_t P (rho + u + gamma(R)) |dO|;  dQ: |scale| sum_j (e + gamma(T + 2) |dS|) |k_j|;  dK likewise over rows;  phi as forward
 * Source: Dao et al. 2022, arXiv:2205.14135, algorithm 4
 */
struct yoke_attention_backward_args {
    size_t size;
    yoke_dtype dtype;
    bool causal;
    int64_t B, T, H, Hkv, D;
    int64_t head_start, group; /* 0, 0: whole groups */
    float scale;
    float p;                   /* dropout, in [0, 1) */
    uint64_t key;              /* yoke_random_key() */
    int64_t sample_start;
    const void *q;
    int64_t ldq;
    const void *k;
    int64_t ldk;
    const void *v;
    int64_t ldv;
    const void *o;
    int64_t ldo;
    const void *d_o;
    int64_t lddo;
    const void *lse;
    void *dq;
    int64_t lddq;
    void *dk;
    int64_t lddk;
    void *dv;
    int64_t lddv;
};

YOKE_ATTENTION_OPS(YOKE_OP_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
