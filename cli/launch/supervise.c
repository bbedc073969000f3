/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The loop of yoke run, the supervisor ("we"). It reads the ranks' records and forwards signals. After a rank
 * failed it gives the other ranks time to exit by their own verdicts, and ends the ranks that do not. It lets
 * the agents exit when all ranks have ended.
 */
#include "cli/launch/supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch/agent.h"
#include "cli/launch/end_ranks.h"
#include "cli/launch/job_dir.h"
#include "cli/launch/pmi.h"
#include "cli/launch/verdict.h"
#include "core/base/base.h"
#include "core/base/times.h"

#define TICK_MS 20
#define SILENT_SECONDS 2   /* longer than the limit of a far rank's peers, so that they report first */
#define FAR_SECONDS 0.1    /* between two reads of the record of a rank on another host */
#define REPORT_SECONDS 0.3 /* time after which a rank's death is printed, if the job still runs */
/* time without a check, after which yoke run itself was perhaps stopped, with its ranks */
#define AWAY_SECONDS 0.2
#define LEAVE_SECONDS 5
#define STALL_SECONDS 10 /* unless YOKE_STALL_MS says otherwise, as for the ranks */

/*
 * End the processes that do not exit by themselves: mpiexec with all processes that it started, or our
 * agents, with which their ranks end.
 */
static void end_launcher(struct cli_job *job)
{
    if (job->launcher && !job->launcher_ended) kill(-job->launcher, SIGKILL);
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].child) kill(job->ranks[r].child, SIGKILL);
}

/*
 * If ranks continued without ranks that had failed, were stopped, stuck or late, then the latter are no
 * longer failures of the job. True: there are new ones.
 */
static bool forgive(struct cli_job *job)
{
    bool any = false;
    for (int r = 0; r < job->n_ranks; r++) {
        if (!cli_rank_went_on(&job->ranks[r])) continue;
        for (int lost = 0; lost < job->n_ranks; lost++) {
            if (job->ranks[lost].forgiven || !yokei_flight_lost(job->ranks[r].record, lost)) continue;
            job->ranks[lost].forgiven = any = true;
        }
    }
    return any;
}

static bool any_failed(const struct cli_job *job)
{
    if (cli_aborted_rank(job) >= 0 || job->deserter >= 0) return true;
    for (int r = 0; r < job->n_ranks; r++)
        if (cli_rank_failed(&job->ranks[r]) || (job->ranks[r].stopped && !job->ranks[r].forgiven))
            return true;
    return false;
}

/*
 * Wake us when a process of this host ends. Returns its descriptor; -1: the process does not exist any more.
 * `start` is the time at which the process started (yokei_process_state). It distinguishes the process from a
 * later one with the same process id. The time is compared after the descriptor was opened, so both belong to
 * one process.
 */
static int wait_for_end(const struct cli_job *job, int pid, uint64_t start)
{
    uint64_t now = 0;
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (fd < 0) return -1;
    if (!yokei_process_state(pid, &now) || now != start) {
        close(fd);
        return -1;
    }
    epoll_ctl(job->ends, EPOLL_CTL_ADD, fd, &event);
    return fd;
}

void cli_watch_agent(struct cli_job *job, int r, pid_t agent)
{
    struct cli_rank_watch *rank = &job->ranks[r];
    struct epoll_event event = { .events = EPOLLIN, .data.fd = cli_pmi_fd(job->pmi, r) };
    rank->agent = rank->child = agent;
    rank->here = true;
    gethostname(rank->host, sizeof rank->host - 1);
    uint64_t start = 0;
    yokei_process_state(agent, &start); /* our own child, which we have not waited for */
    rank->agent_fd = wait_for_end(job, agent, start);
    epoll_ctl(job->ends, EPOLL_CTL_ADD, event.data.fd, &event);
}

static void look_for_agent(struct cli_job *job, int r)
{
    struct cli_rank_watch *rank = &job->ranks[r];
    uint64_t start;
    if (rank->agent
        || !cli_agent_read(job->folder, r, &rank->agent, &start, &rank->here, rank->host, sizeof rank->host)
        || !rank->here)
        return;
    rank->agent_fd = wait_for_end(job, rank->agent, start);
}

static double stall_seconds(void)
{
    const char *text = getenv("YOKE_STALL_MS");
    double ms = text ? strtod(text, NULL) : 0;
    return ms > 0 ? ms * 1e-3 : STALL_SECONDS;
}

