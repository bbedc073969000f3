/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke rank: the agent of one rank. MPICH's launcher kills all ranks within a millisecond when a process that it started
 * ends badly, so it starts agents, which never do: the agent keeps the launcher's PMI descriptor open, starts the rank,
 * records in the rank's flight record that it stopped, goes on or ended, and leaves when the supervisor says so.
 * The agent calls nothing of MPI.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/job_dir.h"
#include "collectives/flight.h"
#include "core/base/base.h"

#define TICK_MS 20

struct agent {
    const char *folder;
    int rank, size;             /* of the job */
    int local_rank, local_size; /* on this host */
    int supervisor;             /* pidfd of yoke run where it is on this host, else -1 */
    pid_t pid;                  /* of the rank */
    bool ended;
    int order;                  /* orders carried out */
    bool harmed;                /* the rank ended by a signal */
    struct yokei_flight_file *record;
};

static int variable(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

/* Whether the launcher is the one that Yoke's MPI understands; an Open MPI launcher starts ranks that cannot meet. */
static bool launched_well(struct agent *agent, char *why, size_t bytes)
{
    int expected = variable("YOKE_EXPECT_SIZE", 0);
    agent->rank = variable("PMI_RANK", -1);
    agent->size = variable("PMI_SIZE", 0);
    agent->local_rank = variable("MPI_LOCALRANKID", agent->rank);
    agent->local_size = variable("MPI_LOCALNRANKS", agent->size);
    if (agent->rank >= 0 && agent->size == expected && agent->rank < expected) return true;
    if (agent->rank < 0)
        yokei_text(why, bytes, "the launcher did not tell its processes which ranks they are, so each would be rank 0 of 1 instead of one "
                   "of %d: it is %s; install MPICH's (apt-get install mpich) or unset YOKE_LAUNCHER", expected,
                   getenv("OMPI_COMM_WORLD_SIZE") ? "Open MPI's" : "not MPICH's");
    else
        yokei_text(why, bytes, "the launcher started %d ranks, not %d", agent->size, expected);
    return false;
}

/* pidfd of the supervisor when it runs on this host. YOKE_SUPERVISOR is "pid start-time host". */
static yoke_status find_supervisor(int *fd_out)
{
    const char *text = getenv("YOKE_SUPERVISOR");
    int pid;
    unsigned long long start;
    char host[64], here[64] = "";
    uint64_t now = 0;
    *fd_out = -1;
    if (!text || sscanf(text, "%d %llu %63s", &pid, &start, host) != 3)
        return yoke_fail(YOKE_EINVAL, "yoke rank is started by yoke run and is of no use by itself");
    gethostname(here, sizeof here - 1);
    if (strcmp(host, here)) return YOKE_OK;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno != ESRCH) return YOKE_OK; /* an old kernel: the launcher's end is noticed instead */
    if (fd < 0 || !yokei_process_state(pid, &now) || now != start) {
        if (fd >= 0) close(fd);
        return yoke_fail(YOKE_EDEAD, "yoke run has ended");
    }
    *fd_out = fd;
    return YOKE_OK;
}

static void set_unless_set(const char *name, const char *value) { setenv(name, value, 0); }

