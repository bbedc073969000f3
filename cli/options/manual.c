/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Man pages and shell completion, written from the tables of verbs and options. manual_build.c writes them
 * while Yoke is built. The command can write them too.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options/manual_text.h"
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
        roff(cli_option_metavar(o));
        fputs("\\fR", stdout);
    }
    putchar('\n');
    roff(o->help);
    fputs(".\n", stdout);
    if (o->choices && o->type == CLI_LIST) printf("Choose from %s.\n", o->choices);
    if (o->value) {
        fputs("Default: ", stdout);
        roff(o->value);
        fputs(".\n", stdout);
    }
    if (o->least != 0 || o->most != 0) printf("Allowed: %.15g to %.15g.\n", o->least, o->most);
    if (cli_only_on_line(o)) fputs("Only on the command line.\n", stdout);
}

static void example(const char *text)
{
    fputs(".nf\n.RS\n", stdout);
    roff(text);
    fputs("\n.RE\n.fi\n", stdout);
}

static void block_entry(const struct cli_block *block)
{
    static const char *const before[] = {
        [CLI_HEADING] = ".SH ", [CLI_PARAGRAPH] = ".PP\n", [CLI_ITEM] = ".IP \\(bu 2\n"
    };
    if (block->kind == CLI_AS_IT_STANDS) {
        example(block->text);
        return;
    }
    fputs(before[block->kind], stdout);
    roff(block->text);
    putchar('\n');
}

static void manual_blocks(const char *name)
{
    const char *at = cli_manual_text_of(name);
    for (struct cli_block block; cli_block_next(&at, &block);) block_entry(&block);
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
    putchar('\n');
    manual_blocks(verb->name);
    fputs(".SH OPTIONS\n", stdout);
    roff(cli_about_options);
    putchar('\n');
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if (o->verbs & verb->bit) option_entry(o);
    fputs(".SH SEE ALSO\n.BR yoke (1)\n", stdout);
}

static void page_of_yoke(void)
{
    title("yoke");
    fputs(".SH NAME\nyoke \\- train a transformer on devices of different vendors together\n"
          ".SH SYNOPSIS\n\\fByoke\\fR \\fIVERB\\fR [\\fIOPTION\\fR...]\n.SH VERBS\n",
          stdout);
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        if (v->bit & CLI_HIDDEN) continue;
        printf(".TP\n\\fB%s\\fR\n", v->name);
        roff(v->summary);
        fputs(".\n", stdout);
    }
    manual_blocks("yoke");
    fputs(".SH EXIT STATUS\n", stdout);
    for (int i = 0; cli_exit_codes[i].text; i++)
        printf(".TP\n%d\n%s\n", cli_exit_codes[i].code, cli_exit_codes[i].text);
    fputs(
        ".SH ENVIRONMENT\nEach option has a variable (see CONFIGURATION). Yoke also reads these variables:\n",
        stdout);
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

static void completion_words(cli_verbs verb)
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
