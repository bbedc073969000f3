/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a job: one error text and one status. They come from the ranks' records, and never from the
 * launcher's exit code.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/launch/pmi.h"
#include "cli/launch/verdict.h"
#include "core/base/base.h"

/*
 * The error that a rank recorded. A rank that continued without its failed communicator, and ended well, has
 * none.
 */
static uint32_t status_of(const struct cli_rank_watch *rank)
{
    if (!rank->record) return YOKE_OK;
    bool failed = atomic_load(&rank->record->state) == YOKEI_RANK_FAILED;
    return failed || (rank->ended_at >= 0 && rank->verdict.exit_code) ? atomic_load(&rank->record->status)
                                                                      : YOKE_OK;
}

/* Write a rank's name, such as "rank 1 (host a, pid 4711, opencl:0)". */
static void name_of_rank(const struct cli_job *job, int r, char *out, size_t bytes)
{
    const struct cli_rank_watch *rank = &job->ranks[r];
    yokei_text(out, bytes, "rank %d (host %s, pid %d%s%s)", r, rank->host[0] ? rank->host : "unknown",
               rank->verdict.pid, rank->device[0] ? ", " : "", rank->device);
}

/* "ranks 0, 2-5": the ranks for which `mark` is true. */
static void list_of(const bool *mark, int n, char *out, size_t bytes)
{
    size_t used = 0;
    int count = 0;
    for (int r = 0; r < n; r++) count += mark[r];
    yokei_text(out, bytes, count == 1 ? "rank " : "ranks ");
    used = strlen(out);
    for (int r = 0; r < n; r++) {
        if (!mark[r]) continue;
        int end = r;
        while (end + 1 < n && mark[end + 1]) end++;
        yokei_text(out + used, bytes - used, end > r ? "%s%d-%d" : "%s%d", out[used - 1] == ' ' ? "" : ", ",
                   r, end);
        used = strlen(out);
        r = end;
    }
}

/*
 * Whether a rank exited with a code before it was in any communicator. MPI makes a rank exit in this way when
 * another rank dies while it starts.
 */
static bool left_at_start(const struct cli_rank_watch *rank)
{
    return !rank->verdict.signal && (!rank->record || !atomic_load(&rank->record->n_operations));
}

/* Which of two ended ranks is more likely to be the cause of the other one's end. */
static bool is_earlier(const struct cli_rank_watch *a, const struct cli_rank_watch *b)
{
    /* A process with many threads may be gone later than the ranks whose end it caused. */
    if (left_at_start(a) != left_at_start(b)) return left_at_start(b);
    if (a->nth_end && b->nth_end) return a->nth_end < b->nth_end;
    if (a->ended_at != b->ended_at) return a->ended_at < b->ended_at;
    return a->verdict.age_ns
           > b->verdict.age_ns; /* the older record came first; both clocks must be one host's */
}

/*
 * The rank that died first without an error of its own. It was killed by a signal, or exited with a code but
 * no error.
 */
static int first_silent_death(const struct cli_job *job)
{
    int found = -1;
    for (int r = 0; r < job->n_ranks; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (!cli_rank_failed(rank) || status_of(rank) != YOKE_OK) continue;
        if (found < 0 || is_earlier(rank, &job->ranks[found])) found = r;
    }
    return found;
}

/* A rank that was stopped and never continued. */
static int stopped_rank(const struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].stopped && !job->ranks[r].forgiven) return r;
    return -1;
}

/* Whether an error only reports that another rank failed. */
static bool is_consequence(uint32_t status) { return status == YOKE_EDEAD || status == YOKE_EABORTED; }

/* The first rank whose error is a cause. If there is none, the first rank with any error. */
static int first_error(const struct cli_job *job)
{
    int found = -1;
    for (int r = 0; r < job->n_ranks; r++) {
        uint32_t status = status_of(&job->ranks[r]);
        if (status == YOKE_OK) continue;
        if (found < 0) {
            found = r;
            continue;
        }
        uint32_t best = status_of(&job->ranks[found]);
        bool better = is_consequence(best) && !is_consequence(status);
        /* Of two timeouts, or of two causes, take the earlier one, because later ones may follow from it. */
        if (is_consequence(best) == is_consequence(status) && is_earlier(&job->ranks[r], &job->ranks[found]))
            better = true;
        if (better) found = r;
    }
    return found;
}

static void doing(const struct cli_rank_watch *rank, char *out, size_t bytes)
{
    out[0] = 0;
    if (rank->record) yokei_flight_describe(rank->record, rank->here, out, bytes);
}

