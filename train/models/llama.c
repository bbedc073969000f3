/* SPDX-License-Identifier: Apache-2.0 */
/* Llama: its named sizes, its list of layers, and its files in Hugging Face's format. */
#include "train/models/llama.h"
#include <string.h>
#include "core/base/base.h"
#include "train/files/map.h"
#include "train/models/model.h"

/* clang-format off */
static const struct yokei_model_preset presets[] = {
    /* layers, heads, K/V heads, channels, hidden features, positions, words, eps, theta, initializer range */
    { "llama-nano", YOKEI_LLAMA(2, 4, 2, 64, 176, 64, 256, 1e-5, 10000, 0.02) },
    /* with the same considerations as GPT-2's micro */
    { "llama-micro", YOKEI_LLAMA(4, 8, 4, 256, 688, 64, 256, 1e-5, 10000, 0.04) },
    { NULL, NULL },
};
/* clang-format on */

yoke_status yoke_llama_preset(const char *name, struct yoke_llama_config *config_out)
{
    return yokei_preset_copy("yoke_llama_preset", &yokei_kind_llama, name, config_out);
}

static yoke_status add_layers(yoke_model *model, const struct yoke_llama_config *config)
{
    const int64_t C = config->hidden_size;
    char name[64];
    YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_embedding, "model.embed_tokens", 0, C, config));
    for (int64_t l = 0; l < config->num_hidden_layers; l++) {
        yokei_text(name, sizeof name, "model.layers.%lld.self_attn", (long long)l);
        YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_attention, name, C, C, config));
        yokei_text(name, sizeof name, "model.layers.%lld.mlp", (long long)l);
        YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_mlp, name, C, C, config));
    }
    YOKE_TRY(yoke_model_add(model, &yoke_layer_llama_norm, "model.norm", C, C, config));
    return yoke_model_add(model, &yoke_layer_llama_head, "lm_head", C, config->vocab_size, config);
}

yoke_status yoke_model_llama(const struct yoke_llama_config *config, yoke_model **model_out)
{
    yoke_model *model = NULL;
    if (!model_out) return yoke_fail(YOKE_EINVAL, "yoke_model_llama: model_out is null");
    YOKE_TRY(yoke_llama_check(config));
    YOKE_TRY(yoke_model_create(&model));
    const yoke_status status = add_layers(model, config);
    if (status) {
        yoke_model_destroy(model);
        return status;
    }
    model->before = 1;
    model->per_block = 2;
    model->after = 2;
    *model_out = model;
    return YOKE_OK;
}

/* ---- files ---- */

/*
 * The content of config.json: the shape, and the keys that may have only one value because Yoke computes
 * nothing else.
 */
struct config_file {
    struct yoke_llama_config shape;
    char model_type[32], activation[32];
    bool attention_bias, mlp_bias;
};

static const struct yokei_json_field PLAN_FIELDS[] = { YOKEI_LLAMA_FIELDS(true), { 0 } };

#define OTHER(member) offsetof(struct config_file, member), sizeof(((struct config_file *)0)->member)
/* clang-format off */
#define FILE_FIELDS \
    { "model_type", YOKEI_JSON_TEXT, OTHER(model_type), false }, \
    YOKEI_LLAMA_FIELDS(false), /* the shape is the first member, so the offsets agree */ \
    { "hidden_act", YOKEI_JSON_TEXT, OTHER(activation), false }
static const struct yokei_json_field PLAIN_FIELDS[] = { FILE_FIELDS, { 0 } };
static const struct yokei_json_field BIAS_FIELDS[] = {
    FILE_FIELDS,
    { "attention_bias", YOKEI_JSON_BOOL, OTHER(attention_bias), false },
    { "mlp_bias", YOKEI_JSON_BOOL, OTHER(mlp_bias), false },
    { 0 },
};
/* clang-format on */
static struct yokei_json_schema schema_of(const struct yokei_llama_file *file)
{
    return (struct yokei_json_schema){ file->names_biases ? BIAS_FIELDS : PLAIN_FIELDS,
                                       sizeof(struct config_file), true, YOKE_EDATA };
}
_Static_assert(offsetof(struct config_file, shape) == 0, "YOKEI_LLAMA_FIELDS are offsets into the shape");

/* Hugging Face's values for missing keys. 0 K/V heads: as many as heads. */
static const struct yokei_llama_file llama_file = {
    .kind = &yokei_kind_llama,
    .standard = { .size = sizeof(struct yoke_llama_config),
                  .rms_norm_eps = 1e-6,
                  .rope_theta = 10000,
                  .initializer_range = 0.02 },
    .names_biases = true,
};

