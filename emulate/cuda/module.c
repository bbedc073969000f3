/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and their functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/driver.h"

enum { STATIC_SHARED = 48 * 1024, LAST_JIT_OPTION = 34 };

static struct tally *tallies;

struct tally *emulate_tally_of(const char *name)
{
    struct tally *tally = tallies;
    while (tally && strcmp(tally->name, name) != 0) tally = tally->next;
    if (tally) return tally;
    tally = calloc(1, sizeof *tally + strlen(name) + 1);
    if (!tally) return NULL;
    strcpy(tally->name, name);
    tally->next = tallies;
    tallies = tally;
    return tally;
}

static void add(struct ptx_counts *sum, const struct ptx_counts *part)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)part;
    _Static_assert(sizeof *sum % sizeof *to == 0, "all counts are 64-bit numbers");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) to[i] += from[i];
}

void emulate_tally_add(struct tally *tally, const struct ptx_counts *counts)
{
    tally->launches++;
    add(&tally->counts, counts);
}

uint64_t yoke_emulate_counts(const char *kernel, struct ptx_counts *counts_out)
{
    uint64_t launches = 0;
    struct ptx_counts sum = { 0 };
    emulate_lock();
    for (const struct tally *tally = tallies; tally; tally = tally->next) {
        if (kernel && strcmp(kernel, tally->name) != 0) continue;
        launches += tally->launches;
        add(&sum, &tally->counts);
    }
    emulate_unlock();
    if (counts_out) *counts_out = sum;
    return launches;
}

uint64_t yoke_emulate_calls(void)
{
    emulate_lock();
    const uint64_t calls = emulate_n_calls;
    emulate_unlock();
    return calls;
}

