/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/files/foreign_weights.h"
#include "train/files/safetensors_header.h"

enum { MAX_FILES = 10000 };

struct yokei_safetensors {
    char *path;
    struct yokei_safetensors_file *files;
    size_t n_files;
    struct yokei_tensor *tensors; /* tensors of all files, sorted by name */
    size_t n_tensors;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct yokei_tensor *)a)->name, ((const struct yokei_tensor *)b)->name);
}

/* Join the tensors of all files into one list, sorted by name. */
static yoke_status join(struct yokei_safetensors *st)
{
    size_t n = 0;
    for (size_t i = 0; i < st->n_files; i++) n += st->files[i].n_tensors;
    st->tensors = calloc(n + 1, sizeof *st->tensors);
    if (!st->tensors) return yoke_fail(YOKE_ENOMEM, "%s: no memory for a list of %zu tensors", st->path, n);
    for (size_t i = 0; i < st->n_files; i++)
        for (size_t j = 0; j < st->files[i].n_tensors; j++)
            st->tensors[st->n_tensors++] = st->files[i].tensors[j];
    qsort(st->tensors, n, sizeof *st->tensors, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(st->tensors[i - 1].name, st->tensors[i].name) == 0)
            return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\" is in both %s and %s", st->path,
                             st->tensors[i].name, st->tensors[i - 1].file, st->tensors[i].file);
    return YOKE_OK;
}

static yoke_status add_file(struct yokei_safetensors *st, const char *path, unsigned flags)
{
    for (size_t i = 0; i < st->n_files; i++)
        if (strcmp(st->files[i].path, path) == 0) return YOKE_OK;
    if (st->n_files == MAX_FILES)
        return yoke_fail(YOKE_EDATA, "%s: names more than %d files", st->path, MAX_FILES);
    struct yokei_safetensors_file *files = realloc(st->files, (st->n_files + 1) * sizeof *files);
    if (!files) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its list of files", st->path);
    st->files = files;
    YOKE_TRY(yokei_safetensors_file_open(path, flags, &files[st->n_files]));
    st->n_files++;
    return YOKE_OK;
}

/*
 * The path of a shard beside its index. The name of the shard comes from a file, so it must not lead out of
 * the folder.
 */
static yoke_status shard_path(const struct yokei_safetensors *st, const char *name, const char *shard,
                              char *out, size_t bytes)
{
    if (!shard || !*shard || strchr(shard, '/') || shard[0] == '.')
        return yoke_fail(YOKE_EDATA,
                         "%s: weight_map[\"%.120s\"] is not the name of a file in the same folder", st->path,
                         name);
    const char *slash = strrchr(st->path, '/');
    int folder = slash ? (int)(slash - st->path) + 1 : 0;
    if ((size_t)folder + strlen(shard) >= bytes)
        return yoke_fail(YOKE_EDATA, "%s: weight_map[\"%.120s\"] is too long", st->path, name);
    yokei_text(out, bytes, "%.*s%s", folder, st->path, shard);
    return YOKE_OK;
}

/* Check that the files of the index hold exactly the tensors that the index lists. */
static yoke_status check_index(const struct yokei_safetensors *st, json_t *map)
{
    const char *name;
    json_t *shard;
    char path[4096];
    json_object_foreach(map, name, shard)
    {
        YOKE_TRY(shard_path(st, name, json_string_value(shard), path, sizeof path));
        const struct yokei_tensor *tensor = yokei_safetensors_find(st, name);
        if (!tensor || strcmp(tensor->file, path) != 0)
            return yoke_fail(YOKE_EDATA, "%s: weight_map says that tensor \"%.120s\" is in %s, but it is not",
                             st->path, name, path);
    }
    for (size_t i = 0; i < st->n_tensors; i++)
        if (!json_object_get(map, st->tensors[i].name))
            return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\" of %s is not in weight_map", st->path,
                             st->tensors[i].name, st->tensors[i].file);
    return YOKE_OK;
}

static yoke_status open_shards(struct yokei_safetensors *st, json_t *root, unsigned flags)
{
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        return yoke_fail(YOKE_EDATA,
                         "%s: there is no object \"weight_map\"; this is no index of safetensors files",
                         st->path);
    const char *name;
    json_t *shard;
    char path[4096];
    json_object_foreach(map, name, shard)
    {
        YOKE_TRY(shard_path(st, name, json_string_value(shard), path, sizeof path));
        yoke_status status = add_file(st, path, flags);
        if (status) return yoke_fail_context(status, "%s names", st->path);
    }
    YOKE_TRY(join(st));
    return check_index(st, map);
}

