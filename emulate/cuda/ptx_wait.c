/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where threads wait for each other: barriers of a block, barriers of a warp, shuffles and votes. Lanes
 * that have arrived stand in warp->parked, one entry per instruction.
 *
 * A barrier of a block without a number of threads needs all threads that the block began with, at the
 * same instruction (PTX ISA, "bar": the threads in the CTA). A shuffle needs the lanes of its mask that
 * have not ended.
 */
#include "emulate/cuda/ptx_run.h"
#include "emulate/gpu/blocks.h"

#include <stdio.h>
#include <string.h>

static const char *thread_text(const struct ptx_state *s, const struct ptx_warp *warp, int lane,
                               char text[48])
{
    return kernel_thread_text(s->launch->block, warp->index * PTX_LANES + (uint32_t)lane, text);
}

static char *const *bases_of(const struct ptx_state *s, const struct ptx_warp *warp, char *bases[2])
{
    bases[0] = warp->registers;
    bases[1] = s->constants;
    return bases;
}

static uint32_t word_of(const struct ptx_state *s, const struct ptx_warp *warp, ptx_operand operand, int lane)
{
    char *bases[2];
    return (uint32_t)ptx_register(bases_of(s, warp, bases), operand, false, lane);
}

/* Take lanes out of a parked entry, and let them go on behind the instruction. */
static void release(struct ptx_warp *warp, int entry, uint32_t lanes)
{
    const int pc = warp->parked[entry].pc;
    warp->parked[entry].lanes &= ~lanes;
    if (!warp->parked[entry].lanes) warp->parked[entry] = warp->parked[--warp->n_parked];
    ptx_ready(warp, pc + 1, lanes);
}

/* ---- barriers of a block ---- */

/* The threads that wait at barrier `number`. All lanes of a warp that has fewer than 32 count as 32. */
static uint32_t arrived(const struct ptx_state *s, uint32_t number, bool in_warps)
{
    uint32_t n = 0;
    for (int i = 0; i < s->n_warps; i++) {
        const struct ptx_warp *warp = &s->warps[i];
        uint32_t here = 0;
        for (int j = 0; j < warp->n_parked; j++) {
            const struct ptx_instruction *I = &s->kernel->code[warp->parked[j].pc];
            if (I->kind == PTX_BARRIER
                && word_of(s, warp, I->a, __builtin_ctz(warp->parked[j].lanes)) == number)
                here |= warp->parked[j].lanes;
        }
        n += in_warps && here == warp->exists ? PTX_LANES : (uint32_t)__builtin_popcount(here);
    }
    return n;
}

static void open_barrier(struct ptx_state *s, uint32_t number)
{
    for (int i = 0; i < s->n_warps; i++) {
        struct ptx_warp *warp = &s->warps[i];
        for (int j = warp->n_parked - 1; j >= 0; j--) {
            const struct ptx_instruction *I = &s->kernel->code[warp->parked[j].pc];
            if (I->kind == PTX_BARRIER
                && word_of(s, warp, I->a, __builtin_ctz(warp->parked[j].lanes)) == number)
                release(warp, j, warp->parked[j].lanes);
        }
    }
    s->b.epoch++;
    s->b.counts.barriers++;
}

/* Without a number of threads all must come to the same instruction. Returns another one, or -1. */
static int other_barrier(const struct ptx_state *s, int pc, uint32_t number, const struct ptx_warp **warp_out,
                         int *lane_out)
{
    for (int i = 0; i < s->n_warps; i++)
        for (int j = 0; j < s->warps[i].n_parked; j++) {
            const struct ptx_fragment *f = &s->warps[i].parked[j];
            const struct ptx_instruction *I = &s->kernel->code[f->pc];
            if (f->pc == pc || I->kind != PTX_BARRIER) continue;
            *warp_out = &s->warps[i];
            *lane_out = __builtin_ctz(f->lanes);
            if (word_of(s, *warp_out, I->a, *lane_out) == number) return f->pc;
        }
    return -1;
}

