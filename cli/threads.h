/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The threads of the libraries that compute (OpenMP, PoCL, OpenBLAS): how many there are, and how long they
 * spin.
 */
#ifndef CLI_THREADS_H
#define CLI_THREADS_H

#include <stdbool.h>

/**
 * Set the variables that make OpenMP's threads spin for 100 microseconds before they sleep. This works for
 * libraries that are not loaded yet. False: nothing was set, because the user has set OMP_WAIT_POLICY,
 * GOMP_SPINCOUNT or KMP_BLOCKTIME.
 */
bool cli_set_spin(void);
/**
 * The same for this process. If a variable was set, the program executes itself again, so call this function
 * before anything else. The function also lowers POCL_MAX_PTHREAD_COUNT and OPENBLAS_NUM_THREADS to the
 * number of processing units of this process, with a warning.
 */
void cli_bound_threads(void);

/**
 * Make sure that libraries which read their thread counts when they are loaded see `n`. If the variables
 * differ, the function sets them and executes the program again. It returns in the process whose variables
 * are right.
 */
void cli_with_threads(int n);
/**
 * The same, for programs in which OpenMP's threads are not the device's threads. OpenMP's idle threads sleep
 * at once, so that they do not spin on the device's cores.
 */
void cli_with_sleeping_threads(int n);

#endif
