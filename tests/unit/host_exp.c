/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends/host/exp.h and normal.h of one instruction set (HOST_ISA) must keep their bounds for all floats.
 * The default is every 251st float; the argument `all` tests every float (minutes). The pairs of vec.h must
 * load, round and store as single vectors do.
 */
#include "tests/unit/host_isa.h"
#include "tests/unit/test.h"

#include "backends/host/normal.h"

static uint32_t stride = 251;
static const double u32 = 0x1p-24, eta32 = 0x1p-149;

/* Every `stride`th of the floats whose bits are in [from, to], in vectors; the last one repeats. */
#define EACH_FLOAT(from, to, x, ...)                                                            \
    for (uint64_t bits_ = (from); bits_ <= (to); bits_ += (uint64_t)VL * stride) {              \
        vf x;                                                                                   \
        for (int i_ = 0; i_ < VL; i_++)                                                         \
            x[i_] = of_bits((uint32_t)YOKE_MIN(bits_ + (uint64_t)i_ * stride, (uint64_t)(to))); \
        __VA_ARGS__                                                                             \
    }
static const uint32_t NEGATIVE = 0x80000000u, INFINITE = 0x7f800000u;

/* A value of wanted * (1 +- bound u32) +- eta; infinite where `wanted` is beyond f32. */
static void assert_near(const char *what, float x, double got, double wanted, double bound)
{
    if (wanted >= 0x1.ffffffp127 && got > 0x1.fffffdp127) return;
    if (!(fabs(got - wanted) <= bound * u32 * wanted + eta32))
        fail_msg("%s of %a is %a, wanted %a: off by %.3g u32, allowed %.3g", what, (double)x, got, wanted,
                 fabs(got - wanted) / wanted / u32, bound);
}

static void exponentials(void **state)
{
    (void)state;
    for (int sign = 0; sign < 2; sign++) {
        const uint64_t first = sign ? NEGATIVE : 0, last = first + INFINITE;
        EACH_FLOAT(first, last, x, {
            const vf e = vexp(x);
            for (int i = 0; i < VL; i++) assert_near("vexp", x[i], (double)e[i], exp((double)x[i]), 3);
            const vf p = vexp2(x);
            for (int i = 0; i < VL; i++) assert_near("vexp2", x[i], (double)p[i], exp2((double)x[i]), 2.5);
        });
        EACH_FLOAT(first, first + 0x437a0000u, x, { /* to 250 */
                                                    const vf e = vexp2_product(x, vset(1.0f));
                                                    for (int i = 0; i < VL; i++)
                                                        assert_near("vexp2_product", x[i], (double)e[i],
                                                                    exp2((double)x[i]), 3);
        });
    }
    const vf a = vset(1.2345678f), b = vset(-7.6543211f),
             p = vexp2_product(a, b); /* the product of two is exact, or rounded */
    assert_near("vexp2_product", b[0], (double)p[0], exp2((double)a[0] * (double)b[0]), 13);
}

static void rows(void **state)
{
    (void)state;
    static const float references[] = { 0, 0.3f, -11.7f, 300.25f, -4000.4f, 65535.0f };
    for (size_t k = 0; k < YOKE_COUNT(references); k++) {
        const float c = row_shift(references[k]);
        const double r = row_reference(c);
        assert_true(fabs(r - (double)references[k]) <= 0.36 + 1e-6 * fabs(r));
        for (int sign = 0; sign < 2; sign++) {
            EACH_FLOAT(sign ? NEGATIVE : 0, (sign ? NEGATIVE : 0) + INFINITE, x, {
                const vf term = row_term(x, c);
                for (int i = 0; i < VL; i++) {
                    const double d = fmin(fmax((double)x[i] - r, -200), 200);
#ifdef HOST_POWERS
                    assert_near("row_term", x[i], (double)term[i], exp(d), 3 + 0.23 * fabs(d));
#else
                    assert_near("row_term", x[i], (double)term[i], exp(d), 3 + fabs(d));
#endif
                }
                const vf summand = row_summand(vatmost(x, vset((float)(r + 80))), c);
                for (int i = 0; i < VL; i++)
                    if (summand[i] > 0x1p-123f)
                        assert_near("row_summand", x[i], (double)summand[i],
                                    (double)row_term(vset(YOKE_MIN(x[i], (float)(r + 80))), c)[0], 1);
                    else
                        assert_true(summand[i] >= 0 && (double)x[i] - r < -84);
            });
        }
    }
}

