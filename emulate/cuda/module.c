/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's calls for modules, functions and launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/cuda.h"

enum { STATIC_SHARED = 48 * 1024, LAST_JIT_OPTION = 34 };

/* ---- loading ---- */

struct log { /* the buffers of the options CU_JIT_..._LOG_BUFFER */
    char *buffer;
    size_t bytes;
    void **bytes_value;
};

static enum emulate_error read_options(unsigned n, const CUjit_option *options, void **values,
                                       struct log *info, struct log *error)
{
    if (n && (!options || !values)) return EMULATE_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER: info->buffer = values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER: error->buffer = values[i]; break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            info->bytes = (size_t)(uintptr_t)values[i];
            info->bytes_value = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            error->bytes = (size_t)(uintptr_t)values[i];
            error->bytes_value = &values[i];
            break;
        default:
            if (options[i] < 0 || options[i] > LAST_JIT_OPTION) return EMULATE_INVALID_VALUE;
        }
    }
    return EMULATE_OK;
}

static void write_log(const struct log *log, const char *text)
{
    size_t length = 0;
    if (log->buffer && log->bytes) {
        snprintf(log->buffer, log->bytes, "%s", text);
        length = strlen(log->buffer);
    }
    if (log->bytes_value) *log->bytes_value = (void *)(uintptr_t)length;
}

/* The number behind .version, 87 for 8.7; 0: there is none. */
static int ptx_version(const char *text)
{
    int major, minor;
    const char *at = strstr(text, ".version");
    return at && sscanf(at + 8, "%d.%d", &major, &minor) == 2 ? major * 10 + minor : 0;
}

enum emulate_error cuda_check_kernel(const struct kernel_info *info, char *text, size_t text_bytes)
{
    const int capability = cuda_settings.capability;
    if (info->target > (uint32_t)capability) {
        snprintf(
            text, text_bytes,
            "SM version specified by .target (sm_%u) is higher than the device's compute capability %d.%d",
            info->target, capability / 10, capability % 10);
        return EMULATE_INVALID_PTX;
    }
    if (info->shared_bytes > STATIC_SHARED) {
        snprintf(text, text_bytes, "Entry function '%s' uses too much shared data (0x%x bytes, 0x%x max)",
                 info->name, info->shared_bytes, (unsigned)STATIC_SHARED);
        return EMULATE_INVALID_PTX;
    }
    return EMULATE_OK;
}

/* What NVIDIA's driver says before it compiles anything. */
static enum emulate_error check_image(const char *image, char *text, size_t text_bytes)
{
    if (!*image) return EMULATE_INVALID_IMAGE;
    if (!memcmp(image, "\177ELF", 4) || !memcmp(image, "\x50\xed\x55\xba", 4)) {
        snprintf(text, text_bytes, "this is machine code; the stand-in driver runs PTX alone");
        return EMULATE_NO_BINARY_FOR_GPU;
    }
    const int version = ptx_version(image), newest = cuda_settings.newest_ptx;
    if (newest && version > newest) {
        snprintf(text, text_bytes, "Unsupported .version %d.%d; current version is '%d.%d'", version / 10,
                 version % 10, newest / 10, newest % 10);
        return EMULATE_UNSUPPORTED_PTX_VERSION;
    }
    return EMULATE_OK;
}

CUresult cuModuleLoadDataEx(CUmodule *module_out, const void *image, unsigned int n_options,
                            CUjit_option *options, void **values)
{
    struct context *context;
    enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    struct log info = { 0 }, error = { 0 };
    char text[1400] = "";
    result = read_options(n_options, options, values, &info, &error);
    if (!result && (!module_out || !image)) result = EMULATE_INVALID_VALUE;
    if (result) return emulate_leave(result);
    result = check_image(image, text, sizeof text);
    if (!result)
        result = emulate_module_load(context, "cuModuleLoadDataEx", image, strlen(image), module_out, text,
                                     sizeof text);
    write_log(&info, "");
    write_log(&error, text);
    return emulate_leave(result);
}

CUresult cuModuleLoadData(CUmodule *module_out, const void *image)
{
    return cuModuleLoadDataEx(module_out, image, 0, NULL, NULL);
}

