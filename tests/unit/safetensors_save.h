/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a whole safetensors file at once. */
#ifndef TESTS_UNIT_SAFETENSORS_SAVE_H
#define TESTS_UNIT_SAFETENSORS_SAVE_H

#include <stdlib.h>
#include "core/base/base.h"
#include "train/files/safetensors.h"

/* Write `data` of each tensor. In the file the widest type comes first. Within a type the order is kept. */
static inline yoke_status save_safetensors(const char *path, const struct yokei_tensor *tensors,
                                           size_t n_tensors, const struct yokei_metadata *metadata,
                                           size_t n_metadata)
{
    struct yokei_safetensors_writer *writer;
    struct yokei_tensor *sorted = calloc(n_tensors + 1, sizeof *sorted);
    size_t next = 0;
    if (!sorted) return YOKE_ENOMEM;
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < n_tensors; i++)
            if (yoke_dtype_bytes(tensors[i].dtype) == width) sorted[next++] = tensors[i];
    yoke_status status = yokei_safetensors_create(path, sorted, next, metadata, n_metadata, &writer);
    if (!status) {
        for (size_t i = 0; i < next && !status; i++) {
            size_t bytes = yoke_dtype_bytes(sorted[i].dtype);
            for (int d = 0; d < sorted[i].n_dims; d++) bytes *= (size_t)sorted[i].shape[d];
            status = yokei_safetensors_write(writer, sorted[i].data, bytes);
        }
        if (status)
            yokei_safetensors_abandon(writer);
        else
            status = yokei_safetensors_commit(writer);
    }
    free(sorted);
    return status;
}

#endif
