/* SPDX-License-Identifier: Apache-2.0 */
/* Read and write weights and gradients as safetensors, with Hugging Face's names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "core/base/busy.h"
#include "train/checkpoint/checkpoint.h"
#include "train/exchange/weights_file.h"
#include "train/trainer/trainer.h"

/* `hash` is the hash of everything that was read so far. */
static yoke_status load_one(yoke_trainer *trainer, const char *name, const struct yokei_tensor *tensor,
                            uint64_t *hash)
{
    const int index = yokei_parameter_find(&trainer->plan.logical, name);
    if (index < 0) return yoke_fail(YOKE_EINTERNAL, "the model has no parameter %s", name);
    size_t n = (size_t)yokei_logical_count(yoke_trainer_logical(trainer, index));
    float *whole = malloc(n * sizeof *whole);
    yoke_status status = whole ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no host memory", name);
    if (!status) status = yokei_tensor_copy(tensor, n, YOKE_F32, whole);
    if (!status) status = yoke_trainer_set_whole(trainer, YOKE_TENSOR_WEIGHT, index, whole);
    if (!status) *hash = yokei_hash(whole, n * sizeof *whole, *hash);
    free(whole);
    return status;
}

static yoke_status load_all(yoke_trainer *trainer, struct yokei_model model, const char *path, uint64_t *hash)
{
    struct yokei_safetensors *file = NULL;
    struct yokei_checkpoint *checkpoint = NULL;
    char folder[4096];
    int64_t n = yokei_model_n_tensors(model);
    if (yokei_checkpoint_is(path)) {
        YOKE_TRY(yokei_checkpoint_locate(path, folder, sizeof folder));
        /* the checksums of the weights are checked below */
        YOKE_TRY(yokei_checkpoint_open(folder, YOKEI_SAFETENSORS_NO_HASH, &checkpoint));
        yokei_checkpoint_close(checkpoint);
        path = folder;
    }
    const struct yokei_tensor **found = calloc((size_t)n, sizeof(const struct yokei_tensor *));
    if (!found) return yoke_fail(YOKE_ENOMEM, "%s: no host memory", path);
    yokei_busy_begin("loading %s", path);
    yoke_status status = yokei_safetensors_open(path, 0, &file);
    if (!status)
        status = yokei_model_find(file, model, found); /* all tensors must exist before the first is loaded */
    for (int64_t i = 0; i < n && !status; i++) {
        struct yokei_weight wanted;
        status = yokei_model_tensor(model, i, &wanted);
        if (!status) status = load_one(trainer, wanted.name, found[i], hash);
        yokei_busy_at((double)i + 1, (double)n);
    }
    yokei_busy_end();
    yokei_safetensors_close(file);
    free(found);
    return status;
}

static const char DIFFERENT[] = "start from different weights: give all hosts the same file with --init";

/*
 * Replicas may keep different slices of the masters, each read from its own file. Therefore the tensors that
 * were read are compared, not the slices that are kept.
 */
yoke_status yokei_weights_load(yoke_trainer *trainer, struct yokei_model model, const char *path)
{
    uint64_t hash = 0;
    YOKE_TRY(yokei_ranks_all_well(&trainer->config, load_all(trainer, model, path, &hash)));
    return yokei_ranks_agree(&trainer->config, hash, NULL, DIFFERENT);
}

/*
 * Write tensor by tensor, so that host memory holds only one at a time. Without a writer this rank only
 * contributes its parts.
 */
static yoke_status write_tensors(yoke_trainer *trainer, enum yoke_tensor_kind kind,
                                 struct yokei_safetensors_writer *writer)
{
    for (int i = 0; i < yoke_trainer_n_logical(trainer); i++) {
        size_t n = (size_t)yokei_logical_count(yoke_trainer_logical(trainer, i));
        float *values = malloc(n * sizeof *values);
        if (!values)
            return yoke_fail(YOKE_ENOMEM, "saving %s: no host memory",
                             yoke_trainer_logical(trainer, i)->name);
        yoke_status status = yoke_trainer_get_whole(trainer, kind, i, values);
        if (!status && writer) status = yokei_safetensors_write(writer, values, n * sizeof *values);
        free(values);
        YOKE_TRY(status);
    }
    return YOKE_OK;
}

yoke_status yokei_weights_dump(yoke_trainer *trainer, enum yoke_tensor_kind kind, const char *path)
{
    if (!path) return write_tensors(trainer, kind, NULL);
    static const struct yokei_metadata metadata = { "format",
                                                    "pt" }; /* Hugging Face's readers look for this */
    int n = yoke_trainer_n_logical(trainer);
    struct yokei_tensor *tensors = calloc((size_t)n, sizeof *tensors);
    if (!tensors) return yoke_fail(YOKE_ENOMEM, "%s: no host memory", path);
    for (int i = 0; i < n; i++) {
        const struct yoke_parameter *p = yoke_trainer_logical(trainer, i);
        tensors[i] = (struct yokei_tensor){ .name = p->name, .dtype = YOKE_F32, .n_dims = p->n_dims };
        memcpy(tensors[i].shape, p->shape, sizeof p->shape);
    }
    struct yokei_safetensors_writer *writer = NULL;
    yoke_status status = yokei_safetensors_create(path, tensors, (size_t)n, &metadata, 1, &writer);
    if (!status) {
        status = write_tensors(trainer, kind, writer);
        if (status)
            yokei_safetensors_abandon(writer);
        else
            status = yokei_safetensors_commit(writer);
    }
    free(tensors);
    return status;
}

yoke_status yokei_weights_save(yoke_trainer *trainer, struct yokei_model model,
                               const struct yokei_companions *companions, const char *dir)
{
    char path[4096];
    if (!dir) return yokei_weights_dump(trainer, YOKE_TENSOR_WEIGHT, NULL);
    YOKE_TRY(yokei_make_folder(dir));
    yokei_text(path, sizeof path, "%s/model.safetensors", dir);
    YOKE_TRY(yokei_weights_dump(trainer, YOKE_TENSOR_WEIGHT, path));
    return yokei_companions_write(companions, model, YOKE_F32, dir);
}

yoke_status yokei_weights_compare(yoke_trainer *trainer)
{
    uint64_t hash = 0;
    for (int i = 0; i < yoke_trainer_n_parameters(trainer); i++) {
        size_t n = (size_t)yokei_local_count(yoke_trainer_parameter(trainer, i));
        float *values = malloc(n * sizeof *values);
        if (!values) return yoke_fail(YOKE_ENOMEM, "comparing weights: no host memory");
        /* Slices of masters differ between replicas, but the working copies do not. */
        yoke_status status = trainer->plan.state.is_divided
                                 ? yokei_trainer_get_working(trainer, i, values)
                                 : yoke_trainer_get(trainer, YOKE_TENSOR_WEIGHT, i, values);
        hash = yokei_hash(values, n * sizeof *values, hash);
        free(values);
        YOKE_TRY(status);
    }
    return yokei_ranks_agree(&trainer->config, hash, &trainer->plan.mesh, DIFFERENT);
}
