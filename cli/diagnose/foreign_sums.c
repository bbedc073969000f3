/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The costs of replicas that sum their gradients. The n-th sum of a step is the same on all ranks. The rank
 * that comes last waits for nobody, so the shortest time of any rank is that of the sum itself. No clocks are
 * compared, so they may differ between ranks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/foreign.h"
#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST_STEPS = 64, MANY = 8, TINY = 1 << 16, SMALL = 1 << 20 };

struct sum {
    double seconds, early, bytes;
    double quick; /* a low quantile of the seconds of all steps */
};

/* The sums of a step of a rank: out [FOREIGN_MOST_SUMS]. Their number; above the most: too many. */
static int list_sums(const struct foreign_job *j, const struct foreign_window *w, struct sum *out)
{
    const bool device = j->has_kernels[w->rank];
    const int kind = device ? FOREIGN_COLLECTIVE : FOREIGN_HOST_COLLECTIVE,
              passes = device ? FOREIGN_KERNEL : FOREIGN_OPERATOR;
    double last = w->begin, end = w->begin;
    int n = 0;
    const size_t first = foreign_first(j, w->rank, w->begin);
    for (size_t i = first; i < j->n && j->intervals[i].rank == w->rank && j->intervals[i].begin < w->end;
         i++) {
        const struct foreign_interval *v = &j->intervals[i];
        if (!(v->class & kind) || !v->is_sum || v->begin < w->begin) continue;
        if (n == FOREIGN_MOST_SUMS) return n + 1;
        out[n++] = (struct sum){ v->end - v->begin, v->begin, v->bytes, 0 };
        last = fmax(last, v->end);
    }
    /* the backward pass ends before the end of the last sum, for which the optimizer waits */
    for (size_t i = first; i < j->n && j->intervals[i].rank == w->rank && j->intervals[i].begin < last; i++)
        if ((j->intervals[i].class & passes) && j->intervals[i].end <= last)
            end = fmax(end, j->intervals[i].end);
    for (int k = 0; k < n; k++) out[k].early = fmax(end - out[k].early, 0);
    return n;
}

/* The sums that the ranks have in a step; 0: the ranks have different sums. */
static int meet(const struct foreign_job *j, size_t first, size_t last, struct sum *one, struct sum *best)
{
    int n = -1;
    for (size_t w = first; w < last; w++) {
        if (j->windows[w].rank >= j->n_ranks) continue;
        const int own = list_sums(j, &j->windows[w], one);
        if (own > FOREIGN_MOST_SUMS || (n >= 0 && own != n)) return 0;
        for (int k = 0; k < own; k++) {
            const double bytes = n >= 0 && !isfinite(one[k].bytes) ? best[k].bytes : one[k].bytes;
            if (n < 0 || one[k].seconds < best[k].seconds) best[k] = one[k];
            best[k].bytes = bytes;
        }
        n = own;
    }
    return n < 0 ? 0 : n;
}

/*
 * Seconds of a sum without bytes: the intercept of a line through the sums. If the sums have the same size,
 * or their sizes are not known, they are those of the median sum, if the sums are tiny or many. Many small
 * sums of one size take longer than the quickest of them for a reason that is not their size. 0: unknown.
 */
static double latency_of(const struct sum *sums, int n)
{
    double seconds[FOREIGN_MOST_SUMS], quick = INFINITY, least = INFINITY, most = 0, bytes = 0, mean = 0,
                                       both = 0, squares = 0;
    for (int b = 0; b < n; b++) {
        const double size = isfinite(sums[b].bytes) ? sums[b].bytes : 0;
        seconds[b] = sums[b].seconds;
        quick = fmin(quick, sums[b].quick), least = fmin(least, size), most = fmax(most, size);
        bytes += size / n, mean += sums[b].seconds / n;
    }
    for (int b = 0; b < n; b++) {
        const double size = isfinite(sums[b].bytes) ? sums[b].bytes : 0;
        both += (size - bytes) * (sums[b].seconds - mean), squares += (size - bytes) * (size - bytes);
    }
    const double median = yokei_median(seconds, n);
    if (!(most > 0)) return n >= MANY ? median : 0;
    if (most > 2 * least) return fmin(fmax(mean - fmax(both, 0) / squares * bytes, 0), median);
    if (most <= TINY) return median;
    return n >= MANY && most <= SMALL ? fmax(median - quick, 0) : 0;
}

