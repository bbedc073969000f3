/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/balance.h"

void yokei_balance(const double *speeds, int n, int64_t batch, int64_t *shares_out)
{
    memset(shares_out, 0, (size_t)n * sizeof *shares_out);
    for (int64_t i = 0; i < batch; i++) {
        int best = 0;
        for (int r = 1; r < n; r++) /* (share + 1) / speed, without the division */
            if ((double)(shares_out[r] + 1) * speeds[best] < (double)(shares_out[best] + 1) * speeds[r])
                best = r;
        shares_out[best]++;
    }
}

static double end_with(const double *base, const double *cost, const int64_t *units, int i, int64_t more)
{
    return (base ? base[i] : 0) + (double)(units[i] + more) * cost[i];
}

double yokei_balance_deal(int64_t n, int parties, const double *base, const double *cost, int64_t least,
                          int64_t *units_out)
{
    double most = -INFINITY;
    for (int i = 0; i < parties; i++) units_out[i] = least;
    for (int64_t left = n - least * parties; left > 0; left--) {
        int best = 0;
        for (int i = 1; i < parties; i++)
            if (end_with(base, cost, units_out, i, 1) < end_with(base, cost, units_out, best, 1)) best = i;
        units_out[best]++;
    }
    for (int i = 0; i < parties; i++) most = fmax(most, end_with(base, cost, units_out, i, 0));
    return most;
}

static double sum_of_paces(int groups, int parties, const double *base, const double *cost,
                           const int64_t *units)
{
    double sum = 0;
    for (int g = 0; g < groups; g++) {
        double slowest = 0;
        for (int i = 0; i < parties; i++)
            slowest = fmax(slowest, end_with(base + g * parties, cost + g * parties, units, i, 0));
        sum += 1 / slowest;
    }
    return sum;
}

/*
 * The end of party i with one more unit, as if all groups were one group: the party takes its slowest time of
 * all groups.
 */
static double end_in_any(int groups, int parties, const double *base, const double *cost,
                         const int64_t *units, int i)
{
    double end = 0;
    for (int g = 0; g < groups; g++)
        end = fmax(end, end_with(base + g * parties, cost + g * parties, units, i, 1));
    return end;
}

/* The best deal for all groups together. */
static void deal_to_all(int64_t n, int groups, int parties, const double *base, const double *cost,
                        int64_t least, int64_t *units_out)
{
    for (int i = 0; i < parties; i++) units_out[i] = least;
    for (int64_t left = n - least * parties; left > 0; left--) {
        int best = 0;
        for (int i = 1; i < parties; i++)
            if (end_in_any(groups, parties, base, cost, units_out, i)
                < end_in_any(groups, parties, base, cost, units_out, best))
                best = i;
        units_out[best]++;
    }
}

double yokei_balance_groups(int64_t n, int groups, int parties, const double *base, const double *cost,
                            int64_t least, int64_t *units_out)
{
    int best = -1; /* the group whose own deal is the best so far; -1: the deal for all groups is */
    deal_to_all(n, groups, parties, base, cost, least, units_out);
    double most = sum_of_paces(groups, parties, base, cost, units_out);
    for (int g = 0; g < groups && groups > 1; g++) {
        yokei_balance_deal(n, parties, base + g * parties, cost + g * parties, least, units_out);
        const double pace = sum_of_paces(groups, parties, base, cost, units_out);
        if (pace <= most) continue;
        most = pace;
        best = g;
    }
    /* The deal that was tried last need not be the best, so the best one is computed again. */
    if (best >= 0)
        yokei_balance_deal(n, parties, base + best * parties, cost + best * parties, least, units_out);
    else if (groups > 1)
        deal_to_all(n, groups, parties, base, cost, least, units_out);
    return most;
}

double yokei_balance_stages(int64_t n_blocks, int replicas, int stages, int chunks, const double *base,
                            const double *cost, int64_t *blocks_out)
{
    /*
     * The first `stages` numbers hold the totals of the stages until they are divided among the chunks. The
     * last chunk is filled first.
     */
    const double pace = yokei_balance_groups(n_blocks, replicas, stages, base, cost, chunks, blocks_out);
    for (int c = chunks - 1; c >= 0; c--)
        for (int s = 0; s < stages; s++)
            blocks_out[c * stages + s] = blocks_out[s] / chunks + (c < blocks_out[s] % chunks);
    return pace;
}

