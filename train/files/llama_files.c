/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/llama_files.h"

#include <stddef.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/config_places.h"
#include "train/files/map.h"

/*
 * The content of config.json: the shape, and the keys that may have only one value because Yoke computes
 * nothing else.
 */
struct config_file {
    struct yoke_llama_config shape;
    char model_type[32], activation[32];
    bool attention_bias, mlp_bias;
};

#define MEMBER(member) offsetof(struct yoke_llama_config, member), 0
#define MAX_DIM 16777216 /* with this limit, every product of two dimensions fits easily in 64 bits */
#define SHAPE_FIELDS(rest_required)                                                                       \
    { "hidden_size", YOKEI_JSON_I64, MEMBER(hidden_size), true, 1, MAX_DIM },                             \
        { "intermediate_size", YOKEI_JSON_I64, MEMBER(intermediate_size), true, 1, MAX_DIM },             \
        { "num_hidden_layers", YOKEI_JSON_I64, MEMBER(num_hidden_layers), true, 1, 10000 },               \
        { "num_attention_heads", YOKEI_JSON_I64, MEMBER(num_attention_heads), true, 1, 65536 },           \
        { "num_key_value_heads", YOKEI_JSON_I64, MEMBER(num_key_value_heads), rest_required, 1, 65536 },  \
        { "head_dim", YOKEI_JSON_I64, MEMBER(head_dim), rest_required, 0, 65536 },                        \
        { "vocab_size", YOKEI_JSON_I64, MEMBER(vocab_size), true, 1, MAX_DIM },                           \
        { "max_position_embeddings", YOKEI_JSON_I64, MEMBER(max_position_embeddings), true, 1, MAX_DIM }, \
        { "rms_norm_eps", YOKEI_JSON_F64, MEMBER(rms_norm_eps), rest_required, 1e-12, 1 },                \
        { "rope_theta", YOKEI_JSON_F64, MEMBER(rope_theta), rest_required, 1, 1e18 },                     \
        { "initializer_range", YOKEI_JSON_F64, MEMBER(initializer_range), rest_required, 0, 10 },         \
        { "tie_word_embeddings", YOKEI_JSON_BOOL, MEMBER(tie_word_embeddings), rest_required },           \
    {                                                                                                     \
        "attention_dropout", YOKEI_JSON_F64, MEMBER(attention_dropout), rest_required, 0, 1               \
    }

static const struct yokei_json_field PLAN_FIELDS[] = { SHAPE_FIELDS(true), { 0 } };
const struct yokei_json_schema yokei_llama_schema = { PLAN_FIELDS, sizeof(struct yoke_llama_config), false,
                                                      YOKE_ECONFIG };

#define OTHER(member) offsetof(struct config_file, member), sizeof(((struct config_file *)0)->member)
static const struct yokei_json_field FILE_FIELDS[] = {
    { "model_type", YOKEI_JSON_TEXT, OTHER(model_type), false },
    SHAPE_FIELDS(false), /* the shape is the first member, so the offsets agree */
    { "hidden_act", YOKEI_JSON_TEXT, OTHER(activation), false },
    { "attention_bias", YOKEI_JSON_BOOL, OTHER(attention_bias), false },
    { "mlp_bias", YOKEI_JSON_BOOL, OTHER(mlp_bias), false },
    { 0 },
};
static const struct yokei_json_schema FILE_SCHEMA = { FILE_FIELDS, sizeof(struct config_file), true,
                                                      YOKE_EDATA };
_Static_assert(offsetof(struct config_file, shape) == 0, "SHAPE_FIELDS are offsets into the shape");

/* Hugging Face's values for missing keys. */
static const struct config_file STANDARD = {
    .shape = { .size = sizeof(struct yoke_llama_config),
               .rms_norm_eps = 1e-6,
               .rope_theta = 10000,
               .initializer_range = 0.02 },
    .model_type = "llama",
    .activation = "silu",
};

static yoke_status check_computed(const struct config_file *config, const char *path)
{
    if (strcmp(config->model_type, "llama") != 0)
        return yoke_fail(YOKE_ECONFIG, "%s: model_type is \"%s\"; \"llama\" is wanted here", path,
                         config->model_type);
    if (strcmp(config->activation, "silu") != 0)
        return yoke_fail(YOKE_ECONFIG, "%s: hidden_act is \"%s\"; Yoke computes Llama with \"silu\"", path,
                         config->activation);
    if (config->attention_bias || config->mlp_bias)
        return yoke_fail(YOKE_ECONFIG, "%s: %s is true, which is not computed: Yoke's Llama has no biases",
                         path, config->attention_bias ? "attention_bias" : "mlp_bias");
    return YOKE_OK;
}

/*
 * Version 4 of transformers reads rope_theta at the top level, and the type in rope_scaling. Version 5 keeps
 * everything in one object, whose old name rope_scaling comes first.
 */
