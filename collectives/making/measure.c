/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model: times and rates of the parts of collectives on the communicator's ranks. They are measured
 * when the communicator is made, once for the same ranks, and all ranks agree on them.
 * The costs never change a sum's bits. They only decide between algorithms that all add in the order of the
 * ranks.
 */
#include <math.h>
#include <string.h>

#include "collectives/making/measure.h"

#include "collectives/call/internal.h"
#include "collectives/choice/costs.h"
#include "collectives/choice/shares.h"

/* Results that were measured, once for the same ranks. */
struct known {
    struct known *next;
    uint64_t key;
    struct yokei_costs costs;
    uint32_t speeds[]; /* [n_ranks] a speed for each rank */
};
static struct known *known_costs;

enum { CALLS = 12, NEAR_BYTES = 512 << 10, FAR_BYTES = 8 << 20 };
/*
 * For messages: sizes grow from LEAST_BYTES to NEAR_BYTES. The budgets are the time for repetitions of the
 * small size, and for all larger sizes.
 */
enum { LEAST_BYTES = 4 << 10, GROWTH = 4, SMALL_BUDGET_US = 40000, LARGE_BUDGET_US = 100000 };

/*
 * The fastest of several sums of `bytes` bytes, in microseconds. Bursts of other processes' work are not part
 * of the model.
 */
static yoke_status time_sum(yoke_comm *comm, int algorithm, void *data, size_t bytes, int calls,
                            double *us_out)
{
    const int forced = comm->settings.forced_algorithm;
    uint64_t best = UINT64_MAX;
    yoke_status status = YOKE_OK;
    comm->settings.forced_algorithm = algorithm;
    for (int i = 0; i < calls && !status; i++) {
        const uint64_t begin = yokei_now_ns();
        status = yokei_reduce_on_host(comm, data, bytes / sizeof(float), YOKE_F32, YOKE_SUM);
        best = YOKE_MIN(best, yokei_now_ns() - begin);
    }
    comm->settings.forced_algorithm = forced;
    *us_out = (double)best * 1e-3;
    return status;
}

/* Find the largest sum that is not slower in oneshot than in slices. */
static yoke_status compare_shared(yoke_comm *comm, char *data, struct yokei_costs *costs)
{
    costs->oneshot_bytes = 4 << 10;
    for (size_t bytes = 8 << 10; bytes <= YOKEI_ONESHOT_BYTES; bytes *= 2) {
        double oneshot, slices;
        YOKE_TRY(time_sum(comm, YOKEI_ONESHOT, data, bytes, CALLS, &oneshot));
        YOKE_TRY(time_sum(comm, YOKEI_SLICES, data, bytes, CALLS, &slices));
        /* All ranks must make the same choice. */
        float better = oneshot <= slices;
        YOKE_TRY(yokei_reduce_on_host(comm, &better, 1, YOKE_F32, YOKE_MIN));
        if (better < 0.5f) return YOKE_OK;
        costs->oneshot_bytes = (double)bytes;
    }
    return YOKE_OK;
}

static yoke_status measure_shared(yoke_comm *comm, char *data, struct yokei_costs *costs)
{
    double near, far, unused;
    /* If ranks share cores, they have just used processor time for spinning in MPI. The first sums still
       pay for that. */
    YOKE_TRY(time_sum(comm, YOKEI_ONESHOT, data, 4, 100, &unused));
    YOKE_TRY(time_sum(comm, YOKEI_ONESHOT, data, 4, 2 * CALLS, &costs->sync_us));
    YOKE_TRY(compare_shared(comm, data, costs));
    YOKE_TRY(time_sum(comm, YOKEI_SLICES, data, NEAR_BYTES, CALLS, &near));
    YOKE_TRY(time_sum(comm, YOKEI_SLICES, data, FAR_BYTES, 2, &far));
    const double touched = 2
                           + (comm->size - 1.0)
                                 / comm->size; /* copied to shared memory, summed, copied from there */
    costs->shared_gbps = touched * NEAR_BYTES / (near * 1e3);
    costs->long_gbps = touched * FAR_BYTES / (far * 1e3);
    return YOKE_OK;
}

static double sum_rate(char *data)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < CALLS; i++) {
        const uint64_t begin = yokei_now_ns();
        yokei_sum_once((float *)(void *)data);
        best = YOKE_MIN(best, yokei_now_ns() - begin);
    }
    return 2.0 * YOKEI_PROBE_BYTES / (double)YOKE_MAX(best, 1);
}

