/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the values of one verb come from: default < file < variable < option (the right one wins).
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

static yoke_status apply_variables(struct cli_options *options)
{
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        char variable[96];
        if (!(o->verbs & cli_options_verb(options)) || o->no_key || o->verbs == CLI_LIBRARY) continue;
        cli_variable_name(o->name, variable, sizeof variable);
        const char *text = getenv(variable);
        if (text && *text) YOKE_TRY(cli_options_set(options, o, text, variable, YOKE_EINVAL));
    }
    return YOKE_OK;
}

static yoke_status apply(struct cli_options *options, const struct cli_line *line)
{
    const char *file = getenv("YOKE_CONFIG");
    for (int i = 0; i < line->n_given; i++)
        if (!strcmp(line->given[i].option->name, "config")) file = line->given[i].value;
    if (file && *file && cli_option_find(cli_options_verb(options), "config"))
        YOKE_TRY(cli_config_read(file, options));
    YOKE_TRY(apply_variables(options));
    for (int i = 0; i < line->n_given; i++) {
        char origin[160];
        yokei_text(origin, sizeof origin, "option --%s", line->given[i].option->name);
        YOKE_TRY(cli_options_set(options, line->given[i].option, line->given[i].value, origin, YOKE_EINVAL));
    }
    return YOKE_OK;
}

/* --json is short for --format json. So another format beside it contradicts it. */
static yoke_status check_format(const struct cli_options *options)
{
    if (!cli_option_find(cli_options_verb(options), "json")
        || !cli_option_find(cli_options_verb(options), "format") || !cli_flag(options, "json")
        || !cli_is_set(options, "format") || !strcmp(cli_text(options, "format"), "json"))
        return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "--json and --format %s are both given (%s, %s): leave one of them out",
                     cli_text(options, "format"), cli_origin(options, "json"), cli_origin(options, "format"));
}

yoke_status cli_options_of_line(const struct cli_line *line, struct cli_options **options_out)
{
    struct cli_options *options;
    if (line->status) return yoke_fail(line->status, "%s", line->error);
    YOKE_TRY(cli_options_new(line->verb, &options));
    yoke_status status = apply(options, line);
    if (!status) status = check_format(options);
    if (status)
        cli_options_free(options);
    else
        *options_out = options;
    return status;
}

yoke_status cli_options_resolve(cli_verbs verb, int argc, char **argv, struct cli_options **options_out,
                                int *n_words_out, char ***words_out)
{
    struct cli_line line;
    cli_line_read(verb, argc, argv, &line);
    const yoke_status status = cli_options_of_line(&line, options_out);
    if (!status) {
        *n_words_out = line.n_words;
        *words_out = line.words;
        line.words = NULL;
    }
    cli_line_free(&line);
    return status;
}
