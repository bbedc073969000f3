/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder: instructions that access memory by lanes. */
#include "emulate/hip/gcn_memory_name.h"

#include <string.h>

/* The rows from a register on. AGPRs are the rows from GCN_AGPR on. */
static uint16_t row_of(uint32_t reg, bool is_agpr) { return (uint16_t)(reg + (is_agpr ? GCN_AGPR : 0)); }

static uint32_t rows_of(const struct gcn_memory_part *m) { return m->bytes < 4 ? 1 : m->bytes / 4; }

/* What is read and filled, after all fields are known. */
static void note_uses(struct gcn_decoder *d, uint32_t destination)
{
    struct gcn_instruction *I = d->I;
    struct gcn_memory_part *m = &I->m;
    const uint32_t rows = rows_of(m);
    if (m->has_address) gcn_use(I, m->address, m->wide_address ? 2 : 1);
    if (m->has_base) gcn_use(I, GCN_ROWS + m->base, m->space == GCN_S_SCRATCH ? 1 : 2);
    if (m->kind != GCN_A_LOAD) {
        gcn_use(I, m->data, m->atomic == GCN_AT_COMPARE && m->space != GCN_S_SHARED ? 2 * rows : rows);
        if (m->twice || (m->space == GCN_S_SHARED && m->atomic == GCN_AT_COMPARE && m->kind == GCN_A_ATOMIC))
            gcn_use(I, m->data2, rows);
    }
    if (m->kind == GCN_A_LOAD || m->returns) {
        gcn_operand_set(&I->d, GCN_O_VGPR, destination, GCN_T_U32, d->about->lanes);
        I->fills = (struct gcn_span){ (uint16_t)destination, (uint16_t)(m->twice ? 2 * rows : rows) };
    }
    const bool counts_store = d->about->is_11 && !I->fills.n;
    if (m->space == GCN_S_SHARED || m->space == GCN_S_FLAT) I->counts[GCN_C_LGKM] = 1;
    if (m->space != GCN_S_SHARED) I->counts[counts_store ? GCN_C_VS : GCN_C_VM] = 1;
}

static bool decode_shared(struct gcn_decoder *d)
{
    struct gcn_instruction *I = d->I;
    struct gcn_memory_part *m = &I->m;
    const uint32_t w = d->w[0], x = d->w[1];
    const bool is_agpr = !d->about->is_11 && w >> 25 & 1;
    const uint32_t destination = row_of(x >> 24, is_agpr);
    if (w >> (d->about->is_11 ? 17 : 16) & 1) return gcn_decode_fail(d, "global data share is not known");
    m->has_address = 1;
    m->address = (uint16_t)(x & 255);
    m->data = row_of(x >> 8 & 255, is_agpr);
    m->data2 = row_of(x >> 16 & 255, is_agpr);
    m->offset[0] = (int32_t)(w & 0xffff);
    if (I->kind == GCN_PERMUTE) {
        m->bytes = 4;
        gcn_use(I, m->address, 1);
        if (I->op != GCN_OP_ds_swizzle_b32) gcn_use(I, m->data, 1);
        gcn_operand_set(&I->d, GCN_O_VGPR, destination, GCN_T_U32, d->about->lanes);
        I->fills = (struct gcn_span){ (uint16_t)destination, 1 };
        I->counts[GCN_C_LGKM] = 1;
        return true;
    }
    if (m->twice) {
        m->offset[0] = (int32_t)((w & 255) * m->bytes * m->twice);
        m->offset[1] = (int32_t)((w >> 8 & 255) * m->bytes * m->twice);
        m->twice = 1;
    }
    note_uses(d, destination);
    return true;
}

/* flat_*, global_* and scratch_* */
static bool decode_flat(struct gcn_decoder *d)
{
    struct gcn_memory_part *m = &d->I->m;
    const uint32_t w = d->w[0], x = d->w[1], base = x >> 16 & 127;
    const bool is_11 = d->about->is_11, is_agpr = !is_11 && x >> 23 & 1;
    const bool sve = is_11 ? x >> 23 & 1 : w >> 13 & 1;
    m->offset[0] = (int32_t)(w << 19) >> 19;
    if (m->space == GCN_S_FLAT) m->offset[0] &= 0xfff;
    m->address = (uint16_t)(x & 255);
    m->data = row_of(x >> 8 & 255, is_agpr);
    m->base = (uint16_t)base;
    m->has_base = m->space != GCN_S_FLAT && base != (is_11 ? 124u : 127u) && base != 127;
    if (m->space == GCN_S_SCRATCH) {
        m->has_address = d->about->has_sve ? sve : !m->has_base;
    } else {
        m->has_address = 1;
        m->wide_address = !m->has_base;
    }
    if (m->kind == GCN_A_ATOMIC) m->returns = is_11 ? w >> 14 & 1 : w >> 16 & 1;
    note_uses(d, row_of(x >> 24, is_agpr));
    return true;
}

/* buffer_*, which compilers use for scratch memory alone */
static bool decode_buffer(struct gcn_decoder *d)
{
    struct gcn_memory_part *m = &d->I->m;
    const uint32_t w = d->w[0], x = d->w[1];
    const bool is_agpr = x >> 23 & 1;
    if (d->about->is_11) return gcn_decode_fail(d, "buffer_* is not known on gfx1100");
    if (w >> 13 & 1) return gcn_decode_fail(d, "an index into a buffer (idxen) is not known");
    if (w >> 16 & 1) return gcn_decode_fail(d, "a load from a buffer to LDS is not known");
    m->offset[0] = (int32_t)(w & 0xfff);
    m->has_address = w >> 12 & 1;
    m->address = (uint16_t)(x & 255);
    m->data = row_of(x >> 8 & 255, is_agpr);
    m->descriptor = (uint16_t)((x >> 16 & 31) * 4);
    gcn_use(d->I, GCN_ROWS + m->descriptor, 4);
    /* the distance in SGPRs is of the wave: 64 lanes share it */
    if (!gcn_decode_source(d, x >> 24, GCN_T_U32, &d->I->s[0])) return false;
    d->I->n_sources = 1;
    note_uses(d, m->data);
    return true;
}

bool gcn_decode_memory(struct gcn_decoder *d)
{
    const char *name = NULL;
    gcn_look_up(d->arch, d->format, d->number, &name);
    d->used = 2;
    if (d->n_words < 2) return gcn_decode_fail(d, "the code ends inside an instruction");
    if (d->I->kind == GCN_PERMUTE) return decode_shared(d);
    if (!gcn_memory_name(gcn_renamed_from(name), &d->I->m)) return false;
    if (d->format == GCN_DS) return decode_shared(d);
    return d->format == GCN_MUBUF ? decode_buffer(d) : decode_flat(d);
}
