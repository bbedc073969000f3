/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of matrix products: the derivation of the bounds.
 *
 * A product of two elements is rounded once; a product of 16-bit elements is not rounded at all. Each product
 * then passes at most K - 1 additions in any order, the factor alpha, the addition of beta C0, and the
 * addition of the bias:
 *   E = gamma(K+4) (|alpha| |A||B| + |beta C0| + |bias|)
 * C is rounded once to its type. Matrix units (tensor cores) add a block of b products and the sum at a time,
 * with b >= 4. They shift all b + 1 terms to the greatest exponent, cut off what is below the last bit of
 * f32, and cut off the total too. Each cut loses less than 2 u32 times the greatest term or the total, and
 * both are at most |A||B|. There are K + ceil(K / b) cuts of terms (a cut of 0 loses nothing) and ceil(K / b)
 * cuts of totals, together at most 1.5 K + 2. The library may keep up to ceil(K / b) sums apart, and add them
 * by as many additions that round to the nearest. With the 4 roundings of alpha, beta and bias this is
 *   E = gamma(2 (1.5 K + 2) + K / 4 + 1 + 4) (...) = gamma(3.25 K + 9) (|alpha| |A||B| + |beta C0| + |bias|)
 * Only 16-bit products of variants with YOKEI_VARIANT_CUTS have this bound. A unit that keeps more bits, or
 * rounds, stays within it.
 * Through GELU: with aux, the device's own rounded pre-activation is known. So C is compared with gelu(aux),
 * with the bound of conform/act.c. Without aux, C is compared with the range of GELU over pre +- (E + u
 * (|pre| + E)).
 * Underflow: each f32 operation loses at most eta. Matrix units flush subnormal bf16 inputs and f32 results
 * to zero, so bf16 is allowed 2^-126 per element and per product. Those of AMD's MI200 also flush subnormal
 * f16 numbers. A product of variants with YOKEI_VARIANT_FLUSHES may lose each term that has one, and a result
 * in f16 below 2^-14. A term of such a number and an infinity may then be NaN.
 * Bias gradient: N additions of stored numbers, gamma(N+1) (sum |dy| + |dbias0|).
 */
#include "conform/gradient_pairs.h"

#include <stdio.h>

struct shape {
    int64_t M, N, K, batch;
    bool ta, tb;
    float alpha, beta;
    enum yoke_epilogue epilogue;
    bool aux, wide; /* wide: the output is f32 although the inputs have 16 bits */
    int64_t pad;
    enum flavour flavour;
    enum { SHARE_NONE, SHARE_A, SHARE_B } share; /* all batches share this operand: its stride is 0 */
    bool tiny; /* one term of a sum is 1, and the others are a little less than the last bit of 1 */
};

