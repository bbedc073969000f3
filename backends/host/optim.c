/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdamW and the gradient's norm on the host backend. include/yoke/ops/optim.h has the maths, types and
 * bounds.
 */
#include "backends/host/kernels.h"

/* ---- AdamW ---- */
struct adamw {
    const struct yoke_adamw_args *a;
    float m_correction, v_correction; /* 1 - beta^step */
};

/* copy_type is the type of the copy. It and with_copy are constants. */
INLINE void adamw_elements(const yoke_dtype copy_type, const bool with_copy, const struct adamw *o,
                           int64_t from, int64_t to)
{
    const struct yoke_adamw_args *a = o->a;
    const float keep_m = a->beta1, add_m = 1 - a->beta1, keep_v = a->beta2, add_v = 1 - a->beta2;
    const float m_correction = o->m_correction, v_correction = o->v_correction,
                decay = a->lr * a->weight_decay, lr = a->lr;
    const float grad_scale = a->grad_scale, eps = a->eps;
    const float *grad = a->grad;
    float *ws = a->w, *ms = a->m, *vs = a->v;
    void *copy = a->copy;
    VECTOR_LOOP(i, n, from, to, {
        const vf g = vload_n(YOKE_F32, grad, i, n) * grad_scale;
        const vf w = vload_n(YOKE_F32, ws, i, n);
        const vf m = vload_n(YOKE_F32, ms, i, n) * keep_m + g * add_m;
        const vf v = vload_n(YOKE_F32, vs, i, n) * keep_v + g * g * add_v;
        /*
         * The operations and their order are the same as in gpu/kernels/optim.yk, because data-parallel ranks
         * must keep the same weights.
         */
        const vf next = w - w * decay - m / m_correction / (vsqrt(v / v_correction) + eps) * lr;
        vstore_n(YOKE_F32, ms, i, n, m);
        vstore_n(YOKE_F32, vs, i, n, v);
        vstore_n(YOKE_F32, ws, i, n, next);
        if (with_copy) vstore_n(copy_type, copy, i, n, next);
    });
}

static void adamw_range(const void *context, int64_t from, int64_t to)
{
    const struct adamw *o = context;
    if (o->a->copy)
        HOST_BY_TYPE(o->a->copy_dtype, adamw_elements, true, o, from, to);
    else
        adamw_elements(YOKE_F32, false, o, from, to);
}

static yoke_status host_adamw_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_adamw_args *a = call->args;
    const struct adamw o = { a, (float)(1 - pow((double)a->beta1, (double)a->step)),
                             (float)(1 - pow((double)a->beta2, (double)a->step)) };
    host_for(stream, a->n, ELEMENT_GRAIN, adamw_range, &o);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_adamw) = { .run = host_adamw_run };

/*
 * ---- norm and non-finite check ----
 * Blocks of 4096 elements have 64 sums side by side, so each sum has 64 terms. The sums of the blocks are
 * added pairwise. The blocks depend on n only.
 */
enum { NORM_BLOCK = 4096, NORM_SUMS = 64 / VL };

struct norm {
    const struct yoke_grad_norm_args *a;
    int64_t block;        /* elements per block */
    float *sums, *counts; /* those of the blocks, `apart` elements from one block to the next */
    int64_t apart;
};

/* Add g^2 to the sum if g is finite, else add 1 to the count. */
INLINE void add_square(vf g, vf *sum, vf *bad)
{
    const vmask finite = vless(vabs(g), vset(INFINITY));
    const vf kept = vselect(finite, g, vset(0));
    *sum = vfma(kept, kept, *sum);
    *bad += vselect(finite, vset(0), vset(1));
}

INLINE void norm_block(const yoke_dtype t, const struct norm *o, int64_t block)
{
    const int64_t from = block * o->block, to = YOKE_MIN(from + o->block, o->a->n);
    const float scale = o->a->scale;
    const void *grad = o->a->grad;
    vf s[NORM_SUMS] = { { 0 } }, bad = { 0 };
    int64_t i = from;
    for (; i + NORM_SUMS * VL <= to; i += NORM_SUMS * VL)
        for (int j = 0; j < NORM_SUMS; j++) add_square(vload(t, grad, i + j * VL) * scale, &s[j], &bad);
    /* past the end, 0 times an infinite scale would be NaN */
    VECTOR_LOOP(j, n, i, to,
                add_square(vkeep(vload_n(t, grad, j, n) * scale, n, 0), &s[(j - i) / VL], &bad););
    for (int half = NORM_SUMS / 2; half; half /= 2)
        for (int j = 0; j < half; j++) s[j] += s[j + half];
    o->sums[block * o->apart] = vsum(s[0]);
    o->counts[block * o->apart] = vsum(bad);
}

INLINE void norm_blocks(const yoke_dtype t, const struct norm *o, int64_t from, int64_t to)
{
    for (int64_t block = from; block < to; block++) norm_block(t, o, block);
}

static void norm_range(const void *context, int64_t from, int64_t to)
{
    const struct norm *o = context;
    HOST_BY_TYPE(o->a->dtype, norm_blocks, o, from, to);
}

/* Sum in place. x is [n], n is at least 1. */
static float pairwise_sum(float *x, int64_t n)
{
    for (; n > 1; n = (n + 1) / 2)
        for (int64_t i = 0; i < n / 2; i++) x[i] += x[n - 1 - i];
    return x[0];
}

static yoke_status host_grad_norm_can(const yoke_device *device, const struct yokei_call *call,
                                      size_t *scratch_bytes_out)
{
    const struct yoke_grad_norm_args *a = call->args;
    (void)device;
    const size_t scratch = a->block ? 0 : (size_t)host_ceil_div(a->n, NORM_BLOCK) * 2 * sizeof(float);
    *scratch_bytes_out = scratch;
    return YOKE_OK;
}

static yoke_status host_grad_norm_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_grad_norm_args *a = call->args;
    const int64_t block = a->block ? a->block : NORM_BLOCK, n_blocks = host_ceil_div(a->n, block);
    float *out = a->out;
    void *scratch;
    if (a->block) {
        const struct norm each = { a, block, out, out + 1, 2 };
        host_for(stream, n_blocks, YOKE_MAX(NORM_BLOCK / block, 1), norm_range, &each);
        return YOKE_OK;
    }
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_grad_norm, (size_t)n_blocks * 2 * sizeof(float), &scratch));
    const struct norm o = { a, block, scratch, (float *)scratch + n_blocks, 1 };
    host_for(stream, n_blocks, 1, norm_range, &o);
    out[0] = n_blocks ? pairwise_sum(o.sums, n_blocks) : 0;
    out[1] = n_blocks ? pairwise_sum(o.counts, n_blocks) : 0;
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_grad_norm) = { .can = host_grad_norm_can, .run = host_grad_norm_run };