/* The time of the slowest rank. A decision from it is the same on all ranks. */
static yoke_status agree_on_time(yoke_comm *comm, double *us)
{
    return yokei_reduce_on_host(comm, us, 1, YOKE_F64, YOKE_MAX);
}

/*
 * All ranks agree on the time of one call, which may not be the fastest one. So make as many more calls as
 * the time allows.
 */
static yoke_status try_again(yoke_comm *comm, int algorithm, void *data, size_t bytes, double left_us,
                             int most, double *us)
{
    const int n = (int)fmin(most, left_us / fmax(*us, 1));
    double best = *us;
    if (n > 0) YOKE_TRY(time_sum(comm, algorithm, data, bytes, n, &best));
    *us = fmin(*us, best);
    return YOKE_OK;
}

/*
 * A slow link could take minutes for data that a fast link sends in a millisecond. So sizes only grow while
 * the next size is expected to fit into the time for all sizes. The latency of small messages is subtracted,
 * because otherwise a far link would look like a slow one.
 */
static yoke_status measure_messages(yoke_comm *comm, char *data, struct yokei_costs *costs)
{
    const double steps = 2.0 * (comm->size - 1);
    double us = 0, hops = 0, left = LARGE_BUDGET_US, carried;
    for (int n = 1; n < comm->size; n *= 2) hops++;
    YOKE_TRY(time_sum(comm, YOKEI_DOUBLING, data, 8, 1, &us));
    YOKE_TRY(agree_on_time(comm, &us));
    YOKE_TRY(try_again(comm, YOKEI_DOUBLING, data, 8, SMALL_BUDGET_US, CALLS - 1, &us));
    YOKE_TRY(agree_on_time(comm, &us));
    costs->message_us = us / hops;
    size_t bytes = LEAST_BYTES;
    for (;; bytes = YOKE_MIN(bytes * GROWTH, (size_t)NEAR_BYTES)) {
        YOKE_TRY(time_sum(comm, YOKEI_RING, data, bytes, 1, &us));
        YOKE_TRY(agree_on_time(comm, &us));
        carried = fmax(us - steps * costs->message_us, 0);
        left -= carried;
        if (bytes >= NEAR_BYTES || GROWTH * carried > left) break;
    }
    if (bytes >= NEAR_BYTES) {
        YOKE_TRY(try_again(comm, YOKEI_RING, data, bytes, left, 2, &us));
    } else {
        /*
         * After a pause a link may send a small amount of data at once, and then be slower. So time a second
         * call.
         */
        YOKE_TRY(time_sum(comm, YOKEI_RING, data, bytes, 1, &carried));
        us = fmax(us, carried);
    }
    const double sent = steps / comm->size * (double)bytes;
    costs->message_gbps = sent / (fmax(us - steps * costs->message_us, 0.1 * us) * 1e3);
    return YOKE_OK;
}

/* The worst value of all ranks, for each field. */
static yoke_status agree_on_costs(yoke_comm *comm, struct yokei_costs *costs)
{
    enum { MOST = sizeof *costs / sizeof(double) };
    const size_t n = yokei_costs_count();
    double worst[MOST];
    bool more_is_worse;
    for (size_t i = 0; i < n; i++) {
        const double value = *yokei_costs_value(costs, i, &more_is_worse);
        worst[i] = more_is_worse ? value : -value;
    }
    YOKE_TRY(yokei_reduce_on_host(comm, worst, n, YOKE_F64, YOKE_MAX));
    for (size_t i = 0; i < n; i++) *yokei_costs_value(costs, i, &more_is_worse) = fabs(worst[i]);
    return YOKE_OK;
}

/* Whether collectives may exchange messages: between hosts, or between islands of one host. */
static bool sends_messages(const yoke_comm *comm)
{
    const enum yoke_island island = comm->settings.island;
    return !comm->all_shared
           || (yokei_has_islands(comm) && (island == YOKE_ISLAND_AUTO || island == YOKE_ISLAND_VENDOR));
}

