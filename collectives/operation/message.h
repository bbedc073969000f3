/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Data that processes write for each other: headers of messages, control messages, the contents of shared
 * memory, and what all ranks exchange when a communicator is made. It is plain data of fixed format, the same
 * on all ranks of a job.
 * A lane is one of several independent sequences of messages (engine.h).
 */
#ifndef COLLECTIVES_OPERATION_MESSAGE_H
#define COLLECTIVES_OPERATION_MESSAGE_H

#include <stdatomic.h>
#include <yoke/base.h>

enum {
    YOKEI_LANES = 8,       /* lanes of the collectives; lane number YOKEI_LANES carries send and recv */
    YOKEI_LANE_KINDS = 16, /* MPI tags per communicator: one for each lane, and CONTROL */
    YOKEI_LANE_PAIR = YOKEI_LANES,
    YOKEI_LANE_CONTROL = YOKEI_LANES + 1,
    YOKEI_SLOTS = 2,   /* send slots (buffers for one message) per lane */
    YOKEI_RECENT = 64, /* number of calls that are kept for the call check */
    YOKEI_PAIR_CHUNK = 64 << 10,
    /* For collectives through shared memory, in which all ranks see each other's segments (each rank's
       shared memory). */
    YOKEI_SHARED_LANES = 4, /* number of lanes that they use */
    /* Collectives that also go to other hosts use more lanes. Messages in flight must keep the wire busy
       while ranks wait for a core. Over 1 Gbit/s, with 4 ranks per host on 2 cores, 8 lanes were 1.3 times
       as fast as 4. */
    YOKEI_CROSS_LANES = 8,
    /* Bytes of a stage per lane for the data that a rank publishes to its peers, and as much again for the
       data that it computed. */
    YOKEI_STAGE_BYTES = 256 << 10,
    /* number of lanes if there are more ranks than cores: the same memory in fewer stages */
    YOKEI_WIDE_LANES = 2,
    YOKEI_WIDE_STAGE_BYTES = YOKEI_STAGE_BYTES * YOKEI_CROSS_LANES / YOKEI_WIDE_LANES,
    /* Nothing uses the page behind each stage, so a device that checks accesses finds data that leaves its
       stage. */
    YOKEI_GAP_BYTES = 4096,
    YOKEI_ONESHOT_BYTES = 64 << 10, /* most bytes of a rank's data that it publishes in one piece */
    YOKEI_FUSED_BYTES = 256 << 10,  /* most bytes of the small sums of a group that run as one */
    YOKEI_INLINE_BYTES = 48,        /* bytes of data that an announcement has room for */
    YOKEI_MOST_SHRUNK = 1024,       /* most ranks of a communicator that can be shrunk */
    YOKEI_ISLAND_NAME = 16,         /* bytes of the name of an island, a vendor or a label */
};

/** The call that a message belongs to. The receiver compares it with its own call, field by field. */
struct yokei_header {
    uint32_t magic; /* also has the version of this format */
    uint32_t comm;  /* uid of the communicator */
    /* number among the communicator's collectives, from 1; for send and recv, among the pair's messages */
    uint32_t sequence;
    uint8_t kind, dtype, reduction, algorithm;
    int32_t root;
    uint32_t counts_hash;
    uint64_t count;
    uint32_t history; /* hash of all collectives before this one */
    /* The call before this one, for the error text if `history` differs. */
    int32_t last_root;
    uint64_t last_count;
    uint8_t last_kind, last_dtype, last_reduction, last_algorithm;
    /* These fields differ between the messages of one call. */
    uint32_t number; /* number among the messages from this rank to that one in this lane, from 1 */
    uint32_t bytes;  /* bytes behind the header */
    /* checksum of all fields before it and of the receiver; with YOKE_CHECK_FULL also of the data behind
       it */
    uint32_t sum;
};
_Static_assert(sizeof(struct yokei_header) == 64, "the header of a message has 64 bytes");

