/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Collectives of ranks that are only modelled. A replay (replay.c) runs the choice and the steps of the
 * library itself, for all ranks in one process. It checks that the steps of all ranks fit together. It can
 * move data and do the sums, and it can advance a clock by the links of a cluster. It can also plant a fault
 * in one message. formulas.c has formulas for the times of all_reduce on clusters.
 *
 *   struct yokei_model *model;
 *   yokei_model_begin(&(struct yokei_ranks){ .size = 4, .host_of = host_of }, &model);
 *   yokei_replay_call(model, &(struct yokei_replay_call){ .kind = YOKEI_BARRIER, .root = -1 }, NULL, &out);
 *   yokei_model_end(model);
 */
#ifndef COLLECTIVES_REPLAY_REPLAY_H
#define COLLECTIVES_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/comm.h>

#include "collectives/operation/operation.h"

/* ---- the ranks ---- */

/** The ranks of a modelled communicator. */
struct yokei_ranks {
    int size;
    const int *host_of;                    /* [size] any numbers; ranks with the same number share memory */
    const char *const *island_of;          /* [size] labels of islands; NULL: each host is one island */
    bool staged;                           /* the buffers count as device memory that the host does not see */
    int n_cores;                           /* cores of each host; 0: one for each rank */
    const struct yoke_comm_config *config; /* NULL: the defaults; the ranks' labels are in island_of */
};
struct yokei_model;

/**
 * End the model in any case. YOKE_EINVAL, YOKE_ECONFIG: the configuration or a variable is wrong.
 * YOKE_ENOMEM, and with `staged` the errors of yoke_device_open.
 */
yoke_status yokei_model_begin(const struct yokei_ranks *ranks, struct yokei_model **model_out);
void yokei_model_end(struct yokei_model *model);

/* ---- the links of a cluster ---- */

/**
 * The links. Ranks lie on islands, all of the same number of ranks, in ascending order. Inside an island
 * each rank has a link that carries `inner_gbps` in each direction. An island has `n_bridges` links to the
 * other islands, and each carries `bridge_gbps` in each direction. The rank at place i of its island sends
 * through link i mod n_bridges. Rates are in 1e9 bytes per second.
 */
struct yokei_links {
    int n_islands, ranks_per_island;
    const double *inner_gbps; /* [n_islands] */
    double inner_us;          /* time of an empty message inside an island */
    int n_bridges;
    double bridge_gbps, bridge_us;
};

/* ---- a call ---- */

/** A planted fault: one message is lost, comes twice, or goes to another rank. */
enum yokei_replay_fault {
    YOKEI_REPLAY_RIGHT,
    YOKEI_REPLAY_LOST,
    YOKEI_REPLAY_DOUBLED,
    YOKEI_REPLAY_MISROUTED
};

/** A call that all ranks make. */
struct yokei_replay_call {
    enum yokei_kind kind;
    /* Number of elements as in the public call: of the whole buffer, or of each rank's slice. */
    size_t count;
    const size_t *counts; /* [size] the slices, if the kind has slices; NULL: `count` each */
    yoke_dtype dtype;
    yoke_reduction reduction;
    int root; /* -1: none */
    /* [size] The buffers of each rank, as in the public call. A rank's buffer that the call does not use may
       be NULL. send NULL: no data moves, and no work is done. */
    const void *const *send;
    void *const *recv;
    enum yokei_replay_fault fault;
    uint64_t at; /* the number of the message that has the fault */
};

/** What a replay found. */
struct yokei_replayed {
    /* The steps do not fit together: a rank waits for ever, a message has another length than the receiver
       expects, or no rank takes a message. */
    bool is_stuck, has_wrong_length;
    uint64_t n_left;              /* messages that no rank took */
    char trouble[128];            /* the first of these problems, with the ranks; "": there is none */
    uint64_t n_messages, n_steps; /* of all ranks */
    const char *algorithm;
    const struct yokei_op *op; /* rank 0's operation, until the model's next call */
    /* [size] Bytes of data that each rank sent to ranks of other groups, until the model's next call. The
       groups are those of op->hosts. */
    const uint64_t *sent;
    /* The fields below are 0 without links. */
    double seconds;
    /* The most bytes that one island sent to other islands, with the headers of messages. */
    uint64_t bridge_bytes;
};

/**
 * Replay a call. It begins with the state of a new communicator.
 * links NULL: there is no clock, and a message keeps one of its sender's two slots until the receiver takes
 * it. This is the strictest rule that a transport may have. With links the slot is free when the message has
 * passed the link. The time has the transfers of all data over the links, and the latency of each message. It
 * has no arithmetic, and no time of a processor.
 * With data, a rank sees the memory of its group alone. After a message of wrong length no more work is done.
 * YOKE_EINVAL: the links are not for so many ranks. YOKE_ENOMEM. YOKE_OK: see *out.
 */
yoke_status yokei_replay_call(struct yokei_model *model, const struct yokei_replay_call *call,
                              const struct yokei_links *links, struct yokei_replayed *out);

/* ---- all_reduce on a cluster ---- */

/**
 * Data for a replay of all_reduce. send[r] and recv[r] are rank r's buffers, of `count` elements each, and
 * may be the same.
 */
struct yokei_replay_data {
    yoke_dtype dtype;
    yoke_reduction reduction;
    const void *const *send;
    void *const *recv;
};

/**
 * The time of an all_reduce of `count` elements, from the algorithms' own steps. Groups of `group` ranks in
 * sequence share memory, as the ranks of a host do; 1: all data goes by messages. `group` divides the ranks
 * of an island. data NULL: sums of f32 without data.
 * YOKE_EINVAL: the links or `group` make no sense. YOKE_EINTERNAL: the algorithm's steps do not fit
 * together. YOKE_ENOMEM. out->op and out->sent are NULL.
 */
yoke_status yokei_replay(const struct yokei_links *links, int group, size_t count,
                         const struct yokei_replay_data *data, struct yokei_replayed *out);

/** The same time by the formulas of formulas.c. Returns the same errors. */
yoke_status yokei_modelled_time(const struct yokei_links *links, int group, size_t count,
                                double *seconds_out);

#endif
