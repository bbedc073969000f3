/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke compile: fill a folder with the compiled programs of GPUs that this machine need not have. Nodes
 * without a compiler then run from this folder.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/sides.h"
#include "cli/cli.h"
#include "core/base/base.h"

static void show_family(const struct yokei_ahead *ahead, const char *family)
{
    cli_progress_now("%s", family);
    cli_progress_at(ahead->n_compiled + ahead->n_there, ahead->n_programs);
}

/** Read "12.4" as 12040. */
static yoke_status parse_driver(const char *text, int *version_out)
{
    int major, minor = 0, used = 0;
    *version_out = 0;
    if (!text) return YOKE_OK;
    const bool good = sscanf(text, "%3d.%2d%n", &major, &minor, &used) == 2 && !text[used] && major >= 11
                      && minor >= 0 && minor < 10;
    if (!good)
        return yoke_fail(
            YOKE_EINVAL,
            "--driver %s: give the CUDA version that nvidia-smi prints, such as 12.4, and at least 11.0",
            text);
    *version_out = 1000 * major + 10 * minor;
    return YOKE_OK;
}

static yoke_status compile_for(struct yokei_ahead *ahead)
{
    const uint64_t start = yokei_now_ns();
    cli_progress_begin("compile %s", ahead->spec);
    const yoke_status status = yokei_ahead_compile(ahead);
    cli_progress_end();
    if (status) return status;
    if (!ahead->n_programs)
        return yoke_fail(YOKE_EINVAL,
                         "yoke compile: no program of --op has only types of --dtype; add f32 to --dtype, or "
                         "leave one of the two out");
    printf("%s: %d programs, %.1f MiB: %d compiled by %s in %.0f s, %d were there\n", ahead->spec,
           ahead->n_programs, (double)ahead->bytes / 1048576, ahead->n_compiled, ahead->compiler,
           1e-9 * (double)(yokei_now_ns() - start), ahead->n_there);
    return YOKE_OK;
}

/** Before minutes of compilation for some kinds, find a kind for which nothing can be compiled. */
static yoke_status check_kinds(const struct cli_options *options, const char *folder, int driver_version)
{
    char spec[64];
    for (int i = 0; i < cli_list_count(options, "device"); i++) {
        struct yokei_ahead none = { .spec = cli_list_item(options, "device", i, spec, sizeof spec),
                                    .folder = folder,
                                    .driver_version = driver_version };
        YOKE_TRY(yokei_ahead_compile(&none));
    }
    return YOKE_OK;
}

yoke_status cli_compile(const struct cli_context *context)
{
    const struct cli_options *options = context->options;
    const char *folder = cli_text(options, "output");
    struct kernels_selection selection;
    char spec[64], path[PATH_MAX];
    int version;
    if (!cli_list_count(options, "device"))
        return yoke_fail(YOKE_EINVAL, "yoke compile: name the GPUs by --device, such as --device cuda:sm_90");
    if (!folder) return yoke_fail(YOKE_EINVAL, "yoke compile: name the folder for the programs by -o FOLDER");
    YOKE_TRY(kernels_select(options, &selection));
    YOKE_TRY(parse_driver(cli_text(options, "driver"), &version));
    YOKE_TRY(check_kinds(options, folder, version));
    for (int i = 0; i < cli_list_count(options, "device"); i++) {
        struct yokei_ahead ahead = { .spec = cli_list_item(options, "device", i, spec, sizeof spec),
                                     .folder = folder,
                                     .driver_version = version,
                                     .progress = show_family };
        for (int op = 0; op < YOKE_N_OPS; op++) ahead.op[op] = selection.op[op];
        for (int dtype = 0; dtype < YOKE_N_DTYPES; dtype++) ahead.dtype[dtype] = selection.dtype[dtype];
        YOKE_TRY(compile_for(&ahead));
    }
    cli_note("YOKE_CACHE_DIR=\"$HOME/.cache/yoke:%s\" lets a machine with such a GPU use these programs",
             realpath(folder, path) ? path : folder);
    return YOKE_OK;
}
