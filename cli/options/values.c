/* SPDX-License-Identifier: Apache-2.0 */
/* The values of the options of one verb. Each value is checked where it comes in. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

#define MAX_OPTIONS 320

struct value {
    char *text;
    char *origin;
};

struct cli_options {
    cli_verbs verb;
    struct value values[MAX_OPTIONS]; /* by row of the option table */
};

static size_t row(const struct cli_option *option) { return (size_t)(option - cli_option_table); }

cli_verbs cli_options_verb(const struct cli_options *options) { return options->verb; }

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
static bool number_in_text(enum cli_type type, const char *text, double *out)
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

bool cli_boolean(const char *text, bool *out)
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
    if (!number_in_text(option->type, text, &x))
        return yoke_fail(status, "%s: '%s' is not a value for %s; write %s", origin, text, option->name,
                         what[option->type]);
    if ((option->least != 0 || option->most != 0) && !(x >= option->least && x <= option->most))
        return yoke_fail(status, "%s: %s is out of range for %s; write %.15g to %.15g", origin, text,
                         option->name, option->least, option->most);
    return YOKE_OK;
}

/* Copy the first number of "256..1024,2048". Returns the text behind it and its separator; NULL: no more. */
static const char *first_number(const char *text, char *out, size_t bytes)
{
    const char *range = strstr(text, ".."), *comma = strchr(text, ',');
    const char *end = range && (!comma || range < comma) ? range : comma;
    yokei_text(out, bytes, "%.*s", end ? (int)(end - text) : (int)strlen(text), text);
    return end ? end + (end == comma ? 1 : 2) : NULL;
}

static yoke_status check_numbers(const struct cli_option *option, const char *text, const char *origin,
                                 yoke_status status)
{
    char number[64];
    bool is_end = false; /* the number ends a range */
    for (const char *next = text; next;) {
        next = first_number(next, number, sizeof number);
        YOKE_TRY(check_number(option, number, origin, status));
        if (is_end && next && next[-1] == '.')
            return yoke_fail(status, "%s: '%s' has a range with more than two ends; write A..B, or A..B,C",
                             origin, text);
        is_end = next && next[-1] == '.';
    }
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

static yoke_status check_value(const struct cli_option *option, const char *text, const char *origin,
                               yoke_status status)
{
    bool flag;
    switch (option->type) {
    case CLI_FLAG:
        if (cli_boolean(text, &flag)) return YOKE_OK;
        return yoke_fail(status, "%s: '%s' is not a value for %s; write yes or no", origin, text,
                         option->name);
    case CLI_INT:
    case CLI_BYTES:
    case CLI_REAL:
    case CLI_TIME:
        return option->ranges ? check_numbers(option, text, origin, status)
                              : check_number(option, text, origin, status);
    case CLI_CHOICE:
    case CLI_LIST: return check_words(option, text, origin, status);
    case CLI_TEXT:
        if (*text) return YOKE_OK;
        return yoke_fail(status, "%s: %s is empty; give it a value or leave it out", origin, option->name);
    }
    return yoke_fail(YOKE_EINTERNAL, "option %s has no type", option->name);
}

/* ---- the set ---- */

yoke_status cli_options_set(struct cli_options *options, const struct cli_option *option, const char *value,
                            const char *origin, yoke_status status)
{
    char *text = strdup(value), *where = strdup(origin);
    yoke_status wrong = text && where ? check_value(option, text, origin, status)
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

yoke_status cli_options_new(cli_verbs verb, struct cli_options **options_out)
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

/* ---- to and from bytes ---- */

yoke_status cli_options_pack(const struct cli_options *options, void **data_out, size_t *bytes_out)
{
    char *data = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&data, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "no memory for options");
    fprintf(to, "%llu%c", (unsigned long long)options->verb, 0);
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
    const cli_verbs verb = strtoull(p, NULL, 10);
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

static const struct value *value_of_option(const struct cli_options *options, const char *name,
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
    return value_of_option(options, name, NULL)->text;
}

double cli_real(const struct cli_options *options, const char *name)
{
    const struct cli_option *option;
    const char *text = value_of_option(options, name, &option)->text;
    char first[64];
    double x = 0;
    if (text && option->ranges) {
        first_number(text, first, sizeof first);
        text = first;
    }
    if (text) number_in_text(option->type, text, &x);
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
    if (text) cli_boolean(text, &on);
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

bool cli_next_numbers(const struct cli_options *options, const char *name, const char **at, int64_t *low_out,
                      int64_t *high_out)
{
    const struct cli_option *option;
    const char *text = value_of_option(options, name, &option)->text, *from = *at ? *at : text;
    char number[64];
    double low = 0, high = 0;
    if (!from || !*from) return false;
    const char *next = first_number(from, number, sizeof number);
    number_in_text(option->type, number, &low);
    high = low;
    if (next && next[-1] == '.') {
        next = first_number(next, number, sizeof number);
        number_in_text(option->type, number, &high);
    }
    *low_out = (int64_t)low, *high_out = (int64_t)high;
    *at = next ? next : text + strlen(text);
    return true;
}

const char *cli_origin(const struct cli_options *options, const char *name)
{
    const struct value *v = value_of_option(options, name, NULL);
    return v->text ? v->origin : "not set";
}

bool cli_is_set(const struct cli_options *options, const char *name)
{
    const struct value *v = value_of_option(options, name, NULL);
    return v->text && strcmp(v->origin, "default");
}
