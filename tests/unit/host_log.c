/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends/host/log.h of one instruction set (HOST_ISA) must keep its bound for all floats. The default is
 * every 101st float; YOKE_SOAK=1 tests every float.
 */
#include "tests/unit/host_isa.h"
#include "tests/unit/test.h"

#include "backends/host/log.h"

#include <stdlib.h>

/* Bits from the least normal number to infinity. */
static void within_its_bound(void **state)
{
    const uint64_t stride = getenv("YOKE_SOAK") ? 1 : 101;
    double worst = 0;
    (void)state;
    for (uint64_t bits = 0x00800000; bits < 0x7f800000; bits += VL * stride) {
        vf x;
        for (int i = 0; i < VL; i++)
            x[i] = of_bits((uint32_t)YOKE_MIN(bits + (uint64_t)i * stride, 0x7f7fffff));
        const vf y = vlog(x);
        for (int i = 0; i < VL; i++) {
            const double wanted = log((double)x[i]), e = fabs((double)y[i] - wanted);
            if (!(e <= 2 * 0x1p-24 * fabs(wanted)))
                fail_msg("vlog of %a is %a, not %a", (double)x[i], (double)y[i], wanted);
            if (wanted != 0) worst = fmax(worst, e / fabs(wanted) * 0x1p24);
        }
    }
    printf("# off by at most %.2f u32\n", worst);
    assert_true(worst > 0.5);
}

static void special_values(void **state)
{
    (void)state;
    assert_true(vlog(vset(1))[0] == 0);
    assert_true(vlog(vset(0))[0] == -INFINITY);
    assert_true(vlog(vset(INFINITY))[0] == INFINITY);
    assert_true(isnan(vlog(vset(NAN))[0]));
    assert_true(fabsf(vlog(vset(0x1.000002p0f))[0] / 0x1p-23f - 1) < 0x1p-22f); /* near 1 nothing cancels */
    assert_true(fabsf(vlog(vset(0x1.fffffep-1f))[0] / -0x1p-24f - 1) < 0x1p-22f);
}

int main(void)
{
    if (!runs_here()) {
        printf("ok 1 - " HOST_TEXT(HOST_ISA) " # SKIP this CPU does not have it\n1..1\n");
        return 0;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(within_its_bound),
                                        cmocka_unit_test(special_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
