/* SPDX-License-Identifier: Apache-2.0 */
/* Room for the shared memory of MPI's messages. Agents use this file too, so it does not use MPI. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "collectives/flight.h"
#include "core/base/base.h"

/* UCX reserves its receive buffers there, and writing past a full file system is SIGBUS. Containers have 64 MiB for all. */
static const uint64_t PER_RANK = 64u << 20;
/* MPICH's own ranks of a host meet in a file there, and nowhere else. */
static const uint64_t PER_MEETING_RANK = 4096;

/* UCX's files in memory are files too, of 4 MiB and a little; where they cannot be made MPI ends the process with words that name no limit. */
yoke_status yokei_check_file_limit(void)
{
    const rlim_t least = 8u << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= least) return YOKE_OK;
    return yoke_fail(YOKE_EIO, "files of this process may have %llu KiB (ulimit -f), and the shared memory of MPI needs files of %llu: raise that limit",
                     (unsigned long long)limit.rlim_cur >> 10, (unsigned long long)least >> 10);
}

/* Whether files can be made in a folder: 0, or why not. Root may write into any folder, but not on a file system that is read-only. */
static int cannot_write(const char *folder)
{
    struct statvfs fs;
    if (access(folder, W_OK | X_OK) || statvfs(folder, &fs)) return errno;
    return fs.f_flag & ST_RDONLY ? EROFS : 0;
}

/* MPI ends by a segmentation fault where it may not open its files. The command has raised the limit; another program's is left as it is. */
static yoke_status check_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= YOKEI_LEAST_DESCRIPTORS) return YOKE_OK;
    return yoke_fail(YOKE_EIO, "this process may have %llu files, sockets and devices open at once (ulimit -n), and MPI needs %d: raise that limit (ulimit -n 1024)",
                     (unsigned long long)limit.rlim_cur, YOKEI_LEAST_DESCRIPTORS);
}

static void *nothing(void *unused) { return unused; }

/* MPI's messages have a thread, and UCX aborts where it gets none. */
static yoke_status try_thread(void)
{
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, nothing, NULL);
    if (!error) return pthread_join(thread, NULL), YOKE_OK;
    return yoke_fail(YOKE_ENOMEM, "no thread could be started, and MPI needs one (%s): the limit of the user's processes (ulimit -u), of the container's (pids.max), "
                     "or of memory (ulimit -v) is too low", strerror(error));
}

static const char *other_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/*
 * Nothing can be written to /dev/shm: MPI's messages go through files elsewhere. MPICH would still meet there, and ends by a bus error or a
 * segmentation fault when it cannot, unless it takes each rank for one on a host of its own; that its messages go by way of
 * UCX then is what they do here anyway.
 */
static yoke_status without_shm(int ranks_on_host, int error, char *note_out, size_t bytes)
{
    const char *given = getenv("UCX_POSIX_DIR"), *folder = given && *given && !cannot_write(given) ? given : other_folder();
    const int also = cannot_write(folder);
    if (also)
        return yoke_fail(YOKE_EIO, "/dev/shm cannot be written (%s), and neither can %s (%s): MPI needs one of them to start. Make /dev/shm writable "
                         "(mount -o remount,rw /dev/shm; chmod 1777 /dev/shm), or set TMPDIR to a folder on a disk of this host",
                         strerror(error), folder, strerror(also));
    if (getenv("MPIR_CVAR_NOLOCAL") && folder == given) return YOKE_OK; /* the agent said it */
    setenv("MPIR_CVAR_NOLOCAL", "1", 0);
    setenv("UCX_POSIX_DIR", folder, 1);
    if (ranks_on_host < 2) return YOKE_OK; /* it sends nothing */
    yokei_text(note_out, bytes, "/dev/shm cannot be written (%s): MPI's messages go through files in %s instead (UCX_POSIX_DIR, MPIR_CVAR_NOLOCAL); "
               "make /dev/shm writable to avoid it: mount -o remount,rw /dev/shm; chmod 1777 /dev/shm", strerror(error), folder);
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
    if (error) return without_shm(ranks_on_host, error, note_out, bytes); /* a rank alone opens its mailbox too */
    if (ranks_on_host < 1 || statvfs("/dev/shm", &fs)) return YOKE_OK;
    const uint64_t ranks = (uint64_t)ranks_on_host, left = (uint64_t)fs.f_bavail * fs.f_frsize, need = ranks * PER_RANK;
    if (ranks > 1 && left < (ranks + 1) * PER_MEETING_RANK)
        return yoke_fail(YOKE_EIO, "/dev/shm is full: %llu KiB are free, and %d ranks need %llu to start MPI: remove what is in it, or give a "
                         "container --shm-size=1g", (unsigned long long)left >> 10, ranks_on_host, (unsigned long long)(ranks + 1) * PER_MEETING_RANK >> 10);
    if (left >= need || getenv("UCX_POSIX_DIR")) return YOKE_OK;
    const char *folder = other_folder();
    setenv("UCX_POSIX_DIR", folder, 0);
    if (ranks < 2) return YOKE_OK; /* it sends nothing */
    yokei_text(note_out, bytes, "/dev/shm has %.1f MiB free, and MPI's messages between %d ranks may need %.0f: they go through files in %s instead "
               "(UCX_POSIX_DIR); give a container --shm-size=1g to avoid it", (double)left / (1 << 20), ranks_on_host, (double)need / (1 << 20), folder);
    return YOKE_OK;
}
