/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An operation, its lanes, and the steps that an algorithm makes for them. The algorithms and the engine
 * share this. engine.h explains the words.
 */
#ifndef COLLECTIVES_OPERATION_OPERATION_H
#define COLLECTIVES_OPERATION_OPERATION_H

#include <stdatomic.h>

#include <yoke/comm.h>

#include "collectives/flight/flight.h"
#include "collectives/operation/hosts.h"
#include "collectives/operation/message.h"

struct yokei_op;
struct yokei_lane;
struct yokei_algorithm;

/** One step of a lane. The pointers are the caller's buffers, in memory of the communicator's device. */
struct yokei_step {
    int from, to;       /* ranks of the communicator, -1: no receive, no send */
    size_t n;           /* number of elements */
    yoke_dtype dtype;   /* type of the caller's buffers */
    yoke_dtype in, out; /* type of the message that comes, and of the message that goes */
    const void *own;    /* the rank's own data, NULL: not used */
    void *store;        /* where the result goes, NULL: nowhere */
    /* The lane's accumulator is the rank's own data. If `own` is set too, the accumulator takes the place of
       the message. */
    bool use_acc;
    bool store_acc; /* the result also goes to the accumulator */
    bool own_first; /* own OP message instead of message OP own */
    bool finish;    /* The reduction ends in this step: divide for avg, and round to dtype. */
    /* Several ranks compute this result, so NaN gets one bit pattern and all ranks get equal bits. */
    bool canonical;
    const struct yokei_header *header;
    /*
     * For steps through shared memory. First wait until counter `wait` of the first n_wait ranks of this host
     * has reached `until`. If wait_rank >= 0, wait for that rank alone. Then do `work`, and set this rank's
     * counter `sets` to `value`.
     * `work` takes the place of combining. If the step has messages too, `work` finds the data that came in
     * lane->message, and writes the data to send to lane->room.
     */
    void (*work)(const struct yokei_op *op, struct yokei_lane *lane);
    enum yokei_counter wait, sets;
    uint32_t until, value;
    int n_wait, wait_rank;
    size_t round; /* the round that the work is for */
    int hop;      /* the part of the round */
    size_t reads; /* bytes that the work reads from the memory of other ranks; set in all_reduce */
};

enum yokei_lane_phase {
    YOKEI_LANE_NEXT,
    YOKEI_LANE_WORK,
    YOKEI_LANE_COPYING,
    YOKEI_LANE_STORING,
    YOKEI_LANE_DONE
};

/** One lane: its place in the algorithm, and buffers for staging that the library owns. */
struct yokei_lane {
    int id; /* number of the lane's message streams, which selects the MPI tag and the shared slots */
    enum yokei_lane_phase phase;
    size_t round; /* round and stage are the algorithm's own counters */
    int stage;
    struct yokei_step step;
    struct yokei_transfer *transfer; /* for YOKEI_PAIRS: the transfer that is being done */
    void *acc;                       /* accumulator of one chunk; only lanes of collectives have one */
    /* Staging of device memory that the host does not see: copies of the rank's own data on the way out,
       and of results on the way in. */
    void *own_copy, *result_copy;
    yoke_event *own_event, *result_event;
    bool own_fetched, result_pending;
    bool brings,
        puts; /* for the step's work: copies from the device, and to the device, are still on their way */
    yoke_status copied;         /* result of issuing these copies */
    bool checked;               /* the message for which the step waits is here, and is right */
    struct yokei_mpi_lane *mpi; /* transport/mpi.c */
    bool rings;    /* The step waits for ranks of this host. They wake this rank when they have come there. */
    int undrained; /* the rank that has not yet taken the lane's last message */
    uint32_t shm_at; /* transport/shm.c: the next send slot */
    uint32_t epoch;  /* number of rounds through shared memory so far, the same on all ranks */
    int seen;        /* number of this host's ranks that have come to where the step waits for them */
    const void
        *message; /* For `work`: the data that came (NULL: none), and the place for the data to send. */
    void *room;
};

/** One transfer: a send, a recv, or one of a group of them. */
struct yokei_transfer {
    bool is_send;
    int peer;
    size_t count;
    yoke_dtype dtype;
    void *data;
    struct yokei_header header;
    struct yokei_lane *lane;
    struct yokei_transfer *next; /* the next transfer with the same peer in the same direction */
};

/** One of several calls that run as one operation. */
struct yokei_part {
    const void *send;
    void *recv;
    size_t count;
    bool staged; /* its buffers are device memory that the host does not see */
};

/** How data crosses from host to host in YOKEI_HIERARCHY, see algorithms/hierarchy.c. */
enum yokei_crossing {
    YOKEI_CROSS_LEADERS,
    YOKEI_CROSS_SWAP,
    YOKEI_CROSS_RING,
    YOKEI_CROSS_HALVING,
    YOKEI_CROSS_CHAIN,
    YOKEI_CROSS_PARTS,
    YOKEI_CROSS_EACH
};

