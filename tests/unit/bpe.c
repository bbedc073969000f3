/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the tokenizer with Hugging Face's own (tests/golden/make_tokenizer.py): on any bytes, on long
 * words, and on files that are broken or of another kind.
 */
#include "tests/unit/test.h"

#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/base.h"
#include "train/text/bpe_inside.h"
#include "train/files/json.h"

static json_t *expected, *gpt2, *llama3;

static json_t *golden(const char *name)
{
    const char *top = getenv("top_srcdir");
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/golden/tokenizer_%s.json", top ? top : ".", name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root) fprintf(stderr, "%s: %s\n", path, error.text);
    return root;
}

static yoke_status open_json(const json_t *root, struct yokei_bpe **bpe_out)
{
    char *text = json_dumps(root, 0);
    const yoke_status status = yokei_bpe_parse("test.json", text, strlen(text), bpe_out);
    free(text);
    return status;
}

static struct yokei_bpe *open_good(const json_t *root)
{
    struct yokei_bpe *bpe = NULL;
    assert_ok(open_json(root, &bpe));
    return bpe;
}

static struct yokei_ids encode(struct yokei_bpe *bpe, const void *text, size_t bytes, unsigned flags)
{
    struct yokei_ids ids = { 0 };
    assert_ok(yokei_bpe_encode(bpe, text, bytes, flags, &ids));
    return ids;
}

static void hold_to(struct yokei_bpe *bpe, const char *name, size_t index, const json_t *text,
                    const json_t *want, unsigned flags)
{
    struct yokei_ids ids = encode(bpe, json_string_value(text), json_string_length(text), flags);
    for (size_t i = 0; i < ids.n && i < json_array_size(want); i++)
        if (ids.id[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s, text %zu: token %zu is %d, %d is expected", name, index, i, (int)ids.id[i],
                     (int)json_integer_value(json_array_get(want, i)));
    if (ids.n != json_array_size(want))
        fail_msg("%s, text %zu: %zu tokens, %zu are expected", name, index, ids.n, json_array_size(want));
    free(ids.id);
}

static void same_tokens_as_huggingface(void **state)
{
    size_t i, k, n = 0;
    json_t *one, *want;
    (void)state;
    json_array_foreach(json_object_get(expected, "cases"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        json_t *file = json_deep_copy(strcmp(name, "llama3") ? gpt2 : llama3),
               *pre = json_object_get(one, "pre_tokenizer");
        if (!json_is_null(pre)) json_object_set(file, "pre_tokenizer", pre);
        struct yokei_bpe *bpe = open_good(file);
        const json_t *texts = json_object_get(expected, json_is_null(pre) ? "texts" : "small_texts");
        json_array_foreach(json_object_get(one, "ids"), k, want)
            hold_to(bpe, name, k, json_array_get(texts, k), want, 0),
            n++;
        json_array_foreach(json_object_get(one, "template"), k, want)
            hold_to(bpe, name, k, json_array_get(texts, k), want, YOKEI_BPE_TEMPLATE),
            n++;
        yokei_bpe_close(bpe);
        json_decref(file);
    }
    assert_true(n > 200);
}

/*
 * The classes must match the same characters, for all of Unicode. A PCRE2 that is newer than the oracle may
 * match more.
 */
static void classes_are_those_of_the_oracle(void **state)
{
    (void)state;
    struct yokei_bpe none = { .path = (char *)"test" };
    struct yokei_bpe_pattern pattern;
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    const char *name;
    json_t *runs;
    char version[24] = "";
    assert_true(pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, NULL) <= (int)sizeof version);
    assert_true(pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version) > 0);
    const bool is_newer = atoi(version) > 16;
    json_object_foreach(json_object_get(expected, "classes"), name, runs)
    {
        if (strcmp(name, "nfc changes") == 0) continue;
        int64_t next = 0, n_matches = 0;
        size_t run = 0;
        bool wanted = true;
        assert_ok(strcmp(name, "word") ? yokei_bpe_compile("test", name, false, &pattern)
                                       : yokei_bpe_compile_word(&pattern));
        for (uint32_t c = 0; c < 0x110000; c++) {
            while (c
                   == next) { /* the next run begins; its length is not 0, but for the first one's, perhaps */
                wanted = !wanted;
                next = run < json_array_size(runs) ? next + json_integer_value(json_array_get(runs, run++))
                                                   : INT64_MAX;
            }
            if (c >= 0xd800 && c < 0xe000) continue;
            char text[4];
            const size_t n = (size_t)yokei_utf8_write(c, text);
            size_t begin, end;
            bool found;
            assert_int_equal(yokei_utf8((const unsigned char *)text, n, NULL), n);
            assert_ok(yokei_bpe_match(&none, yokei_bpe_code(&pattern, text, n), data, text, n, 0, &found,
                                      &begin, &end));
            n_matches += found;
            if (found != wanted && !(found && is_newer))
                fail_msg("%s: U+%04X %s", name, (unsigned)c,
                         found ? "matches, but not in the oracle" : "does not match, but does in the oracle");
        }
        assert_true(n_matches >= 25);
        yokei_bpe_pattern_free(&pattern);
    }
    pcre2_match_data_free(data);
}

