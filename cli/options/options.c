/* SPDX-License-Identifier: Apache-2.0 */
/* The option table. options.h explains types and units. */
#include "cli/options/options.h"

#include <stddef.h>

#include "parallel/schedule.h"
#include "train/models/kinds.h"

#define COLLECTIVES (CLI_BENCH_COLLECTIVES | CLI_BENCH_ALLREDUCE)
#define BENCH (CLI_BENCH_GEMM | CLI_BENCH_KERNELS | COLLECTIVES)
#define KERNELS (CLI_TUNE | CLI_BENCH_KERNELS)
#define EMULATED \
    (CLI_RUN | CLI_INFO | CLI_VERIFY | CLI_BENCH_KERNELS | CLI_TRAIN | CLI_TUNE | CLI_PLAN | CLI_COMPILE)
#define RESULTS                                                                                            \
    (CLI_TUNE | CLI_INFO | CLI_VERIFY | CLI_TRACE | CLI_BLACKBOX | CLI_SCHEDULE_SHOW | BENCH | CLI_CKPT_LS \
     | CLI_CKPT_SHOW | CLI_CKPT_VERIFY | CLI_CKPT_DIFF | CLI_COMPARE | CLI_BENCH_CLUSTER)
#define DTYPES "f32|bf16|f16"

