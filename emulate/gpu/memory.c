/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory and pinned memory. zones.c has the addresses. */
#include <string.h>
#include <sys/mman.h>

#include "emulate/gpu/driver.h"

#define RED 512ull         /* forbidden bytes before and behind an allocation */
#define LARGE (1ull << 20) /* larger allocations have pages of their own */
#define CONTEXT_BYTES (300ull << 20)

static uint64_t context_bytes(void)
{
    const uint64_t quarter = emulate_settings.memory / 4;
    return quarter < CONTEXT_BYTES ? quarter : CONTEXT_BYTES;
}

enum emulate_error emulate_memory_open(struct context *context)
{
    struct kernel_memory *memory = &context->memory;
    if (memory->state) return EMULATE_OK;
    void *state = emulate_reserve(emulate_bytes, PROT_READ | PROT_WRITE);
    void *touched = state ? emulate_reserve(emulate_bytes * 8, PROT_READ | PROT_WRITE) : NULL;
    if (!touched) {
        if (state) munmap(state, emulate_bytes);
        return EMULATE_OUT_OF_MEMORY;
    }
    *memory = (struct kernel_memory){ .base = emulate_base,
                                      .bytes = emulate_bytes,
                                      .data = emulate_data,
                                      .state = state,
                                      .touched = touched,
                                      .name = emulate_name_of,
                                      .context = context };
    for (const struct block *b = emulate_host_zone.blocks; b; b = b->next)
        memset(memory->state + (b->address - emulate_base), BYTE_DEFINED, b->bytes);
    return EMULATE_OK;
}

/* ---- device memory ---- */

/* Small allocations share pages of 2 MiB; a large one has whole pages. */
static void count_block(struct context *context, uint64_t bytes, bool add)
{
    uint64_t *sum = bytes > LARGE ? &context->large_bytes : &context->small_bytes;
    const uint64_t counted = bytes > LARGE ? emulate_round_up(bytes, EMULATE_DEVICE_PAGE)
                                           : emulate_round_up(bytes, RED);
    *sum = add ? *sum + counted : *sum - counted;
}

uint64_t emulate_memory_used(const struct context *context)
{
    return context_bytes() + context->large_bytes + context->local_bytes
           + emulate_round_up(context->small_bytes + context->module_bytes, EMULATE_DEVICE_PAGE);
}

uint64_t emulate_memory_free(const struct context *context)
{
    const uint64_t used = emulate_memory_used(context) + emulate_share_others(context);
    return used < emulate_settings.memory ? emulate_settings.memory - used : 0;
}

enum emulate_error emulate_device_take(struct context *context, const char *call, size_t bytes,
                                       uint64_t *address_out)
{
    if (emulate_fails(FAIL_MEMORY) || bytes > emulate_settings.memory) return EMULATE_OUT_OF_MEMORY;
    const enum emulate_error waited = emulate_may_wait(context, call);
    if (waited) return waited;
    count_block(context, bytes, true);
    struct block *block = emulate_share_fits(context) ? emulate_zone_take(&context->zone, bytes, RED, RED)
                                                      : NULL;
    if (!block) {
        count_block(context, bytes, false);
        emulate_share_update(context);
        return EMULATE_OUT_OF_MEMORY;
    }
    emulate_set_state(context, block->first, block->address, BYTE_FORBIDDEN);
    emulate_set_state(context, block->address, block->address + bytes, BYTE_UNDEFINED);
    emulate_set_state(context, block->address + bytes, block->end, BYTE_FORBIDDEN);
    *address_out = block->address;
    return EMULATE_OK;
}

int yoke_emulate_reserve(int device, size_t bytes, uint64_t *address_out)
{
    const enum emulate_error result = emulate_enter_plain();
    if (result) return result;
    if (device < 0 || device >= emulate_settings.n_visible || !emulate_contexts[device].active)
        return emulate_leave(EMULATE_INVALID_DEVICE);
    struct context *context = &emulate_contexts[device];
    struct block *block = emulate_zone_take(&context->zone, bytes, RED, RED);
    if (!block) return emulate_leave(EMULATE_OUT_OF_MEMORY);
    block->is_reserved = true;
    *address_out = block->address;
    return emulate_leave(EMULATE_OK);
}

