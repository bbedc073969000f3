/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a launch, and of a single step. */
#include "emulate/hip/gcn_run.h"

#include "emulate/gpu/blocks.h"
#include "emulate/hip/gcn_load.h"

#include <stdlib.h>
#include <string.h>

#define gcn_launch KERNEL_JOIN(gcn_launch, KERNEL_ISA)
#define gcn_step_run KERNEL_JOIN(gcn_step_run, KERNEL_ISA)
bool gcn_launch(const struct kernel_launch *launch, struct kernel_fault *fault, struct kernel_counts *counts);
bool gcn_step_run(struct gcn_instruction *I, enum gcn_arch arch, struct gcn_step *step,
                  struct kernel_fault *fault);

static void release(struct gcn_state *s)
{
    for (int i = 0; s->waves && i < s->n_waves; i++) {
        free(s->waves[i].v);
        free(s->waves[i].scratch);
        free(s->waves[i].scratch_defined);
    }
    free(s->waves);
    free(s->b.shared);
    free(s->b.shadow);
    free(s->b.threads);
    free(s->arguments);
}

/* What registers and scratch memory have at the start: nothing that a kernel may rely on. */
static void scramble(const struct gcn_state *s, struct gcn_wave *w)
{
    uint64_t x = s->seed * 0x9e3779b97f4a7c15u + w->index + 1;
    for (int r = 0; r < GCN_ROWS; r++) {
        if (r % GCN_AGPR >= s->kernel->n_rows[r / GCN_AGPR]) continue;
        for (int l = 0; l < KERNEL_LANES; l++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            w->v[r][l] = (uint32_t)(x >> 32);
        }
    }
    for (int i = 0; i < GCN_SGPRS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        w->s[i] = (uint32_t)(x >> 32);
    }
    for (size_t i = 0; i < (s->scratch_bytes + 3) / 4; i++)
        memcpy(w->scratch + i * KERNEL_LANES, w->v[i % s->kernel->n_rows[0]], sizeof *w->v);
}

/* The packet has the sizes of a block and of the grid, in threads. Its other members are 0. */
static void fill_packet(struct gcn_state *s)
{
    for (int i = 0; i < 3; i++) {
        const uint16_t block = (uint16_t)s->launch->block[i];
        const uint32_t grid = s->launch->block[i] * s->launch->grid[i];
        memcpy(s->packet + 4 + 2 * i, &block, sizeof block);
        memcpy(s->packet + 12 + 4 * i, &grid, sizeof grid);
    }
    memcpy(s->packet + 24, &s->scratch_bytes, 4);
    memcpy(s->packet + 28, &s->b.shared_bytes, 4);
}

static bool reserve(struct gcn_state *s)
{
    s->b.shared = kernel_allocate(s->b.shared_bytes);
    s->b.shadow = kernel_allocate(((size_t)(s->b.shared_bytes >> s->b.shared_shift) + 1)
                                  * sizeof *s->b.shadow);
    s->b.threads = kernel_allocate(KERNEL_THREAD_PAIRS * sizeof *s->b.threads);
    s->waves = calloc((size_t)s->n_waves, sizeof *s->waves);
    s->arguments = kernel_allocate(s->argument_bytes);
    bool good = s->b.shared && s->b.shadow && s->b.threads && s->waves && s->arguments;
    for (int i = 0; good && i < s->n_waves; i++) {
        struct gcn_wave *w = &s->waves[i];
        w->index = (uint32_t)i;
        /* one row more, for the second half of a pair */
        w->v = kernel_allocate((size_t)(GCN_ROWS + 4) * sizeof *w->v);
        good = w->v != NULL;
        if (!good) break;
        if (!s->scratch_bytes) continue;
        w->scratch = kernel_allocate((size_t)(s->scratch_bytes + 19) * KERNEL_LANES);
        w->scratch_defined = kernel_allocate((s->scratch_bytes + 16) * sizeof *w->scratch_defined);
        good = w->scratch && w->scratch_defined;
    }
    return good;
}

bool gcn_launch(const struct kernel_launch *launch, struct kernel_fault *fault, struct kernel_counts *counts)
{
    const struct gcn_kernel *k = launch->kernel;
    const struct gcn_entry *e = k->entry;
    const uint32_t n_threads = launch->block[0] * launch->block[1] * launch->block[2];
    struct gcn_state s = { .launch = launch,
                           .kernel = k,
                           .module = k->module,
                           .about = gcn_describe(k->module->arch),
                           .fault = fault,
                           .n_threads = n_threads,
                           .n_waves = (int)((n_threads + KERNEL_LANES - 1) / KERNEL_LANES),
                           .scratch_bytes = e->scratch_bytes,
                           .argument_bytes = (e->argument_bytes + 15) / 16 * 16,
                           .seed = gcn_seed() };
    bool good = true;
    s.b.launch = launch;
    s.b.fail = gcn_stop_at;
    s.b.global_shift = k->global_shift;
    s.b.shared_shift = k->shared_shift;
    s.b.shared_bytes = e->shared_bytes + launch->dynamic_shared_bytes;
    if (!reserve(&s)) {
        release(&s);
        gcn_fail(fault, KERNEL_NO_MEMORY, k, UINT32_MAX, "there is not enough memory for a block");
        return false;
    }
    for (int i = 0; i < s.n_waves; i++) scramble(&s, &s.waves[i]);
    memcpy(s.arguments, launch->parameters, k->parameter_bytes);
    gcn_object_hide(e, launch->grid, launch->block, launch->dynamic_shared_bytes, s.arguments);
    fill_packet(&s);
    s.b.launch_number = kernel_launch_number();
    struct kernel_order order = kernel_order_start(launch);
    s.b.counts.warps = order.n * (uint64_t)s.n_waves;
    while (good && kernel_order_next(&order, launch)) {
        memcpy(s.b.block, order.block, sizeof s.b.block);
        s.b.block_number = order.number;
        good = gcn_block_run(&s);
        s.b.threads_base += s.b.epoch;
    }
    *counts = s.b.counts;
    release(&s);
    return good;
}

