/* SPDX-License-Identifier: Apache-2.0 */
/** Declarations for shards and indices, shared by the files of train/checkpoint. */
#ifndef TRAIN_CHECKPOINT_SHARDS_H
#define TRAIN_CHECKPOINT_SHARDS_H

#include <endian.h>
#include <string.h>

#include "train/files/safetensors_header.h"

/** Bytes of a file's header and of the 8 bytes before it; 0: they do not fit into the file. */
static inline size_t yokei_shard_header_bytes(const struct yokei_map *map)
{
    uint64_t length;
    if (map->bytes < sizeof length) return 0;
    memcpy(&length, map->data, sizeof length);
    length = le64toh(length);
    return length <= map->bytes - sizeof length ? sizeof length + (size_t)length : 0;
}

/**
 * Write FOLDER/model.safetensors.index.json from a map of tensor names to files. `total` is the bytes of all
 * tensors. YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_index_write(const char *folder, json_t *map, uint64_t total);

#endif
