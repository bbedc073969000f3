/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector instructions: operands become rows of lanes, a function of gcn_alu.c computes, and the result goes
 * to the lanes of EXEC.
 */
#include "emulate/gpu/floats.h"
#include "emulate/hip/gcn_run.h"

#include <math.h>
#include <string.h>

typedef uint32_t row[KERNEL_LANES];

/* ---- operands ---- */

static void fill(uint32_t *to, uint32_t word) { GCN_EACH_LANE to[l] = word; }

static void expand(uint32_t *to, kernel_lanes lanes) { GCN_EACH_LANE to[l] = (uint32_t)(lanes >> l & 1); }

/* Choose the halves of a pair of 16-bit elements. */
static void choose_halves(const struct gcn_operand *o, const uint32_t *from, uint32_t *to)
{
    const int low = o->modifiers & GCN_M_HIGH ? 16 : 0, high = o->modifiers & GCN_M_HIGH_HIGH ? 16 : 0;
    const uint32_t flip = (o->modifiers & GCN_M_NEG ? 0x8000u : 0)
                          | (o->modifiers & GCN_M_NEG_HIGH ? 0x80000000u : 0);
    GCN_EACH_LANE to[l] = ((from[l] >> low & 0xffff) | from[l] >> high << 16) ^ flip;
}

/* Choose the rows of a pair of f32. */
static void choose_rows(const struct gcn_operand *o, const uint32_t *from, uint32_t *to)
{
    const uint32_t *low = from + (o->modifiers & GCN_M_HIGH ? KERNEL_LANES : 0);
    const uint32_t *high = from + (o->modifiers & GCN_M_HIGH_HIGH ? KERNEL_LANES : 0);
    const uint32_t flip = o->modifiers & GCN_M_NEG ? 0x80000000u : 0;
    const uint32_t flip_high = o->modifiers & GCN_M_NEG_HIGH ? 0x80000000u : 0;
    uint32_t *to_high = to + KERNEL_LANES;
    GCN_EACH_LANE to[l] = low[l] ^ flip;
    GCN_EACH_LANE to_high[l] = high[l] ^ flip_high;
}

static uint32_t half_to_float(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
    union {
        uint32_t w;
        float f;
    } u = { rest }, scale = { 0x77800000 };
    if (rest >= 0x0f800000) return sign | rest | 0x7f800000 | (rest > 0x0f800000 ? 0x400000 : 0);
    u.f *= scale.f;
    return u.w | sign;
}

/* v_fma_mix: an f32, or an f16 of either half. */
static void choose_mix(const struct gcn_operand *o, const uint32_t *from, uint32_t *to)
{
    const uint32_t keep = o->modifiers & GCN_M_ABS ? 0x7fffffffu : ~0u;
    const uint32_t flip = o->modifiers & GCN_M_NEG ? 0x80000000u : 0;
    const int shift = o->modifiers & GCN_M_HIGH ? 16 : 0;
    if (o->modifiers & GCN_M_HIGH_HIGH)
        for (int l = 0; l < KERNEL_LANES; l++)
            to[l] = (half_to_float(from[l] >> shift & 0xffff) & keep) ^ flip;
    else
        GCN_EACH_LANE to[l] = (from[l] & keep) ^ flip;
}

static void select_part(const struct gcn_operand *o, const uint32_t *from, uint32_t *to)
{
    const int width = o->select < 4 ? 8 : o->select < 6 ? 16 : 32;
    const int shift = o->select < 4 ? 8 * o->select : o->select == 5 ? 16 : 0, up = 32 - width;
    if (o->modifiers & GCN_M_SEXT)
        GCN_EACH_LANE to[l] = (uint32_t)((int32_t)(from[l] >> shift << up) >> up);
    else
        GCN_EACH_LANE to[l] = from[l] >> shift << up >> up;
}

