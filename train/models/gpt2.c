/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: its named sizes, its list of layers, and its files in Hugging Face's format. */
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include "core/base/base.h"
#include "train/files/map.h"
#include "train/layers/layers.h"
#include "train/models/kind.h"
#include "train/models/model.h"

/* clang-format off */
#define SIZES(layers, heads, channels, positions, words, std) \
    &(const struct yoke_gpt2_config){ \
        .size = sizeof(struct yoke_gpt2_config), .n_layer = layers, .n_head = heads, .n_embd = channels, \
        .n_positions = positions, .vocab_size = words, .layer_norm_epsilon = 1e-5, .initializer_range = std }
static const struct yokei_model_preset presets[] = {
    { "nano", SIZES(2, 4, 64, 64, 256, 0.02) },
    /*
     * This size is for training runs of a few minutes. With sequences of 64 bytes, attention begins to help
     * after a fifth of the tokens that it needs with 128 bytes. The initializer range 0.04 suits 256 channels
     * better than 0.02, which was chosen for 768 and more channels.
     */
    { "micro", SIZES(4, 8, 256, 64, 256, 0.04) },
    { "124m", SIZES(12, 12, 768, 1024, 50257, 0.02) },
    { NULL, NULL },
};
/* clang-format on */

yoke_status yoke_gpt2_preset(const char *name, struct yoke_gpt2_config *config_out)
{
    return yokei_preset_copy("yoke_gpt2_preset", &yokei_kind_gpt2, name, config_out);
}

yoke_status yoke_model_gpt2(const struct yoke_gpt2_config *config, yoke_model **model_out)
{
    yoke_status status = YOKE_OK;
    yoke_model *model = NULL;
    if (!model_out) return yoke_fail(YOKE_EINVAL, "yoke_model_gpt2: model_out is null");
    YOKE_TRY(yoke_gpt2_check(config));
    int64_t C = config->n_embd;
    char name[64];
    YOKE_TRY(yoke_model_create(&model));
    YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_embedding, "embedding", 0, C, config),
                  destroy_model);
    for (int64_t l = 0; l < config->n_layer; l++) {
        yokei_text(name, sizeof name, "h.%lld.attn", (long long)l);
        YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_attention, name, C, C, config), destroy_model);
        yokei_text(name, sizeof name, "h.%lld.mlp", (long long)l);
        YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_mlp, name, C, C, config), destroy_model);
    }
    YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_norm, "ln_f", C, C, config), destroy_model);
    YOKE_TRY_GOTO(yoke_model_add(model, &yoke_layer_gpt2_head, "head", C, config->vocab_size, config),
                  destroy_model);
    model->before = 1;
    model->per_block = 2;
    model->after = 2;
    *model_out = model;
    return YOKE_OK;
destroy_model:
    yoke_model_destroy(model);
    return status;
}

/* ---- files ---- */

/*
 * The content of config.json: the shape, and the keys that may have only one value because Yoke computes
 * nothing else.
 */
struct config_file {
    struct yoke_gpt2_config shape;
    char model_type[32], activation[32];
    int64_t n_inner;
    bool tied, scale, scale_by_layer, reorder, cross;
};

#define MEMBER(member) offsetof(struct yoke_gpt2_config, member), 0
#define MAX_DIM 16777216 /* with this limit, every product of two dimensions fits easily in 64 bits */
#define SHAPE_FIELDS                                                              \
    { "n_layer", YOKEI_JSON_I64, MEMBER(n_layer), true, 1, 10000 },               \
        { "n_head", YOKEI_JSON_I64, MEMBER(n_head), true, 1, 65536 },             \
        { "n_embd", YOKEI_JSON_I64, MEMBER(n_embd), true, 1, MAX_DIM },           \
        { "n_positions", YOKEI_JSON_I64, MEMBER(n_positions), true, 1, MAX_DIM }, \
    {                                                                             \
        "vocab_size", YOKEI_JSON_I64, MEMBER(vocab_size), true, 1, MAX_DIM        \
    }

