/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke rank: the agent of one rank. MPICH's launcher kills all that it started within a millisecond when one of them ends
 * badly, or when a rank aborts inside MPI. So what it starts is a mere holder, which keeps the launcher's PMI descriptor
 * open and waits. Its child, the agent, is in a process group of its own, where the launcher does not reach it. The agent
 * starts the rank, records in the rank's flight record that it stopped, goes on or ended, and leaves when the supervisor
 * says so.
 * When the holder, and so the launcher, is gone, it ends the rank, but first records how the rank had ended by itself.
 * Neither calls anything of MPI.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/job_dir.h"
#include "cli/threads.h"
#include "collectives/flight.h"
#include "core/base/base.h"

#define TICK_MS 20
#define BEAT_MS 500  /* between two signs of life */
#define ECHO_MS 100  /* from a rank's end by the launcher's to the launcher's own */
#define DYING_MS 300 /* a rank that was killed may take so long to be gone, with many threads and busy cores */

struct agent {
    const char *folder;
    int rank, size;             /* of the job */
    int local_rank, local_size; /* on this host */
    int supervisor;             /* pidfd of yoke run where it is on this host, else -1 */
    int holder;                 /* a pipe that ends with the holder */
    int proxy;                  /* pidfd of the launcher's process on this host, which started the holder, else -1 */
    int launcher;               /* epoll on both: the order in which they ended */
    pid_t pid;                  /* of the rank */
    bool ended;
    bool orphaned;              /* the launcher or the supervisor is gone */
    bool ending;                /* we have killed the rank */
    int order;                  /* orders carried out */
    bool harmed;                /* the rank ended badly */
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

/* pidfd of the supervisor when it runs on this host. YOKE_SUPERVISOR is "pid start-time host's-id". */
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
    cli_set_spin();
    char note[512];
    /* Where there is too little to start, yoke_mpi_start says so. */
    if (!yokei_make_room(agent->local_size, note, sizeof note) && *note && agent->local_rank == 0) cli_note("%s", note);
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

/* Have an event of `fd` wake us; -1 is passed over. */
static void add_to(int events, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (fd >= 0) epoll_ctl(events, EPOLL_CTL_ADD, fd, &event);
}

/*
 * Whether the launcher's process on this host was gone before the holder. Its end closes the ranks' connections to it, on
 * which a rank that starts MPI leaves with a code, and only then ends the holder. Where it outlives the holder it is doing
 * as a rank asked that aborted inside MPI. Epoll hands the two ends out in the order in which they came.
 */
static bool proxy_went_first(const struct agent *agent)
{
    struct epoll_event event;
    return epoll_wait(agent->launcher, &event, 1, ECHO_MS) == 1 && event.data.fd == agent->proxy;
}

/*
 * Whether its end was our doing or the launcher's: then it is no cause. Nobody but us kills ranks when the launcher is gone, so
 * another signal is the rank's own; but it may meet the launcher's closed pipe an instant before we do, and give up.
 */
static bool is_echo(const struct agent *agent, int signal, int code)
{
    struct pollfd holder = { .fd = agent->holder };
    if (signal) return agent->ending || (signal == SIGPIPE && poll(&holder, 1, ECHO_MS) == 1);
    return code && (agent->orphaned || proxy_went_first(agent));
}

/* Say how the rank fares, to other hosts too. */
static void set_word(struct agent *agent, enum yokei_agent_state state, int signal, int code)
{
    yokei_flight_set_agent(agent->record, state, agent->pid, signal, code);
    if (agent->local_size < agent->size) yokei_flight_publish(agent->record);
}

static void record_end(struct agent *agent, int signal, int code)
{
    const bool echo = is_echo(agent, signal, code);
    set_word(agent, echo ? YOKEI_AGENT_ENDED : YOKEI_AGENT_DEAD, signal, code);
    agent->ended = true;
    agent->harmed = signal || code;
}

/* Record what happened to the rank since the last look. */
static void reap(struct agent *agent)
{
    siginfo_t info = { 0 };
    while (!agent->ended && !waitid(P_PID, (id_t)agent->pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) && info.si_pid) {
        switch (info.si_code) {
        case CLD_STOPPED: set_word(agent, YOKEI_AGENT_STOPPED, info.si_status, 0); break;
        case CLD_CONTINUED: set_word(agent, YOKEI_AGENT_ALIVE, 0, 0); break;
        case CLD_EXITED: record_end(agent, 0, info.si_status); break;
        case CLD_KILLED:
        case CLD_DUMPED: record_end(agent, info.si_status, 0); break;
        default: break;
        }
        info.si_pid = 0;
    }
    if (agent->ended) kill(-agent->pid, SIGKILL); /* what the rank had started itself */
}

/* End the rank. How it had ended before, if it had, is recorded first: that is the cause, and this is not. */
static void end_rank(struct agent *agent)
{
    reap(agent);
    if (agent->ended) return;
    agent->ending = true;
    kill(-agent->pid, SIGKILL);
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
        if (command == CLI_COMMAND_KILL && (argument < 0 || argument == agent->rank)) end_rank(agent);
    }
    return false;
}

