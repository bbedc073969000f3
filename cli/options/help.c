/* SPDX-License-Identifier: Apache-2.0 */
/* --help: examples first, then the options, and with --help-all the text of the manual page. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options/manual_text.h"
#include "core/base/base.h"

/* Columns at which options and their texts begin. A terminal that is wider than WIDEST is not used in full.
 */
enum { LETTER_AT = 2, NAME_AT = 6, TEXT_AT = 26, NARROWEST = 50, WIDEST = 120 };

/* ---- wrapping ---- */

struct page {
    FILE *to;
    int width;     /* no line is longer, unless it is one word or stands in a text as it is */
    int column;    /* where the next character goes */
    int n_options; /* that have been printed */
};

static void line_end(struct page *page)
{
    fputc('\n', page->to);
    page->column = 0;
}

static void blanks_to(struct page *page, int column)
{
    if (column > page->column) fprintf(page->to, "%*s", column - page->column, "");
    page->column = YOKE_MAX(page->column, column);
}

/* The length of the next word. A word that no line can hold is cut behind a comma or a bar. */
static int word_length(const char *word, int room)
{
    const int length = (int)strcspn(word, " ");
    if (length <= room) return length;
    for (int cut = room; cut > 0; cut--)
        if (word[cut - 1] == ',' || word[cut - 1] == '|') return cut;
    return length;
}

/* Print the words of a text, and begin each further line at column `indent`. Ends the line. */
static void flow(struct page *page, int indent, const char *text)
{
    int gap = 0; /* blanks before the next word */
    for (const char *word = text + strspn(text, " "); *word;) {
        const int length = word_length(word, page->width - indent);
        if (page->column > indent && page->column + gap + length > page->width) {
            line_end(page);
            gap = 0;
        }
        blanks_to(page, YOKE_MAX(indent, page->column + gap));
        page->column += fprintf(page->to, "%.*s", length, word);
        word += length;
        gap = (int)strspn(word, " ") > 0;
        word += strspn(word, " ");
    }
    line_end(page);
}

static void as_it_stands(struct page *page, const char *text)
{
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        fprintf(page->to, "  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* ---- options ---- */

static void print_option(struct page *page, const struct cli_option *o)
{
    char text[2048];
    if (o->letter) {
        blanks_to(page, LETTER_AT);
        page->column += fprintf(page->to, "-%c,", o->letter);
    }
    blanks_to(page, NAME_AT);
    page->column += fprintf(page->to, "--%s", o->name);
    if (o->type != CLI_FLAG) page->column += fprintf(page->to, "=%s", cli_option_metavar(o));
    if (page->column + 2 > TEXT_AT) line_end(page);
    const bool list = o->choices && o->type == CLI_LIST;
    yokei_text(text, sizeof text, "%s.%s%s%s%s%s%s%s", o->help, list ? " Choose from " : "",
               list ? o->choices : "", list ? "." : "", o->value ? " Default: " : "",
               o->value ? o->value : "", o->value ? "." : "",
               cli_only_on_line(o) ? " Only on the command line." : "");
    flow(page, TEXT_AT, text);
    page->n_options++;
}

/* The headings in the order in which they are shown. Options without a heading come last. */
static const char *const groups[] = { CLI_DATA,  CLI_MODEL, CLI_STEPS, CLI_LAYOUT,
                                      CLI_FILES, CLI_SEEN,  "General" };

static bool is_rare(const struct cli_option *o, const struct cli_verb *verb)
{
    return o->rare || o->rare_in & verb->bit;
}

/*
 * Whether --help leaves out rare options, and shows the others under headings. Verbs with fewer options than
 * MANY need neither.
 */
static bool is_long(const struct cli_verb *verb)
{
    enum { MANY = 20 };
    int n = 0, n_rare = 0;
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        if (!(o->verbs & verb->bit)) continue;
        n++;
        n_rare += is_rare(o, verb);
    }
    return n > MANY && n_rare > 0;
}

static const char *group_of(const struct cli_option *o)
{
    return o->group ? o->group : groups[YOKE_COUNT(groups) - 1];
}

static bool is_in_group(const struct cli_option *o, const struct cli_verb *verb, const char *group)
{
    return o->verbs & verb->bit && !strcmp(group_of(o), group);
}

/* Print a heading and its options, if there are any to print. Returns how many are left out. */
static int options_of(struct page *page, const struct cli_verb *verb, const char *group, bool all)
{
    int n_left_out = 0, n_printed = 0;
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        if (!is_in_group(o, verb, group)) continue;
        if (is_rare(o, verb) && !all) {
            n_left_out++;
            continue;
        }
        if (!n_printed++) fprintf(page->to, "%s %s:\n", page->n_options ? "\n" : "", group);
        print_option(page, o);
    }
    return n_left_out;
}

