/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ldmatrix and mma (PTX ISA, "Warp-level Matrix Load Instruction" and "Matrix Fragments for mma.m16n8k16").
 * With g = lane / 4 and t = lane % 4, a lane holds these elements, in pairs that are neighbours in a row of A
 * or a column of B:
 *
 * - A, 16 x 16: row g + 8 (i % 2), columns 2t + 8 (i / 2) and the next one, in register i of 4
 * - B, 16 x 8: rows 2t + 8 i and the next one, column g, in register i of 2
 * - C and D, 16 x 8: row g + 8 (i / 2), column 2t + i % 2, in register i of 4
 *
 * NVIDIA does not document how the units add. Measured units add the exact products and C with few more bits
 * than f32 has, and cut off the rest. Here 16 products and C are added exactly enough, and the sum is cut off
 * to f32. So the bits of a result are not those of a device.
 */
#include "emulate/cuda/ptx_float.h"
#include "emulate/cuda/ptx_run.h"

#include <string.h>

static bool all_lanes(struct ptx_state *s, const struct ptx_warp *warp, const struct ptx_instruction *I,
                      uint32_t lanes)
{
    if (lanes == PTX_ALL_LANES) return true;
    return ptx_fault_at(s, warp, __builtin_ctz(lanes), I, KERNEL_DIVERGENCE,
                        "executes %s, which needs the 32 lanes of its warp, but lane %d does not take part",
                        I->kind == PTX_MULTIPLY ? "mma" : "ldmatrix", __builtin_ctz(~lanes));
}

bool ptx_load_matrix(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I,
                     uint32_t lanes)
{
    char *const bases[2] = { warp->registers, s->constants };
    const union ptx_slot *a = ptx_at(bases, I->a);
    const int rows = 8 * I->vector;
    if (!all_lanes(s, warp, I, lanes)) return false;
    /* lane l of the first `rows` lanes has the address of row l % 8 of matrix l / 8 */
    struct kernel_access access = { .kind = KERNEL_LOAD,
                                    .bytes = 16,
                                    .align = 16,
                                    .warp = warp->index,
                                    .warp_epoch = warp->epoch,
                                    .lanes = rows == 32 ? PTX_ALL_LANES : ((uint32_t)1 << rows) - 1,
                                    .where = I };
    for (int l = 0; l < PTX_LANES; l++)
        access.addresses[l] = (I->wide_address ? a->q[l] : a->w[l]) + (uint64_t)I->offset;
    if (!kernel_check_shared(&s->b, &access)) return false;
    uint16_t elements[4][8][8];
    for (int l = 0; l < rows; l++) memcpy(elements[l / 8][l % 8], s->b.shared + access.addresses[l], 16);
    for (int i = 0; i < I->vector; i++) {
        union ptx_slot *d = ptx_at(bases, I->d[i]);
        for (int l = 0; l < PTX_LANES; l++) {
            const int g = l / 4, t = 2 * (l % 4);
            const uint32_t low = I->turned ? elements[i][t][g] : elements[i][g][t],
                           high = I->turned ? elements[i][t + 1][g] : elements[i][g][t + 1];
            d->w[l] = high << 16 | low;
        }
    }
    return true;
}

static float element_of(uint32_t bits, bool is_f16)
{
    return is_f16 ? from_f16((uint16_t)bits) : float_of(bits << 16);
}

/* The f32 that is nearest to x towards zero. */
static float cut(double x)
{
    const float f = (float)x;
    const double d = f;
    if (d != d) return float_of(0x7fffffff);
    return (d > x && x > 0) || (d < x && x < 0) ? float_of(bits_of(f) - 1) : f;
}

bool ptx_multiply(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I, uint32_t lanes)
{
    char *const bases[2] = { warp->registers, s->constants };
    const struct ptx_product *p = &s->kernel->products[I->offset];
    const bool is_f16 = I->from == PTX_F16;
    float a[16][16], b[16][8];
    double sums[16][8];
    if (!all_lanes(s, warp, I, lanes)) return false;
    for (int i = 0; i < 4; i++) {
        const union ptx_slot *word = ptx_at(bases, p->a[i]), *c = ptx_at(bases, p->c[i]);
        for (int l = 0; l < PTX_LANES; l++) {
            const int g = l / 4, t = 2 * (l % 4);
            a[g + 8 * (i % 2)][t + 8 * (i / 2)] = element_of(word->w[l] & 0xffff, is_f16);
            a[g + 8 * (i % 2)][t + 8 * (i / 2) + 1] = element_of(word->w[l] >> 16, is_f16);
            sums[g + 8 * (i / 2)][t + i % 2] = c->f[l];
        }
    }
    for (int i = 0; i < 2; i++) {
        const union ptx_slot *word = ptx_at(bases, p->b[i]);
        for (int l = 0; l < PTX_LANES; l++) {
            const int g = l / 4, t = 2 * (l % 4) + 8 * i;
            b[t][g] = element_of(word->w[l] & 0xffff, is_f16);
            b[t + 1][g] = element_of(word->w[l] >> 16, is_f16);
        }
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                sums[row][column] += (double)a[row][k] * (double)b[k][column];
    for (int i = 0; i < 4; i++) {
        union ptx_slot *d = ptx_at(bases, I->d[i]);
        for (int l = 0; l < PTX_LANES; l++) d->f[l] = cut(sums[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2]);
    }
    return true;
}
