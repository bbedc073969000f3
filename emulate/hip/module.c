/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's calls for modules, functions and launches. */
#include "emulate/hip/hip.h"

hipError_t hipModuleLoadData(hipModule_t *module_out, const void *image)
{
    struct context *context;
    char text[1400] = "";
    enum emulate_error error = emulate_enter(&context);
    if (error) return hip_result(error);
    if (!module_out || !image) return hip_result(emulate_leave(EMULATE_INVALID_VALUE));
    const size_t bytes = hip_program_bytes(image);
    error = bytes ? emulate_module_load(context, "hipModuleLoadData", image, bytes, module_out, text,
                                        sizeof text)
                  : EMULATE_INVALID_IMAGE;
    /* HIP has no place for the reason, so it goes where AMD's runtime would log it. */
    if (error && *text) emulate_print("hipModuleLoadData: %s", text);
    return hip_result(emulate_leave(error));
}

hipError_t hipModuleUnload(hipModule_t module)
{
    return hip_result(emulate_call_module_unload("hipModuleUnload", module));
}

hipError_t hipModuleGetFunction(hipFunction_t *function_out, hipModule_t module, const char *name)
{
    return hip_result(emulate_call_module_function(module, name, function_out));
}

static enum emulate_error value_of(const struct kernel_info *info, hipFunction_attribute attribute,
                                   int *value_out)
{
    const int shared = hip_settings.model->shared_bytes;
    switch ((int)attribute) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value_out = info->max_threads ? (int)info->max_threads : 1024;
        break;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value_out = (int)info->shared_bytes; break;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value_out = (int)info->local_bytes; break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: *value_out = (int)info->n_registers; break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value_out = shared - (int)info->shared_bytes;
        break;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value_out = 0; break;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: *value_out = 30; break; /* what AMD's runtime answers */
    default: return EMULATE_INVALID_VALUE;
    }
    return EMULATE_OK;
}

hipError_t hipFuncGetAttribute(int *value_out, hipFunction_attribute attribute, hipFunction_t function)
{
    struct context *context;
    const enum emulate_error error = emulate_enter(&context);
    if (error) return hip_result(error);
    if (!value_out) return hip_result(emulate_leave(EMULATE_INVALID_VALUE));
    if (!emulate_object_is(function, KIND_FUNCTION)) return hip_result(emulate_leave(EMULATE_INVALID_HANDLE));
    return hip_result(emulate_leave(value_of(&function->info, attribute, value_out)));
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int shared_bytes, hipStream_t stream,
                                 void **parameters, void **extra)
{
    struct call_launch call = { .function = function,
                                .stream = stream,
                                .grid = { grid_x, grid_y, grid_z },
                                .block = { block_x, block_y, block_z },
                                .shared_bytes = shared_bytes,
                                .parameters = parameters,
                                .has_block = extra != NULL };
    for (int i = 0; i < 3; i++) /* a packet has 32 bits for the threads of a grid in a dimension */
        if ((uint64_t)call.grid[i] * call.block[i] > UINT32_MAX) return hip_result(EMULATE_INVALID_VALUE);
    for (int i = 0; extra && extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER) call.parameter_block = extra[i + 1];
        if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE) call.block_bytes = *(const size_t *)extra[i + 1];
    }
    return hip_result(emulate_call_launch(&call));
}
