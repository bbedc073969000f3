/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused softmax cross-entropy on the host backend. include/yoke/ops/loss.h has the maths, types and bounds.
 */
#if defined(__GNUC__) && !defined(__clang__)
/* chains of 20 dependent operations; the compiler must interleave those of several elements */
#pragma GCC optimize("schedule-insns")
#endif
#include "backends/host/kernels.h"

/* ---- forward ---- */
INLINE float row_max(const yoke_dtype t, const void *x, int64_t n)
{
    vf m[4] = { vset(-INFINITY), vset(-INFINITY), vset(-INFINITY), vset(-INFINITY) };
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int j = 0; j < 4; j++) m[j] = vmax(m[j], vload(t, x, i + j * VL));
    VECTOR_LOOP(j, left, i, n, m[0] = vmax(m[0], vkeep(vload_n(t, x, j, left), left, -INFINITY)););
    return vgreatest(vmax(vmax(m[0], m[1]), vmax(m[2], m[3])));
}

/* The slow method, for rows with infinities, NaN, or numbers beyond ROW_MOST. */
static __attribute__((noinline)) float unusual_lse(yoke_dtype t, const void *x, int64_t n)
{
    const float max = row_max(t, x, n);
    if (!isfinite(max)) return max; /* max - max would be NaN for an infinite maximum */
    vf sum = { 0 };
    VECTOR_LOOP(i, m, 0, n, sum += vexp(vkeep(vload_n(t, x, i, m) - max, m, -INFINITY)););
    return max + logf(vsum(sum));
}

/*
 * The terms of a block against c, summed up per lane, and its greatest elements. The greatest elements ignore
 * NaN, because a NaN shows in the sum.
 */
struct block {
    vf sum, max;
};
INLINE struct block row_block(const yoke_dtype t, const void *x, int64_t n, float c)
{
    vf s[4] = { { 0 } }, m[4] = { vset(-INFINITY), vset(-INFINITY), vset(-INFINITY), vset(-INFINITY) };
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        for (int j = 0; j < 2; j++)
            vprefetch_pair(t, x, i + AHEAD / (int64_t)type_bytes(t) + j * 2 * VL, false);
        const struct pair p[2] = { vload_pair(t, x, i), vload_pair(t, x, i + 2 * VL) };
        for (int j = 0; j < 4; j++) {
            const vf v = j & 1 ? p[j / 2].b : p[j / 2].a;
            m[j] = vatleast_number(v, m[j]);
            s[j] += row_summand(v, c);
        }
    }
    VECTOR_LOOP(j, left, i, n, {
        const vf v = vkeep(vload_n(t, x, j, left), left, -INFINITY);
        m[0] = vatleast_number(v, m[0]);
        s[0] += row_summand(v, c);
    });
    return (struct block){ (s[0] + s[1]) + (s[2] + s[3]),
                           vatleast_number(vatleast_number(m[0], m[1]), vatleast_number(m[2], m[3])) };
}

/*
 * log sum exp, which reads each logit once from memory. Terms are computed relative to the maximum of the
 * row's first block. If a block exceeds this reference by more than HEADROOM, its maximum becomes the
 * reference. So only the first block of a long row is searched for its maximum before its terms are added. A
 * term e^8 above the reference has an error of 2 u32 more than a term at the reference (0.23 |x - r|).
 */
enum { ROW_BLOCK = 2048, HEADROOM = 8 };

INLINE float row_lse(const yoke_dtype t, const void *x, int64_t n)
{
    const float first = row_max(t, x, YOKE_MIN(n, ROW_BLOCK));
    if (!(fabsf(first) < ROW_MOST)) return unusual_lse(t, x, n);
    float c = row_shift(first), limit = first + HEADROOM;
    vf most = vset(first), sum = { 0 };
    for (int64_t i = 0; i < n; i += ROW_BLOCK) {
        const int64_t m = YOKE_MIN(n - i, ROW_BLOCK);
        struct block b = row_block(t, at(t, x, i), m, c);
        most = vatleast_number(b.max, most);
        if (mask_any(vless(vset(limit), b.max))) {
            const float greatest = vgreatest(b.max), old = c;
            if (!(greatest < ROW_MOST)) return unusual_lse(t, x, n);
            c = row_shift(greatest), limit = greatest + HEADROOM;
            sum *= expf((float)(row_reference(old) - row_reference(c)));
            b = row_block(t, at(t, x, i), m, c);
        }
        sum += b.sum;
    }
    const float total = vsum(sum);
    if (!isfinite(total)) return unusual_lse(t, x, n);
    /* at least the maximum, so no loss is below 0 */
    return fmaxf((float)(row_reference(c) + (double)logf(total)), vgreatest(most));
}