/* No character that the tokenizer treats as safe from NFC may combine or be replaced. */
static void what_is_surely_nfc(void **state)
{
    (void)state;
    const json_t *runs = json_object_get(json_object_get(expected, "classes"), "nfc changes");
    int64_t at = 0, n_changed = 0;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const int64_t n = json_integer_value(json_array_get(runs, i));
        for (int64_t c = at; i % 2 && c < at + n; c++, n_changed++)
            if (yokei_is_surely_nfc((uint32_t)c)) fail_msg("U+%04X is not safe from NFC", (unsigned)c);
        at += n;
    }
    assert_true(n_changed > 1500);
    assert_true(yokei_is_surely_nfc(0x4e00) && yokei_is_surely_nfc(0xe9) && yokei_is_surely_nfc(0x1f600));
    /* Unassigned and private characters, and newer letters, are not changed, so they are accepted. */
    static const uint32_t accepted[] = { 0x378,    0xe000,   0xf8ff,  0xe0080, 0xf0000,
                                         0x10fffd, 0x10ffff, 0x31350, 0x323b0, 0x2ebf0,
                                         0xa7dc,   0x11de0,  0x1e4d0, 0x915,   0xfffe };
    for (size_t i = 0; i < YOKE_COUNT(accepted); i++)
        if (!yokei_is_surely_nfc(accepted[i])) fail_msg("U+%04X is not accepted", (unsigned)accepted[i]);
    /* A newer library may move marks of Unicode 15 and 16. The last two are moved and joined today. */
    static const uint32_t touched[] = { 0xece, 0x10efd, 0x897, 0x113b8, 0x1e4ec, 0x8d4, 0x1161 };
    for (size_t i = 0; i < YOKE_COUNT(touched); i++) assert_false(yokei_is_surely_nfc(touched[i]));
}

/* Draw bytes. Some runs of them are UTF-8 and some are not; special tokens and spaces are between them. */
static size_t draw_bytes(struct yokei_philox_key key, uint64_t trial, unsigned char *out, size_t room)
{
    static const char *const words[] = {
        " the", "\xf0\x9f\x98\x80", "<|endoftext|>", "\xc3\xa9", "  ",          "\n", "1234",
        "WORD", "\xe4\xbd",         "LEFT ",         "'s",       "\xed\xa0\x80"
    };
    size_t n = 0;
    for (uint64_t i = 0; n + 16 < room; i++) {
        const double u = yokei_uniform(key, trial * 4096 + 2 * i),
                     v = yokei_uniform(key, trial * 4096 + 2 * i + 1);
        if (u < 0.02) break;
        if (u < 0.4)
            out[n++] = (unsigned char)(v * 256);
        else {
            const char *word = words[(size_t)(v * YOKE_COUNT(words))];
            memcpy(out + n, word, strlen(word));
            n += strlen(word);
        }
    }
    return n;
}

