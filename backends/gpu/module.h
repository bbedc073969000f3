/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Programs of a driver that compiles to a binary first and then loads the binary (CUDA, HIP). The binary is
 * kept beside the loaded module, because the vendor's library does not return it.
 */
#ifndef BACKENDS_GPU_MODULE_H
#define BACKENDS_GPU_MODULE_H

#include "backends/gpu/driver.h"

struct yokei_gpu_module {
    void *handle; /* what the driver's open_module made */
    void *binary;
    size_t bytes;
};

/** The slots build, load, binary and release of struct yokei_gpu_driver. */
yoke_status yokei_gpu_module_build(yoke_device *device, const struct yokei_gpu_source *source,
                                   void **program_out);
yoke_status yokei_gpu_module_load(yoke_device *device, const void *binary, size_t bytes, void **program_out);
yoke_status yokei_gpu_module_binary(yoke_device *device, void *program, void **binary_out, size_t *bytes_out);
void yokei_gpu_module_release(yoke_device *device, void *program);

#endif
