/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Man pages and shell completion, written from the tables of verbs and options. manual_build.c writes them
 * while Yoke is built. The command can write them too.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

/*
 * Write text for roff. Backslashes, dashes that must stay dashes, and a dot or quote at the start of a line
 * are escaped.
 */
static void roff(const char *text)
{
    bool start = true;
    for (const char *c = text; *c; c++) {
        if (start && (*c == '.' || *c == '\'')) fputs("\\&", stdout);
        if (*c == '\\')
            fputs("\\e", stdout);
        else if (*c == '-')
            fputs("\\-", stdout);
        else
            putchar(*c);
        start = *c == '\n';
    }
}

static void title(const char *name)
{
    printf(".\\\" Written by yoke from its option table.\n.TH \"");
    for (const char *c = name; *c; c++) putchar(*c == ' ' ? '-' : toupper((unsigned char)*c));
    printf("\" 1 \"\" \"yoke %s\" \"Yoke\"\n", yoke_version());
}

static void option_entry(const struct cli_option *o)
{
    printf(".TP\n\\fB");
    if (o->letter) printf("\\-%c\\fR, \\fB", o->letter);
    roff("--");
    roff(o->name);
    fputs("\\fR", stdout);
    if (o->type != CLI_FLAG) {
        fputs("=\\fI", stdout);
        roff(o->metavar ? o->metavar : o->choices && o->type == CLI_CHOICE ? o->choices : "VALUE");
        fputs("\\fR", stdout);
    }
    putchar('\n');
    roff(o->help);
    fputs(".\n", stdout);
    if (o->choices && o->type == CLI_LIST) printf("Each is one of %s.\n", o->choices);
    if (o->value) {
        fputs("Default: ", stdout);
        roff(o->value);
        fputs(".\n", stdout);
    }
    if (o->least != 0 || o->most != 0) printf("From %.15g to %.15g.\n", o->least, o->most);
}

static void example(const char *text)
{
    fputs(".nf\n.RS\n", stdout);
    roff(text);
    fputs("\n.RE\n.fi\n", stdout);
}

static void page_of_verb(const struct cli_verb *verb)
{
    char name[64];
    yokei_text(name, sizeof name, "yoke-%s", verb->name);
    for (char *c = name; *c; c++)
        if (*c == ' ') *c = '-';
    title(name);
    fputs(".SH NAME\n", stdout);
    roff(name);
    fputs(" \\- ", stdout);
    roff(verb->summary);
    fputs("\n.SH SYNOPSIS\n\\fByoke ", stdout);
    roff(verb->name);
    fputs("\\fR [\\fIOPTION\\fR...]", stdout);
    if (verb->arguments) {
        putchar(' ');
        roff(verb->arguments);
    }
    fputs("\n.SH EXAMPLES\n", stdout);
    example(verb->example);
    fputs(".SH DESCRIPTION\n", stdout);
    for (const char *p = verb->description; *p;) {
        const char *gap = strstr(p, "\n\n");
        char text[4096];
        yokei_text(text, sizeof text, "%.*s", gap ? (int)(gap - p) : (int)strlen(p), p);
        fputs(".PP\n", stdout);
        roff(text);
        putchar('\n');
        p = gap ? gap + 2 : p + strlen(p);
    }
    fputs(
        ".SH OPTIONS\nEach is also a key of the file given by \\fB\\-\\-config\\fR and a variable: YOKE_ and the name in capitals, "
        "with _ for \\-. An option wins over a variable, a variable over the file.\n",
        stdout);
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if (o->verbs & verb->bit) option_entry(o);
    fputs(".SH SEE ALSO\n.BR yoke (1)\n", stdout);
}

