/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of softmax cross-entropy: the derivation of the bounds.
 *
 * Forward: exp(l - m) has the rounding of its argument, u32 |l - m|, and 6 u32 of exp. Weighted with the
 * probabilities p, these errors change lse by  sum p (u32 |l - m| + 6 u32).  A sum of V terms (and the
 * merging of partial sums) adds gamma(V+8), the log adds 4 u32 |log sum|, and the last addition adds u32
 * |lse|. `picked` is exact. `losses` has one more subtraction.
 * Backward: p = exp(l - lse) has the error p (u32 |l - lse| + 8 u32). The subtraction of 1 and the factor add
 * 2 roundings:
 *   |scale| (p (u32 |l - lse| + 8 u32) + 2 u32 |p - [target]|), and the rounding to the stored type.
 * exp of an argument below -87 may be flushed: |scale| 2^-126.
 * A row with a logit of +infinity has no finite lse, so infinity and NaN both pass. NaN must stay NaN.
 *
 * Join of P parts: the same sum with P terms and no partial sums, so gamma(P) instead of gamma(V+8). The
 * derivative of log sum exp is w_p = exp(lse_p - lse). So parts with errors e_p add sum w_p e_p. The factor 1
 * + 2 max e covers terms of higher order. A single part has no error. If only one part has a `picked` that is
 * not 0, the sum of `picked` is exact.
 * Shards: the device runs forward on P shards of the columns, joins the results, and runs backward on each
 * shard. The oracle runs on the whole. If the joined lse has the error e, p gets another factor of exp(e) <=
 * 1 + 2 e.
 */
#include "conform/gradient_pairs.h"

struct shape {
    int64_t N, V, pad, vocab_start;
    double scale; /* the standard deviation of the logits */
    enum flavour flavour;
    enum { PRESENT, IGNORED, ELSEWHERE } targets; /* the kind of every third target */
    bool lse_only, aliased;
    /* backward: if not 0, lse belongs to this shard and others, which have this many columns */
    double others;
    int64_t P; /* join: number of parts */
    /*
     * Join: if true, the parts are given. Otherwise they are made from P shards of the logits, and backward
     * follows.
     */
    bool parts_only;
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
    { 9, 5, 252, 0, 3, .targets = ELSEWHERE, .others = 252 },
    { 9, 1, 256, 5, 3, .targets = ELSEWHERE, .others = 256, .aliased = true },
    { 9, 251, 6, 6, 30, .targets = IGNORED, .others = 6 },
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
    if (t->dims) return (struct shape){ .N = t->dims[0], .V = t->dims[1], .scale = 1 };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .N = 1 + trial_random(t, "N", 0, 30),
                           .V = 1 + trial_random(t, "V", 0, 700),
                           .pad = trial_random(t, "pad", 0, 9),
                           .scale = 4,
                           .vocab_start = trial_random(t, "vocab", 0, 99),
                           .targets = trial_random(t, "targets", 0, 3) };
}

enum { LOGITS, TARGETS, LSE, PICKED, LOSSES, DLOGITS, LSE_PARTS, PICKED_PARTS };

static void setup_targets(struct trial *t, const struct shape *s)
{
    trial_vector(t, TARGETS, "targets", IN, YOKE_I32, s->N);
    for (int64_t n = 0; n < s->N; n++) {
        int64_t target = s->vocab_start + trial_random(t, "targets", n, s->V);
        if (n == 1) target = s->vocab_start + s->V - 1;
        if (n % 3 == 0 && s->targets == IGNORED) target = -1 - n;
        if (n % 3 == 0 && s->targets == ELSEWHERE)
            target = n % 2 || !s->vocab_start ? s->vocab_start + s->V : s->vocab_start - 1;
        trial_set_int(t, TARGETS, n, (int32_t)target);
    }
    trial_describe(t, "N %d V %d P %d pad %d from %d size %g%s%s%s%s", (int)s->N, (int)s->V, (int)s->P,
                   (int)s->pad, (int)s->vocab_start, s->scale,
                   s->targets == IGNORED     ? " ignored"
                   : s->targets == ELSEWHERE ? " elsewhere"
                                             : "",
                   s->lse_only ? " lse only" : "", s->aliased ? " aliased" : "",
                   s->parts_only ? " parts" : "");
}

