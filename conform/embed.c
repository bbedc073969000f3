/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of embeddings: the derivation of the bounds.
 * Forward: one f32 addition and one rounding. If only one of the two terms is present, nothing is rounded and
 * the value is exact.
 * Backward: a row of dwte gets one addition for each occurrence of its token, and a row of dwpe gets N / T
 * additions. The bound is gamma(n) (sum |dy| + |initial|). A row that no token uses keeps its bits.
 * Shards: the device runs P shards of a vocabulary one after the other, and adds up their outputs. The first
 * shard also adds the positions. The oracle runs the whole vocabulary. Each sum has one term that is not 0,
 * or this term and the position. So the bounds are the same.
 */
#include "conform/gradient_pairs.h"

struct shape {
    int64_t N, T, C, V, vocab_start, pos_start;
    enum flavour flavour;
    enum { RANDOM, SAME, OUTSIDE } tokens;
    bool no_wpe, no_wte; /* no_wte: the gradient of wte is left out */
    int64_t P;           /* if not 0: the device's vocabulary is cut into P shards */
};

static const struct shape shapes[] = {
    { 1, 1, 1, 1 },
    { 6, 3, 5, 7 },
    { 16, 8, 16, 11, .tokens = SAME },
    { 34, 17, 33, 50, .pos_start = 4 },
    { 62, 31, 64, 97, .vocab_start = 40 },
    { 50, 25, 65, 13, .vocab_start = 5, .tokens = OUTSIDE },
    { 128, 64, 127, 256, .no_wpe = true },
    { 129, 129, 48, 300, .no_wte = true },
    { 2103, 2103, 3, 64 },
    { 300, 10, 40, 5, .pos_start = 1 },
    { 24, 6, 768, 17 },
    { 0, 4, 16, 9 },
    { 60, 30, 33, 5 },
    { 60, 30, 33, 1, .vocab_start = 5, .no_wpe = true },
    { 60, 30, 33, 251, .vocab_start = 6, .no_wpe = true, .tokens = OUTSIDE },
    { 60, 30, 17, 257, .P = 1 },
    { 60, 30, 33, 257, .P = 2, .pos_start = 2 },
    { 300, 50, 65, 257, .P = 3 },
    { 45, 15, 48, 30, .P = 3, .tokens = OUTSIDE },
    { 80, 20, 31, 97, .P = 4, .no_wpe = true },
    { 40, 10, 24, 19, .P = 4, .flavour = NANS },
    { 40, 10, 24, 19, .P = 4, .flavour = WIDE },
    { 20, 5, 24, 9, .flavour = WIDE },
    { 20, 5, 24, 9, .flavour = SUBNORMAL },
    { 20, 5, 24, 9, .flavour = ZEROS },
    { 20, 5, 24, 9, .flavour = NANS },
    { 20, 5, 24, 9, .flavour = INFS, .no_wpe = true },
};

static struct shape shape_of(const struct trial *t)
{
    if (t->dims)
        return (
            struct shape){ .N = t->dims[0] * t->dims[1], .T = t->dims[1], .C = t->dims[2], .V = t->dims[3] };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    const int64_t T = 1 + trial_random(t, "T", 0, 60);
    return (struct shape){ .N = T * (1 + trial_random(t, "B", 0, 5)),
                           .T = T,
                           .C = 1 + trial_random(t, "C", 0, 200),
                           .V = 1 + trial_random(t, "V", 0, 400),
                           .vocab_start = trial_random(t, "vocab", 0, 50),
                           .pos_start = trial_random(t, "pos", 0, 9) };
}

enum { TOKENS, WTE, WPE, Y, Y_LAST }; /* Y_LAST: the output of the last shard */

static void setup_tokens(struct trial *t, const struct shape *s)
{
    t->flavour = s->flavour;
    trial_vector(t, TOKENS, "tokens", IN, YOKE_I32, s->N);
    for (int64_t n = 0; n < s->N; n++) {
        int64_t token = s->vocab_start + (s->tokens == SAME ? s->V / 2 : trial_random(t, "tokens", n, s->V));
        if (s->tokens == OUTSIDE && n % 3 == 0)
            token = n % 2 ? s->vocab_start + s->V + n : s->vocab_start - 1;
        if (s->vocab_start > 0 && n % 5 == 4) token = trial_random(t, "tokens", n, s->vocab_start + 2 * s->V);
        trial_set_int(t, TOKENS, n, (int32_t)token);
    }
    trial_describe(t, "N %d T %d C %d V %d P %d from %d pos %d%s%s%s", (int)s->N, (int)s->T, (int)s->C,
                   (int)s->V, (int)s->P, (int)s->vocab_start, (int)s->pos_start,
                   s->tokens == SAME      ? " same"
                   : s->tokens == OUTSIDE ? " outside"
                                          : "",
                   s->no_wpe ? " no wpe" : "", s->no_wte ? " no wte" : "");
}

