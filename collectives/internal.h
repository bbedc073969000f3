/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The inside of libyoke-comm.
 *
 * A communicator works on one operation at a time, in the order in which they were issued; different communicators
 * work side by side. An operation runs on up to YOKEI_LANES lanes. A lane is a small sequential machine: it takes the
 * next step from the operation's algorithm, waits until what the step needs is there, does it, and takes the next. A
 * step is at most: receive a message, combine it with the rank's own data, store the result, send it. Lanes advance
 * independently, which is what keeps several chunks in flight. Messages between two ranks in one lane keep their order,
 * and every message carries the 64-byte header of the call that it belongs to.
 *
 *   call.c (arguments) -> engine.c (operations, lanes, steps) -> transport/ (messages)
 *                             |-> algorithms/ (which steps)   |-> verdict.c (who is to blame when nothing moves)
 */
#ifndef COLLECTIVES_INTERNAL_H
#define COLLECTIVES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <stdlib.h>

#include <yoke/comm.h>

#include "collectives/flight.h"
#include "core/base/base.h"

enum {
    YOKEI_LANES = 8,          /* of the collectives; lane number YOKEI_LANES carries send and recv */
    YOKEI_LANE_KINDS = 16,    /* tags per communicator: lanes, and CONTROL */
    YOKEI_LANE_PAIR = YOKEI_LANES,
    YOKEI_LANE_CONTROL = YOKEI_LANES + 1,
    YOKEI_SLOTS = 2,          /* send slots per lane */
    YOKEI_RECENT = 64,        /* calls remembered for the call check */
    YOKEI_PAIR_CHUNK = 64 << 10,
    /* Collectives through shared memory, all of whose ranks see each other's segments. */
    YOKEI_SHARED_LANES = 4,          /* of the lanes */
    /* Towards other hosts more: what is in flight must keep the wire busy while ranks wait for a core. Over 1 Gbit/s, 4 ranks a host on
       2 cores, 8 lanes were 1.3 times as fast as 4. */
    YOKEI_CROSS_LANES = 8,
    YOKEI_STAGE_BYTES = 256 << 10,   /* per lane: what a rank shows its peers, and as much again for what it computed */
    YOKEI_ONESHOT_BYTES = 64 << 10,  /* of a rank's data in one piece, at most */
    YOKEI_INLINE_BYTES = 48,         /* that lie beside the announcement */
    YOKEI_MOST_SHRUNK = 1024,        /* ranks of a communicator that can be shrunk */
};

/** What a message says of the call that it belongs to; compared field by field on arrival. */
struct yokei_header {
    uint32_t magic;    /* and version of this format */
    uint32_t comm;     /* uid of the communicator */
    uint32_t sequence; /* of the communicator's collectives, from 1; of the pair's messages for send and recv */
    uint8_t kind, dtype, reduction, algorithm;
    int32_t root;
    uint32_t counts_hash;
    uint64_t count;
    uint32_t history;  /* of all collectives before this one */
    /* The call before this one: named when `history` differs. */
    int32_t last_root;
    uint64_t last_count;
    uint8_t last_kind, last_dtype, last_reduction, last_algorithm;
    /* What differs between the messages of one call. */
    uint32_t number;   /* of those from this rank to that one in this lane, from 1 */
    uint32_t bytes;    /* behind the header */
    uint32_t sum;      /* of all before it; with YOKE_CHECK_FULL of what is behind it too */
};
_Static_assert(sizeof(struct yokei_header) == 64, "the header of a message has 64 bytes");

/**
 * A rank's announcement of a collective through shared memory; two of them in turn. Whoever comes to number n has done with
 * n - 1, so a rank that has seen n - 1 of all others may overwrite its n - 2.
 */
struct yokei_post {
    _Alignas(64) _Atomic uint32_t number; /* of the communicator's collectives through shared memory; written last */
    uint32_t history;                     /* of the calls, this one included: equal where they match */
    uint64_t spare;
    char data[YOKEI_INLINE_BYTES];
    struct yokei_header header;
    /* Of YOKEI_DIRECT: what was shared and freed so far, and where the buffers lie in it; id 0: elsewhere. */
    uint32_t allocations, freed, send_id, recv_id;
    uint64_t send_at, recv_at;
};

