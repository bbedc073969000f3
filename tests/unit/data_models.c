/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kind of models of train/models/kinds.h: its presets, its list of weights beside its layers, its
 * config.json, its plan, and the longest sequence. A new kind is tested here without a change of this file.
 */
#include "tests/unit/data_test.h"
#include "tests/unit/config_write.h"
#include "tests/unit/plan_text.h"

#include <stdlib.h>
#include "core/base/base.h"
#include "train/models/model_files.h"
#include "train/plan/run_plan.h"

static const struct yokei_model_row *const rows = yokei_model_rows;

/* The first preset of a kind, which is its smallest. */
static struct yokei_model_config smallest(const struct yokei_model_row *row)
{
    struct yokei_model_config config;
    assert_ok(yokei_model_named(row->kind->presets[0].name, &config));
    assert_int_equal(yokei_model_n_set(&config), 1);
    assert_ptr_equal(yokei_model_of(&config).row, row);
    return config;
}

static void help_has_the_names_of_the_presets(void **state)
{
    (void)state;
    for (const struct yokei_model_row *row = rows; row->kind; row++) {
        char text[200] = "";
        const struct yokei_model_preset *p = row->kind->presets;
        for (int i = 0; p[i].name; i++) {
            struct yokei_model_config config;
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                     i == 0          ? ""
                     : p[i + 1].name ? ", "
                                     : " or ",
                     p[i].name);
            assert_ok(yokei_model_named(p[i].name, &config));
            assert_ok(yokei_model_check(yokei_model_of(&config)));
        }
        assert_string_equal(row->presets, text);
        struct yokei_model_config config;
        assert_fails(YOKE_ECONFIG, row->presets, yokei_model_named("nothing", &config));
        assert_fails(YOKE_ECONFIG, row->presets, yokei_preset_copy("test", row->kind, "nothing", &config));
        assert_fails(YOKE_EINVAL, "null", yokei_preset_copy("test", row->kind, NULL, &config));
    }
}

static bool *tie_of(const struct yokei_model_row *row, struct yokei_model_config *config)
{
    const struct yokei_json_field *field = row->kind->schema.fields;
    while (field->key && strcmp(field->key, "tie_word_embeddings") != 0) field++;
    return field->key ? yoke_at(config, row->offset + field->offset) : NULL;
}

/* The list of weights has the names that the layers declare, in the same order, each once. */
static void check_weights(struct yokei_model m)
{
    yoke_model *model;
    int64_t n = 0;
    struct yokei_weight w, first;
    assert_ok(yokei_model_create(m, &model));
    assert_ok(yokei_model_tensor(m, 0, &first));
    for (int l = 0; l < yoke_model_n_layers(model); l++) {
        struct yoke_parameter p;
        for (int i = 0; !yoke_layer_parameter(yoke_model_layer(model, l), i, &p); i++) {
            if (l > 0 && strcmp(p.name, first.name) == 0) continue; /* a tied head is the embedding */
            assert_ok(yokei_model_tensor(m, n++, &w));
            assert_string_equal(p.name, w.name);
            assert_int_equal(p.n_dims, w.n_dims);
            assert_int_equal(p.matrix, w.is_matrix);
            for (int d = 0; d < p.n_dims; d++) assert_int_equal(p.shape[d], w.shape[d]);
        }
    }
    assert_int_equal(n, yokei_model_n_tensors(m));
    assert_fails(YOKE_EINVAL, m.row->name, yokei_model_tensor(m, n, &w));
    assert_fails(YOKE_EINVAL, m.row->name, yokei_model_tensor(m, -1, &w));
    assert_ok(yoke_model_destroy(model));
}

static void weights_are_those_of_the_layers(void **state)
{
    (void)state;
    for (const struct yokei_model_row *row = rows; row->kind; row++) {
        struct yokei_model_config config = smallest(row);
        bool *tie = tie_of(row, &config);
        for (int tied = 0; tied < (tie ? 2 : 1); tied++) {
            if (tie) *tie = tied;
            check_weights(yokei_model_of(&config));
        }
    }
}

