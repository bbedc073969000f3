/* SPDX-License-Identifier: Apache-2.0 */
#include "train/text/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

enum { ORDERS = 4, PIECE = 65536, MAX_SLICE = 1 << 18 };

/*
 * A hash table of the counts of four consecutive bytes, keyed by the bytes. At least half of the places are
 * empty (count 0).
 */
struct quads {
    uint32_t *keys, *counts;
    size_t mask, n;
};

struct yokei_baseline {
    uint64_t n;    /* bytes counted */
    uint32_t last; /* the last of these bytes; as contexts they were not followed by a byte */
    /* [256], [256^2], [256^3]: counts of bytes, pairs and triples; the oldest byte is in the highest place */
    uint32_t *c1, *c2, *c3;
    struct quads c4;
    double k[ORDERS], m[ORDERS];
};

/* The counts from which p_0..p_3 of one byte are computed: numerator and denominator of each order. */
struct evidence {
    uint64_t hit[ORDERS], seen[ORDERS];
};

static size_t quad_place(const struct quads *quads, uint32_t key)
{
    size_t place = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & quads->mask; /* Fibonacci hashing */
    while (quads->counts[place] && quads->keys[place] != key) place = (place + 1) & quads->mask;
    return place;
}

static yoke_status grow(struct quads *quads)
{
    size_t places = quads->mask ? 2 * (quads->mask + 1) : 65536;
    struct quads larger = { calloc(places, sizeof *larger.keys), calloc(places, sizeof *larger.counts),
                            places - 1, quads->n };
    if (!larger.keys || !larger.counts) {
        free(larger.keys);
        free(larger.counts);
        return yoke_fail(YOKE_ENOMEM, "no memory for the byte-count model's %zu counts", places);
    }
    for (size_t i = 0; quads->counts && i <= quads->mask; i++) {
        if (!quads->counts[i]) continue;
        size_t place = quad_place(&larger, quads->keys[i]);
        larger.keys[place] = quads->keys[i];
        larger.counts[place] = quads->counts[i];
    }
    free(quads->keys);
    free(quads->counts);
    *quads = larger;
    return YOKE_OK;
}

/*
 * Count one byte. `window` holds the last four bytes including this one. n_before bytes were there before it.
 */
static yoke_status count_byte(struct yokei_baseline *b, uint32_t window, uint64_t n_before)
{
    b->n++;
    b->c1[window & 0xff]++;
    if (n_before >= 1) b->c2[window & 0xffff]++;
    if (n_before >= 2) b->c3[window & 0xffffff]++;
    if (n_before < 3) return YOKE_OK;
    if (2 * b->c4.n > b->c4.mask) YOKE_TRY(grow(&b->c4));
    size_t place = quad_place(&b->c4, window);
    b->c4.keys[place] = window;
    b->c4.n += b->c4.counts[place]++ == 0;
    return YOKE_OK;
}

static yoke_status count_range(struct yokei_baseline *b, const struct yokei_tokens *tokens, int64_t begin,
                               int64_t end, int32_t *piece, uint32_t *window)
{
    for (int64_t at = begin; at < end; at += PIECE) {
        int64_t n = YOKE_MIN((int64_t)PIECE, end - at);
        YOKE_TRY(yokei_tokens_read(tokens, YOKEI_TOKENS_TRAIN, at, n, piece));
        for (int64_t i = 0; i < n; i++) {
            *window = *window << 8 | (uint32_t)piece[i];
            YOKE_TRY(count_byte(b, *window, (uint64_t)(at + i)));
        }
    }
    b->last = *window;
    return YOKE_OK;
}

static struct evidence look_up(const struct yokei_baseline *b, uint32_t window)
{
    uint32_t context = window >> 8;
    struct evidence e;
    e.hit[0] = b->c1[window & 0xff];
    e.seen[0] = b->n;
    e.hit[1] = b->c2[window & 0xffff];
    e.seen[1] = b->c1[context & 0xff] - ((context & 0xff) == (b->last & 0xff));
    e.hit[2] = b->c3[window & 0xffffff];
    e.seen[2] = b->c2[context & 0xffff] - ((context & 0xffff) == (b->last & 0xffff));
    e.hit[3] = b->c4.counts[quad_place(&b->c4, window)];
    e.seen[3] = b->c3[context] - (context == (b->last & 0xffffff));
    return e;
}

