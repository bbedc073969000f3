/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure every variant of an operation at every size. First each variant is measured briefly. Then the
 * variants that may win are tested for conformance. Then the remaining variants are measured in turn.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tune/tune.h"
#include "core/base/base.h"
#include "core/tune.h"

/*
 * In the first, brief measurement a variant is dropped if it takes more than HOPELESS times as long as the
 * default. If it takes more than BY_FAR times as long, it is not even measured at the next greater size,
 * where it may take minutes.
 */
static const double HOPELESS = 1.5, BY_FAR = 8;

/* One variant of a problem that is open. */
struct runner {
    yoke_device *device;
    yoke_stream *stream;
    struct conform_problem *problem;
    const char *op, *variant; /* NULL: the built-in rule */
};

static yoke_status run_call(void *context, int n)
{
    const struct runner *r = context;
    YOKE_TRY(yoke_variant_force(r->device, r->op, r->variant));
    for (int i = 0; i < n; i++) YOKE_TRY(conform_problem_run(r->problem));
    return yoke_stream_sync(r->stream);
}

/* Reserve scratch memory for this variant. *offered_out: whether the variant supports the call. */
static yoke_status ready(struct runner *r, bool *offered_out)
{
    struct yoke_cost cost;
    YOKE_TRY(yoke_variant_force(r->device, r->op, r->variant));
    const yoke_status status = conform_problem_ready(r->problem, &cost);
    *offered_out = !status;
    return status == YOKE_EUNSUPPORTED ? YOKE_OK : status;
}

/* The best time of a few calls, after one call that may compile. */
static yoke_status best_of_few(struct runner *r, double *seconds_out)
{
    YOKE_TRY(run_call(r, 1));
    *seconds_out = INFINITY;
    for (int i = 0; i < 3; i++) {
        const uint64_t start = yokei_now_ns();
        YOKE_TRY(run_call(r, 1));
        *seconds_out = fmin(*seconds_out, (double)(yokei_now_ns() - start) * 1e-9);
        if (*seconds_out > 0.1) break;
    }
    return YOKE_OK;
}

/* Find which variant the built-in rule chooses at this size, and measure it. */
static yoke_status look_at_default(struct tune_matrix *m, int s, struct runner *r)
{
    struct tune_point *p = &m->point[s];
    r->variant = NULL;
    YOKE_TRY(ready(r, &p->offered));
    if (!p->offered) return YOKE_OK;
    YOKE_TRY(best_of_few(r, &p->seconds));
    const char *used = yokei_variant_used(r->device, m->op, &p->size, &p->edge);
    p->by_rule = yokei_variant_named(r->device, m->op, used);
    return YOKE_OK;
}

static yoke_status look_at_variant(struct tune_matrix *m, int s, int v, struct runner *r)
{
    struct tune_row *row = &m->cell[s][v];
    const struct tune_row *before = s ? &m->cell[s - 1][v] : row;
    bool offered;
    r->variant = m->variants[v];
    if (before->verdict == TUNE_SLOW
        && (before->seconds == 0 || before->seconds > BY_FAR * m->point[s - 1].seconds)) {
        row->verdict = TUNE_SLOW;
        return YOKE_OK;
    }
    YOKE_TRY(ready(r, &offered));
    if (!offered) return YOKE_OK; /* the verdict is TUNE_ABSENT already */
    const yoke_status status = best_of_few(r, &row->seconds);
    yokei_algorithm_used(r->device, m->op, row->algorithm, sizeof row->algorithm);
    if (status == YOKE_ENOMEM) return status;
    row->verdict = !status && row->seconds <= HOPELESS * m->point[s].seconds ? TUNE_KEPT_OUT : TUNE_SLOW;
    if (!status) return YOKE_OK;
    row->verdict = TUNE_REFUSED; /* offered, but fails to run */
    yokei_text(row->why, sizeof row->why, "%s: %s", yoke_status_name(status), yoke_last_error());
    return YOKE_OK;
}

static yoke_status look_at_size(struct tune_matrix *m, int s, yoke_device *device, yoke_stream *stream)
{
    struct runner r = { .device = device, .stream = stream, .op = yokei_op_names[m->op] };
    yoke_status status;
    YOKE_TRY(conform_problem_open(device, stream, m->op, m->dtype, m->sizes[s].dim, &r.problem));
    status = look_at_default(m, s, &r);
    for (int v = 0; v < m->n_variants && !status; v++) {
        m->cell[s][v] = (struct tune_row){ .op = m->op,
                                           .dtype = m->dtype,
                                           .size = &m->sizes[s],
                                           .variant = m->variants[v],
                                           .verdict = TUNE_ABSENT };
        if (!m->point[s].offered) continue;
        if (v == m->point[s].by_rule)
            m->cell[s][v].verdict = TUNE_DEFAULT, m->cell[s][v].seconds = m->point[s].seconds,
            m->cell[s][v].ratio = m->cell[s][v].best = 1;
        else
            status = look_at_variant(m, s, v, &r);
    }
    yoke_variant_force(device, r.op, NULL);
    conform_problem_close(r.problem);
    return status;
}

/* ---- conformance ---- */

static void keep_reason(void *context, const struct conform_line *line)
{
    char *why = context;
    if (line->verdict == CONFORM_FAIL && !why[0])
        yokei_text(why, 200, "%s%s%s: %s", line->worst_case, line->worst_output[0] ? ", " : "",
                   line->worst_output, line->reason);
}

