/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduce by recursive doubling: log2(size) exchanges of the whole buffer, for messages where hops cost
 * more than bytes. Only the largest power of two of the ranks exchanges. Each other rank gives its data to a
 * neighbour before, and gets the result after.
 * Both partners of an exchange combine the lower ranks' part with the upper ranks' part in that order, so all
 * ranks compute the same bits.
 */
#include "collectives/algorithms/algorithms.h"

struct place {
    int n_exchanging; /* a power of two */
    int id;           /* number among the exchanging ranks; -1: gives its data to rank - 1 */
    bool feeds;       /* takes the data of rank + 1, and returns the result to it */
    int n_extra;
};

static struct place doubling_place_of(const struct yokei_op *op)
{
    struct place place = { .n_exchanging = 1 };
    while (place.n_exchanging * 2 <= op->size) place.n_exchanging *= 2;
    place.n_extra = op->size - place.n_exchanging;
    if (op->rank >= 2 * place.n_extra)
        place.id = op->rank - place.n_extra;
    else if (op->rank % 2)
        place.id = -1;
    else
        place.id = op->rank / 2, place.feeds = true;
    return place;
}

static int rank_of(const struct place *place, int id)
{
    return id < place->n_extra ? 2 * id : id + place->n_extra;
}

/*
 * A rank that takes no part in the exchanges gives its data away, and gets the result. Returns the number of
 * stages.
 */
static int outer_step(const struct yokei_op *op, int stage, const void *own, void *store,
                      struct yokei_step *step)
{
    if (stage == 0) {
        step->own = own;
        step->to = op->rank - 1;
    } else {
        step->from = op->rank - 1;
        step->in = op->dtype;
        step->store = store;
    }
    return 2;
}

/*
 * Stage 0 fills the accumulator. After that each exchange is a send and a receive. Returns the number of
 * stages.
 */
static int inner_step(const struct yokei_op *op, const struct place *place, int stage, const void *own,
                      void *store, struct yokei_step *step)
{
    int n_exchanges = 0;
    while (1 << n_exchanges < place->n_exchanging) n_exchanges++;
    if (stage == 0) {
        step->own = own;
        if (place->feeds) step->from = op->rank + 1;
        step->own_first = true;
        step->store_acc = true;
        if (n_exchanges) return 1 + 2 * n_exchanges;
        step->store_acc = false;
        step->store = store;
        step->finish = true;
        return 1;
    }
    const int partner = place->id ^ 1 << (stage - 1) / 2;
    step->use_acc = true;
    if (stage % 2) {
        step->to = rank_of(place, partner);
        return 1 + 2 * n_exchanges;
    }
    step->from = rank_of(place, partner);
    step->own_first = place->id < partner;
    if (stage < 2 * n_exchanges) {
        step->store_acc = true;
        return 1 + 2 * n_exchanges;
    }
    step->finish = step->canonical = true;
    step->store = store;
    step->out = op->dtype;
    if (place->feeds) step->to = op->rank + 1;
    return 1 + 2 * n_exchanges;
}

static bool doubling_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    if (lane->round >= op->n_rounds) return false;
    const struct place place = doubling_place_of(op);
    const size_t at = lane->round * op->chunk, bytes = yoke_dtype_bytes(op->dtype);
    step->n = YOKE_MIN(op->chunk, op->count - at);
    step->in = step->out = op->wire;
    const void *own = (const char *)op->send + at * bytes;
    void *store = (char *)op->recv + at * bytes;
    const int n_stages = place.id < 0 ? outer_step(op, lane->stage, own, store, step)
                                      : inner_step(op, &place, lane->stage, own, store, step);
    if (++lane->stage == n_stages) {
        lane->stage = 0;
        lane->round += (size_t)op->n_lanes;
    }
    return true;
}

static void doubling_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    double log = 0;
    for (int n = 1; n < op->size; n *= 2) log++;
    effort->steps = log;
    effort->sent *= log;
}

const struct yokei_algorithm yokei_doubling = { doubling_next, .why = "; short, so few steps count",
                                                .effort = doubling_effort };