#define DROPOUT_FIELDS(required)                                              \
    { "resid_pdrop", YOKEI_JSON_F64, MEMBER(resid_pdrop), required, 0, 1 },   \
        { "embd_pdrop", YOKEI_JSON_F64, MEMBER(embd_pdrop), required, 0, 1 }, \
    {                                                                         \
        "attn_pdrop", YOKEI_JSON_F64, MEMBER(attn_pdrop), required, 0, 1      \
    }

static const struct yokei_json_field PLAN_FIELDS[] = {
    SHAPE_FIELDS,
    { "layer_norm_epsilon", YOKEI_JSON_F64, MEMBER(layer_norm_epsilon), true, 1e-12, 1 },
    { "initializer_range", YOKEI_JSON_F64, MEMBER(initializer_range), true, 0, 10 },
    DROPOUT_FIELDS(true),
    { 0 },
};

#define OTHER(member) offsetof(struct config_file, member), sizeof(((struct config_file *)0)->member)
static const struct yokei_json_field FILE_FIELDS[] = {
    { "model_type", YOKEI_JSON_TEXT, OTHER(model_type), false },
    SHAPE_FIELDS, /* the shape is the first member, so the offsets agree */
    { "n_inner", YOKEI_JSON_I64, OTHER(n_inner), false, 1, MAX_DIM },
    { "activation_function", YOKEI_JSON_TEXT, OTHER(activation), false },
    { "layer_norm_epsilon", YOKEI_JSON_F64, MEMBER(layer_norm_epsilon), false, 1e-12, 1 },
    { "initializer_range", YOKEI_JSON_F64, MEMBER(initializer_range), false, 0, 10 },
    DROPOUT_FIELDS(false),
    { "tie_word_embeddings", YOKEI_JSON_BOOL, OTHER(tied), false },
    { "scale_attn_weights", YOKEI_JSON_BOOL, OTHER(scale), false },
    { "scale_attn_by_inverse_layer_idx", YOKEI_JSON_BOOL, OTHER(scale_by_layer), false },
    { "reorder_and_upcast_attn", YOKEI_JSON_BOOL, OTHER(reorder), false },
    { "add_cross_attention", YOKEI_JSON_BOOL, OTHER(cross), false },
    { 0 },
};
static const struct yokei_json_schema FILE_SCHEMA = { FILE_FIELDS, sizeof(struct config_file), true,
                                                      YOKE_EDATA };
_Static_assert(offsetof(struct config_file, shape) == 0, "SHAPE_FIELDS are offsets into the shape");

static const struct config_file STANDARD = {
    .shape = { .size = sizeof(struct yoke_gpt2_config),
               .layer_norm_epsilon = 1e-5,
               .initializer_range = 0.02,
               .resid_pdrop = 0.1,
               .embd_pdrop = 0.1,
               .attn_pdrop = 0.1 }, /* Hugging Face's values for missing keys */
    .model_type = "gpt2",
    .activation = "gelu_new",
    .tied = true,
    .scale = true,
};

static yoke_status check_computed(const struct config_file *config, const char *path)
{
    const char *act = config->activation;
    if (strcmp(config->model_type, "gpt2") != 0)
        return yoke_fail(YOKE_ECONFIG, "%s: model_type is \"%s\"; \"gpt2\" is wanted here", path,
                         config->model_type);
    /* gelu_pytorch_tanh and gelu_new are the same formula. */
    if (strcmp(act, "gelu_new") != 0 && strcmp(act, "gelu_pytorch_tanh") != 0)
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: activation_function is \"%s\"; Yoke computes GPT-2 with \"gelu_new\" (the tanh formula)%s",
            path, act, strcmp(act, "gelu") == 0 ? ", and \"gelu\" is the erf formula" : "");
    const struct {
        bool wrong;
        const char *key, *value, *why;
    } rules[] = {
        { !config->tied, "tie_word_embeddings", "false", "Yoke's GPT-2 uses wte as its output matrix" },
        { !config->scale, "scale_attn_weights", "false",
          "Yoke divides attention scores by the root of the head's width" },
        { config->scale_by_layer, "scale_attn_by_inverse_layer_idx", "true",
          "Yoke does not scale attention by the layer's number" },
        { config->cross, "add_cross_attention", "true", "Yoke has no cross attention" },
    };
    for (size_t i = 0; i < YOKE_COUNT(rules); i++)
        if (rules[i].wrong)
            return yoke_fail(YOKE_ECONFIG, "%s: %s is %s, which is not computed: %s", path, rules[i].key,
                             rules[i].value, rules[i].why);
    return YOKE_OK; /* reorder_and_upcast_attn changes only rounding */
}

