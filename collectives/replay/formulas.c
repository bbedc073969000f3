/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of an all_reduce on a modelled cluster, by formulas.
 *
 * The data is worked on in R rounds on L lanes. A round takes W if it is alone. It occupies the busiest
 * bridge for B, and each rank's link inside the island for C. When the last round has passed the bridge, E
 * remains. So there are three limits: the bridges, the lanes, and the links inside. Near a point where two
 * of them are equal, messages wait for each other, and the sixth power allows for this:
 *
 *     T^6 = (R B + E)^6 + (ceil(R / L) W + X)^6 + (R C)^6,  and T = W if R = 1
 *
 * X is for messages of different lanes that meet on a bridge, which only halving has.
 *
 * In the formulas below, p is the number of ranks, g that of an island, I the number of islands, k the
 * number of bridges of an island. G is the number of ranks of a group that shares memory, and N = p / G the
 * number of groups. a is the latency of a link and b its rate, with index i inside an island and x between
 * islands. All ranks of an island that send at once share the bridges, m to a bridge. c, s and q are bytes,
 * and messages have 64 bytes more.
 */
#include <math.h>
#include "collectives/algorithms/hierarchy.h"
#include "collectives/replay/model.h"

struct terms {
    double p, g, group, n_groups, islands, bridges; /* p, g, G, N, I, k */
    double inner_a, inner, bridge_a, bridge;        /* seconds, bytes per second */
};

struct round_time {
    double alone, bridge, tail, inside, meetings; /* W, B, E, C, X */
};

static double divide_up(double a, double b)
{
    const double whole = (double)(int64_t)(a / b);
    return whole * b < a ? whole + 1 : whole;
}

static double message_bytes(double bytes) { return bytes + (double)sizeof(struct yokei_header); }

static double inside(const struct terms *t, double bytes)
{
    return t->inner_a + message_bytes(bytes) / t->inner;
}

/* A message between islands, of each of m ranks at once. */
static double across(const struct terms *t, double m, double bytes)
{
    return t->bridge_a + m * message_bytes(bytes) / t->bridge;
}

/*
 * `n` stations in a ring pass messages of q bytes on, 2 (n - 1) times each. `crossing` of the n links are
 * bridges, each with m such rings. A message goes around in U = sum of its links, but not faster than a
 * bridge passes all n:
 *     2 (n - 1) / n max(U, n m q / b_x)
 */
static double around(const struct terms *t, double n, double crossing, double m, double q)
{
    const double way = (n - crossing) * inside(t, q) + crossing * across(t, m, q);
    const double queue = crossing > 0 ? n * m * message_bytes(q) / t->bridge : 0;
    return 2 * (n - 1) / n * YOKE_MAX(way, queue);
}

/* Number of the links between islands in a ring of all ranks or groups. */
static double crossings(const struct terms *t) { return t->islands > 1 ? t->islands : 0; }

/* Flat ring with messages of c bytes: W = around(p, I, 1, c), B = 2 (p - 1) c / b, with the slowest b. */
static struct round_time flat_ring(const struct terms *t, double c)
{
    const double slowest = t->islands > 1 ? YOKE_MIN(t->bridge, t->inner) : t->inner;
    return (struct round_time){ around(t, t->p, crossings(t), 1, c),
                                2 * (t->p - 1) * message_bytes(c) / slowest,
                                t->islands > 1 ? t->bridge_a : t->inner_a };
}

/*
 * Recursive doubling of n bytes: log2 p exchanges, of which those between ranks g or more apart cross. If p
 * is no power of two, two messages inside islands come first and last.
 *     W = (number inside) (a_i + n / b_i) + (number across) (a_x + m n / b_x),  m = ceil(g / k)
 */
static struct round_time doubling(const struct terms *t, double n)
{
    double alone = 0, distance = 1;
    for (; 2 * distance <= t->p; distance *= 2)
        alone += distance < t->g ? inside(t, n) : across(t, divide_up(t->g, t->bridges), n);
    return (struct round_time){ distance < t->p ? alone + 2 * inside(t, n) : alone };
}

/*
 * Each of N - 1 peers gets one message of s bytes. Two of them are on their way at once, so they take
 * V = ceil((N - 1) / 2) waits. `senders` ranks of an island do this, m = ceil(senders / k) to a bridge, and
 * J = N (1 - 1 / I) of the peers are on other islands.
 *     N = 2: W = a + m s / b_x,  else W = V (a + 2.4 J / (N - 1) m s / b_x);  B = m J s / b_x
 * The factor 2.4 was found by replays: in each wait the messages of more than two ranks pass a bridge.
 */
static struct round_time swap(const struct terms *t, double senders, double s)
{
    const double waits = divide_up(t->n_groups - 1, YOKEI_SLOTS), peers = t->n_groups * (1 - 1 / t->islands);
    const double latency = t->islands > 1 ? t->bridge_a : t->inner_a;
    const double one = t->islands > 1 ? divide_up(senders, t->bridges) * message_bytes(s) / t->bridge
                                      : message_bytes(s) / t->inner;
    const double crossing = t->islands > 1 ? peers : t->n_groups - 1;
    const double in_a_wait = t->n_groups > 2 ? 2.4 * crossing / (t->n_groups - 1) : 1;
    return (struct round_time){ waits * (latency + in_a_wait * one), crossing * one, waits * latency };
}

/* Exchange k of groups by pairs, q bytes each way: across if the groups are on two islands. */
static double pair(const struct terms *t, int k, double m, double q)
{
    const bool crosses = t->group * (1 << k) >= t->g && t->islands > 1;
    return crosses ? across(t, m, q) : inside(t, q);
}

