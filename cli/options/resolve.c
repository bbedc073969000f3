/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolved values of one verb: default < file < variable < option (the right one wins). Each value is
 * checked where it comes in.
 */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

#define MAX_OPTIONS 256

struct value {
    char *text;
    char *origin;
};

struct cli_options {
    uint32_t verb;
    struct value values[MAX_OPTIONS]; /* by row of the option table */
};

static size_t row(const struct cli_option *option) { return (size_t)(option - cli_option_table); }

uint32_t cli_options_verb(const struct cli_options *options) { return options->verb; }

/* ---- numbers with units ---- */

/* The multiplier of a unit. 0: the type has no such unit. */
static double unit_of(enum cli_type type, const char *unit)
{
    static const struct {
        enum cli_type type;
        const char *name;
        double factor;
    } units[] = {
        { CLI_INT, "", 1 },
        { CLI_INT, "k", 1e3 },
        { CLI_INT, "M", 1e6 },
        { CLI_INT, "G", 1e9 },
        { CLI_REAL, "", 1 },
        { CLI_BYTES, "", 1 },
        { CLI_BYTES, "B", 1 },
        { CLI_BYTES, "K", 1 << 10 },
        { CLI_BYTES, "M", 1 << 20 },
        { CLI_BYTES, "G", 1 << 30 },
        { CLI_BYTES, "KiB", 1 << 10 },
        { CLI_BYTES, "MiB", 1 << 20 },
        { CLI_BYTES, "GiB", 1 << 30 },
        { CLI_TIME, "", 1 },
        { CLI_TIME, "s", 1 },
        { CLI_TIME, "ms", 1e-3 },
        { CLI_TIME, "m", 60 },
        { CLI_TIME, "min", 60 },
        { CLI_TIME, "h", 3600 },
        { CLI_TIME, "d", 86400 },
    };
    for (size_t i = 0; i < YOKE_COUNT(units); i++)
        if (units[i].type == type && !strcmp(units[i].name, unit)) return units[i].factor;
    return 0;
}

/* Read a number from `text`. False: it is not a number of that type. */
static bool number_of(enum cli_type type, const char *text, double *out)
{
    char *end;
    /* strtod also accepts inf, nan and leading blanks */
    if (!isdigit((unsigned char)text[0]) && !strchr("+-.", text[0])) return false;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) return false;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || errno) return false;
    double factor = unit_of(type, end);
    if (factor == 0) return false;
    x *= factor;
    if ((type == CLI_INT || type == CLI_BYTES) && (x != (double)(int64_t)x || x > 9.007e15 || x < -9.007e15))
        return false;
    *out = x;
    return true;
}

static bool boolean_of(const char *text, bool *out)
{
    static const char *const yes[] = { "yes", "true", "on", "1" }, *const no[] = { "no", "false", "off",
                                                                                   "0" };
    for (size_t i = 0; i < 4; i++) {
        if (!strcasecmp(text, yes[i])) return *out = true, true;
        if (!strcasecmp(text, no[i])) return *out = false, true;
    }
    return false;
}

static bool is_choice(const char *choices, const char *word, size_t length)
{
    for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (strcspn(c, "|") == length && !strncmp(c, word, length)) return true;
    return false;
}

/* Write "; did you mean …?" with a choice from "a|b|c". */
static void choice_hint(const char *choices, const char *word, char *out, size_t bytes)
{
    char copy[512], *save = NULL;
    const char *names[64];
    size_t n = 0;
    yokei_text(copy, sizeof copy, "%s", choices);
    for (char *c = strtok_r(copy, "|", &save); c && n + 1 < YOKE_COUNT(names); c = strtok_r(NULL, "|", &save))
        names[n++] = c;
    names[n] = NULL;
    const char *nearest = yokei_nearest(word, names);
    if (nearest)
        yokei_text(out, bytes, "; did you mean %s?", nearest);
    else
        out[0] = 0;
}

static yoke_status check_number(const struct cli_option *option, const char *text, const char *origin,
                                yoke_status status)
{
    static const char *const what[] = { [CLI_INT] = "a whole number, such as 16 or 2k",
                                        [CLI_BYTES] = "a number of bytes, such as 64K or 16M",
                                        [CLI_REAL] = "a number, such as 1e-3",
                                        [CLI_TIME] = "a time, such as 200s, 5m or 50ms" };
    double x;
    if (!number_of(option->type, text, &x))
        return yoke_fail(status, "%s: '%s' is not a value for %s; write %s", origin, text, option->name,
                         what[option->type]);
    if ((option->least != 0 || option->most != 0) && !(x >= option->least && x <= option->most))
        return yoke_fail(status, "%s: %s is out of range for %s; write %.15g to %.15g", origin, text,
                         option->name, option->least, option->most);
    return YOKE_OK;
}

