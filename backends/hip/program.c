/* SPDX-License-Identifier: Apache-2.0 */
/** Programs of HIP: the text for the compiler, and the loading of code objects. */
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/module.h"
#include "backends/hip/hip.h"

yoke_status yokei_hip_compile(const yoke_device *device, const struct yokei_gpu_source *source,
                              void **blob_out, size_t *bytes_out)
{
    const struct hip_device *dev = hip_device(device);
    if (dev->compiler.kind == HIP_NO_COMPILER)
        return yoke_fail(YOKE_ECOMPILE, "%s: %s", device->info.spec, dev->rt.gpu.no_compiler);
    const size_t bytes = strlen(source->options) + strlen(source->prelude) + strlen(source->text) + 1;
    char *text = malloc(bytes);
    if (!text) return yokei_gpu_no_host_memory(device, "a program");
    yokei_text(text, bytes, "%s%s%s", source->options, source->prelude, source->text);
    const yoke_status status = yokei_hip_compile_text(&dev->compiler, device->info.spec, dev->arch,
                                                      source->name, text, blob_out, bytes_out);
    free(text);
    return status;
}

yoke_status yokei_hip_load(const yoke_device *device, const void *binary, size_t bytes, void **module_out)
{
    hipModule_t module = NULL;
    if (bytes < 64)
        return yoke_fail(YOKE_EDATA, "%s: a program's code object is too short", device->info.spec);
    const hipError_t error = hip_device(device)->hip->hipModuleLoadData(&module, binary);
    *module_out = module;
    if (!error) return YOKE_OK;
    const yoke_status status = yokei_rt_fail(device, "loading a program's code object", error);
    switch (error) { /* the status says whether the program's bytes are bad */
    case hipErrorInvalidImage:
    case hipErrorInvalidKernelFile:
    case hipErrorSharedObjectInitFailed: return YOKE_EDATA;
    case hipErrorNoBinaryForGpu: return YOKE_EUNSUPPORTED;
    default: return status;
    }
}

const struct yokei_gpu_driver yokei_hip_driver = {
    .name = "hip",
    .compiler = "hipRTC or clang",
    .language = YOKEI_GPU_HIP,
    .build = yokei_gpu_module_build,
    .load = yokei_gpu_module_load,
    .binary = yokei_gpu_module_binary,
    .release = yokei_gpu_module_release,
    .kernel = yokei_rt_kernel,
    .release_kernel = yokei_rt_release_kernel,
    .launch = yokei_rt_launch,
    .maker = yokei_hip_maker,
    .suits = yokei_hip_suits,
    .compile = yokei_hip_compile,
    .open_module = yokei_rt_open_module,
    .close_module = yokei_rt_close_module,
};
