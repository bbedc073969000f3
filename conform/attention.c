/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of attention: the derivation of the bounds. u is the unit roundoff of the stored type. eta is
 * the underflow of the stored type, at least 2^-126 (see below).
 *
 * Forward. A score s = scale q.k is a sum of D products:  ds = gamma(D+2) |scale| |q|.|k|.
 * The relative error rho of p = exp(s - m) has three parts: ds, the rounding u32 |s - m| of the argument, and
 * 6 u32 of exp. It passes through the softmax. The derivative of O by s_j is P_j (v_j - O), so the error of O
 * is
 *   sum_j P_j rho_j (|v_j| + |O|).
 * P is rounded to the stored type before P V, but the sum of P is not. This adds u sum_j P_j |v_j|, and eta
 * |v_j| / l, where l = sum exp(s - m) >= 1.
 * Sums over T keys are rescaled once per block, so at most once per key. This adds gamma(2T+8) (sum P |v| +
 * |O|). O is rounded once.
 * With dropout the weights of V are P_j m_j, where m_j is 0 or s = 1 / (1 - p). The derivative is then P_j
 * (m_j v_j - O), so v_j above becomes m_j v_j. The products with s and 1 / l add 2 u32 |O|. The mask follows
 * the rule of include/yoke/ops/attention.h.
 * lse = m + log l has the error sum_j P_j rho_j + gamma(2T+8) + 4 u32 |log l| + u32 |lse|.
 *
 * Backward. p = exp(s - lse) has rho = ds + u32 |s - lse| + 8 u32. R is the number of rows that see key j,
 * over all heads of the group. Each of dV, dQ and dK is rounded once.
 *   dV:  sum p (rho + u + gamma(R)) |do| + eta sum |do|
 *   dP = do.v, delta = do.o:  gamma(D+1) (|do|.|v| + |do|.|o|) =: ddp
 *   dS = p (dP - delta):  e = |dS| (rho + 3 u32) + p ddp + 2^-126 |dP - delta|;
 *       rounded to the stored type: e + u (|dS| + e) + eta
 *   dQ:  |scale| sum_j (e_j |k| + gamma(T+2) |dS| |k|);  dK: |scale| sum_rows (e |q| + gamma(R+2) |dS| |q|)
 * With dropout dV has m p instead of p, and m dP instead of dP, and so have their errors. s adds a rounding
 * to each. The margins above are large enough for it.
 * eta is at least 2^-126, because exp and matrix units of bf16 may flush subnormal numbers. Such a unit
 * treats a subnormal factor as zero, and flushes a subnormal result. So a product x y of bf16 loses at most
 * 2^-126 (|x| + |y| + 1) =: phi(x, y). phi is added for each product: for do.v to ddp, for p v to O, for p do
 * to dV, and for dS k and dS q to dQ and dK.
 * With a causal mask row t depends only on keys up to t. A NaN in a later key or value must not reach row t.
 * A NaN in an earlier row of q or do must not reach the later keys.
 */
#include "conform/gradient_pairs.h"

#include <stdlib.h>
#include <string.h>

struct shape {
    int64_t B, T, H, Hkv, D;
    bool causal, packed;
    double size; /* the size of q's elements; a greater size makes the softmax sharper */
    enum flavour flavour;
    enum { IN_KV, IN_Q } special; /* the tensors that get the special values of NANS and INFS */
    float scale;                  /* 0: 1 / sqrt(D) */
    bool no_lse;
    /* The heads are a part of more heads: index of the first one, and query heads per K/V head. */
    int64_t first, group;
    float p; /* dropout */
};

