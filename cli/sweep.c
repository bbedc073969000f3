/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPICH and UCX make their shared memory as files in /dev/shm and unlink them when all ranks have them mapped. A rank that
 * is killed while MPI starts leaves such a file, and nobody else knows its name.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/job_dir.h"
#include "core/base/base.h"

#define FOLDER "/dev/shm"

static bool holds(const char *pid, const char *path)
{
    char name[300], line[4500], target[4200];
    bool found = false;
    yokei_text(name, sizeof name, "/proc/%s/maps", pid);
    FILE *maps = fopen(name, "r");
    while (maps && !found && fgets(line, sizeof line, maps)) found = strstr(line, path) != NULL;
    if (maps) fclose(maps);
    yokei_text(name, sizeof name, "/proc/%s/fd", pid);
    DIR *dir = found ? NULL : opendir(name);
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        char link[600];
        yokei_text(link, sizeof link, "%s/%s", name, e->d_name);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n <= 0) continue;
        target[n] = 0;
        found = !strcmp(target, path);
    }
    if (dir) closedir(dir);
    return found;
}

bool cli_shared_memory_in_use(const char *path)
{
    DIR *dir = opendir("/proc");
    bool found = !dir; /* who cannot look must not remove */
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9') found = holds(e->d_name, path);
    if (dir) closedir(dir);
    return found;
}

int cli_sweep_shared_memory(time_t since)
{
    int n_held = 0;
    DIR *dir = opendir(FOLDER);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300];
        struct stat st;
        if (strncmp(e->d_name, "mpich_shar_tmp", 14) && strncmp(e->d_name, "ucx_shm_posix", 13)) continue;
        yokei_text(path, sizeof path, FOLDER "/%s", e->d_name);
        /* Ours by owner and age; and a file that no process has open or mapped can be attached by nobody either. */
        if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_uid != getuid() || st.st_ctime < since) continue;
        if (cli_shared_memory_in_use(path)) n_held++;
        else unlink(path);
    }
    if (dir) closedir(dir);
    return n_held;
}
