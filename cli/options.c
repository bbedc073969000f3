/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, and how its rows are found. Types and units are explained in options.h. */
#include "cli/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"

#define BENCH (CLI_BENCH_GEMM | CLI_BENCH_ALLREDUCE)
#define RESULTS (CLI_INFO | CLI_VERIFY | BENCH)
#define DTYPES "f32|bf16|f16"

const struct cli_option cli_option_table[] = {
    /* ---- every verb ---- */
    { "config", CLI_EVERY & ~CLI_RANK, CLI_TEXT, 'c', .metavar = "FILE",
      .help = "Read options from a YAML file; variables and options given here win over it" },
    { "help", CLI_EVERY, CLI_FLAG, 'h', .no_key = true, .help = "Show an example and the options" },

    /* ---- run ---- */
    { "ranks", CLI_RUN, CLI_INT, 'n', .metavar = "N", .least = 1, .most = 1024,
      .help = "Number of ranks to start; default: one per entry of --devices, else 1" },
    { "hosts", CLI_RUN, CLI_LIST, .metavar = "HOST[:N],...",
      .help = "Hosts to start on, with ranks per host; the working folder must be shared between them" },
    { "devices", CLI_RUN, CLI_LIST, .metavar = "SPEC,...",
      .help = "Device of each rank in turn, such as host,opencl:0; a shorter list is repeated" },
    { "bind", CLI_RUN, CLI_CHOICE, .value = "cores", .choices = "cores|none",
      .help = "Give each rank of a host its own share of the cores, with thread counts to match, or leave that alone" },
    { "run-dir", CLI_RUN | CLI_TRAIN, CLI_TEXT, .metavar = "DIR",
      .help = "Folder for what a run writes; default: a new one under runs/" },
    { "grace", CLI_RUN, CLI_TIME, .value = "15s", .least = 0, .most = 3600,
      .help = "After a rank failed, how long the others may take to end by themselves" },

    /* ---- info ---- */
    { "check", CLI_INFO, CLI_FLAG, .help = "Test this machine and say how to fix what is found" },
    { "no-speed", CLI_INFO, CLI_FLAG, .help = "Leave out the measurements of copy rate and matrix speed" },

    /* ---- verify, bench ---- */
    { "device", CLI_VERIFY | CLI_BENCH_GEMM | CLI_BENCH_ALLREDUCE | CLI_TRAIN, CLI_TEXT, .value = "host", .metavar = "SPEC",
      .help = "Device to use: host, opencl:0, cuda:1, hip:0, reference" },
    { "op", CLI_VERIFY, CLI_TEXT, .metavar = "WORD", .help = "Only this op, such as layernorm_backward, or family, such as norm" },
    { "dtype", CLI_VERIFY, CLI_CHOICE, .choices = DTYPES "|f64", .help = "Only this data type" },
    { "variant", CLI_VERIFY, CLI_TEXT, .metavar = "NAME", .help = "Only this variant of each op; default: all of them" },
    { "full", CLI_VERIFY, CLI_FLAG, .help = "The full sweep of shapes (minutes)" },
    { "seed", CLI_VERIFY, CLI_INT, .value = "1", .least = 0, .most = 9e15, .help = "Seed of the random inputs" },
    { "sizes", CLI_BENCH_GEMM, CLI_LIST, .value = "256,512,1024", .metavar = "N|MxNxK,...",
      .help = "Sizes of the products C[M,N] = A[M,K] B[K,N]; one number stands for all three" },
    { "dtypes", CLI_BENCH_GEMM, CLI_LIST, .value = "f32", .choices = DTYPES, .help = "Data types to measure" },
    { "repeats", CLI_BENCH_GEMM, CLI_INT, .value = "9", .least = 1, .most = 1000,
      .help = "Measurements of each side, taken in turn; the median counts" },
    { "threads", CLI_BENCH_GEMM, CLI_INT, .least = 1, .most = 4096,
      .help = "Threads of every side on host and PoCL; default: one per core of this process" },
    { "output", BENCH, CLI_CHOICE, 'o', .value = "md", .choices = "md|json|csv", .help = "How results are printed" },
    { "json", RESULTS | CLI_TRAIN, CLI_FLAG, .help = "Results as JSON on stdout" },

    /* ---- train: cli/train.c ---- */

    /* ---- hidden: cli/manual.c ---- */
    { "name", CLI_MANUAL, CLI_TEXT, .no_key = true, .help = "Verb whose page is written; default: the page of yoke itself" },

    /* ---- variables that the libraries read ---- */
    { "cache-dir", CLI_LIBRARY, CLI_TEXT, .metavar = "DIR",
      .help = "Where compiled device programs are kept; default $XDG_CACHE_HOME/yoke or ~/.cache/yoke" },
    { "timeout-ms", CLI_LIBRARY, CLI_INT, .help = "How long a rank that is alive may take to call a collective (600000)" },
    { "stall-ms", CLI_LIBRARY, CLI_INT, .help = "How long a rank inside a collective may make no progress (10000)" },
    { "chunk-bytes", CLI_LIBRARY, CLI_BYTES, .help = "Size of the pieces in which collectives are pipelined" },
    { "algorithm", CLI_LIBRARY, CLI_TEXT, .help = "Algorithm of the collectives, such as ring" },
    { "data-dir", CLI_LIBRARY, CLI_TEXT, .help = "Where kernels and tuning files lie when Yoke is not installed" },
    { "launcher", CLI_LIBRARY, CLI_TEXT, .metavar = "FILE", .help = "The MPICH launcher that yoke run starts; default mpiexec.mpich" },
    { "soak", CLI_LIBRARY, CLI_FLAG, .help = "Tests: run the long sweeps" },
    { "test-only", CLI_LIBRARY, CLI_TEXT, .help = "Tests: run only the commands that contain this word" },
    { "expect-size", CLI_LIBRARY, CLI_INT, .help = "Set by yoke run: the number of ranks that must come up" },
    { "supervisor", CLI_LIBRARY, CLI_INT, .help = "Set by yoke run: its process id and host" },
    { "terminal", CLI_LIBRARY, CLI_FLAG, .help = "Set by yoke run: its stderr is a terminal" },
    { NULL },
};

const struct cli_option *cli_option_find(uint32_t verb, const char *name)
{
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & verb) && !strcmp(o->name, name)) return o;
    return NULL;
}

const struct cli_option *cli_option_anywhere(const char *name)
{
    return cli_option_find(CLI_EVERY, name);
}

void cli_variable_name(const struct cli_option *option, char *out, size_t bytes)
{
    yokei_text(out, bytes, "YOKE_%s", option->name);
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
