/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What models with Llama's layers share: the members of their kinds, and the reading and writing of their
 * config.json. Such a model has a file of its own, which says how it differs from Llama.
 */
#ifndef TRAIN_MODELS_LLAMA_H
#define TRAIN_MODELS_LLAMA_H

#include <stddef.h>

#include "train/layers/layers.h"
#include "train/models/kind.h"

enum {
    YOKEI_LLAMA_MOST = 16777216
}; /* with this limit, every product of two dimensions fits easily in 64 bits */

/** The configuration of a preset; more members may follow, such as .head_dim = 128. */
/* clang-format off */
#define YOKEI_LLAMA(layers, heads, kv_heads, channels, features, positions, words, eps, theta, std, ...) \
    &(const struct yoke_llama_config){ \
        .size = sizeof(struct yoke_llama_config), .num_hidden_layers = layers, .num_attention_heads = heads, \
        .num_key_value_heads = kv_heads, .hidden_size = channels, .intermediate_size = features, \
        .max_position_embeddings = positions, .vocab_size = words, .rms_norm_eps = eps, .rope_theta = theta, \
        .initializer_range = std, __VA_ARGS__ }

/** The members of a configuration in JSON. In config.json, those that have a usual value are not required. */
#define YOKEI_LLAMA_AT(member) offsetof(struct yoke_llama_config, member)
#define YOKEI_LLAMA_NUMBER(key, required, least, most) { #key, YOKEI_JSON_I64, YOKEI_LLAMA_AT(key), 0, required, least, most }
#define YOKEI_LLAMA_REAL(key, required, least, most) { #key, YOKEI_JSON_F64, YOKEI_LLAMA_AT(key), 0, required, least, most }
#define YOKEI_LLAMA_BOOL(key, required) { #key, YOKEI_JSON_BOOL, YOKEI_LLAMA_AT(key), 0, required }
#define YOKEI_LLAMA_FIELDS(rest_required) \
    YOKEI_LLAMA_NUMBER(hidden_size, true, 1, YOKEI_LLAMA_MOST), \
    YOKEI_LLAMA_NUMBER(intermediate_size, true, 1, YOKEI_LLAMA_MOST), \
    YOKEI_LLAMA_NUMBER(num_hidden_layers, true, 1, 10000), \
    YOKEI_LLAMA_NUMBER(num_attention_heads, true, 1, 65536), \
    YOKEI_LLAMA_NUMBER(num_key_value_heads, rest_required, 1, 65536), \
    YOKEI_LLAMA_NUMBER(head_dim, rest_required, 0, 65536), \
    YOKEI_LLAMA_NUMBER(vocab_size, true, 1, YOKEI_LLAMA_MOST), \
    YOKEI_LLAMA_NUMBER(max_position_embeddings, true, 1, YOKEI_LLAMA_MOST), \
    YOKEI_LLAMA_REAL(rms_norm_eps, rest_required, 1e-12, 1), \
    YOKEI_LLAMA_REAL(rope_theta, rest_required, 1, 1e18), \
    YOKEI_LLAMA_REAL(initializer_range, rest_required, 0, 10), \
    YOKEI_LLAMA_BOOL(tie_word_embeddings, rest_required), \
    YOKEI_LLAMA_REAL(attention_dropout, rest_required, 0, 1)
/* clang-format on */

/*
 * The fields of the rotation, which transformers reads at more than one place. Version 4 reads rope_theta at
 * the top level, and the type in rope_scaling, under the name `first` if it is there, else under `second`.
 * Version 5 keeps everything in one object, whose old name rope_scaling comes first.
 */
/* clang-format off */
#define YOKEI_LLAMA_ROPE "rope_scaling|rope_parameters"
#define YOKEI_LLAMA_PLACES(first, second) \
    { .key = "rope_theta", \
      .in_4 = { { NULL, "rope_theta" } }, \
      .in_5 = { { YOKEI_LLAMA_ROPE, "rope_theta" }, { NULL, "rope_theta" } } }, \
    { .key = "rope_type", \
      .in_4 = { { "rope_scaling", first }, { "rope_scaling", second } }, \
      .in_5 = { { YOKEI_LLAMA_ROPE, "rope_type" }, { YOKEI_LLAMA_ROPE, "type" } }, \
      .only = "\"default\"", \
      .why = "Yoke turns by rope_theta alone (\"default\")" }, \
    { .key = "partial_rotary_factor", \
      .in_4 = { { NULL, "partial_rotary_factor" } }, \
      .in_5 = { { YOKEI_LLAMA_ROPE, "partial_rotary_factor" }, { NULL, "partial_rotary_factor" } }, \
      .only = "1.0", \
      .why = "Yoke turns all channels of a head" }, \
    { .key = NULL }
/* clang-format on */

/** How config.json of a kind differs from config.json of Llama. */
struct yokei_llama_file {
    const struct yokei_model_kind *kind;
    struct yoke_llama_config standard; /* transformers' values for missing keys */
    bool names_biases;                 /* attention_bias and mlp_bias mean something, and must be false */
    /*
     * set config->sliding_window from the text of config.json, whose name is `path`; NULL: there is no window
     */
    yoke_status (*read_window)(const char *path, const char *text, size_t bytes,
                               struct yoke_llama_config *config);
};
/** The functions read and write of a kind (kind.h). */
yoke_status yokei_llama_read(const struct yokei_llama_file *file, const char *path, void *config_out);
yoke_status yokei_llama_write(const struct yokei_llama_file *file, const void *config, char **text_out);

/* The other members of a kind, as kind.h explains them. */
extern const struct yokei_config_field yokei_llama_places[];
int64_t yokei_llama_n_weights(const void *config);
void yokei_llama_weight(const void *config, int64_t index, struct yokei_weight *weight_out);
double yokei_llama_flops(const void *config, int64_t sequence);
void yokei_llama_describe(const void *config, char *text, size_t bytes);
bool yokei_llama_is_table(const char *name);
/** yoke_llama_check, and whether q, k and v have biases as the kind wants it. */
yoke_status yokei_llama_check(const struct yokei_model_kind *kind, const void *config, bool qkv_bias);
yoke_status yokei_llama_create(const void *config, yoke_model **model_out);
#define YOKEI_LLAMA_KIND(fields, check_)                                                            \
    .schema = { fields, sizeof(struct yoke_llama_config), false, YOKE_ECONFIG },                    \
    .n_layers = YOKEI_LLAMA_AT(num_hidden_layers), .n_heads = YOKEI_LLAMA_AT(num_attention_heads),  \
    .n_positions = YOKEI_LLAMA_AT(max_position_embeddings), .n_words = YOKEI_LLAMA_AT(vocab_size),  \
    .dropouts = { { YOKEI_LLAMA_AT(attention_dropout), "attention" } }, .check = check_,            \
    .create = yokei_llama_create, .n_weights = yokei_llama_n_weights, .weight = yokei_llama_weight, \
    .flops = yokei_llama_flops, .describe = yokei_llama_describe, .is_table = yokei_llama_is_table, \
    .tied = " (tie_word_embeddings)"

#endif
