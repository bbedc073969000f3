/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The normal distribution, for GELU by erf: Phi(-a) = exp(-a^2 / 2) M(a). In this form the tail keeps its
 * relative precision.
 *   AVX-512:   M is of degree 5 in each of 16 pieces, four for each doubling of 1 + a
 *              (relative error 1.1e-7, coefficients rounded)
 *   elsewhere: M = t Q(t), t = 1 / (1 + 0.31 a), Q of degree 7 (relative error 1.7e-7)
 */
#ifndef BACKENDS_HOST_NORMAL_H
#define BACKENDS_HOST_NORMAL_H

#include "backends/host/exp.h"

struct normal {
    vf a;       /* |x|, at most 14.5, where exp(-a^2 / 2) is 0 in f32 */
    vf density; /* exp(-a^2 / 2) */
    vf tail;    /* Phi(-a) */
};

#ifdef HOST_AVX512
/*
 * M(a), a in [0, 15). The index of a piece is the last four of the upper eleven bits of 1 + a. So the pieces
 * are in this order: from 2, from 4, from 8, and from 1 on.
 */
INLINE vf mills(vf a)
{
    static const float c[6][16] = {
        { 0.230760321f, 0.185231671f, 0.153651938f, 0.130724728f, 0.106345162f, 0.084803395f, 0.0703426972f,
          0.0600156747f, 0.0491225496f, 0.0395066962f, 0.0330189727f, 0.0283526611f, 0.453793228f,
          0.379604429f, 0.323356181f, 0.279770583f },
        { -0.110491879f, -0.0747868642f, -0.0532254204f, -0.0394492634f, -0.0267342441f, -0.0173270162f,
          -0.0120574636f, -0.00884039048f, -0.00596191129f, -0.0038753394f, -0.00271462742f, -0.00200503296f,
          -0.342218131f, -0.256590635f, -0.196844682f, -0.154143035f },
        { 0.0463213995f, 0.027176816f, 0.0169471614f, 0.0111195398f, 0.0063871583f, 0.00341577479f,
          0.00201327889f, 0.00127655163f, 0.000713556539f, 0.000376632583f, 0.000221715425f, 0.000141097262f,
          0.205506936f, 0.14169091f, 0.100163803f, 0.0724475235f },
        { -0.0175290983f, -0.00907538272f, -0.005031229f, -0.00295673707f, -0.00145905558f, -0.000651783426f,
          -0.000328055583f, -0.000180897405f, -8.42811423e-05f, -3.62777864e-05f, -1.79926501e-05f,
          -9.88158899e-06f, -0.105509505f, -0.0678185821f, -0.0447472632f, -0.0302503724f },
        { 0.00615971815f, 0.00284540863f, 0.00141564256f, 0.000751071901f, 0.00032540533f, 0.000122137018f,
          5.27144512e-05f, 2.53549952e-05f, 1.00246762e-05f, 3.51060839e-06f, 1.46496268e-06f,
          6.93747211e-07f, 0.0482582785f, 0.029161904f, 0.0181035139f, 0.011525793f },
        { -0.00199670112f, -0.000832495221f, -0.000375378295f, -0.000181304713f, -6.87640204e-05f,
          -2.19825597e-05f, -8.21291451e-06f, -3.4688378e-06f, -1.15401235e-06f, -3.32267746e-07f,
          -1.17390776e-07f, -4.81258198e-08f, -0.0199635476f, -0.0114168739f, -0.00671091862f,
          -0.00404817145f },
    };
    const vu b = (vu)(a + 1.0f), piece = b >> 21;
    const vf u = (vf)b
                 - (vf)((b & 0xffe00000u) | 0x100000u); /* distance from the middle of the piece, exact */
    vf m = { 0 };
    for (int i = 5; i >= 0; i--) {
        const vf coefficient = (vf)_mm512_permutexvar_ps((__m512i)piece, _mm512_loadu_ps(c[i]));
        m = i == 5 ? coefficient : vfma(m, u, coefficient);
    }
    return m;
}
#else
INLINE vf mills(vf a)
{
    static const float c[] = { 0.12365607f,   0.12407225f, 0.10770187f,  0.110323295f,
                               -0.015280824f, 0.15545374f, -0.14181633f, 0.035889998f };
    const vf t = 1.0f / vfma(a, vset(0.31f), vset(1.0f));
    vf q = vset(c[7]);
    for (int i = 6; i >= 0; i--) q = vfma(q, t, vset(c[i]));
    return t * q;
}
#endif

INLINE struct normal normal_of(vf x)
{
    const vf a = vatmost(vabs(x), vset(14.5f)), density = vexp2_product(a, a * -0.72134752f);
    return (struct normal){ a, density, density * mills(a) };
}

#endif