/** Memory that all ranks see; base[r] is rank r's part as this rank sees it, NULL where it does not. */
struct yokei_allocation {
    struct yokei_allocation *next;
    uint32_t id;
    size_t bytes;
    char **base;
};

/** How far a rank has come in one lane, by rounds; GIVEN: by numbers of collectives. Only its owner writes it. */
enum yokei_counter { YOKEI_NOTHING, YOKEI_POSTED, YOKEI_STAGED, YOKEI_REDUCED, YOKEI_PASSED, YOKEI_GIVEN, YOKEI_N_COUNTERS };
struct yokei_counters {
    _Alignas(64) _Atomic uint32_t at[YOKEI_N_COUNTERS];
};

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

enum yokei_lane_phase { YOKEI_LANE_NEXT, YOKEI_LANE_WORK, YOKEI_LANE_STORING, YOKEI_LANE_DONE };

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
    bool checked;                 /* the message that the step waits for is here and is right */
    struct yokei_mpi_lane *mpi;   /* transport/mpi.c */
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
    struct yokei_transfer *next; /* the next one with the same peer in the same direction */
};

/** One call of several that run as one operation. */
struct yokei_part {
    const void *send;
    void *recv;
    size_t count;
};

/** An algorithm makes the steps of an operation, lane by lane. */
struct yokei_algorithm {
    /* Fill the lane's next step and move its counters on; false when the lane has nothing more to do. */
    bool (*next)(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step);
    bool announces; /* goes through shared memory, and begins with an announcement */
};
extern const struct yokei_algorithm yokei_ring, yokei_doubling, yokei_chain, yokei_dissemination, yokei_pairs, yokei_oneshot,
    yokei_slices, yokei_linear, yokei_direct, yokei_exchange, yokei_hierarchy;
const struct yokei_algorithm *yokei_algorithm(unsigned id);
enum yokei_algorithm_id yokei_algorithm_id(const struct yokei_algorithm *algorithm);

/** How data crosses from host to host in YOKEI_HIERARCHY: see algorithms/hierarchy.c. */
enum yokei_crossing { YOKEI_CROSS_LEADERS, YOKEI_CROSS_SWAP, YOKEI_CROSS_RING, YOKEI_CROSS_CHAIN, YOKEI_CROSS_PARTS };

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
    bool on_host;           /* the buffers are host memory, whatever the communicator's device */
    bool staged;            /* the buffers are device memory that the host does not see */
    yoke_event *ready, *done; /* of an asynchronous operation: begin when ready, signal done */
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

/** What every rank tells every other when a communicator is made. */
struct yokei_peer_info {
    char host[64];
    char name[32];
    uint64_t nonce, start_time;
    uint64_t host_id;        /* ranks whose numbers differ share nothing */
    int32_t pid, world_rank;
    int32_t flight_fd;       /* of the record, when it lies in a memfd; -1: in the run directory */
    int32_t segment_fd;      /* of the shared slots, -1: none */
    uint64_t segment_nonce;
    uint32_t draw;           /* rank 0's becomes the uid of the communicator */
    uint32_t next_context;
    int32_t status;          /* what failed on this rank so far */
    char reason[192];        /* of that, or, without a failure, why there is no segment */
    /* The configuration, compared. */
    uint32_t version, accum, reproducible, check, staged;
    int32_t algorithm;
    int64_t timeout_ms, stall_ms;
    uint64_t chunk_bytes;
    uint32_t costs;          /* a hash of those that were given, 0: measured */
    uint64_t cores[16];      /* bit c: may run on processor c of its host */
    int32_t n_cores;         /* of its host, that it knows the job to use: at least its own */
};

/** A rank's word in yoke_comm_shrink; two of them in turn, since all come to number n before anybody comes to n + 1. */
struct yokei_shrink_post {
    _Alignas(64) _Atomic uint32_t number;      /* of the shrinks of this communicator; written last */
    _Atomic uint64_t without[YOKEI_MOST_SHRUNK / 64]; /* bit r: leave rank r out; bits only come */
    struct yokei_peer_info info;
};