/* Compare a variant that may win at some size with the reference. If it fails, it is refused at all sizes. */
static yoke_status hold_to_reference(struct tune_matrix *m, int v, yoke_device *device)
{
    bool may_win = false;
    char why[200] = "";
    struct conform_summary summary = { .size = sizeof summary };
    struct conform_options options = CONFORM_OPTIONS_INIT;
    for (int s = 0; s < m->n_sizes; s++) may_win |= m->cell[s][v].verdict == TUNE_KEPT_OUT;
    if (!may_win) return YOKE_OK;
    options.op = yokei_op_names[m->op];
    options.dtype = yoke_dtype_name(m->dtype);
    options.variant = m->variants[v];
    YOKE_TRY(conform_run(device, &options, keep_reason, why, &summary));
    if (summary.n_pass && !summary.n_fail) return YOKE_OK;
    if (!why[0]) yokei_text(why, sizeof why, "no case of the conformance sweep ran");
    for (int s = 0; s < m->n_sizes; s++) {
        struct tune_row *row = &m->cell[s][v];
        if (row->verdict == TUNE_ABSENT || row->verdict == TUNE_DEFAULT)
            continue; /* yoke verify judges the default */
        row->verdict = TUNE_REFUSED;
        row->seconds = 0;
        yokei_text(row->why, sizeof row->why, "%s", why);
    }
    return YOKE_OK;
}

/* ---- in turn ---- */

static yoke_status measure_size(struct tune_matrix *m, int s, yoke_device *device, yoke_stream *stream,
                                double seconds)
{
    static double times[TUNE_MOST_VARIANTS + 1][KERNELS_MOST_ROUNDS];
    struct runner runners[TUNE_MOST_VARIANTS + 1];
    struct kernels_side sides[TUNE_MOST_VARIANTS + 1];
    struct tune_row *rows[TUNE_MOST_VARIANTS + 1] = { NULL };
    struct conform_problem *problem;
    int n = 0, rounds;
    bool offered;
    yoke_status status = YOKE_OK;
    for (int v = -1; v < m->n_variants; v++) { /* -1: the built-in rule */
        if (v >= 0 && m->cell[s][v].verdict != TUNE_KEPT_OUT) continue;
        rows[n] = v < 0 ? NULL : &m->cell[s][v];
        runners[n] = (struct runner){ device, stream, NULL, yokei_op_names[m->op],
                                      v < 0 ? NULL : m->variants[v] };
        sides[n] = (struct kernels_side){ .run = run_call, .context = &runners[n], .times = times[n] };
        n++;
    }
    if (n < 2 || !m->point[s].offered) return YOKE_OK;
    YOKE_TRY(conform_problem_open(device, stream, m->op, m->dtype, m->sizes[s].dim, &problem));
    for (int i = 0; i < n && !status; i++) {
        runners[i].problem = problem;
        status = ready(&runners[i], &offered);
    }
    if (!status) status = kernels_measure(sides, n, seconds, &rounds);
    for (int i = 1; i < n && !status; i++) {
        rows[i]->seconds = sides[i].median;
        const double ratio = kernels_ratio(times[0], times[i], rounds),
                     best = kernels_least_ratio(times[0], times[i], rounds);
        rows[i]->ratio = rows[i]->ratio > 0 ? fmin(rows[i]->ratio, ratio) : ratio;
        rows[i]->best = rows[i]->best > 0 ? fmin(rows[i]->best, best) : best;
    }
    if (!status) m->point[s].seconds = sides[0].median;
    if (!status && m->point[s].by_rule >= 0) m->cell[s][m->point[s].by_rule].seconds = sides[0].median;
    yoke_variant_force(device, yokei_op_names[m->op], NULL);
    conform_problem_close(problem);
    return status;
}

/* About the shares of the first look and of conformance in the time. They depend on the device. */
static const double LOOK = 0.2, CONFORM = 0.3;

static void show(const struct tune_matrix *m, const struct tune_share *share, double done, const char *what,
                 const char *name)
{
    cli_progress_now("%s %s, %s: %s", yokei_op_names[m->op], yoke_dtype_name(m->dtype), what, name);
    cli_progress_at(share->done + done * share->here, share->all);
}

yoke_status tune_measure(yoke_device *device, yoke_stream *stream, enum yoke_op_id op, yoke_dtype dtype,
                         const struct conform_size *sizes, int n_sizes, double seconds,
                         const struct tune_share *share, struct tune_matrix *out)
{
    *out = (struct tune_matrix){ .op = op, .dtype = dtype, .sizes = sizes, .n_sizes = n_sizes };
    const char *name;
    while (out->n_variants < TUNE_MOST_VARIANTS
           && (name = yoke_variant_name(device, yokei_op_names[op], out->n_variants)))
        out->variants[out->n_variants++] = name;
    for (int s = 0; s < n_sizes; s++) out->chosen[s] = YOKEI_BY_RULE;
    if (out->n_variants < 2) return YOKE_OK;
    for (int s = 0; s < n_sizes; s++) {
        show(out, share, 0 + LOOK * s / n_sizes, "a first look", sizes[s].name);
        YOKE_TRY(look_at_size(out, s, device, stream));
    }
    for (int v = 0; v < out->n_variants; v++) {
        show(out, share, LOOK + CONFORM * v / out->n_variants, "conformance", out->variants[v]);
        YOKE_TRY(hold_to_reference(out, v, device));
    }
    /*
     * Measure twice, in newly allocated memory, because the place of the memory may matter more than the
     * variant. The lower factor counts.
     */
    for (int pass = 0; pass < 2; pass++)
        for (int s = 0; s < n_sizes; s++) {
            show(out, share, LOOK + CONFORM + (1 - LOOK - CONFORM) * (pass * n_sizes + s) / (2 * n_sizes),
                 "in turn", sizes[s].name);
            YOKE_TRY(measure_size(out, s, device, stream, seconds / 2));
        }
    return YOKE_OK;
}