static void page_of_yoke(void)
{
    title("yoke");
    fputs(".SH NAME\nyoke \\- train a transformer on unlike devices together; measure and prove kernels\n"
          ".SH SYNOPSIS\n\\fByoke\\fR \\fIVERB\\fR [\\fIOPTION\\fR...]\n.SH VERBS\n",
          stdout);
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        if (v->bit & CLI_HIDDEN) continue;
        printf(".TP\n\\fB%s\\fR\n", v->name);
        roff(v->summary);
        fputs(".\n", stdout);
    }
    fputs(
        ".SH CONFIGURATION FILE\nA YAML mapping of option names to values, given by \\fB\\-\\-config\\fR:\n",
        stdout);
    example("run:                    # for yoke run alone\n  devices: [host, 'opencl:0']\nseed: 7");
    fputs(
        "A key that is a verb's name holds options of that verb alone. Unknown keys are errors that name the line, the column "
        "and the nearest key.\n.SH EXIT STATUS\n",
        stdout);
    static const struct {
        int code;
        const char *text;
    } codes[] = {
        { 0, "success" },
        { 1, "internal error" },
        { 2, "usage" },
        { 10, "configuration or plan" },
        { 11, "data or checkpoint" },
        { 12, "no usable device" },
        { 13, "memory or disk" },
        { 14, "ranks called different collectives" },
        { 15, "timeout, or a rank hung" },
        { 16, "a rank died" },
        { 17, "numerical failure" },
        { 18, "slower than the baseline allows" },
        { 75, "stopped on request, checkpoint saved" },
    };
    for (size_t i = 0; i < YOKE_COUNT(codes); i++) printf(".TP\n%d\n%s\n", codes[i].code, codes[i].text);
    fputs(".SH ENVIRONMENT\nBesides one variable per option:\n", stdout);
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        char name[96];
        if (o->verbs != CLI_LIBRARY) continue;
        cli_variable_name(o->name, name, sizeof name);
        printf(".TP\n\\fB%s\\fR\n", name);
        roff(o->help);
        fputs(".\n", stdout);
    }
    fputs(".SH SEE ALSO\n", stdout);
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        if (v->bit & CLI_HIDDEN) continue;
        fputs(".BR yoke\\-", stdout);
        for (const char *c = v->name; *c; c++) fputs(*c == ' ' ? "\\-" : (char[2]){ *c, 0 }, stdout);
        fputs(" (1)\n", stdout);
    }
}

static void completion_words(uint32_t verb)
{
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if (o->verbs & verb) printf(" --%s%s", o->name, o->type == CLI_FLAG ? "" : "=");
}

/* Whether a verb is the first one in the table that begins with its first word. */
static bool is_first_of_its_word(const struct cli_verb *verb)
{
    const size_t n = strcspn(verb->name, " ");
    for (const struct cli_verb *v = cli_verb_table; v != verb; v++)
        if (strcspn(v->name, " ") == n && !strncmp(v->name, verb->name, n)) return false;
    return true;
}

static void completion_second_words(const struct cli_verb *first)
{
    const int n = (int)strcspn(first->name, " ");
    printf("    %.*s) words='", n, first->name);
    for (const struct cli_verb *v = first; v->name; v++)
        if (!strncmp(v->name, first->name, (size_t)n + 1)) printf(" %s", v->name + n + 1);
    fputs("';;\n", stdout);
}

static void completion(void)
{
    fputs("# Bash completion for yoke, written by yoke from its option table.\n_yoke()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} verb=\"${COMP_WORDS[1]}\" words=\n    case $verb in",
          stdout);
    const char *between = " ";
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        if (!strchr(v->name, ' ') || !is_first_of_its_word(v)) continue;
        printf("%s%.*s", between, (int)strcspn(v->name, " "), v->name);
        between = " | ";
    }
    fputs(") [ $COMP_CWORD -gt 2 ] && verb=\"$verb ${COMP_WORDS[2]}\" ;; esac\n"
          "    if [ $COMP_CWORD -eq 1 ]; then words='--help --version",
          stdout);
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (!(v->bit & CLI_HIDDEN) && is_first_of_its_word(v))
            printf(" %.*s", (int)strcspn(v->name, " "), v->name);
    fputs("'\n    else case $verb in\n", stdout);
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (strchr(v->name, ' ') && is_first_of_its_word(v)) completion_second_words(v);
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        if (v->bit & CLI_HIDDEN) continue;
        printf("    '%s') words='", v->name);
        completion_words(v->bit);
        fputs("';;\n", stdout);
    }
    fputs("    esac; fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n}\ncomplete -o default -F _yoke yoke\n",
          stdout);
}

bool cli_manual_page(const char *name)
{
    if (!name) {
        page_of_yoke();
        return true;
    }
    if (!strcmp(name, "completion")) {
        completion();
        return true;
    }
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        char dashed[64];
        yokei_text(dashed, sizeof dashed, "%s", v->name);
        for (char *c = dashed; *c; c++)
            if (*c == ' ') *c = '-';
        if (strcmp(dashed, name)) continue;
        page_of_verb(v);
        return true;
    }
    return false;
}
