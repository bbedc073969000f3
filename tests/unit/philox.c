/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares Philox4x32-10 with the known answers that its authors publish, and checks the moments of the
 * distributions that are drawn from it.
 */
#include "tests/unit/test.h"

#include "core/base/base.h"
#include <math.h>

static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        struct yokei_philox_key key;
        uint32_t wanted[4];
    } cases[] = {
        { { 0, 0, 0, 0 }, { { 0, 0 } }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { ~0u, ~0u, ~0u, ~0u }, { { ~0u, ~0u } }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { { 0xa4093822, 0x299f31d0 } },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        uint32_t got[4];
        yokei_philox(cases[i].key, cases[i].counter, got);
        assert_memory_equal(got, cases[i].wanted, sizeof got);
    }
}

static void moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    const struct yokei_philox_key key = yokei_philox_named(1234, "transformer.h.0.attn.c_attn.weight");
    double mean = 0, square = 0, cube = 0, fourth = 0, uniform = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double z = yokei_normal(key, i), u = yokei_uniform(key, i);
        assert_true(u > 0 && u < 1);
        mean += z / N, square += z * z / N, cube += z * z * z / N, fourth += z * z * z * z / N,
            uniform += u / N;
    }
    /* Five standard errors of each moment's estimate. */
    assert_true(fabs(mean) < 5 * sqrt(1.0 / N));
    assert_true(fabs(square - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(cube) < 5 * sqrt(15.0 / N));
    assert_true(fabs(fourth - 3) < 5 * sqrt(96.0 / N));
    assert_true(fabs(uniform - 0.5) < 5 * sqrt(1.0 / 12 / N));
}

static void names_and_seeds_separate_streams(void **state)
{
    (void)state;
    const struct yokei_philox_key a = yokei_philox_named(1, "a"), again = yokei_philox_named(1, "a");
    const struct yokei_philox_key b = yokei_philox_named(1, "b"), other_seed = yokei_philox_named(2, "a");
    assert_true(yokei_normal(a, 7) == yokei_normal(again, 7));
    assert_true(yokei_normal(a, 7) != yokei_normal(b, 7));
    assert_true(yokei_normal(a, 7) != yokei_normal(other_seed, 7));
    double correlation = 0;
    for (uint64_t i = 0; i < 100000; i++) correlation += yokei_normal(a, i) * yokei_normal(b, i) / 100000;
    assert_true(fabs(correlation) < 5 / sqrt(100000.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(moments),
        cmocka_unit_test(names_and_seeds_separate_streams),
    };
    return cmocka_run_group_tests_name("philox", tests, NULL, NULL);
}
