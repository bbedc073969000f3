/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/model_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/gpt2_schema.h"
#include "train/files/json.h"
#include "train/files/problems.h"

/* ---- configurations ---- */

yoke_status yokei_model_named(const char *name, struct yokei_model_config *config_out)
{
    struct yokei_model_config config = { .gpt2 = { .size = 0 } };
    if (strncmp(name, "llama", 5) == 0)
        YOKE_TRY(yoke_llama_preset(name, &config.llama));
    else
        YOKE_TRY(yoke_gpt2_preset(name, &config.gpt2));
    *config_out = config;
    return YOKE_OK;
}

static const char *const KINDS[] = { "gpt2", "llama", NULL };

/*
 * Refuse a model_type that is unknown, or that is missing in a file without GPT-2's keys. If the file is not
 * JSON, the reader below refuses it with line and column.
 */
static yoke_status check_kind(const char *file, const json_t *root)
{
    const json_t *type = json_object_get(root, "model_type");
    const char *kind = json_string_value(type), *const *known = KINDS;
    while (kind && *known && strcmp(*known, kind) != 0) known++;
    if (kind && !*known) {
        const char *near = yokei_nearest(kind, KINDS);
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: model_type is \"%.60s\"%s%s%s; Yoke computes models of type \"gpt2\" and \"llama\", so take one of these",
            file, kind, near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    if (!type && json_object_get(root, "hidden_size") && !json_object_get(root, "n_embd"))
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: model_type is missing, and the keys are not a GPT-2's; Yoke computes models of type \"gpt2\" and \"llama\": add the "
            "line \"model_type\": \"llama\" if it is one",
            file);
    return YOKE_OK;
}

yoke_status yokei_model_read(const char *path, struct yokei_model_config *config_out)
{
    struct yokei_model_config config = { .gpt2 = { .size = 0 } };
    char file[4096];
    yokei_text(file, sizeof file, yokei_is_folder(path) ? "%s/config.json" : "%s", path);
    json_t *root = NULL;
    YOKE_TRY(yokei_json_load(file, YOKE_EDATA, &root));
    const char *kind = json_string_value(json_object_get(root, "model_type"));
    const bool is_llama = kind && strcmp(kind, "llama") == 0;
    const yoke_status status = check_kind(file, root);
    json_decref(root);
    YOKE_TRY(status);
    if (is_llama)
        YOKE_TRY(yokei_llama_config_read(path, &config.llama));
    else
        YOKE_TRY(yokei_gpt2_config_read(path, &config.gpt2));
    *config_out = config;
    return YOKE_OK;
}

/* Values that are equal in both stay as the source writes them, so that 500000 does not become 500000.0. */
static void lay_over(json_t *root, const json_t *own)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)own, key, value)
    {
        const json_t *old = json_object_get(root, key);
        const bool same = json_is_number(old)
                              ? json_is_number(value) && json_number_value(old) == json_number_value(value)
                              : json_equal(old, value);
        if (!same) json_object_set(root, key, value);
    }
}

static json_t *id_or_null(int64_t id) { return id < 0 ? json_null() : json_integer((json_int_t)id); }

/* Add the keys that Hugging Face's readers look for and Yoke does not need. */
static void add_rest(json_t *root, struct yokei_model model, const struct yokei_config_rest *rest)
{
    const char *type = rest->dtype == YOKE_BF16  ? "bfloat16"
                       : rest->dtype == YOKE_F16 ? "float16"
                                                 : "float32";
    if (!json_object_get(root, "architectures"))
        json_object_set_new(root, "architectures",
                            json_pack("[s]", model.llama ? "LlamaForCausalLM" : "GPT2LMHeadModel"));
    json_object_set_new(root, json_object_get(root, "dtype") ? "dtype" : "torch_dtype", json_string(type));
    if (json_object_get(root, "dtype")) json_object_del(root, "torch_dtype");
    if (rest->bos >= -1 && !json_object_get(root, "bos_token_id"))
        json_object_set_new(root, "bos_token_id", id_or_null(rest->bos));
    if (rest->eos >= -1 && !json_object_get(root, "eos_token_id"))
        json_object_set_new(root, "eos_token_id", id_or_null(rest->eos));
}

yoke_status yokei_model_config_text(struct yokei_model model, const struct yokei_config_rest *rest,
                                    char **text_out)
{
    char *text = NULL;
    json_error_t error;
    YOKE_TRY(model.llama ? yokei_llama_config_text(model.llama, &text)
                         : yokei_gpt2_config_text(model.gpt2, &text));
    json_t *own = json_loads(text, 0, NULL),
           *root = rest->source ? json_loads(rest->source, 0, &error) : json_object();
    free(text);
    yoke_status status = YOKE_OK;
    if (rest->source && !json_is_object(root))
        status = yoke_fail(YOKE_EDATA, "config.json: the model's source is no JSON object");
    else if (!own || !root)
        status = yoke_fail(YOKE_ENOMEM, "config.json: no host memory");
    if (!status) {
        lay_over(root, own);
        add_rest(root, model, rest);
        status = yokei_config_agree(root, model.llama ? yokei_llama_places : yokei_gpt2_places);
    }
    if (!status) status = yokei_json_dump(root, text_out);
    json_decref(own);
    json_decref(root);
    return status;
}

