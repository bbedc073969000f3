/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What MPI leaves in shared memory when a rank is killed while it starts, and who removes it. UCX and MPICH make files in
 * /dev/shm and unlink them at once, or when all ranks have them mapped; between the two a killed rank leaves its file behind.
 *
 * Nothing is removed for what it is called. UCX makes its files in a folder of the job's own, /dev/shm/yoke-job-… . Everybody who uses
 * that folder holds a lock on it (flock), so who gets it alone is the last, and removes it. MPICH's files lie in /dev/shm itself: those that
 * a rank of the job is seen to have mapped are kept in the folder as links. A segment of System V tells which process made it.
 */
#ifndef CLI_LAUNCH_SHARED_MEMORY_H
#define CLI_LAUNCH_SHARED_MEMORY_H

#include <sys/types.h>
#include <yoke/base.h>

/**
 * Choose the folder of the job that YOKE_SUPERVISOR and YOKE_RUN_DIR tell of: in /dev/shm, or where there is more room. False: the user has
 * chosen (UCX_POSIX_DIR). `note_out` says where /dev/shm has too little room for so many ranks, else it is "".
 */
bool cli_shared_folder_choose(int ranks_on_host, char *path_out, size_t path_bytes, char *note_out, size_t note_bytes);
/**
 * Make it, unless somebody has, lock it, and have UCX use it (UCX_POSIX_DIR). A descriptor that closes on exec; -1 where it cannot be made:
 * then nothing is lost but the clean-up, and `path` becomes "".
 */
int cli_shared_folder_open(char *path);
/** Give the folder back; the last one to do so removes it, and what it holds and names. fd -1 is allowed. */
void cli_shared_folder_close(int fd, const char *path);
/** The same where an agent was killed that could not: nothing happens where there is none, or others still use it. */
void cli_shared_folder_drop(int ranks_on_host);
/** Remove folders beside `path` whose jobs were killed with all their processes: those of this user on which nobody has a lock. */
void cli_shared_folders_collect(const char *path);

/** Keep the names of MPICH's files that this process, a rank of the job, has mapped or open. */
void cli_shared_files_keep_of(const char *folder, pid_t pid);
/** Remove System V segments that this process, which has ended, had made for itself alone and nobody is attached to. */
void cli_shared_segments_drop(pid_t pid);

/** Whether any process that can be seen has this file open or mapped. */
bool cli_shared_memory_in_use(const char *path);

#endif