/** A rank of the communicator, as seen from here. */
struct yokei_peer {
    struct yokei_peer_info info;
    const struct yokei_flight_file *flight; /* NULL: on another host */
    const struct yokei_transport *transport, *beneath; /* the second is what transport/inject.c lies around, else the same */
    uint32_t sent[YOKEI_LANES + 1], received[YOKEI_LANES + 1]; /* messages, per lane */
    void *segment;                           /* its shared slots, mapped; NULL: none */
    uint32_t taken[YOKEI_LANES + 1];         /* messages read from there, per lane */
    uint32_t pair_sent, pair_received;       /* sequence numbers of send and recv */
    const struct yokei_flight_file *far;     /* of a rank on another host with whom the run directory is shared: what its record said; NULL: unknown */
    uint64_t far_ns;                         /* when that was read */
    struct yokei_beats beats;                /* of its agent there */
    uint64_t suspect_ns;                     /* since when it looks stopped or dead */
    char suspect_state;
    /* What it answered last, when it is on another host. */
    uint64_t view_ns;
    int32_t view_waits_for, view_state;
    uint32_t view_sequence;
    uint64_t view_moved_ns;                  /* by its clock: only that it changes matters */
    /* Where it stood when it was seen last, since when, and when that was. */
    struct { uint64_t place, since_ns, looked_ns; } stand;
};

/** Which ranks see each other's memory: the same on all ranks. Hosts are numbered by their lowest rank. */
struct yokei_hosts {
    int n;                   /* 0: the ranks form no such groups, because some see others that do not see each other */
    int least, most;         /* ranks on a host */
    bool in_order;           /* host by host the ranks follow each other */
    int *of, *at;            /* [size] a rank's host, and its place on it */
    int *first, *ranks;      /* the ranks of host h are ranks[first[h]..first[h + 1]), ascending */
};

/** How messages get from one rank to another. A lane has at most one message at a time in each function's hands. */
struct yokei_transport {
    const char *name;
    /* Room for the lane's next message to `to`; *room_out NULL when there is none yet. */
    yoke_status (*reserve)(yoke_comm *comm, struct yokei_lane *lane, int to, void **room_out);
    /* Send what was written there. */
    yoke_status (*post)(yoke_comm *comm, struct yokei_lane *lane, int to, size_t bytes);
    /* The next message from `from`; *message_out NULL when it is not there yet. */
    yoke_status (*poll)(yoke_comm *comm, struct yokei_lane *lane, int from, const void **message_out, size_t *bytes_out);
    /* The message was read. */
    void (*release)(yoke_comm *comm, struct yokei_lane *lane, int from);
    /* Whether all that the lane sent is on its way without help from this rank. */
    yoke_status (*drained)(yoke_comm *comm, struct yokei_lane *lane, bool *drained_out);
};
extern const struct yokei_transport yokei_mpi_transport, yokei_shm_transport, yokei_inject_transport;

/** What the parts of collectives take: the worst of all ranks, all of them at work at once. 0: not measured. */
struct yokei_costs {
    double sync_us;       /* until each rank has seen an announcement of every other, through shared memory */
    double shared_gbps;   /* bytes that a rank puts down, sums and picks up there, 1e9 per second, while they fit the caches */
    double long_gbps;     /* and when they do not */
    double sum_gbps;      /* bytes of operands summed in the caches */
    double message_us;    /* a small message from one rank to another */
    double message_gbps;  /* bytes from each rank to the next, all at once */
    double oneshot_bytes; /* up to which one shot is not slower than slices */
};

/** Sends and receives of one set of processes: one duplicate of MPI's communicator serves all of Yoke's over it. */
struct yokei_process_set {
    struct yokei_process_set *next;
    MPI_Comm mpi;
    uint32_t next_context;
    int n_comms;
};

/** All that the process has once. */
struct yokei_process {
    pthread_mutex_t lock;     /* of everything below, of every communicator, and of all calls of MPI */
    struct yokei_process_set *sets;
    yoke_comm *comms;
    int n_comms;
    bool faulted;             /* an operation failed: MPI is not finalised any more */
    bool left;                /* MPI's launcher was told that this rank is done: neither is it finalised then */
    bool any_thread;          /* MPI_THREAD_MULTIPLE */
    bool is_witness;          /* the record is in a folder, and there is no agent */
    pthread_t main_thread;    /* that made the first communicator */
    struct yokei_flight_file *flight;
    int flight_fd, world_rank, n_world;
    uint64_t nonce, start_time;
    char host[64], run_dir[4096];
    uint64_t l3_bytes;
    int n_cores;              /* of this host, that the job is known to use */
    /* The progress thread, for asynchronous operations. */
    pthread_t thread;
    pthread_cond_t wake;
    bool thread_runs, thread_ends;
    int n_async;              /* operations that it looks after */
};
extern struct yokei_process yokei_process;

