/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Llama in the format of Hugging Face: configurations that are read, refused and written, tensors that are
 * found, and plans that contain a Llama. data_models.c has what every kind of models must do.
 */
#include "tests/unit/data_test.h"
#include "tests/unit/config_write.h"
#include "tests/unit/plan_text.h"
#include "tests/unit/safetensors_save.h"

#include <stdlib.h>
#include "core/base/base.h"
#include "train/models/model_files.h"
#include "train/plan/run_plan.h"

static const struct yoke_llama_config tiny = { sizeof tiny, 8,  12,   2,      4,    2,     0,
                                               32,          16, 1e-5, 500000, 0.02, false, 0 };

/* Meta's Llama-2-7b, as it lies on the hub; and what a later one says of its positions. */
#define SIZES                                                                                                                                 \
    "\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 11008, \"num_hidden_layers\": 32, \"num_attention_heads\": 32," \
    "\"vocab_size\": 32000, \"max_position_embeddings\": 4096"
static const char hub[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"bos_token_id\": 1, \"hidden_act\": \"silu\", \"initializer_range\": 0.02,"
    "\"num_key_value_heads\": null, \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null, \"head_dim\": null,"
    "\"tie_word_embeddings\": false, \"torch_dtype\": \"float16\", \"use_cache\": true, " SIZES "}";

static void hugging_face_config_is_read(void **state)
{
    (void)state;
    struct yokei_model_config config, again;
    put_text("config.json", hub);
    assert_ok(yokei_model_read(test_folder, &config));
    assert_int_equal(config.gpt2.size, 0);
    assert_int_equal(config.llama.hidden_size, 4096);
    assert_int_equal(config.llama.num_key_value_heads, 32);
    assert_true(config.llama.rms_norm_eps == 1e-5 && config.llama.rope_theta == 10000
                && !config.llama.tie_word_embeddings);
    /* The 7B model has 6,738,415,616 parameters. */
    const struct yokei_model model = yokei_model_of(&config);
    struct yokei_weight t;
    int64_t sum = 0;
    for (int64_t i = 0; i < yokei_model_n_tensors(model); i++) {
        assert_ok(yokei_model_tensor(model, i, &t));
        sum += t.shape[0] * (t.n_dims == 2 ? t.shape[1] : 1);
    }
    assert_int_equal(sum, 6738415616);
    config.llama = tiny;
    config.llama.rms_norm_eps = 1.0 / 3e4; /* written so that it reads back as the same bits */
    assert_ok(config_write(in_folder("config.json"), yokei_model_as(&yokei_kind_llama, &config.llama)));
    assert_ok(yokei_model_read(test_folder, &again));
    config.llama.head_dim = 2; /* said in the file */
    assert_memory_equal(&config.llama, &again.llama, sizeof tiny);
    put_text("config.json",
             "{" SIZES ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}}");
    assert_ok(yokei_model_read(test_folder, &again));
    assert_true(again.llama.rope_theta == 500000 && again.llama.rms_norm_eps == 1e-6);
}

static void what_is_not_computed_is_refused(void **state)
{
    static const struct {
        const char *rest, *words;
    } cases[] = {
        { ", \"hidden_act\": \"gelu\"", "hidden_act is \"gelu\"" },
        { ", \"attention_bias\": true", "attention_bias is true" },
        { ", \"mlp_bias\": true", "mlp_bias is true" },
        { ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}",
          "rope_scaling.rope_type is \"llama3\", which is not computed" },
        { ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}",
          "rope_scaling.type is \"linear\", which is not computed" },
        { ", \"num_key_value_heads\": 5", "not a multiple of num_key_value_heads 5" },
        { ", \"head_dim\": 63", "a head has 63 channels" },
        { ", \"rope_theta\": 1", "rope_theta is 1" },
        { ", \"attention_dropout\": 1", "attention_dropout is 1" },
    };
    (void)state;
    struct yokei_model_config config;
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        char text[1024];
        snprintf(text, sizeof text, "{" SIZES "%s}", cases[i].rest);
        put_text("config.json", text);
        assert_fails(YOKE_ECONFIG, cases[i].words, yokei_model_read(test_folder, &config));
    }
    put_text("config.json", "{\"model_type\": \"llama\", \"hidden_size\": 4096}");
    assert_fails(YOKE_ECONFIG, "intermediate_size", yokei_model_read(test_folder, &config));
    put_text("config.json", "{\"model_type\": \"mamba\"}");
    assert_fails(YOKE_ECONFIG, NULL, yokei_model_read(test_folder, &config));
    put_text("config.json", "{");
    assert_fails(YOKE_EDATA, "line 1", yokei_model_read(test_folder, &config));
    assert_fails(YOKE_EDATA, NULL, yokei_kind_llama.read("/nowhere/config.json", &config.llama));
    assert_fails(YOKE_ECONFIG, "llama-nano or llama-micro (Llama)",
                 yokei_model_named("llama-large", &config));
}

