/* SPDX-License-Identifier: Apache-2.0 */
/* Which host this is. Names do not tell: machines of a cloud may all be called the same, and so may containers. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"

/* The boot of this machine's kernel, or the machine's name where that cannot be read. */
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
    /* A container with process numbers of its own sees none of the others' processes: as good as another machine. */
    const ssize_t n = readlink("/proc/self/ns/pid", processes, sizeof processes - 1);
    processes[n > 0 ? n : 0] = '\0';
    yokei_text(text, sizeof text, "%s|%s|%s", boot, processes, said ? said : "");
    return yokei_hash(text, strlen(text), 0);
}