/* The row of the vocabulary's shard that position n takes, or -1. */
static int64_t row_of(const struct trial *t, const struct shape *s, int64_t n)
{
    const int64_t row = (int64_t)trial_get(t, TOKENS, n) - s->vocab_start;
    return row >= 0 && row < s->V ? row : -1;
}

/* ---- forward ---- */

static void embed_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_tokens(t, &s);
    trial_matrix(t, WTE, "wte", IN, t->dtype, s.V, s.C, s.C);
    trial_flavoured(t, WTE, 1, 100);
    if (!s.no_wpe) {
        trial_matrix(t, WPE, "wpe", IN, t->dtype, s.pos_start + s.T, s.C, s.C);
        trial_flavoured(t, WPE, 1, 100);
    }
    trial_matrix(t, Y, "y", OUT, t->dtype, s.N, s.C, s.C);
    if (s.P > 1) trial_matrix(t, Y_LAST, "y_last", OUT, t->dtype, s.N, s.C, s.C);
}

#define SHAPE(s, side, first, n)                                                       \
    .dtype = side_dtype(side, t->dtype), .N = (s).N, .T = (s).T, .C = (s).C, .V = (n), \
    .vocab_start = (s).vocab_start + (first), .pos_start = (s).pos_start,              \
    .tokens = trial_at(t, side, TOKENS, 0)

/*
 * Run shard p of P. The output of the first shard is y, to which the outputs of the other shards are added.
 */
static yoke_status forward_shard(struct trial *t, const struct shape *s, const struct side *side,
                                 struct yoke_cost *cost, int64_t p)
{
    const int64_t first = trial_shard(s->V, s->P, p), n = trial_shard(s->V, s->P, p + 1) - first;
    CONFORM_STEP(embed_forward, side, cost, SHAPE(*s, side, first, n), .vocabulary = s->vocab_start + s->V,
                 .wte = trial_at(t, side, WTE, first * s->C), .wpe = p ? NULL : trial_at(t, side, WPE, 0),
                 .y = trial_at(t, side, p ? Y_LAST : Y, 0));
    if (p && !side->oracle)
        CONFORM_STEP(add, side, cost, .dtype = t->dtype, .n = s->N * s->C, .x = trial_at(t, side, Y, 0),
                     .y = trial_at(t, side, Y_LAST, 0), .z = trial_at(t, side, Y, 0));
    return YOKE_OK;
}

static yoke_status embed_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    for (int64_t p = 0; p < s.P && !side->oracle; p++) YOKE_TRY(forward_shard(t, &s, side, cost, p));
    if (s.P && !side->oracle) return YOKE_OK;
    if (s.P > 1) YOKE_TRY(forward_shard(t, &s, side, cost, s.P - 1));
    return CONFORM_CALL(embed_forward, side, cost, SHAPE(s, side, 0, s.V), .wte = trial_at(t, side, WTE, 0),
                        .wpe = trial_at(t, side, WPE, 0), .y = trial_at(t, side, Y, 0));
}

static void embed_forward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    const double u = t->dtype == YOKE_F16 || t->dtype == YOKE_BF16 ? yokei_unit_roundoff(t->dtype) : 0;
    for (int64_t n = 0; n < s.N; n++)
        for (int64_t c = 0; c < s.C; c++) {
            const double size = fabs(exact_of(t, Y)[n * s.C + c]);
            const bool both = !s.no_wpe && row_of(t, &s, n) >= 0;
            t->tensor[Y].bound[n * s.C + c] = both ? u32 * size + u * (1 + u32) * size : 0;
        }
}

static const struct conform_sizes forward_sizes = {
    { "B", "T", "C", "V" },
    { { "tiny", { 1, 32, 64, 256 } }, { "micro", { 8, 64, 256, 256 } }, { "124m", { 8, 1024, 768, 50257 } } },
    .least = { 1, 64, 0, 256 }
};

const struct conform_row conform_row_embed_forward = CONFORM_ROW(embed_forward, AT_EMBEDDING, CONFORM_FLOATS,
                                                                 shapes, forward_sizes, NO_GRADIENTS,
                                                                 embed_forward_setup, embed_forward_call,
                                                                 embed_forward_bound);

/* ---- backward ---- */

enum { DY = 1, DWTE, DWPE };

