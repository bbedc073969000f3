/* SPDX-License-Identifier: Apache-2.0 */
/* Runs work in a child process. */
#include "cli/devices/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"

static _Noreturn void work_in_child(cli_work work, const void *argument, void *shared, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    work(argument, shared);
    _exit(0); /* not exit(), because a driver's destructors may hang */
}

/* Wait for the child's end, for at most `limit_s` seconds. *code_out is the code of waitpid. */
static bool await(pid_t pid, double limit_s, int *code_out)
{
    uint64_t deadline = yokei_now_ns() + (uint64_t)(limit_s * 1e9);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool in_time = true;
    for (;;) {
        pid_t got = waitpid(pid, code_out, WNOHANG);
        if (got == pid) break;
        uint64_t now = yokei_now_ns();
        if (in_time && now >= deadline) {
            kill(pid, SIGKILL);
            in_time = false;
        }
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int ms = in_time ? (int)((deadline - now) / 1000000u) + 1 : 1000;
        poll(&wait, fd >= 0 ? 1 : 0, fd >= 0 ? ms : 10);
    }
    if (fd >= 0) close(fd);
    return in_time;
}

bool cli_in_child(cli_work work, const void *argument, void *result, size_t bytes, double limit_s,
                  char *reason, size_t reason_bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        yokei_text(reason, reason_bytes, "no memory for a child's result");
        return false;
    }
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) work_in_child(work, argument, shared, parent);
    int code = 0;
    bool good = false;
    if (pid < 0)
        yokei_text(reason, reason_bytes, "no child process: %s", strerror(errno));
    else if (!await(pid, limit_s, &code))
        yokei_text(reason, reason_bytes, "took longer than %g s", limit_s);
    else if (WIFSIGNALED(code))
        yokei_text(reason, reason_bytes, "crashed (%s)", strsignal(WTERMSIG(code)));
    else if (WEXITSTATUS(code))
        yokei_text(reason, reason_bytes, "ended its process with code %d", WEXITSTATUS(code));
    else
        good = true;
    if (good) memcpy(result, shared, bytes);
    munmap(shared, bytes);
    return good;
}
