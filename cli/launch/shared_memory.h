/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The files that MPI leaves in shared memory when a rank is killed while it starts, and their removal. UCX
 * and MPICH make files in /dev/shm. They unlink the files at once, or when all ranks have mapped them. A rank
 * that is killed between these two points leaves its file behind.
 *
 * No file is removed because of its name alone. UCX makes its files in a folder that belongs to the job
 * alone, /dev/shm/yoke-job-… . Every process that uses this folder holds a shared lock on it (flock). A
 * process that gets the exclusive lock is the last one, and removes the folder. MPICH's files lie in /dev/shm
 * itself. Such a file is removed if no process has it open or mapped. Then the rank that created it has
 * exited, because that rank keeps the file mapped until the file is unlinked. A System V segment records
 * which process created it.
 */
#ifndef CLI_LAUNCH_SHARED_MEMORY_H
#define CLI_LAUNCH_SHARED_MEMORY_H

#include <sys/types.h>
#include <yoke/base.h>

/**
 * Choose the folder of the job that YOKE_SUPERVISOR and YOKE_RUN_DIR identify. The folder is in /dev/shm, or
 * in a place with more room. False: the user has chosen the place (UCX_POSIX_DIR). `note_out` is a warning if
 * /dev/shm has too little room for so many ranks; else it is "".
 */
bool cli_shared_folder_choose(int ranks_on_host, char *path_out, size_t path_bytes, char *note_out,
                              size_t note_bytes);
/**
 * Make the folder, unless another process has made it. Lock it, and set UCX_POSIX_DIR so that UCX uses it.
 * Returns a descriptor that closes on exec. Returns -1 and sets `path` to "" if the folder cannot be made.
 * Then only the clean-up is missing.
 */
int cli_shared_folder_open(char *path);
/**
 * Release the folder. The last process to do so removes the folder and the files in it. Then it removes the
 * files of MPICH in /dev/shm that belong to this user and that no process has open or mapped. fd -1 is
 * allowed.
 */
void cli_shared_folder_close(int fd, const char *path);
/**
 * The same for an agent that was killed and could not do it. The folder stays if other processes use it. If
 * there is no folder any more, only MPICH's files are removed.
 */
void cli_shared_folder_drop(int ranks_on_host);
/**
 * Remove the sibling folders of `path` whose jobs were killed with all their processes. These are the folders
 * of this user that no process has locked.
 */
void cli_shared_folders_collect(const char *path);

/**
 * Remove the System V segments that process `pid`, which has ended, had made with IPC_PRIVATE, and to which
 * no process is attached. The process started at the time `since_s` or later. The caller has not reaped the
 * process yet, so that its process id was not reused.
 */
void cli_shared_segments_drop(pid_t pid, time_t since_s);

/** Whether any process that is visible to this process has the file open or mapped. */
bool cli_shared_memory_in_use(const char *path);

#endif
