/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The folders in which the libraries of the CUDA toolkit are looked for: the toolkit, the loader's path, and
 * the folders of NVIDIA's Python packages.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

/* The list of folders, while it is made. */
struct folders {
    char **list;
    int n, capacity;
};

static void add_folder(struct folders *folders, const char *folder)
{
    for (int i = 0; i < folders->n; i++)
        if (!strcmp(folders->list[i], folder)) return;
    if (folders->n == folders->capacity) return;
    char *copy = strdup(folder);
    if (copy) folders->list[folders->n++] = copy;
}

/** Add the folders that match `tail` under `base`, such as the lib folders of all NVIDIA packages. */
static void add_matches(struct folders *folders, const char *base, const char *tail)
{
    char pattern[2048];
    glob_t found;
    if (!base || !*base) return;
    yokei_text(pattern, sizeof pattern, "%s%s", base, tail);
    if (!glob(pattern, GLOB_ONLYDIR, NULL, &found))
        for (size_t i = found.gl_pathc; i-- > 0;) /* cuda-13.0 comes before cuda-12.4 */
            add_folder(folders, found.gl_pathv[i]);
    globfree(&found);
}

int yokei_cuda_folders(char *list[], int capacity)
{
    static const char packages[] = "/lib/python3*/site-packages/nvidia/*/lib";
    static const char debian[] = "/lib/python3*/dist-packages/nvidia/*/lib";
    struct folders folders = { list, 0, capacity };
    add_matches(&folders, getenv("CUDA_HOME"), "/lib64");
    add_matches(&folders, getenv("CUDA_PATH"), "/lib64");
    add_folder(&folders, "");
    add_matches(&folders, "/usr/local", "/cuda*/lib64");
    add_matches(&folders, getenv("VIRTUAL_ENV"), packages);
    add_matches(&folders, getenv("CONDA_PREFIX"), "/lib");
    add_matches(&folders, getenv("CONDA_PREFIX"), packages);
    if (getenv("HOME")) {
        char local[1024];
        yokei_text(local, sizeof local, "%s/.local", getenv("HOME"));
        add_matches(&folders, local, packages);
    }
    add_matches(&folders, "/usr/local", packages);
    add_matches(&folders, "/usr/local", debian);
    add_matches(&folders, "/usr", packages);
    add_matches(&folders, "/usr/lib/python3", "/dist-packages/nvidia/*/lib");
    return folders.n;
}

void *yokei_cuda_open_file(const char *folder, const char *name, char path[1024],
                           const struct yokei_symbol *symbols, size_t n_symbols, char *why, size_t bytes)
{
    yokei_text(path, 1024, "%s%s%s", folder, *folder ? "/" : "", name);
    const char *const files[] = { path, NULL };
    return yokei_dl_open(files, symbols, n_symbols, why, bytes);
}

/** Try all folders for the versions that are known to the driver, or for those that are newer. */
static bool open_any(char *const folders[], int n, const struct cuda_file files[], int n_files,
                     int driver_major, bool newer, cuda_open_file *open, char *why, size_t bytes)
{
    char kept[YOKE_REASON_BYTES] = "";
    for (int i = 0; i < n_files; i++)
        for (int f = 0; f < n && (files[i].major > driver_major) == newer; f++) {
            if (open(folders[f], files[i].name, why, bytes)) return true;
            if (!kept[0] && !strstr(why, "cannot open shared object"))
                yokei_text(kept, sizeof kept, "%s", why);
        }
    if (kept[0]) yokei_text(why, bytes, "%s", kept); /* a file that is there says more than one that is not */
    return false;
}

bool yokei_cuda_open_newest(const struct cuda_file files[], int n_files, int driver_major,
                            cuda_open_file *open, char *why, size_t bytes)
{
    char *folders[64], newer[YOKE_REASON_BYTES] = "";
    const int n = yokei_cuda_folders(folders, YOKE_COUNT(folders));
    why[0] = '\0';
    const bool found = open_any(folders, n, files, n_files, driver_major, false, open, why, bytes)
                       || open_any(folders, n, files, n_files, driver_major, true, open, newer, sizeof newer);
    if (!found && newer[0] && (!why[0] || strstr(why, "cannot open shared object")))
        yokei_text(why, bytes, "%s", newer);
    for (int i = 0; i < n; i++) free(folders[i]);
    return found;
}
