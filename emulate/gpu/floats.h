/* SPDX-License-Identifier: Apache-2.0 */
/** Floats and their bits. */
#ifndef EMULATE_GPU_FLOATS_H
#define EMULATE_GPU_FLOATS_H

#include <stdint.h>

static inline float float_of(uint32_t bits)
{
    union {
        uint32_t w;
        float f;
    } u = { bits };
    return u.f;
}

static inline uint32_t bits_of(float x)
{
    union {
        float f;
        uint32_t w;
    } u = { x };
    return u.w;
}

#endif