/* Kernels that still run may see the memory change its state. This is what the checks are for. */
static void free_block(struct context *context, struct block *block)
{
    if (!block->is_reserved) count_block(context, block->bytes, false);
    emulate_share_update(context);
    /*
     * emulate_zone_give drops the pages between, which is quicker; they read as zeros, which are
     * BYTE_OUTSIDE.
     */
    const uint64_t edge = 2 * EMULATE_PAGE, bytes = block->end - block->first;
    emulate_set_state(context, block->first, block->first + (bytes < edge ? bytes : edge), BYTE_OUTSIDE);
    emulate_set_state(context, block->end - (bytes < edge ? bytes : edge), block->end, BYTE_OUTSIDE);
    emulate_names_remove(block->first, block->end - block->first);
    emulate_order_forget(context, block->first - emulate_base, block->end - emulate_base);
    emulate_remember_freed(block);
    emulate_zone_give(&context->zone, block);
}

enum emulate_error emulate_device_give(const char *call, uint64_t address)
{
    struct context *owner = emulate_context_of(address);
    struct block *block = owner ? emulate_block_of(&owner->zone, address) : NULL;
    if (!block || block->address != address) return EMULATE_INVALID_VALUE;
    const enum emulate_error waited = emulate_may_wait(owner, call);
    if (waited) return waited;
    free_block(owner, block);
    return EMULATE_OK;
}

static void free_pinned(struct block *block)
{
    emulate_apart_close(block);
    emulate_pinned_close(block);
    for (int i = 0; i < emulate_settings.n_visible; i++)
        emulate_order_forget(&emulate_contexts[i], block->first - emulate_base, block->end - emulate_base);
    emulate_remember_freed(block);
    emulate_zone_give(&emulate_host_zone, block);
}

void emulate_memory_close(struct context *context)
{
    while (context->zone.blocks) free_block(context, context->zone.blocks);
    for (struct block *block = emulate_host_zone.blocks, *next; block; block = next) {
        next = block->next;
        if (block->owner == context) free_pinned(block);
    }
    emulate_registered_close(context);
    context->local_bytes = 0;
}

/* ---- pinned memory ---- */

enum emulate_error emulate_pinned_take(struct context *context, const char *call, size_t bytes,
                                       bool is_coherent, void **memory_out)
{
    const enum emulate_error waited = emulate_may_wait(context, call);
    if (waited) return waited;
    struct block *block = bytes < EMULATE_HOST_BYTES
                              ? emulate_zone_take(&emulate_host_zone, bytes, EMULATE_PAGE, EMULATE_PAGE)
                              : NULL;
    if (!block) return EMULATE_OUT_OF_MEMORY;
    if (!(is_coherent ? emulate_pinned_open(block) : emulate_apart_open(block))) {
        emulate_zone_give(&emulate_host_zone, block);
        return EMULATE_OUT_OF_MEMORY;
    }
    block->owner = context;
    *memory_out = (void *)(uintptr_t)block->address;
    return EMULATE_OK;
}

enum emulate_error emulate_pinned_give(struct context *context, const char *call, void *memory)
{
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    struct block *block = emulate_block_of(&emulate_host_zone, address);
    if (!block || !block->owner || block->address != address) return EMULATE_INVALID_VALUE;
    const enum emulate_error waited = emulate_may_wait(context, call);
    if (waited) return waited;
    free_pinned(block);
    return EMULATE_OK;
}

/* ---- what a pointer is ---- */

bool emulate_pointer(uint64_t address, struct pointer *out)
{
    struct context *owner = emulate_context_of(address);
    const struct block *block = emulate_block_of(owner ? &owner->zone : &emulate_host_zone, address);
    if (!block) return emulate_registered_pointer(address, out);
    *out = (struct pointer){ .owner = owner,
                             .base = block->address,
                             .bytes = block->bytes,
                             .id = block->id,
                             .device_address = address };
    return true;
}

enum emulate_error emulate_host_pointer(const char *call, void *memory, struct pointer *out)
{
    if (!emulate_pointer((uint64_t)(uintptr_t)memory, out) || out->owner) return EMULATE_INVALID_VALUE;
    if (out->device_address) return EMULATE_OK;
    emulate_print(
        "%s: kernels of the stand-in driver see registered memory only where it is whole pages of a "
        "shared mapping; use pinned memory",
        call);
    return EMULATE_NOT_SUPPORTED;
}
