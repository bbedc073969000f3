/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipeline schedules: the generated ones, and those that must be refused. Random schedules and their mutants
 * are compared with an independent execution.
 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "core/base/base.h"
#include "parallel/simulate.h"

static void expect_text(const struct yokei_pipeline *shape, const char *expected)
{
    struct yokei_schedule s;
    char *text;
    assert_ok(yokei_schedule_pipeline(shape, &s));
    assert_ok(yokei_schedule_print(&s, &text));
    assert_string_equal(text, expected);
    free(text);
    yokei_schedule_free(&s);
}

/* Written by hand, from the definitions. */
static void generated_text(void **state)
{
    (void)state;
    const int one_bucket[] = { 1, 1 };
    const bool first[] = { true, false };
    expect_text(
        &(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_NAIVE, .n_stages = 2, .n_micro_batches = 2 },
        "F0,SA0,RG0,B0,W0,F1,SA1,RG1,B1,W1,AGREE,STEP\nRA0,F0,B0,W0,SG0,RA1,F1,B1,W1,SG1,AGREE,STEP\n");
    expect_text(
        &(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_GPIPE, .n_stages = 2, .n_micro_batches = 2 },
        "F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\nRA0,F0,RA1,F1,B0,W0,SG0,B1,W1,SG1,AGREE,STEP\n");
    expect_text(
        &(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_1F1B,
                                  .n_stages = 2,
                                  .n_micro_batches = 2,
                                  .n_buckets = one_bucket,
                                  .recompute = first,
                                  .tied = true },
        "F0,SA0,F1,SA1,RG0,R0,B0,W0,RG1,R1,B1,W1,REDUCE0,TIED,AGREE,STEP\nRA0,F0,B0,W0,SG0,RA1,F1,B1,W1,SG1,REDUCE0,TIED,AGREE,STEP\n");
    expect_text(
        &(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_ZB_H1, .n_stages = 2, .n_micro_batches = 2 },
        "F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\nRA0,F0,B0,SG0,RA1,F1,B1,SG1,W0,W1,AGREE,STEP\n");
    expect_text(
        &(struct yokei_pipeline){
            .kind = YOKEI_PIPELINE_INTERLEAVED, .n_stages = 2, .n_chunks = 2, .n_micro_batches = 2 },
        "F0,SA0,F1,SA1,RA0.1,F0.1,SA0.1,RA1.1,F1.1,SA1.1,RG0.1,B0.1,W0.1,SG0.1,RG1.1,B1.1,W1.1,SG1.1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\n"
        "RA0,F0,SA0,RA1,F1,SA1,RA0.1,F0.1,RA1.1,B0.1,W0.1,SG0.1,F1.1,B1.1,W1.1,SG1.1,RG0,B0,W0,SG0,RG1,B1,W1,SG1,AGREE,STEP\n");
    for (int kind = 0; kind < YOKEI_N_PIPELINES; kind++)
        expect_text(&(struct yokei_pipeline){ .kind = (enum yokei_pipeline_kind)kind,
                                              .n_stages = 1,
                                              .n_micro_batches = 2,
                                              .n_buckets = one_bucket },
                    "F0,B0,W0,F1,B1,W1,REDUCE0,AGREE,STEP\n");
}

static void refused_shapes(void **state)
{
    (void)state;
    static const struct {
        struct yokei_pipeline shape;
        const char *words;
    } wrong[] = {
        { { .kind = YOKEI_PIPELINE_GPIPE, .n_stages = 0, .n_micro_batches = 1 }, "0 stages" },
        { { .kind = YOKEI_PIPELINE_GPIPE, .n_stages = 2, .n_micro_batches = -1 }, "-1 micro-batches" },
        { { .kind = YOKEI_PIPELINE_1F1B, .n_stages = 2, .n_chunks = 2, .n_micro_batches = 2 },
          "a kind such as interleaved" },
        { { .kind = YOKEI_PIPELINE_INTERLEAVED, .n_stages = 2, .n_micro_batches = 2 }, "set at least 2" },
        { { .kind = YOKEI_PIPELINE_INTERLEAVED, .n_stages = 4, .n_chunks = 2, .n_micro_batches = 10 },
          "set 8 or 12" },
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        struct yokei_schedule s;
        assert_fails(YOKE_ECONFIG, wrong[i].words, yokei_schedule_pipeline(&wrong[i].shape, &s));
    }
}

