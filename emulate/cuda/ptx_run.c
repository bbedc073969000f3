/* SPDX-License-Identifier: Apache-2.0 */
/* A launch: its limits, its memory, and the order of its blocks. */
#include "emulate/cuda/ptx_run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#undef ptx_block_run
bool ptx_block_run_generic(struct ptx_state *s);
bool ptx_block_run_avx2(struct ptx_state *s);

static bool run_block(struct ptx_state *s)
{
#ifdef PTX_HAS_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return ptx_block_run_avx2(s);
#endif
    return ptx_block_run_generic(s);
}

static enum kernel_error check_limits(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    const struct ptx_kernel *k = launch->kernel;
    const struct kernel_limits *limits = launch->limits;
    const uint64_t shared = (uint64_t)k->shared_bytes + launch->dynamic_shared_bytes;
    uint64_t threads = 1;
    if (k->module->target > limits->target)
        return ptx_fail(fault, KERNEL_TARGET, k, NULL, "the module is for sm_%u, and the device is sm_%u",
                        k->module->target, limits->target);
    for (int i = 0; i < 3; i++) {
        const char axis = "xyz"[i];
        if (launch->grid[i] < 1 || launch->grid[i] > limits->grid[i])
            return ptx_fail(fault, KERNEL_LIMIT, k, NULL,
                            "the grid has %u blocks in %c; 1 to %u are possible", launch->grid[i], axis,
                            limits->grid[i]);
        if (launch->block[i] < 1 || launch->block[i] > limits->block[i])
            return ptx_fail(fault, KERNEL_LIMIT, k, NULL,
                            "a block has %u threads in %c; 1 to %u are possible", launch->block[i], axis,
                            limits->block[i]);
        if (k->required[0] && launch->block[i] != k->required[i])
            return ptx_fail(fault, KERNEL_LIMIT, k, NULL,
                            "a block has %u threads in %c, but .reqntid says %u", launch->block[i], axis,
                            k->required[i]);
        threads *= launch->block[i];
    }
    if (threads > limits->threads || threads > 1024)
        return ptx_fail(fault, KERNEL_LIMIT, k, NULL, "a block has %llu threads; %u are possible",
                        (unsigned long long)threads, limits->threads < 1024 ? limits->threads : 1024);
    if (k->max_threads && threads > k->max_threads)
        return ptx_fail(fault, KERNEL_LIMIT, k, NULL,
                        "a block has %llu threads, but the kernel is compiled for %u",
                        (unsigned long long)threads, k->max_threads);
    if (shared > limits->shared_bytes)
        return ptx_fail(fault, KERNEL_LIMIT, k, NULL,
                        "a block needs %llu bytes of shared memory; %u are possible",
                        (unsigned long long)shared, limits->shared_bytes);
    return KERNEL_OK;
}

/* ---- memory of a launch ---- */

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (p) memset(p, 0, (bytes + 127) / 64 * 64);
    return p;
}

static void release(struct ptx_state *s)
{
    for (int i = 0; s->warps && i < s->n_warps; i++) {
        free(s->warps[i].registers);
        free(s->warps[i].local);
        free(s->warps[i].local_defined);
    }
    free(s->warps);
    free(s->shared);
    free(s->shadow);
    free(s->threads);
}

static bool reserve(struct ptx_state *s)
{
    const struct ptx_kernel *k = s->kernel;
    s->shared = allocate(s->shared_bytes);
    s->shadow = allocate(((size_t)(s->shared_bytes >> k->shared_shift) + 1) * sizeof *s->shadow);
    s->warps = calloc((size_t)s->n_warps, sizeof *s->warps);
    s->threads = allocate(PTX_THREAD_PAIRS * sizeof *s->threads);
    bool good = s->shared && s->shadow && s->warps && s->threads;
    for (int i = 0; good && i < s->n_warps; i++) {
        struct ptx_warp *warp = &s->warps[i];
        warp->index = (uint32_t)i;
        warp->registers = allocate(k->register_bytes);
        good = warp->registers != NULL;
        if (!good || !k->local_bytes) continue;
        warp->local = allocate((size_t)(k->local_bytes + 3) * PTX_LANES);
        warp->local_defined = allocate(k->local_bytes * sizeof *warp->local_defined);
        good = warp->local && warp->local_defined;
    }
    return good;
}

/* ---- the order of the blocks ---- */

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
static void draw_order(uint64_t seed, uint64_t n, uint64_t *start, uint64_t *step)
{
    *start = mix(seed + 0x9e3779b97f4a7c15u) % n;
    *step = mix(seed + 2 * 0x9e3779b97f4a7c15u) % n;
    while (common_divisor(*step, n) != 1) *step = (*step + 1) % n;
}

static void add_counts(struct kernel_counts *to, const struct kernel_counts *from)
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

static void run_all(struct ptx_state *s)
{
    static _Atomic uint64_t launches;
    const struct kernel_launch *launch = s->launch;
    const uint64_t all = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    const uint64_t n = launch->last_blocks && launch->last_blocks < all ? launch->last_blocks : all;
    uint64_t at, step;
    s->launch_number = atomic_fetch_add(&launches, 1) % (((uint64_t)1 << 30) - 1) + 1;
    draw_order(launch->seed, n, &at, &step);
    s->counts.warps = n * (uint64_t)s->n_warps;
    for (uint64_t i = 0; i < n; i++, at = (at + step) % n) {
        const uint64_t block = all - n + at;
        s->block[0] = (uint32_t)(block % launch->grid[0]);
        s->block[1] = (uint32_t)(block / launch->grid[0] % launch->grid[1]);
        s->block[2] = (uint32_t)(block / launch->grid[0] / launch->grid[1]);
        s->block_number = block % 131069 + 1;
        if (!run_block(s)) return;
        s->threads_base += s->epoch;
    }
}

enum kernel_error ptx_run(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    memset(fault, 0, sizeof *fault);
    const enum kernel_error error = check_limits(launch, fault);
    if (error) return error;
    const struct ptx_kernel *kernel = launch->kernel;
    const uint32_t n_threads = launch->block[0] * launch->block[1] * launch->block[2];
    struct ptx_state s = { .launch = launch,
                           .kernel = kernel,
                           .fault = fault,
                           .constants = kernel->constants,
                           .n_threads = n_threads,
                           .n_warps = (int)((n_threads + PTX_LANES - 1) / PTX_LANES) };
    s.shared_bytes = kernel->shared_bytes;
    if (launch->dynamic_shared_bytes) {
        const uint32_t align = kernel->dynamic_align;
        s.shared_bytes = (s.shared_bytes + align - 1) / align * align + launch->dynamic_shared_bytes;
    }
    if (reserve(&s))
        run_all(&s);
    else
        ptx_fail(fault, KERNEL_NO_MEMORY, kernel, NULL, "there is not enough memory for a block");
    release(&s);
    if (launch->counts) add_counts(launch->counts, &s.counts);
    return fault->error;
}
