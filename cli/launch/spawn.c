/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job on this host that yoke run starts itself. Each rank has an agent (agent.c), the process that starts
 * the rank and monitors it. The agent is a child of yoke run in a process group of its own. Each rank also
 * has a socket pair for PMI-1 between it and yoke run. Ranks write to yoke run's own stdout and stderr. When
 * yoke run ends in any way, the kernel closes its end of a pipe, the lifeline. The agents then end their
 * ranks.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/launch/agent.h"
#include "cli/launch/job_dir.h"
#include "cli/launch/launch.h"
#include "cli/launch/pmi.h"
#include "cli/launch/shared_memory.h"
#include "cli/launch/supervise.h"
#include "core/base/base.h"

/* Remove the variables that an outer launcher left in the environment. */
static void forget_launchers(void)
{
    static const char *const names[] = { "PMI_PORT",
                                         "PMI_ID",
                                         "PMI_SPAWNED",
                                         "PMI_KVS",
                                         "PMI_DOMAIN",
                                         "PMI_UNIVERSE_SIZE",
                                         "PMI_PROCESS_MAPPING",
                                         "HYDI_CONTROL_FD" };
    for (size_t i = 0; i < YOKE_COUNT(names); i++) unsetenv(names[i]);
}

static void set_number(const char *name, int value)
{
    char text[16];
    yokei_text(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* In the child: set the variables that MPICH and the rank's libraries read. */
static void set_environment_of_rank(const struct cli_agent *agent)
{
    set_number("PMI_FD", agent->pmi_fd);
    set_number("PMI_RANK", agent->rank);
    set_number("PMI_SIZE", agent->size);
    set_number("MPI_LOCALRANKID", agent->local_rank);
    set_number("MPI_LOCALNRANKS", agent->local_size);
    setenv("GFORTRAN_UNBUFFERED_PRECONNECTED", "y", 0);
}

/*
 * Raise the limit of open files to three per rank: the connection, and pidfds for the ends of the agent and
 * the rank. The ranks get the old limit back.
 */
static yoke_status make_descriptors(struct cli_job *job)
{
    const rlim_t need = 3 * (rlim_t)job->n_ranks + 24;
    if (getrlimit(RLIMIT_NOFILE, &job->files) || job->files.rlim_cur >= need) return YOKE_OK;
    if (job->files.rlim_max < need)
        return yoke_fail(
            YOKE_ENOMEM,
            "%d ranks need %llu open files in yoke run, and the limit is %llu; raise it (ulimit -Hn)",
            job->n_ranks, (unsigned long long)need, (unsigned long long)job->files.rlim_max);
    const struct rlimit more = { .rlim_cur = need, .rlim_max = job->files.rlim_max };
    return setrlimit(RLIMIT_NOFILE, &more) ? yoke_fail(YOKE_EINTERNAL, "setrlimit: %s", strerror(errno))
                                           : YOKE_OK;
}

/* In the child: be the agent. Of yoke run's own descriptors only the read end of the lifeline stays open. */
static void become_agent(const struct cli_context *context, struct cli_job *job, int r, const int lifeline[2],
                         int rank_fd)
{
    struct cli_agent agent = { .folder = job->folder,
                               .rank = r,
                               .size = job->n_ranks,
                               .local_rank = r,
                               .local_size = job->n_ranks,

                               .supervisor = -1,
                               .holder = lifeline[0],
                               .proxy = -1,
                               .parent = getppid(),
                               .parent_fd = -1,
                               .pmi_fd = rank_fd };
    char name[16];
    setpgid(0, 0);
    yokei_text(name, sizeof name, "yoke agent %d", r);
    prctl(PR_SET_NAME, name);
    yokei_text(agent.shared_path, sizeof agent.shared_path, "%s", job->shared_path);
    close(lifeline[1]);
    if (job->shared >= 0) close(job->shared);
    cli_pmi_free(job->pmi);
    for (int other = 0; other < r; other++)
        if (job->ranks[other].agent_fd >= 0) close(job->ranks[other].agent_fd);
    if (job->files.rlim_max) setrlimit(RLIMIT_NOFILE, &job->files);
    close(job->ends);
    set_environment_of_rank(&agent);
    const yoke_status status = cli_agent_be(&agent, context->words);
    if (status) cli_refuse(agent.folder, yoke_last_error());
    _exit(0);
}

static yoke_status start_agent(const struct cli_context *context, struct cli_job *job, int r,
                               const int lifeline[2])
{
    int rank_fd;
    YOKE_TRY(cli_pmi_connect(job->pmi, r, &rank_fd));
    const pid_t pid = fork();
    if (pid == 0) become_agent(context, job, r, lifeline, rank_fd);
    const int reason = errno;
    close(rank_fd);
    if (pid < 0)
        return yoke_fail(YOKE_ENOMEM, "no process for the agent of rank %d: %s", r, strerror(reason));
    setpgid(pid, pid);
    job->ranks[r].child = pid;
    cli_watch_agent(job, r, pid);
    return YOKE_OK;
}

static yoke_status start_agents(const struct cli_context *context, struct cli_job *job)
{
    int lifeline[2];
    YOKE_TRY(make_descriptors(job));
    /*
     * Make the pipe before the connections. It then has the lower number, so it closes before them when yoke
     * run is killed.
     */
    if (pipe2(lifeline, O_CLOEXEC)) return yoke_fail(YOKE_EINTERNAL, "pipe: %s", strerror(errno));
    job->lifeline = lifeline[1];
    yoke_status status;
    YOKE_TRY_GOTO(cli_pmi_new(job->n_ranks, &job->pmi), out);
    for (int r = 0; r < job->n_ranks; r++) YOKE_TRY_GOTO(start_agent(context, job, r, lifeline), out);
    status = YOKE_OK;
out:
    close(lifeline[0]);
    return status;
}

yoke_status cli_spawn_start(const struct cli_context *context, struct cli_job *job)
{
    char note[512];
    forget_launchers();
    if (cli_shared_folder_choose(job->n_ranks, job->shared_path, sizeof job->shared_path, note, sizeof note)
        && *note)
        cli_note("%s", note);
    cli_shared_folders_collect(job->shared_path);
    job->shared = cli_shared_folder_open(job->shared_path);
    cli_agent_adopt();
    fflush(NULL);
    const yoke_status status = start_agents(context, job);
    if (status && job->pmi) cli_dismiss(job); /* ends the agents that were started */
    return status;
}

void cli_spawn_end(struct cli_job *job)
{
    if (job->lifeline >= 0) close(job->lifeline);
    cli_shared_folder_close(job->shared, job->shared_path);
    cli_pmi_free(job->pmi);
    job->pmi = NULL;
    job->lifeline = job->shared = -1;
}
