/* SPDX-License-Identifier: Apache-2.0 */
#include "train/models/model_files.h"

#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/json.h"
#include "train/files/problems.h"

/* ---- kinds ---- */

#define ROW(id, config, key, name, presets) \
    { &yokei_kind_##id, #id, key, name, presets, offsetof(struct yokei_model_config, id) },
const struct yokei_model_row yokei_model_rows[] = { YOKEI_MODEL_KINDS(ROW){ .kind = NULL } };
#undef ROW

const struct yokei_model_row *yokei_model_row_of(const struct yokei_model_kind *kind)
{
    const struct yokei_model_row *row = yokei_model_rows;
    while (row->kind != kind) row++;
    return row;
}

struct yokei_model yokei_model_as(const struct yokei_model_kind *kind, const void *config)
{
    return (struct yokei_model){ yokei_model_row_of(kind), config };
}

static bool is_set(const struct yokei_model_row *row, const struct yokei_model_config *config)
{
    return *(const size_t *)yoke_at(config, row->offset) > 0; /* each configuration begins with its size */
}

int yokei_model_n_set(const struct yokei_model_config *config)
{
    int n = 0;
    for (const struct yokei_model_row *row = yokei_model_rows; row->kind; row++) n += is_set(row, config);
    return n;
}

struct yokei_model yokei_model_of(const struct yokei_model_config *config)
{
    const struct yokei_model_row *row = yokei_model_rows;
    while (row->kind && !is_set(row, config)) row++;
    if (!row->kind) row = yokei_model_rows;
    return (struct yokei_model){ row, yoke_at(config, row->offset) };
}

/* ---- configurations ---- */

static const struct yokei_model_preset *preset_of(const struct yokei_model_kind *kind, const char *name)
{
    const struct yokei_model_preset *preset = kind->presets;
    while (preset->name && strcmp(preset->name, name) != 0) preset++;
    return preset->name ? preset : NULL;
}

yoke_status yokei_preset_copy(const char *function, const struct yokei_model_kind *kind, const char *name,
                              void *config_out)
{
    if (!name || !config_out) return yoke_fail(YOKE_EINVAL, "%s: a pointer is null", function);
    const struct yokei_model_preset *preset = preset_of(kind, name);
    const struct yokei_model_row *row = yokei_model_row_of(kind);
    if (!preset)
        return yoke_fail(YOKE_ECONFIG, "no %s is called \"%s\": take %s, or the path of a config.json",
                         row->name, name, row->presets);
    memcpy(config_out, preset->config, kind->schema.bytes);
    return YOKE_OK;
}

yoke_status yokei_model_named(const char *name, struct yokei_model_config *config_out)
{
    for (const struct yokei_model_row *row = yokei_model_rows; row->kind; row++) {
        if (!preset_of(row->kind, name)) continue;
        memset(config_out, 0, sizeof *config_out);
        return yokei_preset_copy("yokei_model_named", row->kind, name, yoke_at(config_out, row->offset));
    }
    return yoke_fail(YOKE_ECONFIG,
                     "no model is called \"%s\": there are " YOKEI_MODEL_PRESETS
                     "or give the path of a config.json",
                     name);
}

#define TYPE_OF(id, ...) #id,
static const char *const TYPES[] = { YOKEI_MODEL_KINDS(TYPE_OF) NULL };
#undef TYPE_OF
#define COMMA_TYPE(id, ...) ", \"" #id "\""
#define TYPES_TEXT (&(YOKEI_MODEL_KINDS(COMMA_TYPE))[2])

/*
 * Find the kind of a config.json. Refuse a model_type that is unknown, or that is missing in a file without
 * GPT-2's keys. If the file is not JSON, the kind's reader refuses it with line and column.
 */
static yoke_status find_kind(const char *file, const json_t *root, const struct yokei_model_row **row_out)
{
    const json_t *type = json_object_get(root, "model_type");
    const char *name = json_string_value(type);
    *row_out = yokei_model_rows;
    while (name && (*row_out)->kind && strcmp((*row_out)->type, name) != 0) ++*row_out;
    if (!(*row_out)->kind) {
        const char *near = yokei_nearest(name, TYPES);
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: model_type is \"%.60s\"%s%s%s; Yoke computes models of these types: %s; take one of them",
            file, name, near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "", TYPES_TEXT);
    }
    if (!type && json_object_get(root, "hidden_size") && !json_object_get(root, "n_embd"))
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: model_type is missing, and the keys are not a GPT-2's; Yoke computes models of these types: %s; add the line "
            "\"model_type\": \"llama\" if it is a Llama",
            file, TYPES_TEXT);
    return YOKE_OK;
}