static void reciprocals_and_tails(void **state)
{
    (void)state;
    EACH_FLOAT(0x3f800000u, 0x40000000u, x, { /* 1 to 2 */
                                              const vf q = vreciprocal(x);
                                              for (int i = 0; i < VL; i++)
                                                  assert_near("vreciprocal", x[i], (double)q[i],
                                                              1 / (double)x[i], 1.1);
    });
    EACH_FLOAT(0, 0x41680000u, x, { /* 0 to 14.5 */
                                    const struct normal n = normal_of(x);
                                    for (int i = 0; i < VL; i++) {
                                        const double square = (double)x[i] * (double)x[i];
                                        assert_near("tail", x[i], (double)n.tail[i],
                                                    0.5 * erfc((double)x[i] * 0.70710678118654752),
                                                    square > 165 ? 1e7 : 10 + 1.3 * square);
                                    }
    });
}

static void special_values(void **state)
{
    (void)state;
    const float c = row_shift(5);
    assert_true(vexp(vset(-INFINITY))[0] == 0 && vexp(vset(INFINITY))[0] == INFINITY
                && vexp(vset(0))[0] == 1);
    assert_true(vexp2(vset(-INFINITY))[0] == 0 && vexp2(vset(INFINITY))[0] == INFINITY
                && vexp2(vset(-3))[0] == 0.125f);
    assert_true(row_term(vset(-INFINITY), c)[0] == 0 && row_term(vset(INFINITY), c)[0] == INFINITY);
    assert_true(row_summand(vset(-INFINITY), c)[0] <= 0x1p-124f);
    for (uint32_t payload = 1; payload < 1u << 23; payload = payload * 2 + 1)
        for (uint32_t sign = 0; sign < 2; sign++) {
            const vf nan = vset(of_bits(sign << 31 | INFINITE | payload));
            assert_true(isnan(vexp(nan)[0]) && isnan(vexp2(nan)[0]) && isnan(vexp2_product(nan, vset(1))[0])
                        && isnan(vexp2_product(vset(2), nan)[0]));
            assert_true(isnan(row_term(nan, c)[0]) && isnan(row_summand(nan, c)[0])
                        && isnan(vreciprocal(nan)[0]));
            assert_true(isnan(normal_of(nan).tail[0]));
        }
}

/*
 * A pair may keep its two vectors in any order. If it is loaded and stored again, each element is at its old
 * place, rounded like elements of single vectors.
 */
static void pairs(void **state)
{
    (void)state;
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_F16, YOKE_BF16 };
    for (size_t k = 0; k < YOKE_COUNT(dtypes); k++) {
        const yoke_dtype t = dtypes[k];
        const int64_t words = t == YOKE_F32 ? 1 << 20 : 1 << 16; /* all of a 16-bit type */
        for (int64_t w = 0; w < words; w += 2 * VL) {
            char in[8 * VL], out[8 * VL], single[8 * VL], factor[8 * VL];
            for (int i = 0; i < 2 * VL; i++) {
                const uint32_t bits = t == YOKE_F32 ? (uint32_t)(w + i) * 4093u : (uint32_t)(w + i);
                memcpy((char *)in + i * (int)type_bytes(t), &bits, type_bytes(t));
                store_one(t, factor, i, 1.0f + 0.37f * (float)i);
            }
            const struct pair p = vload_pair(t, in, 0), f = vload_pair(t, factor, 0);
            vstore_pair(t, out, 0, p.a * f.a * 1.0123f, p.b * f.b * 1.0123f);
            for (int h = 0; h < 2; h++)
                vstore(t, single, h * VL, vload(t, in, h * VL) * vload(t, factor, h * VL) * 1.0123f);
            if (memcmp(out, single, 2 * VL * type_bytes(t)))
                fail_msg("%s: words from %d on are stored otherwise", yoke_dtype_name(t), (int)w);
        }
    }
    assert_true(isnan(plain_nan(of_bits(0xffffffffu))) && plain_nan(-2) == -2);
    uint16_t stored[2 * VL];
    vstore_pair(YOKE_BF16, stored, 0, vset(plain_nan(of_bits(0xffffffffu))) * 2.0f, vset(0));
    assert_true((stored[0] & 0x7fff) > 0x7f80);
}

int main(int argc, char **argv)
{
    if (!runs_here()) {
        printf("ok 1 - " HOST_TEXT(HOST_ISA) " # SKIP this CPU does not have it\n1..1\n");
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "all")) stride = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponentials),   cmocka_unit_test(rows),  cmocka_unit_test(reciprocals_and_tails),
        cmocka_unit_test(special_values), cmocka_unit_test(pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
