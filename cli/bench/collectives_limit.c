/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit that no implementation can exceed, for messages between hosts. triad.c has the limit for memory.
 */
#include <sched.h>
#include <stdlib.h>

#include "cli/bench/collectives.h"
#include "core/base/base.h"

static yoke_status exchange_plain(MPI_Comm comm, char *memory, size_t bytes, int left, int right)
{
    const uint64_t end = yokei_now_ns() + 60000000000ull;
    char *in = memory, *out = memory + 2 * bytes;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int code = 0, done = 0;
    code |= PMPI_Irecv(in, (int)bytes, MPI_BYTE, left, 0, comm, &requests[0]);
    code |= PMPI_Irecv(in + bytes, (int)bytes, MPI_BYTE, right, 1, comm, &requests[1]);
    code |= PMPI_Isend(out, (int)bytes, MPI_BYTE, right, 0, comm, &requests[2]);
    code |= PMPI_Isend(out + bytes, (int)bytes, MPI_BYTE, left, 1, comm, &requests[3]);
    while (!code && !done) {
        code = PMPI_Testall(4, requests, &done, statuses);
        if (!done) /* a rank that spins soon uses up its share of a core that other processes want too */
            sched_yield();
        if (!done && yokei_now_ns() > end)
            return yoke_fail(
                YOKE_ETIMEOUT,
                "%zu bytes to the next host did not arrive in 60 s: the limit cannot be measured", bytes);
    }
    return code ? yoke_fail(YOKE_EBACKEND, "MPI_Testall failed: the limit cannot be measured") : YOKE_OK;
}

/*
 * The ranks that exchange messages. `left` and `right` are this rank's partners on the hosts before and
 * behind its own. -1: this rank exchanges no messages.
 */
struct link {
    MPI_Comm comm;
    yoke_comm *control;
    char *memory;
    int n_senders, left, right; /* n_senders: ranks of each host that send */
};

/* Rank number `place` on a host, or -1. */
static int rank_at(const int host_of[], int size, int host, int place)
{
    int r = 0;
    for (; r < size; r++)
        if (host_of[r] == host && place-- == 0) return r;
    return -1;
}

static void choose_partners(struct link *l, const int host_of[], int n_hosts)
{
    const int rank = yoke_comm_rank(l->control), size = yoke_comm_size(l->control), host = host_of[rank];
    int place = 0;
    while (rank_at(host_of, size, host, place) != rank) place++;
    l->left = place < l->n_senders ? rank_at(host_of, size, (host + n_hosts - 1) % n_hosts, place) : -1;
    l->right = place < l->n_senders ? rank_at(host_of, size, (host + 1) % n_hosts, place) : -1;
}

static yoke_status turn(const struct link *l, size_t bytes, double *seconds_out)
{
    YOKE_TRY(yoke_barrier(l->control, NULL));
    const uint64_t begin = yokei_now_ns();
    if (l->left >= 0) YOKE_TRY(exchange_plain(l->comm, l->memory, bytes, l->left, l->right));
    *seconds_out = (double)(yokei_now_ns() - begin) * 1e-9;
    return yoke_all_reduce(seconds_out, seconds_out, 1, YOKE_F64, YOKE_MAX, l->control, NULL);
}

enum { LINK_LEAST = 64 << 10, LINK_MOST = 4 << 20 };

/*
 * Messages become longer until an exchange takes long enough, so that a slow link does not take minutes. The
 * fastest turn counts, because the result is a limit.
 */
static yoke_status measure_link(const struct link *l, double *rate_out)
{
    enum { TURNS = 9, FEW = 3 };
    double times[TURNS], seconds;
    size_t bytes = LINK_LEAST;
    for (;; bytes *= 4) {
        YOKE_TRY(turn(l, bytes, &seconds));
        if (bytes >= LINK_MOST || seconds > 0.05) break;
    }
    const int n = seconds > 0.3 ? FEW : TURNS;
    for (int i = 0; i < n; i++) YOKE_TRY(turn(l, bytes, &times[i]));
    *rate_out = 2.0 * (double)bytes * l->n_senders
                / bench_summary(times, n).least; /* two messages in each direction */
    return YOKE_OK;
}

yoke_status bench_links(MPI_Comm comm, yoke_comm *control, const int host_of[], double *rate_out)
{
    const int size = yoke_comm_size(control);
    int n_hosts = 0, least = size;
    for (int r = 0; r < size; r++) n_hosts = YOKE_MAX(n_hosts, host_of[r] + 1);
    for (int h = 0; h < n_hosts; h++) {
        int n = 0;
        while (rank_at(host_of, size, h, n) >= 0) n++;
        least = YOKE_MIN(least, n);
    }
    struct link l = { .comm = comm, .control = control, .memory = calloc(4, LINK_MOST) };
    yoke_status status = l.memory ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no memory for four messages of 4 MiB");
    double best = 0;
    for (l.n_senders = 1; !status; l.n_senders = least) {
        double rate = 0;
        choose_partners(&l, host_of, n_hosts);
        status = measure_link(&l, &rate);
        best = YOKE_MAX(best, rate);
        if (l.n_senders == least) break;
    }
    if (status != YOKE_ETIMEOUT) free(l.memory); /* else messages may still arrive in it */
    if (!status) *rate_out = best;
    return status;
}
