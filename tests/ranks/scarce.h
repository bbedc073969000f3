/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Make one allocation of Yoke's libraries fail, on purpose. A program that is linked with scarce.c gets its
 * memory through it. A process that has libscarce.so preloaded does too. Allocations of other libraries, such
 * as MPI, do not count and do not fail. scarce.c itself is compiled without sanitizers, because it is called
 * before they are ready.
 */
#ifndef TESTS_RANKS_SCARCE_H
#define TESTS_RANKS_SCARCE_H

#include <stdbool.h>

/** Whether allocations can fail at all. They cannot under clang's sanitizers, which are part of the program.
 */
bool scarce_works(void);
/** From now on count the allocations of Yoke's libraries. The one with number `at` (from 1) fails; 0: none.
 */
void scarce_begin(long at);
/** Count no longer. Returns whether an allocation failed since scarce_begin. */
bool scarce_end(void);

#endif
