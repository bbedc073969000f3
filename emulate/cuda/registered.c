/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemHostRegister pins memory that the program owns. Whole pages that are mapped as shared memory also
 * appear among the addresses of pinned memory (memory.c), because mremap maps them a second time, as a
 * window. Kernels and copies use the window. So a copy does no harm if the program unmaps its own mapping
 * too early, as on a GPU, where the pages stay pinned. The window has states of bytes, so parts of the memory
 * can be forbidden. Other memory has no window. It is pinned for copies alone, and cuMemHostGetDevicePointer
 * refuses it.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emulate/cuda/driver.h"

static struct registered {
    struct registered *next;
    unsigned char *memory;
    size_t bytes;
    struct block *window; /* NULL: only copies see the memory */
    struct CUctx_st *owner;
    bool has_red; /* some pages are forbidden to the host */
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

static struct registered *find(const void *memory)
{
    const unsigned char *at = memory;
    struct registered *r = list;
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
    /*
     * An old size of 0 asks for a second mapping of the same pages, which only shared mappings have. UCX puts
     * its own mremap before that of libc in processes with MPI, and loses the last argument.
     */
    unsigned char *at = emulate_data + (window->address - emulate_base);
    if (syscall(SYS_mremap, memory, 0ul, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == (long)(uintptr_t)at) {
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
    if (emulate_fails(FAIL_LOCK)) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (emulate_fails_from(FAIL_REGISTER)) return emulate_leave(CUDA_ERROR_NOT_SUPPORTED);
    const CUresult waited = emulate_may_wait(context, "cuMemHostRegister");
    if (waited) return emulate_leave(waited);
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
    *new = (struct registered){ list, first, bytes, open_window(memory, bytes), context, false };
    list = new;
    return emulate_leave(CUDA_SUCCESS);
}

/* Commands that are still to come find no memory in the window any more. */
static void forget(struct registered **at)
{
    struct registered *r = *at;
    *at = r->next;
    if (r->window) emulate_window_close(r->window);
    if (r->has_red) mprotect(r->memory, r->bytes, PROT_READ | PROT_WRITE);
    emulate_names_remove((uint64_t)(uintptr_t)r->memory, r->bytes);
    free(r);
}

CUresult cuMemHostUnregister(void *memory)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!memory) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    struct registered **at = &list;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    if (!*at) return emulate_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    const CUresult waited = emulate_may_wait(context, "cuMemHostUnregister");
    if (waited) return emulate_leave(waited);
    at = &list; /* other threads may have changed the list meanwhile */
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    if (*at) forget(at);
    return emulate_leave(CUDA_SUCCESS);
}

void emulate_registered_close(const struct CUctx_st *context)
{
    for (struct registered **at = &list; *at;)
        if ((*at)->owner == context)
            forget(at);
        else
            at = &(*at)->next;
}

void emulate_registered_visit(const struct CUctx_st *context, void (*visit)(uint64_t address, uint64_t bytes))
{
    for (const struct registered *r = list; r; r = r->next)
        if (r->owner == context) visit((uint64_t)(uintptr_t)r->memory, r->bytes);
}

CUresult emulate_registered_place(CUdeviceptr address, size_t bytes, struct place *place_out)
{
    const struct registered *found = find((const void *)(uintptr_t)address);
    if (!found) return CUDA_SUCCESS;
    const uint64_t offset = address - (uint64_t)(uintptr_t)found->memory;
    if (bytes > found->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    if (!found->window) return CUDA_SUCCESS;
    const CUdeviceptr at = found->window->address + offset;
    *place_out = (struct place){ emulate_data + (at - emulate_base), NULL, emulate_pinned_guard(at),
                                 address };
    return CUDA_SUCCESS;
}

CUresult emulate_registered_forbid(uint64_t address, uint64_t bytes)
{
    struct registered *found = find((void *)(uintptr_t)address);
    if (!found || !found->window || address % EMULATE_PAGE || bytes % EMULATE_PAGE)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t offset = address - (uint64_t)(uintptr_t)found->memory;
    if (bytes > found->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    if (mprotect((void *)(uintptr_t)address, bytes, PROT_NONE)) return CUDA_ERROR_OUT_OF_MEMORY;
    found->has_red = true;
    const struct block part = { .address = found->window->address + offset, .bytes = bytes };
    emulate_host_state(&part, PTX_FORBIDDEN);
    return CUDA_SUCCESS;
}

bool emulate_registered_holds(uint64_t address) { return find((const void *)(uintptr_t)address) != NULL; }

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