/* Two stages, two micro-batches, and one bucket each. The first and the last layers share parameters. */
static const int one_bucket_each[] = { 1, 1 };
static const struct yokei_pipeline two_by_two = {
    .n_stages = 2, .n_micro_batches = 2, .n_buckets = one_bucket_each, .tied = true
};
#define FIRST "F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\n"
#define SECOND "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP\n"

static void refused_schedules(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {
        { FIRST, "1 lines, but there are 2 stages" },
        { FIRST "F0,RA0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP",
          "stage 1, action 1: F0 comes before RA0" },
        { FIRST "RA0,F0,B0,SG0,RA1,F1,B1,W1,W0,SG1,REDUCE0,TIED,AGREE,STEP",
          "stage 1, action 8: W1, expected W0 of 2" },
        { FIRST "RA0,F0,SG0,B0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP",
          "stage 1, action 3: SG0 comes before B0" },
        { FIRST "RA0,F0,W0,B0,SG0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP", "action 3: W0 comes before B0" },
        { "SA0,F0,F1,SA1,RG0,B0,W0,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\n" SECOND,
          "stage 0, action 1: SA0 comes before F0" },
        { "F0,SA0,F1,SA1,B0,RG0,W0,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\n" SECOND,
          "stage 0, action 5: B0 comes before RG0" },
        { "F0,SA0,F1,SA1,RG0,B0,R0,W0,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\n" SECOND,
          "stage 0, action 6: B0 comes before R0" },
        { "F0,SA0,F1,SA1,RG0,R0,B0,W0,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\n" SECOND,
          "stage 0, action 10: B1 comes before R1" },
        { "R0,F0,SA0,F1,SA1,RG0,B0,W0,RG1,R1,B1,W1,REDUCE0,TIED,AGREE,STEP\n" SECOND,
          "stage 0, action 1: R0 comes before F0" },
        { "RA0,F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\n" SECOND,
          "stage 0, action 1: RA0 has no other end" },
        { FIRST "RA0,F0,SA0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP",
          "stage 1, action 3: SA0 has no other end" },
        { "F0,SA0,F1,RG0,B0,W0,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\n" SECOND, "SA1 is not there yet" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,W1,REDUCE0,TIED,AGREE,STEP", "SG1 is not there yet" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,TIED,REDUCE0,AGREE,STEP", "TIED is too early, REDUCE0" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,AGREE,STEP", "AGREE is too early, TIED" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,TIED,AGREE,STEP", "a second TIED" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,AGREE,STEP", "a second AGREE" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,STEP", "STEP is too early, AGREE" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP,STEP", "STEP is too early" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE", "stage 1: it does not end in" },
        { FIRST "RA0,F0,B0,SG0,W0", "stage 1: micro-batches are missing: 1 of 2 have W in chunk 0" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1", "stage 1: buckets are missing: 0 of 1 have REDUCE" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,REDUCE0,W1,TIED,AGREE,STEP", "REDUCE0 comes before W1" },
        { FIRST "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,REDUCE0,TIED,AGREE,STEP",
          "expected REDUCE1 of 1" },
        { FIRST "RA0,F0.1,B0,SG0,W0,RA1,F1,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP", "leave \".1\" out" },
        /*
         * Each line is valid by itself. But stage 0 waits for the gradient of 0 before it sends 1, and stage
         * 1 waits for the input of 1 before it sends that gradient.
         */
        { "F0,SA0,RG0,B0,W0,F1,SA1,RG1,B1,W1,REDUCE0,TIED,AGREE,STEP\nRA0,F0,RA1,F1,B0,SG0,W0,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP",
          "stage 0 waits at action 4 (B0) for RG0 from stage 1, which has it as action 6; stage 1 waits at action 4 (F1) for RA1 from stage 0" },
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        struct yokei_schedule s;
        assert_ok(yokei_schedule_parse(wrong[i].text, "s.csv", &s));
        assert_fails(YOKE_ECONFIG, wrong[i].words, yokei_schedule_check(&s, &two_by_two));
        yokei_schedule_free(&s);
    }
}

