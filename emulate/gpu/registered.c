/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering pins memory that the program owns. Whole pages that are mapped as shared memory also appear
 * among the addresses of pinned memory (memory.c), because mremap maps them a second time, as a window.
 * Kernels and copies use the window. So a copy does no harm if the program unmaps its own mapping too early,
 * as on a GPU, where the pages stay pinned. The window has states of bytes, so parts of the memory can be
 * forbidden. Other memory has no window. It is pinned for copies alone, and no kernel gets an address of it.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emulate/gpu/driver.h"

static struct registered {
    struct registered *next;
    unsigned char *memory;
    size_t bytes;
    struct block *window; /* NULL: only copies see the memory */
    struct context *owner;
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
        emulate_host_state(window, BYTE_DEFINED);
        return window;
    }
    emulate_window_close(window);
    return NULL;
}

enum emulate_error emulate_register(struct context *context, const char *call, void *memory, size_t bytes)
{
    if (emulate_fails(FAIL_LOCK)) return EMULATE_OUT_OF_MEMORY;
    if (emulate_fails_from(FAIL_REGISTER)) return EMULATE_NOT_SUPPORTED;
    const enum emulate_error waited = emulate_may_wait(context, call);
    if (waited) return waited;
    unsigned char *first = memory;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    if (address < emulate_base + emulate_bytes && address + bytes > emulate_base)
        return emulate_context_of(address) ? EMULATE_INVALID_VALUE : EMULATE_HOST_MEMORY_ALREADY_REGISTERED;
    for (const struct registered *r = list; r; r = r->next)
        if (first < r->memory + r->bytes && r->memory < first + bytes)
            return EMULATE_HOST_MEMORY_ALREADY_REGISTERED;
    struct registered *new = calloc(1, sizeof *new);
    if (!new) return EMULATE_OUT_OF_MEMORY;
    *new = (struct registered){ list, first, bytes, open_window(memory, bytes), context, false };
    list = new;
    return EMULATE_OK;
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

enum emulate_error emulate_unregister(struct context *context, const char *call, void *memory)
{
    struct registered **at = &list;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    if (!*at) return EMULATE_HOST_MEMORY_NOT_REGISTERED;
    const enum emulate_error waited = emulate_may_wait(context, call);
    if (waited) return waited;
    at = &list; /* other threads may have changed the list meanwhile */
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    if (*at) forget(at);
    return EMULATE_OK;
}

void emulate_registered_close(const struct context *context)
{
    for (struct registered **at = &list; *at;)
        if ((*at)->owner == context)
            forget(at);
        else
            at = &(*at)->next;
}

void emulate_registered_visit(const struct context *context, void (*visit)(uint64_t address, uint64_t bytes))
{
    for (const struct registered *r = list; r; r = r->next)
        if (r->owner == context) visit((uint64_t)(uintptr_t)r->memory, r->bytes);
}

enum emulate_error emulate_registered_place(uint64_t address, size_t bytes, struct place *place_out)
{
    const struct registered *found = find((const void *)(uintptr_t)address);
    if (!found) return EMULATE_OK;
    const uint64_t offset = address - (uint64_t)(uintptr_t)found->memory;
    if (bytes > found->bytes - offset) return EMULATE_INVALID_VALUE;
    if (!found->window) return EMULATE_OK;
    const uint64_t at = found->window->address + offset;
    *place_out = (struct place){ emulate_data + (at - emulate_base), NULL, emulate_pinned_guard(at),
                                 address };
    return EMULATE_OK;
}

enum emulate_error emulate_registered_forbid(uint64_t address, uint64_t bytes)
{
    struct registered *found = find((void *)(uintptr_t)address);
    if (!found || !found->window || address % EMULATE_PAGE || bytes % EMULATE_PAGE)
        return EMULATE_INVALID_VALUE;
    const uint64_t offset = address - (uint64_t)(uintptr_t)found->memory;
    if (bytes > found->bytes - offset) return EMULATE_INVALID_VALUE;
    if (mprotect((void *)(uintptr_t)address, bytes, PROT_NONE)) return EMULATE_OUT_OF_MEMORY;
    found->has_red = true;
    const struct block part = { .address = found->window->address + offset, .bytes = bytes };
    emulate_host_state(&part, BYTE_FORBIDDEN);
    return EMULATE_OK;
}

bool emulate_registered_holds(uint64_t address) { return find((const void *)(uintptr_t)address) != NULL; }

bool emulate_registered_pointer(uint64_t address, struct pointer *out)
{
    const struct registered *found = find((const void *)(uintptr_t)address);
    if (!found) return false;
    const uint64_t base = (uint64_t)(uintptr_t)found->memory;
    *out = (struct pointer){ .base = base,
                             .bytes = found->bytes,
                             .device_address = found->window ? found->window->address + (address - base) : 0,
                             .is_registered = true };
    return true;
}
