/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, and the search for its rows. options.h explains types and units. */
#include "cli/options/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"

#define COLLECTIVES (CLI_BENCH_COLLECTIVES | CLI_BENCH_ALLREDUCE)
#define BENCH (CLI_BENCH_GEMM | CLI_BENCH_KERNELS | COLLECTIVES)
#define KERNELS (CLI_TUNE | CLI_BENCH_KERNELS)
#define RESULTS                                                                                             \
    (CLI_TUNE | CLI_INFO | CLI_VERIFY | CLI_TRACE | CLI_SCHEDULE_SHOW | BENCH | CLI_CKPT_LS | CLI_CKPT_SHOW \
     | CLI_CKPT_VERIFY | CLI_CKPT_DIFF)
#define DTYPES "f32|bf16|f16"

const struct cli_option cli_option_table[] = {
    /* ---- every verb ---- */
    { "config", CLI_EVERY & ~CLI_RANK, CLI_TEXT, 'c', .metavar = "FILE",
      .help = "Read options from a YAML file; variables and options given here win over it" },
    { "help", CLI_EVERY, CLI_FLAG, 'h', .no_key = true,
      .help = "Show an example and the options that are needed most" },
    { "help-all", CLI_EVERY, CLI_FLAG, .no_key = true,
      .help = "Show every option, with the explanations of the manual page" },
    { "verbose", CLI_TRAIN, CLI_FLAG, 'v', .group = CLI_SEEN,
      .help = "Say more before the start: the memory of every rank by part" },

    /* ---- run ---- */
    { "ranks", CLI_RUN, CLI_INT, 'n', .metavar = "N", .least = 1, .most = 1024,
      .help = "Number of ranks to start; default: one per entry of --devices, else 1" },
    { "hosts", CLI_RUN, CLI_LIST, .metavar = "HOST[:N],...",
      .help =
          "Hosts to start on, with ranks per host (default: equal blocks); same paths, ssh without password, a shared working folder" },
    { "devices", CLI_RUN, CLI_LIST, .metavar = "SPEC,...",
      .help = "Device of each rank in turn, such as host,opencl:0; a shorter list is repeated" },
    { "bind", CLI_RUN, CLI_CHOICE, .value = "cores", .choices = "cores|none",
      .help =
          "Give each rank of a host its own share of the cores, with thread counts to match, or leave that alone" },
    { "launcher", CLI_RUN, CLI_TEXT, .value = "auto", .metavar = "auto|own|hydra|FILE",
      .help =
          "Who starts the ranks: yoke run itself, without any open port, or MPICH's mpiexec (hydra; FILE: this one), which several hosts need; auto: "
          "mpiexec where hosts are named, by --hosts or a scheduler" },
    { "run-dir", CLI_RUN | CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR",
      .help =
          "Folder for what a run writes, flight records included, one job's at a time; default: a new one under runs/" },
    { "start-seconds", CLI_RUN, CLI_TIME, .value = "60s", .metavar = "TIME", .least = 1, .most = 86400,
      .help =
          "While hosts, ranks and MPI start, how long nothing may move before the job is ended; a warning comes after a quarter of it" },
    { "grace", CLI_RUN, CLI_TIME, .value = "15s", .least = 0, .most = 3600,
      .help = "After a rank failed, how long the others may take to end by themselves" },

    /* ---- info ---- */
    { "check", CLI_INFO, CLI_FLAG, .help = "Test this machine and say how to fix what is found" },
    { "no-speed", CLI_INFO, CLI_FLAG, .help = "Leave out the measurements of copy rate and matrix speed" },

    /* ---- trace: cli/show/trace.c ---- */
    { "format", CLI_TRACE, CLI_CHOICE, .value = "text", .choices = "text|json|chrome",
      .help = "For people, for scripts, or a time line for chrome://tracing and ui.perfetto.dev" },
    { "output", CLI_TRACE | CLI_TOKENIZE | CLI_VERIFY, CLI_TEXT, 'o', .no_key = true, .metavar = "FILE",
      .old = "to", .help = "Write to this file, whole or not at all, instead of to stdout" },
    { "last", CLI_TRACE, CLI_INT, .value = "5", .least = 0, .most = 1024,
      .help = "Operations to show of each rank, in text and JSON" },

    /* ---- schedule: cli/show/schedule.c ---- */
    { "kind", CLI_SCHEDULE_SHOW, CLI_CHOICE, .value = "1f1b", .choices = "naive|gpipe|1f1b|interleaved|zb-h1",
      .help =
          "Schedule to make: a micro-batch at a time, all forward then all backward, forward and backward in turn, that with chunks, "
          "or that with weight gradients put off" },
    { "file", CLI_SCHEDULE_SHOW, CLI_TEXT, .metavar = "FILE",
      .help = "Show this schedule (CSV, a line per stage) instead of making one" },
    { "stages", CLI_SCHEDULE_SHOW, CLI_INT, .metavar = "N", .least = 1, .most = 1024,
      .help = "Pipeline stages; default 4, or the lines of the file" },
    { "microbatches", CLI_SCHEDULE_SHOW, CLI_INT, .metavar = "N", .least = 1, .most = 100000,
      .help = "Micro-batches of a step; default 8, or what the file has" },
    { "chunks", CLI_SCHEDULE_SHOW, CLI_INT, .metavar = "N", .least = 1, .most = 1000,
      .help = "Parts of the layers of each stage; default 1, 2 for interleaved, or what the file has" },
    { "recompute", CLI_SCHEDULE_SHOW, CLI_TEXT, .value = "none", .metavar = "none|full|S1,S2,...",
      .help = "Stages that run their forward pass again before B; of a file it is seen" },
    { "buckets", CLI_SCHEDULE_SHOW, CLI_INT, .value = "0", .metavar = "N", .least = 0, .most = 100000,
      .help = "Buckets of gradients that each stage sums over its replicas" },
    { "tied", CLI_SCHEDULE_SHOW, CLI_FLAG, .help = "The first and the last stage share parameters" },
    { "costs", CLI_SCHEDULE_SHOW | CLI_PLAN, CLI_LIST, .group = CLI_LAYOUT, .no_key = true,
      .metavar = "F,B,W[,HOP]",
      .help =
          "Time of a stage's forward pass, input gradient and weight gradient of a micro-batch, and of a message to the next stage, in any unit; default 1,1,1,0" },
    { "costs-file", CLI_SCHEDULE_SHOW, CLI_TEXT, .metavar = "FILE",
      .help =
          "The same as CSV with a line per stage, F,B,W[,HOP[,R]]; HOP is to the next stage, R what recomputing takes (default F)" },
    { "when", CLI_SCHEDULE_SHOW, CLI_TEXT, .metavar = "TEXT",
      .help =
          "Say what every stage is doing at a moment such as \"S3 finished F1\" or \"S1 starts B2\"; stages and micro-batches are counted from 1 here" },
    { "at", CLI_SCHEDULE_SHOW, CLI_REAL, .metavar = "TIME", .least = 0, .most = 1e12,
      .help = "The same at this time" },
    { "format", CLI_SCHEDULE_SHOW, CLI_CHOICE, .value = "ascii", .choices = "ascii|svg|csv|json",
      .old = "output", .help = "Drawing, picture, the schedule itself, or everything for programs" },
    { "output", CLI_SCHEDULE_SHOW, CLI_TEXT, 'o', .no_key = true, .metavar = "FILE", .old = "output-file",
      .old_choice_of = "format", .help = "Write to this file, whole or not at all, instead of to stdout" },
    { "width", CLI_SCHEDULE_SHOW, CLI_INT, .value = "100", .metavar = "COLUMNS", .least = 40, .most = 10000,
      .help = "Columns of the drawing" },
    { "stages", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 1, .most = 1024,
      .help = "Stages that there must be; default: as many as the file has lines" },
    { "microbatches", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 1, .most = 100000,
      .help = "Micro-batches that there must be; default: as many as the file names" },
    { "chunks", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 1, .most = 1000,
      .help = "Chunks of each stage; default: as many as the file names" },
    { "buckets", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 0, .most = 100000,
      .help = "Buckets of each stage; default: as many as its line names" },
    { "tied", CLI_SCHEDULE_CHECK, CLI_FLAG,
      .help = "The first and the last stage share parameters; default: where the file has TIED" },

    /* ---- verify, bench ---- */
    { "device", CLI_VERIFY | CLI_TUNE | BENCH | CLI_TRAIN | CLI_PARITY | CLI_SAMPLE, CLI_TEXT,
      .group = CLI_MODEL, .value = "host", .metavar = "SPEC",
      .help = "Device to use, as yoke info lists them: host, opencl:0, opencl:1, reference" },
    { "op", CLI_VERIFY, CLI_TEXT, .metavar = "WORD",
      .help = "Only this op, such as layernorm_backward, or family, such as norm" },
    { "dtype", CLI_VERIFY, CLI_CHOICE, .choices = DTYPES "|f64", .help = "Only this data type" },
    { "variant", CLI_VERIFY, CLI_TEXT, .metavar = "NAME",
      .help = "Only this variant of each op; default: all of them" },
    { "case", CLI_VERIFY, CLI_INT, .metavar = "N", .least = 1, .most = 100000,
      .help = "Only this case of each line, as the report numbers them" },
    { "full", CLI_VERIFY, CLI_FLAG,
      .help = "The full sweep of shapes, with every variant in every type (minutes)" },
    { "hang-seconds", CLI_VERIFY, CLI_TIME, .value = "300s", .metavar = "TIME", .least = 1, .most = 86400,
      .help = "How long one case may take, compiling its program included, before it counts as hung" },
    { "seed", CLI_VERIFY | CLI_TRAIN | CLI_PLAN | CLI_PARITY | CLI_SAMPLE, CLI_INT, .group = CLI_MODEL,
      .value = "1", .least = 0, .most = 9e15, .help = "Seed of everything that is drawn at random" },
    { "size", CLI_BENCH_GEMM, CLI_LIST, .value = "256,512,1024", .metavar = "N|MxNxK,...", .old = "sizes",
      .help = "Sizes of the products C[M,N] = A[M,K] B[K,N]; one number stands for all three" },
    { "collectives", CLI_BENCH_COLLECTIVES, CLI_LIST,
      .value = "all_reduce,reduce_scatter,all_gather,broadcast,all_to_all",
      .choices =
          "all_reduce|reduce_scatter|all_gather|broadcast|reduce|all_to_all|gather|scatter|sendrecv|barrier",
      .help = "What to measure; sendrecv is with both neighbours of a ring" },
    { "min-bytes", COLLECTIVES, CLI_BYTES, .value = "64", .least = 1, .most = 1e12,
      .help = "Smallest buffer; rounded up to an element per slice" },
    { "max-bytes", COLLECTIVES, CLI_BYTES, .value = "64M", .least = 1, .most = 1e12,
      .help = "Largest buffer" },
    { "factor", COLLECTIVES, CLI_INT, .value = "4", .least = 2, .most = 1e6,
      .help = "From one size to the next" },
    { "reduction", COLLECTIVES, CLI_LIST, .value = "sum", .choices = "sum|avg|min|max|prod", .old = "ops",
      .help = "Reductions to measure" },
    { "in-place", COLLECTIVES, CLI_CHOICE, .value = "both", .choices = "out|in|both",
      .help = "Out of place, in place, or a line for each" },
    { "shared", COLLECTIVES, CLI_FLAG,
      .help = "Buffers that all ranks of a host see (yoke_comm_alloc), not each rank's own" },
    { "rivals", COLLECTIVES, CLI_CHOICE, .value = "on", .choices = "on|off",
      .help =
          "MPI's own call beside Yoke's, in turn; with more ranks than cores its waiting slows down what follows" },
    { "beside", COLLECTIVES, CLI_CHOICE, .choices = "unchecked|run|host|f32|equal",
      .help =
          "A variant of Yoke's own in turn: without the call check, with reproducible=run, on private host memory, f32 of as many bytes, "
          "or with equal shares" },
    { "explain", COLLECTIVES, CLI_FLAG,
      .help =
          "Show the plan of each line too: algorithm, chunk, the time that the cost model predicts, and why" },
    { "no-check", COLLECTIVES, CLI_FLAG, .help = "Leave out the call check" },
    { "reproducible", COLLECTIVES, CLI_CHOICE, .value = "run", .choices = "run|shape|off",
      .help =
          "The same bits in each run (off is the same), or whatever the count, the chunks and the hosts" },
    { "sum-shares", COLLECTIVES, CLI_TEXT, .metavar = "N:N...", .old = "shares",
      .help = "Each rank's share of long sums: numbers, equal, or auto (default: measured)" },
    { "accum", COLLECTIVES, CLI_CHOICE, .value = "f32", .choices = "f32|native",
      .help = "16-bit sums are rounded once, or at each hop" },
    { "wait", COLLECTIVES, CLI_CHOICE, .value = "auto", .choices = "auto|spin|yield|sleep",
      .help = "How ranks wait" },
    { "dtype", CLI_BENCH_GEMM, CLI_LIST, .value = "f32", .choices = DTYPES, .old = "dtypes",
      .help = "Data types to measure" },
    { "dtype", COLLECTIVES, CLI_LIST, .value = "f32", .choices = DTYPES "|f64|i32|i64|i8|u8", .old = "dtypes",
      .help = "Data types to measure" },
    { "repeats", CLI_BENCH_GEMM, CLI_INT, .value = "9", .least = 1, .most = 1000,
      .help = "Measurements of each side, taken in turn; the median counts" },
    { "repeats", COLLECTIVES, CLI_INT, .value = "25", .least = 1, .most = 100000,
      .help = "Samples of each side at most, taken in turn, of at least 2 ms each" },
    { "budget-seconds", COLLECTIVES, CLI_TIME, .value = "1s", .least = 0.001, .most = 1e6,
      .help =
          "Time for each side of a line: slow calls are sampled less often, at least 3 times, or once if they take longer than this" },
    { "op", KERNELS, CLI_LIST, .metavar = "WORD,...",
      .help = "Only these ops, such as layernorm_backward, and families, such as norm" },
    { "dtype", KERNELS, CLI_LIST, .choices = DTYPES, .help = "Only these data types" },
    { "size", KERNELS, CLI_LIST, .metavar = "WORD|'N=512 C=768',...",
      .help =
          "Sizes: tiny, micro, 124m (shapes of GPT-2s of these names), or dimensions; what is not named is as in 124m" },
    { "budget-seconds", CLI_TUNE, CLI_TIME, .value = "120s", .least = 0.01, .most = 1e6, .old = "seconds",
      .help =
          "Time for the measurements in turn, dealt to all sizes; compiling, a first look and conformance come on top" },
    { "output", CLI_TUNE, CLI_TEXT, 'o', .no_key = true, .metavar = "FILE", .old = "out",
      .help = "Write this file; default: the user's for this device, which is used from then on" },
    { "dry-run", CLI_TUNE, CLI_FLAG, .help = "Measure and print, but write no file" },
    { "match", CLI_TUNE, CLI_LIST, .metavar = "FIELD=PATTERN,...",
      .help =
          "Write a file for all devices whose name, driver and features (see yoke info) match, not for this one alone" },
    { "budget-seconds", CLI_BENCH_KERNELS, CLI_TIME, .value = "0.2s", .least = 0.001, .most = 1e6,
      .help = "Time for each line, 5 rounds at least" },
    { "threads", CLI_BENCH_GEMM | KERNELS, CLI_INT, .least = 1, .most = 4096,
      .help = "Threads of every side on host and PoCL; default: one per core of this process" },
    { "format", BENCH, CLI_CHOICE, .value = "md", .choices = "md|json|csv", .old = "output,-o",
      .help = "How results are printed" },
    { "json", RESULTS | CLI_TRAIN | CLI_PLAN | CLI_PARITY | CLI_SAMPLE | CLI_TOKENIZE, CLI_FLAG,
      .group = CLI_SEEN, .help = "Results as JSON" },

    /* ---- train: cli/train/train.c ---- */
    { "text", CLI_TRAIN, CLI_TEXT, .group = CLI_DATA, .metavar = "FILE",
      .help = "Train on this text, byte by byte or in tokens of --tokenizer; its tail is held out" },
    { "tokens", CLI_TRAIN, CLI_TEXT, .group = CLI_DATA, .metavar = "FILE",
      .help = "Train on this token file, as llm.c writes them (.bin)" },
    { "tokenizer", CLI_TRAIN | CLI_SAMPLE | CLI_TOKENIZE, CLI_TEXT, .group = CLI_DATA, .metavar = "FILE|DIR",
      .help = "A tokenizer.json of Hugging Face's (byte-level BPE), or the folder that holds it" },
    { "model", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_MODEL, .value = "micro", .metavar = "NAME|FILE",
      .help =
          "nano, micro or 124m (GPT-2), llama-nano or llama-micro, or the path of a Hugging Face config.json of a GPT-2 or Llama" },
    { "precision", CLI_TRAIN | CLI_PLAN | CLI_SAMPLE, CLI_CHOICE, .group = CLI_MODEL, .value = "f32",
      .choices = DTYPES,
      .help = "Type of activations and matrices; sums, masters and moments are always f32" },
    { "batch", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .value = "16", .metavar = "N", .least = 1,
      .most = 1e6, .help = "Sequences per step, of all ranks together" },
    { "micro-batch", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .metavar = "N", .least = 1,
      .most = 1e6,
      .help = "Sequences that go through the model at once on a rank; default: all of its share" },
    { "sequence", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_MODEL, .metavar = "N", .least = 1, .most = 1e6,
      .help = "Tokens per sequence; default: the model's positions" },
    { "shares", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .value = "auto",
      .metavar = "auto|A:B:...",
      .help =
          "How the batch is dealt to the replicas: by --balance, or in these proportions; 0 leaves a replica's ranks out" },
    { "balance", CLI_TRAIN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .choices = "auto|equal",
      .help =
          "What --shares, --layers and --tensor-shares leave open: by each device's measured speed, or equal" },
    { "placement", CLI_TRAIN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "host",
      .choices = "host|rank",
      .help =
          "Order of the ranks on the mesh: by host and kind of device, so that --tp groups stay within them, or as they were started" },
    { "dp", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_LAYOUT, .metavar = "N", .least = 1, .most = 100000,
      .help = "Replicas of the model; default: what --pp and --tp leave of the ranks" },
    { "pp", CLI_TRAIN | CLI_PLAN | CLI_SAMPLE, CLI_INT, .group = CLI_LAYOUT, .value = "1", .metavar = "N",
      .least = 1, .most = 100000, .help = "Pipeline stages" },
    { "tp", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .value = "1", .metavar = "N[,N...]",
      .help = "Ranks that share each layer's tensors; of each stage, where these differ" },
    { "schedule", CLI_TRAIN | CLI_PLAN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .choices = "auto|naive|gpipe|1f1b|interleaved|zb-h1",
      .help = "Order of a pipeline's passes; auto: 1f1b, with --chunks interleaved" },
    { "schedule-file", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true,
      .metavar = "FILE.csv",
      .help =
          "A schedule of your own, a line per stage (yoke schedule show --format csv writes one, yoke schedule check tries it)" },
    { "chunks", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_LAYOUT, .rare = true, .value = "1",
      .metavar = "N", .least = 1, .most = 1000,
      .help = "Runs of layers on each pipeline stage (interleaved)" },
    { "layers", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true, .metavar = "N,N...",
      .help = "Blocks of each pipeline stage; default: by --balance" },
    { "recompute", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true, .value = "none",
      .metavar = "none|attention|full",
      .help = "Forget activations and compute them again; one word, or one per pipeline stage by commas" },
    { "tensor-shares", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true,
      .metavar = "A:B:...",
      .help =
          "How --tp deals heads, features and vocabulary (--tp 2,1: of all stages, one after the other); default: by --balance" },
    { "sequence-parallel", CLI_TRAIN | CLI_PLAN, CLI_FLAG, .group = CLI_LAYOUT, .rare = true,
      .help = "With --tp: norms and residuals of a part of the positions on each rank" },
    { "zero", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_LAYOUT, .value = "0", .metavar = "0|1", .least = 0,
      .most = 1,
      .help = "1: optimizer states are divided over the replicas (ZeRO-1): less memory, the same bits" },
    { "zero-shares", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .metavar = "auto|A:B:...",
      .help =
          "How they are divided: equally, or by free memory where equal parts do not fit; or in these proportions" },
    { "steps", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .value = "1000", .metavar = "N", .least = 1,
      .most = 1e9,
      .help =
          "Steps to train, counted from the run's start: with --resume those before it too; fewer than are done is an error, as many is nothing to do" },
    { "budget-seconds", CLI_TRAIN | CLI_PLAN, CLI_TIME, .group = CLI_STEPS, .metavar = "TIME", .least = 0.1,
      .most = 1e8, .help = "Train for so long instead; the learning rate follows the elapsed share" },
    { "learning-rate", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .value = "1e-3", .least = 0,
      .most = 100, .help = "Largest learning rate" },
    { "min-learning-rate", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .least = 0,
      .most = 100, .help = "Learning rate at the end of the cosine; default: a tenth" },
    { "warmup", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .value = "20", .metavar = "STEPS",
      .least = 0, .most = 1e9, .help = "Steps of linear warm-up" },
    { "weight-decay", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "0.1",
      .least = 0, .most = 100, .help = "Decoupled weight decay of matrices" },
    { "beta1", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "0.9",
      .least = 0.01, .most = 0.9999999, .help = "AdamW's decay of the first moment" },
    { "beta2", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "0.95",
      .least = 0.01, .most = 0.9999999, .help = "AdamW's decay of the second moment" },
    { "clip", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "1", .least = 0,
      .most = 1e9, .help = "Largest norm of the gradient; 0: no clipping" },
    { "loss-scale", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .least = 0,
      .most = 1e15, .help = "First loss scale; default 65536 in f16, else 1" },
    { "bucket-bytes", CLI_TRAIN | CLI_PLAN, CLI_BYTES, .group = CLI_LAYOUT, .rare = true, .value = "25M",
      .least = 1, .most = 1e15, .help = "Gradients are summed over the ranks in pieces of about this size" },
    { "overlap", CLI_TRAIN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .choices = "auto|on|off",
      .help = "Of sums of gradients with the backward pass on host ranks; auto: where they cross a network" },
    { "peak", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .rare = true, .value = "auto",
      .metavar = "auto|off|FLOPS",
      .help =
          "Operations per second that mfu is a share of: measured on each device at the start (0.3 s; not of a replay), none, or of each device" },
    { "trace", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .metavar = "FILE",
      .help =
          "Write a time line of some steps of all ranks, measured and simulated, for ui.perfetto.dev or chrome://tracing" },
    { "trace-steps", CLI_TRAIN, CLI_INT, .group = CLI_SEEN, .rare = true, .value = "3", .metavar = "N",
      .least = 1, .most = 1000, .help = "Steps to trace, from the third one on" },
    { "dropout", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_MODEL, .metavar = "P", .least = 0,
      .most = 0.999,
      .help =
          "While training drop activations and attention's probabilities (of Llama the latter alone) with this probability; default: what config.json says, 0 of a named model" },
    { "evaluate-every", CLI_TRAIN, CLI_INT, .group = CLI_DATA, .rare = true, .metavar = "STEPS", .least = 1,
      .most = 1e9, .help = "Measure the validation loss so often; default: at the end" },
    { "validation-share", CLI_TRAIN, CLI_REAL, .group = CLI_DATA, .rare = true, .least = 1e-6, .most = 0.5,
      .help = "Part of the tokens, at the file's end, that is held out; default 0.05" },
    { "validation-tokens", CLI_TRAIN, CLI_INT, .group = CLI_DATA, .rare = true, .value = "200k",
      .metavar = "N", .least = 1, .most = 1e12, .help = "Evaluate at most so many held-out tokens" },
    { "init", CLI_TRAIN, CLI_TEXT, .group = CLI_MODEL, .metavar = "FILE|DIR",
      .help =
          "Start from these weights: safetensors with Hugging Face's names, sharded or not, or a checkpoint" },
    { "save", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR",
      .help =
          "Write checkpoints to this folder: at the end, as often as the next two say, and when asked to stop (SIGTERM, SIGINT)" },
    { "save-every", CLI_TRAIN, CLI_INT, .group = CLI_FILES, .metavar = "STEPS", .least = 1, .most = 1e9,
      .help = "Write a checkpoint every so many steps; needs --save" },
    { "save-every-seconds", CLI_TRAIN, CLI_TIME, .group = CLI_FILES, .rare = true, .metavar = "TIME",
      .least = 0.001, .most = 1e8,
      .help =
          "Write a checkpoint at the end of a step when so much time has passed since the last; needs --save" },
    { "keep", CLI_TRAIN, CLI_INT, .group = CLI_FILES, .value = "3", .metavar = "N", .least = 0, .most = 1e9,
      .help = "Keep the newest N checkpoints; 0: all" },
    { "resume", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR|CKPT",
      .help = "Go on from this checkpoint, or from the newest complete one of a folder, by its plan" },
    { "export", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR",
      .help =
          "Write the weights for other programs at the end, with all that the model's folder held beside them: "
          "config.json, generation_config.json, the tokenizer and its files" },
    { "dump-grads", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .rare = true, .metavar = "FILE",
      .help = "Write the summed gradients of the first step as safetensors" },
    { "plan", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "FILE",
      .help = "Replay the plan.json of an earlier run, bit for bit on the same devices" },
    { "memory-limit", CLI_TRAIN | CLI_PLAN | CLI_SAMPLE, CLI_BYTES, .group = CLI_LAYOUT, .least = 1,
      .most = 1e18, .help = "Refuse a run that needs more device memory on a rank; default: what is free" },
    { "sample", CLI_TRAIN, CLI_INT, .group = CLI_SEEN, .value = "400", .metavar = "N", .least = 0,
      .most = 1e6, .help = "Tokens of text to generate at the end" },
    { "prompt", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .metavar = "TEXT",
      .help = "What the generated text follows; default: a new line" },
    { "temperature", CLI_TRAIN | CLI_SAMPLE, CLI_REAL, .group = CLI_SEEN, .value = "0.7", .least = 0,
      .most = 100, .help = "Of the sample; 0 takes the likeliest token" },
    { "top-k", CLI_TRAIN | CLI_SAMPLE, CLI_INT, .group = CLI_SEEN, .rare = true, .value = "0", .metavar = "K",
      .least = 0, .most = 1e9, .help = "Sample among the K likeliest tokens; 0: all" },

    /* ---- sample, tokenize: cli/train/sample.c, cli/train/tokenize.c ---- */
    { "init", CLI_SAMPLE, CLI_TEXT, .metavar = "DIR",
      .help = "The model: a folder with config.json, safetensors and tokenizer.json, or a checkpoint" },
    { "prompt", CLI_SAMPLE, CLI_TEXT, .metavar = "TEXT",
      .help = "The text that the model goes on with; default: a new line" },
    { "max-tokens", CLI_SAMPLE, CLI_INT, .value = "200", .no_key = true, .metavar = "N", .old = "tokens",
      .least = 1, .most = 1e6,
      .help = "Tokens to generate at most; the text ends earlier where the model ends it" },
    { "tp", CLI_SAMPLE, CLI_INT, .value = "1", .metavar = "N", .least = 1, .most = 100000,
      .help = "Ranks that share each layer's tensors" },
    { "text", CLI_TOKENIZE, CLI_TEXT, .metavar = "FILE",
      .help = "The text, or with --decode the ids as numbers; - is stdin" },
    { "tokens", CLI_TOKENIZE, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help = "With --decode: a token file, as llm.c and -o write them (.bin)" },
    { "decode", CLI_TOKENIZE, CLI_FLAG, .help = "From tokens to text" },
    { "template", CLI_TOKENIZE, CLI_FLAG,
      .help = "Put around the text what the tokenizer's template says, such as a token for its begin" },

    /* ---- plan: cli/train/plan.c; the rest of its options are train's ---- */
    { "ranks", CLI_PLAN, CLI_INT, 'n', .group = CLI_MODEL, .value = "1", .metavar = "N", .least = 1,
      .most = 1024, .help = "Number of ranks to plan for" },
    { "devices", CLI_PLAN, CLI_LIST, .group = CLI_MODEL, .metavar = "SPEC,...",
      .help =
          "Device of each rank in turn, such as host,opencl:0; a shorter list is repeated; default host. They are asked here what operations need" },
    { "output", CLI_PLAN, CLI_TEXT, 'o', .group = CLI_FILES, .no_key = true, .metavar = "FILE",
      .old = "write", .help = "Write the plan.json that yoke train --plan takes, whether it fits or not" },

    /* ---- parity: cli/train/parity.c ---- */
    { "layouts", CLI_PARITY, CLI_TEXT, .value = "quick", .metavar = "quick|all|FILE",
      .help =
          "Layouts to try: each mesh and schedule with a few of the rest, all of all, or those of a file, a line each, such as dp=2 pp=2 schedule=zb-h1" },
    { "model", CLI_PARITY, CLI_TEXT, .value = "nano", .metavar = "NAME|FILE",
      .help =
          "nano, micro or 124m (GPT-2), llama-nano or llama-micro, or the path of a config.json of either" },
    { "blocks", CLI_PARITY, CLI_INT, .value = "4", .metavar = "N", .least = 1, .most = 1000,
      .help = "Blocks of that model; each stage of a pipeline, and each chunk, needs one" },
    { "precision", CLI_PARITY, CLI_LIST, .value = "f32,bf16,f16", .choices = DTYPES,
      .help = "Precisions of layouts that name none" },
    { "batch", CLI_PARITY, CLI_INT, .value = "8", .metavar = "N", .least = 1, .most = 1e6,
      .help = "Sequences per step, of all ranks together" },
    { "sequence", CLI_PARITY, CLI_INT, .value = "32", .metavar = "N", .least = 1, .most = 1e6,
      .help = "Tokens per sequence" },
    { "steps", CLI_PARITY, CLI_INT, .value = "20", .metavar = "N", .least = 1, .most = 20,
      .help =
          "Steps of the free run, 12 at most in 16 bits; gradients are compared at 1, 10 and 20, so far as they go" },

    /* ---- ckpt: cli/train/ckpt.c ---- */
    { "dtype", CLI_CKPT_CONVERT, CLI_CHOICE, .value = "f32", .choices = DTYPES,
      .help = "Type of the weights that are written" },
    { "single-file", CLI_CKPT_CONVERT, CLI_FLAG,
      .help = "One model.safetensors instead of as many shards as the checkpoint has" },

    /* ---- hidden: cli/options/manual.c ---- */
    { "name", CLI_MANUAL, CLI_TEXT, .no_key = true,
      .help = "Verb whose page is written; default: the page of yoke itself" },

    /* ---- variables that the libraries read ---- */
    { "cache-dir", CLI_LIBRARY, CLI_TEXT, .metavar = "DIR",
      .help = "Where compiled device programs are kept; default $XDG_CACHE_HOME/yoke or ~/.cache/yoke" },
    { "cache-bytes", CLI_LIBRARY, CLI_INT,
      .help = "Most bytes of that folder; what was not used for longest is removed first (1073741824)" },
    { "timeout-ms", CLI_LIBRARY, CLI_INT,
      .help = "How long a rank that is alive may take to call a collective (600000)" },
    { "stall-ms", CLI_LIBRARY, CLI_INT,
      .help = "How long a rank inside a collective may make no progress (10000)" },
    { "chunk-bytes", CLI_LIBRARY, CLI_BYTES,
      .help = "Size of the pieces in which collectives are pipelined" },
    { "algorithm", CLI_LIBRARY, CLI_TEXT, .help = "Algorithm of the collectives, such as ring" },
    { "data-dir", CLI_LIBRARY, CLI_TEXT,
      .help = "Where kernels and tuning files lie when Yoke is not installed" },
    { "log", CLI_LIBRARY, CLI_FLAG,
      .help = "When set, every message of the libraries is shown, by every rank" },
    { "check", CLI_LIBRARY, CLI_TEXT,
      .help = "What messages are checked for: off, header (default), full: with a checksum of their data" },
    { "costs", CLI_LIBRARY, CLI_TEXT,
      .help =
          "The cost model of collectives, as plan.json and yoke_comm_explain give it (default: measured)" },
    { "sum-shares", CLI_LIBRARY, CLI_TEXT,
      .help = "Each rank of the job's share of the work of long sums, such as 3:1 (default: measured)" },
    { "reproducible", CLI_LIBRARY, CLI_TEXT,
      .help =
          "Sums of collectives: off, or shape for the same bits whatever the count, the chunks and the hosts; counts before what a "
          "program asks for" },
    { "host-id", CLI_LIBRARY, CLI_TEXT,
      .help = "Ranks in whose environments this differs count as on different hosts" },
    { "no-shared", CLI_LIBRARY, CLI_FLAG,
      .help = "Messages over MPI also between ranks that could share memory" },
    { "tune-file", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE[:FILE...]",
      .help =
          "Tuning files, of which each device takes the first of its backend; off: none. Default: the user's, or the one shipped for such devices" },
    { "opencl-address", CLI_LIBRARY, CLI_TEXT,
      .help = "svm or buffer: how the OpenCL backend addresses memory" },
    { "soak", CLI_LIBRARY, CLI_FLAG, .help = "Tests: run the long sweeps" },
    { "seed", CLI_LIBRARY, CLI_INT, .help = "Tests: the seed of what is drawn at random" },
    { "test-only", CLI_LIBRARY, CLI_TEXT, .help = "Tests: run only the commands that contain this word" },
    { "inject", CLI_LIBRARY, CLI_TEXT,
      .help = "Tests: delay, drop, duplicate or flip messages, such as rank=1,delay=0.01:5ms,drop=0.001" },
    { "slow", CLI_LIBRARY, CLI_TEXT, .metavar = "RANK:FACTOR,...",
      .help =
          "Tests: in training, these ranks of the job sleep after each layer, so that it takes so many times as long" },
    { "save-fault", CLI_LIBRARY, CLI_TEXT,
      .help =
          "Tests: kill=K kills the process in the Kth write, fsync, rename or removal of its checkpoints; full=K: from there on that save "
          "finds the disk full; full=0: every save does" },
    { "expect-size", CLI_LIBRARY, CLI_INT, .help = "Set by yoke run: the number of ranks that must come up" },
    { "supervisor", CLI_LIBRARY, CLI_INT, .help = "Set by yoke run: its process id and host" },
    { "terminal", CLI_LIBRARY, CLI_TEXT, .help = "Set by yoke run: the terminal that its stderr is, or no" },
    { "terminal-out", CLI_LIBRARY, CLI_FLAG, .help = "Set by yoke run: its stdout is a terminal" },
    { NULL },
};

