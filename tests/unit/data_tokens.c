/* SPDX-License-Identifier: Apache-2.0 */
/* Token files: their formats and parts, and an order of samples that is the same in every layout. */
#include "tests/unit/data_test.h"

#include "train/text/skips.h"
#include "train/text/tokens.h"

enum { N_TEXT = 1000 };

/* Text whose byte at i tells i apart from its neighbours: i mod 251. */
static struct yokei_tokens *open_text(size_t n, double share)
{
    unsigned char *text = malloc(n);
    for (size_t i = 0; i < n; i++) text[i] = (unsigned char)(i % 251);
    struct yokei_tokens_config config = YOKEI_TOKENS_CONFIG_INIT;
    config.validation_share = share;
    struct yokei_tokens *tokens;
    assert_ok(yokei_tokens_open(put_file("text", text, n), &config, &tokens));
    free(text);
    return tokens;
}

static const char *put_llmc(const char *name, int32_t magic, int32_t version, int32_t n,
                            const uint32_t *values, int width)
{
    unsigned char file[1024 + 4 * 64] = { 0 };
    int32_t header[3] = { magic, version, n };
    memcpy(file, header, sizeof header);
    for (int32_t i = 0; i < n; i++) memcpy(file + 1024 + i * width, &values[i], (size_t)width);
    return put_file(name, file, (size_t)(1024 + n * width));
}

static void text_is_bytes(void **state)
{
    (void)state;
    struct yokei_tokens *tokens = open_text(N_TEXT, 0.1);
    int32_t got[N_TEXT];
    assert_true(yokei_tokens_are_bytes(tokens));
    assert_int_equal(yokei_tokens_count(tokens, YOKEI_TOKENS_ALL), N_TEXT);
    assert_int_equal(yokei_tokens_count(tokens, YOKEI_TOKENS_TRAIN), 900);
    assert_int_equal(yokei_tokens_count(tokens, YOKEI_TOKENS_VALIDATION), 100);
    assert_ok(yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, 0, N_TEXT, got));
    for (int i = 0; i < N_TEXT; i++) assert_int_equal(got[i], i % 251);
    assert_ok(yokei_tokens_read(tokens, YOKEI_TOKENS_VALIDATION, 3, 2, got));
    assert_int_equal(got[0], 903 % 251);
    got[0] = -7;
    assert_fails(YOKE_EINVAL, "has 900", yokei_tokens_read(tokens, YOKEI_TOKENS_TRAIN, 899, 2, got));
    assert_int_equal(got[0], -7);
    yokei_tokens_close(tokens);
}

static void llmc_files_are_read(void **state)
{
    (void)state;
    const uint32_t values[] = { 0, 1, 50256, 65535, 12, 7, 9, 1000 };
    const uint32_t wide[] = { 0, 1, 50256, 128255, 12, 7, 9, 1000 };
    struct yokei_tokens *tokens;
    int32_t got[8];
    assert_ok(yokei_tokens_open(put_llmc("gpt2.bin", 20240520, 1, 8, values, 2), NULL, &tokens));
    assert_ok(yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, 0, 8, got));
    for (int i = 0; i < 8; i++) assert_int_equal(got[i], values[i]);
    assert_false(yokei_tokens_are_bytes(tokens));
    uint64_t hash = yokei_tokens_hash(tokens);
    yokei_tokens_close(tokens);
    /* The name does not matter, the magic does. */
    assert_ok(yokei_tokens_open(put_llmc("llama", 20240801, 7, 8, wide, 4), NULL, &tokens));
    assert_ok(yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, 0, 8, got));
    for (int i = 0; i < 8; i++) assert_int_equal(got[i], wide[i]);
    assert_true(hash != yokei_tokens_hash(tokens));
    yokei_tokens_close(tokens);
}