/* Check the keys beside the shape. */
static yoke_status check_shape(const struct config_file *config, const char *path)
{
    int64_t C = config->shape.n_embd;
    if (config->n_inner != 4 * C)
        return yoke_fail(YOKE_ECONFIG, "%s: n_inner is %lld; Yoke computes GPT-2 with 4 n_embd = %lld", path,
                         (long long)config->n_inner, 4 * (long long)C);
    if (C % config->shape.n_head)
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: n_embd %lld is not a multiple of n_head %lld; every head must have the same width", path,
            (long long)C, (long long)config->shape.n_head);
    const yoke_status status = yoke_gpt2_check(&config->shape);
    return status ? yoke_fail_context(status, "%s", path) : YOKE_OK;
}

/* The names that transformers has for all models come first, because it sets them after GPT-2's own names. */
#define TWO_NAMES(all, own)                                                                            \
    {                                                                                                  \
        .key = own, .in_4 = { { NULL, all }, { NULL, own } }, .in_5 = { { NULL, all }, { NULL, own } } \
    }
static const struct yokei_config_field places[] = {
    TWO_NAMES("hidden_size", "n_embd"),
    TWO_NAMES("num_hidden_layers", "n_layer"),
    TWO_NAMES("num_attention_heads", "n_head"),
    TWO_NAMES("max_position_embeddings", "n_positions"),
    { .key = NULL },
};

static yoke_status read_config(const char *path, void *config_out)
{
    struct stat info;
    struct yokei_map map;
    char file[4096];
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    yokei_text(file, sizeof file, is_folder ? "%s/config.json" : "%s", path);
    YOKE_TRY(yokei_map_open(file, YOKE_EDATA, &map));
    struct config_file config = STANDARD;
    /* Hugging Face writes 4 n_embd as null */
    static const char *const nullable[] = { "n_inner", NULL };
    const yoke_status status = yokei_config_parse(file, (const char *)map.data, map.bytes, places, nullable,
                                                  &FILE_SCHEMA, &config);
    yokei_map_close(&map);
    YOKE_TRY(status);
    if (config.n_inner == 0) config.n_inner = 4 * config.shape.n_embd;
    YOKE_TRY(check_computed(&config, file));
    YOKE_TRY(check_shape(&config, file));
    *(struct yoke_gpt2_config *)config_out = config.shape;
    return YOKE_OK;
}

static yoke_status write_config(const void *config, char **text_out)
{
    YOKE_TRY(yoke_gpt2_check(config));
    struct config_file file = STANDARD;
    file.shape = *(const struct yoke_gpt2_config *)config;
    file.n_inner = 4 * file.shape.n_embd;
    return yokei_json_text(&FILE_SCHEMA, &file, true, false, text_out);
}

enum { PER_LAYER = 12 };
static const struct {
    const char *name;
    int kind;
} LAYER[PER_LAYER] = {
    { "ln_1.weight", 0 },      { "ln_1.bias", 0 },          { "attn.c_attn.weight", 1 },
    { "attn.c_attn.bias", 2 }, { "attn.c_proj.weight", 3 }, { "attn.c_proj.bias", 0 },
    { "ln_2.weight", 0 },      { "ln_2.bias", 0 },          { "mlp.c_fc.weight", 4 },
    { "mlp.c_fc.bias", 5 },    { "mlp.c_proj.weight", 6 },  { "mlp.c_proj.bias", 0 },
};