/*
 * Errors that are possible only with several chunks, and schedules that do not fit the shape that the check
 * gets.
 */
static void refused_in_shape(void **state)
{
    (void)state;
    struct yokei_schedule s;
    struct yokei_pipeline chunks = { .n_stages = 2, .n_chunks = 2, .n_micro_batches = 1 };
    assert_ok(yokei_schedule_parse("F0,SA0,RA0.1,F0.1,SA0.1,RG0.1,B0.1,W0.1,SG0.1,RG0,B0,W0,AGREE,STEP\n"
                                   "RA0,F0,SA0,RA0.1,F0.1,B0.1,W0.1,SG0.1,RG0,B0,W0,SG0,AGREE,STEP",
                                   "s.csv", &s));
    assert_ok(yokei_schedule_check(&s, &chunks));
    /* RA0.1 moves to the front, so one chunk's message is taken for the other chunk's message. */
    struct yokei_action *first = s.rank[1].action, moved = first[3];
    memmove(first + 1, first, 3 * sizeof moved);
    first[0] = moved;
    assert_fails(YOKE_ECONFIG, "stage 0, action 2: SA0 arrives at stage 1 where that expects RA0.1",
                 yokei_schedule_check(&s, &chunks));
    memmove(first, first + 1, 3 * sizeof moved);
    first[3] = moved;
    assert_ok(yokei_schedule_check(&s, &chunks));
    chunks.n_chunks = 1;
    assert_fails(YOKE_ECONFIG, "stage 0, action 3: RA0.1 names a chunk", yokei_schedule_check(&s, &chunks));
    chunks.n_chunks = 3;
    assert_fails(YOKE_ECONFIG, "AGREE is too early", yokei_schedule_check(&s, &chunks));
    chunks.n_chunks = 2, chunks.tied = true;
    assert_fails(YOKE_ECONFIG, "TIED is not there yet", yokei_schedule_check(&s, &chunks));
    chunks.tied = false;
    chunks.recompute = (const bool[]){ true, false };
    assert_fails(YOKE_ECONFIG, "comes before R0.1", yokei_schedule_check(&s, &chunks));
    s.rank[0].action[3].chunk = 2;
    assert_fails(YOKE_ECONFIG, "F0.2, but the chunks are 0 to 1", yokei_schedule_check(&s, &chunks));
    yokei_schedule_free(&s);

    /*
     * The first half of gpipe, then the second half of zb-h1. With buffers it would run. Without buffers each
     * stage waits until the other takes its message.
     */
    chunks = (struct yokei_pipeline){ .n_stages = 2, .n_micro_batches = 3 };
    assert_ok(yokei_schedule_parse("F0,SA0,F1,SA1,F2,SA2,RG0,B0,W0,RG1,B1,W1,RG2,B2,W2,AGREE,STEP\n"
                                   "RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,RA2,F2,B2,SG2,W2,AGREE,STEP",
                                   "s.csv", &s));
    assert_fails(YOKE_ECONFIG,
                 "stage 0 waits at action 5 (F2) until stage 1 takes SA1 (action 6 there); "
                 "stage 1 waits at action 5 (W0) until stage 0 takes SG0 (action 7 there)",
                 yokei_schedule_check(&s, &chunks));
    yokei_schedule_free(&s);

    /*
     * Both lines are valid by themselves. But stage 1 receives the two messages, which are of different
     * chunks, in the other order.
     */
    chunks = (struct yokei_pipeline){ .n_stages = 2, .n_chunks = 2, .n_micro_batches = 2 };
    assert_ok(yokei_schedule_parse(
        "F0,SA0,RA0.1,F0.1,SA0.1,F1,SA1,RA1.1,F1.1,SA1.1,RG0.1,B0.1,W0.1,SG0.1,RG1.1,B1.1,W1.1,SG1.1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\n"
        "RA0,F0,SA0,RA1,F1,SA1,RA0.1,F0.1,RA1.1,F1.1,B0.1,W0.1,SG0.1,B1.1,W1.1,SG1.1,RG0,B0,W0,SG0,RG1,B1,W1,SG1,AGREE,STEP",
        "s.csv", &s));
    assert_fails(YOKE_ECONFIG,
                 "stage 0, action 5: SA0.1 arrives at stage 1 where that expects RA1 (its action 4)",
                 yokei_schedule_check(&s, &chunks));
    yokei_schedule_free(&s);
}

