/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks samples of a long attention. conform/attention.c derives the bounds; here they are applied to one
 * row or one key.
 */
#include "tests/conform/attention_sample.h"
#include "conform/trial.h"

#include <stdlib.h>

typedef const struct yoke_attention_backward_args args;

/* Read the channels of head h in row t of sample b of a matrix. */
static void channels(args *a, const void *x, int64_t ld, int64_t b, int64_t t, int64_t h, double *to)
{
    for (int64_t d = 0; d < a->D; d++) to[d] = yokei_load(a->dtype, x, (b * a->T + t) * ld + h * a->D + d);
}

struct sum {
    double value, size;
};

static struct sum dot(const double *x, const double *y, int64_t n)
{
    struct sum s = { 0, 0 };
    for (int64_t i = 0; i < n; i++) s.value += x[i] * y[i], s.size += fabs(x[i] * y[i]);
    return s;
}

static double eta_of(yoke_dtype dtype) { return fmax(yokei_underflow(dtype), flush32); }

/*
 * The error of a score, which is a relative error of its exponential. `size` is the sum of |x y| over its
 * terms.
 */
static double score_error(args *a, double size)
{
    return fabs((double)a->scale)
           * (gamma32((double)a->D + 2) * size + flush32 * 3 * (double)a->D * (1 + size));
}

static void take(double *worst, double got, double wanted, double bound)
{
    const double ratio = fabs(got - wanted) / bound;
    if (!(ratio <= *worst)) *worst = isfinite(ratio) ? ratio : INFINITY;
}

/* ---- rows ---- */

struct row {
    args *a;
    int64_t b, t, h, hkv, n_keys;
    double q[ATTENTION_SAMPLE_MOST_D], d_o[ATTENTION_SAMPLE_MOST_D], o[ATTENTION_SAMPLE_MOST_D];
    double *s, *ds;
};

static void forward_ratio(struct row *r, double *worst)
{
    args *a = r->a;
    const double u = yokei_unit_roundoff(a->dtype), sums = gamma32(2 * (double)a->T + 8);
    double x[ATTENTION_SAMPLE_MOST_D], wanted[ATTENTION_SAMPLE_MOST_D] = { 0 },
                                       e[ATTENTION_SAMPLE_MOST_D] = { 0 },
                                       size[ATTENTION_SAMPLE_MOST_D] = { 0 };
    double max = -INFINITY, l = 0, drift = 0;
    for (int64_t j = 0; j < r->n_keys; j++) max = fmax(max, r->s[j]);
    for (int64_t j = 0; j < r->n_keys; j++) l += exp(r->s[j] - max);
    for (int64_t j = 0; j < r->n_keys; j++) {
        const double p = exp(r->s[j] - max) / l,
                     rho = p == 0 ? 0 : r->ds[j] + u32 * fabs(r->s[j] - max) + 6 * u32;
        channels(a, a->v, a->ldv, r->b, j, r->hkv, x);
        drift += p * rho;
        for (int64_t d = 0; d < a->D; d++) {
            wanted[d] += p * x[d];
            e[d] += p * (rho + u + sums) * fabs(x[d]) + eta_of(a->dtype) * fabs(x[d]) / l;
        }
    }
    for (int64_t d = 0; d < a->D; d++) size[d] = fabs(wanted[d]);
    for (int64_t d = 0; d < a->D; d++)
        take(worst, r->o[d], wanted[d], bound_rounded(a->dtype, wanted[d], e[d] + (drift + sums) * size[d]));
    const double lse = max + log(l);
    take(worst, yokei_load(YOKE_F32, a->lse, (r->b * a->H + r->h) * a->T + r->t), lse,
         drift + sums + 4 * u32 * fabs(log(l)) + u32 * fabs(lse));
}

static void dq_ratio(struct row *r, double *worst)
{
    args *a = r->a;
    const double u = yokei_unit_roundoff(a->dtype), scale = fabs((double)a->scale), D = (double)a->D;
    const double lse = yokei_load(YOKE_F32, a->lse, (r->b * a->H + r->h) * a->T + r->t);
    const struct sum delta = dot(r->d_o, r->o, a->D);
    double x[ATTENTION_SAMPLE_MOST_D], wanted[ATTENTION_SAMPLE_MOST_D] = { 0 },
                                       bound[ATTENTION_SAMPLE_MOST_D] = { 0 };
    for (int64_t j = 0; j < r->n_keys; j++) {
        channels(a, a->v, a->ldv, r->b, j, r->hkv, x);
        const struct sum dp = dot(r->d_o, x, a->D);
        const double p = exp(r->s[j] - lse),
                     rho = p == 0 ? 0 : r->ds[j] + u32 * fabs(r->s[j] - lse) + 8 * u32,
                     ds = p * (dp.value - delta.value);
        double e = fabs(ds) * (rho + 3 * u32) + p * gamma32(D + 1) * (dp.size + delta.size);
        e += u * (fabs(ds) + e) + fmax(1, 1 / scale) * eta_of(a->dtype);
        channels(a, a->k, a->ldk, r->b, j, r->hkv, x);
        for (int64_t d = 0; d < a->D; d++) {
            wanted[d] += (double)a->scale * ds * x[d];
            bound[d] += scale * (e + gamma32((double)a->T + 2) * fabs(ds)) * fabs(x[d]);
        }
    }
    channels(a, a->dq, a->lddq, r->b, r->t, r->h, x);
    for (int64_t d = 0; d < a->D; d++)
        take(worst, x[d], wanted[d], bound_rounded(a->dtype, wanted[d], bound[d]));
}

