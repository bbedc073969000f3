/* SPDX-License-Identifier: Apache-2.0 */
/* A launch: its limits, its memory, and the order of its blocks. */
#include "emulate/cuda/ptx_run.h"
#include "emulate/gpu/blocks.h"

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
    const uint32_t target = launch->limits->target;
    char text[256];
    if (k->module->target > target)
        return ptx_fail(fault, KERNEL_TARGET, k, NULL, "the module is for sm_%u, and the device is sm_%u",
                        k->module->target, target);
    const struct kernel_demands demands = { .required = { k->required[0], k->required[1], k->required[2] },
                                            .requires = ".reqntid",
                                            .max_threads = k->max_threads,
                                            .shared_bytes = k->shared_bytes,
                                            .shared = "shared memory" };
    const enum kernel_error error = kernel_limits_check(launch, &demands, text);
    return error ? ptx_fail(fault, error, k, NULL, "%s", text) : KERNEL_OK;
}

/* ---- memory of a launch ---- */

static void release(struct ptx_state *s)
{
    for (int i = 0; s->warps && i < s->n_warps; i++) {
        free(s->warps[i].registers);
        free(s->warps[i].local);
        free(s->warps[i].local_defined);
        free(s->warps[i].pending);
    }
    free(s->warps);
    free(s->b.shared);
    free(s->b.shadow);
    free(s->b.threads);
}

static bool reserve(struct ptx_state *s)
{
    const struct ptx_kernel *k = s->kernel;
    s->b.shared = kernel_allocate(s->b.shared_bytes);
    s->b.shadow = kernel_allocate(((size_t)(s->b.shared_bytes >> k->shared_shift) + 1) * sizeof *s->b.shadow);
    s->warps = calloc((size_t)s->n_warps, sizeof *s->warps);
    s->b.threads = kernel_allocate(KERNEL_THREAD_PAIRS * sizeof *s->b.threads);
    bool good = s->b.shared && s->b.shadow && s->warps && s->b.threads;
    for (int i = 0; good && i < s->n_warps; i++) {
        struct ptx_warp *warp = &s->warps[i];
        warp->index = (uint32_t)i;
        warp->registers = kernel_allocate(k->register_bytes);
        good = warp->registers != NULL;
        if (!good || !k->local_bytes) continue;
        warp->local = kernel_allocate((size_t)(k->local_bytes + 3) * PTX_LANES);
        warp->local_defined = kernel_allocate(k->local_bytes * sizeof *warp->local_defined);
        good = warp->local && warp->local_defined;
    }
    return good;
}

static void run_all(struct ptx_state *s)
{
    struct kernel_order order = kernel_order_start(s->launch);
    s->b.launch_number = kernel_launch_number();
    s->b.counts.warps = order.n * (uint64_t)s->n_warps;
    while (kernel_order_next(&order, s->launch)) {
        memcpy(s->b.block, order.block, sizeof s->b.block);
        s->b.block_number = order.number;
        if (!run_block(s)) return;
        s->b.threads_base += s->b.epoch;
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
    s.b.launch = launch;
    s.b.fail = ptx_fail_at;
    s.b.global_shift = kernel->global_shift;
    s.b.shared_shift = kernel->shared_shift;
    s.b.shared_bytes = kernel->shared_bytes;
    if (launch->dynamic_shared_bytes) {
        const uint32_t align = kernel->dynamic_align;
        s.b.shared_bytes = (s.b.shared_bytes + align - 1) / align * align + launch->dynamic_shared_bytes;
    }
    if (reserve(&s))
        run_all(&s);
    else
        ptx_fail(fault, KERNEL_NO_MEMORY, kernel, NULL, "there is not enough memory for a block");
    release(&s);
    if (launch->counts) kernel_counts_add(launch->counts, &s.b.counts);
    return fault->error;
}
