/* SPDX-License-Identifier: Apache-2.0 */
/* yoke report: from the command line to the page that fits the paths. */
#include "cli/report/report.h"

#include <string.h>

#include "core/base/base.h"

static yoke_status report_to(void *context, FILE *to)
{
    const struct cli_context *c = context;
    struct report_page page = { .to = to, .markdown = !strcmp(cli_text(c->options, "format"), "md") };
    const char *const paths[2] = { c->words[0], c->n_words > 1 ? c->words[1] : NULL };
    const enum report_kind kind = report_kind_of(paths[0]);
    if (kind == REPORT_RUN && paths[1] && report_kind_of(paths[1]) == REPORT_RUN)
        return report_of_two_runs(&page, paths);
    switch (kind) {
    case REPORT_RUN: return report_of_run(&page, paths[0], paths[1]);
    case REPORT_PLAN: return report_of_plan(&page, paths[0]);
    case REPORT_TIMELINE: return report_of_timeline(&page, paths[0]);
    default: return report_of_kernels(&page, c->words, c->n_words);
    }
}

/* Whether a page is made of these two paths. */
static bool go_together(const char *first, const char *second)
{
    const enum report_kind a = report_kind_of(first), b = report_kind_of(second);
    if (a == REPORT_RUN) return b == REPORT_RUN || b == REPORT_TIMELINE;
    return a == REPORT_OTHER && b == REPORT_OTHER;
}

yoke_status cli_report(const struct cli_context *context)
{
    const int n = context->n_words;
    struct cli_context copy = *context;
    if (n != 1 && n != 2)
        return yoke_fail(YOKE_EINVAL,
                         "yoke report: give one or two run directories, a plan, a timeline, or one or two "
                         "files of yoke bench kernels --json");
    for (int i = 0; i < n; i++)
        if (!yokei_is_there(context->words[i]))
            return yoke_fail(YOKE_EDATA, "%s: there is no such file or run directory", context->words[i]);
    if (n == 2 && !go_together(context->words[0], context->words[1]))
        return yoke_fail(YOKE_EINVAL,
                         "yoke report: %s and %s are of different kinds; give two run directories, a run "
                         "directory and its timeline, or two files",
                         context->words[0], context->words[1]);
    return cli_write_results(cli_text(context->options, "output"), report_to, &copy);
}