struct yoke_comm {
    struct yoke_comm *next;
    struct yokei_process_set *set;
    uint32_t context;         /* its part of the tags of the process set */
    uint32_t uid;             /* a number that rank 0 drew: tells it from all others, in messages and records */
    int rank, size;
    int room;                 /* entries of the arrays below, at least `size`; the layout of shared memory goes by it */
    int *set_rank;            /* [size] rank of the process set */
    char name[32];
    yoke_device *device;      /* NULL: host memory */
    yoke_stream *copy_stream; /* of staged copies */
    enum yoke_accum accum;
    enum yoke_reproducible reproducible;
    enum yoke_wait wait_policy;
    struct yokei_wait wait;
    int64_t timeout_ms, stall_ms;
    size_t chunk_bytes;       /* of a message's data, at most; a multiple of 64 */
    bool chunk_is_forced;
    int forced_algorithm;     /* -1: chosen by size */
    bool no_shared;
    enum yoke_check check;
    bool all_shared;           /* every pair of ranks shares slots */
    struct yokei_hosts hosts;
    const int *local;          /* [n_local] the ranks whose memory this one sees, itself included; alone, where hosts.n is 0 */
    int n_local;
    bool any_staged;           /* some rank's device memory is not seen by its host */
    uint32_t n_shared;         /* collectives through shared memory so far */
    uint32_t n_shrinks;        /* calls of yoke_comm_shrink so far */
    struct yokei_layout { size_t mailboxes, flags, slots, pair_slots, posts, counters, oneshot, stages, bytes, slot_bytes, pair_slot_bytes; } layout;
    const void **inputs;       /* [size] room for a sum's operands */
    void **outputs;            /* [size] and for its results */
    struct yokei_costs costs;
    bool costs_given;          /* by the configuration, not measured */
    struct yokei_allocation *allocations;
    uint32_t n_allocations, n_freed; /* ever */
    int n_on_host;             /* ranks of the job */
    int n_cores;               /* that the communicator's ranks of this host may run on together */
    struct yokei_peer *peers; /* [size] */
    struct yokei_lane lanes[YOKEI_LANES], **pair_send, **pair_recv; /* [size], made when first used */
    struct yokei_lane *lane_list[YOKEI_LANES];
    struct yokei_op *queue, **queue_end, *free_ops;
    uint32_t sequence, history;
    struct yokei_header recent[YOKEI_RECENT]; /* of the calls begun, by sequence */
    struct yokei_segment *segment; /* this rank's shared slots */
    int segment_fd;
    char no_segment[128];     /* why there is none */
    uint64_t segment_nonce;
    struct yokei_mpi_control *control;
    struct yokei_inject *inject; /* NULL: messages are left alone */
    atomic_int error;         /* yoke_status, sticky */
    char error_text[1024];
    int culprit;              /* rank of the job that the error names */
    uint64_t broken_ns;       /* when MPI reported an error; 0: it did not */
    char broken_text[512];
    bool untold;              /* it failed by a thread that may not call MPI: the others are told later */
    uint64_t watched_ns, proc_ns;
    uint64_t far_ns, network_ns; /* when other hosts' records, and the network, were last looked at */
    int next_far;              /* whose record on another host is looked at next */
    uint64_t published_ns;     /* when this rank's record was sent to the other hosts */
    uint32_t n_polls;
    bool watch_soon;          /* its waiter sleeps between two looks */
};

/* ---- witness.c: which rank of this host ends first, for records that no agent writes to ---- */
/** Watch a rank of this host, whose record is in the run directory, from now on. Without success nothing is known; that is no error. */
void yokei_witness_add(int world_rank);
/** A rank that is waited for has the mark of the dead: note it now, without waiting for the thread's turn. */
void yokei_witness_glance(void);
void yokei_witness_end(void);

