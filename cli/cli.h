/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The command `yoke`: its verbs (the words after `yoke`), their arguments, and how they print. Results go to
 * stdout. Everything else goes to stderr.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>
#include <yoke/base.h>
#include "cli/options/options.h"
#include "cli/options/progress.h"
#include "cli/options/verbs.h"

/** The arguments of a verb. */
struct cli_context {
    const struct cli_options *options;
    int n_words; /* number of words that are not options */
    char **words;
    int rank, size;      /* rank and size in MPI_COMM_WORLD for verbs with `ranks`; else 0 and 1 */
    const char *device;  /* device that `yoke run --devices` gave this rank (YOKE_DEVICE), or NULL */
    const char *run_dir; /* run directory that `yoke run` made (YOKE_RUN_DIR), or NULL */
};

/**
 * A verb. Its function returns a status. The caller prints the error text once and exits with
 * yoke_status_exit_code().
 *
 * A verb with `ranks` may run on several ranks. Before the function is called, MPI is initialised (with
 * MPI_THREAD_MULTIPLE if MPI offers it). The number of ranks has been compared with the number that the
 * launcher was asked for. The options are those of rank 0. A verb that fails must not call MPI any more.
 * After success the caller finalises MPI.
 */
struct cli_verb {
    const char *name; /* "train", or two words: "bench gemm" */
    cli_verbs bit;
    bool ranks;
    const char *arguments; /* words after the options, for the usage line; NULL: no words are allowed */
    const char *summary;   /* one line of at most 58 columns, without the full stop */
};
extern const struct cli_verb cli_verb_table[];
const struct cli_verb *cli_verb_of(cli_verbs bit);

/** The exit codes, for the help and the manual page. A row without a text ends the table. */
struct cli_exit_code {
    int code;
    const char *text;
};
extern const struct cli_exit_code cli_exit_codes[];
/** How an option is given in a file and as a variable, for the help and the manual pages. */
extern const char cli_about_options[];

/* The functions of the verbs, one file each. */
#define CLI_VERB_FUNCTION(name, bit, function, ...) yoke_status function(const struct cli_context *context);
CLI_VERBS(CLI_VERB_FUNCTION)
#undef CLI_VERB_FUNCTION
/**
 * For a command in a rank of another job that starts a job of its own. Drop the settings that only the outer
 * job is meant to use, before options are read.
 */
void cli_forget_outer_job(void);

/* ---- output.c ---- */
/**
 * Whether a person watches stderr: stderr is a terminal, or `yoke run` above this rank has a terminal as its
 * stderr.
 */
bool cli_on_terminal(void);
/** Whether the terminal knows no control sequences (TERM=dumb). */
bool cli_terminal_is_dumb(void);
/** Whether a person watches stdout. */
bool cli_out_on_terminal(void);
/** The columns of the terminal that stdout is. 80 if stdout is not a terminal. */
int cli_out_columns(void);
/**
 * yoke run calls this function. It sets variables that tell the ranks whether stdout and stderr are
 * terminals.
 */
void cli_pass_terminals_to_ranks(void);
/**
 * Called once, before anything is printed. Lines of stdout and stderr stay whole if both streams go to one
 * file.
 */
void cli_order_streams(void);
/** The columns of the terminal that stderr is on. They are read anew, because a window may change. */
int cli_columns(void);
/** --quiet: no notes, and no line of progress. Before the call, the variable YOKE_QUIET counts. */
void cli_set_quiet(bool on);
bool cli_is_quiet(void);
/** Print a line on stderr, whether or not stderr is a terminal, unless --quiet is set. */
void cli_note(const char *format, ...) YOKE_PRINTF(1, 2);
/** The same for a line that was asked for, such as that of an option of its own: --quiet does not count. */
void cli_say(const char *format, ...) YOKE_PRINTF(1, 2);
/** Print "yoke: warning: …" on stderr. */
void cli_warn(const char *format, ...) YOKE_PRINTF(1, 2);
/** Print "yoke: error: …" on stderr. */
void cli_error(const char *text);

/* ---- printable.c: all the functions above print through it ---- */
/**
 * A copy of the text in which control characters, characters that change the writing direction, and bytes
 * that are not UTF-8 are written as \xNN. The caller frees it with free(). NULL: no memory.
 */
char *cli_printable(const char *text);
/**
 * The same for text that comes in pieces. A piece may end inside a character. `last` says that no more pieces
 * come. The struct begins as { 0 }.
 */
struct cli_printer {
    unsigned char held[4];
    size_t n;
};
void cli_put_printable(struct cli_printer *printer, const void *bytes, size_t n, bool last, FILE *to);
/**
 * In output.c: write text that may hold any bytes to stdout. A file or pipe gets the bytes unchanged. A
 * terminal gets printable text.
 */
void cli_put_text(struct cli_printer *printer, const void *bytes, size_t n, bool last);
/** The bytes of the longest beginning of a printable text that takes at most `columns` of a terminal. */
size_t cli_fitting(const char *text, int columns);
/** Write a word of a shell command; in quotes if the shell would change it. */
void cli_put_word(const char *word, FILE *to);

/* ---- results.c ---- */
/**
 * Let `put` write the results of a verb to stdout, or, if `path` is not NULL, to this file. The
 * file is written as a whole or not at all. It is also written if `put` fails after it has written results,
 * because a comparison that ends with an error has results too. Errors: those of `put`, which come first;
 * YOKE_EIO; YOKE_ENOMEM.
 */
yoke_status cli_write_results(const char *path, yoke_status (*put)(void *context, FILE *to), void *context);
/**
 * Refuse an output that would replace an input, or a file of a run directory that is an input. `path` may be
 * NULL. YOKE_EINVAL, YOKE_ENOMEM.
 */
yoke_status cli_check_output(const char *path, const char *const inputs[], int n_inputs);

/* ---- manual.c ---- */
/**
 * Write to stdout the manual page of a verb ("bench-gemm"), the manual page of yoke itself (NULL), or the
 * shell completion ("completion"). False: there is no such verb.
 */
bool cli_manual_page(const char *name);

/* ---- help.c ---- */
/** Print the most needed options, or, with `all`, all options with their explanations. */
void cli_help(const struct cli_verb *verb, bool all, FILE *to);
/** Print the verbs whose names begin with this word and a blank ("bench"). False: there are none. */
bool cli_help_group(const char *first, FILE *to);
void cli_help_all(FILE *to);

#endif
