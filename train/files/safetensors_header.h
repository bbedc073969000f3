/* SPDX-License-Identifier: Apache-2.0 */
/** Parts of the format that the reader and the writer of safetensors share. */
#ifndef TRAIN_FILES_SAFETENSORS_HEADER_H
#define TRAIN_FILES_SAFETENSORS_HEADER_H

#include <jansson.h>

#include "train/files/map.h"
#include "train/files/safetensors.h"

#define YOKEI_SAFETENSORS_HASH_PREFIX "yoke.xxh3."
#define YOKEI_SAFETENSORS_MAX_HEADER ((uint64_t)100 * 1000 * 1000)
#define YOKEI_SAFETENSORS_MAX_TENSORS 1000000u
#define YOKEI_SAFETENSORS_MAX_NAME 512u

/**
 * One file: its mapping, and its tensors in the order of their data. Names and types of the tensors belong to
 * `root`.
 */
struct yokei_safetensors_file {
    char *path;
    struct yokei_map map;
    json_t *root;
    struct yokei_tensor *tensors;
    size_t n_tensors;
};

/** The format's name of a type that Yoke has; NULL for other types. */
const char *yokei_safetensors_type(yoke_dtype dtype);
/** Why a tensor must not have this name; NULL: it may. */
const char *yokei_safetensors_bad_name(const char *name);

/**
 * Map and check one file. Checksums are checked unless flags have NO_HASH. Errors are as in
 * yokei_safetensors_open.
 */
yoke_status yokei_safetensors_file_open(const char *path, unsigned flags,
                                        struct yokei_safetensors_file *file_out);
void yokei_safetensors_file_close(struct yokei_safetensors_file *file);

#endif