static bool at_barrier(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_fragment *f)
{
    const struct ptx_instruction *I = &s->kernel->code[f->pc];
    const int lane = __builtin_ctz(f->lanes);
    const uint32_t number = word_of(s, warp, I->a, lane);
    uint32_t needed = s->n_threads;
    for (int l = lane + 1; l < PTX_LANES; l++)
        if (f->lanes >> l & 1 && word_of(s, warp, I->a, l) != number)
            return ptx_fault_at(s, warp, l, I, KERNEL_DIVERGENCE,
                                "is at barrier %u, and lane %d of its warp at %u", word_of(s, warp, I->a, l),
                                lane, number);
    if (number > 15)
        return ptx_fault_at(s, warp, lane, I, KERNEL_LIMIT, "waits at barrier %u, but there are only 0 to 15",
                            number);
    if (I->counted) {
        needed = word_of(s, warp, I->b, lane);
        if (!needed || needed % PTX_LANES || needed > (s->n_threads + PTX_LANES - 1) / PTX_LANES * PTX_LANES)
            return ptx_fault_at(
                s, warp, lane, I, KERNEL_DIVERGENCE,
                "waits at barrier %u for %u threads, but the number must be a multiple of 32 and "
                "at most that of the block",
                number, needed);
    } else {
        const struct ptx_warp *other;
        int other_lane;
        char text[48];
        const int pc = other_barrier(s, f->pc, number, &other, &other_lane);
        if (pc >= 0)
            return ptx_fault_at(s, warp, lane, I, KERNEL_DIVERGENCE,
                                "waits at barrier %u, while %s waits at another bar.sync %u in PTX line %d",
                                number, thread_text(s, other, other_lane, text), number,
                                s->kernel->code[pc].line);
    }
    if (arrived(s, number, I->counted) >= needed) open_barrier(s, number);
    return true;
}

/* ---- barriers, shuffles and votes of a warp ---- */

static bool shuffle(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                    uint32_t lanes)
{
    char *bases[2];
    bases_of(s, warp, bases);
    const union ptx_slot *a = ptx_at(bases, I->a), *b = ptx_at(bases, I->b), *c = ptx_at(bases, I->c);
    uint32_t values[PTX_LANES], inside = 0;
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        /* the names of the PTX ISA */
        const int bval = (int)(b->w[l] & 31), cval = (int)(c->w[l] & 31), segmask = (int)(c->w[l] >> 8 & 31);
        const int most = (l & segmask) | (cval & ~segmask), least = l & segmask;
        int j = l, holds = 0;
        switch ((enum ptx_shuffle)I->mode) {
        case PTX_SHFL_UP: j = l - bval, holds = j >= most; break;
        case PTX_SHFL_DOWN: j = l + bval, holds = j <= most; break;
        case PTX_SHFL_BFLY: j = l ^ bval, holds = j <= most; break;
        case PTX_SHFL_IDX: j = least | (bval & ~segmask), holds = j <= most; break;
        }
        if (!holds) j = l;
        if (!(lanes >> j & 1))
            return ptx_fault_at(s, warp, l, I, KERNEL_DIVERGENCE, "reads lane %d by a shuffle, which %s", j,
                                warp->live >> j & 1 ? "is not in the mask of the shuffle" : "has ended");
        values[l] = a->w[j];
        inside |= (uint32_t)holds << l;
    }
    union ptx_slot *d = ptx_at(bases, I->d[0]);
    uint32_t *p = ptx_at(bases, I->d[1]);
    for (int l = 0; l < PTX_LANES && I->has_d; l++)
        if (lanes >> l & 1) d->w[l] = values[l];
    if (I->has_q) *p = (*p & ~lanes) | inside;
    return true;
}

static void vote(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I, uint32_t lanes)
{
    char *bases[2];
    bases_of(s, warp, bases);
    uint32_t holds = *(const uint32_t *)ptx_at(bases, I->a);
    if (I->negated) holds = ~holds;
    holds &= lanes;
    if (I->mode == PTX_VOTE_BALLOT) {
        union ptx_slot *d = ptx_at(bases, I->d[0]);
        for (int l = 0; l < PTX_LANES; l++)
            if (lanes >> l & 1) d->w[l] = holds;
        return;
    }
    const bool all = holds == lanes, any = holds != 0;
    const bool result = I->mode == PTX_VOTE_ALL ? all : I->mode == PTX_VOTE_ANY ? any : all || !any;
    uint32_t *d = ptx_at(bases, I->d[0]);
    *d = (*d & ~lanes) | (result ? lanes : 0);
}

/* Run the instruction of a parked entry for each mask of which all lanes are there. */
static bool at_warp_wait(struct ptx_state *s, struct ptx_warp *warp, int entry)
{
    const struct ptx_fragment f = warp->parked[entry];
    const struct ptx_instruction *I = &s->kernel->code[f.pc];
    for (uint32_t left = f.lanes; left;) {
        const int first = __builtin_ctz(left);
        const uint32_t members = word_of(s, warp, I->e, first);
        uint32_t same = 0;
        for (int l = first; l < PTX_LANES; l++)
            if (left >> l & 1 && word_of(s, warp, I->e, l) == members) same |= (uint32_t)1 << l;
        left &= ~same;
        if (same & ~members)
            return ptx_fault_at(s, warp, __builtin_ctz(same & ~members), I, KERNEL_DIVERGENCE,
                                "is not in the mask 0x%08x of its own instruction", members);
        if ((same & warp->live) != (members & warp->live)) continue; /* some still come */
        if (I->kind == PTX_SHUFFLE && !shuffle(s, warp, I, same)) return false;
        if (I->kind == PTX_VOTE) vote(s, warp, I, same);
        if (I->kind == PTX_LOAD_MATRIX && !ptx_load_matrix(s, warp, I, same)) return false;
        if (I->kind == PTX_MULTIPLY && !ptx_multiply(s, warp, I, same)) return false;
        if (I->kind == PTX_WARP_BARRIER) warp->epoch++;
        release(warp, entry, same);
        if (same == f.lanes) return true;
        /* the entry is still there, with the other lanes, because not all of them were released */
    }
    return true;
}

