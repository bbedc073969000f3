/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of softmax cross-entropy.
 *
 * Forward: exp(l - m) carries the rounding of its argument, u32 |l - m|, and 6 u32 of exp; weighted with the probabilities
 * p these change lse by  sum p (u32 |l - m| + 6 u32);  a sum of V terms (and merging of partial sums) adds gamma(V+8);
 * log 4 u32 |log sum|; the last addition u32 |lse|. picked is exact; losses add one subtraction.
 * Backward: p = exp(l - lse) is off by p (u32 |l - lse| + 8 u32), the subtraction of 1 and the factor by 2 roundings:
 *   |scale| (p (u32 |l - lse| + 8 u32) + 2 u32 |p - [target]|), and the rounding to the stored type.
 * exp of an argument below -87 may be flushed: |scale| 2^-126.
 * A row with a logit of +infinity has no finite lse: infinity and NaN are both accepted. NaN must stay NaN.
 */
#include "conform/trial.h"

struct shape {
    int64_t N, V, pad, vocab_start;
    double scale; /* of the logits */
    enum flavour flavour;
    enum { PRESENT, IGNORED, ELSEWHERE } targets; /* what every third target is */
    bool lse_only, aliased;
};

static const struct shape shapes[] = {
    { 1, 1, 0, 0, 1 },
    { 3, 2, 1, 0, 1, .aliased = true },
    { 5, 7, 0, 0, 3, .targets = IGNORED },
    { 9, 31, 5, 10, 2, .targets = ELSEWHERE },
    { 17, 64, 0, 0, 10 },
    { 33, 65, 3, 0, 30, .targets = IGNORED, .aliased = true },
    { 4, 256, 0, 256, 1, .lse_only = true },
    { 7, 257, 1, 0, 100 },
    { 2, 1031, 9, 0, 5, .targets = ELSEWHERE },
    { 3, 5003, 0, 0, 4 },
    { 0, 17, 0, 0, 1 },
    { 9, 100, 2, 0, 1, WIDE },
    { 9, 100, 2, 0, 1, SUBNORMAL },
    { 9, 100, 2, 0, 1, ZEROS, .aliased = true },
    { 9, 100, 2, 0, 1, NANS, .targets = IGNORED },
    { 9, 100, 2, 0, 1, INFS },
};

static struct shape shape_of(const struct trial *t)
{
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .N = 1 + trial_random(t, "N", 0, 30), .V = 1 + trial_random(t, "V", 0, 700), .pad = trial_random(t, "pad", 0, 9), .scale = 4,
                           .vocab_start = trial_random(t, "vocab", 0, 99), .targets = trial_random(t, "targets", 0, 3) };
}

enum { LOGITS, TARGETS, LSE, PICKED, LOSSES, DLOGITS };

static void setup_logits(struct trial *t, const struct shape *s)
{
    t->flavour = s->flavour;
    trial_matrix(t, LOGITS, "logits", IN, t->dtype, s->N, s->V, s->V + s->pad);
    trial_flavoured(t, LOGITS, s->scale, 9);
    trial_vector(t, TARGETS, "targets", IN, YOKE_I32, s->N);
    for (int64_t n = 0; n < s->N; n++) {
        int64_t target = s->vocab_start + trial_random(t, "targets", n, s->V);
        if (n == 1) target = s->vocab_start + s->V - 1;
        if (n % 3 == 0 && s->targets == IGNORED) target = -1 - n;
        if (n % 3 == 0 && s->targets == ELSEWHERE) target = n % 2 || !s->vocab_start ? s->vocab_start + s->V : s->vocab_start - 1;
        trial_set_int(t, TARGETS, n, (int32_t)target);
    }
    trial_describe(t, "N %d V %d pad %d from %d size %g%s%s%s", (int)s->N, (int)s->V, (int)s->pad, (int)s->vocab_start, s->scale,
                   s->targets == IGNORED ? " ignored" : s->targets == ELSEWHERE ? " elsewhere" : "", s->lse_only ? " lse only" : "",
                   s->aliased ? " aliased" : "");
}

/* ---- forward ---- */

static void xent_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    setup_logits(t, &s);
    trial_vector(t, LSE, "lse", OUT, wide, s.N);
    if (s.lse_only) return;
    trial_vector(t, PICKED, "picked", OUT, wide, s.N);
    trial_vector(t, LOSSES, "losses", OUT, wide, s.N);
}

