/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The command's options: one table drives command-line options, YOKE_… variables, YAML keys, --help, man pages, shell
 * completion and the hints for misspelt names. A value is taken from: default < file (-c) < variable < option.
 *
 * To add an option: one row in the table of cli/options/options.c. Its name is the option (--learning-rate), the YAML key
 * (learning-rate:) and, in capitals, the variable (YOKE_LEARNING_RATE).
 * To add a verb: a bit in enum cli_verb_bit below, a row in cli/options/verbs.c (name, summary, example, function), a file with that
 * function in the room of cli/ that fits, its name in cli/local.mk, and a line in cli/options/manual_build.c and, if the verb needs MPI,
 * in cli/no_mpi.c. The function reads its options with cli_text(),
 * cli_int(), cli_real(), cli_bytes(), cli_flag(): these never fail, since types and ranges were checked before.
 *
 * A YAML file is a mapping of option names; a key that is a verb's name may hold a mapping for that verb alone, so one
 * file can serve `yoke run` and `yoke train`. Sequences are joined by commas.
 *
 * One word for each idea: -o/--output is a file, --format how results are written, a list has the singular name of its
 * elements (--dtype f32,bf16), types are f32, bf16 and f16. What earlier versions called otherwise is taken all the same
 * (`old`, `old_choice_of`, fp32 for f32), on the command line, as a key and as a variable, but shown nowhere.
 */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <yoke/base.h>

enum cli_verb_bit {
    CLI_RUN = 1 << 0,
    CLI_RANK = 1 << 1,
    CLI_INFO = 1 << 2,
    CLI_VERIFY = 1 << 3,
    CLI_BENCH_GEMM = 1 << 4,
    CLI_BENCH_ALLREDUCE = 1 << 5,
    CLI_TRAIN = 1 << 6,
    CLI_MANUAL = 1 << 7,
    CLI_BENCH_TRAIN = 1 << 8,
    CLI_HELLO = 1 << 9,
    CLI_BENCH_COLLECTIVES = 1 << 10,
    CLI_TRACE = 1 << 11,
    CLI_SCHEDULE_SHOW = 1 << 12,
    CLI_SCHEDULE_CHECK = 1 << 13,
    CLI_PLAN = 1 << 15,
    CLI_CKPT_LS = 1 << 16,
    CLI_CKPT_SHOW = 1 << 17,
    CLI_CKPT_VERIFY = 1 << 18,
    CLI_CKPT_DIFF = 1 << 19,
    CLI_CKPT_CONVERT = 1 << 20,
    CLI_PARITY = 1 << 24,
    CLI_SAMPLE = 1 << 22,
    CLI_TOKENIZE = 1 << 23,
    CLI_TUNE = 1 << 25,
    CLI_BENCH_KERNELS = 1 << 26,
    CLI_HIDDEN = CLI_RANK | CLI_MANUAL | CLI_HELLO, /* verbs that are not listed */
    CLI_LIBRARY = 1 << 30, /* no option: a variable that the libraries read, listed so that typing errors are found */
    CLI_EVERY = CLI_LIBRARY - 1,
};

enum cli_type {
    CLI_FLAG,   /* --json; in YAML and variables: yes/no, true/false, on/off, 1/0 */
    CLI_INT,    /* whole number; also 4k, 2M (powers of 1000) */
    CLI_BYTES,  /* 64, 4K, 16M, 1G, 16MiB (powers of 1024) */
    CLI_REAL,   /* 1e-3 */
    CLI_TIME,   /* seconds: 200, 200s, 5m, 1h, 50ms */
    CLI_TEXT,
    CLI_CHOICE, /* one of `choices`, "a|b|c" */
    CLI_LIST,   /* comma-separated texts */
};

/** Headings of --help, for verbs with many options; none: among the general options. */
#define CLI_DATA "Data"
#define CLI_MODEL "Model and devices"
#define CLI_STEPS "Steps"
#define CLI_LAYOUT "Division of the work, memory"
#define CLI_FILES "Files"
#define CLI_SEEN "Results and progress"

