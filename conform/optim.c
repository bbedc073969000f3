/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of the optimizer: the derivation of the bounds.
 *
 * AdamW. g has 1 rounding. In m, beta1 m0 has 2 roundings and (1 - beta1) g at most 4: gamma(4) (beta1 |m0| +
 * (1 - beta1) |g|). v is a sum of positive terms, and the second one has at most 6 roundings: gamma(6) v. The
 * update is (m / c1) / (sqrt(v / c2) + eps). It has the error of m, divided by the same denominators. Its
 * relative error is half of the errors of v and c2, the error of c1, and the errors of a square root, two
 * divisions and a sum: 16 u32 in all.
 *   w: |dw| <= gamma(4) (|w0| (1 + lr decay) + lr |update|) + lr (dm / (c1 d) + 16 u32 |update|).
 * The 16-bit copy is the new w, as stored, rounded once. So it must be exact.
 *
 * Norm. A term of the sum in blocks has 3 roundings: gamma(64 + log2(n) + n / 4096) of a sum of squares, and
 * never more than gamma(n + 3). With blocks a lane may add block / 32 terms. Squares below the normal range
 * may be lost. The count must be exact.
 */
#include "conform/trial.h"

struct shape {
    int64_t n;
    int64_t step;
    float lr, decay, grad_scale;
    enum { NO_COPY = -1, COPY_F32 = YOKE_F32, COPY_F16 = YOKE_F16, COPY_BF16 = YOKE_BF16 } copy;
    enum flavour flavour;
    int64_t block; /* block size of the norm */
};

static const struct shape shapes[] = {
    { 1, 1, 1e-3f, 0, 1, NO_COPY },
    { 7, 1, 1e-3f, 0.1f, 1, COPY_BF16 },
    { 15, 2, 0.1f, 0.01f, 0.5f, COPY_F16 },
    { 16, 3, 1e-3f, 0.1f, 1, COPY_F32 },
    { 17, 10, 0.3f, 0.1f, 2, COPY_BF16 },
    { 129, 1, 0.01f, 0.1f, 1 / 65536.0f, COPY_BF16 },
    { 1031, 100, 1e-2f, 0, 1, NO_COPY },
    { 5003, 1000, 6e-4f, 0.1f, 0.125f, COPY_F16 },
    { 70001, 20, 0.05f, 0.1f, 1, COPY_BF16 },
    { 0, 1, 1e-3f, 0.1f, 1, COPY_BF16 },
    { 400, 5, 1e-3f, 0.1f, 1, COPY_BF16, WIDE },
    { 400, 5, 1e-3f, 0.1f, 1, COPY_BF16, SUBNORMAL },
    { 400, 1, 1e-3f, 0.1f, 1, COPY_BF16, ZEROS },
    { 400, 5, 1e-3f, 0.1f, 1, COPY_BF16, NANS },
    { 400, 5, 1e-3f, 0.1f, 1, COPY_F16, INFS },
    { 5003, 1, 1e-3f, 0.1f, 0.5f, COPY_BF16, .block = 1024 },
    { 70001, 1, 1e-3f, 0.1f, 1, COPY_F16, .block = 1024 },
    { 400, 1, 1e-3f, 0.1f, 1, COPY_BF16, INFS, .block = 64 },
    { 9000, 1, 1e-3f, 0.1f, 2, COPY_BF16, NANS, .block = 4096 },
    { 100, 1, 1e-3f, 0.1f, 2, COPY_BF16, .block = 7 },
    { 13345, 1, 1e-3f, 0.1f, 2, COPY_BF16, .block = 32 },
};

static struct shape shape_of(const struct trial *t)
{
    if (t->dims)
        return (struct shape){ .n = t->dims[0],
                               .step = 10,
                               .lr = 1e-3f,
                               .decay = 0.1f,
                               .grad_scale = 1,
                               .copy = COPY_BF16,
                               .block = 1024 };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .n = 1 + trial_random(t, "n", 0, 9000),
                           .step = 1 + trial_random(t, "step", 0, 300),
                           .lr = 0.01f,
                           .decay = 0.1f,
                           .grad_scale = 0.25f,
                           .copy = t->index % 2 ? COPY_BF16 : COPY_F16 };
}

/* ---- AdamW ---- */

enum { GRAD, W, MOMENT, SQUARE, COPY };
static const float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;

static void adamw_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    t->flavour = s.flavour;
    trial_vector(t, GRAD, "grad", IN, t->dtype, s.n);
    trial_vector(t, W, "w", SUM, t->dtype, s.n);
    trial_vector(t, MOMENT, "m", SUM, t->dtype, s.n);
    trial_vector(t, SQUARE, "v", SUM, t->dtype, s.n);
    trial_flavoured(t, GRAD, 1, 40);
    trial_fill(t, W, 1);
    trial_fill(t, MOMENT, 0.3);
    trial_fill(t, SQUARE, 1);
    for (int64_t i = 0; i < s.n; i++) {
        const double v = trial_get(t, SQUARE, i);
        trial_set(t, SQUARE, i, s.step == 1 ? 0 : v * v);
        if (s.step == 1) trial_set(t, MOMENT, i, 0); /* as at the start of training */
    }
    if (s.copy != NO_COPY) trial_vector(t, COPY, "copy", OUT, (yoke_dtype)s.copy, s.n);
    trial_describe(t, "n %d step %d lr %g decay %g scale %g copy %s", (int)s.n, (int)s.step, (double)s.lr,
                   (double)s.decay, (double)s.grad_scale,
                   s.copy == NO_COPY ? "none" : yoke_dtype_name((yoke_dtype)s.copy));
}