static uint64_t test_seed(void)
{
    const char *given = getenv("YOKE_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("# YOKE_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    const json_t *files[] = { gpt2, llama3 };
    const struct yokei_philox_key key = yokei_philox_named(test_seed(), "bytes");
    for (size_t f = 0; f < YOKE_COUNT(files); f++) {
        json_t *file = json_deep_copy(files[f]), *added = json_object_get(file, "added_tokens");
        /* Tokens that swallow spaces beside them do not give the spaces back. */
        for (size_t i = 0; i < json_array_size(added); i++) {
            json_object_set_new(json_array_get(added, i), "lstrip", json_false());
            json_object_set_new(json_array_get(added, i), "rstrip", json_false());
        }
        struct yokei_bpe *bpe = open_good(file);
        for (uint64_t trial = 0; trial < 1500; trial++) {
            unsigned char text[3000];
            char *back;
            size_t bytes, n = draw_bytes(key, trial, text, sizeof text);
            struct yokei_ids ids = encode(bpe, text, n, 0);
            assert_ok(yokei_bpe_decode(bpe, ids.id, ids.n, &back, &bytes));
            if (bytes != n || memcmp(back, text, n) != 0)
                fail_msg("trial %d: %zu bytes came back as %zu others", (int)trial, n, bytes);
            free(back);
            free(ids.id);
        }
        yokei_bpe_close(bpe);
        json_decref(file);
    }
}

/*
 * The tokens of invalid bytes must not depend on their surroundings. Characters beside them must be encoded
 * as if they were alone.
 */
static void broken_text_is_words_of_its_own(void **state)
{
    (void)state;
    struct yokei_bpe *bpe = open_good(gpt2);
    struct yokei_ids parts = encode(bpe, "free software", 13, 0);
    assert_ok(yokei_bpe_encode(bpe, "\xff\xfe\xc3", 3, 0, &parts));
    assert_ok(yokei_bpe_encode(bpe, "the Program", 11, 0, &parts));
    struct yokei_ids whole = encode(bpe, "free software\xff\xfe\xc3the Program", 27, 0);
    assert_int_equal(whole.n, parts.n);
    assert_memory_equal(whole.id, parts.id, parts.n * sizeof *parts.id);
    free(parts.id);
    free(whole.id);
    yokei_bpe_close(bpe);
}

/* Do each merge of the list by looking at the whole word again. This is the definition, in O(n^2). */
static size_t merge_slowly(const struct yokei_bpe *bpe, int32_t *id, size_t n)
{
    for (;;) {
        const struct yokei_bpe_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t k = 0; k <= bpe->merge_mask; k++) {
                const struct yokei_bpe_merge *m = &bpe->merge[k];
                if (m->id >= 0 && m->pair == ((uint64_t)(uint32_t)id[i] << 32 | (uint32_t)id[i + 1])
                    && (!best || m->rank < best->rank))
                    best = m, at = i;
            }
        if (!best) return n;
        id[at] = best->id;
        memmove(id + at + 1, id + at + 2, (--n - at - 1) * sizeof *id);
    }
}

static void merges_are_those_of_the_definition(void **state)
{
    (void)state;
    struct yokei_bpe *bpe = open_good(gpt2);
    const struct yokei_philox_key key = yokei_philox_named(test_seed(), "words");
    for (uint64_t trial = 0; trial < 60; trial++) {
        unsigned char word[60];
        int32_t slow[60];
        const size_t n = 1 + (size_t)(yokei_uniform(key, trial) * 59);
        for (size_t i = 0; i < n; i++)
            word[i] = (unsigned char)"etaonisr"[(size_t)(yokei_uniform(key, 1000 + 64 * trial + i) * 8)];
        for (size_t i = 0; i < n; i++) slow[i] = bpe->byte_id[word[i]];
        const size_t want = merge_slowly(bpe, slow, n);
        struct yokei_ids ids = { 0 };
        assert_ok(yokei_bpe_word(bpe, word, n, 0, &ids));
        assert_int_equal(ids.n, want);
        assert_memory_equal(ids.id, slow, want * sizeof *slow);
        free(ids.id);
    }
    yokei_bpe_close(bpe);
}

