/* SPDX-License-Identifier: Apache-2.0 */
/** The command: verbs, what they are given, and how they print. Results go to stdout, everything else to stderr. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>
#include <yoke/base.h>
#include "cli/options/options.h"

/** What a verb is given. */
struct cli_context {
    const struct cli_options *options;
    int n_words;         /* words that are no options */
    char **words;
    int rank, size;      /* of MPI_COMM_WORLD for verbs with `ranks`; else 0 and 1 */
    const char *device;  /* what `yoke run --devices` gave this rank (YOKE_DEVICE), or NULL */
    const char *run_dir; /* made by `yoke run` (YOKE_RUN_DIR), or NULL */
};

/**
 * A verb. `run` returns a status; the caller prints the error text once and exits with yoke_status_exit_code().
 * With `ranks`, MPI was initialised (thread level multiple where offered), the number of ranks was checked against what
 * the launcher promised, and the options are those that rank 0 read. A verb that fails must not call MPI any more;
 * after success the caller finalises MPI.
 */
struct cli_verb {
    const char *name;        /* "train", or two words: "bench gemm" */
    uint32_t bit;
    bool ranks;
    const char *arguments;   /* words after the options, for the usage line; NULL: none are allowed */
    const char *summary;     /* one line */
    const char *example;     /* one or more command lines with a comment line before each */
    const char *description; /* paragraphs, for the manual */
    yoke_status (*run)(const struct cli_context *context);
};
extern const struct cli_verb cli_verb_table[];

/* Functions of the verbs, one file each. */
yoke_status cli_run(const struct cli_context *context);
/** In a rank of another job, whose command starts a job of its own: drop what that job alone is meant to use, before options are read. */
void cli_forget_outer_job(void);
yoke_status cli_rank(const struct cli_context *context);
yoke_status cli_info(const struct cli_context *context);
yoke_status cli_verify(const struct cli_context *context);
yoke_status cli_tune(const struct cli_context *context);
yoke_status cli_bench_kernels(const struct cli_context *context);
yoke_status cli_bench_gemm(const struct cli_context *context);
yoke_status cli_bench_collectives(const struct cli_context *context);
yoke_status cli_bench_allreduce(const struct cli_context *context);
yoke_status cli_train(const struct cli_context *context);
yoke_status cli_plan(const struct cli_context *context);
yoke_status cli_parity(const struct cli_context *context);
yoke_status cli_sample(const struct cli_context *context);
yoke_status cli_tokenize(const struct cli_context *context);
yoke_status cli_trace(const struct cli_context *context);
yoke_status cli_schedule_show(const struct cli_context *context);
yoke_status cli_schedule_check(const struct cli_context *context);
yoke_status cli_ckpt_ls(const struct cli_context *context);
yoke_status cli_ckpt_show(const struct cli_context *context);
yoke_status cli_ckpt_verify(const struct cli_context *context);
yoke_status cli_ckpt_diff(const struct cli_context *context);
yoke_status cli_ckpt_convert(const struct cli_context *context);
yoke_status cli_hello(const struct cli_context *context);
yoke_status cli_manual(const struct cli_context *context);

/* ---- output.c ---- */
/** Whether a person watches: stderr is a terminal, also when it is that of `yoke run` above this rank. */
bool cli_on_terminal(void);
/** The same of stdout. */
bool cli_out_on_terminal(void);
/** Called by yoke run: ranks learn from variables what the two are. */
void cli_tell_ranks_of_terminals(void);
/** Called once, before anything is printed: lines of both streams stay whole where they go to one file. */
void cli_order_streams(void);
/**
 * One line of progress that replaces the last one, cut to the terminal's width; nothing unless on a terminal. "" clears it.
 * A line that stands for more than two seconds goes on to say for how many.
 */
void cli_progress(const char *format, ...) YOKE_PRINTF(1, 2);
void cli_progress_end(void);
/** A line on stderr, whatever stderr is. Ends a line of progress first. */
void cli_note(const char *format, ...) YOKE_PRINTF(1, 2);
/** "yoke: warning: …" on stderr. */
void cli_warn(const char *format, ...) YOKE_PRINTF(1, 2);
/** "yoke: error: …" on stderr. */
void cli_error(const char *text);

/* ---- printable.c: all of the above passes through it ---- */
/** The text with control characters, marks of direction and bytes that are no UTF-8 as \xNN; free() it. NULL: no memory. */
char *cli_printable(const char *text);
/** The same of text that comes in pieces, which may end inside a character; `last`: no more comes. Begins as { 0 }. */
struct cli_printer {
    unsigned char held[4];
    size_t n;
};
void cli_put_printable(struct cli_printer *printer, const void *bytes, size_t n, bool last, FILE *to);
/** Write text that may hold any bytes to stdout: as it is to a file or pipe, printable to a terminal. */
void cli_put_text(struct cli_printer *printer, const void *bytes, size_t n, bool last);

/* ---- manual.c ---- */
/** Write the manual page of a verb ("bench-gemm"), of yoke itself (NULL), or the shell's completion ("completion"), to stdout. False: no such verb. */
bool cli_manual_page(const char *name);

/* ---- help.c ---- */
const struct cli_verb *cli_verb_of(uint32_t bit);
/** The options that are needed most, or all with their explanations. */
void cli_help(const struct cli_verb *verb, bool all, FILE *to);
/** The verbs whose names begin with this word and a blank ("bench"); false where there is none. */
bool cli_help_group(const char *first, FILE *to);
void cli_help_all(FILE *to);

#endif