static void order_probabilities(const double k[ORDERS], const struct evidence *e, double p[ORDERS])
{
    double lower = 1.0 / 256;
    for (int j = 0; j < ORDERS; j++)
        lower = p[j] = ((double)e->hit[j] + k[j] * lower) / ((double)e->seen[j] + k[j]);
}

static double mixture(const double k[ORDERS], const double m[ORDERS], const struct evidence *e)
{
    double p[ORDERS], sum = 0;
    order_probabilities(k, e, p);
    for (int j = 0; j < ORDERS; j++) sum += m[j] * p[j];
    return sum;
}

static double slice_loss(const double k[ORDERS], const double m[ORDERS], const struct evidence *slice,
                         int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum -= log(mixture(k, m, &slice[i]));
    return sum / (double)n;
}

/*
 * One pass over the orders. Each k moves by `step`, up or down, as long as the loss falls. Returns whether
 * any k moved.
 */
static bool move_k(double k[ORDERS], const double m[ORDERS], const struct evidence *slice, int64_t n,
                   double step, double *best)
{
    bool moved = false;
    for (int j = 0; j < ORDERS; j++) {
        for (int up = 0; up < 2; up++) {
            double trial[ORDERS], loss;
            memcpy(trial, k, sizeof trial);
            while (trial[j] = up ? trial[j] * step : trial[j] / step,
                   trial[j] >= 1e-4 && trial[j] <= 1e6 && (loss = slice_loss(trial, m, slice, n)) < *best) {
                *best = loss;
                k[j] = trial[j];
                moved = true;
            }
        }
    }
    return moved;
}

/* Coordinate descent on log k with m fixed. The steps shrink when no order improves the loss. */
static void tune_k(double k[ORDERS], const double m[ORDERS], const struct evidence *slice, int64_t n)
{
    double best = slice_loss(k, m, slice, n);
    for (double step = 4; step > 1.05; step = sqrt(step))
        for (int pass = 0; pass < 4 && move_k(k, m, slice, n, step, &best); pass++) continue;
}

/* Expectation maximisation of the weights of the mixture, with k fixed. */
static void tune_m(const double k[ORDERS], double m[ORDERS], const struct evidence *slice, int64_t n)
{
    for (int round = 0; round < 20; round++) {
        double share[ORDERS] = { 0 };
        for (int64_t i = 0; i < n; i++) {
            double p[ORDERS], sum = 0;
            order_probabilities(k, &slice[i], p);
            for (int j = 0; j < ORDERS; j++) sum += m[j] * p[j];
            for (int j = 0; j < ORDERS; j++) share[j] += m[j] * p[j] / sum;
        }
        for (int j = 0; j < ORDERS; j++) m[j] = share[j] / (double)n;
    }
}

/* Fit k and m on bytes [begin, end) of the training part. These bytes are not counted yet. */
static yoke_status tune(struct yokei_baseline *b, const struct yokei_tokens *tokens, int64_t begin,
                        int64_t end, int32_t *piece, uint32_t window)
{
    int64_t n = YOKE_MIN(end - begin, (int64_t)MAX_SLICE);
    struct evidence *slice = malloc((size_t)n * sizeof *slice);
    if (!slice)
        return yoke_fail(YOKE_ENOMEM, "%s: no memory to fit the byte-count model", yokei_tokens_path(tokens));
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t count = YOKE_MIN((int64_t)PIECE, n - at);
        yoke_status status = yokei_tokens_read(tokens, YOKEI_TOKENS_TRAIN, begin + at, count, piece);
        if (status) {
            free(slice);
            return status;
        }
        for (int64_t i = 0; i < count; i++) {
            window = window << 8 | (uint32_t)piece[i];
            slice[at + i] = look_up(b, window);
        }
    }
    for (int round = 0; round < 2; round++) {
        tune_k(b->k, b->m, slice, n);
        tune_m(b->k, b->m, slice, n);
    }
    free(slice);
    return YOKE_OK;
}

static yoke_status allocate(struct yokei_baseline *b)
{
    b->c1 = calloc(256, sizeof *b->c1);
    b->c2 = calloc(65536, sizeof *b->c2);
    b->c3 = calloc((size_t)1 << 24, sizeof *b->c3);
    if (!b->c1 || !b->c2 || !b->c3) return yoke_fail(YOKE_ENOMEM, "no memory for the byte-count model");
    return grow(&b->c4);
}

