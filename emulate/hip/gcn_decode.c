/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder: formats, operands and scalar instructions. The encodings are those of AMD's ISA documents for
 * MI200, MI300 and RDNA3, chapter "Microcode Formats".
 */
#include "emulate/hip/gcn_code.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool gcn_decode_fail(struct gcn_decoder *d, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(d->reason, GCN_REASON, format, list);
    va_end(list);
    return false;
}

enum gcn_type gcn_type_of(char letter)
{
    static const char letters[] = "-ufwhkpqdgxms";
    const char *at = letter ? strchr(letters, letter) : NULL;
    return at ? (enum gcn_type)(at - letters) : GCN_T_NONE;
}

void gcn_use(struct gcn_instruction *I, uint32_t first, uint32_t n)
{
    if (n && I->n_uses < GCN_USES) I->uses[I->n_uses++] = (struct gcn_span){ (uint16_t)first, (uint16_t)n };
}

static uint32_t rows_of(enum gcn_type type)
{
    return type == GCN_T_U64 || type == GCN_T_F64 || type == GCN_T_PF32 ? 2 : 1;
}

void gcn_operand_set(struct gcn_operand *out, enum gcn_operand_kind kind, uint32_t reg, enum gcn_type type,
                     uint32_t lanes)
{
    *out = (struct gcn_operand){ .kind = (uint8_t)kind, .type = (uint8_t)type, .reg = (uint16_t)reg };
    out->rows = (uint8_t)(type == GCN_T_MASK ? lanes / 32 : rows_of(type));
}

/* ---- sources ---- */

static const uint32_t float_constants[] = { 0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                            0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983 };
static const uint16_t half_constants[] = { 0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000,
                                           0xc000, 0x4400, 0xc400, 0x3118 };
static const uint64_t double_constants[] = { 0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
                                             0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
                                             0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882 };

static uint64_t float_constant(uint32_t i, enum gcn_type type)
{
    switch (type) {
    case GCN_T_U16:
    case GCN_T_F16:
    case GCN_T_PF16: return half_constants[i];
    case GCN_T_U64:
    case GCN_T_F64: return double_constants[i];
    default: return float_constants[i];
    }
}

/*
 * Instructions of signed numbers extend a literal by its sign, those of bits and of unsigned numbers by
 * zeros.
 */
static uint64_t literal_of(const struct gcn_decoder *d, uint32_t word, enum gcn_type type)
{
    if (type == GCN_T_F64) return (uint64_t)word << 32;
    if (type == GCN_T_U64 && strstr(d->known->name, "_i64")) return (uint64_t)(int64_t)(int32_t)word;
    return word;
}

static bool literal(struct gcn_decoder *d, enum gcn_type type, uint64_t *out)
{
    /* a second operand with a literal has the same one */
    const int at = d->format == GCN_VOP3 || d->format == GCN_VOP3P || d->format == GCN_VOPD ? 2 : 1;
    if (at >= d->n_words) return gcn_decode_fail(d, "the literal lies behind the end of the code");
    d->used = at + 1;
    *out = literal_of(d, d->w[at], type);
    return true;
}

static bool constant(struct gcn_operand *out, uint64_t value)
{
    out->kind = GCN_O_CONSTANT;
    out->value = out->rows == 2 ? value : value & 0xffffffff;
    return true;
}

static bool special(struct gcn_decoder *d, uint32_t field, enum gcn_type type, struct gcn_operand *out)
{
    if (field >= 129 && field <= 192) return constant(out, field - 128);
    if (field >= 193 && field <= 208) return constant(out, (uint64_t) - (int64_t)(field - 192));
    if (field >= 240 && field <= 248) return constant(out, float_constant(field - 240, type));
    switch (field) {
    case 128: return constant(out, 0);
    case 235: return constant(out, out->rows == 2 ? GCN_SHARED_WINDOW : 0);
    case 236: return constant(out, out->rows == 2 ? GCN_SHARED_WINDOW | 0xffffffff : 0xffffffff);
    case 237: return constant(out, out->rows == 2 ? GCN_SCRATCH_WINDOW : 0);
    case 238: return constant(out, out->rows == 2 ? GCN_SCRATCH_WINDOW | 0xffffffff : 0xffffffff);
    case 251: out->kind = GCN_O_VCCZ; return true;
    case 252: out->kind = GCN_O_EXECZ; return true;
    case 253: out->kind = GCN_O_SCC; return true;
    case 255: return out->kind = GCN_O_CONSTANT, literal(d, type, &out->value);
    default: return gcn_decode_fail(d, "the operand %u is not known", field);
    }
}

