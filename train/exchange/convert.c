/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write weights as a folder for other programs: config.json and model.safetensors, in one file or several,
 * converted to the wanted type.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/busy.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/shards.h"
#include "train/exchange/companions.h"
#include "train/exchange/convert.h"
#include "train/exchange/model_folder.h"

/* The source of the weights, of any kind. */
struct source {
    struct yokei_checkpoint *checkpoint; /* either this or `file` is set */
    struct yokei_safetensors *file;
    struct yokei_model_config config;
    struct yokei_model model; /* points to `config` */
    struct yokei_companions companions;
    int64_t n;
    const struct yokei_tensor **tensors; /* in the order of yokei_model_tensor */
    int *shard;                          /* [n] the shard of each tensor, counted from 1 */
    int n_shards;
    double n_written, n_all; /* elements */
};

static void close_source(struct source *s)
{
    yokei_checkpoint_close(s->checkpoint);
    yokei_safetensors_close(s->file);
    yokei_companions_free(&s->companions);
    free(s->tensors);
    free(s->shard);
}

static yoke_status open_either(const char *path, struct source *s)
{
    char folder[4096];
    if (yokei_checkpoint_is(path)) {
        YOKE_TRY(yokei_checkpoint_locate(path, folder, sizeof folder));
        YOKE_TRY(yokei_checkpoint_open(folder, 0, &s->checkpoint));
        s->model = yokei_plan_model(&s->checkpoint->manifest.plan);
        return YOKE_OK;
    }
    YOKE_TRY(yokei_safetensors_open(path, 0, &s->file));
    YOKE_TRY(yokei_model_config(path, &s->config));
    s->model = yokei_model_of(&s->config);
    return YOKE_OK;
}

/* Number the shards. The source file of a tensor decides its shard. */
static void number_shards(struct source *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        s->shard[i] = 0;
        for (int64_t j = 0; j < i && !s->shard[i]; j++)
            if (strcmp(s->tensors[j]->file, s->tensors[i]->file) == 0) s->shard[i] = s->shard[j];
        if (!s->shard[i]) s->shard[i] = ++s->n_shards;
    }
}

static yoke_status open_source(const char *path, bool single_file, struct source *s)
{
    YOKE_TRY(open_either(path, s));
    YOKE_TRY(yokei_companions_read(&(struct yokei_companion_sources){ .from = path, .model = s->model },
                                   &s->companions));
    s->n = yokei_model_n_tensors(s->model);
    s->tensors = calloc((size_t)s->n, sizeof *s->tensors);
    s->shard = calloc((size_t)s->n, sizeof *s->shard);
    if (!s->tensors || !s->shard)
        return yoke_fail(YOKE_ENOMEM, "%s: no host memory for a list of tensors", path);
    if (s->file) YOKE_TRY(yokei_model_find(s->file, s->model, s->tensors));
    for (int64_t i = 0; i < s->n && s->checkpoint; i++) {
        struct yokei_weight want;
        YOKE_TRY(yokei_model_tensor(s->model, i, &want));
        /* it exists, because the checkpoint was checked */
        s->tensors[i] = yokei_checkpoint_tensor(s->checkpoint, want.name, YOKE_TENSOR_WEIGHT);
    }
    number_shards(s);
    if (single_file) {
        for (int64_t i = 0; i < s->n; i++) s->shard[i] = 1;
        s->n_shards = 1;
    }
    return YOKE_OK;
}

static yoke_status write_tensor(struct source *s, int64_t i, yoke_dtype dtype,
                                struct yokei_safetensors_writer *writer, void *piece)
{
    struct yokei_weight want;
    YOKE_TRY(yokei_model_tensor(s->model, i, &want));
    const int64_t count = want.shape[0] * (want.n_dims == 2 ? want.shape[1] : 1);
    for (int64_t first = 0; first < count; first += YOKEI_PIECE) {
        const int64_t n = YOKE_MIN(count - first, (int64_t)YOKEI_PIECE);
        YOKE_TRY(yokei_tensor_piece(s->tensors[i], first, n, dtype, piece));
        YOKE_TRY(yokei_safetensors_write(writer, piece, (size_t)n * yoke_dtype_bytes(dtype)));
        yokei_busy_at(s->n_written += (double)n, s->n_all);
    }
    return YOKE_OK;
}

