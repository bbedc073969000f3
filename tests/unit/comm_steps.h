/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a collective, played for all ranks in one process, without data and without a clock. The
 * choice (yokei_choose) and the steps (yokei_algorithm.next) are those of the library. The rules of the
 * engine hold: when a step may begin, and how many messages a lane may have on their way.
 * collectives/replay has a clock, and plays all_reduce on equal islands. Here all collectives run on any
 * islands, and messages can be lost.
 *   struct replay replay;
 *   replay_begin(&replay, size, host_of, island_of, YOKE_ISLAND_VENDOR, YOKE_REPRODUCIBLE_RUN);
 *   replay_call(&replay, YOKEI_ALL_REDUCE, count, YOKE_F32, YOKE_SUM, root);
 *   replay_end(&replay);
 */
#ifndef TESTS_UNIT_COMM_STEPS_H
#define TESTS_UNIT_COMM_STEPS_H

#include <stdlib.h>
#include <string.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/choice.h"
#include "collectives/choice/shares.h"
#include "collectives/making/making.h"

/* A message on its way. */
struct replay_message {
    struct replay_message *next;
    int from;
    size_t bytes;
};

/* One rank. Its communicator differs from the others' in the rank and in the ranks near it. */
struct replay_rank {
    yoke_comm comm;
    struct yokei_op op;
    struct yokei_lane lanes[YOKEI_LANES];
    bool has_step[YOKEI_LANES], has_ended[YOKEI_LANES];
    int n_on_their_way[YOKEI_LANES]; /* messages of this rank that nobody has taken */
    struct replay_message *inbox[YOKEI_LANES];
    uint32_t counters[YOKEI_LANES][YOKEI_N_COUNTERS], posted;
};

/* A planted fault in message number `at`. */
enum replay_fault { REPLAY_RIGHT, REPLAY_LOST, REPLAY_DOUBLED, REPLAY_MISROUTED };

struct replay {
    int size;
    yoke_comm base;
    struct replay_rank *ranks;
    enum replay_fault fault;
    size_t at;
    /* results */
    size_t n_messages, n_steps, n_left; /* n_left: messages that nobody took */
    bool is_stuck, has_wrong_length;
    double *sent; /* [size] bytes of data that a rank sent to ranks of other groups */
};

/* ---- the communicator ---- */

static inline void replay_begin(struct replay *r, int size, const int host_of[],
                                const char *const island_of[], enum yoke_island island,
                                enum yoke_reproducible reproducible)
{
    *r = (struct replay){ .size = size };
    yoke_comm *comm = &r->base;
    const size_t n = (size_t)size;
    char *sees = calloc(n, n);
    comm->size = comm->room = size;
    comm->peers = calloc(n, sizeof *comm->peers);
    comm->settings.island = island;
    comm->settings.reproducible = reproducible;
    comm->settings.forced_algorithm = -1;
    comm->settings.chunk_bytes = yokei_chunk_bytes(0);
    comm->n_on_host = comm->n_cores = size;
    comm->costs = (struct yokei_costs){
        .sync_us = 1, .shared_gbps = 10, .long_gbps = 5, .sum_gbps = 20, .message_us = 20, .message_gbps = 0.1
    };
    if (yokei_hosts_begin(comm) || yokei_shares_begin(comm) || !sees || !comm->peers) abort();
    for (size_t a = 0; a < n; a++) {
        yokei_text(comm->peers[a].info.island, YOKEI_ISLAND_NAME, "%s", island_of[a]);
        for (size_t b = 0; b < n; b++) sees[a * n + b] = host_of[a] == host_of[b];
    }
    yokei_hosts_find(comm, sees, n, 1);
    free(sees);
    r->ranks = calloc(n, sizeof *r->ranks);
    r->sent = calloc(n, sizeof *r->sent);
    if (!r->ranks || !r->sent) abort();
    for (int q = 0; q < size; q++) {
        struct replay_rank *rank = &r->ranks[q];
        rank->comm = *comm;
        rank->comm.rank = q;
        struct yokei_hosts *const both[] = { &rank->comm.hosts, &rank->comm.islands };
        for (size_t i = 0; i < 2; i++) {
            both[i]->local = both[i]->ranks + both[i]->first[both[i]->of[q]];
            both[i]->n_local = yokei_host_size(both[i], both[i]->of[q]);
        }
        for (int l = 0; l < YOKEI_LANES; l++) rank->comm.work.lane_list[l] = &rank->lanes[l];
        rank->op.slices_room = calloc(2 * (n + 1), sizeof(size_t));
        if (!rank->op.slices_room) abort();
    }
}