static void weights_are_found(void **state)
{
    enum { MOST = 32 };
    (void)state;
    struct yoke_llama_config tied = tiny;
    struct yokei_tensor tensors[MOST];
    struct yokei_weight wanted[MOST];
    const struct yokei_tensor *found[MOST];
    struct yokei_safetensors *file;
    static float zeros[32 * 8], ones[32 * 8] = { 1 };
    const size_t n = (size_t)yokei_kind_llama.n_weights(&tiny);
    tied.tie_word_embeddings = true;
    for (size_t i = 0; i < n; i++) {
        assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_llama, &tiny), (int64_t)i, &wanted[i]));
        tensors[i] = (struct yokei_tensor){
            .name = wanted[i].name, .dtype = YOKE_F32, .n_dims = wanted[i].n_dims, .data = zeros
        };
        memcpy(tensors[i].shape, wanted[i].shape, sizeof wanted[i].shape);
    }
    tensors[n] = (struct yokei_tensor){ .name = "model.layers.1.self_attn.rotary_emb.inv_freq",
                                        .dtype = YOKE_F32,
                                        .n_dims = 1,
                                        .shape = { 1 },
                                        .data = zeros };
    assert_ok(save_safetensors(in_folder("w.safetensors"), tensors, n + 1, NULL, 0));
    assert_ok(yokei_safetensors_open(in_folder("w.safetensors"), 0, &file));
    assert_ok(yokei_model_find(file, yokei_model_as(&yokei_kind_llama, &tiny), found));
    assert_string_equal(found[n - 1]->name, "lm_head.weight");
    /* the head repeats the embedding */
    assert_ok(yokei_model_find(file, yokei_model_as(&yokei_kind_llama, &tied), found));
    yokei_safetensors_close(file);
    tensors[n - 1].data = ones;
    tensors[n].name = "model.layers.2.mlp.up_proj.weight";
    assert_ok(save_safetensors(in_folder("w.safetensors"), tensors, n + 1, NULL, 0));
    assert_ok(yokei_safetensors_open(in_folder("w.safetensors"), 0, &file));
    assert_fails(YOKE_EDATA, "does not belong to a Llama of 2 layers",
                 yokei_model_find(file, yokei_model_as(&yokei_kind_llama, &tiny), found));
    assert_fails(YOKE_EDATA, "one matrix for both (tie_word_embeddings)",
                 yokei_model_find(file, yokei_model_as(&yokei_kind_llama, &tied), found));
    yokei_safetensors_close(file);
}

static void a_plan_says_which_model_it_is(void **state)
{
    (void)state;
    struct yokei_plan plan = YOKEI_PLAN_INIT, again;
    struct yokei_plan_rank ranks[] = { { "host", 1, 4, 2, 1 } };
    static const struct yoke_gpt2_config gpt2 = { sizeof gpt2, 2, 2, 8, 16, 32, 1e-5, 0.02, 0.1, 0.2, 0.3 };
    char *text;
    plan.model.llama = tiny;
    plan.batch = 4, plan.sequence = 16;
    plan.ranks = ranks, plan.n_ranks = 1;
    assert_ok(plan_text(&plan, &text));
    assert_non_null(strstr(text, "\"llama\": {"));
    assert_null(strstr(text, "\"model\""));
    assert_ok(yokei_plan_read(put_text("plan.json", text), &again));
    assert_memory_equal(&again.model.llama, &tiny, sizeof tiny);
    assert_int_equal(again.model.gpt2.size, 0);
    yokei_plan_free(&again);
    free(text);
    plan.sequence = 17;
    assert_fails(YOKE_ECONFIG, "llama.max_position_embeddings is 16", plan_text(&plan, &text));
    plan.sequence = 16;
    plan.model.gpt2 = gpt2;
    assert_fails(YOKE_ECONFIG, "two models", plan_text(&plan, &text));
    plan.model.llama.size = 0;
    assert_ok(plan_text(&plan, &text));
    assert_ok(yokei_plan_read(put_text("plan.json", text), &again));
    assert_memory_equal(&again.model.gpt2, &gpt2, sizeof gpt2); /* with its dropout */
    yokei_plan_free(&again);
    free(text);
    plan.model.gpt2.size = 0;
    assert_fails(YOKE_ECONFIG, "\"model\" is missing", plan_text(&plan, &text));
}

