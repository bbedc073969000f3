/* SPDX-License-Identifier: Apache-2.0 */
/** What gemm.c and attention.c share: their bodies (Yoke's own algorithms), and the selection among them. */
#ifndef BACKENDS_GPU_BODIES_H
#define BACKENDS_GPU_BODIES_H

#include "backends/gpu/families.h"

/**
 * A body. MR, NV: a tile has MR rows and NV vectors of W elements. mma: it needs `multiplies_squares`. Only
 * gemm uses the other fields. panels: the most panels of a block. BM to TN: the sizes of a team's block, and
 * the sizes per work-item.
 */
struct yokei_gpu_body {
    const char *name;
    bool tile, cpu_only, mma;
    int MR, NV, W, panels;
    int BM, BN, BK, TM, TN;
};

/** The bodies of a family. Body i of a device is the i-th one that `offered` does not leave out. */
struct yokei_gpu_bodies {
    const struct yokei_gpu_body *list;
    int n;
    bool (*offered)(const struct yokei_gpu_body *body, const struct yokei_gpu_device *gpu);
};
/** The body with this index on the device. NULL past the last one. */
const struct yokei_gpu_body *yokei_gpu_body_at(const struct yokei_gpu_bodies *bodies,
                                               const yoke_device *device, int index);
/** The index on the device of an entry of the list. */
int yokei_gpu_body_index(const struct yokei_gpu_bodies *bodies, const yoke_device *device, int entry);

/** A program of a tile: one lane to a team, MR and NV. The caller fills in the other fields. */
struct yokei_gpu_program yokei_gpu_tile_program(const char *family, const struct yokei_gpu_body *body);
/** The columns of a tile, which are also those of a panel. */
static inline int64_t yokei_gpu_tile_columns(const struct yokei_gpu_body *body)
{
    return (int64_t)body->NV * body->W;
}
static inline int64_t yokei_gpu_round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

#endif
