/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The integers behind uneven slices: where slices begin, and the shares that follow from texts and from
 * measured rates.
 */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/choice/shares.h"
#include "collectives/making/measure.h"

static uint64_t state = 88172645463325252ull;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

/*
 * Check slices: they follow each other and begin at multiples of a unit. They are as long as their shares, up
 * to one unit at each end. A share of 0 has no elements.
 */
static void check_slices(const uint32_t *before, int n, size_t length, size_t unit)
{
    assert_int_equal(yokei_slice_begin(before, n, length, unit, 0), 0);
    assert_int_equal(yokei_slice_begin(before, n, length, unit, n), length);
    for (int j = 0; j < n; j++) {
        const size_t from = yokei_slice_begin(before, n, length, unit, j),
                     to = yokei_slice_begin(before, n, length, unit, j + 1);
        assert_true(from <= to && to <= length && (from % unit == 0 || from == length));
        const double share = before ? (double)(before[j + 1] - before[j]) / before[n] : 1.0 / n;
        if (share <= 0) assert_int_equal(from, to);
        assert_true((double)(to - from) <= share * (double)length + 1 + (double)unit);
        if (before) assert_true((double)(to - from) >= share * (double)length - 1 - (double)unit);
    }
}

static void slices(void **unused)
{
    (void)unused;
    static const size_t units[] = { 1, 16, 64 };
    for (int round = 0; round < 20000; round++) {
        uint32_t before[34] = { 0 };
        const int n = 1 + (int)draw(33);
        for (int j = 0; j < n; j++) before[j + 1] = before[j] + (draw(4) ? draw(1001) : 0);
        if (!before[n]) before[n] = 1;
        const size_t length = draw(3) ? draw(200) : draw(2) ? draw(1u << 30) : (size_t)draw(1u << 31) << 20;
        check_slices(draw(8) ? before : NULL, n, length, units[draw(3)]);
    }
}

static void speeds(void **unused)
{
    (void)unused;
    static const struct {
        int n;
        double rates[6];
        int same[6];
        uint32_t want[6];
    } cases[] = {
        { 2, { 10, 10 }, { 0, 1 }, { 16, 16 } },
        { 2, { 10, 8.1 }, { 0, 1 }, { 16, 16 } }, /* less than a fifth */
        { 2, { 7.9, 10 }, { 0, 1 }, { 13, 16 } },
        { 2, { 10, 5 }, { 0, 1 }, { 16, 8 } },
        { 3, { 5, 10, 5.5 }, { 0, 1, 2 }, { 9, 16, 9 } },           /* nor is there between the slow ones */
        { 4, { 10, 2, 8, 4 }, { 0, 0, 2, 2 }, { 16, 16, 16, 16 } }, /* alike: 6 and 6 */
        { 4, { 10, 2, 20, 4 }, { 0, 0, 2, 2 }, { 8, 8, 16, 16 } },
        { 4, { 12, 3, 3, 0.01 }, { 0, 1, 1, 3 }, { 16, 4, 4, 1 } }, /* never nothing */
        { 2, { 0, 0 }, { 0, 1 }, { 1, 1 } },
    };
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        double rates[6];
        uint32_t got[6] = { 0 };
        memcpy(rates, cases[i].rates, sizeof rates);
        yokei_speeds_compare(rates, cases[i].same, cases[i].n, got);
        for (int r = 0; r < cases[i].n; r++) assert_int_equal(got[r], cases[i].want[r]);
    }
}

/* Set up the part of a communicator of n ranks on one host that the code of shares uses. */
static void begin(yoke_comm *comm, int n, const char *text)
{
    memset(comm, 0, sizeof *comm);
    comm->size = comm->room = n;
    comm->peers = calloc((size_t)n, sizeof comm->peers[0]);
    assert_int_equal(yokei_shares_begin(comm), YOKE_OK);
    assert_int_equal(yokei_shares_read(comm, text), YOKE_OK);
    yokei_shares_settle(comm, NULL);
}

static void end(yoke_comm *comm)
{
    yokei_shares_end(comm);
    free(comm->peers);
}

static void texts(void **unused)
{
    (void)unused;
    static const struct {
        int n;
        const char *text, *want;
    } cases[] = {
        { 2, "3,1", "3:1" },
        { 2, "3:1", "3:1" },
        { 4, "3:1*3", "3:1*3" },
        { 4, "3:1:1:1", "3:1*3" },
        { 4, "2:2:2:2", "1*4" },
        { 3, "equal", "1*3" },
        { 2, "measured:16:8", "measured:16:8" },
        { 2, "measured:8:8", "1:1" },
        { 3, "0:1000:7", "0:1000:7" },
        { 5, "1*2:0*3", "1:1:0*3" },
        { 1, "5", "1" },
    };
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        yoke_comm comm;
        char text[256];
        begin(&comm, cases[i].n, cases[i].text);
        yokei_shares_text(&comm, text, sizeof text);
        assert_string_equal(text, cases[i].want);
        end(&comm);
        begin(&comm, cases[i].n, text); /* and back */
        yokei_shares_text(&comm, text, sizeof text);
        assert_string_equal(text, cases[i].want);
        yokei_shares_text(&comm, text, strlen(cases[i].want)); /* too long by the end */
        assert_string_equal(text, "");
        end(&comm);
    }
}

/*
 * Slices by speeds. All ranks that sum must finish at the same time, counted in parts read and written. They
 * must finish before any rank that does not sum has finished its other work.
 */
static void at_one_time(void **unused)
{
    (void)unused;
    for (int round = 0; round < 2000; round++) {
        char text[256] = "measured:";
        const int n = 2 + (int)draw(15);
        uint32_t of[16];
        for (int r = 0; r < n; r++) {
            of[r] = 1 + draw(16);
            sprintf(text + strlen(text), "%s%u", r ? ":" : "", of[r]);
        }
        yoke_comm comm;
        begin(&comm, n, text);
        if (comm.shares.source == YOKEI_SHARES_MEASURED) {
            const uint32_t *before = comm.shares.staged;
            const double fixed = 4.0 * (n - 1), sums = (double)n * (n + 2);
            double least = 1e9, most = 0, idle = 1e9;
            for (int r = 0; r < n; r++) {
                const double share = (double)(before[r + 1] - before[r]) / before[n],
                             time = (fixed + share * sums) / of[r];
                if (share <= 0)
                    idle = YOKE_MIN(idle, time);
                else
                    least = YOKE_MIN(least, time), most = YOKE_MAX(most, time);
            }
            assert_true(most <= least * 1.01 + sums / 200 && idle >= least * 0.99 - sums / 200);
            for (int r = 0; r < n; r++)
                assert_int_equal(comm.shares.plain[r + 1] - comm.shares.plain[r], of[r]);
        }
        end(&comm);
    }
    /* By hand: at half the speed, slices of 16 : 8 finish at the same time as 160 : 32. */
    yoke_comm comm;
    begin(&comm, 2, "measured:16:8");
    assert_int_equal(comm.shares.staged[1], 256);
    assert_int_equal(comm.shares.staged[2], 256 + 51);
    end(&comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices),
        cmocka_unit_test(speeds),
        cmocka_unit_test(texts),
        cmocka_unit_test(at_one_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
