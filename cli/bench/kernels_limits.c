/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits that operations of a device are compared with. The limit of arithmetic is the device's peak
 * (yoke_gemm_peak). A device in the host's own memory is this CPU. There the limit of memory is a triad
 * (a = b + 3 c) of all threads over as many bytes as the operation moves. So small triads stay in the caches,
 * as the operation's data may. The triads use ordinary stores or stores that bypass the caches, whichever is
 * faster. On other devices copies inside the device are the limit of memory.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/kernels.h"
#include "cli/bench/triad.h"
#include "core/base/base.h"

static yoke_status measure_flops(struct bench_peaks *p, const bool dtypes[YOKE_N_DTYPES])
{
    for (int d = 0; d < YOKE_N_DTYPES; d++) {
        if (!dtypes[d]) continue;
        const yoke_status status = yoke_gemm_peak(p->device, (yoke_dtype)d, &p->flops[d], NULL);
        if (status && status != YOKE_EUNSUPPORTED) return status;
    }
    return YOKE_OK;
}

/* More bytes than the last-level cache holds. */
static size_t enough_bytes(void)
{
    struct yokei_topology t = { .l3_bytes = 0 };
    if (yokei_topology(&t)) t.l3_bytes = 0;
    return (size_t)YOKE_MAX(UINT64_C(64) << 20, YOKE_MIN(4 * t.l3_bytes, UINT64_C(1) << 30));
}

yoke_status bench_peaks_open(yoke_device *device, yoke_stream *stream, int threads,
                             const bool dtypes[YOKE_N_DTYPES], struct bench_peaks *out)
{
    *out = (struct bench_peaks){ .device = device,
                                 .stream = stream,
                                 .threads = threads,
                                 .on_cpu = yoke_device_info(device)->host_visible,
                                 .bytes = enough_bytes() };
    yoke_status status = YOKE_OK;
    if (out->on_cpu) {
        if (posix_memalign(&out->memory[0], 4096, out->bytes))
            status = yoke_fail(YOKE_ENOMEM, "no memory for the triad that is the limit");
        else
            memset(out->memory[0], 0x3c, out->bytes); /* not zeros, because some memory writes zeros faster */
    }
    for (int i = 0; i < 2 && !status && !out->on_cpu; i++)
        status = yoke_alloc(device, out->bytes, &out->memory[i]);
    if (!status) status = measure_flops(out, dtypes);
    if (status) bench_peaks_close(out);
    return status;
}

void bench_peaks_close(struct bench_peaks *p)
{
    for (int i = 0; i < 2; i++) {
        if (p->on_cpu)
            free(p->memory[i]);
        else
            yoke_free(p->device, p->memory[i]);
        p->memory[i] = NULL;
    }
}

/* a = b + 3 c with ordinary stores. */
static void triad(float *memory, double bytes)
{
    const size_t n = (size_t)(bytes / 3 / sizeof(float)) / 16 * 16;
    float *restrict a = memory;
    const float *restrict b = memory + n, *restrict c = memory + 2 * n;
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 3 * c[i];
}

/* The bytes of one thread's part of the memory, in whole pages. */
static size_t room_of_thread(const struct bench_peaks *p)
{
    return p->bytes / (size_t)p->threads / 4096 * 4096;
}
static double share_of(const struct bench_move *m)
{
    return YOKE_MIN(m->bytes / m->peaks->threads, (double)room_of_thread(m->peaks));
}

double bench_peaks_moved(const struct bench_move *m)
{
    return m->peaks->on_cpu ? share_of(m) * m->peaks->threads
                            : 2 * YOKE_MIN(m->bytes / 2, (double)m->peaks->bytes);
}

static void triads(const struct bench_move *m)
{
#pragma omp parallel num_threads(m->peaks->threads)
    {
        float *mine = (float *)((char *)m->peaks->memory[0]
                                + (size_t)omp_get_thread_num() * room_of_thread(m->peaks));
        if (m->around)
            bench_triad(mine, share_of(m));
        else
            triad(mine, share_of(m));
    }
}

yoke_status bench_peaks_move(void *move, int n)
{
    const struct bench_move *m = move;
    const struct bench_peaks *p = m->peaks;
    for (int i = 0; i < n; i++) {
        if (p->on_cpu)
            triads(m);
        else
            YOKE_TRY(yoke_copy(p->stream, p->memory[0], p->memory[1],
                               (size_t)YOKE_MIN(m->bytes / 2, (double)p->bytes)));
    }
    return p->on_cpu ? YOKE_OK : yoke_stream_sync(p->stream);
}
