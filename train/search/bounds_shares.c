/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of time for replicas on different kinds. The proofs are in bounds.h. */
#include <math.h>
#include "core/base/base.h"
#include "parallel/balance.h"
#include "train/search/bounds_inside.h"

bool yokei_same_kinds(const struct yokei_layout *l, const struct yokei_slot_place *slots, int a, int b)
{
    for (int s = 0; s < l->pipeline; s++)
        if (slots[yokei_layout_slot(l, s, a)].kind != slots[yokei_layout_slot(l, s, b)].kind) return false;
    return true;
}

/* Replicas whose stages lie on the same kinds. */
struct alike {
    int first, n;
    double slowest;       /* the least possible time of the slowest stage */
    double fill, forward; /* the least that a block fills before later stages, and the part of its F */
    /* of each stage: the time of a block, and what the sums of its gradients add after the last passes */
    double block[YOKEI_MOST_CUTS], end[YOKEI_MOST_CUTS];
};

static yoke_status measure_alike(yokei_predictor *p, const struct yokei_predict_config *c,
                                 const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                                 const struct yokei_slot_place *slots, struct alike *x)
{
    const bool sends_early = l->schedule == YOKEI_PIPELINE_ZB_H1;
    double base[YOKEI_MOST_CUTS], cost[YOKEI_MOST_CUTS];
    int64_t units[YOKEI_MOST_CUTS];
    x->fill = x->forward = INFINITY;
    for (int s = 0; s < l->pipeline; s++) {
        struct yokei_unit u;
        YOKE_TRY(yokei_predict_unit(p, l->tensor, l->sequence_parallel, l->recompute, l->micro_batch,
                                    slots[yokei_layout_slot(l, s, x->first)].kind, &u));
        base[s] = (s == 0 ? all(&u.before) : 0) + (s == l->pipeline - 1 ? all(&u.after) : 0);
        cost[s] = x->block[s] = all(&u.block);
        /* chunk 0 has at most this part of n blocks, because n >= chunks */
        const double part = (2.0 * l->chunks - 1) / (l->chunks * l->chunks);
        x->end[s] = 4 * (sizes->matrices[1] + sizes->vectors[1]) / l->tensor
                        * yokei_bound_byte(c, l, slots, s)
                    - part * yokei_bound_back(l, s, &u.block);
        x->forward = fmin(x->forward, u.block.F / l->chunks);
        x->fill = fmin(x->fill, chain(&u.block, sends_early) / l->chunks);
    }
    x->slowest = yokei_balance_deal(sizes->n_blocks, l->pipeline, base, cost, l->chunks, units);
    return YOKE_OK;
}

/* Whether stages with m micro-batches and their sums can hold all blocks within X seconds. */
static bool can_hold(const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                     const struct alike *x, double X, double m)
{
    double whole = 0, filled = 0, summed = 0; /* blocks: whole ones on each stage, by (2), and by (3) */
    for (int s = 0; s < l->pipeline; s++) {
        const double time = m * x->block[s], with_sums = time + x->end[s];
        whole += with_sums > 0 ? floor(X / with_sums * (1 + 1e-12)) : sizes->n_blocks;
        filled += fmax(X - fmin(x->fill, time) * filled, 0) / time;
        summed += with_sums > x->forward ? fmax(X - x->forward * summed, 0) / with_sums : sizes->n_blocks;
    }
    return fmin(whole, fmin(filled, summed) * (1 + 1e-9)) >= sizes->n_blocks;
}

/* The most micro-batches that a replica can take within X seconds. */
static int64_t most_within(const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                           const struct alike *x, double X, int64_t all_of_them)
{
    int64_t low = 0, high = YOKE_MIN(all_of_them, (int64_t)(X / x->slowest));
    while (low < high) {
        const int64_t m = low + (high - low + 1) / 2;
        if (can_hold(l, sizes, x, X, (double)m))
            low = m;
        else
            high = m - 1;
    }
    return low;
}

/* A time within which one replica can take all micro-batches. */
static double most_time(const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                        const struct alike *x, int64_t M)
{
    double most = x->slowest * (double)M;
    for (int s = 0; s < l->pipeline; s++)
        most = fmax(most, sizes->n_blocks * ((double)M * x->block[s] + fmax(x->end[s], 0)));
    return most;
}

/* Whether the replicas of all lists can take M micro-batches within X seconds. */
static bool can_take(const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                     const struct alike *list, int n, double X, int64_t M)
{
    int64_t sum = 0;
    for (int k = 0; k < n && X > 0; k++) sum += list[k].n * most_within(l, sizes, &list[k], X, M);
    return sum >= M;
}

yoke_status yokei_bound_shares(yokei_predictor *p, const struct yokei_predict_config *c,
                               const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                               const struct yokei_slot_place *slots, double limit, double *seconds_out)
{
    enum { MOST = 16 };
    struct alike list[MOST];
    const int64_t M = c->batch / l->micro_batch;
    int n = 0;
    double low = 0, high = 0;
    *seconds_out = 0;
    for (int d = 0; d < l->data; d++) {
        int k = n - 1;
        while (k >= 0 && !yokei_same_kinds(l, slots, list[k].first, d)) k--;
        if (k < 0 && n == MOST) return YOKE_OK; /* no bound */
        if (k < 0) {
            k = n++;
            list[k].first = d, list[k].n = 0;
            YOKE_TRY(measure_alike(p, c, l, sizes, slots, &list[k]));
            high = fmax(high, most_time(l, sizes, &list[k], M));
        }
        list[k].n++;
    }
    if (limit < high && !can_take(l, sizes, list, n, limit, M)) {
        *seconds_out = fmax(limit, 0);
        return YOKE_OK;
    }
    high = fmin(high, limit);
    for (int turn = 0; turn < 30; turn++) {
        const double middle = low + (high - low) / 2;
        *(can_take(l, sizes, list, n, middle, M) ? &high : &low) = middle;
    }
    *seconds_out = low;
    return YOKE_OK;
}
