/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/base.h"
#include "train/files/safetensors_header.h"

struct yokei_safetensors_writer {
    char *path;
    struct yokei_output *output;
    int fd;                  /* descriptor of the temporary file */
    json_t *root, *metadata; /* metadata belongs to root; its checksums are filled in at commit */
    char **names;
    size_t *ends; /* end of each tensor's data, counted from the start of the data */
    uint64_t *hashes;
    size_t n_tensors, current, written;
    size_t header_bytes;
    XXH3_state_t *state;
};

void yokei_safetensors_abandon(struct yokei_safetensors_writer *writer)
{
    if (!writer) return;
    yokei_output_abandon(writer->output);
    for (size_t i = 0; writer->names && i < writer->n_tensors; i++) free(writer->names[i]);
    if (writer->root) json_decref(writer->root);
    if (writer->state) XXH3_freeState(writer->state);
    free(writer->names);
    free(writer->ends);
    free(writer->hashes);
    free(writer->path);
    free(writer);
}

static yoke_status write_all(struct yokei_safetensors_writer *writer, const void *data, size_t bytes)
{
    if (yokei_disk_write(writer->fd, data, bytes)) return YOKE_OK;
    return yoke_fail(YOKE_EIO, "%s: cannot be written at byte offset %zu: %s", writer->path,
                     8 + writer->header_bytes + writer->written, yokei_why(errno));
}

static bool is_utf8(const char *text)
{
    json_t *value = json_string(text); /* NULL: not UTF-8 */
    json_decref(value);
    return value != NULL;
}

static yoke_status add_entry(struct yokei_safetensors_writer *writer, const struct yokei_tensor *tensor)
{
    const char *type = yokei_safetensors_type(tensor->dtype);
    const char *bad = !tensor->name            ? "it is NULL"
                      : !is_utf8(tensor->name) ? "it is not UTF-8"
                                               : yokei_safetensors_bad_name(tensor->name);
    if (bad) return yoke_fail(YOKE_EINVAL, "%s: a tensor's name cannot be written: %s", writer->path, bad);
    if (!type)
        return yoke_fail(YOKE_EINVAL, "%s: tensor \"%s\" cannot be written: the format has no type %s",
                         writer->path, tensor->name, yoke_dtype_name(tensor->dtype));
    if (tensor->n_dims < 0 || tensor->n_dims > YOKEI_TENSOR_MAX_DIMS)
        return yoke_fail(
            YOKE_EINVAL,
            "%s: tensor \"%s\" cannot be written: it has %d dimensions, and 0 to %d are possible",
            writer->path, tensor->name, (int)tensor->n_dims, YOKEI_TENSOR_MAX_DIMS);
    if (json_object_get(writer->root, tensor->name))
        return yoke_fail(YOKE_EINVAL, "%s: tensor \"%s\" cannot be written: its name is there twice",
                         writer->path, tensor->name);
    size_t bytes = yoke_dtype_bytes(tensor->dtype),
           begin = writer->n_tensors ? writer->ends[writer->n_tensors - 1] : 0, end;
    json_t *shape = json_array();
    bool overflow = false;
    for (int i = 0; i < tensor->n_dims; i++) {
        overflow |= tensor->shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)tensor->shape[i], &bytes);
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    }
    if (overflow || __builtin_add_overflow(begin, bytes, &end) || end > INT64_MAX) {
        json_decref(shape);
        return yoke_fail(YOKE_EINVAL, "%s: tensor \"%s\" cannot be written: its size overflows", writer->path,
                         tensor->name);
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", shape, "data_offsets",
                              (json_int_t)begin, (json_int_t)end);
    char *name = strdup(tensor->name);
    if (!entry || !name || json_object_set_new(writer->root, tensor->name, entry)) {
        free(name);
        return yoke_fail(YOKE_ENOMEM, "%s: tensor \"%s\" cannot be written: no host memory", writer->path,
                         tensor->name);
    }
    writer->names[writer->n_tensors] = name;
    writer->ends[writer->n_tensors++] = end;
    return YOKE_OK;
}

