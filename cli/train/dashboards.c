/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/dashboards.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"

/* The path of a file that need not exist, without links and dots. False: its folder does not exist. */
static bool find_place(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX];
    if (realpath(path, out)) return true;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    yokei_text(folder, sizeof folder, "%.*s", slash ? (int)YOKE_MAX(slash - path, 1) : 1, slash ? path : ".");
    char *real = realpath(folder, NULL);
    if (real) yokei_text(out, PATH_MAX, "%s/%s", strcmp(real, "/") != 0 ? real : "", name);
    free(real);
    return real != NULL;
}

/* Two names of one file. A file may have several names also without links that can be followed. */
static bool is_same(const char *a, const char *b)
{
    char places[2][PATH_MAX];
    struct stat is[2];
    if (!stat(a, &is[0]) && !stat(b, &is[1]))
        return is[0].st_dev == is[1].st_dev && is[0].st_ino == is[1].st_ino;
    return find_place(a, places[0]) && find_place(b, places[1]) && !strcmp(places[0], places[1]);
}

/* Refuse a path that is also the path of another option. */
static yoke_status check_others(const struct cli_options *o, const char *option)
{
    static const char *const others[] = { "config", "text",        "tokens",      "tokenizer", "init",
                                          "plan",   "trace",       "dump-grads",  "save",      "export",
                                          "resume", "tensorboard", "metrics-file" };
    const char *path = cli_text(o, option);
    for (size_t i = 0; i < YOKE_COUNT(others); i++) {
        const char *other = strcmp(others[i], option) != 0 ? cli_text(o, others[i]) : NULL;
        if (other && is_same(path, other))
            return yoke_fail(YOKE_EINVAL, "--%s %s is also --%s: give a path of its own", option, path,
                             others[i]);
    }
    return YOKE_OK;
}

static yoke_status check_folder(const struct cli_options *o, const char *folder)
{
    struct stat is;
    YOKE_TRY(check_others(o, "tensorboard"));
    if (!stat(folder, &is) && !S_ISDIR(is.st_mode))
        return yoke_fail(YOKE_EINVAL, "--tensorboard %s: is %s; give a folder, which may be new", folder,
                         yokei_file_kind(is.st_mode));
    const yoke_status status = yokei_make_folder(folder);
    if (status) return yoke_fail_context(status, "--tensorboard");
    if (!faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS)) return YOKE_OK;
    return yoke_fail(YOKE_EIO, "--tensorboard %s: no files can be written there: %s", folder,
                     strerror(errno));
}

static yoke_status check_file(const struct cli_options *o, const char *file, const char *run_dir)
{
    static const char *const names[] = { "metrics.jsonl", "plan.json", "run.json" };
    struct stat is;
    struct yokei_output *output;
    char path[PATH_MAX];
    YOKE_TRY(check_others(o, "metrics-file"));
    for (size_t i = 0; i < YOKE_COUNT(names); i++) {
        yokei_text(path, sizeof path, "%s/%s", run_dir, names[i]);
        if (is_same(file, path))
            return yoke_fail(YOKE_EINVAL, "--metrics-file %s is the run's own %s: give a path of its own",
                             file, names[i]);
    }
    if (!stat(file, &is) && !S_ISREG(is.st_mode))
        return yoke_fail(YOKE_EINVAL,
                         "--metrics-file %s: is %s; give a file, because it is replaced again and again",
                         file, yokei_file_kind(is.st_mode));
    const yoke_status status = yokei_output_open(file, &output);
    if (status) return yoke_fail_context(status, "--metrics-file");
    yokei_output_abandon(output);
    return YOKE_OK;
}

yoke_status cli_check_dashboards(const struct cli_options *o, const char *run_dir)
{
    const char *folder = cli_text(o, "tensorboard"), *file = cli_text(o, "metrics-file");
    if (folder) YOKE_TRY(check_folder(o, folder));
    return file ? check_file(o, file, run_dir) : YOKE_OK;
}
