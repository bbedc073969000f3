/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A lock on a folder to which only one job at a time may write. The process locks a file in the folder
 * (flock). The lock ends with the process, however the process ends. So a file that a killed job left behind
 * blocks no other job. Between hosts the file system must support such locks (NFS does since Linux 2.6.12).
 * If a file system has no locks, Yoke warns and the job continues.
 */
#ifndef CLI_LAUNCH_HOLD_H
#define CLI_LAUNCH_HOLD_H

#include <yoke/base.h>

struct cli_hold {
    char path[4200]; /* path of the lock file; "": no lock is held */
    int fd;
};
/**
 * Lock FOLDER/NAME.lock. `what` (the kind of folder) and `option` (which names another folder) are for the
 * message. YOKE_ECONFIG: another job holds the lock, and the text names that job. YOKE_EIO: the file cannot
 * be made.
 */
yoke_status cli_hold(const char *folder, const char *name, const char *what, const char *option,
                     struct cli_hold *hold_out);
/** Remove the lock file and release the lock. Does nothing if no lock is held. */
void cli_let_go(struct cli_hold *hold);

#endif
