/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding on the host backend. include/yoke/ops/rope.h has the maths, types and bounds. */
#include "backends/host/kernels.h"

enum { MOST_PAIRS = 512 };

struct rotation {
    const struct yoke_rope_args *a;
    uint64_t turns[MOST_PAIRS]; /* the angle of position 1, for each pair */
};

/*
 * Cosine and sine of an angle of `turn` 2^-32 turns. Whole quarters are removed in integer arithmetic, then
 * Cephes' polynomials on [-pi/4, pi/4] are used. Bound: 3 u32 each, and the 2^-32 turns by which the angle is
 * cut.
 */
static inline void quarter(uint32_t turn, float *c, float *s)
{
    const uint32_t quarters = (turn + 0x20000000u) >> 30;
    const float x = (float)(int32_t)(turn - (quarters << 30)) * 1.46291807927e-9f, z = x * x;
    const float sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
    const float cosine = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z
                             * z
                         - 0.5f * z + 1.0f;
    const float first = quarters & 1 ? sine : cosine, second = quarters & 1 ? cosine : sine;
    *c = (quarters + 1) & 2 ? -first : first;
    *s = quarters & 2 ? -second : second;
}

INLINE void rotate_head(const yoke_dtype t, void *x, int64_t half, const float *c, const float *s)
{
    void *other = at_mut(t, x, half);
    VECTOR_LOOP(i, n, 0, half, {
        const vf a = vload_n(t, x, i, n), b = vload_n(t, other, i, n), cosine = vload_n(YOKE_F32, c, i, n),
                 sine = vload_n(YOKE_F32, s, i, n);
        vstore_n(t, x, i, n, a * cosine - b * sine);
        vstore_n(t, other, i, n, b * cosine + a * sine);
    });
}

INLINE void rotate_positions(const yoke_dtype t, const struct rotation *r, int64_t from, int64_t to)
{
    const struct yoke_rope_args *a = r->a;
    const int64_t half = a->D / 2;
    float c[MOST_PAIRS], s[MOST_PAIRS];
    for (int64_t row = from; row < to; row++) {
        const uint64_t position = (uint64_t)(a->pos_start + row);
        for (int64_t i = 0; i < half; i++) {
            quarter((uint32_t)(position * r->turns[i] >> 32), &c[i], &s[i]);
            if (a->inverse) s[i] = -s[i];
        }
        for (int64_t n = row; n < a->N; n += a->T)
            for (int64_t h = 0; h < a->H; h++)
                rotate_head(t, at_mut(t, a->x, n * a->ldx + h * a->D), half, c, s);
    }
}

static void rope_range(const void *context, int64_t from, int64_t to)
{
    const struct rotation *r = context;
    HOST_BY_TYPE(r->a->dtype, rotate_positions, r, from, to);
}

static yoke_status host_rope_can(const yoke_device *device, const struct yokei_call *call,
                                 size_t *scratch_bytes_out)
{
    const struct yoke_rope_args *a = call->args;
    (void)device, (void)scratch_bytes_out;
    if (a->D > 2 * MOST_PAIRS)
        return yoke_fail(YOKE_EUNSUPPORTED, "rope on host: heads of D = %lld, at most %d are offered",
                         (long long)a->D, 2 * MOST_PAIRS);
    return YOKE_OK;
}

static yoke_status host_rope_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_rope_args *a = call->args;
    struct rotation r = { .a = a };
    const uint64_t ratio = yokei_turns_ratio(a->theta, a->D);
    if (!a->N || !a->H) return YOKE_OK;
    for (int64_t i = 0; i < a->D / 2; i++) r.turns[i] = yokei_turns(ratio, i);
    host_for(stream, YOKE_MIN(a->N, a->T), host_row_grain(a->H * a->D * host_ceil_div(a->N, a->T)),
             rope_range, &r);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_rope) = { .can = host_rope_can, .run = host_rope_run };
