/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Vectors of f32 for the kernels of the host: fused multiply-add, and loads and stores of every storage type.
 * Exponentials are in exp.h.
 *
 * This file is compiled once per instruction set (HOST_ISA = generic, avx2, avx512, avx512bf16 with its
 * compiler flags). It uses GCC's vector extensions, which clang has too. Intrinsics are used only where the
 * extensions have no equivalent. Functions take the storage type as a constant first argument and are always
 * inlined, so a kernel that is written once becomes one loop per type (HOST_BY_TYPE).
 */
#ifndef BACKENDS_HOST_VEC_H
#define BACKENDS_HOST_VEC_H

#include "backends/host/host.h"

#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define HOST_PASTE2(a, b) a##_##b
#define HOST_PASTE(a, b) HOST_PASTE2(a, b)
#define HOST_NAME(name) HOST_PASTE(name, HOST_ISA) /* host_norm_ops -> host_norm_ops_avx2 */
#define HOST_TEXT2(a) #a
#define HOST_TEXT(a) HOST_TEXT2(a)

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define HOST_AVX512 1
enum { VL = 16 }; /* number of f32 lanes of a vector */
#ifdef __AVX512BF16__
#define HOST_BF16 1 /* dot products of pairs of bf16: tile_bf16.h */
#endif
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define HOST_AVX2 1
enum { VL = 8 };
#else
enum { VL = 4 };
#endif

#define INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef uint16_t vh __attribute__((vector_size(2 * VL)));

/** Call kernel(type, ...) with the type as a constant. */
#define HOST_BY_TYPE(dtype, kernel, ...)                       \
    do {                                                       \
        switch (dtype) {                                       \
        case YOKE_F16: kernel(YOKE_F16, __VA_ARGS__); break;   \
        case YOKE_BF16: kernel(YOKE_BF16, __VA_ARGS__); break; \
        default: kernel(YOKE_F32, __VA_ARGS__); break;         \
        }                                                      \
    } while (0)

INLINE size_t type_bytes(const yoke_dtype t) { return t == YOKE_F32 ? 4 : 2; }
INLINE const void *at(const yoke_dtype t, const void *p, int64_t i)
{
    return (const char *)p + i * (int64_t)type_bytes(t);
}
INLINE void *at_mut(const yoke_dtype t, void *p, int64_t i) { return (char *)p + i * (int64_t)type_bytes(t); }

/**
 * Run `body` for each vector of [from, to), where i is its first element and n its number of elements. In the
 * loop n is the constant VL, so loads and stores of n elements cost nothing extra. The last, shorter vector
 * has its own copy of the body, behind the loop.
 */
#define VECTOR_LOOP(i, n, from, to, ...)                    \
    do {                                                    \
        int64_t i = (from);                                 \
        {                                                   \
            enum { n = VL };                                \
            for (; i + VL <= (to); i += VL) { __VA_ARGS__ } \
        }                                                   \
        if (i < (to)) {                                     \
            const int64_t n = (to)-i;                       \
            __VA_ARGS__                                     \
        }                                                   \
    } while (0)

/* ---- masks: one bit per lane if the instruction set has mask registers, else all bits of a lane ---- */
#ifdef HOST_AVX512
typedef __mmask16 vmask;
INLINE vmask vless(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }
INLINE vmask vnan(vf a) { return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q); }
INLINE vmask vless_i(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
INLINE bool mask_any(vmask m) { return m; }
INLINE vf vselect(vmask m, vf yes, vf no) { return (vf)_mm512_mask_blend_ps(m, (__m512)no, (__m512)yes); }
#else
typedef vi vmask;
INLINE vmask vless(vf a, vf b) { return a < b; }
INLINE vmask vnan(vf a) { return a != a; }
INLINE vmask vless_i(vi a, vi b) { return a < b; }
INLINE bool mask_any(vmask m)
{
#ifdef HOST_AVX2
    return _mm256_movemask_ps((__m256)m);
#else
    int32_t any = 0;
    for (int i = 0; i < VL; i++) any |= m[i];
    return any;
#endif
}
INLINE vf vselect(vmask m, vf yes, vf no)
{
#ifdef HOST_AVX2
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)m);
#else
    return (vf)((m & (vi)yes) | (~m & (vi)no));
