/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the gates (tolerances) of yoke parity notice bugs. Each bug of plants.c is planted into a
 * layout that passes without it. The gate for this kind of bug must then fail, by at least a given factor.
 * Runs on 3 ranks.
 */
#include "tests/ranks/parity.h"

#include "tests/ranks/plants.h"

enum gate { GRADIENTS, LOSSES, APART, BITS, N_GATES };
static const char *const gate_names[N_GATES] = { "gate (a), gradients", "gate (b), losses", "ranks alike",
                                                 "the same bits" };

static const char *const bugs[N_PLANTS] = { "none",
#define PLANT_TEXT(name, what) what,
                                            PLANTS(PLANT_TEXT)
#undef PLANT_TEXT
};

/*
 * For each bug: the gate that must notice it, and the least ratio of the error to what the gate allows.
 * `where` is a part of the place that the gate names, such as a tensor.
 */
static const struct row {
    enum plant plant;
    const char *layouts;
    enum gate gate;
    double least;
    const char *where;
    double loss_scale;
} rows[] = {
    { PLANT_averaged, "dp=2 shares=5:3", GRADIENTS, 1e4, "", 0 },
    { PLANT_unsummed, "dp=2 shares=5:3", APART, 1, "", 0 },
    { PLANT_counted, "tp=2", GRADIENTS, 1e2, "the norm of all gradients", 0 },
    { PLANT_dropped, "tp=3", GRADIENTS, 1e4, "", 0 },
    { PLANT_means, "dp=2 shares=5:3", GRADIENTS, 1e3, "", 0 },
    { PLANT_stale, "pp=2 schedule=1f1b micro-batch=2", LOSSES, 1e1, "", 0 },
    /*
     * At this loss scale only the first stage overflows at first, and the last stage through the tied
     * embedding. The stage between them goes on.
     */
    { PLANT_scales, "pp=3 schedule=1f1b micro-batch=2 precision=f16 steps=12", GRADIENTS, 1e1, "h.", 4.7e6 },
    { PLANT_tied, "pp=2 schedule=1f1b micro-batch=2", GRADIENTS, 1e4, "wte.weight", 0 },
    { PLANT_last_bit, "pp=2 micro-batch=2\npp=2 micro-batch=2 recompute=full", BITS, 1, "", 0 },
};

struct seen {
    struct yokei_parity_worst worst[N_GATES];
    bool passed;
    char why[512];
};

static bool look(const struct row *row, enum plant plant, struct seen *seen)
{
    struct tried t;
    memset(seen, 0, sizeof *seen);
    plants_choose(plant);
    const yoke_status status = try_layouts(row->layouts, "host", 3, row->loss_scale, &t);
    plants_choose(PLANT_NONE);
    if (status) return false;
    seen->passed = true;
    for (int i = 0; i < t.n; i++) {
        const struct yokei_parity_result *r = &t.results[i];
        const struct yokei_parity_worst bits = { .ratio = r->same_bits ? 0 : INFINITY,
                                                 .where = "the weights" };
        const struct yokei_parity_worst *gradients = r->gradient.ratio >= r->against_f32.ratio
                                                         ? &r->gradient
                                                         : &r->against_f32;
        const struct yokei_parity_worst *const all[N_GATES] = { gradients, &r->loss, &r->apart, &bits };
        for (int g = 0; g < N_GATES; g++)
            if (all[g]->ratio >= seen->worst[g].ratio) seen->worst[g] = *all[g];
        seen->passed = seen->passed && r->state == YOKEI_PARITY_RAN
                       && yokei_parity_passed(r, t.results, &t.list, seen->why, sizeof seen->why);
    }
    free_tried(&t);
    return true;
}

static void check(const struct row *row)
{
    struct seen seen;
    bool good = look(row, PLANT_NONE, &seen);
    ranks_check(good && seen.passed, "passes: a layout without %s", bugs[row->plant]);
    if (ranks_rank == 0 && !seen.passed) printf("# %s\n", seen.why);
    good = look(row, row->plant, &seen);
    const struct yokei_parity_worst *w = &seen.worst[row->gate];
    ranks_check(good && !seen.passed && w->ratio >= row->least && strstr(w->where, row->where),
                "%s is noticed by %s", bugs[row->plant], gate_names[row->gate]);
    for (int g = 0; g < N_GATES && ranks_rank == 0; g++)
        if (seen.worst[g].ratio > 1)
            printf("# %s: %.3g times what is allowed, at step %d, rank %d: %s\n", gate_names[g],
                   seen.worst[g].ratio, seen.worst[g].step, seen.worst[g].rank, seen.worst[g].where);
}

/*
 * The reference overflows at step 1, so the shorter run has no gradients to compare with. That must not pass.
 */
static void check_nothing_compared(void)
{
    struct tried t;
    plants_choose(PLANT_NONE);
    const bool tried = !try_layouts("precision=f16 steps=3\nprecision=f16 steps=12", "host", 3, 4.7e6, &t);
    char why[512] = "";
    const bool refused = tried && !yokei_parity_passed(&t.results[0], t.results, &t.list, why, sizeof why)
                         && strstr(why, "nothing to compare with");
    ranks_check(refused && yokei_parity_passed(&t.results[1], t.results, &t.list, why, sizeof why),
                "a run without gradients to compare does not pass");
    if (tried) free_tried(&t);
}

int main(void)
{
    ranks_start();
    if (ranks_rank == 0) printf("# seed %d\n", SEED);
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) check(&rows[i]);
    check_nothing_compared();
    ranks_check(YOKE_COUNT(rows) == N_PLANTS - 1, "each planted bug has its gate");
    return ranks_end();
}
