/* SPDX-License-Identifier: Apache-2.0 */
/* A test aid that simulates devices of unequal speed: a rank sleeps after each call of a layer. */
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "core/base/base.h"
#include "parallel/op_times.h"
#include "parallel/program.h"

yoke_status yokei_slow_factor(double *factor_out)
{
    /* The launcher's rank, because a trainer does not know the job's ranks. */
    const char *text = getenv("YOKE_SLOW"), *own = getenv("PMI_RANK");
    const long own_rank = own ? strtol(own, NULL, 10) : 0;
    *factor_out = 1;
    for (const char *at = text ? text : ""; *at;) {
        char *middle, *end;
        const long rank = strtol(at, &middle, 10);
        const double factor = *middle == ':' ? strtod(middle + 1, &end) : 0;
        if (middle == at || rank < 0 || !(factor >= 1 && factor <= 1e6) || (*end && *end != ','))
            return yoke_fail(
                YOKE_ECONFIG,
                "YOKE_SLOW=%s: \"%s\" is not RANK:FACTOR with a factor from 1 to 1e6, such as 2:20", text,
                at);
        if (rank == own_rank) *factor_out = factor;
        at = *end ? end + 1 : end;
    }
    return YOKE_OK;
}

/*
 * Measures the time of the collectives in a layer. This time is spent waiting for other ranks, so it is not
 * this rank's work.
 */
struct timed {
    const struct yoke_tensor_group *real;
    double seconds;
};

static yoke_status begin(yoke_stream *stream, uint64_t *begun_out)
{
    YOKE_TRY(yoke_stream_sync(stream));
    *begun_out = yokei_now_ns();
    return YOKE_OK;
}

static yoke_status end(struct timed *t, yoke_stream *stream, uint64_t begun, yoke_status ran)
{
    YOKE_TRY(ran);
    YOKE_TRY(yoke_stream_sync(stream));
    t->seconds += (double)(yokei_now_ns() - begun) * 1e-9;
    return YOKE_OK;
}

static yoke_status sum(void *context, void *x, int64_t n, yoke_dtype dtype, yoke_stream *stream)
{
    struct timed *t = context;
    uint64_t begun;
    YOKE_TRY(begin(stream, &begun));
    return end(t, stream, begun, t->real->sum(t->real->context, x, n, dtype, stream));
}

static yoke_status gather(void *context, const void *mine, void *all, const int64_t counts[],
                          yoke_dtype dtype, yoke_stream *stream)
{
    struct timed *t = context;
    uint64_t begun;
    YOKE_TRY(begin(stream, &begun));
    return end(t, stream, begun, t->real->gather(t->real->context, mine, all, counts, dtype, stream));
}

static yoke_status scatter_sum(void *context, const void *all, void *mine, const int64_t counts[],
                               yoke_dtype dtype, yoke_stream *stream)
{
    struct timed *t = context;
    uint64_t begun;
    YOKE_TRY(begin(stream, &begun));
    return end(t, stream, begun, t->real->scatter_sum(t->real->context, all, mine, counts, dtype, stream));
}

yoke_status yokei_run_slowly(const struct yokei_machine *k, const struct yokei_instruction *i,
                             yokei_run_function run)
{
    struct timed timed = { .real = k->tensor };
    const struct yoke_tensor_group group = { sizeof group, &timed, sum, gather, scatter_sum };
    struct yokei_machine slow = *k;
    yoke_stream *stream = k->stream[YOKEI_COMPUTE];
    uint64_t begun;
    if (k->tensor) slow.tensor = &group;
    YOKE_TRY(begin(stream, &begun));
    YOKE_TRY(run(&slow, i));
    YOKE_TRY(yoke_stream_sync(stream));
    const double asleep = (k->slow - 1) * fmax((double)(yokei_now_ns() - begun) * 1e-9 - timed.seconds, 0);
    const struct timespec pause = { (time_t)asleep, (long)(fmod(asleep, 1) * 1e9) };
    nanosleep(&pause, NULL);
    if (k->observer) YOKE_TRY(yokei_op_times_report(k->observer));
    if (k->observer && k->observer->profile)
        k->observer->profile(k->observer->profile_context, k->observer->layer, k->observer->call, "sleep",
                             &(struct yoke_cost){ .size = sizeof(struct yoke_cost) }, asleep);
    return YOKE_OK;
}
