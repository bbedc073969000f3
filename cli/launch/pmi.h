/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What MPICH's ranks ask of who started them, answered by yoke run itself: PMI-1, a line each way, over a pair of sockets per
 * rank that is inherited and has no address. So no port is open. Whoever can write to such a socket is a rank of the job; a
 * rank that does not keep to the protocol loses its connection, and harms nobody else.
 *
 * Nothing here blocks, starts a process or reads a clock: the loop of supervise.c calls cli_pmi_serve when a socket has news.
 */
#ifndef CLI_LAUNCH_PMI_H
#define CLI_LAUNCH_PMI_H

#include <yoke/base.h>

#define CLI_PMI_KEY_MAX 64
#define CLI_PMI_VALUE_MAX 1024
#define CLI_PMI_LINE_MAX 2048          /* longer lines are no PMI-1 */
#define CLI_PMI_RANK_BYTES (64 << 10)  /* keys and values that one rank may put */

struct cli_pmi;

/** A server for the ranks 0 .. n_ranks - 1 of one host, without connections yet. Errors: YOKE_ENOMEM. */
yoke_status cli_pmi_new(int n_ranks, struct cli_pmi **pmi_out);
/** Close all connections and forget. NULL is allowed. */
void cli_pmi_free(struct cli_pmi *pmi);
/** Make rank r's pair of sockets: ours stays here, *rank_fd_out is the rank's and the caller's to close. Both close on exec. */
yoke_status cli_pmi_connect(struct cli_pmi *pmi, int r, int *rank_fd_out);
/** Our end of rank r's connection, -1 when there is none (any more). */
int cli_pmi_fd(const struct cli_pmi *pmi, int r);

/** Read what rank r has sent, and answer. Closes the connection at its end and on what is no PMI-1. Never blocks. */
void cli_pmi_serve(struct cli_pmi *pmi, int r);

/** Whether rank r has begun MPI's start and not done MPI's end. */
bool cli_pmi_in_mpi(const struct cli_pmi *pmi, int r);
/** Whether rank r waits for the other ranks in a barrier: at the start and the end of MPI. */
bool cli_pmi_waits(const struct cli_pmi *pmi, int r);
/** Whether ranks wait for a barrier that rank r, whose connection has ended, can come to no more. */
bool cli_pmi_deserted(const struct cli_pmi *pmi, int r);
/** Whether rank r asked for the job's end (MPI_Abort) and waits to be ended; *code_out is the code that it gave. */
bool cli_pmi_aborts(const struct cli_pmi *pmi, int r, int *code_out);
/** The first rank that did, -1: none. */
int cli_pmi_first_abort(const struct cli_pmi *pmi);
/** What rank r sent that is no PMI-1, as printable text; NULL: nothing. */
const char *cli_pmi_fault(const struct cli_pmi *pmi, int r);

#endif
