/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Scaled dot-product attention, in blocks with a running softmax. There is never a T x T matrix in memory.
 */
#ifndef YOKE_OPS_ATTENTION_H
#define YOKE_OPS_ATTENTION_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_ATTENTION_OPS(OP) OP(attention_forward) OP(attention_backward)

/**
 * Attention, forward: o, lse from q, k, v.
 * Maths:  S = scale * Q K^T per (b, h);  causal: S[t, j] = -inf for j > t;  lse = log sum exp S;
 *         O = exp(S - lse) V
 * Shapes: q, o [B, T, H, D], k, v [B, T, Hkv, D], lse [B, H, T]. Element (b, t, h, d) of q is at q + (b T +
 *         t) ldq + h D + d, and likewise the others with their ld (>= heads * D). So the three parts of a
 *         fused QKV matrix can be read in place.
 * Groups: `group` query heads read one K/V head (grouped-query attention). If group is 0, Hkv divides H, and
 *         head h reads K/V head h / (H / Hkv). If group is not 0, the heads are a part of a layer that
 *         several ranks share. Head h is then head head_start + h of the layer, and reads the layer's K/V
 *         head (head_start + h) / group. k and v hold exactly the K/V heads that these query heads read, Hkv
 *         in number.
 * Dropout: with p > 0, probabilities are dropped out: O = s (mask * P) V,  s = 1 / (1 - p) rounded to f32.
 *         lse is that of all probabilities, before dropout. `key` decides, as in yoke_dropout_args, which
 *         pairs are kept: the pair of query t and key j of head h of sample b has word (j / 16) mod 4 at the
 *         counter (16 (j / 64) + j mod 16, t, sample_start + b, head_start + h).
 * Types:  q, k, v and o have the same type, one of {f32, f16, bf16}. lse is wide. Scores, softmax and sums
 *         are in f32.
 * Rounds: P = exp(S - running max) is rounded to the storage type before P V. Its sum is taken before
 *         rounding. O, times s, is rounded once.
 * scale:  usually 1 / sqrt(D); must not be 0 (an unset field).
 * Writes: o, lse (NULL: not wanted). No aliases.
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type, D), YOKE_ENOMEM
 * NaN:    a causal row depends only on the keys up to its own.
 *         NaN in a later key or value does not reach the row.
 * Bound:  |O - ref| <= u |ref| + sum_j P_j ((u + gamma(2T + 8)) |v_j| + rho_j (|v_j| + |O|))
 *         + gamma(2T + 8) |O| + eta sum_j |v_j|,
 *         rho_j = gamma(D + 2) |scale| |q||k_j| + u32 |s_j - max s| + 6 u32;
 *         eta at least 2^-126 (flushed subnormals).
 *         With dropout |v_j| is s |v_j| for kept keys and 0 for the others, and 2 u32 |O| is added. In bf16,
 *         phi = 2^-126 (|x| + |y| + 1) is added for each product x y of a sum, as matrix units take
 *         subnormals for 0.
 *         |lse - ref| <= sum_j P_j rho_j + gamma(2T + 8) + 4 u32 |log l| + u32 |lse|,  l = sum exp(s - max s)
 * Source: Vaswani et al. 2017, arXiv:1706.03762; Dao et al. 2022, arXiv:2205.14135, algorithm 1; Ainslie et
 *         al. 2023, arXiv:2305.13245
 */
struct yoke_attention_forward_args {
    size_t size;
    yoke_dtype dtype;
    bool causal;
    int64_t B, T, H, Hkv, D;
    int64_t head_start, group; /* both 0: all groups are whole */
    float scale;
    float p;      /* probability of dropout, in [0, 1) */
    uint64_t key; /* from yoke_random_key() */
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
yoke_status yoke_attention_forward(yoke_stream *stream, const struct yoke_attention_forward_args *args);
yoke_status yoke_attention_forward_can(const yoke_device *device,
                                       const struct yoke_attention_forward_args *args,
                                       struct yoke_cost *cost_out);

/**
 * Attention, backward: dq, dk, dv from d_o. P is recomputed from q, k and lse.
 * Maths:  P = exp(S - lse);  dV = P^T dO;  dP = dO V^T;  delta = row sums of dO * O;  dS = P * (dP - delta)
 *         dQ = scale * dS K;  dK = scale * dS^T Q.
 *         dk and dv are summed over the query heads of a group, in head order.
 *         With dropout, dV = s (mask * P)^T dO and dP = s mask * (dO V^T). The mask is that of forward (the
 *         same key). If only some heads of a group are here, dk and dv hold the contribution of these heads.
 * Shapes: as in forward; d_o, dq as q; dk, dv as k      Types: as in forward; sums in f32
 * Rounds: P and dS are rounded to the storage type before they enter a product. dq, dk and dv are rounded
 *         once.
 * Writes: dq, dk, dv are overwritten. No aliases (dq, dk, dv may be the three parts of one matrix).
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type, D), YOKE_ENOMEM (scratch)
 * Bound:  rho_j as in forward, with lse for max s;  d = gamma(D + 1) (|dO||v_j| + |dO||O|);  R = T H / Hkv
 *         e = |dS| (rho + 3 u32) + |P| d + 2^-126 |dP - delta|,
 *         then e + u (|dS| + e) + eta for its rounding;  and u |ref| for each result:
 *         dV: sum_t P (rho + u + gamma(R)) |dO|;  dQ: |scale| sum_j (e + gamma(T + 2) |dS|) |k_j|;
 *         dK likewise over rows.
 *         phi as in forward. With dropout |v_j| is as in forward, and |dO| in the bound of dV is scaled in
 *         the same way.
 * Source: Dao et al. 2022, arXiv:2205.14135, algorithm 4
 */
struct yoke_attention_backward_args {
    size_t size;
    yoke_dtype dtype;
    bool causal;
    int64_t B, T, H, Hkv, D;
    int64_t head_start, group; /* both 0: all groups are whole */
    float scale;
    float p;      /* probability of dropout, in [0, 1) */
    uint64_t key; /* from yoke_random_key() */
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
yoke_status yoke_attention_backward(yoke_stream *stream, const struct yoke_attention_backward_args *args);
yoke_status yoke_attention_backward_can(const yoke_device *device,
                                        const struct yoke_attention_backward_args *args,
                                        struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
