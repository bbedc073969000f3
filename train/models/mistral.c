/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistral (Jiang et al. 2023, arXiv:2310.06825): Llama's layers, often with a head_dim of its own. All layers
 * may have a sliding window. Yoke computes no such window, so it refuses longer sequences.
 */
#include <jansson.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "train/models/llama.h"

/* clang-format off */
static const struct yokei_model_preset presets[] = {
    /* layers, heads, K/V heads, channels, hidden features, positions, words, eps, theta, initializer range */
    { "mistral-nano", YOKEI_LLAMA(2, 4, 2, 64, 96, 64, 256, 1e-5, 1e4, 0.02, .head_dim = 24) },
    /* version 0.3 of Mistral 7B, which has no sliding window */
    { "mistral-7b", YOKEI_LLAMA(32, 32, 8, 4096, 14336, 32768, 32768, 1e-5, 1e6, 0.02) },
    { "mistral-nemo-12b", YOKEI_LLAMA(40, 32, 8, 5120, 14336, 131072, 131072, 1e-5, 1e6, 0.02, .head_dim = 128) },
    { NULL, NULL },
};
/* clang-format on */

static const struct yokei_json_field PLAN_FIELDS[] = {
    YOKEI_LLAMA_FIELDS(true),
    YOKEI_LLAMA_NUMBER(sliding_window, true, 0, YOKEI_LLAMA_MOST),
    { 0 },
};

/* Llama and Qwen2 read the type's old name first. */
static const struct yokei_config_field places[] = { YOKEI_LLAMA_PLACES("rope_type", "type") };

static const struct yokei_json_field WINDOW_FIELDS[] = {
    YOKEI_LLAMA_NUMBER(sliding_window, false, 1, YOKEI_LLAMA_MOST),
    { 0 },
};
static const struct yokei_json_schema WINDOW_SCHEMA = { WINDOW_FIELDS, sizeof(struct yoke_llama_config), true,
                                                        YOKE_EDATA };

static yoke_status read_window(const char *path, const char *text, size_t bytes,
                               struct yoke_llama_config *config)
{
    static const struct yokei_config_field no_places[] = { { .key = NULL } };
    static const char *const nullable[] = { "sliding_window", NULL };
    config->sliding_window = 4096; /* transformers' value for a missing key; null means none */
    return yokei_config_parse(path, text, bytes, no_places, nullable, &WINDOW_SCHEMA, config);
}

/* Transformers' values for missing keys. */
static const struct yokei_llama_file file = {
    .kind = &yokei_kind_mistral,
    .standard = { .size = sizeof(struct yoke_llama_config),
                  .num_key_value_heads = 8,
                  .rms_norm_eps = 1e-6,
                  .rope_theta = 10000,
                  .initializer_range = 0.02 },
    .read_window = read_window,
};
static yoke_status read_config(const char *path, void *out) { return yokei_llama_read(&file, path, out); }

/* Readers assume a window if config.json has no sliding_window, so the key is always written. */
static yoke_status write_config(const void *config, char **text_out)
{
    const int64_t window = ((const struct yoke_llama_config *)config)->sliding_window;
    char *text;
    YOKE_TRY(yokei_llama_write(&file, config, &text));
    json_t *root = json_loads(text, 0, NULL);
    free(text);
    const bool failed = json_object_set_new(root, "sliding_window",
                                            window ? json_integer((json_int_t)window) : json_null());
    const yoke_status status = failed ? yoke_fail(YOKE_ENOMEM, "config.json: no host memory")
                                      : yokei_json_dump(root, text_out);
    json_decref(root);
    return status;
}

static yoke_status check(const void *config) { return yokei_llama_check(&yokei_kind_mistral, config, false); }

const struct yokei_model_kind yokei_kind_mistral = {
    YOKEI_LLAMA_KIND(PLAN_FIELDS, check),
    .architecture = "MistralForCausalLM",
    .presets = presets,
    .places = places,
    .window = YOKEI_LLAMA_AT(sliding_window),
    .read = read_config,
    .write = write_config,
};
