/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of collectives by islands, replayed for all ranks in one process, up to 1024 ranks in 64 islands.
 * Each message is taken by a rank that expects it, the calls end, and each byte crosses once in each
 * direction. A message that is lost, doubled or sent to another column must be noticed. No data moves here;
 * comm_replay.c checks the data.
 */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/algorithms/hierarchy.h"
#include "collectives/replay/replay.h"

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

static const char costs[] =
    "sync_us=1,shared_gbps=10,long_gbps=5,sum_gbps=20,message_us=20,message_gbps=0.1,oneshot_bytes=0";

static struct yokei_model *begin(const struct layout *l, enum yoke_island island,
                                 enum yoke_reproducible reproducible)
{
    static char names[128][2];
    static const char *island_of[64];
    static int host_of[64];
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    const int size = (int)strlen(l->islands);
    for (int q = 0; q < size; q++) {
        names[(int)l->islands[q]][0] = l->islands[q];
        island_of[q] = names[(int)l->islands[q]];
        host_of[q] = l->one_host ? 0 : l->islands[q];
    }
    config.island = island;
    config.reproducible = reproducible;
    config.costs = costs;
    struct yokei_model *model;
    const struct yokei_ranks ranks = {
        .size = size, .host_of = host_of, .island_of = island_of, .config = &config
    };
    if (yokei_model_begin(&ranks, &model)) fail_msg("%s", yoke_last_error());
    return model;
}

static const enum yokei_kind kinds[] = { YOKEI_ALL_REDUCE,     YOKEI_REDUCE,     YOKEI_BROADCAST,
                                         YOKEI_REDUCE_SCATTER, YOKEI_ALL_GATHER, YOKEI_ALL_TO_ALL,
                                         YOKEI_BARRIER,        YOKEI_GATHER,     YOKEI_SCATTER };

static bool has_root(enum yokei_kind kind)
{
    return kind == YOKEI_REDUCE || kind == YOKEI_BROADCAST || kind == YOKEI_GATHER || kind == YOKEI_SCATTER;
}

static void replay(struct yokei_model *model, const struct yokei_replay_call *call,
                   struct yokei_replayed *out)
{
    if (yokei_replay_call(model, call, NULL, out)) fail_msg("%s", yoke_last_error());
}

static bool is_right(const struct yokei_replayed *r)
{
    const bool right = !r->is_stuck && !r->has_wrong_length && !r->n_left;
    assert_true(right == !r->trouble[0]);
    return right;
}

/* Bytes that all ranks of a group sent to other groups. */
static double sent_by(const struct yokei_replayed *r, int group)
{
    double bytes = 0;
    for (int q = 0; q < r->op->size; q++)
        if (r->op->hosts->of[q] == group) bytes += (double)r->sent[q];
    return bytes;
}

static int n_by_islands;

static void check_call(struct yokei_model *model, const struct layout *l, bool reproducible,
                       enum yokei_kind kind, size_t count)
{
    const int root = has_root(kind) ? (int)strlen(l->islands) - 1 : -1;
    const struct yokei_replay_call call = { .kind = kind,
                                            .count = kind == YOKEI_BARRIER ? 0 : count,
                                            .dtype = count % 2 ? YOKE_BF16 : YOKE_F32,
                                            .reduction = YOKE_SUM,
                                            .root = root };
    struct yokei_replayed r;
    replay(model, &call, &r);
    const struct yokei_op *op = r.op;
    const bool grouped = op->algorithm == yokei_algorithm(YOKEI_HIERARCHY);
    double sent = 0;
    for (int g = 0; g < op->hosts->n; g++) sent += sent_by(&r, g);
    if (!is_right(&r) || (grouped && sent != yokei_bridge_bytes(op)))
        fail_msg("%s, %s of %zu, root %d: %s; %llu messages left, %.0f bytes cross, not %.0f", l->islands,
                 yokei_kind_name(kind), count, root, r.trouble, (unsigned long long)r.n_left, sent,
                 yokei_bridge_bytes(op));
    n_by_islands += grouped && op->hosts->are_islands;
    if (!grouped || kind != YOKEI_ALL_REDUCE || op->hosts->n != 2 || reproducible) return;
    const double all = (double)count * (double)yoke_dtype_bytes(op->wire);
    if (sent_by(&r, 0) != all || sent_by(&r, 1) != all)
        fail_msg("%s, all_reduce of %zu: %.0f and %.0f bytes cross", l->islands, count, sent_by(&r, 0),
                 sent_by(&r, 1));
}

