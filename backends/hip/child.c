/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Starts a program and waits for it. posix_spawn is used, because this process may have threads: between fork
 * and exec a child of such a process may call next to nothing. The child and its own children are one group
 * of processes, so all of them end when the time is over.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/hip/hip.h"

extern char **environ;

/* Beside libyoke in the build tree, or in its folder of an installation, which may have been moved. */
void yokei_hip_child_path(char *path, size_t bytes)
{
    Dl_info here;
    char beside[1024] = "";
    yokei_text(path, bytes, "%s/hip/yoke-hip-compile", YOKE_PKGLIBDIR);
    if (!dladdr((void *)(uintptr_t)&yokei_hip_child_path, &here) || !here.dli_fname) return;
    const char *built = strstr(here.dli_fname, ".libs/"), *slash = strrchr(here.dli_fname, '/');
    if (built)
        yokei_text(beside, sizeof beside, "%.*sbackends/hip/yoke-hip-compile", (int)(built - here.dli_fname),
                   here.dli_fname);
    else if (slash)
        yokei_text(beside, sizeof beside, "%.*s/yoke/hip/yoke-hip-compile", (int)(slash - here.dli_fname),
                   here.dli_fname);
    if (!access(beside, X_OK)) yokei_text(path, bytes, "%s", beside);
}

static bool start(const char *const arguments[], int output, pid_t *pid_out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    for (int s = SIGHUP; s <= SIGTERM; s++) sigaddset(&usual, s);
    sigaddset(&usual, SIGCHLD);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    const int error = posix_spawn(pid_out, arguments[0], &files, &attributes,
                                  (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    errno = error;
    return !error;
}

/* Read until all writers have closed the pipe. What does not fit is dropped. False: the time is over. */
static bool receive(int fd, uint64_t deadline_ns, char *text, size_t bytes)
{
    char rest[4096];
    size_t used = 0;
    for (;;) {
        const uint64_t now = yokei_now_ns();
        struct pollfd p = { .fd = fd, .events = POLLIN };
        text[used] = '\0';
        if (now >= deadline_ns) return false;
        const int ready = poll(&p, 1, (int)((deadline_ns - now) / 1000000u) + 1);
        if (ready < 0 && errno != EINTR) return true;
        if (ready <= 0) continue;
        const bool full = used + 1 >= bytes;
        const ssize_t got = full ? read(fd, rest, sizeof rest) : read(fd, text + used, bytes - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return true;
        if (!full) used += (size_t)got;
    }
}

int yokei_hip_child(const char *const arguments[], int seconds, char *text, size_t bytes)
{
    const uint64_t deadline = yokei_now_ns() + (uint64_t)seconds * 1000000000u;
    int ends[2], status = 0;
    pid_t pid = 0, ended = 0;
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC)) {
        yokei_text(text, bytes, "no pipe for a compiler: %s", strerror(errno));
        return HIP_CHILD_NOT_STARTED;
    }
    if (!start(arguments, ends[1], &pid)) {
        yokei_text(text, bytes, "cannot start %s: %s", arguments[0], strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return HIP_CHILD_NOT_STARTED;
    }
    close(ends[1]);
    bool late = !receive(ends[0], deadline, text, bytes);
    close(ends[0]);
    /* it has closed its output, so it is about to end */
    while (!late && !(ended = waitpid(pid, &status, WNOHANG))) {
        late = yokei_now_ns() >= deadline;
        usleep(1000);
    }
    if (late) {
        kill(-pid, SIGKILL);
        while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {}
        return HIP_CHILD_LATE;
    }
    /* a program that ignores SIGCHLD learns no status; the output file then says whether all is well */
    if (ended < 0) return 0;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return HIP_CHILD_KILLED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : HIP_CHILD_CRASHED;
}
