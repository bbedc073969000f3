/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar instructions, and branches. */
#include "emulate/hip/gcn_run.h"

#define W(x) ((x)&0xffffffffu)
#define I(x) ((int32_t)(uint32_t)(x))
#define M0 (w->s[s->about->m0])

static uint64_t reverse(uint64_t x)
{
    uint64_t r = 0;
    for (int i = 0; i < 64; i++) r |= (x >> i & 1) << (63 - i);
    return r;
}

static uint64_t first_one(uint64_t x) { return x ? (uint64_t)__builtin_ctzll(x) : ~(uint64_t)0; }

static uint64_t leading(uint64_t x, int bits)
{
    return x ? (uint64_t)(__builtin_clzll(x) - (64 - bits)) : ~(uint64_t)0;
}

static uint64_t quads(uint64_t x)
{
    uint64_t r = 0;
    for (int i = 0; i < 64; i += 4)
        if (x >> i & 15) r |= (uint64_t)15 << i;
    return r;
}

static uint64_t replicate(uint64_t x)
{
    uint64_t r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1 ? (uint64_t)3 : 0) << 2 * i;
    return r;
}

/* `length` bits from bit `at` on. */
static uint64_t field(uint64_t x, uint64_t at, uint64_t length, uint64_t width, bool is_signed)
{
    if (length == 0) return 0;
    uint64_t r = x >> at;
    if (length >= width) return is_signed && width == 32 ? (uint64_t)((int64_t)(int32_t)x >> at) : r;
    r &= ((uint64_t)1 << length) - 1;
    return is_signed && r >> (length - 1) & 1 ? r | ~(uint64_t)0 << length : r;
}

/* ---- indices into registers ---- */

static void set_index_on(struct gcn_wave *w, const struct gcn_instruction *i, uint64_t a, uint32_t m0)
{
    w->s[m0] = (w->s[m0] & ~(uint32_t)0xf0ff) | (uint32_t)(a & 0xff)
               | ((uint32_t)i->immediate >> 8 & 15) << 12;
    w->indexes = true;
}

static uint64_t moved(const struct gcn_wave *w, const struct gcn_instruction *i, uint32_t m0, uint32_t words)
{
    const uint32_t reg = (i->s[0].reg + m0) % (GCN_SGPRS - 1);
    return words == 2 ? (uint64_t)w->s[reg + 1] << 32 | w->s[reg] : w->s[reg];
}

static void move_to(struct gcn_wave *w, const struct gcn_instruction *i, uint32_t m0, uint64_t value,
                    uint32_t words)
{
    const uint32_t reg = (i->d.reg + m0) % (GCN_SGPRS - 1);
    w->s[reg] = (uint32_t)value;
    if (words == 2) w->s[reg + 1] = (uint32_t)(value >> 32);
}

/* ---- hardware registers ---- */

enum { HW_MODE = 1, HW_STATUS = 2, HW_HW_ID = 4, HW_LDS_ALLOC = 6, HW_SH_MEM_BASES = 15 };

static bool get_register(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *i,
                         uint64_t code, uint64_t *value)
{
    const uint32_t number = code & 63, at = code >> 6 & 31, n = (code >> 11 & 31) + 1;
    uint64_t all = 0;
    switch (number) {
    case HW_MODE: all = w->mode; break;
    case HW_STATUS: all = w->scc | (uint32_t)(gcn_exec(w) == 0) << 9; break;
    case HW_HW_ID: all = w->index; break;
    case HW_LDS_ALLOC: all = (uint64_t)s->b.shared_bytes << 12; break;
    case HW_SH_MEM_BASES: all = (GCN_SHARED_WINDOW >> 48) << 16 | GCN_SCRATCH_WINDOW >> 48; break;
    default:
        return gcn_stop(s, w, i, KERNEL_SYNTAX, "reads hardware register %u, which is not known", number);
    }
    *value = all >> at & (((uint64_t)1 << n) - 1);
    return true;
}

static bool set_mode(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *i, uint32_t mode)
{
    /* rounding in bits 0 to 3; subnormal numbers of f32 in 4 and 5, of f16 and f64 in 6 and 7 */
    if (mode & 15) return gcn_stop(s, w, i, KERNEL_SYNTAX, "sets a rounding that is not to nearest");
    if ((mode & 0xf0) != 0xf0)
        return gcn_stop(s, w, i, KERNEL_SYNTAX, "sets the mode so that subnormal numbers are flushed");
    w->mode = mode;
    return true;
}

