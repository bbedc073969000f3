/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The loop of yoke run, the supervisor ("we"). It reads the ranks' records and passes signals on. After a
 * rank failed it gives the other ranks time to end by their own verdicts, and ends the ranks that do not. It
 * lets the agents exit when all ranks have ended.
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
#include "cli/launch/job_dir.h"
#include "cli/launch/pmi.h"
#include "core/base/base.h"
#include "core/base/times.h"

#define TICK_MS 20
#define SILENT_SECONDS 2  /* more silence than a far rank's peers allow, so that they report first */
#define FAR_SECONDS 0.1   /* between two reads of the record of a rank on another host */
#define BLIND_SECONDS 0.1 /* time after a failure, for a rank that cannot notice that another rank failed */
#define OUTSIDER_SECONDS \
    1 /* the same for a rank that has not begun a collective, and may be about to notice it */
#define ABORT_SECONDS 2 /* time for all ranks after a rank called MPI_Abort */
#define STOPPED_SECONDS \
    1.2 /* for a stopped rank that others wait for inside MPI; a collective reports it after 1 s */
#define TOLD_SECONDS 0.3 /* time after which a rank's death is printed, if the job still runs */
#define HALT_SECONDS 1.5 /* time after which it is printed that a rank is stopped */
#define AWAY_SECONDS \
    0.2 /* time without a look, after which yoke run itself was perhaps stopped, with its ranks */
#define LEAVE_SECONDS 5
#define STALL_SECONDS 10 /* unless YOKE_STALL_MS says otherwise, as for the ranks */

/*
 * Wake an agent. For agents a signal is only a reason to look at their orders. A stopped agent is continued,
 * because it could neither obey nor report on its rank.
 */
static void wake_agent(const struct cli_rank_watch *rank)
{
    if (!rank->child) return;
    kill(rank->child, SIGUSR1);
    kill(rank->child, SIGCONT);
}

static void order(struct cli_job *job, enum cli_command command, int argument)
{
    job->n_orders++;
    if (cli_order_write(job->folder, job->n_orders, command, argument)) cli_warn("%s", yoke_last_error());
    for (int r = 0; r < job->n_ranks; r++) wake_agent(&job->ranks[r]);
}

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

bool cli_rank_failed(const struct cli_rank_watch *rank)
{
    return rank->ended_at >= 0 && !rank->killed && !rank->forgiven
           && (rank->verdict.signal || rank->verdict.exit_code || rank->verdict.state == YOKEI_AGENT_SILENT);
}

bool cli_rank_went_on(const struct cli_rank_watch *rank)
{
    return rank->record && atomic_load(&rank->record->n_shrinks);
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

/*
 * The first rank that called MPI_Abort, unless the others continued without it. -1: there is none, or mpiexec
 * is the launcher and knows.
 */
static int aborted_rank(const struct cli_job *job)
{
    const int r = job->pmi ? cli_pmi_first_abort(job->pmi) : -1;
    return r >= 0 && !job->ranks[r].forgiven ? r : -1;
}

static bool any_failed(const struct cli_job *job)
{
    if (aborted_rank(job) >= 0 || job->deserter >= 0) return true;
    for (int r = 0; r < job->n_ranks; r++)
        if (cli_rank_failed(&job->ranks[r]) || (job->ranks[r].stopped && !job->ranks[r].forgiven))
            return true;
    return false;
}

/* Wake us when a process of this host ends. Returns its descriptor; -1: the process does not exist. */
static int wait_for_end(const struct cli_job *job, int pid)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (fd >= 0) epoll_ctl(job->ends, EPOLL_CTL_ADD, fd, &event);
    return fd;
}

void cli_watch_agent(struct cli_job *job, int r, pid_t agent)
{
    struct cli_rank_watch *rank = &job->ranks[r];
    struct epoll_event event = { .events = EPOLLIN, .data.fd = cli_pmi_fd(job->pmi, r) };
    rank->agent = rank->child = agent;
    rank->here = true;
    gethostname(rank->host, sizeof rank->host - 1);
    rank->agent_fd = wait_for_end(job, agent);
    epoll_ctl(job->ends, EPOLL_CTL_ADD, event.data.fd, &event);
}

static void look_for_agent(struct cli_job *job, int r)
{
    struct cli_rank_watch *rank = &job->ranks[r];
    if (rank->agent
        || !cli_agent_read(job->folder, r, &rank->agent, &rank->here, rank->host, sizeof rank->host)
        || !rank->here)
        return;
    rank->agent_fd = wait_for_end(job, rank->agent);
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
        rank->rank_fd = wait_for_end(job, verdict.pid);
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

static void look(struct cli_job *job)
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
 * Whether SIGHUP was ignored when the process began, as under nohup. Then SIGHUP means nothing. UCX installs
 * a handler before main, so we look before any library starts. The kernel's struct begins with the handler.
 * Sanitizers are not initialised yet either.
 */
static uintptr_t hangup_handler[16];
__attribute__((no_sanitize("address", "undefined", "thread"))) static void look_at_hangups(void)
{
    syscall(SYS_rt_sigaction, SIGHUP, NULL, hangup_handler,
            (size_t)8); /* size of the kernel's signal set in bytes */
}
__attribute__((section(".preinit_array"), used)) static void (*const look_first)(void) = look_at_hangups;

static bool hangups_ignored(void) { return hangup_handler[0] == (uintptr_t)SIG_IGN; }

static void take_signals(struct cli_job *job, int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD || (signal == SIGHUP && hangups_ignored())) continue;
        if (job->interrupted == SIGINT && signal == SIGINT) {
            cli_note("yoke: ending the ranks");
            order(job, CLI_COMMAND_KILL, -1);
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
        order(job, CLI_COMMAND_SIGNAL, signal);
    }
}

