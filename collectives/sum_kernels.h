/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of sum.c, compiled once per instruction set: included with KERNEL(name) and TARGET defined, and HAVE_F16C
 * where the conversions of f16 are the processor's. Target and operands may be the same array: each element depends on
 * its own index only, which `omp simd` says to the compiler.
 */


/* NaN wins, then the smaller; of -0 and +0 the -0: equal operands have equal bits but for the sign of zero. */
#define ORDERED(type, bits, name, first, zero)                                                               \
    TARGET static void KERNEL(name)(const void *av, const void *bv, void *ov, size_t n)                        \
    {                                                                                                        \
        const type *a = av, *b = bv;                                                                         \
        type *o = ov;                                                                                        \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++)                                                   \
        {                                                                                                    \
            const type x = a[i], y = b[i];                                                                   \
            union { type f; bits u; } p = { .f = x }, q = { .f = y }, r;                                     \
            const bits chosen = x first y ? p.u : q.u;                                                       \
            r.u = x == y ? (p.u zero q.u) : chosen;                                                          \
            r.u = y != y ? q.u : r.u;                                                                        \
            r.u = x != x ? p.u : r.u;                                                                        \
            o[i] = r.f;                                                                                      \
        }                                                                                                    \
    }
#define PLAIN(type, name, expression)                                                      \
    TARGET static void KERNEL(name)(const void *av, const void *bv, void *ov, size_t n)      \
    {                                                                                      \
        const type *a = av, *b = bv;                                                       \
        type *o = ov;                                                                      \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++)                                 \
        {                                                                                  \
            const type x = a[i], y = b[i];                                                 \
            o[i] = (expression);                                                           \
        }                                                                                  \
    }

PLAIN(float, sum_f32, x + y)
PLAIN(float, prod_f32, x *y)
ORDERED(float, uint32_t, min_f32, <, |)
ORDERED(float, uint32_t, max_f32, >, &)
PLAIN(double, sum_f64, x + y)
PLAIN(double, prod_f64, x *y)
ORDERED(double, uint64_t, min_f64, <, |)
ORDERED(double, uint64_t, max_f64, >, &)
/* Integers wrap around, as unsigned ones do. */
PLAIN(uint32_t, sum_i32, x + y)
PLAIN(uint32_t, prod_i32, x *y)
PLAIN(int32_t, min_i32, x < y ? x : y)
PLAIN(int32_t, max_i32, x > y ? x : y)

TARGET static void KERNEL(divide_f32)(void *xv, double by, size_t n)
{
    float *x = xv;
    const float f = (float)by;
    _Pragma("omp simd") for (size_t i = 0; i < n; i++) x[i] /= f;
}

TARGET static void KERNEL(divide_f64)(void *xv, double by, size_t n)
{
    double *x = xv;
    _Pragma("omp simd") for (size_t i = 0; i < n; i++) x[i] /= by;
}

TARGET static void KERNEL(canonical_f32)(void *xv, size_t n)
{
    uint32_t *x = xv;
    _Pragma("omp simd") for (size_t i = 0; i < n; i++) x[i] = (x[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : x[i];
}

TARGET static void KERNEL(canonical_f64)(void *xv, size_t n)
{
    uint64_t *x = xv;
    const uint64_t magnitude = ~(1ull << 63), infinity = 0x7ffull << 52, nan = 0xfffull << 51;
    _Pragma("omp simd") for (size_t i = 0; i < n; i++) x[i] = (x[i] & magnitude) > infinity ? nan : x[i];
}

TARGET static void KERNEL(widen_bf16)(const uint16_t *h, float *x, size_t n)
{
    uint32_t *u = (uint32_t *)(void *)x;
    _Pragma("omp simd") for (size_t i = 0; i < n; i++) u[i] = (uint32_t)h[i] << 16;
}

TARGET static void KERNEL(narrow_bf16)(const float *x, uint16_t *h, size_t n)
{
    _Pragma("omp simd") for (size_t i = 0; i < n; i++)
    {
        union { float f; uint32_t u; } v = { .f = x[i] };
        const uint32_t rounded = (v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16, quiet = (v.u >> 16) | 0x40u;
        h[i] = (uint16_t)((v.u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
}

TARGET static void KERNEL(widen_f16)(const uint16_t *h, float *x, size_t n)
{
    size_t i = 0;
#ifdef HAVE_F16C
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + i))));
#endif
    for (; i < n; i++) x[i] = yokei_f16_to_f32(h[i]);
}

TARGET static void KERNEL(narrow_f16)(const float *x, uint16_t *h, size_t n)
{
    size_t i = 0;
#ifdef HAVE_F16C
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(h + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
    for (; i < n; i++) h[i] = yokei_f32_to_f16(x[i]);
}

static const struct kernels KERNEL(table) = {
    .f32 = { [YOKE_SUM] = KERNEL(sum_f32), [YOKE_AVG] = KERNEL(sum_f32), [YOKE_MIN] = KERNEL(min_f32),
             [YOKE_MAX] = KERNEL(max_f32), [YOKE_PROD] = KERNEL(prod_f32) },
    .f64 = { [YOKE_SUM] = KERNEL(sum_f64), [YOKE_AVG] = KERNEL(sum_f64), [YOKE_MIN] = KERNEL(min_f64),
             [YOKE_MAX] = KERNEL(max_f64), [YOKE_PROD] = KERNEL(prod_f64) },
    .i32 = { [YOKE_SUM] = KERNEL(sum_i32), [YOKE_MIN] = KERNEL(min_i32), [YOKE_MAX] = KERNEL(max_i32),
             [YOKE_PROD] = KERNEL(prod_i32) },
    .divide_f32 = KERNEL(divide_f32), .divide_f64 = KERNEL(divide_f64),
    .canonical_f32 = KERNEL(canonical_f32), .canonical_f64 = KERNEL(canonical_f64),
    .widen_bf16 = KERNEL(widen_bf16), .narrow_bf16 = KERNEL(narrow_bf16),
    .widen_f16 = KERNEL(widen_f16), .narrow_f16 = KERNEL(narrow_f16),
};

#undef ORDERED
#undef PLAIN
