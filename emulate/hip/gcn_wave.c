/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the waves of a block: each until it waits at a barrier or ends. */
#include "emulate/hip/gcn_run.h"

#include "emulate/gpu/blocks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static void place(struct gcn_state *s, const struct gcn_wave *w, int lane)
{
    const uint32_t t = w->index * KERNEL_LANES + (uint32_t)lane, *size = s->launch->block;
    s->fault->thread[0] = t % size[0];
    s->fault->thread[1] = t / size[0] % size[1];
    s->fault->thread[2] = t / size[0] / size[1];
    memcpy(s->fault->block, s->b.block, sizeof s->fault->block);
}

bool gcn_stop(struct gcn_state *s, const struct gcn_wave *w, const struct gcn_instruction *I,
              enum kernel_error error, const char *format, ...)
{
    char what[640];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    place(s, w, 0);
    gcn_fail(s->fault, error, s->kernel, I->offset, "wave %u of block (%u,%u,%u) %s", w->index, s->b.block[0],
             s->b.block[1], s->b.block[2], what);
    return false;
}

bool gcn_stop_at(struct kernel_block *block, const struct kernel_access *access, int lane, uint64_t address,
                 enum kernel_error error, const char *text)
{
    struct gcn_state *s = (struct gcn_state *)(void *)block;
    const struct gcn_instruction *I = access->where;
    char thread[48];
    s->fault->address = address;
    place(s, &s->waves[access->warp], lane);
    gcn_fail(s->fault, error, s->kernel, I->offset, "%s of block (%u,%u,%u) %s",
             kernel_thread_text(s->launch->block, access->warp * KERNEL_LANES + (uint32_t)lane, thread),
             block->block[0], block->block[1], block->block[2], text);
    return false;
}

/* ---- waves ---- */

static bool stopped(struct gcn_state *s, const struct gcn_wave *w, const struct gcn_instruction *I)
{
    const uint64_t most = s->launch->most_instructions;
    if (most && s->executed > most)
        return !gcn_stop(s, w, I, KERNEL_TIMEOUT,
                         "is still running when the block has executed %llu instructions, which is the limit",
                         (unsigned long long)most);
    if (s->launch->stop && *s->launch->stop)
        return !gcn_stop(s, w, I, KERNEL_TIMEOUT, "was stopped by the caller");
    return false;
}

static bool arrive(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    for (int i = 0; i < w->n_pending; i++)
        if (w->pending[i].is_shared)
            return gcn_stop(s, w, I, KERNEL_UNWAITED,
                            "waits at a barrier, but its access of LDS at offset 0x%x was not waited for",
                            w->pending[i].by->offset);
    if (gcn_exec(w) != w->exists)
        return gcn_stop(s, w, I, KERNEL_DIVERGENCE, "reaches a barrier with the lanes 0x%llx of its 0x%llx",
                        (unsigned long long)gcn_exec(w), (unsigned long long)w->exists);
    w->state = GCN_WAITS;
    return true;
}

/* Instructions that come seldom, or that end a run. */
static bool special(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    switch ((enum gcn_kind)I->kind) {
    case GCN_BARRIER: w->pc++; return arrive(s, w, I);
    case GCN_END:
        if (I->op == GCN_OP_s_trap) return gcn_stop(s, w, I, KERNEL_TRAP, "executes s_trap");
        if (I->op == GCN_OP_s_code_end)
            return gcn_stop(s, w, I, KERNEL_TRAP, "runs past the end of the code");
        w->state = GCN_ENDED;
        return true;
    case GCN_LANE: w->pc++; return gcn_lane(s, w, I);
    case GCN_PERMUTE: w->pc++; return gcn_permute(s, w, I);
    case GCN_DUAL: w->pc += 2; return gcn_dual(s, w, I);
    case GCN_WAIT:
        w->pc++;
        gcn_wait(s, w, I);
        return true;
    default: w->pc++; return true;
    }
}

bool gcn_wave_run(struct gcn_state *s, struct gcn_wave *w, uint64_t most)
{
    const struct gcn_instruction *const code = s->module->code;
    const int n_code = s->module->n_code;
    uint64_t n = 0;
    bool good = true;
    if (stopped(s, w, &code[w->pc])) return false;
    while (good && w->state == GCN_RUNS && (!most || n < most)) {
        const struct gcn_instruction *I = &code[w->pc];
        n++;
        s->executed += (uint64_t)kernel_count_lanes(gcn_exec(w));
        if (w->n_pending && !gcn_check_uses(s, w, I)) return false;
        switch ((enum gcn_kind)I->kind) {
        case GCN_SCALAR:
            w->pc++;
            good = gcn_scalar(s, w, I);
            break;
        case GCN_VECTOR:
        case GCN_COMPARE:
            w->pc++;
            good = gcn_vector(s, w, I);
            break;
        case GCN_SCALAR_LOAD:
            w->pc++;
            good = gcn_scalar_load(s, w, I);
            break;
        case GCN_ACCESS:
            w->pc++;
            good = gcn_access(s, w, I);
            break;
        case GCN_BRANCH: good = !stopped(s, w, I) && gcn_branch(s, w, I); break;
        default: good = special(s, w, I); break;
        }
        if (w->pc >= n_code && w->state == GCN_RUNS && good)
            return gcn_stop(s, w, I, KERNEL_TRAP, "runs past the end of the code");
    }
    s->clock += n;
    s->b.counts.warp_instructions += n;
    return good;
}

