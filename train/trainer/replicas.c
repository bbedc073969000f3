/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that replicas divide among themselves: the sums of gradients and the steps of weights. With
 * config.zero = 1 it is also the memory of moments and masters (ZeRO-1: Rajbhandari et al. 2020,
 * arXiv:1910.02054).
 *
 * parallel/state.c cuts each bucket into a slice for each replica. Both levels of config.zero give the same
 * bits. In both, norms are summed slice by slice, and AdamW works element by element. Only the order of the
 * sums of gradients could differ. If all ranks share memory, reduce_scatter and all_reduce both add in the
 * order of the ranks. Otherwise each has a different order. Then the all_reduce is run as the same
 * reduce_scatter that ZeRO-1 calls, followed by an all_gather.
 */
#include <math.h>
#include <stdlib.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "train/trainer/memory.h"

/* ---- the buckets of a step ---- */

static yoke_comm *replicas_of(const struct yoke_trainer *t)
{
    return t->groups.data ? t->groups.data : t->config.comm;
}

static void *own_gradients(const struct yoke_trainer *t, const struct yokei_bucket *b)
{
    return yoke_at(t->base, b->gradient + (size_t)b->own.begin * yoke_dtype_bytes(t->plan.state.wide));
}

yoke_status yokei_zero_begin(struct yoke_trainer *t)
{
    const struct yokei_state *s = &t->plan.state;
    if (t->plan.mesh.data == 1) return YOKE_OK;
    YOKE_TRY(yoke_event_create(t->device, &t->between));
    t->sums_in_order = calloc((size_t)s->n_buckets + 1, sizeof *t->sums_in_order);
    if (!t->sums_in_order)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d buckets", s->n_buckets);
    for (int b = 0; b < s->n_buckets; b++) {
        size_t longest = 0;
        if (s->bucket[b].sums_slices) continue;
        for (int d = 0; d < t->plan.mesh.data; d++) longest = YOKE_MAX(longest, s->bucket[b].counts[d]);
        YOKE_TRY(yokei_ranks_sums_in_order(replicas_of(t), s->bucket[b].n, (int64_t)longest, s->wide,
                                           &t->sums_in_order[b]));
    }
    return YOKE_OK;
}

/*
 * Reduce asynchronously, concurrently with the passes. The calls of a communicator run one after the other,
 * so the event of the last call completes when all calls are complete.
 */
static yoke_status reduce_beside(struct yoke_trainer *t, int bucket, yoke_event *done)
{
    const yoke_dtype wide = t->plan.state.wide;
    const struct yokei_bucket *b = &t->plan.state.bucket[bucket];
    yoke_comm *comm = replicas_of(t);
    void *gradients = yoke_at(t->base, b->gradient), *own = own_gradients(t, b);
    if (!b->sums_slices && t->sums_in_order[bucket])
        return yoke_iall_reduce(gradients, gradients, (size_t)b->n, wide, YOKE_SUM, comm, done);
    YOKE_TRY(yoke_ireduce_scatter_v(gradients, own, b->counts, wide, YOKE_SUM, comm,
                                    b->sums_slices ? done : t->between));
    return b->sums_slices ? YOKE_OK : yoke_iall_gather_v(own, gradients, b->counts, wide, comm, done);
}

yoke_status yokei_zero_reduce(void *context, int bucket, yoke_stream *stream, yoke_event *done)
{
    struct yoke_trainer *t = context;
    const yoke_dtype wide = t->plan.state.wide;
    const struct yokei_bucket *b = &t->plan.state.bucket[bucket];
    yoke_comm *comm = replicas_of(t);
    void *gradients = yoke_at(t->base, b->gradient), *own = own_gradients(t, b);
    if (t->overlaps) return reduce_beside(t, bucket, done);
    if (!b->sums_slices && t->sums_in_order[bucket])
        return yoke_all_reduce(gradients, gradients, (size_t)b->n, wide, YOKE_SUM, comm, stream);
    YOKE_TRY(yoke_reduce_scatter_v(gradients, own, b->counts, wide, YOKE_SUM, comm, stream));
    return b->sums_slices ? YOKE_OK : yoke_all_gather_v(own, gradients, b->counts, wide, comm, stream);
}

