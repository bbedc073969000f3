/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pinned host memory in pieces of one size: the words of streams (4 bytes), and the slots of streams through
 * which pageable memory is copied (YOKEI_GPU_SLOT_BYTES).
 *
 * An allocation of pinned memory may wait for all work of the device. If a queue of another framework waits
 * for a signal that the same thread gives later, or that needs a lock which this thread holds, such an
 * allocation would never return. So the pieces come from a block that is allocated when the device opens.
 * Another block is allocated only when all pieces are in use.
 *
 * With the stand-in driver a page between two slots may not be touched, so a copy past the end of a slot is
 * found. A block whose pieces were not all given back is not freed, so the driver lists it as a leak.
 *
 * The last part of this file page-locks memory of the caller, such as the stages of
 * collectives in memory that ranks share.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/runtime/runtime.h"

struct yokei_rt_block {
    struct yokei_rt_block *next;
    char *host;
    char *at;
    int n_free;
    uint16_t free[]; /* a stack of the indices that are not in use */
};

static const struct {
    size_t piece_bytes;
    int n; /* pieces of a block */
} kinds[YOKEI_RT_N_PINNED] = { [YOKEI_RT_WORDS] = { sizeof(uint32_t), 1024 },
                               [YOKEI_RT_SLOTS] = { YOKEI_GPU_SLOT_BYTES, 16 * YOKEI_GPU_SLOTS } };

/** Pages that nobody may touch behind each slot, if the driver checks accesses. */
enum { RED_BYTES = 4096 };

/** The distance of two pieces. */
static size_t stride(const struct yokei_rt *rt, enum yokei_rt_pinned kind)
{
    return kinds[kind].piece_bytes + (kind == YOKEI_RT_SLOTS && rt->stand_in->annotate ? RED_BYTES : 0);
}

/** Forbid the pages between the pieces of a new block, and name the pieces for messages. */
static int annotate_block(const struct yokei_rt *rt, enum yokei_rt_pinned kind,
                          const struct yokei_rt_block *block)
{
    const struct yokei_stand_in *say = rt->stand_in;
    const size_t each = stride(rt, kind), bytes = kinds[kind].piece_bytes;
    int error = 0;
    if (!say->annotate) return error;
    for (int i = 0; i < kinds[kind].n && each > bytes && !error; i++)
        error = say->annotate((uintptr_t)block->at + (size_t)i * each + bytes, each - bytes,
                              YOKEI_MEMORY_FORBIDDEN);
    return error ? error
                 : say->label((uintptr_t)block->at, each * (size_t)kinds[kind].n,
                              kind == YOKEI_RT_SLOTS ? "staging slots" : "words of streams");
}

static yoke_status add_block(yoke_device *device, enum yokei_rt_pinned kind)
{
    struct yokei_rt *rt = yokei_rt(device);
    const size_t bytes = stride(rt, kind) * (size_t)kinds[kind].n;
    void *host = NULL, *at = NULL;
    struct yokei_rt_block *block = calloc(1, sizeof *block + (size_t)kinds[kind].n * sizeof block->free[0]);
    if (!block) return yokei_gpu_no_host_memory(device, "pinned memory");
    int error = rt->calls->pinned_alloc(rt, kind, bytes, &host, &at);
    block->at = at;
    if (!error) error = annotate_block(rt, kind, block);
    if (error && host) rt->calls->pinned_free(rt, host);
    if (error) {
        free(block);
        return yoke_fail_context(yokei_rt_fail(device, rt->calls->names.pinned_alloc, error),
                                 "%zu bytes of pinned memory", bytes);
    }
    block->host = host;
    if (kind == YOKEI_RT_WORDS) memset(host, 0, bytes);
    for (; block->n_free < kinds[kind].n; block->n_free++)
        block->free[block->n_free] = (uint16_t)(kinds[kind].n - 1 - block->n_free);
    pthread_mutex_lock(&rt->lock);
    block->next = rt->pinned[kind];
    rt->pinned[kind] = block;
    pthread_mutex_unlock(&rt->lock);
    return YOKE_OK;
}

yoke_status yokei_rt_pinned_create(yoke_device *device)
{
    for (int kind = 0; kind < YOKEI_RT_N_PINNED; kind++)
        YOKE_TRY(add_block(device, (enum yokei_rt_pinned)kind));
    return YOKE_OK;
}

