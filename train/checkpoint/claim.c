/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that are filled under a temporary name. The process that fills a folder holds a lock on a file in
 * it. The kernel releases the lock when the process ends. So a folder that a killed process left can be
 * distinguished from a folder that another process is filling now. This works on one host, and between hosts
 * if the file system has locks between hosts.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"

static const char LOCK[] = ".yoke-lock";

static void lock_path(const char *folder, char out[4400]) { yokei_text(out, 4400, "%s/%s", folder, LOCK); }

/* Whether the folder may be taken over: it has the lock file, or it is empty. */
static bool is_claimed_or_empty(const char *folder)
{
    char path[4400];
    lock_path(folder, path);
    if (access(path, F_OK) == 0) return true;
    DIR *d = opendir(folder);
    bool empty = d != NULL;
    for (struct dirent *e; d && empty && (e = readdir(d));)
        empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
    if (d) closedir(d);
    return empty;
}

/* 1: locked; 0: the file is no longer the folder's lock file, try again; -1: another process holds the lock.
 */
static int try_lock(const char *path, int fd)
{
    struct stat mine, there;
    /* other errors: the file system has no locks */
    if (flock(fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR))
        return errno == EINTR ? 0 : -1;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino
           && mine.st_dev == there.st_dev;
}

bool yokei_folder_is_held(const char *folder)
{
    char path[4400];
    lock_path(folder, path);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool held = fd >= 0 && try_lock(path, fd) < 0;
    if (fd >= 0) close(fd);
    return held;
}

static yoke_status empty_out(const char *folder)
{
    char path[4400];
    bool failed = false;
    DIR *d = opendir(folder);
    if (!d) return yoke_fail(YOKE_EIO, "%s: cannot be listed: %s", folder, yokei_why(errno));
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, LOCK)) continue;
        yokei_text(path, sizeof path, "%s/%s", folder, e->d_name);
        failed = unlink(path) || failed;
    }
    const int error = errno;
    closedir(d);
    return failed ? yoke_fail(YOKE_EIO, "%s: what an earlier process left there cannot be removed: %s",
                              folder, strerror(error))
                  : YOKE_OK;
}

yoke_status yokei_folder_claim(const char *folder, int *lock_out)
{
    enum { MOST_TRIES = 100 };
    char path[4400];
    lock_path(folder, path);
    for (int i = 0; i < MOST_TRIES; i++) {
        struct stat st;
        if (mkdir(folder, 0777) && errno != EEXIST)
            return yoke_fail(YOKE_EIO, "%s: cannot be made: %s", folder, yokei_why(errno));
        if (lstat(folder, &st)) continue; /* the process that filled the folder has renamed it */
        if (!S_ISDIR(st.st_mode) || !is_claimed_or_empty(folder))
            return yoke_fail(YOKE_EIO,
                             "%s: is in the way, and was not left by a process that was killed; move it away",
                             folder);
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (fd < 0 && errno == ENOENT) continue;
        if (fd < 0) return yoke_fail(YOKE_EIO, "%s: cannot be made: %s", path, yokei_why(errno));
        const int locked = try_lock(path, fd);
        const yoke_status status = locked > 0 ? empty_out(folder) : YOKE_OK;
        if (locked > 0 && !status) {
            *lock_out = fd;
            return YOKE_OK;
        }
        close(fd);
        YOKE_TRY(status);
        if (locked < 0)
            return yoke_fail(YOKE_EIO,
                             "%s: another process is writing it now; wait for its end, or write elsewhere",
                             folder);
    }
    return yoke_fail(YOKE_EIO, "%s: other processes make and rename it all the time", folder);
}

void yokei_folder_release(const char *folder, int lock)
{
    char path[4400];
    if (lock < 0) return;
    lock_path(folder, path);
    unlink(path);
    close(lock);
}
