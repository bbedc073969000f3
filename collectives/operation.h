/* SPDX-License-Identifier: Apache-2.0 */
/** An operation, its lanes, and the steps that an algorithm makes for them: what algorithms/ and the engine share. */
#ifndef COLLECTIVES_OPERATION_H
#define COLLECTIVES_OPERATION_H

#include <yoke/comm.h>

#include "collectives/flight.h"
#include "collectives/message.h"

struct yokei_op;
struct yokei_lane;

/** One step of a lane. Pointers are the caller's buffers, of the communicator's device. */
struct yokei_step {
    int from, to;        /* ranks of the communicator, -1: no receive, no send */
    size_t n;            /* elements */
    yoke_dtype dtype;    /* of the caller's buffers */
    yoke_dtype in, out;  /* of the message that comes and of the one that goes */
    const void *own;     /* the rank's own data, NULL: not used */
    void *store;         /* where the result goes, NULL: nowhere */
    bool use_acc;        /* the lane's accumulator is the rank's own data; beside `own` it stands for the message */
    bool store_acc;      /* the result goes there too */
    bool own_first;      /* own OP message instead of message OP own */
    bool finish;         /* the reduction ends here: divide for avg, round to dtype */
    bool canonical;      /* several ranks compute this result: NaN gets one bit pattern, for equal bits */
    const struct yokei_header *header;
    /*
     * Through shared memory: wait until `wait` of the first n_wait ranks of this host (of wait_rank alone, where that is >= 0) has
     * come to `until`; do the work; let the own `tell` be `value`. `work` takes the place of combining: where there is a message
     * too, it finds what came in lane->message, and writes what goes to lane->room.
     */
    void (*work)(const struct yokei_op *op, struct yokei_lane *lane);
    enum yokei_counter wait, tell;
    uint32_t until, value;
    int n_wait, wait_rank;
    size_t round;        /* that the work is for */
    int hop;             /* which part of it */
};

enum yokei_lane_phase { YOKEI_LANE_NEXT, YOKEI_LANE_WORK, YOKEI_LANE_COPYING, YOKEI_LANE_STORING, YOKEI_LANE_DONE };

/** One lane: its place in the algorithm, and library-owned buffers for staging. */
struct yokei_lane {
    int id;                       /* number of its message streams: the tag, the shared slots */
    enum yokei_lane_phase phase;
    size_t round;                 /* the algorithm's own counters */
    int stage;
    struct yokei_step step;
    struct yokei_transfer *transfer; /* of YOKEI_PAIRS: the one at work */
    void *acc;                    /* one chunk, of the collective lanes */
    /* Staging of device memory that the host does not see: the rank's own data on its way out, results on their way in. */
    void *own_copy, *result_copy;
    yoke_event *own_event, *result_event;
    bool own_fetched, result_pending;
    bool brings, puts;            /* of the step's work: copies from and to the device that are on their way */
    yoke_status copied;           /* whether they could be issued */
    bool checked;                 /* the message that the step waits for is here and is right */
    struct yokei_mpi_lane *mpi;   /* transport/mpi.c */
    bool rings;                   /* the step waits for this host's ranks, who ring when they have come there */
    int undrained;                /* the rank that has not taken yet what the lane sent last */
    uint32_t shm_at;              /* transport/shm.c: the send slot that comes next */
    uint32_t epoch;               /* rounds through shared memory so far, the same on all ranks */
    int seen;                     /* of the ranks of this host, so many have come to where the step waits for them */
    const void *message;          /* for `work`: the data that came, NULL: none; and where the data goes that is sent */
    void *room;
};

/** One transfer of a send, a recv or a group of them. */
struct yokei_transfer {
    bool is_send;
    int peer;
    size_t count;
    yoke_dtype dtype;
    void *data;
    struct yokei_header header;
    struct yokei_lane *lane;
    struct yokei_transfer *next; /* the next one with the same peer in the same direction */
};

/** One call of several that run as one operation. */
struct yokei_part {
    const void *send;
    void *recv;
    size_t count;
    bool staged; /* its buffers are device memory that the host does not see */
};