/* A word of a megabyte must not take minutes, as it would with an algorithm of n^2 steps. */
static void long_words_are_quick(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    char *word = malloc(BYTES), *back;
    struct yokei_bpe *bpe = open_good(llama3);
    size_t bytes;
    assert_non_null(word);
    for (size_t i = 0; i < BYTES; i++)
        word[i] = "theprogramisfreesoftwareyoucanredistributeit"[i * i / 7 % 44];
    const clock_t begun = clock(); /* of the processor: other programs do not count */
    struct yokei_ids ids = encode(bpe, word, BYTES, 0);
    const double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    printf("# a word of %d bytes: %zu tokens in %.2f s\n", BYTES, ids.n, seconds);
    assert_true(seconds < 20);
    assert_ok(yokei_bpe_decode(bpe, ids.id, ids.n, &back, &bytes));
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(back, word, BYTES);
    free(back);
    free(ids.id);
    memset(word, ' ', BYTES); /* and patterns do not go back over long runs again and again */
    ids = encode(bpe, word, BYTES, 0);
    assert_true(ids.n > 0);
    free(ids.id);
    free(word);
    yokei_bpe_close(bpe);
}

/* ---- files that are wrong ---- */

/* Copy a good file, and set `change` at a path of the copy, such as "model.type". The error must have these
 * words. */
static void refused(yoke_status status, const json_t *file, const char *path, json_t *change,
                    const char *words)
{
    json_t *copy = json_deep_copy(file), *at = copy;
    char key[64];
    struct yokei_bpe *bpe = NULL;
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
    }
    if (json_is_array(at))
        json_array_set_new(at, (size_t)atoi(path), change);
    else if (change)
        json_object_set_new(at, path, change);
    else
        json_object_del(at, path);
    assert_fails(status, words, open_json(copy, &bpe));
    if (!strstr(yoke_last_error(), "test.json"))
        fail_msg("the error '%s' does not name the file", yoke_last_error());
    json_decref(copy);
}