static void look_at_record(struct cli_job *job, int r)
{
    struct cli_rank_watch *rank = &job->ranks[r];
    char name[64], path[4200];
    yokei_flight_name(r, name, sizeof name);
    yokei_text(path, sizeof path, "%s/%s", job->folder, name);
    if (rank->agent && !rank->here && yokei_now() - rank->read_at > FAR_SECONDS && !access(path, R_OK)) {
        rank->read_at = yokei_now();
        yokei_flight_look(job->folder, r, &rank->record);
    }
    if (!rank->record
        && (!rank->agent || !rank->here || access(path, R_OK)
            || yokei_flight_open(job->folder, r, &rank->record)))
        return;
    struct yokei_agent_verdict verdict = yokei_flight_agent(rank->record);
    if (!rank->here && !yokei_agent_gone(verdict.state)
        && (double)yokei_beats_stand(&rank->beats, rank->record, yokei_now_ns()) * 1e-9
               > stall_seconds() + SILENT_SECONDS)
        verdict.state = YOKEI_AGENT_SILENT;
    if (verdict.state == YOKEI_AGENT_LOST && job->lost_agent < 0 && !job->interrupted) job->lost_agent = r;
    if (verdict.state == YOKEI_AGENT_ALIVE && rank->rank_fd < 0 && rank->agent_fd >= 0)
        rank->rank_fd = wait_for_end(job, verdict.pid, atomic_load(&rank->record->rank_start));
    if (yokei_agent_gone(verdict.state)) rank->ended_at = job->n_ended, rank->ended_when = yokei_now();
    if (verdict.state == YOKEI_AGENT_ENDED) {
        rank->abandoned = !rank->killed && !job->interrupted;
        rank->killed = true;
    }
    if (verdict.state != YOKEI_AGENT_STOPPED)
        rank->stopped_at = 0;
    else if (!rank->stopped_at)
        rank->stopped_at = yokei_now();
    if (!rank->stopped)
        rank->verdict = verdict; /* what counts is how the rank was stopped, not that it was ended then */
}

static void look_at_ranks(struct cli_job *job)
{
    int before = job->n_ended, ended = 0;
    for (int r = 0; r < job->n_ranks; r++) {
        if (job->ranks[r].ended_at >= 0) continue;
        look_for_agent(job, r);
        look_at_record(job, r);
        ended += job->ranks[r].ended_at >= 0;
    }
    job->n_ended = before + ended;
    if (!job->refused[0]) cli_refused(job->folder, job->refused, sizeof job->refused);
}

/*
 * Look for a rank that ended with success while others wait for it inside MPI. It did not start MPI, or did
 * not end MPI.
 */
static void look_for_deserter(struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks && job->pmi && job->deserter < 0; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 && !rank->killed && !rank->forgiven && !cli_rank_failed(rank)
            && cli_pmi_deserted(job->pmi, r))
            job->deserter = r;
    }
}

/* Wait for those of our agents that have ended. Returns how many are left. */
static int reap_agents(struct cli_job *job)
{
    int n = 0;
    for (int r = 0; r < job->n_ranks; r++) {
        if (job->ranks[r].child && waitpid(job->ranks[r].child, NULL, WNOHANG) == job->ranks[r].child)
            job->ranks[r].child = 0;
        n += job->ranks[r].child != 0;
    }
    return n;
}

static void look_at_launcher(struct cli_job *job)
{
    int code;
    if (job->launcher && !job->launcher_ended && waitpid(job->launcher, &code, WNOHANG) == job->launcher) {
        job->launcher_ended = true;
        job->launcher_signal = WIFSIGNALED(code) ? WTERMSIG(code) : 0;
    }
}

/*
 * Whether SIGHUP was ignored when the process began, as under nohup. Then SIGHUP is ignored here too. UCX
 * installs a handler before main, so we check before any library starts. The kernel's struct begins with the
 * handler. Sanitizers are not initialised yet either.
 */
static uintptr_t hangup_handler[16];
__attribute__((no_sanitize("address", "undefined", "thread"))) static void look_at_hangups(void)
{
    syscall(SYS_rt_sigaction, SIGHUP, NULL, hangup_handler,
            (size_t)8); /* size of the kernel's signal set in bytes */
}
__attribute__((section(".preinit_array"), used)) static void (*const look_first)(void) = look_at_hangups;