static bool set_register(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *i,
                         uint64_t code, uint64_t value)
{
    const uint32_t number = code & 63, at = code >> 6 & 31, n = (code >> 11 & 31) + 1;
    const uint32_t mask = (uint32_t)((((uint64_t)1 << n) - 1) << at);
    if (number != HW_MODE)
        return gcn_stop(s, w, i, KERNEL_SYNTAX, "writes hardware register %u, which is not known", number);
    return set_mode(s, w, i, (w->mode & ~mask) | ((uint32_t)value << at & mask));
}

bool gcn_scalar(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *instruction)
{
    const struct gcn_instruction *const i = instruction;
    const uint64_t a = gcn_read_scalar(w, &i->s[0]), b = gcn_read_scalar(w, &i->s[1]);
    const uint64_t old = i->d.kind ? gcn_read_scalar(w, &i->d) : 0;
    const uint64_t next = GCN_IMAGE + i->offset + i->bytes, exec_before = gcn_exec(w);
    uint64_t d = 0, scc = w->scc, exec = exec_before;
    (void)old;
    switch (i->op) {
#define OP(name, signature, kind, ...) OP_##kind(name, __VA_ARGS__)
#define OP_SCALAR(name, ...) \
    case GCN_OP_##name: {    \
        __VA_ARGS__;         \
        break;               \
    }
#include "emulate/hip/gcn_ops_scalar.h"
#undef OP
#undef OP_SCALAR
    case GCN_OP_s_set_gpr_idx_off: w->indexes = false; break;
    case GCN_OP_s_set_gpr_idx_mode:
        M0 = (M0 & ~(uint32_t)0xf000) | ((uint32_t)i->immediate & 15) << 12;
        break;
    case GCN_OP_s_denorm_mode:
        if (!set_mode(s, w, i, (w->mode & ~(uint32_t)0xf0) | ((uint32_t)i->immediate & 15) << 4))
            return false;
        break;
    case GCN_OP_s_round_mode:
        if (!set_mode(s, w, i, (w->mode & ~(uint32_t)15) | ((uint32_t)i->immediate & 15))) return false;
        break;
    default: return gcn_stop(s, w, i, KERNEL_SYNTAX, "is no scalar instruction");
    }
    w->scc = (uint32_t)scc;
    if (exec != exec_before) gcn_set_mask(w, GCN_EXEC, (kernel_lanes)exec);
    if (i->d.kind) {
        w->s[i->d.reg] = (uint32_t)d;
        if (i->d.rows == 2) w->s[i->d.reg + 1] = (uint32_t)(d >> 32);
    }
    return true;
}

/* ---- branches ---- */

static bool jump(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *i, uint64_t address)
{
    const uint64_t offset = address - GCN_IMAGE;
    const struct gcn_module *m = s->module;
    if (offset >= m->object->image_bytes || offset & 3 || m->index[offset / 4] < 0)
        return gcn_stop(s, w, i, KERNEL_OUT_OF_BOUNDS, "goes to 0x%llx, where no instruction begins",
                        (unsigned long long)address);
    w->pc = m->index[offset / 4];
    return true;
}

bool gcn_branch(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *i)
{
    const uint64_t next = GCN_IMAGE + i->offset + i->bytes;
    bool goes = true;
    switch (i->op) {
    case GCN_OP_s_branch: break;
    case GCN_OP_s_cbranch_scc0: goes = !w->scc; break;
    case GCN_OP_s_cbranch_scc1: goes = w->scc; break;
    case GCN_OP_s_cbranch_vccz: goes = gcn_mask(w, GCN_VCC) == 0; break;
    case GCN_OP_s_cbranch_vccnz: goes = gcn_mask(w, GCN_VCC) != 0; break;
    case GCN_OP_s_cbranch_execz: goes = gcn_exec(w) == 0; break;
    case GCN_OP_s_cbranch_execnz: goes = gcn_exec(w) != 0; break;
    default: {
        const uint64_t to = i->op == GCN_OP_s_call_b64 ? next + (uint64_t)((int64_t)i->immediate * 4)
                                                       : gcn_read_scalar(w, &i->s[0]);
        if (i->d.kind) {
            w->s[i->d.reg] = (uint32_t)next;
            w->s[i->d.reg + 1] = (uint32_t)(next >> 32);
        }
        return jump(s, w, i, to);
    }
    }
    if (!goes) {
        w->pc++;
        return true;
    }
    if (i->target < 0)
        return gcn_stop(s, w, i, KERNEL_OUT_OF_BOUNDS, "branches to a place where no instruction begins");
    w->pc = i->target;
    return true;
}