/* ---- random schedules ---- */

enum { MOST_STAGES = 4, MOST_CHUNKS = 3, MOST_MICRO_BATCHES = 6, N_COUNTED = YOKEI_ACTION_RG + 1 };

static uint64_t draw_state;
static int draw(int n)
{
    draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((draw_state >> 33) % (uint64_t)n);
}

/*
 * Executes the lines as a run does. An action is done as soon as it may be. Computation waits until all
 * earlier sends are taken.
 */
struct run {
    const struct yokei_pipeline *shape;
    const struct yokei_schedule *s;
    int at[MOST_STAGES]; /* next action of each stage */
    bool done[MOST_STAGES][N_COUNTED][MOST_CHUNKS]
             [MOST_MICRO_BATCHES]; /* for a receive: whether the data has arrived */
    int n_posted[MOST_STAGES][N_COUNTED],
        n_moved[MOST_STAGES][N_COUNTED]; /* messages of a kind, in their order */
    struct yokei_action posted[MOST_STAGES][N_COUNTED][MOST_CHUNKS * MOST_MICRO_BATCHES];
};

static bool has(const struct run *r, int stage, enum yokei_action_kind kind, const struct yokei_action *a)
{
    return r->done[stage][kind][a->chunk][a->index];
}

static int all_of(const struct run *r, int stage, enum yokei_action_kind kind)
{
    int n = 0;
    for (int c = 0; c < r->shape->n_chunks; c++)
        for (int m = 0; m < r->shape->n_micro_batches; m++) n += r->done[stage][kind][c][m];
    return n;
}

/*
 * Move the next message of the channel from `from`, if both ends are posted. Returns false if the two ends do
 * not match.
 */
static bool move(struct run *r, int from, enum yokei_action_kind send)
{
    const int p = r->shape->n_stages, to = (from + (send == YOKEI_ACTION_SA ? 1 : p - 1)) % p,
              k = r->n_moved[from][send];
    const enum yokei_action_kind receive = send == YOKEI_ACTION_SA ? YOKEI_ACTION_RA : YOKEI_ACTION_RG;
    if (k >= r->n_posted[from][send] || k >= r->n_posted[to][receive]) return true;
    const struct yokei_action *a = &r->posted[from][send][k], *b = &r->posted[to][receive][k];
    const int here = a->chunk * p + from, there = b->chunk * p + to;
    if (a->index != b->index || there != here + (send == YOKEI_ACTION_SA ? 1 : -1)) return false;
    r->n_moved[from][send]++;
    r->done[to][receive][b->chunk][b->index] = true;
    return true;
}

enum outcome { PASSED, WAITS, WRONG };

