/* SPDX-License-Identifier: Apache-2.0 */
/* The agent of one rank. agent.h explains it. */
#include "cli/launch/agent.h"

#include <dirent.h>
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch/cores.h"
#include "cli/launch/job_dir.h"
#include "cli/launch/shared_memory.h"
#include "cli/libraries/libraries.h"
#include "core/base/base.h"

#define TICK_MS 20
#define BEAT_MS 500 /* between two signs of life */
/* longest time from a rank's end, caused by the launcher's end, to the launcher's own end */
#define ECHO_MS 100
#define ORPHAN_TURNS 200 /* turns of 10 ms each, in which processes that the rank had started may end */
#define HOLD_MS 1000     /* longest time for which the end of the launcher's connection is kept from a rank */
#define DYING_MS 300     /* time that a killed rank may take to be gone, with many threads and busy cores */

int cli_agent_variable(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static void set_unless_set(const char *name, const char *value) { setenv(name, value, 0); }

/* Set what must be in place before any library of the rank reads it. Runs in the child. */
static void prepare_environment(const struct cli_agent *agent)
{
    const char *devices = getenv("YOKE_DEVICES"), *bind = getenv("YOKE_BIND");
    /*
     * A transfer by CMA (cross-memory attach) from a dead peer aborts the process. On one host shared memory
     * is enough. With more transports MPI_Finalize was seen to hang, with one rank in a flush and the other
     * in the launcher's barrier.
     */
    const char *local = getenv("MPI_LOCALNRANKS");
    set_unless_set("UCX_TLS", local && atoi(local) == agent->size ? "posix,sysv,self" : "^cma");
    /*
     * UCX prints on stdout that a peer is gone and that messages are left. The ranks' records report this
     * more precisely.
     */
    set_unless_set("UCX_LOG_LEVEL", "fatal");
    set_unless_set("UCX_LOG_FILE", "stderr");
    cli_set_libraries();
    if (devices && *devices) {
        char spec[64];
        cli_device_of_rank(devices, agent->rank, spec, sizeof spec);
        setenv("YOKE_DEVICE", spec, 1);
    }
    if (!bind || strcmp(bind, "none")) {
        const bool near = bind && !strcmp(bind, "near");
        bool is_near;
        char text[16];
        const int n_cores = cli_cores_bind(agent, near ? devices : NULL, &is_near);
        /* The rank itself may later share out the cores anew, but not if the places of GPUs decided. */
        if (near && !is_near) setenv("YOKE_BIND", "cores", 1);
        yokei_text(text, sizeof text, "%d", YOKE_MAX(n_cores, 1));
        set_unless_set("OMP_NUM_THREADS", text);
        set_unless_set("POCL_MAX_PTHREAD_COUNT", text); /* PoCL ignores the binding */
    }
}

static void become_rank(const struct cli_agent *agent, char **words, pid_t agent_pid, int rank_end)
{
    sigset_t none;
    sigemptyset(&none);
    /* The rank gets a process group of its own, so that all its children can be ended with it. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent_pid) _exit(127);
    prepare_environment(agent);
    if (rank_end >= 0) dup2(rank_end, cli_agent_variable("PMI_FD", -1)); /* this copy stays open on exec */
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* the rank's group is not the terminal's; with `stty tostop`, printing would stop the rank */
    signal(SIGTTOU, SIG_IGN);
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

/* Some launchers give their ranks no descriptor, but the name of a port (PMI_PORT). */
static bool is_socket(int fd)
{
    struct stat st;
    return fd >= 0 && !fstat(fd, &st) && S_ISSOCK(st.st_mode);
}

static yoke_status start_rank(struct cli_agent *agent, char **words)
{
    const pid_t self = getpid();
    const int launcher = agent->pmi_fd >= 0 ? agent->pmi_fd : cli_agent_variable("PMI_FD", -1);
    int rank_end = -1;
    agent->pmi = CLI_PMI_RELAY_NONE;
    agent->started_s = time(NULL);
    if (is_socket(launcher)) YOKE_TRY(cli_pmi_relay_open(&agent->pmi, launcher, &rank_end));
    agent->pid = fork();
    if (agent->pid < 0) return yoke_fail(YOKE_ENOMEM, "no process for the rank: %s", strerror(errno));
    if (agent->pid == 0) become_rank(agent, words, self, rank_end);
    setpgid(agent->pid, agent->pid);    /* parent and child both do it, because either may come first */
    if (rank_end >= 0) close(rank_end); /* so that the connection ends with the rank */
    yokei_flight_set_agent(agent->record, YOKEI_AGENT_ALIVE, agent->pid, 0, 0);
    return YOKE_OK;
}

/* Wake the agent when `fd` has an event. -1 is ignored. */
static void add_to(int events, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (fd >= 0) epoll_ctl(events, EPOLL_CTL_ADD, fd, &event);
}

/*
 * Whether the launcher's process on this host (the proxy) was gone before the holder.
 *
 * A proxy that ends closes the ranks' connections first, and only then does the holder end. The agent holds
 * the EOF back from a rank that is starting MPI for HOLD_MS. Any other rank may read it at once, and exit
 * with a code. If the proxy lives longer than the holder, it is carrying out a rank's abort inside MPI. Epoll
 * reports the two events in their order.
 */
static bool proxy_went_first(const struct cli_agent *agent)
{
    struct epoll_event event;
    return epoll_wait(agent->launcher, &event, 1, ECHO_MS) == 1 && event.data.fd == agent->proxy;
}

/*
 * Whether we (the agent) or the launcher caused the rank's end. Then this end is not the cause of the job's
 * failure.
 *
 * Only the agent kills ranks when the launcher is gone, so any other signal is the rank's own. Two cases are
 * different. The rank may write to the launcher's closed pipe just before the agent detects the end, and get
 * SIGPIPE. And MPI may abort the rank (SIGABRT), because ranks on other hosts ended with the launcher. If
 * yoke run is the launcher, its end closes the agent's pipe before it closes the ranks' connections, because
 * the pipe was opened first.
 */
static bool is_echo(const struct cli_agent *agent, int signal, int code)
{
    struct pollfd holder = { .fd = agent->holder };
    const bool own = agent->pmi_fd >= 0;
    if (signal && agent->ending) return true;
    if (signal == SIGPIPE) return poll(&holder, 1, own ? 0 : ECHO_MS) == 1;
    if (signal == SIGABRT) return !own && proxy_went_first(agent);
    if (signal) return false;
    return code && (agent->orphaned || (own ? poll(&holder, 1, 0) == 1 : proxy_went_first(agent)));
}

/* Record the state of the rank, and publish it to other hosts. */
static void set_word(struct cli_agent *agent, enum yokei_agent_state state, int signal, int code)
{
    yokei_flight_set_agent(agent->record, state, agent->pid, signal, code);
    if (agent->local_size < agent->size) yokei_flight_publish(agent->record);
    if (agent->parent_fd >= 0) /* so that yoke run reads the record at once */
        syscall(SYS_pidfd_send_signal, agent->parent_fd, SIGCHLD, NULL, 0);
}

static void record_end(struct cli_agent *agent, int signal, int code)
{
    if (agent->abort_code
        && signal == SIGKILL) { /* the agent killed the rank, because the rank called MPI_Abort */
        signal = 0;
        code = agent->abort_code;
    }
    const bool echo = !agent->abort_code && is_echo(agent, signal, code);
    set_word(agent, echo ? YOKEI_AGENT_ENDED : YOKEI_AGENT_DEAD, signal, code);
    agent->ended = true;
    if (signal || code) cli_shared_segments_drop(agent->pid, agent->started_s);
}

/*
 * If the rank has ended, record its end and kill its process group, which are the processes that it had
 * started. Only then wait for the rank. Until then the rank is a zombie, and the kernel does not reuse its
 * process id or its group id. After that the id may belong to any process, so the agent sends no more signals
 * to it.
 */
static void look_for_end(struct cli_agent *agent)
{
    siginfo_t info = { 0 };
    if (waitid(P_PID, (id_t)agent->pid, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid) return;
    const bool by_itself = info.si_code == CLD_EXITED;
    record_end(agent, by_itself ? 0 : info.si_status, by_itself ? info.si_status : 0);
    kill(-agent->pid, SIGKILL);
    waitpid(agent->pid, NULL, 0);
}

/* Record what happened to the rank since the last call. */
static void reap(struct cli_agent *agent)
{
    siginfo_t info = { 0 };
    while (!agent->ended && !waitid(P_PID, (id_t)agent->pid, &info, WSTOPPED | WCONTINUED | WNOHANG)
           && info.si_pid) {
        if (info.si_code == CLD_STOPPED) set_word(agent, YOKEI_AGENT_STOPPED, info.si_status, 0);
        if (info.si_code == CLD_CONTINUED) set_word(agent, YOKEI_AGENT_ALIVE, 0, 0);
        info.si_pid = 0;
    }
    if (!agent->ended) look_for_end(agent);
    for (info.si_pid = 0;
         !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid && info.si_pid != agent->pid;
         info.si_pid = 0)
        waitpid(info.si_pid, NULL, 0); /* an orphan that became the agent's child */
}

/*
 * Kill the agent's children. If the rank had started a job, that job's agents end by themselves and clean up
 * after their ranks. So the agent kills them only with `agents_too`, to give them time.
 */
static void kill_children(bool agents_too)
{
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[64], line[512];
        int parent = 0;
        const pid_t pid = atoi(e->d_name);
        yokei_text(path, sizeof path, "/proc/%d/stat", (int)pid);
        const int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0) continue;
        const ssize_t n = read(fd, line, sizeof line - 1);
        close(fd);
        line[n > 0 ? n : 0] = '\0';
        const char *after = strrchr(line, ')'); /* the process name before it may hold any characters */
        if (after && sscanf(after + 1, " %*c %d", &parent) == 1 && parent == getpid()
            && (agents_too || !strstr(line, "(yoke agent ")))
            kill(pid, SIGKILL);
    }
    if (dir) closedir(dir);
}

/*
 * End the processes that the rank had started in sessions or groups of their own. They became the agent's
 * children when their parent ended, and so do the children that they leave.
 */
static void end_orphans(const struct cli_agent *agent)
{
    for (int turn = 0; turn < ORPHAN_TURNS && agent->ended; turn++) {
        pid_t got;
        while ((got = waitpid(-1, NULL, WNOHANG)) > 0) {}
        if (got < 0) return; /* there are no children left */
        kill_children(turn > ORPHAN_TURNS / 2);
        usleep(10000);
    }
}

/* Whether the rank has not yet started MPI, or is starting it. */
static bool is_starting(const struct cli_agent *agent)
{
    const uint32_t state = atomic_load(&agent->record->state);
    return state == YOKEI_RANK_UNBORN || state == YOKEI_RANK_STARTING;
}

/*
 * End the rank. If the rank has ended by itself before, that end is recorded first, because it is the cause.
 */
static void end_rank(struct cli_agent *agent)
{
    reap(agent);
    if (agent->ended) return;
    agent->ending = true;
    kill(-agent->pid, SIGKILL);
}

/* Carry out the supervisor's orders. True: it is time to exit. */
static bool obey_orders(struct cli_agent *agent)
{
    enum cli_command command;
    int argument;
    while (cli_order_read(agent->folder, agent->order, &command, &argument)) {
        agent->order++;
        if (command == CLI_COMMAND_LEAVE) return true;
        if (agent->ended) continue;
        if (command == CLI_COMMAND_SIGNAL) kill(agent->pid, argument);
        if (command == CLI_COMMAND_ABORT && argument >> 8 == agent->rank) {
            agent->abort_code = argument & 255 ? argument & 255 : 1;
            kill(-agent->pid, SIGKILL);
        }
        if (command == CLI_COMMAND_KILL && (argument < 0 || argument == agent->rank)) end_rank(agent);
    }
    return false;
}

/*
 * Sleep until an event, or until the next tick. If the rank has ended and the launcher is gone, the order of
 * epoll's events shows which came first. Epoll keeps this order, however late the agent wakes.
 */
static void sleep_until_news(struct cli_agent *agent, int events, int signals, int rank_fd)
{
    struct epoll_event event;
    /* This takes one tick at most, because a rank may send to its launcher without end. */
    const uint64_t until = yokei_now_ns() + TICK_MS * 1000000ull;
    for (int wait = TICK_MS; (wait || yokei_now_ns() < until) && epoll_wait(events, &event, 1, wait) == 1;
         wait = 0) {
        const int fd = event.data.fd;
        struct signalfd_siginfo info;
        if (cli_pmi_relay_serve(&agent->pmi, fd)) continue;
        /*
         * The signals are only drained. SIGCHLD has woken the agent, and orders come from the supervisor, not
         * from the launcher.
         */
        while (fd == signals && read(fd, &info, sizeof info) == (ssize_t)sizeof info) {}
        if (fd == rank_fd || (fd == signals && rank_fd < 0)) reap(agent);
        if (fd == agent->holder || fd == agent->supervisor) agent->orphaned = true;
        if (fd != signals) epoll_ctl(events, EPOLL_CTL_DEL, fd, NULL);
    }
}

static void wait_for_rank(struct cli_agent *agent, int milliseconds)
{
    for (int i = 0; i < milliseconds / 5 && !agent->ended; i++) {
        usleep(5000);
        reap(agent);
    }
}

/*
 * Whether the rank waits for the launcher's reply, in read() on their connection. Only MPI_Init and
 * MPI_Finalize read there. The agent detects it from outside, because the rank runs no code of Yoke at that
 * time.
 */
static bool is_at_launcher(const struct cli_agent *agent)
{
    char path[64], text[64] = "";
    long call = -1;
    unsigned long first = 0;
    yokei_text(path, sizeof path, "/proc/%d/syscall", (int)agent->pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && sscanf(text, "%ld %lx", &call, &first) == 2 && call == SYS_read
           && (long)first == cli_agent_variable("PMI_FD", -1);
}

/*
 * Send a heartbeat, and record the state of the rank that only the agent can detect. Publish both to other
 * hosts.
 */
static void beat(struct cli_agent *agent)
{
    const uint32_t state = atomic_load(&agent->record->state);
    const bool may = !agent->ended && (state == YOKEI_RANK_UNBORN || state == YOKEI_RANK_LEFT);
    atomic_store(&agent->record->at_launcher, may && is_at_launcher(agent));
    if (agent->local_size == agent->size) return;
    atomic_fetch_add(&agent->record->agent_beats, 1);
    yokei_flight_publish(agent->record);
}

/*
 * A rank that is starting MPI exits when it reads EOF from the launcher. If the launcher is gone, the agent
 * ends the rank before that. In any other case the EOF is forwarded after HOLD_MS.
 */
static void pass_on_hang_up(struct cli_agent *agent)
{
    if (!cli_pmi_relay_holds(&agent->pmi)) return;
    if (!agent->held_ns) agent->held_ns = yokei_now_ns();
    if (is_starting(agent) && yokei_now_ns() - agent->held_ns < HOLD_MS * 1000000ull) return;
    cli_pmi_relay_hang_up(&agent->pmi);
}

/*
 * Monitor the rank until the supervisor orders the agent to exit, or until the supervisor or the launcher is
 * gone.
 */
static void watch(struct cli_agent *agent, int signals)
{
    const int events = epoll_create1(EPOLL_CLOEXEC), rank_fd = (int)syscall(SYS_pidfd_open, agent->pid, 0);
    add_to(events, rank_fd);
    add_to(events, signals);
    add_to(events, agent->holder);
    add_to(events, agent->supervisor);
    cli_pmi_relay_watch(&agent->pmi, events);
    for (uint64_t beat_ns = 0;;) {
        sleep_until_news(agent, events, signals, rank_fd);
        reap(agent);
        if (yokei_now_ns() - beat_ns > BEAT_MS * 1000000ull) {
            beat_ns = yokei_now_ns();
            beat(agent);
        }
        const bool leave = obey_orders(agent);
        if (!leave && !agent->orphaned) {
            pass_on_hang_up(agent);
            continue;
        }
        if (!leave) wait_for_rank(agent, DYING_MS);
        end_rank(agent);
        wait_for_rank(agent, 1000);
        return;
    }
}

/*
 * A pidfd of the agent's parent. -1: the parent has ended, or the kernel is older than Linux 5.3. A process
 * number alone would not do, because the parent may end at any time, and another process may get the number.
 */
static int parent_descriptor(pid_t parent)
{
    const int fd = (int)syscall(SYS_pidfd_open, parent, 0);
    if (fd >= 0 && getppid() == parent) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* Choose the place of the rank's shared memory. */
static void prepare_shared_memory(struct cli_agent *agent)
{
    char note[512];
    const bool own = agent->pmi_fd >= 0;
    const bool ours = !own
                      && cli_shared_folder_choose(agent->local_size, agent->shared_path,
                                                  sizeof agent->shared_path, note, sizeof note);
    if (ours && *note && agent->local_rank == 0) cli_note("%s", note);
    agent->shared = cli_shared_folder_open(agent->shared_path);
}

yoke_status cli_agent_be(struct cli_agent *agent, char **words)
{
    sigset_t all;
    sigfillset(&all);
    int signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) return yoke_fail(YOKE_EINTERNAL, "signalfd: %s", strerror(errno));
    if (agent->parent) agent->parent_fd = parent_descriptor(agent->parent);
    agent->launcher = epoll_create1(EPOLL_CLOEXEC);
    add_to(agent->launcher, agent->proxy);
    add_to(agent->launcher, agent->holder);
    YOKE_TRY(yokei_flight_create(agent->folder, agent->rank, true, &agent->record));
    if (!agent->parent) YOKE_TRY(cli_agent_write(agent->folder, agent->rank));
    prepare_shared_memory(agent);
    cli_agent_adopt();
    YOKE_TRY(start_rank(agent, words));
    watch(agent, signals);
    end_orphans(agent);
    cli_shared_folder_close(agent->shared, agent->shared_path);
    return YOKE_OK;
}

void cli_agent_lost(struct cli_agent *agent)
{
    if (yokei_flight_create(agent->folder, agent->rank, false, &agent->record)) return;
    const struct yokei_agent_verdict last = yokei_flight_agent(agent->record);
    agent->pid = last.pid;
    /*
     * The children of the agent became ours when it ended (cli_agent_adopt). If the rank is among them, its
     * process id and its group id were not reused, because we have not reaped it. If it is not, the agent had
     * reaped it, and had killed its group before.
     */
    siginfo_t info = { 0 };
    const bool ours = last.pid > 1 && !waitid(P_PID, (id_t)last.pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if (ours) kill(-last.pid, SIGKILL); /* the rank ends with its agent, but its children do not */
    if (!yokei_agent_gone(last.state)) set_word(agent, YOKEI_AGENT_LOST, SIGKILL, 0);
    if (!ours) return;
    /* until the kernel has freed the rank's memory; -1 on an old kernel, where this is only a pause */
    struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, last.pid, 0), .events = POLLIN };
    poll(&end, 1, DYING_MS);
    if (end.fd >= 0) close(end.fd);
    waitpid(last.pid, NULL, WNOHANG);
}

void cli_agent_adopt(void) { prctl(PR_SET_CHILD_SUBREAPER, 1); }