static void setup_logits(struct trial *t, const struct shape *s)
{
    t->flavour = s->flavour;
    trial_matrix(t, LOGITS, "logits", IN, t->dtype, s->N, s->V, s->V + s->pad);
    trial_flavoured(t, LOGITS, s->scale, 9);
    setup_targets(t, s);
}

/* ---- forward ---- */

static void xent_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    setup_logits(t, &s);
    /* A row that has only infinities. */
    for (int64_t v = 0; s.flavour == INFS && v < s.V; v++)
        trial_set(t, LOGITS, 4 * t->tensor[LOGITS].ld + v, -INFINITY);
    trial_vector(t, LSE, "lse", OUT, wide, s.N);
    if (s.lse_only) return;
    trial_vector(t, PICKED, "picked", OUT, wide, s.N);
    trial_vector(t, LOSSES, "losses", OUT, wide, s.N);
}

static yoke_status xent_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(xent_forward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .V = s.V,
                        .vocab_start = s.vocab_start, .logits = trial_at(t, side, LOGITS, 0),
                        .ld = t->tensor[LOGITS].ld, .targets = trial_at(t, side, TARGETS, 0),
                        .lse = trial_at(t, side, LSE, 0), .picked = trial_at(t, side, PICKED, 0),
                        .losses = trial_at(t, side, LOSSES, 0));
}

/* The bound of the lse of n terms, which are `stride` apart and are summed with `roundings` roundings. */
static double lse_bound(const double *terms, int64_t n, int64_t stride, double roundings, double lse)
{
    double max = -INFINITY, arguments = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, terms[i * stride]);
    for (int64_t i = 0; i < n; i++)
        if (terms[i * stride] > -INFINITY)
            arguments += exp(terms[i * stride] - lse) * u32 * (max - terms[i * stride]);
    return arguments + 6 * u32 + gamma32(roundings) + 4 * u32 * fabs(lse - max) + u32 * fabs(lse) + eta32;
}

/* Whether +infinity, but no NaN, is among n terms. Their lse is then infinity or NaN. */
static bool is_unbounded(const double *terms, int64_t n, int64_t stride)
{
    bool unbounded = false, nan = false;
    for (int64_t i = 0; i < n; i++)
        unbounded |= terms[i * stride] == INFINITY, nan |= isnan(terms[i * stride]);
    return unbounded && !nan;
}

/* Set the bounds of row n: e for the lse, and one more subtraction for the losses. */
static void bound_row(struct trial *t, int64_t n, double e)
{
    t->tensor[LSE].bound[n] = e;
    if (!t->tensor[LOSSES].present) return;
    const double loss = exact_of(t, LOSSES)[n];
    const bool ignored = trial_get(t, TARGETS, n) < 0;
    t->tensor[LOSSES].bound[n] = ignored ? 0 : e == BOUND_NOT_FINITE ? e : e + u32 * (fabs(loss) + e);
}

static void xent_forward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    for (int64_t n = 0; n < s.N; n++) {
        const double *logits = exact_of(t, LOGITS) + n * t->tensor[LOGITS].ld, lse = exact_of(t, LSE)[n];
        bound_row(t, n,
                  is_unbounded(logits, s.V, 1) ? BOUND_NOT_FINITE
                                               : lse_bound(logits, s.V, 1, (double)s.V + 8, lse));
    }
}

static const struct conform_sizes xent_sizes = {
    { "N", "V" },
    { { "tiny", { 32, 256 } }, { "micro", { 512, 256 } }, { "124m", { 256, 50257 } } },
    .least = { 4 },
    .sums = true
};

const struct conform_row conform_row_xent_forward = CONFORM_ROW(xent_forward, AT_LOSS, CONFORM_FLOATS, shapes,
                                                                xent_sizes, NO_GRADIENTS, xent_forward_setup,
                                                                xent_forward_call, xent_forward_bound);

/* ---- backward ---- */

static const float scale = 0.37f;

