/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder: vector instructions, with SDWA, DPP, and the dual instructions of GFX11. */
#include "emulate/hip/gcn_code.h"

#include <string.h>

enum { SDWA = 249, DPP = 250, DPP8 = 233, DPP8_INACTIVE = 234 };

static bool is_half(enum gcn_type type) { return type == GCN_T_U16 || type == GCN_T_F16; }
static bool is_short_format(const struct gcn_decoder *d)
{
    return d->format == GCN_VOP1 || d->format == GCN_VOP2 || d->format == GCN_VOPC;
}

/* On GFX11 bit 7 of a register of 16 bits says that it is the upper half. */
static void split_half(const struct gcn_decoder *d, struct gcn_operand *o)
{
    if (!d->about->is_11 || !is_short_format(d) || o->kind != GCN_O_VGPR || !is_half((enum gcn_type)o->type))
        return;
    if (o->reg & 128) o->modifiers |= GCN_M_HIGH;
    o->reg &= 127;
}

/* ---- the result ---- */

static void set_mask(struct gcn_decoder *d, struct gcn_operand *out, uint32_t reg)
{
    gcn_operand_set(out, GCN_O_SGPR, reg, GCN_T_MASK, d->about->lanes);
    if (d->about->is_11 && reg == 124) out->kind = GCN_O_NONE;
    if (out->kind) gcn_use(d->I, GCN_ROWS + reg, out->rows);
}

/* Where the bits of a comparison go. */
static bool compare_destination(struct gcn_decoder *d, const char *name)
{
    struct gcn_instruction *I = d->I;
    const bool is_x = !strncmp(name, "v_cmpx_", 7);
    uint32_t reg = d->format == GCN_VOP3 ? d->w[0] & 255 : GCN_VCC;
    if (d->format == GCN_VOPC && (d->w[0] & 511) == SDWA && d->w[1] >> 15 & 1) reg = d->w[1] >> 8 & 127;
    I->exec_write = !is_x ? 0 : d->about->is_11 ? 2 : 1;
    if (I->exec_write < 2 && reg > 127)
        return gcn_decode_fail(d, "%s writes its bits to operand %u, which is no SGPR", name, reg);
    if (I->exec_write < 2) set_mask(d, &I->d2, reg);
    return true;
}

static bool destination(struct gcn_decoder *d, const char *signature, const char *name)
{
    struct gcn_instruction *I = d->I;
    const uint32_t field = d->format >= GCN_VOP3 ? d->w[0] & 255 : d->w[0] >> 17 & 255;
    if (signature[0] == 'c') return compare_destination(d, name);
    if (signature[0] == 'S') {
        gcn_operand_set(&I->d, GCN_O_SGPR, field & 127, GCN_T_U32, 64);
        if (d->about->is_11 && field == 124) I->d.kind = GCN_O_NONE;
        gcn_use(I, GCN_ROWS + (field & 127), 1);
        return true;
    }
    const enum gcn_type type = gcn_type_of(signature[0]);
    gcn_operand_set(&I->d, GCN_O_VGPR, field, type, d->about->lanes);
    if (I->op == GCN_OP_v_accvgpr_write_b32 || I->op == GCN_OP_v_accvgpr_mov_b32) I->d.reg += GCN_AGPR;
    split_half(d, &I->d);
    if (strchr(signature, '^'))
        I->merge = GCN_HIGH;
    else if (is_half(type) && (d->about->is_11 || strchr(signature, '~')))
        I->merge = I->d.modifiers & GCN_M_HIGH ? GCN_HIGH : GCN_LOW;
    gcn_use(I, I->d.reg, I->d.rows);
    if (signature[1] == 'C') set_mask(d, &I->d2, d->format == GCN_VOP3 ? d->w[0] >> 8 & 127 : GCN_VCC);
    return true;
}

/* ---- modifiers ---- */

static bool apply_sdwa(struct gcn_decoder *d)
{
    struct gcn_instruction *I = d->I;
    const uint32_t x = d->w[1];
    d->used = 2;
    for (int i = 0; i < 2 && i < I->n_sources; i++) {
        struct gcn_operand *o = &I->s[i];
        if (o->type == GCN_T_MASK) continue;
        const uint32_t bits = x >> (16 + 8 * i);
        o->select = bits & 7;
        if (o->select != 6) o->modifiers |= GCN_M_SELECT;
        if (bits >> 3 & 1) o->modifiers |= GCN_M_SEXT | GCN_M_SELECT;
        if (bits >> 4 & 1) o->modifiers |= GCN_M_NEG;
        if (bits >> 5 & 1) o->modifiers |= GCN_M_ABS;
        if (o->select == 7) return gcn_decode_fail(d, "a selection of SDWA is not known");
    }
    if (I->kind == GCN_COMPARE) return true;
    I->select = x >> 8 & 7;
    I->unused = x >> 11 & 3;
    I->merge = I->select == 6 ? GCN_WHOLE : GCN_SELECTED;
    I->clamp = x >> 13 & 1;
    I->omod = x >> 14 & 3;
    return true;
}

