/* SPDX-License-Identifier: Apache-2.0 */
/* --help: an example first, then the options. argp lays the options out from the option table. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

static const char *metavar(const struct cli_option *o)
{
    static const char *const by_type[] = {
        [CLI_INT] = "N",     [CLI_BYTES] = "BYTES", [CLI_REAL] = "X",      [CLI_TIME] = "TIME",
        [CLI_TEXT] = "TEXT", [CLI_CHOICE] = "WHAT", [CLI_LIST] = "A,B,..."
    };
    if (o->type == CLI_FLAG) return NULL;
    if (o->metavar) return o->metavar;
    return o->choices && o->type == CLI_CHOICE ? o->choices : by_type[o->type];
}

static char *option_help(const struct cli_option *o)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return NULL;
    fprintf(to, "%s", o->help);
    if (o->choices && o->type == CLI_LIST) fprintf(to, "; from %s", o->choices);
    if (o->value) fprintf(to, "; default %s", o->value);
    fclose(to);
    return text;
}

/* The headings in the order in which they are shown. Options without a heading come last. */
static const char *const groups[] = { CLI_DATA, CLI_MODEL, CLI_STEPS, CLI_LAYOUT, CLI_FILES, CLI_SEEN };

/* Verbs with fewer options need no headings, and all their options are shown. */
enum { MANY = 20 };

static int count_options(const struct cli_verb *verb)
{
    int n = 0;
    for (const struct cli_option *o = cli_option_table; o->name; o++) n += (o->verbs & verb->bit) != 0;
    return n;
}

static int group_of(const struct cli_option *o)
{
    for (int i = 0; o->group && i < (int)YOKE_COUNT(groups); i++)
        if (!strcmp(groups[i], o->group)) return i + 1;
    return (int)YOKE_COUNT(groups) + 1;
}

/* Returns how many options were left out. */
static int options_of(const struct cli_verb *verb, bool all, FILE *to)
{
    struct argp_option rows[160] = { 0 };
    char *texts[160];
    const bool grouped = count_options(verb) > MANY;
    int n = 0, n_left_out = 0;
    for (int g = 0; grouped && g <= (int)YOKE_COUNT(groups); g++) {
        texts[n] = NULL;
        rows[n++] = (struct argp_option){
            NULL, 0, NULL, 0, g < (int)YOKE_COUNT(groups) ? groups[g] : "General", g + 1
        };
    }
    for (const struct cli_option *o = cli_option_table; o->name && n + 1 < (int)YOKE_COUNT(rows); o++) {
        if (!(o->verbs & verb->bit) || (!grouped && !strcmp(o->name, "help-all"))) continue;
        if (grouped && o->rare && !all) {
            n_left_out++;
            continue;
        }
        texts[n] = option_help(o);
        rows[n] = (struct argp_option){ o->name, o->letter ? o->letter : 256 + n, metavar(o),
                                        0,       texts[n] ? texts[n] : o->help,   grouped ? group_of(o) : 0 };
        n++;
    }
    struct argp parser = { rows, NULL, NULL, NULL, NULL, NULL, NULL };
    argp_help(&parser, to, ARGP_HELP_LONG, NULL);
    for (int i = 0; i < n; i++) free(texts[i]);
    return n_left_out;
}

/* Print paragraphs of a text, broken at blanks before column 80. */
static void paragraphs(const char *text, FILE *to)
{
    int column = 0;
    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " \n");
        if (column && column + 1 + (int)length > 79)
            column = (fputc('\n', to), 0);
        else if (column)
            column += (fputc(' ', to), 1);
        fwrite(word, 1, length, to);
        column += (int)length;
        word += length;
        if (*word == '\n') column = (fputc('\n', to), 0);
        if (*word) word++;
    }
    fputc('\n', to);
}

static void indented(const char *text, FILE *to)
{
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        fprintf(to, "  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

void cli_help(const struct cli_verb *verb, bool all, FILE *to)
{
    fprintf(to, "%s.\n\nExample:\n", verb->summary);
    indented(verb->example, to);
    fprintf(to, "\nUsage: yoke %s [OPTION...]%s%s\n\n", verb->name, verb->arguments ? " " : "",
            verb->arguments ? verb->arguments : "");
    const int n_left_out = options_of(verb, all, to);
    fputc('\n', to);
    if (n_left_out) {
        fprintf(to, "%d more options, and explanations: yoke %s --help-all\n", n_left_out, verb->name);
        return;
    }
    paragraphs(verb->description, to);
    fprintf(to, "\nEvery option is also a key of the file given by --config and, in capitals after YOKE_\n"
                "with _ for -, a variable. An option wins over a variable, a variable over the file.\n");
}

bool cli_help_group(const char *first, FILE *to)
{
    const size_t n = strlen(first);
    bool any = false;
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        if (strncmp(v->name, first, n) || v->name[n] != ' ') continue;
        if (!any)
            fprintf(to, "Usage: yoke %s VERB [OPTION...]      yoke %s VERB --help\n\nVerbs:\n", first, first);
        any = true;
        fprintf(to, "  yoke %-18s %s\n", v->name, v->summary);
    }
    return any;
}

void cli_help_all(FILE *to)
{
    fprintf(to,
            "Yoke trains a transformer on unlike devices together, and measures and proves its kernels.\n\n"
            "Example:\n"
            "  yoke info                                                   # which devices are there\n"
            "  yoke run -n 2 --devices host,opencl:0 -- train --text FILE  # train on two of them\n\n"
            "Usage: yoke VERB [OPTION...]      yoke VERB --help      yoke --version\n\nVerbs:\n");
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (!(v->bit & CLI_HIDDEN)) fprintf(to, "  %-18s %s\n", v->name, v->summary);
    fprintf(
        to,
        "\nExit codes: 0 ok, 1 internal, 2 usage, 10 configuration, 11 data, 12 device, 13 memory or disk,\n"
        "14 ranks do not match, 15 timeout, 16 rank died, 17 numerical failure, 18 slower than allowed,\n"
        "75 stopped on request with a checkpoint.\n");
}
