/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of many hosts for hierarchy.c, by recursive halving and doubling (Rabenseifner 2004,
 * doi:10.1007/978-3-540-24685-5_1). Each host sends as many bytes as in a ring, in 2 log2 H messages that
 * follow one another instead of 2 (H - 1).
 *
 * H hosts exchange if H is a power of two. In exchange k host h and host h xor 2^k have partial sums of the
 * same parts of the slice. Each sends one half of them to the other, and adds what comes to the half that
 * it keeps. After log2 H exchanges each host has the whole sum of one part. Then the exchanges run
 * backwards, with finished parts. So every element is added up in the same tree of hosts, and neither the
 * slices nor the parts change bits. The first exchange, which carries the most, is between neighbours.
 *
 * If H is no power of two, the exchanges are among the largest power of two below H. The odd ones of the
 * first hosts give their sums to the host before them, and get the result from it.
 *
 * The steps of a rank, with n exchanges:
 *   0                 sum of this host's ranks to the rank's seat, with the data of the host behind
 *   1 + 2 k, 2 + 2 k  send one half, receive the other (k < n)
 *   then the same     backwards
 *   1 + 4 n           send the result to the host that gave its data
 * A host that gives its data has two steps: send its sum, and receive the result.
 */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

/* The parts that the host has before exchange k, in reduce-scatter. */
struct range {
    int first, n;
};

static struct range range_before(const struct yokei_pairing *p, int k)
{
    struct range r = { 0, 1 << p->n_pairs };
    for (int j = 0; j < k; j++) {
        r.n /= 2;
        if (p->id >> j & 1) r.first += r.n;
    }
    return r;
}

/* The half that the host keeps in exchange k, or the half that it sends. */
static struct range half(const struct yokei_pairing *p, int k, bool kept)
{
    struct range r = range_before(p, k);
    r.n /= 2;
    if ((p->id >> k & 1) == kept) r.first += r.n;
    return r;
}

/* What step i does, for a host that exchanges. */
struct exchange {
    int k;
    bool sends, backwards;
    struct range range; /* the parts that the message has */
};

static struct exchange exchange_of(const struct yokei_pairing *p, int i)
{
    const int at = (i - 1) / 2;
    struct exchange e = { .sends = i % 2 == 1, .backwards = at >= p->n_pairs };
    e.k = e.backwards ? 2 * p->n_pairs - 1 - at : at;
    e.range = half(p, e.k, e.sends == e.backwards);
    return e;
}

static struct yokei_piece halving_piece(const struct yokei_op *op, const struct yokei_pairing *pairing,
                                        const struct exchange *e, size_t round)
{
    return yokei_piece_of(op, round, e->range.first, e->range.n, 1 << pairing->n_pairs);
}

/* The rank's partial sums, behind its results. */
static char *halving_seat(const struct yokei_op *op, const struct yokei_lane *lane,
                          const struct yokei_piece *p)
{
    return yokei_stage_at(op, op->rank, lane, 1) + (p->seat + p->within) * yoke_dtype_bytes(op->wire);
}

static struct yokei_piece whole_piece(const struct yokei_op *op, size_t round)
{
    return yokei_piece_of(op, round, 0, 1, 1);
}

/* ---- work ---- */

static void halving_begin(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = whole_piece(op, lane->step.round);
    yokei_piece_add(op, lane, &p, (void *const[]){ halving_seat(op, lane, &p) }, 1, 0, true);
}

static void halving_give(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = whole_piece(op, lane->step.round);
    yokei_piece_add(op, lane, &p, (void *const[]){ lane->room }, 1, 0, true);
}

static void halving_send(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_pairing pairing = yokei_pairing_of(op);
    const struct exchange e = exchange_of(&pairing, lane->step.hop);
    const struct yokei_piece p = halving_piece(op, &pairing, &e, lane->step.round);
    if (e.backwards)
        yokei_copy(lane->room, yokei_result_of(op, lane, op->rank, p.within),
                   p.n * yoke_dtype_bytes(op->dtype), false);
    else
        yokei_copy(lane->room, halving_seat(op, lane, &p), p.n * yoke_dtype_bytes(op->wire), false);
}

