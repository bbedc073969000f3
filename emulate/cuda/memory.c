/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory. One range of addresses holds the pinned host memory and the memory of all devices:
 *
 *   emulate_base | pinned host memory | device 0 | device 1 | ...
 *
 * Nothing is mapped at the addresses of devices, so a host that follows such a pointer is stopped by
 * SIGSEGV. The bytes lie in a file without a name (memfd), which is mapped once more at emulate_data.
 * Pinned memory is mapped at both places. The addresses of a device are four times as many as its bytes,
 * and an allocation takes the next free ones, so that freed addresses stay unused for long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "emulate/cuda/driver.h"

#define HOST_BYTES (16ull << 30)
#define PAGE 4096ull
#define RED 512ull               /* forbidden bytes before and behind an allocation */
#define GAP 65536ull             /* addresses between two allocations that belong to none */
#define LARGE (1ull << 20)       /* larger allocations have pages of their own */
#define DEVICE_PAGE (2ull << 20) /* the unit in which a GPU hands out memory */
#define CONTEXT_BYTES (300ull << 20)

unsigned char *emulate_data;
uint64_t emulate_base, emulate_bytes;
struct zone emulate_host_zone;
static int file = -1;
static unsigned long long last_id;

static uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

static void *reserve(uint64_t bytes, int protection)
{
    void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        emulate_print("%llu GiB of addresses could not be reserved: %s; give the devices less memory by "
                      "YOKE_EMULATE_MEMORY, or lift the limit of ulimit -v",
                      (unsigned long long)(bytes >> 30), strerror(errno));
        return NULL;
    }
    madvise(at, bytes, MADV_DONTDUMP);
    return at;
}

/*
 * Give the file its size, which is that of all addresses. It takes room only for the bytes that are written,
 * so this process's own limit on the size of files (ulimit -S -f) shall not count here.
 */
static int set_file_size(uint64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit)) return ftruncate(file, (off_t)bytes);
    const struct rlimit most = { limit.rlim_max, limit.rlim_max };
    setrlimit(RLIMIT_FSIZE, &most);
    const int result = ftruncate(file, (off_t)bytes), reason = errno;
    setrlimit(RLIMIT_FSIZE, &limit);
    errno = reason;
    return result;
}

