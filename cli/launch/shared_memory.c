/* SPDX-License-Identifier: Apache-2.0 */
/* The shared memory that MPI leaves behind; see shared_memory.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/launch/shared_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "collectives/flight/flight.h"
#include "collectives/flight/mpi_limits.h"
#include "core/base/base.h"

#define PLACE "/dev/shm"
#define FOLDER "yoke-job-"
#define MPICH_PREFIX "mpich_shar_tmp"

/* ---- MPICH's files ---- */

/* Whether the kernel grants a lease on a file in tmpfs. Before Linux 5.3 it never does. */
static bool grants_leases(void)
{
    struct utsname system;
    int major = 0, minor = 0;
    return !uname(&system) && sscanf(system.release, "%d.%d", &major, &minor) == 2
           && (major > 5 || (major == 5 && minor >= 3));
}

/*
 * Whether the file belongs to this user, and no process has it open or mapped. The kernel grants a write
 * lease only then, and considers the processes of all containers.
 */
static bool is_abandoned(const char *path)
{
    struct stat st;
    /* O_NONBLOCK: an open must not block on the lease of another process that does the same check */
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    const bool may = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    /*
     * The kernel sends the signal when another process opens the file. SIGURG is ignored; SIGIO would end us.
     */
    const bool granted = may && !fcntl(fd, F_SETSIG, SIGURG) && !fcntl(fd, F_SETLEASE, F_WRLCK);
    close(fd);
    return granted || (may && !grants_leases() && !cli_shared_memory_in_use(path));
}

/*
 * Remove the files that dead jobs of this user left. The rank that makes such a file keeps it mapped for as
 * long as the file has a name.
 */
static void remove_abandoned_files(void)
{
    DIR *dir = opendir(PLACE);
    /* one process at a time, because a process that requests a lease has the file open */
    for (int turn = 0; dir && turn < 100 && flock(dirfd(dir), LOCK_EX | LOCK_NB); turn++) usleep(1000);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300];
        if (strncmp(e->d_name, MPICH_PREFIX, sizeof MPICH_PREFIX - 1)) continue;
        yokei_text(path, sizeof path, PLACE "/%s", e->d_name);
        if (is_abandoned(path)) unlink(path);
    }
    if (dir) closedir(dir);
}

/* ---- the job's folder ---- */

bool cli_shared_folder_choose(int ranks_on_host, char *path_out, size_t path_bytes, char *note_out,
                              size_t note_bytes)
{
    const char *words[] = { getenv("YOKE_SUPERVISOR"), getenv("YOKE_RUN_DIR") },
               *place = getenv("UCX_POSIX_DIR");
    /* FNV-1a; all processes of a job on this host get the same name, and no other job does */
    uint64_t hash = 0xcbf29ce484222325ull;
    *note_out = path_out[0] = '\0';
    if (place && *place) return false;
    /* If there is too little room to start, yoke_mpi_start reports it. */
    if (yokei_make_room(ranks_on_host, note_out, note_bytes)) *note_out = '\0';
    if (!(place = getenv("UCX_POSIX_DIR"))) place = PLACE;
    for (size_t i = 0; i < YOKE_COUNT(words); i++)
        for (const char *c = words[i] ? words[i] : ""; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
    yokei_text(path_out, path_bytes, "%s/" FOLDER "%016llx", place, (unsigned long long)hash);
    return true;
}

/*
 * Whether this descriptor is still the folder at `path`, and belongs to this user. The last process may have
 * removed the folder since it was opened.
 */
static bool is_there(int fd, const char *path)
{
    struct stat mine, there;
    return !fstat(fd, &mine) && !lstat(path, &there) && mine.st_ino == there.st_ino
           && mine.st_dev == there.st_dev && mine.st_uid == geteuid();
}

int cli_shared_folder_open(char *path)
{
    for (int turn = 0; turn < 100 && path[0]; turn++) {
        struct stat st;
        if (mkdir(path, 0700) && errno != EEXIST) break;
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT) continue;
        if (fd < 0) break;
        if (!flock(fd, LOCK_SH) && is_there(fd, path)) {
            setenv("UCX_POSIX_DIR", path, 1);
            return fd;
        }
        const bool foreign = !fstat(fd, &st) && st.st_uid != geteuid();
        close(fd);
        if (foreign) break;
    }
    path[0] = '\0';
    return -1;
}

static void remove_folder(int fd, const char *path)
{
    const int again = dup(fd);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    if (!dir && again >= 0) close(again);
    if (dir) rewinddir(dir);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] != '.') unlinkat(fd, e->d_name, 0);
    }
    if (dir) closedir(dir);
    rmdir(path);
    remove_abandoned_files();
}

void cli_shared_folder_close(int fd, const char *path)
{
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB) && is_there(fd, path)) remove_folder(fd, path);
    close(fd);
}

void cli_shared_folder_drop(int ranks_on_host)
{
    char path[4096], note[512];
    if (!cli_shared_folder_choose(ranks_on_host, path, sizeof path, note, sizeof note)) return;
    if (access(path, F_OK))
        remove_abandoned_files(); /* the last process came before the kernel freed the rank's memory */
    else
        cli_shared_folder_close(cli_shared_folder_open(path), path);
}

void cli_shared_folders_collect(const char *path)
{
    char place[4096];
    const char *slash = strrchr(path, '/');
    if (!slash) return;
    yokei_text(place, sizeof place, "%.*s", (int)(slash - path), path);
    DIR *dir = opendir(place);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char name[4400];
        struct stat st;
        if (strncmp(e->d_name, FOLDER, sizeof FOLDER - 1)) continue;
        yokei_text(name, sizeof name, "%s/%s", place, e->d_name);
        const int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (!fstat(fd, &st) && st.st_uid == geteuid())
            cli_shared_folder_close(fd, name);
        else
            close(fd);
    }
    if (dir) closedir(dir);
}

/* ---- System V ---- */

void cli_shared_segments_drop(pid_t pid, time_t since_s)
{
    struct shm_info info;
    const int last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info);
    for (int i = 0; i <= last; i++) {
        struct shmid_ds segment;
        const int id = shmctl(i, SHM_STAT, &segment);
        /* an earlier process perhaps had the same process id */
        const bool theirs = id >= 0 && segment.shm_cpid == pid && segment.shm_ctime >= since_s
                            && segment.shm_perm.cuid == geteuid();
        if (theirs && segment.shm_perm.__key == IPC_PRIVATE && !segment.shm_nattch)
            shmctl(id, IPC_RMID, NULL);
    }
}

/* ---- the processes that use a file ---- */

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
    bool found = !dir; /* a process that cannot check must not remove */
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9') found = holds(e->d_name, path);
    if (dir) closedir(dir);
    return found;
}