static void apply_dpp(struct gcn_decoder *d, uint32_t kind, uint32_t x)
{
    struct gcn_instruction *I = d->I;
    I->s[0].modifiers |= GCN_M_DPP;
    if (kind != DPP) {
        I->dpp = 0x8000;
        I->dpp8 = x >> 8;
        I->dpp_inactive = kind == DPP8_INACTIVE;
        I->dpp_rows = I->dpp_banks = 15;
        return;
    }
    I->dpp = x >> 8 & 511;
    I->dpp_inactive = d->about->is_11 && (x >> 18 & 1);
    I->dpp_zero = x >> 19 & 1;
    I->dpp_banks = x >> 24 & 15;
    I->dpp_rows = x >> 28;
    for (int i = 0; i < 2 && i < I->n_sources && is_short_format(d); i++) {
        if (x >> (20 + 2 * i) & 1) I->s[i].modifiers |= GCN_M_NEG;
        if (x >> (21 + 2 * i) & 1) I->s[i].modifiers |= GCN_M_ABS;
    }
}

/* VOP3: absolute values, negations, halves, clamp. */
static bool apply_vop3(struct gcn_decoder *d)
{
    struct gcn_instruction *I = d->I;
    const uint32_t w = d->w[0], x = d->w[1];
    const bool has_carry = d->known->signature[1] == 'C';
    for (int i = 0; i < 3 && i < I->n_sources; i++) {
        struct gcn_operand *o = &I->s[i];
        if (o->type == GCN_T_MASK) continue;
        if (x >> (29 + i) & 1) o->modifiers |= GCN_M_NEG;
        if (has_carry) continue;
        if (w >> (8 + i) & 1) o->modifiers |= GCN_M_ABS;
        if (w >> (11 + i) & 1 && is_half((enum gcn_type)o->type)) o->modifiers |= GCN_M_HIGH;
    }
    I->clamp = w >> 15 & 1;
    I->omod = x >> 27 & 3;
    if (!has_carry && I->kind == GCN_VECTOR && w >> 14 & 1) I->merge = GCN_HIGH;
    return true;
}

static bool apply_vop3p(struct gcn_decoder *d)
{
    struct gcn_instruction *I = d->I;
    const uint32_t w = d->w[0], x = d->w[1], high = (x >> 27 & 3) | (w >> 14 & 1) << 2;
    if (I->op == GCN_OP_v_accvgpr_read_b32 || I->op == GCN_OP_v_accvgpr_write_b32) return true;
    for (int i = 0; i < 3 && i < I->n_sources; i++) {
        struct gcn_operand *o = &I->s[i];
        if (x >> (29 + i) & 1) o->modifiers |= GCN_M_NEG;
        if (w >> (8 + i) & 1) o->modifiers |= o->type == GCN_T_MIX ? GCN_M_ABS : GCN_M_NEG_HIGH;
        if (w >> (11 + i) & 1) o->modifiers |= GCN_M_HIGH;
        if (high >> i & 1) o->modifiers |= GCN_M_HIGH_HIGH;
    }
    I->clamp = w >> 15 & 1;
    return true;
}

/* ---- sources ---- */

/* The fields of the encoding, as operands of 9 bits. */
static void source_fields(const struct gcn_decoder *d, uint32_t fields[3])
{
    const uint32_t w = d->w[0], x = d->w[1];
    if (is_short_format(d)) {
        fields[0] = w & 511;
        fields[1] = 256 + (w >> 9 & 255);
        fields[2] = 0;
        if (fields[0] == SDWA) {
            fields[0] = (x & 255) + (x >> 23 & 1 ? 0 : 256);
            if (x >> 31 & 1) fields[1] -= 256;
        } else if (fields[0] == DPP || fields[0] == DPP8 || fields[0] == DPP8_INACTIVE) {
            fields[0] = 256 + (x & 255);
        }
        return;
    }
    for (int i = 0; i < 3; i++) fields[i] = x >> (9 * i) & 511;
    if (d->about->is_11 && (fields[0] == DPP || fields[0] == DPP8 || fields[0] == DPP8_INACTIVE))
        fields[0] = 256 + (d->w[2] & 255);
}

