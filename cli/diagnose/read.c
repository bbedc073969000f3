/* SPDX-License-Identifier: Apache-2.0 */
/* From a run directory to the facts of the diagnosis. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/diagnose.h"
#include "core/base/base.h"

void diagnose_problem(struct diagnose_run *run, const char *format, ...)
{
    va_list args;
    if (run->n_problems == DIAGNOSE_MOST_PROBLEMS) return;
    va_start(args, format);
    vsnprintf(run->problems[run->n_problems++], sizeof run->problems[0], format, args);
    va_end(args);
}

/* ---- the plan ---- */

/* The rank of the plan that is rank `r` of the run. Ranks without samples are left out of the run. */
static const struct yokei_plan_rank *plan_rank(const struct yokei_plan *p, int r)
{
    for (int64_t i = 0; i < p->n_ranks; i++)
        if (p->ranks[i].samples > 0 && r-- == 0) return &p->ranks[i];
    return NULL;
}

static int count_ranks(const struct yokei_plan *p)
{
    int n = 0;
    for (int64_t i = 0; i < p->n_ranks; i++) n += p->ranks[i].samples > 0;
    return n;
}

static yoke_status find_blocks(struct diagnose_run *run)
{
    const struct yokei_plan *p = &run->plan;
    const int64_t n = p->pipeline, all = yokei_model_n_layers(yokei_plan_model(p));
    if (p->layers[0] && p->chunks == 1) return yokei_plan_numbers("layers", p->layers, (int)n, &run->blocks);
    if (p->chunks > 1) return YOKE_OK;
    run->blocks = calloc((size_t)n + 1, sizeof *run->blocks);
    if (!run->blocks) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %lld stages", (long long)n);
    for (int64_t s = 0; s < n; s++) run->blocks[s] = all / n + (s < all % n);
    return YOKE_OK;
}

/* The places of the ranks on the mesh, and their shares. */
static yoke_status place(struct diagnose_run *run)
{
    const struct yokei_plan *p = &run->plan;
    struct yokei_facts *f = &run->facts;
    struct yokei_mesh mesh;
    int *widths = NULL;
    YOKE_TRY(yokei_plan_widths(p, &widths));
    yoke_status status = yokei_mesh_create(f->n_ranks, 0, 0, (int)p->pipeline, (int)p->tensor, widths,
                                           (int)p->chunks, &mesh);
    if (!status) {
        f->data = mesh.data, f->pipeline = mesh.pipeline, f->tensor = 1, f->chunks = mesh.chunks;
        run->shares = calloc((size_t)f->data + 1, sizeof *run->shares);
        if (!run->shares) status = yoke_fail(YOKE_ENOMEM, "diagnose: no memory for shares");
    }
    for (int r = 0; r < f->n_ranks && !status; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&mesh, r);
        const struct yokei_plan_rank *from = plan_rank(p, r);
        struct yokei_facts_rank *to = &f->rank[r];
        to->d = at.d, to->s = at.s, to->t = at.t;
        to->threads = (int)YOKE_MIN(from->threads, 100000);
        f->tensor = YOKE_MAX(f->tensor, yokei_mesh_width(&mesh, at.s));
        f->samples = YOKE_MAX(f->samples, from->samples);
        run->shares[at.d] = from->samples;
        /* without a timeline, the work of other stages is unknown */
        to->work = (double)from->samples / yokei_mesh_width(&mesh, at.s);
        f->micro_batch = YOKE_MAX(f->micro_batch, from->micro_batch);
    }
    free(widths);
    return status;
}

static yoke_status use_plan(struct diagnose_run *run)
{
    const struct yokei_plan *p = &run->plan;
    struct yokei_facts *f = &run->facts;
    if (count_ranks(p) != f->n_ranks) {
        diagnose_problem(
            run, "plan.json has %d ranks with work, and metrics.jsonl has %d, so the plan is not used",
            count_ranks(p), f->n_ranks);
        run->has_plan = false;
        return YOKE_OK;
    }
    yoke_status status = place(run);
    if (!status) status = find_blocks(run);
    if (!status) status = yokei_pipeline_named(p->schedule[0] ? p->schedule : NULL, (int)p->chunks, &f->kind);
    f->has_own_schedule = p->schedule_text != NULL;
    f->bucket_bytes = (double)p->bucket_bytes;
    f->no_stage_peers = true;
    f->blocks = run->blocks, f->shares = run->shares;
    return status;
}

/* ---- run.json ---- */

static void use_record(struct diagnose_run *run)
{
    struct yokei_facts *f = &run->facts;
    const json_t *ranks = json_object_get(run->record.root, "ranks");
    bool one_host = true, all_host = true;
    for (int r = 0; r < f->n_ranks; r++) {
        const struct yokei_plan_rank *from = run->has_plan ? plan_rank(&run->plan, r) : NULL;
        const int64_t job = from && from->job_rank >= 0 ? from->job_rank : r;
        const json_t *place = json_array_get(ranks, (size_t)job);
        const char *host = json_string_value(json_object_get(place, "host"));
        struct yokei_facts_rank *to = &f->rank[r];
        yokei_text(to->host, sizeof to->host, "%s", host ? host : "");
        to->cores = (int)json_integer_value(json_object_get(place, "host_processors"));
        one_host = one_host && !strcmp(to->host, f->rank[0].host);
        all_host = all_host && !strcmp(to->device, "host");
    }
    f->cannot_overlap = one_host && all_host;
}

/* ---- the timeline ---- */