/* Sign bits of one element; `to` may be `from`. */
static void change_sign(const struct gcn_operand *o, const uint32_t *from, uint32_t *to)
{
    const bool is_half = o->type == GCN_T_F16 || o->type == GCN_T_U16;
    const uint32_t sign = is_half ? 0x8000u : 0x80000000u;
    const uint32_t keep = o->modifiers & GCN_M_ABS ? ~sign : ~0u, flip = o->modifiers & GCN_M_NEG ? sign : 0;
    if (o->rows == 2) {
        /* the sign is in the upper row */
        GCN_EACH_LANE to[l] = from[l];
        from += KERNEL_LANES;
        to += KERNEL_LANES;
    }
    GCN_EACH_LANE to[l] = (from[l] & keep) ^ flip;
}

static void modify(const struct gcn_operand *o, const uint32_t *from, uint32_t *to)
{
    switch ((enum gcn_type)o->type) {
    case GCN_T_P16:
    case GCN_T_PF16: choose_halves(o, from, to); return;
    case GCN_T_PF32: choose_rows(o, from, to); return;
    case GCN_T_MIX: choose_mix(o, from, to); return;
    default: break;
    }
    if (o->modifiers & GCN_M_SELECT) {
        select_part(o, from, to);
        from = to;
    }
    if (o->modifiers & GCN_M_HIGH) {
        GCN_EACH_LANE to[l] = from[l] >> 16;
        from = to;
    }
    change_sign(o, from, to);
}

/* Whether an operand's rows are used as they are. */
static bool is_plain(const struct gcn_operand *o)
{
    const uint8_t m = o->modifiers & (uint8_t)~GCN_M_DPP;
    switch ((enum gcn_type)o->type) {
    case GCN_T_P16:
    case GCN_T_PF16:
    case GCN_T_PF32: return m == GCN_M_HIGH_HIGH;
    default: return m == 0;
    }
}

/* ---- DPP: the first operand comes from other lanes ---- */

/* The lane that lane l reads, or -1. */
static int dpp_lane(const struct gcn_instruction *I, int l)
{
    const int in_row = l & 15, base = l & ~15, n = I->dpp & 15;
    if (I->dpp & 0x8000) return (l & ~7) + (int)(I->dpp8 >> 3 * (l & 7) & 7);
    if (I->dpp < 0x100) return (l & ~3) + (I->dpp >> 2 * (l & 3) & 3);
    switch (I->dpp >> 4) {
    case 0x10: return in_row + n < 16 ? l + n : -1;    /* row_shl */
    case 0x11: return in_row - n >= 0 ? l - n : -1;    /* row_shr */
    case 0x12: return base + ((in_row + 16 - n) & 15); /* row_ror */
    case 0x15: return base + n;                        /* row_share, row_newbcast */
    case 0x16: return base + (in_row ^ n);             /* row_xmask */
    default: break;
    }
    switch (I->dpp) {
    case 0x130: return l + 1 < KERNEL_LANES ? l + 1 : -1; /* wave_shl:1 */
    case 0x134: return (l + 1) % KERNEL_LANES;            /* wave_rol:1 */
    case 0x138: return l - 1;                             /* wave_shr:1 */
    case 0x13c: return (l + KERNEL_LANES - 1) % KERNEL_LANES;
    case 0x140: return base + 15 - in_row;           /* row_mirror */
    case 0x141: return (l & ~7) + 7 - (l & 7);       /* row_half_mirror */
    case 0x142: return l >= 16 ? base - 1 : -1;      /* row_bcast:15 */
    case 0x143: return l >= 32 ? (l & ~31) - 1 : -1; /* row_bcast:31 */
    default: return -1;
    }
}