static bool hangups_ignored(void) { return hangup_handler[0] == (uintptr_t)SIG_IGN; }

static void pass_signals_on(struct cli_job *job, int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD || (signal == SIGHUP && hangups_ignored())) continue;
        if (job->interrupted == SIGINT && signal == SIGINT) {
            cli_note("yoke: ending the ranks");
            cli_order_all(job, CLI_COMMAND_KILL, -1);
            continue;
        }
        /*
         * SIGHUP from a closed terminal and a scheduler's early notice mean the same as SIGTERM. MPICH uses
         * SIGUSR1 itself.
         */
        if (signal != SIGINT)
            signal = SIGTERM;
        else if (cli_on_terminal())
            cli_note("yoke: asking the ranks to stop; once more to end them at once");
        job->interrupted = signal;
        cli_order_all(job, CLI_COMMAND_SIGNAL, signal);
    }
}

/* Report a dead rank early, because the others may take long to exit, and a user may wait for the report. */
static void report_deaths(struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks; r++) {
        struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->reported || !cli_rank_failed(rank) || !rank->verdict.signal
            || (double)rank->verdict.age_ns * 1e-9 + yokei_now() - rank->ended_when < REPORT_SECONDS)
            continue;
        rank->reported = true;
        cli_report_death(job, r);
        return;
    }
}

/* Time in which this process did not run does not count as time in which a rank is stopped. */
static void count_time(struct cli_job *job)
{
    const double away = job->looked_at > 0 ? yokei_now() - job->looked_at : 0;
    job->looked_at = yokei_now();
    for (int r = 0; r < job->n_ranks && away > AWAY_SECONDS; r++)
        if (job->ranks[r].stopped_at) job->ranks[r].stopped_at = yokei_now();
}

/*
 * Monitor the start of the job. True: there was no progress for start_seconds, that is, no agent appeared,
 * and no rank entered or left MPI_Init. A rank that works before MPI_Init does not count as stalled.
 */
static bool start_stands(struct cli_job *job)
{
    int agents = 0, starting = 0, past = 0;
    for (int r = 0; r < job->n_ranks; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        agents += rank->agent != 0;
        if (rank->ended_at < 0 && rank->record && yokei_flight_starting(rank->record))
            starting++;
        else
            past += rank->ended_at >= 0
                    || (rank->record && atomic_load(&rank->record->state) != YOKEI_RANK_UNBORN);
    }
    const int place = agents + 2000 * (starting + 2000 * past);
    const bool stands = agents < job->n_ranks || (starting && starting + past == job->n_ranks);
    if (place != job->start_place || !stands || !job->start_since) {
        job->start_place = place;
        job->start_since = yokei_now();
        return false;
    }
    const double since = yokei_now() - job->start_since;
    if (since > job->start_seconds / 4 && !job->start_warned) {
        char what[1024];
        job->start_warned = true;
        cli_warn("%s since %.0f s; the job ends after %.0f s (--start-seconds)",
                 cli_start_text(job, what, sizeof what), since, job->start_seconds);
    }
    return since > job->start_seconds;
}

static bool all_agents_known(const struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks; r++)
        if (!job->ranks[r].agent) return false;
    return true;
}

/* The agents exit first, then the launcher. Processes that do not exit are ended. */
void cli_dismiss(struct cli_job *job)
{
    double start = yokei_now();
    cli_order_all(job, CLI_COMMAND_LEAVE, 0);
    while ((job->pmi ? reap_agents(job) > 0 : !job->launcher_ended) && yokei_now() - start < LEAVE_SECONDS) {
        look_at_launcher(job);
        usleep(job->pmi ? 500 : 2000);
    }
    end_launcher(job);
    for (int r = 0; r < job->n_ranks; r++) {
        if (job->ranks[r].child) waitpid(job->ranks[r].child, NULL, 0);
        job->ranks[r].child = 0;
    }
    if (job->launcher && !job->launcher_ended) waitpid(job->launcher, NULL, 0);
    job->launcher_ended = true;
    look_at_ranks(job); /* finds the ranks that were ended only now */
}

/*
 * If a rank ended, note its place in the order. If an agent ended, the agent is lost, unless its rank had
 * ended and the launcher was gone.
 */
