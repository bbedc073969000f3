/* SPDX-License-Identifier: Apache-2.0 */
/* A model: a list of layers, each with its own copy of its configuration. */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/parameters.h"
#include "train/models/model.h"

yoke_status yoke_model_create(yoke_model **model_out)
{
    if (!model_out) return yoke_fail(YOKE_EINVAL, "yoke_model_create: model_out is null");
    yoke_model *model = calloc(1, sizeof *model);
    if (!model) return yoke_fail(YOKE_ENOMEM, "yoke_model_create: no host memory");
    const yoke_status status = yokei_live_add(&yokei_objects, model, sizeof *model);
    if (status) {
        free(model);
        return yoke_fail_context(status, "yoke_model_create");
    }
    *model_out = model;
    return YOKE_OK;
}

/* ---- the names of the parameters ---- */

static int compare(const void *a, const void *b) { return strcmp(a, b); }

static void forget(yoke_model *model, char *name)
{
    tdelete(name, &model->names, compare);
    free(name);
}

/* Get parameter i of a layer, whole. False: it has no such parameter. */
static bool get_parameter(const yoke_layer *layer, int i, struct yoke_parameter *out)
{
    const struct yoke_place whole = { .size = sizeof whole, .tensor_size = 1 };
    return layer->type->parameter && i < YOKE_MAX_PARAMETERS && layer->type->parameter(layer, &whole, i, out);
}

/* Count the elements of a layer's parameters that no earlier layer declares; on failure, count nothing. */
static yoke_status count_elements(yoke_model *model, const yoke_layer *layer)
{
    char *added[YOKE_MAX_PARAMETERS];
    int64_t n_elements = 0;
    int n = 0;
    struct yoke_parameter p;
    for (int i = 0; get_parameter(layer, i, &p); i++) {
        if (tfind(p.name, &model->names, compare)) continue;
        added[n] = strdup(p.name);
        if (!added[n] || !tsearch(added[n], &model->names, compare)) {
            free(added[n]);
            while (n > 0) forget(model, added[--n]);
            return yoke_fail(YOKE_ENOMEM, "yoke_model_add: no host memory");
        }
        n++;
        n_elements += yokei_logical_count(&p);
    }
    model->n_elements += n_elements;
    return YOKE_OK;
}

yoke_status yoke_model_destroy(yoke_model *model)
{
    if (!model) return YOKE_OK;
    if (yokei_live_has(&yokei_objects, model) && model->n_trainers)
        return yoke_fail(YOKE_EBUSY, "yoke_model_destroy: %d trainers use the model; destroy them first",
                         model->n_trainers);
    YOKE_TRY(yokei_object_leaves("yoke_model_destroy", "model", model));
    for (int i = 0; i < model->n_layers; i++) {
        free((void *)(uintptr_t)model->layer[i]->config);
        free(model->layer[i]);
    }
    while (model->names) forget(model, *(char **)model->names);
    free(model->layer);
    free(model);
    return YOKE_OK;
}

static yoke_status check_layer(const yoke_model *model, const struct yoke_layer_type *type, const char *name,
                               int64_t in, int64_t out)
{
    const yoke_layer *last = model->n_layers ? model->layer[model->n_layers - 1] : NULL;
    if (type->size != sizeof *type)
        return yoke_fail(YOKE_EINVAL,
                         "layer %s: its type's size is %zu, not %zu: compile it against this yoke/layer.h",
                         name, type->size, sizeof *type);
    if (!type->bytes || !type->forward)
        return yoke_fail(YOKE_EINVAL, "layer %s: its type %s lacks %s", name, type->name,
                         type->bytes ? "forward" : "bytes");
    if (strlen(name) >= sizeof last->name || !*name)
        return yoke_fail(YOKE_EINVAL, "layer \"%s\": a name has 1 to %zu bytes", name, sizeof last->name - 1);
    if (in != (last ? last->out : 0))
        return yoke_fail(YOKE_ECONFIG, "layer %s takes %lld features, but %s gives %lld: make them equal",
                         name, (long long)in, last ? last->name : "a model's start",
                         (long long)(last ? last->out : 0));
    if (out < 1)
        return yoke_fail(YOKE_ECONFIG, "layer %s: %lld output features; at least 1 is needed", name,
                         (long long)out);
    for (int i = 0; i < model->n_layers; i++)
        if (strcmp(model->layer[i]->name, name) == 0)
            return yoke_fail(
                YOKE_ECONFIG,
                "two layers are called %s: names key the parameters and random draws, rename one", name);
    return YOKE_OK;
}

yoke_status yoke_model_add(yoke_model *model, const struct yoke_layer_type *type, const char *name,
                           int64_t in, int64_t out, const void *config)
{
    yoke_status status = YOKE_OK;
    if (!model || !type || !name) return yoke_fail(YOKE_EINVAL, "yoke_model_add: a pointer is null");
    if (type->config_bytes && !config)
        return yoke_fail(YOKE_EINVAL, "yoke_model_add: layer %s of type %s needs a configuration", name,
                         type->name);
    YOKE_TRY(check_layer(model, type, name, in, out));
    yoke_layer **list = realloc(model->layer, (size_t)(model->n_layers + 1) * sizeof *list);
    if (!list) return yoke_fail(YOKE_ENOMEM, "yoke_model_add: no host memory");
    model->layer = list;
    yoke_layer *layer = calloc(1, sizeof *layer);
    void *copy = malloc(type->config_bytes + 1);
    if (!layer || !copy) {
        status = yoke_fail(YOKE_ENOMEM, "yoke_model_add: no host memory");
        goto free_layer;
    }
    if (type->config_bytes) memcpy(copy, config, type->config_bytes);
    *layer = (yoke_layer){ .size = sizeof *layer, .type = type, .in = in, .out = out, .config = copy };
    yokei_text(layer->name, sizeof layer->name, "%s", name);
    if (type->check) YOKE_TRY_GOTO(type->check(layer, NULL), free_layer);
    YOKE_TRY_GOTO(count_elements(model, layer), free_layer);
    model->layer[model->n_layers++] = layer;
    return YOKE_OK;
free_layer:
    free(copy);
    free(layer);
    return status;
}

int yoke_model_n_layers(const yoke_model *model) { return model ? model->n_layers : 0; }

const yoke_layer *yoke_model_layer(const yoke_model *model, int index)
{
    return model && index >= 0 && index < model->n_layers ? model->layer[index] : NULL;
}

int64_t yoke_model_n_elements(const yoke_model *model) { return model ? model->n_elements : 0; }
