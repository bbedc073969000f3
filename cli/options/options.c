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
#define RESULTS                                                                                             \
    (CLI_TUNE | CLI_INFO | CLI_VERIFY | CLI_TRACE | CLI_SCHEDULE_SHOW | BENCH | CLI_CKPT_LS | CLI_CKPT_SHOW \
     | CLI_CKPT_VERIFY | CLI_CKPT_DIFF | CLI_COMPARE)
#define DTYPES "f32|bf16|f16"

const struct cli_option cli_option_table[] = {
    /* ---- every verb ---- */
    { "config", CLI_EVERY & ~(CLI_RANK | CLI_LOOK), CLI_TEXT, 'c', .metavar = "FILE",
      .help = "Read options from this YAML file" },
    { "help", CLI_EVERY, CLI_FLAG, 'h', .no_key = true,
      .help = "Show examples and the options that are used most" },
    { "help-all", CLI_EVERY, CLI_FLAG, .no_key = true,
      .help = "Show all options and the text of the manual page" },
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
    { "output",
      CLI_TRACE | CLI_TOKENIZE | CLI_VERIFY | CLI_BENCH_KERNELS | CLI_COMPARE | CLI_REPORT
          | CLI_SCHEDULE_SHOW,
      CLI_TEXT, 'o', .no_key = true, .metavar = "FILE",
      .help = "Write the results to this file, as a whole or not at all, instead of to stdout" },
    { "last", CLI_TRACE, CLI_INT, .value = "5", .least = 0, .most = 1024,
      .help = "Show this many of the last operations of each rank, in text and JSON" },

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
              "to recompute, by default that of F" },
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
    { "device", CLI_VERIFY | CLI_TUNE | BENCH | CLI_TRAIN | CLI_PARITY | CLI_SAMPLE, CLI_TEXT,
      .group = CLI_MODEL, .value = "host", .metavar = "SPEC",
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
    { "dtype", KERNELS, CLI_LIST, .choices = DTYPES, .help = "Only these data types. Default: all" },
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
    { "budget-seconds", CLI_BENCH_KERNELS, CLI_TIME, .value = "0.2s", .least = 0.001, .most = 1e6,
      .help = "Time for each line. At least 5 rounds are measured" },
    { "threads", CLI_BENCH_GEMM | KERNELS, CLI_INT, .least = 1, .most = 4096,
      .help = "Number of threads of every side, on host and on PoCL. Default: one for each core of this "
              "process" },
    { "format", BENCH, CLI_CHOICE, .value = "md", .choices = "md|json|csv",
      .help = "Format of the results: a Markdown table, JSON or CSV. A file FILE.json gets JSON" },
    { "json", RESULTS | CLI_TRAIN | CLI_PLAN | CLI_PARITY | CLI_SAMPLE | CLI_TOKENIZE, CLI_FLAG,
      .group = CLI_SEEN, .help = "Print the results as JSON" },

    /* ---- train: cli/train/train.c ---- */
    { "text", CLI_TRAIN, CLI_TEXT, .group = CLI_DATA, .metavar = "FILE",
      .help = "Train on this text. A token is a byte, or a token of --tokenizer. Give either --text or "
              "--tokens" },
    { "tokens", CLI_TRAIN, CLI_TEXT, .group = CLI_DATA, .metavar = "FILE",
      .help = "Train on this token file in the format of llm.c (.bin)" },
    { "tokenizer", CLI_TRAIN | CLI_SAMPLE | CLI_TOKENIZE, CLI_TEXT, .group = CLI_DATA, .metavar = "FILE|DIR",
      .help = "The tokenizer: a tokenizer.json of Hugging Face (byte-level BPE), or the folder that holds "
              "it" },
    { "model", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_MODEL, .value = "micro", .metavar = "NAME|FILE",
      .help = YOKEI_MODEL_PRESETS "or the path of a Hugging Face "
                                  "config.json of such a model" },
    { "precision", CLI_TRAIN | CLI_PLAN | CLI_SAMPLE, CLI_CHOICE, .group = CLI_MODEL, .value = "f32",
      .choices = DTYPES,
      .help = "Data type of activations and weight matrices. Sums, master weights and AdamW's moments are "
              "always f32" },
    { "batch", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .value = "16", .metavar = "N", .least = 1,
      .most = 1e6, .help = "Number of sequences in a step, of all ranks together" },
    { "micro-batch", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .metavar = "N", .least = 1,
      .most = 1e6,
      .help = "Most sequences that a rank processes at once. Default: the replica's share of the batch, or "
              "with pipeline stages the share divided by 4 times the number of stages" },
    { "sequence", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_MODEL, .metavar = "N", .least = 1, .most = 1e6,
      .help = "Number of tokens in a sequence. Default: the model's number of positions" },
    { "shares", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .value = "auto",
      .metavar = "auto|A:B:...",
      .help = "Divide the batch among the replicas in these proportions. A replica with share 0 is left "
              "out. auto: as --balance says" },
    { "balance", CLI_TRAIN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .choices = "auto|equal",
      .help = "How to choose what --shares, --layers and --tensor-shares leave open. auto: by the measured "
              "speed of each device. equal: equal parts" },
    { "placement", CLI_TRAIN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "host",
      .choices = "host|rank",
      .help = "Order in which ranks get their places. host: ranks of one host and of one kind of device "
              "get neighbouring places, so that --tp groups stay together. rank: the order of the ranks" },
    { "dp", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_LAYOUT, .metavar = "N", .least = 1, .most = 100000,
      .help = "Number of replicas of the model (data parallelism). Default: the number of ranks divided by "
              "--pp and --tp" },
    { "pp", CLI_TRAIN | CLI_PLAN | CLI_SAMPLE, CLI_INT, .group = CLI_LAYOUT, .value = "1", .metavar = "N",
      .least = 1, .most = 100000, .help = "Number of pipeline stages" },
    { "tp", CLI_TRAIN | CLI_PLAN | CLI_SAMPLE, CLI_TEXT, .group = CLI_LAYOUT, .value = "1",
      .metavar = "N[,N...]",
      .help = "Number of ranks that divide the tensors of each layer (tensor parallelism). N,N,... gives a "
              "number for each stage" },
    { "schedule", CLI_TRAIN | CLI_PLAN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .choices = "auto" YOKEI_PIPELINE_OR_NAMES,
      .help = "Pipeline schedule, as yoke schedule show --kind names it. auto: interleaved if --chunks is "
              "above 1, else 1f1b" },
    { "schedule-file", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true,
      .metavar = "FILE.csv",
      .help = "Read the pipeline schedule from this CSV file, with a line for each stage. yoke schedule "
              "show --format csv writes such a file, and yoke schedule check checks it" },
    { "chunks", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_LAYOUT, .rare = true, .value = "1",
      .metavar = "N", .least = 1, .most = 1000,
      .help = "Number of parts into which the layers of each pipeline stage are divided, for the "
              "interleaved schedule" },
    { "layers", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true, .metavar = "N,N...",
      .help = "Number of transformer blocks of each pipeline stage, or of each chunk if there are several. "
              "Default: as --balance says" },
    { "recompute", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true, .value = "none",
      .metavar = "none|attention|full",
      .help = "Drop activations after the forward pass, and compute them again in the backward pass. "
              "attention: those of the attention layers. full: those of all layers. Give one word, or one "
              "for each pipeline stage, separated by commas" },
    { "tensor-shares", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true,
      .metavar = "A:B:...",
      .help = "Divide heads, features and vocabulary among the --tp ranks in these proportions. With --tp "
              "N,N,... give the proportions of all stages, one stage after the other. Default: as "
              "--balance says" },
    { "sequence-parallel", CLI_TRAIN | CLI_PLAN, CLI_FLAG, .group = CLI_LAYOUT, .rare = true,
      .help = "With --tp: each rank computes norms and residuals only for a part of the positions" },
    { "zero", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_LAYOUT, .value = "0", .metavar = "0|1", .least = 0,
      .most = 1,
      .help = "1: divide the optimizer states among the replicas (ZeRO-1). This takes less memory and "
              "gives the same bits" },
    { "zero-shares", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .metavar = "auto|A:B:...",
      .help =
          "Divide the buckets of gradients, and with --zero 1 the optimizer states, among the replicas in "
          "these proportions. auto: equal parts, or if these do not fit, parts by free memory" },
    { "steps", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .value = "1000", .metavar = "N", .least = 1,
      .most = 1e9,
      .help = "Train this many steps, counted from the start of the run. A resumed run counts the steps "
              "before the checkpoint too. Not with --budget-seconds" },
    { "budget-seconds", CLI_TRAIN | CLI_PLAN, CLI_TIME, .group = CLI_STEPS, .metavar = "TIME", .least = 0.1,
      .most = 1e8,
      .help = "Train for this time instead of a number of steps. The learning rate then follows the "
              "elapsed time" },
    { "learning-rate", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .value = "1e-3", .least = 0,
      .most = 100, .help = "Largest learning rate" },
    { "min-learning-rate", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .least = 0,
      .most = 100, .help = "Learning rate at the end of the cosine. Default: a tenth of --learning-rate" },
    { "warmup", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .value = "20", .metavar = "STEPS",
      .least = 0, .most = 1e9, .help = "Number of steps in which the learning rate rises linearly from 0" },
    { "weight-decay", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "0.1",
      .least = 0, .most = 100, .help = "AdamW's weight decay of matrices. Vectors have no weight decay" },
    { "beta1", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "0.9",
      .least = 0.01, .most = 0.9999999, .help = "AdamW's decay rate of the first moment" },
    { "beta2", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "0.95",
      .least = 0.01, .most = 0.9999999, .help = "AdamW's decay rate of the second moment" },
    { "clip", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .value = "1", .least = 0,
      .most = 1e9, .help = "Clip the norm of the gradient to this value. 0: do not clip" },
    { "loss-scale", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .least = 1e-6,
      .most = 1e15, .help = "Loss scale at the start. Default: 65536 in f16, else 1" },
    { "bucket-bytes", CLI_TRAIN | CLI_PLAN, CLI_BYTES, .group = CLI_LAYOUT, .rare = true, .value = "25M",
      .least = 1, .most = 1e15, .help = "Sum the gradients in buckets of about this size" },
    { "overlap", CLI_TRAIN, CLI_CHOICE, .group = CLI_LAYOUT, .rare = true, .value = "auto",
      .choices = "auto|on|off",
      .help = "On host devices: on: they continue the backward pass while gradients are summed. off: they "
              "interrupt it for each sum. auto: on if the sums cross a network. Other devices always "
              "continue" },
    { "peak", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .rare = true, .value = "auto",
      .metavar = "auto|off|FLOPS",
      .help = "Peak FLOP/s of each device, for the mfu in metrics.jsonl. auto: measure each device for 0.3 "
              "s before the start, but not with --plan. off: report no mfu" },
    { "trace", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .metavar = "FILE",
      .help = "Write a timeline of some steps of all ranks, measured and simulated, for ui.perfetto.dev "
              "or chrome://tracing" },
    { "trace-steps", CLI_TRAIN, CLI_INT, .group = CLI_SEEN, .rare = true, .value = "3", .metavar = "N",
      .least = 1, .most = 1000,
      .help = "Number of steps to trace, from the third step of this start on, or the last steps of a "
              "shorter run" },
    { "dropout", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_MODEL, .metavar = "P", .least = 0,
      .most = 0.999,
      .help = "Dropout probability in training. A Llama has dropout only in attention. Default: the value "
              "in config.json, or 0 for a named model" },
    { "evaluate-every", CLI_TRAIN, CLI_INT, .group = CLI_DATA, .rare = true, .metavar = "STEPS", .least = 1,
      .most = 1e9,
      .help = "Compute the validation loss every STEPS steps. It is always computed at the end" },
    { "audit", CLI_TRAIN, CLI_INT, .group = CLI_SEEN, .rare = true, .metavar = "STEPS", .least = 1,
      .most = 1e9,
      .help =
          "Every STEPS steps compare what the ranks hold and compute: copies of weights and moments must "
          "have equal bits, and the gradients of one common micro-batch must agree within the gate of the "
          "precision. The rank that differs is named, and the run ends. Needs several replicas. No bit "
          "of the run changes" },
    { "validation-share", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_DATA, .rare = true, .value = "0.05",
      .least = 1e-6, .most = 0.5,
      .help = "Part of the tokens, at the end of the file, that is kept for validation" },
    { "validation-tokens", CLI_TRAIN, CLI_INT, .group = CLI_DATA, .rare = true, .value = "200k",
      .metavar = "N", .least = 1, .most = 1e12,
      .help = "Evaluate at most this many validation tokens. At least one sequence is needed" },
    { "init", CLI_TRAIN, CLI_TEXT, .group = CLI_MODEL, .metavar = "FILE|DIR",
      .help = "Start from these weights: safetensors with Hugging Face's names, or a checkpoint of yoke "
              "train. Default: random weights" },
    { "save", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR",
      .help = "Write checkpoints to this folder, at the end and when the run is asked to stop (SIGTERM, "
              "SIGINT), and as the --save-every options say" },
    { "save-every", CLI_TRAIN, CLI_INT, .group = CLI_FILES, .metavar = "STEPS", .least = 1, .most = 1e9,
      .help = "Write a checkpoint every STEPS steps. Needs --save" },
    { "save-every-seconds", CLI_TRAIN, CLI_TIME, .group = CLI_FILES, .rare = true, .metavar = "TIME",
      .least = 0.001, .most = 1e8,
      .help = "Write a checkpoint at the end of a step if this time has passed since the last checkpoint. "
              "Needs --save" },
    { "keep", CLI_TRAIN, CLI_INT, .group = CLI_FILES, .value = "3", .metavar = "N", .least = 0, .most = 1e9,
      .help = "Keep the newest N checkpoints. 0: keep all. Needs --save" },
    { "resume", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR|CKPT",
      .help = "Continue from this checkpoint, or from the newest complete checkpoint in this folder, with "
              "the checkpoint's plan" },
    { "export", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "DIR",
      .help = "At the end write the weights in Hugging Face's format to this folder, with config.json and "
              "the tokenizer's files" },
    { "dump-grads", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .rare = true, .metavar = "FILE",
      .help = "Write the summed gradients of the first step of this start as safetensors" },
    { "plan", CLI_TRAIN, CLI_TEXT, .group = CLI_FILES, .metavar = "FILE",
      .help = "Use the plan.json of an earlier run, or of yoke plan. On the same devices the results have "
              "the same bits" },
    { "memory-limit", CLI_TRAIN | CLI_PLAN | CLI_SAMPLE, CLI_BYTES, .group = CLI_LAYOUT, .least = 1,
      .most = 1e18,
      .help = "Refuse a run that needs more device memory than this on a rank. Default: the free memory of "
              "the device" },
    { "sample", CLI_TRAIN, CLI_INT, .group = CLI_SEEN, .value = "400", .metavar = "N", .least = 0,
      .most = 1e6, .help = "Number of tokens of sample text to generate at the end. 0: none" },
    { "prompt", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .metavar = "TEXT",
      .help = "Text that the sample continues. Default: a new line" },
    { "temperature", CLI_TRAIN | CLI_SAMPLE, CLI_REAL, .group = CLI_SEEN, .value = "0.7", .least = 0,
      .most = 100, .help = "Temperature of the sample. 0: always take the most probable token" },
    { "top-k", CLI_TRAIN | CLI_SAMPLE, CLI_INT, .group = CLI_SEEN, .rare = true, .value = "0", .metavar = "K",
      .least = 0, .most = 1e9, .help = "Draw only from the K most probable tokens. 0: from all tokens" },

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
      .help = "Device of each rank in turn, such as host,opencl:0. If the list is shorter than the number "
              "of ranks, it is repeated. The devices must be on this machine. Default: host, or the first "
              "device of --emulate" },
    { "output", CLI_PLAN, CLI_TEXT, 'o', .group = CLI_FILES, .no_key = true, .metavar = "FILE",
      .help = "Write a plan.json for yoke train --plan to this file, even if the run does not fit" },

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
    { "cache-dir", CLI_LIBRARY, CLI_TEXT, .metavar = "DIR[:DIR...]",
      .help = "Folder for compiled device programs. More folders behind colons are only read, such as those "
              "of yoke compile. Default: $XDG_CACHE_HOME/yoke, or ~/.cache/yoke" },
    { "hiprtc", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE|off",
      .help = "The hipRTC that compiles programs for HIP devices. off: clang does. Default: the newest" },
    { "rocblas", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE|off",
      .help = "The rocBLAS that multiplies matrices on HIP devices. off: none. Default: the newest" },
    { "hipblaslt", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE|off",
      .help = "The same for hipBLASLt, which multiplies where it is tuned, or where there is no rocBLAS" },
    { "clang", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE|off",
      .help = "The clang that compiles programs for HIP devices that hipRTC does not know. off: none. "
              "Default: ROCm's clang, or the newest clang that is found, from version 17 on" },
    { "nvrtc", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE|off",
      .help = "The NVRTC that compiles programs for CUDA devices. off: use only programs that are compiled "
              "already. Default: the newest NVRTC that is found and that the driver knows" },
    { "cache-bytes", CLI_LIBRARY, CLI_INT,
      .help = "Largest size of the first of these folders in bytes. Above it, the programs that were not "
              "used for longest are removed. Default: 1073741824" },
    { "timeout-ms", CLI_LIBRARY, CLI_INT,
      .help = "Milliseconds that a rank that is alive may take to call a collective. Default: 600000" },
    { "stall-ms", CLI_LIBRARY, CLI_INT, .help = "The same without progress in a collective. Default: 10000" },
    { "chunk-bytes", CLI_LIBRARY, CLI_BYTES,
      .help = "Size of the chunks into which a collective cuts its data. Default: the library chooses" },
    { "algorithm", CLI_LIBRARY, CLI_TEXT,
      .help = "Algorithm of all_reduce, such as ring. Default: auto, chosen by size" },
    { "data-dir", CLI_LIBRARY, CLI_TEXT,
      .help = "Folder with the kernels and tuning files of a Yoke that is not installed" },
    { "log", CLI_LIBRARY, CLI_FLAG,
      .help = "If it is set, every rank prints every message of the libraries" },
    { "check", CLI_LIBRARY, CLI_TEXT,
      .help = "Check of the messages between ranks. off: none. header: the calls of the ranks must match, "
              "and the headers of the messages must be intact. full: the data must be intact too. Default: "
              "header" },
    { "costs", CLI_LIBRARY, CLI_TEXT,
      .help = "Cost model of the collectives, in the form that plan.json and yoke_comm_explain have. "
              "Default: measured when a communicator is created" },
    { "sum-shares", CLI_LIBRARY, CLI_TEXT,
      .help = "Shares of the ranks of the job in the work of long sums, such as 3:1. Default: measured" },
    { "reproducible", CLI_LIBRARY, CLI_TEXT,
      .help = "off or shape. shape: the bits of a sum do not depend on the count, the chunks or the hosts. "
              "This variable overrides what a program sets. Default: off" },
    { "host-id", CLI_LIBRARY, CLI_TEXT,
      .help = "Ranks with different values of this variable count as ranks on different hosts" },
    { "island", CLI_LIBRARY, CLI_TEXT,
      .help = "Groups of ranks in collectives: vendor, host, off, or auto, the default" },
    { "island-of", CLI_LIBRARY, CLI_TEXT,
      .help = "For YOKE_ISLAND: a label for each rank of the job, in place of its vendor, such as 0,0,1,1" },
    { "no-shared", CLI_LIBRARY, CLI_FLAG, .help = "1: send all messages over MPI, also within a host" },
    { "tune-file", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE[:FILE...]",
      .help = "Tuning files. Each device uses the first file that is for its backend. off: use no file. "
              "Default: the user's file, or the shipped file that matches the device" },
    { "opencl-address", CLI_LIBRARY, CLI_TEXT,
      .help = "How the OpenCL backend addresses memory: svm or buffer. Default: svm if the device has "
              "fine-grained shared virtual memory" },
    { "emulate-devices", CLI_LIBRARY, CLI_INT, .help = "Emulated GPUs: number of devices. Default: 1" },
    { "emulate-memory", CLI_LIBRARY, CLI_TEXT, .help = "Emulated GPUs: memory of each. Default: 4G" },
    { "emulate-bias", CLI_LIBRARY, CLI_TEXT, .metavar = "WORD",
      .help = "Emulated CUDA: how cuBLASLt adds an f32 bias to 16 bits: refused, once, twice or short" },
    { "emulate-share", CLI_LIBRARY, CLI_TEXT,
      .help = "Emulated GPUs: a file. The processes with the same file share the memory of the devices" },
    { "emulate-sms", CLI_LIBRARY, CLI_INT, .help = "Emulated GPUs: number of multiprocessors" },
    { "emulate-log", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE",
      .help = "Emulated GPUs: file for messages. Default: stderr" },
    { "emulate-seed", CLI_LIBRARY, CLI_INT,
      .help = "For tests, emulated GPUs: seed of delays and of the order of blocks" },
    { "emulate-delay-us", CLI_LIBRARY, CLI_INT,
      .help = "For tests, emulated GPUs: longest random delay before each command, in microseconds" },
    { "emulate-channels", CLI_LIBRARY, CLI_INT,
      .help = "For tests, emulated GPUs: seed of the mapping of streams to hardware channels" },
    { "emulate-hold", CLI_LIBRARY, CLI_INT,
      .help = "For tests, emulated GPUs: for how many seconds a hardware channel may hold a command up" },
    { "emulate-wait", CLI_LIBRARY, CLI_INT,
      .help = "For tests, emulated GPUs: seconds that calls wait that may wait for the whole device" },
    { "emulate-ptx", CLI_LIBRARY, CLI_TEXT,
      .help = "For tests, emulated GPUs: newest version of PTX that the driver reads, such as 8.7" },
    { "emulate-instructions", CLI_LIBRARY, CLI_TEXT,
      .help = "For tests, emulated GPUs: most instructions of a block before the launch times out" },
    { "emulate-fail", CLI_LIBRARY, CLI_TEXT,
      .help = "For tests, emulated GPUs: failures on purpose, such as illegal-address@3" },
    { "emulate-leaks", CLI_LIBRARY, CLI_TEXT,
      .help = "For tests, emulated GPUs: if set, a process with leaked objects ends with exit code 86" },
    { "emulate-hip", CLI_LIBRARY, CLI_TEXT, .metavar = "X.Y",
      .help = "Emulated HIP: the version of HIP. Default: 6.2" },
    { "soak", CLI_LIBRARY, CLI_FLAG, .help = "For tests: run the long tests" },
    { "seed", CLI_LIBRARY, CLI_INT, .help = "For tests: seed of what the tests draw at random" },
    { "test-only", CLI_LIBRARY, CLI_TEXT, .help = "For tests: run only commands that contain this word" },
    { "inject", CLI_LIBRARY, CLI_TEXT,
      .help = "For tests: delay, drop, duplicate, misroute or flip messages: rank=1,delay=0.01:5ms" },
    { "slow", CLI_LIBRARY, CLI_TEXT, .metavar = "RANK:FACTOR,...",
      .help = "For tests: in training these ranks sleep after each layer, to be slower by this factor" },
    { "save-fault", CLI_LIBRARY, CLI_TEXT,
      .help = "For tests: kill=K kills the process in write, fsync, rename or removal number K of its "
              "checkpoints. full=K: from call number K on, this save finds the disk full. full=0: every "
              "save finds the disk full" },
    { "expect-size", CLI_LIBRARY, CLI_INT, .help = "Set by yoke run: the number of ranks that must start" },
    { "supervisor", CLI_LIBRARY, CLI_INT, .help = "Set by yoke run: its process number and its host" },
    { "left-out", CLI_LIBRARY, CLI_TEXT, .help = "Set by yoke run: what --devices auto has left out" },
    { "terminal", CLI_LIBRARY, CLI_TEXT, .help = "Set by yoke run: the terminal that its stderr is, or no" },
    { "terminal-out", CLI_LIBRARY, CLI_FLAG, .help = "Set by yoke run: whether its stdout is a terminal" },
    { NULL },
};