bool gcn_decode_source(struct gcn_decoder *d, uint32_t field, enum gcn_type type, struct gcn_operand *out)
{
    gcn_operand_set(out, GCN_O_NONE, 0, type, d->about->lanes);
    if (field >= 256) {
        out->kind = GCN_O_VGPR;
        out->reg = (uint16_t)(field - 256);
        gcn_use(d->I, out->reg, rows_of(type));
        return true;
    }
    if (d->about->is_11 && field == 124) return constant(out, 0); /* null */
    if (field < GCN_SGPRS) {
        out->kind = GCN_O_SGPR;
        out->reg = (uint16_t)field;
        gcn_use(d->I, GCN_ROWS + field, out->rows);
        return true;
    }
    return special(d, field, type, out);
}

/* ---- scalars ---- */

static enum gcn_type words_type(char letter) { return letter == '2' ? GCN_T_U64 : GCN_T_U32; }

static void scalar_destination(struct gcn_decoder *d, char words, uint32_t field)
{
    struct gcn_operand *out = &d->I->d;
    gcn_operand_set(out, words == '0' ? GCN_O_NONE : GCN_O_SGPR, field, words_type(words), d->about->lanes);
    if (d->about->is_11 && field == 124) out->kind = GCN_O_NONE;
    if (out->kind) gcn_use(d->I, GCN_ROWS + field, out->rows);
}

/* A source by its letter in the signature. `field` is that of the encoding. */
static bool scalar_source(struct gcn_decoder *d, char letter, uint32_t field, uint32_t destination,
                          struct gcn_operand *out)
{
    if (letter == 'k') {
        gcn_operand_set(out, GCN_O_CONSTANT, 0, GCN_T_U32, d->about->lanes);
        out->value = (uint64_t)(int64_t)(int16_t)(d->w[0] & 0xffff);
        if (strncmp(d->known->name, "s_addk", 6) && strncmp(d->known->name, "s_mulk", 6)) return true;
        out->value &= 0xffffffff;
        return true;
    }
    return gcn_decode_source(d, letter == 'd' ? destination : field, words_type(letter), out);
}

static bool decode_scalar(struct gcn_decoder *d)
{
    const uint32_t w = d->w[0], destination = w >> 16 & 127;
    const uint32_t fields[2] = { w & 255, w >> 8 & 255 };
    const char *s = d->known->signature;
    struct gcn_instruction *I = d->I;
    I->immediate = (int16_t)(w & 0xffff);
    if (!*s) return true;
    if (d->format == GCN_SMEM) {
        scalar_destination(d, s[0], w >> 6 & 127);
        return true;
    }
    scalar_destination(d, s[0], destination);
    for (int i = 0; s[1 + i]; i++) {
        if (!scalar_source(d, s[1 + i], fields[i], destination, &I->s[i])) return false;
        I->n_sources++;
    }
    if (I->op == GCN_OP_s_setreg_imm32_b32) return literal(d, GCN_T_U32, &I->s[1].value);
    return true;
}

/* s_load_*: bytes from a base and an offset. */
static bool decode_scalar_load(struct gcn_decoder *d, const char *name)
{
    struct gcn_instruction *I = d->I;
    const uint32_t w = d->w[0], offset = d->w[1];
    static const struct {
        const char *name;
        uint8_t words;
    } sizes[] = { { "dword", 1 }, { "dwordx2", 2 }, { "dwordx4", 4 }, { "dwordx8", 8 }, { "dwordx16", 16 },
                  { "b32", 1 },   { "b64", 2 },     { "b128", 4 },    { "b256", 8 },    { "b512", 16 } };
    I->m.bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(name + strlen("s_load_"), sizes[i].name)) I->m.bytes = (uint8_t)(4 * sizes[i].words);
    if (!I->m.bytes) return gcn_decode_fail(d, "%s is not known", name);
    d->used = 2;
    gcn_operand_set(&I->d, GCN_O_SGPR, w >> 6 & 127, GCN_T_U32, 64);
    I->m.base = (uint16_t)((w & 63) * 2);
    I->m.offset[0] = (int32_t)(offset << 11) >> 11;
    I->s[0].kind = GCN_O_NONE;
    const bool has_register = d->about->is_11 ? (offset >> 25) != 124 : w >> 14 & 1;
    if (!d->about->is_11 && !(w >> 17 & 1)) {
        /* the offset is an SGPR in place of the constant */
        gcn_operand_set(&I->s[0], GCN_O_SGPR, offset & 127, GCN_T_U32, 64);
        I->m.offset[0] = 0;
    } else if (has_register) {
        gcn_operand_set(&I->s[0], GCN_O_SGPR, offset >> 25 & 127, GCN_T_U32, 64);
    }
    gcn_use(I, GCN_ROWS + I->m.base, 2);
    if (I->s[0].kind) gcn_use(I, GCN_ROWS + I->s[0].reg, 1);
    I->fills = (struct gcn_span){ (uint16_t)(GCN_ROWS + I->d.reg), (uint16_t)(I->m.bytes / 4) };
    I->counts[GCN_C_LGKM] = 1;
    return true;
}

