/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The causes of a step's time. In each round every cause that is not yet named is taken away from the model,
 * in each way that there is. The one with the largest gain is named, and stays away in the next rounds. So
 * two remedies for the same seconds do not count them twice.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/diagnose/remedies.h"

#define NAME(id, name) name,
const char *const yokei_diagnose_cause_names[YOKEI_N_CAUSES] = { YOKEI_CAUSES(NAME) };

struct search {
    const struct yokei_facts *facts;
    struct yokei_excess *excess;
    struct yokei_step_model now;
    double seconds; /* of the step of `now` */
    double threshold;
    bool named[YOKEI_N_CAUSES];
    /* the best of this round */
    struct yokei_step_model best;
    struct yokei_cause cause;
    double best_seconds;
};

/* Another remedy of the same cause must gain a tenth more than a simpler one. */
static bool is_better(const struct search *u, const struct yokei_remedy_row *row, double gain)
{
    const double best = u->best.facts ? u->seconds - u->best_seconds : 0;
    if (gain < fmax(u->threshold, row->least * u->seconds)) return false;
    return gain > best * (u->best.facts && u->cause.kind == row->kind ? 1.1 : 1);
}

static yoke_status try_remedy(struct search *u, const struct yokei_remedy_row *row)
{
    struct yokei_step_model without;
    struct yokei_cause cause = { .kind = row->kind, .gain = NAN, .rank = -1, .other = -1 };
    bool applies = false;
    double seconds = u->seconds;
    if (u->named[row->kind]) return YOKE_OK;
    YOKE_TRY(yokei_step_model_copy(&u->now, &without));
    yoke_status status = row->remedy(u->excess, &without, &cause, &applies);
    if (!status && applies) status = yokei_step_model_seconds(&without, &seconds);
    const double gain = u->seconds - seconds;
    if (status || !applies || !is_better(u, row, gain)) {
        yokei_step_model_free(&without);
        return status;
    }
    cause.seconds = gain;
    if (isnan(cause.gain)) cause.gain = gain;
    cause.score = row->quality * gain / (gain + 0.5 * u->threshold);
    if (u->best.facts) yokei_step_model_free(&u->best);
    u->best = without;
    u->best_seconds = seconds;
    u->cause = cause;
    return YOKE_OK;
}

static yoke_status search(struct search *u, struct yokei_diagnosis *out)
{
    for (int round = 0; round < YOKEI_N_CAUSES; round++) {
        u->best = (struct yokei_step_model){ .facts = NULL };
        for (const struct yokei_remedy_row *row = yokei_rank_remedies; row->remedy; row++)
            YOKE_TRY(try_remedy(u, row));
        for (const struct yokei_remedy_row *row = yokei_network_remedies; row->remedy; row++)
            YOKE_TRY(try_remedy(u, row));
        if (!u->best.facts) return YOKE_OK;
        out->cause[out->n++] = u->cause;
        u->named[u->cause.kind] = true;
        yokei_step_model_free(&u->now);
        u->now = u->best;
        u->seconds = u->best_seconds;
        u->best = (struct yokei_step_model){ .facts = NULL };
    }
    return YOKE_OK;
}

yoke_status yokei_diagnose(const struct yokei_facts *f, struct yokei_diagnosis *out)
{
    struct search u = { .facts = f, .excess = calloc((size_t)f->n_ranks + 1, sizeof *u.excess) };
    struct yokei_diagnosis found = { .step = f->step, .modelled = NAN };
    if (!u.excess) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", f->n_ranks);
    found.threshold = u.threshold = f->step * fmax(0.03, 3 * f->noise);
    yoke_status status = yokei_explain_ranks(f, u.excess);
    if (!status) status = yokei_step_model_create(f, &u.now);
    if (!status) status = yokei_step_model_seconds(&u.now, &u.seconds);
    if (!status) {
        found.modelled = u.seconds - u.now.rest;
        found.step = f->step + u.now.compile;
        status = search(&u, &found);
    }
    if (u.best.facts) yokei_step_model_free(&u.best);
    if (u.now.facts) yokei_step_model_free(&u.now);
    free(u.excess);
    if (!status) *out = found;
    return status;
}
