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
    case REPORT_CONFIG: return report_of_config(&page, paths[0]);
    case REPORT_TIMELINE: return report_of_timeline(&page, paths[0]);
    default: return report_of_devices(&page, c->words, c->n_words);
    }
}

/* How many of the paths are files of devices, which may be mixed. */
static int count_device_files(const struct cli_context *c)
{
    int n = 0;
    for (int i = 0; i < c->n_words; i++) n += report_kind_of(c->words[i]) == REPORT_OTHER;
    return n;
}

/* Whether one page is made of a path of this kind and of one of that. */
static bool go_together(enum report_kind a, enum report_kind b)
{
    return a == REPORT_RUN && (b == REPORT_RUN || b == REPORT_TIMELINE);
}

yoke_status cli_report(const struct cli_context *context)
{
    const int n = context->n_words, n_device_files = count_device_files(context);
    char *const *paths = context->words;
    struct cli_context copy = *context;
    if (n < 1 || n > REPORT_MOST_FILES || (n_device_files < n && n > 2))
        return yoke_fail(YOKE_EINVAL,
                         "yoke report: give one or two run directories, a plan, a timeline, or files of yoke "
                         "bench kernels, bench gemm, bench collectives, verify or compare, at most %d",
                         REPORT_MOST_FILES);
    /* The page of several files of devices names a missing one. */
    for (int i = 0; i < n && (n == 1 || n_device_files < n); i++)
        if (!yokei_is_there(paths[i]))
            return yoke_fail(YOKE_EDATA, "%s: there is no such file or run directory", paths[i]);
    if (n == 2 && n_device_files < n && !go_together(report_kind_of(paths[0]), report_kind_of(paths[1])))
        return yoke_fail(YOKE_EINVAL,
                         "yoke report: %s and %s are of different kinds; give two run directories, a run "
                         "directory and its timeline, or two files",
                         paths[0], paths[1]);
    const char *path = cli_text(context->options, "output");
    YOKE_TRY(cli_check_output(path, (const char *const *)paths, n));
    if (path || !cli_out_on_terminal()) cli_progress_begin("report on %s", paths[0]);
    const yoke_status status = cli_write_results(path, report_to, &copy);
    cli_progress_end();
    return status;
}
