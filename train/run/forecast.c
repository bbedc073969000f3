/* SPDX-License-Identifier: Apache-2.0 */
/* Plan a run without its ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/simulate.h"
#include "train/run/forecast.h"

/* The state that the functions of this file share. */
struct forecast {
    struct yokei_run_state s;
    struct yoke_trainer_config config; /* its micro-batch is set for each rank in turn */
    yoke_device *const *device;
    int n_devices;
    struct yokei_planned_ranks planned;
    struct yokei_forecast *f;
};

static yoke_device *device_of(const struct forecast *w, int r) { return w->device[r % w->n_devices]; }

static yoke_status begin(struct forecast *w, struct yokei_training *t, int n_ranks)
{
    struct yokei_run_state *s = &w->s;
    const size_t n = (size_t)n_ranks;
    s->t = t;
    s->n_ranks = n_ranks;
    s->ranks = calloc(n, sizeof *s->ranks);
    s->shares = calloc(n, sizeof *s->shares);
    s->threads = calloc(n, sizeof *s->threads);
    w->f->rank = calloc(n, sizeof *w->f->rank);
    w->f->memory = calloc(n, sizeof *w->f->memory);
    if (!s->ranks || !s->shares || !s->threads || !w->f->rank || !w->f->memory)
        return yoke_fail(YOKE_ENOMEM, "plan: no host memory for %d ranks", n_ranks);
    for (int r = 0; r < n_ranks; r++)
        yokei_text(s->ranks[r].device, sizeof s->ranks[r].device, "%s",
                   yoke_device_info(device_of(w, r))->spec);
    const yoke_status divided = yokei_run_divide_planned(s);
    w->f->widths = s->widths; /* the forecast frees it, also after an error */
    YOKE_TRY(divided);
    for (int r = 0; r < n_ranks; r++)
        if (!s->shares[r])
            return yoke_fail(
                YOKE_ECONFIG,
                "plan: rank %d is given no sequences: yoke train leaves such ranks out of everything; plan for the others alone",
                r);
    YOKE_TRY(yokei_model_create(yokei_plan_model(&t->plan), &s->model));
    w->config = yokei_run_trainer_config(s);
    w->f->n_ranks = n_ranks;
    w->f->mesh = s->mesh;
    w->f->n_elements = yoke_model_n_elements(s->model);
    const char *kind = t->plan.schedule_text ? "from a file"
                       : t->plan.schedule[0] ? t->plan.schedule
                                             : yokei_pipeline_names[yokei_pipeline_default(s->mesh.chunks)];
    yokei_text(w->f->schedule, sizeof w->f->schedule, "%s", s->mesh.pipeline == 1 ? "none" : kind);
    return YOKE_OK;
}

static void list_layers(const yoke_model *model, const struct yokei_trainer_plan *p,
                        struct yokei_forecast_rank *out)
{
    for (int k = 0; k < p->mesh.chunks; k++) {
        const struct yokei_chunk *c = &p->chunk[k];
        const size_t at = strlen(out->layers);
        out->n_layers += c->end - c->first;
        yokei_text(out->layers + at, sizeof out->layers - at, "%s%s .. %s", k ? ", " : "",
                   yoke_model_layer(model, c->first)->name, yoke_model_layer(model, c->end - 1)->name);
    }
}

