/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemHostRegister pins memory that the program owns. Copies need nothing for this. For kernels the same
 * pages must also appear among the addresses of pinned memory (memory.c). This works for whole pages that
 * are mapped as shared memory: mremap maps them a second time. Other memory is pinned for copies alone, and
 * cuMemHostGetDevicePointer refuses it.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "emulate/cuda/driver.h"

static struct registered {
    struct registered *next;
    unsigned char *memory;
    size_t bytes;
    struct block *window; /* NULL: only copies see the memory */
} * list;

bool emulate_is_pinned(const void *memory, size_t bytes)
{
    const unsigned char *first = memory;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    if (emulate_block_of(&emulate_host_zone, address)) return true;
    for (const struct registered *r = list; r; r = r->next)
        if (first >= r->memory && first + bytes <= r->memory + r->bytes) return true;
    return false;
}

static const struct registered *find(const void *memory)
{
    const unsigned char *at = memory;
    const struct registered *r = list;
    while (r && (at < r->memory || at >= r->memory + r->bytes)) r = r->next;
    return r;
}

/* The address for kernels; 0: there is none. */
static CUdeviceptr window_address(const struct registered *r, const void *memory)
{
    return r->window ? r->window->address + (uint64_t)((const unsigned char *)memory - r->memory) : 0;
}

static struct block *open_window(void *memory, size_t bytes)
{
    if ((uintptr_t)memory % 4096 || bytes % 4096) return NULL;
    struct block *window = emulate_zone_take(&emulate_host_zone, bytes, 4096, 4096);
    if (!window) return NULL;
    /* An old size of 0 asks for a second mapping of the same pages, which only shared mappings have. */
    unsigned char *at = emulate_data + (window->address - emulate_base);
    if (mremap(memory, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at) {
        emulate_host_state(window, PTX_DEFINED);
        return window;
    }
    emulate_window_close(window);
    return NULL;
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!memory || !bytes || flags & ~15u) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    unsigned char *first = memory;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    if (address < emulate_base + emulate_bytes && address + bytes > emulate_base)
        return emulate_leave(emulate_context_of(address) ? CUDA_ERROR_INVALID_VALUE
                                                         : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    for (const struct registered *r = list; r; r = r->next)
        if (first < r->memory + r->bytes && r->memory < first + bytes)
            return emulate_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    struct registered *new = calloc(1, sizeof *new);
    if (!new) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *new = (struct registered){ list, first, bytes, open_window(memory, bytes) };
    list = new;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuMemHostUnregister(void *memory)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!memory) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    struct registered **at = &list;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    struct registered *found = *at;
    if (!found) return emulate_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    *at = found->next;
    if (found->window) emulate_window_close(found->window);
    free(found);
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address_out, void *memory, unsigned int flags)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!address_out || !memory || flags) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    const struct registered *found = find(memory);
    if (emulate_block_of(&emulate_host_zone, address)) {
        *address_out = address;
    } else if (found && found->window) {
        *address_out = window_address(found, memory);
    } else if (found) {
        emulate_print(
            "cuMemHostGetDevicePointer: kernels of the stand-in driver see registered memory only where "
            "it is whole pages of a shared mapping; use cuMemHostAlloc");
        return emulate_leave(CUDA_ERROR_NOT_SUPPORTED);
    } else {
        return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return emulate_leave(CUDA_SUCCESS);
}

/* ---- what a pointer is ---- */

static CUresult describe(CUpointer_attribute attribute, CUdeviceptr address, struct CUctx_st *owner,
                         const struct block *block, void *value_out)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)value_out = owner; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value_out = owner ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)value_out = address; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (owner) return CUDA_ERROR_INVALID_VALUE;
        *(void **)value_out = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)value_out = block->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value_out = 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value_out = owner ? owner->ordinal : 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)value_out = block->address; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)value_out = block->bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)value_out = 1; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value_out, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!value_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    struct CUctx_st *owner = emulate_context_of(address);
    const struct block *block = emulate_block_of(owner ? &owner->zone : &emulate_host_zone, address);
    if (block) return emulate_leave(describe(attribute, address, owner, block, value_out));
    const void *memory = (const void *)(uintptr_t)address;
    const struct registered *found = find(memory);
    if (!found) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
        *(CUdeviceptr *)value_out = window_address(found, memory);
        return emulate_leave(found->window ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    }
    const struct block own = { .address = (uint64_t)(uintptr_t)found->memory, .bytes = found->bytes };
    return emulate_leave(describe(attribute, address, NULL, &own, value_out));
}
