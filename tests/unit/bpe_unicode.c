/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters of Unicode 15, 15.1 and 16, which the system's PCRE2 may not know, are cut as the tokenizers
 * library cuts them (tests/golden/make_unicode.py). Unassigned and private characters are cut, too.
 */
#include "tests/unit/test.h"

#include <jansson.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"

static json_t *expected;

static int read_expected(void **state)
{
    const char *top = getenv("top_srcdir");
    char path[4096];
    json_error_t error;
    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/unicode_expected.json", top ? top : ".");
    expected = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!expected) fprintf(stderr, "%s: %s\n", path, error.text);
    return expected ? 0 : -1;
}

static int free_expected(void **state)
{
    (void)state;
    json_decref(expected);
    return 0;
}

static const char *text_of(const char *version, size_t *n_out)
{
    const json_t *text = json_object_get(json_object_get(expected, "texts"), version);
    *n_out = json_string_length(text);
    return json_string_value(text);
}

/* A piece of the text must be as long as the library's. */
static void piece(const char *pattern, const char *version, const json_t *want, size_t *index, size_t begin,
                  size_t end)
{
    if (begin == end) return;
    const size_t length = (size_t)json_integer_value(json_array_get(want, (*index)++));
    if (length != end - begin)
        fail_msg("Unicode %s, %s: the piece at byte %zu is %zu bytes long, but %zu in the library", version,
                 pattern, begin, end - begin, length);
}

static void cut(const char *pattern, const char *version, const json_t *want)
{
    struct yokei_bpe none = { .path = (char *)"test" };
    struct yokei_bpe_pattern compiled;
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    size_t n, done = 0, begin, end, index = 0;
    const char *text = text_of(version, &n);
    bool found = true;
    assert_ok(yokei_bpe_compile("test", pattern, false, &compiled));
    while (done < n) {
        assert_ok(yokei_bpe_match(&none, yokei_bpe_code(&compiled, text, n), data, text, n, done, &found,
                                  &begin, &end));
        if (!found) break;
        piece(pattern, version, want, &index, done, begin);
        piece(pattern, version, want, &index, begin, end);
        done = end;
    }
    piece(pattern, version, want, &index, done, n);
    assert_int_equal(index, json_array_size(want));
    yokei_bpe_pattern_free(&compiled);
    pcre2_match_data_free(data);
}

static void patterns_cut_as_in_the_library(void **state)
{
    size_t i, n = 0;
    json_t *one, *want;
    const char *version;
    (void)state;
    json_array_foreach(json_object_get(expected, "patterns"), i, one)
        json_object_foreach(json_object_get(one, "pieces"), version, want)
    {
        cut(json_string_value(json_object_get(one, "pattern")), version, want);
        n++;
    }
    json_object_foreach(json_object_get(expected, "digits"), version, want)
        cut(yokei_bpe_digits_pattern, version, want);
    assert_true(n >= 40 * 5);
}

static void tokens_are_those_of_the_library(void **state)
{
    struct yokei_bpe *bpe;
    char *file = json_dumps(json_object_get(expected, "tokenizer"), 0);
    const char *version;
    json_t *want;
    (void)state;
    assert_ok(yokei_bpe_parse("test.json", file, strlen(file), &bpe));
    json_object_foreach(json_object_get(expected, "ids"), version, want)
    {
        struct yokei_ids ids = { 0 };
        size_t n;
        const char *text = text_of(version, &n);
        assert_ok(yokei_bpe_encode(bpe, text, n, 0, &ids));
        if (ids.n != json_array_size(want))
            fail_msg("Unicode %s: %zu tokens, but %zu in the library", version, ids.n, json_array_size(want));
        for (size_t i = 0; i < ids.n; i++)
            assert_int_equal(ids.id[i], json_integer_value(json_array_get(want, i)));
        free(ids.id);
    }
    yokei_bpe_close(bpe);
    free(file);
}

/* Only characters that PCRE2 itself classifies otherwise are added, so a newer PCRE2 gets fewer of them. */
static void only_what_pcre2_lacks_is_added(void **state)
{
    const struct yokei_bpe_lacking *lacking;
    size_t n, offset;
    char version[24] = "", pattern[16], text[4];
    int error;
    (void)state;
    assert_ok(yokei_bpe_ask_pcre2(&lacking, &n));
    assert_true(pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, NULL) <= (int)sizeof version);
    assert_true(pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version) > 0);
    printf("# PCRE2 has Unicode %s and lacks %zu ranges of characters\n", version, n);
    assert_int_equal(n > 0, atoi(version) < 16);
    for (size_t i = 0; i < n; i++) {
        pcre2_match_data *data = pcre2_match_data_create(1, NULL);
        snprintf(pattern, sizeof pattern, "\\p{%s}", lacking[i].now);
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), PCRE2_UTF, &error, &offset,
                                         NULL);
        assert_non_null(code);
        for (uint32_t c = lacking[i].first; c <= lacking[i].last; c++) {
            const size_t length = (size_t)yokei_utf8_write(c, text);
            assert_int_equal(pcre2_match(code, (PCRE2_SPTR)text, length, 0, 0, data, NULL),
                             PCRE2_ERROR_NOMATCH);
            assert_true(yokei_bpe_has_lacking(text, length));
        }
        assert_true(!i || lacking[i].first > lacking[i - 1].last);
        pcre2_code_free(code);
        pcre2_match_data_free(data);
    }
    assert_false(yokei_bpe_has_lacking("abc \xe4\xbd\xa0\xf0\x9f\x98\x80\xe0\xa4\xa8", 14));
}

/*
 * Without regard to case, Oniguruma adds to a class what PCRE2 does not add. And \pL is no property for it.
 */
static void what_engines_see_differently_is_refused(void **state)
{
    static const char *const patterns[] = { "(?i:[\\p{Lu}])", "(?i)[^\\p{Ll}a]", "(?i:a|(?:[\\p{M}]))",
                                            "(?i:[\\P{L}])" };
    struct yokei_bpe_pattern compiled;
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(patterns); i++)
        assert_fails(YOKE_ECONFIG, "in a class that ignores case",
                     yokei_bpe_compile("test", patterns[i], false, &compiled));
    assert_ok(
        yokei_bpe_compile("test", "(?i:(?-i:[\\p{Lu}]))[\\p{Lu}](?i:\\p{Lu}[\\p{N}\\S])", false, &compiled));
    yokei_bpe_pattern_free(&compiled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_cut_as_in_the_library),
        cmocka_unit_test(tokens_are_those_of_the_library),
        cmocka_unit_test(only_what_pcre2_lacks_is_added),
        cmocka_unit_test(what_engines_see_differently_is_refused),
    };
    return cmocka_run_group_tests_name("bpe_unicode", tests, read_expected, free_expected);
}
