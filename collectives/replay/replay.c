/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run the steps of an all_reduce for all ranks of a modelled cluster, in the order of a modelled clock. The
 * algorithm makes the steps, as for the engine. A step is done here as engine/engine.c does it: wait for
 * the counters, for the message and for one of two send slots, then work, send, and set the counter. The
 * work is done only if there is data. Each link carries one transfer after another, and a transfer occupies
 * it for bytes / rate. What a step reads from other ranks of its group passes this rank's link inside the
 * island.
 */
#include "collectives/replay/replay.h"

#include <stdlib.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/replay/model.h"

/* A message on its way to a lane, or waiting there. */
struct arrival {
    double at;
    size_t bytes;
    int from;
    void *data; /* NULL: no data */
};

struct replay_lane {
    struct yokei_lane lane;
    struct arrival *arrivals; /* [room], in the order in which they were sent */
    int n_arrivals, room;
    int in_flight; /* sends that still occupy a slot */
    bool has_step, works, ended;
    uint32_t counters[YOKEI_N_COUNTERS];
};

struct replay_rank {
    struct yokei_model_rank model;
    struct replay_lane lanes[YOKEI_LANES];
    double in_free, out_free; /* when the rank's link is free, in each direction */
};

/* What happens at a moment: a lane is to be looked at; before, one of its slots may become free. */
struct event {
    double at;
    uint64_t order;
    int rank, lane;
    enum { LOOK, DRAINED, WORKED } what;
};

struct replay {
    const struct yokei_links *links;
    int size;
    struct yokei_hosts hosts;       /* the groups of ranks that share memory */
    struct replay_rank *ranks;      /* [size] */
    double *bridge_out, *bridge_in; /* [n_islands * n_bridges] when the links are free */
    uint64_t *sent;                 /* [n_islands] bytes sent to other islands */
    struct event *heap;             /* [n_events] of [room] */
    size_t n_events, room;
    uint64_t order;
    double now;
    uint64_t n_messages;
    const struct yokei_replay_data *data; /* NULL: times only */
    yoke_status status;                   /* the first error */
};

/* ---- events, earliest first ---- */

static bool earlier(const struct event *a, const struct event *b)
{
    return a->at < b->at || (a->at <= b->at && a->order < b->order);
}

static void push(struct replay *r, double at, int what, int rank, int lane)
{
    if (r->n_events == r->room) {
        const size_t room = YOKE_MAX(2 * r->room, (size_t)1024);
        struct event *heap = realloc(r->heap, room * sizeof *heap);
        if (!heap) {
            r->status = yoke_fail(YOKE_ENOMEM, "replay: no memory for %zu events", room);
            return;
        }
        r->heap = heap;
        r->room = room;
    }
    const struct event e = { at, r->order++, rank, lane, what };
    size_t i = r->n_events++;
    for (; i && earlier(&e, &r->heap[(i - 1) / 2]); i = (i - 1) / 2) r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = e;
}

static struct event pop(struct replay *r)
{
    const struct event first = r->heap[0], last = r->heap[--r->n_events];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < r->n_events; i = child) {
        if (child + 1 < r->n_events && earlier(&r->heap[child + 1], &r->heap[child])) child++;
        if (!earlier(&r->heap[child], &last)) break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = last;
    return first;
}

/* ---- links ---- */

static int island_of(const struct replay *r, int rank) { return rank / r->links->ranks_per_island; }

static double *bridge_of(const struct replay *r, double links[], int rank)
{
    const int place = rank % r->links->ranks_per_island;
    return &links[island_of(r, rank) * r->links->n_bridges + place % r->links->n_bridges];
}

/* Occupy the link from `at` on. Returns when the last byte has passed. */
static double occupy(double *free_at, double at, double bytes, double gbps)
{
    *free_at = YOKE_MAX(*free_at, at) + bytes / (gbps * 1e9);
    return *free_at;
}

static void send_message(struct replay *r, int rank, int id)
{
    struct replay_rank *self = &r->ranks[rank];
    struct replay_lane *l = &self->lanes[id];
    const struct yokei_step *step = &l->lane.step;
    const int to = step->to;
    const size_t bytes = step->n * yoke_dtype_bytes(step->out) + sizeof(struct yokei_header);
    const bool crosses = island_of(r, rank) != island_of(r, to);
    double *out = crosses ? bridge_of(r, r->bridge_out, rank) : &self->out_free;
    double *in = crosses ? bridge_of(r, r->bridge_in, to) : &r->ranks[to].in_free;
    const double gbps = crosses ? r->links->bridge_gbps
                                : YOKE_MIN(r->links->inner_gbps[island_of(r, rank)],
                                           r->links->inner_gbps[island_of(r, to)]);
    const double gone = occupy(out, YOKE_MAX(r->now, *in), (double)bytes, gbps);
    *in = gone;
    if (crosses) r->sent[island_of(r, rank)] += bytes;
    r->n_messages++;
    l->in_flight++;
    push(r, gone, DRAINED, rank, id);
    struct replay_lane *peer = &r->ranks[to].lanes[id];
    if (peer->n_arrivals == peer->room) {
        const int room = YOKE_MAX(2 * peer->room, 4);
        struct arrival *more = realloc(peer->arrivals, (size_t)room * sizeof *more);
        if (!more) {
            r->status = yoke_fail(YOKE_ENOMEM, "replay: no memory for messages");
            return;
        }
        peer->arrivals = more;
        peer->room = room;
    }
    const double at = gone + 1e-6 * (crosses ? r->links->bridge_us : r->links->inner_us);
    peer->arrivals[peer->n_arrivals++] = (struct arrival){ at, bytes, rank, l->lane.room };
    push(r, at, LOOK, to, id);
}