yoke_status yokei_model_check(struct yokei_model model)
{
    return model.llama ? yoke_llama_check(model.llama) : yoke_gpt2_check(model.gpt2);
}

yoke_status yokei_model_create(struct yokei_model model, yoke_model **model_out)
{
    return model.llama ? yoke_model_llama(model.llama, model_out) : yoke_model_gpt2(model.gpt2, model_out);
}

static const char *family_of(struct yokei_model model) { return model.llama ? "Llama" : "GPT-2"; }

int64_t yokei_model_positions(struct yokei_model model)
{
    return model.llama ? model.llama->max_position_embeddings : model.gpt2->n_positions;
}

int64_t yokei_model_vocabulary(struct yokei_model model)
{
    return model.llama ? model.llama->vocab_size : model.gpt2->vocab_size;
}

int64_t yokei_model_heads(struct yokei_model model)
{
    return model.llama ? model.llama->num_attention_heads : model.gpt2->n_head;
}

void yokei_model_describe(struct yokei_model model, char *text, size_t bytes)
{
    const struct yoke_llama_config *l = model.llama;
    const struct yoke_gpt2_config *g = model.gpt2;
    if (l)
        yokei_text(
            text, bytes,
            "Llama: %lld layers, %lld heads, %lld K/V heads, %lld and %lld channels, %lld positions, %lld tokens",
            (long long)l->num_hidden_layers, (long long)l->num_attention_heads,
            (long long)l->num_key_value_heads, (long long)l->hidden_size, (long long)l->intermediate_size,
            (long long)l->max_position_embeddings, (long long)l->vocab_size);
    else
        yokei_text(text, bytes, "GPT-2: %lld layers, %lld heads, %lld channels, %lld positions, %lld tokens",
                   (long long)g->n_layer, (long long)g->n_head, (long long)g->n_embd,
                   (long long)g->n_positions, (long long)g->vocab_size);
}

double yokei_model_flops(struct yokei_model model, int64_t sequence)
{
    if (model.gpt2) {
        const double h = (double)model.gpt2->n_embd, L = (double)model.gpt2->n_layer;
        return 6 * (12 * L * h * h + h * (double)model.gpt2->vocab_size) + 12 * L * h * (double)sequence;
    }
    const struct yoke_llama_config *c = model.llama;
    const double C = (double)c->hidden_size, F = (double)c->intermediate_size,
                 L = (double)c->num_hidden_layers;
    const double D = (double)(c->head_dim ? c->head_dim : c->hidden_size / c->num_attention_heads),
                 q = (double)c->num_attention_heads * D;
    const double kv = (double)c->num_key_value_heads * D;
    return 6 * (L * (C * (2 * q + 2 * kv) + 3 * C * F) + C * (double)c->vocab_size)
           + 12 * L * q * (double)sequence;
}

/* ---- tensors ---- */

int64_t yokei_model_n_tensors(struct yokei_model model)
{
    return model.llama ? yokei_llama_n_tensors(model.llama) : yokei_gpt2_n_tensors(model.gpt2);
}

yoke_status yokei_model_tensor(struct yokei_model model, int64_t index, struct yokei_gpt2_tensor *tensor_out)
{
    return model.llama ? yokei_llama_tensor(model.llama, index, tensor_out)
                       : yokei_gpt2_tensor(model.gpt2, index, tensor_out);
}

