/* SPDX-License-Identifier: Apache-2.0 */
#include "train/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

struct candidate {
    float logit;
    int32_t index;
};

static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int by_index(const void *a, const void *b)
{
    int32_t x = ((const struct candidate *)a)->index, y = ((const struct candidate *)b)->index;
    return (x > y) - (x < y);
}

static yoke_status check_logits(const float *logits, int64_t V, int32_t *largest_out)
{
    int64_t largest = 0;
    for (int64_t v = 0; v < V; v++) {
        if (isnan(logits[v]) || logits[v] == INFINITY)
            return yoke_fail(YOKE_ENUMERIC, "the logit of token %lld is %g; no next token can be chosen",
                             (long long)v, (double)logits[v]);
        if (logits[v] > logits[largest]) largest = v;
    }
    if (logits[largest] == -INFINITY)
        return yoke_fail(YOKE_ENUMERIC, "all %lld logits are -inf; no next token can be chosen",
                         (long long)V);
    *largest_out = (int32_t)largest;
    return YOKE_OK;
}

/* The first candidate, in ascending order of index, whose cumulative probability exceeds u. */
static int32_t draw(const struct candidate *candidates, int64_t n, double max, double temperature, double u)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) total += exp(((double)candidates[i].logit - max) / temperature);
    int32_t last = candidates[0].index;
    for (int64_t i = 0; i < n; i++) {
        double p = exp(((double)candidates[i].logit - max) / temperature);
        sum += p;
        if (p > 0) last = candidates[i].index; /* because of rounding the whole sum may be u or less */
        if (sum > u * total) return candidates[i].index;
    }
    return last;
}

yoke_status yokei_sample_token(const float *logits, int64_t V, double temperature, int64_t top_k,
                               uint64_t seed, uint64_t position, int32_t *token_out)
{
    if (!logits || !token_out || V < 1 || V > INT32_MAX || !(temperature >= 0) || isinf(temperature)
        || top_k < 0)
        return yoke_fail(YOKE_EINVAL,
                         "no next token can be chosen from %lld logits with temperature %g and top_k %lld",
                         (long long)V, temperature, (long long)top_k);
    int32_t largest = 0;
    YOKE_TRY(check_logits(logits, V, &largest));
    if (temperature == 0 || top_k == 1) {
        *token_out = largest;
        return YOKE_OK;
    }
    struct candidate *candidates = malloc((size_t)V * sizeof *candidates);
    if (!candidates)
        return yoke_fail(YOKE_ENOMEM, "no memory for %lld candidates of the next token", (long long)V);
    for (int64_t v = 0; v < V; v++) candidates[v] = (struct candidate){ logits[v], (int32_t)v };
    int64_t n = top_k > 0 && top_k < V ? top_k : V;
    if (n < V) {
        qsort(candidates, (size_t)V, sizeof *candidates, by_logit);
        qsort(candidates, (size_t)n, sizeof *candidates, by_index);
    }
    double u = yokei_uniform(yokei_philox_named(seed, "sample"), position);
    *token_out = draw(candidates, n, (double)logits[largest], temperature, u);
    free(candidates);
    return YOKE_OK;
}

/* ---- words ---- */

/*
 * The set of a corpus's words, as 64-bit hashes. Two different words of a corpus are not expected to have the
 * same hash.
 */
struct words {
    uint64_t *places; /* 0: empty */
    size_t mask, n;
};

static bool is_letter(int32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80; }

/* Add a letter to the running hash of a word (FNV-1a). */
static uint64_t add_letter(uint64_t hash, int32_t c)
{
    return (hash ^ (uint64_t)(c >= 'A' && c <= 'Z' ? c + 32 : c)) * 1099511628211u;
}
static const uint64_t NO_LETTERS = 14695981039346656037u;

static size_t word_place(const struct words *words, uint64_t hash)
{
    size_t place = (size_t)(hash ^ hash >> 32) & words->mask;
    while (words->places[place] && words->places[place] != hash) place = (place + 1) & words->mask;
    return place;
}

static yoke_status add_word(struct words *words, uint64_t hash)
{
    hash |= hash == 0;
    if (2 * (words->n + 1) > words->mask) {
        struct words larger = { NULL, words->mask ? 2 * words->mask + 1 : 4095, words->n };
        larger.places = calloc(larger.mask + 1, sizeof *larger.places);
        if (!larger.places) return yoke_fail(YOKE_ENOMEM, "no memory for the words of the corpus");
        for (size_t i = 0; words->places && i <= words->mask; i++)
            if (words->places[i]) larger.places[word_place(&larger, words->places[i])] = words->places[i];
        free(words->places);
        *words = larger;
    }
    size_t place = word_place(words, hash);
    words->n += words->places[place] == 0;
    words->places[place] = hash;
    return YOKE_OK;
}

static yoke_status collect_words(const struct yokei_tokens *tokens, struct words *words)
{
    enum { PIECE = 16384 };
    int32_t piece[PIECE];
    uint64_t hash = NO_LETTERS;
    int64_t n = yokei_tokens_count(tokens, YOKEI_TOKENS_ALL), letters = 0;
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t count = YOKE_MIN((int64_t)PIECE, n - at);
        YOKE_TRY(yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, at, count, piece));
        for (int64_t i = 0; i <= count; i++) {
            if (i < count && is_letter(piece[i])) {
                hash = add_letter(hash, piece[i]);
                letters++;
            } else if (i < count || at + count == n) {
                if (letters >= 3) YOKE_TRY(add_word(words, hash));
                hash = NO_LETTERS;
                letters = 0;
            }
        }
    }
    return YOKE_OK;
}

yoke_status yokei_word_share(const struct yokei_tokens *tokens, const char *sample, size_t bytes,
                             double *share_out, int64_t *n_words_out)
{
    if (!yokei_tokens_are_bytes(tokens))
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: holds tokens, not text; it has no words",
                         yokei_tokens_path(tokens));
    struct words words = { NULL, 0, 0 };
    yoke_status status = collect_words(tokens, &words);
    int64_t n = 0, n_found = 0, letters = 0;
    uint64_t hash = NO_LETTERS;
    for (size_t i = 0; i < bytes && !status; i++) { /* a word that reaches the end is not counted */
        unsigned char c = (unsigned char)sample[i];
        if (is_letter(c)) {
            hash = add_letter(hash, c);
            letters++;
            continue;
        }
        if (letters >= 3) {
            n++;
            hash |= hash == 0;
            n_found += words.places && words.places[word_place(&words, hash)] == hash;
        }
        hash = NO_LETTERS;
        letters = 0;
    }
    free(words.places);
    YOKE_TRY(status);
    *share_out = n ? (double)n_found / (double)n : 0;
    *n_words_out = n;
    return YOKE_OK;
}