static void config_reads_back(void **state)
{
    (void)state;
    for (const struct yokei_model_row *row = rows; row->kind; row++) {
        struct yokei_model_config config = smallest(row), again, more;
        char *first, *second, words[300], type[64];
        const struct yokei_config_rest rest = { .dtype = YOKE_F32, .bos = -2, .eos = -2 };
        assert_ok(yokei_model_config_text(yokei_model_of(&config), &rest, &first));
        snprintf(type, sizeof type, "\"model_type\": \"%s\"", row->type);
        assert_non_null(strstr(first, type));
        assert_non_null(strstr(first, row->kind->architecture));
        put_text("config.json", first);
        assert_ok(yokei_model_read(test_folder, &again));
        assert_ptr_equal(yokei_model_of(&again).row, row);
        assert_ok(yokei_model_config_text(yokei_model_of(&again), &rest, &second));
        assert_string_equal(first, second);
        assert_true(yokei_model_flops(yokei_model_of(&config), 32)
                    == yokei_model_flops(yokei_model_of(&again), 32));
        yokei_model_describe(yokei_model_of(&again), words, sizeof words);
        assert_int_equal(strncmp(words, row->name, strlen(row->name)), 0);
        /* a file of another kind is not read as this one */
        put_text("config.json", "{\"model_type\": \"other\"}");
        assert_fails(YOKE_ECONFIG, NULL, row->kind->read(test_folder, yoke_at(&more, row->offset)));
        put_text("config.json", "{");
        assert_fails(YOKE_EDATA, "line 1", row->kind->read(test_folder, yoke_at(&more, row->offset)));
        free(first), free(second);
    }
}

static void changes_reach_the_configuration(void **state)
{
    (void)state;
    for (const struct yokei_model_row *row = rows; row->kind; row++) {
        struct yokei_model_config config = smallest(row);
        const char *where;
        double p;
        int n = 0;
        yokei_model_set_layers(&config, 3);
        yokei_model_set_dropout(&config, 0.25);
        assert_int_equal(yokei_model_n_layers(yokei_model_of(&config)), 3);
        for (; yokei_model_dropout(yokei_model_of(&config), n, &p, &where); n++) assert_true(p == 0.25);
        assert_true(n > 0);
        check_weights(yokei_model_of(&config));
    }
}

static void a_plan_has_one_kind(void **state)
{
    (void)state;
    for (const struct yokei_model_row *row = rows; row->kind; row++) {
        struct yokei_plan plan = YOKEI_PLAN_INIT, again;
        struct yokei_plan_rank ranks[] = { { "host", 1, 4, 2, 1 } };
        char *text, key[64], words[128];
        const char *longest;
        plan.model = smallest(row);
        plan.batch = 4, plan.ranks = ranks, plan.n_ranks = 1;
        plan.sequence = yokei_model_longest(yokei_plan_model(&plan), &longest);
        assert_ok(plan_text(&plan, &text));
        for (const struct yokei_model_row *other = rows; other->kind; other++) {
            snprintf(key, sizeof key, "\"%s\": {", other->key);
            assert_int_equal(strstr(text, key) != NULL, other == row);
        }
        assert_ok(yokei_plan_read(put_text("plan.json", text), &again));
        assert_memory_equal(&again.model, &plan.model, sizeof plan.model);
        yokei_plan_free(&again);
        free(text);
        snprintf(words, sizeof words, "%s.%s is %lld", row->key, longest, (long long)plan.sequence);
        plan.sequence++;
        assert_fails(YOKE_ECONFIG, words, plan_text(&plan, &text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_has_the_names_of_the_presets),
        cmocka_unit_test(weights_are_those_of_the_layers),
        cmocka_unit_test(config_reads_back),
        cmocka_unit_test(changes_reach_the_configuration),
        cmocka_unit_test(a_plan_has_one_kind),
    };
    return cmocka_run_group_tests_name("data_models", tests, make_test_folder, remove_test_folder);
}
