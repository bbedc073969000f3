/* SPDX-License-Identifier: Apache-2.0 */
/* Host: the two loops over threads that every op uses, and the type check that every `can` begins with. */
#include "backends/host/host.h"

#include <omp.h>

void host_for(yoke_stream *stream, int64_t n, int64_t grain, host_range *run, const void *context)
{
    enum { GRAINS_PER_THREAD = 4 }; /* below that a thread's start costs more than it saves */
    const int64_t n_grains = host_ceil_div(n, grain);
    const int n_threads = (int)YOKE_MIN(host_n_threads(stream->device), n_grains / GRAINS_PER_THREAD);
    if (n <= 0) return;
    if (n_threads <= 1) {
        run(context, 0, n);
        return;
    }
#pragma omp parallel num_threads(n_threads)
    {
        const int64_t n_pieces = omp_get_num_threads(), piece = omp_get_thread_num();
        const int64_t from = n_grains * piece / n_pieces * grain, to = n_grains * (piece + 1) / n_pieces * grain;
        if (from < YOKE_MIN(to, n)) run(context, from, YOKE_MIN(to, n));
    }
}

void host_for_units(yoke_stream *stream, int64_t n_units, host_unit *run, const void *context)
{
    const int n_threads = (int)YOKE_MIN(host_n_threads(stream->device), n_units);
    if (n_threads <= 1) {
        for (int64_t unit = 0; unit < n_units; unit++) run(context, unit, 0);
        return;
    }
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 1)
    for (int64_t unit = 0; unit < n_units; unit++) run(context, unit, omp_get_thread_num());
}

yoke_status host_check_type(enum yoke_op_id op, const char *field, yoke_dtype dtype)
{
    if (dtype == YOKE_F32 || dtype == YOKE_F16 || dtype == YOKE_BF16) return YOKE_OK;
    return yoke_fail(YOKE_EUNSUPPORTED, "%s on host: %s is %s; the host has f32, f16 and bf16", yokei_op_names[op], field,
                     yoke_dtype_name(dtype));
}