/**
 * A rank's announcement of a collective through shared memory. Each rank has two of them and uses them in
 * turn. A rank that has announced number n has finished n - 1. So a rank that has seen n - 1 of all other
 * ranks may overwrite its own n - 2.
 */
struct yokei_post {
    /* number among the communicator's collectives through shared memory; written last */
    _Alignas(64) _Atomic uint32_t number;
    uint32_t history; /* hash of the calls, this one included: equal if the calls match */
    uint64_t spare;
    char data[YOKEI_INLINE_BYTES];
    struct yokei_header header;
    /* For YOKEI_DIRECT: how much memory was allocated and freed by yoke_comm_alloc so far, and where the
       buffers lie in that memory. id 0: elsewhere. */
    uint32_t allocations, freed, send_id, recv_id;
    uint64_t send_at, recv_at;
};

/**
 * How far a rank has come in one lane, in rounds; for GIVEN and LEFT, in numbers of collectives. Only the
 * owner writes it. LEFT counts in lane 0. A rank that has left a collective reads nothing of it any more.
 */
enum yokei_counter {
    YOKEI_NOTHING,
    YOKEI_POSTED,
    YOKEI_STAGED,
    YOKEI_REDUCED,
    YOKEI_PASSED,
    YOKEI_GIVEN,
    YOKEI_LEFT,
    YOKEI_N_COUNTERS
};
struct yokei_counters {
    _Alignas(64) _Atomic uint32_t at[YOKEI_N_COUNTERS];
};

/** The data that all ranks exchange when a communicator is made. */
struct yokei_peer_info {
    char host[64];
    char name[32];
    uint64_t nonce, start_time;
    uint64_t host_id; /* ranks with different numbers share nothing */
    int32_t pid, world_rank;
    int32_t flight_fd;  /* descriptor of the record, if it lies in a memfd; -1: in the run directory */
    int32_t segment_fd; /* descriptor of the shared slots; -1: none */
    uint64_t segment_nonce;
    uint32_t draw; /* a random number; rank 0's becomes the uid of the communicator */
    uint32_t next_context;
    int32_t status;   /* the error of this rank so far */
    char reason[192]; /* why `status` is an error; without an error, why there is no segment */
    /* The configuration, which all ranks compare. */
    uint32_t version, accum, reproducible, check, staged;
    int32_t algorithm;
    int64_t timeout_ms, stall_ms;
    uint64_t chunk_bytes;
    uint32_t costs, shares;         /* hashes of the given costs and shares; 0: measured */
    uint32_t grouping, labels;      /* enum yoke_island, and a hash of the given labels; 0: none */
    char island[YOKEI_ISLAND_NAME]; /* the label of this rank, or the vendor of its device */
    uint64_t cores[16];             /* bit c: may run on processor c of its host */
    int32_t n_cores;   /* cores of its host that the job uses, as far as this rank knows; at least its own */
    int32_t n_threads; /* threads of this rank's own kernels on the host */
};

/**
 * A rank's post in yoke_comm_shrink: the data that it writes for the others. Each rank has two posts and uses
 * them in turn, because all ranks reach number n before any reaches n + 1.
 */
struct yokei_shrink_post {
    _Alignas(64) _Atomic uint32_t number; /* number among the shrinks of this communicator; written last */
    _Atomic uint64_t without[YOKEI_MOST_SHRUNK
                             / 64]; /* bit r: the caller named rank r, or r is gone; bits are only added */
    /* rank that the old communicator's error names as dead, stopped, stuck or late; -1: none */
    int32_t accused;
    struct yokei_peer_info info;
};

/** A control message. */
struct yokei_control {
    uint32_t kind; /* enum yokei_control_kind */
    int32_t origin, culprit, status, waits_for, state;
    uint64_t moved_ns; /* when the sender last moved, by its own clock */
    struct yokei_header header;
    char text[1024];
};
enum yokei_control_kind { YOKEI_CONTROL_PROBE = 1, YOKEI_CONTROL_STATE, YOKEI_CONTROL_ERROR };

#endif