static const char *kept(const struct cli_job *job, char *out, size_t bytes)
{
    yokei_text(out, bytes, "; records are in %s; see `yoke trace %s`", job->folder, job->folder);
    return out;
}

/* Write which other ranks detected the failure. */
static void noticed(const struct cli_job *job, int culprit, char *out, size_t bytes)
{
    bool mark[1024] = { false };
    int count = 0;
    for (int r = 0; r < job->n_ranks && r < (int)YOKE_COUNT(mark); r++) {
        mark[r] = r != culprit && status_of(&job->ranks[r]) != YOKE_OK;
        count += mark[r];
    }
    out[0] = 0;
    if (!count) return;
    char list[512];
    list_of(mark, YOKE_MIN(job->n_ranks, 1024), list, sizeof list);
    yokei_text(out, bytes, "; %s noticed and ended", list);
}

static yoke_status died(const struct cli_job *job, int r)
{
    const struct cli_rank_watch *rank = &job->ranks[r];
    char name[256], how[256], what[512], others[600], where[4200];
    int code;
    name_of_rank(job, r, name, sizeof name);
    yokei_agent_verdict_text(&rank->verdict, how, sizeof how);
    if (rank->aborted && cli_pmi_aborts(job->pmi, r, &code))
        yokei_text(how, sizeof how, "called MPI_Abort with code %d", code);
    doing(rank, what, sizeof what);
    noticed(job, r, others, sizeof others);
    return yoke_fail(YOKE_EDEAD, "%s %s%s%s%s%s", name, how, what[0] ? ", " : "", what, others,
                     kept(job, where, sizeof where));
}

void cli_report_death(const struct cli_job *job, int r)
{
    char name[256], how[256];
    const struct cli_rank_watch *rank = &job->ranks[r];
    name_of_rank(job, r, name, sizeof name);
    yokei_agent_verdict_text(&rank->verdict, how, sizeof how);
    if (rank->ended_at < 0)
        cli_warn("%s %s; the job ends when the others wait for it, unless `kill -CONT %d` lets it go on",
                 name, how, rank->verdict.pid);
    else
        cli_warn("%s %s; the others are given %.0f s (--grace) to end", name, how, job->grace);
}

/* Whether rank r has taken over the error of another rank, which names no rank. */
static bool took_over(const struct cli_job *job, int r)
{
    const int from = atomic_load(&job->ranks[r].record->culprit);
    return from >= 0 && from < job->n_ranks && from != r && job->ranks[from].record
           && atomic_load(&job->ranks[from].record->culprit) < 0
           && !strcmp(job->ranks[from].record->error, job->ranks[r].record->error);
}

static yoke_status failed(const struct cli_job *job, int r)
{
    const struct cli_rank_watch *rank = &job->ranks[r];
    bool mark[1024] = { false };
    char list[512], where[4200];
    int count = 0;
    for (int i = 0; i < job->n_ranks && i < (int)YOKE_COUNT(mark); i++) {
        mark[i] = status_of(&job->ranks[i]) != YOKE_OK
                  && !strcmp(job->ranks[i].record->error, rank->record->error) && !took_over(job, i);
        count += mark[i];
    }
    list_of(mark, YOKE_MIN(job->n_ranks, 1024), list, sizeof list);
    yoke_status status = (yoke_status)status_of(rank);
    bool runtime = is_consequence(status) || status == YOKE_ETIMEOUT || status == YOKE_EMISMATCH
                   || status == YOKE_EINTERNAL;
    if (job->n_ranks == count)
        return yoke_fail(status, "%s%s", rank->record->error, runtime ? kept(job, where, sizeof where) : "");
    return yoke_fail(status, "%s (%s)%s", rank->record->error, list,
                     runtime ? kept(job, where, sizeof where) : "");
}

/* The first rank that its agent ended because the launcher was gone; -1: none. */
static int abandoned_rank(const struct cli_job *job)
{
    int found = -1;
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].abandoned && (found < 0 || is_earlier(&job->ranks[r], &job->ranks[found])))
            found = r;
    return found;
}

/* Write the hosts of the marked ranks, such as "host1, host2". */
static void hosts_of(const struct cli_job *job, const bool *mark, char *out, size_t bytes)
{
    out[0] = '\0';
    for (int r = 0; r < job->n_ranks; r++) {
        bool named = !mark[r];
        for (int s = 0; s < r && !named; s++)
            named = mark[s] && !strcmp(job->ranks[s].host, job->ranks[r].host);
        const size_t used = strlen(out);
        if (!named) yokei_text(out + used, bytes - used, "%s%s", used ? ", " : "", job->ranks[r].host);
    }
}

