/* SPDX-License-Identifier: Apache-2.0 */
/** A communicator, and a rank of it. Each part belongs to the room whose header part.h defines it. */
#ifndef COLLECTIVES_GROUND_COMM_H
#define COLLECTIVES_GROUND_COMM_H

#include <stdatomic.h>
#include <stdlib.h>

#include <yoke/comm.h>

#include "collectives/choice/part.h"
#include "collectives/engine/part.h"
#include "collectives/faults/part.h"
#include "collectives/ground/error.h"
#include "collectives/ground/process.h"
#include "collectives/making/part.h"
#include "collectives/operation/hosts.h"
#include "collectives/transport/part.h"

/** A rank of the communicator, as this rank sees it. */
struct yokei_peer {
    struct yokei_peer_info info;
    const struct yokei_flight_file *flight; /* the rank's flight record; NULL: on another host */
    /* `beneath` is the transport that transport/inject.c wraps, else the same as `transport` */
    const struct yokei_transport *transport, *beneath;
    uint32_t sent[YOKEI_LANES + 1], received[YOKEI_LANES + 1]; /* number of messages, per lane */
    void *segment;                     /* the rank's shared slots, mapped; NULL: none */
    uint32_t taken[YOKEI_LANES + 1];   /* number of messages read from the slots, per lane */
    uint32_t pair_sent, pair_received; /* sequence numbers of send and recv */
    struct yokei_peer_watch watch;
};

struct yoke_comm {
    struct yoke_comm *next;
    char name[32];
    uint32_t uid; /* A number that rank 0 drew. It identifies the communicator in messages and records. */
    int rank, size;
    /* Number of entries of arrays with one for each rank, at least `size`. The offsets in shared memory
       follow from it. */
    int room;
    struct yokei_process_set *set;
    int *set_rank;       /* [size] a rank's number in the process set */
    uint32_t context;    /* selects this communicator's part of the process set's tags */
    yoke_device *device; /* NULL: host memory */
    struct yokei_settings settings;
    struct yokei_peer *peers; /* [size] */
    struct yokei_hosts hosts;
    struct yokei_hosts islands; /* the ranks of each host by vendor or label; as many as hosts: the same */
    bool all_shared;            /* every pair of ranks shares slots */
    bool any_staged;            /* a host does not see the device memory of one of its ranks */
    int n_on_host;              /* ranks of the job on this host */
    int n_cores; /* cores on which the communicator's ranks of this host may run, taken together */
    struct yokei_costs costs;
    struct yokei_shares shares;
    struct yokei_work work;
    struct yokei_calls calls;
    struct yokei_shared_memory memory;
    struct yokei_mpi_state mpi;
    struct yokei_staging staging;
    struct yokei_inject *inject; /* injects faults for tests; NULL: no faults */
    struct yokei_failure failure;
    struct yokei_watch watch;
    uint32_t n_shrinks;   /* calls of yoke_comm_shrink so far */
    uint32_t shrunk_from; /* uid of the communicator from which yoke_comm_shrink made this one; 0: none */
};

/** Whether the islands are a grouping of its own, by which the hierarchy can run. */
static inline bool yokei_has_islands(const yoke_comm *comm)
{
    return comm->islands.n > comm->hosts.n && comm->islands.most > 1;
}

static inline uint32_t yokei_hash32(const void *data, size_t bytes, uint32_t seed)
{
    const uint64_t h = yokei_hash(data, bytes, seed);
    return (uint32_t)(h ^ h >> 32);
}

#endif
