/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yokei_fold of f32, f16 and bf16 sums in registers. It is compiled once per instruction set that has vectors
 * for it. The including file defines KERNEL, TARGET, STREAM_END and HAVE_512, as for sum_kernels.h.
 * Every input is read once and every output is written once, past the caches if that is asked for. A step is
 * four vectors wide, so that the additions of one vector do not wait for those of another.
 */
#undef VECTOR
#undef WIDE
#undef VDO
#define INLINE __attribute__((always_inline)) TARGET static inline
#if defined(HAVE_512)
#define VECTOR __m512
#define WIDE 16
#define VDO(operation) _mm512_##operation
#define HALF __m256i
#define HALF_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define HALF_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define WHOLE_STREAM(p, low, high) \
    _mm512_stream_si512((__m512i *)(void *)(p), _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1))
#else
#define VECTOR __m256
#define WIDE 8
#define VDO(operation) _mm256_##operation
#define HALF __m128i
#define HALF_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define HALF_STORE(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define WHOLE_STREAM(p, low, high) \
    _mm256_stream_si256((__m256i *)(void *)(p), _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1))
#endif

/* NaN becomes the quiet NaN without payload. */
INLINE VECTOR KERNEL(clean)(VECTOR v)
{
#if defined(HAVE_512)
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v,
                                _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
#else
    return _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)),
                            _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
#endif
}

INLINE VECTOR KERNEL(from_bf16)(HALF h)
{
#if defined(HAVE_512)
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
#else
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
#endif
}

/* Rounded to nearest, ties to even. The input has no NaN but the quiet one. */
INLINE HALF KERNEL(to_bf16)(VECTOR v)
{
#if defined(HAVE_512)
    const __m512i u = _mm512_castps_si512(v),
                  odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    return _mm512_cvtepi32_epi16(rounded);
#else
    const __m256i u = _mm256_castps_si256(v),
                  odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
#endif
}

/* Load four vectors of an operand, from element `i` on. */
INLINE void KERNEL(fetch)(const void *operand, yoke_dtype dtype, size_t i, VECTOR v[4])
{
    const uint16_t *h = (const uint16_t *)operand + i;
    if (dtype == YOKE_F32)
        for (int j = 0; j < 4; j++) v[j] = VDO(loadu_ps)((const float *)operand + i + j * WIDE);
    else if (dtype == YOKE_F16)
        for (int j = 0; j < 4; j++) v[j] = VDO(cvtph_ps)(HALF_LOAD(h + j * WIDE));
    else
        for (int j = 0; j < 4; j++) v[j] = KERNEL(from_bf16)(HALF_LOAD(h + j * WIDE));
}

/*
 * Store four vectors to the output. With `stream` the stores go past the caches, a whole cache line at once.
 */
INLINE void KERNEL(write)(void *out, yoke_dtype dtype, bool stream, size_t i, const VECTOR v[4])
{
    uint16_t *h = (uint16_t *)out + i;
    HALF narrow[4];
    if (dtype == YOKE_F32) {
        for (int j = 0; j < 4; j++)
            if (stream)
                VDO(stream_ps)((float *)out + i + j * WIDE, v[j]);
            else
                VDO(storeu_ps)((float *)out + i + j * WIDE, v[j]);
        return;
    }
    for (int j = 0; j < 4; j++)
        narrow[j] = dtype == YOKE_F16 ? VDO(cvtps_ph)(v[j], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                                      : KERNEL(to_bf16)(v[j]);
    if (stream)
        for (int j = 0; j < 4; j += 2) WHOLE_STREAM(h + j * WIDE, narrow[j], narrow[j + 1]);
    else
        for (int j = 0; j < 4; j++) HALF_STORE(h + j * WIDE, narrow[j]);
}

/*
 * Two inputs, and one or two outputs of one type, which is the most frequent sum. Pass constants for all
 * arguments except `f`.
 */
INLINE size_t KERNEL(fold_two)(const struct yokei_fold *f, yoke_dtype dtype, bool both, bool stream,
                               bool stream_second)
{
    const void *a = f->in[0], *b = f->in[1];
    void *first = f->out[0], *second = f->out[f->n_out - 1];
    size_t i = 0;
    for (; i + 4 * WIDE <= f->n; i += 4 * WIDE) {
        VECTOR x[4], y[4];
        KERNEL(fetch)(a, dtype, i, x);
        KERNEL(fetch)(b, dtype, i, y);
        for (int j = 0; j < 4; j++) x[j] = KERNEL(clean)(VDO(add_ps)(x[j], y[j]));
        KERNEL(write)(first, dtype, stream, i, x);
        if (both) KERNEL(write)(second, dtype, stream_second, i, x);
    }
    return i;
}

/* Any number of inputs and outputs. The first n_wire inputs are of type `wire`. */
INLINE size_t KERNEL(fold_many)(const struct yokei_fold *f, yoke_dtype dtype, yoke_dtype out, bool divides)
{
    const VECTOR by = VDO(set1_ps)((float)f->size);
    size_t i = 0;
    for (; i + 4 * WIDE <= f->n; i += 4 * WIDE) {
        VECTOR sum[4], next[4];
        KERNEL(fetch)(f->in[0], f->n_wire > 0 ? f->wire : dtype, i, sum);
        for (int q = 1; q < f->n_in; q++) {
            KERNEL(fetch)(f->in[q], q < f->n_wire ? f->wire : dtype, i, next);
            for (int j = 0; j < 4; j++) sum[j] = VDO(add_ps)(sum[j], next[j]);
        }
        for (int j = 0; j < 4; j++) sum[j] = KERNEL(clean)(divides ? VDO(div_ps)(sum[j], by) : sum[j]);
        for (int o = 0; o < f->n_out; o++)
            KERNEL(write)(f->out[o], out, f->stream >> YOKE_MIN(o, 31) & 1, i, sum);
    }
    return i;
}

/* Returns the number of elements that were done: all but the last few. */
TARGET static size_t KERNEL(fold)(const struct yokei_fold *f)
{
    const yoke_dtype out = f->partial ? f->wire : f->dtype;
    const bool divides = f->reduction == YOKE_AVG && !f->partial, both = f->n_out == 2;
    const unsigned streams = f->stream & (both ? 3u : 1u);
    if (f->n_in != 2 || f->n_wire || f->n_out > 2 || out != f->dtype || divides || streams == 2)
        return KERNEL(fold_many)(f, f->dtype, out, divides);
#define TWO(type)                                                      \
    (streams == 3      ? KERNEL(fold_two)(f, type, true, true, true)   \
     : streams && both ? KERNEL(fold_two)(f, type, true, true, false)  \
     : streams         ? KERNEL(fold_two)(f, type, false, true, false) \
     : both            ? KERNEL(fold_two)(f, type, true, false, false) \
                       : KERNEL(fold_two)(f, type, false, false, false))
    return f->dtype == YOKE_F32 ? TWO(YOKE_F32) : f->dtype == YOKE_F16 ? TWO(YOKE_F16) : TWO(YOKE_BF16);
#undef TWO
}

#undef HALF
#undef HALF_LOAD
#undef HALF_STORE
#undef WHOLE_STREAM
#undef INLINE
