/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"

/* What a GPU answers where the executor finds an error. */
static enum emulate_error result_of(enum kernel_error error)
{
    switch (error) {
    case KERNEL_OK: return EMULATE_OK;
    case KERNEL_OUT_OF_BOUNDS: return EMULATE_ILLEGAL_ADDRESS;
    case KERNEL_MISALIGNED: return EMULATE_MISALIGNED_ADDRESS;
    case KERNEL_TIMEOUT: return EMULATE_LAUNCH_TIMEOUT;
    case KERNEL_LIMIT: return EMULATE_LAUNCH_OUT_OF_RESOURCES;
    default: return EMULATE_LAUNCH_FAILED;
    }
}

static uint64_t last_blocks; /* 0: all */

void yoke_emulate_last_blocks(uint64_t blocks) { __atomic_store_n(&last_blocks, blocks, __ATOMIC_SEQ_CST); }

static enum emulate_error run_launch(struct command *command, char *text, size_t text_bytes)
{
    const struct launch *l = &command->launch;
    struct context *context = command->stream->object.context;
    struct kernel_counts counts = { 0 };
    struct kernel_fault fault = { 0 };
    const struct kernel_launch launch = {
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
    const enum kernel_error error = emulate_executor->run(&launch, &fault);
    if (error) snprintf(text, text_bytes, "%s", fault.text);
    emulate_lock();
    emulate_tally_add(l->function->tally, &counts);
    emulate_unlock();
    return result_of(error);
}

static void drop_launch(struct command *command) { emulate_module_put(command->launch.function->module); }

/* ---- parameters ---- */

void *emulate_launch_gather(const struct function *function, void **parameters,
                            enum emulate_error *result_out)
{
    unsigned char *block = calloc(1, function->info.parameter_bytes + 1);
    uint32_t offset, size;
    *result_out = block ? EMULATE_OK : EMULATE_OUT_OF_MEMORY;
    const struct kernel_executor *executor = emulate_executor;
    for (int i = 0; block && executor->parameter(function->kernel, i, &offset, &size); i++) {
        if (!parameters || !parameters[i]) {
            *result_out = EMULATE_INVALID_VALUE;
            free(block);
            return NULL;
        }
        memcpy(block + offset, parameters[i], size);
    }
    return block;
}

void *emulate_launch_copy(const struct function *function, const void *block, size_t n,
                          enum emulate_error *result_out)
{
    const uint32_t bytes = function->info.parameter_bytes;
    *result_out = EMULATE_INVALID_VALUE;
    if (!block || n < bytes) return NULL;
    unsigned char *copy = calloc(1, bytes + 1);
    *result_out = copy ? EMULATE_OK : EMULATE_OUT_OF_MEMORY;
    if (copy) memcpy(copy, block, bytes);
    return copy;
}

/* ---- launches ---- */

/*
 * Kernels with local memory take device memory for all threads that can be resident at a time, from the first
 * launch on.
 */
static enum emulate_error take_local(struct context *context, const struct function *function)
{
    const uint64_t bytes = (uint64_t)function->info.local_bytes * context->resident_threads;
    if (bytes <= context->local_bytes) return EMULATE_OK;
    const enum emulate_error waited = emulate_may_wait(context, "a launch that needs more local memory");
    if (waited) return waited;
    const uint64_t before = context->local_bytes;
    context->local_bytes = bytes;
    if (emulate_share_fits(context)) return EMULATE_OK;
    context->local_bytes = before;
    emulate_print(
        "%s:%d: the kernel %s has %u bytes of local memory per thread, for which the device needs %llu "
        "MiB: that is more than is free",
        emulate_vendor.word, context->ordinal, function->info.name, function->info.local_bytes,
        (unsigned long long)(bytes >> 20));
    return EMULATE_OUT_OF_MEMORY;
}

enum emulate_error emulate_launch_check(const struct context *context, const struct launch *l)
{
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > context->limits.grid[i]) return EMULATE_INVALID_VALUE;
        if (!l->block[i] || l->block[i] > context->limits.block[i]) return EMULATE_INVALID_VALUE;
        threads *= l->block[i];
    }
    if (threads > context->limits.threads) return EMULATE_INVALID_VALUE;
    if (l->function->info.max_threads && threads > l->function->info.max_threads)
        return EMULATE_LAUNCH_OUT_OF_RESOURCES;
    return emulate_vendor.check_shared(l->function, l->shared_bytes);
}

enum emulate_error emulate_launch_failure(void)
{
    enum emulate_error injected = EMULATE_OK;
    if (emulate_fails(FAIL_ADDRESS)) injected = EMULATE_ILLEGAL_ADDRESS;
    if (emulate_fails(FAIL_TIMEOUT)) injected = EMULATE_LAUNCH_TIMEOUT;
    if (emulate_fails(FAIL_ECC)) injected = EMULATE_ECC_UNCORRECTABLE;
    return injected;
}

enum emulate_error emulate_launch_prepare(struct function *function)
{
    /* a driver may load a kernel at its first launch, unless it was loaded before */
    enum emulate_error result = emulate_function_load(function, "the first launch of a kernel");
    return result ? result : take_local(function->object.context, function);
}

enum emulate_error emulate_launch(struct stream *stream, const struct launch *launch, void *block)
{
    struct command *command = emulate_command_new();
    if (!command) {
        free(block);
        return EMULATE_OUT_OF_MEMORY;
    }
    command->run = run_launch;
    command->drop = drop_launch;
    command->owned = block;
    command->launch = *launch;
    command->launch.last_blocks = __atomic_load_n(&last_blocks, __ATOMIC_SEQ_CST);
    launch->function->module->references++;
    command->injected = emulate_launch_failure();
    emulate_apart_publish_for(command);
    return emulate_submit(stream, command);
}
