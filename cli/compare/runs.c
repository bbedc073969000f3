/* SPDX-License-Identifier: Apache-2.0 */
/* yoke compare RUN RUN: read the plans and the metrics of two runs, and hold their losses to the gates. */
#include "cli/compare/runs.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/parity/gates.h"

/* ---- reading ---- */

static void read_plan(struct compare_run *run)
{
    char path[4200];
    yokei_text(path, sizeof path, "%s/plan.json", run->folder);
    run->plan = (struct yokei_plan)YOKEI_PLAN_INIT;
    run->has_plan = yokei_plan_read(path, &run->plan) == YOKE_OK;
    if (!run->has_plan) yokei_text(run->plan_problem, sizeof run->plan_problem, "%s", yoke_last_error());
    for (int64_t r = 0; r < run->plan.n_memory; r++) {
        const double total = (double)run->plan.memory[r].total;
        run->memory += total;
        run->largest_memory = fmax(run->largest_memory, total);
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static yoke_status find_median(struct compare_run *run)
{
    size_t n = 0;
    run->tokens_per_second = NAN;
    if (!run->metrics.n) return YOKE_OK;
    double *speeds = malloc(run->metrics.n * sizeof *speeds);
    if (!speeds) return yoke_fail(YOKE_ENOMEM, "%s: no memory for its rows", run->folder);
    for (size_t i = 0; i < run->metrics.n; i++)
        if (run->metrics.rows[i].tokens_per_second > 0) speeds[n++] = run->metrics.rows[i].tokens_per_second;
    qsort(speeds, n, sizeof *speeds, by_size);
    if (n) run->tokens_per_second = (speeds[(n - 1) / 2] + speeds[n / 2]) / 2;
    free(speeds);
    return YOKE_OK;
}

static yoke_status read_metrics(struct compare_run *run)
{
    char path[4200];
    yokei_text(path, sizeof path, "%s/metrics.jsonl", run->folder);
    const yoke_status status = yokei_metrics_read(path, run->visit, run->visit_context, &run->metrics);
    if (status == YOKE_ENOMEM) return status;
    if (status)
        yokei_text(run->metrics_problem, sizeof run->metrics_problem, "%s", yoke_last_error());
    else if (!run->metrics.n)
        yokei_text(run->metrics_problem, sizeof run->metrics_problem, "%s: it has no whole row", path);
    run->loss = run->validation_loss = NAN;
    if (run->metrics.n) run->loss = run->metrics.rows[run->metrics.n - 1].loss;
    for (size_t i = 0; i < run->metrics.n; i++) {
        const struct yokei_metrics_row *row = &run->metrics.rows[i];
        if (isfinite(row->validation_loss))
            run->validation_loss = row->validation_loss, run->validation_step = row->step;
    }
    return find_median(run);
}

/* ---- the plans ---- */

/* The keys of plan.json that change the losses by intention. A layout changes only their rounding errors. */
static const char *const deciding[] = { "precision",        "seed",         "batch", "sequence", "data_hash",
                                        "validation_share", "weight_decay", "beta1", "beta2",    "clip",
                                        "loss_scale",       "skip_samples" };

static yoke_status plan_tree(const struct yokei_plan *plan, json_t **root_out)
{
    char *text = NULL;
    YOKE_TRY(yokei_json_text(&yokei_plan_schema, plan, false, true, &text));
    *root_out = json_loads(text, 0, NULL);
    free(text);
    return *root_out ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "yoke compare: no memory for a plan");
}

static void note_difference(struct compare_curves *c, const char *key, json_t *a, json_t *b)
{
    if (a == b || (a && b && json_equal(a, b))) return;
    json_array_append_new(c->plan_differences,
                          json_pack("{s:s, s:O?, s:O?}", "key", key, "old", a, "new", b));
}

static yoke_status compare_plans(struct compare_curves *c)
{
    json_t *a = NULL, *b = NULL;
    if (!c->runs[0].has_plan || !c->runs[1].has_plan) return YOKE_OK;
    yoke_status status = plan_tree(&c->runs[0].plan, &a);
    if (!status) status = plan_tree(&c->runs[1].plan, &b);
    if (!status) {
        /* each kind of models has a key of its own, and only the key of the plan's model is written */
        static const char *const models[] = {
#define KEY(id, config, key, ...) key,
            YOKEI_MODEL_KINDS(KEY)
        };
        for (size_t i = 0; i < YOKE_COUNT(models); i++)
            note_difference(c, models[i], json_object_get(a, models[i]), json_object_get(b, models[i]));
        for (size_t i = 0; i < YOKE_COUNT(deciding); i++)
            note_difference(c, deciding[i], json_object_get(a, deciding[i]), json_object_get(b, deciding[i]));
        c->held = json_array_size(c->plan_differences) == 0;
    }
    json_decref(a);
    json_decref(b);
    return status;
}

/* ---- the losses ---- */

double compare_relative(double old, double new)
{
    if (old == new || (isnan(old) && isnan(new))) return 0;
    return yokei_gate_off(fabs(new - old), fabs(old));
}

/*
 * The gate at a step. yoke parity has gates for the first steps in which rounding errors grow. Here these
 * steps begin with the first one that has another loss, because a resumed run begins with equal weights.
 */
static double gate_at(const struct compare_curves *c, int64_t step, bool *early_out)
{
    const yoke_dtype dtype = strcmp(c->runs[0].plan.precision, "fp32") ? YOKE_BF16 : YOKE_F32;
    *early_out = step - c->first_other < c->gate_steps;
    return *early_out ? yokei_gate_loss(dtype, step == c->first_step ? 1 : 2) : c->request->loss_gate;
}

static void compare_step(struct compare_curves *c, const struct yokei_metrics_row *a,
                         const struct yokei_metrics_row *b)
{
    struct compare_loss loss = { a->step, { a->loss, b->loss }, compare_relative(a->loss, b->loss), 0 };
    bool early;
    if (!c->n_common++) c->first_step = a->step;
    if (!c->rates_part && a->learning_rate != b->learning_rate) c->rates_part = a->step;
    if (!c->first_other && loss.relative > 0) c->first_other = a->step;
    early = !c->first_other;
    if (c->first_other) {
        loss.gate = gate_at(c, a->step, &early);
        struct compare_loss *largest = early ? &c->early : &c->later;
        if (loss.relative > largest->relative || !largest->step) *largest = loss;
    }
    if (c->rates_part) return; /* from here on the losses differ by intention */
    ++*(early ? &c->n_early : &c->n_later);
    if (c->held && !c->parted.step && !(loss.relative <= loss.gate)) c->parted = loss;
}

static void compare_losses(struct compare_curves *c)
{
    const struct yokei_metrics_rows *a = &c->runs[0].metrics, *b = &c->runs[1].metrics;
    const yoke_dtype dtype = strcmp(c->runs[0].plan.precision, "fp32") ? YOKE_BF16 : YOKE_F32;
    c->gate_steps = yokei_gate_steps(dtype);
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        const int64_t x = a->rows[i].step, y = b->rows[j].step;
        if (x == y) compare_step(c, &a->rows[i], &b->rows[j]);
        i += x <= y;
        j += y <= x;
    }
}

