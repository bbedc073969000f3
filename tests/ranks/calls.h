/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls of collectives, and their expected results: every call, type, reduction and root, in place or
 * not, with even and uneven counts. The data are such that every order of summation gives the exact result.
 * All ranks draw the same numbers.
 */
#ifndef TESTS_RANKS_CALLS_H
#define TESTS_RANKS_CALLS_H

#include "tests/ranks/ranks.h"

enum { MOST_BYTES = 4 << 20, MOST_RANKS = 64, IN_GROUP = 6, GUARD = 64, SHARES = 4 };

struct place { /* a communicator, and this rank's place in it */
    yoke_comm *comm;
    int size, rank; /* rank -1: this rank is not in the communicator */
    /* from yoke_comm_alloc, if the communicator has such memory; each serves one call of a group */
    void *send, *recv;
    yoke_stream *stream; /* the stream for the calls; NULL: the calls block */
    char name[64];
};

enum what {
    ALL_REDUCE,
    REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    GATHER,
    SCATTER,
    ALL_TO_ALL,
    BARRIER,
    RING,
    N_WHATS
};
static const char *const names[] = {
    "all_reduce", "reduce",  "reduce_scatter", "all_gather", "broadcast",
    "gather",     "scatter", "all_to_all",     "barrier",    "send and recv in a ring"
};

struct call {
    enum what what;
    yoke_dtype dtype;
    yoke_reduction op;
    int root;
    bool in_place, uneven;
    uint32_t salt;
    size_t counts[MOST_RANKS],
        at[MOST_RANKS + 1]; /* counts of the slices; counts[0] is the count of a call without slices */
    char *send, *recv, *private_send, *private_recv;
};

/* The value of element i of the data of rank r (a rank of the communicator). */
static double value(const struct call *c, const struct place *p, int r, size_t i)
{
    const size_t mixed = i * 7 + (size_t)r * 13 + i / 61 + c->salt;
    const bool is_unsigned = c->dtype == YOKE_U8;
    switch (c->op) {
    case YOKE_PROD: return r < 6 && mixed % 3 == 0 ? 2 : 1;
    case YOKE_AVG: return (double)((mixed % 4) * (size_t)p->size);
    case YOKE_SUM: return (double)(mixed % 13) - (is_unsigned ? 0 : 6);
    default: return (double)(mixed % 61) - (is_unsigned ? 0 : 30);
    }
}

static double folded(const struct call *c, const struct place *p, size_t i)
{
    double result = value(c, p, 0, i);
    for (int r = 1; r < p->size; r++) {
        const double x = value(c, p, r, i);
        if (c->op == YOKE_SUM || c->op == YOKE_AVG) result += x;
        if (c->op == YOKE_PROD) result *= x;
        if ((c->op == YOKE_MIN && x < result) || (c->op == YOKE_MAX && x > result)) result = x;
    }
    return c->op == YOKE_AVG ? result / p->size : result;
}

static bool has_slices(const struct call *c)
{
    return c->what == REDUCE_SCATTER || c->what == ALL_GATHER || c->what == GATHER || c->what == SCATTER
           || c->what == ALL_TO_ALL;
}

static void draw_call(struct call *c, const struct place *p)
{
    *c = (struct call){ .what = (enum what)draw(N_WHATS),
                        .dtype = (yoke_dtype)draw(YOKE_N_DTYPES),
                        .op = (yoke_reduction)draw(YOKE_N_REDUCTIONS),
                        .root = (int)draw((uint32_t)p->size),
                        .in_place = draw(2),
                        .uneven = draw(2),
                        .salt = draw(1000),
                        .private_send = c->private_send,
                        .private_recv = c->private_recv };
    c->send = c->private_send;
    c->recv = c->private_recv;
    const bool whole_number = c->dtype == YOKE_I8 || c->dtype == YOKE_U8 || c->dtype == YOKE_I32
                              || c->dtype == YOKE_I64;
    if (c->op == YOKE_AVG && whole_number) c->op = YOKE_SUM;
    const size_t bytes = yoke_dtype_bytes(c->dtype),
                 scale = (size_t)1 << draw(18); /* uniform on a logarithmic scale */
    const size_t most = MOST_BYTES / bytes / (has_slices(c) ? (size_t)p->size : 1) - 1;
    for (int r = 0; r < p->size; r++) {
        size_t drawn = scale + draw((uint32_t)scale) - draw(2);
        if (drawn > most) drawn = most;
        c->counts[r] = r && !c->uneven ? c->counts[0] : c->uneven && draw(4) == 0 ? 0 : drawn;
        c->at[r + 1] = c->at[r] + c->counts[r];
    }
    if (!has_slices(c) && draw(16) == 0) c->counts[0] = 0;
    if (c->what == ALL_TO_ALL) c->in_place = false;
}