static yoke_status xent_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(xent_forward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .V = s.V, .vocab_start = s.vocab_start,
                        .logits = trial_at(t, side, LOGITS, 0), .ld = t->tensor[LOGITS].ld, .targets = trial_at(t, side, TARGETS, 0),
                        .lse = trial_at(t, side, LSE, 0), .picked = trial_at(t, side, PICKED, 0), .losses = trial_at(t, side, LOSSES, 0));
}

static double lse_bound(const double *logits, int64_t V, double lse)
{
    double max = -INFINITY, arguments = 0;
    for (int64_t v = 0; v < V; v++) max = fmax(max, logits[v]);
    for (int64_t v = 0; v < V; v++)
        if (logits[v] > -INFINITY) arguments += exp(logits[v] - lse) * u32 * (max - logits[v]);
    return arguments + 6 * u32 + gamma32((double)V + 8) + 4 * u32 * fabs(lse - max) + u32 * fabs(lse) + eta32;
}

static void xent_forward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    for (int64_t n = 0; n < s.N; n++) {
        const double *logits = exact_of(t, LOGITS) + n * t->tensor[LOGITS].ld, lse = exact_of(t, LSE)[n];
        bool unbounded = false, nan = false;
        for (int64_t v = 0; v < s.V; v++) unbounded |= logits[v] == INFINITY, nan |= isnan(logits[v]);
        const double e = unbounded && !nan ? BOUND_NOT_FINITE : lse_bound(logits, s.V, lse);
        t->tensor[LSE].bound[n] = e;
        if (s.lse_only) continue;
        const double loss = exact_of(t, LOSSES)[n];
        const bool ignored = trial_get(t, TARGETS, n) < 0;
        t->tensor[LOSSES].bound[n] = ignored ? 0 : e == BOUND_NOT_FINITE ? e : e + u32 * (fabs(loss) + e);
    }
}

const struct conform_row conform_row_xent_forward = {
    CONFORM_FLOATS, YOKE_COUNT(shapes), xent_forward_setup, xent_forward_call, xent_forward_bound,
};

/* ---- backward ---- */

static const float scale = 0.37f;

static void xent_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_logits(t, &s);
    trial_vector(t, LSE, "lse", IN, yoke_dtype_wide(t->dtype), s.N);
    for (int64_t n = 0; n < s.N; n++) {
        double max = -INFINITY, sum = 0;
        for (int64_t v = 0; v < s.V; v++) {
            const double logit = trial_get(t, LOGITS, n * t->tensor[LOGITS].ld + v);
            max = isnan(logit) || logit > max ? logit : max;
        }
        for (int64_t v = 0; v < s.V; v++) sum += exp(trial_get(t, LOGITS, n * t->tensor[LOGITS].ld + v) - max);
        trial_set(t, LSE, n, max + log(sum));
    }
    if (s.aliased) trial_alias(t, DLOGITS, "dlogits", LOGITS);
    else trial_matrix(t, DLOGITS, "dlogits", OUT, t->dtype, s.N, s.V, s.V + 2 * s.pad);
}

static yoke_status xent_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(xent_backward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .V = s.V, .vocab_start = s.vocab_start,
                        .logits = trial_at(t, side, LOGITS, 0), .ld = t->tensor[LOGITS].ld, .targets = trial_at(t, side, TARGETS, 0),
                        .lse = trial_at(t, side, LSE, 0), .scale = scale, .dlogits = trial_at(t, side, DLOGITS, 0),
                        .lddlogits = t->tensor[DLOGITS].ld);
}

static void xent_backward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    for (int64_t n = 0; n < s.N; n++) {
        const double target = trial_get(t, TARGETS, n), lse = exact_of(t, LSE)[n];
        for (int64_t v = 0; v < s.V; v++) {
            const double logit = exact_of(t, LOGITS)[n * t->tensor[LOGITS].ld + v], p = exp(logit - lse);
            const int64_t at = n * t->tensor[DLOGITS].ld + v;
            const double from_exp = p == 0 ? 0 : p * (u32 * fabs(logit - lse) + 8 * u32);
            const double rest = fabs(p - (target - (double)s.vocab_start == (double)v));
            const double e = fabs((double)scale) * (from_exp + 2 * u32 * rest + flush32);
            t->tensor[DLOGITS].bound[at] = target < 0 ? 0 : bound_rounded(t->dtype, exact_of(t, DLOGITS)[at], e);
        }
    }
}

const struct conform_row conform_row_xent_backward = {
    CONFORM_FLOATS, YOKE_COUNT(shapes), xent_backward_setup, xent_backward_call, xent_backward_bound,
};
