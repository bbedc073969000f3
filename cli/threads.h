/* SPDX-License-Identifier: Apache-2.0 */
/** Threads of the libraries that compute (OpenMP, PoCL, OpenBLAS): their number, and how long they spin. */
#ifndef CLI_THREADS_H
#define CLI_THREADS_H

#include <stdbool.h>

/**
 * Set the variables by which OpenMP's threads spin for 100 microseconds before they sleep, for libraries that are not loaded yet.
 * false: the user has said how threads wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME), and nothing was set.
 */
bool cli_set_spin(void);
/**
 * The same for this process: where something was set, the program starts anew, so call this before anything else. Also lowers
 * POCL_MAX_PTHREAD_COUNT and OPENBLAS_NUM_THREADS to the processing units of this process, with a warning.
 */
void cli_bound_threads(void);

/**
 * Make sure that libraries which read their thread counts when they are loaded see `n`: sets the variables and starts
 * the program anew where they differ. Returns in the process that has them.
 */
void cli_with_threads(int n);
/** The same, where OpenMP's threads, which are not the device's, must not spin on its cores when they have nothing to do. */
void cli_with_sleeping_threads(int n);

#endif