yoke_status compare_run_read(struct compare_run *run)
{
    read_plan(run);
    return read_metrics(run);
}

void compare_run_free(struct compare_run *run)
{
    yokei_plan_free(&run->plan);
    free(run->metrics.rows);
}

yoke_status compare_curves_read(struct compare_curves *c)
{
    yoke_status status = YOKE_OK;
    c->plan_differences = json_array();
    for (int i = 0; i < 2 && !status; i++) {
        c->runs[i].folder = c->request->paths[i];
        status = compare_run_read(&c->runs[i]);
    }
    if (!status) status = compare_plans(c);
    if (!status) compare_losses(c);
    return status;
}

void compare_curves_free(struct compare_curves *c)
{
    json_decref(c->plan_differences);
    for (int i = 0; i < 2; i++) compare_run_free(&c->runs[i]);
}

/* ---- the verdict ---- */

static yoke_status judge_files(const struct compare_curves *c)
{
    for (int i = 0; i < 2; i++) {
        const struct compare_run *run = &c->runs[i];
        if (run->plan_problem[0])
            return yoke_fail(YOKE_EDATA, "%s; so the losses were held to no gate", run->plan_problem);
        if (run->metrics_problem[0])
            return yoke_fail(YOKE_EDATA, "%s; %s", run->metrics_problem,
                             run->metrics.n ? "only the rows before it were compared"
                                            : "so no losses were compared");
    }
    return YOKE_OK;
}

/* The error of runs that have other losses by intention. It names the keys of plan.json that differ. */
static yoke_status differ_in(const struct compare_curves *c)
{
    char keys[256] = "";
    size_t i;
    const json_t *d;
    json_array_foreach(c->plan_differences, i, d)
    {
        const size_t used = strlen(keys);
        yokei_text(keys + used, sizeof keys - used, "%s%s", used ? ", " : "",
                   json_string_value(json_object_get(d, "key")));
    }
    return yoke_fail(YOKE_EUNSUPPORTED, "%s and %s differ in %s, so their losses were held to no gate",
                     c->request->paths[0], c->request->paths[1], keys);
}

static yoke_status judge(const struct compare_curves *c)
{
    const struct compare_request *r = c->request;
    if (c->parted.step)
        return yoke_fail(
            YOKE_EREGRESSED,
            "the losses part at step %lld: %.9g and %.9g, a relative difference of %.3g, and %.3g "
            "is allowed",
            (long long)c->parted.step, c->parted.loss[0], c->parted.loss[1], c->parted.relative,
            c->parted.gate);
    YOKE_TRY(judge_files(c));
    if (!c->held) return differ_in(c);
    if (!c->n_common)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s and %s have no step in common, so no losses were compared",
                         r->paths[0], r->paths[1]);
    if (!c->n_early && !c->n_later)
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "%s and %s have other learning rates from step %lld on, so their losses were held to no "
            "gate",
            r->paths[0], r->paths[1], (long long)c->rates_part);
    const double ratio = c->runs[1].tokens_per_second / c->runs[0].tokens_per_second;
    if (r->threshold > 0 && !(ratio >= r->threshold))
        return yoke_fail(YOKE_EREGRESSED, "%s has %.3g times the tokens per second of %s, which is below %g",
                         r->paths[1], ratio, r->paths[0], r->threshold);
    return YOKE_OK;
}

yoke_status compare_runs(const struct compare_request *request, FILE *to)
{
    struct compare_curves c = { .request = request };
    yoke_status status = compare_curves_read(&c);
    if (!status) {
        if (request->json)
            status = compare_runs_json(&c, to);
        else
            compare_runs_text(&c, to);
    }
    if (!status) status = judge(&c);
    compare_curves_free(&c);
    return status;
}
