/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisation on the host backend. include/yoke/ops/norm.h has the maths, types and bounds.
 * backends/gpu/kernels/norm.yk does the same on devices.
 *
 * RMSNorm is LayerNorm with the mean taken as 0, and without beta. One source serves both, with `rms` a
 * constant. The arguments of RMSNorm become those of LayerNorm with beta, mean and dbeta NULL.
 */
#include "backends/host/kernels.h"

/* ---- forward ---- */
/* Four sums side by side, because an addition has a latency of four cycles. */
INLINE float row_sum(const yoke_dtype t, const void *x, int64_t n)
{
    vf s[4] = { { 0 } };
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int j = 0; j < 4; j++) s[j] += vload(t, x, i + j * VL);
    VECTOR_LOOP(j, m, i, n, s[0] += vload_n(t, x, j, m););
    return vsum((s[0] + s[1]) + (s[2] + s[3]));
}

INLINE float row_squares(const yoke_dtype t, const void *x, int64_t n, float mean)
{
    vf s[4] = { { 0 } };
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int j = 0; j < 4; j++) {
            const vf d = vload(t, x, i + j * VL) - mean;
            s[j] = vfma(d, d, s[j]);
        }
    VECTOR_LOOP(j, m, i, n, const vf d = vkeep(vload_n(t, x, j, m) - mean, m, 0); s[0] = vfma(d, d, s[0]););
    return vsum((s[0] + s[1]) + (s[2] + s[3]));
}

INLINE void forward_rows(const yoke_dtype t, const bool rms, const struct yoke_layernorm_forward_args *a,
                         int64_t from, int64_t to)
{
    const int64_t C = a->C;
    for (int64_t n = from; n < to; n++) {
        const void *xn = at(t, a->x, n * a->ldx); /* [C] */
        void *yn = at_mut(t, a->y, n * a->ldy);
        const float mean = rms ? 0 : row_sum(t, xn, C) / (float)C;
        const float rstd = 1 / sqrtf(row_squares(t, xn, C, mean) / (float)C + a->eps);
        const float *gamma = a->gamma, *beta = a->beta;
        VECTOR_LOOP(c, m, 0, C, {
            const vf xhat = (vload_n(t, xn, c, m) - mean) * rstd;
            const vf g = vload_n(YOKE_F32, gamma, c, m);
            vstore_n(t, yn, c, m, rms ? xhat * g : vfma(xhat, g, vload_n(YOKE_F32, beta, c, m)));
        });
        if (a->mean) ((float *)a->mean)[n] = mean;
        if (a->rstd) ((float *)a->rstd)[n] = rstd;
    }
}

static void forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_layernorm_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, forward_rows, false, a, from, to);
}

static void rms_forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_layernorm_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, forward_rows, true, a, from, to);
}

static yoke_status host_layernorm_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_forward_args *a = call->args;
    if (a->C) host_for(stream, a->N, host_row_grain(a->C), forward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_layernorm_forward) = { .run = host_layernorm_forward_run };

static yoke_status host_rmsnorm_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_forward_args like = yokei_rmsnorm_forward_as_layernorm(call->args);
    if (like.C) host_for(stream, like.N, host_row_grain(like.C), rms_forward_range, &like);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_rmsnorm_forward) = { .run = host_rmsnorm_forward_run };

/*
 * ---- backward ----
 * One pass over the rows. The sums over rows use blocks of rows that depend on N only. Each block has partial
 * sums of its own, and these are then added in block order.
 */
enum { MAX_BLOCKS = 64, LEAST_BLOCK_ROWS = 16 };

static int64_t block_rows(int64_t N) { return YOKE_MAX(LEAST_BLOCK_ROWS, host_ceil_div(N, MAX_BLOCKS)); }

struct backward {
    const struct yoke_layernorm_backward_args *a;
    bool rms;
    float *partial; /* [blocks][2][C] for dgamma and dbeta, [blocks][C] for RMSNorm; NULL: not wanted */
};

/* Compute avg(g) and avg(g xhat) of one row. */
INLINE void row_averages(const yoke_dtype t, const void *dy, const void *x, const float *gamma, int64_t C,
                         float mean, float rstd, float *average_g, float *average_gx)
{
    vf g_sum[2] = { { 0 } }, gx_sum[2] = { { 0 } };
    int64_t i = 0;
    for (; i + 2 * VL <= C; i += 2 * VL)
        for (int j = 0; j < 2; j++) {
            const vf g = vload(t, dy, i + j * VL) * vload(YOKE_F32, gamma, i + j * VL);
            g_sum[j] += g;
            gx_sum[j] = vfma(g, (vload(t, x, i + j * VL) - mean) * rstd, gx_sum[j]);
        }
    VECTOR_LOOP(c, m, i, C, {
        const vf g = vload_n(t, dy, c, m) * vload_n(YOKE_F32, gamma, c, m); /* 0 past the end */
        g_sum[0] += g;
        gx_sum[0] = vfma(g, vkeep((vload_n(t, x, c, m) - mean) * rstd, m, 0), gx_sum[0]);
    });
    *average_g = vsum(g_sum[0] + g_sum[1]) / (float)C;
    *average_gx = vsum(gx_sum[0] + gx_sum[1]) / (float)C;
}

