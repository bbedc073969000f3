/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs: what each is for, an example, and the function that runs it. */
#include <string.h>

#include "cli/cli.h"

const struct cli_verb cli_verb_table[] = {
    { "info", CLI_INFO, .summary = "Show the devices, what they can do and how fast; test the machine",
      .example = "yoke info            # devices, 16-bit support, copy rate, matrix speed, cores\n"
                 "yoke info --check    # test this machine; a fix for each finding",
      .description =
          "Lists the devices of every backend, and for a backend that has none, why. Each backend is looked at in a "
          "child process of its own, because two vendors' compilers in one process can abort it. Speeds are medians "
          "of a few short measurements.\n\n"
          "With --check, tests what jobs of several ranks need: the launcher, shared memory, locked memory, cores, "
          "OpenCL. Exit code 0 when nothing failed, else that of the first failure.",
      .run = cli_info },
    { "run", CLI_RUN, .arguments = "[--] VERB [OPTION...]",
      .summary = "Start a verb on several ranks, watch them, and name the one that failed",
      .example = "# two ranks, one on the CPU, one on an OpenCL device\n"
                 "yoke run -n 2 --devices host,opencl:0 -- train --text book.txt --model nano\n"
                 "# four ranks on two hosts\n"
                 "yoke run -n 4 --hosts a:2,b:2 -- bench allreduce",
      .description =
          "Starts MPICH's mpiexec with one agent (yoke rank) per rank. The agent binds its rank to its share of the "
          "cores, starts it, and records at once when it stops or ends, so that the other ranks and this command can "
          "name it. A word with a slash in place of VERB is a program of your own that uses libyoke-comm.\n\n"
          "One error text and one exit code come from the ranks' records, never from the launcher: 16 when a rank "
          "died, 15 when one hung, else the code of the first rank that failed. SIGINT and SIGTERM are passed to the "
          "ranks; a second SIGINT kills them. Nothing is left running when any process of the job, this one "
          "included, is killed.",
      .run = cli_run },
    { "rank", CLI_RANK, .arguments = "[--] VERB [OPTION...]", .summary = "The agent of one rank; started by yoke run",
      .example = "yoke run -n 2 -- train    # starts two agents",
      .description = "Starts one rank, watches it, records its end in the run directory, and leaves when all ranks have "
                     "ended. It is started by yoke run and is of no use by itself.",
      .run = cli_rank },
    { "verify", CLI_VERIFY, .summary = "Hold every operation of a device to the float64 reference and its error bound",
      .example = "yoke verify --device opencl:0            # every operation, type and variant\n"
                 "yoke verify --device host --op gemm --dtype bf16",
      .description = "Runs each operation on ragged shapes and hard inputs (NaN, infinities, subnormals, signed zeros) and "
                     "compares with plain C in float64. A result is the largest error divided by its bound, derived from "
                     "the unit roundoff and the length of the sums: above 1 it fails. Exit code 17 when anything failed.",
      .run = cli_verify },
    { "bench gemm", CLI_BENCH_GEMM, .summary = "Measure matrix products, with the known libraries beside them",
      .example = "yoke bench gemm --device host --sizes 512,1024 --dtypes f32,bf16\n"
                 "yoke bench gemm --device opencl:0 -o csv",
      .description = "Each product is checked against the reference first: a wrong result prints no speed. All sides use the "
                     "same threads and are measured in turn; medians count. %limit is the share of the fastest rate that "
                     "this device was seen to reach in the run.",
      .run = cli_bench_gemm },
    { "bench allreduce", CLI_BENCH_ALLREDUCE, .ranks = true, .summary = "Measure all-reduce by size, with MPI_Allreduce beside it",
      .example = "yoke run -n 2 -- bench allreduce --min-bytes 4M --max-bytes 64M\n"
                 "yoke run -n 8 -- bench allreduce --max-bytes 64 --repeats 100",
      .description = "Prints the columns of nccl-tests: algbw is bytes over time, busbw that times 2 (ranks - 1) / ranks. Each "
                     "size is checked on exact data first, out of place and in place: a wrong result prints no speed. Both "
                     "sides are called in turn between barriers; a call takes as long as its slowest rank; medians count. "
                     "%limit is the share of the time that the bytes need at least, measured beside it: on one host for all "
                     "ranks to copy them in memory, between hosts for neighbours to exchange them.",
      .run = cli_bench_allreduce },
    { "train", CLI_TRAIN, .ranks = true, .summary = "Train a GPT on text or tokens, on any mix of devices",
      .example = "# one device\n"
                 "yoke train --text book.txt --model nano --steps 200\n"
                 "# a CPU and an OpenCL device share each batch by their speed, for 200 seconds\n"
                 "yoke run -n 2 --devices host,opencl:0 -- train --text book.txt --precision bf16 --budget-seconds 200",
      .description =
          "Trains with AdamW, a linear warm-up and a cosine. Each rank works on its share of every batch; gradients are "
          "summed in fp32, and the loss is that of all tokens, so the result does not depend on the shares. Writes "
          "plan.json and metrics.jsonl to the run directory; prints the validation loss, for text beside that of an "
          "order-3 byte-count model, and a sample.\n\n"
          "The memory is known before the start: a run that does not fit is refused with what to lower (exit code 13). "
          "A loss that is no number ends the run with rank and step (exit code 17).",
      .run = cli_train },
    { "hello", CLI_HELLO, .ranks = true, .summary = "Start ranks that meet and end; a test of the launcher",
      .example = "yoke run -n 2 -- hello", .description = "Used by yoke info --check.", .run = cli_hello },
    { "manual", CLI_MANUAL, .summary = "Write a manual page, or the shell completion", .example = "yoke manual --name=run | man -l -",
      .description = "Used while Yoke is built.", .run = cli_manual },
    { NULL },
};

const struct cli_verb *cli_verb_of(uint32_t bit)
{
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (v->bit == bit) return v;
    return NULL;
}