static const char qwen2[] =
    "{\"model_type\": \"qwen2\", \"hidden_size\": 8, \"intermediate_size\": 12, \"num_hidden_layers\": 2,"
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 32, \"max_position_embeddings\": 16,"
    "\"use_sliding_window\": true, \"sliding_window\": %s, \"layer_types\": %s}";

/* Where the window of Qwen2 comes from is in data_config.c. Here: what Yoke does with it, and with biases. */
static void a_window_bounds_the_sequence(void **state)
{
    static const char some[] = "[\"full_attention\", \"sliding_attention\"]";
    (void)state;
    struct yokei_model_config config;
    const char *key;
    char text[600];
    snprintf(text, sizeof text, qwen2, "8", some);
    put_text("config.json", text);
    assert_ok(yokei_model_read(test_folder, &config));
    assert_int_equal(yokei_model_longest(yokei_model_of(&config), &key), 8);
    assert_string_equal(key, "sliding_window");
    struct yokei_plan plan = YOKEI_PLAN_INIT;
    plan.model = config, plan.batch = 4, plan.sequence = 9;
    assert_fails(YOKE_ECONFIG, "qwen2.sliding_window is 8, and Yoke computes no sliding window",
                 yokei_plan_check(&plan, "plan"));
    /* a program without a plan */
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    yoke_trainer *trainer;
    yoke_device *device;
    yoke_model *model;
    assert_ok(yoke_device_open("reference", NULL, &device));
    assert_ok(yokei_model_create(yokei_model_of(&config), &model));
    c.sequence = 8;
    assert_ok(yoke_trainer_create(model, device, &c, &trainer));
    assert_ok(yoke_trainer_destroy(trainer));
    c.sequence = 9;
    assert_fails(YOKE_ECONFIG, "longer than its sliding window of 8",
                 yoke_trainer_create(model, device, &c, &trainer));
    assert_ok(yoke_model_destroy(model));
    assert_ok(yoke_device_close(device));
    /* a window that is no shorter than the positions bounds nothing */
    snprintf(text, sizeof text, qwen2, "16", some);
    put_text("config.json", text);
    assert_ok(yokei_model_read(test_folder, &config));
    assert_int_equal(yokei_model_longest(yokei_model_of(&config), &key), 16);
    assert_string_equal(key, "max_position_embeddings");
    snprintf(text, sizeof text, qwen2, "null", some);
    put_text("config.json", text);
    assert_fails(YOKE_ECONFIG, "layer_types has \"sliding_attention\"",
                 yokei_model_read(test_folder, &config));
}

static void biases_belong_to_the_kind(void **state)
{
    (void)state;
    struct yoke_llama_config config = tiny;
    assert_fails(YOKE_ECONFIG, "of a Qwen2 have biases",
                 yokei_model_check(yokei_model_as(&yokei_kind_qwen2, &config)));
    config.qkv_bias = true;
    assert_ok(yokei_model_check(yokei_model_as(&yokei_kind_qwen2, &config)));
    assert_fails(YOKE_ECONFIG, "of a Llama have none",
                 yokei_model_check(yokei_model_as(&yokei_kind_llama, &config)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hugging_face_config_is_read),
        cmocka_unit_test(what_is_not_computed_is_refused),
        cmocka_unit_test(weights_are_found),
        cmocka_unit_test(a_plan_says_which_model_it_is),
        cmocka_unit_test(a_window_bounds_the_sequence),
        cmocka_unit_test(biases_belong_to_the_kind),
    };
    return cmocka_run_group_tests_name("data_llama", tests, make_test_folder, remove_test_folder);
}