static json_t *typed(const char *type) { return json_pack("{s:s}", "type", type); }
static json_t *split(const char *pattern)
{
    return json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "Regex", pattern, "behavior",
                     "Isolated", "invert", 0);
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    struct yokei_bpe *bpe = NULL;
    char *text = json_dumps(gpt2, 0);
    for (size_t i = 0; i < 40; i++) { /* cut off anywhere */
        const size_t n = strlen(text) * i / 40;
        assert_fails(YOKE_EDATA, n ? "not valid JSON: line 1, column" : "is empty",
                     yokei_bpe_parse("test.json", text, n, &bpe));
    }
    free(text);
    refused(YOKE_ECONFIG, gpt2, "model", NULL, "model is missing");
    refused(YOKE_ECONFIG, gpt2, "model", json_string("BPE"), "model is a string; an object");
    refused(YOKE_ECONFIG, gpt2, "model.vocab", json_array(), "model.vocab is a list; an object");
    refused(YOKE_EDATA, gpt2, "model.vocab", json_object(), "model.vocab is empty");
    refused(YOKE_ECONFIG, gpt2, "model.vocab.he", json_real(1.5),
            "model.vocab[\"he\"] is a number; an integer");
    refused(YOKE_EDATA, gpt2, "model.vocab.he", json_integer(3), "which");
    refused(YOKE_EDATA, gpt2, "model.vocab.he", json_integer(-3), "must be between 0 and");
    refused(YOKE_EDATA, gpt2, "model.vocab.he", json_integer(1 << 30), "must be between 0 and");
    refused(YOKE_ECONFIG, gpt2, "model.merges", json_object(), "model.merges is an object; a list");
    refused(YOKE_ECONFIG, gpt2, "model.merges.5", json_integer(1),
            "model.merges[5] is an integer; \"a b\" or");
    refused(YOKE_ECONFIG, gpt2, "model.merges.5", json_string("ab"), "model.merges[5] is \"ab\"; two tokens");
    refused(YOKE_ECONFIG, gpt2, "model.merges.5", json_string("a b c"),
            "model.merges[5] is \"a b c\"; two tokens");
    refused(YOKE_ECONFIG, gpt2, "model.merges.5", json_pack("[s]", "a"),
            "model.merges[5] is a list, but not of two");
    refused(YOKE_ECONFIG, gpt2, "model.merges.5", json_pack("[si]", "a", 1),
            "model.merges[5] is a list, but not of two");
    refused(YOKE_EDATA, gpt2, "model.merges.5", json_pack("[ss]", "a", "nowhere"),
            "model.merges[5] names \"nowhere\"");
    refused(YOKE_EDATA, gpt2, "model.merges.5", json_pack("[ss]", "z", "z"), "model.merges[5] names \"zz\"");
    refused(YOKE_ECONFIG, gpt2, "model.ignore_merges", json_integer(1),
            "model.ignore_merges is an integer; true or false");
    refused(YOKE_ECONFIG, gpt2, "added_tokens", json_object(), "added_tokens is an object; a list");
    refused(YOKE_ECONFIG, gpt2, "added_tokens.1", json_null(), "added_tokens[1] is null; an object");
    refused(YOKE_ECONFIG, gpt2, "added_tokens.1.id", json_string("7"), "added_tokens[1].id is a string");
    refused(YOKE_EDATA, gpt2, "added_tokens.1.id", json_integer(9), "which");
    refused(YOKE_EDATA, gpt2, "added_tokens.1.content", json_string(""), "added_tokens[1].content is empty");
    refused(YOKE_EDATA, gpt2, "added_tokens.1",
            json_deep_copy(json_array_get(json_object_get(gpt2, "added_tokens"), 2)), "is there twice");
    refused(YOKE_ECONFIG, gpt2, "pre_tokenizer", split("(a"), "is no expression that PCRE2 takes");
    refused(YOKE_ECONFIG, gpt2, "pre_tokenizer", split("a*"), "matches the empty text");
    refused(YOKE_ECONFIG, llama3, "post_processor.processors.1.special_tokens", NULL,
            "has no ids of \"<|begin_of_text|>\"");
    refused(YOKE_ECONFIG, llama3, "post_processor.processors.1.single", json_array(), "has the text 0 times");
    assert_fails(YOKE_EDATA, "/nowhere", yokei_bpe_open("/nowhere", &bpe));
    assert_fails(YOKE_EDATA, "/dev/tokenizer.json", yokei_bpe_open("/dev", &bpe));
    assert_null(bpe);
}

/*
 * Bytes of a file are changed at random. The file must be refused or be another valid tokenizer, and must
 * never do harm. A tokenizer that opens must still encode.
 */
