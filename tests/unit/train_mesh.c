/* SPDX-License-Identifier: Apache-2.0 */
/* The places of ranks on a mesh, with stages of equal and of different widths. */
#include "tests/unit/test.h"

#include <string.h>
#include "core/base/base.h"
#include "parallel/mesh.h"

enum { SEED = 5, MOST_STAGES = 6 };

/*
 * Every rank must have one place, and every place one rank. The ranks of a stage must have adjacent numbers,
 * and within a stage so must the ranks of a replica.
 */
static void check_numbers(const struct yokei_mesh *m, int n)
{
    int next = 0;
    assert_int_equal(yokei_mesh_size(m), n);
    for (int s = 0; s < m->pipeline; s++)
        for (int d = 0; d < m->data; d++)
            for (int t = 0; t < yokei_mesh_width(m, s); t++, next++) {
                assert_int_equal(yokei_mesh_rank(m, d, s, t), next);
                const struct yokei_mesh at = yokei_mesh_at(m, next);
                assert_int_equal(at.d, d);
                assert_int_equal(at.s, s);
                assert_int_equal(at.t, t);
                assert_int_equal(at.tensor, yokei_mesh_width(m, s));
            }
    assert_int_equal(next, n);
}

static void numbers(void **state)
{
    (void)state;
    const struct yokei_philox_key key = yokei_philox_named(SEED, "mesh");
    for (uint64_t i = 0; i < 200; i++) {
        int widths[MOST_STAGES], replica = 0;
        const int p = 1 + (int)(yokei_uniform(key, 10 * i) * 5.999),
                  data = 1 + (int)(yokei_uniform(key, 10 * i + 1) * 3.999);
        for (int s = 0; s < p; s++)
            replica += widths[s] = 1 + (int)(yokei_uniform(key, 10 * i + 2 + (uint64_t)s) * 3.999);
        struct yokei_mesh m;
        const int n = replica * data, rank = (int)(yokei_uniform(key, 10 * i + 9) * 0.999 * n);
        assert_ok(yokei_mesh_create(n, rank, i % 2 ? data : 0, p, 0, widths, 1, &m));
        assert_int_equal(m.data, data);
        check_numbers(&m, n);
        const int alike = widths[0];
        assert_ok(yokei_mesh_create(p * alike * data, 0, data, p, alike, NULL, 1, &m));
        check_numbers(&m, p * alike * data);
    }
}

static void refused(void **state)
{
    (void)state;
    struct yokei_mesh m;
    assert_fails(YOKE_ECONFIG, "tp 2,2", yokei_mesh_create(5, 0, 0, 2, 0, (const int[]){ 2, 2 }, 1, &m));
    assert_fails(YOKE_ECONFIG, "stage 1", yokei_mesh_create(3, 0, 0, 2, 0, (const int[]){ 3, 0 }, 1, &m));
    assert_fails(YOKE_ECONFIG, "does not fit",
                 yokei_mesh_create(6, 0, 3, 2, 0, (const int[]){ 2, 1 }, 1, &m));
    assert_fails(YOKE_ECONFIG, "does not fit", yokei_mesh_create(6, 0, 0, 4, 1, NULL, 1, &m));
    assert_fails(YOKE_ECONFIG, "negative", yokei_mesh_create(2, 0, 0, -1, 1, NULL, 1, &m));
    assert_fails(YOKE_ECONFIG, "--pp 2", yokei_mesh_create(2, 0, 0, 1, 1, NULL, 2, &m));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers), cmocka_unit_test(refused) };
    printf("# seed %d\n", SEED);
    return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}
