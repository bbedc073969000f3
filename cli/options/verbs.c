/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs: the summary of each, and the function that runs it. Their texts are in cli/options/manual. */
#include "cli/cli.h"

/* clang-format off */
const struct cli_verb cli_verb_table[] = {
    { "info", CLI_INFO,
      .summary = "List the devices and their speeds; test this machine", .run = cli_info },
    { "run", CLI_RUN, .arguments = "[--] VERB [OPTION...]",
      .summary = "Start a verb on several ranks and watch them", .run = cli_run },
    { "rank", CLI_RANK, .arguments = "[--] VERB [OPTION...]",
      .summary = "The agent of one rank; yoke run starts it", .run = cli_rank },
    { "verify", CLI_VERIFY,
      .summary = "Compare a device's operations with the float64 reference", .run = cli_verify },
    { "tune", CLI_TUNE,
      .summary = "Measure the variants of operations, and store the fastest", .run = cli_tune },
    { "compile", CLI_COMPILE,
      .summary = "Compile the programs of GPUs that need not be here", .run = cli_compile },
    { "bench kernels", CLI_BENCH_KERNELS,
      .summary = "Measure the operations of a device, and compare with limits", .run = cli_bench_kernels },
    { "bench gemm", CLI_BENCH_GEMM,
      .summary = "Measure matrix products beside those of known libraries", .run = cli_bench_gemm },
    { "bench collectives", CLI_BENCH_COLLECTIVES, .ranks = true,
      .summary = "Measure collectives by size, beside those of MPI", .run = cli_bench_collectives },
    { "bench allreduce", CLI_BENCH_ALLREDUCE, .ranks = true,
      .summary = "Measure all-reduce by size", .run = cli_bench_allreduce },
    { "train", CLI_TRAIN, .ranks = true,
      .summary = "Train a GPT-2 or Llama on any mix of devices", .run = cli_train },
    { "plan", CLI_PLAN,
      .summary = "Compute the memory and layout of a run without starting it", .run = cli_plan },
    { "sample", CLI_SAMPLE, .ranks = true,
      .summary = "Generate text with a model", .run = cli_sample },
    { "tokenize", CLI_TOKENIZE,
      .summary = "Convert text to tokens, and back", .run = cli_tokenize },
    { "ckpt ls", CLI_CKPT_LS, .arguments = "DIR",
      .summary = "List the checkpoints in a folder", .run = cli_ckpt_ls },
    { "ckpt show", CLI_CKPT_SHOW, .arguments = "CKPT|DIR",
      .summary = "Show the contents of a checkpoint", .run = cli_ckpt_show },
    { "ckpt verify", CLI_CKPT_VERIFY, .arguments = "CKPT|DIR",
      .summary = "Check every byte of a checkpoint", .run = cli_ckpt_verify },
    { "ckpt diff", CLI_CKPT_DIFF, .arguments = "A B",
      .summary = "Compare two checkpoints, or the checkpoints of two runs", .run = cli_ckpt_diff },
    { "ckpt convert", CLI_CKPT_CONVERT, .arguments = "CKPT|DIR OUT",
      .summary = "Write a checkpoint's weights in Hugging Face's format", .run = cli_ckpt_convert },
    { "trace", CLI_TRACE, .arguments = "DIR",
      .summary = "Read the flight records of a run: which rank failed first", .run = cli_trace },
    { "parity", CLI_PARITY, .ranks = true,
      .summary = "Compare parallel layouts with one rank on the host", .run = cli_parity },
    { "schedule show", CLI_SCHEDULE_SHOW,
      .summary = "Draw a pipeline schedule and compute its bubble", .run = cli_schedule_show },
    { "schedule check", CLI_SCHEDULE_CHECK, .arguments = "FILE",
      .summary = "Check that a pipeline schedule is correct", .run = cli_schedule_check },
    { "hello", CLI_HELLO, .ranks = true,
      .summary = "Start ranks that meet and end; a test of the launcher", .run = cli_hello },
    { "manual", CLI_MANUAL,
      .summary = "Write a manual page, or the shell completion", .run = cli_manual },
    { .name = NULL },
};
/* clang-format on */

const struct cli_exit_code cli_exit_codes[] = {
    { 0, "success" },
    { 1, "an error in Yoke itself" },
    { 2, "the command line is wrong" },
    { 10, "a configuration, a plan or a schedule is wrong" },
    { 11, "a data file or a checkpoint is missing or damaged" },
    { 12, "the device is not there, cannot do this, or its driver failed" },
    { 13, "memory or disk space is too small, or a file cannot be written" },
    { 14, "the ranks called different collectives" },
    { 15, "a rank made no progress in time" },
    { 16, "a rank died" },
    { 17, "a result is numerically wrong" },
    { 75, "the run was asked to stop, and saved a checkpoint" },
    { 0, NULL },
};

const char cli_about_options[] =
    "Each option, except --help and the options marked \"Only on the command line\", can also be given "
    "in a YAML file that --config names, and as a variable. The key in the file is the option's name. "
    "The variable's name is YOKE_ and the option's name in capitals, with _ instead of -. An option on "
    "the command line wins over a variable, and a variable wins over the file.";

const struct cli_verb *cli_verb_of(uint32_t bit)
{
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (v->bit == bit) return v;
    return NULL;
}
