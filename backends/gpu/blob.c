/* SPDX-License-Identifier: Apache-2.0 */
/** Binaries of several parts. */
#include "backends/gpu/blob.h"

#include <stdlib.h>
#include <string.h>

struct blob {
    char magic[8]; /* "YOKEBLB" */
    uint64_t bytes[YOKEI_GPU_BLOB_PARTS];
    uint64_t unused; /* the parts begin at a multiple of 16 bytes */
};

static size_t padded(size_t bytes) { return (bytes + 15) / 16 * 16; }

yoke_status yokei_gpu_blob_make(const struct yokei_gpu_part parts[YOKEI_GPU_BLOB_PARTS], void **blob_out,
                                size_t *bytes_out)
{
    size_t bytes = sizeof(struct blob);
    for (int i = 0; i < YOKEI_GPU_BLOB_PARTS; i++) bytes += padded(parts[i].bytes);
    struct blob *blob = calloc(1, bytes);
    if (!blob) return yoke_fail(YOKE_ENOMEM, "no host memory for a program's binary of %zu bytes", bytes);
    *blob = (struct blob){ .magic = "YOKEBLB" };
    char *at = (char *)(blob + 1);
    for (int i = 0; i < YOKEI_GPU_BLOB_PARTS; i++) {
        blob->bytes[i] = parts[i].bytes;
        if (parts[i].bytes) memcpy(at, parts[i].data, parts[i].bytes);
        at += padded(parts[i].bytes);
    }
    *blob_out = blob;
    *bytes_out = bytes;
    return YOKE_OK;
}

yoke_status yokei_gpu_blob_open(const void *data, size_t bytes,
                                struct yokei_gpu_part parts_out[YOKEI_GPU_BLOB_PARTS])
{
    const struct blob *blob = data;
    size_t at = sizeof *blob;
    if (bytes < sizeof *blob || memcmp(blob->magic, "YOKEBLB", 8) != 0)
        return yoke_fail(YOKE_EDATA, "the program's binary of %zu bytes does not begin as one of Yoke's",
                         bytes);
    for (int i = 0; i < YOKEI_GPU_BLOB_PARTS; i++) {
        if (blob->bytes[i] > bytes - at || padded(blob->bytes[i]) > bytes - at)
            return yoke_fail(YOKE_EDATA, "the program's binary of %zu bytes is cut off in part %d", bytes, i);
        parts_out[i] = (struct yokei_gpu_part){ (const char *)data + at, blob->bytes[i] };
        at += padded(blob->bytes[i]);
    }
    return YOKE_OK;
}
