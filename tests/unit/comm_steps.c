/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of collectives by islands, replayed for all ranks in one process, up to 1024 ranks in 64 islands.
 * Each message is taken by a rank that expects it, the calls end, and each byte crosses once in each
 * direction. A message that is lost, doubled or sent to another column must be noticed.
 */
#include "tests/unit/comm_steps.h"
#include "tests/unit/test.h"

#include "collectives/algorithms/hierarchy.h"

enum { MOST = 1024 };

/* Ranks in islands of one host each, or all on one host. */
static const struct layout {
    const char *islands; /* a letter for each rank */
    bool one_host;
} layouts[] = {
    { "aabb", false },
    { "aabb", true },
    { "aaab", true },
    { "abab", true },
    { "abbb", false },
    { "aab", true },
    { "aaaaaaaabb", true },
    { "aabbcc", false },
    { "abcabcaa", true },
    { "aaabcc", true },
    { "aaaab", false },
    { "aabbccddee", false },
    { "aaaabbbbccccdddd", false },
    { "aabbccddeeffgg", false },
    { "aabbccddeeffgghhh", true },
    { "aabbccddeeffgghhiijjjkk", false },
};

static void begin(struct replay *r, const struct layout *l, enum yoke_island island,
                  enum yoke_reproducible reproducible)
{
    static char names[128][2];
    static const char *island_of[64];
    static int host_of[64];
    const int size = (int)strlen(l->islands);
    for (int q = 0; q < size; q++) {
        names[(int)l->islands[q]][0] = l->islands[q];
        island_of[q] = names[(int)l->islands[q]];
        host_of[q] = l->one_host ? 0 : l->islands[q];
    }
    replay_begin(r, size, host_of, island_of, island, reproducible);
}

static const enum yokei_kind kinds[] = { YOKEI_ALL_REDUCE,     YOKEI_REDUCE,     YOKEI_BROADCAST,
                                         YOKEI_REDUCE_SCATTER, YOKEI_ALL_GATHER, YOKEI_ALL_TO_ALL,
                                         YOKEI_BARRIER,        YOKEI_GATHER,     YOKEI_SCATTER };

static bool has_root(enum yokei_kind kind)
{
    return kind == YOKEI_REDUCE || kind == YOKEI_BROADCAST || kind == YOKEI_GATHER || kind == YOKEI_SCATTER;
}

static int n_by_islands;

static void check_call(struct replay *r, const struct layout *l, enum yokei_kind kind, size_t count, int root)
{
    replay_call(r, kind, kind == YOKEI_BARRIER ? 0 : count, count % 2 ? YOKE_BF16 : YOKE_F32, YOKE_SUM, root);
    const struct yokei_op *op = &r->ranks[0].op;
    const bool grouped = op->algorithm == yokei_algorithm(YOKEI_HIERARCHY);
    double sent = 0;
    for (int g = 0; g < op->hosts->n; g++) sent += replay_sent_by(r, g);
    if (!replay_is_right(r) || (grouped && sent != yokei_bridge_bytes(op)))
        fail_msg("%s, %s of %zu, root %d: %s%s, %zu messages left, %.0f bytes cross, not %.0f", l->islands,
                 yokei_kind_name(kind), count, root, r->is_stuck ? "stuck" : "ended",
                 r->has_wrong_length ? ", a wrong length" : "", r->n_left, sent, yokei_bridge_bytes(op));
    n_by_islands += grouped && op->hosts->are_islands;
    if (!grouped || kind != YOKEI_ALL_REDUCE || op->hosts->n != 2 || r->base.settings.reproducible) return;
    const double all = (double)count * (double)yoke_dtype_bytes(op->wire);
    if (replay_sent_by(r, 0) != all || replay_sent_by(r, 1) != all)
        fail_msg("%s, all_reduce of %zu: %.0f and %.0f bytes cross", l->islands, count, replay_sent_by(r, 0),
                 replay_sent_by(r, 1));
}

static void every_call_ends(void **unused)
{
    (void)unused;
    static const size_t counts[] = { 1, 77, 1000, 20011, 300007 };
    n_by_islands = 0;
    for (size_t i = 0; i < YOKE_COUNT(layouts); i++)
        for (int island = YOKE_ISLAND_VENDOR; island <= YOKE_ISLAND_OFF; island++)
            for (int shape = 0; shape < 2; shape++) {
                struct replay r;
                begin(&r, &layouts[i], (enum yoke_island)island, (enum yoke_reproducible)shape);
                for (size_t k = 0; k < YOKE_COUNT(kinds); k++)
                    for (size_t c = 0; c < YOKE_COUNT(counts); c++)
                        check_call(&r, &layouts[i], kinds[k], counts[c],
                                   has_root(kinds[k]) ? r.size - 1 : -1);
                replay_end(&r);
            }
    assert_true(n_by_islands > 200);
}

/* Every message of a call in turn is lost, doubled, or sent to the next rank. */
static void faults_are_noticed(void **unused)
{
    (void)unused;
    static const struct layout two = { "aabb", true };
    for (size_t k = 0; k < 5; k++)
        for (enum replay_fault fault = REPLAY_LOST; fault <= REPLAY_MISROUTED; fault++) {
            struct replay r;
            begin(&r, &two, YOKE_ISLAND_VENDOR, YOKE_REPRODUCIBLE_RUN);
            replay_call(&r, kinds[k], 20011, YOKE_F32, YOKE_SUM, has_root(kinds[k]) ? 0 : -1);
            assert_true(replay_is_right(&r));
            const size_t n = r.n_messages;
            assert_true(n > 1);
            r.fault = fault;
            for (r.at = 0; r.at < n; r.at++) {
                replay_call(&r, kinds[k], 20011, YOKE_F32, YOKE_SUM, has_root(kinds[k]) ? 0 : -1);
                if (replay_is_right(&r))
                    fail_msg("%s: fault %d in message %zu", yokei_kind_name(kinds[k]), fault, r.at);
            }
            replay_end(&r);
        }
}

/* 64 islands of 16 ranks: an island sends no more than in a ring of islands, in 16 equal columns. */
static void many_islands(void **unused)
{
    (void)unused;
    enum { ISLANDS = 64, EACH = MOST / ISLANDS, COUNT = 1 << 20 };
    static char names[ISLANDS][YOKEI_ISLAND_NAME];
    static const char *island_of[MOST];
    static int host_of[MOST];
    struct replay r;
    for (int q = 0; q < MOST; q++) {
        host_of[q] = q / EACH / 2; /* two islands on each host */
        yokei_text(names[q / EACH], sizeof names[0], "island %d", q / EACH);
        island_of[q] = names[q / EACH];
    }
    replay_begin(&r, MOST, host_of, island_of, YOKE_ISLAND_VENDOR, YOKE_REPRODUCIBLE_RUN);
    replay_call(&r, YOKEI_ALL_REDUCE, COUNT, YOKE_F32, YOKE_SUM, -1);
    const double all = 4.0 * COUNT, of_an_island = 2.0 * (ISLANDS - 1) / ISLANDS * all;
    assert_true(replay_is_right(&r));
    assert_int_equal(r.ranks[0].op.hosts->n, ISLANDS);
    for (int q = 0; q < MOST; q++)
        if (r.sent[q] < 0.9 * of_an_island / EACH || r.sent[q] > 1.1 * of_an_island / EACH)
            fail_msg("rank %d sends %.0f bytes, not about %.0f", q, r.sent[q], of_an_island / EACH);
    replay_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_call_ends),
                                        cmocka_unit_test(faults_are_noticed),
                                        cmocka_unit_test(many_islands) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