static void a_large_token_is_refused_with_its_offset(void **state)
{
    (void)state;
    const uint32_t values[] = { 0, 1, 50256, 50257, 12 };
    struct yokei_tokens_config config = YOKEI_TOKENS_CONFIG_INIT;
    struct yokei_tokens *tokens = NULL;
    config.vocab = 50257;
    const char *path = put_llmc("large.bin", 20240520, 1, 5, values, 2);
    assert_fails(YOKE_EDATA, "token 3 at byte offset 1030 is 50257",
                 yokei_tokens_open(path, &config, &tokens));
    assert_null(tokens);
    config.no_scan = true; /* then it is met when it is read */
    assert_ok(yokei_tokens_open(path, &config, &tokens));
    int32_t got[5] = { -1, -1, -1, -1, -1 };
    assert_ok(yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, 0, 3, got));
    got[0] = -1;
    assert_fails(YOKE_EDATA, "byte offset 1030", yokei_tokens_read(tokens, YOKEI_TOKENS_ALL, 0, 5, got));
    assert_int_equal(got[0], -1);
    yokei_tokens_close(tokens);
}

/* An epoch visits each window once; the training part's samples never touch the validation part. */
static void an_epoch_visits_every_window_once(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        int64_t T;
    } cases[] = { { 1000, 16 }, { 1000, 900 }, { 1000, 450 }, { 1000, 449 }, { 70, 1 }, { 24, 7 } };
    for (size_t c = 0; c < YOKE_COUNT(cases); c++) {
        struct yokei_tokens *tokens = open_text(cases[c].n, -1);
        int64_t T = cases[c].T, n = yokei_tokens_n_samples(tokens, T);
        assert_int_equal(n, YOKE_MAX(1, ((int64_t)cases[c].n - 1) / T - 1));
        int32_t *inputs = malloc((size_t)T * sizeof *inputs), *targets = malloc((size_t)T * sizeof *targets);
        int64_t *starts = calloc((size_t)n, sizeof *starts);
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            int64_t seen = 0, first = INT64_MAX;
            for (int64_t i = 0; i < n; i++) {
                assert_ok(yokei_tokens_sample(tokens, 42, epoch * n + i, T, inputs, targets));
                for (int64_t t = 0; t + 1 < T; t++) {
                    assert_int_equal(targets[t], inputs[t + 1]);
                    assert_int_equal((inputs[t] + 1) % 251, inputs[t + 1]);
                }
                starts[i] = inputs[0];
                if (cases[c].n < 251) first = YOKE_MIN(first, starts[i]);
            }
            /* In files of less than 251 bytes a start is the position in the file. All starts have the same
             * remainder modulo T. */
            for (int64_t i = 0; i < n && cases[c].n < 251; i++) seen += (starts[i] - first) % T == 0;
            for (int64_t i = 0; i < n && cases[c].n < 251; i++)
                for (int64_t j = 0; j < i; j++) assert_int_not_equal(starts[i], starts[j]);
            if (cases[c].n < 251) assert_int_equal(seen, n);
        }
        free(inputs), free(targets), free(starts);
        yokei_tokens_close(tokens);
    }
}

static void the_order_is_a_permutation_and_shuffled(void **state)
{
    (void)state;
    /* The windows have one token, and tokens have two bytes. The token at a start is the start itself. */
    enum { N = 5000 };
    unsigned char *file = calloc(1, 1024 + 2 * N);
    const int32_t header[3] = { 20240520, 1, N };
    memcpy(file, header, sizeof header);
    for (uint16_t i = 0; i < N; i++) memcpy(file + 1024 + 2 * i, &i, 2);
    struct yokei_tokens_config config = YOKEI_TOKENS_CONFIG_INIT;
    config.validation_share = -1;
    struct yokei_tokens *tokens;
    assert_ok(yokei_tokens_open(put_file("order.bin", file, 1024 + 2 * N), &config, &tokens));
    free(file);
    int64_t n = yokei_tokens_n_samples(tokens, 1), in_place = 0, differs = 0;
    int32_t input, target, other;
    unsigned char *seen = calloc(1, N);
    for (int64_t i = 0; i < n; i++) {
        assert_ok(yokei_tokens_sample(tokens, 7, i, 1, &input, &target));
        assert_int_equal(target, input + 1);
        assert_int_equal(seen[input]++, 0);
        in_place += input == i;
        assert_ok(yokei_tokens_sample(tokens, 7, n + i, 1, &other, &target));
        differs += other != input;
    }
    assert_true(in_place < 20);        /* one is expected of a random permutation */
    assert_true(differs > n - 20);     /* the next epoch is another */
    for (int64_t i = 0; i < 20; i++) { /* keyed, not remembered */
        assert_ok(yokei_tokens_sample(tokens, 7, n - 1 - i, 1, &input, &target));
        assert_ok(yokei_tokens_sample(tokens, 7, n - 1 - i, 1, &other, &target));
        assert_int_equal(input, other);
    }
    free(seen);
    yokei_tokens_close(tokens);
}