#define PLAIN 1, 0, YOKE_EPILOGUE_NONE, false, false
static const struct shape shapes[] = {
    { 1, 1, 1, 1, false, false, PLAIN },
    { 7, 5, 3, 1, false, false, PLAIN },
    { 17, 19, 23, 1, true, false, PLAIN, .pad = 3 },
    { 16, 16, 16, 1, false, true, PLAIN },
    { 33, 65, 127, 1, true, true, 1, 1, YOKE_EPILOGUE_NONE, .pad = 5 },
    { 64, 64, 64, 1, false, false, 1, 0, YOKE_EPILOGUE_NONE, .wide = true },
    { 67, 129, 31, 1, false, true, 0.5f, 0.5f, YOKE_EPILOGUE_NONE, .pad = 1 },
    { 128, 96, 200, 1, false, false, 1, 0, YOKE_EPILOGUE_BIAS },
    { 37, 53, 257, 1, false, true, 1, 0, YOKE_EPILOGUE_BIAS_GELU, .aux = true, .pad = 2 },
    { 19, 64, 40, 1, false, true, 1, 0, YOKE_EPILOGUE_BIAS_GELU },
    { 20, 33, 15, 1, false, false, 2, 1, YOKE_EPILOGUE_BIAS_GELU, .aux = true, .wide = true },
    { 9, 31, 17, 3, false, true, PLAIN, .pad = 4 },
    { 12, 8, 29, 4, true, false, 1, 1, YOKE_EPILOGUE_BIAS, .share = SHARE_B },
    { 5, 40, 33, 3, false, false, PLAIN, .share = SHARE_A },
    { 48, 80, 300, 1, true, false, 1, 1, YOKE_EPILOGUE_NONE, .wide = true }, /* as a weight gradient */
    { 1, 257, 64, 1, false, true, 1, 0, YOKE_EPILOGUE_BIAS },
    { 129, 1, 65, 1, false, false, PLAIN },
    { 5, 6, 2000, 1, false, true, PLAIN },
    { 40, 70, 1100, 1, false, false, 1, 1, YOKE_EPILOGUE_NONE,
      .pad = 1 }, /* K is larger than what a block of the kernels keeps */
    { 131, 260, 70, 1, false, false, -1.25f, 0, YOKE_EPILOGUE_NONE },
    /* Larger than one chunk of K, one block of rows and one strip; the rows are a page apart. */
    { 26, 50, 1090, 1, false, false, 1, 0.5f, YOKE_EPILOGUE_BIAS_GELU, .aux = true },
    { 27, 33, 1031, 1, true, true, -0.5f, 1, YOKE_EPILOGUE_BIAS },
    { 9, 65, 2048, 1, false, true, 1, 1, YOKE_EPILOGUE_NONE, .wide = true },
    { 290, 17, 70, 2, false, false, PLAIN, .pad = 6 },
    { 275, 37, 71, 1, true, false, 1, 1, YOKE_EPILOGUE_NONE, .wide = true },
    { 0, 5, 7, 1, false, false, PLAIN },
    { 5, 0, 7, 1, false, true, 1, 1, YOKE_EPILOGUE_NONE },
    { 6, 7, 0, 1, false, false, PLAIN, .pad = 2 },
    { 6, 7, 0, 2, false, true, 1, 0.5f, YOKE_EPILOGUE_BIAS },
    { 34, 35, 36, 1, false, true, PLAIN, .pad = 1, .flavour = WIDE },
    /* the largest errors of sums that are cut off. Rows with even numbers have aligned addresses. */
    { 3, 5, 1000, 1, false, true, 1, 0, YOKE_EPILOGUE_NONE, .wide = true, .tiny = true },
    { 34, 35, 36, 1, false, false, PLAIN, .pad = 1, .flavour = SUBNORMAL },
    /* wholly aligned, as matrix units need it */
    { 32, 64, 48, 2, false, true, 1, 0, YOKE_EPILOGUE_BIAS_GELU, .aux = true },
    { 34, 35, 36, 1, true, false, 1, 1, YOKE_EPILOGUE_NONE, .pad = 1, .flavour = ZEROS },
    { 34, 35, 36, 1, false, true, PLAIN, .pad = 1, .flavour = NANS },
    { 34, 35, 36, 1, false, false, 1, 0, YOKE_EPILOGUE_BIAS, .pad = 1, .flavour = INFS },
};

static struct shape shape_of(const struct trial *t)
{
    /*
     * As for a linear layer: forward (with bias), its input's gradient (NT), and its weight's gradient (TN,
     * f32 +=).
     */
    if (t->dims)
        return (struct shape){ .M = t->dims[0],
                               .N = t->dims[1],
                               .K = t->dims[2],
                               .batch = t->dims[3],
                               .ta = t->dims[4] != 0,
                               .tb = t->dims[5] != 0,
                               .alpha = 1,
                               .beta = t->dims[4] ? 1 : 0,
                               .wide = t->dims[4] != 0,
                               .epilogue = t->dims[4] || t->dims[5] ? YOKE_EPILOGUE_NONE
                                                                    : YOKE_EPILOGUE_BIAS };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    static const float factors[] = { 0, 0, 1, 0.25f };
    return (struct shape){ .M = 1 + trial_random(t, "M", 0, 150),
                           .N = 1 + trial_random(t, "N", 0, 150),
                           .K = 1 + trial_random(t, "K", 0, 200),
                           .batch = 1 + trial_random(t, "batch", 0, 2),
                           .ta = trial_random(t, "ta", 0, 2),
                           .tb = trial_random(t, "tb", 0, 2),
                           .alpha = 1,
                           .beta = factors[trial_random(t, "beta", 0, 4)],
                           .epilogue = (enum yoke_epilogue)trial_random(t, "epilogue", 0, 3),
                           .aux = trial_random(t, "aux", 0, 2),
                           .wide = trial_random(t, "wide", 0, 2),
                           .pad = trial_random(t, "pad", 0, 6) };
}

static yoke_dtype out_of(const struct trial *t, const struct shape *s)
{
    return s->wide ? yoke_dtype_wide(t->dtype) : t->dtype;
}