static const struct shape shapes[] = {
    { 1, 1, 1, 1, 8, true, false, 1 },
    { 1, 5, 2, 2, 8, true, false, 1 },
    { 2, 17, 4, 2, 16, true, true, 1 },
    { 1, 33, 3, 1, 24, false, false, 1, .no_lse = true },
    { 1, 65, 2, 2, 64, true, true, 1 },
    { 1, 129, 2, 1, 32, true, false, 3 },
    { 1, 100, 1, 1, 128, false, true, 1 },
    { 2, 40, 6, 3, 24, false, true, 1 },
    { 1, 37, 1, 1, 5, true, false, 1 },
    { 3, 16, 2, 2, 32, true, true, 10 },
    { 1, 257, 1, 1, 16, true, false, 1 },
    { 1, 31, 2, 1, 64, true, false, 0.3, .scale = 1 },
    { 0, 16, 2, 2, 16, true, false, 1 },
    { 1, 0, 2, 2, 16, true, true, 1 },
    { 1, 48, 2, 1, 16, true, false, 1, WIDE },
    { 1, 48, 2, 1, 16, true, false, 1, SUBNORMAL },
    { 1, 48, 2, 1, 16, true, false, 1, ZEROS },
    { 1, 48, 2, 1, 16, true, false, 1, NANS, IN_KV },
    { 1, 48, 2, 2, 32, true, true, 1, NANS, IN_Q },
    { 1, 48, 2, 1, 16, false, false, 1, NANS, IN_Q },
    { 1, 48, 2, 2, 16, true, false, 1, INFS, IN_KV },
    { 2, 21, 3, 2, 16, true, true, 1, .first = 3, .group = 2 },
    { 1, 50, 5, 3, 8, true, false, 1, .first = 8, .group = 3, .p = 0.2f },
    { 2, 70, 2, 1, 24, true, true, 1, .p = 0.1f },
    { 1, 90, 2, 2, 8, false, false, 2, .p = 0.5f },
    { 1, 70, 2, 1, 24, true, false, 1, .scale = -0.2f },
    { 1, 270, 1, 1, 8, true, true, 1, .p = 0.1f },
    { 1, 150, 1, 1, 16, true, false, 1, NANS, IN_KV },
    { 1, 150, 1, 1, 16, true, false, 1, NANS, IN_Q },
    { 1, 70, 2, 1, 80, true, false, 1, .p = 0.1f },
    { 1, 130, 1, 1, 100, true, true, 1 },
    { 1, 70, 2, 1, 200, true, false, 1 },
};

static struct shape shape_of(const struct trial *t)
{
    struct shape s;
    if (t->dims) {
        s = (struct shape){ .B = t->dims[0],
                            .T = t->dims[1],
                            .H = t->dims[2],
                            .Hkv = t->dims[2] / t->dims[3],
                            .D = t->dims[4],
                            .causal = true,
                            .packed = true,
                            .size = 1 };
    } else if ((size_t)t->index < YOKE_COUNT(shapes)) {
        s = shapes[t->index];
    } else {
        const int64_t Hkv = 1 + trial_random(t, "Hkv", 0, 3);
        s = (struct shape){ .B = 1 + trial_random(t, "B", 0, 2),
                            .T = 1 + trial_random(t, "T", 0, 90),
                            .H = Hkv * (1 + trial_random(t, "G", 0, 3)),
                            .Hkv = Hkv,
                            .D = t->index % 8 == 1 ? 200 : 8 * (1 + trial_random(t, "D", 0, 8)),
                            .causal = trial_random(t, "causal", 0, 2),
                            .packed = trial_random(t, "packed", 0, 2),
                            .size = 1,
                            .p = 0.25f * (float)trial_random(t, "p", 0, 3) };
    }
    if (s.scale == 0) s.scale = (float)(1 / sqrt((double)s.D));
    return s;
}

/*
 * q, k and v lie in three tensors, or side by side in one tensor. The same holds for the gradients. An
 * operand says where one of them lies.
 */
enum { Q, K, V, O, LSE, DO, DQ, DK, DV };
struct operand {
    int id;
    int64_t offset, ld;
};

static struct operand operand_of(const struct trial *t, const struct shape *s, int which)
{
    if (!s->packed || which == O || which == DO) return (struct operand){ which, 0, t->tensor[which].ld };
    const int id = which >= DQ ? DQ : Q, part = which - id;
    return (struct operand){ id, part ? (s->H + (part - 1) * s->Hkv) * s->D : 0, t->tensor[id].ld };
}