/* ---- process.c: the process's own state, creation of its flight record ---- */
yoke_status yokei_process_begin(void);
void yokei_process_end(void); /* when the last communicator is gone */
/** Start the progress thread, if it does not run, and wake it. The lock is held. */
yoke_status yokei_thread_start(void);
/** End it, if it runs. The lock is not held. */
void yokei_thread_end(void);
/** yoke_all_gather of bytes in host memory, whatever the communicator's device. The lock is not held. */
yoke_status yokei_gather_on_host(yoke_comm *comm, const void *mine, void *all, size_t bytes);
/** yoke_all_reduce of host memory in place, likewise. */
yoke_status yokei_reduce_on_host(yoke_comm *comm, void *data, size_t count, yoke_dtype dtype, yoke_reduction op);
/** The barrier of yoke_comm_destroy. */
yoke_status yokei_final_barrier(yoke_comm *comm);

/* ---- comm.c ---- */
/** A communicator that nobody else knows of yet. With an error *comm_out may be set: the others still have to hear of it. */
yoke_status yokei_comm_new(int rank, int size, yoke_device *device, const struct yoke_comm_config *config, yoke_comm **comm_out);
/** Put it into use, or with an error take it back. The lock is held. */
yoke_status yokei_comm_enter(yoke_comm *comm, yoke_status status, yoke_comm **comm_out);
/** For who reads the flight record: its name, and this rank's number in it. From then on it is the caller's. */
void yokei_comm_record(const yoke_comm *comm);
void yokei_comm_free(yoke_comm *comm);
/** Whether yoke_mpi_stop did without MPI_Finalize, or gave up waiting for it. */
bool yokei_finalize_was_left(void);
/** What a communicator made from this one inherits. */
struct yoke_comm_config yokei_comm_config(const yoke_comm *comm, const char *name);

/* ---- leave.c ---- */
/**
 * End MPI without MPI_Finalize, where several hosts take part and the launcher is MPICH's: when all ranks have come here.
 * False: MPI_Finalize is to be called.
 */
bool yokei_leave_launcher(void);

/* ---- setup.c: what the ranks tell each other when a communicator is made ---- */
/** Collective. `status` is what this rank came to so far: all ranks fail when one has. */
yoke_status yokei_setup(yoke_comm *comm, MPI_Comm mpi_comm, yoke_status status);
/**
 * The same over a communicator that works: members[r] is the rank there of rank r here. All of parent's ranks call; comm is NULL
 * for one that is to be in no new communicator.
 */
yoke_status yokei_setup_within(yoke_comm *comm, yoke_comm *parent, const int members[], yoke_status status);
/** What this rank tells the others, and what they have told: fills in peer r and maps its record. */
void yokei_describe_self(yoke_comm *comm, struct yokei_peer_info *info, yoke_status status);
void yokei_map_record(yoke_comm *comm, int r);
/** From what all have told: whether the communicator can be, and its number and uid; the same on all ranks. */
yoke_status yokei_agree(yoke_comm *comm);
/** Known of all ranks now: how many share this host, and its processors. */
void yokei_count_host(yoke_comm *comm);
/** Leave the process set and unmap the peers. */
void yokei_setup_undo(yoke_comm *comm);

/* ---- hosts.c ---- */
yoke_status yokei_hosts_begin(yoke_comm *comm); /* room for them; until more is known, the rank is alone */
void yokei_hosts_end(yoke_comm *comm);
/** Group the ranks: a sees b's segment where sees[a * width + b] has `bit`. The same input on all ranks. */
void yokei_hosts_find(yoke_comm *comm, const char *sees, size_t width, int bit);
/** All ranks are on one host. */
void yokei_hosts_one(yoke_comm *comm);

