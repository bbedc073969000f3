/* SPDX-License-Identifier: Apache-2.0 */
/* yoke report: from the command line to the page that fits the paths. */
#include "cli/report/report.h"

#include <string.h>

#include "core/base/base.h"

/* The paths of the command line, and what each of them is. */
struct request {
    char *const *paths;
    int n;
    enum report_kind kinds[REPORT_MOST_FILES];
    bool markdown;
};

static yoke_status report_to(void *context, FILE *to)
{
    const struct request *r = context;
    struct report_page page = { .to = to, .markdown = r->markdown };
    const char *const paths[2] = { r->paths[0], r->n > 1 ? r->paths[1] : NULL };
    if (r->kinds[0] == REPORT_RUN && r->n > 1 && r->kinds[1] == REPORT_RUN)
        return report_of_two_runs(&page, paths);
    switch (r->kinds[0]) {
    case REPORT_RUN: return report_of_run(&page, paths[0], paths[1]);
    case REPORT_PLAN: return report_of_plan(&page, paths[0]);
    case REPORT_CONFIG: return report_of_config(&page, paths[0]);
    case REPORT_TIMELINE: return report_of_timeline(&page, paths[0]);
    default: return report_of_devices(&page, r->paths, r->n);
    }
}

static yoke_status wrong_number(void)
{
    return yoke_fail(
        YOKE_EINVAL,
        "yoke report: give one or two run directories, a plan, a timeline, or files of yoke bench "
        "kernels, bench gemm, bench collectives, verify or compare, at most %d",
        REPORT_MOST_FILES);
}

/* Whether one page is made of a path of this kind and of one of that. */
static bool go_together(enum report_kind a, enum report_kind b)
{
    return a == REPORT_RUN && (b == REPORT_RUN || b == REPORT_TIMELINE);
}

/* Whether one page can be made of the paths. The page of several files of devices names a missing one. */
static yoke_status check(const struct request *r)
{
    int n_device_files = 0; /* files of devices may be mixed */
    for (int i = 0; i < r->n; i++) n_device_files += r->kinds[i] == REPORT_OTHER;
    const bool mixes_devices = r->n > 1 && n_device_files == r->n;
    if (r->n > 2 && !mixes_devices) return wrong_number();
    for (int i = 0; i < r->n && !mixes_devices; i++)
        if (!yokei_is_there(r->paths[i]))
            return yoke_fail(YOKE_EDATA, "%s: there is no such file or run directory", r->paths[i]);
    if (r->n == 2 && !mixes_devices && !go_together(r->kinds[0], r->kinds[1]))
        return yoke_fail(YOKE_EINVAL,
                         "yoke report: %s and %s are of different kinds; give two run directories, a run "
                         "directory and its timeline, or two files",
                         r->paths[0], r->paths[1]);
    return YOKE_OK;
}

yoke_status cli_report(const struct cli_context *context)
{
    struct request r = { .paths = context->words,
                         .n = context->n_words,
                         .markdown = !strcmp(cli_text(context->options, "format"), "md") };
    const char *path = cli_text(context->options, "output");
    if (r.n < 1 || r.n > REPORT_MOST_FILES) return wrong_number();
    for (int i = 0; i < r.n; i++) r.kinds[i] = report_kind_of(r.paths[i]);
    YOKE_TRY(check(&r));
    YOKE_TRY(cli_check_output(path, (const char *const *)r.paths, r.n));
    if (path || !cli_out_on_terminal()) cli_progress_begin("report on %s", r.paths[0]);
    const yoke_status status = cli_write_results(path, report_to, &r);
    cli_progress_end();
    return status;
}
