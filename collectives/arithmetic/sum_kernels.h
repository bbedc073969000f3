/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of sum.c, compiled once per instruction set. The including file defines KERNEL(name) and TARGET.
 * It also defines HAVE_F16C if the processor converts f16 itself.
 * Target and operands may be the same array. Each element depends on its own index only, which `omp simd`
 * tells the compiler.
 */

/*
 * NaN wins, then the smaller number (for max the larger). Of -0 and +0, min takes -0 and max +0. So equal
 * operands have equal bits except for the sign of zero.
 */
#define ORDERED(type, bits, name, first, zero)                                          \
    TARGET static void KERNEL(name)(const void *av, const void *bv, void *ov, size_t n) \
    {                                                                                   \
        const type *a = av, *b = bv;                                                    \
        type *o = ov;                                                                   \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++)                              \
        {                                                                               \
            const type x = a[i], y = b[i];                                              \
            union {                                                                     \
                type f;                                                                 \
                bits u;                                                                 \
            } p = { .f = x }, q = { .f = y }, r;                                        \
            const bits chosen = x first y ? p.u : q.u;                                  \
            r.u = x == y ? (p.u zero q.u) : chosen;                                     \
            r.u = y != y ? q.u : r.u;                                                   \
            r.u = x != x ? p.u : r.u;                                                   \
            o[i] = r.f;                                                                 \
        }                                                                               \
    }
#define PLAIN(type, name, expression)                                                   \
    TARGET static void KERNEL(name)(const void *av, const void *bv, void *ov, size_t n) \
    {                                                                                   \
        const type *a = av, *b = bv;                                                    \
        type *o = ov;                                                                   \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++)                              \
        {                                                                               \
            const type x = a[i], y = b[i];                                              \
            o[i] = (expression);                                                        \
        }                                                                               \
    }

PLAIN(float, sum_f32, x + y)
PLAIN(float, prod_f32, x *y)
ORDERED(float, uint32_t, min_f32, <, |)
ORDERED(float, uint32_t, max_f32, >, &)
PLAIN(double, sum_f64, x + y)
PLAIN(double, prod_f64, x *y)
ORDERED(double, uint64_t, min_f64, <, |)
ORDERED(double, uint64_t, max_f64, >, &)
/* Integers wrap around, like unsigned ones. */
#define INTEGERS(type, wrapping, name)                   \
    PLAIN(wrapping, sum_##name, (wrapping)(x + y))       \
    PLAIN(wrapping, prod_##name, (wrapping)(1u * x * y)) \
    PLAIN(type, min_##name, x < y ? x : y)               \
    PLAIN(type, max_##name, x > y ? x : y)
INTEGERS(int32_t, uint32_t, i32)
INTEGERS(int64_t, uint64_t, i64)
INTEGERS(int8_t, uint8_t, i8)
INTEGERS(uint8_t, uint8_t, u8)

/*
 * A copy past the caches, for results that nobody reads soon. No cache line is fetched before it is written.
 */
TARGET static void KERNEL(stream)(void *target, const void *source, size_t bytes)
{
    char *to = target;
    const char *from = source;
#ifdef STREAM_BYTES
    const size_t head = YOKE_MIN((size_t)(-(uintptr_t)to % STREAM_BYTES), bytes);
    memcpy(to, from, head);
    size_t i = head;
    for (; i + STREAM_BYTES <= bytes; i += STREAM_BYTES) STREAM_ONE(to + i, from + i);
    memcpy(to + i, from + i, bytes - i);
#else
    memcpy(to, from, bytes);
#endif
}

/* Stores past the caches are not ordered with later stores until this function. */
TARGET static void KERNEL(stream_end)(void)
{
#ifdef STREAM_BYTES
    STREAM_END;
#endif
}

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
    _Pragma("omp simd") for (size_t i = 0; i < n; i++) x[i] = (x[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u
                                                                                                 : x[i];
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
        union {
            float f;
            uint32_t u;
        } v = { .f = x[i] };
        const uint32_t rounded = (v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16, quiet = (v.u >> 16) | 0x40u;
        h[i] = (uint16_t)((v.u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
}

TARGET static void KERNEL(widen_f16)(const uint16_t *h, float *x, size_t n)
{
    size_t i = 0;
#ifdef HAVE_512
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(h + i))));
#endif
#ifdef HAVE_F16C
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + i))));
#endif
    for (; i < n; i++) x[i] = yokei_f16_to_f32(h[i]);
}

TARGET static void KERNEL(narrow_f16)(const float *x, uint16_t *h, size_t n)
{
    size_t i = 0;
#ifdef HAVE_512
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(h + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + i),
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
#ifdef HAVE_F16C
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(h + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
    for (; i < n; i++) h[i] = yokei_f32_to_f16(x[i]);
}

/* clang-format off */
#define ALL_OF(name) { [YOKE_SUM] = KERNEL(sum_##name), [YOKE_AVG] = KERNEL(sum_##name), \
        [YOKE_MIN] = KERNEL(min_##name), \
                       [YOKE_MAX] = KERNEL(max_##name), [YOKE_PROD] = KERNEL(prod_##name) }
/* clang-format on */
static const struct kernels KERNEL(table) = {
    .op = { [YOKE_F32] = ALL_OF(f32),
            [YOKE_F64] = ALL_OF(f64),
            [YOKE_I32] = ALL_OF(i32),
            [YOKE_I64] = ALL_OF(i64),
            [YOKE_I8] = ALL_OF(i8),
            [YOKE_U8] = ALL_OF(u8) },
    .divide_f32 = KERNEL(divide_f32),
    .divide_f64 = KERNEL(divide_f64),
    .canonical_f32 = KERNEL(canonical_f32),
    .canonical_f64 = KERNEL(canonical_f64),
    .widen_bf16 = KERNEL(widen_bf16),
    .narrow_bf16 = KERNEL(narrow_bf16),
    .widen_f16 = KERNEL(widen_f16),
    .narrow_f16 = KERNEL(narrow_f16),
    .stream = KERNEL(stream),
    .stream_end = KERNEL(stream_end),
#ifdef HAVE_F16C
    .fold = KERNEL(fold),
#endif
};

#undef ALL_OF
#undef INTEGERS
#undef ORDERED
#undef PLAIN