static void embed_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    setup_tokens(t, &s);
    trial_matrix(t, DY, "dy", IN, t->dtype, s.N, s.C, s.C);
    trial_flavoured(t, DY, 1, 40);
    if (!s.no_wte) {
        trial_matrix(t, DWTE, "dwte", SUM, wide, s.V, s.C, s.C);
        trial_fill(t, DWTE, 1);
    }
    if (!s.no_wpe) {
        trial_matrix(t, DWPE, "dwpe", SUM, wide, s.pos_start + s.T, s.C, s.C);
        trial_fill(t, DWPE, 1);
    }
}

static yoke_status embed_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    for (int64_t p = 0; p < s.P && !side->oracle; p++) {
        const int64_t first = trial_shard(s.V, s.P, p), n = trial_shard(s.V, s.P, p + 1) - first;
        CONFORM_STEP(embed_backward, side, cost, SHAPE(s, side, first, n), .vocabulary = s.vocab_start + s.V,
                     .dy = trial_at(t, side, DY, 0), .dwte = trial_at(t, side, DWTE, first * s.C),
                     .dwpe = p ? NULL : trial_at(t, side, DWPE, 0));
    }
    if (s.P && !side->oracle) return YOKE_OK;
    return CONFORM_CALL(embed_backward, side, cost, SHAPE(s, side, 0, s.V), .dy = trial_at(t, side, DY, 0),
                        .dwte = trial_at(t, side, DWTE, 0), .dwpe = trial_at(t, side, DWPE, 0));
}

static void embed_backward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    struct tensor *dwte = &t->tensor[DWTE], *dwpe = &t->tensor[DWPE];
    for (int64_t v = 0; v < s.V && dwte->present; v++) {
        double occurrences = 0;
        for (int64_t n = 0; n < s.N; n++) {
            if (row_of(t, &s, n) != v) continue;
            occurrences++;
            for (int64_t c = 0; c < s.C; c++) dwte->bound[v * s.C + c] += fabs(exact_of(t, DY)[n * s.C + c]);
        }
        for (int64_t c = 0; c < s.C; c++) /* with 0 occurrences the bound is 0 */
            dwte->bound[v * s.C + c] = gamma32(occurrences)
                                       * (dwte->bound[v * s.C + c] + fabs(dwte->initial[v * s.C + c]));
    }
    for (int64_t n = 0; n < s.N && dwpe->present; n++)
        for (int64_t c = 0; c < s.C; c++)
            dwpe->bound[(s.pos_start + n % s.T) * s.C + c] += fabs(exact_of(t, DY)[n * s.C + c]);
    for (int64_t p = 0; p < s.T && s.N && dwpe->present; p++)
        for (int64_t c = 0; c < s.C; c++) {
            const int64_t at = (s.pos_start + p) * s.C + c;
            dwpe->bound[at] = gamma32((double)(s.N / s.T)) * (dwpe->bound[at] + fabs(dwpe->initial[at]));
        }
}

/* ---- gradient of embed ---- */

static void embed_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    gradient_input(c, "wte", s->V * s->C);
    gradient_input(c, "wpe", (s->T + 1) * s->C);
    gradient_tokens(c, s->N, s->V + 2, false); /* some tokens lie outside the shard */
    gradient_output(c, s->N * s->C, 0);
}

#define EMBED(s) \
    .N = (s)->N, .T = (s)->T, .C = (s)->C, .V = (s)->V, .vocab_start = 1, .pos_start = 1, .tokens = c->tokens

static yoke_status embed_pair_forward(struct gradient_check *c)
{
    GRADIENT_CALL(embed_forward, EMBED(&c->shape), .wte = INPUT(0), .wpe = INPUT(1), .y = c->y);
    return YOKE_OK;
}

static yoke_status embed_pair_backward(struct gradient_check *c)
{
    GRADIENT_CALL(embed_backward, EMBED(&c->shape), .dy = c->w, .dwte = GRADIENT_OF(0),
                  .dwpe = GRADIENT_OF(1));
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair embed_pairs[] = {
    { { .N = 12, .T = 4, .C = 5, .V = 6 }, embed_pair_setup, embed_pair_forward, embed_pair_backward },
};
/* clang-format on */

static const struct conform_sizes backward_sizes = {
    { "B", "T", "C", "V" },
    { { "tiny", { 1, 32, 64, 256 } }, { "micro", { 8, 64, 256, 256 } }, { "124m", { 8, 1024, 768, 50257 } } },
    .least = { 1, 64, 0, 256 },
    .sums = true
};

const struct conform_row conform_row_embed_backward = CONFORM_ROW(
    embed_backward, BACK_EMBEDDING, CONFORM_FLOATS, shapes, backward_sizes, GRADIENTS(embed_pairs),
    embed_backward_setup, embed_backward_call, embed_backward_bound);
