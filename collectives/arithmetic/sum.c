/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of the reductions. Yoke's own code does it on every rank, whatever the device is, so all
 * ranks get the same bits. 16-bit data is widened to f32 for the operation, which is exact, and rounded when
 * the result is written.
 */
#include <string.h>

#include "collectives/arithmetic/sum.h"
#include "core/base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* with a sanitizer's checks loops cannot be vectorised */
#endif

typedef void binary(const void *a, const void *b, void *out, size_t n);

struct kernels {
    binary *op[YOKE_N_DTYPES][YOKE_N_REDUCTIONS]; /* NULL for types that are widened first */
    void (*divide_f32)(void *x, double by, size_t n), (*divide_f64)(void *x, double by, size_t n);
    void (*canonical_f32)(void *x, size_t n), (*canonical_f64)(void *x, size_t n);
    void (*widen_bf16)(const uint16_t *h, float *x, size_t n),
        (*widen_f16)(const uint16_t *h, float *x, size_t n);
    void (*narrow_bf16)(const float *x, uint16_t *h, size_t n),
        (*narrow_f16)(const float *x, uint16_t *h, size_t n);
    void (*stream)(void *target, const void *source, size_t bytes);
    void (*stream_end)(void);
    size_t (*fold)(const struct yokei_fold *f); /* sums in registers; NULL: the instruction set has none */
};

#define KERNEL(name) base_##name
#define TARGET
#include "collectives/arithmetic/sum_kernels.h"
#undef KERNEL
#undef TARGET

