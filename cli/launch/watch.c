/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the supervisor share: orders to the agents, and facts about ranks. */
#include "cli/launch/watch.h"

#include <signal.h>

#include "cli/cli.h"
#include "cli/launch/pmi.h"

/*
 * Wake an agent. An agent reads its orders when it gets a signal. A stopped agent is continued, because it
 * could neither carry out an order nor report on its rank.
 */
void cli_wake_agent(const struct cli_rank_watch *rank)
{
    if (!rank->child) return;
    kill(rank->child, SIGUSR1);
    kill(rank->child, SIGCONT);
}

void cli_order_all(struct cli_job *job, enum cli_command command, int argument)
{
    job->n_orders++;
    if (cli_order_write(job->folder, job->n_orders, command, argument)) cli_warn("%s", yoke_last_error());
    for (int r = 0; r < job->n_ranks; r++) cli_wake_agent(&job->ranks[r]);
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

int cli_aborted_rank(const struct cli_job *job)
{
    const int r = job->pmi ? cli_pmi_first_abort(job->pmi) : -1;
    return r >= 0 && !job->ranks[r].forgiven ? r : -1;
}