static bool wait_at(struct ptx_state *s, struct ptx_warp *warp, int entry)
{
    const struct ptx_fragment f = warp->parked[entry];
    return s->kernel->code[f.pc].kind == PTX_BARRIER ? at_barrier(s, warp, &f) : at_warp_wait(s, warp, entry);
}

bool ptx_park(struct ptx_state *s, struct ptx_warp *warp, int pc, uint32_t lanes)
{
    int entry = 0;
    while (entry < warp->n_parked && warp->parked[entry].pc != pc) entry++;
    if (entry == warp->n_parked) warp->parked[warp->n_parked++] = (struct ptx_fragment){ pc, 0 };
    warp->parked[entry].lanes |= lanes;
    return wait_at(s, warp, entry);
}

bool ptx_resume(struct ptx_state *s, struct ptx_warp *warp)
{
    for (int i = warp->n_parked - 1; i >= 0; i--)
        if (i < warp->n_parked && s->kernel->code[warp->parked[i].pc].kind != PTX_BARRIER
            && !at_warp_wait(s, warp, i))
            return false;
    return true;
}

/* ---- nobody can go on ---- */

static const char *what_of(const struct ptx_instruction *I)
{
    switch ((enum ptx_kind)I->kind) {
    case PTX_SHUFFLE: return "a shuffle";
    case PTX_VOTE: return "a vote";
    case PTX_LOAD_MATRIX: return "ldmatrix";
    case PTX_MULTIPLY: return "mma";
    case PTX_WARP_BARRIER: return "a barrier of its warp";
    default: return "a barrier of its block";
    }
}

/* A thread that the waiting ones miss: one that has ended, or one that waits elsewhere. */
static void describe_missing(const struct ptx_state *s, const struct ptx_warp *waiting, int pc,
                             uint32_t members, char *text, size_t bytes)
{
    const bool of_warp = s->kernel->code[pc].kind != PTX_BARRIER;
    char thread[48];
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->n_warps; i++) {
            const struct ptx_warp *warp = &s->warps[i];
            if (of_warp && warp != waiting) continue;
            const uint32_t among = of_warp ? members : PTX_ALL_LANES,
                           ended = warp->exists & ~warp->live & among;
            if (pass == 1 && ended) {
                snprintf(text, bytes, "but %s has ended", thread_text(s, warp, __builtin_ctz(ended), thread));
                return;
            }
            for (int j = 0; j < warp->n_parked && pass == 0; j++) {
                const struct ptx_fragment *f = &warp->parked[j];
                const struct ptx_instruction *I = &s->kernel->code[f->pc];
                if (f->pc == pc || !(f->lanes & among)) continue;
                snprintf(text, bytes, "but %s waits at %s in PTX line %d",
                         thread_text(s, warp, __builtin_ctz(f->lanes & among), thread), what_of(I), I->line);
                return;
            }
        }
    snprintf(text, bytes, "but too few threads came");
}

bool ptx_stalled(struct ptx_state *s)
{
    /* a shuffle is named first, because its warp may keep the others from their barrier */
    const struct ptx_warp *warp = NULL;
    const struct ptx_fragment *f = NULL;
    for (int i = 0; i < s->n_warps; i++)
        for (int j = 0; j < s->warps[i].n_parked; j++) {
            const struct ptx_fragment *g = &s->warps[i].parked[j];
            if (!f
                || (s->kernel->code[f->pc].kind == PTX_BARRIER
                    && s->kernel->code[g->pc].kind != PTX_BARRIER)) {
                f = g;
                warp = &s->warps[i];
            }
        }
    const struct ptx_instruction *I = &s->kernel->code[f->pc];
    const int lane = __builtin_ctz(f->lanes);
    const uint32_t members = I->kind == PTX_BARRIER ? 0 : word_of(s, warp, I->e, lane) & ~f->lanes;
    char missing[192];
    describe_missing(s, warp, f->pc, members, missing, sizeof missing);
    return ptx_fault_at(s, warp, lane, I, KERNEL_DIVERGENCE, "waits at %s, %s", what_of(I), missing);
}
