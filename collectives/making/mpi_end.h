/* SPDX-License-Identifier: Apache-2.0 */
/** The end of MPI. */
#ifndef COLLECTIVES_MAKING_MPI_END_H
#define COLLECTIVES_MAKING_MPI_END_H

#include <yoke/comm.h>

/* ---- start_stop.c ---- */
/** Whether yoke_mpi_stop did not call MPI_Finalize, or gave up waiting for it. */
bool yokei_finalize_was_left(void);

/* ---- leave.c ---- */
/**
 * End MPI without MPI_Finalize when all ranks have come here. This is for several hosts under MPICH's
 * launcher. *left_out false: the caller must call MPI_Finalize. The errors are those of yokei_roll_look.
 */
yoke_status yokei_leave_launcher(bool *left_out);

/* ---- finalize.c ---- */
/**
 * Under yoke run: make sure that the process ends if the program's own MPI_Finalize does not return. That can
 * happen if a rank died, or between hosts. One call is enough.
 */
void yokei_finalize_watch(void);
/** yoke_mpi_stop calls MPI_Finalize, and watches the call itself. */
void yokei_finalize_is_ours(void);

#endif
