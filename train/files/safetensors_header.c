/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/safetensors_header.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/json.h"

static const struct {
    const char *name;
    yoke_dtype dtype;
    unsigned bytes;
} TYPES[] = {
    { "F32", YOKE_F32, 4 },
    { "F16", YOKE_F16, 2 },
    { "BF16", YOKE_BF16, 2 },
    { "F64", YOKE_F64, 8 },
    { "I32", YOKE_I32, 4 },
    { "I64", YOKE_I64, 8 },
    { "I8", YOKE_I8, 1 },
    { "U8", YOKE_U8, 1 },
    { "BOOL", YOKE_N_DTYPES, 1 },
    { "I16", YOKE_N_DTYPES, 2 },
    { "U16", YOKE_N_DTYPES, 2 },
    { "U32", YOKE_N_DTYPES, 4 },
    { "U64", YOKE_N_DTYPES, 8 },
    { "F8_E4M3", YOKE_N_DTYPES, 1 },
    { "F8_E5M2", YOKE_N_DTYPES, 1 },
};

const char *yokei_safetensors_type(yoke_dtype dtype)
{
    for (size_t i = 0; i < YOKE_COUNT(TYPES); i++)
        if (TYPES[i].dtype == dtype && dtype < YOKE_N_DTYPES) return TYPES[i].name;
    return NULL;
}

const char *yokei_safetensors_bad_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0) return "it is empty";
    if (length > YOKEI_SAFETENSORS_MAX_NAME) return "it is longer than 512 bytes";
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) return "it contains control characters";
    if (strcmp(name, "__metadata__") == 0) return "it is reserved";
    return NULL;
}

/*
 * Refuse what a JSON reader accepts but the format does not: depth, and numbers with other characters than
 * digits ("1e3", "-0"). Offsets in messages are offsets in the file.
 */
static yoke_status scan_text(const char *path, const char *text, size_t bytes)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        if (c == '"') in_string = true;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (depth > 4)
            return yoke_fail(YOKE_EDATA, "%s: the header is nested deeper than 4 at byte offset %zu", path,
                             i + 8);
        if ((c >= '0' && c <= '9') || c == '-' || c == '+') {
            size_t end = i;
            while (end < bytes && text[end] && strchr("0123456789+-.eE", text[end])) end++;
            for (size_t j = i; j < end; j++)
                if (text[j] < '0' || text[j] > '9')
                    return yoke_fail(YOKE_EDATA,
                                     "%s: the number at byte offset %zu of the header is not digits only",
                                     path, i + 8);
            i = end - 1;
        }
    }
    return YOKE_OK;
}

static yoke_status parse_header(struct yokei_safetensors_file *file, uint64_t *data_start_out)
{
    const struct yokei_map *map = &file->map;
    if (map->bytes < 8)
        return yoke_fail(
            YOKE_EDATA,
            "%s: has %zu bytes; a safetensors file begins with an 8-byte header length: it is truncated",
            file->path, map->bytes);
    uint64_t length;
    memcpy(&length, map->data, sizeof length);
    length = le64toh(length);
    if (length > YOKEI_SAFETENSORS_MAX_HEADER)
        return yoke_fail(YOKE_EDATA,
                         "%s: the header length at byte offset 0 is %" PRIu64
                         ", above the limit of 100 MB: this is no "
                         "safetensors file, or it is corrupt",
                         file->path, length);
    if (length > map->bytes - 8)
        return yoke_fail(YOKE_EDATA,
                         "%s: the header length at byte offset 0 is %" PRIu64
                         ", but only %zu bytes follow; the file is "
                         "truncated",
                         file->path, length, map->bytes - 8);
    const char *text = (const char *)map->data + 8;
    if (length == 0 || text[0] != '{')
        return yoke_fail(
            YOKE_EDATA,
            "%s: the header at byte offset 8 does not begin with '{'; this is no safetensors file",
            file->path);
    YOKE_TRY(scan_text(file->path, text, (size_t)length));
    json_error_t error;
    file->root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!file->root)
        return yoke_fail(YOKE_EDATA, "%s: the header is not valid JSON at byte offset %d: %s", file->path,
                         error.position + 8, error.text);
    if (json_object_size(file->root) > YOKEI_SAFETENSORS_MAX_TENSORS)
        return yoke_fail(YOKE_EDATA, "%s: the header lists %zu tensors, above the limit of %u", file->path,
                         json_object_size(file->root), YOKEI_SAFETENSORS_MAX_TENSORS);
    *data_start_out = 8 + length;
    return YOKE_OK;
}