yoke_status yokei_zero_gather(void *context, int bucket, yoke_stream *stream)
{
    struct yoke_trainer *t = context;
    const struct yokei_bucket *b = &t->plan.state.bucket[bucket];
    const yoke_dtype dtype = yokei_weight_dtype(&t->plan.state, b->has_copy);
    const size_t own = b->weight + (size_t)b->own.begin * yoke_dtype_bytes(dtype);
    return yoke_all_gather_v(yoke_at(t->base, own), yoke_at(t->base, b->weight), b->counts, dtype,
                             replicas_of(t), stream);
}

yoke_status yokei_replicas_collect(struct yoke_trainer *t, size_t offset, int64_t n, void *all,
                                   yoke_stream *stream)
{
    return yoke_all_gather(yoke_at(t->base, offset), all, (size_t)n, t->plan.state.wide, replicas_of(t),
                           stream);
}

/* ---- shares ---- */

/*
 * The part of the divided memory for which a rank has room in addition to its other memory. Ranks that share
 * a memory share the room. The terms are those of yokei_memory_shortage.
 */
static double room_of(const struct yokei_memory_rank *ranks, int n_ranks, int r)
{
    double have = (double)ranks[r].have, left = 0, n = 0;
    for (int o = 0; o < n_ranks; o++) {
        const struct yokei_memory_rank *k = &ranks[o];
        if (o != r && (ranks[r].is_limited || k->is_limited || k->pool != ranks[r].pool)) continue;
        have = fmin(have, (double)k->have); /* the ranks measured their free memory at different times */
        left += (double)k->taken - (yokei_memory_need(k, &k->report) - (double)k->divided);
        n++;
    }
    return fmax(have + left, 0) / n / (double)ranks[r].undivided;
}

/*
 * Divide in proportion to the rooms, which add up to 1 or more. Shares are rounded down, so that each fits.
 * The rank with the most room gets the rest.
 */
static void divide(const double *room, int n, int64_t *shares_out)
{
    enum { FINE = 10000 };
    double sum = 0;
    int64_t left = FINE;
    int most = 0;
    for (int d = 0; d < n; d++) sum += room[d];
    for (int d = 0; d < n; d++) {
        shares_out[d] = YOKE_MAX((int64_t)(FINE * (room[d] / sum)),
                                 1); /* small whole numbers, as users write them */
        left -= shares_out[d];
        if (room[d] > room[most]) most = d;
    }
    shares_out[most] += left;
}

yoke_status yokei_zero_choose(const struct yokei_mesh *m, const struct yokei_memory_rank *ranks,
                              int64_t *shares_out, bool *uneven_out)
{
    const int n_ranks = yokei_mesh_size(m);
    double *room = malloc((size_t)(m->data + n_ranks) * sizeof *room), *need = room + m->data, sum = 0;
    int short_one;
    if (!room) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d ranks", n_ranks);
    for (int d = 0; d < m->data; d++) room[d] = INFINITY;
    for (int r = 0; r < n_ranks; r++) {
        const int d = yokei_mesh_at(m, r).d;
        need[r] = yokei_memory_need(&ranks[r], &ranks[r].report);
        if (ranks[r].undivided) room[d] = fmin(room[d], room_of(ranks, n_ranks, r));
    }
    for (int d = 0; d < m->data; d++) sum += room[d];
    /*
     * With less room than 1 no shares fit. The run is then refused with equal shares, and the message has the
     * bytes.
     */
    *uneven_out = yokei_memory_shortage(ranks, need, n_ranks, &short_one, NULL) > 0 && sum >= 1
                  && isfinite(sum);
    if (*uneven_out) divide(room, m->data, shares_out);
    free(room);
    return YOKE_OK;
}

yoke_status yokei_zero_shares(const struct yoke_trainer_config *c, yoke_device *device,
                              const struct yokei_trainer_plan *p, int64_t *shares_out, bool *uneven_out)
{
    struct yokei_memory_rank *ranks = calloc((size_t)p->n_ranks, sizeof *ranks);
    if (!ranks) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d ranks", p->n_ranks);
    yoke_status status = yokei_memory_gather(c, device, p, ranks);
    if (!status) status = yokei_zero_choose(&p->mesh, ranks, shares_out, uneven_out);
    free(ranks);
    return status;
}
