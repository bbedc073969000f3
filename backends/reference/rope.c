/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary position embedding on the reference backend, with angles in long double. include/yoke/ops/rope.h has
 * the maths.
 */
#include "backends/reference/reference.h"

static yoke_status reference_rope_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_rope_args *a = call->args;
    (void)stream;
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t i = 0; i < a->D / 2; i++) {
            const long double angle = (long double)(a->pos_start + n % a->T)
                                      * powl(a->theta, -2.0L * (long double)i / (long double)a->D);
            const double c = (double)cosl(angle), s = (double)(a->inverse ? -sinl(angle) : sinl(angle));
            for (int64_t h = 0; h < a->H; h++) {
                const int64_t at = n * a->ldx + h * a->D + i, other = at + a->D / 2;
                const double x = yokei_load(a->dtype, a->x, at), y = yokei_load(a->dtype, a->x, other);
                yokei_store(a->dtype, a->x, at, x * c - y * s);
                yokei_store(a->dtype, a->x, other, y * c + x * s);
            }
        }
    return YOKE_OK;
}
const struct yoke_op reference_rope = { .run = reference_rope_run };
