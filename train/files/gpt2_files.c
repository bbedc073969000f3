/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/gpt2_files.h"

#include <string.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "train/files/gpt2_schema.h"
#include "train/files/model_files.h"

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
const struct yokei_json_schema yokei_gpt2_schema = { PLAN_FIELDS, sizeof(struct yoke_gpt2_config), false,
                                                     YOKE_ECONFIG };

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
        return yoke_fail(YOKE_ECONFIG, "%s: model_type is \"%s\"; Yoke computes \"gpt2\" and \"llama\"", path,
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
const struct yokei_config_field yokei_gpt2_places[] = {
    TWO_NAMES("hidden_size", "n_embd"),
    TWO_NAMES("num_hidden_layers", "n_layer"),
    TWO_NAMES("num_attention_heads", "n_head"),
    TWO_NAMES("max_position_embeddings", "n_positions"),
    { .key = NULL },
};

yoke_status yokei_gpt2_config_read(const char *path, struct yoke_gpt2_config *config_out)
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
    const yoke_status status = yokei_config_parse(file, (const char *)map.data, map.bytes, yokei_gpt2_places,
                                                  nullable, &FILE_SCHEMA, &config);
    yokei_map_close(&map);
    YOKE_TRY(status);
    if (config.n_inner == 0) config.n_inner = 4 * config.shape.n_embd;
    YOKE_TRY(check_computed(&config, file));
    YOKE_TRY(check_shape(&config, file));
    *config_out = config.shape;
    return YOKE_OK;
}

yoke_status yokei_gpt2_config_text(const struct yoke_gpt2_config *config, char **text_out)
{
    YOKE_TRY(yoke_gpt2_check(config));
    struct config_file file = STANDARD;
    file.shape = *config;
    file.n_inner = 4 * config->n_embd;
    return yokei_json_text(&FILE_SCHEMA, &file, true, false, text_out);
}

static const struct {
    const char *name;
    int kind;
} LAYER[YOKEI_GPT2_TENSORS_PER_LAYER] = {
    { "ln_1.weight", 0 },      { "ln_1.bias", 0 },          { "attn.c_attn.weight", 1 },
    { "attn.c_attn.bias", 2 }, { "attn.c_proj.weight", 3 }, { "attn.c_proj.bias", 0 },
    { "ln_2.weight", 0 },      { "ln_2.bias", 0 },          { "mlp.c_fc.weight", 4 },
    { "mlp.c_fc.bias", 5 },    { "mlp.c_proj.weight", 6 },  { "mlp.c_proj.bias", 0 },
};

static void set_shape(struct yokei_gpt2_tensor *tensor, int64_t rows, int64_t columns)
{
    tensor->is_matrix = columns > 0;
    tensor->n_dims = tensor->is_matrix ? 2 : 1;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
}

int64_t yokei_gpt2_n_tensors(const struct yoke_gpt2_config *config)
{
    return 2 + YOKEI_GPT2_TENSORS_PER_LAYER * config->n_layer + 2;
}

yoke_status yokei_gpt2_tensor(const struct yoke_gpt2_config *config, int64_t index,
                              struct yokei_gpt2_tensor *tensor_out)
{
    int64_t n = yokei_gpt2_n_tensors(config), C = config->n_embd, inner = 4 * C;
    if (index < 0 || index >= n)
        return yoke_fail(YOKE_EINVAL, "GPT-2 tensor %lld does not exist; there are %lld", (long long)index,
                         (long long)n);
    const int64_t shapes[7][2] = { { C, 0 },     { C, 3 * C }, { 3 * C, 0 }, { C, C },
                                   { C, inner }, { inner, 0 }, { inner, C } };
    struct yokei_gpt2_tensor tensor = { .n_dims = 0 };
    if (index == 0 || index == 1) {
        yokei_text(tensor.name, sizeof tensor.name, "%s.weight", index ? "wpe" : "wte");
        set_shape(&tensor, index ? config->n_positions : config->vocab_size, C);
    } else if (index >= n - 2) {
        yokei_text(tensor.name, sizeof tensor.name, "ln_f.%s", index == n - 1 ? "bias" : "weight");
        set_shape(&tensor, C, 0);
    } else {
        int64_t layer = (index - 2) / YOKEI_GPT2_TENSORS_PER_LAYER,
                which = (index - 2) % YOKEI_GPT2_TENSORS_PER_LAYER;
        yokei_text(tensor.name, sizeof tensor.name, "h.%lld.%s", (long long)layer, LAYER[which].name);
        set_shape(&tensor, shapes[LAYER[which].kind][0], shapes[LAYER[which].kind][1]);
    }
    *tensor_out = tensor;
    return YOKE_OK;
}
