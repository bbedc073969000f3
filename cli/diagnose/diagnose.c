/* SPDX-License-Identifier: Apache-2.0 */
/* yoke diagnose: from the command line to the diagnosis of a run, of two runs, or of foreign timelines. */
#include "cli/diagnose/diagnose.h"

#include <string.h>

#include "core/base/base.h"

static yoke_status show(void *context, FILE *to)
{
    const struct diagnose_shown *shown = context;
    if (shown->json) return diagnose_json(shown, to);
    diagnose_text(shown, to);
    return YOKE_OK;
}

/* What is missing ends in an error, after the results were written. */
static yoke_status judge(const struct diagnose_shown *shown)
{
    const struct diagnose_run *run = shown->run->n_problems || !shown->before ? shown->run : shown->before;
    if (!run->n_problems) return YOKE_OK;
    return yoke_fail(YOKE_EDATA, "%s: %s%s", run->name, run->problems[0],
                     run->n_problems > 1 ? "; more is missing, as the results say" : "");
}

static yoke_status check_words(const struct cli_context *c, bool foreign)
{
    if (foreign && c->n_words < 1)
        return yoke_fail(YOKE_EINVAL, "yoke diagnose: --timeline needs files of timelines after it");
    if (!foreign && (c->n_words < 1 || c->n_words > 2))
        return yoke_fail(YOKE_EINVAL,
                         "yoke diagnose: give a run directory, and if you wish that of a run before it, "
                         "or --timeline and files");
    for (int i = 0; i < c->n_words; i++) {
        if (!yokei_is_there(c->words[i]))
            return yoke_fail(YOKE_EDATA, "%s: there is no such %s", c->words[i],
                             foreign ? "file" : "run directory");
        if (!foreign && !yokei_is_folder(c->words[i]))
            return yoke_fail(YOKE_EINVAL,
                             "yoke diagnose: %s is a file, and not a run directory; --timeline reads "
                             "files of other programs",
                             c->words[i]);
    }
    return YOKE_OK;
}

yoke_status cli_diagnose(const struct cli_context *c)
{
    const bool foreign = cli_flag(c->options, "timeline");
    const char *apply = cli_text(c->options, "apply");
    struct diagnose_run now = { .name = NULL }, before = { .name = NULL };
    struct diagnose_shown shown = { .run = &now,
                                    .markdown = !strcmp(cli_text(c->options, "format"), "md"),
                                    .json = cli_flag(c->options, "json") };
    YOKE_TRY(check_words(c, foreign));
    YOKE_TRY(cli_check_output(cli_text(c->options, "output"), (const char *const *)c->words, c->n_words));
    YOKE_TRY(cli_check_output(apply, (const char *const *)c->words, c->n_words));
    yoke_status status = foreign ? diagnose_foreign(c->words, c->n_words, &now)
                                 : diagnose_read(c->words[0], &now);
    if (!status && !foreign && c->n_words == 2) {
        status = diagnose_read(c->words[1], &before);
        shown.before = &before;
    }
    if (!status) status = cli_write_results(cli_text(c->options, "output"), show, &shown);
    if (!status && apply) status = diagnose_apply(&now, apply);
    if (!status) status = judge(&shown);
    diagnose_free(&now);
    if (shown.before) diagnose_free(&before);
    return status;
}
