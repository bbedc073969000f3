/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What processes write for each other: headers of messages, control messages, what lies in shared memory, and what all tell all when
 * a communicator is made. Plain data of fixed layout, the same on all ranks of a job.
 */
#ifndef COLLECTIVES_MESSAGE_H
#define COLLECTIVES_MESSAGE_H

#include <stdatomic.h>
#include <yoke/base.h>

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
    YOKEI_WIDE_LANES = 2,            /* where there are more ranks than cores: as much memory, in fewer stages */
    YOKEI_WIDE_STAGE_BYTES = YOKEI_STAGE_BYTES * YOKEI_CROSS_LANES / YOKEI_WIDE_LANES,
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

/** How far a rank has come in one lane, by rounds; GIVEN: by numbers of collectives. Only its owner writes it. */
enum yokei_counter { YOKEI_NOTHING, YOKEI_POSTED, YOKEI_STAGED, YOKEI_REDUCED, YOKEI_PASSED, YOKEI_GIVEN, YOKEI_N_COUNTERS };
struct yokei_counters {
    _Alignas(64) _Atomic uint32_t at[YOKEI_N_COUNTERS];
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
    uint32_t costs, shares;  /* hashes of those that were given, 0: measured */
    uint64_t cores[16];      /* bit c: may run on processor c of its host */
    int32_t n_cores;         /* of its host, that it knows the job to use: at least its own */
    int32_t n_threads;         /* of this rank's own kernels on the host */
};

/** A rank's word in yoke_comm_shrink; two of them in turn, since all come to number n before anybody comes to n + 1. */
struct yokei_shrink_post {
    _Alignas(64) _Atomic uint32_t number;      /* of the shrinks of this communicator; written last */
    _Atomic uint64_t without[YOKEI_MOST_SHRUNK / 64]; /* bit r: rank r was named by the caller, or is gone; bits only come */
    int32_t accused;                           /* the rank that the old communicator's error names as dead, stopped, stuck or late; -1: none */
    struct yokei_peer_info info;
};

/** A control message that came. */
struct yokei_control {
    uint32_t kind; /* enum yokei_control_kind */
    int32_t origin, culprit, status, waits_for, state;
    uint64_t moved_ns; /* when the sender was last seen to move, by its clock */
    struct yokei_header header;
    char text[1024];
};
enum yokei_control_kind { YOKEI_CONTROL_PROBE = 1, YOKEI_CONTROL_STATE, YOKEI_CONTROL_ERROR };

#endif
