/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Words: four bytes of pinned host memory each, which the host and the queues of the device read and write.
 * Words are taken from blocks, because each pinned allocation costs a call of the driver and a page.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

enum { WORDS = 1024 };

struct cuda_words {
    struct cuda_words *next;
    uint32_t *host;
    CUdeviceptr at;
    int n_free;
    uint16_t free[WORDS]; /* a stack of the indices that are not in use */
};

static yoke_status add_block(yoke_device *device)
{
    struct cuda_device *dev = cuda_device(device);
    void *host = NULL;
    struct cuda_words *block = calloc(1, sizeof *block);
    if (!block) return yoke_fail(YOKE_ENOMEM, "%s: no host memory for events", device->info.spec);
    CUresult error = dev->cu->cuMemHostAlloc(&host, WORDS * sizeof(uint32_t),
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!error && (error = dev->cu->cuMemHostGetDevicePointer_v2(&block->at, host, 0)))
        dev->cu->cuMemFreeHost(host);
    if (error) {
        free(block);
        return yokei_cuda_fail(device, "cuMemHostAlloc of 4 KiB", error);
    }
    memset(host, 0, WORDS * sizeof(uint32_t));
    block->host = host;
    while (block->n_free < WORDS) {
        block->free[block->n_free] = (uint16_t)(WORDS - 1 - block->n_free);
        block->n_free++;
    }
    pthread_mutex_lock(&dev->lock);
    block->next = dev->words;
    dev->words = block;
    pthread_mutex_unlock(&dev->lock);
    return YOKE_OK;
}

yoke_status yokei_cuda_words_create(yoke_device *device) { return add_block(device); }

void yokei_cuda_words_destroy(yoke_device *device)
{
    struct cuda_device *dev = cuda_device(device);
    while (dev->words) {
        struct cuda_words *block = dev->words;
        dev->words = block->next;
        dev->cu->cuMemFreeHost(block->host);
        free(block);
    }
}

static bool take(struct cuda_device *dev, struct cuda_word *word_out)
{
    pthread_mutex_lock(&dev->lock);
    struct cuda_words *block = dev->words;
    while (block && !block->n_free) block = block->next;
    if (block) {
        const uint16_t i = block->free[--block->n_free];
        *word_out = (struct cuda_word){ (_Atomic uint32_t *)(block->host + i), block->at + 4u * i };
    }
    pthread_mutex_unlock(&dev->lock);
    return block != NULL;
}

yoke_status yokei_cuda_word_take(yoke_device *device, struct cuda_word *word_out)
{
    while (!take(cuda_device(device), word_out)) YOKE_TRY(add_block(device));
    return YOKE_OK;
}

void yokei_cuda_word_give(yoke_device *device, struct cuda_word word)
{
    struct cuda_device *dev = cuda_device(device);
    pthread_mutex_lock(&dev->lock);
    for (struct cuda_words *block = dev->words; block; block = block->next)
        if (word.at - block->at < WORDS * sizeof(uint32_t))
            block->free[block->n_free++] = (uint16_t)((word.at - block->at) / 4);
    pthread_mutex_unlock(&dev->lock);
}
