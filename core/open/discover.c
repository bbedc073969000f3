/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery of devices. Each backend is probed in a child process of its own. Two vendors' run-time compilers
 * in one process can abort it, because each brings its own LLVM. A broken driver may also crash or hang. In a
 * child process, this costs only one line in the report.
 */
#include "core/base/base.h"
#include "core/open/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int PROBE_LIMIT_MS = 20000;

static _Noreturn void child(const struct yoke_backend *backend, int go, int fd)
{
    char byte;
    while (read(go, &byte, 1) < 0 && errno == EINTR) {} /* until the parent has this process's descriptor */
    /* Drivers print messages. Keep them off the caller's terminal. */
    const int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    struct yoke_probe probe;
    memset(&probe, 0, sizeof probe);
    backend->probe(&probe);
    const char *data = (const char *)&probe;
    for (size_t done = 0; done < sizeof probe;) {
        const ssize_t put = write(fd, data + done, sizeof probe - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) _exit(1);
        done += (size_t)put;
    }
    _exit(0); /* not exit(), because the exit handlers and buffers belong to the parent */
}

/*
 * Read one whole probe result. Returns false if the child ended, or the time was over, before the result was
 * complete.
 */
static bool receive(int fd, struct yoke_probe *probe, uint64_t deadline_ns, bool *late)
{
    size_t done = 0;
    while (done < sizeof *probe) {
        const uint64_t now = yokei_now_ns();
        if (now >= deadline_ns) {
            *late = true;
            return false;
        }
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int ready = poll(&p, 1, (int)((deadline_ns - now) / 1000000u) + 1);
        if (ready < 0 && errno != EINTR) return false;
        if (ready <= 0) continue;
        const ssize_t got = read(fd, (char *)probe + done, sizeof *probe - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

/*
 * A descriptor of the child, which waits at the pipe `go` so that it cannot have ended before. -1: the kernel
 * is older than Linux 5.3. Then let the child go on. The reading end is still open here, so the write raises
 * no SIGPIPE.
 */
static int let_go(pid_t pid, const int go[2])
{
    const int process = (int)syscall(SYS_pidfd_open, pid, 0);
    while (write(go[1], "", 1) < 0 && errno == EINTR) {}
    close(go[0]);
    close(go[1]);
    return process;
}

/*
 * End the child. It may have ended already. The program that called this library may ignore SIGCHLD, or wait
 * for all its children. Then nothing holds the child's number, and another process may have it. So the signal
 * goes to the descriptor. Without a descriptor the signal goes to the number.
 */
static void end_child(pid_t pid, int process)
{
    if (process >= 0)
        syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
    else
        kill(pid, SIGKILL);
}

/* Two pipes: the child waits at `go`, and answers on `answer`. */
static bool make_pipes(int go[2], int answer[2])
{
    if (pipe2(go, O_CLOEXEC)) return false;
    if (!pipe2(answer, O_CLOEXEC)) return true;
    close(go[0]);
    close(go[1]);
    return false;
}

static yoke_status probe_in_child(const struct yoke_backend *backend, struct yoke_backend_report *report)
{
    int go[2], fds[2];
    if (!make_pipes(go, fds))
        return yoke_fail(YOKE_ENOMEM, "discovery: no pipe for a child process: %s", strerror(errno));
    const pid_t pid = fork();
    if (pid < 0) {
        const int reason = errno;
        for (int i = 0; i < 2; i++) close(go[i]), close(fds[i]);
        return yoke_fail(YOKE_ENOMEM, "discovery: cannot start a child process: %s", strerror(reason));
    }
    if (pid == 0) {
        close(go[1]);
        close(fds[0]);
        child(backend, go[0], fds[1]);
    }
    close(fds[1]);
    const int process = let_go(pid, go);
    struct yoke_probe probe;
    bool late = false;
    const bool good = receive(fds[0], &probe, yokei_now_ns() + (uint64_t)PROBE_LIMIT_MS * 1000000u, &late);
    close(fds[0]);
    if (!good) end_child(pid, process);
    if (process >= 0) close(process);
    int end = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &end, 0)) < 0 && errno == EINTR) {}
    if (good) {
        report->n_devices = YOKE_MIN(probe.n_devices, YOKE_MAX_DEVICES);
        memcpy(report->devices, probe.devices, sizeof report->devices);
        yokei_text(report->reason, sizeof report->reason, "%s", report->n_devices ? "" : probe.reason);
    } else if (late) {
        yokei_text(report->reason, sizeof report->reason, "its driver did not answer within %d s",
                   PROBE_LIMIT_MS / 1000);
    } else if (ended
               != pid) { /* the program that called this library ignores SIGCHLD, or has waited for it */
        yokei_text(report->reason, sizeof report->reason, "its driver ended the probing process");
    } else if (WIFSIGNALED(end)) {
        yokei_text(report->reason, sizeof report->reason, "its driver crashed while it was probed (%s)",
                   strsignal(WTERMSIG(end)));
    } else {
        yokei_text(report->reason, sizeof report->reason,
                   "its driver ended the probing process (exit code %d)", WEXITSTATUS(end));
    }
    return YOKE_OK;
}

yoke_status yoke_discover(struct yoke_backend_report *reports_out, int capacity, int *n_reports_out)
{
    if (!reports_out || capacity < 1 || !n_reports_out)
        return yoke_fail(YOKE_EINVAL, "yoke_discover: needs room for at least one report");
    int n = 0;
    const struct yoke_backend *backend;
    for (; n < capacity && (backend = yokei_backend_at(n)); n++) {
        struct yoke_backend_report *r = &reports_out[n];
        *r = (struct yoke_backend_report){ .size = sizeof *r };
        yokei_text(r->name, sizeof r->name, "%s", backend->name);
        YOKE_TRY(probe_in_child(backend, r));
    }
    *n_reports_out = n;
    return YOKE_OK;
}
