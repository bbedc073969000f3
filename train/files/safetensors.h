/* SPDX-License-Identifier: Apache-2.0 */
/**
 * safetensors: named tensors in one file (8-byte little-endian header length, JSON header, data), or in
 * several files joined by model.safetensors.index.json.
 *
 * A file is refused unless it meets all of these conditions. The message names the file, the offset or
 * tensor, and the reason.
 *   - The header's length is inside the file and at most 100 MB.
 *   - The header is UTF-8 JSON of depth <= 4 without duplicate keys, and its numbers are digits only.
 *   - Each entry has exactly dtype, shape and data_offsets.
 *   - The product of the shape times the type's size equals the range, without overflow.
 *   - The ranges cover the data without holes or overlap, up to the last byte.
 *   - __metadata__ maps strings to strings.
 *   - Each checksum in __metadata__ is right (key "yoke.xxh3.NAME", 16 hexadecimal digits, XXH3-64 of the
 *     tensor's bytes).
 */
#ifndef TRAIN_FILES_SAFETENSORS_H
#define TRAIN_FILES_SAFETENSORS_H

#include <yoke/base.h>

struct yokei_safetensors;
struct yokei_safetensors_writer;

#define YOKEI_TENSOR_MAX_DIMS 8

/** One tensor. In a reader, strings and data belong to the reader and live as long as it does. */
struct yokei_tensor {
    const char *name;
    /* YOKE_N_DTYPES for types of the format that Yoke does not have: BOOL, I16, U16, U32, U64, F8_… */
    yoke_dtype dtype;
    const char *type; /* the type as the file spells it: "F32", "BF16", …; the writer ignores it */
    int n_dims;       /* 0 for a scalar */
    int64_t shape[YOKEI_TENSOR_MAX_DIMS];
    size_t bytes;     /* the writer ignores it */
    const void *data; /* mapped memory, possibly unaligned: copy it, or use yokei_tensor_copy */
    const char *file; /* the file that holds the tensor */
};

enum yokei_safetensors_flags {
    YOKEI_SAFETENSORS_NO_HASH = 1 /* do not read all data to check the checksums */
};

/**
 * Open a .safetensors file, an index (.json), or a folder that holds model.safetensors or
 * model.safetensors.index.json. All files are mapped and checked before the function returns. Errors:
 * YOKE_EDATA (missing, truncated, corrupt; the index names a missing file or tensor), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_safetensors_open(const char *path, unsigned flags, struct yokei_safetensors **tensors_out);
/** NULL is allowed. */
void yokei_safetensors_close(struct yokei_safetensors *tensors);
/** The path that was opened, for messages. */
const char *yokei_safetensors_path(const struct yokei_safetensors *tensors);
size_t yokei_safetensors_count(const struct yokei_safetensors *tensors);
/** The tensor at `index`. Tensors are in ascending bytewise order of their names. */
const struct yokei_tensor *yokei_safetensors_at(const struct yokei_safetensors *tensors, size_t index);
/** The tensor of this name; NULL: there is none. */
const struct yokei_tensor *yokei_safetensors_find(const struct yokei_safetensors *tensors, const char *name);
/** The tensor whose name is most similar to `name`, for messages; NULL: none is similar. */
const char *yokei_safetensors_nearest(const struct yokei_safetensors *tensors, const char *name);
/** Write a shape as text, "[2, 64]", for messages. */
void yokei_shape_text(int n_dims, const int64_t shape[], char *text, size_t bytes);
/**
 * Copy elements [first, first + n) of a tensor, converted to `dtype` (f32, f16, bf16 or f64). Each number is
 * rounded once, to nearest even. Infinities and NaN stay what they are. YOKE_EDATA (not a float type, or a
 * finite number that `dtype` cannot hold), YOKE_EINVAL (first, n).
 */
yoke_status yokei_tensor_piece(const struct yokei_tensor *tensor, int64_t first, int64_t n, yoke_dtype dtype,
                               void *out);
/** The same for the first n elements. */
yoke_status yokei_tensor_copy(const struct yokei_tensor *tensor, size_t n, yoke_dtype dtype, void *out);

/** A key and a value of __metadata__. */
struct yokei_metadata {
    const char *key, *value;
};

/**
 * Begin to write a file tensor by tensor. Data goes to a temporary name beside `path`. After
 * yokei_safetensors_commit the file is complete under `path`; without it there is no file. The data is in the
 * order of `tensors`. Their `data` is not used here. If wider types come first, every tensor is aligned. Each
 * tensor gets a checksum in __metadata__. Errors: YOKE_EINVAL (duplicate or empty name, dims, type),
 * YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_safetensors_create(const char *path, const struct yokei_tensor *tensors, size_t n_tensors,
                                     const struct yokei_metadata *metadata, size_t n_metadata,
                                     struct yokei_safetensors_writer **writer_out);
/**
 * Write the next `bytes` of data, in order. A piece may have any size, but it must not cross the end of a
 * tensor. YOKE_EIO (also for a full disk), YOKE_EINVAL.
 */
yoke_status yokei_safetensors_write(struct yokei_safetensors_writer *writer, const void *data, size_t bytes);
/**
 * Write the checksums, fsync and rename the file, and fsync the folder. The writer is freed, also on failure;
 * then no file is left. YOKE_EINVAL: data is missing.
 */
yoke_status yokei_safetensors_commit(struct yokei_safetensors_writer *writer);
/** Remove the temporary file and free the writer. NULL is allowed. */
void yokei_safetensors_abandon(struct yokei_safetensors_writer *writer);

#endif