static yoke_status check_words(const struct cli_option *option, const char *text, const char *origin,
                               yoke_status status)
{
    const char *separators = option->type == CLI_LIST ? "," : "";
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, separators);
        if (!length)
            return yoke_fail(status, "%s: '%s' has an empty element; %s is a list, such as a,b", origin, text,
                             option->name);
        if (option->choices && !is_choice(option->choices, word, length)) {
            char single[128], hint[160];
            yokei_text(single, sizeof single, "%.*s", (int)length, word);
            choice_hint(option->choices, single, hint, sizeof hint);
            return yoke_fail(status, "%s: '%s' is not a value for %s; choose from %s%s", origin, single,
                             option->name, option->choices, hint);
        }
        word += length;
        if (!*word) return YOKE_OK;
    }
}

static yoke_status check(const struct cli_option *option, const char *text, const char *origin,
                         yoke_status status)
{
    bool flag;
    switch (option->type) {
    case CLI_FLAG:
        if (boolean_of(text, &flag)) return YOKE_OK;
        return yoke_fail(status, "%s: '%s' is not a value for %s; write yes or no", origin, text,
                         option->name);
    case CLI_INT:
    case CLI_BYTES:
    case CLI_REAL:
    case CLI_TIME: return check_number(option, text, origin, status);
    case CLI_CHOICE:
    case CLI_LIST: return check_words(option, text, origin, status);
    case CLI_TEXT:
        if (*text) return YOKE_OK;
        return yoke_fail(status, "%s: %s is empty; give it a value or leave it out", origin, option->name);
    }
    return yoke_fail(YOKE_EINTERNAL, "option %s has no type", option->name);
}

/* ---- words of earlier versions ---- */

static const struct {
    const char *old, *now;
} old_choices[] = { { "fp32", "f32" }, { "fp16", "f16" } };

/*
 * The value with today's names of types, if the option's choices have them. The caller frees it with free().
 */
static char *in_todays_words(const struct cli_option *option, const char *value)
{
    char *text = NULL;
    size_t bytes = 0;
    const char *separators = option->type == CLI_LIST ? "," : "";
    if (!option->choices || (option->type != CLI_LIST && option->type != CLI_CHOICE)) return strdup(value);
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return NULL;
    for (const char *word = value;; word++) {
        const size_t length = strcspn(word, separators);
        const char *now = NULL;
        for (size_t i = 0; i < YOKE_COUNT(old_choices); i++)
            if (strlen(old_choices[i].old) == length && !strncmp(word, old_choices[i].old, length)
                && !is_choice(option->choices, word, length)
                && is_choice(option->choices, old_choices[i].now, strlen(old_choices[i].now)))
                now = old_choices[i].now;
        if (now)
            fputs(now, to);
        else
            fwrite(word, 1, length, to);
        word += length;
        if (!*word) break;
        fputc(*word, to);
    }
    return fclose(to) ? NULL : text;
}

/* ---- the set ---- */

yoke_status cli_options_set(struct cli_options *options, const struct cli_option *option, const char *value,
                            const char *origin, yoke_status status)
{
    const struct cli_option *older = option->old_choice_of
                                         ? cli_option_find(options->verb, option->old_choice_of)
                                         : NULL;
    if (older && is_choice(older->choices, value, strlen(value))) option = older;
    char *text = in_todays_words(option, value), *where = strdup(origin);
    yoke_status wrong = text && where ? check(option, text, origin, status)
                                      : yoke_fail(YOKE_ENOMEM, "no memory for options");
    if (wrong) {
        free(text);
        free(where);
        return wrong;
    }
    struct value *v = &options->values[row(option)];
    free(v->text);
    free(v->origin);
    v->text = text;
    v->origin = where;
    return YOKE_OK;
}

yoke_status cli_options_new(uint32_t verb, struct cli_options **options_out)
{
    struct cli_options *options = calloc(1, sizeof *options);
    if (!options) return yoke_fail(YOKE_ENOMEM, "no memory for options");
    options->verb = verb;
    yoke_status status = YOKE_OK;
    for (const struct cli_option *o = cli_option_table; o->name && !status; o++) {
        if (row(o) >= MAX_OPTIONS)
            status = yoke_fail(YOKE_EINTERNAL, "the option table has more than %d rows", MAX_OPTIONS);
        else if ((o->verbs & verb) && o->value)
            status = cli_options_set(options, o, o->value, "default", YOKE_EINTERNAL);
    }
    if (status) {
        cli_options_free(options);
        return status;
    }
    *options_out = options;
    return YOKE_OK;
}

