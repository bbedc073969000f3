/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays of all_reduce on modelled clusters. With data, the steps of the hierarchy must sum right for
 * numbers of hosts that no test can start. Without data, the formulas must agree with the replayed times.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/replay/replay.h"

enum { MOST_RANKS = 64, MOST_ISLANDS = 16 };

static const double even_rates[MOST_ISLANDS] = { 400, 400, 400, 400, 400, 400, 400, 400,
                                                 400, 400, 400, 400, 400, 400, 400, 400 };

static struct yokei_links links_of(int islands, int ranks)
{
    return (struct yokei_links){ islands, ranks, even_rates, 2, 4, 50, 5 };
}

/* Ranks' data, whose sums are exact in any order. */
static float value(int rank, size_t i) { return (float)((i * 7 + (size_t)rank * 5) % 101); }

static void sum_with_data(int hosts, int per_host, size_t n, bool in_place)
{
    const struct yokei_links links = { hosts, per_host, even_rates, 2, 4, 50, 5 };
    const int size = hosts * per_host;
    float *in = malloc((size_t)size * n * sizeof *in), *out = calloc((size_t)size * n, sizeof *out);
    const void *send[MOST_RANKS];
    void *recv[MOST_RANKS];
    assert_true(in && out && size <= MOST_RANKS);
    for (int r = 0; r < size; r++) {
        float *own = in + (size_t)r * n;
        send[r] = own;
        recv[r] = in_place ? own : out + (size_t)r * n;
        for (size_t i = 0; i < n; i++) own[i] = value(r, i);
    }
    const struct yokei_replay_data data = { YOKE_F32, YOKE_SUM, send, recv };
    struct yokei_replayed replayed;
    if (yokei_replay(&links, per_host, n, &data, &replayed)) fail_msg("%s", yoke_last_error());
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int r = 0; r < size; r++) sum += value(r, i);
        for (int r = 0; r < size; r++)
            if (((const float *)recv[r])[i] != sum)
                fail_msg("%d hosts of %d ranks, %zu elements: element %zu of rank %d is %g, not %g", hosts,
                         per_host, n, i, r, (double)((const float *)recv[r])[i], (double)sum);
    }
    free(in);
    free(out);
}

/*
 * Each number of hosts has its own tree of exchanges. The counts are for leaders, for one round, and for
 * several.
 */
static void sums_of_many_hosts_are_right(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= MOST_ISLANDS; hosts++) {
        sum_with_data(hosts, 2, 37, false);
        sum_with_data(hosts, 2, 5003, true);
        if (hosts % 4 == 0 || hosts == 7 || hosts == 11) sum_with_data(hosts, 3, 70001, false);
    }
}

/* Sums that depend on the order: all ranks have the same bits, and each element is near the exact sum. */
static void all_ranks_get_the_same_bits(void **state)
{
    (void)state;
    enum { HOSTS = 11, EACH = 2, N = 20011 };
    const struct yokei_links links = links_of(HOSTS, EACH);
    float *in[HOSTS * EACH], *out[HOSTS * EACH];
    for (int r = 0; r < HOSTS * EACH; r++) {
        in[r] = malloc(N * sizeof *in[r]);
        out[r] = malloc(N * sizeof *out[r]);
        assert_true(in[r] && out[r]);
        for (size_t i = 0; i < N; i++) in[r][i] = sinf((float)(i + 1) * (float)(r + 3)) * 1e3f;
    }
    const struct yokei_replay_data data = { YOKE_F32, YOKE_AVG, (const void *const *)in, (void *const *)out };
    struct yokei_replayed replayed;
    if (yokei_replay(&links, EACH, N, &data, &replayed)) fail_msg("%s", yoke_last_error());
    for (size_t i = 0; i < N; i++) {
        double sum = 0, size = 0;
        for (int r = 0; r < HOSTS * EACH; r++) sum += (double)in[r][i], size += fabs((double)in[r][i]);
        assert_true(fabs(sum / (HOSTS * EACH) - (double)out[0][i]) <= 24 * 6e-8 * size / (HOSTS * EACH));
    }
    for (int r = 1; r < HOSTS * EACH; r++) assert_memory_equal(out[r], out[0], N * sizeof *out[0]);
    for (int r = 0; r < HOSTS * EACH; r++) free(in[r]), free(out[r]);
}

/*
 * Two islands: each byte crosses once in each direction. More islands: as few bytes as in a ring of
 * islands.
 */
static void the_least_bytes_cross(void **state)
{
    (void)state;
    const size_t n = (size_t)4 << 20;
    for (int islands = 2; islands <= 8; islands *= 2) {
        const struct yokei_links links = links_of(islands, 8);
        struct yokei_replayed by_islands, flat;
        assert_int_equal(yokei_replay(&links, 8, n, NULL, &by_islands), YOKE_OK);
        assert_int_equal(yokei_replay(&links, 1, n, NULL, &flat), YOKE_OK);
        const double least = (double)n * sizeof(float) * (islands == 2 ? 1 : 2. * (islands - 1) / islands);
        assert_true((double)by_islands.bridge_bytes >= least
                    && (double)by_islands.bridge_bytes < 1.02 * least);
        assert_true(by_islands.seconds < flat.seconds / 2);
    }
}

static void formulas_agree_with_replays(void **state)
{
    (void)state;
    static const int shapes[][2] = { { 2, 8 }, { 4, 4 }, { 8, 8 }, { 4, 16 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t bytes = 4 << 10; bytes <= 16 << 20; bytes *= 16)
            for (int flat = 0; flat < 2; flat++) {
                const struct yokei_links links = links_of(shapes[s][0], shapes[s][1]);
                const int group = flat ? 1 : shapes[s][1];
                struct yokei_replayed replayed;
                double seconds;
                assert_int_equal(yokei_replay(&links, group, bytes / 4, NULL, &replayed), YOKE_OK);
                assert_int_equal(yokei_modelled_time(&links, group, bytes / 4, &seconds), YOKE_OK);
                if (fabs(seconds / replayed.seconds - 1) > 0.1)
                    fail_msg("%d islands of %d, groups of %d, %zu bytes: formula %g us, replay %g us",
                             shapes[s][0], shapes[s][1], group, bytes, seconds * 1e6, replayed.seconds * 1e6);
            }
}

static void links_without_sense_are_refused(void **state)
{
    (void)state;
    struct yokei_replayed replayed;
    double seconds;
    struct yokei_links links = links_of(2, 8);
    assert_int_equal(yokei_replay(&links, 3, 100, NULL, &replayed), YOKE_EINVAL);
    assert_int_equal(yokei_replay(&links, 8, 0, NULL, &replayed), YOKE_EINVAL);
    links.bridge_gbps = 0;
    assert_int_equal(yokei_modelled_time(&links, 8, 100, &seconds), YOKE_EINVAL);
    assert_non_null(strstr(yoke_last_error(), "rates over 0"));
    const struct yokei_links one = links_of(1, 8);
    assert_int_equal(yokei_replay(&one, 8, 100, NULL, &replayed), YOKE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_many_hosts_are_right),    cmocka_unit_test(all_ranks_get_the_same_bits),
        cmocka_unit_test(the_least_bytes_cross),           cmocka_unit_test(formulas_agree_with_replays),
        cmocka_unit_test(links_without_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