const char *cli_start_text(const struct cli_job *job, char *out, size_t bytes)
{
    bool missing[1024] = { false }, starting[1024] = { false };
    char list[512], hosts[256];
    int n_missing = 0;
    for (int r = 0; r < job->n_ranks && r < (int)YOKE_COUNT(missing); r++) {
        const struct yokei_flight_file *record = job->ranks[r].record;
        n_missing += missing[r] = !job->ranks[r].agent;
        starting[r] = record && yokei_flight_starting(record);
    }
    list_of(n_missing ? missing : starting, YOKE_MIN(job->n_ranks, 1024), list, sizeof list);
    hosts_of(job, starting, hosts, sizeof hosts);
    if (n_missing)
        yokei_text(out, bytes, "%s did not come up (%d of %d did)", list, job->n_ranks - n_missing,
                   job->n_ranks);
    else
        yokei_text(out, bytes, "%s (on %s) wait for each other inside MPI's start", list, hosts);
    return out;
}

static yoke_status start_stood(const struct cli_job *job)
{
    char what[1024], where[4200];
    return yoke_fail(
        YOKE_EBACKEND,
        "the job did not start: %s, and nothing moved for %.0f s (--start-seconds); check that the hosts reach each other and the "
        "host of yoke run, both ways (ping, firewalls, HYDRA_IFACE), and that ssh to each works without a password%s",
        cli_start_text(job, what, sizeof what), job->start_seconds, kept(job, where, sizeof where));
}

/*
 * A foreign process connected to the launcher's port, and the launcher aborted. The ranks did not cause it.
 */
static yoke_status visited(const struct cli_job *job)
{
    char where[4200];
    return yoke_fail(
        YOKE_EDEAD,
        "the launcher (pid %d) gave up because somebody who is not of this job connected to its port, as a port scan does, "
        "and the ranks ended with it; only the job's hosts may reach the ports of mpiexec: set MPIEXEC_PORT_RANGE and a firewall, as "
        "`Ports` in docs/HOSTS.md shows; on one host yoke run opens no port (--launcher own)%s",
        job->launcher, kept(job, where, sizeof where));
}

static yoke_status launch_failed(const struct cli_job *job)
{
    bool mark[1024] = { false };
    char list[512];
    int missing = 0;
    for (int r = 0; r < job->n_ranks && r < (int)YOKE_COUNT(mark); r++)
        missing += mark[r] = !job->ranks[r].agent;
    list_of(mark, YOKE_MIN(job->n_ranks, 1024), list, sizeof list);
    if (missing)
        return yoke_fail(
            YOKE_EBACKEND,
            "only %d of %d ranks came up: %s did not start; see the launcher's words above, and check with "
            "`yoke info --check`",
            job->n_ranks - missing, job->n_ranks, list);
    const int left = abandoned_rank(job);
    if (left >= 0 && !job->launcher_lost)
        return yoke_fail(
            YOKE_EDEAD,
            "the launcher's process beside rank %d (host %s) was killed, and the rank ended with it", left,
            job->ranks[left].host);
    char where[4200];
    if (!job->launcher)
        return yoke_fail(YOKE_EDEAD, "the ranks were ended, and nothing says which of them failed first%s",
                         kept(job, where, sizeof where));
    return yoke_fail(YOKE_EDEAD, "the launcher (pid %d) ended before its ranks%s%s", job->launcher,
                     job->launcher_signal ? ", by signal " : "",
                     job->launcher_signal ? strsignal(job->launcher_signal) : "");
}

/*
 * Name the ranks that wait for rank r inside MPI. Rank r did not start MPI, or has not ended MPI as they do.
 */
static yoke_status deserted(const struct cli_job *job, int r)
{
    bool mark[1024] = { false };
    char name[256], list[512], where[4200];
    for (int i = 0; i < job->n_ranks && i < (int)YOKE_COUNT(mark); i++)
        mark[i] = i != r
                  && (cli_pmi_waits(job->pmi, i) || (cli_pmi_in_mpi(job->pmi, i) && job->ranks[i].killed));
    name_of_rank(job, r, name, sizeof name);
    list_of(mark, YOKE_MIN(job->n_ranks, 1024), list, sizeof list);
    return yoke_fail(
        YOKE_EDEAD,
        "%s ended with code 0 %s, where %s waited for it; every rank of a job must call MPI_Init and MPI_Finalize, "
        "or none%s",
        name, cli_pmi_in_mpi(job->pmi, r) ? "without ending MPI" : "outside MPI", list,
        kept(job, where, sizeof where));
}