struct yokei_op {
    struct yokei_op *next; /* in the communicator's queue, or in its list of free operations */
    yoke_comm *comm;       /* algorithms only hand it on */
    /* What an algorithm knows of the communicator: this rank, the number of ranks, their hosts, and room
       for a sum's operands and results. */
    int rank, size;
    const struct yokei_hosts *hosts; /* the communicator's hosts, or its islands */
    bool regroups;                   /* the operation before it had other groups, see engine.c */
    double host_us, island_us;       /* what the cost model predicts by host and by island; 0: not compared */
    const void **inputs;             /* [size] */
    void **outputs;                  /* [size] */
    bool reproducible;               /* a sum must add in the order of the ranks */
    size_t chunk_bytes;              /* most bytes of data in a message */
    uint64_t cache_bytes;            /* the cache that the ranks of this host share */
    enum yokei_kind kind;
    yoke_dtype dtype, wire; /* type of the caller's data, and of partial sums in messages */
    yoke_reduction reduction;
    /* number of elements: of the whole buffer (all_reduce, broadcast), else the sum of the slices */
    size_t count;
    int root;
    const void *send;
    void *recv;
    size_t *slices; /* [size + 1] offsets of the ranks' slices in elements; NULL: the kind has no slices */
    /* the same for the data to send, if that differs (all_to_all_v); else equal to slices */
    size_t *send_slices;
    size_t *slices_room; /* [2 (size + 1)], owned by the operation */
    size_t chunk;        /* most elements in a message */
    size_t n_rounds;
    const struct yokei_algorithm *algorithm;
    /* number among the collectives through shared memory; 0: this one does not use shared memory */
    uint32_t number;
    uint32_t history; /* hash of the communicator's calls, this one included */
    /* for YOKEI_ONESHOT and for the hierarchy's leaders: the most bytes that each rank publishes */
    size_t published_bytes;
    double measured_bytes; /* up to so many bytes one piece is not slower, as was measured; 0: not measured */
    enum yokei_crossing crossing; /* for YOKEI_HIERARCHY */
    size_t unit; /* for YOKEI_HIERARCHY: slices of a chunk begin at multiples of this number of elements */
    /* Sums of the slices that the ranks, or the hierarchy's columns, divide among them: see
       yokei_slice_begin. NULL: equal slices. */
    const uint32_t *before;
    const uint32_t *before_plain; /* the same for ranks that do nothing but sums */
    struct yokei_header header;
    struct yokei_lane **lanes,
        **pair_lanes; /* pair_lanes: for sends and receives; the operation owns the array */
    int n_lanes, n_lanes_done;
    uint32_t n_steps;
    bool moved;                       /* something moved since the operation was last watched */
    struct yokei_transfer *transfers; /* for YOKEI_PAIRS; the operation owns them */
    int n_transfers;
    /* For an operation fused from several calls, whose buffers are `fused`. The operation owns `parts` and
       `fused`. */
    struct yokei_part *parts;
    int n_parts;
    char *fused;
    /* packs: the parts are being copied to `fused` or from there. packed: they have been copied to it. */
    bool packs, packed;
    bool on_host; /* the buffers are host memory, whatever the communicator's device */
    bool staged;  /* the buffers are device memory that the host does not see */
    yoke_event *ready,
        *done; /* for an asynchronous operation: it begins when `ready` completes, and signals `done` */
    /* The caller's event, which is signalled instead of `done`. The operation then begins at once. NULL:
       none. */
    yoke_event *completes;
    bool follows; /* it begins when `ready` is complete */
    bool is_async, begun;
    atomic_bool ended;
    yoke_status status;
    struct yokei_flight_entry *entry;
    uint64_t begun_ns, progress_ns;
    /* when the network was last seen to carry something, in a wait in which no step was done */
    uint64_t network_ns;
    uint64_t probed_ns;
    uint64_t
        lost_ns; /* since when the rank that is waited for was seen to have done its part; 0: it has not */
    bool warned;
    /* rank of the communicator for which the lane that was last looked at waits, or enum yokei_waits_for */
    int waits_for;
};

/* ---- operation.c: questions about an operation ---- */
/**
 * Whether the data of all ranks, in and out, exceeds the cache that they share. Then results are stored past
 * the cache.
 */
bool yokei_is_long(const struct yokei_op *op);
/** Whether an operation of this kind sums, or takes the least or the greatest value. */
static inline bool yokei_kind_reduces(enum yokei_kind kind)
{
    return kind == YOKEI_ALL_REDUCE || kind == YOKEI_REDUCE || kind == YOKEI_REDUCE_SCATTER;
}
static inline bool yokei_reduces(const struct yokei_op *op) { return yokei_kind_reduces(op->kind); }
/** For steps without work: they only wait, or set a counter. */
void yokei_no_work(const struct yokei_op *op, struct yokei_lane *lane);
/** Number of elements of the longest slice. */
size_t yokei_longest_slice(const struct yokei_op *op);
/**
 * Where slice j of n begins in `length` elements, at a multiple of `unit`. j == n: where the last slice ends.
 * before NULL: equal slices.
 */
size_t yokei_slice_begin(const uint32_t *before, int n, size_t length, size_t unit, int j);
/** The host of this rank, and this rank's place on it. */
static inline int yokei_own_host(const struct yokei_op *op) { return op->hosts->of[op->rank]; }
static inline int yokei_own_place(const struct yokei_op *op) { return op->hosts->at[op->rank]; }

#endif
