/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Settings that libraries read when they are loaded: how many threads OpenMP, PoCL and OpenBLAS start, how
 * long these threads spin, and what UCX does when the process crashes.
 */
#ifndef CLI_LIBRARIES_LIBRARIES_H
#define CLI_LIBRARIES_LIBRARIES_H

#include <stdbool.h>

/**
 * Set variables for libraries that are not loaded yet:
 *  - OpenMP's threads spin for 100 microseconds before they sleep, unless the user has set OMP_WAIT_POLICY,
 *    GOMP_SPINCOUNT or KMP_BLOCKTIME.
 *  - UCX (the network library of MPICH) installs no handlers for crashes, unless the user has set
 *    UCX_HANDLE_ERRORS or UCX_ERROR_SIGNALS. The handlers allocate memory, so a process that crashes inside
 *    malloc would wait for its own lock instead of ending.
 * False: the user has set all of them, and nothing was set.
 */
bool cli_set_libraries(void);
/**
 * The same for this process. If a variable was set, the program executes itself again, so call this function
 * before anything else. The function also lowers POCL_MAX_PTHREAD_COUNT and OPENBLAS_NUM_THREADS to the
 * number of processing units of this process, with a warning.
 */
void cli_prepare_libraries(void);

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
