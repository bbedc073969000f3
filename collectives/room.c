/* SPDX-License-Identifier: Apache-2.0 */
/* Room for the shared memory of MPI's messages. Known to the agents too, so no MPI here. */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "collectives/flight.h"
#include "core/base/base.h"

/* UCX reserves its receive buffers there, and writing past a full file system is SIGBUS. Containers have 64 MiB for all. */
static const uint64_t PER_RANK = 64u << 20;
/* MPICH's own ranks of a host meet in a file there, and nowhere else. */
static const uint64_t PER_MEETING_RANK = 4096;

/* UCX's files in memory are files too, of 4 MiB and a little; where they cannot be made MPI ends the process with words that name no limit. */
static yoke_status check_file_limit(void)
{
    const rlim_t least = 8u << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= least) return YOKE_OK;
    return yoke_fail(YOKE_EIO, "files of this process may have %llu KiB (ulimit -f), and the shared memory of MPI needs files of %llu: raise that limit",
                     (unsigned long long)limit.rlim_cur >> 10, (unsigned long long)least >> 10);
}

yoke_status yokei_make_room(int ranks_on_host, char *note_out, size_t bytes)
{
    struct statvfs fs;
    *note_out = '\0';
    YOKE_TRY(check_file_limit());
    if (ranks_on_host < 2 || statvfs("/dev/shm", &fs)) return YOKE_OK;
    const uint64_t ranks = (uint64_t)ranks_on_host, left = (uint64_t)fs.f_bavail * fs.f_frsize, need = ranks * PER_RANK;
    if (left < (ranks + 1) * PER_MEETING_RANK)
        return yoke_fail(YOKE_EIO, "/dev/shm is full: %llu KiB are free, and %d ranks need %llu to start MPI: remove what is in it, or give a "
                         "container --shm-size=1g", (unsigned long long)left >> 10, ranks_on_host, (unsigned long long)(ranks + 1) * PER_MEETING_RANK >> 10);
    if (left >= need || getenv("UCX_POSIX_DIR")) return YOKE_OK;
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    setenv("UCX_POSIX_DIR", folder, 0);
    yokei_text(note_out, bytes, "/dev/shm has %.1f MiB free, and MPI's messages between %d ranks may need %.0f: they go through files in %s instead "
               "(UCX_POSIX_DIR); give a container --shm-size=1g to avoid it", (double)left / (1 << 20), ranks_on_host, (double)need / (1 << 20), folder);
    return YOKE_OK;
}
