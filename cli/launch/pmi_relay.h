/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The agent's place between a rank and its launcher. All that the rank and the launcher say to each other in
 * PMI passes through the agent, unchanged. So the agent decides when the rank meets the end of the launcher's
 * connection. A rank that is starting MPI exits with an error of its own when it meets that end, and this
 * error could be taken for the cause of the job's failure.
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
 * Stand between the launcher at the socket `launcher`, which the relay owns from now on, and a rank. The
 * caller gives *rank_end_out to the rank, and closes it. All sockets close on exec. Errors: YOKE_EINTERNAL,
 * and then `launcher` is still the caller's.
 */
yoke_status cli_pmi_relay_open(struct cli_pmi_relay *relay, int launcher, int *rank_end_out);
/** Let `events`, an epoll descriptor, wake the agent when one of the sockets can be served. */
void cli_pmi_relay_watch(struct cli_pmi_relay *relay, int events);
/**
 * Pass on what has come, as far as the receiver has room. If the rank has closed its socket, the launcher's
 * is closed after the rank's last word. If the launcher has closed its socket, the rank's stays open until
 * cli_pmi_relay_hang_up. Returns false if `fd` is not a socket of the relay.
 */
bool cli_pmi_relay_serve(struct cli_pmi_relay *relay, int fd);
/** Whether the launcher has ended the connection, and the rank has its last word but does not know the end.
 */
bool cli_pmi_relay_holds(const struct cli_pmi_relay *relay);
/** Let the rank meet the end of the launcher's connection. */
void cli_pmi_relay_hang_up(struct cli_pmi_relay *relay);
/** Close both sockets. */
void cli_pmi_relay_close(struct cli_pmi_relay *relay);

#endif
