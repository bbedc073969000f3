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
 * The last part of this file page-locks memory of the caller (cuMemHostRegister), such as the stages of
 * collectives in memory that ranks share.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

struct cuda_block {
    struct cuda_block *next;
    char *host;
    CUdeviceptr at;
    int n_free;
    uint16_t free[]; /* a stack of the indices that are not in use */
};

static const struct {
    size_t piece_bytes;
    int n; /* pieces of a block */
} kinds[CUDA_N_PINNED] = {
    [CUDA_WORDS] = { sizeof(uint32_t), 1024 }, [CUDA_SLOTS] = { YOKEI_GPU_SLOT_BYTES, 16 * YOKEI_GPU_SLOTS }
};

/** Pages that nobody may touch behind each slot, if the driver checks accesses. */
enum { RED_BYTES = 4096 };

/** The distance of two pieces. */
static size_t stride(const struct cuda_device *dev, enum cuda_pinned kind)
{
    return kinds[kind].piece_bytes + (kind == CUDA_SLOTS && dev->cu->say.annotate ? RED_BYTES : 0);
}

/** Forbid the pages between the pieces of a new block, and name the pieces for messages. */
static CUresult annotate_block(const struct cuda_device *dev, enum cuda_pinned kind,
                               const struct cuda_block *block)
{
    const struct cuda_annotations *say = &dev->cu->say;
    const size_t each = stride(dev, kind), bytes = kinds[kind].piece_bytes;
    CUresult error = CUDA_SUCCESS;
    if (!say->annotate) return error;
    for (int i = 0; i < kinds[kind].n && each > bytes && !error; i++)
        error = say->annotate(block->at + (size_t)i * each + bytes, each - bytes, YOKEI_MEMORY_FORBIDDEN);
    return error ? error
                 : say->name(block->at, each * (size_t)kinds[kind].n,
                             kind == CUDA_SLOTS ? "staging slots" : "words of streams");
}

static yoke_status add_block(yoke_device *device, enum cuda_pinned kind)
{
    struct cuda_device *dev = cuda_device(device);
    const size_t bytes = stride(dev, kind) * (size_t)kinds[kind].n;
    void *host = NULL;
    struct cuda_block *block = calloc(1, sizeof *block + (size_t)kinds[kind].n * sizeof block->free[0]);
    if (!block) return yokei_gpu_no_host_memory(device, "pinned memory");
    CUresult error = dev->cu->cuMemHostAlloc(&host, bytes,
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!error && !(error = dev->cu->cuMemHostGetDevicePointer_v2(&block->at, host, 0)))
        error = annotate_block(dev, kind, block);
    if (error && host) dev->cu->cuMemFreeHost(host);
    if (error) {
        free(block);
        return yoke_fail_context(yokei_cuda_fail(device, "cuMemHostAlloc", error),
                                 "%zu bytes of pinned memory", bytes);
    }
    block->host = host;
    if (kind == CUDA_WORDS) memset(host, 0, bytes);
    for (; block->n_free < kinds[kind].n; block->n_free++)
        block->free[block->n_free] = (uint16_t)(kinds[kind].n - 1 - block->n_free);
    pthread_mutex_lock(&dev->lock);
    block->next = dev->pinned[kind];
    dev->pinned[kind] = block;
    pthread_mutex_unlock(&dev->lock);
    return YOKE_OK;
}

yoke_status yokei_cuda_pinned_create(yoke_device *device)
{
    for (int kind = 0; kind < CUDA_N_PINNED; kind++) YOKE_TRY(add_block(device, (enum cuda_pinned)kind));
    return YOKE_OK;
}

void yokei_cuda_pinned_destroy(yoke_device *device)
{
    struct cuda_device *dev = cuda_device(device);
    for (int kind = 0; kind < CUDA_N_PINNED; kind++)
        while (dev->pinned[kind]) {
            struct cuda_block *block = dev->pinned[kind];
            dev->pinned[kind] = block->next;
            if (block->n_free == kinds[kind].n) dev->cu->cuMemFreeHost(block->host);
            free(block);
        }
}

