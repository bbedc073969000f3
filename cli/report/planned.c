/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/planned.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/report/timeline.h"
#include "cli/show/schedule.h"
#include "core/base/base.h"
#include "parallel/mesh.h"
#include "parallel/simulate.h"

enum { MOST_LANES = 32, MOST_ACTIONS = 500000 };

/* From where the times of the passes are. */
enum planned_times { PLANNED_NO_TIMES, PLANNED_PREDICTED, PLANNED_MEASURED };

struct planned {
    char problem[700]; /* why there is no simulation; "": no problem */
    struct yokei_mesh mesh;
    int *widths;      /* of the mesh */
    int64_t *rank_of; /* [ranks of the mesh] the rank's number in the plan */
    enum planned_times times;
    int n_replicas, n_lines; /* line r * mesh.pipeline + s is stage s of replica r */
    int n_micro_batches;     /* of replica 0 */
    const char *kind;
    struct yokei_schedule schedule;
    struct yokei_costs costs;
    struct yokei_simulated simulated;
};

/* ---- the mesh, and the schedule ---- */

static yoke_status lay_mesh(const struct yokei_plan *plan, struct planned *out)
{
    int n = 0;
    out->rank_of = calloc((size_t)plan->n_ranks, sizeof *out->rank_of);
    if (!out->rank_of)
        return yoke_fail(YOKE_ENOMEM, "there is no memory for %" PRId64 " ranks", plan->n_ranks);
    for (int64_t r = 0; r < plan->n_ranks; r++)
        if (plan->ranks[r].samples > 0) out->rank_of[n++] = r;
    YOKE_TRY(yokei_plan_widths(plan, &out->widths));
    return yokei_mesh_create(n, 0, (int)plan->data, (int)plan->pipeline, (int)plan->tensor, out->widths,
                             (int)plan->chunks, &out->mesh);
}

static const struct yokei_plan_rank *rank_at(const struct yokei_plan *plan, const struct planned *p, int line)
{
    const int pp = p->mesh.pipeline, rank = yokei_mesh_rank(&p->mesh, line / pp, line % pp, 0);
    return &plan->ranks[p->rank_of[rank]];
}

/* Whether each stage recomputes: the plan has one word for all stages, or one for each stage. */
static void find_recomputing(const struct yokei_plan *plan, int n_stages, bool *out)
{
    const char *at = plan->recompute;
    const bool several = strchr(at, ',') != NULL;
    for (int s = 0; s < n_stages; s++) {
        const size_t length = strcspn(at, ",");
        out[s] = length && (length != 4 || strncmp(at, "none", 4) != 0);
        if (several) at += length + (at[length] != '\0');
    }
}

/*
 * The lines of replica d, generated or the user's own. A user's schedule may have lines for one replica
 * only.
 */
static yoke_status lines_of_replica(const struct yokei_plan *plan, const struct yokei_pipeline *shape, int d,
                                    int n_replicas, struct yokei_schedule *out)
{
    struct yokei_schedule all;
    if (!plan->schedule_text) return yokei_schedule_pipeline(shape, out);
    YOKE_TRY(yokei_schedule_parse(plan->schedule_text, "schedule_text", &all));
    const int first = all.n_ranks == shape->n_stages ? 0 : d * shape->n_stages;
    yoke_status status = YOKE_OK;
    if (all.n_ranks != shape->n_stages && all.n_ranks != shape->n_stages * n_replicas)
        status = yoke_fail(YOKE_ECONFIG, "schedule_text has %d lines for %d stages in %d replicas",
                           all.n_ranks, shape->n_stages, n_replicas);
    *out = (struct yokei_schedule){ 0, NULL };
    for (int s = 0; s < shape->n_stages && !status; s++) {
        status = yokei_schedule_add_line(out);
        if (status) break;
        struct yokei_actions made = out->rank[s];
        out->rank[s] = all.rank[first + s]; /* the lines change their owner */
        all.rank[first + s] = made;
    }
    yokei_schedule_free(&all);
    return status;
}

