/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory that is not coherent. The host and the devices may see different bytes of it for a while, so
 * each side has bytes of its own here.
 *
 * A GPU of AMD caches this memory in its L2 cache. A fence of system scope writes the cache back (release),
 * and drops what the cache has of the host's memory (acquire). Kernels may have fences of agent scope, which
 * leave the L2 cache alone. A copy may run on a copy engine, which has no cache, or as a kernel. (HIP
 * documentation, "Coherence control" and "Visibility of Zero-Copy Host Memory"; the sources of ROCclr)
 *
 * From a device to the host:
 * - The end of a kernel or of a copy makes nothing visible.
 * - An event with hipEventReleaseToSystem, when it is recorded, makes visible what the commands before it
 *   have written, in its stream and in the streams that this stream has waited for. An event without the flag
 *   may have a fence of device scope. An event with hipEventDisableSystemFence has none.
 * - hipStreamWaitEvent has no fence. What the event's record has made visible stays visible.
 * - The host sees these bytes when it knows that the event has ended, by hipEventSynchronize or
 *   hipEventQuery, and in a function of hipLaunchHostFunc behind the event.
 * - hipStreamSynchronize, hipDeviceSynchronize and copies that wait have a fence of system scope, so the host
 *   sees all bytes. hipStreamQuery has no fence.
 * - HIP documents no fence before a function of hipLaunchHostFunc. ROCclr has one for functions of streams,
 *   but until 2026 it had none for functions in graphs, where functions of the host then read old bytes.
 * - Cached bytes that nobody has released may be written back at any time, also over bytes that the host
 *   has written since. Here this happens at the next release.
 *
 * From the host to a device:
 * - A command sees what the host had written when the command was submitted. Here this holds for a copy of
 *   the bytes, and for a kernel with a parameter that is an address in the same allocation. The command need
 *   not see what the host writes later.
 * - A function of hipLaunchHostFunc stands between two barriers with fences of system scope. So commands
 *   behind the function see what it has written, also if they were submitted before.
 *
 * A byte that the host has written is one that differs from the bytes of the last exchange, `shadow`.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulate/gpu/driver.h"

/* What commands have written, and the host has not seen. */
static struct unseen {
    struct unseen *next;
    const struct context *context;
    int slot;
    uint64_t count; /* the command's place in its slot */
    uint64_t from, to;
} * list;

bool emulate_apart_open(struct block *block)
{
    const uint64_t bytes = emulate_round_up(block->bytes, EMULATE_PAGE);
    block->shadow = emulate_reserve(bytes, PROT_READ | PROT_WRITE);
    if (!block->shadow) return false;
    if (mmap((void *)(uintptr_t)block->address, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
        == MAP_FAILED) {
        munmap(block->shadow, bytes);
        block->shadow = NULL;
        return false;
    }
    emulate_host_state(block, BYTE_DEFINED);
    return true;
}

void emulate_apart_close(struct block *block)
{
    if (!block->shadow) return;
    for (struct unseen **at = &list, *u; (u = *at);) {
        if (u->from < block->address || u->from >= block->address + block->bytes) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        free(u);
    }
    munmap(block->shadow, emulate_round_up(block->bytes, EMULATE_PAGE));
    block->shadow = NULL;
}

/*
 * The host's other threads may write to their own parts of the memory meanwhile. The bytes that they write do
 * not count for the command.
 */
__attribute__((no_sanitize("thread"))) static void publish_bytes(const volatile unsigned char *host,
                                                                 unsigned char *shadow, unsigned char *data,
                                                                 uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char byte = host[i];
        if (byte != shadow[i]) data[i] = shadow[i] = byte;
    }
}

__attribute__((no_sanitize("thread"))) static bool is_same(const void *host, const void *shadow,
                                                           uint64_t words)
{
    const volatile uint64_t *a = host;
    const uint64_t *b = shadow;
    uint64_t different = 0;
    for (uint64_t i = 0; i < words; i++) different |= a[i] ^ b[i];
    return !different;
}

/* Nobody may touch the pages that are forbidden. */
static void publish(const struct block *block, uint64_t from, uint64_t to)
{
    const unsigned char *guard = emulate_pinned_guard(block->address);
    for (uint64_t at = from; at < to;) {
        const uint64_t page = at / EMULATE_PAGE * EMULATE_PAGE,
                       end = page + EMULATE_PAGE < to ? page + EMULATE_PAGE : to;
        const uint64_t offset = at - block->address;
        const unsigned char *host = (const unsigned char *)(uintptr_t)at;
        const bool whole = !(offset % 8) && !((end - at) % 8);
        if ((!guard || guard[page - block->address] != BYTE_FORBIDDEN)
            && !(whole && is_same(host, block->shadow + offset, (end - at) / 8)))
            publish_bytes(host, block->shadow + offset, emulate_data + (at - emulate_base), end - at);
        at = end;
    }
}

static void publish_parameters(const void *parameters, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t address;
        memcpy(&address, (const unsigned char *)parameters + i, 8);
        if (address < emulate_host_zone.begin || address >= emulate_host_zone.end) continue;
        const struct block *block = emulate_block_of(&emulate_host_zone, address);
        if (block && block->shadow) publish(block, block->address, block->address + block->bytes);
    }
}

void emulate_apart_publish_for(const struct command *command)
{
    if (command->launch.function) {
        publish_parameters(command->owned, command->launch.function->info.parameter_bytes);
    } else if (command->from.data && !command->owned) {
        const uint64_t from = command->from.address;
        const struct block *block = emulate_block_of(&emulate_host_zone, from);
        if (block && block->shadow) publish(block, from, from + command->bytes);
    }
}

void emulate_apart_wrote(const struct stream *stream, const struct kernel_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t from = emulate_base + ranges[i].from;
        const struct block *block = ranges[i].written && from < emulate_host_zone.end
                                        ? emulate_block_of(&emulate_host_zone, from)
                                        : NULL;
        struct unseen *u = block && block->shadow ? malloc(sizeof *u) : NULL;
        if (!u) continue;
        *u = (struct unseen){ .next = list,
                              .context = stream->object.context,
                              .slot = stream->slot,
                              .count = stream->slot < 0 ? 0 : stream->clock.at[stream->slot],
                              .from = from,
                              .to = emulate_base + ranges[i].to };
        list = u;
    }
}

void emulate_host_sees(struct context *context, const struct order_clock *ended,
                       const struct order_clock *released)
{
    emulate_order_seen(context, ended);
    for (struct unseen **at = &list, *u; (u = *at);) {
        const bool covered = u->context == context && (u->slot < 0 || u->count <= released->at[u->slot]);
        if (!covered) {
            at = &u->next;
            continue;
        }
        const struct block *block = emulate_block_of(&emulate_host_zone, u->from);
        const unsigned char *data = emulate_data + (u->from - emulate_base);
        memcpy((void *)(uintptr_t)u->from, data, u->to - u->from);
        memcpy(block->shadow + (u->from - block->address), data, u->to - u->from);
        *at = u->next;
        free(u);
    }
}
