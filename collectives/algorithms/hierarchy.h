/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of the hierarchy share. hierarchy.c explains the algorithm. */
#ifndef COLLECTIVES_ALGORITHMS_HIERARCHY_H
#define COLLECTIVES_ALGORITHMS_HIERARCHY_H

#include "collectives/algorithms/inside.h"
#include "collectives/algorithms/slices.h"

/** The leader of this rank's host. */
static inline int yokei_leader(const struct yokei_op *op) { return op->hosts->local[0]; }

/** Whether the root is on this rank's host. */
static inline bool yokei_root_is_here(const struct yokei_op *op)
{
    return op->hosts->of[op->root] == yokei_own_host(op);
}

/**
 * Step i of 2 (H - 1), in which one rank of each host exchanges messages with one rank of every other host.
 * Returns whether the step sends. *k_out is the distance between the hosts: the rank sends to host + k, or
 * receives from host - k.
 */
static inline bool yokei_swap_sends(int n_hosts, int i, int *k_out)
{
    /* Two sends start at once, because a lane has room for two. Each further send waits until a message
       was taken. A send waits only for the receive of a smaller distance, so there is no circle. */
    const bool sends = i < 2 ? i + 1 < n_hosts : i % 2 && (i + 3) / 2 < n_hosts;
    *k_out = sends ? (i < 2 ? i + 1 : (i + 3) / 2) : i == 2 * n_hosts - 3 ? n_hosts - 1 : i / 2;
    return sends;
}

/** leaders.c: whether the leaders add up sums by recursive doubling. */
bool yokei_leaders_double(const struct yokei_op *op);
/** The same file: whether the operation is small enough for the leaders' algorithm, and its next step. */
bool yokei_leaders_fit(const struct yokei_op *op);
bool yokei_leaders_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step);

/** leaders_all_to_all.c: the same for all_to_all. */
bool yokei_leaders_all_to_all_fits(const struct yokei_op *op);
bool yokei_leaders_all_to_all_next(const struct yokei_op *op, struct yokei_lane *lane,
                                   struct yokei_step *step);

/** A piece of this rank's slice of a round's chunk. */
struct yokei_piece {
    struct yokei_chunk chunk;
    size_t at, n;  /* first element within the chunk, and number of elements */
    size_t within; /* first element within the slice */
    size_t seat;   /* elements of a seat: the room for the slice */
};

/* ---- pieces.c ---- */
/** Parts [part, part + span) of `parts` equal parts of the slice. */
struct yokei_piece yokei_piece_of(const struct yokei_op *op, size_t round, int part, int span, int parts);
/**
 * The places for a finished piece: this rank's receive buffer, its stage for the other ranks, and the
 * message to the next host (room NULL: no message). If the host does not see the device's memory, the
 * receive buffer gets the data from the stage. Returns their number.
 */
int yokei_piece_outputs(const struct yokei_op *op, const struct yokei_lane *lane, const struct yokei_piece *p,
                        void *out[3], unsigned *published_out);
/** Whether results are stored past the caches. */
bool yokei_piece_streams(const struct yokei_op *op);
/**
 * Add the message, if there is one, and this host's ranks in their order. The sum goes to `out`. With
 * `partial` it is not finished.
 */
void yokei_piece_add(const struct yokei_op *op, const struct yokei_lane *lane, const struct yokei_piece *p,
                     void *const out[], int n_out, unsigned published, bool partial);
/** The message holds a finished piece, which is stored and passed on. */
void yokei_piece_pass(const struct yokei_op *op, const struct yokei_lane *lane, const struct yokei_piece *p);
/** Let the step wait for the data of this host's ranks. */
void yokei_wait_published(const struct yokei_lane *lane, struct yokei_step *step);
/** The bytes that a sum of the step's elements reads from the other ranks of this host. */
size_t yokei_sum_reads(const struct yokei_op *op, const struct yokei_step *step);

/** The place of a host among hosts that exchange by pairs. */
struct yokei_pairing {
    int n_pairs; /* number of exchanges: log2 of the number of hosts that exchange */
    int n_extra; /* hosts that give their data to another host first, and get the result last */
    int id;      /* number among the exchanging hosts; -1: this host gives its data to the host before it */
    bool takes;  /* this host takes the data of the host behind it */
};
struct yokei_pairing yokei_pairing_of(const struct yokei_op *op);
/** The host with which this host exchanges in exchange k. */
int yokei_pairing_host(const struct yokei_pairing *pairing, int k);
/* ---- halving.c ---- */
/** Number of this rank's steps, and step i of them. */
int yokei_halving_count(const struct yokei_op *op);
void yokei_halving_step(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                        struct yokei_step *step);
/**
 * Number of messages that follow one another; *bytes: before, the bytes of the data, then those that are
 * sent.
 */
void yokei_halving_effort(const struct yokei_op *op, double *steps_out, double *bytes);

/** The functions that differ between the kinds of rounds. */
struct yokei_crossing_steps {
    int (*count)(const struct yokei_op *op); /* number of this rank's steps */
    /* step i of them */
    void (*step)(const struct yokei_op *op, const struct yokei_lane *lane, int i, struct yokei_step *step);
    void (*publish)(const struct yokei_op *op, struct yokei_lane *lane);
    /* the step that takes the results */
    void (*take)(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step);
};
/** hierarchy.c: the bytes of data that all hosts together send to other hosts in the operation. */
double yokei_bridge_bytes(const struct yokei_op *op);
/** hierarchy_parts.c: the functions for all_gather and reduce_scatter. */
extern const struct yokei_crossing_steps yokei_parts;
/** The most chunks from other hosts for which a stage needs room. */
size_t yokei_parts_seats(const struct yokei_op *op);

#endif