/* ---- waits: the most that may be left of each counter ---- */

static void decode_wait(struct gcn_decoder *d)
{
    struct gcn_instruction *I = d->I;
    const uint32_t w = d->w[0] & 0xffff;
    memset(I->counts, 255, sizeof I->counts);
    switch (I->op) {
    case GCN_OP_s_waitcnt: {
        const uint32_t vm = d->about->is_11 ? w >> 10 & 63 : (w & 15) | (w >> 10 & 48);
        const uint32_t lgkm = d->about->is_11 ? w >> 4 & 63 : w >> 8 & 15;
        I->counts[GCN_C_VM] = vm == 63 ? 255 : (uint8_t)vm;
        I->counts[GCN_C_LGKM] = lgkm == (d->about->is_11 ? 63u : 15u) ? 255 : (uint8_t)lgkm;
        break;
    }
    /* the SGPR that these have is null in what compilers emit */
    case GCN_OP_s_waitcnt_vscnt: I->counts[GCN_C_VS] = (uint8_t)(w & 63); break;
    case GCN_OP_s_waitcnt_vmcnt: I->counts[GCN_C_VM] = (uint8_t)(w & 63); break;
    default: I->counts[GCN_C_LGKM] = (uint8_t)(w & 63); break;
    }
}

/* ---- formats ---- */

static enum gcn_format format_9(uint32_t w, uint32_t *number)
{
    if (!(w >> 31)) {
        if (w >> 25 == 0x3e) return *number = w >> 17 & 255, GCN_VOPC;
        if (w >> 25 == 0x3f) return *number = w >> 9 & 255, GCN_VOP1;
        return *number = w >> 25 & 63, GCN_VOP2;
    }
    switch (w >> 26) {
    case 0x30: return *number = w >> 18 & 255, GCN_SMEM;
    case 0x34:
        if (w >> 23 == 0x1a7) return *number = w >> 16 & 127, GCN_VOP3P;
        return *number = w >> 16 & 1023, GCN_VOP3;
    case 0x36: return *number = w >> 17 & 255, GCN_DS;
    case 0x37:
        *number = w >> 18 & 127;
        return (w >> 14 & 3) == 2 ? GCN_GLOBAL : (w >> 14 & 3) == 1 ? GCN_SCRATCH : GCN_FLAT;
    case 0x38: return *number = w >> 18 & 127, GCN_MUBUF;
    default: return GCN_FORMATS;
    }
}

static enum gcn_format format_11(uint32_t w, uint32_t *number)
{
    if (!(w >> 31)) return format_9(w, number);
    switch (w >> 26) {
    case 0x32: return *number = w >> 22 & 15, GCN_VOPD;
    case 0x33: return *number = w >> 16 & 127, w >> 24 == 0xcc ? GCN_VOP3P : GCN_FORMATS;
    case 0x35: return *number = w >> 16 & 1023, GCN_VOP3;
    case 0x36: return *number = w >> 18 & 255, GCN_DS;
    case 0x37:
        *number = w >> 18 & 127;
        return (w >> 16 & 3) == 2 ? GCN_GLOBAL : (w >> 16 & 3) == 1 ? GCN_SCRATCH : GCN_FLAT;
    case 0x38: return *number = w >> 18 & 255, GCN_MUBUF;
    case 0x3d: return *number = w >> 18 & 255, GCN_SMEM;
    default: return GCN_FORMATS;
    }
}