/* ---- one instruction ---- */

static void load_step(struct gcn_wave *w, const struct gcn_step *step)
{
    memcpy(w->s, step->s, sizeof step->s);
    w->scc = step->scc;
    for (int r = 0; r < GCN_STEP_VGPRS; r++) memcpy(w->v[r], step->v[r], sizeof w->v[r]);
    for (int r = 0; r < GCN_STEP_AGPRS; r++) memcpy(w->v[GCN_AGPR + r], step->a[r], sizeof w->v[r]);
}

static void save_step(const struct gcn_wave *w, struct gcn_step *step)
{
    memcpy(step->s, w->s, sizeof step->s);
    step->scc = w->scc;
    for (int r = 0; r < GCN_STEP_VGPRS; r++) memcpy(step->v[r], w->v[r], sizeof w->v[r]);
    for (int r = 0; r < GCN_STEP_AGPRS; r++) memcpy(step->a[r], w->v[GCN_AGPR + r], sizeof w->v[r]);
}

/* Memory whose bytes are all defined. */
static bool reserve_step(struct gcn_state *s, struct kernel_memory *memory)
{
    s->b.shared_bytes = GCN_STEP_MEMORY;
    memory->state = kernel_allocate(GCN_STEP_MEMORY);
    memory->touched = kernel_allocate(GCN_STEP_MEMORY * sizeof *memory->touched);
    if (!reserve(s) || !memory->state || !memory->touched) return false;
    memset(memory->state, BYTE_DEFINED, GCN_STEP_MEMORY);
    for (int i = 0; i < GCN_STEP_MEMORY; i++) s->b.shadow[i] = 1;
    return true;
}

enum { ELSEWHERE = 1 << 20 };

static bool step_in(struct gcn_state *s, struct gcn_instruction *I, struct gcn_step *step)
{
    struct gcn_wave *w = s->waves;
    load_step(w, step);
    memcpy(s->b.shared, step->lds, sizeof step->lds);
    w->exists = gcn_exec(w);
    w->row_of = ~w->exists;
    w->mode = 0xf0;
    w->pc = 0;
    w->state = GCN_RUNS;
    I->target = ELSEWHERE;
    const bool good = gcn_wave_run(s, w, 1);
    if (!good) return false;
    save_step(w, step);
    memcpy(step->lds, s->b.shared, sizeof step->lds);
    step->next = I->bytes + (w->pc == ELSEWHERE ? 4 * (int64_t)I->immediate : 0);
    return true;
}

bool gcn_step_run(struct gcn_instruction *I, enum gcn_arch arch, struct gcn_step *step,
                  struct kernel_fault *fault)
{
    struct kernel_memory memory = { .base = GCN_STEP_GLOBAL, .bytes = GCN_STEP_MEMORY, .data = step->global };
    struct kernel_launch launch = { .memory = &memory, .grid = { 1, 1, 1 }, .block = { KERNEL_LANES, 1, 1 } };
    struct gcn_entry entry = { .name = (char[]){ "one instruction" }, .n_vgprs = GCN_STEP_VGPRS };
    struct gcn_object object = { .arch = arch };
    struct gcn_module module = { .object = &object, .arch = arch, .code = I, .n_code = ELSEWHERE + 1 };
    struct gcn_kernel kernel = { .module = &module, .entry = &entry };
    struct gcn_state s = { .launch = &launch,
                           .kernel = &kernel,
                           .module = &module,
                           .about = gcn_describe(arch),
                           .fault = fault,
                           .n_threads = KERNEL_LANES,
                           .n_waves = 1 };
    s.b.launch = &launch;
    s.b.fail = gcn_stop_at;
    s.b.epoch = s.b.launch_number = s.b.block_number = 1;
    bool good = reserve_step(&s, &memory);
    if (!good)
        gcn_fail(fault, KERNEL_NO_MEMORY, &kernel, UINT32_MAX, "there is not enough memory");
    else
        good = step_in(&s, I, step);
    free(memory.state);
    free(memory.touched);
    release(&s);
    return good;
}
