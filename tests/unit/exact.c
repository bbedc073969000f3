/* SPDX-License-Identifier: Apache-2.0 */
/* Sums without rounding. In any order and any grouping they must give the same bits, and the right ones. */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "core/base/exact.h"

enum { SEED = 9, N = 4000 };

static double value_of(const float *x, int n)
{
    struct yokei_exact s = { { 0 }, false };
    for (int i = 0; i < n; i++) yokei_exact_add(&s, x[i]);
    return yokei_exact_value(&s);
}

static void small_sums(void **state)
{
    (void)state;
    assert_true(value_of((const float[]){ 0 }, 1) == 0);
    assert_true(value_of((const float[]){ 0x1p-149f }, 1) == 0x1p-149);
    assert_true(value_of((const float[]){ 0x1.fffffep+127f }, 1) == 0x1.fffffep+127);
    assert_true(value_of((const float[]){ 0x1p-126f, 0x1.fffffcp-127f }, 2) == 0x1p-126 + 0x1.fffffcp-127);
    /*
     * The numbers differ so much that a sum in f64 would lose each small number, although the small numbers
     * together are large enough to count.
     */
    assert_true(value_of((const float[]){ 0x1p-6f, 0x1p44f, 0x1p-7f, 0x1p-7f }, 4) == 0x1p44 + 0x1p-5);
    struct yokei_exact s = { { 0 }, false };
    yokei_exact_add(&s, 1.0 / 3);
    assert_true(yokei_exact_value(&s) == 1.0 / 3);
    yokei_exact_add(&s, INFINITY);
    assert_true(isinf(yokei_exact_value(&s)));
    s = (struct yokei_exact){ { 0 }, false };
    yokei_exact_add(&s, 1e300);
    assert_true(isinf(yokei_exact_value(&s)));
    s = (struct yokei_exact){ { 0 }, false };
    yokei_exact_add(&s, NAN);
    assert_true(isinf(yokei_exact_value(&s)) || isnan(yokei_exact_value(&s)));
}

static void any_order(void **state)
{
    (void)state;
    const struct yokei_philox_key key = yokei_philox_named(SEED, "exact");
    static float x[N];
    long double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        x[i] = (float)(yokei_uniform(key, 2 * i) * exp2(floor(yokei_uniform(key, 2 * i + 1) * 60) - 30));
        sum += (long double)x[i];
    }
    const double whole = value_of(x, N);
    assert_true(fabs(whole - (double)sum) <= 0x1p-50 * whole);
    /* shuffled, and added up by seven ranks who tell each other their limbs */
    for (uint64_t i = N - 1; i > 0; i--) {
        const uint64_t j = (uint64_t)(yokei_uniform(key, 3 * N + i) * 0.999999 * (double)(i + 1));
        const float keep = x[i];
        x[i] = x[j], x[j] = keep;
    }
    struct yokei_exact all = { { 0 }, false };
    for (int rank = 0; rank < 7; rank++) {
        struct yokei_exact own = { { 0 }, false };
        double limbs[YOKEI_EXACT_LIMBS];
        for (int i = rank * rank * N / 49; i < (rank + 1) * (rank + 1) * N / 49; i++)
            yokei_exact_add(&own, x[i]);
        yokei_exact_carry(&own);
        for (int i = 0; i < YOKEI_EXACT_LIMBS; i++) limbs[i] = (double)own.limb[i];
        yokei_exact_join(&all, limbs);
    }
    assert_true(yokei_exact_value(&all) == whole);
    assert_true(value_of(x, N) == whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(small_sums), cmocka_unit_test(any_order) };
    printf("# seed %d\n", SEED);
    return cmocka_run_group_tests_name("exact sums", tests, NULL, NULL);
}