enum { A, B, C, BIAS, AUX };

static void setup_operand(struct trial *t, int id, const char *name, int64_t rows, int64_t cols,
                          int64_t batch, int64_t pad, bool shared)
{
    const int64_t ld = cols + pad;
    trial_batch(t, id, name, IN, t->dtype, batch, rows, cols, ld, shared ? 0 : rows * ld + 2 * pad);
}

/* Every sum is 1 + (K - 1) 2^-23 (1 - 2^-7). A sum that is cut off after each addition stays 1. */
static void fill_tiny(struct trial *t, const struct shape *s)
{
    for (int64_t k = 0; k < s->K; k++) {
        for (int64_t m = 0; m < s->M; m++)
            trial_set(t, A, (s->ta ? k * t->tensor[A].ld + m : m * t->tensor[A].ld + k),
                      k ? 0x1p-12 * 127 / 128 : 1);
        for (int64_t n = 0; n < s->N; n++)
            trial_set(t, B, (s->tb ? n * t->tensor[B].ld + k : k * t->tensor[B].ld + n), k ? 0x1p-11 : 1);
    }
}

static void gemm_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype out = out_of(t, &s);
    t->flavour = s.flavour;
    setup_operand(t, A, "a", s.ta ? s.K : s.M, s.ta ? s.M : s.K, s.batch, s.pad, s.share == SHARE_A);
    setup_operand(t, B, "b", s.tb ? s.N : s.K, s.tb ? s.K : s.N, s.batch, 2 * s.pad, s.share == SHARE_B);
    trial_batch(t, C, "c", s.beta != 0 ? SUM : OUT, out, s.batch, s.M, s.N, s.N + s.pad,
                s.M * (s.N + s.pad) + s.pad);
    trial_flavoured(t, A, 1, 30);
    trial_flavoured(t, B, 1, 30);
    if (s.flavour == SUBNORMAL) trial_fill(t, B, 1); /* the product of two subnormals would be 0 */
    if (s.tiny) fill_tiny(t, &s);
    if (s.beta != 0) trial_fill(t, C, 1);
    if (s.epilogue != YOKE_EPILOGUE_NONE) {
        trial_vector(t, BIAS, "bias", IN, yoke_dtype_wide(t->dtype), s.N);
        trial_fill(t, BIAS, 1);
    }
    if (s.epilogue == YOKE_EPILOGUE_BIAS_GELU && s.aux)
        trial_batch(t, AUX, "aux", OUT, out, s.batch, s.M, s.N, s.N + 3 * s.pad, s.M * (s.N + 3 * s.pad));
    static const char *const epilogues[] = { "", " bias", " bias+gelu" };
    char batch[32] = "";
    if (s.batch > 1)
        snprintf(batch, sizeof batch, " batch %d%s", (int)s.batch,
                 s.share == SHARE_A   ? " one a"
                 : s.share == SHARE_B ? " one b"
                                      : "");
    trial_describe(t, "M %d N %d K %d %c%c%s a %g b %g%s%s%s%s pad %d", (int)s.M, (int)s.N, (int)s.K,
                   s.ta ? 'T' : 'N', s.tb ? 'T' : 'N', batch, (double)s.alpha, (double)s.beta,
                   epilogues[s.epilogue], t->tensor[AUX].present ? "+aux" : "", s.wide ? " wide" : "",
                   s.tiny ? " tiny" : "", (int)s.pad);
}

static yoke_status gemm_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    const struct tensor *x = t->tensor;
    return CONFORM_CALL(gemm, side, cost, .dtype = side_dtype(side, t->dtype),
                        .out_dtype = side_dtype(side, out_of(t, &s)), .trans_a = s.ta, .trans_b = s.tb,
                        .M = s.M, .N = s.N, .K = s.K, .batch = s.batch, .a = trial_at(t, side, A, 0),
                        .lda = x[A].ld, .stride_a = x[A].stride, .b = trial_at(t, side, B, 0), .ldb = x[B].ld,
                        .stride_b = x[B].stride, .c = trial_at(t, side, C, 0), .ldc = x[C].ld,
                        .stride_c = x[C].stride, .alpha = s.alpha, .beta = s.beta, .epilogue = s.epilogue,
                        .bias = trial_at(t, side, BIAS, 0), .aux = trial_at(t, side, AUX, 0),
                        .ldaux = x[AUX].ld, .stride_aux = x[AUX].stride);
}

