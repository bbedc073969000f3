/* SPDX-License-Identifier: Apache-2.0 */
/** Programs that are compiled to a binary, which is then loaded. */
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/module.h"

/** Load the binary, and take it over. It is freed on failure. */
static yoke_status open_binary(yoke_device *device, void *binary, size_t bytes, void **program_out)
{
    struct yokei_gpu_module *module = calloc(1, sizeof *module);
    yoke_status status = module
                             ? yokei_gpu(device)->driver->open_module(device, binary, bytes, &module->handle)
                             : yokei_gpu_no_host_memory(device, "a program");
    if (status) {
        free(module);
        free(binary);
        return status;
    }
    module->binary = binary;
    module->bytes = bytes;
    *program_out = module;
    return YOKE_OK;
}

static yoke_status copy_of(const yoke_device *device, const void *binary, size_t bytes, void **copy_out)
{
    *copy_out = malloc(bytes);
    if (!*copy_out) return yokei_gpu_no_host_memory(device, "a program's binary");
    memcpy(*copy_out, binary, bytes);
    return YOKE_OK;
}

yoke_status yokei_gpu_module_build(yoke_device *device, const struct yokei_gpu_source *source,
                                   void **program_out)
{
    void *binary;
    size_t bytes;
    YOKE_TRY(yokei_gpu(device)->driver->compile(device, source, &binary, &bytes));
    const yoke_status status = open_binary(device, binary, bytes, program_out);
    /* the statuses by which `load` judges a file */
    return status == YOKE_EDATA || status == YOKE_EUNSUPPORTED ? YOKE_EBACKEND : status;
}

yoke_status yokei_gpu_module_load(yoke_device *device, const void *binary, size_t bytes, void **program_out)
{
    void *copy;
    YOKE_TRY(copy_of(device, binary, bytes, &copy));
    return open_binary(device, copy, bytes, program_out);
}

yoke_status yokei_gpu_module_binary(yoke_device *device, void *program, void **binary_out, size_t *bytes_out)
{
    const struct yokei_gpu_module *module = program;
    *bytes_out = module->bytes;
    return copy_of(device, module->binary, module->bytes, binary_out);
}

void yokei_gpu_module_release(yoke_device *device, void *program)
{
    struct yokei_gpu_module *module = program;
    yokei_gpu(device)->driver->close_module(device, module->handle);
    free(module->binary);
    free(module);
}
