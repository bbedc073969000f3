/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of MPI between hosts. There MPI_Finalize of MPICH 4.0 over UCX's tcp does not always return (3 in 10 runs of a
 * program that does one MPI_Sendrecv): a rank that has closed its connections waits for the launcher's barrier without
 * looking at the network, where others still wait for its word that all they sent has come. So ranks that have nothing
 * in flight say to the launcher that they are done, and leave it at that; the process's end frees what MPI holds.
 * Spoken is PMI-1, a line each way: barrier_in, barrier_out, finalize, finalize_ack.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/internal.h"

enum { ANSWER_MS = 5000 };

/* Say a line and read the answer; false when another came, or none in time. */
static bool ask(int fd, const char *line, const char *answer)
{
    char text[256];
    size_t used = 0;
    if (write(fd, line, strlen(line)) != (ssize_t)strlen(line)) return false;
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    while (used + 1 < sizeof text && poll(&wait, 1, ANSWER_MS) == 1) {
        const ssize_t n = read(fd, text + used, sizeof text - 1 - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        used += (size_t)n;
        text[used] = '\0';
        if (strchr(text, '\n')) return !strncmp(text, answer, strlen(answer));
    }
    return false;
}

bool yokei_leave_launcher(void)
{
    const char *fd = getenv("PMI_FD"), *here = getenv("MPI_LOCALNRANKS"), *all = getenv("PMI_SIZE");
    if (!fd || !here || !all || atoi(here) >= atoi(all)) return false;
    /* Nobody leaves while others still look at the network: they would meet a connection that is gone. */
    if (!ask(atoi(fd), "cmd=barrier_in\n", "cmd=barrier_out")) return false;
    ask(atoi(fd), "cmd=finalize\n", "cmd=finalize_ack");
    return true;
}