/* Try to do one action of a stage, according to the data that it needs. */
static enum outcome pass(struct run *r, int s, const struct yokei_action *a)
{
    const int p = r->shape->n_stages, n = r->shape->n_chunks * r->shape->n_micro_batches,
              place = a->chunk * p + s, last = p * r->shape->n_chunks - 1;
    const bool send = a->kind == YOKEI_ACTION_SA || a->kind == YOKEI_ACTION_SG,
               receive = a->kind == YOKEI_ACTION_RA || a->kind == YOKEI_ACTION_RG;
    if (a->kind == YOKEI_ACTION_STEP) return r->at[s] + 1 == r->s->rank[s].n ? PASSED : WRONG;
    if (a->kind == YOKEI_ACTION_AGREE) { /* everything else is done */
        /* messages of a stage that is the model's first or last */
        const int inner = n - r->shape->n_micro_batches;
        return r->at[s] + 2 == r->s->rank[s].n && all_of(r, s, YOKEI_ACTION_W) == n
                       && r->n_posted[s][YOKEI_ACTION_SA] == (s == p - 1 ? inner : n)
                       && r->n_posted[s][YOKEI_ACTION_SG] == (s == 0 ? inner : n)
                   ? PASSED
                   : WRONG;
    }
    for (int m = 0; m < a->index; m++) { /* ascending in each chunk */
        bool before = r->done[s][a->kind][a->chunk][m];
        for (int k = 0; (send || receive) && k < r->n_posted[s][a->kind]; k++)
            before |= r->posted[s][a->kind][k].index == m && r->posted[s][a->kind][k].chunk == a->chunk;
        if (!before) return WRONG;
    }
    if (send || receive) {
        const bool no_end = a->kind == YOKEI_ACTION_RA || a->kind == YOKEI_ACTION_SG ? place == 0
                                                                                     : place == last;
        for (int k = 0; k < r->n_posted[s][a->kind]; k++)
            if (r->posted[s][a->kind][k].index == a->index && r->posted[s][a->kind][k].chunk == a->chunk)
                return WRONG;
        if (no_end || (send && !has(r, s, a->kind == YOKEI_ACTION_SA ? YOKEI_ACTION_F : YOKEI_ACTION_B, a)))
            return WRONG;
        r->posted[s][a->kind][r->n_posted[s][a->kind]++] = *a;
        return PASSED;
    }
    if (has(r, s, a->kind, a)) return WRONG;
    if (r->n_moved[s][YOKEI_ACTION_SA] < r->n_posted[s][YOKEI_ACTION_SA]
        || r->n_moved[s][YOKEI_ACTION_SG] < r->n_posted[s][YOKEI_ACTION_SG])
        return WAITS;
    const enum yokei_action_kind needs = a->kind == YOKEI_ACTION_F ? YOKEI_ACTION_RA : YOKEI_ACTION_RG;
    bool listed = false; /* the receive, so that waiting can help */
    for (int k = 0; k < r->n_posted[s][needs]; k++)
        listed |= r->posted[s][needs][k].index == a->index && r->posted[s][needs][k].chunk == a->chunk;
    if ((a->kind == YOKEI_ACTION_F && place > 0) || (a->kind == YOKEI_ACTION_B && place < last)) {
        if (!listed) return WRONG;
        if (!has(r, s, needs, a)) return WAITS;
    }
    if (a->kind == YOKEI_ACTION_B && !has(r, s, YOKEI_ACTION_F, a)) return WRONG;
    if (a->kind == YOKEI_ACTION_W && !has(r, s, YOKEI_ACTION_B, a)) return WRONG;
    r->done[s][a->kind][a->chunk][a->index] = true;
    return PASSED;
}