/*
 * Sleep until something happens or the next tick. Where the rank has ended and the launcher is gone, epoll tells what came
 * first: it hands events out in the order in which they came, however late we wake.
 */
static void sleep_until_news(struct agent *agent, int events, int signals, int rank_fd)
{
    struct epoll_event event;
    for (int wait = TICK_MS; epoll_wait(events, &event, 1, wait) == 1; wait = 0) {
        const int fd = event.data.fd;
        struct signalfd_siginfo info;
        /* Drained only: SIGCHLD is why we woke, and orders come from the supervisor, not from the launcher. */
        while (fd == signals && read(fd, &info, sizeof info) == (ssize_t)sizeof info) {}
        if (fd == rank_fd || (fd == signals && rank_fd < 0)) reap(agent);
        if (fd == agent->holder || fd == agent->supervisor) agent->orphaned = true;
        if (fd != signals) epoll_ctl(events, EPOLL_CTL_DEL, fd, NULL);
    }
}

static void wait_for_rank(struct agent *agent, int milliseconds)
{
    for (int i = 0; i < milliseconds / 5 && !agent->ended; i++) {
        usleep(5000);
        reap(agent);
    }
}

/*
 * Whether the rank waits for the launcher's answer: in read() of their connection, where nothing but MPI's start and end keep it. Seen from
 * outside, because the rank runs none of our code then.
 */