/* Returns the lanes that the instruction leaves out. */
static kernel_lanes exchange(const struct gcn_wave *w, const struct gcn_instruction *I, const uint32_t *from,
                             uint32_t *to)
{
    const kernel_lanes exec = gcn_exec(w);
    kernel_lanes out = 0;
    for (int l = 0; l < KERNEL_LANES; l++) {
        const int lane = dpp_lane(I, l);
        const bool is_in = I->dpp_rows >> (l >> 4 & 3) & 1 && I->dpp_banks >> (l >> 2 & 3) & 1;
        const bool valid = lane >= 0 && (exec >> lane & 1 || I->dpp_inactive);
        to[l] = valid ? from[lane] : 0;
        if (!is_in || (!valid && !I->dpp_zero && !(I->dpp & 0x8000))) out |= KERNEL_LANE(l);
    }
    return out;
}

/* The rows of an operand. `temporary` has two of them. */
static const uint32_t *source(const struct gcn_wave *w, const struct gcn_instruction *I,
                              const struct gcn_operand *o, row *temporary, kernel_lanes *out)
{
    const uint32_t *from = temporary[0];
    if (o->kind == GCN_O_VGPR) {
        from = w->v[o->reg];
        if (o->modifiers & GCN_M_DPP) {
            *out |= exchange(w, I, from, temporary[0]);
            from = temporary[0];
        }
    } else if (o->type == GCN_T_MASK) {
        expand(temporary[0], o->kind ? gcn_mask(w, o->reg) : 0);
        return from;
    } else {
        const uint64_t value = gcn_read_scalar(w, o);
        fill(temporary[0], (uint32_t)value);
        /* an inline constant of a pair of f32 is one word for both */
        if (o->rows == 2)
            fill(temporary[1],
                 o->type == GCN_T_PF32 && o->kind != GCN_O_SGPR ? (uint32_t)value : (uint32_t)(value >> 32));
    }
    if (is_plain(o)) return from;
    row copy[2];
    if (from == temporary[0] && (o->type == GCN_T_PF32 || o->rows == 2)) {
        memcpy(copy, temporary, sizeof copy);
        from = copy[0];
    }
    modify(o, from, temporary[0]);
    return temporary[0];
}

/* ---- results ---- */

static const uint32_t *exec_row(struct gcn_wave *w, kernel_lanes exec)
{
    if (w->row_of != exec) {
        GCN_EACH_LANE w->exec_row[l] = 0 - (uint32_t)(exec >> l & 1);
        w->row_of = exec;
    }
    return w->exec_row;
}

static void write_row(uint32_t *to, const uint32_t *from, const uint32_t *mask)
{
    GCN_EACH_LANE to[l] = (from[l] & mask[l]) | (to[l] & ~mask[l]);
}

static void clamp_row(const struct gcn_instruction *I, uint32_t *to)
{
    static const float factors[] = { 1, 2, 4, 0.5f };
    const bool is_half = I->d.type == GCN_T_F16 || I->d.type == GCN_T_PF16;
    for (int l = 0; l < KERNEL_LANES; l++) {
        if (is_half) {
            uint32_t halves[2] = { to[l] & 0xffff, to[l] >> 16 };
            for (int i = 0; i < 2; i++) {
                const uint32_t h = halves[i];
                halves[i] = h & 0x8000 || h > 0x7c00 ? 0 : h > 0x3c00 ? 0x3c00 : h;
            }
            to[l] = halves[0] | (I->d.type == GCN_T_PF16 ? halves[1] << 16 : 0);
            continue;
        }
        float x = float_of(to[l]) * factors[I->omod];
        if (I->clamp) x = x > 0 ? x < 1 ? x : 1 : 0;
        to[l] = bits_of(x);
    }
}

