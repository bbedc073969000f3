/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacements for job.c and for the verbs that need libyoke-comm or libyoke-train, in a command that was
 * built without MPI.
 */
#include "cli/cli.h"
#include "cli/launch/job.h"
#include "cli/launch/look.h"

static yoke_status absent(void)
{
    return yoke_fail(
        YOKE_ENODEV,
        "this yoke was built without MPI (configure --without-mpi), so it has no ranks, no training and no checkpoints; info, "
        "verify, tune, bench kernels and bench gemm work. For the rest: apt-get install libmpich-dev mpich, then configure without that option");
}

#define ABSENT(verb)                                    \
    yoke_status verb(const struct cli_context *context) \
    {                                                   \
        (void)context;                                  \
        return absent();                                \
    }
ABSENT(cli_run)
ABSENT(cli_rank)
ABSENT(cli_look)
ABSENT(cli_bench_collectives)
ABSENT(cli_bench_allreduce)
ABSENT(cli_bench_cluster)
ABSENT(cli_train)
ABSENT(cli_plan)
ABSENT(cli_compare)
ABSENT(cli_report)
ABSENT(cli_diagnose)
ABSENT(cli_watch)
ABSENT(cli_parity)
ABSENT(cli_sample)
ABSENT(cli_tokenize)
ABSENT(cli_trace)
ABSENT(cli_blackbox)
ABSENT(cli_postmortem)
ABSENT(cli_schedule_show)
ABSENT(cli_schedule_check)
ABSENT(cli_ckpt_ls)
ABSENT(cli_ckpt_show)
ABSENT(cli_ckpt_verify)
ABSENT(cli_ckpt_diff)
ABSENT(cli_ckpt_convert)
ABSENT(cli_hello)
ABSENT(cli_replay)

yoke_status cli_job_start(const struct cli_line *line, struct cli_context *context_out,
                          struct cli_options **options_out, bool *reported_out)
{
    (void)line, (void)context_out, (void)options_out;
    *reported_out = false;
    return absent();
}

void cli_forget_outer_job(void) {}

void cli_report_lost_files(bool is_rank) { (void)is_rank; /* only the verbs above map files */ }

yoke_status cli_job_end(void) { return YOKE_OK; }

bool cli_job_report(yoke_status status, const char *text)
{
    (void)status, (void)text;
    return false; /* there is no yoke run that would collect it */
}

yoke_status cli_look_for_one(const struct cli_context *context, char *spec, size_t bytes)
{
    (void)context, (void)spec, (void)bytes;
    return absent();
}