CUresult emulate_memory_reserve(void)
{
    const uint64_t each = round_up(4 * emulate_settings.memory, DEVICE_PAGE);
    emulate_bytes = HOST_BYTES + each * (uint64_t)emulate_settings.n_visible;
    void *addresses = reserve(emulate_bytes, PROT_NONE);
    if (!addresses) return CUDA_ERROR_OUT_OF_MEMORY;
    file = memfd_create("yoke-emulate", MFD_CLOEXEC);
    if (file < 0 || set_file_size(emulate_bytes)) {
        emulate_print("memory of the stand-in devices: %s", strerror(errno));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    emulate_data = mmap(NULL, emulate_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (emulate_data == MAP_FAILED) {
        emulate_print("memory of the stand-in devices: %s", strerror(errno));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    madvise(emulate_data, emulate_bytes, MADV_DONTDUMP);
    emulate_base = (uint64_t)(uintptr_t)addresses;
    emulate_host_zone = (struct zone){ emulate_base, emulate_base + HOST_BYTES, emulate_base, NULL };
    for (int i = 0; i < emulate_settings.n_visible; i++) {
        const uint64_t begin = emulate_base + HOST_BYTES + each * (uint64_t)i;
        emulate_contexts[i].zone = (struct zone){ begin, begin + each, begin, NULL };
    }
    return CUDA_SUCCESS;
}

static uint64_t context_bytes(void)
{
    const uint64_t quarter = emulate_settings.memory / 4;
    return quarter < CONTEXT_BYTES ? quarter : CONTEXT_BYTES;
}

CUresult emulate_memory_open(struct CUctx_st *context)
{
    struct ptx_memory *memory = &context->memory;
    if (memory->state) return CUDA_SUCCESS;
    void *state = reserve(emulate_bytes, PROT_READ | PROT_WRITE);
    void *touched = state ? reserve(emulate_bytes * 8, PROT_READ | PROT_WRITE) : NULL;
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

/* ---- zones ---- */

struct block *emulate_zone_take(struct zone *zone, uint64_t bytes, uint64_t align, uint64_t red)
{
    struct block *block = calloc(1, sizeof *block);
    const uint64_t whole = red + round_up(bytes, align) + red;
    /* From the cursor to the end, then once from the beginning. */
    for (int round = 0; block && round < 2; round++) {
        uint64_t at = round ? zone->begin : zone->cursor;
        struct block **link = &zone->blocks;
        for (; *link && (*link)->end <= at; link = &(*link)->next) {}
        for (;; link = &(*link)->next) {
            const uint64_t first = round_up(at, GAP), limit = *link ? (*link)->first : zone->end;
            if (first + whole <= limit) {
                block->first = first;
                block->address = first + red;
                block->bytes = bytes;
                block->end = first + whole;
                block->id = ++last_id;
                block->next = *link;
                *link = block;
                zone->cursor = block->end;
                return block;
            }
            if (!*link) break;
            at = (*link)->end;
        }
    }
    free(block);
    return NULL;
}

/* Give the pages that lie in the range alone back to the system; they read as zeros afterwards. */
static void drop_pages(uint64_t first, uint64_t end, bool data)
{
    const uint64_t a = round_up(first - emulate_base, PAGE), b = (end - emulate_base) / PAGE * PAGE;
    if (data && a < b) fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)a, (off_t)(b - a));
    for (int i = 0; i < emulate_settings.n_visible; i++) {
        const struct ptx_memory *memory = &emulate_contexts[i].memory;
        if (!memory->state) continue;
        if (a < b) {
            madvise(memory->state + a, b - a, MADV_DONTNEED);
            madvise(memory->touched + a, (b - a) * 8, MADV_DONTNEED);
        }
    }
}

static void set_state(const struct CUctx_st *context, uint64_t from, uint64_t to, enum ptx_byte state)
{
    memset(context->memory.state + (from - emulate_base), (int)state, to - from);
}

void emulate_host_state(const struct block *block, enum ptx_byte state)
{
    for (int i = 0; i < emulate_settings.n_visible; i++)
        if (emulate_contexts[i].memory.state)
            set_state(&emulate_contexts[i], block->address, block->address + block->bytes, state);
}

void emulate_zone_give(struct zone *zone, struct block *block)
{
    struct block **link = &zone->blocks;
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    drop_pages(block->first, block->end, true);
    free(block);
}

struct block *emulate_block_of(const struct zone *zone, uint64_t address)
{
    struct block *block = zone->blocks;
    while (block && block->address + block->bytes <= address) block = block->next;
    return block && block->address <= address ? block : NULL;
}

struct CUctx_st *emulate_context_of(uint64_t address)
{
    for (int i = 0; i < emulate_settings.n_visible; i++)
        if (address >= emulate_contexts[i].zone.begin && address < emulate_contexts[i].zone.end)
            return &emulate_contexts[i];
    return NULL;
}

/* ---- device memory ---- */

/* Small allocations share pages of 2 MiB; a large one has whole pages. */
static void count_block(struct CUctx_st *context, uint64_t bytes, bool add)
{
    uint64_t *sum = bytes > LARGE ? &context->large_bytes : &context->small_bytes;
    const uint64_t counted = bytes > LARGE ? round_up(bytes, DEVICE_PAGE) : round_up(bytes, RED);
    *sum = add ? *sum + counted : *sum - counted;
}

uint64_t emulate_memory_used(const struct CUctx_st *context)
{
    return context_bytes() + context->large_bytes + context->local_bytes
           + round_up(context->small_bytes + context->module_bytes, DEVICE_PAGE);
}

CUresult cuMemGetInfo_v2(size_t *free_out, size_t *total_out)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!free_out || !total_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    const uint64_t used = emulate_memory_used(context);
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
    struct block *block = emulate_memory_used(context) <= emulate_settings.memory
                              ? emulate_zone_take(&context->zone, bytes, RED, RED)
                              : NULL;
    if (!block) {
        count_block(context, bytes, false);
        return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    set_state(context, block->first, block->address, PTX_FORBIDDEN);
    set_state(context, block->address, block->address + bytes, PTX_UNDEFINED);
    set_state(context, block->address + bytes, block->end, PTX_FORBIDDEN);
    *address_out = block->address;
    return emulate_leave(CUDA_SUCCESS);
}

/* Kernels that still run may see the memory change its state. This is what the checks are for. */
static void free_block(struct CUctx_st *context, struct block *block)
{
    count_block(context, block->bytes, false);
    /*
     * emulate_zone_give drops the pages between, which is quicker; they read as zeros, which are
     * PTX_OUTSIDE.
     */
    const uint64_t edge = 2 * PAGE, bytes = block->end - block->first;
    set_state(context, block->first, block->first + (bytes < edge ? bytes : edge), PTX_OUTSIDE);
    set_state(context, block->end - (bytes < edge ? bytes : edge), block->end, PTX_OUTSIDE);
    emulate_names_remove(block->first, block->end - block->first);
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

/* Make it addresses again that nobody may touch. */
static void free_pinned(struct block *block)
{
    mmap((void *)(uintptr_t)block->address, round_up(block->bytes, PAGE), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    emulate_host_state(block, PTX_OUTSIDE);
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
    struct block *block = bytes < HOST_BYTES ? emulate_zone_take(&emulate_host_zone, bytes, PAGE, PAGE)
                                             : NULL;
    if (!block) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    void *at = (void *)(uintptr_t)block->address;
    if (mmap(at, round_up(bytes, PAGE), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
             (off_t)(block->address - emulate_base))
        == MAP_FAILED) {
        emulate_zone_give(&emulate_host_zone, block);
        return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    emulate_host_state(block, PTX_DEFINED);
    block->owner = context;
    *memory_out = at;
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

void emulate_window_close(struct block *window)
{
    const uint64_t offset = window->address - emulate_base;
    emulate_host_state(window, PTX_OUTSIDE);
    if (mmap(emulate_data + offset, window->bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, (off_t)offset)
        == MAP_FAILED)
        emulate_print("a window to registered memory could not be closed: %s", strerror(errno));
    emulate_zone_give(&emulate_host_zone, window);
}
