/* SPDX-License-Identifier: Apache-2.0 */
/* A launch: its limits, and the order of its blocks. */
#include "emulate/gpu/blocks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 256 };

enum kernel_error kernel_limits_check(const struct kernel_launch *launch, const struct kernel_demands *d,
                                      char text[TEXT])
{
    const struct kernel_limits *limits = launch->limits;
    const uint64_t shared = d->shared_bytes + launch->dynamic_shared_bytes;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        const char axis = "xyz"[i];
        if (launch->grid[i] < 1 || launch->grid[i] > limits->grid[i])
            return snprintf(text, TEXT, "the grid has %u blocks in %c; 1 to %u are possible", launch->grid[i],
                            axis, limits->grid[i]),
                   KERNEL_LIMIT;
        if (launch->block[i] < 1 || launch->block[i] > limits->block[i])
            return snprintf(text, TEXT, "a block has %u threads in %c; 1 to %u are possible",
                            launch->block[i], axis, limits->block[i]),
                   KERNEL_LIMIT;
        if (d->required[0] && launch->block[i] != d->required[i])
            return snprintf(text, TEXT, "a block has %u threads in %c, but %s says %u", launch->block[i],
                            axis, d->requires, d->required[i]),
                   KERNEL_LIMIT;
        threads *= launch->block[i];
    }
    if (threads > limits->threads || threads > 1024)
        return snprintf(text, TEXT, "a block has %llu threads; %u are possible", (unsigned long long)threads,
                        limits->threads < 1024 ? limits->threads : 1024),
               KERNEL_LIMIT;
    if (d->max_threads && threads > d->max_threads)
        return snprintf(text, TEXT, "a block has %llu threads, but the kernel is compiled for %u",
                        (unsigned long long)threads, d->max_threads),
               KERNEL_LIMIT;
    if (shared > limits->shared_bytes)
        return snprintf(text, TEXT, "a block needs %llu bytes of %s; %u are possible",
                        (unsigned long long)shared, d->shared, limits->shared_bytes),
               KERNEL_LIMIT;
    return KERNEL_OK;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * Block number start + i * step modulo n. A step without a common divisor with n gives each block once,
 * with no table for a huge grid.
 */
struct kernel_order kernel_order_start(const struct kernel_launch *launch)
{
    struct kernel_order o = { .all = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] };
    o.n = launch->last_blocks && launch->last_blocks < o.all ? launch->last_blocks : o.all;
    o.at = mix(launch->seed + 0x9e3779b97f4a7c15u) % o.n;
    o.step = mix(launch->seed + 2 * 0x9e3779b97f4a7c15u) % o.n;
    while (common_divisor(o.step, o.n) != 1) o.step = (o.step + 1) % o.n;
    return o;
}

bool kernel_order_next(struct kernel_order *o, const struct kernel_launch *launch)
{
    if (o->i == o->n) return false;
    if (o->i++) o->at = (o->at + o->step) % o->n;
    const uint64_t block = o->all - o->n + o->at;
    o->block[0] = (uint32_t)(block % launch->grid[0]);
    o->block[1] = (uint32_t)(block / launch->grid[0] % launch->grid[1]);
    o->block[2] = (uint32_t)(block / launch->grid[0] / launch->grid[1]);
    o->number = block % 131069 + 1;
    return true;
}

uint64_t kernel_launch_number(void)
{
    static _Atomic uint64_t launches;
    return atomic_fetch_add(&launches, 1) % (((uint64_t)1 << 30) - 1) + 1;
}

const char *kernel_thread_text(const uint32_t block[3], uint32_t number, char text[48])
{
    snprintf(text, 48, "thread (%u,%u,%u)", number % block[0], number / block[0] % block[1],
             number / block[0] / block[1]);
    return text;
}

void kernel_counts_add(struct kernel_counts *to, const struct kernel_counts *from)
{
    to->instructions += from->instructions;
    to->warp_instructions += from->warp_instructions;
    to->bytes_loaded += from->bytes_loaded;
    to->bytes_stored += from->bytes_stored;
    to->sectors_loaded += from->sectors_loaded;
    to->sectors_stored += from->sectors_stored;
    to->shared_accesses += from->shared_accesses;
    to->bank_conflicts += from->bank_conflicts;
    to->barriers += from->barriers;
    to->warps += from->warps;
}

void *kernel_allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (p) memset(p, 0, (bytes + 127) / 64 * 64);
    return p;
}
