/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of config.json that are at two places. Yoke must read the values that transformers uses, and refuse
 * a file for which its versions 4 and 5 use different values. tests/golden/make_config.py asked both.
 */
#include "tests/unit/data_test.h"

#include <jansson.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "train/exchange/model_folder.h"
#include "train/models/model_files.h"

static const char *top(void)
{
    const char *top = getenv("top_srcdir");
    return top ? top : ".";
}

static json_t *read_expected(void)
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/golden/config_expected.json", top());
    json_t *root = json_load_file(path, 0, &error);
    if (!root) fprintf(stderr, "%s: %s\n", path, error.text);
    return root;
}

/*
 * What Yoke read, under the names of config.json: what it would write, the values of which it computes only
 * one, and the sliding window if the kind may have one.
 */
static json_t *as_json(const struct yokei_model_config *c)
{
    const struct yokei_model model = yokei_model_of(c);
    const struct yokei_model_kind *kind = model.row->kind;
    char *text;
    assert_ok(kind->write(model.config, &text));
    json_t *root = json_loads(text, 0, NULL);
    for (const struct yokei_config_field *f = kind->places; f->key; f++)
        if (f->only) json_object_set_new(root, f->key, json_loads(f->only, JSON_DECODE_ANY, NULL));
    const int64_t window = kind->window ? *(const int64_t *)yoke_at(model.config, kind->window) : 0;
    if (kind->window)
        json_object_set_new(root, "sliding_window", window ? json_integer(window) : json_null());
    free(text);
    return root;
}

static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

/* The number of keys that both have with different values. */
static int n_different(const json_t *got, const json_t *want)
{
    const char *key;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)want, key, value)
    {
        const json_t *mine = json_object_get(got, key);
        n += mine && !is_same(mine, value);
    }
    return n;
}

/* All values of `want` are in `got`, but for those that are not read from the configuration. */
static void hold_to(const char *name, const json_t *got, const json_t *want)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)want, key, value)
    {
        const json_t *mine = json_object_get(got, key);
        if (is_same(value, mine) || strcmp(key, "eos") == 0 || strcmp(key, "dtype") == 0) continue;
        char *text = json_dumps(mine, JSON_ENCODE_ANY), *wanted = json_dumps(value, JSON_ENCODE_ANY);
        fail_msg("%s: %s is %s, but transformers uses %s", name, key, text ? text : "nothing", wanted);
    }
}

static void put_case(const json_t *one)
{
    char *text = json_dumps(json_object_get(one, "config"), 0);
    put_text("config.json", text);
    free(text);
    unlink(in_folder("generation_config.json"));
    if (json_is_null(json_object_get(one, "generation"))) return;
    text = json_dumps(json_object_get(one, "generation"), 0);
    put_text("generation_config.json", text);
    free(text);
}

/* What Yoke writes for this model has the same values for every reader. So Yoke reads the same model. */
static void check_written(const char *name, const json_t *one, const struct yokei_model_config *config)
{
    struct yokei_model_config again;
    char *source = json_dumps(json_object_get(one, "config"), 0), *text;
    const struct yokei_config_rest rest = { .source = source, .dtype = YOKE_BF16, .bos = -2, .eos = -2 };
    assert_ok(yokei_model_config_text(yokei_model_of(config), &rest, &text));
    put_text("config.json", text);
    assert_ok(yokei_model_read(test_folder, &again));
    json_t *before = as_json(config), *after = as_json(&again), *root = json_loads(text, 0, NULL);
    hold_to(name, after, before);
    const char *old = json_string_value(json_object_get(root, "torch_dtype")),
               *new = json_string_value(json_object_get(root, "dtype"));
    assert_true((old || new) && !(old && new));
    assert_string_equal(old ? old : new, "bfloat16");
    /* no other place keeps another angle or type */
    static const char *const objects[] = { "rope_scaling", "rope_parameters" };
    const json_t *written = json_object_get(before, "rope_theta");
    for (size_t i = 0; i < YOKE_COUNT(objects); i++) {
        const json_t *rope = json_object_get(root, objects[i]), *theta = json_object_get(rope, "rope_theta");
        if (theta) assert_true(json_number_value(theta) == json_number_value(written));
        const char *type = json_string_value(json_object_get(rope, "rope_type")),
                   *kind = json_string_value(json_object_get(rope, "type"));
        assert_string_equal(type ? type : "default", "default");
        assert_string_equal(kind ? kind : "default", "default");
    }
    json_decref(before);
    json_decref(after);
    json_decref(root);
    free(source);
    free(text);
}

