/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/driver.h"

/* What a GPU answers where the executor finds an error. */
static CUresult result_of(enum ptx_error error)
{
    switch (error) {
    case PTX_OK: return CUDA_SUCCESS;
    case PTX_OUT_OF_BOUNDS: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case PTX_MISALIGNED: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case PTX_TIMEOUT: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case PTX_LIMIT: return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    default: return CUDA_ERROR_LAUNCH_FAILED;
    }
}

static uint64_t last_blocks; /* 0: all */

void yoke_emulate_last_blocks(uint64_t blocks) { __atomic_store_n(&last_blocks, blocks, __ATOMIC_SEQ_CST); }

static CUresult run_launch(struct command *command, char *text, size_t text_bytes)
{
    const struct launch *l = &command->launch;
    struct CUctx_st *context = command->stream->object.context;
    struct ptx_counts counts = { 0 };
    struct ptx_fault fault = { 0 };
    const struct ptx_launch launch = {
        .kernel = l->function->kernel,
        .grid = { l->grid[0], l->grid[1], l->grid[2] },
        .block = { l->block[0], l->block[1], l->block[2] },
        .dynamic_shared_bytes = l->shared_bytes,
        .parameters = command->owned,
        .memory = &context->memory,
        .limits = &context->limits,
        .last_blocks = l->last_blocks,
        .seed = emulate_random(command->stream->number, command->sequence),
        .most_instructions = emulate_settings.instructions,
        .counts = &counts,
        .footprint = command->footprint,
        .stop = &context->stop,
    };
    const enum ptx_error error = ptx_run(&launch, &fault);
    if (error) snprintf(text, text_bytes, "%s", fault.text);
    emulate_lock();
    emulate_tally_add(l->function->tally, &counts);
    emulate_unlock();
    return result_of(error);
}

static void drop_launch(struct command *command) { emulate_module_put(command->launch.function->module); }

/* The parameter block from the two forms in which a caller gives it. NULL with *result_out. */
static void *gather(const struct CUfunc_st *function, void **parameters, void **extra, CUresult *result_out)
{
    const uint32_t bytes = function->info.parameter_bytes;
    unsigned char *block = calloc(1, bytes + 1);
    *result_out = block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    uint32_t offset, size;
    if (block && !extra) {
        for (int i = 0; ptx_kernel_parameter(function->kernel, i, &offset, &size); i++) {
            if (!parameters || !parameters[i]) {
                *result_out = CUDA_ERROR_INVALID_VALUE;
                break;
            }
            memcpy(block + offset, parameters[i], size);
        }
    } else if (block) {
        const void *from = NULL;
        size_t from_bytes = 0;
        for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) from = extra[i + 1];
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) from_bytes = *(const size_t *)extra[i + 1];
        }
        if (parameters || !from || from_bytes < bytes)
            *result_out = CUDA_ERROR_INVALID_VALUE;
        else
            memcpy(block, from, bytes);
    }
    if (*result_out) {
        free(block);
        block = NULL;
    }
    return block;
}

/*
 * Kernels with local memory take device memory for all threads that can be resident at a time, from the first
 * launch on.
 */
