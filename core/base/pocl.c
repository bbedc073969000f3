/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PoCL (an OpenCL implementation for CPUs) keeps its compiled programs in a folder. If PoCL cannot make this
 * folder, it has no devices at all. This file finds the folder, and checks whether it can be made.
 */
#include "core/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/*
 * Check whether `folder` exists or can be made, and can be written. Returns 0, or the errno that says why
 * not.
 */
static int cannot_make(const char *folder)
{
    char path[4096];
    struct stat st;
    struct statvfs fs;
    yokei_text(path, sizeof path, "%s", folder);
    while (stat(path, &st)) {
        if (errno != ENOENT) return errno;
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            yokei_text(path, sizeof path, "%s", slash ? "/" : ".");
            if (stat(path, &st)) return errno;
            break;
        }
        *slash = '\0';
    }
    if (!S_ISDIR(st.st_mode)) return ENOTDIR;
    if (access(path, W_OK | X_OK) || statvfs(path, &fs)) return errno;
    return fs.f_flag & ST_RDONLY ? EROFS : 0;
}

int yokei_pocl_cache(char *folder_out, size_t bytes)
{
    const char *set = getenv("POCL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (set)
        yokei_text(folder_out, bytes, "%s", set);
    else if (cache && *cache)
        yokei_text(folder_out, bytes, "%s/pocl/kcache", cache);
    else if (home)
        yokei_text(folder_out, bytes, "%s/.cache/pocl/kcache", home);
    else
        yokei_text(folder_out, bytes, "/tmp/pocl/kcache");
    return cannot_make(folder_out);
}

bool yokei_pocl_cache_elsewhere(void)
{
    char folder[4096], parent[4096];
    struct stat st;
    if (getenv("POCL_CACHE_DIR") || !yokei_pocl_cache(folder, sizeof folder)) return false;
    const char *tmp = getenv("TMPDIR");
    yokei_text(parent, sizeof parent, "%s/yoke-cache-%u", tmp && *tmp ? tmp : "/tmp", (unsigned)geteuid());
    if (mkdir(parent, 0700) && errno != EEXIST) return false;
    /* In a folder that all users may write to, another user may have made this folder, or a link, before. */
    if (lstat(parent, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
        return false;
    yokei_text(folder, sizeof folder, "%s/pocl", parent);
    return !cannot_make(folder) && !setenv("POCL_CACHE_DIR", folder, 0);
}
