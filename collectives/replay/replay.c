/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run the steps of a collective for all ranks of a model. The algorithm makes the steps, as for the engine. A
 * step is done here as engine/engine.c does it: wait for the counters, for the message and for one of two
 * send slots, then work, send, and set the counter. The work is done only if there is data.
 * With links the steps are done in the order of a modelled clock. Each link carries one transfer after
 * another, and a transfer occupies it for bytes / rate. What a step reads from other ranks of its group
 * passes this rank's link inside the island.
 */
#include "collectives/replay/replay.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/engine/engine.h"
#include "collectives/replay/model.h"

/* A message on its way to a lane, or waiting there. */
struct arrival {
    double at;
    size_t bytes; /* with the header */
    int from;
    void *data; /* NULL: no data */
};

struct replay_lane {
    struct arrival *arrivals; /* [room], in the order in which they were sent */
    int n_arrivals, room;
    int in_flight; /* sends that still occupy a slot */
    bool has_step, works, ended;
    bool queued; /* without links: an event for the lane is on its way */
    uint32_t counters[YOKEI_N_COUNTERS];
};

struct replay_rank {
    struct replay_lane lanes[YOKEI_LANES];
    uint32_t posted;          /* the counter YOKEI_POSTED, which all lanes share */
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
    struct yokei_model *model;
    const struct yokei_replay_call *call;
    const struct yokei_links *links; /* NULL: no clock */
    int size;
    struct replay_rank *ranks;      /* [size] */
    double *bridge_out, *bridge_in; /* [n_islands * n_bridges] when the links are free */
    uint64_t *bridged;              /* [n_islands] bytes sent to other islands */
    struct event *heap;             /* [n_events] of [room] */
    size_t n_events, room;
    uint64_t order;
    double now;
    struct yokei_replayed *out;
    yoke_status status; /* the first error */
};

static struct yokei_op *op_of(const struct replay *r, int rank) { return &r->model->ranks[rank].op; }

static struct yokei_lane *lane_of(const struct replay *r, int rank, int id)
{
    return &r->model->ranks[rank].comm.work.lanes[id];
}

static void no_memory(struct replay *r, const char *what)
{
    r->status = yoke_fail(YOKE_ENOMEM, "replay: no memory for %s", what);
}

/* Steps that do not fit together: keep the first text. */
static void trouble(struct replay *r, const char *format, ...)
{
    va_list args;
    if (r->out->trouble[0]) return;
    va_start(args, format);
    vsnprintf(r->out->trouble, sizeof r->out->trouble, format, args);
    va_end(args);
}

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
            no_memory(r, "events");
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

