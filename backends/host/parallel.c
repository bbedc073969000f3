/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops over threads that every op of the host backend uses, and the type check at the start of every
 * `can`. Either one thread works, or the whole team is called, even if some threads get no work. With a
 * smaller team, libgomp ends the threads that the team does not need, and starts them again for the next
 * team.
 */
#include "backends/host/host.h"

#include <omp.h>

void host_for(yoke_stream *stream, int64_t n, int64_t grain, host_range *run, const void *context)
{
    enum { GRAINS_PER_THREAD = 4 }; /* with fewer, the start of a thread costs more than it saves */
    const int64_t n_grains = host_ceil_div(n, grain);
    const int all = host_n_threads(stream->device), most = (int)YOKE_MIN(all, n_grains / GRAINS_PER_THREAD);
    if (n <= 0) return;
    if (most <= 1) {
        run(context, 0, n);
        return;
    }
#pragma omp parallel num_threads(all)
    {
        const int64_t n_pieces = YOKE_MIN(omp_get_num_threads(), most), piece = omp_get_thread_num();
        const int64_t from = n_grains * piece / n_pieces * grain,
                      to = n_grains * (piece + 1) / n_pieces * grain;
        if (piece < n_pieces && from < YOKE_MIN(to, n)) run(context, from, YOKE_MIN(to, n));
    }
}

void host_for_units(yoke_stream *stream, int64_t n_units, host_unit *run, const void *context)
{
    const int all = host_n_threads(stream->device);
    if (YOKE_MIN(all, n_units) <= 1) {
        for (int64_t unit = 0; unit < n_units; unit++) run(context, unit, 0);
        return;
    }
#pragma omp parallel for num_threads(all) schedule(dynamic, 1)
    for (int64_t unit = 0; unit < n_units; unit++) run(context, unit, omp_get_thread_num());
}

void host_for_equal_units(yoke_stream *stream, int64_t n_units, host_unit *run, const void *context)
{
    const int all = host_n_threads(stream->device);
    if (YOKE_MIN(all, n_units) <= 1) {
        for (int64_t unit = 0; unit < n_units; unit++) run(context, unit, 0);
        return;
    }
#pragma omp parallel for num_threads(all) schedule(static)
    for (int64_t unit = 0; unit < n_units; unit++) run(context, unit, omp_get_thread_num());
}
