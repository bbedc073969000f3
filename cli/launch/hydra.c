/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that MPICH's mpiexec starts, on several hosts or because --launcher asks for it. For each rank
 * mpiexec starts `yoke rank` (rank.c). mpiexec listens on a port of all interfaces, even with -iface. It
 * aborts when anything but its own proxies connects to this port (docs/HOSTS.md, "Ports").
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "cli/launch/shared_memory.h"
#include "core/base/base.h"

enum { VISITED = 3 }; /* exit code of a relay */

/*
 * Forward the launcher's output, up to its own message about a process that failed. That message begins with
 * an empty line, and yoke run's error text is more precise. The relay is a process of its own, so that
 * back-pressure of a slow reader does not delay the supervisor (the loop of yoke run).
 */
static void relay(int from)
{
    static const char banner[] =
        "\n===================================================================================\n"
        "=   BAD TERMINATION OF ONE";
    char buffer[1 << 16];
    /* bytes of the banner (the beginning of that message) that were read and are held back */
    size_t matched = 0;
    bool line_start = true;
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < n && banner[matched]; i++) {
            if (matched && buffer[i] != banner[matched]) {
                fwrite(banner, 1, matched, stdout);
                line_start = banner[matched - 1] == '\n';
                matched = 0;
            }
            if (buffer[i] == banner[matched] && (matched || line_start)) {
                matched++;
                continue;
            }
            putchar(buffer[i]);
            line_start = buffer[i] == '\n';
        }
        fflush(stdout);
        /* After the banner the relay reads to EOF, so that the launcher never gets SIGPIPE. */
    }
    if (banner[matched]) fwrite(banner, 1, matched, stdout);
    fflush(stdout);
    _exit(0);
}

/*
 * Forward stderr, and search it for mpiexec's message that a foreign process connected to its port. mpiexec
 * expects only its own proxies at that port, and aborts. The exit code reports whether the message came.
 */
static void relay_errors(int from)
{
    static const char word[] = "HYD_pmcd_pmiserv_proxy_init_cb";
    char buffer[(1 << 16) + sizeof word];
    size_t kept = 0; /* bytes kept from the end of the last read, because the message may have begun there */
    bool visited = false;
    ssize_t n;
    while ((n = read(from, buffer + kept, 1 << 16)) > 0) {
        for (ssize_t done = 0, m;
             done < n && (m = write(STDERR_FILENO, buffer + kept + done, (size_t)(n - done))) > 0;)
            done += m;
        const size_t length = kept + (size_t)n;
        visited = visited || memmem(buffer, length, word, sizeof word - 1);
        kept = YOKE_MIN(length, sizeof word - 2);
        memmove(buffer, buffer + length - kept, kept);
    }
    _exit(visited ? VISITED : 0);
}

/* Start a relay as a process of its own. *to_out is the descriptor to which the launcher must write. */
static yoke_status start_relay(void (*relays)(int from), pid_t *pid_out, int *to_out)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return yoke_fail(YOKE_EINTERNAL, "pipe: %s", strerror(errno));
    pid_t parent = getpid();
    fflush(NULL);
    *pid_out = fork();
    if (*pid_out == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[1]);
        if (*to_out >= 0) close(*to_out); /* the other relay's pipe */
        if (getppid() == parent) relays(fds[0]);
        _exit(1);
    }
    close(fds[0]);
    if (*pid_out < 0) {
        close(fds[1]);
        return yoke_fail(YOKE_ENOMEM, "no process for the ranks' output: %s", strerror(errno));
    }
    *to_out = fds[1];
    return YOKE_OK;
}

/* No signal may ever go to the process -1, because to kill() it means all processes. */
static yoke_status no_launcher(struct cli_job *job)
{
    job->launcher = 0;
    return yoke_fail(YOKE_ENOMEM, "no process for the launcher: %s", strerror(errno));
}

