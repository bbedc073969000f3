/* SPDX-License-Identifier: Apache-2.0 */
/**
 * safetensors: named tensors in one file (8-byte little-endian header length, JSON header, data), or in several files
 * joined by model.safetensors.index.json.
 *
 * A file is refused, with file and offset or tensor and reason, unless: the header's length is inside the file and at
 * most 100 MB; the header is UTF-8 JSON of depth <= 4 without duplicate keys, whose numbers are digits only; each entry
 * has exactly dtype, shape and data_offsets; the shape's product times the type's size equals the range, without
 * overflow; the ranges cover the data without holes or overlap, up to the last byte; __metadata__ maps strings to
 * strings; and each checksum in it (key "yoke.xxh3.NAME", 16 hexadecimal digits, XXH3-64 of the tensor's bytes) is right.
 */
#ifndef TRAIN_FILES_SAFETENSORS_H
#define TRAIN_FILES_SAFETENSORS_H

#include <yoke/base.h>

struct yokei_safetensors;
struct yokei_safetensors_writer;

#define YOKEI_TENSOR_MAX_DIMS 8

/** One tensor. Of a reader: strings and data belong to it and live as long as it does. */
struct yokei_tensor {
    const char *name;
    yoke_dtype dtype;  /* YOKE_N_DTYPES for the format's types that Yoke does not have: BOOL, I16, U16, U32, U64, F8_… */
    const char *type;  /* as the file spells it: "F32", "BF16", …; the writer ignores it */
    int n_dims;        /* 0 for a scalar */
    int64_t shape[YOKEI_TENSOR_MAX_DIMS];
    size_t bytes;      /* the writer ignores it */
    const void *data;  /* mapped; may be unaligned: copy, or use yokei_safetensors_load */
    const char *file;  /* where it lies */
};

enum yokei_safetensors_flags { YOKEI_SAFETENSORS_NO_HASH = 1 /* do not read all data to check the checksums */ };

/**
 * Open a .safetensors file, an index (.json), or a folder that holds model.safetensors or model.safetensors.index.json;
 * all files are mapped and checked before anything is returned.
 * Errors: YOKE_EDATA (missing, truncated, corrupt; the index names a missing file or tensor), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_safetensors_open(const char *path, unsigned flags, struct yokei_safetensors **tensors_out);
/** NULL is allowed. */
void yokei_safetensors_close(struct yokei_safetensors *tensors);
/** What was opened, for messages. */
const char *yokei_safetensors_path(const struct yokei_safetensors *tensors);
size_t yokei_safetensors_count(const struct yokei_safetensors *tensors);
/** Tensors in ascending order of name (bytewise). */
const struct yokei_tensor *yokei_safetensors_at(const struct yokei_safetensors *tensors, size_t index);
/** NULL where there is none. */
const struct yokei_tensor *yokei_safetensors_find(const struct yokei_safetensors *tensors, const char *name);
/** A string of __metadata__ (the first file's, where several are joined), NULL where there is none. */
const char *yokei_safetensors_metadata(const struct yokei_safetensors *tensors, const char *key);
/** The tensor whose name is nearest to `name`, for messages; NULL when none is near. */
const char *yokei_safetensors_nearest(const struct yokei_safetensors *tensors, const char *name);
/** "[2, 64]", for messages. */
void yokei_shape_text(int n_dims, const int64_t shape[], char *text, size_t bytes);
/** The first n elements of a tensor, converted to `dtype` among f32, f16, bf16, f64 (rounded once). YOKE_EDATA (no float), YOKE_EINVAL (n). */
yoke_status yokei_tensor_copy(const struct yokei_tensor *tensor, size_t n, yoke_dtype dtype, void *out);
/**
 * Copy one tensor into host memory, of exactly this shape, converted to `dtype` among f32, f16, bf16, f64 (rounded once;
 * integers only to their own type). Errors: YOKE_EDATA (no such tensor: the nearest name; wrong shape or type).
 */
yoke_status yokei_safetensors_load(const struct yokei_safetensors *tensors, const char *name, yoke_dtype dtype, int n_dims,
                                   const int64_t shape[], void *out);

/** Key and value of __metadata__. */
struct yokei_metadata { const char *key, *value; };

/**
 * Write a file tensor by tensor: data under a temporary name beside `path`; the file is there whole after
 * yokei_safetensors_commit, or not at all. Data lies in the order of `tensors` (their `data` is not looked at here);
 * put wider types first and every tensor is aligned. Each tensor gets a checksum in __metadata__.
 * Errors: YOKE_EINVAL (duplicate or empty name, dims, type), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_safetensors_create(const char *path, const struct yokei_tensor *tensors, size_t n_tensors,
                                     const struct yokei_metadata *metadata, size_t n_metadata,
                                     struct yokei_safetensors_writer **writer_out);
/** The next `bytes` of data, in order, in pieces of any size that do not cross a tensor's end. YOKE_EIO (full disk included), YOKE_EINVAL. */
yoke_status yokei_safetensors_write(struct yokei_safetensors_writer *writer, const void *data, size_t bytes);
/** Checksums, fsync, rename, fsync of the folder. Frees the writer, also on failure (nothing is left then). YOKE_EINVAL: data is missing. */
yoke_status yokei_safetensors_commit(struct yokei_safetensors_writer *writer);
/** Remove the temporary file and free the writer. NULL is allowed. */
void yokei_safetensors_abandon(struct yokei_safetensors_writer *writer);

/** All at once: `data` of each tensor is written; the data lies sorted by type, widest first. */
yoke_status yokei_safetensors_save(const char *path, const struct yokei_tensor *tensors, size_t n_tensors,
                                   const struct yokei_metadata *metadata, size_t n_metadata);

#endif
