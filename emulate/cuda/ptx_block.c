/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the warps of a block. A warp is a few fragments: lanes that are at the same instruction. The
 * fragment with the lowest instruction runs, and fragments that meet become one. A loop lies in front of
 * what follows it, so lanes that leave a loop early wait for the others at the first instruction that they
 * share.
 */
#include "emulate/cuda/ptx_run.h"

#include <string.h>

void ptx_ready(struct ptx_warp *warp, int pc, uint32_t lanes)
{
    if (!lanes) return;
    for (int i = 0; i < warp->n_ready; i++)
        if (warp->ready[i].pc == pc) {
            warp->ready[i].lanes |= lanes;
            return;
        }
    warp->ready[warp->n_ready++] = (struct ptx_fragment){ pc, lanes };
}

static bool check_divisors(struct ptx_state *s, const struct ptx_warp *warp, const struct ptx_instruction *I,
                           uint32_t lanes)
{
    char *const bases[2] = { warp->registers, s->constants };
    const union ptx_slot *divisor = ptx_at(bases, I->b);
    const bool wide = I->op >= PTX_OP_div_s64 && I->op <= PTX_OP_rem_u64;
    uint32_t zero = 0;
    for (int l = 0; l < PTX_LANES; l++) zero |= (uint32_t)((wide ? divisor->q[l] : divisor->w[l]) == 0) << l;
    zero &= lanes;
    if (!zero) return true;
    return ptx_fault_at(s, warp, __builtin_ctz(zero), I, KERNEL_ARITHMETIC, "divides an integer by zero");
}

static void logic(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes)
{
    uint32_t *d = ptx_at(bases, I->d[0]);
    const uint32_t a = *(const uint32_t *)ptx_at(bases, I->a), b = *(const uint32_t *)ptx_at(bases, I->b);
    const uint32_t r = I->boolean == PTX_AND   ? a & b
                       : I->boolean == PTX_OR  ? a | b
                       : I->boolean == PTX_XOR ? a ^ b
                       : I->boolean == PTX_NOT ? ~a
                                               : a;
    *d = (*d & ~lanes) | (r & lanes);
}

static void set_predicates(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes)
{
    uint32_t p = ptx_compare(I, bases), q = ~p;
    if (I->boolean != PTX_PLAIN) {
        uint32_t c = *(const uint32_t *)ptx_at(bases, I->c);
        if (I->negated) c = ~c;
        p = I->boolean == PTX_AND ? p & c : I->boolean == PTX_OR ? p | c : p ^ c;
        q = I->boolean == PTX_AND ? q & c : I->boolean == PTX_OR ? q | c : q ^ c;
    }
    uint32_t *const d = ptx_at(bases, I->d[0]), *const e = ptx_at(bases, I->d[1]);
    if (I->has_d) *d = (*d & ~lanes) | (p & lanes);
    if (I->has_q) *e = (*e & ~lanes) | (q & lanes);
}

static bool stopped(struct ptx_state *s, const struct ptx_warp *warp, const struct ptx_instruction *I,
                    uint32_t lanes)
{
    const uint64_t most = s->launch->most_instructions;
    if (most && s->executed > most)
        return !ptx_fault_at(
            s, warp, __builtin_ctz(lanes), I, KERNEL_TIMEOUT,
            "is still running when the block has executed %llu instructions, which is the limit",
            (unsigned long long)most);
    if (s->launch->stop && *s->launch->stop)
        return !ptx_fault_at(s, warp, __builtin_ctz(lanes), I, KERNEL_TIMEOUT, "was stopped by the caller");
    return false;
}

/* What one fragment does until it ends, waits, or is no longer the one with the lowest instruction. */
struct run {
    struct ptx_state *s;
    struct ptx_warp *warp;
    int pc, next; /* next: the lowest instruction of the other fragments */
    uint32_t lanes;
};

