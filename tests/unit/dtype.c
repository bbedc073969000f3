/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares conversions between element types with a second method, which searches the nearest representable
 * value.
 */
#include "tests/unit/test.h"

#include "core/base/base.h"
#include <math.h>

static double value_of(yoke_dtype dtype, uint16_t h) { return yokei_load(dtype, &h, 0); }

/* Every half and bfloat16 survives the way through f32 and f64. */
static void round_trips(void **state)
{
    (void)state;
    const yoke_dtype types[] = { YOKE_F16, YOKE_BF16 };
    for (int t = 0; t < 2; t++)
        for (uint32_t h = 0; h < 65536; h++) {
            uint16_t in = (uint16_t)h, back, back64;
            float f;
            double d;
            yoke_convert(types[t], &in, YOKE_F32, &f, 1);
            yoke_convert(types[t], &in, YOKE_F64, &d, 1);
            yoke_convert(YOKE_F32, &f, types[t], &back, 1);
            yoke_convert(YOKE_F64, &d, types[t], &back64, 1);
            if (isnan(f)) {
                assert_true(isnan(d) && isnan(value_of(types[t], back)) && isnan(value_of(types[t], back64)));
                assert_int_equal(back & 0x8000, in & 0x8000);
            } else {
                assert_int_equal(back, in);
                assert_int_equal(back64, in);
            }
        }
}

/*
 * Between neighbours: below, at and above the midpoint, from f32 and from f64 (where f32 would round twice).
 */
static void rounds_to_nearest_even(void **state)
{
    (void)state;
    const yoke_dtype types[] = { YOKE_F16, YOKE_BF16 };
    const uint16_t greatest[] = { 0x7bff, 0x7f7f };
    for (int t = 0; t < 2; t++)
        for (uint32_t h = 0; h < greatest[t]; h++) {
            const double low = value_of(types[t], (uint16_t)h), high = value_of(types[t], (uint16_t)(h + 1)),
                         middle = low + (high - low) / 2;
            const uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
            const double cases[] = { middle, nextafter(middle, -INFINITY), nextafter(middle, INFINITY) };
            const uint16_t wanted[] = { even, (uint16_t)h, (uint16_t)(h + 1) };
            for (int c = 0; c < 3; c++) {
                uint16_t got, negative;
                const double minus = -cases[c];
                yoke_convert(YOKE_F64, &cases[c], types[t], &got, 1);
                yoke_convert(YOKE_F64, &minus, types[t], &negative, 1);
                assert_int_equal(got, wanted[c]);
                assert_int_equal(negative, wanted[c] | 0x8000);
                const float f = (float)cases[c];
                if ((double)f != cases[c]) continue;
                yoke_convert(YOKE_F32, &f, types[t], &got, 1);
                assert_int_equal(got, wanted[c]);
            }
        }
}

static void special_values(void **state)
{
    (void)state;
    assert_int_equal(yokei_f32_to_f16(65519.996f), 0x7bff); /* just below the midpoint to overflow */
    assert_int_equal(yokei_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(yokei_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(yokei_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(yokei_f32_to_f16(0x1p-25f), 0); /* tie to even: zero */
    assert_int_equal(yokei_f32_to_f16(0x1.8p-25f), 1);
    assert_int_equal(yokei_f32_to_bf16(yokei_bits_f32(0x7f7fffff)), 0x7f80); /* FLT_MAX overflows */
    assert_int_equal(yokei_f32_to_bf16(yokei_bits_f32(0x00000001)), 0);
    assert_int_equal(yokei_f32_to_bf16(yokei_bits_f32(0x00018000)), 2); /* a subnormal tie */
    /* A NaN whose payload lies in the lower bits only must not become an infinity. */
    assert_true(isnan(yokei_bf16_to_f32(yokei_f32_to_bf16(yokei_bits_f32(0x7f800001)))));
    assert_true(isnan(yokei_bf16_to_f32(yokei_f32_to_bf16(yokei_bits_f32(0x7fffffff)))));
    assert_true(isnan(yokei_f16_to_f32(yokei_f32_to_f16(yokei_bits_f32(0xff800001)))));
}

static void names(void **state)
{
    (void)state;
    for (int d = 0; d < YOKE_N_DTYPES; d++) {
        yoke_dtype back;
        assert_ok(yoke_dtype_parse(yoke_dtype_name((yoke_dtype)d), &back));
        assert_int_equal(back, d);
        assert_true(yoke_dtype_bytes((yoke_dtype)d) > 0);
    }
    yoke_dtype d = YOKE_I8;
    assert_ok(yoke_dtype_parse("fp16", &d));
    assert_int_equal(d, YOKE_F16);
    assert_fails(YOKE_EINVAL, "'f12'", yoke_dtype_parse("f12", &d));
    assert_int_equal(d, YOKE_F16); /* unchanged on failure */
    assert_int_equal(yoke_dtype_bytes((yoke_dtype)99), 0);
    assert_string_equal(yoke_dtype_name((yoke_dtype)-1), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(special_values),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