/* Whether ranks continued without others, and all that continued ended well. Prints which ranks were lost. */
static bool went_on_well(const struct cli_job *job)
{
    bool any = false;
    for (int r = 0; r < job->n_ranks; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (!cli_rank_went_on(rank) || rank->forgiven) continue;
        any = true;
        if (rank->ended_at < 0 || rank->killed || rank->verdict.signal || rank->verdict.exit_code
            || status_of(rank))
            return false;
    }
    for (int r = 0; r < job->n_ranks && any; r++) {
        char name[256], how[256];
        if (cli_rank_went_on(&job->ranks[r]) && !job->ranks[r].forgiven) continue;
        name_of_rank(job, r, name, sizeof name);
        yokei_agent_verdict_text(&job->ranks[r].verdict, how, sizeof how);
        cli_warn("%s %s; the others went on without it", name, how);
    }
    return any;
}

bool cli_ended_as_asked(const struct cli_job *job)
{
    const int dead = first_silent_death(job), error = first_error(job);
    if (dead >= 0 && job->ranks[dead].verdict.signal)
        return job->ranks[dead].verdict.signal == job->interrupted;
    return error < 0 || is_consequence(status_of(&job->ranks[error]));
}

static bool all_ended_well(const struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].killed) return false;
    return job->n_ended == job->n_ranks;
}

/*
 * Warn of ranks whose own MPI_Finalize did not return. They are not failures, but their programs did nothing
 * after it.
 */
static void report_finalize(const struct cli_job *job)
{
    bool mark[1024] = { false };
    char list[512];
    int n = 0;
    for (int r = 0; r < job->n_ranks && r < (int)YOKE_COUNT(mark); r++)
        n += mark[r] = job->ranks[r].record
                       && atomic_load(&job->ranks[r].record->finalizing) == YOKEI_FINALIZE_LEFT;
    list_of(mark, YOKE_MIN(job->n_ranks, 1024), list, sizeof list);
    if (n)
        cli_warn(
            "MPI_Finalize did not return on %s, which all ranks had called: the processes were ended there; yoke_mpi_stop does without it",
            list);
}

/*
 * Whether MPI aborted rank r because the launcher on another host was gone, and with it the ranks of that
 * host.
 */
static bool aborted_by_loss(const struct cli_job *job, int r)
{
    const int left = abandoned_rank(job);
    return job->ranks[r].verdict.signal == SIGABRT && left >= 0
           && is_earlier(&job->ranks[left], &job->ranks[r]);
}

yoke_status cli_verdict(const struct cli_job *job)
{
    char name[256], where[4200];
    if (job->refused[0]) return yoke_fail(YOKE_ECONFIG, "refused to start: %s", job->refused);
    if (job->start_stood) return start_stood(job);
    if (job->visited && job->launcher_lost) return visited(job);
    if (job->lost_agent < 0 && went_on_well(job)) return YOKE_OK;
    int r = stopped_rank(job);
    int dead = first_silent_death(job);
    if (dead >= 0 && aborted_by_loss(job, dead)) dead = -1;
    /* A rank that only exited with a code may have done so because another rank was stopped. */
    if (dead >= 0 && job->lost_agent < 0 && (r < 0 || job->ranks[dead].verdict.signal))
        return died(job, dead);
    if (r >= 0) return died(job, r);
    int error = first_error(job);
    const bool echo = error >= 0 && (job->launcher_lost || abandoned_rank(job) >= 0)
                      && is_consequence(status_of(&job->ranks[error]));
    if (error >= 0 && !echo && job->lost_agent < 0) return failed(job, error);
    if (job->deserter >= 0) return deserted(job, job->deserter);
    if (all_ended_well(job) && job->lost_agent < 0) {
        report_finalize(job);
        return YOKE_OK;
    }
    /* SIGPIPE is a consequence: mpiexec wrote to a process that had ended with the agent. */
    if (job->launcher_signal && (job->launcher_signal != SIGPIPE || job->lost_agent < 0))
        return launch_failed(job);
    if (job->lost_agent >= 0) {
        name_of_rank(job, job->lost_agent, name, sizeof name);
        return yoke_fail(
            YOKE_EDEAD, "the agent of %s was killed, and its rank with it; the other ranks were ended then%s",
            name, kept(job, where, sizeof where));
    }
    if (job->interrupted) return yoke_fail(YOKE_EABORTED, "the ranks were ended at once, as asked");
    return launch_failed(job);
}