static int64_t element(const struct shape *s, struct operand x, int64_t b, int64_t row, int64_t h, int64_t d)
{
    return x.offset + (b * s->T + row) * x.ld + h * s->D + d;
}

/* ---- set-up ---- */

static void declare(struct trial *t, const struct shape *s, int first, enum role role, bool forward)
{
    static const char *const names[2][4] = { { "q", "k", "v", "qkv" }, { "dq", "dk", "dv", "dqkv" } };
    const char *const *name = names[first == DQ];
    const int64_t rows = s->B * s->T, q = s->H * s->D, kv = s->Hkv * s->D;
    if (s->packed) {
        trial_matrix(t, first, name[3], role, t->dtype, rows, q + 2 * kv, q + 2 * kv);
        return;
    }
    trial_matrix(t, first, name[0], role, t->dtype, rows, q, q + (forward ? 0 : 3));
    trial_matrix(t, first + 1, name[1], role, t->dtype, rows, kv, kv + 2);
    trial_matrix(t, first + 2, name[2], role, t->dtype, rows, kv, kv + 5);
}

static void set(struct trial *t, const struct shape *s, int which, int64_t row, int64_t h, int64_t d,
                double value)
{
    const struct operand x = operand_of(t, s, which);
    trial_set(t, x.id, element(s, x, 0, row, h, d), value);
}

/* Put special values into the middle of the sequence, so that there are rows that must not see them. */
static void place_specials(struct trial *t, const struct shape *s)
{
    const double special = s->flavour == NANS ? NAN : INFINITY;
    const int64_t middle = s->T / 2;
    if (s->special == IN_Q) {
        set(t, s, Q, middle, 0, 1, special);
        return;
    }
    set(t, s, K, middle, 0, 1, special);
    set(t, s, V, middle + 3, s->Hkv - 1, 2, special);
    set(t, s, V, s->T - 1, 0, 0, -special);
}

static void setup_inputs(struct trial *t, const struct shape *s, bool forward)
{
    const bool special = s->flavour == NANS || s->flavour == INFS;
    t->flavour = special ? ORDINARY : s->flavour;
    declare(t, s, Q, IN, forward);
    for (int id = Q; id <= V; id++)
        if (t->tensor[id].present) trial_flavoured(t, id, id == Q ? s->size : 1, 3);
    t->flavour = s->flavour;
    if (special && s->B && s->T) place_specials(t, s);
    trial_describe(t, "B %d T %d H %d/%d D %d%s%s size %g scale %g", (int)s->B, (int)s->T, (int)s->H,
                   (int)s->Hkv, (int)s->D, s->causal ? " causal" : "", s->packed ? " packed" : "", s->size,
                   (double)s->scale);
    if (s->group)
        yokei_text(t->words + strlen(t->words), sizeof t->words - strlen(t->words), " from %d by %d",
                   (int)s->first, (int)s->group);
    if (s->p > 0)
        yokei_text(t->words + strlen(t->words), sizeof t->words - strlen(t->words), " p %g", (double)s->p);
}

/* ---- exact values that both bounds start from ---- */

static int64_t kv_of(const struct shape *s, int64_t h)
{
    return s->group ? (s->first + h) / s->group - s->first / s->group : h / (s->H / s->Hkv);
}

static uint64_t key_of(const struct trial *t) { return yoke_random_key(t->seed, t->index, "conformance"); }

/* The dropout factor m of a pair of query and key. */
static double kept(const struct trial *t, const struct shape *s, int64_t b, int64_t row, int64_t h, int64_t j)
{
    const struct yokei_dropout drop = yokei_dropout(s->p, key_of(t));
    return s->p == 0 ? 1 : yokei_dropout_keeps(&drop, j, row, 5 + b, s->first + h) ? (double)drop.scale : 0;
}

/* One row t of one head: its scores, the errors of the scores, and the operands as f64. */
struct row {
    int64_t b, t, h, hkv, n_keys;
    double *s, *ds;
};

static double exact_at(const struct trial *t, const struct shape *s, int which, int64_t b, int64_t row,
                       int64_t h, int64_t d)
{
    const struct operand x = operand_of(t, s, which);
    return t->tensor[x.id].exact[element(s, x, b, row, h, d)];
}