static enum gcn_format format_of(const struct gcn_decoder *d, uint32_t *number)
{
    const uint32_t w = d->w[0];
    if (w >> 30 == 2) {
        if (w >> 23 == 0x17d) return *number = w >> 8 & 255, GCN_SOP1;
        if (w >> 23 == 0x17e) return *number = w >> 16 & 127, GCN_SOPC;
        if (w >> 23 == 0x17f) return *number = w >> 16 & 127, GCN_SOPP;
        if (w >> 28 == 0xb) return *number = w >> 23 & 31, GCN_SOPK;
        return *number = w >> 23 & 127, GCN_SOP2;
    }
    return d->about->is_11 ? format_11(w, number) : format_9(w, number);
}

static bool decode_one(struct gcn_decoder *d, const char *name)
{
    struct gcn_instruction *I = d->I;
    switch ((enum gcn_kind)I->kind) {
    case GCN_SCALAR:
    case GCN_BRANCH: return decode_scalar(d);
    case GCN_SCALAR_LOAD: return decode_scalar_load(d, name);
    case GCN_WAIT: decode_wait(d); return true;
    case GCN_ACCESS:
    case GCN_PERMUTE: return gcn_decode_memory(d);
    case GCN_VECTOR:
    case GCN_COMPARE:
    case GCN_LANE: return gcn_decode_vector(d);
    case GCN_NOTHING:
        if (d->format >= GCN_VOP3 || d->format == GCN_SMEM) d->used = 2;
        I->immediate = (int16_t)(d->w[0] & 0xffff);
        return true;
    default: I->immediate = (int16_t)(d->w[0] & 0xffff); return true;
    }
}

static const char *const format_names[GCN_FORMATS] = { "SOP1", "SOP2",   "SOPC",    "SOPK",  "SOPP",  "SMEM",
                                                       "VOP1", "VOP2",   "VOPC",    "VOP3",  "VOP3P", "DS",
                                                       "FLAT", "GLOBAL", "SCRATCH", "MUBUF", "VOPD" };

static bool unknown(struct gcn_decoder *d, const char *name)
{
    char bytes[40] = "";
    for (int i = 0; i < 2 && i < d->n_words; i++)
        snprintf(bytes + strlen(bytes), sizeof bytes - strlen(bytes), "%s%08x", i ? " " : "", d->w[i]);
    if (d->format == GCN_FORMATS)
        return gcn_decode_fail(d, "the words %s are no instruction of %s", bytes, gcn_arch_name(d->arch));
    return gcn_decode_fail(d, "the instruction %s%snumber %u of format %s (words %s) is not known on %s",
                           name ? name : "", name ? ", " : "", d->number, format_names[d->format], bytes,
                           gcn_arch_name(d->arch));
}

int gcn_decode(enum gcn_arch arch, const unsigned char *bytes, size_t n, struct gcn_instruction out[2],
               char *reason)
{
    struct gcn_decoder d = {
        .arch = arch, .about = gcn_describe(arch), .I = &out[0], .reason = reason, .used = 1
    };
    const char *name;
    *reason = 0;
    d.n_words = n / 4 < 5 ? (int)(n / 4) : 5;
    memcpy(d.w, bytes, (size_t)d.n_words * 4);
    memset(out, 0, 2 * sizeof *out);
    if (!d.n_words) return gcn_decode_fail(&d, "the code ends inside an instruction"), 0;
    d.format = format_of(&d, &d.number);
    if (d.format == GCN_FORMATS) return unknown(&d, NULL), 0;
    if (d.format == GCN_VOPD) {
        if (!gcn_decode_dual(&d)) return 0;
    } else {
        d.known = gcn_look_up(arch, d.format, d.number, &name);
        if (!d.known) return unknown(&d, name), 0;
        d.I->name = name;
        d.I->op = d.known->op;
        d.I->kind = d.known->kind;
        if (!decode_one(&d, name)) {
            if (!*reason) unknown(&d, name);
            return 0;
        }
    }
    if (d.used > d.n_words) return gcn_decode_fail(&d, "the code ends inside an instruction"), 0;
    out[0].bytes = out[1].bytes = (uint8_t)(4 * d.used);
    return out[0].bytes;
}