static struct config_file standard_of(const struct yokei_llama_file *file)
{
    struct config_file config = { .shape = file->standard, .activation = "silu" };
    yokei_text(config.model_type, sizeof config.model_type, "%s", yokei_model_row_of(file->kind)->type);
    return config;
}

static yoke_status check_computed(const struct yokei_llama_file *file, const struct config_file *config,
                                  const char *path)
{
    const struct yokei_model_row *row = yokei_model_row_of(file->kind);
    if (strcmp(config->model_type, row->type) != 0)
        return yoke_fail(YOKE_ECONFIG, "%s: model_type is \"%s\"; \"%s\" is wanted here", path,
                         config->model_type, row->type);
    if (strcmp(config->activation, "silu") != 0)
        return yoke_fail(YOKE_ECONFIG, "%s: hidden_act is \"%s\"; Yoke computes %s with \"silu\"", path,
                         config->activation, row->name);
    if (file->names_biases && (config->attention_bias || config->mlp_bias))
        return yoke_fail(YOKE_ECONFIG, "%s: %s is true, which is not computed: Yoke's %s has no biases", path,
                         config->attention_bias ? "attention_bias" : "mlp_bias", row->name);
    return YOKE_OK;
}

const struct yokei_config_field yokei_llama_places[] = { YOKEI_LLAMA_PLACES("type", "rope_type") };

static yoke_status read_text(const struct yokei_llama_file *f, const char *name, const char *text,
                             size_t bytes, struct yoke_llama_config *config_out)
{
    struct config_file config = standard_of(f);
    const struct yokei_json_schema schema = schema_of(f);
    static const char *const nullable[] = { "head_dim", "num_key_value_heads", NULL };
    YOKE_TRY(yokei_config_parse(name, text, bytes, f->kind->places, nullable, &schema, &config));
    if (!config.shape.num_key_value_heads)
        config.shape.num_key_value_heads = config.shape.num_attention_heads;
    YOKE_TRY(check_computed(f, &config, name));
    if (f->read_window) YOKE_TRY(f->read_window(name, text, bytes, &config.shape));
    const yoke_status status = yoke_llama_check(&config.shape);
    if (status) return yoke_fail_context(status, "%s", name);
    *config_out = config.shape;
    return YOKE_OK;
}

yoke_status yokei_llama_read(const struct yokei_llama_file *f, const char *path, void *config_out)
{
    struct yokei_map map;
    char name[4096];
    yokei_text(name, sizeof name, yokei_is_folder(path) ? "%s/config.json" : "%s", path);
    YOKE_TRY(yokei_map_open(name, YOKE_EDATA, &map));
    const yoke_status status = read_text(f, name, (const char *)map.data, map.bytes, config_out);
    yokei_map_close(&map);
    return status;
}

yoke_status yokei_llama_write(const struct yokei_llama_file *f, const void *config, char **text_out)
{
    YOKE_TRY(f->kind->check(config));
    struct config_file file = standard_of(f);
    file.shape = *(const struct yoke_llama_config *)config;
    file.shape.head_dim = yokei_llama_head_dim(config);
    const struct yokei_json_schema schema = schema_of(f);
    return yokei_json_text(&schema, &file, true, false, text_out);
}

static yoke_status read_config(const char *path, void *out)
{
    return yokei_llama_read(&llama_file, path, out);
}
static yoke_status write_config(const void *config, char **out)
{
    return yokei_llama_write(&llama_file, config, out);
}

/* The weights of a layer, in the order in which the layers declare them. Biases may be left out. */
static const struct {
    const char *name;
    int kind;
    bool is_bias;
} LAYER[] = {
    { "input_layernorm.weight", 0, false },
    { "self_attn.q_proj.weight", 1, false },
    { "self_attn.k_proj.weight", 2, false },
    { "self_attn.v_proj.weight", 2, false },
    { "self_attn.o_proj.weight", 3, false },
    { "self_attn.q_proj.bias", 6, true },
    { "self_attn.k_proj.bias", 7, true },
    { "self_attn.v_proj.bias", 7, true },
    { "post_attention_layernorm.weight", 0, false },
    { "mlp.gate_proj.weight", 4, false },
    { "mlp.up_proj.weight", 4, false },
    { "mlp.down_proj.weight", 5, false },
};

static int64_t per_layer(const struct yoke_llama_config *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < YOKE_COUNT(LAYER); i++) n += c->qkv_bias || !LAYER[i].is_bias;
    return n;
}

