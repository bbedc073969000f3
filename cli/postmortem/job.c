/* SPDX-License-Identifier: Apache-2.0 */
/* A replay in the layout of the run: yoke run starts the ranks, and each rank is a yoke replay. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/postmortem/postmortem.h"
#include "core/base/base.h"

enum { LAST_SECONDS = 10 }; /* from the request to end to the kill */

/* In the child: become yoke run. What it and the ranks print goes to the file `log`. */
static _Noreturn void become_job(const struct yokei_postmortem_job *job, const char *log, pid_t parent)
{
    char self[4096], n[16];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC),
              out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || length < 0 || nothing < 0 || out < 0) _exit(1);
    self[length] = 0;
    yokei_text(n, sizeof n, "%d", job->n_ranks);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    cli_forget_outer_job();
    for (const char *const *name = (const char *const[]){ "YOKE_RUN_DIR", "YOKE_HOSTS", "YOKE_LAUNCHER",
                                                          "YOKE_RANKS", "YOKE_DEVICES", "YOKE_CONFIG", NULL };
         *name; name++)
        unsetenv(*name);
    /* the plan has the threads of each rank, so none is bound */
    execl(self, "yoke", "run", "-n", n, "--devices", job->devices, "--bind", "none", "--launcher", "own",
          "--grace", "5s", "--run-dir", job->folder, "--", "replay", job->order, (char *)NULL);
    _exit(1);
}

/* Wait for the job's end. If it takes too long, ask it to end, and kill it in the end. True: in time. */
static bool await(pid_t child, double seconds, int *code_out)
{
    const uint64_t begun = yokei_now_ns();
    const int fd = (int)syscall(SYS_pidfd_open, child, 0);
    bool in_time = true, is_killed = false;
    for (;;) {
        const pid_t got = waitpid(child, code_out, WNOHANG);
        if (got == child || (got < 0 && errno != EINTR)) break;
        const double left = seconds - yokei_seconds_since(begun);
        if (in_time && left <= 0) {
            kill(child, SIGTERM);
            in_time = false;
        }
        if (!is_killed && left < -LAST_SECONDS) {
            kill(child, SIGKILL); /* the agents then end their ranks */
            is_killed = true;
        }
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        const double next = in_time ? left : 1;
        poll(&wait, fd >= 0 ? 1 : 0, fd >= 0 && next < 1000 ? (int)(next * 1e3) + 1 : fd >= 0 ? 1000000 : 10);
    }
    if (fd >= 0) close(fd);
    return in_time;
}

/* The first error that the job printed; else its last line. */
static void read_reason(const char *log, char *why, size_t bytes)
{
    static const char mark[] = "yoke: error: ";
    char line[1024];
    FILE *from = fopen(log, "r");
    yokei_text(why, bytes, "it failed, and printed nothing");
    if (!from) return;
    while (fgets(line, sizeof line, from)) {
        line[strcspn(line, "\n")] = 0;
        const char *at = strstr(line, mark);
        if (line[0]) yokei_text(why, bytes, "%s", at ? at + sizeof mark - 1 : line);
        if (at) break;
    }
    fclose(from);
}

bool cli_postmortem_run_job(void *context, const struct yokei_postmortem_job *job, char *why, size_t bytes)
{
    char log[4200];
    int code = 0;
    (void)context;
    yokei_text(log, sizeof log, "%s/job.log", job->folder);
    fflush(NULL);
    const pid_t parent = getpid(), child = fork();
    if (child == 0) become_job(job, log, parent);
    if (child < 0) {
        yokei_text(why, bytes, "no process: %s", strerror(errno));
        return false;
    }
    if (!await(child, job->seconds, &code)) {
        yokei_text(why, bytes, "it took longer than %.0f s", job->seconds);
        return false;
    }
    if (WIFEXITED(code) && !WEXITSTATUS(code)) return true;
    if (WIFSIGNALED(code))
        yokei_text(why, bytes, "its launcher was ended by signal %d (%s)", WTERMSIG(code),
                   strsignal(WTERMSIG(code)));
    else
        read_reason(log, why, bytes);
    return false;
}
