/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory of yoke_comm_alloc a buffer lies in. */
#include "collectives/transport/allocations.h"

void yokei_find_allocation(const yoke_comm *comm, const void *address, size_t bytes, uint32_t *id_out,
                           uint64_t *offset_out)
{
    *id_out = 0;
    for (const struct yokei_allocation *a = comm->memory.allocations; a; a = a->next) {
        const uintptr_t base = (uintptr_t)a->base[comm->rank], at = (uintptr_t)address;
        if (at < base || at - base > a->bytes || bytes > a->bytes - (at - base)) continue;
        *id_out = a->id;
        *offset_out = at - base;
        return;
    }
}

char *yokei_in_allocation(const yoke_comm *comm, int r, uint32_t id, uint64_t offset, size_t bytes)
{
    for (const struct yokei_allocation *a = comm->memory.allocations; id && a; a = a->next)
        if (a->id == id)
            return a->base[r] && offset <= a->bytes && bytes <= a->bytes - offset ? a->base[r] + offset
                                                                                  : NULL;
    return NULL;
}