yoke_status yokei_model_read(const char *path, struct yokei_model_config *config_out)
{
    struct yokei_model_config config;
    const struct yokei_model_row *row;
    char file[4096];
    memset(&config, 0, sizeof config);
    yokei_text(file, sizeof file, yokei_is_folder(path) ? "%s/config.json" : "%s", path);
    json_t *root = NULL;
    YOKE_TRY(yokei_json_load(file, YOKE_EDATA, &root));
    const yoke_status status = find_kind(file, root, &row);
    json_decref(root);
    YOKE_TRY(status);
    YOKE_TRY(row->kind->read(path, yoke_at(&config, row->offset)));
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
        json_object_set_new(root, "architectures", json_pack("[s]", model.row->kind->architecture));
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
    YOKE_TRY(model.row->kind->write(model.config, &text));
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
        status = yokei_config_agree(root, model.row->kind->places);
    }
    if (!status) status = yokei_json_dump(root, text_out);
    json_decref(own);
    json_decref(root);
    return status;
}

yoke_status yokei_model_check(struct yokei_model model) { return model.row->kind->check(model.config); }

yoke_status yokei_model_create(struct yokei_model model, yoke_model **model_out)
{
    return model.row->kind->create(model.config, model_out);
}

static int64_t number_at(struct yokei_model model, size_t offset)
{
    return *(const int64_t *)yoke_at(model.config, offset);
}

/* The name of a member of the configuration, in config.json and in plan.json. */
static const char *key_at(struct yokei_model model, size_t offset)
{
    const struct yokei_json_field *field = model.row->kind->schema.fields;
    while (field->key && field->offset != offset) field++;
    return field->key;
}

bool yokei_model_is_cut(struct yokei_model model)
{
    const struct yokei_model_kind *kind = model.row->kind;
    const int64_t window = kind->window ? number_at(model, kind->window) : 0;
    return window > 0 && window < number_at(model, kind->n_positions);
}

int64_t yokei_model_longest(struct yokei_model model, const char **key_out)
{
    const struct yokei_model_kind *kind = model.row->kind;
    const size_t offset = yokei_model_is_cut(model) ? kind->window : kind->n_positions;
    if (key_out) *key_out = key_at(model, offset);
    return number_at(model, offset);
}

int64_t yokei_model_vocabulary(struct yokei_model model)
{
    return number_at(model, model.row->kind->n_words);
}
int64_t yokei_model_heads(struct yokei_model model) { return number_at(model, model.row->kind->n_heads); }
int64_t yokei_model_n_layers(struct yokei_model model) { return number_at(model, model.row->kind->n_layers); }

/* The members of a configuration that may be changed. */
static void *member_at(struct yokei_model_config *config, size_t offset)
{
    return yoke_at(config, yokei_model_of(config).row->offset + offset);
}

void yokei_model_set_layers(struct yokei_model_config *config, int64_t n_layers)
{
    *(int64_t *)member_at(config, yokei_model_of(config).row->kind->n_layers) = n_layers;
}

bool yokei_model_dropout(struct yokei_model model, int index, double *p_out, const char **where_out)
{
    const struct yokei_model_kind *kind = model.row->kind;
    if (index >= YOKEI_MODEL_DROPOUTS || !kind->dropouts[index].where) return false;
    *p_out = *(const double *)yoke_at(model.config, kind->dropouts[index].offset);
    *where_out = kind->dropouts[index].where;
    return true;
}

