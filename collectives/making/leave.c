/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of MPI between hosts. There MPI_Finalize of MPICH 4.0 over UCX's tcp does not always return: it
 * hung in 3 of 10 runs of a program that calls MPI_Sendrecv once. A rank that has closed its connections
 * waits in the launcher's barrier and does not serve the network. Other ranks still wait for its confirmation
 * that all their data has arrived.
 * So a rank with nothing in flight reports to the launcher that it is done, and does not call MPI_Finalize.
 * The end of the process frees what MPI holds. The protocol is PMI-1, one line each way: barrier_in,
 * barrier_out, finalize, finalize_ack.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/faults/roll.h"
#include "collectives/making/mpi_end.h"

enum { ANSWER_MS = 5000, LOOK_MS = 20 };

/*
 * Send a line and read the answer. *answered_out is false if another answer came, or none in time. The answer
 * to a barrier waits for all ranks, and one of them may have died.
 */
static yoke_status ask(int fd, const char *line, const char *answer, bool *answered_out)
{
    char text[256];
    size_t used = 0;
    *answered_out = false;
    if (write(fd, line, strlen(line)) != (ssize_t)strlen(line)) return YOKE_OK;
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    for (int turn = 0; used + 1 < sizeof text && turn < ANSWER_MS / LOOK_MS; turn++) {
        YOKE_TRY(yokei_roll_look("yoke_mpi_stop: the launcher's last barrier"));
        if (poll(&wait, 1, LOOK_MS) != 1) continue;
        const ssize_t n = read(fd, text + used, sizeof text - 1 - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return YOKE_OK;
        used += (size_t)n;
        text[used] = '\0';
        if (!strchr(text, '\n')) continue;
        *answered_out = !strncmp(text, answer, strlen(answer));
        return YOKE_OK;
    }
    return YOKE_OK;
}

yoke_status yokei_leave_launcher(bool *left_out)
{
    const char *fd = getenv("PMI_FD"), *here = getenv("MPI_LOCALNRANKS"), *all = getenv("PMI_SIZE");
    bool answered = false;
    *left_out = false;
    if (!fd || !here || !all || atoi(here) >= atoi(all)) return YOKE_OK;
    /* No rank leaves while others still serve the network, because they would find a connection that is
       gone. */
    YOKE_TRY(ask(atoi(fd), "cmd=barrier_in\n", "cmd=barrier_out", &answered));
    if (!answered) return YOKE_OK;
    *left_out = true;
    return ask(atoi(fd), "cmd=finalize\n", "cmd=finalize_ack", &answered);
}