/* The embedding, the weights of each layer, the last norm, and the head if it is not tied. */
int64_t yokei_llama_n_weights(const void *config)
{
    const struct yoke_llama_config *c = config;
    return 1 + per_layer(c) * c->num_hidden_layers + 1 + (c->tie_word_embeddings ? 0 : 1);
}

static void layer_weight(const struct yoke_llama_config *c, int64_t layer, int64_t which,
                         struct yokei_weight *out)
{
    const int64_t C = c->hidden_size, F = c->intermediate_size, D = yokei_llama_head_dim(c),
                  q = c->num_attention_heads * D, kv = c->num_key_value_heads * D;
    const int64_t shapes[8][2] = { { C, 0 }, { q, C }, { kv, C }, { C, q },
                                   { F, C }, { C, F }, { q, 0 },  { kv, 0 } };
    size_t i = 0;
    for (;; i++)
        if ((c->qkv_bias || !LAYER[i].is_bias) && which-- == 0) break;
    yokei_text(out->name, sizeof out->name, "model.layers.%lld.%s", (long long)layer, LAYER[i].name);
    memcpy(out->shape, shapes[LAYER[i].kind], sizeof out->shape);
}

void yokei_llama_weight(const void *config, int64_t index, struct yokei_weight *out)
{
    const struct yoke_llama_config *c = config;
    const int64_t n = per_layer(c), last = 1 + n * c->num_hidden_layers;
    out->shape[0] = index == last ? c->hidden_size : c->vocab_size;
    out->shape[1] = index == last ? 0 : c->hidden_size;
    if (index == 0 || index >= last)
        yokei_text(out->name, sizeof out->name, "%s.weight",
                   index == 0      ? "model.embed_tokens"
                   : index == last ? "model.norm"
                                   : "lm_head");
    else
        layer_weight(c, (index - 1) / n, (index - 1) % n, out);
    out->is_matrix = out->shape[1] > 0;
    out->n_dims = out->is_matrix ? 2 : 1;
}

double yokei_llama_flops(const void *config, int64_t sequence)
{
    const struct yoke_llama_config *c = config;
    const double C = (double)c->hidden_size, F = (double)c->intermediate_size,
                 L = (double)c->num_hidden_layers, D = (double)yokei_llama_head_dim(c);
    const double q = (double)c->num_attention_heads * D, kv = (double)c->num_key_value_heads * D;
    return 6 * (L * (C * (2 * q + 2 * kv) + 3 * C * F) + C * (double)c->vocab_size)
           + 12 * L * q * (double)sequence;
}

void yokei_llama_describe(const void *config, char *text, size_t bytes)
{
    const struct yoke_llama_config *c = config;
    yokei_text(text, bytes,
               "%lld layers, %lld heads, %lld K/V heads, %lld and %lld channels, %lld positions, %lld tokens",
               (long long)c->num_hidden_layers, (long long)c->num_attention_heads,
               (long long)c->num_key_value_heads, (long long)c->hidden_size, (long long)c->intermediate_size,
               (long long)c->max_position_embeddings, (long long)c->vocab_size);
}

/* A table of angles, which older files store. */
bool yokei_llama_is_table(const char *name)
{
    static const char angles[] = ".rotary_emb.inv_freq";
    const size_t n = strlen(name);
    return n >= sizeof angles - 1 && strcmp(name + n - (sizeof angles - 1), angles) == 0;
}

yoke_status yokei_llama_check(const struct yokei_model_kind *kind, const void *config, bool qkv_bias)
{
    YOKE_TRY(yoke_llama_check(config));
    if (((const struct yoke_llama_config *)config)->qkv_bias == qkv_bias) return YOKE_OK;
    return yoke_fail(YOKE_ECONFIG, "qkv_bias is %s: the projections to q, k and v of a %s have %s",
                     qkv_bias ? "false" : "true", yokei_model_row_of(kind)->name,
                     qkv_bias ? "biases" : "none");
}

static yoke_status check(const void *config) { return yokei_llama_check(&yokei_kind_llama, config, false); }
yoke_status yokei_llama_create(const void *config, yoke_model **model_out)
{
    return yoke_model_llama(config, model_out);
}

const struct yokei_model_kind yokei_kind_llama = {
    YOKEI_LLAMA_KIND(PLAN_FIELDS, check),
    .architecture = "LlamaForCausalLM",
    .presets = presets,
    .places = yokei_llama_places,
    .read = read_config,
    .write = write_config,
};