static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    const json_t *files[] = { gpt2, llama3 };
    const struct yokei_philox_key key = yokei_philox_named(test_seed(), "mutants");
    int n_refused = 0;
    for (uint64_t trial = 0; trial < 400; trial++) {
        char *text = json_dumps(files[trial % 2], 0);
        const size_t n = strlen(text);
        const int n_changes = 1 + (int)(yokei_uniform(key, 64 * trial) * 4);
        for (int i = 0; i < n_changes; i++) {
            const size_t at = (size_t)(yokei_uniform(key, 64 * trial + 2 + 3 * (uint64_t)i) * (double)n);
            text[at] = "0123456789\"{}[],:\\abctrue -\xff\x00"[(
                size_t)(yokei_uniform(key, 64 * trial + 3 + 3 * (uint64_t)i) * 30)];
        }
        struct yokei_bpe *bpe = NULL;
        struct yokei_ids ids = { 0 };
        const yoke_status status = yokei_bpe_parse("test.json", text, n, &bpe);
        n_refused += status != YOKE_OK;
        assert_true(status == YOKE_OK || status == YOKE_EDATA || status == YOKE_ECONFIG);
        if (!status)
            (void)yokei_bpe_encode(bpe, "a text <|endoftext|> WORD 123\n", 31, YOKEI_BPE_TEMPLATE, &ids);
        free(ids.id);
        yokei_bpe_close(bpe);
        free(text);
    }
    assert_true(n_refused > 100 && n_refused < 400);
}

static void other_kinds_are_refused_by_name(void **state)
{
    (void)state;
    refused(YOKE_ECONFIG, gpt2, "model.type", json_string("Unigram"),
            "SentencePiece tokenizer (model: type Unigram)");
    refused(YOKE_ECONFIG, gpt2, "model.type", json_string("WordPiece"), "model.type is \"WordPiece\"");
    refused(YOKE_ECONFIG, gpt2, "model.byte_fallback", json_true(), "SentencePiece");
    refused(YOKE_ECONFIG, gpt2, "model.dropout", json_real(0.1), "model.dropout");
    refused(YOKE_ECONFIG, gpt2, "model.end_of_word_suffix", json_string("</w>"),
            "model.end_of_word_suffix is \"</w>\"");
    refused(YOKE_ECONFIG, gpt2, "model.continuing_subword_prefix", json_string("##"),
            "model.continuing_subword_prefix is \"##\"");
    refused(YOKE_ECONFIG, gpt2, "normalizer", typed("Lowercase"), "normalizer is Lowercase");
    refused(YOKE_ECONFIG, gpt2, "pre_tokenizer", typed("Metaspace"),
            "SentencePiece tokenizer (pre_tokenizer: Metaspace)");
    refused(YOKE_ECONFIG, gpt2, "pre_tokenizer", typed("Whitespace"), "pre_tokenizer is Whitespace");
    refused(YOKE_ECONFIG, gpt2, "pre_tokenizer", NULL, "pre_tokenizer is missing");
    refused(YOKE_ECONFIG, gpt2, "pre_tokenizer", split("a"), "pre_tokenizer is without ByteLevel");
    refused(YOKE_ECONFIG, gpt2, "pre_tokenizer",
            json_pack("{s:s,s:[oo]}", "type", "Sequence", "pretokenizers", typed("ByteLevel"),
                      typed("ByteLevel")),
            "pre_tokenizer.pretokenizers[1] is ByteLevel");
    refused(YOKE_ECONFIG, gpt2, "decoder", typed("WordPiece"), "decoder is WordPiece");
    refused(YOKE_ECONFIG, gpt2, "decoder", NULL, "decoder is missing");
    refused(YOKE_ECONFIG, gpt2, "post_processor", typed("BertProcessing"),
            "post_processor is BertProcessing");
    refused(YOKE_ECONFIG, gpt2, "version", json_string("2.0"), "version is \"2.0\"");
    static const char *const patterns[] = {
        "^a",     "a$",     "a\\b", "(a)\\1", "\\h",     "\\p{Han}", "\\p{Alphabetic}",
        "[a[b]]", "[a&&b]", "\\w",  "[\\W]",  "a{1,2}+", "a{,2}",    "(?<n>a)",
        "(?m:a)", "\\R",    "a\\",  "[a",     "\\p{L"
    };
    for (size_t i = 0; i < YOKE_COUNT(patterns); i++)
        refused(YOKE_ECONFIG, gpt2, "pre_tokenizer", split(patterns[i]), "engines understand differently");
}