static inline void replay_end(struct replay *r)
{
    for (int q = 0; q < r->size; q++) free(r->ranks[q].op.slices_room);
    yokei_hosts_end(&r->base);
    yokei_shares_end(&r->base);
    free(r->base.peers);
    free(r->ranks);
    free(r->sent);
}

/* ---- a call ---- */

/* As yokei_op_new, yoke_comm_explain and op_begin do. */
static inline void replay_prepare(struct replay *r, int q, enum yokei_kind kind, size_t count,
                                  yoke_dtype dtype, yoke_reduction reduction, int root)
{
    static char buffer[64];
    struct replay_rank *rank = &r->ranks[q];
    struct yokei_op *op = &rank->op;
    const bool each = kind == YOKEI_REDUCE_SCATTER || kind == YOKEI_ALL_GATHER || kind == YOKEI_GATHER
                      || kind == YOKEI_SCATTER || kind == YOKEI_ALL_TO_ALL;
    size_t *slices = op->slices_room;
    *op = (struct yokei_op){ .comm = &rank->comm,
                             .rank = q,
                             .size = r->size,
                             .hosts = &rank->comm.hosts,
                             .reproducible = r->base.settings.reproducible != YOKE_REPRODUCIBLE_RUN,
                             .chunk_bytes = r->base.settings.chunk_bytes,
                             .cache_bytes = 32 << 20,
                             .kind = kind,
                             .count = count * (each ? (size_t)r->size : 1),
                             .dtype = dtype,
                             .reduction = reduction,
                             .root = root,
                             .send = buffer,
                             .recv = buffer,
                             .slices_room = slices };
    yokei_choose(op, NULL, NULL);
    if (op->algorithm->announces) op->number = 1;
    rank->posted = 0;
    memset(rank->counters, 0, sizeof rank->counters);
    for (int l = 0; l < YOKEI_LANES; l++) {
        rank->lanes[l] = (struct yokei_lane){ .id = l, .round = (size_t)l };
        rank->has_step[l] = false;
        rank->has_ended[l] = l >= op->n_lanes;
        rank->n_on_their_way[l] = 0;
    }
}

static inline struct replay_message **replay_find(struct replay *r, int q, int lane, int from)
{
    struct replay_message **at = &r->ranks[q].inbox[lane];
    while (*at && (*at)->from != from) at = &(*at)->next;
    return at;
}

static inline void replay_post(struct replay *r, int from, int to, int lane, size_t bytes)
{
    struct replay_message **end = &r->ranks[to].inbox[lane], *m = malloc(sizeof *m);
    if (!m) abort();
    *m = (struct replay_message){ .from = from, .bytes = bytes };
    while (*end) end = &(*end)->next;
    *end = m;
}

static inline void replay_send(struct replay *r, int q, const struct yokei_step *step, int lane)
{
    const struct yokei_op *op = &r->ranks[q].op;
    const size_t bytes = step->n * yoke_dtype_bytes(step->out);
    int to = step->to;
    const bool fault = r->fault && r->n_messages == r->at;
    r->n_messages++;
    r->ranks[q].n_on_their_way[lane]++;
    if (op->hosts->of[q] != op->hosts->of[to]) r->sent[q] += (double)bytes;
    if (fault && r->fault == REPLAY_LOST) return;
    if (fault && r->fault == REPLAY_MISROUTED)
        to = (to + 1) % r->size == q ? (to + 2) % r->size : (to + 1) % r->size;
    replay_post(r, q, to, lane, bytes);
    if (fault && r->fault == REPLAY_DOUBLED) replay_post(r, q, to, lane, bytes);
}