/* The header as text. It is padded with spaces, so that the data begins at a multiple of 8. */
static yoke_status header_text(struct yokei_safetensors_writer *writer, char **text_out, size_t *bytes_out)
{
    for (size_t i = 0; i < writer->n_tensors; i++) {
        char key[sizeof YOKEI_SAFETENSORS_HASH_PREFIX + YOKEI_SAFETENSORS_MAX_NAME], hash[17];
        yokei_text(key, sizeof key, "%s%s", YOKEI_SAFETENSORS_HASH_PREFIX, writer->names[i]);
        yokei_text(hash, sizeof hash, "%016" PRIx64, writer->hashes[i]);
        if (json_object_set_new(writer->metadata, key, json_string(hash)))
            return yoke_fail(YOKE_ENOMEM, "%s: no memory for its header", writer->path);
    }
    char *text = json_dumps(writer->root, JSON_COMPACT);
    if (!text) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its header", writer->path);
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *grown = realloc(text, padded + 1);
    if (!grown) {
        free(text);
        return yoke_fail(YOKE_ENOMEM, "%s: no memory for its header", writer->path);
    }
    memset(grown + length, ' ', padded - length);
    *text_out = grown;
    *bytes_out = padded;
    return YOKE_OK;
}

static yoke_status add_metadata(struct yokei_safetensors_writer *writer,
                                const struct yokei_metadata *metadata, size_t n_metadata)
{
    static const char own[] = YOKEI_SAFETENSORS_HASH_PREFIX;
    for (size_t i = 0; i < n_metadata; i++) {
        const char *why = NULL;
        if (strncmp(metadata[i].key, own, sizeof own - 1) == 0)
            why = "keys that begin with " YOKEI_SAFETENSORS_HASH_PREFIX " are for checksums";
        else if (!is_utf8(metadata[i].key))
            why = "its key is not UTF-8";
        else if (!is_utf8(metadata[i].value))
            why = "its value is not UTF-8";
        else if (json_object_set_new(writer->metadata, metadata[i].key, json_string(metadata[i].value)))
            return yoke_fail(YOKE_ENOMEM, "%s: no host memory for its metadata", writer->path);
        if (why)
            return yoke_fail(YOKE_EINVAL, "%s: metadata \"%s\" cannot be written: %s", writer->path,
                             metadata[i].key, why);
    }
    return YOKE_OK;
}

static yoke_status start_file(struct yokei_safetensors_writer *writer)
{
    char *text = NULL;
    size_t bytes = 0;
    YOKE_TRY(header_text(writer, &text, &bytes));
    if (bytes > YOKEI_SAFETENSORS_MAX_HEADER) {
        free(text);
        return yoke_fail(YOKE_EINVAL,
                         "%s: its header would have %zu bytes, above the format's limit of 100 MB",
                         writer->path, bytes);
    }
    writer->header_bytes = bytes;
    const uint64_t length = htole64(bytes);
    yoke_status status = yokei_output_open(writer->path, &writer->output);
    if (!status) {
        writer->fd = yokei_output_fd(writer->output);
        status = write_all(writer, &length, sizeof length);
    }
    if (!status) status = write_all(writer, text, bytes);
    free(text);
    return status;
}

static yoke_status allocate(const char *path, size_t n_tensors, struct yokei_safetensors_writer **writer_out)
{
    struct yokei_safetensors_writer *writer = calloc(1, sizeof *writer);
    if (writer) {
        writer->fd = -1;
        writer->path = strdup(path);
        writer->names = calloc(n_tensors + 1, sizeof *writer->names);
        writer->ends = calloc(n_tensors + 1, sizeof *writer->ends);
        writer->hashes = calloc(n_tensors + 1, sizeof *writer->hashes);
        writer->state = XXH3_createState();
        writer->root = json_object();
        writer->metadata = json_object();
        if (json_object_set_new(writer->root, "__metadata__", writer->metadata) == 0 && writer->path
            && writer->names && writer->ends && writer->hashes && writer->state) {
            *writer_out = writer;
            return YOKE_OK;
        }
    }
    yokei_safetensors_abandon(writer);
    return yoke_fail(YOKE_ENOMEM, "%s: no memory to write it", path);
}

