/* SPDX-License-Identifier: Apache-2.0 */
/** Sums of floats without rounding: the same whatever the order, and whoever adds which of them. */
#ifndef CORE_BASE_EXACT_H
#define CORE_BASE_EXACT_H

#include <yoke/base.h>

/* 32 bits each, the lowest worth 2^-149: the range of f32, and 2^43 of the largest. */
enum { YOKEI_EXACT_LIMBS = 10 };

/** Zero-initialised: 0. A limb may hold more than its 32 bits between additions. */
struct yokei_exact {
    uint64_t limb[YOKEI_EXACT_LIMBS];
    bool is_infinite; /* something was not finite, or too large for f32 */
};

/** Add x >= 0; of an f64 all of its bits from 2^-149 on. */
void yokei_exact_add(struct yokei_exact *sum, double x);
/** Carry what is over 32 bits: the limbs are then the same for the same sum, and exact as doubles. */
void yokei_exact_carry(struct yokei_exact *sum);
/** sum += other; both carried. */
void yokei_exact_join(struct yokei_exact *sum, const double limbs[YOKEI_EXACT_LIMBS]);
/** To within 2^-52 of it, the same for the same sum. */
double yokei_exact_value(const struct yokei_exact *sum);

#endif