static bool is_at_launcher(const struct agent *agent)
{
    char path[64], text[64] = "";
    long call = -1;
    unsigned long first = 0;
    yokei_text(path, sizeof path, "/proc/%d/syscall", (int)agent->pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && sscanf(text, "%ld %lx", &call, &first) == 2 && call == SYS_read && (long)first == variable("PMI_FD", -1);
}

/* A sign of life, and what only we can see of the rank; to other hosts too. */
static void beat(struct agent *agent)
{
    const uint32_t state = atomic_load(&agent->record->state);
    const bool may = !agent->ended && (state == YOKEI_RANK_UNBORN || state == YOKEI_RANK_LEFT);
    atomic_store(&agent->record->at_launcher, may && is_at_launcher(agent));
    if (agent->local_size == agent->size) return;
    atomic_fetch_add(&agent->record->agent_beats, 1);
    yokei_flight_publish(agent->record);
}

/* True: the supervisor said that all is done. False: it or the launcher is gone. */
static bool watch(struct agent *agent, int signals)
{
    const int events = epoll_create1(EPOLL_CLOEXEC), rank_fd = (int)syscall(SYS_pidfd_open, agent->pid, 0);
    add_to(events, rank_fd);
    add_to(events, signals);
    add_to(events, agent->holder);
    add_to(events, agent->supervisor);
    for (uint64_t beat_ns = 0;;) {
        sleep_until_news(agent, events, signals, rank_fd);
        reap(agent);
        if (yokei_now_ns() - beat_ns > BEAT_MS * 1000000ull) {
            beat_ns = yokei_now_ns();
            beat(agent);
        }
        const bool leave = obey(agent);
        if (!leave && !agent->orphaned) continue;
        if (!leave) wait_for_rank(agent, DYING_MS);
        end_rank(agent);
        wait_for_rank(agent, 1000);
        return leave;
    }
}

/*
 * Remove what ranks that were killed while MPI started left in /dev/shm. The supervisor does it on its host; where it is
 * gone, or on another host, the first agent does, and gives the other ranks half a second to die and to make a last file.
 */
static void tidy_up(const struct agent *agent, time_t start, bool dismissed)
{
    struct pollfd supervisor = { .fd = agent->supervisor, .events = POLLIN };
    const bool alone = !dismissed && (agent->supervisor < 0 || poll(&supervisor, 1, 0) == 1);
    if (agent->harmed) cli_sweep_shared_memory(start);
    for (int i = 0; i < 60 && alone && agent->local_rank == 0; i++) {
        const int n_held = cli_sweep_shared_memory(start);
        if (n_held == 0 && i >= 10) break;
        usleep(50000);
    }
}

static yoke_status be_agent(struct agent *agent, char **words)
{
    const time_t start = time(NULL);
    sigset_t all;
    sigfillset(&all);
    int signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) return yoke_fail(YOKE_EINTERNAL, "signalfd: %s", strerror(errno));
    agent->launcher = epoll_create1(EPOLL_CLOEXEC);
    add_to(agent->launcher, agent->proxy);
    add_to(agent->launcher, agent->holder);
    YOKE_TRY(yokei_flight_create(agent->folder, agent->rank, true, &agent->record));
    YOKE_TRY(cli_agent_write(agent->folder, agent->rank));
    YOKE_TRY(start_rank(agent, words));
    const bool dismissed = watch(agent, signals);
    tidy_up(agent, start, dismissed);
    return YOKE_OK;
}

/* The agent was killed: nobody else can say so where yoke run is on another host, and the rank's peers wait for word. */
static void record_loss(struct agent *agent)
{
    if (yokei_flight_create(agent->folder, agent->rank, false, &agent->record)) return;
    const struct yokei_agent_verdict last = yokei_flight_agent(agent->record);
    agent->pid = last.pid;
    if (!yokei_agent_gone(last.state)) set_word(agent, YOKEI_AGENT_LOST, SIGKILL, 0);
}

/* Start the agent, and wait for its end: what the launcher started ends in order whatever happens to the rank. */
static yoke_status hold(struct agent *agent, char **words)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return yoke_fail(YOKE_EINTERNAL, "pipe: %s", strerror(errno));
    agent->proxy = (int)syscall(SYS_pidfd_open, getppid(), 0); /* -1 on an old kernel: then only the holder's end tells */
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) return yoke_fail(YOKE_ENOMEM, "no process for the agent: %s", strerror(errno));
    if (pid == 0) {
        setpgid(0, 0);
        close(fds[1]);
        agent->holder = fds[0];
        const yoke_status status = be_agent(agent, words);
        if (status) cli_refuse(agent->folder, yoke_last_error());
        _exit(0);
    }
    close(fds[0]);
    int code = 0;
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(code)) record_loss(agent);
    return YOKE_OK; /* the other end of the pipe closes with us */
}

yoke_status cli_rank(const struct cli_context *context)
{
    struct agent agent = { .folder = getenv("YOKE_RUN_DIR"), .supervisor = -1, .holder = -1, .proxy = -1 };
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
    const yoke_status status = hold(&agent, context->words);
    if (status) cli_refuse(agent.folder, yoke_last_error());
    return YOKE_OK;
}