/* ---- sum.c: the arithmetic, the same on every rank ---- */
/** The type in which partial results of a reduction travel. */
yoke_dtype yokei_wire_dtype(yoke_dtype dtype, yoke_reduction reduction, enum yoke_accum accum);
/** target = message OP own (either may be NULL: then the other as it is), in up to three places, in one pass. */
struct yokei_combine {
    size_t n;
    yoke_reduction reduction;
    const void *a, *b;        /* operands in their order; b may be NULL */
    yoke_dtype a_dtype, b_dtype;
    bool finish;              /* avg: times 1/size */
    bool canonical;           /* NaN becomes the quiet one without payload */
    int size;
    void *out[3];             /* NULL: not written */
    yoke_dtype out_dtype[3];
};
void yokei_combine(const struct yokei_combine *c);
/** For tests: sum by the nth best instruction set of this processor from now on; its name, NULL: there is none. */
const char *yokei_sum_use(int nth);
/**
 * out[..][i] = in[0][i] OP in[1][i] OP …, from the left, rounded once; NaN is the quiet one without payload.
 * A sum may be made in parts: with `partial` the outputs are of type `wire`, and avg does not divide yet; the first n_wire inputs
 * are such.
 */
struct yokei_fold {
    size_t n;
    yoke_reduction reduction; /* avg: the sum / size */
    yoke_dtype dtype;         /* of inputs and outputs */
    yoke_dtype wire;
    int n_wire;
    bool partial;
    int n_in, n_out, size;    /* at least one input */
    const void *const *in;
    void *const *out;         /* may be an input, at the same place */
    unsigned stream;          /* bit o: output o goes past the caches; the last bit stands for all further ones */
};
void yokei_fold(const struct yokei_fold *fold);
void yokei_copy(void *target, const void *source, size_t bytes, bool stream);

/* ---- check.c: the call check ---- */
void yokei_header_begin(yoke_comm *comm, struct yokei_op *op);
void yokei_header_transfer(yoke_comm *comm, struct yokei_transfer *transfer, uint32_t sequence);
uint32_t yokei_hash32(const void *data, size_t bytes, uint32_t seed);
/** Compare what came from `from` with what was called here; on a mismatch the communicator fails, and that is returned. */
yoke_status yokei_check(yoke_comm *comm, int from, const struct yokei_header *here, const struct yokei_header *there);

/** Number the message that goes to `to`, and put the sum under it. */
void yokei_seal(yoke_comm *comm, struct yokei_lane *lane, int to, struct yokei_header *header);
/** Whether what came from `from` is whole, and the next one: else the communicator fails with YOKE_EDATA. `here`: the call that waits for it. */
yoke_status yokei_check_seal(yoke_comm *comm, struct yokei_lane *lane, int from, const struct yokei_header *here, const struct yokei_header *there,
                             size_t bytes);
/** Whether the record of a rank of this host, or its answer to a probe, says that it has done its part of call `sequence`. */
bool yokei_has_done(const yoke_comm *comm, int other, uint32_t sequence);
/** The same for a call that a waiting rank asks about: compared when it was made here too. */
yoke_status yokei_check_probe(yoke_comm *comm, int from, const struct yokei_header *there);
/** The same by the flight record of a rank of this host. */
yoke_status yokei_check_record(yoke_comm *comm, int other);
/** The same by its announcement of a collective through shared memory. */
yoke_status yokei_check_post(yoke_comm *comm, const struct yokei_op *op, int other);
/** This rank's own, filled in but for what the algorithm adds. */
struct yokei_post *yokei_announce(const struct yokei_op *op);

/* ---- plan.c: which algorithm, in which chunks ---- */
/** `counts` [size] of the slices, NULL: equal ones; send_counts of all_to_all_v, NULL: the same. */
void yokei_plan(struct yokei_op *op, const size_t counts[], const size_t send_counts[]);
/** Whether the data of all ranks, coming and going, exceeds the cache that they share: results go past it then. */
bool yokei_is_long(const struct yokei_op *op);
/** Elements of the longest slice. */
size_t yokei_longest_slice(const struct yokei_op *op);
/** slices.c: step lane->stage of the first two of lane 0, which announce and look at the announcements of this host's ranks. */
void yokei_announce_step(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step);
/** The steps of its rounds, once lane->stage has come to n_first. */
bool yokei_slices_round(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step, int n_first);
/** oneshot.c: bytes that a rank shows at most, the same on all ranks; its first step, in which it announces and shows. */
size_t yokei_shown_bytes(const struct yokei_op *op);
void yokei_show_step(const struct yokei_op *op, struct yokei_step *step);
char *yokei_shown_by(const struct yokei_op *op, int r);

