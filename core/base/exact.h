/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exact sums of floats, without rounding. The result does not depend on the order of the additions, nor on
 * how the terms are divided among ranks.
 */
#ifndef CORE_BASE_EXACT_H
#define CORE_BASE_EXACT_H

#include <yoke/base.h>

/*
 * Limbs of 32 bits each. The lowest bit is worth 2^-149. The limbs hold the range of f32, and 2^43 times the
 * largest f32.
 */
enum { YOKEI_EXACT_LIMBS = 10 };

/** A sum; all bytes zero is the sum 0. Between additions a limb may hold more than 32 bits. */
struct yokei_exact {
    uint64_t limb[YOKEI_EXACT_LIMBS];
    bool is_infinite; /* a term was not finite, or too large for f32 */
};

/** Add x >= 0. If x has more bits than an f32, all bits from 2^-149 on are added. */
void yokei_exact_add(struct yokei_exact *sum, double x);
/**
 * Carry the bits above 32 to the next limb. Equal sums then have equal limbs, and each limb is exact as a
 * double.
 */
void yokei_exact_carry(struct yokei_exact *sum);
/** sum += other. Both must have been carried. */
void yokei_exact_join(struct yokei_exact *sum, const double limbs[YOKEI_EXACT_LIMBS]);
/** The sum, to within 2^-52 of its value. Equal sums give equal results. */
double yokei_exact_value(const struct yokei_exact *sum);

#endif