/* Print the options of a verb. Returns how many are left out. */
static int all_options(struct page *page, const struct cli_verb *verb, bool all)
{
    int n_left_out = 0;
    if (is_long(verb)) {
        for (size_t i = 0; i < YOKE_COUNT(groups); i++) n_left_out += options_of(page, verb, groups[i], all);
        return n_left_out;
    }
    for (const struct cli_option *o = cli_option_table; o->name; o++) /* --help shows all of them */
        if (o->verbs & verb->bit && strcmp(o->name, "help-all") != 0) print_option(page, o);
    return 0;
}

/* ---- the text of the manual ---- */

/* Print the blocks up to the heading `until`, or to the end. `at` is moved there. */
static void blocks(struct page *page, const char **at, const char *until)
{
    struct cli_block block;
    enum cli_block_kind last = CLI_HEADING;
    for (const char *next = *at; cli_block_next(&next, &block); *at = next, last = block.kind) {
        if (block.kind == CLI_HEADING && until && !strcmp(block.text, until)) return;
        if (last != CLI_HEADING && !(last == CLI_ITEM && block.kind == CLI_ITEM)) line_end(page);
        if (block.kind == CLI_AS_IT_STANDS)
            as_it_stands(page, block.text);
        else if (block.kind == CLI_ITEM)
            flow(page, 2, (page->column = fprintf(page->to, "-"), block.text));
        else
            flow(page, 0, block.text);
    }
}

void cli_help(const struct cli_verb *verb, bool all, FILE *to)
{
    struct page page = { .to = to, .width = YOKE_MAX(NARROWEST, YOKE_MIN(WIDEST, cli_out_columns())) - 1 };
    const char *at = cli_manual_text_of(verb->name);
    struct cli_block heading;
    if (!cli_block_next(&at, &heading)) heading.text[0] = 0;
    fprintf(to, "%s.\n\nExample:\n", verb->summary);
    blocks(&page, &at, "DESCRIPTION");
    fprintf(to, "\nUsage: yoke %s [OPTION...]%s%s\n\n", verb->name, verb->arguments ? " " : "",
            verb->arguments ? verb->arguments : "");
    const int n_left_out = all_options(&page, verb, all);
    line_end(&page);
    if (n_left_out) {
        fprintf(to, "%d more options, and explanations: yoke %s --help-all\n", n_left_out, verb->name);
        return;
    }
    blocks(&page, &at, NULL);
    line_end(&page);
    flow(&page, 0, cli_about_options);
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
        fprintf(to, "  %-18s %s\n", v->name, v->summary);
    }
    return any;
}

void cli_help_all(FILE *to)
{
    fprintf(to, "Yoke trains a transformer on devices of different vendors together, and measures\n"
                "and verifies their kernels.\n\n"
                "Example:\n"
                "  yoke info                                                   # list the devices\n"
                "  yoke run -n 2 --devices host,opencl:0 -- train --text FILE  # train on two\n\n"
                "Usage: yoke VERB [OPTION...]      yoke VERB --help      yoke --version\n\nVerbs:\n");
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (!(v->bit & CLI_HIDDEN)) fprintf(to, "  %-18s %s\n", v->name, v->summary);
    fprintf(to, "\nExit codes:\n");
    for (int i = 0; cli_exit_codes[i].text; i++)
        fprintf(to, "  %2d  %s\n", cli_exit_codes[i].code, cli_exit_codes[i].text);
}
