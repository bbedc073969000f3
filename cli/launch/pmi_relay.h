/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The agent is a PMI proxy between its rank and the launcher. It forwards all PMI messages unchanged, in both
 * directions. So the agent decides when the rank receives the EOF of the launcher's connection. A rank inside
 * MPI_Init exits with an error of its own when it reads EOF, and this error could be reported as the cause of
 * the job's failure.
 *
 * Nothing here blocks. The agent's loop calls cli_pmi_relay_serve when one of the two sockets has an event.
 */
#ifndef CLI_LAUNCH_PMI_RELAY_H
#define CLI_LAUNCH_PMI_RELAY_H

#include <yoke/base.h>

/** Bytes on their way in one direction: bytes[sent .. used - 1] still have to be sent. */
struct cli_pmi_flow {
    char bytes[4096];
    size_t used, sent;
};

struct cli_pmi_relay {
    int events;         /* the epoll descriptor that wakes the agent; -1: none yet */
    int rank, launcher; /* the agent's sockets to the rank and to the launcher; -1: none, or closed */
    struct cli_pmi_flow to_rank, to_launcher;
};

/** A relay without sockets. cli_pmi_relay_serve and cli_pmi_relay_close may be called on it. */
#define CLI_PMI_RELAY_NONE ((struct cli_pmi_relay){ .events = -1, .rank = -1, .launcher = -1 })

/**
 * Open a relay between the launcher at the socket `launcher` and a rank. The relay takes ownership of
 * `launcher`. The caller passes *rank_end_out to the rank, and closes its own copy. All sockets close on
 * exec. Errors: YOKE_EINTERNAL, and then the caller still owns `launcher`.
 */
yoke_status cli_pmi_relay_open(struct cli_pmi_relay *relay, int launcher, int *rank_end_out);
/** Let `events`, an epoll descriptor, wake the agent when one of the sockets can be served. */
void cli_pmi_relay_watch(struct cli_pmi_relay *relay, int events);
/**
 * Forward the bytes that have arrived, as far as the receiver's socket buffer has room. If the rank has
 * closed its socket, the launcher's socket is closed after the rank's last bytes were forwarded. If the
 * launcher has closed its socket, the rank's socket stays open until cli_pmi_relay_hang_up. Returns false if
 * `fd` is not a socket of the relay.
 */
bool cli_pmi_relay_serve(struct cli_pmi_relay *relay, int fd);
/** Whether the launcher has closed the connection and all its bytes were forwarded, but the EOF was not. */
bool cli_pmi_relay_holds(const struct cli_pmi_relay *relay);
/** Forward the EOF of the launcher's connection to the rank. */
void cli_pmi_relay_hang_up(struct cli_pmi_relay *relay);
/** Close both sockets. */
void cli_pmi_relay_close(struct cli_pmi_relay *relay);

#endif