/* What must be in place before any library of the rank reads it. Runs in the child. */
static void prepare_environment(const struct agent *agent)
{
    const char *devices = getenv("YOKE_DEVICES"), *bind = getenv("YOKE_BIND");
    /* A transfer by CMA from a dead peer aborts the process. On one host shared memory alone will do: with more transports
     * MPI_Finalize was seen to hang, one rank in a flush and the other in the launcher's barrier. */
    const char *local = getenv("MPI_LOCALNRANKS");
    set_unless_set("UCX_TLS", local && atoi(local) == agent->size ? "posix,sysv,self" : "^cma");
    /* UCX writes to stdout that a peer is gone and that messages are left: the ranks' records say it, and say it better. */
    set_unless_set("UCX_LOG_LEVEL", "fatal");
    set_unless_set("UCX_LOG_FILE", "stderr");
    /* UCX reserves its receive buffers in /dev/shm, and writing past a full one is SIGBUS: containers have 64 MiB. */
    struct statvfs fs;
    if (!statvfs("/dev/shm", &fs) && (uint64_t)fs.f_bavail * fs.f_frsize < (uint64_t)agent->local_size * (64u << 20)) {
        const char *folder = getenv("TMPDIR");
        set_unless_set("UCX_POSIX_DIR", folder && *folder ? folder : "/tmp");
    }
    if (devices && *devices) {
        int n = 1;
        for (const char *c = devices; *c; c++) n += *c == ',';
        const char *item = devices;
        for (int i = agent->rank % n; i > 0; i--) item = strchr(item, ',') + 1;
        char spec[64];
        yokei_text(spec, sizeof spec, "%.*s", (int)strcspn(item, ","), item);
        setenv("YOKE_DEVICE", spec, 1);
    }
    if (!bind || strcmp(bind, "none")) {
        int n_cores = 0;
        char text[16];
        if (yokei_bind(agent->local_rank, agent->local_size, &n_cores) || n_cores < 1) n_cores = 1;
        yokei_text(text, sizeof text, "%d", n_cores);
        set_unless_set("OMP_NUM_THREADS", text);
        set_unless_set("POCL_MAX_PTHREAD_COUNT", text); /* PoCL ignores the binding */
    }
}

static void become_rank(const struct agent *agent, char **words, pid_t agent_pid)
{
    sigset_t none;
    sigemptyset(&none);
    /* A group of its own, so that whatever it starts can be ended with it. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent_pid) _exit(127);
    prepare_environment(agent);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int fd = open("/dev/null", O_RDONLY);
    if (fd > 0) dup2(fd, 0), close(fd);
    if (strchr(words[0], '/')) {
        execv(words[0], words);
    } else {
        char self[4096];
        int n = 0;
        while (words[n]) n++;
        char **line = calloc((size_t)n + 2, sizeof *line);
        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        if (line && length > 0) {
            self[length] = 0;
            line[0] = self;
            memcpy(line + 1, words, (size_t)n * sizeof *line);
            execv(self, line);
        }
    }
    char text[4200];
    yokei_text(text, sizeof text, "%s: cannot be started: %s", words[0], strerror(errno));
    yokei_text(agent->record->error, sizeof agent->record->error, "%s", text);
    atomic_store(&agent->record->status, YOKE_EINVAL);
    atomic_store(&agent->record->state, YOKEI_RANK_FAILED);
    _exit(127);
}

static yoke_status start_rank(struct agent *agent, char **words)
{
    pid_t self = getpid();
    agent->pid = fork();
    if (agent->pid < 0) return yoke_fail(YOKE_ENOMEM, "no process for the rank: %s", strerror(errno));
    if (agent->pid == 0) become_rank(agent, words, self);
    setpgid(agent->pid, agent->pid); /* both sides do it: whoever comes first */
    yokei_flight_set_agent(agent->record, YOKEI_AGENT_ALIVE, agent->pid, 0, 0);
    return YOKE_OK;
}

/* Record what happened to the rank since the last look. */
static void reap(struct agent *agent)
{
    siginfo_t info = { 0 };
    while (!agent->ended && !waitid(P_PID, (id_t)agent->pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) && info.si_pid) {
        switch (info.si_code) {
        case CLD_STOPPED: yokei_flight_set_agent(agent->record, YOKEI_AGENT_STOPPED, agent->pid, info.si_status, 0); break;
        case CLD_CONTINUED: yokei_flight_set_agent(agent->record, YOKEI_AGENT_ALIVE, agent->pid, 0, 0); break;
        case CLD_EXITED:
            yokei_flight_set_agent(agent->record, YOKEI_AGENT_DEAD, agent->pid, 0, info.si_status);
            agent->ended = true;
            break;
        case CLD_KILLED:
        case CLD_DUMPED:
            yokei_flight_set_agent(agent->record, YOKEI_AGENT_DEAD, agent->pid, info.si_status, 0);
            agent->ended = agent->harmed = true;
            break;
        default: break;
        }
        info.si_pid = 0;
    }
    if (agent->ended) kill(-agent->pid, SIGKILL); /* what the rank had started itself */
}

