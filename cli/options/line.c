/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of a verb, read once from left to right. An option is written in full. An abbreviation is
 * refused, because it would stop working when another option is added.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

static const struct cli_option *by_letter(cli_verbs verb, char letter)
{
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & verb) && o->letter && o->letter == letter) return o;
    return NULL;
}

/* Keep the first error. Reading goes on behind it, because a later word may ask for help. */
static void refuse_line(struct cli_line *line, yoke_status status)
{
    if (line->status) return;
    line->status = status;
    yokei_text(line->error, sizeof line->error, "%s", yoke_last_error());
}

/*
 * The option that `arg` names. *inside_out is the value that `arg` holds itself, as in --name=value and
 * -nvalue, or NULL. Returns NULL if there is no such option.
 */
static const struct cli_option *option_of(struct cli_line *line, const char *command, const char *arg,
                                          const char **inside_out)
{
    const struct cli_option *option;
    *inside_out = NULL;
    if (arg[1] == '-') {
        char name[128], hint[160];
        const char *equals = strchr(arg, '=');
        yokei_text(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
        option = name[0] != '-' ? cli_option_find(line->verb, name) : NULL;
        if (equals) *inside_out = equals + 1;
        if (!option)
            refuse_line(line, yoke_fail(YOKE_EINVAL, "%s: unknown option --%s%s; see %s --help", command,
                                        name, cli_hint(line->verb, name, "--", hint, sizeof hint),
                                        cli_verb_of(line->verb) ? command : "yoke"));
        return option;
    }
    option = by_letter(line->verb, arg[1]);
    if (arg[2]) *inside_out = arg + 2;
    if (option && !(option->type == CLI_FLAG && *inside_out)) return option;
    refuse_line(line, yoke_fail(YOKE_EINVAL, "%s: unknown option %s; see %s --help", command, arg, command));
    return NULL;
}

void cli_line_read(cli_verbs verb, int argc, char **argv, struct cli_line *line)
{
    /* the words belong to another verb */
    const bool stop_at_word = verb == CLI_RUN || verb == CLI_RANK || verb == CLI_LOOK;
    const struct cli_verb *about = cli_verb_of(verb);
    *line = (struct cli_line){ .verb = verb };
    line->given = calloc((size_t)argc + 1, sizeof *line->given);
    line->words = calloc((size_t)argc + 1, sizeof *line->words);
    if (!line->given || !line->words) {
        refuse_line(line, yoke_fail(YOKE_ENOMEM, "no memory for options"));
        return;
    }
    bool ended = false;
    for (int i = 1; i < argc; i++) {
        char *arg = argv[i];
        if (ended || arg[0] != '-' || !arg[1]) {
            line->words[line->n_words++] = arg;
            ended = ended || stop_at_word;
            continue;
        }
        if (!strcmp(arg, "--")) {
            ended = true;
            continue;
        }
        const char *value;
        const struct cli_option *option = option_of(line, argv[0], arg, &value);
        if (!option) continue;
        if (option->type == CLI_FLAG) {
            bool on = false; /* a word that is neither yes nor no is refused later */
            if (!value) value = "yes";
            cli_boolean(value, &on);
            if (on && !strcmp(option->name, "help") && !line->help) line->help = 'h';
            if (on && !strcmp(option->name, "help-all")) line->help = 'a';
        }
        if (!value && i + 1 < argc) value = argv[++i]; /* it may begin with a dash */
        if (!value)
            refuse_line(line, yoke_fail(YOKE_EINVAL, "%s: option %s needs a value; see %s --help", argv[0],
                                        arg, argv[0]));
        else
            line->given[line->n_given++] = (struct cli_given){ option, value };
    }
    if (line->n_words && about && !about->arguments)
        refuse_line(line,
                    yoke_fail(YOKE_EINVAL, "%s: what is '%s'? This verb takes options only; see %s --help",
                              argv[0], line->words[0], argv[0]));
}

void cli_line_free(struct cli_line *line)
{
    free(line->given);
    free(line->words);
    *line = (struct cli_line){ .n_given = 0 };
}