static yoke_status make_schedule(const struct yokei_plan *plan, struct planned *p)
{
    const int pp = p->mesh.pipeline, chunks = p->mesh.chunks;
    bool *recompute = calloc((size_t)pp, sizeof *recompute);
    struct yokei_pipeline shape = { .n_stages = pp, .n_chunks = chunks, .recompute = recompute };
    yoke_status status = recompute ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "there is no memory for %d stages", pp);
    if (!status)
        status = yokei_pipeline_named(plan->schedule[0] ? plan->schedule : NULL, chunks, &shape.kind);
    if (!status) find_recomputing(plan, pp, recompute);
    p->kind = plan->schedule_text ? "given" : yokei_pipeline_names[shape.kind];
    double n_actions = 0;
    for (int d = 0; d < p->n_replicas && !status; d++) {
        const struct yokei_plan_rank *r = rank_at(plan, p, d * pp);
        struct yokei_schedule one = { 0, NULL };
        shape.n_micro_batches = yokei_n_micro_batches(r->samples, YOKE_MAX(r->micro_batch, 1));
        if (!d) p->n_micro_batches = shape.n_micro_batches;
        n_actions += (double)pp * chunks * shape.n_micro_batches;
        status = n_actions <= MOST_ACTIONS
                     ? lines_of_replica(plan, &shape, d, p->mesh.data, &one)
                     : yoke_fail(YOKE_EUNSUPPORTED, "the schedule has more than %d passes", MOST_ACTIONS);
        for (int s = 0; s < pp && !status; s++) {
            status = yokei_schedule_add_line(&p->schedule);
            if (status) break;
            struct yokei_actions empty = p->schedule.rank[d * pp + s];
            p->schedule.rank[d * pp + s] = one.rank[s];
            one.rank[s] = empty;
        }
        yokei_schedule_free(&one);
    }
    free(recompute);
    return status;
}

/* ---- the costs ---- */

static double seconds_of(const struct yokei_plan_rank *rank, enum planned_times times)
{
    return times == PLANNED_MEASURED ? rank->measured_seconds : rank->predicted_seconds;
}

static enum planned_times times_of(const struct yokei_plan *plan, const struct planned *p)
{
    for (int times = PLANNED_MEASURED; times > PLANNED_NO_TIMES; times--) {
        int line = 0;
        while (line < p->n_lines && seconds_of(rank_at(plan, p, line), (enum planned_times)times) > 0) line++;
        if (line == p->n_lines) return (enum planned_times)times;
    }
    return PLANNED_NO_TIMES;
}

static bool is_pass(const struct yokei_action *a) { return a->kind <= YOKEI_ACTION_R; }

static yoke_status make_costs(const struct yokei_plan *plan, struct planned *p)
{
    const int chunks = p->mesh.chunks;
    YOKE_TRY(yokei_costs_equal(p->n_lines, chunks, 1, 1, 1, 0, &p->costs));
    p->costs.n_stages = p->mesh.pipeline;
    p->costs.n_replicas = p->n_replicas;
    p->times = times_of(plan, p);
    for (int line = 0; line < p->n_lines && p->times; line++) {
        int64_t n = 0;
        for (int i = 0; i < p->schedule.rank[line].n; i++) n += is_pass(&p->schedule.rank[line].action[i]);
        const double pass = seconds_of(rank_at(plan, p, line), p->times) / (double)YOKE_MAX(n, 1);
        for (int c = 0; c < chunks; c++) {
            struct yokei_chunk_costs *costs = &p->costs.chunk[line * chunks + c];
            costs->F = costs->B = costs->W = costs->R = pass;
        }
    }
    return YOKE_OK;
}

/*
 * Simulate the step of a plan, of all replicas or of replica 0 alone. The passes F, B, W and R of a rank
 * are taken as equally long. Their sum is the time that the rank computes in a step. If the plan does not
 * have this time for all ranks, a pass of a micro-batch through a stage takes 1. Why there is no simulation
 * is noted in p->problem. The caller calls planned_free().
 */
static void planned_make(const struct yokei_plan *plan, bool all_replicas, struct planned *p)
{
    *p = (struct planned){ .kind = "" };
    yoke_status status = lay_mesh(plan, p);
    if (!status) {
        p->n_replicas = all_replicas ? p->mesh.data : 1;
        p->n_lines = p->n_replicas * p->mesh.pipeline;
        status = make_schedule(plan, p);
    }
    if (!status) status = make_costs(plan, p);
    if (!status) status = yokei_simulate(&p->schedule, &p->costs, &p->simulated);
    if (status) yokei_text(p->problem, sizeof p->problem, "%s", yoke_last_error());
}

static void planned_free(struct planned *p)
{
    yokei_simulated_free(&p->simulated);
    yokei_costs_free(&p->costs);
    yokei_schedule_free(&p->schedule);
    free(p->widths);
    free(p->rank_of);
}

/* ---- lanes ---- */

static const char *unit_of(const struct planned *p)
{
    return p->times ? "milliseconds" : "passes of a micro-batch through a stage";
}