/* ---- steps ---- */

static bool counters_are_there(const struct replay *r, const struct replay_rank *self,
                               const struct yokei_step *step, int id)
{
    for (int i = 0; step->wait && i < step->n_wait; i++) {
        const int q = self->model.comm.hosts.local[i];
        if (q == self->model.op.rank || (step->wait_rank >= 0 && q != step->wait_rank)) continue;
        if (r->ranks[q].lanes[id].counters[step->wait] < step->until) return false;
    }
    return true;
}

/* The place in `arrivals` of the message for which the step waits; -1: it is not there yet. */
static int arrival_of(const struct replay *r, const struct replay_lane *l)
{
    for (int i = 0; i < l->n_arrivals; i++)
        if (l->arrivals[i].from == l->lane.step.from) return l->arrivals[i].at <= r->now ? i : -1;
    return -1;
}

/* Take the message out of the list. Returns its data. */
static void *take_arrival(struct replay *r, int rank, struct replay_lane *l, int i)
{
    void *data = l->arrivals[i].data;
    const size_t wanted = l->lane.step.n * yoke_dtype_bytes(l->lane.step.in) + sizeof(struct yokei_header);
    if (l->arrivals[i].bytes != wanted)
        r->status = yoke_fail(YOKE_EINTERNAL,
                              "replay: rank %d waits for %zu bytes from rank %d, which sent %zu", rank,
                              wanted, l->lane.step.from, l->arrivals[i].bytes);
    for (l->n_arrivals--; i < l->n_arrivals; i++) l->arrivals[i] = l->arrivals[i + 1];
    return data;
}

/* Do the step's work. The message that came ends here, and `room` is the message that goes. */
static void work(struct replay *r, struct replay_rank *self, struct replay_lane *l, void *message)
{
    const struct yokei_step *step = &l->lane.step;
    l->lane.message = message;
    l->lane.room = NULL;
    if (!r->data) return;
    if (step->to >= 0) {
        l->lane.room = malloc(YOKE_MAX(step->n * yoke_dtype_bytes(step->out), (size_t)1));
        if (!l->lane.room) r->status = yoke_fail(YOKE_ENOMEM, "replay: no memory for messages");
    }
    if (!r->status) step->work(&self->model.op, &l->lane);
    free(message);
}

/* The step's work is done: send, set the counter, and go to the next step. */
static void end_step(struct replay *r, int rank, int id)
{
    struct replay_rank *self = &r->ranks[rank];
    struct replay_lane *l = &self->lanes[id];
    const struct yokei_step *step = &l->lane.step;
    if (step->to >= 0) send_message(r, rank, id);
    if (step->sets) {
        l->counters[step->sets] = step->value;
        for (int i = 0; i < self->model.comm.hosts.n_local; i++)
            push(r, r->now, LOOK, self->model.comm.hosts.local[i], id);
    }
    l->has_step = l->works = false;
}

/* Begin the lane's step if all that it needs is there. False: it must wait. */
static bool begin_step(struct replay *r, int rank, int id)
{
    struct replay_rank *self = &r->ranks[rank];
    struct replay_lane *l = &self->lanes[id];
    const struct yokei_step *step = &l->lane.step;
    if (!counters_are_there(r, self, step, id)) return false;
    const int arrival = step->from >= 0 ? arrival_of(r, l) : -1;
    if ((step->from >= 0 && arrival < 0) || (step->to >= 0 && l->in_flight == YOKEI_SLOTS)) return false;
    void *message = arrival >= 0 ? take_arrival(r, rank, l, arrival) : NULL;
    if (!r->status) work(r, self, l, message);
    l->works = true;
    if (!step->reads) return true;
    push(r, occupy(&self->in_free, r->now, (double)step->reads, r->links->inner_gbps[island_of(r, rank)]),
         WORKED, rank, id);
    return true;
}

static void look_at(struct replay *r, int rank, int id)
{
    struct replay_rank *self = &r->ranks[rank];
    struct replay_lane *l = &self->lanes[id];
    while (!l->ended && !l->works && !r->status) {
        if (!l->has_step) {
            l->lane.step = (struct yokei_step){ .from = -1,
                                                .to = -1,
                                                .dtype = self->model.op.dtype,
                                                .in = self->model.op.dtype,
                                                .out = self->model.op.dtype,
                                                .header = &self->model.op.header,
                                                .n_wait = self->model.comm.hosts.n_local,
                                                .wait_rank = -1 };
            l->has_step = self->model.op.algorithm->next(&self->model.op, &l->lane, &l->lane.step);
            l->ended = !l->has_step;
            continue;
        }
        if (!begin_step(r, rank, id)) return;
        if (!l->lane.step.reads) end_step(r, rank, id);
    }
}

