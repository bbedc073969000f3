/* SPDX-License-Identifier: Apache-2.0 */
/** Which rank of this host ends first, for jobs without agents: witness.c. */
#ifndef COLLECTIVES_FAULTS_WITNESS_H
#define COLLECTIVES_FAULTS_WITNESS_H

#include <stdbool.h>

/**
 * From now on watch a rank of this host whose record is in the run directory. If this does not succeed, the
 * rank is not watched, which is no error.
 */
void yokei_witness_add(int world_rank);
/**
 * Call this when a rank that is waited for has the kernel's mark of a dead process. It notes the rank at
 * once, without waiting for the witness thread.
 */
void yokei_witness_glance(void);
void yokei_witness_end(void);
/** In a child process: there is no witness thread here. */
void yokei_witness_forget(void);

#endif
