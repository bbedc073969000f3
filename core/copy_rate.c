/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of a device's memory: the best speed of copies inside the device. */
#include <math.h>

#include "core/backend.h"
#include "core/base/base.h"
#include "core/base/emulated.h"

/* On a device with memory of its own a copy is larger than the caches of today's GPUs. */
static const uint64_t SMALL = UINT64_C(64) << 20, LARGE = UINT64_C(256) << 20, LEAST = UINT64_C(1) << 20;
/* A GPU is far behind the host's calls for most of this time, so that the wait for its end costs little. */
static const double LONG_ENOUGH = 0.01; /* seconds */
enum { RUNS = 5, MOST_COPIES = 1024 };

/* n copies one after the other, and one wait. */
static yoke_status time_copies(yoke_stream *stream, void *to, const void *from, size_t bytes, int n,
                               double *seconds_out)
{
    const uint64_t start = yokei_now_ns();
    for (int i = 0; i < n; i++) YOKE_TRY(yoke_copy(stream, to, from, bytes));
    YOKE_TRY(yoke_stream_sync(stream));
    *seconds_out = (double)(yokei_now_ns() - start) * 1e-9;
    return YOKE_OK;
}

static yoke_status measure(yoke_device *device, yoke_stream *stream, void *const memory[2], size_t bytes,
                           double *rate_out)
{
    const bool emulated = yokei_is_emulated(yoke_device_info(device)->features);
    double seconds = 0, least = INFINITY;
    int n = 1;
    /* Not zeros, because some memory writes zeros faster. */
    for (int i = 0; i < 2; i++) YOKE_TRY(yoke_fill(stream, memory[i], 0x3c, bytes));
    YOKE_TRY(time_copies(stream, memory[1], memory[0], bytes, 1, &seconds));
    for (;;) {
        YOKE_TRY(time_copies(stream, memory[1], memory[0], bytes, n, &seconds));
        if (emulated || seconds >= LONG_ENOUGH || n == MOST_COPIES) break;
        n *= 2;
    }
    for (int i = 0; i < RUNS; i++) {
        YOKE_TRY(time_copies(stream, memory[1], memory[0], bytes, n, &seconds));
        least = fmin(least, seconds);
    }
    *rate_out = 2.0 * (double)bytes * n / least;
    return YOKE_OK;
}

yoke_status yokei_copy_rate(yoke_device *device, double *bytes_per_second_out)
{
    const struct yoke_device_info *info = yoke_device_info(device);
    uint64_t available, total;
    void *memory[2] = { NULL, NULL };
    yoke_stream *stream;
    YOKE_TRY(yoke_device_memory(device, &available, &total));
    const uint64_t wanted = info->host_visible || yokei_is_emulated(info->features) ? SMALL : LARGE;
    const size_t bytes = (size_t)YOKE_MAX(LEAST, YOKE_MIN(wanted, available / 8));
    YOKE_TRY(yoke_stream_create(device, &stream));
    yoke_status status = YOKE_OK;
    for (int i = 0; i < 2 && !status; i++) status = yoke_alloc(device, bytes, &memory[i]);
    if (!status) status = measure(device, stream, memory, bytes, bytes_per_second_out);
    const yoke_status ended = yoke_stream_destroy(stream); /* waits for its work */
    for (int i = 0; i < 2; i++) yoke_free(device, memory[i]);
    return status ? status : ended;
}