INLINE void backward_row(const yoke_dtype t, const bool rms, const struct yoke_layernorm_backward_args *a,
                         int64_t n, float *dgamma, float *dbeta)
{
    const int64_t C = a->C;
    const void *dyn = at(t, a->dy, n * a->lddy), *xn = at(t, a->x, n * a->ldx); /* [C] */
    const void *residual = a->dresidual ? at(t, a->dresidual, n * a->lddresidual) : NULL;
    void *dx = a->dx ? at_mut(t, a->dx, n * a->lddx) : NULL;
    const float mean = rms ? 0 : ((const float *)a->mean)[n], rstd = ((const float *)a->rstd)[n];
    float average_g = 0, average_gx = 0;
    if (dx) row_averages(t, dyn, xn, a->gamma, C, mean, rstd, &average_g, &average_gx);
    const float *gamma = a->gamma;
    VECTOR_LOOP(c, m, 0, C, {
        const vf d = vload_n(t, dyn, c, m);
        const vf xhat = (vload_n(t, xn, c, m) - mean) * rstd;
        if (dgamma) {
            vstore_n(YOKE_F32, dgamma, c, m, vfma(d, xhat, vload_n(YOKE_F32, dgamma, c, m)));
            if (!rms) vstore_n(YOKE_F32, dbeta, c, m, d + vload_n(YOKE_F32, dbeta, c, m));
        }
        if (dx) {
            const vf g = d * vload_n(YOKE_F32, gamma, c, m);
            vf r = ((rms ? g : g - average_g) - xhat * average_gx) * rstd;
            if (residual) r += vload_n(t, residual, c, m);
            vstore_n(t, dx, c, m, r);
        }
    });
}

INLINE void backward_block(const yoke_dtype t, const bool rms, const struct backward *b, int64_t block)
{
    const int64_t rows = block_rows(b->a->N), from = block * rows, to = YOKE_MIN(from + rows, b->a->N),
                  C = b->a->C;
    const int64_t sums = rms ? C : 2 * C;
    float *dgamma = b->partial ? b->partial + block * sums : NULL,
          *dbeta = dgamma && !rms ? dgamma + C : NULL;
    if (dgamma) memset(dgamma, 0, (size_t)sums * sizeof *dgamma);
    for (int64_t n = from; n < to; n++) backward_row(t, rms, b->a, n, dgamma, dbeta);
}

static void backward_unit(const void *context, int64_t block, int thread)
{
    (void)thread;
    const struct backward *b = context;
    if (b->rms)
        HOST_BY_TYPE(b->a->dtype, backward_block, true, b, block);
    else
        HOST_BY_TYPE(b->a->dtype, backward_block, false, b, block);
}

static void add_partials(const void *context, int64_t from, int64_t to)
{
    const struct backward *b = context;
    const int64_t C = b->a->C, n_blocks = host_ceil_div(b->a->N, block_rows(b->a->N));
    const int halves = b->rms ? 1 : 2;
    for (int half = 0; half < halves; half++) {
        float *sum = half ? b->a->dbeta : b->a->dgamma;
        for (int64_t c = from; c < to; c += VL) {
            vf s = { 0 };
            for (int64_t i = 0; i < n_blocks; i++)
                s += vload_n(YOKE_F32, b->partial, (halves * i + half) * C + c, to - c);
            vstore_n(YOKE_F32, sum, c, to - c, s + vload_n(YOKE_F32, sum, c, to - c));
        }
    }
}

/* The bytes of the blocks' sums for the weights: dgamma, and dbeta unless `rms`. */
static size_t partial_bytes(bool rms, int64_t N, int64_t C)
{
    return (size_t)(host_ceil_div(N, block_rows(N)) * (rms ? 1 : 2) * C) * sizeof(float);
}

static yoke_status norm_backward(yoke_stream *stream, const struct yokei_call *call, struct backward b)
{
    const struct yoke_layernorm_backward_args *a = b.a;
    if (!a->N || !a->C) return YOKE_OK;
    if (a->dgamma) {
        void *scratch;
        YOKE_TRY(yokei_scratch(stream, call->op, partial_bytes(b.rms, a->N, a->C), &scratch));
        b.partial = scratch;
    }
    host_for_units(stream, host_ceil_div(a->N, block_rows(a->N)), backward_unit, &b);
    if (a->dgamma) host_for(stream, a->C, ELEMENT_GRAIN / 16, add_partials, &b);
    return YOKE_OK;
}

static yoke_status host_layernorm_backward_can(const yoke_device *device, const struct yokei_call *call,
                                               size_t *scratch_bytes_out)
{
    const struct yoke_layernorm_backward_args *a = call->args;
    (void)device;
    *scratch_bytes_out = partial_bytes(false, a->N, a->C);
    return YOKE_OK;
}

static yoke_status host_layernorm_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    return norm_backward(stream, call, (struct backward){ .a = call->args });
}
const struct yoke_op HOST_NAME(host_layernorm_backward) = { .can = host_layernorm_backward_can,
                                                            .run = host_layernorm_backward_run };

static yoke_status host_rmsnorm_backward_can(const yoke_device *device, const struct yokei_call *call,
                                             size_t *scratch_bytes_out)
{
    const struct yoke_rmsnorm_backward_args *a = call->args;
    (void)device;
    *scratch_bytes_out = partial_bytes(true, a->N, a->C);
    return YOKE_OK;
}

static yoke_status host_rmsnorm_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_backward_args like = yokei_rmsnorm_backward_as_layernorm(call->args);
    return norm_backward(stream, call, (struct backward){ .a = &like, .rms = true });
}
const struct yoke_op HOST_NAME(host_rmsnorm_backward) = { .can = host_rmsnorm_backward_can,
                                                          .run = host_rmsnorm_backward_run };