static yoke_status adamw_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(adamw, side, cost, .dtype = side_dtype(side, t->dtype),
                        .copy_dtype = s.copy == NO_COPY ? YOKE_F32 : side_dtype(side, (yoke_dtype)s.copy),
                        .n = s.n, .w = trial_at(t, side, W, 0), .m = trial_at(t, side, MOMENT, 0),
                        .v = trial_at(t, side, SQUARE, 0), .grad = trial_at(t, side, GRAD, 0),
                        .copy = trial_at(t, side, COPY, 0), .lr = s.lr, .beta1 = beta1, .beta2 = beta2,
                        .eps = eps, .weight_decay = s.decay, .grad_scale = s.grad_scale, .step = s.step);
}

static void adamw_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    const double c1 = 1 - pow(beta1, (double)s.step), c2 = 1 - pow(beta2, (double)s.step),
                 lr = fabs((double)s.lr);
    for (int64_t i = 0; i < s.n; i++) {
        const double g = fabs((double)s.grad_scale * exact_of(t, GRAD)[i]), m = exact_of(t, MOMENT)[i],
                     v = exact_of(t, SQUARE)[i];
        const double m_size = beta1 * fabs(t->tensor[MOMENT].initial[i]) + (1 - (double)beta1) * g;
        const double e_m = gamma32(4) * m_size + 2 * eta32, e_v = gamma32(6) * v + 4 * eta32;
        const double denominator = sqrt(v / c2) + eps, update = fabs(m) / c1 / denominator;
        /*
         * If v underflows, eps dominates. So the lost part of v is a lost part of the root, at most the
         * square root of what v lost.
         */
        const double lost = v < 0x1p-100 ? update * sqrt(8 * eta32 / c2) / denominator : 0;
        const double e_w = gamma32(4)
                               * (fabs(t->tensor[W].initial[i]) * (1 + lr * (double)s.decay) + lr * update)
                           + lr * (e_m / c1 / denominator + 16 * u32 * update + lost) + eta32;
        t->tensor[MOMENT].bound[i] = e_m;
        t->tensor[SQUARE].bound[i] = e_v;
        t->tensor[W].bound[i] = e_w;
        if (s.copy == NO_COPY) continue;
        uint64_t element = 0;
        yokei_store((yoke_dtype)s.copy, &element, 0, trial_got(t, W, i));
        t->tensor[COPY].exact[i] = yokei_load((yoke_dtype)s.copy, &element, 0);
    }
}

static const struct conform_sizes adamw_sizes = {
    { "n" }, { { "tiny", { 4096 } }, { "micro", { 1048576 } }, { "124m", { 6553600 } } }, .least = { 4096 }
};

const struct conform_row conform_row_adamw = CONFORM_ROW(adamw, AT_UPDATE, 1u << YOKE_F32 | 1u << YOKE_F64,
                                                         shapes, adamw_sizes, NO_GRADIENTS, adamw_setup,
                                                         adamw_call, adamw_bound);

/* ---- norm ---- */

enum { NORM = 1 };

static int64_t n_sums(const struct shape *s) { return s->block ? (s->n + s->block - 1) / s->block : 1; }

static void grad_norm_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    t->flavour = s.flavour;
    trial_vector(t, GRAD, "grad", IN, t->dtype, s.n);
    trial_vector(t, NORM, "out", OUT, yoke_dtype_wide(t->dtype), 2 * n_sums(&s));
    trial_flavoured(t, GRAD, 1, 40);
    trial_describe(t, "n %d scale %g block %d", (int)s.n, (double)s.grad_scale, (int)s.block);
}

static yoke_status grad_norm_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(grad_norm, side, cost, .dtype = side_dtype(side, t->dtype), .n = s.n,
                        .grad = trial_at(t, side, GRAD, 0), .scale = s.grad_scale, .block = s.block,
                        .out = trial_at(t, side, NORM, 0));
}

static void grad_norm_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    const double n = (double)(s.block ? YOKE_MIN(s.block, s.n) : s.n),
                 terms = 64 + log2(fmax(n, 1)) + n / (s.block ? 32 : 4096);
    for (int64_t b = 0; b < n_sums(&s); b++) {
        t->tensor[NORM].bound[2 * b] = gamma32(fmin(n + 3, terms)) * exact_of(t, NORM)[2 * b] + 4 * n * eta32;
        t->tensor[NORM].bound[2 * b + 1] = 0;
    }
}

static const struct conform_sizes grad_norm_sizes = {
    { "n" },
    { { "tiny", { 4096 } }, { "micro", { 1048576 } }, { "124m", { 6553600 } } },
    .least = { 4096 },
    .sums = true
};

const struct conform_row conform_row_grad_norm = CONFORM_ROW(grad_norm, AT_GRADIENT_NORM, CONFORM_FLOATS,
                                                             shapes, grad_norm_sizes, NO_GRADIENTS,
                                                             grad_norm_setup, grad_norm_call,
                                                             grad_norm_bound);
