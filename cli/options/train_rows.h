/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: the options of yoke train. options.c includes this file. */
/* clang-format off */
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
    { "precision", CLI_TRAIN | CLI_SAMPLE, CLI_CHOICE, .group = CLI_MODEL, .value = "f32",
      .choices = DTYPES,
      .help = "Data type of activations and weight matrices. Sums, master weights and AdamW's moments are "
              "always f32" },
    { "precision", CLI_PLAN, CLI_LIST, .group = CLI_MODEL, .value = "f32", .choices = DTYPES,
      .help = "Data type of activations and weight matrices. Sums, master weights and AdamW's moments are "
              "always f32. --search takes a list of all types that are allowed" },
    { "batch", CLI_TRAIN, CLI_INT, .group = CLI_STEPS, .value = "16", .metavar = "N", .least = 1,
      .most = 1e6, .help = "Number of sequences in a step, of all ranks together" },
    { "batch", CLI_PLAN, CLI_INT, .group = CLI_STEPS, .value = "16", .metavar = "N|A..B,...", .least = 1,
      .most = 1e6, .ranges = true,
      .help = "Number of sequences in a step, of all ranks together. --search takes a list of numbers and "
              "ranges. It tries the ends of a range A..B, and 2, 3, 4, 6, 8, 12, ... times A / 2 between them" },
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
    { "budget-seconds", CLI_TRAIN | CLI_PLAN, CLI_TIME, .group = CLI_STEPS, .rare_in = CLI_PLAN, .metavar = "TIME", .least = 0.1,
      .most = 1e8,
      .help = "Train for this time instead of a number of steps. The learning rate then follows the "
              "elapsed time" },
    { "learning-rate", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare_in = CLI_PLAN, .value = "1e-3", .least = 0,
      .most = 100, .help = "Largest learning rate" },
    { "min-learning-rate", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_STEPS, .rare = true, .least = 0,
      .most = 100, .help = "Learning rate at the end of the cosine. Default: a tenth of --learning-rate" },
    { "warmup", CLI_TRAIN | CLI_PLAN, CLI_INT, .group = CLI_STEPS, .rare_in = CLI_PLAN, .value = "20", .metavar = "STEPS",
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
    { "tensorboard", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .rare = true, .metavar = "DIR",
      .help = "Write event files for TensorBoard to this folder: losses, speed, the time of each rank, and "
              "settings. Each start writes a file of its own" },
    { "tensorboard-histograms", CLI_TRAIN, CLI_INT, .group = CLI_SEEN, .rare = true, .metavar = "STEPS",
      .least = 1, .most = 1e9,
      .help = "Every STEPS steps write also histograms of the gradients to --tensorboard. On a CPU core such a "
              "step takes 2 ms longer for each million parameters that the rank sums. Default: none" },
    { "metrics-file", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .rare = true, .metavar = "FILE",
      .help = "Write the newest values as metrics for Prometheus to this file, at most once a second. A "
              "FILE.prom is for node_exporter. Any other file is OpenMetrics" },
    { "dropout", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_MODEL, .rare_in = CLI_PLAN, .metavar = "P", .least = 0,
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
    { "black-box", CLI_TRAIN, CLI_TEXT, .group = CLI_SEEN, .rare = true, .value = "100",
      .metavar = "off|STEPS",
      .help = "Each rank keeps its latest steps in a file of the run directory, which yoke blackbox reads "
              "after the run has failed. Every STEPS steps outputs of layers and changes of weights are "
              "sampled. No bit of the run changes. off: no such file" },
    { "validation-share", CLI_TRAIN | CLI_PLAN, CLI_REAL, .group = CLI_DATA, .rare = true, .value = "0.05",
      .least = 1e-6, .most = 0.5,
      .help = "Part of the tokens, at the end of the file, that is kept for validation" },
    { "skip-samples", CLI_TRAIN | CLI_PLAN, CLI_TEXT, .group = CLI_DATA, .rare = true, .metavar = "A-B,...",
      .help = "Never train on these samples, by the numbers that yoke blackbox and yoke postmortem print. At most "
              "64 ranges. The other samples keep their numbers and order, and a step has as many samples as "
              "without the option. A resumed run may name more" },
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