/* The file has no token for some ids. The file is valid, but these ids must be refused. */
static void holes_between_ids(void **state)
{
    (void)state;
    json_t *file = json_deep_copy(gpt2), *vocab = json_object_get(json_object_get(file, "model"), "vocab");
    json_object_set_new(vocab, "\u0120spare", json_integer(1000));
    struct yokei_bpe *bpe = open_good(file);
    char *text;
    size_t bytes;
    assert_int_equal(yokei_bpe_n_ids(bpe), 1001);
    assert_null(yokei_bpe_token(bpe, 999, &bytes));
    assert_int_equal(memcmp(yokei_bpe_token(bpe, 1000, &bytes), " spare", 6), 0);
    assert_int_equal(bytes, 6);
    const int32_t good[] = { 1000, 5 }, hole[] = { 5, 999 }, outside[] = { 1001 }, negative[] = { -1 };
    assert_ok(yokei_bpe_decode(bpe, good, 2, &text, &bytes));
    free(text);
    assert_fails(YOKE_EDATA, "no token of id 999, which stands at place 1",
                 yokei_bpe_decode(bpe, hole, 2, &text, &bytes));
    assert_fails(YOKE_EDATA, "no token of id 1001", yokei_bpe_decode(bpe, outside, 1, &text, &bytes));
    assert_fails(YOKE_EDATA, "no token of id -1", yokei_bpe_decode(bpe, negative, 1, &text, &bytes));
    yokei_bpe_close(bpe);
    json_decref(file);
}

static void what_cannot_be_encoded(void **state)
{
    (void)state;
    struct yokei_ids ids = { 0 };
    json_t *file = json_deep_copy(gpt2);
    json_object_del(json_object_get(json_object_get(file, "model"), "vocab"), "\u010b"); /* byte 0x0b */
    struct yokei_bpe *bpe = open_good(file);
    assert_fails(YOKE_EDATA, "no token for the byte 0x0b, which is at byte 4",
                 yokei_bpe_encode(bpe, "abc \x0b", 5, 0, &ids));
    yokei_bpe_close(bpe);
    json_object_set_new(file, "normalizer", typed("NFC"));
    json_object_set(file, "model", json_object_get(gpt2, "model"));
    bpe = open_good(file);
    ids.n = 0;
    assert_ok(yokei_bpe_encode(bpe, "caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80", 18, 0, &ids));
    assert_fails(YOKE_EDATA, "U+0301 at byte 6", yokei_bpe_encode(bpe, "cafe e\xcc\x81", 8, 0, &ids));
    yokei_bpe_close(bpe);
    free(ids.id);
    json_decref(file);
}

static void tokens_by_name_and_kind(void **state)
{
    (void)state;
    struct yokei_bpe *bpe = open_good(llama3);
    const int32_t end = yokei_bpe_find(bpe, "<|end_of_text|>");
    assert_true(end > 0 && yokei_bpe_is_special(bpe, end));
    assert_int_equal(yokei_bpe_find(bpe, "<|nothing|>"), -1);
    assert_false(yokei_bpe_is_special(bpe, yokei_bpe_find(bpe, "a")));
    yokei_bpe_close(bpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_tokens_as_huggingface),
        cmocka_unit_test(classes_are_those_of_the_oracle),
        cmocka_unit_test(what_is_surely_nfc),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(broken_text_is_words_of_its_own),
        cmocka_unit_test(merges_are_those_of_the_definition),
        cmocka_unit_test(long_words_are_quick),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(other_kinds_are_refused_by_name),
        cmocka_unit_test(holes_between_ids),
        cmocka_unit_test(what_cannot_be_encoded),
        cmocka_unit_test(tokens_by_name_and_kind),
    };
    expected = golden("expected");
    gpt2 = golden("gpt2");
    llama3 = golden("llama3");
    if (!expected || !gpt2 || !llama3) return 99;
    const int failed = cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
    json_decref(expected);
    json_decref(gpt2);
    json_decref(llama3);
    return failed;
}