/* Branches and ends. */
static bool transfer(struct run *r, const struct ptx_instruction *I, uint32_t lanes)
{
    if (I->kind == PTX_BRANCH) {
        if (stopped(r->s, r->warp, I, r->lanes)) return false;
        if (lanes == r->lanes) {
            r->pc = I->target;
        } else {
            ptx_ready(r->warp, I->target, lanes);
            r->lanes &= ~lanes;
            if (lanes && I->target < r->next) r->next = I->target;
            r->pc++;
        }
        return true;
    }
    r->warp->live &= ~lanes;
    r->lanes &= ~lanes;
    r->pc++;
    return ptx_resume(r->s, r->warp);
}

/* An instruction that is not computed by a function of ptx_ops.h, and does not go elsewhere. */
static bool special(struct run *r, const struct ptx_instruction *I, char *const bases[2], uint32_t lanes)
{
    switch ((enum ptx_kind)I->kind) {
    case PTX_DIVIDE:
        if (!check_divisors(r->s, r->warp, I, lanes)) return false;
        ptx_alu[I->op](I, bases, lanes);
        return true;
    case PTX_LOGIC: logic(I, bases, lanes); return true;
    case PTX_CVT: ptx_cvt(I, bases, lanes); return true;
    case PTX_PACK: ptx_pack(I, bases, lanes); return true;
    case PTX_UNPACK: ptx_unpack(I, bases, lanes); return true;
    case PTX_LOAD_PARAMETER: ptx_load_parameter(I, bases, lanes, r->s->launch->parameters); return true;
    case PTX_ACTIVE_MASK: {
        union ptx_slot *d = ptx_at(bases, I->d[0]);
        for (int l = 0; l < PTX_LANES; l++)
            if (lanes >> l & 1) d->w[l] = lanes;
        return true;
    }
    case PTX_COPY: return ptx_copy(r->s, r->warp, I, lanes);
    case PTX_COPY_COMMIT: ptx_copy_commit(r->warp, lanes); return true;
    case PTX_COPY_WAIT: return ptx_copy_wait(r->s, r->warp, I, lanes);
    case PTX_TRAPPED:
        return ptx_fault_at(r->s, r->warp, __builtin_ctz(lanes), I, KERNEL_TRAP, "executes trap");
    default: return true;
    }
}

static bool run_fragment(struct run *r)
{
    struct ptx_state *const s = r->s;
    const struct ptx_instruction *const code = s->kernel->code;
    char *const bases[2] = { r->warp->registers, s->constants };
    do {
        const struct ptx_instruction *I = &code[r->pc];
        uint32_t lanes = r->lanes;
        if (I->guarded) {
            const uint32_t guard = *(const uint32_t *)ptx_at(bases, I->guard);
            lanes &= I->guarded == 1 ? guard : ~guard;
        }
        s->b.counts.warp_instructions++;
        s->executed += (uint64_t)__builtin_popcount(lanes);
        if (!lanes) {
            r->pc++;
        } else if (I->kind == PTX_ALU) {
            ptx_alu[I->op](I, bases, lanes);
            r->pc++;
        } else if (I->kind == PTX_SETP) {
            set_predicates(I, bases, lanes);
            r->pc++;
        } else if (I->kind >= PTX_LOAD && I->kind <= PTX_ATOM) {
            if (!ptx_access(s, r->warp, I, lanes)) return false;
            r->pc++;
        } else if (I->kind == PTX_BRANCH || I->kind == PTX_EXIT) {
            if (!transfer(r, I, lanes)) return false;
        } else if (I->kind >= PTX_BARRIER) {
            /* lanes whose guard is false pass by */
            r->lanes &= ~lanes;
            ptx_ready(r->warp, r->pc + 1, r->lanes);
            r->lanes = 0;
            return ptx_park(s, r->warp, r->pc, lanes);
        } else {
            if (!special(r, I, bases, lanes)) return false;
            r->pc++;
        }
    } while (r->lanes && r->pc < r->next);
    return true;
}

