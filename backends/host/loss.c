/* SPDX-License-Identifier: Apache-2.0 */
/* Host: fused softmax cross-entropy. Maths, types and bounds: include/yoke/ops/loss.h */
#include "backends/host/kernels.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(host, op)
YOKE_LOSS_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(host, op)
const struct yoke_loss_ops HOST_NAME(host_loss_ops) = { YOKE_LOSS_OPS(ENTRY) };

/* ---- forward: one pass over a row, in blocks that are read twice, the second time from the first-level cache ---- */
enum { ROW_BLOCK = 2048 };

INLINE float row_max(const yoke_dtype t, const void *x, int64_t n)
{
    vf m[4] = { vset(-INFINITY), vset(-INFINITY), vset(-INFINITY), vset(-INFINITY) };
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int j = 0; j < 4; j++) m[j] = vmax(m[j], vload(t, x, i + j * VL));
    VECTOR_LOOP(j, left, i, n, m[0] = vmax(m[0], vkeep(vload_n(t, x, j, left), left, -INFINITY)););
    return vgreatest(vmax(vmax(m[0], m[1]), vmax(m[2], m[3])));
}

INLINE float row_sum_exp(const yoke_dtype t, const void *x, int64_t n, float max)
{
    vf s[4] = { { 0 } };
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int j = 0; j < 4; j++) s[j] += vexp(vload(t, x, i + j * VL) - max);
    VECTOR_LOOP(j, left, i, n, s[0] += vexp(vkeep(vload_n(t, x, j, left) - max, left, -INFINITY)););
    return vsum((s[0] + s[1]) + (s[2] + s[3]));
}

/* log sum exp with a running maximum: the sum so far is rescaled where a block raises it. */
INLINE float row_lse(const yoke_dtype t, const void *x, int64_t n)
{
    float max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i += ROW_BLOCK) {
        const int64_t m = YOKE_MIN(n - i, ROW_BLOCK);
        const float block_max = row_max(t, at(t, x, i), m);
        if (isinf(block_max) && block_max < 0) continue; /* all terms are 0 */
        if (!(block_max <= max)) {
            sum = sum == 0 ? 0 : sum * vexp(vset(max - block_max))[0];
            max = block_max;
        }
        if (isnan(max) || isinf(max)) break; /* the row's result too: max - max would be NaN where it is infinite */
        sum += row_sum_exp(t, at(t, x, i), m, max);
    }
    return isfinite(max) ? max + logf(sum) : max;
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

static yoke_status host_xent_forward_can(const yoke_device *device, const struct yoke_xent_forward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_xent_forward, "dtype", a->dtype));
    const double elements = (double)a->N * (double)a->V;
    return host_cost(cost, 0, 20 * elements, elements * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_xent_forward_run(yoke_stream *stream, const struct yoke_xent_forward_args *a)
{
    host_for(stream, a->N, host_row_grain(a->V), forward_range, a);
    return YOKE_OK;
}

/* ---- backward ---- */
INLINE void backward_rows(const yoke_dtype t, const struct yoke_xent_backward_args *a, int64_t from, int64_t to)
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
        /* dlogits may be the logits: the target's is read before the row is written */
        const float correct = here ? a->scale * (vexp(vset(load_one(t, x, target) - lse))[0] - 1) : 0;
        const float scale = a->scale;
        const int64_t V = a->V;
        VECTOR_LOOP(v, m, 0, V, vstore_n(t, dx, v, m, scale * vexp(vload_n(t, x, v, m) - lse)););
        if (here) store_one(t, dx, target, correct);
    }
}

static void backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_xent_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, backward_rows, a, from, to);
}

static yoke_status host_xent_backward_can(const yoke_device *device, const struct yoke_xent_backward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_xent_backward, "dtype", a->dtype));
    const double elements = (double)a->N * (double)a->V;
    return host_cost(cost, 0, 18 * elements, 2 * elements * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_xent_backward_run(yoke_stream *stream, const struct yoke_xent_backward_args *a)
{
    host_for(stream, a->N, host_row_grain(a->V), backward_range, a);
    return YOKE_OK;
}

/* ---- join: vectors of rows, since there are few parts ---- */
static void join_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_xent_join_args *a = context;
    VECTOR_LOOP(n, m, from, to, {
        vf max = vset(-INFINITY), sum = { 0 };
        for (int64_t p = 0; p < a->P; p++) max = vmax(max, vload_n(YOKE_F32, a->lse_parts, p * a->ld + n, m));
        const vf shift = vselect(vless(vabs(max), vset(INFINITY)), max, vset(0)); /* infinity minus infinity would be NaN */
        for (int64_t p = 0; p < a->P; p++) sum += vexp(vload_n(YOKE_F32, a->lse_parts, p * a->ld + n, m) - shift);
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

static yoke_status host_xent_join_can(const yoke_device *device, const struct yoke_xent_join_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_xent_join, "dtype", a->dtype));
    const double elements = (double)a->P * (double)a->N;
    return host_cost(cost, 0, 20 * elements, 2 * elements * sizeof(float));
}

static yoke_status host_xent_join_run(yoke_stream *stream, const struct yoke_xent_join_args *a)
{
    host_for(stream, a->N, YOKE_MAX(VL, host_row_grain(a->P)), join_range, a);
    return YOKE_OK;
}