static void values_are_those_of_transformers(void **state)
{
    size_t i, w, n[3] = { 0 };
    json_t *expected = read_expected(), *one, *word;
    (void)state;
    json_array_foreach(json_object_get(expected, "cases"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name")),
                   *yoke = json_string_value(json_object_get(one, "yoke"));
        const json_t *four = json_object_get(one, "4"), *five = json_object_get(one, "5");
        struct yokei_model_config config;
        put_case(one);
        if (json_array_size(json_object_get(one, "words"))) {
            json_array_foreach(json_object_get(one, "words"), w, word)
                assert_fails(YOKE_ECONFIG, json_string_value(word), yokei_model_read(test_folder, &config));
            const bool both = strcmp(yoke, "refuse") == 0;
            assert_true(both == (strstr(yoke_last_error(), "version 4") != NULL));
            if (both) assert_true(n_different(four, five) > 0);
            n[both]++;
            continue;
        }
        if (yokei_model_read(test_folder, &config)) fail_msg("%s: %s", name, yoke_last_error());
        if (strcmp(yoke, "agree") == 0) assert_int_equal(n_different(four, five), 0);
        json_t *got = as_json(&config);
        hold_to(name, got, five);
        check_written(name, one, &config);
        json_decref(got);
        n[2]++;
    }
    json_decref(expected);
    assert_true(n[0] >= 6 && n[1] >= 4 && n[2] >= 30);
}

static void end_of_text_is_that_of_transformers(void **state)
{
    size_t i, k, n = 0;
    json_t *expected = read_expected(), *one, *id;
    char tokenizer[4096];
    (void)state;
    snprintf(tokenizer, sizeof tokenizer, "%s/tests/golden/tokenizer_gpt2.json", top());
    json_array_foreach(json_object_get(expected, "cases"), i, one)
    {
        const json_t *eos = json_object_get(json_object_get(one, "5"), "eos");
        struct yokei_model_folder folder;
        if (!eos) continue;
        put_case(one);
        assert_ok(yokei_model_folder_open(test_folder, tokenizer, &folder));
        if ((size_t)folder.n_stop != json_array_size(eos))
            fail_msg("%s: %d tokens end a text, but %zu in transformers",
                     json_string_value(json_object_get(one, "name")), folder.n_stop, json_array_size(eos));
        json_array_foreach((json_t *)(uintptr_t)eos, k, id)
            assert_int_equal(folder.stop[k], json_integer_value(id));
        yokei_model_folder_close(&folder);
        n++;
    }
    assert_true(n >= 10);
    /* If config.json does not say it, and there is no other file, it is the tokenizer's special token. */
    struct yokei_model_folder folder;
    unlink(in_folder("generation_config.json"));
    put_text("config.json", "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 1,"
                            "\"n_positions\": 8, \"vocab_size\": 1024}");
    assert_ok(yokei_model_folder_open(test_folder, tokenizer, &folder));
    assert_int_equal(folder.n_stop, 1);
    yokei_model_folder_close(&folder);
    json_decref(expected);
}

/* A checkpoint of an earlier Yoke may have a source with two values. Its model's own value is written. */
static void a_source_with_two_values_is_made_one(void **state)
{
    (void)state;
    struct yokei_model_config config;
    char *text;
    const struct yokei_config_rest rest = {
        .source =
            "{\"model_type\": \"llama\", \"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"linear\","
            "\"rope_type\": \"default\"}, \"rope_parameters\": {\"rope_theta\": 500000}}",
        .dtype = YOKE_F32,
        .bos = -2,
        .eos = -2
    };
    assert_ok(yokei_model_named("llama-nano", &config));
    assert_ok(yokei_model_config_text(yokei_model_as(&yokei_kind_llama, &config.llama), &rest, &text));
    json_t *root = json_loads(text, 0, NULL);
    assert_true(json_number_value(json_object_get(root, "rope_theta")) == config.llama.rope_theta);
    assert_true(json_number_value(json_object_get(json_object_get(root, "rope_parameters"), "rope_theta"))
                == config.llama.rope_theta);
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "rope_scaling"), "type")),
                        "default");
    json_decref(root);
    free(text);
}

static void errors_name_the_place(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "\"rope_parameters\": {\"rope_theta\": null}",
          "rope_parameters.rope_theta is null; a number is wanted" },
        { "\"rope_parameters\": {\"rope_theta\": 0.5}",
          "rope_parameters.rope_theta is 0.5; it must be between" },
        { "\"rope_scaling\": \"linear\"", "rope_scaling is a string; an object is wanted" },
        { "\"rope_parameters\": [1]", "rope_parameters is a list; an object is wanted" },
        { "\"rope_scaling\": {\"type\": null}", "rope_scaling.type is null, which is not computed" },
    };
    (void)state;
    struct yokei_model_config config;
    char text[600];
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        snprintf(text, sizeof text,
                 "{\"model_type\": \"llama\", \"hidden_size\": 8, \"intermediate_size\": 8,"
                 "\"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"vocab_size\": 9,"
                 "\"max_position_embeddings\": 8, %s}",
                 cases[i].text);
        put_text("config.json", text);
        assert_fails(YOKE_ECONFIG, cases[i].words, yokei_model_read(test_folder, &config));
    }
    put_text("config.json", "{\"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"vocab_size\": 9,"
                            "\"n_positions\": 8, \"max_position_embeddings\": \"many\"}");
    assert_fails(YOKE_ECONFIG, "max_position_embeddings is a string", yokei_model_read(test_folder, &config));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_transformers),
        cmocka_unit_test(end_of_text_is_that_of_transformers),
        cmocka_unit_test(a_source_with_two_values_is_made_one),
        cmocka_unit_test(errors_name_the_place),
    };
    return cmocka_run_group_tests_name("data_config", tests, make_test_folder, remove_test_folder);
}