/*
 * Deal the batch to the replicas in use. A replica that gets nothing is then no longer in use. Returns the
 * seconds of the slowest replica.
 */
static double deal_to_used(int n, int64_t batch, const double *fixed, const double *cost, bool *used,
                           int64_t *shares)
{
    double slowest = 0;
    memset(shares, 0, (size_t)n * sizeof *shares);
    for (int64_t i = 0; i < batch; i++) {
        int best = -1;
        for (int d = 0; d < n; d++)
            if (used[d]
                && (best < 0 || end_with(fixed, cost, shares, d, 1) < end_with(fixed, cost, shares, best, 1)))
                best = d;
        shares[best]++;
    }
    for (int d = 0; d < n; d++) {
        used[d] = shares[d] > 0;
        if (used[d]) slowest = fmax(slowest, end_with(fixed, cost, shares, d, 0));
    }
    return slowest;
}

static double pace_of(const bool *used, int n, const double *cost)
{
    double sum = 0;
    for (int d = 0; d < n; d++) sum += used[d] ? 1 / cost[d] : 0;
    return sum;
}

static int count(const bool *used, int n)
{
    int sum = 0;
    for (int d = 0; d < n; d++) sum += used[d];
    return sum;
}

/* The slowest replica in use; of several equal ones, the last. */
static int slowest_of(const bool *used, int n, const double *cost)
{
    int slowest = -1;
    for (int d = 0; d < n; d++)
        if (used[d] && (slowest < 0 || cost[d] >= cost[slowest])) slowest = d;
    return slowest;
}

/* The result of trying one set of replicas. */
struct tried {
    double seconds, pace;
};

/*
 * The index of the chosen set. Later sets have fewer replicas. The last set is chosen that is as good as the
 * best one, after the allowance for the replicas that must be worth their cost (see YOKEI_WORTH).
 */
static int choose_set(const struct tried *tried, int n_tried)
{
    int best = 0, chosen = 0;
    for (int k = 1; k < n_tried; k++)
        if (tried[k].seconds <= tried[best].seconds) best = k;
    for (int k = best; k < n_tried; k++)
        if (tried[k].seconds
            <= tried[best].seconds * (1 + YOKEI_WORTH * (tried[best].pace / tried[k].pace - 1)))
            chosen = k;
    return chosen;
}

yoke_status yokei_balance_replicas(int n, int64_t batch, const double *fixed, const double *cost,
                                   yokei_sums_function sums, void *context, int64_t *shares_out,
                                   double *seconds_out)
{
    bool *may = malloc((size_t)n * sizeof *may),
         *used = calloc((size_t)n * (size_t)n, sizeof *used); /* one row for each set */
    struct tried *tried = calloc((size_t)n, sizeof *tried);
    yoke_status status = may && used && tried
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "dealing a batch: no host memory for %d replicas", n);
    double best = INFINITY, most_pace = 0;
    for (int d = 0; d < n && !status; d++) {
        may[d] = true;
        most_pace += 1 / cost[d];
    }
    for (int k = 0; k < n && !status; k++) { /* set k has all replicas but the k slowest */
        bool *own = memcpy(used + k * n, may, (size_t)n * sizeof *may);
        double summing = 0;
        const double compute = deal_to_used(n, batch, fixed, cost, own, shares_out);
        tried[k].pace = pace_of(own, n, cost);
        const bool could_be = compute <= best * (1 + YOKEI_WORTH * (most_pace / tried[k].pace - 1));
        if (could_be && count(own, n) > 1) status = sums(context, own, &summing);
        tried[k].seconds = could_be ? compute + summing : INFINITY;
        best = fmin(best, tried[k].seconds);
        may[slowest_of(may, n, cost)] = false;
    }
    if (!status) {
        const int chosen = choose_set(tried, n);
        deal_to_used(n, batch, fixed, cost, used + chosen * n, shares_out);
        *seconds_out = tried[chosen].seconds;
    }
    free(may);
    free(used);
    free(tried);
    return status;
}
