/* SPDX-License-Identifier: Apache-2.0 */
/** Floats and their bits, as the PTX ISA wants them. */
#ifndef EMULATE_CUDA_PTX_FLOAT_H
#define EMULATE_CUDA_PTX_FLOAT_H

#include "emulate/gpu/floats.h"

static inline float canonical(float x) { return x != x ? float_of(0x7fffffff) : x; }

/* Subnormal numbers become zeros. */
static inline float flushed(float x)
{
    return bits_of(x) & 0x7f800000 ? x : float_of(bits_of(x) & 0x80000000u);
}

static inline float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    /* the exponent's bias is greater by 112; a product also makes subnormal numbers normal */
    uint32_t bits = bits_of(float_of(rest) * float_of(0x77800000));
    bits = rest >= 0x0f800000 ? rest | 0x7f800000 : bits;
    return rest > 0x0f800000 ? float_of(0x7fffffff) : float_of(bits | sign);
}

#endif