static void validation_windows_cover_the_tail(void **state)
{
    (void)state;
    struct yokei_tokens *tokens = open_text(N_TEXT, 0.2);
    int32_t inputs[32], targets[32];
    assert_int_equal(yokei_tokens_n_windows(tokens, 32), 6); /* 199 / 32 */
    for (int64_t w = 0; w < 6; w++) {
        assert_ok(yokei_tokens_window(tokens, w, 32, inputs, targets));
        for (int t = 0; t < 32; t++) {
            assert_int_equal(inputs[t], (800 + w * 32 + t) % 251);
            assert_int_equal(targets[t], (801 + w * 32 + t) % 251);
        }
    }
    assert_fails(YOKE_EINVAL, "there are 6", yokei_tokens_window(tokens, 6, 32, inputs, targets));
    assert_fails(YOKE_EDATA, "validation part has 200 tokens; sequences of 200 need 201",
                 yokei_tokens_check_length(tokens, 200));
    assert_fails(YOKE_EDATA, "lower the sequence", yokei_tokens_check_length(tokens, 800));
    assert_ok(yokei_tokens_check_length(tokens, 199));
    assert_fails(YOKE_EINVAL, NULL, yokei_tokens_check_length(tokens, 0));
    yokei_tokens_close(tokens);
}

/* Tokens that were never in a file behave like tokens from a file. Files that are written are read back
 * unchanged. */
static void tokens_in_memory_and_written(void **state)
{
    (void)state;
    static const struct {
        int64_t vocab;
        size_t bytes;
    } widths[] = { { 300, 2 }, { 65536, 2 }, { 65537, 4 }, { 200000, 4 } };
    enum { N = 100 };
    for (size_t w = 0; w < YOKE_COUNT(widths); w++) {
        const struct yokei_tokens_config c = { .size = sizeof c,
                                               .vocab = widths[w].vocab,
                                               .validation_share = 0.2 };
        int32_t *ids = malloc(N * sizeof *ids), from_memory[N], from_file[N];
        struct yokei_tokens *memory = NULL, *file = NULL;
        for (int i = 0; i < N; i++) ids[i] = (int32_t)((widths[w].vocab - 1) * i / (N - 1));
        const char *path = in_folder("written.bin");
        assert_ok(yokei_tokens_write(path, ids, N, widths[w].vocab));
        assert_ok(yokei_tokens_of("memory", ids, N, &c, &memory));
        assert_ok(yokei_tokens_open(path, &c, &file));
        assert_int_equal(yokei_tokens_count(file, YOKEI_TOKENS_ALL), N);
        assert_int_equal(yokei_tokens_count(memory, YOKEI_TOKENS_VALIDATION),
                         yokei_tokens_count(file, YOKEI_TOKENS_VALIDATION));
        assert_ok(yokei_tokens_read(memory, YOKEI_TOKENS_ALL, 0, N, from_memory));
        assert_ok(yokei_tokens_read(file, YOKEI_TOKENS_ALL, 0, N, from_file));
        for (int i = 0; i < N; i++) assert_int_equal(from_memory[i], (widths[w].vocab - 1) * i / (N - 1));
        assert_memory_equal(from_memory, from_file, sizeof from_file);
        assert_false(yokei_tokens_are_bytes(memory));
        yokei_tokens_close(memory);
        yokei_tokens_close(file);
        FILE *written = fopen(path, "rb");
        fseek(written, 0, SEEK_END);
        assert_int_equal(ftell(written), 1024 + N * (long)widths[w].bytes);
        fclose(written);
    }
    const int32_t outside[] = { 5, 300 }, negative[] = { -1 };
    const struct yokei_tokens_config c = { .size = sizeof c, .vocab = 300 };
    struct yokei_tokens *none = NULL;
    int32_t *ids = malloc(sizeof outside);
    memcpy(ids, outside, sizeof outside);
    assert_fails(YOKE_EDATA, "token 1 is 300", yokei_tokens_write(in_folder("bad.bin"), outside, 2, 300));
    assert_fails(YOKE_EDATA, "token 0 is -1", yokei_tokens_write(in_folder("bad.bin"), negative, 1, 300));
    assert_fails(YOKE_EDATA, "is 300, but the vocabulary has 300",
                 yokei_tokens_of("memory", ids, 2, &c, &none));
    assert_fails(YOKE_EDATA, "the text is empty", yokei_tokens_of("memory", NULL, 0, &c, &none));
    assert_null(none);
}