const struct cli_option *cli_option_find(uint32_t verb, const char *name)
{
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & verb) && !strcmp(o->name, name)) return o;
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & verb) && cli_option_was(o, name)) return o;
    return NULL;
}

const struct cli_option *cli_option_of_key(uint32_t verb, const char *name)
{
    const struct cli_option *option = cli_option_find(verb, name);
    for (const struct cli_option *o = cli_option_table; o->name && option && option->no_key; o++)
        if ((o->verbs & verb) && !o->no_key && cli_option_was(o, name)) return o;
    return option;
}

bool cli_option_old(const struct cli_option *option, int index, char *out, size_t bytes)
{
    const char *name = option->old;
    for (; name && index > 0; index--) name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL;
    if (name) yokei_text(out, bytes, "%.*s", (int)strcspn(name, ","), name);
    return name != NULL;
}

bool cli_option_was(const struct cli_option *option, const char *name)
{
    char old[64];
    for (int i = 0; cli_option_old(option, i, old, sizeof old); i++)
        if (!strcmp(old, name)) return true;
    return false;
}

const struct cli_option *cli_option_anywhere(const char *name) { return cli_option_find(CLI_EVERY, name); }

void cli_variable_name(const char *name, char *out, size_t bytes)
{
    yokei_text(out, bytes, "YOKE_%s", name);
    for (char *c = out; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

const char *cli_hint(uint32_t verb, const char *name, const char *prefix, char *out, size_t bytes)
{
    const char *names[256];
    size_t n = 0;
    for (const struct cli_option *o = cli_option_table; o->name && n + 1 < YOKE_COUNT(names); o++)
        if (o->verbs & verb) names[n++] = o->name;
    names[n] = NULL;
    const char *nearest = yokei_nearest(name, names);
    if (nearest)
        yokei_text(out, bytes, " (did you mean %s%s?)", prefix, nearest);
    else
        out[0] = 0;
    return out;
}
