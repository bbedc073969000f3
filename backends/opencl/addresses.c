/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Addresses for memory that has none. A large range of addresses is reserved from the system but never
 * mapped, and each cl_mem gets a piece of it. Pointer arithmetic on these addresses is legal, but a read by
 * the host faults. A sorted table maps an address back to (buffer, offset). There is a page between two
 * pieces, so a pointer past the end of one piece never points into the next one.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/opencl/opencl.h"

#define PAGE ((size_t)4096)
#define RANGE_MOST ((size_t)1 << 42)
#define RANGE_LEAST ((size_t)1 << 32)

void yokei_opencl_addresses_create(struct opencl_addresses *addresses)
{
    memset(addresses, 0, sizeof *addresses);
    pthread_rwlock_init(&addresses->lock, NULL);
}

void yokei_opencl_addresses_destroy(struct opencl_addresses *addresses)
{
    if (addresses->range_bytes) munmap((void *)addresses->range, addresses->range_bytes);
    free(addresses->table);
    pthread_rwlock_destroy(&addresses->lock);
}

static yoke_status reserve_range(struct opencl_addresses *addresses)
{
    /* a limit on address space may allow only a smaller range */
    for (size_t bytes = RANGE_MOST; bytes >= RANGE_LEAST; bytes /= 2) {
        void *range = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) continue;
        addresses->range = (uintptr_t)range;
        addresses->range_bytes = bytes;
        return YOKE_OK;
    }
    return yoke_fail(
        YOKE_ENOMEM,
        "OpenCL: cannot reserve %zu GiB of addresses; raise the limit on address space (ulimit -v)",
        RANGE_LEAST >> 30);
}

/** The index of the first entry that begins after `address`. */
static int upper_bound(const struct opencl_addresses *addresses, uintptr_t address)
{
    int low = 0, high = addresses->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (addresses->table[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/** Find the first gap in the range that has room for `bytes` and a page. */
static yoke_status place_in_range(const struct opencl_addresses *addresses, size_t bytes,
                                  uintptr_t *start_out)
{
    uintptr_t end = addresses->range + addresses->range_bytes, at = addresses->range + PAGE;
    for (int i = upper_bound(addresses, addresses->range);
         i < addresses->n && addresses->table[i].start < end; i++) {
        const struct opencl_allocation *next = &addresses->table[i];
        if (next->start - at >= bytes + PAGE && next->start > at) break;
        at = (next->start + next->bytes + 2 * PAGE - 1) / PAGE * PAGE;
    }
    if (at >= end || end - at < bytes + PAGE)
        return yoke_fail(YOKE_ENOMEM,
                         "OpenCL: %zu bytes do not fit into what is left of %zu GiB of addresses", bytes,
                         addresses->range_bytes >> 30);
    *start_out = at;
    return YOKE_OK;
}

static yoke_status add_at(struct opencl_addresses *addresses, struct opencl_allocation *allocation)
{
    if (addresses->n == addresses->capacity) {
        int capacity = YOKE_MAX(64, 2 * addresses->capacity);
        struct opencl_allocation *table = realloc(addresses->table, (size_t)capacity * sizeof *table);
        if (!table) return yoke_fail(YOKE_ENOMEM, "OpenCL: no host memory for the table of allocations");
        addresses->table = table;
        addresses->capacity = capacity;
    }
    if (allocation->buffer) {
        if (!addresses->range_bytes) YOKE_TRY(reserve_range(addresses));
        YOKE_TRY(place_in_range(addresses, allocation->bytes, &allocation->start));
    }
    int at = upper_bound(addresses, allocation->start);
    memmove(&addresses->table[at + 1], &addresses->table[at],
            (size_t)(addresses->n - at) * sizeof *addresses->table);
    addresses->table[at] = *allocation;
    addresses->n++;
    return YOKE_OK;
}

yoke_status yokei_opencl_addresses_add(struct opencl_addresses *addresses,
                                       struct opencl_allocation allocation, void **address_out)
{
    pthread_rwlock_wrlock(&addresses->lock);
    yoke_status status = add_at(addresses, &allocation);
    pthread_rwlock_unlock(&addresses->lock);
    if (!status) *address_out = (void *)allocation.start;
    return status;
}

bool yokei_opencl_addresses_remove(struct opencl_addresses *addresses, const void *address,
                                   struct opencl_allocation *out)
{
    pthread_rwlock_wrlock(&addresses->lock);
    int at = upper_bound(addresses, (uintptr_t)address) - 1;
    bool found = at >= 0 && addresses->table[at].start == (uintptr_t)address;
    if (found) {
        *out = addresses->table[at];
        addresses->n--;
        memmove(&addresses->table[at], &addresses->table[at + 1],
                (size_t)(addresses->n - at) * sizeof *addresses->table);
    }
    pthread_rwlock_unlock(&addresses->lock);
    return found;
}

bool yokei_opencl_addresses_find(const struct opencl_addresses *addresses, const void *address,
                                 struct opencl_allocation *out, size_t *offset_out)
{
    pthread_rwlock_t *lock = (pthread_rwlock_t *)&addresses->lock;
    pthread_rwlock_rdlock(lock);
    int at = upper_bound(addresses, (uintptr_t)address) - 1;
    bool found = at >= 0 && (uintptr_t)address - addresses->table[at].start <= addresses->table[at].bytes;
    if (found) {
        *out = addresses->table[at];
        *offset_out = (uintptr_t)address - out->start;
    }
    pthread_rwlock_unlock(lock);
    return found;
}
