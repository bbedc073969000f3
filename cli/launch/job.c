/* SPDX-License-Identifier: Apache-2.0 */
/* A verb's process as one rank of a job; see job.h. */
#include "cli/launch/job.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yoke/comm.h>

#include "collectives/flight/flight.h"
#include "collectives/faults/roll.h"
#include "core/base/base.h"

static int number_of_variable(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}

/*
 * Detect a launcher of another MPI, without yoke run. Its ranks cannot communicate, and each one is "rank 0
 * of 1".
 */
static yoke_status check_size(int size, bool *reported_out)
{
    static const struct {
        const char *size, *rank, *launcher, *remedy;
    } launchers[] = {
        { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpiexec",
          "start them with mpiexec.mpich" },
        { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun",
          "start them with `srun --mpi=pmi2 ...` (`srun --mpi=list` shows whether the cluster has it) or mpiexec.mpich" },
    };
    for (size_t i = 0; i < YOKE_COUNT(launchers); i++) {
        int expected = number_of_variable(launchers[i].size);
        if (expected <= size || size > 1) continue;
        *reported_out = number_of_variable(launchers[i].rank) > 0;
        return yoke_fail(
            YOKE_ECONFIG,
            "only %d of %d ranks came up: %s started them without the protocol by which MPICH's ranks find each other "
            "(PMI), and Yoke is built with MPICH; %s, or on one host with `yoke run -n %d -- ...`",
            size, expected, launchers[i].launcher, launchers[i].remedy, expected);
    }
    return YOKE_OK;
}

/*
 * MPI's broadcast from rank 0. If a rank dies meanwhile, the error names it. Memory to which MPI may still
 * write after an error is not freed.
 */
static yoke_status broadcast(void *data, int bytes)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = PMPI_Ibcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    const yoke_status status = yokei_mpi_finish(&request, code,
                                                &(struct yokei_mpi_wait){ .comm = MPI_COMM_WORLD,
                                                                          .what = "the ranks' first words",
                                                                          .call = "MPI_Ibcast",
                                                                          .timeout_ms = YOKE_NO_TIMEOUT });
    if (status) yokei_keep(data);
    return status;
}

/* Share rank 0's status for the options, the text if the status is an error, and the options themselves. */
static yoke_status share_options(struct cli_context *context, yoke_status status, struct cli_options *mine,
                                 struct cli_options **options_out, bool *reported_out)
{
    void *block = NULL;
    size_t bytes = 0;
    if (context->rank == 0 && !status) status = cli_options_pack(mine, &block, &bytes);
    int64_t *head = calloc(2, sizeof *head);
    if (!head) {
        free(block);
        return yoke_fail(YOKE_ENOMEM, "no memory for options");
    }
    head[0] = status, head[1] = (int64_t)bytes;
    YOKE_TRY(broadcast(head, 2 * (int)sizeof *head));
    const yoke_status first = (yoke_status)head[0];
    bytes = (size_t)head[1];
    free(head);
    if (first) {
        free(block);
        *reported_out = context->rank > 0;
        return context->rank ? yoke_fail(first, "rank 0 could not read its options") : status;
    }
    if (context->rank) block = malloc(bytes);
    if (!block) return yoke_fail(YOKE_ENOMEM, "no memory for options");
    YOKE_TRY(broadcast(block, (int)bytes));
    if (context->rank)
        status = cli_options_unpack(block, bytes, options_out);
    else
        *options_out = mine;
    free(block);
    return status;
}

static bool is_starting_mpi;

/*
 * If MPICH cannot start, it prints its error and ends the process itself, with a part of its own error number
 * as the exit code. In a job the agent sees this end and names the rank. A process alone prints the message
 * here.
 */
static void report_mpi_failure(void)
{
    if (!is_starting_mpi) return;
    cli_error(
        "MPI could not be started; MPICH's own error is printed above. Variables whose names begin with UCX_ or MPIR_CVAR_ "
        "choose how MPICH sends: unset those that you have set");
    fflush(NULL);
    _exit(yoke_status_exit_code(YOKE_EBACKEND));
}

static yoke_status start_mpi(MPI_Comm *world_out)
{
    if (getenv("PMI_RANK") || atexit(report_mpi_failure)) return yoke_mpi_start(world_out);
    is_starting_mpi = true;
    const yoke_status status = yoke_mpi_start(world_out);
    is_starting_mpi = false;
    return status;
}

yoke_status cli_job_start(const struct cli_line *line, struct cli_context *context_out,
                          struct cli_options **options_out, bool *reported_out)
{
    MPI_Comm world;
    /*
     * Under yoke run each rank writes the error into its record, and yoke run prints one of them. Any rank
     * may be the first to exit.
     */
    *reported_out = number_of_variable("PMI_RANK") > 0 && !getenv("YOKE_SUPERVISOR");
    YOKE_TRY(start_mpi(&world));
    *reported_out = false;
    PMPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    struct cli_context context = { .size = 1, .n_words = line->n_words, .words = line->words };
    PMPI_Comm_rank(MPI_COMM_WORLD, &context.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &context.size);
    YOKE_TRY(check_size(context.size, reported_out));
    struct cli_options *mine = NULL;
    yoke_status status = YOKE_OK;
    if (context.rank == 0) status = cli_options_of_line(line, &mine);
    YOKE_TRY(share_options(&context, status, mine, options_out, reported_out));
    context.options = *options_out;
    *context_out = context;
    return YOKE_OK;
}

yoke_status cli_job_end(void) { return yoke_mpi_stop(); }

bool cli_job_report(yoke_status status, const char *text)
{
    const char *folder = getenv("YOKE_RUN_DIR"), *rank = getenv("PMI_RANK");
    struct yokei_flight_file *file;
    if (!folder || !rank || !getenv("YOKE_SUPERVISOR")
        || yokei_flight_create(folder, atoi(rank), false, &file))
        return false;
    yokei_text(file->error, sizeof file->error, "%s", text);
    atomic_store(&file->status, (uint32_t)status);
    atomic_store(&file->state, YOKEI_RANK_FAILED);
    yokei_flight_close(file);
    return true;
}