/* A result of 16 bits, or of SDWA, joins what the register has. */
static void merge(const struct gcn_instruction *I, uint32_t *result, const uint32_t *old)
{
    if (I->merge == GCN_LOW) {
        GCN_EACH_LANE result[l] = (old[l] & 0xffff0000) | (result[l] & 0xffff);
        return;
    }
    if (I->merge == GCN_HIGH) {
        GCN_EACH_LANE result[l] = (old[l] & 0xffff) | result[l] << 16;
        return;
    }
    const int width = I->select < 4 ? 8 : 16;
    const int shift = I->select < 4 ? 8 * I->select : I->select == 5 ? 16 : 0;
    const uint32_t field = (width == 8 ? 0xffu : 0xffffu) << shift;
    for (int l = 0; l < KERNEL_LANES; l++) {
        const uint32_t x = result[l] << shift & field;
        const uint32_t sign = x >> (shift + width - 1) & 1;
        const uint32_t above = shift + width < 32 ? ~0u << (shift + width) : 0;
        result[l] = I->unused == 2 ? x | (old[l] & ~field) : I->unused == 1 ? x | (sign ? above : 0) : x;
    }
}

/* 0 or 1 of each lane as a mask. */
static kernel_lanes pack(const unsigned char *bits)
{
    kernel_lanes lanes = 0;
    for (int i = 0; i < KERNEL_LANES / 8; i++) {
        uint64_t eight;
        memcpy(&eight, bits + 8 * i, 8);
        lanes |= (kernel_lanes)(eight * 0x0102040810204080 >> 56) << 8 * i;
    }
    return lanes;
}

/* The bits of a carry or comparison. Lanes outside EXEC get 0. */
static void write_bits(struct gcn_wave *w, const struct gcn_instruction *I, const unsigned char *bits,
                       kernel_lanes exec)
{
    const kernel_lanes lanes = pack(bits) & exec;
    if (I->d2.kind) gcn_set_mask(w, I->d2.reg, lanes);
    if (I->exec_write) gcn_set_mask(w, GCN_EXEC, lanes);
}

/* ---- an instruction ---- */

struct computed {
    row result[2];
    unsigned char bits[KERNEL_LANES];
    kernel_lanes exec;
    bool direct; /* the result is in the register already */
};

static void compute(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                    bool may_be_direct, struct computed *c)
{
    row temporaries[4][2];
    struct gcn_rows r = { .bits = c->bits, .seed = s->seed };
    kernel_lanes out = 0;
    for (int i = 0; i < I->n_sources; i++) r.s[i] = source(w, I, &I->s[i], temporaries[i], &out);
    c->exec = gcn_exec(w) & ~out;
    c->direct = may_be_direct && c->exec == KERNEL_ALL_LANES && I->merge == GCN_WHOLE && !I->clamp
                && !I->omod;
    r.d = c->direct ? w->v[I->d.reg] : c->result[0];
    gcn_functions[I->op](&r);
}

static void finish(struct gcn_wave *w, const struct gcn_instruction *I, struct computed *c)
{
    if (I->d.kind == GCN_O_VGPR && !c->direct) {
        if (I->clamp || I->omod)
            for (int i = 0; i < I->d.rows; i++) clamp_row(I, c->result[i]);
        if (I->merge) merge(I, c->result[0], w->v[I->d.reg]);
        const uint32_t *mask = exec_row(w, c->exec);
        for (int i = 0; i < I->d.rows; i++) write_row(w->v[I->d.reg + i], c->result[i], mask);
    }
    if (I->d2.kind || I->exec_write) write_bits(w, I, c->bits, c->exec);
}