static bool one_source(struct gcn_decoder *d, char letter, const uint32_t fields[3], int *field,
                       struct gcn_operand *out)
{
    struct gcn_instruction *I = d->I;
    switch (letter) {
    case 'm': set_mask(d, out, d->format == GCN_VOP3 ? fields[(*field)++] & 127 : GCN_VCC); return true;
    case 'V': set_mask(d, out, GCN_VCC); return true;
    case 'D': *out = I->d; return true;
    case 'K': return gcn_decode_source(d, 255, gcn_type_of(d->known->signature[0]), out);
    case 's': return gcn_decode_source(d, fields[(*field)++], GCN_T_U32, out);
    default: break;
    }
    if (!gcn_decode_source(d, fields[(*field)++], gcn_type_of(letter), out)) return false;
    if (I->op == GCN_OP_v_accvgpr_read_b32 || I->op == GCN_OP_v_accvgpr_mov_b32) {
        if (out->kind != GCN_O_VGPR) return gcn_decode_fail(d, "%s reads no AGPR", d->known->name);
        out->reg += GCN_AGPR;
        I->uses[I->n_uses - 1].first += GCN_AGPR;
    }
    split_half(d, out);
    return true;
}

static bool sources(struct gcn_decoder *d, const char *letters)
{
    uint32_t fields[3];
    int field = 0;
    source_fields(d, fields);
    for (; *letters && *letters != '~' && *letters != '^'; letters++)
        if (!one_source(d, *letters, fields, &field, &d->I->s[d->I->n_sources++])) return false;
    return true;
}

/* Which results clamp and omod are known for. */
static bool check_output(struct gcn_decoder *d)
{
    const struct gcn_instruction *I = d->I;
    const enum gcn_type type = (enum gcn_type)I->d.type;
    const bool is_float = I->kind == GCN_VECTOR
                          && (type == GCN_T_F32 || type == GCN_T_PF32 || type == GCN_T_F16
                              || type == GCN_T_PF16);
    if (I->clamp && !is_float) return gcn_decode_fail(d, "clamp of %s is not known", d->known->name);
    if (I->omod && type != GCN_T_F32) return gcn_decode_fail(d, "omod of %s is not known", d->known->name);
    return true;
}

bool gcn_decode_vector(struct gcn_decoder *d)
{
    struct gcn_instruction *I = d->I;
    const char *signature = d->known->signature, *name = NULL;
    const bool is_long = !is_short_format(d);
    const uint32_t first = is_long ? d->w[1] & 511 : d->w[0] & 511;
    gcn_look_up(d->arch, d->format, d->number, &name);
    d->used = is_long ? 2 : 1;
    if (d->used > d->n_words) return gcn_decode_fail(d, "the code ends inside an instruction");
    if (!destination(d, signature, name) || !sources(d, strchr(signature, '=') + 1)) return false;
    if (I->op == GCN_OP_v_movrels_b32) I->movrel = 1;
    if (I->op == GCN_OP_v_movreld_b32) I->movrel = 2;
    if (is_long && d->format == GCN_VOP3 && !apply_vop3(d)) return false;
    if (is_long && d->format == GCN_VOP3P && !apply_vop3p(d)) return false;
    if (!is_long && !d->about->is_11 && first == SDWA && !apply_sdwa(d)) return false;
    if (first == DPP || (d->about->is_11 && (first == DPP8 || first == DPP8_INACTIVE))) {
        apply_dpp(d, first, d->w[is_long ? 2 : 1]);
        d->used = is_long ? 3 : 2;
    }
    return I->kind == GCN_LANE || check_output(d);
}

/* ---- dual instructions ---- */

static bool half(struct gcn_decoder *d, struct gcn_instruction *I, uint32_t number, uint32_t first,
                 uint32_t second, uint32_t destination)
{
    const char *name;
    uint32_t fields[2] = { first, 256 + second };
    int field = 0;
    d->I = I;
    d->number = number;
    d->known = gcn_look_up(d->arch, GCN_VOPD, number, &name);
    if (!d->known || d->known->kind != GCN_VECTOR)
        return gcn_decode_fail(d, "the dual instruction %s, number %u, is not known", name ? name : "",
                               number);
    I->name = name;
    I->op = d->known->op;
    I->kind = GCN_VECTOR;
    gcn_operand_set(&I->d, GCN_O_VGPR, destination, gcn_type_of(d->known->signature[0]), d->about->lanes);
    gcn_use(I, destination, 1);
    for (const char *s = d->known->signature + 2; *s; s++) {
        struct gcn_operand *out = &I->s[I->n_sources++];
        if (*s == 'm')
            set_mask(d, out, GCN_VCC);
        else if (*s == 'D')
            *out = I->d;
        else if (!gcn_decode_source(d, *s == 'K' ? 255 : fields[field++], gcn_type_of(*s == 'K' ? 'f' : *s),
                                    out))
            return false;
    }
    return true;
}

bool gcn_decode_dual(struct gcn_decoder *d)
{
    struct gcn_instruction *const x = d->I, *const y = d->I + 1;
    const uint32_t w = d->w[0], v = d->w[1];
    const uint32_t to = v >> 24;
    d->used = 2;
    if (!half(d, x, w >> 22 & 15, w & 511, w >> 9 & 255, to)) return false;
    if (!half(d, y, w >> 17 & 31, v & 511, v >> 9 & 255, (v >> 17 & 127) << 1 | (~to & 1))) return false;
    x->kind = GCN_DUAL;
    return true;
}