static yoke_status make_costs(struct foreign_job *j, const struct sum *sums, int n, bool block)
{
    struct diagnose_run *run = j->run;
    struct yokei_facts *f = &run->facts;
    struct yokei_costs *c = &run->costs;
    *c = (struct yokei_costs){ .n_stages = 1,
                               .n_chunks = 1,
                               .n_replicas = f->n_ranks,
                               .n_sums = n,
                               .receiver_takes = true,
                               .sums_block = block,
                               .agree = latency_of(sums, n),
                               .chunk = calloc((size_t)f->n_ranks, sizeof *c->chunk),
                               .hop = calloc((size_t)f->n_ranks, sizeof *c->hop),
                               .sum = calloc((size_t)(f->n_ranks * n), sizeof *c->sum),
                               .once = calloc((size_t)f->n_ranks, sizeof *c->once) };
    run->sum_bytes = calloc((size_t)(f->n_ranks * n), sizeof(double));
    run->hop_bytes = calloc((size_t)f->n_ranks, sizeof(double));
    if (!c->chunk || !c->hop || !c->sum || !c->once || !run->sum_bytes || !run->hop_bytes)
        return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", f->n_ranks);
    for (int r = 0; r < f->n_ranks; r++) {
        YOKE_TRY(yokei_schedule_add_line(&run->schedule));
        for (int k = YOKEI_ACTION_F; k <= YOKEI_ACTION_W; k++)
            YOKE_TRY(yokei_schedule_append(&run->schedule, (enum yokei_action_kind)k, 0, 0));
        for (int b = 0; b < n; b++) {
            YOKE_TRY(yokei_schedule_append(&run->schedule, YOKEI_ACTION_REDUCE, b, 0));
            c->sum[r * n + b].seconds = sums[b].seconds;
            c->sum[r * n + b].early = block ? 0 : fmin(sums[b].early, f->rank[r].busy * 2 / 3);
            run->sum_bytes[r * n + b] = isfinite(sums[b].bytes) ? sums[b].bytes : 0;
        }
        YOKE_TRY(yokei_schedule_append(&run->schedule, YOKEI_ACTION_AGREE, 0, 0));
        YOKE_TRY(yokei_schedule_append(&run->schedule, YOKEI_ACTION_STEP, 0, 0));
        const double pass = f->rank[r].busy / 3;
        c->chunk[r] = (struct yokei_chunk_costs){ pass, pass, pass, 0, 0, 0, 0 };
    }
    f->knows_latency = true;
    f->costs = c, f->schedule = &run->schedule;
    f->sum_bytes = run->sum_bytes, f->hop_bytes = run->hop_bytes;
    return YOKE_OK;
}

/* The medians of the last steps: out [FOREIGN_MOST_SUMS]. The number of sums; 0: the ranks differ. */
static int median_sums(const struct foreign_job *j, struct sum *one, struct sum *all, struct sum *out)
{
    int n = 0, n_steps = 0;
    for (size_t w = 0, end; w < j->n_windows; w = end) {
        for (end = w; end < j->n_windows && j->windows[end].step == j->windows[w].step;) end++;
        struct sum *to = all + (size_t)(n_steps % MOST_STEPS) * FOREIGN_MOST_SUMS;
        const int own = end - w >= (size_t)j->n_ranks ? meet(j, w, end, one, to) : 0;
        if (!own) continue;
        if (own != n) { /* a step of another kind, such as the first one: begin anew */
            memmove(all, to, (size_t)own * sizeof *all);
            n_steps = 0;
        }
        n = own;
        n_steps++;
    }
    const int kept = YOKE_MIN(n_steps, (int)MOST_STEPS);
    for (int k = 0; k < n; k++) {
        double values[MOST_STEPS];
        for (int s = 0; s < kept; s++) values[s] = all[(size_t)s * FOREIGN_MOST_SUMS + (size_t)k].seconds;
        out[k].seconds = yokei_median(values, kept); /* sorts them */
        out[k].quick = values[kept / 10];
        for (int s = 0; s < kept; s++) values[s] = all[(size_t)s * FOREIGN_MOST_SUMS + (size_t)k].early;
        out[k].early = yokei_median(values, kept);
        out[k].bytes = all[k].bytes;
    }
    return n;
}

yoke_status foreign_sums(struct foreign_job *j)
{
    const struct yokei_facts *f = &j->run->facts;
    struct sum *one = calloc(2 * FOREIGN_MOST_SUMS + 2, sizeof *one), *sums = one + FOREIGN_MOST_SUMS + 1,
               *all = calloc((size_t)MOST_STEPS * FOREIGN_MOST_SUMS, sizeof *all);
    yoke_status status = one && all ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "diagnose: no memory for the sums");
    const int n = status || f->n_ranks < 2 ? 0 : median_sums(j, one, all, sums);
    double seconds = 0, exposed = INFINITY, bytes = 0;
    for (int k = 0; k < n; k++)
        seconds += sums[k].seconds, bytes += isfinite(sums[k].bytes) ? sums[k].bytes : 0;
    for (int r = 0; r < f->n_ranks; r++) exposed = fmin(exposed, f->rank[r].parts[YOKEI_STEP_EXPOSED]);
    if (n) status = make_costs(j, sums, n, fmax(seconds - exposed, 0) < 0.1 * seconds);
    if (!status && n && !(bytes > 0) && exposed > 0.1 * f->step)
        diagnose_problem(
            j->run,
            "the events do not say how many bytes the sums have, so it is not known whether a link is slow; "
            "profile with record_shapes=True");
    free(one);
    free(all);
    return status;
}