/* Whether the schedule runs to its end and does everything once. */
static bool executes(const struct yokei_schedule *s, const struct yokei_pipeline *shape)
{
    struct run *r = calloc(1, sizeof *r);
    bool right = true, progress = true;
    r->shape = shape, r->s = s;
    while (right && progress) {
        progress = false;
        for (int stage = 0; stage < shape->n_stages && right; stage++) {
            if (r->at[stage] < s->rank[stage].n) {
                const enum outcome o = pass(r, stage, &s->rank[stage].action[r->at[stage]]);
                right = o != WRONG;
                progress |= o == PASSED;
                r->at[stage] += o == PASSED;
            }
            const int moved = r->n_moved[stage][YOKEI_ACTION_SA] + r->n_moved[stage][YOKEI_ACTION_SG];
            right = right && move(r, stage, YOKEI_ACTION_SA) && move(r, stage, YOKEI_ACTION_SG);
            progress |= moved != r->n_moved[stage][YOKEI_ACTION_SA] + r->n_moved[stage][YOKEI_ACTION_SG];
        }
    }
    for (int stage = 0; stage < shape->n_stages; stage++) {
        const struct yokei_actions *list = &s->rank[stage];
        right = right && r->at[stage] == list->n && list->n > 1
                && list->action[list->n - 1].kind == YOKEI_ACTION_STEP
                && list->action[list->n - 2].kind == YOKEI_ACTION_AGREE;
    }
    free(r);
    return right;
}

/*
 * Make a random legal schedule. Actions are drawn one after the other, and each one is possible when it is
 * drawn. A message is put into both lists at the same time.
 */
static void random_schedule(const struct yokei_pipeline *shape, struct yokei_schedule *s)
{
    static const enum yokei_action_kind kinds[] = { YOKEI_ACTION_F, YOKEI_ACTION_B, YOKEI_ACTION_W,
                                                    YOKEI_ACTION_SA, YOKEI_ACTION_SG };
    const int p = shape->n_stages, v = shape->n_chunks, last = p * v - 1;
    int next[MOST_STAGES * MOST_CHUNKS][YOKEI_N_ACTIONS] = { { 0 } };
    struct yokei_schedule lines[MOST_STAGES] = { { 0, NULL } };
    for (int stage = 0; stage < p; stage++) assert_ok(yokei_schedule_add_line(&lines[stage]));
    for (int left = p * v * shape->n_micro_batches * 3 + 2 * last * shape->n_micro_batches; left > 0;) {
        const int place = draw(last + 1), stage = place % p;
        const enum yokei_action_kind kind = kinds[draw((int)YOKE_COUNT(kinds))];
        int *n = next[place], m = n[kind];
        bool possible = m < shape->n_micro_batches;
        if (kind == YOKEI_ACTION_F) possible = possible && (place == 0 || n[YOKEI_ACTION_RA] > m);
        if (kind == YOKEI_ACTION_B)
            possible = possible && n[YOKEI_ACTION_F] > m && (place == last || n[YOKEI_ACTION_RG] > m);
        if (kind == YOKEI_ACTION_W) possible = possible && n[YOKEI_ACTION_B] > m;
        if (kind == YOKEI_ACTION_SA) possible = possible && place < last && n[YOKEI_ACTION_F] > m;
        if (kind == YOKEI_ACTION_SG) possible = possible && place > 0 && n[YOKEI_ACTION_B] > m;
        if (!possible) continue;
        assert_ok(yokei_schedule_append(&lines[stage], kind, m, place / p));
        n[kind]++;
        left--;
        if (kind != YOKEI_ACTION_SA && kind != YOKEI_ACTION_SG) continue;
        const int other = place + (kind == YOKEI_ACTION_SA ? 1 : -1);
        const enum yokei_action_kind receive = kind == YOKEI_ACTION_SA ? YOKEI_ACTION_RA : YOKEI_ACTION_RG;
        assert_ok(yokei_schedule_append(&lines[other % p], receive, m, other / p));
        next[other][receive]++;
    }
    *s = (struct yokei_schedule){ 0, NULL };
    for (int stage = 0; stage < p; stage++) {
        assert_ok(yokei_schedule_append(&lines[stage], YOKEI_ACTION_AGREE, 0, 0));
        assert_ok(yokei_schedule_append(&lines[stage], YOKEI_ACTION_STEP, 0, 0));
        assert_ok(yokei_schedule_add_line(s));
        for (int i = 0; i < lines[stage].rank[0].n; i++) {
            const struct yokei_action *a = &lines[stage].rank[0].action[i];
            assert_ok(yokei_schedule_append(s, a->kind, a->index, a->chunk));
        }
        yokei_schedule_free(&lines[stage]);
    }
}

