/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a verb, to stdout or into a file. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "core/base/base.h"

yoke_status cli_write_results(const char *path, yoke_status (*put)(void *context, FILE *to), void *context)
{
    char *text = NULL, error[4096];
    size_t bytes = 0;
    if (!path) return put(context, stdout);
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "%s: no memory for the results", path);
    const yoke_status status = put(context, to);
    yokei_text(error, sizeof error, "%s", status ? yoke_last_error() : "");
    yoke_status written = YOKE_OK;
    if (fclose(to))
        written = yoke_fail(YOKE_ENOMEM, "%s: no memory for the results", path);
    else if (!status || bytes)
        written = yokei_file_write(path, text, bytes);
    free(text);
    return status ? yoke_fail(status, "%s", error) : written;
}

/* The files of a run have these suffixes. */
static bool is_of_runs(const char *name)
{
    static const char *const suffixes[] = { ".json", ".jsonl", ".bin" };
    const char *suffix = strrchr(name, '.');
    for (size_t i = 0; i < YOKE_COUNT(suffixes) && suffix; i++)
        if (!strcmp(suffix, suffixes[i])) return true;
    return false;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

yoke_status cli_check_output(const char *path, const char *const inputs[], int n_inputs)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    struct stat output, folder, input;
    if (!path) return YOKE_OK;
    const bool is_there = !stat(path, &output);
    char *name = slash ? strndup(path, (size_t)YOKE_MAX(slash - path, 1)) : strdup(".");
    if (!name) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its folder", path);
    const bool has_folder = !stat(name, &folder);
    free(name);
    for (int i = 0; i < n_inputs; i++) {
        if (stat(inputs[i], &input)) continue;
        if (is_there && is_same(&output, &input) && !S_ISDIR(input.st_mode))
            return yoke_fail(YOKE_EINVAL,
                             "-o %s: this file is also read, and would be lost; name another one", path);
        if (has_folder && is_same(&folder, &input) && is_of_runs(path))
            return yoke_fail(YOKE_EINVAL,
                             "-o %s: this may be a file of the run itself; name another one, such as %s.html",
                             path, path);
    }
    return YOKE_OK;
}