static void score_row(const struct trial *t, const struct shape *s, struct row *r)
{
    r->hkv = kv_of(s, r->h);
    r->n_keys = s->causal ? r->t + 1 : s->T;
    for (int64_t j = 0; j < r->n_keys; j++) {
        double dot = 0, size = 0, sums = 0;
        for (int64_t d = 0; d < s->D; d++) {
            const double q = exact_at(t, s, Q, r->b, r->t, r->h, d),
                         k = exact_at(t, s, K, r->b, j, r->hkv, d);
            dot += q * k;
            size += fabs(q * k);
            sums += fabs(q) + fabs(k) + 1;
        }
        r->s[j] = s->scale * dot;
        r->ds[j] = fabs((double)s->scale) * (gamma32((double)s->D + 2) * size + flush32 * sums);
    }
}

static double stored_u(yoke_dtype dtype) { return dtype == YOKE_F64 ? u32 : yokei_unit_roundoff(dtype); }

static double stored_eta(yoke_dtype dtype) { return fmax(yokei_underflow(dtype), flush32); }

/* phi: the most that a matrix unit of bf16 may lose in one product. 0 for other types. */
static double flushed(yoke_dtype dtype, double x, double y)
{
    return dtype == YOKE_BF16 ? flush32 * (fabs(x) + fabs(y) + 1) : 0;
}

/* ---- forward ---- */

#define MORE(t, s) \
    .head_start = (s).first, .group = (s).group, .p = (s).p, .key = key_of(t), .sample_start = 5

static void attention_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_inputs(t, &s, true);
    trial_matrix(t, O, "o", OUT, t->dtype, s.B * s.T, s.H * s.D, s.H * s.D + (s.packed ? 0 : 7));
    if (!s.no_lse) trial_vector(t, LSE, "lse", OUT, yoke_dtype_wide(t->dtype), s.B * s.H * s.T);
}

static yoke_status attention_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    const struct operand q = operand_of(t, &s, Q), k = operand_of(t, &s, K), v = operand_of(t, &s, V);
    return CONFORM_CALL(attention_forward, side, cost, .dtype = side_dtype(side, t->dtype),
                        .causal = s.causal, .B = s.B, .T = s.T, .H = s.H, .Hkv = s.Hkv, .D = s.D,
                        .scale = s.scale, MORE(t, s), .q = trial_at(t, side, q.id, q.offset), .ldq = q.ld,
                        .k = trial_at(t, side, k.id, k.offset), .ldk = k.ld,
                        .v = trial_at(t, side, v.id, v.offset), .ldv = v.ld, .o = trial_at(t, side, O, 0),
                        .ldo = t->tensor[O].ld, .lse = trial_at(t, side, LSE, 0));
}

static void forward_row_bound(struct trial *t, const struct shape *s, struct row *r)
{
    score_row(t, s, r);
    double max = -INFINITY, l = 0, drift = 0;
    for (int64_t j = 0; j < r->n_keys; j++) max = fmax(max, r->s[j]);
    for (int64_t j = 0; j < r->n_keys; j++) l += exp(r->s[j] - max);
    for (int64_t j = 0; j < r->n_keys; j++) { /* s becomes P, ds becomes rho */
        const double p = exp(r->s[j] - max) / l;
        r->ds[j] = p == 0 ? 0 : r->ds[j] + u32 * fabs(r->s[j] - max) + 6 * u32;
        r->s[j] = p;
        drift += p * r->ds[j];
    }
    const double sums = gamma32(2 * (double)s->T + 8), u = stored_u(t->dtype), eta = stored_eta(t->dtype);
    for (int64_t d = 0; d < s->D; d++) {
        const int64_t at = (r->b * s->T + r->t) * t->tensor[O].ld + r->h * s->D + d;
        const double wanted = t->tensor[O].exact[at], size = fabs(wanted);
        double e = (sums + (s->p > 0 ? 2 * u32 : 0)) * size;
        for (int64_t j = 0; j < r->n_keys; j++) {
            const double v = fabs(exact_at(t, s, V, r->b, j, r->hkv, d)) * kept(t, s, r->b, r->t, r->h, j),
                         p = r->s[j];
            e += p * (r->ds[j] * (v + size) + (u + sums) * v) + eta * v / l + flushed(t->dtype, v, p * l) / l;
        }
        t->tensor[O].bound[at] = bound_rounded(t->dtype, wanted, e);
    }
    if (s->no_lse) return;
    const int64_t at = (r->b * s->H + r->h) * s->T + r->t;
    t->tensor[LSE].bound[at] = drift + sums + 4 * u32 * fabs(log(l)) + u32 * fabs(t->tensor[LSE].exact[at]);
}