static void kill_rank(struct cli_job *job, int r)
{
    job->ranks[r].killed = true;
    job->ranks[r].stopped = job->ranks[r].verdict.state == YOKEI_AGENT_STOPPED;
    order(job, CLI_COMMAND_KILL, r);
}

/*
 * Whether a rank has not begun a collective. It may wait inside MPI, where nothing tells it that another rank
 * failed.
 */
static bool is_outsider(const struct cli_rank_watch *rank)
{
    return !rank->record || atomic_load(&rank->record->state) == YOKEI_RANK_UNBORN
           || !atomic_load(&rank->record->n_operations);
}

/*
 * Whether a rank is inside MPI's start or end, or before it. None of Yoke's code watches the other ranks
 * there.
 */
static bool is_blind(const struct cli_rank_watch *rank)
{
    const uint32_t state = rank->record ? atomic_load(&rank->record->state) : YOKEI_RANK_UNBORN;
    return state == YOKEI_RANK_UNBORN || state == YOKEI_RANK_STARTING
           || (state == YOKEI_RANK_LEFT && atomic_load(&rank->record->at_launcher));
}

/*
 * End the ranks that called MPI_Abort. Each of them does nothing more and waits until it is ended. This end
 * is its own doing.
 */
static void end_aborted(struct cli_job *job)
{
    int code;
    for (int r = 0; r < job->n_ranks && job->pmi; r++) {
        struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 || rank->aborted || !cli_pmi_aborts(job->pmi, r, &code)) continue;
        rank->aborted = true;
        order(job, CLI_COMMAND_ABORT, r << 8 | (code & 255));
    }
}

/*
 * For a job that we launch ourselves. After the first failure, end the ranks that wait inside MPI for ranks
 * that no longer come. After MPI_Abort, end all ranks.
 */
static void end_waiting(struct cli_job *job, double since_failure)
{
    for (int r = 0; r < job->n_ranks && job->pmi; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 || rank->killed || rank->aborted) continue;
        if ((cli_pmi_waits(job->pmi, r) && since_failure > BLIND_SECONDS)
            || (aborted_rank(job) >= 0 && since_failure > ABORT_SECONDS))
            kill_rank(job, r);
    }
}

/*
 * End a stopped rank as soon as another rank waits for it inside MPI. Ranks that were stopped together
 * continue together.
 */
static void end_awaited(struct cli_job *job)
{
    bool waits = false;
    for (int r = 0; r < job->n_ranks && job->pmi; r++)
        waits = waits
                || (job->ranks[r].ended_at < 0 && !job->ranks[r].stopped_at && cli_pmi_waits(job->pmi, r));
    for (int r = 0; r < job->n_ranks && job->pmi; r++) {
        struct cli_rank_watch *rank = &job->ranks[r];
        const bool awaited = waits && rank->ended_at < 0 && !rank->killed && rank->stopped_at > 0
                             && !cli_pmi_waits(job->pmi, r);
        if (!awaited)
            rank->awaited_at = 0;
        else if (!rank->awaited_at)
            rank->awaited_at = yokei_now();
        else if (yokei_now() - rank->awaited_at > STOPPED_SECONDS)
            kill_rank(job, r);
    }
}

/*
 * After the first failure: end a rank that cannot notice the failure soon, and end the other ranks when their
 * time is up.
 */
static void end_the_rest(struct cli_job *job, double since_failure)
{
    bool others_run = false;
    for (int r = 0; r < job->n_ranks; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at < 0 && !rank->killed && rank->verdict.state != YOKEI_AGENT_STOPPED)
            others_run = true;
    }
    for (int r = 0; r < job->n_ranks; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 || rank->killed) continue;
        bool stopped = rank->verdict.state == YOKEI_AGENT_STOPPED && !others_run;
        const double given = is_blind(rank)      ? BLIND_SECONDS
                             : is_outsider(rank) ? OUTSIDER_SECONDS
                                                 : job->grace;
        if (stopped || since_failure > YOKE_MIN(given, job->grace)) kill_rank(job, r);
    }
}

/*
 * While other ranks run, we wait for a stopped rank, because the others may be about to name it. If only
 * stopped ranks are left, the job ends.
 */
static bool only_stopped_remain(const struct cli_job *job)
{
    int stopped = 0;
    for (int r = 0; r < job->n_ranks; r++) {
        if (job->ranks[r].ended_at >= 0) continue;
        if (job->ranks[r].verdict.state != YOKEI_AGENT_STOPPED) return false;
        stopped++;
    }
    return stopped > 0 && job->n_ended > 0;
}

