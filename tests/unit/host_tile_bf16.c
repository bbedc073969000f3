/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The register tile of bf16 and the code that packs for it. They are compared with integers that every order
 * of summation gives exactly, at all edges. The test also checks how they treat subnormals, NaN and rounding,
 * as documented. It is compiled for AVX512-BF16, and skipped if the CPU lacks it.
 */
#include "tests/unit/test.h"

#include "backends/host/tile_bf16.h"

#include <stdlib.h>

enum { MOST = 70, LD = 83, ROOM = MOST * 96, MARK = 0x5a5a };

static uint16_t a[ROOM], b[ROOM], packed_a[ROOM];
static uint32_t pairs_a[ROOM], pairs_b[ROOM];
static float wide[ROOM], c[ROOM];

static int number(int i, int j, int salt) { return (i * 7 + j * 3 + salt) % 11 - 5; }
static uint16_t bf16(float x)
{
    uint16_t h;
    yoke_convert(YOKE_F32, &x, YOKE_BF16, &h, 1);
    return h;
}

static void fill(uint16_t *x, int rows, int columns, int salt, bool transposed)
{
    for (int i = 0; i < ROOM; i++) x[i] = 0x7fc0; /* NaN: nothing beyond the edges may be read into a sum */
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            x[i * LD + j] = bf16((float)(transposed ? number(j, i, salt) : number(i, j, salt)));
}

static void check(int m, int n, int k, const char *what)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = (float)(i + j);
            for (int p = 0; p < k; p++) sum += (float)(number(i, p, 1) * number(p, j, 2));
            if (c[i * 96 + j] != sum)
                fail_msg("%s: m %d n %d k %d: c[%d, %d] = %g, not %g", what, m, n, k, i, j,
                         (double)c[i * 96 + j], (double)sum);
        }
}

static void multiply(int m, int n, int k, const uint16_t *first, int64_t ra, int64_t ca)
{
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < 96; j++) c[i * 96 + j] = (float)(i + j);
    product_bf16(TILE_ADD, host_round_up(m, TILE_M), host_ceil_div(n, VL), (k + 1) / 2, first, ra, ca,
                 pairs_b, 96, c, 96, NULL);
}

static void try_shape(int m, int n, int k)
{
    const void *const as_pairs = pairs_a;
    /* A as columns of pairs, B as rows */
    fill(a, k, m, 1, true);
    fill(b, k, n, 2, false);
    memset(pairs_a, 0, sizeof pairs_a);
    pair_rows(a, LD, k, m, pairs_a, 96, host_round_up(m, VL));
    pair_rows(b, LD, k, n, pairs_b, 96, host_round_up(n, VL));
    multiply(m, n, k, as_pairs, 2, 2 * 96);
    check(m, n, k, "columns of pairs");
    /* the same from f32 */
    for (int i = 0; i < ROOM; i++) wide[i] = NAN;
    for (int p = 0; p < k; p++)
        for (int i = 0; i < m; i++) wide[p * LD + i] = (float)number(i, p, 1);
    round_to_pairs(wide, LD, k, m, pairs_a, 96);
    multiply(m, n, k, as_pairs, 2, 2 * 96);
    check(m, n, k, "rounded columns of pairs");
    /* A as rows from f32, B transposed */
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++) wide[i * LD + p] = (float)number(i, p, 1);
    memset(packed_a, 0, sizeof packed_a);
    round_rows(wide, LD, m, k, packed_a, 96);
    fill(b, n, k, 2, true);
    pair_transposed(b, LD, n, k, pairs_b, 96);
    multiply(m, n, k, packed_a, 96, 2);
    check(m, n, k, "rows, B transposed");
}

static void all_edges(void **state)
{
    (void)state;
    for (int n = 1; n <= 65; n++)
        for (int k = 1; k <= 9; k++) try_shape(1 + (n * 5 + k) % 24, n, k);
    for (int m = 1; m <= 24; m++)
        for (int k = 30; k <= 67; k++) try_shape(m, 1 + (m * 7 + k) % 65, k);
}

static void nothing_beyond_is_written(void **state)
{
    (void)state;
    memset(pairs_b, MARK & 0xff, sizeof pairs_b);
    fill(b, 5, 19, 2, false);
    pair_rows(b, LD, 5, 19, pairs_b, 96, 32);
    for (int p = 0; p < 4; p++)
        for (int j = 0; j < 96; j++)
            if (p == 3 || j >= 32)
                assert_int_equal(pairs_b[p * 96 + j], 0x5a5a5a5a);
            else if (j >= 19)
                assert_int_equal(pairs_b[p * 96 + j], 0);
    memset(pairs_b, MARK & 0xff, sizeof pairs_b);
    pair_transposed(b, LD, 5, 19, pairs_b, 96);
    for (int p = 0; p < 12; p++)
        for (int j = 0; j < 96; j++)
            if (p >= 10 || j >= 16) assert_int_equal(pairs_b[p * 96 + j], 0x5a5a5a5a);
}

static float one_product(uint16_t x, uint16_t y, float start)
{
    const uint32_t px = x, py = y; /* the upper halves are 0 */
    return vdot(vset(start), (vu){ 0 } + px, (vu){ 0 } + py)[0];
}

static void numbers(void **state)
{
    (void)state;
    assert_true(one_product(bf16(3), bf16(5), 7) == 22);
    assert_true(one_product(0x0001, bf16(0x1p100f), 0) == 0);         /* a subnormal is taken for 0 */
    assert_true(one_product(bf16(0x1p-70f), bf16(0x1p-60f), 0) == 0); /* a subnormal result is flushed */
    assert_true(one_product(bf16(0x1p-63f), bf16(0x1p-63f), 0) == 0x1p-126f);
    assert_true(one_product(bf16(0x1p-12f), bf16(0x1p-12f), 1) == 1); /* a tie goes to even */
    assert_true(one_product(bf16(0x1.8p-12f), bf16(0x1p-12f), 1) == 1 + 0x1p-23f);
    assert_true(isnan(one_product(0x7f81, bf16(1), 0)));
    assert_true(isnan(one_product(bf16(INFINITY), 0, 0)));
    assert_true(one_product(bf16(INFINITY), bf16(2), -5) == INFINITY);
    for (uint32_t u = 0x3f800000; u < 0x3f840000; u += 7) { /* rounding is the contract's */
        float x, lanes[VL];
        memcpy(&x, &u, 4);
        vu both = round_both(vset(x), vset(-x));
        memcpy(lanes, &both, sizeof lanes);
        uint16_t got[32];
        memcpy(got, &both, sizeof got);
        assert_int_equal(got[0], bf16(x));
        assert_int_equal(got[16], bf16(-x));
    }
}

int main(void)
{
    if (!__builtin_cpu_supports("avx512bf16")) {
        printf("ok 1 - no AVX512-BF16 # SKIP this CPU has none\n1..1\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_edges),
        cmocka_unit_test(nothing_beyond_is_written),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