static void halving_add(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_pairing pairing = yokei_pairing_of(op);
    const struct exchange e = exchange_of(&pairing, lane->step.hop);
    const struct yokei_piece p = halving_piece(op, &pairing, &e, lane->step.round);
    const bool last = e.k == pairing.n_pairs - 1;
    void *seat = halving_seat(op, lane, &p), *out[3] = { seat };
    unsigned published = 0;
    const int n_out = last ? yokei_piece_outputs(op, lane, &p, out, &published) : 1;
    yokei_fold(&(struct yokei_fold){ .n = p.n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = 2,
                                     .partial = !last,
                                     .n_in = 2,
                                     .n_out = n_out,
                                     .size = op->size,
                                     .in = (const void *const[]){ seat, lane->message },
                                     .out = out,
                                     .stream = last && yokei_piece_streams(op),
                                     .published = published });
}

static void halving_store(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_pairing pairing = yokei_pairing_of(op);
    const struct exchange e = exchange_of(&pairing, lane->step.hop);
    const struct yokei_piece p = halving_piece(op, &pairing, &e, lane->step.round);
    yokei_piece_pass(op, lane, &p);
}

static void halving_return(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = whole_piece(op, lane->step.round);
    yokei_copy(lane->room, yokei_result_of(op, lane, op->rank, 0), p.n * yoke_dtype_bytes(op->dtype), false);
}

static void halving_receive(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = whole_piece(op, lane->step.round);
    yokei_piece_pass(op, lane, &p);
}

/* ---- steps ---- */

int yokei_halving_count(const struct yokei_op *op)
{
    const struct yokei_pairing p = yokei_pairing_of(op);
    return p.id < 0 ? 2 : 1 + 4 * p.n_pairs + p.takes;
}

/* The host gives its data to the host before it. */
static void giver_step(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                       struct yokei_step *step)
{
    const int other = yokei_rank_on(op->hosts, yokei_own_host(op) - 1, yokei_own_place(op));
    step->n = whole_piece(op, lane->round).n;
    step->work = i ? halving_receive : halving_give;
    if (i) {
        step->from = other;
        return;
    }
    step->to = other;
    step->out = op->wire;
    step->reads = yokei_sum_reads(op, step);
    yokei_wait_published(lane, step);
}

void yokei_halving_step(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                        struct yokei_step *step)
{
    const struct yokei_pairing pairing = yokei_pairing_of(op);
    const int column = yokei_own_place(op), behind = yokei_rank_on(op->hosts, yokei_own_host(op) + 1, column);
    step->hop = i;
    if (pairing.id < 0) {
        giver_step(op, lane, i, step);
    } else if (i == 0) {
        step->n = whole_piece(op, lane->round).n;
        step->work = halving_begin;
        step->in = op->wire;
        step->reads = yokei_sum_reads(op, step);
        if (pairing.takes) step->from = behind;
        yokei_wait_published(lane, step);
    } else if (i == 1 + 4 * pairing.n_pairs) {
        step->n = whole_piece(op, lane->round).n;
        step->work = halving_return;
        step->to = behind;
    } else {
        const struct exchange e = exchange_of(&pairing, i);
        const int other = yokei_rank_on(op->hosts, yokei_pairing_host(&pairing, e.k), column);
        step->n = halving_piece(op, &pairing, &e, lane->round).n;
        step->in = step->out = e.backwards ? op->dtype : op->wire;
        step->work = e.sends ? halving_send : e.backwards ? halving_store : halving_add;
        if (e.sends)
            step->to = other;
        else
            step->from = other;
    }
}

void yokei_halving_effort(const struct yokei_op *op, double *steps_out, double *bytes)
{
    const struct yokei_pairing p = yokei_pairing_of(op);
    const double hosts = 1 << p.n_pairs;
    *steps_out = 2 * p.n_pairs + (p.n_extra ? 2 : 0);
    *bytes *= 2 * (hosts - 1) / hosts + (p.n_extra ? 1 : 0);
}
