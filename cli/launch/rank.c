/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke rank: the program that MPICH's launcher starts for each rank. The launcher kills all processes that it
 * started, within a millisecond, when one of them fails or when a rank aborts inside MPI. So this process is
 * only a holder. It keeps the launcher's PMI descriptor open and waits. Its child is the agent (agent.c),
 * which starts the rank and monitors it. The agent is in a process group of its own, so the launcher does not
 * kill it. If yoke run starts the ranks itself, there is no holder (spawn.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch/agent.h"
#include "cli/cli.h"
#include "cli/launch/job_dir.h"
#include "cli/launch/shared_memory.h"
#include "core/base/base.h"

/*
 * Whether Yoke's MPI supports the launcher. Ranks that Open MPI's launcher starts cannot connect to each
 * other.
 */
static bool launched_well(struct cli_agent *agent, char *why, size_t bytes)
{
    int expected = cli_agent_variable("YOKE_EXPECT_SIZE", 0);
    agent->rank = cli_agent_variable("PMI_RANK", -1);
    agent->size = cli_agent_variable("PMI_SIZE", 0);
    agent->local_rank = cli_agent_variable("MPI_LOCALRANKID", agent->rank);
    agent->local_size = cli_agent_variable("MPI_LOCALNRANKS", agent->size);
    if (agent->rank >= 0 && agent->size == expected && agent->rank < expected) return true;
    if (agent->rank < 0)
        yokei_text(
            why, bytes,
            "the launcher did not tell its processes which ranks they are, so each would be rank 0 of 1 instead of one "
            "of %d: it is %s; install MPICH's (apt-get install mpich) or unset YOKE_LAUNCHER",
            expected, getenv("OMPI_COMM_WORLD_SIZE") ? "Open MPI's" : "not MPICH's");
    else
        yokei_text(why, bytes, "the launcher started %d ranks, not %d", agent->size, expected);
    return false;
}

/* pidfd of the supervisor, if it runs on this host. YOKE_SUPERVISOR is "pid start-time host's-id". */
static yoke_status find_supervisor(int *fd_out)
{
    const char *text = getenv("YOKE_SUPERVISOR");
    int pid;
    unsigned long long start, host;
    uint64_t now = 0;
    *fd_out = -1;
    if (!text || sscanf(text, "%d %llu %llx", &pid, &start, &host) != 3)
        return yoke_fail(YOKE_EINVAL, "yoke rank is started by yoke run and is of no use by itself");
    if (host != yokei_host_id()) return YOKE_OK;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno != ESRCH)
        return YOKE_OK; /* on an old kernel; the agent then detects the launcher's exit instead */
    if (fd < 0 || !yokei_process_state(pid, &now) || now != start) {
        if (fd >= 0) close(fd);
        return yoke_fail(YOKE_EDEAD, "yoke run has ended");
    }
    *fd_out = fd;
    return YOKE_OK;
}

/*
 * Start the agent, and wait for its end. So the process that the launcher started ends normally, whatever
 * happens to the rank.
 */
static yoke_status hold_rank(struct cli_agent *agent, char **words)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return yoke_fail(YOKE_EINTERNAL, "pipe: %s", strerror(errno));
    /* -1 on an old kernel; then only the holder's exit shows that the launcher is gone */
    const pid_t launcher = getppid();
    agent->proxy = (int)syscall(SYS_pidfd_open, launcher, 0);
    if (agent->proxy >= 0 && getppid() != launcher) { /* it has ended; its id may be reused */
        close(agent->proxy);
        agent->proxy = -1;
    }
    cli_agent_adopt();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) return yoke_fail(YOKE_ENOMEM, "no process for the agent: %s", strerror(errno));
    if (pid == 0) {
        setpgid(0, 0);
        close(fds[1]);
        agent->holder = fds[0];
        const yoke_status status = cli_agent_be(agent, words);
        if (status) cli_refuse(agent->folder, yoke_last_error());
        _exit(0);
    }
    close(fds[0]);
    int code = 0;
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(code)) { /* if yoke run is on another host, only this process can record it */
        cli_agent_lost(agent);
        cli_shared_folder_drop(agent->local_size);
    }
    return YOKE_OK; /* the other end of the pipe closes when this process ends */
}

/*
 * Close the launcher's sockets, which every process that it starts inherits. They are the socket on which the
 * launcher listens, and the sockets between its own processes. A process that holds them keeps the port open
 * after the launcher's end. Files and pipes stay open, because they may be the user's.
 */
static void close_sockets(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const int pmi = cli_agent_variable("PMI_FD", -1);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        const int fd = atoi(e->d_name);
        if (fd > 2 && fd != pmi && fd != dirfd(dir) && !fstat(fd, &st) && S_ISSOCK(st.st_mode)) close(fd);
    }
    if (dir) closedir(dir);
    unsetenv("HYDI_CONTROL_FD");
}

yoke_status cli_rank(const struct cli_context *context)
{
    struct cli_agent agent = {
        .folder = getenv("YOKE_RUN_DIR"),
        .supervisor = -1,
        .holder = -1,
        .proxy = -1,
        .parent_fd = -1,
        .pmi_fd = -1,
    };
    char why[512];
    sigset_t all;
    if (!agent.folder || !context->n_words)
        return yoke_fail(YOKE_EINVAL, "yoke rank is started by yoke run and is of no use by itself");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_sockets();
    YOKE_TRY(find_supervisor(&agent.supervisor));
    if (!launched_well(&agent, why, sizeof why)) {
        cli_refuse(agent.folder, why);
        return YOKE_OK; /* yoke run prints the text, once */
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    const yoke_status status = hold_rank(&agent, context->words);
    if (status) cli_refuse(agent.folder, yoke_last_error());
    return YOKE_OK;
}