yoke_status yokei_safetensors_create(const char *path, const struct yokei_tensor *tensors, size_t n_tensors,
                                     const struct yokei_metadata *metadata, size_t n_metadata,
                                     struct yokei_safetensors_writer **writer_out)
{
    struct yokei_safetensors_writer *writer = NULL;
    if (!path || !writer_out || (n_tensors && !tensors) || (n_metadata && !metadata))
        return yoke_fail(YOKE_EINVAL,
                         "yokei_safetensors_create: path, tensors, metadata and writer_out must not be NULL");
    YOKE_TRY(allocate(path, n_tensors, &writer));
    yoke_status status;
    YOKE_TRY_GOTO(add_metadata(writer, metadata, n_metadata), fail);
    for (size_t i = 0; i < n_tensors; i++) YOKE_TRY_GOTO(add_entry(writer, &tensors[i]), fail);
    YOKE_TRY_GOTO(start_file(writer), fail);
    XXH3_64bits_reset(writer->state);
    *writer_out = writer;
    return YOKE_OK;
fail:
    yokei_safetensors_abandon(writer);
    return status;
}

/*
 * Complete the hashes of all tensors that end at the current position. There may be several if some tensors
 * are empty.
 */
static void close_tensors(struct yokei_safetensors_writer *writer)
{
    while (writer->current < writer->n_tensors && writer->ends[writer->current] == writer->written) {
        writer->hashes[writer->current++] = XXH3_64bits_digest(writer->state);
        XXH3_64bits_reset(writer->state);
    }
}

yoke_status yokei_safetensors_write(struct yokei_safetensors_writer *writer, const void *data, size_t bytes)
{
    if (bytes == 0) return YOKE_OK;
    close_tensors(writer); /* empty tensors at the start */
    size_t room = writer->current < writer->n_tensors ? writer->ends[writer->current] - writer->written : 0;
    if (bytes > room)
        return yoke_fail(YOKE_EINVAL, "%s: %zu bytes do not fit into tensor \"%s\", which waits for %zu",
                         writer->path, bytes, room ? writer->names[writer->current] : "(none)", room);
    YOKE_TRY(write_all(writer, data, bytes));
    XXH3_64bits_update(writer->state, data, bytes);
    writer->written += bytes;
    close_tensors(writer);
    return YOKE_OK;
}

static yoke_status finish_file(struct yokei_safetensors_writer *writer)
{
    char *text = NULL;
    size_t bytes = 0;
    close_tensors(writer);
    if (writer->current < writer->n_tensors)
        return yoke_fail(YOKE_EINVAL, "%s: tensor \"%s\" still waits for %zu bytes", writer->path,
                         writer->names[writer->current], writer->ends[writer->current] - writer->written);
    YOKE_TRY(header_text(writer, &text, &bytes));
    bool failed = lseek(writer->fd, 8, SEEK_SET) < 0;
    yoke_status status = failed || bytes != writer->header_bytes
                             ? yoke_fail(YOKE_EIO, "%s: its header cannot be rewritten: %s", writer->path,
                                         strerror(errno))
                             : write_all(writer, text, bytes);
    free(text);
    YOKE_TRY(status);
    struct yokei_output *output = writer->output;
    writer->output = NULL;
    return yokei_output_commit(output);
}

yoke_status yokei_safetensors_commit(struct yokei_safetensors_writer *writer)
{
    yoke_status status = finish_file(writer);
    yokei_safetensors_abandon(writer);
    return status;
}
