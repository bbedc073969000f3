/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PoCL (an OpenCL implementation for CPUs) keeps its compiled programs in a folder. If PoCL cannot make this
 * folder, it has no devices at all. If PoCL cannot write to the folder, it compiles nothing. This file finds
 * the folder, and checks whether it can be made and written.
 */
#include "core/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int yokei_pocl_cannot_write(const char *folder)
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
    if (fs.f_flag & ST_RDONLY) return EROFS;
    const bool has_room = fs.f_bavail >= YOKEI_POCL_LEAST_BYTES / YOKE_MAX(fs.f_frsize, 1ul)
                          && (fs.f_favail || !fs.f_files);
    return has_room || !fs.f_blocks ? 0 : ENOSPC; /* some file systems do not count */
}

int yokei_pocl_cache(char *folder_out, size_t bytes)
{
    const char *set = getenv("POCL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *on = getenv("POCL_KERNEL_CACHE");
    const char *name = on && !strcmp(on, "0") ? "pocl/uncached" : "pocl/kcache";
    if (set)
        yokei_text(folder_out, bytes, "%s", set);
    else if (cache && *cache)
        yokei_text(folder_out, bytes, "%s/%s", cache, name);
    else if (home)
        yokei_text(folder_out, bytes, "%s/.cache/%s", home, name);
    else
        yokei_text(folder_out, bytes, "/tmp/%s", name);
    return yokei_pocl_cannot_write(folder_out);
}

bool yokei_pocl_cache_elsewhere(void)
{
    char folder[4096], parent[4096];
    struct stat st;
    if (!yokei_pocl_cache(folder, sizeof folder)) return false;
    const char *tmp = getenv("TMPDIR");
    yokei_text(parent, sizeof parent, "%s/yoke-cache-%u", tmp && *tmp ? tmp : "/tmp", (unsigned)geteuid());
    if (mkdir(parent, 0700) && errno != EEXIST) return false;
    /* In a folder that all users may write to, another user may have made this folder, or a link, before. */
    if (lstat(parent, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
        return false;
    yokei_text(folder, sizeof folder, "%s/pocl", parent);
    return !yokei_pocl_cannot_write(folder) && !setenv("POCL_CACHE_DIR", folder, 1);
}
