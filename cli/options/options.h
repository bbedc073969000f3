/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The command's options. One table drives the command-line options, the YOKE_… variables, the YAML keys,
 * --help, the man pages, shell completion and the hints for misspelt names. A value comes from one of four
 * places: the default, the file (-c), the variable, or the option. A later place in this list wins over an
 * earlier one.
 *
 * To add an option, add one row to the table of cli/options/options.c, or to its parts train_rows.h and
 * variable_rows.h. The row's name gives the option (--learning-rate), the YAML key (learning-rate:) and, in
 * capitals, the variable (YOKE_LEARNING_RATE).
 *
 * To add a verb (the word after `yoke`):
 * - Add a bit to the sets of verbs below.
 * - Add a row to cli/options/verbs.h with the name, the function and the summary.
 * - Write the manual page's text in cli/options/manual, and name the file in cli/local.mk.
 * - Write a file with that function in the subfolder of cli/ that fits, and name the file in cli/local.mk.
 * - Add a line to cli/no_mpi.c if the verb needs MPI.
 * - If the verb may take more than two seconds, let it say how far it is: cli/options/progress.h.
 *
 * The function reads its options with cli_text(), cli_int(), cli_real(), cli_bytes() and cli_flag(). These
 * functions never fail, because types and ranges were checked before.
 *
 * A YAML file is a mapping of option names. A key that is a verb's name may hold a mapping for that verb
 * alone. So one file can serve `yoke run` and `yoke train`. The elements of a YAML sequence are joined by
 * commas.
 *
 * Each idea has one word. -o/--output is a file. --format is how results are written. An option that takes a
 * list has the singular name of the list's elements (--dtype f32,bf16). Types are f32, bf16 and f16.
 */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <yoke/base.h>

/** Sets of verbs, one bit for each verb. */
typedef uint64_t cli_verbs;
#define CLI_BIT(n) (UINT64_C(1) << (n))
#define CLI_RUN CLI_BIT(0)
#define CLI_RANK CLI_BIT(1)
#define CLI_INFO CLI_BIT(2)
#define CLI_VERIFY CLI_BIT(3)
#define CLI_BENCH_GEMM CLI_BIT(4)
#define CLI_BENCH_ALLREDUCE CLI_BIT(5)
#define CLI_TRAIN CLI_BIT(6)
#define CLI_MANUAL CLI_BIT(7)
#define CLI_BLACKBOX CLI_BIT(8)
#define CLI_HELLO CLI_BIT(9)
#define CLI_BENCH_COLLECTIVES CLI_BIT(10)
#define CLI_TRACE CLI_BIT(11)
#define CLI_SCHEDULE_SHOW CLI_BIT(12)
#define CLI_SCHEDULE_CHECK CLI_BIT(13)
#define CLI_LOOK CLI_BIT(14)
#define CLI_PLAN CLI_BIT(15)
#define CLI_CKPT_LS CLI_BIT(16)
#define CLI_CKPT_SHOW CLI_BIT(17)
#define CLI_CKPT_VERIFY CLI_BIT(18)
#define CLI_CKPT_DIFF CLI_BIT(19)
#define CLI_CKPT_CONVERT CLI_BIT(20)
#define CLI_REPORT CLI_BIT(21)
#define CLI_SAMPLE CLI_BIT(22)
#define CLI_TOKENIZE CLI_BIT(23)
#define CLI_PARITY CLI_BIT(24)
#define CLI_TUNE CLI_BIT(25)
#define CLI_BENCH_KERNELS CLI_BIT(26)
#define CLI_COMPILE CLI_BIT(27)
#define CLI_COMPARE CLI_BIT(28)
#define CLI_WATCH CLI_BIT(29)
#define CLI_DIAGNOSE CLI_BIT(30)
#define CLI_POSTMORTEM CLI_BIT(31)
#define CLI_REPLAY CLI_BIT(32)
#define CLI_BENCH_CLUSTER CLI_BIT(33)
/* verbs that help texts do not list */
#define CLI_HIDDEN (CLI_RANK | CLI_MANUAL | CLI_HELLO | CLI_LOOK | CLI_REPLAY)
/* not an option: a variable that the libraries read; it is listed so that typing errors are found */
#define CLI_LIBRARY CLI_BIT(63)
#define CLI_EVERY (~CLI_LIBRARY)

enum cli_type {
    CLI_FLAG,  /* --json; in YAML and variables: yes/no, true/false, on/off, 1/0 */
    CLI_INT,   /* whole number; also 4k, 2M (powers of 1000) */
    CLI_BYTES, /* 64, 4K, 16M, 1G, 16MiB (powers of 1024) */
    CLI_REAL,  /* 1e-3 */
    CLI_TIME,  /* seconds: 200, 200s, 5m, 1h, 50ms */
    CLI_TEXT,
    CLI_CHOICE, /* one of `choices`, "a|b|c" */
    CLI_LIST,   /* comma-separated texts */
};

/**
 * Headings of --help, for verbs with many options. An option without a heading stands among the general
 * options.
 */
#define CLI_DATA "Data"
#define CLI_MODEL "Model and devices"
#define CLI_STEPS "Steps"
#define CLI_LAYOUT "Division of the work and memory"
#define CLI_FILES "Files"
#define CLI_SEEN "Results and progress"

