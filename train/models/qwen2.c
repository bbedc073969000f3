/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Qwen2 (Yang et al. 2024, arXiv:2407.10671): Llama's layers, with biases of q, k and v. Its config.json says
 * which layers have a sliding window. Yoke computes no such window, so it refuses longer sequences.
 */
#include <jansson.h>
#include <string.h>
#include "core/base/base.h"
#include "train/models/llama.h"

#define QWEN2(...) YOKEI_LLAMA(__VA_ARGS__, .qkv_bias = true)
/* clang-format off */
static const struct yokei_model_preset presets[] = {
    /* layers, heads, K/V heads, channels, hidden features, positions, words, eps, theta, initializer range */
    { "qwen2-nano", QWEN2(2, 4, 2, 64, 96, 64, 256, 1e-6, 1e4, 0.02, .tie_word_embeddings = true) },
    { "qwen2-0.5b", QWEN2(24, 14, 2, 896, 4864, 131072, 151936, 1e-6, 1e6, 0.02, .tie_word_embeddings = true) },
    { "qwen2-7b", QWEN2(28, 28, 4, 3584, 18944, 131072, 152064, 1e-6, 1e6, 0.02) },
    { NULL, NULL },
};
/* clang-format on */

static const struct yokei_json_field PLAN_FIELDS[] = {
    YOKEI_LLAMA_FIELDS(true),
    YOKEI_LLAMA_BOOL(qkv_bias, true),
    YOKEI_LLAMA_NUMBER(sliding_window, true, 0, YOKEI_LLAMA_MOST),
    { 0 },
};

/* The keys of the sliding window. The type of each layer may also be in a list, layer_types. */
struct windows {
    bool is_used;
    int64_t window, first; /* the window, and the first layer that has it */
};
static const struct yokei_json_field WINDOW_FIELDS[] = {
    { "use_sliding_window", YOKEI_JSON_BOOL, offsetof(struct windows, is_used), 0, false },
    { "sliding_window", YOKEI_JSON_I64, offsetof(struct windows, window), 0, false, 1, YOKEI_LLAMA_MOST },
    { "max_window_layers", YOKEI_JSON_I64, offsetof(struct windows, first), 0, false, 0, YOKEI_LLAMA_MOST },
    { 0 },
};
static const struct yokei_json_schema WINDOW_SCHEMA = { WINDOW_FIELDS, sizeof(struct windows), true,
                                                        YOKE_EDATA };

/* Whether layer_types, if it is given, has a layer with a sliding window. */
static bool lists_window(const json_t *types)
{
    size_t i;
    json_t *type;
    json_array_foreach((json_t *)(uintptr_t)types, i, type)
    {
        const char *text = json_string_value(type);
        if (text && strcmp(text, "sliding_attention") == 0) return true;
    }
    return false;
}

static yoke_status read_window(const char *path, const char *text, size_t bytes,
                               struct yoke_llama_config *config)
{
    static const struct yokei_config_field no_places[] = { { .key = NULL } };
    static const char *const nullable[] = { "sliding_window", NULL };
    struct windows w = { false, 4096, 28 }; /* transformers' values for missing keys */
    YOKE_TRY(yokei_config_parse(path, text, bytes, no_places, nullable, &WINDOW_SCHEMA, &w));
    json_t *root = json_loadb(text, bytes, 0, NULL);
    const json_t *types = json_object_get(root, "layer_types");
    if (!w.is_used) w.window = 0;
    const bool some = json_is_array(types) ? lists_window(types)
                                           : w.window && w.first < config->num_hidden_layers;
    json_decref(root);
    if (some && !w.window)
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: layer_types has \"sliding_attention\", but use_sliding_window and sliding_window give no window: make them agree",
            path);
    config->sliding_window = some ? w.window : 0;
    return YOKE_OK;
}

/* Transformers' values for missing keys. */
static const struct yokei_llama_file file = {
    .kind = &yokei_kind_qwen2,
    .standard = { .size = sizeof(struct yoke_llama_config),
                  .num_key_value_heads = 32,
                  .rms_norm_eps = 1e-6,
                  .rope_theta = 10000,
                  .initializer_range = 0.02,
                  .qkv_bias = true },
    .read_window = read_window,
};
static yoke_status read_config(const char *path, void *out) { return yokei_llama_read(&file, path, out); }

/* The keys of the sliding window stay as the model's source has them. */
static yoke_status write_config(const void *config, char **text_out)
{
    return yokei_llama_write(&file, config, text_out);
}

static yoke_status check(const void *config) { return yokei_llama_check(&yokei_kind_qwen2, config, true); }

const struct yokei_model_kind yokei_kind_qwen2 = {
    YOKEI_LLAMA_KIND(PLAN_FIELDS, check),
    .architecture = "Qwen2ForCausalLM",
    .presets = presets,
    .places = yokei_llama_places,
    .window = YOKEI_LLAMA_AT(sliding_window),
    .read = read_config,
    .write = write_config,
};