static yoke_status write_shard(struct source *s, int shard, const char *path, yoke_dtype dtype, void *piece)
{
    static const struct yokei_metadata metadata = { "format", "pt" };
    struct yokei_tensor *tensors = calloc((size_t)s->n, sizeof *tensors);
    struct yokei_weight *wanted = calloc((size_t)s->n, sizeof *wanted);
    struct yokei_safetensors_writer *writer = NULL;
    size_t n = 0;
    yoke_status status = tensors && wanted
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "%s: no host memory for a list of tensors", path);
    for (int64_t i = 0; i < s->n && !status; i++) {
        status = yokei_model_tensor(s->model, i, &wanted[i]);
        if (s->shard[i] != shard) continue;
        tensors[n] = (struct yokei_tensor){ .name = wanted[i].name,
                                            .dtype = dtype,
                                            .n_dims = wanted[i].n_dims };
        memcpy(tensors[n++].shape, wanted[i].shape, sizeof wanted[i].shape);
    }
    if (!status) status = yokei_safetensors_create(path, tensors, n, &metadata, 1, &writer);
    for (int64_t i = 0; i < s->n && !status; i++)
        if (s->shard[i] == shard) status = write_tensor(s, i, dtype, writer, piece);
    if (status)
        yokei_safetensors_abandon(writer);
    else
        status = yokei_safetensors_commit(writer);
    free(tensors);
    free(wanted);
    return status;
}

static yoke_status write_index(const struct source *s, const char *folder, yoke_dtype dtype)
{
    json_t *map = json_object();
    uint64_t total = 0;
    if (!map) return yoke_fail(YOKE_ENOMEM, "%s: no host memory for its index", folder);
    yoke_status status = YOKE_OK;
    for (int64_t i = 0; i < s->n && !status; i++) {
        struct yokei_weight want;
        char file[64];
        status = yokei_model_tensor(s->model, i, &want);
        yokei_text(file, sizeof file, "model-%05d-of-%05d.safetensors", s->shard[i], s->n_shards);
        json_object_set_new(map, want.name, json_string(file));
        total += (uint64_t)(want.shape[0] * (want.n_dims == 2 ? want.shape[1] : 1)) * yoke_dtype_bytes(dtype);
    }
    if (!status) status = yokei_index_write(folder, map, total);
    json_decref(map);
    return status;
}

static yoke_status write_folder(struct source *s, const char *folder, yoke_dtype dtype)
{
    char path[4300];
    void *piece = malloc(YOKEI_PIECE * yoke_dtype_bytes(dtype));
    yoke_status status = piece ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no host memory", folder);
    for (int64_t i = 0; i < s->n; i++)
        s->n_all += (double)s->tensors[i]->bytes / (double)yoke_dtype_bytes(s->tensors[i]->dtype);
    yokei_busy_begin("writing %s", folder);
    for (int shard = 1; shard <= s->n_shards && !status; shard++) {
        if (s->n_shards == 1)
            yokei_text(path, sizeof path, "%s/model.safetensors", folder);
        else
            yokei_text(path, sizeof path, "%s/model-%05d-of-%05d.safetensors", folder, shard, s->n_shards);
        status = write_shard(s, shard, path, dtype, piece);
    }
    yokei_busy_end();
    free(piece);
    if (!status && s->n_shards > 1) status = write_index(s, folder, dtype);
    if (!status) status = yokei_companions_write(&s->companions, s->model, dtype, folder);
    return status ? status : yokei_disk_sync_folder(folder);
}

yoke_status yokei_model_convert(const char *path, const char *out, yoke_dtype dtype, bool single_file)
{
    struct source s = { .n = 0 };
    char temporary[4200], why[1024];
    if (yokei_is_there(out))
        return yoke_fail(YOKE_EINVAL, "%s is there already: name a folder that is not", out);
    if (dtype != YOKE_F32 && dtype != YOKE_F16 && dtype != YOKE_BF16)
        return yoke_fail(YOKE_EINVAL, "weights can be converted to f32, bf16 or f16, not to %s",
                         yoke_dtype_name(dtype));
    size_t length = strlen(out);
    while (length > 1 && out[length - 1] == '/') length--;
    yokei_text(temporary, sizeof temporary, "%.*s.tmp", (int)length, out);
    int lock = -1;
    yoke_status status = open_source(path, single_file, &s);
    if (!status && !(status = yokei_folder_claim(temporary, &lock))) {
        status = write_folder(&s, temporary, dtype);
        if (!status && yokei_disk_rename(temporary, out))
            status = yoke_fail(YOKE_EIO, "%s: cannot be renamed to %s: %s", temporary, out, strerror(errno));
        if (status) {
            yokei_text(why, sizeof why, "%s", yoke_last_error());
            (void)yokei_checkpoint_remove(temporary);
            yoke_fail(status, "%s", why);
        }
        yokei_folder_release(status ? temporary : out, lock);
    }
    close_source(&s);
    return status;
}
