/* SPDX-License-Identifier: Apache-2.0 */
/** Vendors' libraries in the folders where they may be, the newest version that fits first. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/runtime/folders.h"

void yokei_folders_add(struct yokei_folders *folders, const char *folder)
{
    for (int i = 0; i < folders->n; i++)
        if (!strcmp(folders->list[i], folder)) return;
    if (folders->n == folders->capacity) return;
    char *copy = strdup(folder);
    if (copy) folders->list[folders->n++] = copy;
}

void yokei_folders_match(struct yokei_folders *folders, const char *base, const char *tail)
{
    char pattern[2048];
    glob_t found;
    if (!base || !*base) return;
    yokei_text(pattern, sizeof pattern, "%s%s", base, tail);
    if (!glob(pattern, GLOB_ONLYDIR, NULL, &found))
        for (size_t i = found.gl_pathc; i-- > 0;) /* cuda-13.0 comes before cuda-12.4 */
            yokei_folders_add(folders, found.gl_pathv[i]);
    globfree(&found);
}

void *yokei_folders_open_file(const char *folder, const char *name, char path[1024],
                              const struct yokei_symbol *symbols, size_t n_symbols, char *why, size_t bytes)
{
    yokei_text(path, 1024, "%s%s%s", folder, *folder ? "/" : "", name);
    const char *const files[] = { path, NULL };
    return yokei_dl_open(files, symbols, n_symbols, why, bytes);
}

/** Whether the loader says that this file is not there. It says the same of a library that the file needs. */
static bool is_absent(const char *folder, const char *name, const char *why)
{
    char path[1024];
    yokei_text(path, sizeof path, "%s%s%s: ", folder, *folder ? "/" : "", name);
    return !strncmp(why, path, strlen(path)) && strstr(why, "cannot open shared object");
}

/** Try all folders for the versions that are known to the driver, or for those that are newer. */
static bool open_any(char *const folders[], int n, const struct yokei_library_file files[], int n_files,
                     int driver_major, bool newer, yokei_open_file *open, char *why, size_t bytes)
{
    char kept[YOKE_REASON_BYTES] = "";
    for (int i = 0; i < n_files; i++)
        for (int f = 0; f < n && (files[i].major > driver_major) == newer; f++) {
            if (open(folders[f], files[i].name, why, bytes)) return true;
            if (!kept[0] && !is_absent(folders[f], files[i].name, why))
                yokei_text(kept, sizeof kept, "%s", why);
        }
    if (kept[0]) yokei_text(why, bytes, "%s", kept); /* a file that is there says more than one that is not */
    return false;
}

bool yokei_folders_open_newest(yokei_list_folders *list, const struct yokei_library_file files[], int n_files,
                               int driver_major, yokei_open_file *open, char *why, size_t bytes)
{
    char *folders[64], newer[YOKE_REASON_BYTES] = "";
    const int n = list(folders, YOKE_COUNT(folders));
    why[0] = '\0';
    const bool found = open_any(folders, n, files, n_files, driver_major, false, open, why, bytes)
                       || open_any(folders, n, files, n_files, driver_major, true, open, newer, sizeof newer);
    if (!found && newer[0] && (!why[0] || strstr(why, "cannot open shared object")))
        yokei_text(why, bytes, "%s", newer);
    for (int i = 0; i < n; i++) free(folders[i]);
    return found;
}
