/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baseline for text models (a model that counts bytes), the choice of the next token, and the words of a
 * sample.
 */
#include "tests/unit/data_test.h"

#include <math.h>

#include "train/text/baseline.h"
#include "train/text/text.h"

static const uint64_t SEED = 11;

static struct yokei_tokens *open_bytes(const void *data, size_t bytes, double share)
{
    struct yokei_tokens_config config = YOKEI_TOKENS_CONFIG_INIT;
    struct yokei_tokens *tokens;
    config.validation_share = share;
    assert_ok(yokei_tokens_open(put_file("text", data, bytes), &config, &tokens));
    return tokens;
}

/* The model's formula again, counted in the plainest way, at the k and m that were fitted. */
static double plain_probability(const unsigned char *text, size_t n, const unsigned char *at,
                                const double k[4], const double m[4])
{
    double lower = 1.0 / 256, sum = 0;
    for (size_t j = 0; j < 4; j++) {
        double hits = 0, seen = 0;
        for (size_t i = j; i < n; i++) {
            if (memcmp(text + i - j, at - j, j) != 0) continue;
            seen++;
            hits += text[i] == *at;
        }
        lower = (hits + k[j] * lower) / (seen + k[j]);
        sum += m[j] * lower;
    }
    return sum;
}

static void the_loss_is_the_formulas(void **state)
{
    (void)state;
    enum { N = 2000 };
    unsigned char text[N];
    struct yokei_philox_key key = yokei_philox_named(SEED, "text");
    for (size_t i = 0; i < N; i++) /* three letters that depend on the two before */
        text[i] = (unsigned char)('a'
                                  + ((i > 1 ? text[i - 1] + text[i - 2] : 0) + (yokei_uniform(key, i) < 0.3))
                                        % 3);
    struct yokei_tokens *tokens = open_bytes(text, N, 0.1);
    struct yokei_baseline *baseline;
    double k[4], m[4], nats, sum = 0;
    assert_ok(yokei_baseline_fit(tokens, &baseline));
    yokei_baseline_weights(baseline, k, m);
    assert_true(fabs(m[0] + m[1] + m[2] + m[3] - 1) < 1e-12);
    for (size_t i = 1800; i < N; i++) {
        double p = plain_probability(text, 1800, text + i, k, m);
        assert_true(fabs(p - yokei_baseline_probability(baseline, text + i - 3, text[i])) < 1e-12);
        sum -= log(p);
    }
    assert_ok(yokei_baseline_loss(baseline, tokens, 0, 0, &nats));
    if (fabs(nats - sum / 200) > 1e-9) fail_msg("loss %.12g, by the formula %.12g", nats, sum / 200);
    assert_true(nats < log(3)); /* it has learned more than which letters there are */
    double part, rest;
    assert_ok(yokei_baseline_loss(baseline, tokens, 0, 50, &part));
    assert_ok(yokei_baseline_loss(baseline, tokens, 50, 150, &rest));
    assert_true(fabs((50 * part + 150 * rest) / 200 - nats) < 1e-12);
    yokei_baseline_free(baseline);
    yokei_tokens_close(tokens);
}

static void probabilities_add_up_to_one(void **state)
{
    (void)state;
    const char text[] =
        "In the beginning was the word, and the word was with the reader, and the word was read again and again.";
    struct yokei_tokens *tokens = open_bytes(text, sizeof text - 1, -1);
    struct yokei_baseline *baseline;
    static const uint8_t contexts[][3] = {
        { 't', 'h', 'e' }, { 0, 255, 7 }, { 'x', 'h', 'e' }, { 'i', 'n', '.' }
    };
    double nats;
    assert_ok(yokei_baseline_fit(tokens, &baseline));
    for (size_t c = 0; c < YOKE_COUNT(contexts); c++) {
        double sum = 0;
        for (int w = 0; w < 256; w++) {
            double p = yokei_baseline_probability(baseline, contexts[c], (uint8_t)w);
            assert_true(p > 0);
            sum += p;
        }
        if (fabs(sum - 1) > 1e-12) fail_msg("context %zu: the probabilities add up to %.15g", c, sum);
    }
    assert_fails(YOKE_EDATA, "no validation part", yokei_baseline_loss(baseline, tokens, 0, 0, &nats));
    yokei_baseline_free(baseline);
    yokei_tokens_close(tokens);
    tokens = open_bytes("short", 5, -1);
    assert_fails(YOKE_EDATA, "needs 64", yokei_baseline_fit(tokens, &baseline));
    yokei_tokens_close(tokens);
}