#define ROPE "rope_scaling|rope_parameters"
const struct yokei_config_field yokei_llama_places[] = {
    { .key = "rope_theta",
      .in_4 = { { NULL, "rope_theta" } },
      .in_5 = { { ROPE, "rope_theta" }, { NULL, "rope_theta" } } },
    { .key = "rope_type",
      .in_4 = { { "rope_scaling", "type" }, { "rope_scaling", "rope_type" } },
      .in_5 = { { ROPE, "rope_type" }, { ROPE, "type" } },
      .only = "\"default\"",
      .why = "Yoke turns by rope_theta alone (\"default\")" },
    { .key = "partial_rotary_factor",
      .in_4 = { { NULL, "partial_rotary_factor" } },
      .in_5 = { { ROPE, "partial_rotary_factor" }, { NULL, "partial_rotary_factor" } },
      .only = "1.0",
      .why = "Yoke turns all channels of a head" },
    { .key = NULL },
};

yoke_status yokei_llama_config_read(const char *path, struct yoke_llama_config *config_out)
{
    struct yokei_map map;
    char file[4096];
    yokei_text(file, sizeof file, yokei_is_folder(path) ? "%s/config.json" : "%s", path);
    YOKE_TRY(yokei_map_open(file, YOKE_EDATA, &map));
    struct config_file config = STANDARD;
    static const char *const nullable[] = { "head_dim", "num_key_value_heads", NULL };
    const yoke_status parsed = yokei_config_parse(file, (const char *)map.data, map.bytes, yokei_llama_places,
                                                  nullable, &FILE_SCHEMA, &config);
    yokei_map_close(&map);
    YOKE_TRY(parsed);
    if (!config.shape.num_key_value_heads)
        config.shape.num_key_value_heads = config.shape.num_attention_heads;
    YOKE_TRY(check_computed(&config, file));
    const yoke_status status = yoke_llama_check(&config.shape);
    if (status) return yoke_fail_context(status, "%s", file);
    *config_out = config.shape;
    return YOKE_OK;
}

yoke_status yokei_llama_config_text(const struct yoke_llama_config *config, char **text_out)
{
    YOKE_TRY(yoke_llama_check(config));
    struct config_file file = STANDARD;
    file.shape = *config;
    if (!file.shape.head_dim) file.shape.head_dim = config->hidden_size / config->num_attention_heads;
    return yokei_json_text(&FILE_SCHEMA, &file, true, false, text_out);
}

enum { PER_LAYER = 9 };
static const struct {
    const char *name;
    int kind;
} LAYER[PER_LAYER] = {
    { "input_layernorm.weight", 0 },  { "self_attn.q_proj.weight", 1 },
    { "self_attn.k_proj.weight", 2 }, { "self_attn.v_proj.weight", 2 },
    { "self_attn.o_proj.weight", 3 }, { "post_attention_layernorm.weight", 0 },
    { "mlp.gate_proj.weight", 4 },    { "mlp.up_proj.weight", 4 },
    { "mlp.down_proj.weight", 5 },
};

int64_t yokei_llama_n_tensors(const struct yoke_llama_config *config)
{
    return 1 + PER_LAYER * config->num_hidden_layers + 1 + (config->tie_word_embeddings ? 0 : 1);
}

yoke_status yokei_llama_tensor(const struct yoke_llama_config *c, int64_t index,
                               struct yokei_gpt2_tensor *tensor_out)
{
    const int64_t n = yokei_llama_n_tensors(c), C = c->hidden_size, F = c->intermediate_size,
                  last = 1 + PER_LAYER * c->num_hidden_layers;
    const int64_t D = c->head_dim ? c->head_dim : C / c->num_attention_heads, q = c->num_attention_heads * D,
                  kv = c->num_key_value_heads * D;
    const int64_t shapes[6][2] = { { C, 0 }, { q, C }, { kv, C }, { C, q }, { F, C }, { C, F } };
    if (index < 0 || index >= n)
        return yoke_fail(YOKE_EINVAL, "Llama tensor %lld does not exist; there are %lld", (long long)index,
                         (long long)n);
    struct yokei_gpt2_tensor tensor = { .n_dims = 2, .is_matrix = true };
    if (index == 0 || index == last + 1) {
        yokei_text(tensor.name, sizeof tensor.name, "%s.weight", index ? "lm_head" : "model.embed_tokens");
        tensor.shape[0] = c->vocab_size, tensor.shape[1] = C;
    } else if (index == last) {
        yokei_text(tensor.name, sizeof tensor.name, "model.norm.weight");
        tensor.shape[0] = C;
    } else {
        const int64_t layer = (index - 1) / PER_LAYER, which = (index - 1) % PER_LAYER;
        yokei_text(tensor.name, sizeof tensor.name, "model.layers.%lld.%s", (long long)layer,
                   LAYER[which].name);
        memcpy(tensor.shape, shapes[LAYER[which].kind], sizeof tensor.shape);
    }
    if (!tensor.shape[1]) tensor.n_dims = 1, tensor.is_matrix = false;
    *tensor_out = tensor;
    return YOKE_OK;
}
