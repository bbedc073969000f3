/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a product is right, without trusting any side. The result is compared with sums in f64. The
 * difference must be within the bound that gemm.h states.
 */
#include <math.h>
#include <stdlib.h>

#include "cli/bench/gemm.h"
#include "core/base/base.h"

/* products of at most this many multiplications are checked element by element */
#define WHOLE_LIMIT (1ll << 24)
#define SAMPLE 4096

/* 2 gamma(n), where gamma(n) = n u / (1 - n u), and u is the unit roundoff of f32. */
static double gamma2(double n)
{
    double u = yokei_unit_roundoff(YOKE_F32);
    return 2 * n * u / (1 - n * u);
}

/* |error| / bound of one element. */
static double error_of_element(const struct gemm_problem *p, int64_t i, int64_t j)
{
    double sum = 0, size = 0;
    for (int64_t k = 0; k < p->K; k++) {
        double x = yokei_load(p->dtype, p->a, i * p->K + k) * yokei_load(p->dtype, p->b, k * p->N + j);
        sum += x;
        size += fabs(x);
    }
    double bound = yokei_unit_roundoff(p->dtype) * fabs(sum) + gamma2((double)p->K + 2) * size
                   + yokei_underflow(p->dtype);
    double error = fabs(yokei_load(p->dtype, p->c, i * p->N + j) - sum);
    return isnan(error) ? INFINITY : error / bound;
}

/*
 * Freivalds' check: compare C v with A (B v) for a vector v of random signs. Each row must be within the sum
 * of the bounds of its elements.
 */
static double rows(const struct gemm_problem *p, struct yokei_philox_key key)
{
    double *v = malloc((size_t)p->N * sizeof *v), *bv = calloc((size_t)p->K, sizeof *bv),
           *size = calloc((size_t)p->K, sizeof *size);
    double worst = v && bv && size ? 0 : INFINITY;
    for (int64_t j = 0; j < p->N && worst == 0; j++) v[j] = yokei_uniform(key, (uint64_t)j) < 0.5 ? -1 : 1;
    for (int64_t k = 0; k < p->K && worst == 0; k++)
        for (int64_t j = 0; j < p->N; j++) {
            double x = yokei_load(p->dtype, p->b, k * p->N + j);
            bv[k] += x * v[j];
            size[k] += fabs(x);
        }
    bool ready = worst == 0;
    for (int64_t i = 0; i < p->M && ready; i++) {
        double want = 0, total = 0, got = 0, magnitude = 0;
        for (int64_t k = 0; k < p->K; k++) {
            double a = yokei_load(p->dtype, p->a, i * p->K + k);
            want += a * bv[k];
            total += fabs(a) * size[k];
        }
        for (int64_t j = 0; j < p->N; j++) {
            double c = yokei_load(p->dtype, p->c, i * p->N + j);
            got += c * v[j];
            magnitude += fabs(c);
        }
        double bound = yokei_unit_roundoff(p->dtype) * magnitude * 2 + gamma2((double)p->K + 2) * total
                       + (double)p->N * yokei_underflow(p->dtype);
        double ratio = fabs(got - want) / bound;
        if (!(ratio <= worst)) worst = isnan(ratio) ? INFINITY : ratio;
    }
    free(v);
    free(bv);
    free(size);
    return worst;
}

bool cli_gemm_check(const struct gemm_problem *p, double *ratio_out)
{
    struct yokei_philox_key key = yokei_philox_named(1, "yoke bench gemm check");
    double worst = 0;
    bool whole = p->M * p->N * p->K <= WHOLE_LIMIT;
    int64_t n = whole ? p->M * p->N : SAMPLE;
    for (int64_t s = 0; s < n; s++) {
        /* The corners are always in the sample, because kernels often go wrong at ragged edges. */
        int64_t i = whole ? s / p->N : (int64_t)(yokei_uniform(key, 2 * (uint64_t)s) * (double)p->M);
        int64_t j = whole ? s % p->N : (int64_t)(yokei_uniform(key, 2 * (uint64_t)s + 1) * (double)p->N);
        if (!whole && s < 4) i = s & 1 ? p->M - 1 : 0, j = s & 2 ? p->N - 1 : 0;
        worst = fmax(worst, error_of_element(p, YOKE_MIN(i, p->M - 1), YOKE_MIN(j, p->N - 1)));
    }
    if (!whole) worst = fmax(worst, rows(p, key));
    *ratio_out = worst;
    return worst <= 1;
}
