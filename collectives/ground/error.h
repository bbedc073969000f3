/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The error of a communicator. A communicator fails once, and its error then stays (it is sticky). Failing
 * sets the error, and nothing else: the caller may be in the middle of a step. The engine ends the
 * operations, writes the flight record and reports to the other ranks as soon as no step is being done
 * (yokei_settle_failure).
 */
#ifndef COLLECTIVES_GROUND_ERROR_H
#define COLLECTIVES_GROUND_ERROR_H

#include <stdatomic.h>
#include <stdbool.h>

#include <yoke/comm.h>

struct yokei_failure {
    atomic_int error; /* yoke_status, sticky */
    char text[1024];
    int culprit;     /* rank of the job that the error names; -1: none */
    bool unsettled;  /* the operations have not been ended yet, and the record does not have the error */
    bool unreported; /* the other ranks have not been sent the error yet */
};

/**
 * Fail the communicator, once, log the error, and mark it as not reported. Returns status. The lock is held.
 */
yoke_status yokei_comm_fail(yoke_comm *comm, yoke_status status, int culprit, const char *format, ...)
    YOKE_PRINTF(4, 5);
/** How yokei_comm_fail_as treats an error that another rank found. */
enum yokei_failing { YOKEI_FAIL_LOG = 1, YOKEI_FAIL_REPORT = 2 };
/** Fail the communicator, once, with a given text. `how` is a set of enum yokei_failing. */
void yokei_comm_fail_as(yoke_comm *comm, yoke_status status, int culprit, const char *text, unsigned how);
/** The communicator's sticky error, which is also written to the thread's error text. */
yoke_status yokei_sticky(yoke_comm *comm);

#endif
