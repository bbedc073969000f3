/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses. One range of addresses holds the pinned host memory and the memory of all devices:
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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "emulate/gpu/driver.h"

#define GAP 65536ull /* addresses between two allocations that belong to none */

unsigned char *emulate_data;
uint64_t emulate_base, emulate_bytes;
struct zone emulate_host_zone;
static int file = -1;
static unsigned long long last_id;

void *emulate_reserve(uint64_t bytes, int protection)
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

enum emulate_error emulate_memory_reserve(void)
{
    const uint64_t each = emulate_round_up(4 * emulate_settings.memory, EMULATE_DEVICE_PAGE);
    emulate_bytes = EMULATE_HOST_BYTES + each * (uint64_t)emulate_settings.n_visible;
    void *addresses = emulate_reserve(emulate_bytes, PROT_NONE);
    if (!addresses) return EMULATE_OUT_OF_MEMORY;
    file = memfd_create("yoke-emulate", MFD_CLOEXEC);
    if (file < 0 || set_file_size(emulate_bytes)) {
        emulate_print("memory of the stand-in devices: %s", strerror(errno));
        return EMULATE_OUT_OF_MEMORY;
    }
    emulate_data = mmap(NULL, emulate_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (emulate_data == MAP_FAILED) {
        emulate_print("memory of the stand-in devices: %s", strerror(errno));
        return EMULATE_OUT_OF_MEMORY;
    }
    madvise(emulate_data, emulate_bytes, MADV_DONTDUMP);
    emulate_base = (uint64_t)(uintptr_t)addresses;
    emulate_host_zone = (struct zone){ emulate_base, emulate_base + EMULATE_HOST_BYTES, emulate_base, NULL };
    for (int i = 0; i < emulate_settings.n_visible; i++) {
        const uint64_t begin = emulate_base + EMULATE_HOST_BYTES + each * (uint64_t)i;
        emulate_contexts[i].zone = (struct zone){ begin, begin + each, begin, NULL };
    }
    return EMULATE_OK;
}

struct block *emulate_zone_take(struct zone *zone, uint64_t bytes, uint64_t align, uint64_t red)
{
    struct block *block = calloc(1, sizeof *block);
    const uint64_t whole = red + emulate_round_up(bytes, align) + red;
    /* From the cursor to the end, then once from the beginning. */
    for (int round = 0; block && round < 2; round++) {
        uint64_t at = round ? zone->begin : zone->cursor;
        struct block **link = &zone->blocks;
        for (; *link && (*link)->end <= at; link = &(*link)->next) {}
        for (;; link = &(*link)->next) {
            const uint64_t first = emulate_round_up(at, GAP), limit = *link ? (*link)->first : zone->end;
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
    const uint64_t a = emulate_round_up(first - emulate_base, EMULATE_PAGE),
                   b = (end - emulate_base) / EMULATE_PAGE * EMULATE_PAGE;
    if (data && a < b) fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)a, (off_t)(b - a));
    for (int i = 0; i < emulate_settings.n_visible; i++) {
        const struct kernel_memory *memory = &emulate_contexts[i].memory;
        if (!memory->state) continue;
        if (a < b) {
            madvise(memory->state + a, b - a, MADV_DONTNEED);
            madvise(memory->touched + a, (b - a) * 8, MADV_DONTNEED);
        }
    }
}

void emulate_set_state(const struct context *context, uint64_t from, uint64_t to, enum byte_state state)
{
    memset(context->memory.state + (from - emulate_base), (int)state, to - from);
}

void emulate_host_state(const struct block *block, enum byte_state state)
{
    for (int i = 0; i < emulate_settings.n_visible; i++)
        if (emulate_contexts[i].memory.state)
            emulate_set_state(&emulate_contexts[i], block->address, block->address + block->bytes, state);
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

struct context *emulate_context_of(uint64_t address)
{
    for (int i = 0; i < emulate_settings.n_visible; i++)
        if (address >= emulate_contexts[i].zone.begin && address < emulate_contexts[i].zone.end)
            return &emulate_contexts[i];
    return NULL;
}

bool emulate_pinned_open(const struct block *block)
{
    if (mmap((void *)(uintptr_t)block->address, emulate_round_up(block->bytes, EMULATE_PAGE),
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)(block->address - emulate_base))
        == MAP_FAILED)
        return false;
    emulate_host_state(block, BYTE_DEFINED);
    return true;
}

enum emulate_error emulate_pinned_forbid(uint64_t address, uint64_t bytes)
{
    if (address % EMULATE_PAGE || bytes % EMULATE_PAGE) return EMULATE_INVALID_VALUE;
    if (mprotect((void *)(uintptr_t)address, bytes, PROT_NONE)) return EMULATE_OUT_OF_MEMORY;
    for (int i = 0; i < emulate_settings.n_visible; i++)
        if (emulate_contexts[i].memory.state)
            emulate_set_state(&emulate_contexts[i], address, address + bytes, BYTE_FORBIDDEN);
    return EMULATE_OK;
}

const unsigned char *emulate_pinned_guard(uint64_t address)
{
    for (int i = 0; i < emulate_settings.n_visible; i++)
        if (emulate_contexts[i].memory.state)
            return emulate_contexts[i].memory.state + (address - emulate_base);
    return NULL;
}

void emulate_pinned_close(const struct block *block)
{
    mmap((void *)(uintptr_t)block->address, emulate_round_up(block->bytes, EMULATE_PAGE), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    emulate_host_state(block, BYTE_OUTSIDE);
}

void emulate_window_close(struct block *window)
{
    const uint64_t offset = window->address - emulate_base;
    emulate_host_state(window, BYTE_OUTSIDE);
    if (mmap(emulate_data + offset, window->bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, (off_t)offset)
        == MAP_FAILED)
        emulate_print("a window to registered memory could not be closed: %s", strerror(errno));
    emulate_zone_give(&emulate_host_zone, window);
}