void yokei_rt_pinned_destroy(yoke_device *device)
{
    struct yokei_rt *rt = yokei_rt(device);
    for (int kind = 0; kind < YOKEI_RT_N_PINNED; kind++)
        while (rt->pinned[kind]) {
            struct yokei_rt_block *block = rt->pinned[kind];
            rt->pinned[kind] = block->next;
            if (block->n_free == kinds[kind].n) rt->calls->pinned_free(rt, block->host);
            free(block);
        }
}

static bool take_piece(struct yokei_rt *rt, enum yokei_rt_pinned kind, struct yokei_rt_piece *piece_out)
{
    pthread_mutex_lock(&rt->lock);
    struct yokei_rt_block *block = rt->pinned[kind];
    while (block && !block->n_free) block = block->next;
    if (block) {
        const size_t offset = block->free[--block->n_free] * stride(rt, kind);
        *piece_out = (struct yokei_rt_piece){ block->host + offset, block->at + offset };
    }
    pthread_mutex_unlock(&rt->lock);
    return block != NULL;
}

yoke_status yokei_rt_pinned_take(yoke_device *device, enum yokei_rt_pinned kind,
                                 struct yokei_rt_piece *piece_out)
{
    while (!take_piece(yokei_rt(device), kind, piece_out)) YOKE_TRY(add_block(device, kind));
    return YOKE_OK;
}

void yokei_rt_pinned_give(yoke_device *device, enum yokei_rt_pinned kind, struct yokei_rt_piece piece)
{
    struct yokei_rt *rt = yokei_rt(device);
    const size_t bytes = stride(rt, kind);
    pthread_mutex_lock(&rt->lock);
    for (struct yokei_rt_block *block = rt->pinned[kind]; block; block = block->next)
        if ((uintptr_t)piece.at - (uintptr_t)block->at < bytes * (size_t)kinds[kind].n)
            block->free[block->n_free++] = (uint16_t)(((uintptr_t)piece.at - (uintptr_t)block->at) / bytes);
    pthread_mutex_unlock(&rt->lock);
}

/* ---- memory of the caller ---- */

struct yokei_rt_pin {
    struct yokei_rt_pin *next;
    char *memory;
    size_t bytes;
};

yoke_status yokei_rt_pin(yoke_device *device, void *memory, size_t bytes)
{
    struct yokei_rt *rt = yokei_rt(device);
    struct yokei_rt_pin *pin = malloc(sizeof *pin);
    if (!pin) return yokei_gpu_no_host_memory(device, "a list of page-locked memory");
    *pin = (struct yokei_rt_pin){ NULL, memory, bytes };
    yoke_status status = yokei_rt_enter(device);
    if (!status) {
        const int error = rt->calls->host_lock(rt, memory, bytes);
        if (error) status = yokei_rt_fail(device, rt->calls->names.host_lock, error);
        yokei_rt_leave(device);
    }
    if (status) {
        free(pin);
        return status;
    }
    pthread_mutex_lock(&rt->lock);
    pin->next = rt->pins;
    rt->pins = pin;
    pthread_mutex_unlock(&rt->lock);
    return YOKE_OK;
}

void yokei_rt_unpin(yoke_device *device, void *memory)
{
    struct yokei_rt *rt = yokei_rt(device);
    pthread_mutex_lock(&rt->lock);
    struct yokei_rt_pin **at = &rt->pins;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    struct yokei_rt_pin *pin = *at;
    if (pin) *at = pin->next;
    pthread_mutex_unlock(&rt->lock);
    free(pin);
    /* If the context is lost, the device copies nothing any more, and the driver keeps the pages locked. */
    if (!pin || yokei_rt_enter(device)) return;
    const int error = rt->calls->host_unlock(rt, memory);
    if (error) {
        (void)yokei_rt_fail(device, rt->calls->names.host_unlock, error);
        yoke_log(YOKE_LOG_ERROR, "%s", yoke_last_error());
    }
    yokei_rt_leave(device);
}

bool yokei_rt_has_pin(struct yokei_rt *rt, const void *memory, size_t bytes)
{
    const uintptr_t first = (uintptr_t)memory;
    pthread_mutex_lock(&rt->lock);
    const struct yokei_rt_pin *pin = rt->pins;
    while (pin
           && (first < (uintptr_t)pin->memory || first - (uintptr_t)pin->memory > pin->bytes
               || bytes > pin->bytes - (first - (uintptr_t)pin->memory)))
        pin = pin->next;
    pthread_mutex_unlock(&rt->lock);
    return pin != NULL;
}