/* The number of elements that rank a sends to rank b in an uneven all_to_all. */
static size_t pair_count(const struct call *c, int a, int b)
{
    return c->uneven ? (c->counts[a] + (size_t)b * 3) / 2 % (c->counts[a] + 1) : c->counts[0];
}

/* The address of this rank's own data. In a call in place, it is in recv. */
static char *own_data(const struct call *c, const struct place *p)
{
    const size_t bytes = yoke_dtype_bytes(c->dtype);
    const bool is_root = p->rank == c->root;
    if (!c->in_place) return c->send;
    switch (c->what) {
    case ALL_REDUCE: return c->recv;
    case REDUCE:
    case BROADCAST: return is_root ? c->recv : c->send;
    case ALL_GATHER: return c->recv + c->at[p->rank] * bytes;
    case GATHER: return is_root ? c->recv + c->at[p->rank] * bytes : c->send;
    default: return c->send;
    }
}

static size_t own_count(const struct call *c, const struct place *p)
{
    switch (c->what) {
    case REDUCE_SCATTER:
    case SCATTER: return c->at[p->size];
    case ALL_GATHER:
    case GATHER: return c->counts[p->rank];
    case BARRIER: return 0;
    default: return c->counts[0];
    }
}

static void prepare(struct call *c, const struct place *p)
{
    const size_t bytes = yoke_dtype_bytes(c->dtype);
    memset(c->recv, 0x5a, MOST_BYTES + GUARD);
    if (c->what == ALL_TO_ALL) {
        size_t at = 0;
        for (int r = 0; r < p->size; r++)
            for (size_t i = 0; i < pair_count(c, p->rank, r); i++, at++)
                yokei_store(c->dtype, c->send, (int64_t)at, value(c, p, p->rank * p->size + r, i));
        return;
    }
    char *own = own_data(c, p);
    for (size_t i = 0, n = own_count(c, p); i < n; i++)
        yokei_store(c->dtype, own + i * bytes, 0, value(c, p, p->rank, i));
}

/* The address of the result of a scatter or reduce_scatter. */
static char *slice_result(const struct call *c, const struct place *p)
{
    const bool lies_in_send = c->in_place && (c->what == REDUCE_SCATTER || p->rank == c->root);
    return lies_in_send ? c->send + c->at[p->rank] * yoke_dtype_bytes(c->dtype) : c->recv;
}

static yoke_status exchange(const struct call *c, const struct place *p)
{
    size_t out[MOST_RANKS], in[MOST_RANKS];
    if (!c->uneven) return yoke_all_to_all(c->send, c->recv, c->counts[0], c->dtype, p->comm, p->stream);
    for (int r = 0; r < p->size; r++) {
        out[r] = pair_count(c, p->rank, r);
        in[r] = pair_count(c, r, p->rank);
    }
    return yoke_all_to_all_v(c->send, out, c->recv, in, c->dtype, p->comm, p->stream);
}

static yoke_status ring(const struct call *c, const struct place *p)
{
    if (p->size == 1) return YOKE_OK;
    YOKE_TRY(yoke_group_start());
    const yoke_status a = yoke_send(c->send, c->counts[0], c->dtype, (p->rank + 1) % p->size, p->comm,
                                    p->stream);
    const yoke_status b = yoke_recv(c->recv, c->counts[0], c->dtype, (p->rank + p->size - 1) % p->size,
                                    p->comm, p->stream);
    const yoke_status end = yoke_group_end();
    return a ? a : b ? b : end;
}