/*
 * Leaders exchange all n bytes, ceil(log2 N) times and once more if N is no power of two; see pair. The
 * leaders of an island share a bridge.
 */
static double leaders(const struct terms *t, double n)
{
    double alone = 0;
    int k = 0;
    for (; 2 << k <= t->n_groups; k++) alone += pair(t, k, t->g / t->group, n);
    return 1 << k < t->n_groups ? alone + 2 * pair(t, 0, t->g / t->group, n) : alone;
}

/*
 * Recursive halving and doubling of a slice of s bytes: exchange k has s / 2^(k + 1) bytes, forwards and
 * backwards. All ranks of an island exchange at once, m = ceil(g / k) to a bridge. If N is no power of two,
 * two messages of s come first and last.
 *     W = 2 sum_k (a + m s / 2^(k + 1) / b),  B = 2 m / b_x (s / 2^(k + 1), summed where k crosses)
 * All lanes begin at once, so their messages meet: X = (L - 1) B / 2, and W grows by B / 2, as was found by
 * replays.
 */
static struct round_time halving(const struct terms *t, int lanes, double s)
{
    const double m = divide_up(t->g, t->bridges);
    struct round_time r = { .tail = t->bridge_a };
    int k = 0;
    for (; 2 << k <= t->n_groups; k++) {
        const double q = s / (2 << k);
        r.alone += 2 * pair(t, k, m, q);
        if (t->group * (1 << k) >= t->g) r.bridge += 2 * m * message_bytes(q) / t->bridge;
    }
    if (1 << k < t->n_groups) {
        r.alone += 2 * pair(t, 0, m, s);
        if (t->group >= t->g) r.bridge += m * message_bytes(s) / t->bridge;
    }
    if (lanes > 1) r.alone += r.bridge / 2;
    r.meetings = (lanes - 1) * r.bridge / 2;
    return r;
}

/*
 * Columns over groups. Each of G columns sums its slice of s bytes (reads (G - 1) s), and takes the other
 * columns' results ((G - 1) s). Between the groups the slices are swapped, halved, or go around in N parts
 * of q = s / N with m = ceil(G / k).
 *     W = 2 (G - 1) s / b_i + (swap(g, s), halving(s), or around(N, I, m, q))
 *     B = that of swap or halving, or 2 (N - 1) m q / b_x
 */
static struct round_time columns(const struct terms *t, const struct yokei_op *op, double s)
{
    const double reads = 2 * (t->group - 1) * s / t->inner, m = divide_up(t->group, t->bridges),
                 q = s / t->n_groups;
    struct round_time between = { around(t, t->n_groups, crossings(t), m, q),
                                  2 * (t->n_groups - 1) * m * message_bytes(q) / t->bridge, t->bridge_a };
    if (op->crossing == YOKEI_CROSS_SWAP) between = swap(t, t->g, s);
    if (op->crossing == YOKEI_CROSS_HALVING) between = halving(t, op->n_lanes, s);
    return (struct round_time){ reads + between.alone, between.bridge, reads + between.tail, reads,
                                between.meetings };
}

static struct round_time one_round(const struct terms *t, const struct yokei_op *op)
{
    const double bytes = (double)yoke_dtype_bytes(op->dtype), n = (double)op->count * bytes;
    const double chunk = YOKE_MIN((double)op->chunk * bytes, n);
    if (op->algorithm == &yokei_doubling) return doubling(t, n);
    if (op->algorithm == &yokei_ring) return flat_ring(t, YOKE_MIN((double)op->chunk * bytes, n / t->p));
    if (op->crossing != YOKEI_CROSS_LEADERS) return columns(t, op, chunk / t->group);
    const double between = yokei_leaders_double(op) ? leaders(t, n) : swap(t, t->g / t->group, n).alone;
    return (struct round_time){ t->group * n / t->inner + between };
}

static double all_rounds(const struct round_time *r, double rounds, double lanes)
{
    const double bridges = rounds * r->bridge + r->tail, inner = rounds * r->inside,
                 waits = divide_up(rounds, lanes) * r->alone + r->meetings;
    return rounds > 1 ? pow(pow(bridges, 6) + pow(waits, 6) + pow(inner, 6), 1. / 6) : r->alone;
}

static void fill_terms(const struct yokei_links *links, int group, struct terms *t)
{
    *t = (struct terms){ .p = links->n_islands * links->ranks_per_island,
                         .g = links->ranks_per_island,
                         .group = group,
                         .islands = links->n_islands,
                         .bridges = links->n_bridges,
                         .inner_a = links->inner_us * 1e-6,
                         .inner = links->inner_gbps[0] * 1e9,
                         .bridge_a = links->bridge_us * 1e-6,
                         .bridge = links->bridge_gbps * 1e9 };
    t->n_groups = t->p / t->group;
    for (int i = 1; i < links->n_islands; i++) t->inner = YOKE_MIN(t->inner, links->inner_gbps[i] * 1e9);
}

yoke_status yokei_modelled_time(const struct yokei_links *links, int group, size_t count, double *seconds_out)
{
    YOKE_TRY(yokei_model_check(links, group, count));
    struct terms t;
    fill_terms(links, group, &t);
    struct yokei_model *model;
    yoke_status status = yokei_model_of_groups((int)t.p, group, &model);
    if (!status)
        status = yokei_model_prepare(
            model, 0,
            &(struct yokei_replay_call){
                .kind = YOKEI_ALL_REDUCE, .count = count, .dtype = YOKE_F32, .root = -1 });
    if (!status) {
        const struct yokei_op *op = &model->ranks[0].op;
        const struct round_time round = one_round(&t, op);
        *seconds_out = all_rounds(&round, (double)op->n_rounds, op->n_lanes);
    }
    yokei_model_end(model);
    return status;
}
