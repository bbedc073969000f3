/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a communicator has for its transports. The files of transport/ own these parts of struct yoke_comm.
 */
#ifndef COLLECTIVES_TRANSPORT_PART_H
#define COLLECTIVES_TRANSPORT_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/device.h>

/** Offsets of the parts of a rank's shared memory (its segment), and the bytes of its slots. */
struct yokei_offsets {
    size_t mailboxes, flags, slots, pair_slots, posts, counters, oneshot, stages, bytes, slot_bytes,
        pair_slot_bytes;
};

/**
 * Memory of yoke_comm_alloc. base[r] is rank r's part at the address where this rank sees it. NULL: this rank
 * does not see it.
 */
struct yokei_allocation {
    struct yokei_allocation *next;
    uint32_t id;
    size_t bytes;
    char **base;
};

/** Memory that the ranks of a host share: shm.c, allocations.c. */
struct yokei_shared_memory {
    struct yokei_segment *segment; /* this rank's shared slots; NULL: none */
    int segment_fd;
    uint64_t segment_nonce;
    char no_segment[128]; /* why this rank has no segment */
    struct yokei_offsets offsets;
    uint32_t n_shared; /* collectives through shared memory so far */
    struct yokei_allocation *allocations;
    uint32_t n_allocations, n_freed; /* number ever allocated, and ever freed */
};

/** Messages over MPI: mpi.c. */
struct yokei_mpi_state {
    struct yokei_mpi_control *control; /* control messages; NULL: none, because all ranks share memory */
    uint64_t broken_ns;                /* when MPI reported an error; 0: it reported none */
    char broken_text[512];
};

/** Memory that the communicator has page-locked for its device. */
struct yokei_pinned {
    struct yokei_pinned *next;
    void *memory;
};

/** Copies from and to device memory that the host does not see: stage.c. Both directions run at once. */
struct yokei_staging {
    yoke_stream *out_stream, *in_stream;
    char *lanes; /* the buffers of all lanes of collectives; NULL: each lane gets them when it needs them */
    char *fused; /* YOKEI_FUSED_BYTES for the data of a fused operation; operations run one after another */
    bool is_mapped; /* buffers of lanes are whole pages of their own, which can be page-locked */
    struct yokei_pinned *pinned;
    /* After a failure: events behind the last copies of each direction, and when they were recorded. */
    yoke_event *last[2];
    uint64_t last_ns;
    char refused[256]; /* why the driver page-locks no memory; "": it does, or this device needs it not */
};

#endif