CUresult cuModuleUnload(CUmodule module) { return emulate_call_module_unload("cuModuleUnload", module); }

/* ---- functions ---- */

CUresult cuModuleGetFunction(CUfunction *function_out, CUmodule module, const char *name)
{
    return emulate_call_module_function(module, name, function_out);
}

int cuda_dynamic_most(const struct function *function)
{
    const int by_default = STATIC_SHARED - (int)function->info.shared_bytes;
    return function->dynamic_shared > by_default ? function->dynamic_shared : by_default;
}

static enum emulate_error attribute_of(const struct function *function, CUfunction_attribute attribute,
                                       int *value_out)
{
    const struct kernel_info *info = &function->info;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value_out = info->max_threads ? (int)info->max_threads : 1024;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value_out = (int)info->shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value_out = (int)info->local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        /* ptxas would decide; 64 is the most with which 1,024 threads fit in a multiprocessor. */
        *value_out = info->n_registers < 64 ? (int)info->n_registers : 64;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value_out = (int)info->target; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value_out = cuda_settings.capability; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value_out = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value_out = cuda_dynamic_most(function); break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value_out = -1; break;
    default: return EMULATE_INVALID_VALUE;
    }
    return EMULATE_OK;
}

CUresult cuFuncLoad(CUfunction function)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(EMULATE_INVALID_HANDLE);
    return emulate_leave(emulate_function_load(function, "cuFuncLoad"));
}

CUresult cuFuncGetAttribute(int *value_out, CUfunction_attribute attribute, CUfunction function)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!value_out) return emulate_leave(EMULATE_INVALID_VALUE);
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(EMULATE_INVALID_HANDLE);
    return emulate_leave(attribute_of(function, attribute, value_out));
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    struct context *context;
    enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(EMULATE_INVALID_HANDLE);
    const int most = (int)(function->object.context->limits.shared_bytes - function->info.shared_bytes);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 && value <= most)
        function->dynamic_shared = value;
    else if (attribute != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT || value < -1 || value > 100)
        result = EMULATE_INVALID_VALUE;
    return emulate_leave(result);
}

/* ---- launches ---- */

enum emulate_error cuda_check_shared(const struct function *function, uint32_t dynamic_bytes)
{
    return dynamic_bytes > (uint32_t)cuda_dynamic_most(function) ? EMULATE_INVALID_VALUE : EMULATE_OK;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)
{
    struct call_launch call = { .function = function,
                                .stream = stream,
                                .grid = { grid_x, grid_y, grid_z },
                                .block = { block_x, block_y, block_z },
                                .shared_bytes = shared_bytes,
                                .parameters = parameters,
                                .has_block = extra != NULL };
    for (int i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) call.parameter_block = extra[i + 1];
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) call.block_bytes = *(const size_t *)extra[i + 1];
    }
    return emulate_call_launch(&call);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_out, CUfunction function, int block_threads,
                                                     size_t dynamic_shared_bytes)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!blocks_out || block_threads <= 0) return emulate_leave(EMULATE_INVALID_VALUE);
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(EMULATE_INVALID_HANDLE);
    const struct device_model *model = cuda_model(cuda_settings.capability);
    const int reserved = cuda_settings.capability >= 80 ? 1024 : 0;
    const uint64_t shared = function->info.shared_bytes + dynamic_shared_bytes + (uint64_t)reserved;
    int blocks = model->threads_per_multiprocessor / ((block_threads + 31) / 32 * 32);
    if (blocks > model->blocks_per_multiprocessor) blocks = model->blocks_per_multiprocessor;
    if (shared && (uint64_t)blocks > (uint64_t)model->shared_per_multiprocessor / shared)
        blocks = (int)((uint64_t)model->shared_per_multiprocessor / shared);
    const int most = function->info.max_threads ? (int)function->info.max_threads : 1024;
    if (block_threads > most || dynamic_shared_bytes > (size_t)cuda_dynamic_most(function)) blocks = 0;
    *blocks_out = blocks;
    return emulate_leave(EMULATE_OK);
}