static bool run_warp(struct ptx_state *s, struct ptx_warp *warp)
{
    while (warp->n_ready > 0) {
        int first = 0, next = s->kernel->n_code;
        for (int i = 1; i < warp->n_ready; i++)
            if (warp->ready[i].pc < warp->ready[first].pc) first = i;
        const struct ptx_fragment fragment = warp->ready[first];
        warp->ready[first] = warp->ready[--warp->n_ready];
        for (int i = 0; i < warp->n_ready; i++)
            if (warp->ready[i].pc < next) next = warp->ready[i].pc;
        struct run r = { s, warp, fragment.pc, next, fragment.lanes };
        if (stopped(s, warp, &s->kernel->code[r.pc], r.lanes) || !run_fragment(&r)) return false;
        ptx_ready(warp, r.pc, r.lanes);
    }
    return true;
}

/* The registers that tell a thread where it is. */
static void set_specials(struct ptx_state *s, struct ptx_warp *warp)
{
    const struct kernel_launch *launch = s->launch;
    char *const bases[2] = { warp->registers, s->constants };
    for (int i = 0; i < PTX_N_SPECIALS; i++) {
        if (!s->kernel->special[i]) continue;
        union ptx_slot *slot = ptx_at(bases, s->kernel->special[i]);
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            const uint32_t t = warp->index * PTX_LANES + l, bit = (uint32_t)1 << l;
            const uint32_t x = t % launch->block[0], yz = t / launch->block[0];
            const uint32_t values[PTX_N_SPECIALS] = {
                [PTX_TID_X] = x,
                [PTX_TID_Y] = yz % launch->block[1],
                [PTX_TID_Z] = yz / launch->block[1],
                [PTX_NTID_X] = launch->block[0],
                [PTX_NTID_Y] = launch->block[1],
                [PTX_NTID_Z] = launch->block[2],
                [PTX_CTAID_X] = s->b.block[0],
                [PTX_CTAID_Y] = s->b.block[1],
                [PTX_CTAID_Z] = s->b.block[2],
                [PTX_NCTAID_X] = launch->grid[0],
                [PTX_NCTAID_Y] = launch->grid[1],
                [PTX_NCTAID_Z] = launch->grid[2],
                [PTX_LANEID] = l,
                [PTX_WARPID] = warp->index,
                [PTX_LANEMASK_EQ] = bit,
                [PTX_LANEMASK_LT] = bit - 1,
                [PTX_LANEMASK_LE] = bit - 1 + bit,
                [PTX_LANEMASK_GT] = ~(bit - 1 + bit),
                [PTX_LANEMASK_GE] = ~(bit - 1),
            };
            slot->w[l] = values[i];
        }
    }
}

bool ptx_block_run(struct ptx_state *s)
{
    const size_t pieces = (size_t)(s->b.shared_bytes >> s->b.shared_shift) + 1;
    memset(s->b.shadow, 0, pieces * sizeof *s->b.shadow);
    s->b.epoch = 1;
    s->executed = 0;
    for (int i = 0; i < s->n_warps; i++) {
        struct ptx_warp *warp = &s->warps[i];
        const uint32_t left = s->n_threads - (uint32_t)i * PTX_LANES;
        warp->live = warp->exists = left >= PTX_LANES ? PTX_ALL_LANES : ((uint32_t)1 << left) - 1;
        warp->epoch = 0;
        warp->n_ready = warp->n_parked = warp->n_pending = 0;
        memset(warp->copy_groups, 0, sizeof warp->copy_groups);
        if (s->kernel->local_bytes)
            memset(warp->local_defined, 0, s->kernel->local_bytes * sizeof *warp->local_defined);
        set_specials(s, warp);
        ptx_ready(warp, 0, warp->exists);
    }
    for (;;) {
        bool runs = false, waits = false;
        for (int i = 0; i < s->n_warps; i++) {
            runs |= s->warps[i].n_ready > 0;
            if (!run_warp(s, &s->warps[i])) return false;
        }
        for (int i = 0; i < s->n_warps; i++) {
            runs |= s->warps[i].n_ready > 0;
            waits |= s->warps[i].n_parked > 0;
        }
        if (!runs) {
            if (waits) return ptx_stalled(s);
            break;
        }
    }
    s->b.counts.instructions += s->executed;
    return true;
}