/* As counters_ready in engine.c. */
static inline bool replay_has_come(const struct replay *r, const struct yokei_op *op,
                                   const struct yokei_step *step, int lane)
{
    for (int i = 0; step->wait && i < step->n_wait; i++) {
        const int p = op->hosts->local[i];
        if (p == op->rank || (step->wait_rank >= 0 && p != step->wait_rank)) continue;
        const uint32_t at = step->wait == YOKEI_POSTED ? r->ranks[p].posted
                                                       : r->ranks[p].counters[lane][step->wait];
        if ((int32_t)(at - step->until) < 0) return false;
    }
    return true;
}

/* Do the lane's next step, if it may begin. Returns whether anything moved. */
static inline bool replay_lane(struct replay *r, int q, int lane)
{
    struct replay_rank *rank = &r->ranks[q];
    struct yokei_op *op = &rank->op;
    struct yokei_lane *l = &rank->lanes[lane];
    struct yokei_step *step = &l->step;
    if (rank->has_ended[lane]) return false;
    if (!rank->has_step[lane]) {
        *step = (struct yokei_step){ .from = -1,
                                     .to = -1,
                                     .dtype = op->dtype,
                                     .in = op->dtype,
                                     .out = op->dtype,
                                     .n_wait = op->hosts->n_local,
                                     .wait_rank = -1 };
        rank->has_step[lane] = op->algorithm->next(op, l, step);
        rank->has_ended[lane] = !rank->has_step[lane];
        return true;
    }
    struct replay_message **came = step->from >= 0 ? replay_find(r, q, lane, step->from) : NULL;
    if (!replay_has_come(r, op, step, lane) || (came && !*came)
        || (step->to >= 0 && rank->n_on_their_way[lane] >= YOKEI_SLOTS))
        return false;
    if (came) {
        struct replay_message *m = *came;
        r->has_wrong_length |= m->bytes != step->n * yoke_dtype_bytes(step->in);
        r->ranks[m->from].n_on_their_way[lane]--;
        *came = m->next;
        free(m);
    }
    if (step->to >= 0) replay_send(r, q, step, lane);
    if (step->sets == YOKEI_POSTED) rank->posted = step->value;
    if (step->sets) rank->counters[lane][step->sets] = step->value;
    rank->has_step[lane] = false;
    r->n_steps++;
    return true;
}

static inline void replay_call(struct replay *r, enum yokei_kind kind, size_t count, yoke_dtype dtype,
                               yoke_reduction reduction, int root)
{
    r->n_messages = r->n_steps = r->n_left = 0;
    r->is_stuck = r->has_wrong_length = false;
    memset(r->sent, 0, (size_t)r->size * sizeof *r->sent);
    for (int q = 0; q < r->size; q++) replay_prepare(r, q, kind, count, dtype, reduction, root);
    for (bool moved = true; moved;) {
        moved = false;
        for (int q = 0; q < r->size; q++)
            for (int l = 0; l < r->ranks[q].op.n_lanes; l++)
                while (replay_lane(r, q, l)) moved = true;
    }
    for (int q = 0; q < r->size; q++)
        for (int l = 0; l < YOKEI_LANES; l++) {
            r->is_stuck |= !r->ranks[q].has_ended[l];
            for (struct replay_message *m = r->ranks[q].inbox[l], *next; m; m = next) {
                next = m->next;
                r->n_left++;
                free(m);
            }
            r->ranks[q].inbox[l] = NULL;
        }
}

static inline bool replay_is_right(const struct replay *r)
{
    return !r->is_stuck && !r->has_wrong_length && !r->n_left;
}

/* Bytes that all ranks of a group sent to other groups. */
static inline double replay_sent_by(const struct replay *r, int group)
{
    double bytes = 0;
    for (int q = 0; q < r->size; q++)
        if (r->ranks[q].op.hosts->of[q] == group) bytes += r->sent[q];
    return bytes;
}

#endif
