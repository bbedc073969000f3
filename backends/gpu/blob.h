/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A binary of several parts, for drivers that keep more than one form of a program: machine code, which only
 * one kind of device and driver takes, and an intermediate language as the fallback. The blob goes into the
 * cache of programs (cache.c), which checks that it is whole.
 */
#ifndef BACKENDS_GPU_BLOB_H
#define BACKENDS_GPU_BLOB_H

#include "backends/gpu/driver.h"

enum { YOKEI_GPU_MACHINE_CODE, YOKEI_GPU_INTERMEDIATE, YOKEI_GPU_BLOB_PARTS };

/** A part. An absent part has 0 bytes. */
struct yokei_gpu_part {
    const void *data;
    size_t bytes;
};

/** Join parts to a blob, allocated with malloc. YOKE_ENOMEM. */
yoke_status yokei_gpu_blob_make(const struct yokei_gpu_part parts[YOKEI_GPU_BLOB_PARTS], void **blob_out,
                                size_t *bytes_out);
/**
 * Find the parts of a blob. They point into the blob, and begin at multiples of 16 bytes. YOKE_EBACKEND if it
 * is no blob of this format.
 */
yoke_status yokei_gpu_blob_open(const void *blob, size_t bytes,
                                struct yokei_gpu_part parts_out[YOKEI_GPU_BLOB_PARTS]);

#endif