static yoke_status read_shape(const char *path, struct yokei_tensor *tensor, unsigned type_bytes,
                              json_t *shape)
{
    if (!json_is_array(shape))
        return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": shape is not a list", path, tensor->name);
    if (json_array_size(shape) > YOKEI_TENSOR_MAX_DIMS)
        return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": %zu dimensions are more than %d", path, tensor->name,
                         json_array_size(shape), YOKEI_TENSOR_MAX_DIMS);
    uint64_t bytes = type_bytes;
    bool overflow = false;
    tensor->n_dims = (int)json_array_size(shape);
    for (int i = 0; i < tensor->n_dims; i++) {
        json_t *dim = json_array_get(shape, (size_t)i);
        if (!json_is_integer(dim))
            return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": shape[%d] is not an integer", path, tensor->name,
                             i);
        tensor->shape[i] = json_integer_value(dim);
        overflow |= __builtin_mul_overflow(bytes, (uint64_t)tensor->shape[i], &bytes);
    }
    if (overflow || bytes > SIZE_MAX / 2)
        return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": its shape's size overflows", path, tensor->name);
    tensor->bytes = (size_t)bytes;
    return YOKE_OK;
}

static yoke_status read_type(const char *path, struct yokei_tensor *tensor, json_t *dtype,
                             unsigned *type_bytes_out)
{
    const char *type = json_string_value(dtype);
    if (!type)
        return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": dtype is %s; a string is wanted", path, tensor->name,
                         dtype ? yokei_json_kind(dtype) : "missing");
    for (size_t i = 0; i < YOKE_COUNT(TYPES); i++) {
        if (strcmp(type, TYPES[i].name) != 0) continue;
        tensor->type = TYPES[i].name;
        tensor->dtype = TYPES[i].dtype;
        *type_bytes_out = TYPES[i].bytes;
        return YOKE_OK;
    }
    return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": dtype \"%.20s\" is not known", path, tensor->name, type);
}

/*
 * Read one entry of the header. `tensor->data` is set to the start of the data as an offset, without the
 * address of the file.
 */
static yoke_status read_entry(struct yokei_safetensors_file *file, const char *name, json_t *entry,
                              uint64_t data_start, struct yokei_tensor *tensor)
{
    const char *path = file->path, *bad = yokei_safetensors_bad_name(name);
    if (bad) return yoke_fail(YOKE_EDATA, "%s: a tensor's name cannot be used: %s", path, bad);
    memset(tensor, 0, sizeof *tensor);
    tensor->name = name;
    tensor->file = path;
    if (!json_is_object(entry))
        return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": its entry is not an object", path, name);
    const char *key;
    json_t *value;
    json_object_foreach(entry, key, value) if (
        strcmp(key, "dtype") && strcmp(key, "shape")
        && strcmp(key,
                  "data_offsets")) return yoke_fail(YOKE_EDATA,
                                                    "%s: tensor \"%s\": unknown key \"%.40s\" in its entry",
                                                    path, name, key);
    unsigned type_bytes = 0;
    YOKE_TRY(read_type(path, tensor, json_object_get(entry, "dtype"), &type_bytes));
    YOKE_TRY(read_shape(path, tensor, type_bytes, json_object_get(entry, "shape")));
    json_t *range = json_object_get(entry, "data_offsets");
    if (!json_is_array(range) || json_array_size(range) != 2 || !json_is_integer(json_array_get(range, 0))
        || !json_is_integer(json_array_get(range, 1)))
        return yoke_fail(YOKE_EDATA, "%s: tensor \"%s\": data_offsets is not a list of two integers", path,
                         name);
    uint64_t begin = (uint64_t)json_integer_value(json_array_get(range, 0));
    uint64_t end = (uint64_t)json_integer_value(json_array_get(range, 1));
    uint64_t have = file->map.bytes - data_start;
    if (begin > end)
        return yoke_fail(YOKE_EDATA,
                         "%s: tensor \"%s\": data_offsets [%" PRIu64 ", %" PRIu64 "] run backwards", path,
                         name, begin, end);
    if (end > have)
        return yoke_fail(YOKE_EDATA,
                         "%s: tensor \"%s\": its data ends at byte offset %" PRIu64
                         ", but the file has %zu bytes; it is "
                         "truncated or corrupt",
                         path, name, data_start + end, file->map.bytes);
    if (end - begin != tensor->bytes)
        return yoke_fail(YOKE_EDATA,
                         "%s: tensor \"%s\": its shape and type need %zu bytes, but data_offsets [%" PRIu64
                         ", %" PRIu64 "] hold %" PRIu64,
                         path, name, tensor->bytes, begin, end, end - begin);
    tensor->data = file->map.data + data_start + begin;
    return YOKE_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct yokei_tensor *x = a, *y = b;
    uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    if (p != q) return p < q ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->name, y->name);
}

/* Ranges in ascending order must touch: there is no hole, no overlap, and no byte after the last range. */
static yoke_status check_cover(const struct yokei_safetensors_file *file, uint64_t data_start)
{
    const unsigned char *next = file->map.data + data_start;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct yokei_tensor *tensor = &file->tensors[i];
        const unsigned char *begin = tensor->data;
        if (begin != next)
            return yoke_fail(
                YOKE_EDATA,
                "%s: tensor \"%s\": its data begins at byte offset %zu, but the data before it ends at %zu: "
                "%s",
                file->path, tensor->name, (size_t)(begin - file->map.data), (size_t)(next - file->map.data),
                begin < next ? "they overlap" : "there is a hole");
        next = begin + tensor->bytes;
    }
    size_t end = (size_t)(next - file->map.data);
    if (end != file->map.bytes)
        return yoke_fail(YOKE_EDATA,
                         "%s: %zu bytes follow the last tensor at byte offset %zu; the file is corrupt",
                         file->path, file->map.bytes - end, end);
    return YOKE_OK;
}