static void xent_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_logits(t, &s);
    trial_vector(t, LSE, "lse", IN, yoke_dtype_wide(t->dtype), s.N);
    if (t->timed) trial_constant(t, LSE, log((double)s.V) + 0.5); /* the lse of standard normal logits */
    for (int64_t n = 0; n < s.N && !t->timed; n++) {
        double max = -INFINITY, sum = 0;
        for (int64_t v = 0; v < s.V; v++) {
            const double logit = trial_get(t, LOGITS, n * t->tensor[LOGITS].ld + v);
            max = isnan(logit) || logit > max ? logit : max;
        }
        for (int64_t v = 0; v < s.V; v++)
            sum += exp(trial_get(t, LOGITS, n * t->tensor[LOGITS].ld + v) - max);
        trial_set(t, LSE, n, max + log(sum) + log1p(s.others / (double)s.V));
    }
    if (s.aliased)
        trial_alias(t, DLOGITS, "dlogits", LOGITS);
    else
        trial_matrix(t, DLOGITS, "dlogits", OUT, t->dtype, s.N, s.V, s.V + 2 * s.pad);
}

static yoke_status xent_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(xent_backward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .V = s.V,
                        .vocab_start = s.vocab_start, .logits = trial_at(t, side, LOGITS, 0),
                        .ld = t->tensor[LOGITS].ld, .targets = trial_at(t, side, TARGETS, 0),
                        .lse = trial_at(t, side, LSE, 0), .scale = scale,
                        .dlogits = trial_at(t, side, DLOGITS, 0), .lddlogits = t->tensor[DLOGITS].ld);
}

/* Set the bounds of the gradient in row n. e_lse is the error of the lse. */
static void bound_gradient(struct trial *t, const struct shape *s, int64_t n, double e_lse)
{
    const double target = trial_get(t, TARGETS, n), lse = exact_of(t, LSE)[n];
    for (int64_t v = 0; v < s->V; v++) {
        const double logit = exact_of(t, LOGITS)[n * t->tensor[LOGITS].ld + v], p = exp(logit - lse);
        const int64_t at = n * t->tensor[DLOGITS].ld + v;
        const double from_exp = p == 0 ? 0
                                       : p * (u32 * fabs(logit - lse) + 8 * u32 + e_lse * (1 + 2 * e_lse));
        const double rest = fabs(p - (target - (double)s->vocab_start == (double)v));
        const double e = fabs((double)scale) * (from_exp + 2 * u32 * rest + flush32);
        const double bound = e_lse == BOUND_NOT_FINITE ? BOUND_ANY
                                                       : bound_rounded(t->dtype, exact_of(t, DLOGITS)[at], e);
        t->tensor[DLOGITS].bound[at] = target < 0 ? 0 : bound;
    }
}

static void xent_backward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    for (int64_t n = 0; n < s.N; n++) bound_gradient(t, &s, n, 0);
}

/* ---- gradient of loss: L is scale * sum of the losses, so that all weights are the same number ---- */

static const float loss_scale = 0.625f;

static void xent_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    gradient_input(c, "logits", s->N * s->V);
    gradient_tokens(c, s->N, s->V, true);
    gradient_output(c, s->N, 2 * s->N);
    for (int64_t n = 0; !c->status && n < s->N; n++) c->w[n] = loss_scale;
}

static yoke_status xent_pair_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(xent_forward, .N = s->N, .V = s->V, .logits = INPUT(0), .ld = s->V, .targets = c->tokens,
                  .lse = c->extra, .picked = c->extra + s->N, .losses = c->y);
    return YOKE_OK;
}

static yoke_status xent_pair_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(xent_backward, .N = s->N, .V = s->V, .logits = INPUT(0), .ld = s->V, .targets = c->tokens,
                  .lse = c->extra, .scale = loss_scale, .dlogits = GRADIENT_OF(0), .lddlogits = s->V);
    return YOKE_OK;
}

/* The loss over K shards of the vocabulary, whose results are joined. */
static void shards_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    gradient_input(c, "logits", s->N * s->V);
    gradient_tokens(c, s->N, s->V, true);
    gradient_output(c, s->N, (2 * s->K + 1) * s->N);
    for (int64_t n = 0; !c->status && n < s->N; n++) c->w[n] = loss_scale;
}

#define SHARD_COLUMNS(s, first, n)                                                                     \
    .N = (s)->N, .V = (n), .vocab_start = (first), .vocabulary = (s)->V, .logits = INPUT(0) + (first), \
    .ld = (s)->V, .targets = c->tokens

