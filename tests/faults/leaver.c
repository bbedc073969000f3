/* SPDX-License-Identifier: Apache-2.0 */
/* A rank as MPI makes it while it starts, reduced to one property: when the launcher closes its connection it leaves, with a
 * code, at once. */
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
