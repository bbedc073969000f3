/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs: the purpose of each, an example, and the function that runs it. */
#include <string.h>

#include "cli/cli.h"

const struct
    cli_verb
        cli_verb_table
            [] = {
                { "info", CLI_INFO,
                  .summary = "Show the devices, what they can do and how fast; test the machine",
                  .example =
                      "yoke info            # devices, 16-bit support, copy rate, matrix speed, cores\n"
                      "yoke info --check    # test this machine; a fix for each finding",
                  .description =
                      "Lists the devices of every backend, and for a backend that has none or is not in this version, why. Each backend is looked at in a "
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
                      "Starts one agent per rank, on one host by itself and without any open port, on several by MPICH's mpiexec, whose "
                      "port only the job's hosts may reach (docs/HOSTS.md, Ports). The agent binds its rank to its share of the "
                      "cores, starts it, and records at once when it stops or ends, so that the other ranks and this command can "
                      "name it. A word with a slash in place of VERB is a program of your own that uses libyoke-comm.\n\n"
                      "One error text and one exit code come from the ranks' records, never from mpiexec: 16 when a rank "
                      "died, 15 when one hung, else the code of the first rank that failed. SIGINT and SIGTERM are passed to the "
                      "ranks; a second SIGINT kills them. Nothing is left running when any process of the job, this one "
                      "included, is killed.",
                  .run = cli_run },
                { "rank", CLI_RANK, .arguments = "[--] VERB [OPTION...]",
                  .summary = "The agent of one rank; started by yoke run",
                  .example = "yoke run -n 2 -- train    # starts two agents",
                  .description =
                      "Starts one rank, watches it, records its end in the run directory, and leaves when all ranks have "
                      "ended. It is started by yoke run and is of no use by itself.",
                  .run = cli_rank },
                { "verify", CLI_VERIFY,
                  .summary = "Hold every operation of a device to the float64 reference and its error bound",
                  .example =
                      "yoke verify --device opencl:0            # every operation, type and variant\n"
                      "yoke verify --device host --op gemm --dtype bf16\n"
                      "# a bug report: the device, its driver, the first operation that differs, and how to repeat that case\n"
                      "yoke verify --device opencl:0 --json -o report.json",
                  .description =
                      "Runs each operation on ragged shapes and hard inputs (NaN, infinities, subnormals, signed zeros) and "
                      "compares with plain C in float64. A result is the largest error divided by its bound, derived from "
                      "the unit roundoff and the length of the sums: above 1 it fails. A second run must give the same bits, and "
                      "nothing outside a result may change. For device reference, its derivatives are held to central differences.\n\n"
                      "What fails is summed up by the first operation in the order in which a model's forward and backward pass use "
                      "them: the case, the worst element, why, and the command that repeats that case alone. With --json also the "
                      "build, the host, the device with its driver, the tuning file, the variables that matter, and every line.\n\n"
                      "Operations run in a child process. One that does not compile, kills its process, or does not come back within "
                      "--hang-seconds is a line that fails with that reason, and the sweep goes on behind it.\n\n"
                      "Exit code 17 when anything failed, 12 without the device, 2 for a name that does not exist.",
                  .run = cli_verify },
                { "tune", CLI_TUNE,
                  .summary = "Measure the variants of a device's operations, and choose by that from then on",
                  .example =
                      "yoke tune --device opencl:0                       # all operations and types, into the user's file\n"
                      "yoke tune --device host --op gemm --dry-run       # library or own panels? only show it\n"
                      "# a file for all like devices, in parts\n"
                      "yoke tune --device opencl:0 --op gemm,attention -o cpu.tune --match 'driver=*PoCL*,features=cpu *vector=16*'",
                  .description =
                      "For each operation, type and size: a first look at every variant; those that may win are held to the reference with its hard inputs (as by yoke "
                      "verify), and one that fails is named and never stored; the others are measured in turn with what runs by the built-in rule. A variant is chosen where "
                      "it is 5 % faster, in the medians of rounds, over all shapes of a class, and slower at none of them. Of operations that sum rows up the choice does not "
                      "depend on how many rows there are.\n\n"
                      "On a host only products have a choice that is measured (oneDNN or own panels): the other variants are instruction sets, and the best is taken. --op "
                      "names them all the same.\n\n"
                      "Nothing is ever measured inside a run: choices come from a file or from built-in rules. Which file: YOKE_TUNE_FILE (off: none), else the user's, "
                      "$XDG_CONFIG_HOME/yoke/tuning/ or ~/.config/yoke/tuning/, else one that is shipped and matches the device. yoke info names it. Lines of other "
                      "operations and types stay as they are in a file that is written again. The format is explained in docs/TUNING.md.\n\n"
                      "JSON: schema (1), version, device, file, written, choices, refused, rows [{op, dtype, size, dims, variant, verdict (default, chosen, not faster, slow, "
                      "refused, not offered), seconds, times_default, reason}], text (the file).",
                  .run = cli_tune },
                { "bench kernels", CLI_BENCH_KERNELS,
                  .summary = "Measure every operation of a device, checked, beside its limit",
                  .example = "yoke bench kernels --device host\n"
                             "yoke bench kernels --device opencl:0 --op norm,gemm --dtype bf16 --format csv\n"
                             "yoke bench kernels --op layernorm_backward --size 'N=4096 C=1024,N=512 C=1024'",
                  .description =
                      "A line for each operation, type and size: the median time, GFLOP/s and GB/s of the operations and the least bytes that it states, and %limit: the share "
                      "of the limit, which is the larger of operations / peak and bytes / rate. Both are measured in the same run. The peak is the speed of the device's "
                      "fastest square product. On CPUs the rate is that of triads of all threads over as many bytes (in turn with the line; small ones stay in caches). Elsewhere it is that "
                      "of copies inside the device. `by` says which of the two decides.\n\n"
                      "Each line is held to the float64 reference first, by the bounds of yoke verify, at its own shape; at a shorter one (fewer rows, marked *) where that would "
                      "take long. error/bound above 1 is WRONG: such a line has no speed, and the exit code is 17. The variant is the one that ran; YOKE_TUNE_FILE=off shows the "
                      "built-in rules.\n\n"
                      "JSON: schema (1), version, device, threads, peak_flop_per_s {by type}, rows [{op, dtype, size, dims, variant, seconds, least, most, flop_per_s, "
                      "bytes_per_s, limit_seconds, limited_by (memory, arithmetic), error_over_bound, checked (the shape)}, or reason instead of the speed].",
                  .run = cli_bench_kernels },
                { "bench gemm", CLI_BENCH_GEMM,
                  .summary = "Measure matrix products, with the known libraries beside them",
                  .example = "yoke bench gemm --device host --size 512,1024 --dtype f32,bf16\n"
                             "yoke bench gemm --device opencl:0 --format csv",
                  .description =
                      "Each product is checked against the reference first: a wrong result prints no speed. All sides use the "
                      "same threads and are measured in turn; medians count. %limit is the share of the device's peak, which "
                      "is the speed of Yoke's fastest square product of the type, measured in the same run.",
                  .run = cli_bench_gemm },
                { "bench collectives", CLI_BENCH_COLLECTIVES, .ranks = true,
                  .summary = "Measure collectives by size, with MPI's beside them",
                  .example =
                      "yoke run -n 2 -- bench collectives --min-bytes 64K --shared\n"
                      "# latency of four ranks, without MPI's spinning in between\n"
                      "yoke run -n 4 -- bench collectives --collectives all_reduce,barrier --max-bytes 64 --rivals off\n"
                      "yoke run -n 2 --devices opencl:0 -- bench collectives --collectives all_reduce --beside host --format csv\n"
                      "# which algorithm each size runs, and the time that the cost model predicts\n"
                      "yoke run -n 2 -- bench allreduce --explain --in-place out --rivals off",
                  .description =
                      "Prints the columns of nccl-tests, a line each for out of place and in place. Size is the larger of a rank's buffers, count "
                      "the argument of the call. algbw is size over time; busbw is that times 2 (p - 1) / p for all_reduce, (p - 1) / p where "
                      "there are slices, else 1, for p ranks.\n\n"
                      "Each line is checked first, on data whose result is exact in every order (#wrong, bit by bit, with a guard behind the "
                      "buffers) and, for sums and products of floats, on fractions against a float64 result: max ulp is the largest distance in "
                      "units of the last place, and beyond its bound an element is wrong. Out of place it is checked again after the timing. A "
                      "wrong result prints no speed, and the exit code is 17.\n\n"
                      "The time is the median of samples, p99 their 99th percentile. A sample is a call, or short ones back to back for 2 ms, "
                      "between barriers, after up to 5 calls and 25 ms that are not timed, and takes as long as on its slowest rank. Yoke, MPI, the variant of --beside and the limit take turns, "
                      "sample by sample.\n\n"
                      "--explain adds what yoke_comm_explain says of each line: algorithm, bytes in one piece, pieces in flight, the time that the cost "
                      "model predicts for ranks that come together, each on a core of its own (- where the model has no figures, as for messages between "
                      "ranks that share memory), and why; and, at the end, the model and the shares on stderr. sendrecv has no plan.\n\n"
                      "%limit is given from 64 KiB. On one host it is the share of the rate at which all ranks at once run a triad with "
                      "non-temporal stores over as many bytes as any implementation must touch per rank: inputs read once and outputs written "
                      "once, divided by the ranks. Of n bytes that is 2n for all_reduce, all_to_all and sendrecv; n + n/p for reduce_scatter, "
                      "reduce, all_gather and broadcast (in place n for the last two); 2n/p for gather and scatter (in place, (p - 1) / p of it). "
                      "With --shared nothing else need be touched. Private buffers are copied aside as well, which may stay in caches and is not "
                      "counted: the limit is the same. Of device memory that the host does not see the limit is the slower of copying n bytes "
                      "out and in. On several hosts it is the share of what a host's link carries each way at once in MPI's "
                      "messages, measured at the start between one rank of each host and between several (the faster counts), for the bytes that "
                      "any implementation must get over the busiest link: n for broadcast and reduce; 2n (H - 1)/H for all_reduce on H hosts; for "
                      "reduce_scatter and all_gather the slices of the ranks elsewhere, for all_to_all as many for each rank of the host; of "
                      "gather and scatter the slices that are not on the root's host; of sendrecv n for each neighbour elsewhere. What ranks do "
                      "inside their host is not counted.",
                  .run = cli_bench_collectives },
                { "bench allreduce", CLI_BENCH_ALLREDUCE, .ranks = true,
                  .summary = "Measure all-reduce by size: bench collectives --collectives all_reduce",
                  .example = "yoke run -n 2 -- bench allreduce --min-bytes 4M --max-bytes 64M\n"
                             "yoke run -n 8 -- bench allreduce --max-bytes 64 --rivals off",
                  .description = "The same as yoke bench collectives --collectives all_reduce, which see.",
                  .run = cli_bench_allreduce },
                { "train", CLI_TRAIN, .ranks = true,
                  .summary = "Train a GPT on text or tokens, on any mix of devices",
                  .example =
                      "# one device\n"
                      "yoke train --text book.txt --model nano --steps 200\n"
                      "# a CPU and an OpenCL device share each batch by their speed, for 200 seconds\n"
                      "yoke run -n 2 --devices host,opencl:0 -- train --text book.txt --precision bf16 --budget-seconds 200",
                  .description =
                      "Trains with AdamW, a linear warm-up and a cosine. Each rank works on its share of every batch; gradients are "
                      "summed in f32, and the loss is that of all tokens, so the result does not depend on the shares. Writes "
                      "plan.json and metrics.jsonl to the run directory; prints the validation loss, for text beside that of an "
                      "order-3 byte-count model, and a sample.\n\n"
                      "With --tokenizer the text is encoded at the start, and its tokens stay in memory, four bytes each; yoke tokenize makes a file of them. The model's "
                      "vocab_size must be at least the tokenizer's ids. Losses are then nats per token; the summary also gives the validation's per byte. "
                      "--export and --save put the tokenizer.json beside the weights, for yoke sample.\n\n"
                      "The memory is known before the start: a run that does not fit is refused with what to lower (exit code 13). "
                      "A loss that is no number ends the run with rank and step (exit code 17).\n\n"
                      "With --save DIR, checkpoints are folders DIR/step-0000123, there whole or not at all. SIGTERM or SIGINT (to yoke run also "
                      "SIGUSR1 and SIGHUP) saves at the end of the step and ends with exit code 75. --resume DIR goes on from the newest complete "
                      "one by the checkpoint's plan: on the same ranks and devices bit for bit as if the run had never stopped; on others with the "
                      "same data in the same order. Beside it only --steps, --shares, --micro-batch, the layout (--pp and its like) and what is no part of a plan may be given. A "
                      "disk that is full is a warning while the run goes on, and exit code 13 for the last checkpoint.",
                  .run = cli_train },
                { "plan", CLI_PLAN,
                  .summary =
                      "Lay a training run out without starting it: places, memory of every rank, work and waiting, and whether it fits",
                  .example =
                      "# what would each of eight ranks take?\n"
                      "yoke plan -n 8 --model 124m --pp 4 --tp 2 --batch 32 --micro-batch 1\n"
                      "# and with 2 GiB on each? If it does not fit: the cheapest change that does\n"
                      "yoke plan -n 8 --model 124m --pp 4 --tp 2 --batch 32 --memory-limit 2G\n"
                      "# a file that the run takes\n"
                      "yoke plan -n 2 --model micro --pp 2 -o plan.json && yoke run -n 2 -- train --text book.txt --plan plan.json",
                  .description =
                      "Plans what every rank would do, as yoke train does at its start, and prints which rank is which stage, replica and place among those that share "
                      "tensors; the memory of each by part (DEVICE is what is allocated there; shared, staging and host are host memory besides); parameters; the "
                      "work of a step; and the bubble of the pipeline by the simulator, with equal costs of F, B and W, or those of --costs.\n\n"
                      "Model FLOPs are tokens (6 (12 L h^2 + h V) + 12 L h T) with L blocks of h channels, V words and T tokens: each product forward and twice "
                      "backward, attention without its mask. The operations' own count is of forward and backward passes, with norms, masks and what is computed again.\n\n"
                      "Memory is exact: what the step program's buffers take where they are placed, and what the communicators map. Ranks are taken to be on one host, this one, "
                      "where those whose devices share a memory must fit into it together; with --memory-limit each rank has so much on its device for itself. "
                      "Shares of a batch are equal where --shares does not say otherwise: yoke train measures them, unless it is given the plan.\n\n"
                      "Exit code 0: it fits; 13: it does not, and the error names the rank, what is needed and there, and the first change that was planned to fit on "
                      "all ranks, in the order of what they cost: smaller micro-batches, a schedule with fewer of them alive, recomputation, other layers per "
                      "stage, 16 bits, these together, more stages or ranks that share tensors. 10: the options contradict each other.\n\n"
                      "JSON: schema (1), n_ranks, mesh {dp, pp, tp [of each stage], chunks}, schedule, batch, sequence, parameters, model_flops, flops, recomputed_flops, bubble, fits, why (or "
                      "null), ranks [{rank, device, stage, replica, tensor, layers, n_layers, parameters, samples, micro_batch, micro_batches, flops, recomputed_flops, "
                      "memory {weights, gradients, optimizer, activations, of which stash, boundaries, received, layer_workspace, unused; workspace, scratch, total; "
                      "staging_shared, staging, host}, have}]. Bytes.",
                  .run = cli_plan },
                { "sample", CLI_SAMPLE, .ranks = true, .summary = "Let a model go on with a text",
                  .example = "yoke train --text book.txt --model nano --steps 500 --export gpt\n"
                             "yoke sample --init gpt --prompt \"In the beginning\" --max-tokens 100\n"
                             "# two ranks share the model\n"
                             "yoke run -n 2 -- sample --init gpt --prompt \"In the beginning\" --tp 2",
                  .description =
                      "Reads config.json, the weights (model.safetensors, an index, or a checkpoint of yoke train) and tokenizer.json, and prints the prompt and what "
                      "the model makes of it, token by token. Without a tokenizer.json the vocabulary must be one of bytes: of 256, or 257 with an end of text.\n\n"
                      "The text ends after --max-tokens, or where the model says so: by eos_token_id of generation_config.json or config.json, else by a special "
                      "token <|endoftext|>, <|end_of_text|>, <|eot_id|> or </s>. Ids that the tokenizer lacks are not drawn. The text is written byte by byte as the model says it, but on a terminal "
                      "control characters and what is no UTF-8 are written \\xNN. The context is the prompt and --max-tokens, "
                      "at most the model's positions; beyond these it slides. The same seed draws the same text on the same devices.\n\n"
                      "The model is held as training holds it, with gradients and moments: 16 bytes for each parameter, with 16-bit precision 18.\n\n"
                      "JSON: schema (1), prompt, prompt_tokens, text (null where it is no UTF-8), tokens (ids), ended (whether the model ended the text), seconds.",
                  .run = cli_sample },
                { "tokenize", CLI_TOKENIZE, .summary = "Turn text into tokens for training, and back",
                  .example = "yoke tokenize --tokenizer gpt2/tokenizer.json --text book.txt -o book.bin\n"
                             "echo \"Hello, world\" | yoke tokenize --tokenizer gpt2 --text -\n"
                             "yoke tokenize --tokenizer gpt2 --tokens book.bin --decode",
                  .description =
                      "Reads tokenizer.json as Hugging Face's programs write it, if it is byte-level BPE (GPT-2, Llama 3 and their like); others are refused with what "
                      "is not. Prints ids, or writes llm.c's token file with -o: uint16 where all ids fit, else uint32. Text may be any bytes: what is no UTF-8 comes "
                      "back from --decode as it was (on a terminal as \\xNN). Tokens that swallow the spaces beside them (lstrip, rstrip) and a space that the tokenizer puts in front "
                      "(add_prefix_space) are the tokenizer's doing, and do not come back.\n\n"
                      "JSON: schema (1), bytes, vocabulary (the largest id + 1), tokens (ids).",
                  .run = cli_tokenize },
                { "ckpt ls", CLI_CKPT_LS, .arguments = "DIR", .summary = "List the checkpoints of a folder",
                  .example = "yoke ckpt ls checkpoints\nyoke ckpt ls checkpoints --json",
                  .description = "A line for each step-… folder: step, tokens, size, and whether it is complete: its manifest is in order, and all its files "
                                 "are there with the right sizes. Checksums of tensors are left to yoke ckpt verify. What a save that was killed left behind is "
                                 "listed as leftover; the next save removes it.\n\n"
                                 "JSON: schema (1), folder, newest (a name or null), checkpoints [{name, step, state (complete, incomplete, leftover), tokens, bytes, "
                                 "seconds, why}].",
                  .run = cli_ckpt_ls },
                { "ckpt show", CLI_CKPT_SHOW, .arguments = "CKPT|DIR",
                  .summary = "Show what a checkpoint holds",
                  .example = "yoke ckpt show checkpoints                 # the newest complete one\n"
                             "yoke ckpt show checkpoints/step-0000100 --json",
                  .description =
                      "Step, tokens, position in the data, loss scale, model, plan and layout, files and tensors. --json prints the manifest as it "
                      "stands in checkpoint.json (docs/CHECKPOINTS.md). Exit code 11 where there is no checkpoint, or its manifest is damaged.",
                  .run = cli_ckpt_show },
                { "ckpt verify", CLI_CKPT_VERIFY, .arguments = "CKPT|DIR",
                  .summary = "Check every byte of a checkpoint",
                  .example = "yoke ckpt verify checkpoints/step-0000100",
                  .description =
                      "Checks the manifest, every file's size, every header, every tensor's checksum, and that weights and moments of the model are all there "
                      "in their shapes and nothing else is. Exit code 11 when anything is wrong; missing, extra, misshaped and damaged tensors are "
                      "listed all at once.\n\nJSON: schema (1), checkpoint, step, tensors, bytes; only of a good one.",
                  .run = cli_ckpt_verify },
                { "ckpt diff", CLI_CKPT_DIFF, .arguments = "A B",
                  .summary = "Compare two checkpoints, or two runs' folders of them",
                  .example =
                      "yoke ckpt diff run1/step-0000100 run2/step-0000100\n"
                      "yoke ckpt diff run1 run2     # at the first step that both have and that differs",
                  .description =
                      "Prints, for each tensor whose bits differ, the number of elements that do, the largest absolute and the largest relative difference "
                      "|a - b| / max(|a|, |b|), and what the manifests say differently (layout, files and times aside). Of two folders of checkpoints "
                      "it compares the first step that both have and at which tensors or manifests differ, else the last; and names the first step "
                      "whose manifests differ. The exit code is 0 whether they differ or not; 11 where one cannot be read or tensors cannot be "
                      "compared.\n\nJSON: schema (1), a, b, step, identical, first_step_of_different_metadata (or null), metadata [text], tensors [{name, "
                      "different, largest, relative, at, problem}].",
                  .run = cli_ckpt_diff },
                { "ckpt convert", CLI_CKPT_CONVERT, .arguments = "CKPT|DIR OUT",
                  .summary = "Write a checkpoint's weights as a folder for Hugging Face's readers",
                  .example = "yoke ckpt convert checkpoints gpt --dtype bf16 --single-file",
                  .description =
                      "Writes the weights under Hugging Face's names, config.json with all that the source's says, generation_config.json, the tokenizer and its files to the new folder OUT, "
                      "which is there whole or not at all. Each number "
                      "is rounded once, to nearest, ties to even; a finite one that the type cannot hold is refused (exit code 11). The source may "
                      "also be a folder or file of safetensors beside a config.json. A checkpoint that has lost its checkpoint.json is refused (exit code 11).",
                  .run = cli_ckpt_convert },
                { "trace", CLI_TRACE, .arguments = "DIR",
                  .summary = "Read the flight records of a run: who failed first, and who waited for whom",
                  .example =
                      "yoke trace runs/20240131-120000                            # a run that failed, or still runs\n"
                      "yoke trace runs/20240131-120000 --format chrome -o t.json  # open it in ui.perfetto.dev\n"
                      "# without yoke run\n"
                      "YOKE_RUN_DIR=records mpiexec.mpich -n 4 ./program; yoke trace records",
                  .description =
                      "Every rank keeps a flight record, a small file in the run directory that outlives it, with its state and its last "
                      "1,024 operations. This verb reads them: what became of each rank, what it did last, whom it waited for, and which "
                      "rank is to blame. Under yoke run records stay in the directory given by --run-dir, in runs/ for training and between "
                      "hosts, and in a temporary folder when a run fails; its error names the folder. Without yoke run set YOKE_RUN_DIR to a "
                      "folder (made when it is missing, shared between hosts, emptied of older records by the next job).\n\n"
                      "What names the culprit (evidence in the JSON), from the surest: agent, its agent saw how it ended; witness, another "
                      "rank saw its process end first; stopped, it is stopped; error, a rank recorded an error that names it; gone, its "
                      "process alone is gone; waited, a guess: several are gone, and in the end the others waited for this one. Under a bare "
                      "mpiexec, which kills all ranks within a millisecond after one died, the ranks of its host are its witnesses (Linux "
                      "5.16 or later). Where none was quick enough, or the rank had none on its host, all that may have died first are "
                      "listed as candidates.\n\n"
                      "Clocks: times within a host are exact. Between hosts they are as close as the hosts' clocks were when the records were "
                      "made. Times are seconds since the first operation recorded.\n\n"
                      "JSON: schema (1), folder, n_ranks, origin (seconds since 1970), end, culprit {rank, evidence, by, candidates, went_on_without, text}, "
                      "ranks [{rank, state (running, stopped, ended, failed, dead, killed, gone, unknown, missing), state_text, host, pid, "
                      "device, doing, signal, exit_code, status, error, waits_for, saw_first_end_of, last_activity, n_operations, compared "
                      "{operations, last, waited, caused}, operations [{sequence, communicator, communicator_id, collective, algorithm, dtype, "
                      "reduction, count, bytes, root, step, start, end, waits_for, status}]}]. What does not apply is null; a rank without a "
                      "readable record has rank, state, state_text and problem. compared: of the operations that all ranks recorded, in how "
                      "many it came last, and the seconds that it waited for the last, or others for it. root is the peer of a send or recv.\n\n"
                      "Exit code 11 when no record could be read; a damaged one is left out with a warning.",
                  .run = cli_trace },
                { "parity", CLI_PARITY, .ranks = true,
                  .summary = "Hold every parallel layout on these devices against one host rank",
                  .example =
                      "yoke run -n 8 -- parity                            # a choice of layouts: a minute on two cores\n"
                      "yoke run -n 4 --devices host,opencl:0 -- parity --layouts all --precision bf16\n"
                      "printf 'dp=2 pp=2 schedule=zb-h1 recompute=full\\ntp=4 sequence-parallel\\n' >mine\n"
                      "yoke run -n 4 -- parity --layouts mine --json",
                  .description =
                      "Trains a small GPT-2 for a few steps in each of a list of layouts and holds it against one host rank in the same precision, and against f32. A "
                      "ratio of a difference to its gate above 1 fails, and so does what is not a number. Gate (a): gradients at steps 1, 10 and 20 from "
                      "identical weights, of each tensor |difference| / |expected| (norms): f32 5e-6; 16-bit 1e-2 against the same precision, 2e-2 against f32; the "
                      "norm of all gradients likewise. (The K third of attention's bias, whose true gradient is 0, is held to 1e-5 of the Q third's norm, in 16 bits "
                      "1e-2.) Gate (b): losses of a free run: f32 2e-6 relative over 20 steps; 16-bit 1e-5 at step 1, 1.2e-3 to step 12. Besides, what "
                      "differs in nothing but schedule, recomputation or ZeRO must end with the same bits, and so must ranks that hold the same tensors where their devices "
                      "are alike. Losses alone prove little: a forgotten factor can move them by 3e-5.\n\n"
                      "All layouts run inside one start of as many ranks as the largest takes: each on the first ranks, or on others that have the same devices in the "
                      "same order, several side by side. What takes more ranks, or does not fit the model, is left out and counted, with the reason.\n\n"
                      "A file of layouts has one per line, in words: dp=N pp=N tp=N (or N,N: of each stage) chunks=N micro-batch=N, schedule=naive|gpipe|1f1b|interleaved|zb-h1, "
                      "recompute=none|attention|full (or per stage, by commas), shares=A:B (of the batch, per replica), tensor-shares=A:B, layers=N,N (blocks of each "
                      "stage), sequence-parallel, zero=0|1; and precision=f32,bf16,f16, steps=N and from=RANK (its first rank). What stands behind # is left out.\n\n"
                      "JSON: schema (1), version, blocks, batch, sequence, steps, seed, layouts, held, failed, left_out (runs), runs [{layout, precision, verdict (held, "
                      "failed, left out), why, and of what ran first_rank, ranks, gradients, gradients_against_fp32 (null in f32) and losses {ratio (null: not "
                      "finite), step, rank, at}, ranks_alike, same_bits (null: nothing to compare with), seconds}].\n\n"
                      "Exit code 17 where a gate fails, with layout, step, tensor and rank; 10 where a file is wrong, with line and word.",
                  .run = cli_parity },
                { "schedule show", CLI_SCHEDULE_SHOW,
                  .summary = "Draw a pipeline schedule: who works when, how long stages wait, what they hold",
                  .example =
                      "yoke schedule show --kind 1f1b --stages 4 --microbatches 8\n"
                      "yoke schedule show --kind zb-h1 --costs 18.5,18.1,9.3,0.6 --format svg -o zb.svg\n"
                      "# what is everybody doing when stage 3 has just finished micro-batch 1?\n"
                      "yoke schedule show --kind gpipe --stages 4 --microbatches 8 --when \"S3 finished F1\"\n"
                      "yoke schedule show --file mine.csv --costs-file measured.csv",
                  .description =
                      "Simulates a schedule and draws a row per stage: F forward, B gradient of the input, W gradient of the weights, R the "
                      "forward pass again, each with its micro-batch, and a letter for its chunk where there are several. Dots are idle time. "
                      "In drawings and in --when and --recompute, stages and micro-batches are counted from 1 (S1, F1); in CSV, JSON and errors from 0.\n\n"
                      "The bubble is an idle fraction: 1 - m (F + B + W) / T, the mean over the stages, where T is the longest time that a stage takes from "
                      "its first to its last work on m micro-batches. (Others give idle time over working time, which is larger.) A stage holds a micro-batch "
                      "from F to W, or to B and W by parts; where it recomputes, from R to W, and its input before.\n\n"
                      "Messages leave behind the action that is listed before them, and computation goes on meanwhile. A file is checked first, as "
                      "by yoke schedule check.\n\n"
                      "CSV is what a trainer takes: a line per stage, its actions in order. F B W R, SA and RA (send and receive activations), SG and RG (gradients) carry the "
                      "micro-batch, and \".1\" behind it in chunk 1; REDUCE carries the bucket; TIED, AGREE and STEP nothing.\n\n"
                      "JSON: schema (1), kind, stages, chunks, microbatches, total, longest_span, bubble, stage [{stage, busy, idle (fraction), peak_held "
                      "(micro-batches), actions [{action, start, end}]}], and with --when or --at moment {time, stage [{stage, finished, doing, since, until, next}]}. "
                      "What does not apply is null.",
                  .run = cli_schedule_show },
                { "schedule check", CLI_SCHEDULE_CHECK, .arguments = "FILE",
                  .summary = "Refuse a pipeline schedule that loses work or stands still",
                  .example = "yoke schedule check mine.csv --stages 4 --microbatches 8",
                  .description =
                      "Every micro-batch must be there once, in every chunk of every stage, and in ascending order: gradients are added in that order, so every schedule "
                      "gives the same bits. What is used must have been received or computed, what is sent must be expected, in the same order, and the stages must come "
                      "to their end although no message is buffered. An error names stage, position and action, and what to do; the exit code is 10. Counts that "
                      "are not given are taken from the file: without --microbatches the last one can be missing everywhere.",
                  .run = cli_schedule_check },
                { "hello", CLI_HELLO, .ranks = true,
                  .summary = "Start ranks that meet and end; a test of the launcher",
                  .example = "yoke run -n 2 -- hello", .description = "Used by yoke info --check.",
                  .run = cli_hello },
                { "manual", CLI_MANUAL, .summary = "Write a manual page, or the shell completion",
                  .example = "yoke manual --name=run | man -l -", .description = "Used while Yoke is built.",
                  .run = cli_manual },
                { .name = NULL },
            };

const struct cli_verb *cli_verb_of(uint32_t bit)
{
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (v->bit == bit) return v;
    return NULL;
}
