/* SPDX-License-Identifier: Apache-2.0 */
/* The relay between a rank and its launcher that pmi_relay.h declares. */
#include "cli/launch/pmi_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/base.h"

/* The launcher's socket may be open in another process, too, so closing alone would leave it in epoll. */
static void close_one(const struct cli_pmi_relay *relay, int *fd)
{
    if (*fd >= 0 && relay->events >= 0) epoll_ctl(relay->events, EPOLL_CTL_DEL, *fd, NULL);
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static bool is_waiting(const struct cli_pmi_flow *flow) { return flow->sent < flow->used; }

/*
 * Arm one socket in epoll: for input if the last input was forwarded, and for output if bytes are pending for
 * this socket. Events are one-shot, and the socket is armed again after each event. So a socket that waits
 * for nothing does not wake the agent, not even by EOF.
 */
static void arm(const struct cli_pmi_relay *relay, int fd, const struct cli_pmi_flow *from,
                const struct cli_pmi_flow *to)
{
    const uint32_t wanted = (is_waiting(from) ? 0u : EPOLLIN) | (is_waiting(to) ? EPOLLOUT : 0u);
    struct epoll_event event = { .events = wanted | EPOLLONESHOT, .data.fd = fd };
    if (fd < 0 || relay->events < 0 || !wanted) return;
    if (epoll_ctl(relay->events, EPOLL_CTL_MOD, fd, &event) && errno == ENOENT)
        epoll_ctl(relay->events, EPOLL_CTL_ADD, fd, &event);
}

static void arm_both(const struct cli_pmi_relay *relay)
{
    arm(relay, relay->rank, &relay->to_launcher, &relay->to_rank);
    arm(relay, relay->launcher, &relay->to_rank, &relay->to_launcher);
}

/* Send the pending bytes. Bytes for a socket that is closed, or that fails, are dropped. */
static void send_waiting(struct cli_pmi_flow *flow, int to)
{
    while (to >= 0 && is_waiting(flow)) {
        const ssize_t n = send(to, flow->bytes + flow->sent, flow->used - flow->sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) break;
        flow->sent += (size_t)n;
    }
    flow->used = flow->sent = 0;
}

/* Forward bytes from one socket to the other. Returns true at EOF. */
static bool pass(struct cli_pmi_flow *flow, int from, int to)
{
    for (int turn = 0; turn < 16; turn++) { /* a sender without end must not keep the agent here */
        send_waiting(flow, to);
        if (is_waiting(flow) || from < 0) return false;
        const ssize_t n = recv(from, flow->bytes, sizeof flow->bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return false;
        if (n <= 0) return true;
        flow->used = (size_t)n;
    }
    send_waiting(flow, to);
    return false;
}

yoke_status cli_pmi_relay_open(struct cli_pmi_relay *relay, int launcher, int *rank_end_out)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
        return yoke_fail(YOKE_EINTERNAL, "no connection between the agent and its rank: %s", strerror(errno));
    *relay = CLI_PMI_RELAY_NONE;
    relay->rank = fds[0];
    relay->launcher = launcher;
    fcntl(launcher, F_SETFD, FD_CLOEXEC);
    *rank_end_out = fds[1];
    return YOKE_OK;
}

void cli_pmi_relay_watch(struct cli_pmi_relay *relay, int events)
{
    relay->events = events;
    arm_both(relay);
}

bool cli_pmi_relay_serve(struct cli_pmi_relay *relay, int fd)
{
    if (fd < 0 || (fd != relay->rank && fd != relay->launcher)) return false;
    const bool rank_ended = pass(&relay->to_launcher, relay->rank, relay->launcher);
    const bool launcher_ended = pass(&relay->to_rank, relay->launcher, relay->rank);
    if (launcher_ended) close_one(relay, &relay->launcher);
    if (rank_ended) cli_pmi_relay_close(relay);
    arm_both(relay);
    return true;
}

bool cli_pmi_relay_holds(const struct cli_pmi_relay *relay)
{
    return relay->launcher < 0 && relay->rank >= 0 && !is_waiting(&relay->to_rank);
}

void cli_pmi_relay_hang_up(struct cli_pmi_relay *relay)
{
    if (cli_pmi_relay_holds(relay)) close_one(relay, &relay->rank);
}

void cli_pmi_relay_close(struct cli_pmi_relay *relay)
{
    close_one(relay, &relay->rank);
    close_one(relay, &relay->launcher);
}