/* Let the lane be looked at. Without a clock one event is enough, whatever happens before it. */
static void look_again(struct replay *r, double at, int rank, int lane)
{
    struct replay_lane *l = &r->ranks[rank].lanes[lane];
    if (!r->links && l->queued) return;
    l->queued = true;
    push(r, at, LOOK, rank, lane);
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

/* ---- messages ---- */

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

/* Send bytes over the links between two ranks. Returns when they arrive. */
static double pass_links(struct replay *r, int rank, int to, int id, size_t bytes)
{
    const bool crosses = island_of(r, rank) != island_of(r, to);
    double *out = crosses ? bridge_of(r, r->bridge_out, rank) : &r->ranks[rank].out_free;
    double *in = crosses ? bridge_of(r, r->bridge_in, to) : &r->ranks[to].in_free;
    const double gbps = crosses ? r->links->bridge_gbps
                                : YOKE_MIN(r->links->inner_gbps[island_of(r, rank)],
                                           r->links->inner_gbps[island_of(r, to)]);
    const double gone = occupy(out, YOKE_MAX(r->now, *in), (double)bytes, gbps);
    *in = gone;
    if (crosses) r->bridged[island_of(r, rank)] += bytes;
    push(r, gone, DRAINED, rank, id);
    return gone + 1e-6 * (crosses ? r->links->bridge_us : r->links->inner_us);
}

static void arrive(struct replay *r, int to, int id, const struct arrival *message)
{
    struct replay_lane *l = &r->ranks[to].lanes[id];
    if (l->n_arrivals == l->room) {
        const int room = YOKE_MAX(2 * l->room, 4);
        struct arrival *more = realloc(l->arrivals, (size_t)room * sizeof *more);
        if (!more) {
            free(message->data);
            no_memory(r, "messages");
            return;
        }
        l->arrivals = more;
        l->room = room;
    }
    l->arrivals[l->n_arrivals++] = *message;
    look_again(r, message->at, to, id);
}

/* The same message again, with a copy of its data. */
static void arrive_twice(struct replay *r, int to, int id, struct arrival message)
{
    arrive(r, to, id, &message);
    if (message.data && !r->status) {
        const size_t bytes = message.bytes - sizeof(struct yokei_header);
        void *copy = malloc(YOKE_MAX(bytes, (size_t)1));
        if (!copy) {
            no_memory(r, "messages");
            return;
        }
        memcpy(copy, message.data, bytes);
        message.data = copy;
    }
    arrive(r, to, id, &message);
}

static void send_message(struct replay *r, int rank, int id)
{
    const struct yokei_lane *lane = lane_of(r, rank, id);
    const struct yokei_hosts *hosts = op_of(r, rank)->hosts;
    const enum yokei_replay_fault fault = r->out->n_messages++ == r->call->at ? r->call->fault
                                                                              : YOKEI_REPLAY_RIGHT;
    int to = lane->step.to;
    const size_t data = lane->step.n * yoke_dtype_bytes(lane->step.out);
    struct arrival message = { r->now, data + sizeof(struct yokei_header), rank, lane->room };
    if (hosts->of[rank] != hosts->of[to]) r->model->sent[rank] += data;
    r->ranks[rank].lanes[id].in_flight++;
    if (r->links) message.at = pass_links(r, rank, to, id, message.bytes);
    if (fault == YOKEI_REPLAY_MISROUTED)
        to = (to + 1) % r->size == rank ? (to + 2) % r->size : (to + 1) % r->size;
    if (fault == YOKEI_REPLAY_LOST)
        free(message.data);
    else if (fault == YOKEI_REPLAY_DOUBLED)
        arrive_twice(r, to, id, message);
    else
        arrive(r, to, id, &message);
}

/* The place in `arrivals` of the message for which the step waits; -1: it is not there yet. */
static int arrival_of(const struct replay *r, const struct replay_lane *l, int from)
{
    for (int i = 0; i < l->n_arrivals; i++)
        if (l->arrivals[i].from == from) return l->arrivals[i].at <= r->now ? i : -1;
    return -1;
}

/* Take the message out of the list. Returns its data. */
static void *take_arrival(struct replay *r, int rank, int id, int i)
{
    struct replay_lane *l = &r->ranks[rank].lanes[id];
    const struct yokei_step *step = &lane_of(r, rank, id)->step;
    void *data = l->arrivals[i].data;
    const size_t wanted = step->n * yoke_dtype_bytes(step->in) + sizeof(struct yokei_header);
    if (l->arrivals[i].bytes != wanted) {
        r->out->has_wrong_length = true;
        trouble(r, "rank %d waits for %zu bytes from rank %d, which sent %zu", rank, wanted, step->from,
                l->arrivals[i].bytes);
    }
    if (!r->links) { /* the sender's slot is free now */
        r->ranks[step->from].lanes[id].in_flight--;
        look_again(r, r->now, step->from, id);
    }
    for (l->n_arrivals--; i < l->n_arrivals; i++) l->arrivals[i] = l->arrivals[i + 1];
    return data;
}

/* ---- steps ---- */

/* As counters_ready in engine.c. */
static bool counters_are_there(const struct replay *r, int rank, int id)
{
    const struct yokei_step *step = &lane_of(r, rank, id)->step;
    for (int i = 0; step->wait && i < step->n_wait; i++) {
        const int q = op_of(r, rank)->hosts->local[i];
        if (q == rank || (step->wait_rank >= 0 && q != step->wait_rank)) continue;
        const uint32_t at = step->wait == YOKEI_POSTED ? r->ranks[q].posted
                                                       : r->ranks[q].lanes[id].counters[step->wait];
        if ((int32_t)(at - step->until) < 0) return false;
    }
    return true;
}

/* For device memory: the rank's own data comes to the lane's copy first, and the result leaves it last. */
static void combine(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_step *step = &lane->step;
    const size_t bytes = step->n * yoke_dtype_bytes(step->dtype);
    if (op->staged && step->own && bytes) memcpy(lane->own_copy, step->own, bytes);
    yokei_compute(op, lane, lane->message, lane->room);
    if (op->staged && step->store && bytes) memcpy(step->store, lane->result_copy, bytes);
}

/* Do the step's work. The message that came ends here, and `room` is the message that goes. */
static void work(struct replay *r, int rank, int id, void *message)
{
    const struct yokei_op *op = op_of(r, rank);
    struct yokei_lane *lane = lane_of(r, rank, id);
    const struct yokei_step *step = &lane->step;
    lane->message = message;
    lane->room = NULL;
    if (!r->call->send) return;
    if (step->to >= 0) {
        lane->room = malloc(YOKE_MAX(step->n * yoke_dtype_bytes(step->out), (size_t)1));
        if (!lane->room) no_memory(r, "messages");
    }
    if (!r->status && !r->out->has_wrong_length) {
        if (step->work)
            step->work(op, lane);
        else
            combine(op, lane);
        if (!r->status) r->status = lane->copied;
    }
    free(message);
}

/* Whether lane `id` of rank q may wait for a counter that lane `by` of another rank has set. */
static bool may_wait_for(const struct replay *r, int q, int id, enum yokei_counter counter, int by)
{
    if (id == by) return true;
    return counter == YOKEI_POSTED && r->ranks[q].lanes[id].has_step
           && lane_of(r, q, id)->step.wait == YOKEI_POSTED;
}

static void set_counter(struct replay *r, int rank, int id)
{
    const struct yokei_step *step = &lane_of(r, rank, id)->step;
    const struct yokei_op *op = op_of(r, rank);
    if (step->sets == YOKEI_POSTED) r->ranks[rank].posted = step->value;
    r->ranks[rank].lanes[id].counters[step->sets] = step->value;
    for (int i = 0; i < op->hosts->n_local; i++)
        for (int l = 0; l < op->n_lanes; l++)
            if (may_wait_for(r, op->hosts->local[i], l, step->sets, id))
                look_again(r, r->now, op->hosts->local[i], l);
}

/* The step's work is done: send, set the counter, and go to the next step. */
static void end_step(struct replay *r, int rank, int id)
{
    struct replay_lane *l = &r->ranks[rank].lanes[id];
    const struct yokei_step *step = &lane_of(r, rank, id)->step;
    if (step->to >= 0) send_message(r, rank, id);
    if (step->sets) set_counter(r, rank, id);
    l->has_step = l->works = false;
    r->out->n_steps++;
}

/* Begin the lane's step if all that it needs is there. False: it must wait. */
static bool begin_step(struct replay *r, int rank, int id)
{
    struct replay_lane *l = &r->ranks[rank].lanes[id];
    const struct yokei_step *step = &lane_of(r, rank, id)->step;
    if (!counters_are_there(r, rank, id)) return false;
    const int arrival = step->from >= 0 ? arrival_of(r, l, step->from) : -1;
    if ((step->from >= 0 && arrival < 0) || (step->to >= 0 && l->in_flight >= YOKEI_SLOTS)) return false;
    void *message = arrival >= 0 ? take_arrival(r, rank, id, arrival) : NULL;
    work(r, rank, id, message);
    l->works = true;
    if (!r->links || !step->reads) return true;
    push(r,
         occupy(&r->ranks[rank].in_free, r->now, (double)step->reads,
                r->links->inner_gbps[island_of(r, rank)]),
         WORKED, rank, id);
    return true;
}

static void look_at(struct replay *r, int rank, int id)
{
    const struct yokei_op *op = op_of(r, rank);
    struct replay_lane *l = &r->ranks[rank].lanes[id];
    struct yokei_lane *lane = lane_of(r, rank, id);
    while (!l->ended && !l->works && !r->status) {
        if (!l->has_step) {
            lane->step = (struct yokei_step){ .from = -1,
                                              .to = -1,
                                              .dtype = op->dtype,
                                              .in = op->dtype,
                                              .out = op->dtype,
                                              .header = &op->header,
                                              .n_wait = op->hosts->n_local,
                                              .wait_rank = -1 };
            l->has_step = op->algorithm->next(op, lane, &lane->step);
            l->ended = !l->has_step;
            continue;
        }
        if (!begin_step(r, rank, id)) return;
        if (!r->links || !lane->step.reads) end_step(r, rank, id);
    }
}

static void happen(struct replay *r, const struct event *e)
{
    struct replay_lane *l = &r->ranks[e->rank].lanes[e->lane];
    r->now = e->at;
    l->queued = false;
    if (e->what == DRAINED) l->in_flight--;
    if (e->what == WORKED) end_step(r, e->rank, e->lane);
    look_at(r, e->rank, e->lane);
}

/* ---- all ranks ---- */

/* Whether all lanes have ended, and no message is left. */
static void check_end(struct replay *r)
{
    for (int rank = 0; rank < r->size; rank++)
        for (int id = 0; id < YOKEI_LANES; id++) {
            const struct replay_lane *l = &r->ranks[rank].lanes[id];
            if (id < op_of(r, rank)->n_lanes && !l->ended) {
                r->out->is_stuck = true;
                trouble(r, "lane %d of rank %d waits for ever (message from %d)", id, rank,
                        lane_of(r, rank, id)->step.from);
            }
            r->out->n_left += (uint64_t)l->n_arrivals;
            if (l->n_arrivals)
                trouble(r, "lane %d of rank %d never takes a message from rank %d", id, rank,
                        l->arrivals[0].from);
        }
}

static yoke_status run(struct replay *r)
{
    for (int rank = 0; rank < r->size; rank++) YOKE_TRY(yokei_model_prepare(r->model, rank, r->call));
    if (r->call->send) yokei_model_show_memory(r->model);
    memset(r->model->sent, 0, (size_t)r->size * sizeof *r->model->sent);
    for (int rank = 0; rank < r->size; rank++)
        for (int id = 0; id < op_of(r, rank)->n_lanes; id++) look_again(r, 0, rank, id);
    while (r->n_events && !r->status) {
        const struct event e = pop(r);
        happen(r, &e);
    }
    YOKE_TRY(r->status);
    check_end(r);
    r->out->op = op_of(r, 0);
    r->out->sent = r->model->sent;
    r->out->algorithm = yokei_algorithm_name((unsigned)yokei_algorithm_id(r->out->op->algorithm));
    r->out->seconds = r->now;
    for (int i = 0; r->links && i < r->links->n_islands; i++)
        r->out->bridge_bytes = YOKE_MAX(r->out->bridge_bytes, r->bridged[i]);
    return YOKE_OK;
}

static yoke_status begin_links(struct replay *r)
{
    const struct yokei_links *links = r->links;
    if (!links) return YOKE_OK;
    if (links->n_islands * links->ranks_per_island != r->size)
        return yoke_fail(YOKE_EINVAL, "replay: links for %d islands of %d ranks, and %d ranks",
                         links->n_islands, links->ranks_per_island, r->size);
    const size_t n_bridges = (size_t)links->n_islands * (size_t)links->n_bridges;
    r->bridge_out = calloc(2 * n_bridges, sizeof *r->bridge_out);
    r->bridge_in = r->bridge_out + n_bridges;
    r->bridged = calloc((size_t)links->n_islands, sizeof *r->bridged);
    if (!r->bridge_out || !r->bridged) no_memory(r, "links");
    return r->status;
}

yoke_status yokei_replay_call(struct yokei_model *model, const struct yokei_replay_call *call,
                              const struct yokei_links *links, struct yokei_replayed *out)
{
    struct replay r = { .model = model, .call = call, .links = links, .size = model->size, .out = out };
    *out = (struct yokei_replayed){ .n_messages = 0 };
    r.ranks = calloc((size_t)r.size, sizeof *r.ranks);
    if (!r.ranks) no_memory(&r, "ranks");
    yoke_status status = r.status ? r.status : begin_links(&r);
    if (!status) status = run(&r);
    for (int rank = 0; r.ranks && rank < r.size; rank++)
        for (int id = 0; id < YOKEI_LANES; id++) {
            struct replay_lane *l = &r.ranks[rank].lanes[id];
            for (int i = 0; i < l->n_arrivals; i++) free(l->arrivals[i].data);
            free(l->arrivals);
        }
    free(r.ranks);
    free(r.bridge_out);
    free(r.bridged);
    free(r.heap);
    return status;
}

yoke_status yokei_replay(const struct yokei_links *links, int group, size_t count,
                         const struct yokei_replay_data *data, struct yokei_replayed *out)
{
    YOKE_TRY(yokei_model_check(links, group, count));
    struct yokei_model *model;
    yoke_status status = yokei_model_of_groups(links->n_islands * links->ranks_per_island, group, &model);
    const struct yokei_replay_call call = { .kind = YOKEI_ALL_REDUCE,
                                            .count = count,
                                            .dtype = data ? data->dtype : YOKE_F32,
                                            .reduction = data ? data->reduction : YOKE_SUM,
                                            .root = -1,
                                            .send = data ? data->send : NULL,
                                            .recv = data ? data->recv : NULL };
    if (!status) status = yokei_replay_call(model, &call, links, out);
    if (!status) {
        out->op = NULL;
        out->sent = NULL;
    }
    yokei_model_end(model);
    if (!status && out->trouble[0]) status = yoke_fail(YOKE_EINTERNAL, "replay: %s", out->trouble);
    return status;
}