static void set_shape(struct yokei_weight *tensor, int64_t rows, int64_t columns)
{
    tensor->is_matrix = columns > 0;
    tensor->n_dims = tensor->is_matrix ? 2 : 1;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
}

static int64_t n_weights(const void *config)
{
    return 2 + PER_LAYER * ((const struct yoke_gpt2_config *)config)->n_layer + 2;
}

static void weight(const void *config, int64_t index, struct yokei_weight *out)
{
    const struct yoke_gpt2_config *c = config;
    const int64_t n = n_weights(c), C = c->n_embd, inner = 4 * C;
    /* Matrices of Conv1D are [in, out]. */
    const int64_t shapes[7][2] = { { C, 0 },     { C, 3 * C }, { 3 * C, 0 }, { C, C },
                                   { C, inner }, { inner, 0 }, { inner, C } };
    if (index == 0 || index == 1) {
        yokei_text(out->name, sizeof out->name, "%s.weight", index ? "wpe" : "wte");
        set_shape(out, index ? c->n_positions : c->vocab_size, C);
    } else if (index >= n - 2) {
        yokei_text(out->name, sizeof out->name, "ln_f.%s", index == n - 1 ? "bias" : "weight");
        set_shape(out, C, 0);
    } else {
        const int64_t layer = (index - 2) / PER_LAYER, which = (index - 2) % PER_LAYER;
        yokei_text(out->name, sizeof out->name, "h.%lld.%s", (long long)layer, LAYER[which].name);
        set_shape(out, shapes[LAYER[which].kind][0], shapes[LAYER[which].kind][1]);
    }
}

static double flops(const void *config, int64_t sequence)
{
    const struct yoke_gpt2_config *c = config;
    const double h = (double)c->n_embd, L = (double)c->n_layer;
    return 6 * (12 * L * h * h + h * (double)c->vocab_size) + 12 * L * h * (double)sequence;
}

static void describe(const void *config, char *text, size_t bytes)
{
    const struct yoke_gpt2_config *c = config;
    yokei_text(text, bytes, "%lld layers, %lld heads, %lld channels, %lld positions, %lld tokens",
               (long long)c->n_layer, (long long)c->n_head, (long long)c->n_embd, (long long)c->n_positions,
               (long long)c->vocab_size);
}

/* h.N.attn.bias and h.N.attn.masked_bias: the causal mask, which older files store. */
static bool is_mask(const char *name)
{
    if (strncmp(name, "h.", 2) != 0) return false;
    const char *rest = name + 2 + strspn(name + 2, "0123456789");
    return rest > name + 2 && (strcmp(rest, ".attn.bias") == 0 || strcmp(rest, ".attn.masked_bias") == 0);
}

static yoke_status check(const void *config) { return yoke_gpt2_check(config); }
static yoke_status create(const void *config, yoke_model **model_out)
{
    return yoke_model_gpt2(config, model_out);
}

#define AT(member) offsetof(struct yoke_gpt2_config, member)
const struct yokei_model_kind yokei_kind_gpt2 = {
    .architecture = "GPT2LMHeadModel",
    .presets = presets,
    .schema = { PLAN_FIELDS, sizeof(struct yoke_gpt2_config), false, YOKE_ECONFIG },
    .places = places,
    .n_layers = AT(n_layer),
    .n_heads = AT(n_head),
    .n_positions = AT(n_positions),
    .n_words = AT(vocab_size),
    .dropouts = { { AT(attn_pdrop), "attention" },
                  { AT(resid_pdrop), "residuals" },
                  { AT(embd_pdrop), "embeddings" } },
    .own_vocabulary = 50257,
    .read = read_config,
    .write = write_config,
    .check = check,
    .create = create,
    .n_weights = n_weights,
    .weight = weight,
    .flops = flops,
    .describe = describe,
    .prefix = "transformer.",
    .may_be_longer = "wpe.weight",
    .is_table = is_mask,
    .tied = "",
};
