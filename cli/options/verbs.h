/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The verbs: V(name, bit, function, fields of struct cli_verb). The table of verbs, the functions' prototypes
 * (cli.h) and the calls (main.c) are made from this list. The verbs' texts are in cli/options/manual.
 */
#ifndef CLI_OPTIONS_VERBS_H
#define CLI_OPTIONS_VERBS_H

/* clang-format off */
#define CLI_VERBS(V)                                                                                        \
    V("info", CLI_INFO, cli_info,                                                                           \
      .summary = "List the devices and their speeds; test this machine")                                    \
    V("run", CLI_RUN, cli_run, .arguments = "[--] VERB [OPTION...]",                                        \
      .summary = "Start a verb on several ranks and watch them")                                            \
    V("rank", CLI_RANK, cli_rank, .arguments = "[--] VERB [OPTION...]",                                     \
      .summary = "The agent of one rank; yoke run starts it")                                               \
    V("look", CLI_LOOK, cli_look, .arguments = "[--] VERB [OPTION...]",                                     \
      .summary = "Choose this host's devices; yoke run --devices auto starts it")                           \
    V("verify", CLI_VERIFY, cli_verify,                                                                     \
      .summary = "Compare a device's operations with the float64 reference")                                \
    V("tune", CLI_TUNE, cli_tune,                                                                           \
      .summary = "Measure the variants of operations, and store the fastest")                               \
    V("compile", CLI_COMPILE, cli_compile,                                                                  \
      .summary = "Compile the programs of GPUs that need not be here")                                      \
    V("bench kernels", CLI_BENCH_KERNELS, cli_bench_kernels,                                                \
      .summary = "Measure the operations of a device, and compare with limits")                             \
    V("bench gemm", CLI_BENCH_GEMM, cli_bench_gemm,                                                         \
      .summary = "Measure matrix products beside those of known libraries")                                 \
    V("bench collectives", CLI_BENCH_COLLECTIVES, cli_bench_collectives, .ranks = true,                     \
      .summary = "Measure collectives by size, beside those of MPI")                                        \
    V("bench allreduce", CLI_BENCH_ALLREDUCE, cli_bench_allreduce, .ranks = true,                           \
      .summary = "Measure all-reduce by size")                                                              \
    V("bench cluster", CLI_BENCH_CLUSTER, cli_bench_cluster, .ranks = true,                                 \
      .summary = "Measure the ranks' devices and links, for yoke plan")                                     \
    V("compare", CLI_COMPARE, cli_compare, .arguments = "OLD NEW",                                          \
      .summary = "Compare the speeds of two devices, or two training runs")                                 \
    V("report", CLI_REPORT, cli_report, .arguments = "PATH...",                                             \
      .summary = "Write a page about runs, or about devices")                                               \
    V("diagnose", CLI_DIAGNOSE, cli_diagnose, .arguments = "RUN [RUN_BEFORE] | --timeline FILE...",         \
      .summary = "Say why the steps of a run take so long, and what to do")                                 \
    V("watch", CLI_WATCH, cli_watch, .arguments = "RUN",                                                    \
      .summary = "Show a training run while it trains, or serve its page")                                  \
    V("train", CLI_TRAIN, cli_train, .ranks = true,                                                         \
      .summary = "Train a language model on any mix of devices")                                            \
    V("plan", CLI_PLAN, cli_plan,                                                                           \
      .summary = "Compute the memory and layout of a run without starting it")                              \
    V("sample", CLI_SAMPLE, cli_sample, .ranks = true,                                                      \
      .summary = "Generate text with a model")                                                              \
    V("tokenize", CLI_TOKENIZE, cli_tokenize,                                                               \
      .summary = "Convert text to tokens, and back")                                                        \
    V("ckpt ls", CLI_CKPT_LS, cli_ckpt_ls, .arguments = "DIR",                                              \
      .summary = "List the checkpoints in a folder")                                                        \
    V("ckpt show", CLI_CKPT_SHOW, cli_ckpt_show, .arguments = "CKPT|DIR",                                   \
      .summary = "Show the contents of a checkpoint")                                                       \
    V("ckpt verify", CLI_CKPT_VERIFY, cli_ckpt_verify, .arguments = "CKPT|DIR",                             \
      .summary = "Check every byte of a checkpoint")                                                        \
    V("ckpt diff", CLI_CKPT_DIFF, cli_ckpt_diff, .arguments = "A B",                                        \
      .summary = "Compare two checkpoints, or the checkpoints of two runs")                                 \
    V("ckpt convert", CLI_CKPT_CONVERT, cli_ckpt_convert, .arguments = "CKPT|DIR OUT",                      \
      .summary = "Write a checkpoint's weights in Hugging Face's format")                                   \
    V("trace", CLI_TRACE, cli_trace, .arguments = "DIR",                                                    \
      .summary = "Read the flight records of a run: which rank failed first")                               \
    V("blackbox", CLI_BLACKBOX, cli_blackbox, .arguments = "DIR",                                           \
      .summary = "Read the latest steps of a training, layer by layer")                                     \
    V("postmortem", CLI_POSTMORTEM, cli_postmortem, .arguments = "DIR",                                     \
      .summary = "Find why the loss of a training left its path")                                           \
    V("replay", CLI_REPLAY, cli_replay, .ranks = true, .arguments = "ORDER",                               \
      .summary = "A rank of a replay; yoke postmortem starts it")                                           \
    V("parity", CLI_PARITY, cli_parity, .ranks = true,                                                      \
      .summary = "Compare parallel layouts with one rank on the host")                                      \
    V("schedule show", CLI_SCHEDULE_SHOW, cli_schedule_show,                                                \
      .summary = "Draw a pipeline schedule and compute its bubble")                                         \
    V("schedule check", CLI_SCHEDULE_CHECK, cli_schedule_check, .arguments = "FILE",                        \
      .summary = "Check that a pipeline schedule is correct")                                               \
    V("hello", CLI_HELLO, cli_hello, .ranks = true,                                                         \
      .summary = "Start ranks that meet and end; a test of the launcher")                                   \
    V("manual", CLI_MANUAL, cli_manual,                                                                     \
      .summary = "Write a manual page, or the shell completion")
/* clang-format on */

#endif
