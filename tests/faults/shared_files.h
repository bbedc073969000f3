/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the files that jobs leave in shared memory. Link cli/launch/shared_memory.c, too. */
#ifndef TESTS_FAULTS_SHARED_FILES_H
#define TESTS_FAULTS_SHARED_FILES_H

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "cli/launch/shared_memory.h"

/*
 * Give this process, and all processes that it starts, a /dev/shm of their own, if the system allows it. Then
 * files of other jobs on the machine are not counted.
 */
static inline void have_own_shared_memory(void)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return;
    (void)mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777,size=2g");
}

/*
 * The number of files in `folder` that MPI or Yoke made and that no process holds. Files of other jobs on
 * this machine are held by the ranks of these jobs. A folder without a job's name belongs to a test that runs
 * at the same time, so it is not counted. With `show` the names are printed.
 */
static inline int count_shared_files(const char *folder, bool show)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300];
        if (!strstr(e->d_name, "mpich") && !strstr(e->d_name, "ucx") && !strstr(e->d_name, "yoke")) continue;
        if (e->d_type == DT_DIR && strncmp(e->d_name, "yoke-job-", 9) != 0) continue;
        snprintf(path, sizeof path, "/dev/shm/%s", e->d_name);
        if (cli_shared_memory_in_use(path)) continue;
        n++;
        if (show) printf("# left: %s/%s\n", folder, e->d_name);
    }
    if (dir) closedir(dir);
    return n;
}

#endif