#endif
}
#endif

/* ---- arithmetic that the vector extensions lack ---- */
INLINE vf vset(float x) { return x - (vf){ 0 }; } /* x - 0 keeps every x, also -0 */
INLINE vi vset_i(int32_t x) { return x - (vi){ 0 }; }

/** a * b + c, rounded once if the instruction set can do this. */
INLINE vf vfma(vf a, vf b, vf c)
{
#if defined(HOST_AVX512)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(HOST_AVX2)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_FEATURE_FMA) && defined(__aarch64__)
    vf r;
    for (int i = 0; i < VL; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
#else
    return a * b + c;
#endif
}

/** c - a * b, rounded in the same way. */
INLINE vf vfnma(vf a, vf b, vf c)
{
#if defined(HOST_AVX512)
    return (vf)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(HOST_AVX2)
    return (vf)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return vfma(-a, b, c);
#endif
}

/** The greater of x and a bound that is not NaN. A NaN in x stays NaN. */
INLINE vf vatleast(vf x, vf bound)
{
#if defined(HOST_AVX512)
    return (vf)_mm512_max_ps((__m512)bound,
                             (__m512)x); /* if one operand is NaN, the instruction takes the second one */
#elif defined(HOST_AVX2)
    return (vf)_mm256_max_ps((__m256)bound, (__m256)x);
#else
    return vselect(vless(x, bound), bound, x);
#endif
}

INLINE vf vatmost(vf x, vf bound)
{
#if defined(HOST_AVX512)
    return (vf)_mm512_min_ps((__m512)bound, (__m512)x);
#elif defined(HOST_AVX2)
    return (vf)_mm256_min_ps((__m256)bound, (__m256)x);
#else
    return vselect(vless(bound, x), bound, x);
#endif
}

/** The greater of two values, or NaN if one of them is NaN. */
INLINE vf vmax(vf a, vf b) { return vselect(vnan(a), a, vatleast(b, a)); }

/** The greater of two numbers. If x is NaN, the result is the bound. */
INLINE vf vatleast_number(vf x, vf bound) { return vatleast(bound, x); }

INLINE vf vsqrt(vf x)
{
#if defined(HOST_AVX512)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(HOST_AVX2)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < VL; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }

/** The lane numbers 0, 1, 2, … */
INLINE vi vlanes(void)
{
    vi lane;
    for (int i = 0; i < VL; i++) lane[i] = i;
    return lane;
}
/** vbelow: the lanes below n. vkeep: x in these lanes, and `fill` in the others. */
INLINE vmask vbelow(int64_t n) { return vless_i(vlanes(), vset_i((int32_t)YOKE_MIN(n, VL))); }
INLINE vf vkeep(vf x, int64_t n, float fill) { return n >= VL ? x : vselect(vbelow(n), x, vset(fill)); }

/**
 * Sum and maximum over lanes, in a fixed tree. The upper half is combined with the lower half, until one lane
 * is left.
 */
#ifdef __x86_64__
INLINE __m128 lower_quarter(vf x, const bool max)
{
#ifdef HOST_AVX512
    const __m256 low = _mm512_castps512_ps256((__m512)x), high = _mm512_extractf32x8_ps((__m512)x, 1);
    const __m256 half = max ? _mm256_max_ps(low, high) : _mm256_add_ps(low, high);
#elif defined(HOST_AVX2)
    const __m256 half = (__m256)x;
#endif
#if defined(HOST_AVX512) || defined(HOST_AVX2)
    const __m128 a = _mm256_castps256_ps128(half), b = _mm256_extractf128_ps(half, 1);
    return max ? _mm_max_ps(a, b) : _mm_add_ps(a, b);
#else
    (void)max;
    return (__m128)x;
#endif
}
INLINE float vsum(vf x)
{
    const __m128 four = lower_quarter(x, false), two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
INLINE float vgreatest(vf x)
{
    const __m128 four = lower_quarter(x, true), two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return mask_any(vnan(x)) ? NAN : _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
#else
INLINE float vsum(vf x)
{
    for (int half = VL / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}
INLINE float vgreatest(vf x)
{
    float m = x[0];
    for (int i = 1; i < VL; i++) m = x[i] > m || x[i] != x[i] ? x[i] : m;
    return m;
}
#endif

/* ---- conversions ---- */
/* Conversion between words and halves. gcc makes several instructions of __builtin_convertvector. */
INLINE vu widen_bits(vh h)
{
#if defined(HOST_AVX512)
    return (vu)_mm512_cvtepu16_epi32((__m256i)h);
#elif defined(HOST_AVX2)
    return (vu)_mm256_cvtepu16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, vu);
#endif
}
INLINE vh narrow_bits(vu u) /* each element is below 2^16 */
{
#if defined(HOST_AVX512)
    return (vh)_mm512_cvtepi32_epi16((__m512i)u);
#elif defined(HOST_AVX2)
    const __m256i pairs = _mm256_packus_epi32((__m256i)u, (__m256i)u);
    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
#else
    return __builtin_convertvector(u, vh);
#endif
}

INLINE vf widen_bf16(vh h) { return (vf)(widen_bits(h) << 16); }

/*
 * Round to nearest even, in integer arithmetic, because the CPU's own conversion flushes subnormals. The
 * result is in the upper half of each word.
 */
INLINE vu round_bf16_bits(vf x)
{
    const vu u = (vu)x;
#ifdef HOST_AVX512
    const __m512i up = _mm512_add_epi32((__m512i)u, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_mask_add_epi32(
        up, _mm512_test_epi32_mask((__m512i)u, _mm512_set1_epi32(0x10000)), up, _mm512_set1_epi32(1));
    return (vu)_mm512_mask_or_epi32(rounded, vnan(x), (__m512i)u, _mm512_set1_epi32(0x400000));
#else
    const vu rounded = u + 0x7fffu + ((u >> 16) & 1u), quiet = u | 0x400000u;
    return (vu)vselect(vnan(x), (vf)quiet, (vf)rounded);
#endif
}

#ifdef HOST_AVX512
INLINE vh upper_halves(vu u)
{
    uint16_t upper[32];
    for (int i = 0; i < 32; i++) upper[i] = (uint16_t)(2 * i + 1); /* the compiler folds this to a constant */
    __m512i index;
    memcpy(&index, upper, sizeof index);
    return (vh)_mm512_castsi512_si256(_mm512_permutexvar_epi16(index, (__m512i)u));
}
#endif

INLINE vh narrow_bf16(vf x)
{
#ifdef HOST_AVX512
    return upper_halves(round_bf16_bits(x));
#else
    return narrow_bits(round_bf16_bits(x) >> 16);
#endif
}

INLINE vf widen_f16(vh h)
{
#if defined(HOST_AVX512)
    return (vf)_mm512_cvtph_ps((__m256i)h);
#elif defined(HOST_AVX2)
    return (vf)_mm256_cvtph_ps((__m128i)h);
#else
    const vu u = widen_bits(h), magnitude = u & 0x7fffu;
    const vf scaled = (vf)(magnitude << 13)
                      * 0x1p112f; /* moves the exponent's bias; subnormals become exact too */
    const vu special = (vu)(magnitude > 0x7bffu) & 0x7f800000u, payload = (magnitude & 0x3ffu) << 13;
    const vu quiet = (vu)(magnitude > 0x7c00u) & 0x400000u;
    const vf value = vselect((vi)(magnitude > 0x7bffu), (vf)(special | payload | quiet), scaled);
    return (vf)((vu)value | (u & 0x8000u) << 16);
#endif
}

INLINE vh narrow_f16(vf x)
{
#if defined(HOST_AVX512)
    return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(HOST_AVX2)
    return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    const vu sign = (vu)x & 0x80000000u, u = (vu)x ^ sign;
    /* normal results: change the bias, then round at bit 13; above 65520 this carries into infinity */
    const vu normal = (u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13;
    /* subnormal results: after adding 0.5, the low bits hold the rounded multiple of 2^-24 */
    const vu small = (vu)((vf)u + 0.5f) - 0x3f000000u;
    vu h = (vu)vselect((vi)(u < 0x38800000u), (vf)small, (vf)normal);
    h = (vu)vselect((vi)(u >= 0x47800000u), (vf)((vu){ 0 } + 0x7c00u), (vf)h);
    h = (vu)vselect((vi)(u > 0x7f800000u), (vf)(((u >> 13) & 0x3ffu) | 0x7e00u), (vf)h);
    return narrow_bits(h | sign >> 16);
#endif
}

/* ---- loads and stores ---- */
INLINE vf vload(const yoke_dtype t, const void *p, int64_t i)
{
    if (t == YOKE_F32) {
        vf v;
        memcpy(&v, at(t, p, i), sizeof v);
        return v;
    }
    vh h;
    memcpy(&h, at(t, p, i), sizeof h);
    return t == YOKE_F16 ? widen_f16(h) : widen_bf16(h);
}

INLINE void vstore(const yoke_dtype t, void *p, int64_t i, vf v)
{
    if (t == YOKE_F32) {
        memcpy(at_mut(t, p, i), &v, sizeof v);
        return;
    }
    const vh h = t == YOKE_F16 ? narrow_f16(v) : narrow_bf16(v);
    memcpy(at_mut(t, p, i), &h, sizeof h);
}

/** Load or store the first n lanes only (all lanes if n >= VL). A load reads the others as 0. */
INLINE vf vload_n(const yoke_dtype t, const void *p, int64_t i, int64_t n)
{
    if (n >= VL) return vload(t, p, i);
    float lanes[VL] = { 0 }; /* as many bytes as the largest type needs */
    memcpy(lanes, at(t, p, i), (size_t)n * type_bytes(t));
    return vload(t, lanes, 0);
}

INLINE void vstore_n(const yoke_dtype t, void *p, int64_t i, int64_t n, vf v)
{
    if (n >= VL) {
        vstore(t, p, i, v);
        return;
    }
    float lanes[VL];
    vstore(t, lanes, 0, v);
    memcpy(at_mut(t, p, i), lanes, (size_t)n * type_bytes(t));
}

/** x rounded to the storage type and widened again. */
INLINE vf vround(const yoke_dtype t, vf x)
{
    if (t == YOKE_F32) return x;
    return t == YOKE_F16 ? widen_f16(narrow_f16(x)) : (vf)(round_bf16_bits(x) & 0xffff0000u);
}

/** Load or store one element. */
INLINE float load_one(const yoke_dtype t, const void *p, int64_t i) { return vload_n(t, p, i, 1)[0]; }
INLINE void store_one(const yoke_dtype t, void *p, int64_t i, float x) { vstore_n(t, p, i, 1, vset(x)); }

/*
 * ---- two vectors at a time, for kernels that do the same to every element ----
 * For bf16, one load of 2 VL elements gives the even elements by a shift and the odd ones by a mask. A store
 * puts them together again. This needs half the instructions of widening and narrowing. So the type decides
 * which vector holds which element. All operands of one kernel must have the same type, and constants must be
 * the same in all lanes.
 */
struct pair {
    vf a, b;
};

INLINE struct pair vload_pair(const yoke_dtype t, const void *p, int64_t i)
{
    if (t != YOKE_BF16) return (struct pair){ vload(t, p, i), vload(t, p, i + VL) };
    vu u;
    memcpy(&u, at(t, p, i), sizeof u);
    return (struct pair){ (vf)(u << 16), (vf)(u & 0xffff0000u) };
}

/*
 * As round_bf16_bits, for x without NaNs that have bits set below bit 16. Arithmetic on bf16 makes no such
 * NaN.
 */
INLINE vu round_bf16_plain(vf x)
{
    const vu u = (vu)x;
#ifdef HOST_AVX512
    const __m512i up = _mm512_add_epi32((__m512i)u, _mm512_set1_epi32(0x7fff));
    return (vu)_mm512_mask_add_epi32(up, _mm512_test_epi32_mask((__m512i)u, _mm512_set1_epi32(0x10000)), up,
                                     _mm512_set1_epi32(1));
#else
    return u + 0x7fffu + ((u >> 16) & 1u);
#endif
}

/** The stored bf16 may be NaN only because of an operand of type t, the CPU (0 / 0) or `plain_nan`. */
INLINE void vstore_pair(const yoke_dtype t, void *p, int64_t i, vf a, vf b)
{
    if (t != YOKE_BF16) {
        vstore(t, p, i, a);
        vstore(t, p, i + VL, b);
        return;
    }
    const vu u = round_bf16_plain(a) >> 16 | (round_bf16_plain(b) & 0xffff0000u);
    memcpy(at_mut(t, p, i), &u, sizeof u);
}

/** As vstore_pair, for the first n lanes of a single vector. */
INLINE void vstore_plain_n(const yoke_dtype t, void *p, int64_t i, int64_t n, vf x)
{
#ifdef HOST_AVX512
    if (t == YOKE_BF16 && n >= VL) {
        const vh h = upper_halves(round_bf16_plain(x));
        memcpy(at_mut(t, p, i), &h, sizeof h);
        return;
    }
#endif
    vstore_n(t, p, i, n, x);
}

/**
 * The number of bytes that are fetched ahead, for kernels that compute much between the loads. The CPU does
 * not look far enough ahead there.
 */
enum { AHEAD = 2048 };
/** Prefetch the cache lines of a pair, to be read or written soon. */
INLINE void vprefetch_pair(const yoke_dtype t, const void *p, int64_t i, const bool to_write)
{
    for (int64_t line = 0; line < 2 * VL * (int64_t)type_bytes(t); line += 64)
        if (to_write)
            __builtin_prefetch((const char *)at(t, p, i) + line, 1);
        else
            __builtin_prefetch((const char *)at(t, p, i) + line);
}

/** A number that a caller gave. A NaN of any payload becomes one that round_bf16_plain keeps. */
INLINE float plain_nan(float x) { return x != x ? NAN : x; }

/**
 * y[i] = value, for each x[i], which the expression calls `v`, and each x2[i], which it calls `w`. MAP_1
 * takes `pairs` pairs at once.
 */
#define MAP_1(t, pairs, from, to, y, x, v, ...)                                                 \
    do {                                                                                        \
        int64_t i_ = (from);                                                                    \
        for (; i_ + 2 * (pairs)*VL <= (to); i_ += 2 * (pairs)*VL) {                             \
            struct pair x_[pairs];                                                              \
            vf y_[2 * (pairs)];                                                                 \
            for (int h_ = 0; h_ < (pairs); h_++) {                                              \
                vprefetch_pair(t, x, i_ + 2 * h_ * VL + AHEAD / (int64_t)type_bytes(t), false); \
                vprefetch_pair(t, y, i_ + 2 * h_ * VL + AHEAD / (int64_t)type_bytes(t), true);  \
                x_[h_] = vload_pair(t, x, i_ + 2 * h_ * VL);                                    \
            }                                                                                   \
            for (int h_ = 0; h_ < 2 * (pairs); h_++) {                                          \
                const vf v = h_ & 1 ? x_[h_ / 2].b : x_[h_ / 2].a;                              \
                y_[h_] = (__VA_ARGS__);                                                         \
            }                                                                                   \
            for (int h_ = 0; h_ < (pairs); h_++)                                                \
                vstore_pair(t, y, i_ + 2 * h_ * VL, y_[2 * h_], y_[2 * h_ + 1]);                \
        }                                                                                       \
        VECTOR_LOOP(j_, n_, i_, to, const vf v = vload_n(t, x, j_, n_);                         \
                    vstore_n(t, y, j_, n_, (__VA_ARGS__)););                                    \
    } while (0)
#define MAP_2(t, from, to, y, x, v, x2, w, ...)                                      \
    do {                                                                             \
        int64_t i_ = (from);                                                         \
        for (; i_ + 2 * VL <= (to); i_ += 2 * VL) {                                  \
            const struct pair x_ = vload_pair(t, x, i_), z_ = vload_pair(t, x2, i_); \
            vf y_[2];                                                                \
            for (int h_ = 0; h_ < 2; h_++) {                                         \
                const vf v = h_ ? x_.b : x_.a, w = h_ ? z_.b : z_.a;                 \
                y_[h_] = (__VA_ARGS__);                                              \
            }                                                                        \
            vstore_pair(t, y, i_, y_[0], y_[1]);                                     \
        }                                                                            \
        VECTOR_LOOP(j_, n_, i_, to, {                                                \
            const vf v = vload_n(t, x, j_, n_), w = vload_n(t, x2, j_, n_);          \
            vstore_n(t, y, j_, n_, (__VA_ARGS__));                                   \
        });                                                                          \
    } while (0)

#endif