static void happen(struct replay *r, const struct event *e)
{
    struct replay_lane *l = &r->ranks[e->rank].lanes[e->lane];
    r->now = e->at;
    if (e->what == DRAINED) l->in_flight--;
    if (e->what == WORKED) end_step(r, e->rank, e->lane);
    look_at(r, e->rank, e->lane);
}

/* All lanes have ended, and no message is left. */
static yoke_status check_end(const struct replay *r)
{
    for (int rank = 0; rank < r->size; rank++)
        for (int id = 0; id < r->ranks[rank].model.op.n_lanes; id++) {
            const struct replay_lane *l = &r->ranks[rank].lanes[id];
            if (!l->ended)
                return yoke_fail(YOKE_EINTERNAL,
                                 "replay: lane %d of rank %d waits for ever (message from %d)", id, rank,
                                 l->lane.step.from);
            if (l->n_arrivals)
                return yoke_fail(YOKE_EINTERNAL,
                                 "replay: lane %d of rank %d never takes a message from rank %d", id, rank,
                                 l->arrivals[0].from);
        }
    return YOKE_OK;
}

/* ---- all ranks ---- */

static yoke_status begin_ranks(struct replay *r, const struct yokei_hosts *hosts, size_t count)
{
    for (int rank = 0; rank < r->size; rank++) {
        struct replay_rank *self = &r->ranks[rank];
        YOKE_TRY(yokei_model_rank_begin(&self->model, rank, r->size, hosts, count, r->data));
        for (int id = 0; id < YOKEI_LANES; id++)
            self->lanes[id].lane = (struct yokei_lane){ .id = id, .round = (size_t)id };
        for (int id = 0; id < self->model.op.n_lanes; id++) push(r, 0, LOOK, rank, id);
        YOKE_TRY(r->status);
    }
    for (int rank = 0; r->data && rank < r->size; rank++) {
        struct yokei_model_rank *model = &r->ranks[rank].model;
        for (int i = 0; i < model->comm.hosts.n_local; i++)
            yokei_model_rank_see(model, &r->ranks[model->comm.hosts.local[i]].model);
    }
    return YOKE_OK;
}

static yoke_status run(struct replay *r, int group, size_t count, struct yokei_replayed *out)
{
    YOKE_TRY(yokei_model_hosts_begin(r->size, group, &r->hosts));
    YOKE_TRY(begin_ranks(r, &r->hosts, count));
    while (r->n_events && !r->status) {
        const struct event e = pop(r);
        happen(r, &e);
    }
    YOKE_TRY(r->status);
    YOKE_TRY(check_end(r));
    out->seconds = r->now;
    out->n_messages = r->n_messages;
    out->bridge_bytes = 0;
    for (int i = 0; i < r->links->n_islands; i++) out->bridge_bytes = YOKE_MAX(out->bridge_bytes, r->sent[i]);
    out->algorithm = yokei_algorithm_name((unsigned)yokei_algorithm_id(r->ranks[0].model.op.algorithm));
    return YOKE_OK;
}

yoke_status yokei_replay(const struct yokei_links *links, int group, size_t count,
                         const struct yokei_replay_data *data, struct yokei_replayed *out)
{
    YOKE_TRY(yokei_model_check(links, group, count));
    struct replay r = { .links = links, .data = data, .size = links->n_islands * links->ranks_per_island };
    const size_t n_bridges = (size_t)links->n_islands * (size_t)links->n_bridges;
    r.ranks = calloc((size_t)r.size, sizeof *r.ranks);
    r.bridge_out = calloc(2 * n_bridges, sizeof *r.bridge_out);
    r.sent = calloc((size_t)links->n_islands, sizeof *r.sent);
    yoke_status status = YOKE_OK;
    if (r.ranks && r.bridge_out && r.sent) {
        r.bridge_in = r.bridge_out + n_bridges;
        status = run(&r, group, count, out);
    } else {
        status = yoke_fail(YOKE_ENOMEM, "replay: no memory for %d ranks", r.size);
    }
    for (int rank = 0; r.ranks && rank < r.size; rank++) {
        yokei_model_rank_end(&r.ranks[rank].model);
        for (int id = 0; id < YOKEI_LANES; id++) {
            for (int i = 0; i < r.ranks[rank].lanes[id].n_arrivals; i++)
                free(r.ranks[rank].lanes[id].arrivals[i].data);
            free(r.ranks[rank].lanes[id].arrivals);
        }
    }
    yokei_model_hosts_end(&r.hosts);
    free(r.ranks);
    free(r.bridge_out);
    free(r.sent);
    free(r.heap);
    return status;
}