/* ---- costs.c: the cost model ---- */
yoke_status yokei_costs_read(const char *text, struct yokei_costs *costs);
void yokei_costs_text(const struct yokei_costs *costs, char *text_out, size_t bytes);
/** Measure them with all ranks, or remember. Collective; the lock is not held. */
yoke_status yokei_costs_begin(yoke_comm *comm);
/** Those of a communicator made from another. */
void yokei_costs_inherit(yoke_comm *comm, const yoke_comm *parent);

/* ---- fuse.c: many small sums of a group as one ---- */
/** Whether the call may become part of one; the same on all ranks whose calls match. */
bool yokei_may_fuse(const struct yokei_op *op);
/** Let ops[0] do the work of all; with an error all are as before. *n_out of them were taken, at least one: the rest is too much. */
yoke_status yokei_fuse(struct yokei_op *const ops[], int n_ops, int *n_out);
void yokei_fuse_pack(struct yokei_op *op);
void yokei_fuse_unpack(struct yokei_op *op);

/* ---- alloc.c ---- */
/** Where a buffer lies in shared memory; id 0: nowhere. The lock is held. */
void yokei_find_allocation(const yoke_comm *comm, const void *address, size_t bytes, uint32_t *id_out, uint64_t *offset_out);
/** The same place in rank r's part, as this rank sees it. */
char *yokei_in_allocation(const yoke_comm *comm, int r, uint32_t id, uint64_t offset, size_t bytes);
void yokei_free_allocations(yoke_comm *comm);

/* ---- engine.c ---- */
/** A fresh operation, from the communicator's list. The lock is held. */
yoke_status yokei_op_new(yoke_comm *comm, enum yokei_kind kind, struct yokei_op **op_out);
/** Give it back. The lock is held. */
void yokei_op_free(struct yokei_op *op);
/** Append to the communicator's queue. The lock is held. */
yoke_status yokei_submit(struct yokei_op *op);
/** Work on all operations of all communicators once; whether anything moved. The lock is held. */
bool yokei_progress(void);
/** Work until all the operations have ended; take them back; the first error. The lock is not held. */
yoke_status yokei_wait_for(struct yokei_op *const ops[], int n_ops);
/** End every operation of the communicator with its sticky error. The lock is held. */
void yokei_end_all(yoke_comm *comm);
/** The communicator's sticky error, written to the thread's error text. */
yoke_status yokei_sticky(yoke_comm *comm);