static yoke_status shards_pair_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    double *parts = c->extra,
           *lse = c->extra + 2 * s->K * s->N; /* parts [K, 2, N], as an all-gather leaves them */
    for (int64_t p = 0; p < s->K; p++) {
        const int64_t first = trial_shard(s->V, s->K, p), n = trial_shard(s->V, s->K, p + 1) - first;
        GRADIENT_CALL(xent_forward, SHARD_COLUMNS(s, first, n), .lse = parts + 2 * p * s->N,
                      .picked = parts + (2 * p + 1) * s->N);
    }
    GRADIENT_CALL(xent_join, .P = s->K, .N = s->N, .lse_parts = parts, .picked_parts = parts + s->N,
                  .ld = 2 * s->N, .targets = c->tokens, .lse = lse, .losses = c->y);
    return YOKE_OK;
}

static yoke_status shards_pair_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    for (int64_t p = 0; p < s->K; p++) {
        const int64_t first = trial_shard(s->V, s->K, p), n = trial_shard(s->V, s->K, p + 1) - first;
        GRADIENT_CALL(xent_backward, SHARD_COLUMNS(s, first, n), .lse = c->extra + 2 * s->K * s->N,
                      .scale = loss_scale, .dlogits = GRADIENT_OF(0) + first, .lddlogits = s->V);
    }
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair xent_pairs[] = {
    { { .N = 8, .V = 11 }, xent_pair_setup, xent_pair_forward, xent_pair_backward },
    { { .N = 8, .V = 11, .K = 3 }, shards_pair_setup, shards_pair_forward, shards_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_xent_backward = CONFORM_ROW(xent_backward, BACK_LOSS, CONFORM_FLOATS,
                                                                 shapes, xent_sizes, GRADIENTS(xent_pairs),
                                                                 xent_backward_setup, xent_backward_call,
                                                                 xent_backward_bound);

/* ---- join ---- */

static const struct shape joins[] = {
    { 1, 0, 0, 0, 1, .P = 1, .parts_only = true },
    { 31, 0, 3, 0, 30, .P = 1, .parts_only = true, .targets = IGNORED },
    { 17, 0, 17, 0, 1, .P = 2, .parts_only = true },
    { 257, 0, 1, 0, 100, .P = 3, .parts_only = true, .targets = IGNORED },
    { 5003, 0, 0, 0, 4, .P = 4, .parts_only = true },
    { 33, 0, 0, 0, 0.1, .P = 13, .parts_only = true, .lse_only = true },
    { 0, 0, 0, 0, 1, .P = 2, .parts_only = true },
    { 100, 0, 2, 0, 1, WIDE, .P = 4, .parts_only = true },
    { 100, 0, 2, 0, 1, SUBNORMAL, .P = 3, .parts_only = true },
    { 100, 0, 2, 0, 1, ZEROS, .P = 2, .parts_only = true },
    { 100, 0, 2, 0, 1, NANS, .P = 4, .parts_only = true, .targets = IGNORED },
    { 100, 0, 2, 0, 1, INFS, .P = 4, .parts_only = true, .targets = IGNORED },
    { 40, 257, 0, 0, 3, .P = 1, .targets = IGNORED },
    { 40, 257, 1, 0, 3, .P = 2, .aliased = true },
    { 40, 257, 3, 0, 10, .P = 3, .targets = IGNORED },
    { 40, 257, 0, 0, 30, .P = 4, .targets = ELSEWHERE, .aliased = true },
    { 7, 7, 1, 0, 1, .P = 3 },
    { 9, 5003, 0, 0, 4, .P = 4, .targets = IGNORED },
    { 0, 17, 0, 0, 1, .P = 3 },
    { 19, 100, 2, 0, 1, WIDE, .P = 4 },
    { 19, 100, 2, 0, 1, NANS, .P = 3, .targets = IGNORED },
    { 19, 100, 2, 0, 1, INFS, .P = 4, .targets = IGNORED },
    { 19, 100, 2, 0, 1, INFS, .P = 1, .targets = ELSEWHERE },
};

static struct shape join_of(const struct trial *t)
{
    if (t->dims) return (struct shape){ .P = t->dims[0], .N = t->dims[1], .scale = 1, .parts_only = true };
    if ((size_t)t->index < YOKE_COUNT(joins)) return joins[t->index];
    return (struct shape){ .N = 1 + trial_random(t, "N", 0, 30),
                           .V = 10 + trial_random(t, "V", 0, 700),
                           .pad = trial_random(t, "pad", 0, 9),
                           .scale = 4,
                           .targets = trial_random(t, "targets", 0, 3),
                           .P = 1 + trial_random(t, "P", 0, 6) };
}

/*
 * Put infinities where they matter: rows that have only -infinity, a shard that has only -infinity, the
 * target in such a shard, and +infinity.
 */
static void set_infinities(struct trial *t, const struct shape *s)
{
    const int id = s->parts_only ? LSE_PARTS : LOGITS;
    const int64_t row = s->parts_only ? 1 : t->tensor[LOGITS].ld,
                  column = s->parts_only ? t->tensor[LSE_PARTS].ld : 1;
    const int64_t n_columns = s->parts_only ? s->P : s->V,
                  shard = s->parts_only ? 1 : trial_shard(s->V, s->P, 1);
    for (int64_t i = 0; i < n_columns; i++) {
        trial_set(t, id, 4 * row + i * column, -INFINITY);
        trial_set(t, id, 6 * row + i * column, -INFINITY);
        if (i < shard || i == n_columns - 1) trial_set(t, id, 7 * row + i * column, -INFINITY);
        if (i >= shard) trial_set(t, id, 8 * row + i * column, -INFINITY);
    }
    trial_set(t, id, 10 * row, INFINITY);
    if (s->parts_only)
        trial_set(t, PICKED_PARTS, 7 + column, -INFINITY);
    else
        trial_set_int(t, TARGETS, 7, (int32_t)s->V - 1);
}

static void setup_parts(struct trial *t, const struct shape *s)
{
    trial_flavoured(t, LSE_PARTS, s->scale, 9);
    for (int64_t n = 0; n < s->N; n++) {
        const int64_t owner = trial_random(t, "owner", n, s->P); /* only one part has the target */
        for (int64_t p = 0; p < s->P; p++)
            trial_set(t, PICKED_PARTS, p * t->tensor[PICKED_PARTS].ld + n,
                      p == owner
                          ? trial_get(t, LSE_PARTS, p * t->tensor[LSE_PARTS].ld + n) - 1 - (double)(n % 7)
                          : 0);
    }
}

static void xent_join_setup(struct trial *t)
{
    const struct shape s = join_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    const enum role role = s.parts_only ? IN : OUT;
    t->flavour = s.flavour;
    if (s.parts_only)
        setup_targets(t, &s);
    else
        setup_logits(t, &s);
    trial_matrix(t, LSE_PARTS, "lse_parts", role, wide, s.P, s.N, s.N + s.pad);
    if (!s.lse_only) trial_matrix(t, PICKED_PARTS, "picked_parts", role, wide, s.P, s.N, s.N + s.pad);
    if (s.parts_only) setup_parts(t, &s);
    if (s.flavour == INFS) set_infinities(t, &s);
    trial_vector(t, LSE, "lse", OUT, wide, s.N);
    if (!s.lse_only) trial_vector(t, LOSSES, "losses", OUT, wide, s.N);
    if (s.parts_only) return;
    if (s.aliased)
        trial_alias(t, DLOGITS, "dlogits", LOGITS);
    else
        trial_matrix(t, DLOGITS, "dlogits", OUT, t->dtype, s.N, s.V, s.V + 2 * s.pad);
}

#define COLUMNS(side, first, n)                                                                           \
    .dtype = side_dtype(side, t->dtype), .N = s->N, .V = (n), .vocab_start = (first), .vocabulary = s->V, \
    .logits = trial_at(t, side, LOGITS, first), .ld = t->tensor[LOGITS].ld,                               \
    .targets = trial_at(t, side, TARGETS, 0)

static yoke_status forward_shards(struct trial *t, const struct shape *s, const struct side *side,
                                  struct yoke_cost *cost)
{
    for (int64_t p = 0; p < s->P; p++) {
        const int64_t first = trial_shard(s->V, s->P, p), n = trial_shard(s->V, s->P, p + 1) - first;
        CONFORM_STEP(xent_forward, side, cost, COLUMNS(side, first, n),
                     .lse = trial_at(t, side, LSE_PARTS, p * t->tensor[LSE_PARTS].ld),
                     .picked = trial_at(t, side, PICKED_PARTS, p * t->tensor[PICKED_PARTS].ld));
    }
    return YOKE_OK;
}

/* Run backward on P shards. The oracle has one shard with all columns. */
static yoke_status backward_shards(struct trial *t, const struct shape *s, const struct side *side,
                                   struct yoke_cost *cost, int64_t P)
{
    for (int64_t p = 0; p < P; p++) {
        const int64_t first = trial_shard(s->V, P, p), n = trial_shard(s->V, P, p + 1) - first;
        CONFORM_STEP(xent_backward, side, cost, COLUMNS(side, first, n), .lse = trial_at(t, side, LSE, 0),
                     .scale = scale, .dlogits = trial_at(t, side, DLOGITS, first),
                     .lddlogits = t->tensor[DLOGITS].ld);
    }
    return YOKE_OK;
}

static yoke_status xent_join_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape shape = join_of(t), *s = &shape;
    if (!s->parts_only) YOKE_TRY(forward_shards(t, s, side, cost));
    if (side->oracle && !s->parts_only)
        CONFORM_STEP(xent_forward, side, cost, COLUMNS(side, 0, s->V), .lse = trial_at(t, side, LSE, 0),
                     .losses = trial_at(t, side, LOSSES, 0));
    else
        CONFORM_STEP(xent_join, side, cost, .dtype = side_dtype(side, t->dtype), .P = s->P, .N = s->N,
                     .lse_parts = trial_at(t, side, LSE_PARTS, 0),
                     .picked_parts = trial_at(t, side, PICKED_PARTS, 0), .ld = t->tensor[LSE_PARTS].ld,
                     .targets = s->lse_only ? NULL : trial_at(t, side, TARGETS, 0),
                     .lse = trial_at(t, side, LSE, 0), .losses = trial_at(t, side, LOSSES, 0));
    return s->parts_only ? YOKE_OK : backward_shards(t, s, side, cost, side->oracle ? 1 : s->P);
}

/*
 * Set the bounds of the parts of row n, which the device has made from shards. Returns their contribution to
 * the error of the joined lse.
 */
static double bound_parts(struct trial *t, const struct shape *s, int64_t n)
{
    const double *logits = exact_of(t, LOGITS) + n * t->tensor[LOGITS].ld, lse = exact_of(t, LSE)[n];
    double sum = 0, greatest = 0;
    for (int64_t p = 0; p < s->P; p++) {
        const int64_t at = p * t->tensor[LSE_PARTS].ld + n, first = trial_shard(s->V, s->P, p),
                      V = trial_shard(s->V, s->P, p + 1) - first;
        const double part = exact_of(t, LSE_PARTS)[at];
        const double e = is_unbounded(logits + first, V, 1)
                             ? BOUND_NOT_FINITE
                             : lse_bound(logits + first, V, 1, (double)V + 8, part);
        t->tensor[LSE_PARTS].bound[at] = e;
        if (!isfinite(part) || e < 0) continue; /* an infinite part is exact, or makes the row infinite */
        sum += exp(part - lse) * e;
        greatest = fmax(greatest, e);
    }
    return sum * (1 + 2 * greatest);
}

static void xent_join_bound(struct trial *t)
{
    const struct shape s = join_of(t);
    const int64_t ld = t->tensor[LSE_PARTS].ld;
    for (int64_t n = 0; n < s.N; n++) {
        const double *parts = exact_of(t, LSE_PARTS) + n, of_parts = s.parts_only ? 0 : bound_parts(t, &s, n);
        const double own = s.P == 1 ? 0 : lse_bound(parts, s.P, ld, (double)s.P, exact_of(t, LSE)[n]);
        const bool unbounded = s.parts_only
                                   ? is_unbounded(parts, s.P, ld)
                                   : is_unbounded(exact_of(t, LOGITS) + n * t->tensor[LOGITS].ld, s.V, 1);
        const bool changed = s.P == 1 && trial_got(t, LSE, n) != trial_got(t, LSE_PARTS, n)
                             && !isnan(trial_got(t, LSE_PARTS, n));
        const double e = unbounded ? BOUND_NOT_FINITE
                         : changed ? 0
                                   : own + of_parts; /* a single part is not changed */
        bound_row(t, n, e);
        if (!s.parts_only) bound_gradient(t, &s, n, e);
    }
}

static const struct conform_sizes join_sizes = {
    { "P", "N" },
    { { "tiny", { 2, 32 } }, { "micro", { 2, 512 } }, { "124m", { 4, 8192 } } },
    .least = { 0, 32 },
    .sums = true
};

const struct conform_row conform_row_xent_join = CONFORM_ROW(xent_join, AT_LOSS, CONFORM_FLOATS, joins,
                                                             join_sizes, NO_GRADIENTS, xent_join_setup,
                                                             xent_join_call, xent_join_bound);