/** An algorithm makes the steps of an operation, lane by lane. */
struct yokei_algorithm {
    /* Fill the lane's next step and move its counters on; false when the lane has nothing more to do. */
    bool (*next)(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step);
    bool announces; /* goes through shared memory, and begins with an announcement */
    bool by_slices; /* of messages: in all_reduce each rank completes one slice of the data, so op->slices must be there */
    const char *why; /* of messages: for yoke_comm_explain, why a sum takes this way; NULL: the collective has no other way */
    /* Of messages, for the cost model: messages that follow one another, and bytes that a rank sends. Before the call *steps is size - 1, and *bytes
     * are the bytes of the rank's own data as they travel. `all` are the bytes of the whole data. NULL: both stay as they are. */
    void (*traffic)(const struct yokei_op *op, double all, double *steps, double *bytes);
};
#define YOKEI_ALGORITHM_EXTERN(ID, name, can_be_named, in_rank_order, reach) extern const struct yokei_algorithm yokei_##name;
YOKE_ALGORITHMS(YOKEI_ALGORITHM_EXTERN)
#undef YOKEI_ALGORITHM_EXTERN
/* ---- algorithms/table.c: id < YOKEI_N_ALGORITHMS ---- */
/** NULL: there is no algorithm of that number. */
const struct yokei_algorithm *yokei_algorithm(unsigned id);
enum yokei_algorithm_id yokei_algorithm_id(const struct yokei_algorithm *algorithm);
bool yokei_algorithm_can_be_named(unsigned id);
bool yokei_algorithm_adds_in_rank_order(unsigned id);
bool yokei_algorithm_is_of_messages(unsigned id);

/** How data crosses from host to host in YOKEI_HIERARCHY: see algorithms/hierarchy.c. */
enum yokei_crossing { YOKEI_CROSS_LEADERS, YOKEI_CROSS_SWAP, YOKEI_CROSS_RING, YOKEI_CROSS_CHAIN, YOKEI_CROSS_PARTS, YOKEI_CROSS_EACH };

struct yokei_op {
    struct yokei_op *next; /* in the communicator's queue, or its list of free ones */
    yoke_comm *comm;
    enum yokei_kind kind;
    yoke_dtype dtype, wire; /* of the caller's data; of partial sums on the way */
    yoke_reduction reduction;
    size_t count;           /* elements: of the whole buffer (all_reduce, broadcast) or the sum of the slices */
    int root;
    const void *send;
    void *recv;
    size_t *slices;         /* [size + 1] offsets of the ranks' slices in elements, where the kind has slices; else NULL */
    size_t *send_slices;    /* the same of what goes out, where that differs (all_to_all_v); else equal to slices */
    size_t *slices_room;    /* [2 (size + 1)], owned by the operation */
    size_t chunk;           /* elements per message, at most */
    size_t n_rounds;
    const struct yokei_algorithm *algorithm;
    uint32_t number;        /* of the collectives through shared memory; 0: it is none */
    uint32_t history;       /* of the communicator's calls, this one included */
    size_t shown_bytes;     /* of YOKEI_ONESHOT, and among leaders: what each rank shows, at most */
    enum yokei_crossing crossing; /* of YOKEI_HIERARCHY */
    size_t unit;            /* of YOKEI_HIERARCHY: slices of a chunk begin at multiples of so many elements */
    const uint32_t *before; /* of the slices whose sums the ranks, or the hierarchy's columns, divide: see yokei_slice_begin; NULL: equal ones */
    struct yokei_header header;
    struct yokei_lane **lanes, **pair_lanes; /* pair_lanes: owned by the operation, of sends and receives */
    int n_lanes, n_lanes_done;
    uint32_t n_steps;
    bool moved; /* since it was last watched */
    struct yokei_transfer *transfers; /* of YOKEI_PAIRS; owned by the operation */
    int n_transfers;
    struct yokei_part *parts; /* of a fused operation, whose buffers are `fused`; owned by the operation, like that */
    int n_parts;
    char *fused;
    bool packs, packed;     /* the parts are being copied, to `fused` or from there; they were copied to it */
    bool on_host;           /* the buffers are host memory, whatever the communicator's device */
    bool staged;            /* the buffers are device memory that the host does not see */
    yoke_event *ready, *done; /* of an asynchronous operation: begin when ready, signal done */
    yoke_event *tells;        /* the caller's event, signalled instead; such an operation begins at once. NULL: none */
    bool is_async, begun;
    atomic_bool ended;
    yoke_status status;
    struct yokei_flight_entry *entry;
    uint64_t begun_ns, progress_ns;
    uint64_t network_ns;    /* when the network was last seen to carry something, in a wait without steps */
    uint64_t probed_ns;
    bool warned;
    int waits_for;          /* rank of the communicator, of the lane that was looked at last: yokei_waits_for() */
};

/* ---- operation.c: what is asked of an operation ---- */
/** Whether ranks have fewer and longer stages than usual, because they must give each other the core. The same in all operations of a communicator. */
bool yokei_has_wide_stages(const yoke_comm *comm);
/** Of a lane's stage: what a rank shows its peers, and as much again for what it computed. */
size_t yokei_stage_bytes(const yoke_comm *comm);
/** Whether the data of all ranks, coming and going, exceeds the cache that they share: results go past it then. */
bool yokei_is_long(const struct yokei_op *op);
/** Elements of the longest slice. */
size_t yokei_longest_slice(const struct yokei_op *op);

#endif