static yoke_status start_launcher(const struct cli_context *context, struct cli_job *job,
                                  const char *launcher, int output, int errors)
{
    const char *hosts = job->hosts[0] ? job->hosts : cli_text(context->options, "hosts");
    char self[4096], count[16], each[16];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return yoke_fail(
            YOKE_EIO,
            "/proc/self/exe: %s: yoke run finds itself and its ranks by /proc: mount -t proc proc /proc",
            strerror(errno));
    self[length] = 0;
    yokei_text(count, sizeof count, "%d", job->n_ranks);
    char **line = calloc((size_t)context->n_words + 16, sizeof *line);
    int n = 0, failure[2];
    if (!line) return yoke_fail(YOKE_ENOMEM, "no memory for the launcher's command line");
    if (pipe2(failure, O_CLOEXEC)) {
        free(line);
        return yoke_fail(YOKE_EINTERNAL, "pipe: %s", strerror(errno));
    }
    line[n++] = (char *)launcher;
    line[n++] = "-n", line[n++] = count;
    if (hosts) line[n++] = "-hosts", line[n++] = (char *)hosts;
    if (hosts && !strchr(hosts, ':')) {
        /*
         * Put neighbouring ranks on one host. By default the launcher assigns the ranks round-robin, and
         * every message between neighbours would then leave its host.
         */
        const int n_hosts = cli_list_count(context->options, "hosts");
        yokei_text(each, sizeof each, "%d", (job->n_ranks + n_hosts - 1) / n_hosts);
        line[n++] = "-ppn", line[n++] = each;
    }
    line[n++] = self, line[n++] = "rank", line[n++] = "--";
    for (int i = 0; i < context->n_words; i++) line[n++] = context->words[i];
    pid_t parent = getpid();
    job->launcher = fork();
    if (job->launcher == 0) {
        setpgid(0, 0); /* so that only yoke run gets a terminal's SIGINT */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_RDONLY);
        if (null > 0) dup2(null, 0);
        dup2(output, 1);
        dup2(errors, 2);
        if (getppid() == parent) execvp(line[0], line);
        int reason = errno;
        (void)!write(failure[1], &reason, sizeof reason);
        _exit(127);
    }
    free(line);
    close(failure[1]);
    int reason = 0;
    ssize_t got = job->launcher > 0 ? read(failure[0], &reason, sizeof reason) : 0;
    close(failure[0]);
    if (job->launcher < 0) return no_launcher(job);
    if (got == (ssize_t)sizeof reason)
        return yoke_fail(YOKE_ENODEV, "%s: cannot be started: %s; install MPICH (apt-get install mpich)",
                         launcher, strerror(reason));
    setpgid(job->launcher, job->launcher);
    return YOKE_OK;
}

/*
 * Wait for a relay. It ends when the launcher's last process has ended. Returns its exit code; -1: it did not
 * exit normally.
 */
static int end_relay(pid_t *pid)
{
    int code = -1;
    pid_t ended = 0;
    for (int i = 0; *pid > 0 && (ended = waitpid(*pid, &code, WNOHANG)) == 0; i++) {
        if (i == 5000) kill(*pid, SIGKILL);
        usleep(1000);
    }
    *pid = 0;
    return ended > 0 && WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

void cli_hydra_end(struct cli_job *job)
{
    end_relay(&job->relay);
    if (end_relay(&job->error_relay) == VISITED) job->visited = true;
    cli_shared_folder_drop(job->n_ranks);
}

yoke_status cli_hydra_start(const struct cli_context *context, const char *launcher, struct cli_job *job)
{
    int output = -1, errors = -1;
    yoke_status status;
    YOKE_TRY(start_relay(relay, &job->relay, &output));
    errors = output;
    YOKE_TRY_GOTO(start_relay(relay_errors, &job->error_relay, &errors), out);
    status = start_launcher(context, job, launcher, output, errors);
    close(errors);
out:
    close(output);
    return status;
}