/* ---- a block ---- */

/* The user SGPRs and those of the system, in the order of the ABI. */
static void set_scalars(struct gcn_state *s, struct gcn_wave *w)
{
    const struct gcn_entry *e = s->kernel->entry;
    const uint64_t scratch = GCN_SCRATCH_BASE;
    uint32_t at = 0;
    if (e->properties & GCN_PRIVATE_SEGMENT_BUFFER) {
        w->s[0] = (uint32_t)scratch;
        w->s[1] = (uint32_t)(scratch >> 32);
        w->s[2] = 0xffffffff;
        w->s[3] = 0x00e00000;
        at += 4;
    }
    if (e->properties & GCN_DISPATCH_PTR) {
        w->s[at] = (uint32_t)GCN_PACKET;
        w->s[at + 1] = (uint32_t)(GCN_PACKET >> 32);
        at += 2;
    }
    if (e->properties & GCN_QUEUE_PTR) at += 2;
    if (e->properties & GCN_KERNARG_SEGMENT_PTR) {
        w->s[at] = (uint32_t)GCN_ARGUMENTS;
        w->s[at + 1] = (uint32_t)(GCN_ARGUMENTS >> 32);
        at += 2;
    }
    if (e->properties & GCN_DISPATCH_ID) at += 2;
    if (e->properties & GCN_FLAT_SCRATCH_INIT) {
        w->s[at] = w->s[at + 1] = 0;
        at += 2;
    }
    if (e->properties & GCN_PRIVATE_SEGMENT_SIZE) w->s[at] = e->scratch_bytes;
    at = e->user_sgprs;
    for (int i = 0; i < 3; i++)
        if (e->has_block[i]) w->s[at++] = s->b.block[i];
    if (e->has_scratch && s->module->arch == GCN_GFX90A) w->s[at] = 0; /* the wave's offset */
}

static void start(struct gcn_state *s, struct gcn_wave *w)
{
    const struct gcn_entry *e = s->kernel->entry;
    const uint32_t left = s->n_threads - w->index * KERNEL_LANES, *size = s->launch->block;
    w->exists = left >= KERNEL_LANES ? KERNEL_ALL_LANES : KERNEL_LANE(left) - 1;
    w->pc = s->kernel->first;
    w->state = GCN_RUNS;
    w->indexes = false;
    w->n_pending = 0;
    memset(w->pending_registers, 0, sizeof w->pending_registers);
    w->mode = e->rsrc1 >> 12 & 0xff;
    w->scc = 0;
    set_scalars(s, w);
    w->s[GCN_EXEC + 1] = 0;
    gcn_set_mask(w, GCN_EXEC, w->exists);
    for (uint32_t l = 0; l < KERNEL_LANES; l++) {
        const uint32_t t = w->index * KERNEL_LANES + l;
        const uint32_t x = t % size[0], y = t / size[0] % size[1], z = t / size[0] / size[1];
        w->v[0][l] = x | (e->thread_dimensions > 1 ? y << 10 : 0) | (e->thread_dimensions > 2 ? z << 20 : 0);
    }
    if (s->scratch_bytes) memset(w->scratch_defined, 0, s->scratch_bytes * sizeof *w->scratch_defined);
}

/* All waves have stopped. Opens the barrier if all wait at it. */
static bool open_barrier(struct gcn_state *s, bool *over)
{
    int waiting = 0, at = -1;
    for (int i = 0; i < s->n_waves; i++)
        if (s->waves[i].state == GCN_WAITS) {
            waiting++;
            at = i;
        }
    *over = waiting == 0;
    if (*over) return true;
    const struct gcn_instruction *I = &s->module->code[s->waves[at].pc - 1];
    for (int i = 0; i < s->n_waves; i++) {
        const struct gcn_wave *w = &s->waves[i];
        if (w->state == GCN_ENDED)
            return gcn_stop(s, &s->waves[at], I, KERNEL_DIVERGENCE,
                            "waits at a barrier, and wave %d has ended", i);
        if (w->pc != s->waves[at].pc)
            return gcn_stop(s, &s->waves[at], I, KERNEL_DIVERGENCE,
                            "waits at a barrier, and wave %d waits at another one, at offset 0x%x", i,
                            s->module->code[w->pc - 1].offset);
    }
    s->b.epoch++;
    s->b.counts.barriers++;
    for (int i = 0; i < s->n_waves; i++) s->waves[i].state = GCN_RUNS;
    return true;
}

bool gcn_block_run(struct gcn_state *s)
{
    const size_t pieces = (size_t)(s->b.shared_bytes >> s->b.shared_shift) + 1;
    bool over = false;
    memset(s->b.shadow, 0, pieces * sizeof *s->b.shadow);
    s->b.epoch = 1;
    s->executed = 0;
    for (int i = 0; i < s->n_waves; i++) start(s, &s->waves[i]);
    while (!over) {
        for (int i = 0; i < s->n_waves; i++)
            if (s->waves[i].state == GCN_RUNS && !gcn_wave_run(s, &s->waves[i], 0)) return false;
        if (!open_barrier(s, &over)) return false;
    }
    s->b.counts.instructions += s->executed;
    return true;
}