#if defined(__x86_64__)
#define HAVE_F16C
#define KERNEL(name) avx2_##name
#define TARGET __attribute__((target("avx2,f16c")))
#define STREAM_END _mm_sfence()
#define STREAM_BYTES 32
#define STREAM_ONE(to, from) \
    _mm256_stream_si256((__m256i *)(void *)(to), _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#include "collectives/arithmetic/sum_fold.h"
#include "collectives/arithmetic/sum_kernels.h"
#undef STREAM_BYTES
#undef STREAM_ONE
#undef KERNEL
#undef TARGET

#define KERNEL(name) avx512_##name
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")))
#define HAVE_512
#define STREAM_BYTES 64
#define STREAM_ONE(to, from) \
    _mm512_stream_si512((__m512i *)(void *)(to), _mm512_loadu_si512((const void *)(from)))
#include "collectives/arithmetic/sum_fold.h"
#include "collectives/arithmetic/sum_kernels.h"
#undef STREAM_BYTES
#undef STREAM_ONE
#undef KERNEL
#undef TARGET
#undef HAVE_F16C
#undef HAVE_512
#undef STREAM_END
#endif

/* List the tables that this processor can run, the best one first. */
static int list_kernels(const struct kernels *tables[3], const char *names[3])
{
    int n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    unsigned a, b, c = 0, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    const bool avx2 = f16c && __builtin_cpu_supports("avx2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        tables[n] = &avx512_table, names[n++] = "avx512";
    if (avx2) tables[n] = &avx2_table, names[n++] = "avx2";
#endif
    tables[n] = &base_table, names[n++] = "base";
    return n;
}

static const struct kernels *_Atomic chosen; /* all threads find the same table */

static const struct kernels *kernels(void)
{
    const struct kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed), *tables[3];
    const char *names[3];
    if (!k) {
        list_kernels(tables, names);
        k = tables[0];
        atomic_store_explicit(&chosen, k, memory_order_relaxed);
    }
    return k;
}

const char *yokei_sum_use(int nth)
{
    const struct kernels *tables[3];
    const char *names[3];
    const int n = list_kernels(tables, names);
    if (nth < 0 || nth >= n) return NULL;
    atomic_store_explicit(&chosen, tables[nth], memory_order_relaxed);
    return names[nth];
}

static bool is_narrow(yoke_dtype dtype) { return dtype == YOKE_F16 || dtype == YOKE_BF16; }
static bool is_float(yoke_dtype dtype) { return dtype == YOKE_F32 || dtype == YOKE_F64 || is_narrow(dtype); }

yoke_dtype yokei_wire_dtype(yoke_dtype dtype, yoke_reduction reduction, enum yoke_accum accum)
{
    /* The least and the greatest value need no rounding, so they travel unchanged. */
    if (!is_narrow(dtype) || accum == YOKE_ACCUM_NATIVE || reduction == YOKE_MIN || reduction == YOKE_MAX)
        return dtype;
    return YOKE_F32;
}

static void convert(const struct kernels *k, yoke_dtype from, const void *source, yoke_dtype to, void *target,
                    size_t n)
{
    if (from == to) {
        if (source != target) memcpy(target, source, n * yoke_dtype_bytes(from));
    } else if (from == YOKE_BF16 && to == YOKE_F32) {
        k->widen_bf16(source, target, n);
    } else if (from == YOKE_F16 && to == YOKE_F32) {
        k->widen_f16(source, target, n);
    } else if (from == YOKE_F32 && to == YOKE_BF16) {
        k->narrow_bf16(source, target, n);
    } else if (from == YOKE_F32 && to == YOKE_F16) {
        k->narrow_f16(source, target, n);
    } else {
        yoke_convert(from, source, to, target, n);
    }
}

enum { BLOCK = 1024 }; /* elements between two passes, few enough to stay in the first cache */

/* The operand in the type of the computation: the array itself, or a widened copy in `room`. */
static const void *operand(const struct kernels *k, const void *array, yoke_dtype dtype, yoke_dtype compute,
                           size_t at, size_t n, void *room)
{
    const void *here = (const char *)array + at * yoke_dtype_bytes(dtype);
    if (dtype == compute) return here;
    convert(k, dtype, here, compute, room, n);
    return room;
}

static void write_out(const struct kernels *k, const struct yokei_combine *c, const void *result,
                      yoke_dtype compute, size_t at, size_t n)
{
    for (size_t o = 0; o < YOKE_COUNT(c->out); o++)
        if (c->out[o])
            convert(k, compute, result, c->out_dtype[o],
                    (char *)c->out[o] + at * yoke_dtype_bytes(c->out_dtype[o]), n);
}

/*
 * Where the block's result is computed: in the first output that has the computation's type, else in `room`.
 */
static void *result_place(const struct yokei_combine *c, yoke_dtype compute, size_t at, void *room)
{
    for (size_t o = 0; o < YOKE_COUNT(c->out); o++)
        if (c->out[o] && c->out_dtype[o] == compute)
            return (char *)c->out[o] + at * yoke_dtype_bytes(compute);
    return room;
}

void yokei_combine(const struct yokei_combine *c)
{
    const struct kernels *k = kernels();
    _Alignas(64) double room_a[BLOCK], room_b[BLOCK], room_r[BLOCK];
    const bool narrow = is_narrow(c->a_dtype) || (c->b && is_narrow(c->b_dtype));
    const bool divides = c->finish && c->reduction == YOKE_AVG;
    const bool canonical = c->canonical && is_float(c->a_dtype);
    /* If there is nothing to compute and the type stays, the bits are copied. */
    const bool moves = !c->b && !divides && !canonical;
    const yoke_dtype compute = moves || !narrow ? c->a_dtype : YOKE_F32;
    binary *const *table = k->op[compute];
    for (size_t at = 0; at < c->n; at += BLOCK) {
        const size_t n = YOKE_MIN((size_t)BLOCK, c->n - at);
        const void *a = operand(k, c->a, c->a_dtype, compute, at, n, room_a);
        if (moves) {
            write_out(k, c, a, compute, at, n);
            continue;
        }
        void *r = result_place(c, compute, at, room_r);
        if (c->b)
            table[c->reduction](a, operand(k, c->b, c->b_dtype, compute, at, n, room_b), r, n);
        else
            convert(k, compute, a, compute, r, n);
        if (divides) (compute == YOKE_F64 ? k->divide_f64 : k->divide_f32)(r, c->size, n);
        if (canonical) (compute == YOKE_F64 ? k->canonical_f64 : k->canonical_f32)(r, n);
        write_out(k, c, r, compute, at, n);
    }
}

void yokei_copy(void *target, const void *source, size_t bytes, bool stream)
{
    if (!stream) {
        if (bytes) memcpy(target, source, bytes);
        return;
    }
    kernels()->stream(target, source, bytes);
    kernels()->stream_end();
}

static bool has_bit(unsigned bits, int o) { return bits >> YOKE_MIN(o, 31) & 1; }

/* Whether output o is stored past the caches. */
static bool streams(const struct yokei_fold *f, int o) { return has_bit(f->stream, o); }

/* Write a block of the result to the outputs. */
static void put(const struct kernels *k, const struct yokei_fold *f, size_t at, const void *result, size_t n)
{
    const size_t bytes = yoke_dtype_bytes(f->partial ? f->wire : f->dtype);
    for (int o = 0; o < f->n_out; o++) {
        char *to = (char *)f->out[o] + at * bytes;
        if (streams(f, o))
            k->stream(to, result, n * bytes);
        else
            memcpy(to, result, n * bytes);
    }
}

/*
 * Number of elements before the first cache line of the outputs that are stored past the caches. n: no such
 * place is the same for all of them.
 */
static size_t before_lines(const struct yokei_fold *f, size_t bytes)
{
    size_t head = SIZE_MAX;
    for (int o = 0; o < f->n_out; o++) {
        const size_t to_line = -(uintptr_t)f->out[o] % 64;
        if (!streams(f, o)) continue;
        if (to_line % bytes || (head != SIZE_MAX && head != to_line)) return f->n;
        head = to_line;
    }
    return head == SIZE_MAX ? 0 : YOKE_MIN(head / bytes, f->n);
}

static bool can_be_in_registers(const struct kernels *k, const struct yokei_fold *f)
{
    const bool is_sum = f->reduction == YOKE_SUM || f->reduction == YOKE_AVG;
    return k->fold && is_sum && f->n_out && (f->dtype == YOKE_F32 || is_narrow(f->dtype));
}

/* Fold one block of the inputs from the left into `sum`. */
static void fold_block(const struct kernels *k, const struct yokei_fold *f, yoke_dtype compute, size_t at,
                       size_t n, void *sum)
{
    _Alignas(64) double room_a[BLOCK], room_b[BLOCK];
    const void *so_far = operand(k, f->in[0], f->n_wire > 0 ? f->wire : f->dtype, compute, at, n, room_a);
    for (int i = 1; i < f->n_in; i++) {
        k->op[compute][f->reduction](
            so_far, operand(k, f->in[i], i < f->n_wire ? f->wire : f->dtype, compute, at, n, room_b), sum, n);
        so_far = sum;
    }
    if (f->n_in == 1) convert(k, compute, so_far, compute, sum, n);
    if (f->reduction == YOKE_AVG && !f->partial)
        (compute == YOKE_F64 ? k->divide_f64 : k->divide_f32)(sum, f->size, n);
    if (is_float(compute)) (compute == YOKE_F64 ? k->canonical_f64 : k->canonical_f32)(sum, n);
}

/* Fold elements [at, end), in blocks that stay in the first cache. */
static void fold_blocks(const struct kernels *k, const struct yokei_fold *f, size_t at, size_t end)
{
    _Alignas(64) double sum[BLOCK], narrowed[BLOCK];
    const yoke_dtype compute = is_narrow(f->dtype) ? YOKE_F32 : f->dtype,
                     out = f->partial ? f->wire : f->dtype;
    for (; at < end; at += BLOCK) {
        const size_t n = YOKE_MIN((size_t)BLOCK, end - at);
        fold_block(k, f, compute, at, n, sum);
        const void *result = sum;
        if (compute != out) {
            convert(k, compute, sum, out, narrowed, n);
            result = narrowed;
        }
        put(k, f, at, result, n);
    }
}

/* Fold from element `head` on, in registers. Returns the index after the last element that was done. */
static size_t fold_from(const struct kernels *k, const struct yokei_fold *f, size_t head)
{
    if (!head) return k->fold(f);
    const void *in[f->n_in];
    void *out[f->n_out];
    struct yokei_fold rest = *f;
    for (int q = 0; q < f->n_in; q++)
        in[q] = (const char *)f->in[q] + head * yoke_dtype_bytes(q < f->n_wire ? f->wire : f->dtype);
    for (int o = 0; o < f->n_out; o++)
        out[o] = (char *)f->out[o] + head * yoke_dtype_bytes(f->partial ? f->wire : f->dtype);
    rest.n -= head;
    rest.in = in;
    rest.out = out;
    return head + k->fold(&rest);
}

static void fold_plainly(const struct kernels *k, const struct yokei_fold *f)
{
    const size_t head = can_be_in_registers(k, f)
                            ? before_lines(f, yoke_dtype_bytes(f->partial ? f->wire : f->dtype))
                            : f->n;
    fold_blocks(k, f, 0, head);
    if (head < f->n) fold_blocks(k, f, fold_from(k, f, head), f->n);
    if (f->stream) k->stream_end();
}

enum {
    SHOWN_BLOCK = 64 << 10
}; /* bytes, few enough to stay in the second cache until they have been copied */

/*
 * A store into a cache line that another core has read last waits until that core gives the line up. If the
 * two cores share no cache, this takes many times longer. A copy of many whole lines (memcpy: `rep movsb`
 * here) takes the lines without asking for their old contents.
 * So a block is computed where no other rank looks, in an output of this rank's own if there is one. Then it
 * is copied to where the others will read it.
 */
static void fold_and_show(const struct kernels *k, const struct yokei_fold *f)
{
    static _Thread_local _Alignas(64) char room[SHOWN_BLOCK];
    const size_t in_bytes = yoke_dtype_bytes(f->dtype), wire_bytes = yoke_dtype_bytes(f->wire),
                 bytes = f->partial ? wire_bytes : in_bytes;
    const void *in[f->n_in];
    void *out[f->n_out + 1];
    struct yokei_fold block = *f;
    for (size_t at = 0; at < f->n; at += block.n) {
        const char *result = NULL;
        block.n = YOKE_MIN(SHOWN_BLOCK / bytes, f->n - at);
        block.n_out = 0;
        block.stream = 0;
        for (int q = 0; q < f->n_in; q++)
            in[q] = (const char *)f->in[q] + at * (q < f->n_wire ? wire_bytes : in_bytes);
        for (int o = 0; o < f->n_out; o++) {
            if (has_bit(f->published, o)) continue;
            out[block.n_out] = (char *)f->out[o] + at * bytes;
            if (streams(f, o))
                block.stream |= 1u << YOKE_MIN(block.n_out, 31);
            else if (!result)
                result = out[block.n_out];
            block.n_out++;
        }
        if (!result) result = out[block.n_out++] = room;
        block.in = in;
        block.out = out;
        fold_plainly(k, &block);
        for (int o = 0; o < f->n_out; o++)
            if (has_bit(f->published, o)) memcpy((char *)f->out[o] + at * bytes, result, block.n * bytes);
    }
}

void yokei_fold(const struct yokei_fold *f)
{
    const struct kernels *k = kernels();
    if (f->published & (f->n_out < 32 ? (1u << f->n_out) - 1 : ~0u))
        fold_and_show(k, f);
    else
        fold_plainly(k, f);
}