struct cli_option {
    const char *name;
    uint32_t verbs;       /* bits of the verbs that have it */
    enum cli_type type;
    char letter;          /* 'n' for -n too; 0 for none */
    const char *value;    /* default, as the user would write it; NULL: not set */
    const char *metavar;  /* "N", "FILE"; NULL: by type */
    const char *choices;  /* CLI_CHOICE, and each element of a CLI_LIST when not NULL */
    double least, most;   /* numbers; both 0: no limits */
    bool no_key;          /* no YAML key and no variable: only means something on the command line */
    bool rare;            /* only shown by --help-all */
    const char *group;    /* its heading in --help */
    const char *old;      /* names that earlier versions gave it, by commas; "-o" is a letter */
    const char *old_choice_of; /* one of that option's choices, given to this one, is that option's, as in earlier versions */
    const char *help;     /* one sentence, without the full stop */
};

/** The table, ended by a row without a name. */
extern const struct cli_option cli_option_table[];

struct cli_options; /* the resolved values of one verb */

/**
 * Resolve the options of `verb` (a bit) from argv[1..], argv[0] being the verb's full name for messages.
 * Words that are no options are left in *words_out (NULL-terminated, free() it), all words after "--" included.
 * Errors: YOKE_EINVAL (command line, variable), YOKE_ECONFIG (file: with line, column and the nearest name), YOKE_EDATA.
 */
yoke_status cli_options_resolve(uint32_t verb, int argc, char **argv, struct cli_options **options_out, int *n_words_out,
                                char ***words_out);
void cli_options_free(struct cli_options *options);

/** The resolved set as one block of bytes, and back: rank 0 resolves, the others receive. free() the block. */
yoke_status cli_options_pack(const struct cli_options *options, void **data_out, size_t *bytes_out);
yoke_status cli_options_unpack(const void *data, size_t bytes, struct cli_options **options_out);

/** Values. `name` must be an option of the verb (checked: a fault of the program otherwise). */
const char *cli_text(const struct cli_options *options, const char *name); /* NULL when not set */
int64_t cli_int(const struct cli_options *options, const char *name);      /* 0 when not set */
uint64_t cli_bytes(const struct cli_options *options, const char *name);
double cli_real(const struct cli_options *options, const char *name);      /* also CLI_TIME, in seconds */
bool cli_flag(const struct cli_options *options, const char *name);
/** Elements of a CLI_LIST: their number; element `index` is copied to `out`. */
int cli_list_count(const struct cli_options *options, const char *name);
const char *cli_list_item(const struct cli_options *options, const char *name, int index, char *out, size_t bytes);
/** Whether the user set it, and where: "default", "job.yaml:3:7", "YOKE_BATCH", "command line". */
bool cli_is_set(const struct cli_options *options, const char *name);
const char *cli_origin(const struct cli_options *options, const char *name);


/* ---- shared by the files of options: options.c, config.c, help.c ---- */
/** By name, or by an old one that no option of the verb has now. */
const struct cli_option *cli_option_find(uint32_t verb, const char *name);
/** The same of keys and variables. */
const struct cli_option *cli_option_of_key(uint32_t verb, const char *name);
/** Whether `name` ("sizes", "-o") is among its old names. */
bool cli_option_was(const struct cli_option *option, const char *name);
/** Old names one after another, from index 0: false behind the last. */
bool cli_option_old(const struct cli_option *option, int index, char *out, size_t bytes);
/** The option of another verb with that name, for hints; NULL when there is none. */
const struct cli_option *cli_option_anywhere(const char *name);
/** Set one option; `origin` names the place in messages, `status` is what a wrong value is there. */
yoke_status cli_options_set(struct cli_options *options, const struct cli_option *option, const char *value,
                            const char *origin, yoke_status status);
yoke_status cli_options_new(uint32_t verb, struct cli_options **options_out);
uint32_t cli_options_verb(const struct cli_options *options);
/** Read a YAML file into `options`. */
yoke_status cli_config_read(const char *path, struct cli_options *options);
/** " (did you mean --batch?)" or "", in a static buffer of the caller's. */
const char *cli_hint(uint32_t verb, const char *name, const char *prefix, char *out, size_t bytes);
/** The variable of an option's name: "YOKE_LEARNING_RATE". */
void cli_variable_name(const char *name, char *out, size_t bytes);

#endif