void cli_options_free(struct cli_options *options)
{
    if (!options) return;
    for (size_t i = 0; i < MAX_OPTIONS; i++) {
        free(options->values[i].text);
        free(options->values[i].origin);
    }
    free(options);
}

/* ---- the command line ---- */

struct given {
    struct {
        const struct cli_option *option;
        const char *text;
    } values[MAX_OPTIONS];
    int n_values;
    char **words;
    int n_words;
    bool stop_at_word; /* yoke run … VERB …: words behind the first word belong to VERB */
};

static error_t take(int key, char *arg, struct argp_state *state)
{
    struct given *given = state->input;
    if (key == ARGP_KEY_ARG) {
        given->words[given->n_words++] = arg;
        if (given->stop_at_word) {
            while (state->next < state->argc) given->words[given->n_words++] = state->argv[state->next++];
        }
        return 0;
    }
    if (key > 0 && key < 0x1000000) {
        for (const struct cli_option *o = cli_option_table; o->name; o++) {
            if (key != 256 + (int)row(o)) continue;
            if (given->n_values == MAX_OPTIONS) return E2BIG;
            given->values[given->n_values].option = o;
            given->values[given->n_values++].text = arg ? arg : "yes";
            return 0;
        }
    }
    return ARGP_ERR_UNKNOWN;
}

static const struct cli_option *by_letter(uint32_t verb, char letter)
{
    const char old[3] = { '-', letter, 0 };
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & verb) && o->letter && o->letter == letter) return o;
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & verb) && cli_option_was(o, old)) return o;
    return NULL;
}

/*
 * Look for unknown options before argp does. argp cannot name the nearest option. It also accepts
 * abbreviations, which stop working when an option is added.
 */
static yoke_status look_for_unknown(uint32_t verb, int argc, char **argv, bool stop_at_word)
{
    char hint[160];
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (!strcmp(arg, "--")) return YOKE_OK;
        if (arg[0] != '-' || !arg[1]) {
            if (stop_at_word) return YOKE_OK;
            continue;
        }
        const struct cli_option *option;
        bool value_inside;
        char name[128];
        if (arg[1] == '-') {
            yokei_text(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
            option = cli_option_find(verb, name);
            value_inside = strchr(arg, '=') != NULL;
            if (!option) {
                const struct cli_verb *v = cli_verb_of(verb);
                return yoke_fail(YOKE_EINVAL, "%s: unknown option --%s%s; see %s --help", argv[0], name,
                                 cli_hint(verb, name, "--", hint, sizeof hint), v ? argv[0] : "yoke");
            }
        } else {
            yokei_text(name, sizeof name, "%c", arg[1]);
            option = by_letter(verb, arg[1]);
            value_inside = arg[2] != 0;
            if (!option || (option->type == CLI_FLAG && value_inside))
                return yoke_fail(YOKE_EINVAL, "%s: unknown option %s; see %s --help", argv[0], arg, argv[0]);
        }
        if (option->type == CLI_FLAG || value_inside) continue;
        if (++i == argc)
            return yoke_fail(YOKE_EINVAL, "%s: option %s needs a value; see %s --help", argv[0], arg,
                             argv[0]);
    }
    return YOKE_OK;
}