struct cli_option {
    const char *name;
    cli_verbs verbs; /* bits of the verbs that have the option */
    enum cli_type type;
    char letter;         /* 'n' if -n is allowed too; 0: no letter */
    const char *value;   /* default, as the user would write it; NULL: no default */
    const char *metavar; /* "N", "FILE"; NULL: derived from the type */
    const char *choices; /* allowed values of a CLI_CHOICE; if not NULL, also of each element of a CLI_LIST */
    double least, most;  /* limits of a number; both 0: no limits */
    /* A number, a list of them, or ranges of them: "256..1024,2048". cli_int has the first one. */
    bool ranges;
    /* no YAML key and no variable, because the option only means something on the command line */
    bool no_key;
    bool rare;         /* shown only by --help-all */
    cli_verbs rare_in; /* the same, of these verbs */
    const char *group; /* heading in --help */
    const char *help;  /* one or more sentences, the last one without the full stop and without the default */
};

/** The table. A row without a name ends it. */
extern const struct cli_option cli_option_table[];

/* ---- line.c ---- */
/** An option on a command line, and its value. */
struct cli_given {
    const struct cli_option *option;
    const char *value;
};
/** The words of a command line. Values and words point into argv. */
struct cli_line {
    cli_verbs verb;
    int n_given;
    struct cli_given *given; /* in the order of the command line */
    int n_words;
    char **words;       /* the words that are not options, and all words after "--"; NULL-terminated */
    char help;          /* 'h': --help was given; 'a': --help-all; 0: neither */
    yoke_status status; /* the first error, whose text is `error` */
    char error[512];
};

/**
 * Read the command line argv[1..] of `verb` (a bit), once from left to right. argv[0] is the verb's full name
 * for messages. An error is kept in the line, because help that is asked for is shown in spite of it. The
 * caller frees the line with cli_line_free().
 */
void cli_line_read(cli_verbs verb, int argc, char **argv, struct cli_line *line_out);
void cli_line_free(struct cli_line *line);

/* ---- resolve.c ---- */
struct cli_options; /* the resolved values of one verb */

/**
 * Resolve the options of a command line: its own, those of the variables, and those of the file.
 * Errors: YOKE_EINVAL (command line, variable), YOKE_ECONFIG (file; the text has line, column and the nearest
 * name), YOKE_EDATA.
 */
yoke_status cli_options_of_line(const struct cli_line *line, struct cli_options **options_out);
/** The same from argv. The caller frees *words_out with free(). The errors are those above. */
yoke_status cli_options_resolve(cli_verbs verb, int argc, char **argv, struct cli_options **options_out,
                                int *n_words_out, char ***words_out);

/* ---- values.c ---- */
void cli_options_free(struct cli_options *options);
/**
 * Pack the resolved options into one block of bytes, and unpack them. Rank 0 resolves the options, and the
 * other ranks receive the block. The caller frees the block with free().
 */
yoke_status cli_options_pack(const struct cli_options *options, void **data_out, size_t *bytes_out);
yoke_status cli_options_unpack(const void *data, size_t bytes, struct cli_options **options_out);

/**
 * Values. `name` must be an option of the verb. If it is not, the program has a fault, and the function
 * reports it.
 */
const char *cli_text(const struct cli_options *options, const char *name); /* NULL if the option is not set */
int64_t cli_int(const struct cli_options *options, const char *name);      /* 0 if the option is not set */
uint64_t cli_bytes(const struct cli_options *options, const char *name);
double cli_real(const struct cli_options *options, const char *name); /* for CLI_TIME too, in seconds */
bool cli_flag(const struct cli_options *options, const char *name);
/** The number of elements of a CLI_LIST, and element `index`, which is copied to `out`. */
int cli_list_count(const struct cli_options *options, const char *name);
const char *cli_list_item(const struct cli_options *options, const char *name, int index, char *out,
                          size_t bytes);
/**
 * The next number or range of an option that takes ranges. *at is NULL before the first one. A single number
 * is a range from itself to itself. False: there is no more.
 */
bool cli_next_numbers(const struct cli_options *options, const char *name, const char **at, int64_t *low_out,
                      int64_t *high_out);
/**
 * Whether the user set the option, and where its value comes from: "default", "job.yaml:3:7", "YOKE_BATCH",
 * "option --batch".
 */
bool cli_is_set(const struct cli_options *options, const char *name);
const char *cli_origin(const struct cli_options *options, const char *name);

/* ---- names.c, and what the files of cli/options share ---- */
/** Find an option by its name. */
const struct cli_option *cli_option_find(cli_verbs verb, const char *name);
/** What the help texts call the option's value, such as "FILE". Not for a CLI_FLAG. */
const char *cli_option_metavar(const struct cli_option *option);
/** Whether the help says that the option is only for the command line. Of --help itself it does not say so.
 */
bool cli_only_on_line(const struct cli_option *option);
/** The option of another verb with that name, for hints. NULL: there is none. */
const struct cli_option *cli_option_anywhere(const char *name);
/**
 * Set one option. `origin` names the place of the value in messages. `status` is the error for a wrong value
 * from that place.
 */
yoke_status cli_options_set(struct cli_options *options, const struct cli_option *option, const char *value,
                            const char *origin, yoke_status status);
yoke_status cli_options_new(cli_verbs verb, struct cli_options **options_out);
/** Read "yes", "no" and their like. False: the text is neither. */
bool cli_boolean(const char *text, bool *out);
cli_verbs cli_options_verb(const struct cli_options *options);
/** Read a YAML file into `options`. */
yoke_status cli_config_read(const char *path, struct cli_options *options);
/** Write " (did you mean --batch?)" or "" to `out`, the caller's buffer, and return it. */
const char *cli_hint(cli_verbs verb, const char *name, const char *prefix, char *out, size_t bytes);
/** The variable for an option's name, such as "YOKE_LEARNING_RATE". */
void cli_variable_name(const char *name, char *out, size_t bytes);

#endif
