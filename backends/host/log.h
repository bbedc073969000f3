/* SPDX-License-Identifier: Apache-2.0 */
/** The natural logarithm of vectors. */
#ifndef BACKENDS_HOST_LOG_H
#define BACKENDS_HOST_LOG_H

#include "backends/host/vec.h"

/* ln 2 as the sum of two parts. */
#define LN2_HIGH 0x1.62e43p-1f
#define LN2_LOW -0x1.05c61p-29f

/**
 * ln x = n ln 2 + ln m,  m = x / 2^n in [sqrt(1/2), sqrt(2));  ln m = f - f^2 / 2 + f^3 q(f),  f = m - 1, q
 * of degree 8.
 * Bound: |vlog(x) - ln x| <= 2 u32 |ln x|, for x at least 2^-126 (tests/unit/host_log). 0 gives -infinity.
 * NaN and infinity stay as they are.
 * Source: q as in Moshier's Cephes, logf
 */
INLINE vf vlog(vf x)
{
    const vi shifted = (vi)x - 0x3f3504f3, n = shifted >> 23; /* n is 0 from sqrt(1/2) to sqrt(2) */
    const vf f = (vf)((vi)x - (n << 23)) - 1.0f, whole = __builtin_convertvector(n, vf);
    vf q = vset(7.0376836292e-2f);
    q = vfma(q, f, vset(-1.1514610310e-1f));
    q = vfma(q, f, vset(1.1676998740e-1f));
    q = vfma(q, f, vset(-1.2420140846e-1f));
    q = vfma(q, f, vset(1.4249322787e-1f));
    q = vfma(q, f, vset(-1.6668057665e-1f));
    q = vfma(q, f, vset(2.0000714765e-1f));
    q = vfma(q, f, vset(-2.4999993993e-1f));
    q = vfma(q, f, vset(3.3333331174e-1f));
    const vf square = f * f, rest = vfma(whole, vset(LN2_LOW), vfma(square, vset(-0.5f), square * (f * q)));
    const vf log = vfma(whole, vset(LN2_HIGH), f + rest);
    /* NaN for NaN, -infinity for 0 */
    return vselect(vless(vset(0), x), vselect(vless(x, vset(INFINITY)), log, x), x + vset(-INFINITY));
}

#endif