static yoke_status use_timeline(struct diagnose_run *run)
{
    char path[4400];
    struct yokei_facts *f = &run->facts;
    struct diagnose_timeline *d = &run->timeline;
    if (!report_record_timeline(&run->record, run->name, path, sizeof path) || !yokei_is_there(path)) {
        diagnose_problem(
            run, "there is no timeline (yoke train --trace), so messages and sums are not told apart: slow "
                 "links, small buckets and lost overlap are not looked for");
        return YOKE_OK;
    }
    const yoke_status status = diagnose_timeline_read(path, d);
    if (status == YOKE_ENOMEM) return status;
    if (status) {
        diagnose_problem(run, "%s; so slow links, small buckets and lost overlap are not looked for",
                         yoke_last_error());
        return YOKE_OK;
    }
    const struct yokei_mesh *m = &d->timeline.mesh;
    if (d->timeline.n_ranks != f->n_ranks
        || (run->has_plan && (m->data != f->data || m->pipeline != f->pipeline))) {
        diagnose_problem(run, "%s: it has other ranks than metrics.jsonl, so it is not used", path);
        return YOKE_OK;
    }
    f->data = m->data, f->pipeline = m->pipeline, f->chunks = m->chunks;
    for (int r = 0; r < f->n_ranks; r++) {
        const struct yokei_timeline_rank *from = &d->timeline.rank[r];
        struct yokei_facts_rank *to = &f->rank[r];
        to->d = from->d, to->s = from->s, to->t = from->t;
        if (!to->host[0]) yokei_text(to->host, sizeof to->host, "%s", from->host);
        if (d->flops[r] > 0) to->work = d->flops[r];
        f->tensor = YOKE_MAX(f->tensor, from->t + 1);
    }
    f->no_stage_peers = false;
    f->costs = &d->simulation.costs, f->schedule = &d->simulation.schedule;
    f->sum_bytes = d->sum_bytes, f->hop_bytes = d->hop_bytes;
    return YOKE_OK;
}

/* ---- the whole run ---- */

static yoke_status read_plan(struct diagnose_run *run)
{
    char path[4200];
    yokei_text(path, sizeof path, "%s/plan.json", run->name);
    run->plan = (struct yokei_plan)YOKEI_PLAN_INIT;
    const yoke_status status = yokei_plan_read(path, &run->plan);
    run->has_plan = !status;
    if (status == YOKE_ENOMEM) return status;
    if (status)
        diagnose_problem(run, "%s; so micro-batches, buckets and shares are unknown", yoke_last_error());
    return YOKE_OK;
}

static yoke_status read_rows(struct diagnose_run *run)
{
    char path[4200];
    struct yokei_facts_rows *rows;
    struct yokei_metrics_rows kept;
    yokei_text(path, sizeof path, "%s/metrics.jsonl", run->name);
    YOKE_TRY(yokei_facts_begin(run->has_plan && run->plan.pipeline > 1, &rows));
    yoke_status status = yokei_metrics_read(path, yokei_facts_row, rows, &kept);
    if (status == YOKE_EDATA && kept.n) {
        diagnose_problem(run, "%s; only the %zu rows before it are used", yoke_last_error(), kept.n);
        status = YOKE_OK;
    }
    if (!status && kept.cut)
        diagnose_problem(
            run, "%s: the last line is cut, because the run was killed or still runs; it is left out", path);
    free(kept.rows);
    if (!status && yokei_facts_end(rows, &run->facts))
        status = yoke_fail(YOKE_EDATA, "%s: %s", path, yoke_last_error());
    yokei_facts_free(rows);
    return status;
}

static void look_at_rows(struct diagnose_run *run)
{
    const struct yokei_facts *f = &run->facts;
    if (f->n_rows < 2)
        diagnose_problem(run, "metrics.jsonl has one row, so the warm-up is not told from a steady step");
    else if (f->n_steady < 5)
        diagnose_problem(run, "only %lld steady steps were measured, so the seconds are rough",
                         (long long)f->n_steady);
    if (isnan(f->rank[0].busy))
        diagnose_problem(run, "rows of metrics.jsonl lack busy_seconds, so the time of passes is unknown");
    if (isnan(f->rank[0].queued))
        diagnose_problem(
            run, "rows of metrics.jsonl lack queued_seconds, so a busy core looks like a slow device");
}

yoke_status diagnose_read(const char *folder, struct diagnose_run *run)
{
    *run = (struct diagnose_run){ .name = folder };
    struct yokei_facts *f = &run->facts;
    f->data = f->pipeline = f->tensor = f->chunks = 1;
    f->kind = YOKEI_PIPELINE_1F1B;
    YOKE_TRY(read_plan(run));
    YOKE_TRY(read_rows(run));
    f->data = f->n_ranks; /* without a plan */
    for (int r = 0; r < f->n_ranks; r++) f->rank[r].d = r;
    run->has_rows = true;
    report_record_read(folder, &run->record);
    if (run->record.problem[0])
        diagnose_problem(run, "%.300s; so hosts and cores are unknown", run->record.problem);
    if (run->has_plan) YOKE_TRY(use_plan(run));
    use_record(run);
    YOKE_TRY(use_timeline(run));
    look_at_rows(run);
    const yoke_status status = yokei_diagnose(f, &run->found);
    if (status == YOKE_ECONFIG) return yoke_fail(YOKE_EDATA, "%s: %s", folder, yoke_last_error());
    return status;
}

void diagnose_free(struct diagnose_run *run)
{
    yokei_plan_free(&run->plan);
    report_record_free(&run->record);
    diagnose_timeline_free(&run->timeline);
    yokei_costs_free(&run->costs);
    yokei_schedule_free(&run->schedule);
    free(run->sum_bytes);
    free(run->hop_bytes);
    free(run->facts.rank);
    free(run->blocks);
    free(run->shares);
}