static const char *without_prefix(const char *name)
{
    const char prefix[] = "transformer.";
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

/* h.N.attn.bias and h.N.attn.masked_bias: the causal mask, which older files store. */
static bool is_mask(const char *name)
{
    name = without_prefix(name);
    if (strncmp(name, "h.", 2) != 0) return false;
    const char *rest = name + 2 + strspn(name + 2, "0123456789");
    return rest > name + 2 && (strcmp(rest, ".attn.bias") == 0 || strcmp(rest, ".attn.masked_bias") == 0);
}

static void check_found(const struct yokei_tensor *found, const struct yokei_gpt2_tensor *want, bool is_wpe,
                        struct yokei_problems *bad)
{
    bool same = found->n_dims == want->n_dims;
    for (int i = 0; same && i < want->n_dims; i++)
        same = found->shape[i] == want->shape[i] || (is_wpe && i == 0 && found->shape[0] > want->shape[0]);
    if (!same) {
        char have[200], need[200];
        yokei_shape_text(found->n_dims, found->shape, have, sizeof have);
        yokei_shape_text(want->n_dims, want->shape, need, sizeof need);
        yokei_problem(bad, "tensor \"%s\" has shape %s; the model's configuration needs %s", found->name,
                      have, need);
    } else if (found->dtype != YOKE_F32 && found->dtype != YOKE_F16 && found->dtype != YOKE_BF16
               && found->dtype != YOKE_F64) {
        yokei_problem(bad, "tensor \"%s\" is %s; weights must be F32, F16, BF16 or F64", found->name,
                      found->type);
    }
}

/* The names of a GPT-2's tensors may have a prefix. */
static const struct yokei_tensor *find_either(const struct yokei_safetensors *tensors,
                                              struct yokei_model model, const char *name)
{
    const struct yokei_tensor *found = yokei_safetensors_find(tensors, name);
    if (model.llama) return found;
    char longer[YOKEI_GPT2_NAME_BYTES + 16];
    yokei_text(longer, sizeof longer, "transformer.%s", name);
    return found ? found : yokei_safetensors_find(tensors, longer);
}

/*
 * Whether the tensor is a table that follows from the configuration: the masks of a GPT-2, the angles of a
 * Llama.
 */
static bool is_table(struct yokei_model model, const char *name)
{
    static const char angles[] = ".rotary_emb.inv_freq";
    const size_t n = strlen(name);
    return model.llama ? n >= sizeof angles - 1 && strcmp(name + n - (sizeof angles - 1), angles) == 0
                       : is_mask(name);
}

static void check_other(const struct yokei_tensor *tensor, const struct yokei_tensor *wte,
                        struct yokei_model model, struct yokei_problems *bad)
{
    if (is_table(model, tensor->name)) return;
    if (strcmp(tensor->name, "lm_head.weight") != 0)
        yokei_problem(
            bad,
            "tensor \"%s\" does not belong to a %s of %lld layers; the configuration and the weights do not go together",
            tensor->name, family_of(model),
            (long long)(model.llama ? model.llama->num_hidden_layers : model.gpt2->n_layer));
    else if (wte
             && (tensor->dtype != wte->dtype || tensor->bytes != wte->bytes
                 || memcmp(tensor->data, wte->data, wte->bytes) != 0))
        yokei_problem(bad, "tensor \"lm_head.weight\" differs from \"%s\"; this %s has one matrix for both%s",
                      wte->name, family_of(model), model.llama ? " (tie_word_embeddings)" : "");
}

/* Refuse a file with a tensor that is neither a weight nor one of the ignored tables. */
static yoke_status check_rest(const struct yokei_safetensors *tensors, struct yokei_model model,
                              const struct yokei_tensor *const found[], struct yokei_problems *bad)
{
    size_t n = yokei_safetensors_count(tensors);
    bool *used = calloc(n + 1, sizeof *used);
    if (!used)
        return yoke_fail(YOKE_ENOMEM, "%s: no memory for a list of %zu tensors",
                         yokei_safetensors_path(tensors), n);
    const struct yokei_tensor *first = yokei_safetensors_at(tensors, 0);
    for (int64_t i = 0; i < yokei_model_n_tensors(model); i++)
        if (found[i]) used[found[i] - first] = true;
    for (size_t i = 0; i < n; i++)
        if (!used[i]) check_other(&first[i], found[0], model, bad);
    free(used);
    return YOKE_OK;
}

static void missing(const struct yokei_safetensors *tensors, const char *name, struct yokei_problems *bad)
{
    const char *nearest = yokei_safetensors_nearest(tensors, name);
    yokei_problem(bad, "tensor \"%s\" is missing%s%s%s", name, nearest ? "; the nearest name is \"" : "",
                  nearest ? nearest : "", nearest ? "\"" : "");
}

yoke_status yokei_model_find(const struct yokei_safetensors *tensors, struct yokei_model model,
                             const struct yokei_tensor *found_out[])
{
    int64_t n = yokei_model_n_tensors(model);
    const struct yokei_tensor **found = calloc((size_t)n, sizeof *found);
    struct yokei_problems *bad = calloc(1, sizeof *bad);
    yoke_status status = found && bad ? YOKE_OK
                                      : yoke_fail(YOKE_ENOMEM, "%s: no memory for a list of %lld tensors",
                                                  yokei_safetensors_path(tensors), (long long)n);
    for (int64_t i = 0; i < n && !status; i++) {
        struct yokei_gpt2_tensor want;
        status = yokei_model_tensor(model, i, &want);
        found[i] = status ? NULL : find_either(tensors, model, want.name);
        if (found[i])
            check_found(found[i], &want, model.gpt2 && i == 1, bad);
        else if (!status)
            missing(tensors, want.name, bad);
    }
    if (!status) status = check_rest(tensors, model, found, bad);
    if (!status) status = yokei_problems_end(bad, yokei_safetensors_path(tensors));
    if (!status) memcpy(found_out, found, (size_t)n * sizeof *found);
    free(bad);
    free(found);
    return status;
}
