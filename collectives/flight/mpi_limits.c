/* SPDX-License-Identifier: Apache-2.0 */
/* Room for the shared memory of MPI's messages. Agents use this file too, so it does not use MPI. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "collectives/flight/mpi_limits.h"
#include "core/base/base.h"

/*
 * UCX reserves its receive buffers in /dev/shm. A write past a full file system is SIGBUS. Containers have 64
 * MiB there for all processes.
 */
static const uint64_t PER_RANK = 64u << 20;
/* MPICH's ranks of a host synchronise through a file in /dev/shm, and nowhere else. */
static const uint64_t PER_MEETING_RANK = 4096;

/*
 * UCX's memory files count as files, of a little more than 4 MiB. If they cannot be made, MPI ends the
 * process with a text that names no limit.
 */
yoke_status yokei_check_file_limit(void)
{
    const rlim_t least = 8u << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= least) return YOKE_OK;
    return yoke_fail(
        YOKE_EIO,
        "files of this process may have %llu KiB (ulimit -f), and the shared memory of MPI needs files of %llu: raise that limit",
        (unsigned long long)limit.rlim_cur >> 10, (unsigned long long)least >> 10);
}

/*
 * Whether files can be made in a folder: 0, or the error. Root may write into any folder, but not on a
 * read-only file system.
 */
static int cannot_write(const char *folder)
{
    struct statvfs fs;
    if (access(folder, W_OK | X_OK) || statvfs(folder, &fs)) return errno;
    return fs.f_flag & ST_RDONLY ? EROFS : 0;
}

/*
 * MPI ends by a segmentation fault if it cannot open its files. The `yoke` command has raised the limit. In
 * other programs it stays as it is.
 */
static yoke_status check_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= YOKEI_LEAST_DESCRIPTORS) return YOKE_OK;
    return yoke_fail(
        YOKE_EIO,
        "this process may have %llu files, sockets and devices open at once (ulimit -n), and MPI needs %d: raise that limit (ulimit -n 1024)",
        (unsigned long long)limit.rlim_cur, YOKEI_LEAST_DESCRIPTORS);
}

static void *nothing(void *unused) { return unused; }

/* MPI uses a thread for its messages, and UCX aborts if it cannot start one. */
static yoke_status try_thread(void)
{
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, nothing, NULL);
    if (!error) return pthread_join(thread, NULL), YOKE_OK;
    return yoke_fail(
        YOKE_ENOMEM,
        "no thread could be started, and MPI needs one (%s): the limit of the user's processes (ulimit -u), of the container's (pids.max), "
        "or of memory (ulimit -v) is too low",
        strerror(error));
}

static const char *other_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/*
 * Nothing can be written to /dev/shm, so MPI's messages go through files elsewhere. MPICH would still use
 * /dev/shm to meet, and would end by a bus error or a segmentation fault. It does not, if it takes each rank
 * for one on a host of its own (MPIR_CVAR_NOLOCAL). Its messages then go through UCX, as they do here anyway.
 */
static yoke_status without_shm(int ranks_on_host, int error, char *note_out, size_t bytes)
{
    const char *given = getenv("UCX_POSIX_DIR"),
               *folder = given && *given && !cannot_write(given) ? given : other_folder();
    const int also = cannot_write(folder);
    if (also)
        return yoke_fail(
            YOKE_EIO,
            "/dev/shm cannot be written (%s), and neither can %s (%s): MPI needs one of them to start. Make /dev/shm writable "
            "(mount -o remount,rw /dev/shm; chmod 1777 /dev/shm), or set TMPDIR to a folder on a disk of this host",
            strerror(error), folder, strerror(also));
    if (getenv("MPIR_CVAR_NOLOCAL") && folder == given) return YOKE_OK; /* the agent has reported it */
    setenv("MPIR_CVAR_NOLOCAL", "1", 0);
    setenv("UCX_POSIX_DIR", folder, 1);
    if (ranks_on_host < 2) return YOKE_OK; /* a single rank sends nothing */
    yokei_text(
        note_out, bytes,
        "/dev/shm cannot be written (%s): MPI's messages go through files in %s instead (UCX_POSIX_DIR, MPIR_CVAR_NOLOCAL); "
        "make /dev/shm writable to avoid it: mount -o remount,rw /dev/shm; chmod 1777 /dev/shm",
        strerror(error), folder);
    return YOKE_OK;
}

yoke_status yokei_make_room(int ranks_on_host, char *note_out, size_t bytes)
{
    struct statvfs fs;
    *note_out = '\0';
    YOKE_TRY(yokei_check_file_limit());
    YOKE_TRY(check_descriptors());
    YOKE_TRY(try_thread());
    const int error = cannot_write("/dev/shm");
    if (error)
        return without_shm(ranks_on_host, error, note_out,
                           bytes); /* even a single rank opens its mailbox there */
    if (ranks_on_host < 1 || statvfs("/dev/shm", &fs)) return YOKE_OK;
    const uint64_t ranks = (uint64_t)ranks_on_host, left = (uint64_t)fs.f_bavail * fs.f_frsize,
                   need = ranks * PER_RANK;
    if (ranks > 1 && left < (ranks + 1) * PER_MEETING_RANK)
        return yoke_fail(
            YOKE_EIO,
            "/dev/shm is full: %llu KiB are free, and %d ranks need %llu to start MPI: remove what is in it, or give a "
            "container --shm-size=1g",
            (unsigned long long)left >> 10, ranks_on_host,
            (unsigned long long)(ranks + 1) * PER_MEETING_RANK >> 10);
    if (left >= need || getenv("UCX_POSIX_DIR")) return YOKE_OK;
    const char *folder = other_folder();
    setenv("UCX_POSIX_DIR", folder, 0);
    if (ranks < 2) return YOKE_OK; /* a single rank sends nothing */
    yokei_text(
        note_out, bytes,
        "/dev/shm has %.1f MiB free, and MPI's messages between %d ranks may need %.0f: they go through files in %s instead "
        "(UCX_POSIX_DIR); give a container --shm-size=1g to avoid it",
        (double)left / (1 << 20), ranks_on_host, (double)need / (1 << 20), folder);
    return YOKE_OK;
}