static yoke_status check_metadata(const struct yokei_safetensors_file *file, json_t *metadata)
{
    if (!json_is_object(metadata))
        return yoke_fail(YOKE_EDATA, "%s: __metadata__ is not an object", file->path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return yoke_fail(
        YOKE_EDATA, "%s: __metadata__ key \"%.80s\" is not a string", file->path, key);
    return YOKE_OK;
}

/* Every checksum must belong to a tensor of the file, and be well formed and right. */
static yoke_status check_hashes(const struct yokei_safetensors_file *file, json_t *metadata, unsigned flags)
{
    const size_t prefix = sizeof YOKEI_SAFETENSORS_HASH_PREFIX - 1;
    const char *key;
    json_t *value;
    size_t n_hashes = 0;
    json_object_foreach(metadata, key, value)
    {
        if (strncmp(key, YOKEI_SAFETENSORS_HASH_PREFIX, prefix) != 0) continue;
        const char *text = json_string_value(value);
        if (!json_object_get(file->root, key + prefix))
            return yoke_fail(YOKE_EDATA, "%s: there is a checksum of tensor \"%.120s\", but no such tensor",
                             file->path, key + prefix);
        if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
            return yoke_fail(YOKE_EDATA, "%s: the checksum of tensor \"%.120s\" is not 16 hexadecimal digits",
                             file->path, key + prefix);
        n_hashes++;
    }
    if (n_hashes > 0 && n_hashes != file->n_tensors)
        return yoke_fail(YOKE_EDATA, "%s: %zu of %zu tensors have a checksum; the header is corrupt",
                         file->path, n_hashes, file->n_tensors);
    if (n_hashes == 0 || (flags & YOKEI_SAFETENSORS_NO_HASH)) return YOKE_OK;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct yokei_tensor *tensor = &file->tensors[i];
        char name[sizeof YOKEI_SAFETENSORS_HASH_PREFIX + YOKEI_SAFETENSORS_MAX_NAME];
        yokei_text(name, sizeof name, "%s%s", YOKEI_SAFETENSORS_HASH_PREFIX, tensor->name);
        uint64_t want = strtoull(json_string_value(json_object_get(metadata, name)), NULL, 16);
        uint64_t have = yokei_hash(tensor->data, tensor->bytes, 0);
        if (want != have)
            return yoke_fail(YOKE_EDATA,
                             "%s: tensor \"%s\" at byte offset %zu: its checksum is %016" PRIx64
                             ", the file says %016" PRIx64 "; its data is corrupt",
                             file->path, tensor->name,
                             (size_t)((const unsigned char *)tensor->data - file->map.data), have, want);
    }
    return YOKE_OK;
}

static yoke_status read_file(struct yokei_safetensors_file *file, unsigned flags)
{
    uint64_t data_start = 0;
    YOKE_TRY(parse_header(file, &data_start));
    json_t *metadata = json_object_get(file->root, "__metadata__");
    if (metadata) YOKE_TRY(check_metadata(file, metadata));
    size_t n = json_object_size(file->root);
    file->tensors = calloc(n + 1, sizeof *file->tensors);
    if (!file->tensors)
        return yoke_fail(YOKE_ENOMEM, "%s: no memory for a list of %zu tensors", file->path, n);
    const char *name;
    json_t *entry;
    json_object_foreach(file->root, name, entry)
    {
        if (entry == metadata) continue;
        YOKE_TRY(read_entry(file, name, entry, data_start, &file->tensors[file->n_tensors]));
        file->n_tensors++;
    }
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, by_place);
    YOKE_TRY(check_cover(file, data_start));
    return metadata ? check_hashes(file, metadata, flags) : YOKE_OK;
}

yoke_status yokei_safetensors_file_open(const char *path, unsigned flags,
                                        struct yokei_safetensors_file *file_out)
{
    struct yokei_safetensors_file file = { .path = strdup(path) };
    if (!file.path) return yoke_fail(YOKE_ENOMEM, "%s: no memory to open it", path);
    yoke_status status;
    YOKE_TRY_GOTO(yokei_map_open(path, YOKE_EDATA, &file.map), fail);
    YOKE_TRY_GOTO(read_file(&file, flags), fail);
    *file_out = file;
    return YOKE_OK;
fail:
    yokei_safetensors_file_close(&file);
    return status;
}

void yokei_safetensors_file_close(struct yokei_safetensors_file *file)
{
    free(file->tensors);
    if (file->root) json_decref(file->root);
    yokei_map_close(&file->map);
    free(file->path);
    memset(file, 0, sizeof *file);
}