static double factor_of(const struct planned *p) { return p->times ? 1e3 : 1; }

static void name_box(const struct planned *p, const struct yokei_action *a, struct lane_box *box)
{
    const struct cli_schedule named = { .shape = { .n_chunks = p->mesh.chunks } };
    cli_action_label(&named, a, box->text, sizeof box->text);
}

static yoke_status fill_lane(const struct planned *p, int line, struct lane *lane)
{
    static const enum report_work_kind kinds[] = { [YOKEI_ACTION_F] = REPORT_WORK_F,
                                                   [YOKEI_ACTION_B] = REPORT_WORK_B,
                                                   [YOKEI_ACTION_W] = REPORT_WORK_W,
                                                   [YOKEI_ACTION_R] = REPORT_WORK_R };
    lane->mark = NAN;
    for (int i = 0; i < p->schedule.rank[line].n; i++) {
        const struct yokei_action *a = &p->schedule.rank[line].action[i];
        const struct yokei_span *span = &p->simulated.stage[line].span[i];
        if (!is_pass(a) || !(span->end > span->start)) continue;
        struct lane_box box = { factor_of(p) * span->start, factor_of(p) * span->end, (int)kinds[a->kind], 1,
                                "" };
        name_box(p, a, &box);
        YOKE_TRY(lane_add(lane, &box));
    }
    return YOKE_OK;
}

static void say_times(struct report_page *page, const struct planned *p)
{
    static const char *const from[] = {
        [PLANNED_NO_TIMES] = "The plan has no times of the ranks, so each pass of a micro-batch takes 1.",
        [PLANNED_PREDICTED] = "The times are those that were predicted for each rank before the run.",
        [PLANNED_MEASURED] = "The times are those that each rank needed for its passes in the run.",
    };
    report_paragraph(page, "%s F, B, W and R of a rank are taken as equally long, and messages as free.",
                     from[p->times]);
}

/* ---- the pipeline schedule ---- */

static void schedule_table(struct report_page *page, const struct yokei_plan *plan, const struct planned *p,
                           int n)
{
    static const char *const heads[] = { "stage", "device", "computes", "idle, %",
                                         "micro-batches held at most" };
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int s = 0; s < n; s++) {
        const struct yokei_stage_times *x = &p->simulated.stage[s];
        report_row_begin(page);
        report_number(page, s, "%.0f");
        report_cell(page, rank_at(plan, p, s)->device);
        report_number(page, factor_of(p) * x->busy, "%.5g");
        report_number(page, 100 * x->idle, "%.4g");
        report_number(page, x->peak, "%.4g");
        report_row_end(page);
    }
    report_table_end(page);
}

static void put_schedule(struct report_page *page, const struct yokei_plan *plan, const struct planned *p)
{
    const int n = YOKE_MIN(p->mesh.pipeline, MOST_LANES);
    struct lane *lanes = calloc((size_t)n, sizeof *lanes);
    char title[256];
    double end = 0;
    if (!lanes) return;
    for (int s = 0; s < n; s++) {
        yokei_text(lanes[s].label, sizeof lanes[s].label, "stage %d", s);
        if (fill_lane(p, s, &lanes[s])) break;
    }
    for (int s = 0; s < p->mesh.pipeline; s++) end = fmax(end, factor_of(p) * p->simulated.stage[s].last);
    yokei_text(title, sizeof title,
               "The schedule %s of %d stages and %d micro-batches has a bubble of %.4g %%.", p->kind,
               p->mesh.pipeline, p->n_micro_batches, 100 * p->simulated.bubble);
    if (n < p->mesh.pipeline)
        report_paragraph(page, "The page shows the first %d of %d stages.", n, p->mesh.pipeline);
    const int64_t merged = lanes_chart(
        page, &(struct lanes){
                  .title = title,
                  .description = "A row for each stage of the first replica. A box is a pass of a "
                                 "micro-batch; its number counts from 1. The table below has the times.",
                  .unit = unit_of(p),
                  .lanes = lanes,
                  .n = n,
                  .kinds = report_work_kinds,
                  .n_kinds = REPORT_N_WORK_KINDS,
                  .end = end,
                  .is_labelled = true });
    if (merged)
        report_paragraph(
            page, "%" PRId64 " passes were merged with others that begin at about the same time.", merged);
    say_times(page, p);
    report_paragraph(page,
                     "The bubble is the part of the time in which a stage does no F, B or W, as the mean "
                     "of all stages. The column \"computes\" has %s.",
                     unit_of(p));
    schedule_table(page, plan, p, n);
    for (int s = 0; s < n; s++) lane_free(&lanes[s]);
    free(lanes);
}