static yoke_status plan_rank(struct forecast *w, int r, bool *recomputes)
{
    struct yokei_forecast_rank *out = &w->f->rank[r];
    struct yokei_trainer_plan at;
    struct yokei_planned p;
    struct yoke_trainer_config c = w->config;
    c.micro_batch = w->s.t->plan.ranks[r].micro_batch;
    YOKE_TRY(yokei_planned_rank(&w->planned, w->s.model, device_of(w, r), &c, r, w->f->n_ranks, &at, &p));
    *out = (struct yokei_forecast_rank){ .at = yokei_mesh_at(&w->f->mesh, r),
                                         .samples = p.samples,
                                         .micro_batch = p.micro_batch,
                                         .n_micro_batches = p.n_micro_batches,
                                         .n_elements = p.n_elements,
                                         .flops = p.flops,
                                         .recomputed = p.recomputed };
    list_layers(w->s.model, &at, out);
    memcpy(recomputes, at.stage_recomputes, (size_t)at.mesh.pipeline * sizeof *recomputes);
    const yoke_status status = yokei_memory_of_rank(&c, device_of(w, r), &p, &w->f->memory[r]);
    /* the free memory of a device changes all the time; all ranks of a device get the same number */
    if (r >= w->n_devices) w->f->memory[r].have = w->f->memory[r % w->n_devices].have;
    yokei_trainer_plan_free(&at);
    return status;
}

/*
 * The schedule lines of replica 0, given by the user or generated. A given schedule is stored in users_out,
 * which owns the lines.
 */
static yoke_status schedule_of(const struct forecast *w, const struct yokei_pipeline *shape,
                               struct yokei_schedule *users_out, struct yokei_schedule *out)
{
    if (!w->config.schedule) return yokei_schedule_pipeline(shape, out);
    YOKE_TRY(yokei_schedule_parse(w->config.schedule, "schedule", users_out));
    *out = (struct yokei_schedule){ shape->n_stages, users_out->rank };
    return YOKE_OK;
}

static yoke_status simulate(struct forecast *w, const bool *recomputes, const struct yokei_forecast_costs *x)
{
    const struct yokei_mesh *m = &w->f->mesh;
    struct yokei_pipeline shape = { .n_stages = m->pipeline,
                                    .n_chunks = m->chunks,
                                    .n_micro_batches = w->f->rank[0].n_micro_batches,
                                    .recompute = recomputes };
    struct yokei_schedule schedule = { 0, NULL }, users = { 0, NULL };
    struct yokei_costs costs = { 0 };
    struct yokei_simulated simulated = { 0 };
    if (m->pipeline == 1) return YOKE_OK;
    /* the planner has refused unknown names */
    while (!w->config.schedule && strcmp(yokei_pipeline_names[shape.kind], w->f->schedule)) shape.kind++;
    yoke_status status = schedule_of(w, &shape, &users, &schedule);
    if (!status) status = yokei_costs_equal(m->pipeline, m->chunks, x->F, x->B, x->W, x->hop, &costs);
    if (!status) status = yokei_simulate(&schedule, &costs, &simulated);
    if (!status) w->f->bubble = simulated.bubble;
    yokei_simulated_free(&simulated);
    yokei_costs_free(&costs);
    yokei_schedule_free(users.rank ? &users : &schedule);
    return status;
}

/* ---- whether it fits ---- */

struct question {
    const struct forecast *w;
    const struct yokei_memory_run *run;
    int first; /* a rank that lacks most */
};

/*
 * Begin with the ranks that lack most now. They soon show that a change is not enough, and then the other
 * ranks need not be planned.
 */
static yoke_status ask_here(void *context, const struct yoke_trainer_config *config, int n_planned,
                            double enough, double *need_out)
{
    const struct question *a = context;
    const int n = a->run->n_ranks;
    for (int r = 0; r < n; r++) need_out[r] = 0;
    for (int i = 0; i < n; i++) {
        const int like = (a->first + i) % n;
        for (int r = like; r < n_planned; r += n)
            need_out[like] = fmax(need_out[like],
                                  yokei_memory_asked(a->run, device_of(a->w, like), config, r, n_planned));
        if (isfinite(enough) && yokei_memory_shortage_at(a->run->ranks, need_out, n, like) >= enough) break;
    }
    return YOKE_OK;
}

