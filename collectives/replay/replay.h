/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Collectives on a cluster that is only modelled. replay.c runs the steps of the algorithms themselves, for
 * all ranks in one process. No data moves; a clock is advanced instead. formulas.c has formulas for the
 * same times.
 */
#ifndef COLLECTIVES_REPLAY_REPLAY_H
#define COLLECTIVES_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/comm.h>

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

/**
 * Data for a replay that also does the steps' work. send[r] and recv[r] are rank r's buffers, of `count`
 * elements each, and may be the same.
 */
struct yokei_replay_data {
    yoke_dtype dtype;
    yoke_reduction reduction;
    const void *const *send;
    void *const *recv;
};

/** What an all_reduce took. */
struct yokei_replayed {
    double seconds;
    /* The most bytes that one island sent to other islands, with the headers of messages. */
    uint64_t bridge_bytes;
    uint64_t n_messages; /* of all ranks */
    const char *algorithm;
};

/**
 * The time of an all_reduce of `count` elements, from the algorithms' own steps. Groups of `group` ranks in
 * sequence share memory, as the ranks of a host do; 1: all data goes by messages. `group` divides the ranks
 * of an island. The time has the transfers of all data over the links, and the latency of each message. It
 * has no arithmetic, and no time of a processor. data NULL: sums of f32 without data. With data the groups
 * must have two ranks or more, since only the steps of the hierarchy are done. Also checks that each
 * message that is sent is received, with the same number of bytes, and that no rank waits for ever.
 * YOKE_EINVAL: the links or `group` make no sense. YOKE_EINTERNAL: the algorithm's steps do not fit
 * together. YOKE_ENOMEM.
 */
yoke_status yokei_replay(const struct yokei_links *links, int group, size_t count,
                         const struct yokei_replay_data *data, struct yokei_replayed *out);

/** The same time by the formulas of formulas.c. Returns the same errors. */
yoke_status yokei_modelled_time(const struct yokei_links *links, int group, size_t count,
                                double *seconds_out);

#endif