/* Against a list that has a mark for each sample. */
static void samples_are_skipped(void **state)
{
    static const char *const lists[][2] = {
        { "", "" },
        { "0", "0" },
        { "3-9", "3-9" },
        { "20-31,7,3-6", "3-7,20-31" },
        { "5-9,1-6", "1-9" },
        { "1,2,3,5", "1-3,5" },
        { "0-0,2-2,4-60,8-9", "0,2,4-60" },
    };
    enum { N = 100 };
    (void)state;
    for (size_t l = 0; l < YOKE_COUNT(lists); l++) {
        struct yokei_skips s;
        char text[YOKEI_SKIPS_BYTES];
        int64_t kept[N], n = 0, skipped = 0;
        assert_ok(yokei_skips_parse("a list", lists[l][0], &s));
        yokei_skips_text(&s, text);
        assert_string_equal(text, lists[l][1]);
        for (int64_t i = 0; i < N; i++) {
            bool is_skipped = false;
            assert_int_equal(yokei_skips_below(&s, i), skipped);
            for (int k = 0; k < s.n; k++) is_skipped = is_skipped || (i >= s.first[k] && i <= s.last[k]);
            if (!is_skipped) kept[n++] = i;
            skipped += is_skipped;
        }
        for (int64_t first = 0, at = 0; at < n; first++) {
            while (at < n && kept[at] < first) at++;
            for (int64_t i = 0; at + i < n; i++)
                assert_int_equal(yokei_skips_nth(&s, first, i), kept[at + i]);
        }
    }
    static const char *const wrong[] = { "x",  "-3",   "3-", "9-3",   "1,",
                                         ",1", "1,,2", "1 ", "1-2-3", "1000000000000000" };
    struct yokei_skips s;
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++)
        assert_fails(YOKE_ECONFIG, "a list", yokei_skips_parse("a list", wrong[i], &s));
    char many[2000] = "1", text[YOKEI_SKIPS_BYTES];
    for (int i = 1; i < YOKEI_SKIPS_MOST; i++) snprintf(many + strlen(many), 20, ",%d", 1 + 3 * i);
    assert_ok(yokei_skips_parse("many", many, &s));
    assert_int_equal(s.n, YOKEI_SKIPS_MOST);
    assert_ok(yokei_skips_add("many", &s, 2, 3)); /* it joins two ranges */
    assert_int_equal(s.n, YOKEI_SKIPS_MOST - 1);
    assert_ok(yokei_skips_add("many", &s, 900, 900));
    assert_fails(YOKE_ECONFIG, "more than 64 ranges", yokei_skips_add("many", &s, 950, 950));
    /* the longest text fits */
    memset(&s, 0, sizeof s);
    for (int64_t i = 0; i < YOKEI_SKIPS_MOST; i++)
        assert_ok(yokei_skips_add("long", &s, YOKEI_SKIPS_LAST - 3 * i - 1, YOKEI_SKIPS_LAST - 3 * i));
    yokei_skips_text(&s, text);
    assert_int_equal(strlen(text), 64 * 32 - 1);
    struct yokei_skips again;
    assert_ok(yokei_skips_parse("long", text, &again));
    assert_memory_equal(&again, &s, sizeof s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_skipped),
        cmocka_unit_test(tokens_in_memory_and_written),
        cmocka_unit_test(text_is_bytes),
        cmocka_unit_test(llmc_files_are_read),
        cmocka_unit_test(a_large_token_is_refused_with_its_offset),
        cmocka_unit_test(an_epoch_visits_every_window_once),
        cmocka_unit_test(the_order_is_a_permutation_and_shuffled),
        cmocka_unit_test(validation_windows_cover_the_tail),
    };
    return cmocka_run_group_tests_name("data_tokens", tests, make_test_folder, remove_test_folder);
}