void yokei_model_set_dropout(struct yokei_model_config *config, double p)
{
    const struct yokei_model_kind *kind = yokei_model_of(config).row->kind;
    for (int i = 0; kind->dropouts[i].where; i++) *(double *)member_at(config, kind->dropouts[i].offset) = p;
}

void yokei_model_describe(struct yokei_model model, char *text, size_t bytes)
{
    yokei_text(text, bytes, "%s: ", model.row->name);
    model.row->kind->describe(model.config, text + strlen(text), bytes - strlen(text));
}

double yokei_model_flops(struct yokei_model model, int64_t sequence)
{
    return model.row->kind->flops(model.config, sequence);
}

/* ---- tensors ---- */

int64_t yokei_model_n_tensors(struct yokei_model model) { return model.row->kind->n_weights(model.config); }

yoke_status yokei_model_tensor(struct yokei_model model, int64_t index, struct yokei_weight *tensor_out)
{
    const int64_t n = yokei_model_n_tensors(model);
    if (index < 0 || index >= n)
        return yoke_fail(YOKE_EINVAL, "%s tensor %lld does not exist; there are %lld", model.row->name,
                         (long long)index, (long long)n);
    model.row->kind->weight(model.config, index, tensor_out);
    return YOKE_OK;
}

static bool is(const char *name, const char *other) { return other && strcmp(name, other) == 0; }

static void check_found(const struct yokei_tensor *found, const struct yokei_weight *want, bool may_be_longer,
                        struct yokei_problems *bad)
{
    bool same = found->n_dims == want->n_dims;
    for (int i = 0; same && i < want->n_dims; i++)
        same = found->shape[i] == want->shape[i]
               || (may_be_longer && i == 0 && found->shape[0] > want->shape[0]);
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

/* Find a tensor by its name, or by its name with the kind's prefix. */
static const struct yokei_tensor *find_either(const struct yokei_safetensors *tensors,
                                              struct yokei_model model, const char *name)
{
    const struct yokei_tensor *found = yokei_safetensors_find(tensors, name);
    const char *prefix = model.row->kind->prefix;
    if (found || !prefix) return found;
    char longer[YOKEI_WEIGHT_NAME_BYTES + 16];
    yokei_text(longer, sizeof longer, "%s%s", prefix, name);
    return yokei_safetensors_find(tensors, longer);
}

/* Whether the tensor is a table that follows from the configuration. */
static bool is_table(struct yokei_model model, const char *name)
{
    const struct yokei_model_kind *kind = model.row->kind;
    const size_t n = kind->prefix ? strlen(kind->prefix) : 0;
    return kind->is_table(n && strncmp(name, kind->prefix, n) == 0 ? name + n : name);
}

static void check_other(const struct yokei_tensor *tensor, const struct yokei_tensor *wte,
                        struct yokei_model model, struct yokei_problems *bad)
{
    if (is_table(model, tensor->name)) return;
    if (strcmp(tensor->name, "lm_head.weight") != 0)
        yokei_problem(
            bad,
            "tensor \"%s\" does not belong to a %s of %lld layers; the configuration and the weights do not go together",
            tensor->name, model.row->name, (long long)yokei_model_n_layers(model));
    else if (wte
             && (tensor->dtype != wte->dtype || tensor->bytes != wte->bytes
                 || memcmp(tensor->data, wte->data, wte->bytes) != 0))
        yokei_problem(bad, "tensor \"lm_head.weight\" differs from \"%s\"; this %s has one matrix for both%s",
                      wte->name, model.row->name, model.row->kind->tied);
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
        struct yokei_weight want;
        status = yokei_model_tensor(model, i, &want);
        found[i] = status ? NULL : find_either(tensors, model, want.name);
        if (found[i])
            check_found(found[i], &want, is(want.name, model.row->kind->may_be_longer), bad);
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
