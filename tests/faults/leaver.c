/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for a rank during the start of MPI, with only one property of it: when the launcher closes its
 * connection, the process exits at once, with an exit code.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    const char *rank = getenv("PMI_RANK"), *fd = getenv("PMI_FD");
    if (!rank || !fd) return 1;
    printf("rank %s pid %d\n", rank, (int)getpid());
    fflush(stdout);
    struct pollfd launcher = { .fd = atoi(fd), .events = POLLIN };
    poll(&launcher, 1, -1);
    _exit(15);
}