static void take_news(struct cli_job *job, int fd)
{
    for (int r = 0; r < job->n_ranks; r++) {
        struct cli_rank_watch *rank = &job->ranks[r];
        if (fd != rank->rank_fd && fd != rank->agent_fd) continue;
        epoll_ctl(job->ends, EPOLL_CTL_DEL, fd, NULL);
        if (fd == rank->rank_fd) {
            rank->nth_end = ++job->n_exits;
            cli_wake_agent(rank);
            continue;
        }
        look_at_ranks(job);
        if (rank->ended_at >= 0) continue;
        if (job->lost_agent < 0) job->lost_agent = r;
        /* There is no holder to record it, and the rank's peers wait for the record. */
        if (rank->child)
            cli_agent_lost(
                &(struct cli_agent){ .folder = job->folder, .rank = r, .parent_fd = -1, .pmi_fd = -1 });
    }
}

/* Serve a request of a rank to its launcher, if we are the launcher. False: the event is of another kind. */
static bool answer_rank(struct cli_job *job, int fd)
{
    int r = 0;
    while (r < job->n_ranks && job->pmi && cli_pmi_fd(job->pmi, r) != fd) r++;
    if (!job->pmi || r == job->n_ranks) return false;
    cli_pmi_serve(job->pmi, r);
    if (cli_pmi_fault(job->pmi, r) && !job->ranks[r].strange) {
        job->ranks[r].strange = true;
        cli_warn(
            "rank %d sent its launcher what is no PMI-1 ('%s'): its connection was closed, and MPI does not work in it any more",
            r, cli_pmi_fault(job->pmi, r));
    }
    return true;
}

/*
 * Sleep until a signal, until a rank or an agent of this host ends, or until the next tick. One rank's end
 * may cause the others' ends within a millisecond. Epoll reports events in the order in which they came, so
 * the first one belongs to the rank at fault, even if its agent and we wake late.
 */
static void wait_for_news(struct cli_job *job, int signals)
{
    struct epoll_event event;
    double until = yokei_now() + TICK_MS * 1e-3;
    for (;;) {
        const double left = until - yokei_now();
        if (epoll_wait(job->ends, &event, 1, left > 0 ? 1 + (int)(left * 1e3) : 0) != 1
            || event.data.fd == signals)
            return;
        if (answer_rank(job, event.data.fd)) {
            if (left <= 0) return; /* ranks that send without end must not block the other checks */
            continue;
        }
        take_news(job, event.data.fd);
        until = 0;
    }
}

void cli_supervise(struct cli_job *job)
{
    sigset_t set;
    sigemptyset(&set);
    for (const int *s = (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, 0 }; *s; s++)
        sigaddset(&set, *s);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    struct epoll_event wake = { .events = EPOLLIN, .data.fd = signals };
    if (signals >= 0) epoll_ctl(job->ends, EPOLL_CTL_ADD, signals, &wake);
    const double stall = stall_seconds();
    double failed_at = 0, launcher_ended_at = 0;
    for (;;) {
        wait_for_news(job, signals);
        if (signals >= 0) pass_signals_on(job, signals);
        look_at_launcher(job);
        count_time(job);
        look_at_ranks(job);
        report_deaths(job);
        look_for_deserter(job);
        if (forgive(job)) failed_at = 0;
        cli_end_forgiven(job);
        if (job->n_ended == job->n_ranks || job->refused[0]) break;
        if (job->lost_agent >= 0) break;
        if (job->launcher_ended && !launcher_ended_at) launcher_ended_at = yokei_now();
        job->launcher_lost = job->launcher_ended;
        if (launcher_ended_at
            && yokei_now() - launcher_ended_at > (all_agents_known(job) ? LEAVE_SECONDS : 0.5))
            break;
        if (!failed_at && (any_failed(job) || cli_only_stopped_remain(job))) failed_at = yokei_now();
        cli_end_aborted(job);
        cli_end_stopped(job, stall);
        cli_end_awaited(job);
        if (failed_at) cli_end_the_rest(job, yokei_now() - failed_at);
        if (failed_at && yokei_now() - failed_at > job->grace + LEAVE_SECONDS)
            break; /* an agent does not respond */
        job->start_stood = start_stands(job);
        if (job->start_stood) break;
    }
    cli_dismiss(job);
    if (signals >= 0) close(signals);
}