static yoke_status judge(struct forecast *w)
{
    struct yokei_forecast *f = w->f;
    int rank;
    f->fits = yokei_memory_shortage(f->memory, NULL, f->n_ranks, &rank, NULL) <= 0;
    if (f->fits) return YOKE_OK;
    const struct yokei_memory_run run = {
        w->s.model, &w->config, &f->mesh, f->memory, f->n_ranks, &w->planned
    };
    yokei_memory_refuse(&run, ask_here, &(struct question){ w, &run, rank });
    yokei_text(f->why, sizeof f->why, "%s", yoke_last_error());
    return YOKE_OK;
}

/* Choose slices by free memory, as the ranks would choose them. */
static yoke_status plan_by_memory(struct forecast *w, bool *recomputes)
{
    struct yokei_run_state *s = &w->s;
    bool uneven = false;
    if (!w->config.zero || w->config.zero_shares || s->mesh.data == 1) return YOKE_OK;
    s->zero_shares = calloc((size_t)s->mesh.data, sizeof *s->zero_shares);
    if (!s->zero_shares) return yoke_fail(YOKE_ENOMEM, "plan: no host memory for %d replicas", s->mesh.data);
    YOKE_TRY(yokei_zero_choose(&s->mesh, w->f->memory, s->zero_shares, &uneven));
    if (!uneven) return YOKE_OK;
    w->config.zero_shares = s->zero_shares;
    for (int r = 0; r < w->f->n_ranks; r++) YOKE_TRY(plan_rank(w, r, recomputes));
    return yokei_run_write_zero(&s->t->plan, s->zero_shares, s->mesh.data);
}

static yoke_status keep_memory(struct yokei_plan *plan, const struct yokei_forecast *f)
{
    struct yoke_memory_report *list = calloc((size_t)f->n_ranks, sizeof *list);
    if (!list) return yoke_fail(YOKE_ENOMEM, "plan: no host memory for %d ranks", f->n_ranks);
    for (int r = 0; r < f->n_ranks; r++) list[r] = f->memory[r].report;
    free(plan->memory);
    plan->memory = list;
    plan->n_memory = f->n_ranks;
    return YOKE_OK;
}

yoke_status yokei_forecast(struct yokei_training *t, int n_ranks, yoke_device *const device[], int n_devices,
                           const struct yokei_forecast_costs *costs, struct yokei_forecast *out)
{
    struct forecast w = { .device = device, .n_devices = n_devices, .f = out };
    *out = (struct yokei_forecast){ 0 };
    yoke_status status = begin(&w, t, n_ranks);
    bool *recomputes = status ? NULL : calloc((size_t)out->mesh.pipeline, sizeof *recomputes);
    if (!status && !recomputes)
        status = yoke_fail(YOKE_ENOMEM, "plan: no host memory for %d stages", out->mesh.pipeline);
    for (int r = 0; r < n_ranks && !status; r++) status = plan_rank(&w, r, recomputes);
    if (!status) status = plan_by_memory(&w, recomputes);
    if (!status) status = simulate(&w, recomputes, costs);
    if (!status) status = judge(&w);
    if (!status) status = keep_memory(&t->plan, out);
    out->model_flops = (double)t->plan.batch * (double)t->plan.sequence
                       * yokei_model_flops(yokei_plan_model(&t->plan), t->plan.sequence);
    free(recomputes);
    yokei_planned_free(&w.planned);
    yoke_model_destroy(w.s.model);
    void *const lists[] = { w.s.ranks,        w.s.shares,        w.s.threads,     w.s.replica_shares,
                            w.s.stage_blocks, w.s.tensor_shares, w.s.zero_shares, w.s.placed,
                            w.s.job.rank_of,  w.s.job.host_of };
    for (size_t i = 0; i < YOKE_COUNT(lists); i++) free(lists[i]);
    if (status) yokei_forecast_free(out);
    return status;
}

void yokei_forecast_free(struct yokei_forecast *f)
{
    free(f->rank);
    free(f->memory);
    free(f->widths);
    *f = (struct yokei_forecast){ 0 };
}