enum mutation { DROP, DUPLICATE, SWAP, MOVE, N_MUTATIONS };

static void mutate(struct yokei_schedule *s, enum mutation how)
{
    struct yokei_actions *list = &s->rank[draw(s->n_ranks)];
    const int i = draw(list->n), j = draw(list->n);
    const struct yokei_action a = list->action[i];
    if (how == DROP) memmove(list->action + i, list->action + i + 1, (size_t)(--list->n - i) * sizeof a);
    if (how == SWAP) list->action[i] = list->action[j], list->action[j] = a;
    if (how == MOVE) { /* move by a few places; the result is often still valid for the stage itself */
        const int aim = i + draw(9) - 4, to = YOKE_MAX(0, YOKE_MIN(aim, list->n - 1));
        memmove(list->action + i, list->action + i + 1, (size_t)(list->n - 1 - i) * sizeof a);
        memmove(list->action + to + 1, list->action + to, (size_t)(list->n - 1 - to) * sizeof a);
        list->action[to] = a;
    }
    if (how == DUPLICATE) {
        struct yokei_action *longer = realloc(list->action, (size_t)(list->n + 1) * sizeof a);
        assert_non_null(longer);
        memmove(longer + j + 1, longer + j, (size_t)(list->n - j) * sizeof a);
        longer[j] = a;
        list->action = longer;
        list->n = list->capacity = list->n + 1;
    }
}

/* Index of an action in a stage's list; -1: it is not there. */
static int find(const struct yokei_schedule *s, int stage, enum yokei_action_kind kind, int m, int chunk)
{
    for (int i = 0; i < s->rank[stage].n; i++) {
        const struct yokei_action *a = &s->rank[stage].action[i];
        if (a->kind == kind && a->index == m && a->chunk == chunk) return i;
    }
    return -1;
}

/*
 * Check the times by their definition: everything begins exactly when the last thing that it waits for has
 * ended.
 */
static void check_times(const struct yokei_schedule *s, const struct yokei_pipeline *shape)
{
    const int p = shape->n_stages;
    struct yokei_costs costs;
    struct yokei_simulated t;
    assert_ok(yokei_costs_equal(p, shape->n_chunks, 1, 1, 1, 0, &costs));
    for (int i = 0; i < p * shape->n_chunks; i++)
        costs.chunk[i] = (struct yokei_chunk_costs){ .F = draw(5), .B = draw(5), .W = draw(5) };
    for (int i = 0; i < p; i++) costs.hop[i] = (struct yokei_hop){ draw(4), draw(3), 1 };
    assert_ok(yokei_simulate(s, &costs, &t));
    for (int stage = 0; stage < p; stage++) {
        double computed = 0, channel[2] = { 0 };
        for (int i = 0; i < s->rank[stage].n; i++) {
            const struct yokei_action *a = &s->rank[stage].action[i];
            const struct yokei_span *x = &t.stage[stage].span[i];
            const struct yokei_chunk_costs *c = &costs.chunk[stage * shape->n_chunks + a->chunk];
            const bool up = a->kind == YOKEI_ACTION_RA;
            const int place = a->chunk * p + stage, from = up ? place - 1 : place + 1;
            double start = computed, end = 0;
            if (a->kind == YOKEI_ACTION_F || a->kind == YOKEI_ACTION_B) {
                const int j = find(s, stage, a->kind == YOKEI_ACTION_F ? YOKEI_ACTION_RA : YOKEI_ACTION_RG,
                                   a->index, a->chunk);
                if (j >= 0) start = YOKE_MAX(start, t.stage[stage].span[j].end);
                end = start + (a->kind == YOKEI_ACTION_F ? c->F : c->B);
            } else if (a->kind == YOKEI_ACTION_W) {
                end = start + c->W;
            } else if (a->kind == YOKEI_ACTION_SA || a->kind == YOKEI_ACTION_SG) {
                double *free_at = &channel[a->kind == YOKEI_ACTION_SG];
                start = YOKE_MAX(start, *free_at);
                end = *free_at = start
                                 + costs.hop[a->kind == YOKEI_ACTION_SA ? stage : (stage + p - 1) % p].bytes;
            } else if (a->kind == YOKEI_ACTION_RA || a->kind == YOKEI_ACTION_RG) {
                const int j = find(s, from % p, up ? YOKEI_ACTION_SA : YOKEI_ACTION_SG, a->index, from / p);
                end = YOKE_MAX(start,
                               t.stage[from % p].span[j].end + costs.hop[up ? from % p : stage].latency);
            } else {
                continue; /* AGREE, where all meet, and STEP */
            }
            if (x->start != start || x->end != end)
                fail_msg("stage %d, action %d: from %g to %g, not from %g to %g", stage, i + 1, x->start,
                         x->end, start, end);
            if (a->kind <= YOKEI_ACTION_W) computed = end;
        }
        const int agree = s->rank[stage].n - 2;
        assert_true(t.stage[stage].span[agree].start == t.stage[0].span[s->rank[0].n - 2].start
                    && t.stage[stage].span[agree].start >= computed);
    }
    yokei_simulated_free(&t);
    yokei_costs_free(&costs);
}

