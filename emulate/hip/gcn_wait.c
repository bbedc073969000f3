/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wave has to wait for. Each access raises counters; s_waitcnt waits until a counter has fallen to a
 * number. Accesses of one class return in the order in which they were issued, so those that have at least
 * as many later ones of their class as may be left are done. Classes:
 * - vmcnt: loads of vectors (before GFX11 also stores),
 * - lgkmcnt: LDS. Loads of scalars return in any order, so only a wait for 0 covers them,
 * - flat_* raises both. Before GFX11 it may return before or after the others, so only a wait for 0 of both
 *   covers it. (LLVM, "User Guide for AMDGPU Backend", and SIInsertWaitcnts.)
 */
#include "emulate/hip/gcn_run.h"

#include <stdio.h>
#include <string.h>

static bool is_flat(const struct gcn_instruction *I)
{
    return I->kind == GCN_ACCESS && I->m.space == GCN_S_FLAT;
}

/* Whether accesses of this kind return in order. */
static bool in_order(const struct gcn_state *s, const struct gcn_instruction *I)
{
    return I->kind != GCN_SCALAR_LOAD && (s->about->is_11 || !is_flat(I));
}

static void mark(uint64_t *bits, struct gcn_span span)
{
    for (uint32_t r = span.first; r < (uint32_t)span.first + span.n; r++)
        bits[r / 64] |= (uint64_t)1 << (r % 64);
}

static bool marked(const uint64_t *bits, struct gcn_span span)
{
    for (uint32_t r = span.first; r < (uint32_t)span.first + span.n; r++)
        if (bits[r / 64] >> (r % 64) & 1) return true;
    return false;
}

/* Forget the accesses that are done. */
static void clean(struct gcn_wave *w)
{
    int n = 0;
    memset(w->pending_registers, 0, sizeof w->pending_registers);
    for (int i = 0; i < w->n_pending; i++) {
        const struct gcn_pending p = w->pending[i];
        if (!p.counts[GCN_C_VM] && !p.counts[GCN_C_LGKM]) continue;
        mark(w->pending_registers, p.by->fills);
        w->pending[n++] = p;
    }
    w->n_pending = n;
}

static void wait_for(const struct gcn_state *s, struct gcn_wave *w, enum gcn_counter counter, int most)
{
    int later = 0;
    for (int i = w->n_pending - 1; i >= 0; i--) {
        struct gcn_pending *p = &w->pending[i];
        if (!p->counts[counter]) continue;
        const bool ordered = in_order(s, p->by);
        if (most == 0 || (ordered && later >= most)) p->counts[counter] = false;
        if (ordered) later++;
    }
}

void gcn_wait(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    for (int c = 0; c <= GCN_C_LGKM; c++)
        if (I->counts[c] != 255) wait_for(s, w, (enum gcn_counter)c, I->counts[c]);
    clean(w);
}

void gcn_issue(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    if (!I->counts[GCN_C_VM] && !I->counts[GCN_C_LGKM]) return;
    if (w->n_pending == GCN_PENDING) {
        /* a counter holds at most 63, so the hardware has waited for the oldest ones */
        wait_for(s, w, GCN_C_VM, 63);
        wait_for(s, w, GCN_C_LGKM, 63);
        clean(w);
    }
    if (w->n_pending == GCN_PENDING) {
        memmove(w->pending, w->pending + 1, (GCN_PENDING - 1) * sizeof *w->pending);
        w->n_pending--;
    }
    struct gcn_pending *p = &w->pending[w->n_pending++];
    *p = (struct gcn_pending){ .by = I,
                               .is_scalar_load = I->kind == GCN_SCALAR_LOAD,
                               .is_shared = I->kind == GCN_ACCESS && I->m.space == GCN_S_SHARED };
    for (int c = 0; c <= GCN_C_LGKM; c++) p->counts[c] = I->counts[c];
    mark(w->pending_registers, I->fills);
}

/* "v12", "a3" or "s5" */
static const char *register_text(uint32_t r, char text[16])
{
    if (r >= GCN_ROWS)
        snprintf(text, 16, "s%u", r - GCN_ROWS);
    else
        snprintf(text, 16, "%c%u", r >= GCN_AGPR ? 'a' : 'v', r % GCN_AGPR);
    return text;
}

static bool unwaited(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                     struct gcn_span span, const struct gcn_pending *p)
{
    char text[16];
    const struct gcn_span f = p->by->fills;
    const uint32_t reg = span.first > f.first ? span.first : f.first;
    return gcn_stop(s, w, I, KERNEL_UNWAITED,
                    "%s uses %s before %s at offset 0x%x of the code, which fills it, was waited for",
                    I->name, register_text(reg, text),
                    p->is_scalar_load ? "the scalar load"
                    : p->is_shared    ? "the load from LDS"
                                      : "the load",
                    p->by->offset);
}

static bool overlap(struct gcn_span a, struct gcn_span b)
{
    return a.first < b.first + b.n && b.first < a.first + a.n;
}

/* Whether two accesses that fill the same register do so in their order. */
static bool same_class(const struct gcn_state *s, const struct gcn_pending *p,
                       const struct gcn_instruction *I)
{
    if (!in_order(s, p->by) || !in_order(s, I)) return false;
    return p->counts[GCN_C_VM] == (I->counts[GCN_C_VM] != 0)
           && p->counts[GCN_C_LGKM] == (I->counts[GCN_C_LGKM] != 0);
}

bool gcn_check_uses(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    for (int i = 0; i < I->n_uses; i++) {
        if (!marked(w->pending_registers, I->uses[i])) continue;
        for (int k = 0; k < w->n_pending; k++)
            if (overlap(w->pending[k].by->fills, I->uses[i]))
                return unwaited(s, w, I, I->uses[i], &w->pending[k]);
    }
    if (!I->fills.n || !marked(w->pending_registers, I->fills)) return true;
    for (int k = 0; k < w->n_pending; k++)
        if (overlap(w->pending[k].by->fills, I->fills) && !same_class(s, &w->pending[k], I))
            return unwaited(s, w, I, I->fills, &w->pending[k]);
    return true;
}
