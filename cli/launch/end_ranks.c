/* SPDX-License-Identifier: Apache-2.0 */
/* When the supervisor ends ranks; see end_ranks.h. */
#include "cli/launch/end_ranks.h"

#include "cli/launch/job_dir.h"
#include "cli/launch/pmi.h"
#include "cli/launch/verdict.h"
#include "core/base/base.h"
#include "core/base/times.h"

#define BLIND_SECONDS 0.1 /* time after a failure, for a rank that cannot detect that another rank failed */
/* the same time for a rank that has not begun a collective, and may be about to detect the failure */
#define OUTSIDER_SECONDS 1
#define ABORT_SECONDS 2 /* time for all ranks after a rank called MPI_Abort */
/* for a stopped rank that others wait for inside MPI; a collective reports it after 1 s */
#define STOPPED_SECONDS 1.2
#define HALT_SECONDS 1.5 /* time after which it is printed that a rank is stopped */

static void kill_rank(struct cli_job *job, int r)
{
    job->ranks[r].killed = true;
    job->ranks[r].stopped = job->ranks[r].verdict.state == YOKEI_AGENT_STOPPED;
    cli_order_all(job, CLI_COMMAND_KILL, r);
}

/*
 * Whether a rank has not begun a collective. It may wait inside MPI, where it cannot detect that another rank
 * failed.
 */
static bool is_outsider(const struct cli_rank_watch *rank)
{
    return !rank->record || atomic_load(&rank->record->state) == YOKEI_RANK_UNBORN
           || !atomic_load(&rank->record->n_operations);
}

/*
 * Whether a rank is inside MPI's start or end, or before it. No code of Yoke monitors the other ranks there.
 */
static bool is_blind(const struct cli_rank_watch *rank)
{
    const uint32_t state = rank->record ? atomic_load(&rank->record->state) : YOKEI_RANK_UNBORN;
    return state == YOKEI_RANK_UNBORN || state == YOKEI_RANK_STARTING
           || (state == YOKEI_RANK_LEFT && atomic_load(&rank->record->at_launcher));
}

/*
 * End the ranks that called MPI_Abort. Each of them only waits until it is ended, and counts as failed by
 * itself.
 */
void cli_end_aborted(struct cli_job *job)
{
    int code;
    for (int r = 0; r < job->n_ranks && job->pmi; r++) {
        struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 || rank->aborted || !cli_pmi_aborts(job->pmi, r, &code)) continue;
        rank->aborted = true;
        cli_order_all(job, CLI_COMMAND_ABORT, r << 8 | (code & 255));
    }
}

/*
 * For a job that we launch ourselves. After the first failure, end the ranks that wait inside MPI for ranks
 * that will never arrive. After MPI_Abort, end all ranks.
 */
static void end_waiting(struct cli_job *job, double since_failure)
{
    for (int r = 0; r < job->n_ranks && job->pmi; r++) {
        const struct cli_rank_watch *rank = &job->ranks[r];
        if (rank->ended_at >= 0 || rank->killed || rank->aborted) continue;
        if ((cli_pmi_waits(job->pmi, r) && since_failure > BLIND_SECONDS)
            || (cli_aborted_rank(job) >= 0 && since_failure > ABORT_SECONDS))
            kill_rank(job, r);
    }
}

/*
 * End a stopped rank as soon as another rank waits for it inside MPI. Ranks that were stopped together
 * continue together.
 */
void cli_end_awaited(struct cli_job *job)
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
 * After the first failure: end a rank that cannot detect the failure soon, and end the other ranks after
 * their timeout.
 */
void cli_end_the_rest(struct cli_job *job, double since_failure)
{
    end_waiting(job, since_failure);
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
        /*
         * The agent ends a rank that called MPI_Abort. If we did, the rank would not be reported as the
         * cause.
         */
        const double given = rank->aborted       ? job->grace
                             : is_blind(rank)    ? BLIND_SECONDS
                             : is_outsider(rank) ? OUTSIDER_SECONDS
                                                 : job->grace;
        if (stopped || since_failure > YOKE_MIN(given, job->grace)) kill_rank(job, r);
    }
}

/*
 * While other ranks run, we wait for a stopped rank, because the others may be about to report it. If only
 * stopped ranks are left, the job ends.
 */
bool cli_only_stopped_remain(const struct cli_job *job)
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
void cli_end_stopped(struct cli_job *job, double stall)
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
        if (seen > HALT_SECONDS && !rank->reported) rank->reported = true, cli_report_death(job, r);
        if (seen > (starting ? stall : 3 * stall)
            || (blind && yokei_stopped_for_long(&rank->verdict, (uint64_t)(seen * 1e9), rank->here)))
            kill_rank(job, r);
    }
}

/*
 * End ranks that were left out and still run, stuck or stopped, when all the other ranks have ended. No rank
 * waits for them.
 */
void cli_end_forgiven(struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].ended_at < 0 && !job->ranks[r].forgiven) return;
    for (int r = 0; r < job->n_ranks; r++)
        if (job->ranks[r].ended_at < 0 && !job->ranks[r].killed) kill_rank(job, r);
}