/* On text of a known source no model beats its entropy, and a good one comes near it. */
static void the_yardstick_comes_near_the_entropy(void **state)
{
    (void)state;
    enum { N = 200000 };
    unsigned char *text = malloc(N);
    struct yokei_philox_key key = yokei_philox_named(SEED, "source");
    /* After each byte one of two, at 3 : 1, that the three bytes before name. */
    for (size_t i = 0; i < N; i++) {
        unsigned h = i < 3 ? 0 : text[i - 1] * 7u + text[i - 2] * 5u + text[i - 3] * 3u;
        text[i] = (unsigned char)('a' + (h + (yokei_uniform(key, i) < 0.25 ? 1 : 0)) % 20);
    }
    struct yokei_tokens *tokens = open_bytes(text, N, 0.05);
    struct yokei_baseline *baseline;
    double nats, entropy = -0.75 * log(0.75) - 0.25 * log(0.25);
    assert_ok(yokei_baseline_fit(tokens, &baseline));
    assert_ok(yokei_baseline_loss(baseline, tokens, 0, 0, &nats));
    printf("# seed %d: loss %.4f, entropy %.4f\n", (int)SEED, nats, entropy);
    assert_true(nats > entropy - 0.02 && nats < entropy + 0.08);
    yokei_baseline_free(baseline);
    yokei_tokens_close(tokens);
    free(text);
}