static yoke_status open_index(struct yokei_safetensors *st, unsigned flags)
{
    struct yokei_map map;
    YOKE_TRY(yokei_map_open(st->path, YOKE_EDATA, &map));
    json_error_t error = { .text = "the file is empty" };
    json_t *root = map.bytes == 0 || map.bytes > YOKEI_SAFETENSORS_MAX_HEADER
                       ? NULL
                       : json_loadb((const char *)map.data, map.bytes, JSON_REJECT_DUPLICATES, &error);
    yoke_status status;
    if (map.bytes > YOKEI_SAFETENSORS_MAX_HEADER)
        status = yoke_fail(YOKE_EDATA, "%s: has %zu bytes, too many for an index", st->path, map.bytes);
    else if (!root)
        status = yoke_fail(YOKE_EDATA, "%s: is not valid JSON: line %d, column %d: %s", st->path, error.line,
                           error.column, error.text);
    else
        status = open_shards(st, root, flags);
    if (root) json_decref(root);
    yokei_map_close(&map);
    return status;
}

/* If the path is a folder, use the model file in it. */
static yoke_status resolve(const char *path, char **resolved_out)
{
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json" };
    struct stat info;
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (!is_folder)
        return (*resolved_out = strdup(path)) ? YOKE_OK
                                              : yoke_fail(YOKE_ENOMEM, "%s: no memory to open it", path);
    char file[4096];
    for (size_t i = 0; i < YOKE_COUNT(names); i++) {
        yokei_text(file, sizeof file, "%s/%s", path, names[i]);
        if (yokei_is_there(file))
            return (*resolved_out = strdup(file)) ? YOKE_OK
                                                  : yoke_fail(YOKE_ENOMEM, "%s: no memory to open it", path);
    }
    return yokei_refuse_foreign_folder(path, names);
}

yoke_status yokei_safetensors_open(const char *path, unsigned flags, struct yokei_safetensors **tensors_out)
{
    if (!path || !tensors_out)
        return yoke_fail(YOKE_EINVAL, "yokei_safetensors_open: path and tensors_out must not be NULL");
    struct yokei_safetensors *st = calloc(1, sizeof *st);
    if (!st) return yoke_fail(YOKE_ENOMEM, "%s: no memory to open it", path);
    yoke_status status;
    YOKE_TRY_GOTO(resolve(path, &st->path), fail);
    YOKE_TRY_GOTO(yokei_refuse_foreign_file(st->path), fail);
    size_t length = strlen(st->path);
    if (length > 5 && strcmp(st->path + length - 5, ".json") == 0) {
        YOKE_TRY_GOTO(open_index(st, flags), fail);
    } else {
        YOKE_TRY_GOTO(add_file(st, st->path, flags), fail);
        YOKE_TRY_GOTO(join(st), fail);
    }
    *tensors_out = st;
    return YOKE_OK;
fail:
    yokei_safetensors_close(st);
    return status;
}

void yokei_safetensors_close(struct yokei_safetensors *st)
{
    if (!st) return;
    for (size_t i = 0; i < st->n_files; i++) yokei_safetensors_file_close(&st->files[i]);
    free(st->files);
    free(st->tensors);
    free(st->path);
    free(st);
}

const char *yokei_safetensors_path(const struct yokei_safetensors *st) { return st->path; }
size_t yokei_safetensors_count(const struct yokei_safetensors *st) { return st->n_tensors; }

const struct yokei_tensor *yokei_safetensors_at(const struct yokei_safetensors *st, size_t index)
{
    return index < st->n_tensors ? &st->tensors[index] : NULL;
}

const struct yokei_tensor *yokei_safetensors_find(const struct yokei_safetensors *st, const char *name)
{
    struct yokei_tensor key = { .name = name };
    return st->n_tensors ? bsearch(&key, st->tensors, st->n_tensors, sizeof key, by_name) : NULL;
}