static void for_rows(struct trial *t, void (*bound)(struct trial *, const struct shape *, struct row *))
{
    const struct shape s = shape_of(t);
    double *scratch = malloc((size_t)(2 * s.T + 1) * sizeof *scratch);
    if (!scratch) return; /* the bounds stay 0, and the case fails */
    struct row r = { .s = scratch, .ds = scratch + s.T };
    for (r.b = 0; r.b < s.B; r.b++)
        for (r.h = 0; r.h < s.H; r.h++)
            for (r.t = 0; r.t < s.T; r.t++) bound(t, &s, &r);
    free(scratch);
}

static void attention_forward_bound(struct trial *t) { for_rows(t, forward_row_bound); }

static const struct conform_sizes attention_sizes = { { "B", "T", "H", "G", "D" },
                                                      { { "tiny", { 2, 16, 2, 1, 32 } },
                                                        { "micro", { 8, 64, 4, 1, 64 } },
                                                        { "long", { 2, 256, 6, 1, 64 } },
                                                        { "124m", { 1, 1024, 12, 1, 64 } } },
                                                      .least = { 1, 128, 1, 0, 0 },
                                                      .sums = true };

const struct conform_row conform_row_attention_forward = CONFORM_ROW(
    attention_forward, AT_ATTENTION, CONFORM_FLOATS, shapes, attention_sizes, NO_GRADIENTS,
    attention_forward_setup, attention_forward_call, attention_forward_bound);

/* ---- backward ---- */

/* Set o and lse of row (b, t, h) as a forward pass of the device would leave them. */
static void forward_row(struct trial *t, const struct shape *s, struct row *r)
{
    score_row(t, s, r);
    double max = -INFINITY, l = 0;
    for (int64_t j = 0; j < r->n_keys; j++) max = isnan(r->s[j]) || r->s[j] > max ? r->s[j] : max;
    for (int64_t j = 0; j < r->n_keys; j++) l += exp(r->s[j] - max);
    trial_set(t, LSE, (r->b * s->H + r->h) * s->T + r->t, max + log(l));
    for (int64_t d = 0; d < s->D; d++) {
        double o = 0;
        for (int64_t j = 0; j < r->n_keys; j++) {
            const double keep = kept(t, s, r->b, r->t, r->h, j);
            if (keep > 0) o += keep * exp(r->s[j] - max) / l * exact_at(t, s, V, r->b, j, r->hkv, d);
        }
        trial_set(t, O, (r->b * s->T + r->t) * t->tensor[O].ld + r->h * s->D + d, o);
    }
}

static void attention_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_inputs(t, &s, false);
    trial_matrix(t, O, "o", IN, t->dtype, s.B * s.T, s.H * s.D, s.H * s.D);
    trial_vector(t, LSE, "lse", IN, yoke_dtype_wide(t->dtype), s.B * s.H * s.T);
    trial_matrix(t, DO, "do", IN, t->dtype, s.B * s.T, s.H * s.D, s.H * s.D + 1);
    trial_fill(t, DO, 1);
    declare(t, &s, DQ, OUT, false);
    if (t->status) return;
    if (t->timed) {
        trial_fill(t, O, 0.1);
        trial_constant(t, LSE, log((double)s.T) + 0.5); /* the lse of scores with standard deviation 1 */
        return;
    }
    for (int id = Q; id <= V; id++)
        for (int64_t i = 0; t->tensor[id].present && i < t->tensor[id].extent; i++)
            t->tensor[id].exact[i] = trial_get(t, id, i);
    for_rows(t, forward_row);
    if (s.flavour == NANS && s.special == IN_Q) trial_set(t, DO, s.T / 3 * t->tensor[DO].ld, NAN);
}