INLINE void forward_rows(const yoke_dtype t, const struct yoke_xent_forward_args *a, int64_t from, int64_t to)
{
    for (int64_t n = from; n < to; n++) {
        const void *x = at(t, a->logits, n * a->ld); /* [V] */
        const int64_t target = a->targets[n] - a->vocab_start;
        const float lse = row_lse(t, x, a->V);
        const float picked = a->targets[n] >= 0 && target >= 0 && target < a->V ? load_one(t, x, target) : 0;
        ((float *)a->lse)[n] = lse;
        if (a->picked) ((float *)a->picked)[n] = picked;
        if (a->losses) ((float *)a->losses)[n] = a->targets[n] < 0 ? 0 : lse - picked;
    }
}

static void forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_xent_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, forward_rows, a, from, to);
}

static yoke_status host_xent_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_forward_args *a = call->args;
    host_for(stream, a->N, host_row_grain(a->V), forward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_xent_forward) = { .run = host_xent_forward_run };

/* ---- backward ---- */
INLINE void backward_rows(const yoke_dtype t, const struct yoke_xent_backward_args *a, int64_t from,
                          int64_t to)
{
    for (int64_t n = from; n < to; n++) {
        const void *x = at(t, a->logits, n * a->ld); /* [V] */
        void *dx = at_mut(t, a->dlogits, n * a->lddlogits);
        const float lse = ((const float *)a->lse)[n];
        const int64_t target = a->targets[n] - a->vocab_start;
        const bool ignored = a->targets[n] < 0, here = !ignored && target >= 0 && target < a->V;
        if (ignored) {
            memset(dx, 0, (size_t)a->V * type_bytes(t));
            continue;
        }
        /* dlogits may alias the logits, so the target's logit is read before the row is written */
        const float correct = here ? a->scale * (vexp(vset(load_one(t, x, target) - lse))[0] - 1) : 0;
        if (fabsf(lse) < ROW_MOST) {
            const float c = row_shift(lse),
                        factor = plain_nan((float)((double)a->scale * exp(row_reference(c) - (double)lse)));
            MAP_1(t, 2, 0, a->V, dx, x, v, row_term(v, c) * factor);
        } else {
            const float scale = a->scale;
            VECTOR_LOOP(v, m, 0, a->V, vstore_n(t, dx, v, m, scale * vexp(vload_n(t, x, v, m) - lse)););
        }
        if (here) store_one(t, dx, target, correct);
    }
}

static void backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_xent_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, backward_rows, a, from, to);
}

static yoke_status host_xent_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_backward_args *a = call->args;
    host_for(stream, a->N, host_row_grain(a->V), backward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_xent_backward) = { .run = host_xent_backward_run };

/* ---- join: the vectors run over rows, because there are few parts ---- */
static void join_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_xent_join_args *a = context;
    VECTOR_LOOP(n, m, from, to, {
        vf max = vset(-INFINITY), sum = { 0 };
        for (int64_t p = 0; p < a->P; p++) max = vmax(max, vload_n(YOKE_F32, a->lse_parts, p * a->ld + n, m));
        const vf shift = vselect(vless(vabs(max), vset(INFINITY)), max,
                                 vset(0)); /* infinity minus infinity would be NaN */
        for (int64_t p = 0; p < a->P; p++)
            sum += vexp(vload_n(YOKE_F32, a->lse_parts, p * a->ld + n, m) - shift);
        for (int j = 0; j < VL; j++) sum[j] = logf(sum[j]);
        const vf lse = shift + sum;
        vstore_n(YOKE_F32, a->lse, n, m, lse);
        if (a->losses) {
            vf picked = { 0 };
            for (int64_t p = 0; p < a->P; p++) picked += vload_n(YOKE_F32, a->picked_parts, p * a->ld + n, m);
            vf loss = lse - picked;
            for (int j = 0; j < m; j++) loss[j] = a->targets[n + j] < 0 ? 0 : loss[j];
            vstore_n(YOKE_F32, a->losses, n, m, loss);
        }
    });
}

static yoke_status host_xent_join_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_join_args *a = call->args;
    host_for(stream, a->N, YOKE_MAX(VL, host_row_grain(a->P)), join_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_xent_join) = { .run = host_xent_join_run };