static void the_validation_part_is_not_looked_at(void **state)
{
    (void)state;
    enum { N = 4000 };
    unsigned char text[N];
    double k[2][4], m[2][4];
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < N; i++) text[i] = (unsigned char)('a' + (i * i / 7) % 5);
        if (turn) memset(text + N - N / 20, 'z', N / 20);
        struct yokei_tokens *tokens = open_bytes(text, N, 0.05);
        struct yokei_baseline *baseline;
        assert_ok(yokei_baseline_fit(tokens, &baseline));
        yokei_baseline_weights(baseline, k[turn], m[turn]);
        yokei_baseline_free(baseline);
        yokei_tokens_close(tokens);
    }
    assert_memory_equal(k[0], k[1], sizeof k[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
}

static void the_next_token_follows_its_probabilities(void **state)
{
    (void)state;
    enum { V = 5, N = 20000 };
    const float logits[V] = { 1, -INFINITY, 2, 0, 2 };
    int32_t token;
    assert_ok(yokei_sample_token(logits, V, 0, 0, SEED, 0, &token));
    assert_int_equal(token, 2); /* the lowest index among equals */
    static const struct {
        double temperature;
        int64_t top_k;
    } cases[] = { { 1, 0 }, { 0.5, 0 }, { 2, 3 }, { 1, 2 }, { 1, 9 } };
    for (size_t c = 0; c < YOKE_COUNT(cases); c++) {
        double p[V], total = 0;
        int64_t count[V] = { 0 };
        const bool kept[V] = { cases[c].top_k != 2, false, true, cases[c].top_k == 0 || cases[c].top_k > 3,
                               true };
        for (int v = 0; v < V; v++)
            total += p[v] = kept[v] ? exp((double)logits[v] / cases[c].temperature) : 0;
        for (uint64_t i = 0; i < N; i++) {
            int32_t again;
            assert_ok(yokei_sample_token(logits, V, cases[c].temperature, cases[c].top_k, SEED, i, &token));
            assert_ok(yokei_sample_token(logits, V, cases[c].temperature, cases[c].top_k, SEED, i, &again));
            assert_int_equal(token, again);
            count[token]++;
        }
        for (int v = 0; v < V; v++) { /* five standard deviations */
            double expected = N * p[v] / total, spread = 5 * sqrt(expected * (1 - p[v] / total));
            if (fabs((double)count[v] - expected) > spread)
                fail_msg("case %zu, token %d: %lld times, %.0f +- %.0f expected (seed %d)", c, v,
                         (long long)count[v], expected, spread, (int)SEED);
        }
    }
    const float bad[2] = { 0, NAN }, none[2] = { -INFINITY, -INFINITY };
    token = -5;
    assert_fails(YOKE_ENUMERIC, "token 1 is nan", yokei_sample_token(bad, 2, 1, 0, SEED, 0, &token));
    assert_fails(YOKE_ENUMERIC, "-inf", yokei_sample_token(none, 2, 1, 0, SEED, 0, &token));
    assert_fails(YOKE_EINVAL, NULL, yokei_sample_token(logits, V, -1, 0, SEED, 0, &token));
    assert_fails(YOKE_EINVAL, NULL, yokei_sample_token(logits, V, NAN, 0, SEED, 0, &token));
    assert_int_equal(token, -5);
}

static void words_of_a_sample_are_counted(void **state)
{
    (void)state;
    const char corpus[] = "And God said, Let there be light: and there was LIGHT. caf\xc3\xa9 last";
    struct yokei_tokens *tokens = open_bytes(corpus, sizeof corpus - 1, -1);
    static const struct {
        const char *sample;
        double share;
        int64_t n;
    } cases[] = {
        { "light and there. ", 1, 3 },
        { "Light, light LIGHT ", 1, 3 },
        { "lights and god of xx ", 2.0 / 3, 3 },
        { "was caf\xc3\xa9 caf\xc3 ", 2.0 / 3, 3 },
        { "be be be ", 0, 0 },
        { "", 0, 0 },
        { "there lig", 1, 1 }, /* the last word may be cut */
        { "there zzz", 1, 1 },
        { "last ", 1, 1 },
        { "zzzz zzzz ", 0, 2 },
    };
    for (size_t c = 0; c < YOKE_COUNT(cases); c++) {
        double share = -1;
        int64_t n = -1;
        assert_ok(yokei_word_share(tokens, cases[c].sample, strlen(cases[c].sample), &share, &n));
        if (n != cases[c].n || fabs(share - cases[c].share) > 1e-12)
            fail_msg("\"%s\": %lld words, share %g", cases[c].sample, (long long)n, share);
    }
    yokei_tokens_close(tokens);
}

/* More words than the first table holds, and one that lies across two pieces of the corpus. */
static void a_large_corpus_is_searched(void **state)
{
    (void)state;
    enum { N = 20000 };
    char *text = malloc(N * 8 + 1);
    for (int i = 0; i < N; i++) {
        char *word = text + 8 * i;
        for (int j = 0, rest = i; j < 7; j++, rest /= 26) word[j] = (char)('a' + rest % 26);
        word[7] = ' ';
    }
    struct yokei_tokens *tokens = open_bytes(text, N * 8, -1);
    double share;
    int64_t n;
    assert_ok(yokei_word_share(tokens, text, N * 8, &share, &n));
    assert_int_equal(n, N);
    assert_true(share == 1);
    assert_ok(yokei_word_share(tokens, text + 1, 8 * 100, &share,
                               &n)); /* the first word has lost its first letter */
    assert_int_equal(n, 100);
    assert_true(share == 0.99);
    yokei_tokens_close(tokens);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_formulas),
        cmocka_unit_test(probabilities_add_up_to_one),
        cmocka_unit_test(the_yardstick_comes_near_the_entropy),
        cmocka_unit_test(the_validation_part_is_not_looked_at),
        cmocka_unit_test(the_next_token_follows_its_probabilities),
        cmocka_unit_test(words_of_a_sample_are_counted),
        cmocka_unit_test(a_large_corpus_is_searched),
    };
    return cmocka_run_group_tests_name("data_text", tests, make_test_folder, remove_test_folder);
}