static CUresult take_local(struct CUctx_st *context, const struct CUfunc_st *function)
{
    const struct device_model *model = emulate_model(emulate_settings.capability);
    const uint64_t bytes = (uint64_t)function->info.local_bytes * (uint64_t)emulate_settings.multiprocessors
                           * (uint64_t)model->threads_per_multiprocessor;
    if (bytes <= context->local_bytes) return CUDA_SUCCESS;
    const CUresult waited = emulate_may_wait(context, "a launch that needs more local memory");
    if (waited) return waited;
    const uint64_t before = context->local_bytes;
    context->local_bytes = bytes;
    if (emulate_share_fits(context)) return CUDA_SUCCESS;
    context->local_bytes = before;
    emulate_print(
        "cuda:%d: the kernel %s has %u bytes of local memory per thread, for which the device needs %llu "
        "MiB: that is more than is free",
        context->ordinal, function->info.name, function->info.local_bytes, (unsigned long long)(bytes >> 20));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult check_launch(const struct CUctx_st *context, const struct launch *l)
{
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > context->limits.grid[i]) return CUDA_ERROR_INVALID_VALUE;
        if (!l->block[i] || l->block[i] > context->limits.block[i]) return CUDA_ERROR_INVALID_VALUE;
        threads *= l->block[i];
    }
    if (threads > context->limits.threads) return CUDA_ERROR_INVALID_VALUE;
    if (l->function->info.max_threads && threads > l->function->info.max_threads)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    return l->shared_bytes > (uint32_t)emulate_dynamic_most(l->function) ? CUDA_ERROR_INVALID_VALUE
                                                                         : CUDA_SUCCESS;
}

static CUresult submit_launch(struct CUstream_st *stream, const struct launch *launch, void **parameters,
                              void **extra)
{
    CUresult result;
    void *block = gather(launch->function, parameters, extra, &result);
    if (!block) return result;
    struct command *command = emulate_command_new();
    if (!command) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    command->run = run_launch;
    command->drop = drop_launch;
    command->owned = block;
    command->launch = *launch;
    launch->function->module->references++;
    if (emulate_fails(FAIL_ADDRESS)) command->injected = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (emulate_fails(FAIL_TIMEOUT)) command->injected = CUDA_ERROR_LAUNCH_TIMEOUT;
    if (emulate_fails(FAIL_ECC)) command->injected = CUDA_ERROR_ECC_UNCORRECTABLE;
    return emulate_submit(stream, command);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared_bytes, CUstream handle, void **parameters, void **extra)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    if (!result && !emulate_object_is(function, KIND_FUNCTION)) result = CUDA_ERROR_INVALID_HANDLE;
    /* A kernel runs on the device of its module. */
    if (!result && stream->object.context != function->object.context) result = CUDA_ERROR_INVALID_HANDLE;
    if (result) return emulate_leave(result);
    context = function->object.context;
    const struct launch launch = { __atomic_load_n(&last_blocks, __ATOMIC_SEQ_CST),
                                   function,
                                   { grid_x, grid_y, grid_z },
                                   { block_x, block_y, block_z },
                                   shared_bytes };
    result = context->lost;
    if (!result) result = check_launch(context, &launch);
    /* a driver of CUDA 11.7 and newer loads a kernel at its first launch, unless it was loaded before */
    if (!result && !function->loaded) result = emulate_may_wait(context, "the first launch of a kernel");
    if (!result) function->loaded = true;
    if (!result) result = take_local(context, function);
    if (!result) result = submit_launch(stream, &launch, parameters, extra);
    return emulate_leave(result);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_out, CUfunction function, int block_threads,
                                                     size_t dynamic_shared_bytes)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!blocks_out || block_threads <= 0) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emulate_object_is(function, KIND_FUNCTION)) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    const struct device_model *model = emulate_model(emulate_settings.capability);
    const int reserved = emulate_settings.capability >= 80 ? 1024 : 0;
    const uint64_t shared = function->info.shared_bytes + dynamic_shared_bytes + (uint64_t)reserved;
    int blocks = model->threads_per_multiprocessor / ((block_threads + 31) / 32 * 32);
    if (blocks > model->blocks_per_multiprocessor) blocks = model->blocks_per_multiprocessor;
    if (shared && (uint64_t)blocks > (uint64_t)model->shared_per_multiprocessor / shared)
        blocks = (int)((uint64_t)model->shared_per_multiprocessor / shared);
    const int most = function->info.max_threads ? (int)function->info.max_threads : 1024;
    if (block_threads > most || dynamic_shared_bytes > (size_t)emulate_dynamic_most(function)) blocks = 0;
    *blocks_out = blocks;
    return emulate_leave(CUDA_SUCCESS);
}
