/* SPDX-License-Identifier: Apache-2.0 */
/** Whether this process has the resources that MPI needs to start: mpi_limits.c. */
#ifndef COLLECTIVES_FLIGHT_MPI_LIMITS_H
#define COLLECTIVES_FLIGHT_MPI_LIMITS_H

#include <yoke/base.h>

/**
 * Check that MPI can start here. /dev/shm may be too small for MPI's messages between so many ranks, or
 * read-only, or missing. Then the messages go through files in $TMPDIR. For this the function changes this
 * process's environment, and says so in note_out (else empty). Call it before MPI starts.
 * Errors: YOKE_EIO and YOKE_ENOMEM if MPI cannot start, also because there are too few descriptors or no
 *         thread can be started. MPI itself would end by a bus error, a segmentation fault or an abort.
 */
yoke_status yokei_make_room(int ranks_on_host, char *note_out, size_t bytes);
/**
 * YOKE_EIO if this process's limit on file sizes is below the size of MPI's files in memory. Then no rank can
 * start, or keep its record.
 */
yoke_status yokei_check_file_limit(void);

#endif
