/* SPDX-License-Identifier: Apache-2.0 */
/* yoke report: from the command line to the page that fits the paths. */
#include "cli/report/report.h"

#include <string.h>

#include "core/base/base.h"

static yoke_status report_to(void *context, FILE *to)
{
    const struct cli_context *c = context;
    struct report_page page = { .to = to, .markdown = !strcmp(cli_text(c->options, "format"), "md") };
    const char *const folders[2] = { c->words[0], c->n_words > 1 ? c->words[1] : NULL };
    if (!yokei_is_folder(c->words[0])) return report_of_kernels(&page, c->words, c->n_words);
    return c->n_words == 1 ? report_of_run(&page, folders[0]) : report_of_two_runs(&page, folders);
}

yoke_status cli_report(const struct cli_context *context)
{
    const int n = context->n_words;
    struct cli_context copy = *context;
    if (n != 1 && n != 2)
        return yoke_fail(YOKE_EINVAL,
                         "yoke report: give one or two run directories, or one or two files of yoke bench "
                         "kernels --json");
    for (int i = 0; i < n; i++)
        if (!yokei_is_there(context->words[i]))
            return yoke_fail(YOKE_EDATA, "%s: there is no such file or run directory", context->words[i]);
    if (n == 2 && yokei_is_folder(context->words[0]) != yokei_is_folder(context->words[1]))
        return yoke_fail(YOKE_EINVAL,
                         "yoke report: one of %s and %s is a folder, and the other is not; give two run "
                         "directories or two files",
                         context->words[0], context->words[1]);
    return cli_write_results(cli_text(context->options, "output"), report_to, &copy);
}