static yoke_status parse_line(uint32_t verb, int argc, char **argv, struct given *given)
{
    /* One row per option, one more per old name, and the row that ends the table. */
    struct argp_option rows[2 * MAX_OPTIONS + 1] = { 0 };
    static _Thread_local char old[MAX_OPTIONS][64];
    int n = 0, n_old = 0;
    YOKE_TRY(look_for_unknown(verb, argc, argv, given->stop_at_word));
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        if (!(o->verbs & verb)) continue;
        const char *arg = o->type == CLI_FLAG ? "yes|no" : "VALUE";
        int flags = o->type == CLI_FLAG ? OPTION_ARG_OPTIONAL : 0;
        rows[n++] = (struct argp_option){ o->name, 256 + (int)row(o), arg, flags, NULL, 0 };
        for (int i = 0; n_old < MAX_OPTIONS && cli_option_old(o, i, old[n_old], sizeof old[n_old]); i++)
            if (cli_option_find(verb, old[n_old]) == o
                && old[n_old][0] != '-') /* no other option has that name now */
                rows[n++] = (struct argp_option){ old[n_old++], 256 + (int)row(o), arg, flags, NULL, 0 };
    }
    /*
     * argp uses the key itself as the short option. So letters are replaced by long names before argp sees
     * them.
     */
    char **line = calloc((size_t)argc + 1, sizeof *line), *spelt = NULL;
    size_t used = 0, room = 1;
    for (int i = 0; i < argc; i++) room += strlen(argv[i]) + 64;
    spelt = malloc(room);
    if (!line || !spelt) {
        free(line);
        free(spelt);
        return yoke_fail(YOKE_ENOMEM, "no memory for options");
    }
    yoke_status status = YOKE_OK;
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        line[i] = argv[i];
        if (i == 0 || ended) continue;
        const struct cli_option *o = NULL;
        if (!strcmp(argv[i], "--"))
            ended = true;
        else if (argv[i][0] == '-' && argv[i][1] == '-')
            o = cli_option_find(verb, argv[i] + 2);
        else if (argv[i][0] == '-' && argv[i][1]) {
            o = by_letter(verb, argv[i][1]);
            line[i] = spelt + used;
            used += (size_t)snprintf(spelt + used, room - used, "--%s%s%s", o->name, argv[i][2] ? "=" : "",
                                     argv[i] + 2)
                    + 1;
            if (argv[i][2]) o = NULL;
        } else if (given->stop_at_word)
            ended = true;
        if (o && o->type != CLI_FLAG) {
            i++; /* the option's value, which may begin with a dash */
            line[i] = argv[i];
        }
    }
    struct argp parser = { rows, take, NULL, NULL, NULL, NULL, NULL };
    int error = argp_parse(&parser, argc, line, ARGP_NO_EXIT | ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_IN_ORDER,
                           NULL, given);
    if (error)
        status = yoke_fail(YOKE_EINVAL, "%s: the command line cannot be read: %s", argv[0], strerror(error));
    /* Values point into argv or into `spelt`. cli_options_set copies them before `spelt` is freed. */
    given->words[given->n_words] = NULL;
    for (int i = 0; i < given->n_values && !status; i++) {
        given->values[i].text = strdup(given->values[i].text);
        if (!given->values[i].text) status = yoke_fail(YOKE_ENOMEM, "no memory for options");
    }
    if (status) given->n_values = 0;
    free(line);
    free(spelt);
    return status;
}

static yoke_status apply_variable(struct cli_options *options, const struct cli_option *option,
                                  const char *name)
{
    char variable[96];
    cli_variable_name(name, variable, sizeof variable);
    const char *text = getenv(variable);
    return text && *text ? cli_options_set(options, option, text, variable, YOKE_EINVAL) : YOKE_OK;
}

static yoke_status apply_variables(struct cli_options *options)
{
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        if (!(o->verbs & options->verb) || o->no_key || o->verbs == CLI_LIBRARY) continue;
        char old[64];
        for (int i = 0; cli_option_old(o, i, old, sizeof old); i++)
            if (cli_option_of_key(options->verb, old) == o) YOKE_TRY(apply_variable(options, o, old));
        YOKE_TRY(apply_variable(options, o, o->name));
    }
    return YOKE_OK;
}

static yoke_status apply(struct cli_options *options, const struct given *given)
{
    const char *file = getenv("YOKE_CONFIG");
    for (int i = 0; i < given->n_values; i++)
        if (!strcmp(given->values[i].option->name, "config")) file = given->values[i].text;
    if (file && *file && cli_option_find(options->verb, "config")) YOKE_TRY(cli_config_read(file, options));
    YOKE_TRY(apply_variables(options));
    for (int i = 0; i < given->n_values; i++) {
        char origin[160];
        yokei_text(origin, sizeof origin, "option --%s", given->values[i].option->name);
        YOKE_TRY(
            cli_options_set(options, given->values[i].option, given->values[i].text, origin, YOKE_EINVAL));
    }
    return YOKE_OK;
}

yoke_status cli_options_resolve(uint32_t verb, int argc, char **argv, struct cli_options **options_out,
                                int *n_words_out, char ***words_out)
{
    struct given *given = calloc(1, sizeof *given);
    struct cli_options *options = NULL;
    yoke_status status = YOKE_OK;
    if (given) given->words = calloc((size_t)argc + 1, sizeof *given->words);
    if (!given || !given->words) {
        free(given);
        return yoke_fail(YOKE_ENOMEM, "no memory for options");
    }
    given->stop_at_word = verb == CLI_RUN || verb == CLI_RANK;
    YOKE_TRY_GOTO(parse_line(verb, argc, argv, given), out);
    const struct cli_verb *about = cli_verb_of(verb);
    if (given->n_words && about && !about->arguments) {
        status = yoke_fail(YOKE_EINVAL, "%s: what is '%s'? This verb takes options only; see %s --help",
                           argv[0], given->words[0], argv[0]);
        goto out;
    }
    YOKE_TRY_GOTO(cli_options_new(verb, &options), out);
    YOKE_TRY_GOTO(apply(options, given), out);
    *options_out = options;
    *n_words_out = given->n_words;
    *words_out = given->words;
    given->words = NULL;
    options = NULL;
out:
    cli_options_free(options);
    for (int i = 0; i < given->n_values; i++) free((char *)given->values[i].text);
    free(given->words);
    free(given);
    return status;
}