/* Element (i, m, n) before the activation, and its error before rounding. */
struct product {
    double value, error;
    bool may_be_nan; /* a factor that is flushed to 0 stands beside an infinity */
};

static bool flushes(const struct trial *t)
{
    return t->dtype == YOKE_F16
           && yokei_variant_facts(t->device.device, YOKE_OP_gemm) & YOKEI_VARIANT_FLUSHES;
}

/* The number of roundings by u32 in the bound of a sum of K products. */
static double roundings(const struct trial *t, int64_t K)
{
    const bool cuts = (t->dtype == YOKE_F16 || t->dtype == YOKE_BF16)
                      && yokei_variant_facts(t->device.device, YOKE_OP_gemm) & YOKEI_VARIANT_CUTS;
    return cuts ? 3.25 * (double)K + 9 : (double)K + 4;
}

static struct product product_of(const struct trial *t, const struct shape *s, int64_t i, int64_t m,
                                 int64_t n)
{
    const struct tensor *a = &t->tensor[A], *b = &t->tensor[B], *c = &t->tensor[C];
    const double least = flushes(t) ? 0x1p-14 : 0;
    double value = 0, size = 0, sum_a = 0, sum_b = 0, flushed = 0;
    for (int64_t k = 0; k < s->K; k++) {
        const double x = a->exact[i * a->stride + (s->ta ? k * a->ld + m : m * a->ld + k)];
        const double y = b->exact[i * b->stride + (s->tb ? n * b->ld + k : k * b->ld + n)];
        value += x * y;
        size += fabs(x * y);
        if (fabs(x) < least || fabs(y) < least) flushed += fabs(x * y);
        sum_a += fabs(x);
        sum_b += fabs(y);
    }
    const double alpha = s->alpha, lost = t->dtype == YOKE_BF16 ? flush32 * (sum_a + sum_b + (double)s->K)
                                                                : eta32 * (double)s->K;
    const double old = s->beta != 0 ? s->beta * c->initial[i * c->stride + m * c->ld + n] : 0;
    const double bias = s->epilogue != YOKE_EPILOGUE_NONE ? t->tensor[BIAS].exact[n] : 0;
    return (struct product){ alpha * value + old + bias,
                             gamma32(roundings(t, s->K)) * (fabs(alpha) * size + fabs(old) + fabs(bias))
                                 + fabs(alpha) * (lost + flushed) + 3 * eta32,
                             isinf(flushed) };
}

/* GELU of x, and the error of its evaluation in f32 (see conform/act.c). */
static struct product gelu(double x)
{
    const double z = 2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    const double s = 1 / (1 + exp(-z)), open = 1 / (1 + exp(z));
    return (struct product){ x * s,
                             16 * u32 * fabs(x) * s * (1 + (open == 0 ? 0 : fabs(z) * open)) + 2 * eta32
                                 + (s < 0x1p-125 ? fabs(x) * s : 0),
                             false };
}

/*
 * The largest difference between GELU at x and at any argument within e of x. GELU falls to its minimum at
 * -0.7524, then rises.
 */
static double gelu_range(double x, double e)
{
    const double y = gelu(x).value, low = fabs(gelu(x - e).value - y), high = fabs(gelu(x + e).value - y);
    const bool around = x - e < -0.75 && x + e > -0.76;
    return fmax(fmax(low, high), around ? fabs(gelu(-0.7524).value - y) : 0);
}

static void element_bound(struct trial *t, const struct shape *s, int64_t i, int64_t m, int64_t n)
{
    struct tensor *c = &t->tensor[C], *aux = &t->tensor[AUX];
    const int64_t at = i * c->stride + m * c->ld + n, at_aux = i * aux->stride + m * aux->ld + n;
    const struct product pre = product_of(t, s, i, m, n);
    /* the library rounds a result in f16 itself if there is no epilogue */
    if (pre.may_be_nan) {
        c->bound[at] = s->epilogue == YOKE_EPILOGUE_BIAS_GELU ? BOUND_ANY : BOUND_NOT_FINITE;
        if (aux->present) aux->bound[at_aux] = BOUND_NOT_FINITE;
        return;
    }
    const bool may_vanish = flushes(t) && c->dtype == YOKE_F16 && s->epilogue == YOKE_EPILOGUE_NONE;
    const double e_pre = bound_rounded(c->dtype, pre.value, pre.error)
                         + (may_vanish && fabs(pre.value) - pre.error < 0x1p-14 ? 0x1p-14 : 0);
    if (s->epilogue != YOKE_EPILOGUE_BIAS_GELU) {
        c->bound[at] = e_pre;
    } else if (aux->present) {
        const double x = trial_got(t, AUX, at_aux);
        const struct product y = gelu(x);
        aux->bound[at_aux] = e_pre;
        c->exact[at] = y.value;
        c->bound[at] = isinf(x) ? BOUND_ANY : bound_rounded(c->dtype, y.value, y.error);
    } else {
        const struct product y = gelu(pre.value);
        c->bound[at] = bound_rounded(c->dtype, y.value, y.error + gelu_range(pre.value, e_pre));
    }
}

