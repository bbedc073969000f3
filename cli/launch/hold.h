/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A folder that one job at a time may write to. A lock on a file in it (flock) is held by the process, so it ends with the process however
 * that ends: a file that a killed job left behind holds up nobody. Between hosts the lock is the file system's matter (NFS has it since
 * Linux 2.6.12); where a file system has no locks, a warning says so, and the job goes on.
 */
#ifndef CLI_LAUNCH_HOLD_H
#define CLI_LAUNCH_HOLD_H

#include <yoke/base.h>

struct cli_hold {
    char path[4200]; /* of the lock's file; "": nothing is held */
    int fd;
};
/**
 * Hold FOLDER/NAME.lock. `what` the folder is and which option names another one are for the message.
 * YOKE_ECONFIG: another job holds it, which the text names; YOKE_EIO: it cannot be made.
 */
yoke_status cli_hold(const char *folder, const char *name, const char *what, const char *option, struct cli_hold *hold_out);
/** Remove the file and let go. Nothing where nothing is held. */
void cli_let_go(struct cli_hold *hold);

#endif
