/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast each rank sums while all ranks sum, measured with the cost model. This finds cores that are slower
 * all the time: by their clock, by interrupts, or by neighbours that work in short bursts.
 * A core that others use for milliseconds at a time does not count as slow. Ranks exchange chunks every few
 * hundred microseconds. So all ranks stand still during such a stretch, whatever the shares are, and run at
 * full speed between two stretches. Such stretches are not counted. (With a busy process on one of two cores,
 * shares of 2 : 1 to 5 : 1 gained nothing: bench/results/uneven.md.)
 * A chance result must not stay. So the measurement is repeated unless all ranks are equal, and the best
 * result of each rank counts.
 */
#include <math.h>
#include <string.h>

#include "collectives/call/internal.h"
#include "collectives/making/measure.h"

enum { BYTES = YOKEI_PROBE_BYTES, MOST_TURNS = 5, FINEST = 16 };
static const uint64_t TURN_NS = 16000000, AWAY_NS = 500000;
static const double CLEARLY = 1.25; /* a rank must be so many times as fast; less is no difference */

/*
 * Bytes of operands per second of this rank. If a host has more ranks than processors, the rate is divided
 * accordingly, because it is chance which rank ran in these milliseconds.
 */
static double rate_of(const yoke_comm *comm, float *data)
{
    const uint64_t begin = yokei_now_ns();
    uint64_t n = 0, at = begin, away = 0;
    while (at - begin < TURN_NS) {
        yokei_sum_once(data);
        const uint64_t now = yokei_now_ns();
        if (now - at > AWAY_NS)
            away += now - at;
        else
            n++;
        at = now;
    }
    const double crowd = YOKE_MAX((double)comm->n_on_host / comm->n_cores, 1.0);
    return 2.0 * BYTES * (double)n / (double)YOKE_MAX(at - begin - away, 1) / crowd;
}

/* The first rank of the same host that may run on the same processors. */
static int alike(const yoke_comm *comm, int r)
{
    const struct yokei_peer_info *mine = &comm->peers[r].info;
    int q = 0;
    while (comm->peers[q].info.host_id != mine->host_id
           || memcmp(comm->peers[q].info.cores, mine->cores, sizeof mine->cores) != 0)
        q++;
    return q;
}

static bool any_differ(const uint32_t speeds[], int n)
{
    for (int r = 1; r < n; r++)
        if (speeds[r] != speeds[0]) return true;
    return false;
}

/* Ranks that may run on the same processors all get the mean of their rates. */
static void level(double rates[], const int same[], int n)
{
    for (int first = 0; first < n; first++) {
        if (same[first] != first) continue;
        double sum = 0;
        int count = 0;
        for (int r = first; r < n; r++)
            if (same[r] == first) sum += rates[r], count++;
        for (int r = first; r < n; r++)
            if (same[r] == first) rates[r] = sum / count;
    }
}

/*
 * Go from the fastest rank down. A rank that is not clearly slower than the fastest remaining rank counts as
 * equally fast.
 */
void yokei_speeds_compare(double rates[], const int same[], int n, uint32_t speeds_out[])
{
    double fastest = 0, limit = INFINITY;
    level(rates, same, n);
    for (int r = 0; r < n; r++) fastest = YOKE_MAX(fastest, rates[r]);
    for (int r = 0; r < n; r++) speeds_out[r] = 1;
    for (;;) {
        double next = -1;
        for (int r = 0; r < n; r++)
            if (rates[r] < limit) next = YOKE_MAX(next, rates[r]);
        if (next < 0) return;
        const uint32_t speed = fastest > 0 ? (uint32_t)(FINEST * next / fastest + 0.5) : 1;
        for (int r = 0; r < n; r++)
            if (rates[r] < limit && rates[r] * CLEARLY >= next) speeds_out[r] = YOKE_MAX(speed, 1u);
        limit = next / CLEARLY;
    }
}

/* In one turn all ranks sum at the same time. Afterwards all ranks know each rank's best rate so far. */
static yoke_status take_turn(yoke_comm *comm, float *data, double *all, double *best)
{
    float here = 1;
    YOKE_TRY(yokei_reduce_on_host(comm, &here, 1, YOKE_F32, YOKE_MAX)); /* all ranks begin together */
    const double mine = rate_of(comm, data);
    YOKE_TRY(yokei_gather_on_host(comm, &mine, all, sizeof mine));
    for (int r = 0; r < comm->size; r++) best[r] = YOKE_MAX(best[r], all[r]);
    return YOKE_OK;
}

static yoke_status measure_turns(yoke_comm *comm, const int same[], float *data, double *room,
                                 uint32_t speeds_out[])
{
    const size_t size = (size_t)comm->size;
    double *all = room, *best = room + size, *rates = room + 2 * size;
    for (int turn = 0; turn < MOST_TURNS; turn++) {
        YOKE_TRY(take_turn(comm, data, all, best));
        memcpy(rates, best, size * sizeof *rates);
        yokei_speeds_compare(rates, same, comm->size, speeds_out);
        if (!any_differ(speeds_out, comm->size)) return YOKE_OK;
    }
    return YOKE_OK;
}

yoke_status yokei_speeds_measure(yoke_comm *comm, uint32_t speeds_out[])
{
    const size_t size = (size_t)comm->size;
    int *same = malloc(size * sizeof *same);
    double *room = calloc(3 * size, sizeof *room);
    float *data = calloc(2, BYTES);
    /* all ranks measure, or none */
    yoke_status status = yokei_all_have_room(comm, same && room && data, NULL);
    bool all_alike = true;
    for (int r = 0; r < comm->size && !status; r++)
        all_alike &= (same[r] = alike(comm, r)) == 0, speeds_out[r] = FINEST;
    if (!status && !all_alike) status = measure_turns(comm, same, data, room, speeds_out);
    free(same);
    free(room);
    free(data);
    return status;
}
