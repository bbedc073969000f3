/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of this host. Names are not enough: all machines of a cloud may have the same name, and so may
 * containers.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"

/* The boot id of this machine's kernel. If it cannot be read, the machine's name. */
static void machine(char *out, size_t bytes)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, out, bytes - 1) : 0;
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = '\0';
    if (n <= 0) gethostname(out, bytes - 1);
}

uint64_t yokei_host_id(void)
{
    char boot[64] = "", processes[64] = "", text[192];
    const char *said = getenv("YOKE_HOST_ID");
    machine(boot, sizeof boot);
    /*
     * A container with its own process ids sees no processes of the others, so it counts as another machine.
     */
    const ssize_t n = readlink("/proc/self/ns/pid", processes, sizeof processes - 1);
    processes[n > 0 ? n : 0] = '\0';
    yokei_text(text, sizeof text, "%s|%s|%s", boot, processes, said ? said : "");
    return yokei_hash(text, strlen(text), 0);
}