static void gemm_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    for (int64_t i = 0; i < s.batch; i++)
        for (int64_t m = 0; m < s.M; m++)
            for (int64_t n = 0; n < s.N; n++) element_bound(t, &s, i, m, n);
}

static const struct conform_sizes gemm_sizes = { { "M", "N", "K", "batch", "ta", "tb" },
                                                 { { "tiny forward", { 64, 64, 64, 1 } },
                                                   { "row forward", { 1, 1024, 256, 1 } },
                                                   { "batch forward", { 64, 64, 64, 32 } },
                                                   { "micro forward", { 512, 1024, 256, 1 } },
                                                   { "micro input", { 512, 256, 1024, 1, 0, 1 } },
                                                   { "micro weight", { 256, 1024, 512, 1, 1, 0 } },
                                                   { "124m forward", { 1024, 3072, 768, 1 } },
                                                   { "124m input", { 1024, 768, 3072, 1, 0, 1 } },
                                                   { "124m weight", { 768, 3072, 1024, 1, 1, 0 } } },
                                                 .least = { 16, 0, 0, 1 } };

/* ---- gradient of gemm ----
 * C = alpha op(A) op(B) + bias; dA and dB are products themselves, dbias is bias_backward
 */

static void gemm_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    gradient_input(c, "a", s->M * s->K);
    gradient_input(c, "b", s->K * s->N);
    gradient_input(c, "bias", s->N);
    gradient_output(c, s->M * s->N, 0);
}

static yoke_status gemm_pair_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(gemm, .out_dtype = YOKE_F64, .trans_a = s->ta, .trans_b = s->tb, .M = s->M, .N = s->N,
                  .K = s->K, .batch = 1, .a = INPUT(0), .lda = s->ta ? s->M : s->K, .b = INPUT(1),
                  .ldb = s->tb ? s->K : s->N, .c = c->y, .ldc = s->N, .alpha = 0.5f,
                  .epilogue = YOKE_EPILOGUE_BIAS, .bias = INPUT(2));
    return YOKE_OK;
}

