/* SPDX-License-Identifier: Apache-2.0 */
/** The selection among the bodies of gemm and attention. */
#include "backends/gpu/bodies.h"

const struct yokei_gpu_body *yokei_gpu_body_at(const struct yokei_gpu_bodies *bodies,
                                               const yoke_device *device, int index)
{
    for (int i = 0; i < bodies->n; i++)
        if (bodies->offered(&bodies->list[i], yokei_gpu(device)) && index-- == 0) return &bodies->list[i];
    return NULL;
}

int yokei_gpu_body_index(const struct yokei_gpu_bodies *bodies, const yoke_device *device, int entry)
{
    int index = 0;
    for (int i = 0; i < entry; i++) index += bodies->offered(&bodies->list[i], yokei_gpu(device));
    return index;
}

struct yokei_gpu_program yokei_gpu_tile_program(const char *family, const struct yokei_gpu_body *body)
{
    return (struct yokei_gpu_program){ .family = family,
                                       .L = 1,
                                       .W = body->W,
                                       .G = body->W > 1 ? 1 : 32,
                                       .defines = { { "YK_MR", body->MR }, { "YK_NV", body->NV } } };
}
