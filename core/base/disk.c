/* SPDX-License-Identifier: Apache-2.0 */
/* Writes, fsyncs and renames of files that must not be lost. A test may inject a fault into each of them. */
#include "core/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool watched, kills, full;
    long long at, n;
} fault;

void yokei_disk_watch(void)
{
    const char *text = getenv("YOKE_SAVE_FAULT");
    char kind[8] = "";
    fault.watched = text && sscanf(text, "%4[a-z]=%lld", kind, &fault.at) == 2;
    fault.kills = strcmp(kind, "kill") == 0;
    fault.full = fault.watched && !fault.kills && fault.at == 0;
}

void yokei_disk_unwatch(void) { fault.watched = fault.full = false; }

/* Whether this call must fail. */
static bool is_due(void)
{
    if (!fault.watched) return false;
    fault.full = fault.full || ++fault.n == fault.at;
    return fault.full;
}

/* Inject the fault: kill the process, or report a full disk. */
static void strike(void)
{
    if (fault.kills) kill(getpid(), SIGKILL);
    errno = ENOSPC;
}

/* ---- writes without signals: a library must not end its caller's process ---- */

static void hold_signals(sigset_t *held, sigset_t *was)
{
    sigemptyset(held);
    sigaddset(held, SIGXFSZ);
    sigaddset(held, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, held, was);
}

/*
 * `error` is the error of the call between hold_signals and release_signals. If this call sent a signal to
 * this thread, the signal is removed.
 */
static void release_signals(const sigset_t *was, int error)
{
    const struct timespec now = { 0 };
    const int signal = error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
    sigset_t one;
    sigemptyset(&one);
    if (signal) sigaddset(&one, signal);
    if (signal && !sigismember(was, signal)) sigtimedwait(&one, NULL, &now);
    pthread_sigmask(SIG_SETMASK, was, NULL);
}

/* Returns 0, or the error number. */
static int put(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        const ssize_t n = write(fd, data, YOKE_MIN(bytes, (size_t)1 << 30));
        struct pollfd room = { .fd = fd, .events = POLLOUT };
        /* stdout may be in non-blocking mode */
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && poll(&room, 1, -1) >= 0))) continue;
        if (n < 0) return errno;
        if (n == 0) return ENOSPC;
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

bool yokei_write_all(int fd, const void *data, size_t bytes)
{
    sigset_t held, was;
    hold_signals(&held, &was);
    const int error = put(fd, data, bytes);
    release_signals(&was, error);
    errno = error;
    return !error;
}

int yokei_file_reserve(int fd, size_t bytes)
{
    sigset_t held, was;
    hold_signals(&held, &was);
    const int error = posix_fallocate(fd, 0, (off_t)bytes);
    release_signals(&was, error);
    return error;
}

bool yokei_disk_write(int fd, const void *data, size_t bytes)
{
    const bool due = is_due();
    const bool good = yokei_write_all(fd, data, due ? bytes / 2 : bytes);
    if (due) strike();
    return good && !due;
}

int yokei_disk_sync(int fd)
{
    if (is_due()) return strike(), -1;
    return fsync(fd);
}

int yokei_disk_rename(const char *from, const char *to)
{
    if (is_due()) return strike(), -1;
    return rename(from, to);
}

int yokei_disk_remove(const char *path)
{
    if (is_due() && fault.kills) return strike(), -1; /* removing a file works on a full disk too */
    return remove(path);
}

yoke_status yokei_disk_sync_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool failed = fd < 0
                        || (yokei_disk_sync(fd)
                            && errno != EINVAL); /* some file systems do not offer fsync of a folder */
    const yoke_status status = failed ? yoke_fail(YOKE_EIO, "%s: the folder cannot be synchronised: %s", path,
                                                  strerror(errno))
                                      : YOKE_OK;
    if (fd >= 0) close(fd);
    return status;
}
