/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The PMI-1 server of yoke run. MPICH's ranks use this protocol with their launcher, for example to exchange
 * keys and values, to enter a barrier, or to abort. Here yoke run is the launcher. Requests and replies are
 * single lines. Each rank inherits one end of a socket pair without an address, so no port is open. Only
 * ranks of the job can write to these sockets. A rank that violates the protocol loses its connection, and no
 * other rank is harmed.
 *
 * Nothing here blocks, starts a process or reads a clock. The loop of supervise.c calls cli_pmi_serve when a
 * socket is readable.
 */
#ifndef CLI_LAUNCH_PMI_H
#define CLI_LAUNCH_PMI_H

#include <yoke/base.h>

#define CLI_PMI_KEY_MAX 64
#define CLI_PMI_VALUE_MAX 1024
#define CLI_PMI_LINE_MAX 2048         /* a longer line is not PMI-1 */
#define CLI_PMI_RANK_BYTES (64 << 10) /* bytes of keys and values that one rank may put */

struct cli_pmi;

/**
 * Create a server for the ranks 0 .. n_ranks - 1 of one host. It has no connections yet. Errors: YOKE_ENOMEM.
 */
yoke_status cli_pmi_new(int n_ranks, struct cli_pmi **pmi_out);
/** Close all connections and free the server. NULL is allowed. */
void cli_pmi_free(struct cli_pmi *pmi);
/**
 * Make rank r's socket pair. The server keeps one end. *rank_fd_out is the rank's end, and the caller must
 * close it. Both ends close on exec.
 */
yoke_status cli_pmi_connect(struct cli_pmi *pmi, int r, int *rank_fd_out);
/** The server's end of rank r's connection; -1 if there is no connection, or no longer one. */
int cli_pmi_fd(const struct cli_pmi *pmi, int r);

/**
 * Receive the requests of rank r, and reply. Closes the connection at EOF, and if the rank sent something
 * that is not PMI-1. Never blocks.
 */
void cli_pmi_serve(struct cli_pmi *pmi, int r);

/** Whether rank r has begun to start MPI and has not yet ended MPI. */
bool cli_pmi_in_mpi(const struct cli_pmi *pmi, int r);
/** Whether rank r waits for the other ranks in a barrier, at the start or the end of MPI. */
bool cli_pmi_waits(const struct cli_pmi *pmi, int r);
/** Whether ranks wait in a barrier that rank r can no longer enter, because its connection has ended. */
bool cli_pmi_deserted(const struct cli_pmi *pmi, int r);
/** Whether rank r called MPI_Abort and waits until it is ended. *code_out is the code of the call. */
bool cli_pmi_aborts(const struct cli_pmi *pmi, int r, int *code_out);
/** The first rank that called MPI_Abort; -1: none. */
int cli_pmi_first_abort(const struct cli_pmi *pmi);
/** Printable text of the line from rank r that was not PMI-1. NULL: there was none. */
const char *cli_pmi_fault(const struct cli_pmi *pmi, int r);

#endif