/* ---- stage.c: device memory that the host does not see ---- */
bool yokei_is_staged(const yoke_comm *comm, const void *address);
yoke_status yokei_stage_fetch(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
yoke_status yokei_stage_store_ready(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
yoke_status yokei_stage_store(yoke_comm *comm, struct yokei_lane *lane);
yoke_status yokei_stage_reserve(yoke_comm *comm, struct yokei_lane *lane);
void yokei_stage_free(yoke_comm *comm, struct yokei_lane *lane);

/* ---- far.c: ranks of other hosts, and the network ---- */
/** Whether some rank of the communicator is on another host. */
bool yokei_has_far(const yoke_comm *comm);
/** The record of a rank: mapped where it is on this host, else as it was a moment ago; NULL: it cannot be seen. The lock is held. */
const struct yokei_flight_file *yokei_record_of(yoke_comm *comm, int rank, uint64_t now);
/** The rank whose record on another host comes next in turn; -1: there is none. */
int yokei_next_far(yoke_comm *comm);
/** Whether much came or went over the connections of this process, or of one of its host that waits too, since the last call that said so. */
bool yokei_network_moved(const yoke_comm *comm);

/* ---- verdict.c ---- */
/** Fail the communicator, once: tell the other ranks, end its operations, touch its MPI messages no more. Returns status. */
yoke_status yokei_comm_fail(yoke_comm *comm, yoke_status status, int culprit, const char *format, ...) YOKE_PRINTF(4, 5);
/** Tell the others now, if the thread that failed the communicator could not. The lock is held. */
void yokei_tell_late(yoke_comm *comm);
/** Fail when another rank said so; cheap enough for every call. The lock is held. */
void yokei_look_for_failure(yoke_comm *comm);
/** Look who is to blame, when the head of the queue made no progress for a while. The lock is held. */
void yokei_watch(yoke_comm *comm);
/** A control message that came. */
struct yokei_control {
    uint32_t kind; /* enum yokei_control_kind */
    int32_t origin, culprit, status, waits_for, state;
    uint64_t moved_ns; /* when the sender was last seen to move, by its clock */
    struct yokei_header header;
    char text[1024];
};
enum yokei_control_kind { YOKEI_CONTROL_PROBE = 1, YOKEI_CONTROL_STATE, YOKEI_CONTROL_ERROR };
void yokei_control_arrived(yoke_comm *comm, const struct yokei_control *message);
/** Whether the process of a rank of this host is gone, by its agent's word or the kernel's. */
bool yokei_is_gone(const struct yokei_peer *peer);

/* ---- transport/mpi.c: the only calls of MPI but those of setup.c ---- */
yoke_status yokei_mpi_lane_begin(yoke_comm *comm, struct yokei_lane *lane, size_t message_bytes);
void yokei_mpi_lane_end(yoke_comm *comm, struct yokei_lane *lane);
yoke_status yokei_mpi_control_begin(yoke_comm *comm);
void yokei_mpi_control_end(yoke_comm *comm);
/** Receive control messages, if any came. */
void yokei_mpi_control_poll(yoke_comm *comm);
/** Send one to a rank of the communicator, if a slot is free; false when not. */
bool yokei_mpi_control_send(yoke_comm *comm, int to, const struct yokei_control *message);
/** Bytes of control messages that went and came so far. */
uint64_t yokei_mpi_control_bytes(void);
/** Push pending control messages for at most `ns`. */
void yokei_mpi_control_flush(yoke_comm *comm, uint64_t ns);

/* ---- transport/shm.c ---- */
yoke_status yokei_shm_create(yoke_comm *comm);                 /* this rank's segment, and its descriptor */
bool yokei_shm_map(yoke_comm *comm, int peer);                 /* a peer's segment, by its process's descriptor */
/** Sleep until a peer gives this rank a message or a free slot: begin, look once more, end (ns 0: do not sleep). */
uint32_t yokei_shm_sleep_begin(yoke_comm *comm);
void yokei_shm_sleep_end(yoke_comm *comm, uint32_t rung, uint64_t ns);
/** Tell a peer that this communicator has failed; false when they share no slots. */
bool yokei_shm_alarm(yoke_comm *comm, int peer, const struct yokei_control *message);
/** What a peer has told so; NULL: nothing. */
const struct yokei_control *yokei_shm_alarmed(const yoke_comm *comm);
/** Places in the segment of rank r, this one included. Stages: `part` 0 is what it shows, 1 what it computed. */
struct yokei_post *yokei_shm_post_at(const yoke_comm *comm, int r, uint32_t number);
_Atomic uint32_t *yokei_shm_counter_at(const yoke_comm *comm, int r, const struct yokei_lane *lane, enum yokei_counter counter, uint32_t until);
char *yokei_shm_oneshot_at(const yoke_comm *comm, int r, uint32_t number);
char *yokei_shm_stage_at(const yoke_comm *comm, int r, const struct yokei_lane *lane, int part);
/** Of yoke_comm_shrink: a rank's word, and the one place where all read what was decided: number << 32 | deciding rank + 1. */
struct yokei_shrink_post *yokei_shm_shrink_at(const yoke_comm *comm, int r, uint32_t number);
_Atomic uint64_t *yokei_shm_decision_at(const yoke_comm *comm);
/** Wake the ranks that sleep: what they wait for may be there. */
void yokei_shm_ring_all(const yoke_comm *comm);
void yokei_shm_close_fd(yoke_comm *comm);                      /* all peers have mapped it */
void yokei_shm_destroy(yoke_comm *comm);

/* ---- transport/inject.c: faults on purpose, for tests ---- */
/** Read YOKE_INJECT; comm->inject stays NULL where it is unset or names other ranks. YOKE_ECONFIG. */
yoke_status yokei_inject_begin(yoke_comm *comm);
/** Lie around the transports that were chosen. */
void yokei_inject_wrap(yoke_comm *comm);
void yokei_inject_end(yoke_comm *comm);

#endif
