/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory and pinned memory: the calls of the driver. zones.c has the addresses. */
#include <string.h>
#include <sys/mman.h>

#include "emulate/cuda/driver.h"

#define RED 512ull         /* forbidden bytes before and behind an allocation */
#define LARGE (1ull << 20) /* larger allocations have pages of their own */
#define CONTEXT_BYTES (300ull << 20)

static uint64_t context_bytes(void)
{
    const uint64_t quarter = emulate_settings.memory / 4;
    return quarter < CONTEXT_BYTES ? quarter : CONTEXT_BYTES;
}

CUresult emulate_memory_open(struct CUctx_st *context)
{
    struct ptx_memory *memory = &context->memory;
    if (memory->state) return CUDA_SUCCESS;
    void *state = emulate_reserve(emulate_bytes, PROT_READ | PROT_WRITE);
    void *touched = state ? emulate_reserve(emulate_bytes * 8, PROT_READ | PROT_WRITE) : NULL;
    if (!touched) {
        if (state) munmap(state, emulate_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *memory = (struct ptx_memory){ .base = emulate_base,
                                   .bytes = emulate_bytes,
                                   .data = emulate_data,
                                   .state = state,
                                   .touched = touched,
                                   .name = emulate_name_of,
                                   .context = context };
    for (const struct block *b = emulate_host_zone.blocks; b; b = b->next)
        memset(memory->state + (b->address - emulate_base), PTX_DEFINED, b->bytes);
    return CUDA_SUCCESS;
}

/* ---- device memory ---- */

/* Small allocations share pages of 2 MiB; a large one has whole pages. */
static void count_block(struct CUctx_st *context, uint64_t bytes, bool add)
{
    uint64_t *sum = bytes > LARGE ? &context->large_bytes : &context->small_bytes;
    const uint64_t counted = bytes > LARGE ? emulate_round_up(bytes, EMULATE_DEVICE_PAGE)
                                           : emulate_round_up(bytes, RED);
    *sum = add ? *sum + counted : *sum - counted;
}

uint64_t emulate_memory_used(const struct CUctx_st *context)
{
    return context_bytes() + context->large_bytes + context->local_bytes
           + emulate_round_up(context->small_bytes + context->module_bytes, EMULATE_DEVICE_PAGE);
}

CUresult cuMemGetInfo_v2(size_t *free_out, size_t *total_out)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!free_out || !total_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    const uint64_t used = emulate_memory_used(context) + emulate_share_others(context);
    *total_out = emulate_settings.memory;
    *free_out = used < emulate_settings.memory ? emulate_settings.memory - used : 0;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address_out, size_t bytes)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!address_out || !bytes) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    if (emulate_fails(FAIL_MEMORY) || bytes > emulate_settings.memory)
        return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    const CUresult waited = emulate_may_wait(context, "cuMemAlloc");
    if (waited) return emulate_leave(waited);
    count_block(context, bytes, true);
    struct block *block = emulate_share_fits(context) ? emulate_zone_take(&context->zone, bytes, RED, RED)
                                                      : NULL;
    if (!block) {
        count_block(context, bytes, false);
        emulate_share_update(context);
        return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    emulate_set_state(context, block->first, block->address, PTX_FORBIDDEN);
    emulate_set_state(context, block->address, block->address + bytes, PTX_UNDEFINED);
    emulate_set_state(context, block->address + bytes, block->end, PTX_FORBIDDEN);
    *address_out = block->address;
    return emulate_leave(CUDA_SUCCESS);
}

int yoke_emulate_reserve(int device, size_t bytes, uint64_t *address_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (device < 0 || device >= emulate_settings.n_visible || !emulate_contexts[device].active)
        return emulate_leave(CUDA_ERROR_INVALID_DEVICE);
    struct CUctx_st *context = &emulate_contexts[device];
    struct block *block = emulate_zone_take(&context->zone, bytes, RED, RED);
    if (!block) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    block->is_reserved = true;
    *address_out = block->address;
    return emulate_leave(CUDA_SUCCESS);
}

/* Kernels that still run may see the memory change its state. This is what the checks are for. */
static void free_block(struct CUctx_st *context, struct block *block)
{
    if (!block->is_reserved) count_block(context, block->bytes, false);
    emulate_share_update(context);
    /*
     * emulate_zone_give drops the pages between, which is quicker; they read as zeros, which are
     * PTX_OUTSIDE.
     */
    const uint64_t edge = 2 * EMULATE_PAGE, bytes = block->end - block->first;
    emulate_set_state(context, block->first, block->first + (bytes < edge ? bytes : edge), PTX_OUTSIDE);
    emulate_set_state(context, block->end - (bytes < edge ? bytes : edge), block->end, PTX_OUTSIDE);
    emulate_names_remove(block->first, block->end - block->first);
    emulate_order_forget(context, block->first - emulate_base, block->end - emulate_base);
    emulate_remember_freed(block);
    emulate_zone_give(&context->zone, block);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!address) return emulate_leave(CUDA_SUCCESS);
    struct CUctx_st *owner = emulate_context_of(address);
    struct block *block = owner ? emulate_block_of(&owner->zone, address) : NULL;
    if (!block || block->address != address) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    const CUresult waited = emulate_may_wait(owner, "cuMemFree");
    if (waited) return emulate_leave(waited);
    free_block(owner, block);
    return emulate_leave(CUDA_SUCCESS);
}

static void free_pinned(struct block *block)
{
    emulate_pinned_close(block);
    for (int i = 0; i < emulate_settings.n_visible; i++)
        emulate_order_forget(&emulate_contexts[i], block->first - emulate_base, block->end - emulate_base);
    emulate_remember_freed(block);
    emulate_zone_give(&emulate_host_zone, block);
}

void emulate_memory_close(struct CUctx_st *context)
{
    while (context->zone.blocks) free_block(context, context->zone.blocks);
    for (struct block *block = emulate_host_zone.blocks, *next; block; block = next) {
        next = block->next;
        if (block->owner == context) free_pinned(block);
    }
    emulate_registered_close(context);
    context->local_bytes = 0;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base_out, size_t *bytes_out, CUdeviceptr address)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    const struct CUctx_st *owner = emulate_context_of(address);
    const struct block *block = emulate_block_of(owner ? &owner->zone : &emulate_host_zone, address);
    if (!block) return emulate_leave(CUDA_ERROR_NOT_FOUND);
    if (base_out) *base_out = block->address;
    if (bytes_out) *bytes_out = block->bytes;
    return emulate_leave(CUDA_SUCCESS);
}

/* ---- pinned memory ---- */

CUresult cuMemHostAlloc(void **memory_out, size_t bytes, unsigned int flags)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!memory_out || !bytes || flags & ~7u) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    const CUresult waited = emulate_may_wait(context, "cuMemHostAlloc");
    if (waited) return emulate_leave(waited);
    struct block *block = bytes < EMULATE_HOST_BYTES
                              ? emulate_zone_take(&emulate_host_zone, bytes, EMULATE_PAGE, EMULATE_PAGE)
                              : NULL;
    if (!block) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (!emulate_pinned_open(block)) {
        emulate_zone_give(&emulate_host_zone, block);
        return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    block->owner = context;
    *memory_out = (void *)(uintptr_t)block->address;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuMemFreeHost(void *memory)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    struct block *block = emulate_block_of(&emulate_host_zone, address);
    if (!block || !block->owner || block->address != address) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    const CUresult waited = emulate_may_wait(context, "cuMemFreeHost");
    if (waited) return emulate_leave(waited);
    free_pinned(block);
    return emulate_leave(CUDA_SUCCESS);
}