static yoke_status measure_costs(yoke_comm *comm, struct known *known)
{
    struct yokei_costs *costs = &known->costs;
    const size_t bytes = comm->all_shared ? FAR_BYTES : NEAR_BYTES;
    char *data = calloc(1, bytes);
    yoke_status status = yokei_all_have_room(comm, data != NULL, NULL); /* together or not at all */
    if (!status) {
        costs->sum_gbps = sum_rate(data);
        if (sends_messages(comm)) status = measure_messages(comm, data, costs);
        if (!status && comm->all_shared && !comm->settings.chunk_is_forced)
            status = measure_shared(comm, data, costs);
    }
    if (!status) status = agree_on_costs(comm, costs);
    free(data);
    return status ? status : yokei_speeds_measure(comm, known->speeds);
}

/* ---- once for the same ranks ---- */

/*
 * A hash of the ranks and of all that the measurement depends on, equal on all of these ranks. A rank that
 * knows the result has measured it with all the others.
 */
static uint64_t key_of(const yoke_comm *comm)
{
    const uint64_t facts[5] = { (uint64_t)comm->all_shared, (uint64_t)sends_messages(comm),
                                comm->settings.chunk_is_forced ? comm->settings.chunk_bytes : 0,
                                comm->settings.wait_policy, comm->settings.check };
    uint64_t key = yokei_hash(facts, sizeof facts, 0);
    for (int r = 0; r < comm->size; r++)
        key = yokei_hash(&comm->peers[r].info.nonce, sizeof comm->peers[r].info.nonce, key);
    return key;
}

static struct known *find_known(uint64_t key)
{
    struct known *k = known_costs;
    while (k && k->key != key) k = k->next;
    return k;
}

/*
 * The user did not make the calls of the measurement. So the numbers of calls begin again, and the
 * communicator gets another uid.
 */
static void forget_calls(yoke_comm *comm, uint64_t n_operations)
{
    struct yokei_flight_file *file = yokei_process.flight;
    const uint64_t n = atomic_load(&file->n_operations);
    for (uint64_t i = n_operations; i < n && i < n_operations + YOKEI_FLIGHT_ENTRIES; i++)
        atomic_store(&file->entries[i % YOKEI_FLIGHT_ENTRIES].state, 0);
    atomic_store(&file->n_operations, n_operations);
    comm->uid = yokei_hash32(&comm->uid, sizeof comm->uid, 1);
    comm->calls.sequence = comm->calls.history = 0;
    comm->work.bridged = 0;
    memset(comm->calls.recent, 0, sizeof comm->calls.recent);
}

/*
 * Some ranks may have passed the last of these calls already. They use the communicator, and may make it fail
 * before this rank has its result. Then this rank also gets the communicator, as the other ranks do, and its
 * next call returns the error.
 */
static yoke_status unless_failed_later(const yoke_comm *comm, yoke_status status)
{
    return atomic_load(&comm->failure.error) ? YOKE_OK : status;
}

/* The stored result for these ranks, which is measured if there is none. */
static yoke_status learn(yoke_comm *comm, const struct known **known_out)
{
    const uint64_t key = key_of(comm);
    struct known *known = find_known(key),
                 *fresh = calloc(1, sizeof *fresh + (size_t)comm->size * sizeof fresh->speeds[0]);
    *known_out = known;
    /* A rank without a stored result would measure, so all ranks must measure. */
    bool any_unknown = !known;
    yoke_status status = yokei_all_have_room(comm, fresh != NULL, &any_unknown);
    if (!status && any_unknown && !(status = measure_costs(comm, fresh))) {
        fresh->key = key;
        fresh->next = known_costs;
        known_costs = fresh; /* it is found before an older one */
        *known_out = fresh;
        return YOKE_OK;
    }
    free(fresh);
    return status;
}

yoke_status yokei_costs_begin(yoke_comm *comm)
{
    const uint64_t n_operations = atomic_load(&yokei_process.flight->n_operations);
    const struct known *known = NULL;
    const bool measures = !comm->settings.costs_given && comm->size > 1;
    const yoke_status status = measures ? learn(comm, &known) : YOKE_OK;
    if (status) return unless_failed_later(comm, status);
    pthread_mutex_lock(&yokei_process.lock);
    if (known) comm->costs = known->costs;
    yokei_shares_settle(comm, known ? known->speeds : NULL);
    if (measures) forget_calls(comm, n_operations);
    pthread_mutex_unlock(&yokei_process.lock);
    return YOKE_OK;
}