const char *yokei_safetensors_nearest(const struct yokei_safetensors *st, const char *name)
{
    const char **names = calloc(st->n_tensors + 1, sizeof *names);
    if (!names) return NULL;
    for (size_t i = 0; i < st->n_tensors; i++) names[i] = st->tensors[i].name;
    const char *nearest = yokei_nearest(name, names);
    free(names);
    return nearest;
}

void yokei_shape_text(int n_dims, const int64_t shape[], char *text, size_t bytes)
{
    size_t used = 0;
    yokei_text(text, bytes, "[");
    for (int i = 0; i < n_dims; i++) {
        used = strlen(text);
        yokei_text(text + used, bytes - used, i ? ", %lld" : "%lld", (long long)shape[i]);
    }
    used = strlen(text);
    yokei_text(text + used, bytes - used, "]");
}

static bool is_float(yoke_dtype dtype)
{
    return dtype == YOKE_F32 || dtype == YOKE_F16 || dtype == YOKE_BF16 || dtype == YOKE_F64;
}

/* Whether some finite number of the first type is more than the second can hold. */
static bool may_overflow(yoke_dtype from, yoke_dtype to)
{
    return from == YOKE_F64 || (to == YOKE_F16 && from != YOKE_F16) || (from == YOKE_F32 && to == YOKE_BF16);
}

static yoke_status too_large(const struct yokei_tensor *tensor, size_t index, double value, yoke_dtype dtype)
{
    const bool fits = dtype != YOKE_F32 && isfinite((float)value);
    return yoke_fail(YOKE_EDATA, "%s: element %zu of tensor %s is %g, more than %s can hold: %s",
                     tensor->file, index, tensor->name, value, yoke_dtype_name(dtype),
                     fits ? "f32 can hold it, so use this type"
                          : "the weights of a model must fit f32, so correct the file");
}

/*
 * Data in a file may be unaligned, so it is converted through a small aligned buffer. `first` is the number
 * of the first element, for messages.
 */
static yoke_status convert_unaligned(const struct yokei_tensor *tensor, size_t first, size_t n,
                                     yoke_dtype dtype, void *out)
{
    enum { PIECE = 1024 };
    double piece[PIECE]; /* double, because it has the strictest alignment */
    const size_t from = yoke_dtype_bytes(tensor->dtype), to = yoke_dtype_bytes(dtype);
    const bool checks = may_overflow(tensor->dtype, dtype);
    for (size_t i = 0; i < n; i += PIECE) {
        const size_t count = YOKE_MIN((size_t)PIECE, n - i);
        char *here = (char *)out + i * to;
        memcpy(piece, (const char *)tensor->data + (first + i) * from, count * from);
        yoke_convert(tensor->dtype, piece, dtype, here, count);
        for (size_t k = 0; checks && k < count; k++) {
            if (isfinite(yokei_load(dtype, here, (int64_t)k))) continue;
            const double value = yokei_load(tensor->dtype, piece, (int64_t)k);
            if (isfinite(value)) return too_large(tensor, first + i + k, value, dtype);
        }
    }
    return YOKE_OK;
}

yoke_status yokei_tensor_piece(const struct yokei_tensor *tensor, int64_t first, int64_t n, yoke_dtype dtype,
                               void *out)
{
    if (tensor->dtype != dtype && !(is_float(tensor->dtype) && is_float(dtype)))
        return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\" is %s; it cannot be read as %s", tensor->file,
                         tensor->name, tensor->type, yoke_dtype_name(dtype));
    const size_t width = yoke_dtype_bytes(tensor->dtype), has = width ? tensor->bytes / width : 0;
    if (width == 0 || first < 0 || n < 0 || (size_t)first > has || (size_t)n > has - (size_t)first)
        return yoke_fail(YOKE_EINVAL, "%s: tensor \"%s\" has fewer than %lld elements", tensor->file,
                         tensor->name, (long long)first + (long long)n);
    if (n == 0) return YOKE_OK;
    if (tensor->dtype != dtype) return convert_unaligned(tensor, (size_t)first, (size_t)n, dtype, out);
    memcpy(out, (const char *)tensor->data + (size_t)first * width, (size_t)n * width);
    return YOKE_OK;
}

yoke_status yokei_tensor_copy(const struct yokei_tensor *tensor, size_t n, yoke_dtype dtype, void *out)
{
    return yokei_tensor_piece(tensor, 0, (int64_t)n, dtype, out);
}