static yoke_status attention_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    const struct operand q = operand_of(t, &s, Q), k = operand_of(t, &s, K), v = operand_of(t, &s, V);
    const struct operand dq = operand_of(t, &s, DQ), dk = operand_of(t, &s, DK), dv = operand_of(t, &s, DV);
    return CONFORM_CALL(attention_backward, side, cost, .dtype = side_dtype(side, t->dtype),
                        .causal = s.causal, .B = s.B, .T = s.T, .H = s.H, .Hkv = s.Hkv, .D = s.D,
                        .scale = s.scale, MORE(t, s), .q = trial_at(t, side, q.id, q.offset), .ldq = q.ld,
                        .k = trial_at(t, side, k.id, k.offset), .ldk = k.ld,
                        .v = trial_at(t, side, v.id, v.offset), .ldv = v.ld, .o = trial_at(t, side, O, 0),
                        .ldo = t->tensor[O].ld, .d_o = trial_at(t, side, DO, 0), .lddo = t->tensor[DO].ld,
                        .lse = trial_at(t, side, LSE, 0), .dq = trial_at(t, side, dq.id, dq.offset),
                        .lddq = dq.ld, .dk = trial_at(t, side, dk.id, dk.offset), .lddk = dk.ld,
                        .dv = trial_at(t, side, dv.id, dv.offset), .lddv = dv.ld);
}

static double *bound_at(const struct trial *t, const struct shape *s, int which, int64_t b, int64_t row,
                        int64_t h, int64_t d)
{
    const struct operand x = operand_of(t, s, which);
    return &t->tensor[x.id].bound[element(s, x, b, row, h, d)];
}

/* Add the part of key j in the errors of row r: to dq of the row, and to dk and dv of key j. */
static void backward_key_bound(struct trial *t, const struct shape *s, const struct row *r, int64_t j,
                               double delta, double d_delta)
{
    const double lse = t->tensor[LSE].exact[(r->b * s->H + r->h) * s->T + r->t], p = exp(r->s[j] - lse);
    const double rho = p == 0 ? 0 : r->ds[j] + u32 * fabs(r->s[j] - lse) + 8 * u32;
    const double u = stored_u(t->dtype), eta = stored_eta(t->dtype), scale = fabs((double)s->scale);
    const double rows = (double)(s->T * (s->group ? s->group : s->H / s->Hkv)),
                 keep = kept(t, s, r->b, r->t, r->h, j);
    double dp = 0, dp_size = 0, lost = 0;
    for (int64_t d = 0; d < s->D; d++) {
        const double d_o = exact_at(t, s, DO, r->b, r->t, r->h, d), v = exact_at(t, s, V, r->b, j, r->hkv, d),
                     product = keep > 0 ? keep * d_o * v : 0;
        dp += product;
        dp_size += fabs(product);
        if (keep > 0) lost += keep * flushed(t->dtype, d_o, v);
    }
    const double dS = fabs(p * (dp - delta));
    double e = dS * (rho + 3 * u32) + p * (gamma32((double)s->D + 1) * dp_size + lost + d_delta);
    e += flush32 * fabs(dp - delta); /* exp may have flushed p */
    e += u * (dS + e) + fmax(1, 1 / scale) * eta;
    for (int64_t d = 0; d < s->D; d++) {
        const double q = fabs(exact_at(t, s, Q, r->b, r->t, r->h, d)),
                     k = fabs(exact_at(t, s, K, r->b, j, r->hkv, d));
        const double d_o = fabs(exact_at(t, s, DO, r->b, r->t, r->h, d));
        *bound_at(t, s, DQ, r->b, r->t, r->h,
                  d) += scale * ((e + gamma32((double)s->T + 2) * dS) * k + flushed(t->dtype, dS, k));
        *bound_at(t, s, DK, r->b, j, r->hkv,
                  d) += scale * ((e + gamma32(rows + 2) * dS) * q + flushed(t->dtype, dS, q));
        *bound_at(t, s, DV, r->b, j, r->hkv,
                  d) += keep * ((p * (rho + u + gamma32(rows)) + eta) * d_o + flushed(t->dtype, p, d_o));
    }
}