double attention_sample_row(args *a, int64_t b, int64_t h, int64_t t)
{
    struct row r = {
        .a = a, .b = b, .t = t, .h = h, .hkv = h / (a->H / a->Hkv), .n_keys = a->causal ? t + 1 : a->T
    };
    double x[ATTENTION_SAMPLE_MOST_D], worst = 0;
    r.s = malloc((size_t)(2 * r.n_keys) * sizeof *r.s);
    if (!r.s) return INFINITY;
    r.ds = r.s + r.n_keys;
    channels(a, a->q, a->ldq, b, t, h, r.q);
    channels(a, a->d_o, a->lddo, b, t, h, r.d_o);
    channels(a, a->o, a->ldo, b, t, h, r.o);
    for (int64_t j = 0; j < r.n_keys; j++) {
        channels(a, a->k, a->ldk, b, j, r.hkv, x);
        const struct sum s = dot(r.q, x, a->D);
        r.s[j] = (double)a->scale * s.value;
        r.ds[j] = score_error(a, s.size);
    }
    forward_ratio(&r, &worst);
    dq_ratio(&r, &worst);
    free(r.s);
    return worst;
}

/* ---- keys ---- */

struct key {
    args *a;
    int64_t b, hkv;
    double k[ATTENTION_SAMPLE_MOST_D], v[ATTENTION_SAMPLE_MOST_D];
    double dk[ATTENTION_SAMPLE_MOST_D], dv[ATTENTION_SAMPLE_MOST_D], dk_bound[ATTENTION_SAMPLE_MOST_D],
        dv_bound[ATTENTION_SAMPLE_MOST_D];
};

/* Add the part of query t of head h to the gradients of the key, and to their bounds. */
static void add_query(struct key *key, int64_t h, int64_t t)
{
    args *a = key->a;
    double q[ATTENTION_SAMPLE_MOST_D], d_o[ATTENTION_SAMPLE_MOST_D], o[ATTENTION_SAMPLE_MOST_D];
    channels(a, a->q, a->ldq, key->b, t, h, q);
    channels(a, a->d_o, a->lddo, key->b, t, h, d_o);
    channels(a, a->o, a->ldo, key->b, t, h, o);
    const double u = yokei_unit_roundoff(a->dtype), scale = fabs((double)a->scale),
                 rows = (double)(a->T * (a->H / a->Hkv)), eta = eta_of(a->dtype);
    const double lse = yokei_load(YOKE_F32, a->lse, (key->b * a->H + h) * a->T + t);
    const struct sum score = dot(q, key->k, a->D), dp = dot(d_o, key->v, a->D), delta = dot(d_o, o, a->D);
    const double s = (double)a->scale * score.value, p = exp(s - lse), ds = p * (dp.value - delta.value);
    const double rho = p == 0 ? 0 : score_error(a, score.size) + u32 * fabs(s - lse) + 8 * u32;
    double e = fabs(ds) * (rho + 3 * u32) + p * gamma32((double)a->D + 1) * (dp.size + delta.size);
    e += u * (fabs(ds) + e) + fmax(1, 1 / scale) * eta;
    for (int64_t d = 0; d < a->D; d++) {
        key->dk[d] += (double)a->scale * ds * q[d];
        key->dv[d] += p * d_o[d];
        key->dk_bound[d] += scale * (e + gamma32(rows + 2) * fabs(ds)) * fabs(q[d]);
        key->dv_bound[d] += (p * (rho + u + gamma32(rows)) + eta) * fabs(d_o[d]);
    }
}

double attention_sample_key(args *a, int64_t b, int64_t hkv, int64_t j)
{
    struct key key = { .a = a, .b = b, .hkv = hkv };
    double x[ATTENTION_SAMPLE_MOST_D], worst = 0;
    channels(a, a->k, a->ldk, b, j, hkv, key.k);
    channels(a, a->v, a->ldv, b, j, hkv, key.v);
    for (int64_t h = hkv * (a->H / a->Hkv); h < (hkv + 1) * (a->H / a->Hkv); h++)
        for (int64_t t = a->causal ? j : 0; t < a->T; t++) add_query(&key, h, t);
    channels(a, a->dk, a->lddk, b, j, hkv, x);
    for (int64_t d = 0; d < a->D; d++)
        take(&worst, x[d], key.dk[d], bound_rounded(a->dtype, key.dk[d], key.dk_bound[d]));
    channels(a, a->dv, a->lddv, b, j, hkv, x);
    for (int64_t d = 0; d < a->D; d++)
        take(&worst, x[d], key.dv[d], bound_rounded(a->dtype, key.dv[d], key.dv_bound[d]));
    return worst;
}