static void every_call_ends(void **unused)
{
    (void)unused;
    static const size_t counts[] = { 1, 77, 1000, 20011, 300007 };
    n_by_islands = 0;
    for (size_t i = 0; i < YOKE_COUNT(layouts); i++)
        for (int island = YOKE_ISLAND_AUTO; island <= YOKE_ISLAND_OFF; island++)
            for (int shape = 0; shape < 2; shape++) {
                struct yokei_model *model = begin(&layouts[i], (enum yoke_island)island,
                                                  (enum yoke_reproducible)shape);
                for (size_t k = 0; k < YOKE_COUNT(kinds); k++)
                    for (size_t c = 0; c < YOKE_COUNT(counts); c++)
                        check_call(model, &layouts[i], shape, kinds[k], counts[c]);
                yokei_model_end(model);
            }
    assert_true(n_by_islands > 200);
}

/* Every message of a call in turn is lost, doubled, or sent to the next rank. */
static void faults_of(const struct layout *l, enum yokei_kind kind)
{
    struct yokei_model *model = begin(l, YOKE_ISLAND_VENDOR, YOKE_REPRODUCIBLE_RUN);
    struct yokei_replay_call call = { .kind = kind,
                                      .count = kind == YOKEI_BARRIER ? 0 : 20011,
                                      .dtype = YOKE_F32,
                                      .reduction = YOKE_SUM,
                                      .root = has_root(kind) ? 0 : -1 };
    struct yokei_replayed r;
    replay(model, &call, &r);
    assert_true(is_right(&r));
    const uint64_t n = r.n_messages;
    assert_true(n > 1);
    for (int fault = YOKEI_REPLAY_LOST; fault <= YOKEI_REPLAY_MISROUTED; fault++) {
        call.fault = (enum yokei_replay_fault)fault;
        for (call.at = 0; call.at < n; call.at++) {
            replay(model, &call, &r);
            if (is_right(&r))
                fail_msg("%s: fault %d in message %llu", yokei_kind_name(kind), fault,
                         (unsigned long long)call.at);
        }
    }
    yokei_model_end(model);
}

static void faults_are_noticed(void **unused)
{
    (void)unused;
    static const struct layout islands = { "aabb", true }, hosts = { "aabb", false };
    for (size_t k = 0; k < 5; k++) faults_of(&islands, kinds[k]); /* the others send no messages there */
    for (size_t k = 0; k < YOKE_COUNT(kinds); k++) faults_of(&hosts, kinds[k]);
}

/* 64 islands of 16 ranks: an island sends no more than in a ring of islands, in 16 equal columns. */
static void many_islands(void **unused)
{
    (void)unused;
    enum { ISLANDS = 64, EACH = MOST / ISLANDS, COUNT = 1 << 20 };
    static char names[ISLANDS][YOKEI_ISLAND_NAME];
    static const char *island_of[MOST];
    static int host_of[MOST];
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    struct yokei_replayed r;
    for (int q = 0; q < MOST; q++) {
        host_of[q] = q / EACH / 2; /* two islands on each host */
        yokei_text(names[q / EACH], sizeof names[0], "island %d", q / EACH);
        island_of[q] = names[q / EACH];
    }
    config.island = YOKE_ISLAND_VENDOR;
    struct yokei_model *model;
    const struct yokei_ranks ranks = {
        .size = MOST, .host_of = host_of, .island_of = island_of, .config = &config
    };
    if (yokei_model_begin(&ranks, &model)) fail_msg("%s", yoke_last_error());
    replay(model,
           &(struct yokei_replay_call){
               .kind = YOKEI_ALL_REDUCE, .count = COUNT, .dtype = YOKE_F32, .root = -1 },
           &r);
    const double all = 4.0 * COUNT, of_an_island = 2.0 * (ISLANDS - 1) / ISLANDS * all;
    if (!is_right(&r)) fail_msg("%s", r.trouble);
    assert_int_equal(r.op->hosts->n, ISLANDS);
    for (int q = 0; q < MOST; q++)
        if ((double)r.sent[q] < 0.9 * of_an_island / EACH || (double)r.sent[q] > 1.1 * of_an_island / EACH)
            fail_msg("rank %d sends %.0f bytes, not about %.0f", q, (double)r.sent[q], of_an_island / EACH);
    yokei_model_end(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_call_ends),
                                        cmocka_unit_test(faults_are_noticed),
                                        cmocka_unit_test(many_islands) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