/*
 * End a rank that is stopped while others run. A rank that is in a collective with it, or makes a
 * communicator with it, reports it by itself. A rank that waits for it inside MPI's start or end cannot
 * report it, so we act. A job that is stopped as a whole is left alone.
 */
static void end_stopped(struct cli_job *job, double stall)
{
    bool starting = false, blind = false, others_run = false;
    for (int r = 0; r < job->n_ranks; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 || rank->stopped_at) continue;
        others_run = true;
        starting = starting || is_outsider(rank);
        blind = blind
                || (is_blind(rank) && rank->record
                    && (atomic_load(&rank->record->state) == YOKEI_RANK_STARTING
                        || atomic_load(&rank->record->at_launcher)));
    }
    for (int r = 0; r < job->n_ranks && others_run; r++) {
        struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 || rank->killed || !rank->stopped_at) continue;
        const double seen = yokei_now() - rank->stopped_at;
        if (seen > HALT_SECONDS && !rank->told) rank->told = true, cli_tell_of(job, r);
        if (seen > (starting ? stall : 3 * stall)
            || (blind && yokei_stopped_for_long(&rank->verdict, (uint64_t)(seen * 1e9), rank->here)))
            kill_rank(job, r);
    }
}

/*
 * Print the name of a dead rank early, because the others may take their time to end, and a person may wait
 * for the name.
 */
static void tell_of_the_dead(struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks; r++) {
        struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->told || !cli_rank_failed(rank) || !rank->verdict.signal
            || (double)rank->verdict.age_ns * 1e-9 + yokei_now() - rank->ended_when < TOLD_SECONDS)
            continue;
        rank->told = true;
        cli_tell_of(job, r);
        return;
    }
}

/* Time in which we did not look does not count as time in which a rank is stopped. */
static void count_time(struct cli_job *job)
{
    const double away = job->looked_at > 0 ? yokei_now() - job->looked_at : 0;
    job->looked_at = yokei_now();
    for (int r = 0; r < job->n_ranks && away > AWAY_SECONDS; r++)
        if (job->ranks[r].stopped_at) job->ranks[r].stopped_at = yokei_now();
}

/*
 * End ranks that were left out and still run, stuck or stopped, when all the other ranks have ended. No rank
 * waits for them.
 */
static void end_forgiven(struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].ended_at < 0 && !job->ranks[r].forgiven) return;
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].ended_at < 0 && !job->ranks[r].killed) kill_rank(job, r);
}

/*
 * Watch the start of the job. True: nothing has changed for start_seconds, that is, no agent appeared, and no
 * rank began or finished starting MPI. A rank that prepares something before it starts MPI does not count as
 * a standstill.
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

/* The agents exit first, then the launcher. What does not exit is ended. */
void cli_dismiss(struct cli_job *job)
{
    double start = yokei_now();
    order(job, CLI_COMMAND_LEAVE, 0);
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
    look(job); /* finds the ranks that were ended only now */
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
            rank->nth_end = ++job->n_told;
            wake_agent(rank);
            continue;
        }
        look(job);
        if (rank->ended_at >= 0) continue;
        if (job->lost_agent < 0) job->lost_agent = r;
        /* There is no holder to record it, and the rank's peers wait for the record. */
        if (rank->child)
            cli_agent_lost(&(struct cli_agent){ .folder = job->folder, .rank = r, .pmi_fd = -1 });
    }
}

/* Answer what a rank sends to its launcher, if we are the launcher. False: the event is of another kind. */
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
 * the first one is the culprit's, even if its agent and we wake late.
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
            if (left <= 0) return; /* ranks that send without end must not keep us from looking */
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
        if (signals >= 0) take_signals(job, signals);
        look_at_launcher(job);
        count_time(job);
        look(job);
        tell_of_the_dead(job);
        look_for_deserter(job);
        if (forgive(job)) failed_at = 0;
        end_forgiven(job);
        if (job->n_ended == job->n_ranks || job->refused[0]) break;
        if (job->lost_agent >= 0) break;
        if (job->launcher_ended && !launcher_ended_at) launcher_ended_at = yokei_now();
        job->launcher_lost = job->launcher_ended;
        if (launcher_ended_at
            && yokei_now() - launcher_ended_at > (all_agents_known(job) ? LEAVE_SECONDS : 0.5))
            break;
        if (!failed_at && (any_failed(job) || only_stopped_remain(job))) failed_at = yokei_now();
        end_aborted(job);
        end_stopped(job, stall);
        end_awaited(job);
        if (failed_at) end_the_rest(job, yokei_now() - failed_at);
        if (failed_at) end_waiting(job, yokei_now() - failed_at);
        if (failed_at && yokei_now() - failed_at > job->grace + LEAVE_SECONDS)
            break; /* an agent does not answer */
        job->start_stood = start_stands(job);
        if (job->start_stood) break;
    }
    cli_dismiss(job);
    if (signals >= 0) close(signals);
}
