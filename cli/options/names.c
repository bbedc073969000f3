/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of options: the search for an option by its name, or by a name that is nearly right. Also what
 * the help texts call an option's value.
 */
#include <ctype.h>
#include <string.h>

#include "cli/options/options.h"
#include "core/base/base.h"

const struct cli_option *cli_option_find(cli_verbs verb, const char *name)
{
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & verb) && !strcmp(o->name, name)) return o;
    return NULL;
}

const char *cli_option_metavar(const struct cli_option *option)
{
    static const char *const by_type[] = {
        [CLI_INT] = "N",     [CLI_BYTES] = "BYTES", [CLI_REAL] = "X",      [CLI_TIME] = "TIME",
        [CLI_TEXT] = "TEXT", [CLI_CHOICE] = "WHAT", [CLI_LIST] = "A,B,..."
    };
    if (option->metavar) return option->metavar;
    return option->choices && option->type == CLI_CHOICE ? option->choices : by_type[option->type];
}

bool cli_only_on_line(const struct cli_option *option)
{
    return option->no_key && strcmp(option->name, "help") != 0 && strcmp(option->name, "help-all") != 0;
}

const struct cli_option *cli_option_anywhere(const char *name) { return cli_option_find(CLI_EVERY, name); }

void cli_variable_name(const char *name, char *out, size_t bytes)
{
    yokei_text(out, bytes, "YOKE_%s", name);
    for (char *c = out; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

const char *cli_hint(cli_verbs verb, const char *name, const char *prefix, char *out, size_t bytes)
{
    const char *names[256];
    size_t n = 0;
    for (const struct cli_option *o = cli_option_table; o->name && n + 1 < YOKE_COUNT(names); o++)
        if (o->verbs & verb) names[n++] = o->name;
    names[n] = NULL;
    const char *nearest = yokei_nearest(name, names);
    if (nearest)
        yokei_text(out, bytes, " (did you mean %s%s?)", prefix, nearest);
    else
        out[0] = 0;
    return out;
}