void report_schedule_section(struct report_page *page, const struct yokei_plan *plan)
{
    struct planned p;
    if (plan->pipeline < 2) return;
    planned_make(plan, false, &p);
    report_heading(page, "Pipeline schedule");
    if (p.problem[0])
        report_paragraph(page, "The schedule cannot be shown: %s.", p.problem);
    else
        put_schedule(page, plan, &p);
    planned_free(&p);
}

/* ---- the simulated step ---- */

/* The line whose rank is idle longest, and the share of the step in which it computes nothing. */
static int idlest(const struct planned *p, double *share_out)
{
    int line = 0;
    for (int l = 1; l < p->n_lines; l++)
        if (p->simulated.stage[l].busy < p->simulated.stage[line].busy) line = l;
    *share_out = 1 - p->simulated.stage[line].busy / p->simulated.total;
    return line;
}

static void planned_table(struct report_page *page, const struct yokei_plan *plan, const struct planned *p,
                          const int64_t *chosen, int n)
{
    static const char *const heads[] = { "rank", "replica", "stage", "device", "computes", "idle, %" };
    const int pp = p->mesh.pipeline;
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int i = 0; i < n; i++) {
        const int line = (int)chosen[i];
        report_row_begin(page);
        report_number(page, (double)(rank_at(plan, p, line) - plan->ranks), "%.0f");
        report_number(page, line / pp, "%.0f");
        report_number(page, line % pp, "%.0f");
        report_cell(page, rank_at(plan, p, line)->device);
        report_number(page, factor_of(p) * p->simulated.stage[line].busy, "%.5g");
        report_number(page, 100 * (1 - p->simulated.stage[line].busy / p->simulated.total), "%.4g");
        report_row_end(page);
    }
    report_table_end(page);
}

static void put_planned(struct report_page *page, const struct yokei_plan *plan, const struct planned *p,
                        const int64_t *chosen, int n)
{
    struct lane *lanes = calloc((size_t)n, sizeof *lanes);
    char title[256], part[96] = "";
    double share;
    const int line = idlest(p, &share);
    if (!lanes) return;
    for (int i = 0; i < n; i++) {
        yokei_text(lanes[i].label, sizeof lanes[i].label, "rank %d",
                   (int)(rank_at(plan, p, (int)chosen[i]) - plan->ranks));
        if (fill_lane(p, (int)chosen[i], &lanes[i])) break;
    }
    if (p->n_lines > 1)
        yokei_text(part, sizeof part, "; rank %d computes nothing for %.3g %% of it",
                   (int)(rank_at(plan, p, line) - plan->ranks), 100 * share);
    yokei_text(title, sizeof title, "The simulated passes of a step take %.4g %s%s.",
               factor_of(p) * p->simulated.total, p->times ? "ms" : "passes", part);
    lanes_chart(page,
                &(struct lanes){ .title = title,
                                 .description = "A row for each stage of each replica, named by its first "
                                                "rank. A box is a pass of a micro-batch. The table below has "
                                                "the times.",
                                 .unit = unit_of(p),
                                 .lanes = lanes,
                                 .n = n,
                                 .kinds = report_work_kinds,
                                 .n_kinds = REPORT_N_WORK_KINDS,
                                 .end = factor_of(p) * p->simulated.total });
    for (int i = 0; i < n; i++) lane_free(&lanes[i]);
    free(lanes);
}

void report_planned_section(struct report_page *page, const struct yokei_plan *plan)
{
    struct planned p;
    int64_t chosen[MOST_LANES];
    double *busy = NULL;
    planned_make(plan, true, &p);
    report_heading(page, "The simulated step");
    if (p.problem[0] || !(p.simulated.total > 0) || !(busy = calloc((size_t)p.n_lines, sizeof *busy)))
        report_paragraph(page, "The step cannot be simulated: %s.",
                         p.problem[0] ? p.problem : "it takes no time");
    else {
        for (int l = 0; l < p.n_lines; l++) busy[l] = p.simulated.stage[l].busy;
        const int n = report_choose(busy, p.n_lines, MOST_LANES, chosen);
        report_chosen_text(page, n, p.n_lines, "that compute");
        put_planned(page, plan, &p, chosen, n);
        say_times(page, &p);
        planned_table(page, plan, &p, chosen, n);
    }
    free(busy);
    planned_free(&p);
}