/* dop(A) = alpha dC op(B)^T, stored transposed if A is; dop(B) = alpha op(A)^T dC likewise. */
static yoke_status gemm_pair_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    const int64_t lda = s->ta ? s->M : s->K, ldb = s->tb ? s->K : s->N;
    if (s->ta)
        GRADIENT_CALL(gemm, .out_dtype = YOKE_F64, .trans_a = s->tb, .trans_b = true, .M = s->K, .N = s->M,
                      .K = s->N, .batch = 1, .a = INPUT(1), .lda = ldb, .b = c->w, .ldb = s->N,
                      .c = GRADIENT_OF(0), .ldc = lda, .alpha = 0.5f);
    else
        GRADIENT_CALL(gemm, .out_dtype = YOKE_F64, .trans_a = false, .trans_b = !s->tb, .M = s->M, .N = s->K,
                      .K = s->N, .batch = 1, .a = c->w, .lda = s->N, .b = INPUT(1), .ldb = ldb,
                      .c = GRADIENT_OF(0), .ldc = lda, .alpha = 0.5f);
    if (s->tb)
        GRADIENT_CALL(gemm, .out_dtype = YOKE_F64, .trans_a = true, .trans_b = s->ta, .M = s->N, .N = s->K,
                      .K = s->M, .batch = 1, .a = c->w, .lda = s->N, .b = INPUT(0), .ldb = lda,
                      .c = GRADIENT_OF(1), .ldc = ldb, .alpha = 0.5f);
    else
        GRADIENT_CALL(gemm, .out_dtype = YOKE_F64, .trans_a = !s->ta, .trans_b = false, .M = s->K, .N = s->N,
                      .K = s->M, .batch = 1, .a = INPUT(0), .lda = lda, .b = c->w, .ldb = s->N,
                      .c = GRADIENT_OF(1), .ldc = ldb, .alpha = 0.5f);
    GRADIENT_CALL(bias_backward, .N = s->M, .C = s->N, .dy = c->w, .ld = s->N, .dbias = GRADIENT_OF(2));
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair gemm_pairs[] = {
    { { .M = 5, .N = 7, .K = 6 }, gemm_pair_setup, gemm_pair_forward, gemm_pair_backward },
    { { .M = 5, .N = 3, .K = 6, .ta = true }, gemm_pair_setup, gemm_pair_forward, gemm_pair_backward },
    { { .M = 4, .N = 7, .K = 6, .tb = true }, gemm_pair_setup, gemm_pair_forward, gemm_pair_backward },
    { { .M = 5, .N = 7, .K = 8, .ta = true, .tb = true },
      gemm_pair_setup, gemm_pair_forward, gemm_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_gemm = CONFORM_ROW(gemm, AT_PRODUCT, CONFORM_FLOATS, shapes, gemm_sizes,
                                                        GRADIENTS(gemm_pairs), gemm_setup, gemm_call,
                                                        gemm_bound);

/* ---- bias gradient ---- */

struct columns {
    int64_t N, C, pad;
    enum flavour flavour;
};

/* clang-format off */
static const struct columns columns[] = {
    { 1, 1, 0 }, { 2, 3, 1 }, { 7, 16, 0 }, { 17, 33, 3 }, { 64, 64, 0 }, { 130, 65, 7 }, { 257, 9, 0 },
      { 3, 1031, 2 }, { 1031, 2, 0 },
    { 0, 31, 0 }, { 31, 0, 0 }, { 40, 24, 1, WIDE }, { 40, 24, 1, SUBNORMAL }, { 40, 24, 1, ZEROS }, { 40,
      24, 1, NANS }, { 40, 24, 1, INFS },
};
/* clang-format on */

enum { DY, DBIAS };

static struct columns columns_of(const struct trial *t)
{
    if (t->dims) return (struct columns){ .N = t->dims[0], .C = t->dims[1] };
    if ((size_t)t->index < YOKE_COUNT(columns)) return columns[t->index];
    return (struct columns){ .N = 1 + trial_random(t, "N", 0, 300),
                             .C = 1 + trial_random(t, "C", 0, 300),
                             .pad = trial_random(t, "pad", 0, 9) };
}

static void bias_backward_setup(struct trial *t)
{
    const struct columns s = columns_of(t);
    t->flavour = s.flavour;
    trial_matrix(t, DY, "dy", IN, t->dtype, s.N, s.C, s.C + s.pad);
    trial_vector(t, DBIAS, "dbias", SUM, yoke_dtype_wide(t->dtype), s.C);
    trial_flavoured(t, DY, 1, 40);
    trial_fill(t, DBIAS, 1);
    trial_describe(t, "N %d C %d pad %d", (int)s.N, (int)s.C, (int)s.pad);
}

static yoke_status bias_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct columns s = columns_of(t);
    return CONFORM_CALL(bias_backward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .C = s.C,
                        .dy = trial_at(t, side, DY, 0), .ld = t->tensor[DY].ld,
                        .dbias = trial_at(t, side, DBIAS, 0));
}

static void bias_backward_bound(struct trial *t)
{
    const struct columns s = columns_of(t);
    for (int64_t c = 0; c < s.C; c++) {
        double size = fabs(t->tensor[DBIAS].initial[c]);
        for (int64_t n = 0; n < s.N; n++) size += fabs(exact_of(t, DY)[n * t->tensor[DY].ld + c]);
        t->tensor[DBIAS].bound[c] = s.N ? gamma32((double)s.N + 1) * size : 0;
    }
}

static const struct gradient_pair bias_pairs[] = {
    { { .M = 9, .N = 11, .K = 2 }, gemm_pair_setup, gemm_pair_forward, gemm_pair_backward },
};

const struct conform_row conform_row_bias_backward = CONFORM_ROW(bias_backward, BACK_PRODUCT, CONFORM_FLOATS,
                                                                 columns, conform_rows_sizes,
                                                                 GRADIENTS(bias_pairs), bias_backward_setup,
                                                                 bias_backward_call, bias_backward_bound);
