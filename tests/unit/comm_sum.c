/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the arithmetic of the collectives with scalar code: every type and reduction, tails, aliases, and
 * special values.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "collectives/arithmetic/sum.h"
#include "core/base/base.h"

enum { MOST = 3001 };
static const size_t lengths[] = { 0, 1, 7, 8, 9, 1023, 1024, 1025, MOST };
static uint64_t state = 88172645463325252ull;

static uint32_t draw(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* Random bits now and then, so that NaN, infinities, zeros of both signs and subnormals are among them. */
static void fill(yoke_dtype dtype, void *array, size_t n)
{
    static const double special[] = { 0.0, -0.0, INFINITY, -INFINITY, 1e-40, -1e-41, 1e-7, 65504, 1e38 };
    for (size_t i = 0; i < n; i++) {
        const double plain = ((double)draw() - 2147483648.0) * 0x1p-29;
        yokei_store(dtype, array, (int64_t)i,
                    dtype != YOKE_I32 && draw() % 5 == 0 ? special[draw() % 9] : plain);
        if (dtype != YOKE_I32 && draw() % 17 == 0) yokei_store(dtype, array, (int64_t)i, NAN);
    }
}

/* x OP y in the type of the computation, by scalar code. */
static double scalar(yoke_reduction op, yoke_dtype compute, double x, double y)
{
    if (op == YOKE_MIN || op == YOKE_MAX) {
        if (isnan(x) || isnan(y)) return NAN;
        if (x == y) return op == YOKE_MIN ? (signbit(x) ? x : y) : (signbit(x) ? y : x);
        return (op == YOKE_MIN) == (x < y) ? x : y;
    }
    if (compute == YOKE_F64) return op == YOKE_PROD ? x * y : x + y;
    if (compute == YOKE_I32)
        return (double)(int32_t)(uint32_t)(op == YOKE_PROD ? (uint64_t)((int64_t)x * (int64_t)y)
                                                           : (uint64_t)((int64_t)x + (int64_t)y));
    const float fx = (float)x, fy = (float)y;
    return op == YOKE_PROD ? fx * fy : fx + fy;
}

static void assert_same(yoke_dtype dtype, const void *got, const void *want, size_t i, const char *what)
{
    const double g = yokei_load(dtype, got, (int64_t)i), w = yokei_load(dtype, want, (int64_t)i);
    if (isnan(g) && isnan(w)) return;
    const size_t bytes = yoke_dtype_bytes(dtype);
    if (memcmp((const char *)got + i * bytes, (const char *)want + i * bytes, bytes))
        fail_msg("%s: %s element %zu is %.9g, not %.9g", what, yoke_dtype_name(dtype), i, g, w);
}

static void combine(yoke_dtype a_type, yoke_dtype b_type, yoke_dtype out_type, yoke_reduction op, size_t n,
                    bool finish, bool alias)
{
    static double a[MOST + 1], b[MOST + 1], kept[MOST + 1], out[MOST + 1], second[MOST + 1], want[MOST + 1];
    const bool narrow = a_type == YOKE_F16 || a_type == YOKE_BF16 || b_type == YOKE_F16
                        || b_type == YOKE_BF16;
    const yoke_dtype compute = narrow ? YOKE_F32 : a_type;
    fill(a_type, a, n);
    fill(b_type, b, n);
    memcpy(kept, b, sizeof b);
    void *target = alias ? (void *)b : (void *)out;
    for (size_t i = 0; i < n; i++) {
        double r = scalar(op, compute, yokei_load(a_type, a, (int64_t)i),
                          yokei_load(b_type, kept, (int64_t)i));
        if (finish && op == YOKE_AVG) r = compute == YOKE_F64 ? r / 3 : (double)((float)r / 3.0f);
        yokei_store(out_type, want, (int64_t)i, r);
    }
    yokei_combine(&(struct yokei_combine){ .n = n,
                                           .reduction = op,
                                           .a = a,
                                           .b = b,
                                           .a_dtype = a_type,
                                           .b_dtype = b_type,
                                           .finish = finish,
                                           .size = 3,
                                           .out = { target, second },
                                           .out_dtype = { out_type, out_type } });
    for (size_t i = 0; i < n; i++) {
        assert_same(out_type, target, want, i, yoke_reduction_name(op));
        assert_same(out_type, second, want, i, "second output");
    }
}

static void every_reduction(void **unused)
{
    (void)unused;
    static const struct {
        yoke_dtype a, b, out;
    } types[] = {
        { YOKE_F32, YOKE_F32, YOKE_F32 },    { YOKE_F64, YOKE_F64, YOKE_F64 },
        { YOKE_I32, YOKE_I32, YOKE_I32 },    { YOKE_F16, YOKE_F16, YOKE_F16 },
        { YOKE_BF16, YOKE_BF16, YOKE_BF16 }, { YOKE_F32, YOKE_F16, YOKE_F32 },
        { YOKE_F32, YOKE_BF16, YOKE_F32 },   { YOKE_F32, YOKE_F16, YOKE_F16 },
        { YOKE_BF16, YOKE_F32, YOKE_BF16 },
    };
    for (size_t t = 0; t < YOKE_COUNT(types); t++)
        for (int op = 0; op < YOKE_N_REDUCTIONS; op++)
            for (size_t l = 0; l < YOKE_COUNT(lengths); l++) {
                if (types[t].a == YOKE_I32 && op == YOKE_AVG) continue;
                combine(types[t].a, types[t].b, types[t].out, (yoke_reduction)op, lengths[l], l % 2,
                        types[t].b == types[t].out && l % 3 == 0);
            }
}

static bool is_whole_number(yoke_dtype dtype)
{
    return dtype == YOKE_I8 || dtype == YOKE_U8 || dtype == YOKE_I32 || dtype == YOKE_I64;
}

/* The value that a variable of the type has after an overflow. */
static double wrapped(yoke_dtype dtype, double x)
{
    if (dtype == YOKE_I8) return (double)(int8_t)(int64_t)x;
    if (dtype == YOKE_U8) return (double)(uint8_t)(int64_t)x;
    return x;
}

enum { ROOM = (MOST + 15) / 8 * 8 }; /* every row begins at a line, as the fastest paths want it */

static void fill_operand(yoke_dtype dtype, void *p, size_t n)
{
    if (!is_whole_number(dtype)) {
        fill(dtype, p, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        yokei_store(dtype, p, (int64_t)i, (double)(draw() % 11) - (dtype == YOKE_U8 ? 0 : 5));
}

/* What fold wants: element i of the operands, folded one by one from the left. */
static double folded(yoke_dtype dtype, yoke_reduction op, int n_in, const void *const operands[], size_t i)
{
    const yoke_dtype compute = dtype == YOKE_F16 || dtype == YOKE_BF16 ? YOKE_F32 : dtype;
    double r = yokei_load(dtype, operands[0], (int64_t)i);
    for (int k = 1; k < n_in; k++) {
        const double x = yokei_load(dtype, operands[k], (int64_t)i);
        if (!is_whole_number(dtype))
            r = scalar(op, compute, r, x);
        else
            r = wrapped(dtype, op == YOKE_PROD  ? r * x
                               : op == YOKE_SUM ? r + x
                               : op == YOKE_MIN ? fmin(r, x)
                                                : fmax(r, x));
    }
    if (op == YOKE_AVG) r = compute == YOKE_F64 ? r / n_in : (double)((float)r / (float)n_in);
    return r;
}

/*
 * Fold in two parts, split before operand `split`, and keep the first part unrounded in the wider type. The
 * result must have the same bits as `want`.
 */
static void fold_in_two_parts(yoke_dtype dtype, yoke_reduction op, int n_in, const void *const operands[],
                              size_t n, unsigned stream, int split, const double want[])
{
    static _Alignas(64) double part[ROOM], whole[ROOM];
    const yoke_dtype compute = dtype == YOKE_F16 || dtype == YOKE_BF16 ? YOKE_F32 : dtype;
    const void *rest[5] = { part };
    for (int k = split; k < n_in; k++) rest[k - split + 1] = operands[k];
    yokei_fold(&(struct yokei_fold){ .n = n,
                                     .reduction = op,
                                     .dtype = dtype,
                                     .wire = compute,
                                     .partial = true,
                                     .n_in = split,
                                     .n_out = 1,
                                     .size = n_in,
                                     .in = operands,
                                     .out = (void *[]){ part } });
    yokei_fold(&(struct yokei_fold){ .n = n,
                                     .reduction = op,
                                     .dtype = dtype,
                                     .wire = compute,
                                     .n_wire = 1,
                                     .n_in = n_in - split + 1,
                                     .n_out = 1,
                                     .size = n_in,
                                     .in = rest,
                                     .out = (void *[]){ whole },
                                     .stream = stream });
    for (size_t i = 0; i < n; i++) assert_same(dtype, whole, want, i, "in two parts");
}

/* Several operands, folded from the left; `into` >= 0: the first output is that operand. */
static void fold(yoke_dtype dtype, yoke_reduction op, int n_in, size_t n, unsigned stream, int into)
{
    static _Alignas(64) double in[5][ROOM], out[2][ROOM], want[ROOM];
    /* Outputs off the vectors' borders too. */
    const size_t bytes = yoke_dtype_bytes(dtype), shift = draw() % 2 * (draw() % 3) * bytes;
    const void *operands[5];
    for (int k = 0; k < n_in; k++) fill_operand(dtype, in[k], n), operands[k] = in[k];
    for (size_t i = 0; i < n; i++) yokei_store(dtype, want, (int64_t)i, folded(dtype, op, n_in, operands, i));
    for (int split = 1; split < n_in; split++)
        fold_in_two_parts(dtype, op, n_in, operands, n, stream, split, want);
    memset(out, 0x5a, sizeof out);
    const unsigned shown = draw() % 4;
    char *first = into >= 0 ? (char *)in[into] : (char *)out[0] + shift, *second = (char *)out[1] + shift;
    yokei_fold(&(struct yokei_fold){ .n = n,
                                     .reduction = op,
                                     .dtype = dtype,
                                     .n_in = n_in,
                                     .n_out = 2,
                                     .size = n_in,
                                     .in = operands,
                                     .out = (void *[]){ first, second },
                                     .stream = stream,
                                     .published = shown });
    char name[80];
    snprintf(name, sizeof name, "%s of %d, stream %u, shown %u, into %d", yoke_reduction_name(op), n_in,
             stream, shown, into);
    for (size_t i = 0; i < n; i++) {
        assert_same(dtype, first, want, i, name);
        assert_same(dtype, second, want, i, name);
    }
    assert_memory_equal(second + n * bytes, "ZZZZZZZZ", 8);
}

static void every_fold(void **unused)
{
    (void)unused;
    for (int dtype = 0; dtype < YOKE_N_DTYPES; dtype++)
        for (int op = 0; op < YOKE_N_REDUCTIONS; op++)
            for (int n_in = 1; n_in <= 5; n_in++)
                for (size_t l = 0; l < YOKE_COUNT(lengths); l++)
                    if (!(op == YOKE_AVG && is_whole_number((yoke_dtype)dtype)))
                        fold((yoke_dtype)dtype, (yoke_reduction)op, n_in, lengths[l], (unsigned)(l % 4),
                             (int)(l % 3) - 1 < n_in ? (int)(l % 3) - 1 : -1);
}

/*
 * Results that other ranks read are made block by block. With any mix of outputs they must be the same as
 * without, and nothing may be written beyond them.
 */
static void fold_publishes_long_results(void **unused)
{
    enum { N = 3 * 16384 + 1001, N_OUT = 3 };
    float *in = malloc(2 * N * sizeof *in), *out = malloc(N_OUT * (N + 1) * sizeof *out);
    (void)unused;
    assert_true(in && out);
    for (int i = 0; i < 2 * N; i++) in[i] = (float)(draw() % 4096) * 0x1p-6f;
    for (unsigned bits = 0; bits < 64; bits++) {
        for (int i = 0; i < N_OUT * (N + 1); i++) out[i] = -1;
        void *const places[N_OUT] = { out, out + N + 1, out + 2 * (N + 1) };
        yokei_fold(&(struct yokei_fold){ .n = N,
                                         .reduction = YOKE_SUM,
                                         .dtype = YOKE_F32,
                                         .n_in = 2,
                                         .n_out = N_OUT,
                                         .size = 2,
                                         .in = (const void *[]){ in, in + N },
                                         .out = places,
                                         .stream = bits % 8,
                                         .published = bits / 8 });
        for (int o = 0; o < N_OUT; o++) {
            for (int i = 0; i < N; i++) assert_true(((float *)places[o])[i] == in[i] + in[N + i]);
            assert_true(((float *)places[o])[N] == -1);
        }
    }
    free(in);
    free(out);
}

/* Whatever NaN comes in, the same one comes out. */
static void fold_makes_one_nan(void **unused)
{
    (void)unused;
    static const uint32_t nans[] = { 0x7fc00000, 0xffc00001, 0x7f800001, 0xff812345 };
    for (int n_in = 1; n_in <= 3; n_in++)
        for (size_t k = 0; k < YOKE_COUNT(nans); k++) {
            uint32_t a[64], b[64], r[64];
            uint16_t ha[64], hb[64], hr[64];
            for (int i = 0; i < 64; i++) {
                a[i] = nans[k], b[i] = i % 2 ? nans[3 - k] : 0x3f800000;
                ha[i] = (uint16_t)(nans[k] >> 16 | 1), hb[i] = 0x3c00;
            }
            yokei_fold(&(struct yokei_fold){ .n = 64,
                                             .dtype = YOKE_F32,
                                             .n_in = n_in,
                                             .n_out = 1,
                                             .size = n_in,
                                             .in = (const void *[]){ a, b, b },
                                             .out = (void *[]){ r } });
            for (int i = 0; i < 64; i++) assert_int_equal(r[i], 0x7fc00000);
            yokei_fold(&(struct yokei_fold){ .n = 64,
                                             .dtype = YOKE_BF16,
                                             .n_in = n_in,
                                             .n_out = 1,
                                             .size = n_in,
                                             .in = (const void *[]){ ha, hb, hb },
                                             .out = (void *[]){ hr } });
            for (int i = 0; i < 64; i++) assert_int_equal(hr[i], 0x7fc0);
            for (int i = 0; i < 64; i++) ha[i] = (uint16_t)(0x7c01 + 0x8000 * (i % 2));
            yokei_fold(&(struct yokei_fold){ .n = 64,
                                             .dtype = YOKE_F16,
                                             .n_in = n_in,
                                             .n_out = 1,
                                             .size = n_in,
                                             .in = (const void *[]){ ha, hb, hb },
                                             .out = (void *[]){ hr } });
            for (int i = 0; i < 64; i++) assert_int_equal(hr[i], 0x7e00);
        }
}

static void all_halves_widen_and_narrow(void **unused)
{
    (void)unused;
    uint16_t *h = malloc(65536 * 2), *back = malloc(65536 * 2);
    float *x = malloc(65536 * 4);
    for (int type = YOKE_F16; type <= YOKE_BF16; type++) {
        const yoke_dtype dtype = (yoke_dtype)type;
        for (uint32_t i = 0; i < 65536; i++) h[i] = (uint16_t)i;
        yokei_combine(&(struct yokei_combine){
            .n = 65536, .a = h, .a_dtype = dtype, .out = { x, back }, .out_dtype = { YOKE_F32, dtype } });
        for (size_t i = 0; i < 65536; i++) {
            const float want = type == YOKE_F16 ? yokei_f16_to_f32((uint16_t)i)
                                                : yokei_bf16_to_f32((uint16_t)i);
            if (!isnan(want))
                assert_int_equal(yokei_f32_bits(x[i]), yokei_f32_bits(want));
            else
                assert_true(isnan(x[i]));
            assert_int_equal(back[i], i); /* moved, not converted */
        }
        for (int turn = 0; turn < 8; turn++) {
            for (size_t i = 0; i < 65536; i++) x[i] = yokei_bits_f32(turn ? draw() : (uint32_t)i << 16);
            yokei_combine(&(struct yokei_combine){
                .n = 65536, .a = x, .a_dtype = YOKE_F32, .out = { h }, .out_dtype = { dtype } });
            for (size_t i = 0; i < 65536; i++)
                assert_int_equal(h[i], type == YOKE_F16 ? yokei_f32_to_f16(x[i]) : yokei_f32_to_bf16(x[i]));
        }
    }
    free(h);
    free(back);
    free(x);
}

static void canonical_nan(void **unused)
{
    (void)unused;
    float a[3] = { yokei_bits_f32(0xffc12345u), 1, yokei_bits_f32(0x7fc00001u) },
          b[3] = { 1, 2, yokei_bits_f32(0xffc00002u) }, out[3];
    yokei_combine(&(struct yokei_combine){ .n = 3,
                                           .reduction = YOKE_SUM,
                                           .a = a,
                                           .b = b,
                                           .a_dtype = YOKE_F32,
                                           .b_dtype = YOKE_F32,
                                           .finish = true,
                                           .canonical = true,
                                           .size = 2,
                                           .out = { out },
                                           .out_dtype = { YOKE_F32 } });
    assert_int_equal(yokei_f32_bits(out[0]), 0x7fc00000u);
    assert_true(out[1] == 3);
    assert_int_equal(yokei_f32_bits(out[2]), 0x7fc00000u);
}

static void wire_types(void **unused)
{
    (void)unused;
    assert_int_equal(yokei_wire_dtype(YOKE_BF16, YOKE_SUM, YOKE_ACCUM_F32), YOKE_F32);
    assert_int_equal(yokei_wire_dtype(YOKE_BF16, YOKE_MAX, YOKE_ACCUM_F32), YOKE_BF16);
    assert_int_equal(yokei_wire_dtype(YOKE_F16, YOKE_AVG, YOKE_ACCUM_NATIVE), YOKE_F16);
    assert_int_equal(yokei_wire_dtype(YOKE_F64, YOKE_SUM, YOKE_ACCUM_F32), YOKE_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reduction),
        cmocka_unit_test(every_fold),
        cmocka_unit_test(fold_publishes_long_results),
        cmocka_unit_test(fold_makes_one_nan),
        cmocka_unit_test(all_halves_widen_and_narrow),
        cmocka_unit_test(canonical_nan),
        cmocka_unit_test(wire_types),
    };
    int n_failed = 0;
    const char *name;
    for (int nth = 0; (name = yokei_sum_use(nth)); nth++) {
        printf("# by %s\n", name);
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return n_failed;
}