static yoke_status issue(const struct call *c, const struct place *p)
{
    const char *own = own_data(c, p);
    const size_t n = c->counts[0];
    const bool is_root = p->rank == c->root;
    yoke_comm *comm = p->comm;
    switch (c->what) {
    case ALL_REDUCE: return yoke_all_reduce(own, c->recv, n, c->dtype, c->op, comm, p->stream);
    case REDUCE:
        return yoke_reduce(own, is_root ? c->recv : NULL, n, c->dtype, c->op, c->root, comm, p->stream);
    case REDUCE_SCATTER:
        return c->uneven
                   ? yoke_reduce_scatter_v(c->send, slice_result(c, p), c->counts, c->dtype, c->op, comm,
                                           p->stream)
                   : yoke_reduce_scatter(c->send, slice_result(c, p), n, c->dtype, c->op, comm, p->stream);
    case ALL_GATHER:
        return c->uneven ? yoke_all_gather_v(own, c->recv, c->counts, c->dtype, comm, p->stream)
                         : yoke_all_gather(own, c->recv, n, c->dtype, comm, p->stream);
    case BROADCAST:
        return yoke_broadcast(is_root ? own : NULL, c->recv, n, c->dtype, c->root, comm, p->stream);
    case GATHER:
        return c->uneven ? yoke_gather_v(own, is_root ? c->recv : NULL, c->counts, c->dtype, c->root, comm,
                                         p->stream)
                         : yoke_gather(own, is_root ? c->recv : NULL, n, c->dtype, c->root, comm, p->stream);
    case SCATTER:
        return c->uneven ? yoke_scatter_v(is_root ? c->send : NULL, slice_result(c, p), c->counts, c->dtype,
                                          c->root, comm, p->stream)
                         : yoke_scatter(is_root ? c->send : NULL, slice_result(c, p), n, c->dtype, c->root,
                                        comm, p->stream);
    case ALL_TO_ALL: return exchange(c, p);
    case BARRIER: return yoke_barrier(comm, p->stream);
    default: return ring(c, p);
    }
}

/*
 * Compare n elements at `got` with the data of rank r, from element `first` on. r < 0 means the reduction
 * over all ranks.
 */
static bool same(const struct call *c, const struct place *p, const char *got, size_t n, int r, size_t first)
{
    const size_t bytes = yoke_dtype_bytes(c->dtype);
    for (size_t i = 0; i < n; i++) {
        const double want = r < 0 ? folded(c, p, first + i) : value(c, p, r, first + i),
                     have = yokei_load(c->dtype, got + i * bytes, 0);
        if (want == have) continue;
        fprintf(stderr, "# rank %d: %s of %s (%s, root %d, %s%s) on %s: element %zu of %zu is %g, not %g\n",
                ranks_rank, names[c->what], yoke_dtype_name(c->dtype), yoke_reduction_name(c->op), c->root,
                c->in_place ? "in place" : "out of place", c->uneven ? ", uneven" : "", p->name, first + i, n,
                have, want);
        return false;
    }
    return true;
}

/* Whether the memory after the `n` elements of the result is unchanged. */
static bool is_guarded(const struct call *c, const struct place *p, size_t n)
{
    if (c->recv[n * yoke_dtype_bytes(c->dtype)] == 0x5a) return true;
    fprintf(stderr, "# rank %d: %s of %s (%s) on %s: wrote behind %zu elements\n", ranks_rank, names[c->what],
            yoke_dtype_name(c->dtype), c->in_place ? "in place" : "out of place", p->name, n);
    return false;
}

static bool is_right(const struct call *c, const struct place *p)
{
    const size_t bytes = yoke_dtype_bytes(c->dtype);
    const bool is_root = p->rank == c->root;
    bool ok = true;
    size_t at = 0;
    switch (c->what) {
    case REDUCE:
        if (!is_root) return true;
        /* fallthrough */
    case ALL_REDUCE: return same(c, p, c->recv, c->counts[0], -1, 0) && is_guarded(c, p, c->counts[0]);
    case REDUCE_SCATTER: return same(c, p, slice_result(c, p), c->counts[p->rank], -1, c->at[p->rank]);
    case GATHER:
        if (!is_root) return true;
        /* fallthrough */
    case ALL_GATHER:
        for (int r = 0; r < p->size; r++)
            ok = ok && same(c, p, c->recv + c->at[r] * bytes, c->counts[r], r, 0);
        return ok && is_guarded(c, p, c->at[p->size]);
    case BROADCAST: return same(c, p, c->recv, c->counts[0], c->root, 0) && is_guarded(c, p, c->counts[0]);
    case SCATTER: return same(c, p, slice_result(c, p), c->counts[p->rank], c->root, c->at[p->rank]);
    case ALL_TO_ALL:
        for (int r = 0; r < p->size; at += pair_count(c, r, p->rank), r++)
            ok = ok && same(c, p, c->recv + at * bytes, pair_count(c, r, p->rank), r * p->size + p->rank, 0);
        return ok && is_guarded(c, p, at);
    case BARRIER: return true;
    default: return p->size == 1 || same(c, p, c->recv, c->counts[0], (p->rank + p->size - 1) % p->size, 0);
    }
}

#endif