/* Registers that M0 moves. Such instructions are rare, so they are copied. */
static bool indexed(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I,
                    struct gcn_instruction *copy)
{
    const uint32_t m0 = w->s[s->about->m0], index = I->movrel ? m0 : m0 & 0xff;
    const uint32_t what = I->movrel ? I->movrel == 1 ? 1 : 8 : m0 >> 12 & 15;
    *copy = *I;
    for (int i = 0; i < 3; i++)
        if (copy->s[i].kind == GCN_O_VGPR && what >> i & 1)
            copy->s[i].reg = (uint16_t)(copy->s[i].reg + index);
    if (copy->d.kind == GCN_O_VGPR && what & 8) copy->d.reg = (uint16_t)(copy->d.reg + index);
    copy->n_uses = 0;
    for (int i = 0; i < 3; i++)
        if (copy->s[i].kind == GCN_O_VGPR) gcn_use(copy, copy->s[i].reg, copy->s[i].rows);
    if (copy->d.kind == GCN_O_VGPR) gcn_use(copy, copy->d.reg, copy->d.rows);
    for (int i = 0; i < copy->n_uses; i++)
        if (copy->uses[i].first + copy->uses[i].n > s->kernel->entry->n_vgprs)
            return gcn_stop(s, w, I, KERNEL_OUT_OF_BOUNDS,
                            "uses v%u by an index, and a lane has %u registers", copy->uses[i].first,
                            s->kernel->entry->n_vgprs);
    return !w->n_pending || gcn_check_uses(s, w, copy);
}

bool gcn_vector(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    struct gcn_instruction copy;
    if (w->indexes || I->movrel) {
        if (!indexed(s, w, I, &copy)) return false;
        I = &copy;
    }
    struct computed c;
    compute(s, w, I, true, &c);
    finish(w, I, &c);
    return true;
}

bool gcn_dual(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    struct computed c[2];
    for (int i = 0; i < 2; i++) compute(s, w, I + i, false, &c[i]);
    for (int i = 0; i < 2; i++) finish(w, I + i, &c[i]);
    return true;
}

/* ---- lanes ---- */

bool gcn_lane(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    (void)s;
    const kernel_lanes exec = gcn_exec(w);
    const uint32_t lane = (uint32_t)gcn_read_scalar(w, &I->s[1]) % KERNEL_LANES;
    switch (I->op) {
    case GCN_OP_v_readfirstlane_b32: w->s[I->d.reg] = (uint32_t)gcn_read_scalar(w, &I->s[0]); return true;
    case GCN_OP_v_readlane_b32: w->s[I->d.reg] = w->v[I->s[0].reg][lane]; return true;
    case GCN_OP_v_writelane_b32: w->v[I->d.reg][lane] = (uint32_t)gcn_read_scalar(w, &I->s[0]); return true;
    default:
        for (int l = 0; l < KERNEL_LANES; l++) {
            if (!(exec >> l & 1)) continue;
            const uint32_t x = w->v[I->d.reg][l];
            w->v[I->d.reg][l] = w->v[I->s[0].reg][l];
            w->v[I->s[0].reg][l] = x;
        }
        return true;
    }
}

/* ds_swizzle: the lane that lane l reads. */
static int swizzled(uint32_t offset, int l)
{
    if (offset & 0x8000) return (l & ~3) + (int)(offset >> 2 * (l & 3) & 3);
    const int and = offset & 31, or = offset >> 5 & 31, xor = offset >> 10 & 31;
    return (l & ~31) + (int)((((l & 31) & and) | or) ^ xor);
}

bool gcn_permute(struct gcn_state *s, struct gcn_wave *w, const struct gcn_instruction *I)
{
    (void)s;
    const kernel_lanes exec = gcn_exec(w);
    const struct gcn_memory_part *m = &I->m;
    const uint32_t *address = w->v[m->address];
    const uint32_t *data = I->op == GCN_OP_ds_swizzle_b32 ? address : w->v[m->data];
    row result;
    memset(result, 0, sizeof result);
    for (int l = 0; l < KERNEL_LANES; l++) {
        const uint32_t other = (address[l] + (uint32_t)m->offset[0]) / 4 % KERNEL_LANES;
        if (I->op == GCN_OP_ds_permute_b32) {
            if (exec >> l & 1) result[other] = data[l];
            continue;
        }
        const int lane = I->op == GCN_OP_ds_swizzle_b32 ? swizzled((uint32_t)m->offset[0], l) : (int)other;
        if (exec >> lane & 1) result[l] = data[lane];
    }
    write_row(w->v[I->d.reg], result, exec_row(w, exec));
    gcn_issue(s, w, I);
    return true;
}
