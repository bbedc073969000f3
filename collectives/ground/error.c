/* SPDX-License-Identifier: Apache-2.0 */
/* The sticky error of a communicator. */
#include <stdarg.h>
#include <stdio.h>

#include "collectives/ground/comm.h"

void yokei_comm_fail_as(yoke_comm *comm, yoke_status status, int culprit, const char *text, unsigned how)
{
    struct yokei_failure *failure = &comm->failure;
    if (atomic_load(&failure->error)) return;
    yokei_text(failure->text, sizeof failure->text, "%s", text);
    failure->culprit = culprit;
    failure->unsettled = true;
    failure->unreported = how & YOKEI_FAIL_REPORT;
    yokei_process.faulted = true;
    atomic_store(&failure->error, status);
    if (how & YOKEI_FAIL_LOG) yoke_log(YOKE_LOG_ERROR, "%s", failure->text);
}

yoke_status yokei_comm_fail(yoke_comm *comm, yoke_status status, int culprit, const char *format, ...)
{
    char text[sizeof comm->failure.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    yokei_comm_fail_as(comm, status, culprit, text, YOKEI_FAIL_LOG | YOKEI_FAIL_REPORT);
    return yokei_sticky(comm);
}

yoke_status yokei_sticky(yoke_comm *comm)
{
    const yoke_status status = (yoke_status)atomic_load(&comm->failure.error);
    return status ? yoke_fail(status, "%s", comm->failure.text) : YOKE_OK;
}