static void backward_row_bound(struct trial *t, const struct shape *s, struct row *r)
{
    score_row(t, s, r);
    double delta = 0, size = 0;
    for (int64_t d = 0; d < s->D; d++) {
        const double product = exact_at(t, s, DO, r->b, r->t, r->h, d)
                               * exact_at(t, s, O, r->b, r->t, r->h, d);
        delta += product;
        size += fabs(product);
    }
    for (int64_t j = 0; j < r->n_keys; j++)
        backward_key_bound(t, s, r, j, delta, gamma32((double)s->D + 1) * size);
}

static void attention_backward_bound(struct trial *t)
{
    for_rows(t, backward_row_bound);
    for (int id = DQ; id <= DV; id++)
        for (int64_t i = 0; t->tensor[id].present && i < t->tensor[id].extent; i++)
            t->tensor[id].bound[i] = bound_rounded(t->dtype, t->tensor[id].exact[i], t->tensor[id].bound[i]);
}

/* ---- gradient of attention ---- */

static void attention_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    const int64_t rows = s->B * s->T;
    gradient_input(c, "q", rows * s->H * s->D);
    gradient_input(c, "k", rows * s->Hkv * s->D);
    gradient_input(c, "v", rows * s->Hkv * s->D);
    gradient_output(c, rows * s->H * s->D, s->B * s->H * s->T);
}

#define ATTENTION(s)                                                                                  \
    .causal = (s)->causal, .B = (s)->B, .T = (s)->T, .H = (s)->H, .Hkv = (s)->Hkv, .D = (s)->D,       \
    .scale = 0.4375f, .q = INPUT(0), .ldq = (s)->H * (s)->D, .k = INPUT(1), .ldk = (s)->Hkv * (s)->D, \
    .v = INPUT(2), .ldv = (s)->Hkv * (s)->D, .head_start = (s)->head_start, .group = (s)->group,      \
    .p = (s)->p, .key = yoke_random_key(1, 2, "gradients"), .o = c->y, .ldo = (s)->H * (s)->D,        \
    .lse = c->extra

static yoke_status attention_pair_forward(struct gradient_check *c)
{
    GRADIENT_CALL(attention_forward, ATTENTION(&c->shape));
    return YOKE_OK;
}

static yoke_status attention_pair_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(attention_backward, ATTENTION(s), .d_o = c->w, .lddo = s->H * s->D, .dq = GRADIENT_OF(0),
                  .lddq = s->H * s->D, .dk = GRADIENT_OF(1), .lddk = s->Hkv * s->D, .dv = GRADIENT_OF(2),
                  .lddv = s->Hkv * s->D);
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair attention_pairs[] = {
    { { .B = 2, .T = 6, .H = 2, .Hkv = 2, .D = 4, .causal = true },
      attention_pair_setup, attention_pair_forward, attention_pair_backward },
    { { .B = 1, .T = 7, .H = 6, .Hkv = 2, .D = 3, .causal = true },
      attention_pair_setup, attention_pair_forward, attention_pair_backward },
    { { .B = 2, .T = 5, .H = 4, .Hkv = 1, .D = 5 },
      attention_pair_setup, attention_pair_forward, attention_pair_backward },
    { { .B = 2, .T = 6, .H = 4, .Hkv = 3, .D = 3, .causal = true, .head_start = 5, .group = 2, .p = 0.3f },
      attention_pair_setup, attention_pair_forward, attention_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_attention_backward = CONFORM_ROW(
    attention_backward, BACK_ATTENTION, CONFORM_FLOATS, shapes, attention_sizes, GRADIENTS(attention_pairs),
    attention_backward_setup, attention_backward_call, attention_backward_bound);