const struct cli_option cli_option_table[] = {
    /* ---- every verb ---- */
    { "config", CLI_EVERY & ~(CLI_RANK | CLI_LOOK), CLI_TEXT, 'c', .metavar = "FILE",
      .help = "Read options from this YAML file" },
    { "help", CLI_EVERY, CLI_FLAG, 'h', .no_key = true,
      .help = "Show examples and the options that are used most" },
    { "help-all", CLI_EVERY, CLI_FLAG, .no_key = true,
      .help = "Show all options and the text of the manual page" },
    { "quiet", CLI_EVERY & ~(CLI_RANK | CLI_LOOK), CLI_FLAG, 'q',
      .help = "Print only results, warnings and errors" },
    { "verbose", CLI_TRAIN, CLI_FLAG, 'v', .group = CLI_SEEN,
      .help = "Before the start, print the memory and the processing units of every rank" },

    /* ---- run ---- */
    { "ranks", CLI_RUN, CLI_INT, 'n', .metavar = "N", .least = 1, .most = 1024,
      .help = "Start this many ranks (processes). Default: one for each device of --devices, or 1" },
    { "hosts", CLI_RUN, CLI_LIST, .metavar = "HOST[:N],...",
      .help = "Start the ranks on these hosts, N of them on each host. Without N each host gets an equal "
              "block of ranks. The hosts need the same paths, a shared working folder, and ssh without a "
              "password. Default: this host" },
    { "devices", CLI_RUN, CLI_LIST, .metavar = "auto|SPEC,...",
      .help = "Give these devices to the ranks in turn, such as host,opencl:0. A shorter list is repeated. "
              "auto: all devices that help, one rank each. Default: the verb's --device" },
    { "bind", CLI_RUN, CLI_CHOICE, .value = "near", .choices = "near|cores|none",
      .help = "cores: bind each rank of a host to an equal share of the cores, and set the number of threads "
              "to match. near: the same, but GPUs get the cores nearest to them. none: bind nothing" },
    { "launcher", CLI_RUN, CLI_TEXT, .value = "auto", .metavar = "auto|own|hydra|FILE",
      .help = "own: yoke run itself starts the ranks, on this host, without an open port. hydra: MPICH's "
              "mpiexec starts them. FILE: this mpiexec starts them. auto: hydra if --hosts or a scheduler "
              "names hosts, else own" },
    { "run-dir", CLI_RUN | CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR",
      .help = "Write the files of the run to this folder, also its flight records. Default: for training, "
              "and with --hosts, a new folder under runs/; else a temporary folder" },
    { "start-seconds", CLI_RUN, CLI_TIME, .value = "60s", .metavar = "TIME", .least = 1, .most = 86400,
      .help = "End the job if hosts, ranks and MPI do not start, and nothing has changed for this time. A "
              "warning comes after a quarter of the time" },
    { "grace", CLI_RUN, CLI_TIME, .value = "15s", .least = 0, .most = 3600,
      .help = "After a rank has failed, wait at most this long for the other ranks to end, then kill them" },

    /* ---- info ---- */
    { "check", CLI_INFO, CLI_FLAG, .no_key = true, /* YOKE_CHECK is for the libraries */
      .help = "Test this machine, and print how to fix each problem" },
    { "no-speed", CLI_INFO, CLI_FLAG, .help = "Do not measure copies and matrix products" },

    /* ---- compare: cli/compare ---- */
    { "bits", CLI_COMPARE, CLI_LIST, .no_key = true, .metavar = "OLD,NEW",
      .help = "Compare the bits too: two files of yoke verify --bits, of the old and the new device" },
    { "threshold", CLI_COMPARE, CLI_REAL, .metavar = "X", .least = 1e-6, .most = 1e6,
      .help = "End with exit code 18 if the ratio of an operation, or of two runs' speeds, is below X" },
    { "by", CLI_COMPARE, CLI_CHOICE, .value = "time", .choices = "time|share",
      .help = "The ratio of --threshold. time: of the times. share: of the shares of the devices' limits" },
    { "loss-gate", CLI_COMPARE, CLI_REAL, .value = "0.05", .metavar = "X", .least = 0, .most = 1e6,
      .help = "For two runs: relative difference of losses that is allowed where yoke parity has no gate" },

    /* ---- report: cli/report; trace: cli/show/trace.c ---- */
    { "format", CLI_REPORT, CLI_CHOICE, .value = "html", .choices = "html|md",
      .help = "html: one page with charts, in one file. md: its tables as Markdown" },
    { "format", CLI_TRACE, CLI_CHOICE, .value = "text", .choices = "text|json|chrome",
      .help = "text: for people. json: for programs. chrome: for ui.perfetto.dev or chrome://tracing" },
    { "timeline", CLI_DIAGNOSE, CLI_FLAG, .no_key = true,
      .help =
          "The words are files of timelines of a job that need not be Yoke's: Chrome traces, as PyTorch's "
          "profiler writes them, one for all ranks or one for each" },
    { "format", CLI_DIAGNOSE, CLI_CHOICE, .value = "text", .choices = "text|md",
      .help = "text: for a terminal. md: Markdown, for a pull request" },
    { "apply", CLI_DIAGNOSE, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help = "Write the changes to this file of options, for yoke train -c FILE" },
    { "once", CLI_WATCH, CLI_FLAG, .help = "Show the run once, and end" },
    { "serve", CLI_WATCH, CLI_TEXT, .metavar = "[ADDRESS:]PORT",
      .help =
          "Serve the page of yoke report about the run by HTTP, and print its URL. The page renews itself. "
          "Port 0 chooses a free port. Default of ADDRESS: 127.0.0.1, which only this host can reach" },
    { "output",
      CLI_TRACE | CLI_BLACKBOX | CLI_TOKENIZE | CLI_VERIFY | CLI_BENCH_KERNELS | CLI_COMPARE | CLI_REPORT
          | CLI_SCHEDULE_SHOW | CLI_DIAGNOSE | CLI_BENCH_CLUSTER,
      CLI_TEXT, 'o', .no_key = true, .metavar = "FILE",
      .help = "Write the results to this file, as a whole or not at all, instead of to stdout" },
    { "last", CLI_TRACE, CLI_INT, .value = "5", .least = 0, .most = 1024,
      .help = "Show this many of the last operations of each rank, in text and JSON" },
    { "last", CLI_BLACKBOX, CLI_INT, .value = "10", .least = 0, .most = 1e9,
      .help = "Show this many of the last steps. In JSON, all steps are the default" },
    { "step", CLI_BLACKBOX, CLI_INT, .metavar = "N", .least = 1, .most = 1e18,
      .help = "Show this step, layer by layer. Default: the step in which the run left its path, else the "
              "last step that was sampled" },

    /* ---- postmortem: cli/postmortem/postmortem.c ---- */
    { "output", CLI_POSTMORTEM, CLI_TEXT, 'o', .no_key = true, .metavar = "FILE",
      .help = "Write the report to this file, as a whole or not at all, instead of to stdout" },
    { "format", CLI_POSTMORTEM, CLI_CHOICE, .value = "text", .choices = "text|markdown|json",
      .help = "text: for people. markdown: a report for colleagues. json: for programs" },
    { "checkpoints", CLI_POSTMORTEM, CLI_TEXT, .metavar = "DIR",
      .help = "The folder of the run's checkpoints. Default: the folder of the run's --save or --resume" },
    { "data", CLI_POSTMORTEM, CLI_TEXT, .metavar = "FILE",
      .help = "The file of the run's text or tokens. Default: the file that the run read" },
    { "replay-device", CLI_POSTMORTEM, CLI_TEXT, .no_key = true, .metavar = "SPEC",
      .help = "Repeat steps on this device. Default: the device of the run's first rank" },
    { "other-device", CLI_POSTMORTEM, CLI_TEXT, .no_key = true, .value = "auto", .metavar = "auto|none|SPEC",
      .help = "Repeat the first steps on this device, too. auto: opencl:0 after a run on the host, if it can "
              "be opened, else the host" },
    { "replay-seconds", CLI_POSTMORTEM, CLI_TIME, .value = "10m", .metavar = "TIME", .least = 0.01,
      .most = 1e6, .help = "End a replay that takes longer than this" },
    { "most-steps", CLI_POSTMORTEM, CLI_INT, .value = "200", .metavar = "N", .least = 1, .most = 1e6,
      .help = "Begin a replay at most this many steps before the odd step" },
    { "rollback", CLI_POSTMORTEM, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help = "Write a configuration that resumes the newest checkpoint before the first wrong step" },
    { "lower-rate", CLI_POSTMORTEM, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help =
          "Write a configuration that begins a new run with the weights of this checkpoint and a tenth of "
          "the learning rate" },
    { "skip-samples", CLI_POSTMORTEM, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help =
          "Write a configuration that resumes the newest checkpoint before the first bad sample, and never "
          "trains on the bad samples" },

    /* ---- schedule: cli/show/schedule.c ---- */
    { "kind", CLI_SCHEDULE_SHOW, CLI_CHOICE, .value = "1f1b", .choices = YOKEI_PIPELINE_CHOICES,
      .help = "Make this schedule" YOKEI_PIPELINE_HELP },
    { "file", CLI_SCHEDULE_SHOW, CLI_TEXT, .metavar = "FILE",
      .help = "Show the schedule in this CSV file instead of making one. The file has one line for each "
              "stage" },
    { "stages", CLI_SCHEDULE_SHOW, CLI_INT, .metavar = "N", .least = 1, .most = 1024,
      .help = "Number of pipeline stages. Default: 4, or with --file the number of its lines" },
    { "microbatches", CLI_SCHEDULE_SHOW, CLI_INT, .metavar = "N", .least = 1, .most = 100000,
      .help = "Number of micro-batches in a step. Default: 8, or the number in --file" },
    { "chunks", CLI_SCHEDULE_SHOW, CLI_INT, .metavar = "N", .least = 1, .most = 1000,
      .help = "Number of parts into which the layers of each stage are divided. Default: 2 for "
              "interleaved, else 1, or the number in --file" },
    { "recompute", CLI_SCHEDULE_SHOW, CLI_TEXT, .value = "none", .metavar = "none|full|S1,S2,...",
      .help = "These stages repeat the forward pass before the backward pass. As for yoke train, the words "
              "none and full may stand for each stage in turn. Not with --file, where the schedule shows "
              "these stages" },
    { "buckets", CLI_SCHEDULE_SHOW, CLI_INT, .value = "0", .metavar = "N", .least = 0, .most = 100000,
      .help = "Number of gradient buckets that each stage sums over its replicas" },
    { "tied", CLI_SCHEDULE_SHOW, CLI_FLAG, .help = "The first and the last stage share parameters" },
    { "costs", CLI_SCHEDULE_SHOW | CLI_PLAN, CLI_LIST, .group = CLI_LAYOUT, .no_key = true,
      .metavar = "F,B,W[,HOP]",
      .help = "Times, in any unit, of one micro-batch in one stage: the forward pass, the gradient of the "
              "input, the gradient of the weights, and a message to the next stage. Default: 1,1,1,0" },
    { "costs-file", CLI_SCHEDULE_SHOW, CLI_TEXT, .metavar = "FILE",
      .help = "Read these times from a CSV file, with a line F,B,W[,HOP[,R]] for each stage. R is the time "
              "to recompute, by default that of F. HOP may be LATENCY+TRANSFER: the link carries one message "
              "at a time for TRANSFER" },
    { "receiver-takes", CLI_SCHEDULE_SHOW, CLI_FLAG,
      .help = "A message begins only when its receiver has done all that stands before the receive, as in a "
              "training and in yoke plan. Without it a message leaves at once, as in published figures" },
    { "when", CLI_SCHEDULE_SHOW, CLI_TEXT, .metavar = "TEXT",
      .help = "Show what each stage does at this moment, such as \"S3 finished F1\" or \"S1 starts B2\". "
              "Stages and micro-batches count from 1" },
    { "at", CLI_SCHEDULE_SHOW, CLI_REAL, .metavar = "TIME", .least = 0, .most = 1e12,
      .help = "Show what each stage does at this time" },
    { "format", CLI_SCHEDULE_SHOW, CLI_CHOICE, .value = "ascii", .choices = "ascii|svg|csv|json",
      .help = "ascii: a drawing. svg: a picture. csv: the schedule itself, for --schedule-file. json: all "
              "results" },
    { "width", CLI_SCHEDULE_SHOW, CLI_INT, .value = "100", .metavar = "COLUMNS", .least = 40, .most = 10000,
      .help = "Width of the ASCII drawing in columns" },
    { "stages", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 1, .most = 1024,
      .help = "The schedule must have this many stages. Default: the number of lines of the file" },
    { "microbatches", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 1, .most = 100000,
      .help = "The schedule must have this many micro-batches. Default: the highest number in the file" },
    { "chunks", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 1, .most = 1000,
      .help = "Each stage must have this many chunks. Default: the highest number in the file" },
    { "buckets", CLI_SCHEDULE_CHECK, CLI_INT, .metavar = "N", .least = 0, .most = 100000,
      .help = "Each stage must sum this many gradient buckets. Default: for each stage, the number in its "
              "line" },
    { "tied", CLI_SCHEDULE_CHECK, CLI_FLAG,
      .help = "The first and the last stage must share parameters. Default: yes if the file has the action "
              "TIED" },

    /* ---- verify, bench ---- */
    { "device", CLI_VERIFY | CLI_TUNE | BENCH | CLI_BENCH_CLUSTER | CLI_TRAIN | CLI_PARITY | CLI_SAMPLE,
      CLI_TEXT, .group = CLI_MODEL, .value = "host", .metavar = "SPEC",
      .help = "Device to use, as yoke info lists it: host, opencl:0, reference. auto: the fastest one" },
    { "device", CLI_COMPILE, CLI_LIST, .metavar = "cuda:sm_XY,...",
      .help = "Compile for GPUs of these architectures, such as cuda:sm_80,cuda:sm_90,hip:gfx942. yoke info "
              "prints the architecture of a GPU. Required" },
    { "output", CLI_COMPILE, CLI_TEXT, 'o', .no_key = true, .metavar = "FOLDER",
      .help = "Write the programs to this folder. It is made if it does not exist. Required" },
    { "driver", CLI_COMPILE, CLI_TEXT, .metavar = "X.Y",
      .help = "CUDA version of the driver on the machines with the GPUs, as nvidia-smi prints it, such as "
              "12.4. NVRTC of a newer major version is not used then. Default: the newest NVRTC is used" },
    { "dtype", CLI_COMPILE, CLI_LIST, .choices = DTYPES,
      .help = "Only programs all of whose data types are in this list. Training in bf16 needs f32,bf16. "
              "Default: all" },
    { "emulate", EMULATED, CLI_TEXT, .rare = true, .group = CLI_MODEL, .metavar = "cuda:X.Y,hip:gfxN",
      .help = "Replace the drivers of GPUs by Yoke's own stand-ins, which execute the device programs on the "
              "CPU, slowly. cuda:X.Y stands for an NVIDIA GPU of compute capability X.Y, and hip:gfxN for an "
              "AMD GPU of this architecture, such as hip:gfx942. The emulated devices are the first ones of "
              "the backends cuda and hip. If no device is chosen, the first part of the list is used. The "
              "numbers are real, the speed is not" },
    { "dtype", CLI_VERIFY, CLI_LIST, .choices = DTYPES "|f64",
      .help = "Test only these data types. Default: all types" },
    { "variant", CLI_VERIFY, CLI_TEXT, .metavar = "NAME",
      .help = "Test only this variant of each operation. Default: all variants" },
    { "case", CLI_VERIFY, CLI_INT, .metavar = "N", .least = 1, .most = 100000,
      .help = "Test only the case with this number. The report prints the numbers. Default: all cases" },
    { "full", CLI_VERIFY, CLI_FLAG,
      .help = "Test more shapes, and every variant in every type. This takes minutes" },
    { "bits", CLI_VERIFY, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help = "Do not compare with the reference. Write a hash of the results of each case into this text "
              "file, so that two devices can be compared bit by bit" },
    { "against", CLI_VERIFY, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help = "Compare the hashes of this device with those of a file that --bits has written, perhaps on "
              "another machine, and name the first operation that differs" },
    { "compare", CLI_VERIFY, CLI_LIST, .no_key = true, .metavar = "FILE,FILE...",
      .help = "Run nothing. Print a table of these files of --bits: which operations have the same bits on "
              "all these devices, and which are held to an error bound, and why" },
    { "hang-seconds", CLI_VERIFY, CLI_TIME, .value = "300s", .metavar = "TIME", .least = 1, .most = 86400,
      .help = "A case that takes longer than this counts as hung, also while its program is compiled" },
    { "seed", CLI_VERIFY | CLI_TRAIN | CLI_PLAN | CLI_PARITY | CLI_SAMPLE, CLI_INT, .group = CLI_MODEL,
      .value = "1", .least = 0, .most = 9e15, .help = "Seed of all random numbers" },
    { "size", CLI_BENCH_GEMM, CLI_LIST, .value = "256,512,1024", .metavar = "N|MxNxK,...",
      .help = "Measure products C[M,N] = A[M,K] B[K,N] of these sizes. One number stands for M, N and K" },
    { "collectives", CLI_BENCH_COLLECTIVES, CLI_LIST,
      .value = "all_reduce,reduce_scatter,all_gather,broadcast,all_to_all",
      .choices =
          "all_reduce|reduce_scatter|all_gather|broadcast|reduce|all_to_all|gather|scatter|sendrecv|barrier",
      .help = "Measure these collectives. sendrecv: each rank sends to the next rank of a ring, and "
              "receives from the previous one" },
    { "min-bytes", COLLECTIVES, CLI_BYTES, .value = "64", .least = 1, .most = 1e12,
      .help = "Size of the smallest buffer. It is raised to one element, or to one element for each rank's "
              "slice" },
    { "max-bytes", COLLECTIVES, CLI_BYTES, .value = "64M", .least = 1, .most = 1e12,
      .help = "Size of the largest buffer" },
    { "factor", COLLECTIVES, CLI_INT, .value = "4", .least = 2, .most = 1e6,
      .help = "Multiply the size by this number from one line to the next" },
    { "reduction", COLLECTIVES, CLI_LIST, .value = "sum", .choices = "sum|avg|min|max|prod",
      .help = "Measure these reductions" },
    { "in-place", COLLECTIVES, CLI_CHOICE, .value = "both", .choices = "out|in|both",
      .help = "out: out of place. in: in place. both: one line for each" },
    { "shared", COLLECTIVES, CLI_FLAG,
      .help = "Use buffers that all ranks of a host see (yoke_comm_alloc) instead of private buffers" },
    { "rivals", COLLECTIVES, CLI_CHOICE, .value = "on", .choices = "on|off",
      .help = "on: measure MPI's own collective too, in turn with Yoke's. With more ranks than cores MPI's "
              "waiting slows down Yoke" },
    { "beside", COLLECTIVES, CLI_CHOICE, .choices = "unchecked|run|host|f32|equal",
      .help = "Measure a second configuration of Yoke in turn with the first. unchecked: without the call "
              "check. run: with --reproducible run. host: with private host memory. f32: in f32, with as "
              "many bytes. equal: with equal --sum-shares" },
    { "explain", COLLECTIVES, CLI_FLAG,
      .help = "Print also which algorithm Yoke chooses for each line, why, and the time that the cost "
              "model predicts" },
    { "no-check", COLLECTIVES, CLI_FLAG, .help = "Do not check that all ranks make the same call" },
    { "reproducible", COLLECTIVES, CLI_CHOICE, .value = "run", .choices = "run|shape",
      .help = "run: a sum has the same bits in each run. shape: the bits do not depend on the count, the "
              "chunks or the hosts either" },
    { "sum-shares", COLLECTIVES, CLI_TEXT, .metavar = "N:N...",
      .help = "Divide the work of long sums among the ranks: equal, or in proportions such as 3:1. auto: "
              "measure the proportions. Default: YOKE_SUM_SHARES, or auto" },
    { "accum", COLLECTIVES, CLI_CHOICE, .value = "f32", .choices = "f32|native",
      .help = "f32: sum 16-bit data in f32, and round once. native: round to 16 bits at each hop" },
    { "wait", COLLECTIVES, CLI_CHOICE, .value = "auto", .choices = "auto|spin|yield|sleep",
      .help = "How a rank waits: it spins, yields its core, or sleeps. auto: the library chooses" },
    { "dtype", CLI_BENCH_GEMM, CLI_LIST, .value = "f32", .choices = DTYPES,
      .help = "Measure these data types" },
    { "dtype", COLLECTIVES, CLI_LIST, .value = "f32", .choices = DTYPES "|f64|i32|i64|i8|u8",
      .help = "Measure these data types" },
    { "repeats", CLI_BENCH_GEMM, CLI_INT, .value = "9", .least = 1, .most = 1000,
      .help = "Number of measurements of each side, taken in turn. The median counts" },
    { "repeats", COLLECTIVES, CLI_INT, .value = "25", .least = 1, .most = 100000,
      .help = "Largest number of samples of each side, taken in turn. A sample takes at least 2 ms" },
    { "budget-seconds", COLLECTIVES, CLI_TIME, .value = "1s", .least = 0.001, .most = 1e6,
      .help = "Time for each side of a line. A slow call gets fewer samples, but at least 3, or 1 if one "
              "call takes longer than this time" },
    { "op", KERNELS | CLI_COMPILE | CLI_VERIFY, CLI_LIST, .metavar = "WORD,...",
      .help = "Only these operations, such as layernorm_backward, and families of operations, such as "
              "norm. Default: all" },
    { "dtype", KERNELS | CLI_BENCH_CLUSTER, CLI_LIST, .choices = DTYPES,
      .help = "Only these data types. Default: all" },
    { "size", KERNELS, CLI_LIST, .metavar = "SIZE,...",
      .help = "Only these sizes. A size is tiny, micro or 124m (the shapes of the GPT-2 of this name), or "
              "dimensions such as 'N=512 C=768'. Dimensions that are left out are those of 124m. Default: "
              "all for yoke tune; all but tiny for yoke bench kernels" },
    { "budget-seconds", CLI_TUNE, CLI_TIME, .value = "120s", .least = 0.01, .most = 1e6,
      .help = "Time for the comparison of the variants, divided equally among all sizes. Compilation, the "
              "first short measurements and the test for correctness take additional time" },
    { "output", CLI_TUNE, CLI_TEXT, 'o', .no_key = true, .metavar = "FILE",
      .help = "Write the tuning file here. Default: the user's tuning file for this device, which Yoke "
              "uses from then on" },
    { "dry-run", CLI_TUNE, CLI_FLAG, .help = "Measure and print, but write no file" },
    { "match", CLI_TUNE, CLI_LIST, .metavar = "FIELD=PATTERN,...",
      .help = "Write a tuning file for all devices whose name, driver and features match these patterns, "
              "such as 'driver=*PoCL*'. yoke info prints the three fields. Default: only for devices with "
              "this device's name" },
    { "budget-seconds", CLI_BENCH_CLUSTER, CLI_TIME, .value = "12s", .least = 0.001, .most = 1e6,
      .help = "Time for the ops of all types together. Preparing them and the links takes additional time" },
    { "size", CLI_BENCH_CLUSTER, CLI_LIST, .value = "micro,124m", .choices = "tiny|micro|124m",
      .help =
          "Measure the ops at the sizes of these models, and products and attentions at smaller sizes too. "
          "Small sizes take little time, and say little of a large model" },
    { "tolerance", CLI_BENCH_CLUSTER, CLI_REAL, .value = "0.15", .metavar = "X", .least = 0, .most = 100,
      .help = "Devices are of one kind if the medians of their times differ by at most this part" },
    { "budget-seconds", CLI_BENCH_KERNELS, CLI_TIME, .value = "0.2s", .least = 0.001, .most = 1e6,
      .help = "Time for each line. At least 5 rounds are measured" },
    { "threads", CLI_BENCH_GEMM | KERNELS, CLI_INT, .least = 1, .most = 4096,
      .help = "Number of threads of every side, on host and on PoCL. Default: one for each core of this "
              "process" },
    { "format", BENCH, CLI_CHOICE, .value = "md", .choices = "md|json|csv",
      .help = "Format of the results: a Markdown table, JSON or CSV. A file FILE.json gets JSON" },
    { "json", RESULTS | CLI_DIAGNOSE | CLI_TRAIN | CLI_PLAN | CLI_PARITY | CLI_SAMPLE | CLI_TOKENIZE,
      CLI_FLAG, .group = CLI_SEEN, .help = "Print the results as JSON" },

/* ---- train: cli/train/train.c ---- */
#include "cli/options/train_rows.h"

    /* ---- sample, tokenize: cli/train/sample.c, cli/train/tokenize.c ---- */
    { "init", CLI_SAMPLE, CLI_TEXT, .metavar = "DIR",
      .help = "The model: a folder with config.json, safetensors and tokenizer.json, or a checkpoint of "
              "yoke train. Required" },
    { "prompt", CLI_SAMPLE, CLI_TEXT, .metavar = "TEXT",
      .help = "Text that the model continues. Default: a new line" },
    { "max-tokens", CLI_SAMPLE, CLI_INT, .value = "200", .no_key = true, .metavar = "N", .least = 1,
      .most = 1e6, .help = "Generate at most this many tokens. The model may end the text earlier" },
    { "text", CLI_TOKENIZE, CLI_TEXT, .metavar = "FILE",
      .help = "File with the text, or with --decode the token ids as numbers. - is stdin" },
    { "tokens", CLI_TOKENIZE, CLI_TEXT, .no_key = true, .metavar = "FILE",
      .help = "With --decode: a token file in the format of llm.c (.bin), such as --output writes it" },
    { "decode", CLI_TOKENIZE, CLI_FLAG, .help = "Convert tokens to text" },
    { "template", CLI_TOKENIZE, CLI_FLAG,
      .help = "Add the tokens that the tokenizer's template puts around a text, such as one for its "
              "beginning" },

    /* ---- plan: cli/train/plan.c; the rest of its options are train's ---- */
    { "ranks", CLI_PLAN, CLI_INT, 'n', .group = CLI_MODEL, .metavar = "N", .least = 1, .most = 65536,
      .help = "Number of ranks to plan for. Default: one for each entry of --devices, or 1" },
    { "devices", CLI_PLAN, CLI_LIST, .group = CLI_MODEL, .metavar = "SPEC,...",
      .help =
          "Device of each rank in turn, such as host,opencl:0. If the list is shorter than the number "
          "of ranks, it is repeated. The devices must be on this machine, or with --cluster in its file, by "
          "their names there. Default: host, the first device of --emulate, or the file's devices" },
    { "output", CLI_PLAN, CLI_TEXT, 'o', .group = CLI_FILES, .no_key = true, .metavar = "FILE",
      .help = "Write a plan.json for yoke train --plan to this file, even if the run does not fit" },
    { "search", CLI_PLAN, CLI_FLAG, .group = CLI_LAYOUT, .no_key = true,
      .help = "Search for the ten fastest layouts on the devices of --cluster, or without it on the devices "
              "of this machine, which are measured first" },
    { "cluster", CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .no_key = true, .metavar = "FILE",
      .help = "Cluster file with the devices, the hosts and the links for --search. Default: the devices of "
              "--ranks and --devices are measured. Without --search, the step of the layout that the options "
              "give is predicted on the devices of the file" },
    { "largest-bubble", CLI_PLAN, CLI_REAL, .group = CLI_LAYOUT, .rare = true, .no_key = true, .value = "0",
      .metavar = "SHARE", .least = 0, .most = 1,
      .help =
          "Let --search discard layouts whose stages are idle for more than this share of the time. 0: no "
          "limit" },
#include "cli/options/goal_rows.h"

    /* ---- parity: cli/train/parity.c ---- */
    { "layouts", CLI_PARITY, CLI_TEXT, .value = "quick", .metavar = "quick|all|FILE",
      .help = "Layouts to compare. quick: two layouts of each mesh (the numbers of replicas, stages and "
              "tensor ranks). all: each mesh with every schedule and every recomputation. FILE: the "
              "layouts in this file, one in each line, such as dp=2 pp=2 schedule=zb-h1" },
    { "model", CLI_PARITY, CLI_TEXT, .value = "nano", .metavar = "NAME|FILE",
      .help = YOKEI_MODEL_PRESETS "or the path of a config.json of a "
                                  "such a model" },
    { "blocks", CLI_PARITY, CLI_INT, .value = "4", .metavar = "N", .least = 1, .most = 1000,
      .help = "Number of transformer blocks of the model. Each chunk of each pipeline stage needs at least "
              "one" },
    { "precision", CLI_PARITY, CLI_LIST, .value = "f32,bf16,f16", .choices = DTYPES,
      .help = "Precisions of the layouts that name none" },
    { "batch", CLI_PARITY, CLI_INT, .value = "8", .metavar = "N", .least = 1, .most = 1e6,
      .help = "Number of sequences in a step, of all ranks together" },
    { "sequence", CLI_PARITY, CLI_INT, .value = "32", .metavar = "N", .least = 1, .most = 1e6,
      .help = "Number of tokens in a sequence" },
    { "steps", CLI_PARITY, CLI_INT, .value = "20", .metavar = "N", .least = 1, .most = 20,
      .help = "Number of steps for the comparison of losses, in 16 bits at most 12. Gradients are compared "
              "at steps 1, 10 and 20 if there are as many steps" },

    /* ---- ckpt: cli/train/ckpt.c ---- */
    { "dtype", CLI_CKPT_CONVERT, CLI_CHOICE, .value = "f32", .choices = DTYPES,
      .help = "Data type of the weights that are written" },
    { "single-file", CLI_CKPT_CONVERT, CLI_FLAG,
      .help = "Write one model.safetensors instead of as many shards as the checkpoint has" },

    /* ---- hidden: cli/options/manual.c ---- */
    { "name", CLI_MANUAL, CLI_TEXT, .no_key = true,
      .help = "Verb whose manual page is written, such as bench-gemm, or completion. Default: the page of "
              "yoke itself" },

/* ---- variables that the libraries read ---- */
#include "cli/options/variable_rows.h"
    { NULL },
};