static bool take_piece(struct cuda_device *dev, enum cuda_pinned kind, struct cuda_piece *piece_out)
{
    pthread_mutex_lock(&dev->lock);
    struct cuda_block *block = dev->pinned[kind];
    while (block && !block->n_free) block = block->next;
    if (block) {
        const size_t offset = block->free[--block->n_free] * stride(dev, kind);
        *piece_out = (struct cuda_piece){ block->host + offset, block->at + offset };
    }
    pthread_mutex_unlock(&dev->lock);
    return block != NULL;
}

yoke_status yokei_cuda_pinned_take(yoke_device *device, enum cuda_pinned kind, struct cuda_piece *piece_out)
{
    while (!take_piece(cuda_device(device), kind, piece_out)) YOKE_TRY(add_block(device, kind));
    return YOKE_OK;
}

void yokei_cuda_pinned_give(yoke_device *device, enum cuda_pinned kind, struct cuda_piece piece)
{
    struct cuda_device *dev = cuda_device(device);
    const size_t bytes = stride(dev, kind);
    pthread_mutex_lock(&dev->lock);
    for (struct cuda_block *block = dev->pinned[kind]; block; block = block->next)
        if (piece.at - block->at < bytes * (size_t)kinds[kind].n)
            block->free[block->n_free++] = (uint16_t)((piece.at - block->at) / bytes);
    pthread_mutex_unlock(&dev->lock);
}

/* ---- memory of the caller ---- */

struct cuda_pin {
    struct cuda_pin *next;
    char *memory;
    size_t bytes;
};

yoke_status yokei_cuda_pin(yoke_device *device, void *memory, size_t bytes)
{
    struct cuda_device *dev = cuda_device(device);
    struct cuda_pin *pin = malloc(sizeof *pin);
    if (!pin) return yokei_gpu_no_host_memory(device, "a list of page-locked memory");
    *pin = (struct cuda_pin){ NULL, memory, bytes };
    yoke_status status = yokei_cuda_enter(device);
    if (!status) {
        const CUresult error = dev->cu->cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
        if (error) status = yokei_cuda_fail(device, "cuMemHostRegister", error);
        yokei_cuda_leave(device);
    }
    if (status) {
        free(pin);
        return status;
    }
    pthread_mutex_lock(&dev->lock);
    pin->next = dev->pins;
    dev->pins = pin;
    pthread_mutex_unlock(&dev->lock);
    return YOKE_OK;
}

void yokei_cuda_unpin(yoke_device *device, void *memory)
{
    struct cuda_device *dev = cuda_device(device);
    pthread_mutex_lock(&dev->lock);
    struct cuda_pin **at = &dev->pins;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    struct cuda_pin *pin = *at;
    if (pin) *at = pin->next;
    pthread_mutex_unlock(&dev->lock);
    free(pin);
    /* If the context is lost, the device copies nothing any more, and the driver keeps the pages locked. */
    if (!pin || yokei_cuda_enter(device)) return;
    const CUresult error = dev->cu->cuMemHostUnregister(memory);
    if (error) {
        (void)yokei_cuda_fail(device, "cuMemHostUnregister", error);
        yoke_log(YOKE_LOG_ERROR, "%s", yoke_last_error());
    }
    yokei_cuda_leave(device);
}

bool yokei_cuda_has_pin(struct cuda_device *dev, const void *memory, size_t bytes)
{
    const uintptr_t first = (uintptr_t)memory;
    pthread_mutex_lock(&dev->lock);
    const struct cuda_pin *pin = dev->pins;
    while (pin
           && (first < (uintptr_t)pin->memory || first - (uintptr_t)pin->memory > pin->bytes
               || bytes > pin->bytes - (first - (uintptr_t)pin->memory)))
        pin = pin->next;
    pthread_mutex_unlock(&dev->lock);
    return pin != NULL;
}
