/* SPDX-License-Identifier: Apache-2.0 */
/* yoke compare: from the command line to one of the two kinds of comparison. */
#include "cli/compare/compare.h"

#include <string.h>

#include "core/base/base.h"

/* The request, and which of the two comparisons it asks for. */
struct asked {
    struct compare_request request;
    bool runs;
};

static yoke_status compare_to(void *context, FILE *to)
{
    const struct asked *asked = context;
    return (asked->runs ? compare_runs : compare_kernels)(&asked->request, to);
}

/* An option of one kind of comparison has no meaning for the other kind. */
static yoke_status check_options(const struct cli_options *o, bool runs)
{
    static const char *const of_kernels[] = { "bits", "by", NULL }, *const of_runs[] = { "loss-gate", NULL };
    for (const char *const *name = runs ? of_kernels : of_runs; *name; name++)
        if (cli_is_set(o, *name))
            return yoke_fail(YOKE_EINVAL, "yoke compare: --%s is for %s; leave it out", *name,
                             runs ? "files of yoke bench kernels, and these are run directories"
                                  : "run directories, and these are files");
    return YOKE_OK;
}

yoke_status cli_compare(const struct cli_context *context)
{
    const struct cli_options *o = context->options;
    char bits[2][1024];
    if (context->n_words != 2)
        return yoke_fail(YOKE_EINVAL,
                         "yoke compare: give two files of yoke bench kernels --json, or two run directories, "
                         "first the old one");
    const bool folder[2] = { yokei_is_folder(context->words[0]), yokei_is_folder(context->words[1]) };
    if (folder[0] != folder[1] && !yokei_is_there(context->words[folder[0]]))
        return yoke_fail(YOKE_EDATA, "%s: there is no such run directory", context->words[folder[0]]);
    if (folder[0] != folder[1])
        return yoke_fail(YOKE_EINVAL,
                         "yoke compare: %s is a folder, and %s is not; give two files or two run directories",
                         context->words[folder[1]], context->words[folder[0]]);
    YOKE_TRY(check_options(o, folder[0]));
    struct asked asked = { .request = { .paths = { context->words[0], context->words[1] },
                                        .threshold = cli_real(o, "threshold"),
                                        .by_share = !strcmp(cli_text(o, "by"), "share"),
                                        .loss_gate = cli_real(o, "loss-gate"),
                                        .json = cli_flag(o, "json") },
                           .runs = folder[0] };
    const int n_bits = cli_list_count(o, "bits");
    if (n_bits != 0 && n_bits != 2)
        return yoke_fail(YOKE_EINVAL,
                         "yoke compare: --bits needs two files, OLD and NEW, with a comma between them");
    for (int i = 0; i < n_bits; i++)
        asked.request.bits[i] = cli_list_item(o, "bits", i, bits[i], sizeof bits[i]);
    const char *path = cli_text(o, "output");
    YOKE_TRY(cli_check_output(path, asked.request.paths, 2));
    YOKE_TRY(cli_check_output(path, asked.request.bits, n_bits));
    if (path || !cli_out_on_terminal()) cli_progress_begin("compare %s", context->words[0]);
    const yoke_status status = cli_write_results(path, compare_to, &asked);
    cli_progress_end();
    return status;
}