static void random_and_mutants(void **state)
{
    (void)state;
    const char *given = getenv("YOKE_SEED");
    const int n = getenv("YOKE_SOAK") ? 20000 : 1500;
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 20240611;
    int accepted[N_MUTATIONS] = { 0 }, tried[N_MUTATIONS] = { 0 };
    print_message("seed %llu; YOKE_SEED=... draws others\n", (unsigned long long)seed);
    for (int i = 0; i < n; i++) {
        draw_state = seed + (uint64_t)i * 0x9e3779b97f4a7c15u;
        draw(2);
        struct yokei_schedule s;
        struct yokei_pipeline shape = { .n_stages = 2 + draw(MOST_STAGES - 1),
                                        .n_chunks = 1 + draw(MOST_CHUNKS),
                                        .n_micro_batches = 1 + draw(MOST_MICRO_BATCHES) };
        random_schedule(&shape, &s);
        if (!executes(&s, &shape))
            fail_msg("case %d of seed %llu: a drawn schedule does not execute", i, (unsigned long long)seed);
        assert_ok(yokei_schedule_check(&s, &shape));
        check_times(&s, &shape);
        const enum mutation how = (enum mutation)draw(N_MUTATIONS);
        mutate(&s, how);
        const bool sound = executes(&s, &shape);
        const yoke_status status = yokei_schedule_check(&s, &shape);
        if (status != (sound ? YOKE_OK : YOKE_ECONFIG))
            fail_msg("case %d of seed %llu, mutation %d: the check says %s, an execution the opposite: %s", i,
                     (unsigned long long)seed, how, yoke_status_name(status),
                     status ? yoke_last_error() : "");
        tried[how]++;
        accepted[how] += sound;
        yokei_schedule_free(&s);
    }
    print_message("%d dropped, %d doubled, %d swapped, %d moved: %d, %d, %d, %d still sound\n", tried[DROP],
                  tried[DUPLICATE], tried[SWAP], tried[MOVE], accepted[DROP], accepted[DUPLICATE],
                  accepted[SWAP], accepted[MOVE]);
    for (int how = 0; how < N_MUTATIONS; how++) assert_true(tried[how] > n / 6);
    assert_true(accepted[DROP] == 0 && accepted[DUPLICATE] == 0 && accepted[SWAP] > 0
                && accepted[SWAP] < tried[SWAP] / 2);
    assert_true(accepted[MOVE] > tried[MOVE] / 10 && accepted[MOVE] < tried[MOVE]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_text),     cmocka_unit_test(refused_shapes),
        cmocka_unit_test(refused_schedules),  cmocka_unit_test(refused_in_shape),
        cmocka_unit_test(random_and_mutants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