yoke_status yokei_baseline_fit(const struct yokei_tokens *tokens, struct yokei_baseline **baseline_out)
{
    int64_t n = yokei_tokens_count(tokens, YOKEI_TOKENS_TRAIN);
    if (!yokei_tokens_are_bytes(tokens))
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: holds tokens, not text; the byte-count model needs text",
                         yokei_tokens_path(tokens));
    if (n < 64 || n > UINT32_MAX)
        return yoke_fail(YOKE_EDATA,
                         "%s: the training part has %lld bytes; the byte-count model needs 64 to 4294967295",
                         yokei_tokens_path(tokens), (long long)n);
    struct yokei_baseline *b = calloc(1, sizeof *b);
    int32_t *piece = malloc(PIECE * sizeof *piece);
    yoke_status status;
    if (!b || !piece) {
        status = yoke_fail(YOKE_ENOMEM, "no memory for the byte-count model");
        goto fail;
    }
    for (int j = 0; j < ORDERS; j++) {
        b->k[j] = 1;
        b->m[j] = j == ORDERS - 1 ? 0.7 : 0.1;
    }
    YOKE_TRY_GOTO(allocate(b), fail);
    int64_t cut = n - n / 20;
    uint32_t window = 0;
    YOKE_TRY_GOTO(count_range(b, tokens, 0, cut, piece, &window), fail);
    YOKE_TRY_GOTO(tune(b, tokens, cut, n, piece, window), fail);
    YOKE_TRY_GOTO(count_range(b, tokens, cut, n, piece, &window), fail);
    free(piece);
    *baseline_out = b;
    return YOKE_OK;
fail:
    free(piece);
    yokei_baseline_free(b);
    return status;
}

void yokei_baseline_free(struct yokei_baseline *b)
{
    if (!b) return;
    free(b->c1);
    free(b->c2);
    free(b->c3);
    free(b->c4.keys);
    free(b->c4.counts);
    free(b);
}

void yokei_baseline_weights(const struct yokei_baseline *b, double k_out[4], double m_out[4])
{
    memcpy(k_out, b->k, sizeof b->k);
    memcpy(m_out, b->m, sizeof b->m);
}

double yokei_baseline_probability(const struct yokei_baseline *b, const uint8_t h[3], uint8_t w)
{
    struct evidence e = look_up(b, (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | w);
    return mixture(b->k, b->m, &e);
}

yoke_status yokei_baseline_loss(const struct yokei_baseline *b, const struct yokei_tokens *tokens,
                                int64_t first, int64_t n, double *nats_out)
{
    int64_t n_train = yokei_tokens_count(tokens, YOKEI_TOKENS_TRAIN),
            have = yokei_tokens_count(tokens, YOKEI_TOKENS_VALIDATION);
    if (first < 0 || n < 0 || first > have || n > have - first)
        return yoke_fail(YOKE_EINVAL,
                         "%s: bytes %lld to %lld of the validation part do not exist; it has %lld",
                         yokei_tokens_path(tokens), (long long)first, (long long)first + (long long)n,
                         (long long)have);
    if (n == 0) n = have - first;
    if (n == 0) return yoke_fail(YOKE_EDATA, "%s: there is no validation part", yokei_tokens_path(tokens));
    int32_t *piece = malloc(PIECE * sizeof *piece), before[3];
    if (!piece) return yoke_fail(YOKE_ENOMEM, "no memory for the byte-count model");
    /*
     * Read the three bytes before the first one. They exist, because the training part has at least 64 bytes.
     */
    yoke_status status = yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, n_train + first - 3, 3, before);
    uint32_t window = status ? 0 : (uint32_t)before[0] << 16 | (uint32_t)before[1] << 8 | (uint32_t)before[2];
    double sum = 0;
    for (int64_t at = 0; at < n && !status; at += PIECE) {
        int64_t count = YOKE_MIN((int64_t)PIECE, n - at);
        status = yokei_tokens_read(tokens, YOKEI_TOKENS_VALIDATION, first + at, count, piece);
        for (int64_t i = 0; i < count && !status; i++) {
            window = window << 8 | (uint32_t)piece[i];
            struct evidence e = look_up(b, window);
            sum -= log(mixture(b->k, b->m, &e));
        }
    }
    free(piece);
    YOKE_TRY(status);
    *nats_out = sum / (double)n;
    return YOKE_OK;
}