/* ---- to and from bytes ---- */

yoke_status cli_options_pack(const struct cli_options *options, void **data_out, size_t *bytes_out)
{
    char *data = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&data, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "no memory for options");
    fprintf(to, "%u%c", options->verb, 0);
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        const struct value *v = &options->values[row(o)];
        if (v->text) fprintf(to, "%s%c%s%c%s%c", o->name, 0, v->text, 0, v->origin, 0);
    }
    if (fclose(to)) return yoke_fail(YOKE_ENOMEM, "no memory for options");
    *data_out = data;
    *bytes_out = bytes;
    return YOKE_OK;
}

yoke_status cli_options_unpack(const void *data, size_t bytes, struct cli_options **options_out)
{
    const char *p = data, *end = p + bytes;
    if (!bytes || end[-1]) return yoke_fail(YOKE_EINTERNAL, "the options that rank 0 sent are cut off");
    uint32_t verb = (uint32_t)strtoul(p, NULL, 10);
    struct cli_options *options;
    YOKE_TRY(cli_options_new(verb, &options));
    for (p += strlen(p) + 1; p < end;) {
        const char *name = p, *text = name + strlen(name) + 1;
        const char *origin = text < end ? text + strlen(text) + 1 : end;
        const struct cli_option *option = cli_option_find(verb, name);
        yoke_status status = YOKE_OK;
        if (!option || origin >= end)
            status = yoke_fail(YOKE_EMISMATCH,
                               "rank 0 sent option %s, which this rank's yoke does not have; "
                               "install one version everywhere",
                               name);
        if (!status) status = cli_options_set(options, option, text, origin, YOKE_EMISMATCH);
        if (status) {
            cli_options_free(options);
            return status;
        }
        p = origin + strlen(origin) + 1;
    }
    *options_out = options;
    return YOKE_OK;
}

/* ---- values ---- */

static const struct value *value_of(const struct cli_options *options, const char *name,
                                    const struct cli_option **option_out)
{
    static const struct value none;
    const struct cli_option *option = cli_option_find(options->verb, name);
    if (!option) {
        fprintf(stderr, "yoke: internal error: this verb has no option %s\n", name);
        abort();
    }
    if (option_out) *option_out = option;
    const struct value *v = &options->values[row(option)];
    return v->text ? v : &none;
}

const char *cli_text(const struct cli_options *options, const char *name)
{
    return value_of(options, name, NULL)->text;
}

double cli_real(const struct cli_options *options, const char *name)
{
    const struct cli_option *option;
    const char *text = value_of(options, name, &option)->text;
    double x = 0;
    if (text) number_of(option->type, text, &x);
    return x;
}

int64_t cli_int(const struct cli_options *options, const char *name)
{
    return (int64_t)cli_real(options, name);
}
uint64_t cli_bytes(const struct cli_options *options, const char *name)
{
    return (uint64_t)cli_real(options, name);
}

bool cli_flag(const struct cli_options *options, const char *name)
{
    const char *text = cli_text(options, name);
    bool on = false;
    if (text) boolean_of(text, &on);
    return on;
}

int cli_list_count(const struct cli_options *options, const char *name)
{
    const char *text = cli_text(options, name);
    int n = text != NULL;
    for (; text && *text; text++) n += *text == ',';
    return n;
}

const char *cli_list_item(const struct cli_options *options, const char *name, int index, char *out,
                          size_t bytes)
{
    const char *text = cli_text(options, name);
    for (; text && index > 0; index--) text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL;
    yokei_text(out, bytes, "%.*s", text ? (int)strcspn(text, ",") : 0, text ? text : "");
    return out;
}

const char *cli_origin(const struct cli_options *options, const char *name)
{
    const struct value *v = value_of(options, name, NULL);
    return v->text ? v->origin : "not set";
}

bool cli_is_set(const struct cli_options *options, const char *name)
{
    const struct value *v = value_of(options, name, NULL);
    return v->text && strcmp(v->origin, "default");
}