/* Carry out the supervisor's orders; true when it is time to leave. */
static bool obey(struct agent *agent)
{
    enum cli_command command;
    int argument;
    while (cli_order_read(agent->folder, agent->order, &command, &argument)) {
        agent->order++;
        if (command == CLI_COMMAND_LEAVE) return true;
        if (agent->ended) continue;
        if (command == CLI_COMMAND_SIGNAL) kill(agent->pid, argument);
        if (command == CLI_COMMAND_KILL && (argument < 0 || argument == agent->rank)) kill(-agent->pid, SIGKILL);
    }
    return false;
}

static void watch(struct agent *agent, int signals)
{
    struct pollfd fds[2] = { { .fd = signals, .events = POLLIN }, { .fd = agent->supervisor, .events = POLLIN } };
    for (;;) {
        poll(fds, agent->supervisor >= 0 ? 2 : 1, TICK_MS);
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
            /* Drained only: SIGCHLD is why we woke, and orders come from the supervisor, not from the launcher. */
        }
        reap(agent);
        bool orphaned = agent->supervisor >= 0 ? (fds[1].revents & POLLIN) != 0 : getppid() == 1;
        if (obey(agent) || orphaned) {
            if (!agent->ended) kill(-agent->pid, SIGKILL);
            for (int i = 0; i < 100 && !agent->ended; i++) {
                usleep(10000);
                reap(agent);
            }
            return;
        }
    }
}

/* When the launcher dies it takes its agents with it, and nobody is left to tidy up. So one process per host, of a session of
 * its own, waits for the end of this agent: a byte says that all is in order; silence, that it has to sweep instead. */
static int start_janitor(const struct agent *agent, time_t start)
{
    int fds[2];
    if (agent->local_rank != 0 || pipe2(fds, O_CLOEXEC)) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        prctl(PR_SET_PDEATHSIG, 0);
        const int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++) dup2(null, fd);
        if (fds[0] != 3) dup2(fds[0], 3);
        close_range(4, ~0u, 0); /* the launcher's descriptors too: it waits for their end */
        char byte;
        ssize_t n;
        while ((n = read(3, &byte, 1)) < 0 && errno == EINTR) {}
        for (int i = 0; i < 60 && n == 0; i++) {
            const int n_held = cli_sweep_shared_memory(start);
            if (n_held == 0 && i >= 10) break; /* the ranks had half a second to die, and to make a last file */
            usleep(50000);
        }
        _exit(0);
    }
    close(fds[0]);
    if (pid < 0) close(fds[1]);
    return pid < 0 ? -1 : fds[1];
}

yoke_status cli_rank(const struct cli_context *context)
{
    struct agent agent = { .folder = getenv("YOKE_RUN_DIR"), .supervisor = -1 };
    char why[512];
    sigset_t all;
    if (!agent.folder || !context->n_words) return yoke_fail(YOKE_EINVAL, "yoke rank is started by yoke run and is of no use by itself");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    YOKE_TRY(find_supervisor(&agent.supervisor));
    if (!launched_well(&agent, why, sizeof why)) {
        cli_refuse(agent.folder, why);
        return YOKE_OK; /* said by yoke run, once */
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    int signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) return yoke_fail(YOKE_EINTERNAL, "signalfd: %s", strerror(errno));
    yoke_status status;
    YOKE_TRY_GOTO(yokei_flight_create(agent.folder, agent.rank, true, &agent.record), refused);
    YOKE_TRY_GOTO(cli_agent_write(agent.folder, agent.rank), refused);
    time_t start = time(NULL);
    const int janitor = start_janitor(&agent, start);
    YOKE_TRY_GOTO(start_rank(&agent, context->words), refused);
    watch(&agent, signals);
    if (agent.harmed) cli_sweep_shared_memory(start);
    if (janitor >= 0 && write(janitor, "", 1) < 0) yoke_log(YOKE_LOG_DEBUG, "the janitor is gone");
    return YOKE_OK;
refused:
    cli_refuse(agent.folder, yoke_last_error());
    return YOKE_OK;
}