void emulate_module_put(struct CUmod_st *module)
{
    if (--module->references) return;
    for (struct CUfunc_st *f = module->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    ptx_module_destroy(module->parsed);
    free(module);
}

/* ---- loading ---- */

struct log { /* the buffers of the options CU_JIT_..._LOG_BUFFER */
    char *buffer;
    size_t bytes;
    void **bytes_value;
};

static CUresult read_options(unsigned n, const CUjit_option *options, void **values, struct log *info,
                             struct log *error)
{
    if (n && (!options || !values)) return CUDA_ERROR_INVALID_VALUE;
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
            if (options[i] < 0 || options[i] > LAST_JIT_OPTION) return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
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

/* What ptxas refuses although it is good PTX. */
static CUresult check_kernels(const struct ptx_module *module, uint64_t *bytes_out, char *text,
                              size_t text_bytes)
{
    const struct ptx_kernel *kernel;
    *bytes_out = 0;
    for (int i = 0; (kernel = ptx_module_kernel_at(module, i)); i++) {
        const struct ptx_kernel_info info = ptx_kernel_info(kernel);
        *bytes_out += 16 * (uint64_t)info.n_instructions; /* an instruction of the machine has 16 bytes */
        if (info.target > (uint32_t)emulate_settings.capability) {
            snprintf(
                text, text_bytes,
                "SM version specified by .target (sm_%u) is higher than the device's compute capability %d.%d",
                info.target, emulate_settings.capability / 10, emulate_settings.capability % 10);
            return CUDA_ERROR_INVALID_PTX;
        }
        if (info.shared_bytes > STATIC_SHARED) {
            snprintf(text, text_bytes, "Entry function '%s' uses too much shared data (0x%x bytes, 0x%x max)",
                     info.name, info.shared_bytes, (unsigned)STATIC_SHARED);
            return CUDA_ERROR_INVALID_PTX;
        }
    }
    return CUDA_SUCCESS;
}

/* Called without the lock, because large texts take a while. */
static CUresult parse(const void *image, struct CUmod_st *module, char *text, size_t text_bytes)
{
    const char *ptx = image;
    if (!memcmp(ptx, "\177ELF", 4) || !memcmp(ptx, "\x50\xed\x55\xba", 4)) {
        snprintf(text, text_bytes, "this is machine code; the stand-in driver runs PTX alone");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    module->ptx_version = ptx_version(ptx);
    const int newest = emulate_settings.newest_ptx;
    if (newest && module->ptx_version > newest) {
        snprintf(text, text_bytes, "Unsupported .version %d.%d; current version is '%d.%d'",
                 module->ptx_version / 10, module->ptx_version % 10, newest / 10, newest % 10);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    struct ptx_fault fault = { 0 };
    if (ptx_parse(ptx, strlen(ptx), &module->parsed, &fault)) {
        snprintf(text, text_bytes, "%s", fault.text);
        return fault.error == PTX_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_PTX;
    }
    return check_kernels(module->parsed, &module->bytes, text, text_bytes);
}

static CUresult keep_module(struct CUctx_st *context, struct CUmod_st *module)
{
    context->module_bytes += module->bytes;
    if (!emulate_share_fits(context)) {
        context->module_bytes -= module->bytes;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->references = 1;
    emulate_object_add(&module->object, KIND_MODULE, context);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module_out, const void *image, unsigned int n_options,
                            CUjit_option *options, void **values)
{
    struct CUctx_st *context;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    struct log info = { 0 }, error = { 0 };
    result = read_options(n_options, options, values, &info, &error);
    if (!result && (!module_out || !image)) result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !*(const char *)image) result = CUDA_ERROR_INVALID_IMAGE;
    if (result) return emulate_leave(result);
    struct CUmod_st *module = calloc(1, sizeof *module);
    if (!module) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    emulate_unlock();
    char text[1400] = "";
    result = parse(image, module, text, sizeof text);
    emulate_lock();
    write_log(&info, "");
    write_log(&error, text);
    if (!result) result = emulate_may_wait(context, "cuModuleLoadDataEx");
    if (!result) result = keep_module(context, module);
    if (result) {
        if (module->parsed) ptx_module_destroy(module->parsed);
        free(module);
        return emulate_leave(result);
    }
    *module_out = module;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuModuleLoadData(CUmodule *module_out, const void *image)
{
    return cuModuleLoadDataEx(module_out, image, 0, NULL, NULL);
}

static void unload(struct CUmod_st *module)
{
    module->object.context->module_bytes -= module->bytes;
    emulate_share_update(module->object.context);
    emulate_object_remove(&module->object);
    for (struct CUfunc_st *f = module->functions; f; f = f->next) emulate_object_remove(&f->object);
    emulate_module_put(module);
}

void emulate_modules_end(struct CUctx_st *context)
{
    for (struct object *object; (object = emulate_object_any(context, KIND_MODULE));)
        unload((struct CUmod_st *)object);
}

CUresult cuModuleUnload(CUmodule module)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!emulate_object_is(module, KIND_MODULE)) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    const CUresult waited = emulate_may_wait(context, "cuModuleUnload");
    if (waited) return emulate_leave(waited);
    unload(module);
    return emulate_leave(CUDA_SUCCESS);
}

/* ---- functions ---- */

CUresult cuModuleGetFunction(CUfunction *function_out, CUmodule module, const char *name)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!function_out || !name) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emulate_object_is(module, KIND_MODULE)) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    const struct ptx_kernel *kernel = ptx_module_kernel(module->parsed, name);
    if (!kernel) return emulate_leave(CUDA_ERROR_NOT_FOUND);
    struct CUfunc_st *function = module->functions;
    while (function && function->kernel != kernel) function = function->next;
    if (!function) {
        function = calloc(1, sizeof *function);
        struct tally *tally = function ? emulate_tally_of(name) : NULL;
        if (!tally) {
            free(function);
            return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
        }
        function->module = module;
        function->kernel = kernel;
        function->info = ptx_kernel_info(kernel);
        function->tally = tally;
        function->next = module->functions;
        module->functions = function;
        emulate_object_add(&function->object, KIND_FUNCTION, module->object.context);
    }
    *function_out = function;
    return emulate_leave(CUDA_SUCCESS);
}

/* The most dynamic shared memory that a launch may ask for. */
int emulate_dynamic_most(const struct CUfunc_st *function)
{
    const int by_default = STATIC_SHARED - (int)function->info.shared_bytes;
    return function->dynamic_shared > by_default ? function->dynamic_shared : by_default;
}

static CUresult attribute_of(const struct CUfunc_st *function, CUfunction_attribute attribute, int *value_out)
{
    const struct ptx_kernel_info *info = &function->info;
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
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value_out = emulate_settings.capability; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value_out = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value_out = emulate_dynamic_most(function); break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value_out = -1; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
    struct CUctx_st *context;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!function->loaded) result = emulate_may_wait(function->object.context, "cuFuncLoad");
    if (!result) function->loaded = true;
    return emulate_leave(result);
}

CUresult cuFuncGetAttribute(int *value_out, CUfunction_attribute attribute, CUfunction function)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!value_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    return emulate_leave(attribute_of(function, attribute, value_out));
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    struct CUctx_st *context;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    const int most = (int)(function->object.context->limits.shared_bytes - function->info.shared_bytes);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 && value <= most)
        function->dynamic_shared = value;
    else if (attribute != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT || value < -1 || value > 100)
        result = CUDA_ERROR_INVALID_VALUE;
    return emulate_leave(result);
}
