/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choose the division of the work by the speed of each device on the model's own layers. divide_work.c has
 * the order of the steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/balance.h"
#include "train/run/division.h"
#include "train/trainer/trainer.h"

/*
 * Ranks on one device, or on cores of one host, count as equally fast if their times differ by less than this
 * factor. Other work on the device or host causes such differences.
 */
static const double AS_FAST = 1.25;

/* ---- the choices ---- */

static int64_t count_elements(const yoke_model *model, int first, int end)
{
    struct yoke_parameter p;
    int64_t sum = 0;
    for (int l = first; l < end; l++) {
        const yoke_layer *layer = yoke_model_layer(model, l);
        const struct yoke_place whole = { .size = sizeof whole, .tensor_size = 1 };
        for (int i = 0; layer->type->parameter && i < YOKE_MAX_PARAMETERS
                        && layer->type->parameter(layer, &whole, i, &p);
             i++)
            sum += yokei_logical_count(&p);
    }
    return sum;
}

/*
 * The number of elements of a replica's parameters on a stage with this number of blocks. A tied parameter
 * counts on the first and on the last stage.
 */
static double elements_of(const struct yokei_division *c, int stage, int64_t blocks)
{
    const yoke_model *m = c->s->model;
    const int last = c->s->mesh.pipeline - 1;
    if (last == 0) return (double)yoke_model_n_elements(m);
    double sum = (double)(blocks * count_elements(m, m->before, m->before + YOKE_MAX(m->per_block, 1)));
    if (stage == 0) sum += (double)count_elements(m, 0, m->before);
    if (stage == last) sum += (double)count_elements(m, m->n_layers - m->after, m->n_layers);
    return sum;
}

/* Whether two ranks have the same device, or cores of one host. */
static bool is_like(const struct yokei_run_state *s, int a, int b)
{
    return s->job.host_of[s->placed[a]] == s->job.host_of[s->placed[b]] && s->threads[a] == s->threads[b]
           && strcmp(s->ranks[a].device, s->ranks[b].device) == 0;
}

/*
 * Ranks on one device with nearly equal times get the mean of their times. The first group is the fastest
 * rank and all ranks that are about as fast. The next group begins with the fastest of the other ranks.
 */
static void even_out(const struct yokei_run_state *s, struct yokei_layer_times *times, bool *done)
{
    memset(done, 0, (size_t)s->n_ranks * sizeof *done);
    for (int fastest = 0; fastest >= 0;) {
        fastest = -1;
        for (int r = 0; r < s->n_ranks; r++)
            if (!done[r] && (fastest < 0 || times[r].block < times[fastest].block)) fastest = r;
        if (fastest < 0) return;
        const double least = times[fastest].block;
        struct yokei_layer_times sum = { 0 };
        int n = 0;
        for (int r = 0; r < s->n_ranks; r++) {
            if (done[r] || !is_like(s, fastest, r) || times[r].block > AS_FAST * least) continue;
            sum.before += times[r].before, sum.block += times[r].block, sum.after += times[r].after,
                sum.element += times[r].element;
            n++;
        }
        for (int r = 0; r < s->n_ranks; r++) {
            if (done[r] || !is_like(s, fastest, r) || times[r].block > AS_FAST * least) continue;
            done[r] = true;
            times[r] = (struct yokei_layer_times){ sum.before / n, sum.block / n, sum.after / n,
                                                   sum.element / n };
        }
    }
}

/* The largest number of ranks that share tensors. */
static int widest(const struct yokei_run_state *s)
{
    int most = 1;
    for (int stage = 0; stage < s->mesh.pipeline; stage++)
        most = YOKE_MAX(most, yokei_mesh_width(&s->mesh, stage));
    return most;
}

/*
 * Divide the heads among ranks [first, first + groups * width). They share tensors in consecutive groups of
 * `width` ranks. All groups get the same division.
 */
static void deal_heads(const struct yokei_division *c, int first, int groups, int width, double *room,
                       int64_t *heads)
{
    const int n = groups * width;
    for (int i = 0; i < n; i++) {
        room[i] = 0;
        room[n + i] = c->times[first + i].block;
    }
    yokei_balance_groups(yokei_model_heads(yokei_plan_model(&c->s->t->plan)), groups, width, room, room + n,
                         1, heads);
}

/* Choose one list of tensor shares for all stages, or one list per stage if stages have their own widths. */
static yoke_status choose_tensor_shares(struct yokei_division *c)
{
    struct yokei_run_state *s = c->s;
    struct yokei_plan *p = &s->t->plan;
    double *room = calloc(2 * (size_t)s->n_ranks, sizeof *room);
    int64_t *heads = calloc((size_t)s->n_ranks, sizeof *heads);
    const yoke_status status = room && heads
                                   ? YOKE_OK
                                   : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    bool equal = true;
    int n = 0;
    p->tensor_shares[0] = 0;
    if (!status && !s->widths) {
        n = s->mesh.tensor;
        deal_heads(c, 0, s->n_ranks / n, n, room, heads);
        equal = yokei_all_equal(heads, n);
    }
    for (int stage = 0; stage < s->mesh.pipeline && s->widths && !status; stage++) {
        deal_heads(c, yokei_mesh_rank(&s->mesh, 0, stage, 0), s->mesh.data, s->widths[stage], room,
                   heads + n);
        equal = equal && yokei_all_equal(heads + n, s->widths[stage]);
        n += s->widths[stage];
    }
    if (!equal) yokei_run_numbers_text(heads, n, ':', p->tensor_shares, sizeof p->tensor_shares);
    free(room);
    free(heads);
    return status;
}

/* Compute which part of its group's tensors each rank has. */
static void note_parts(struct yokei_division *c)
{
    const struct yokei_run_state *s = c->s;
    for (int r = 0; r < s->n_ranks; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        int first = 0;
        double sum = 0;
        for (int stage = 0; stage < at.s && s->widths; stage++) first += s->widths[stage];
        for (int t = 0; t < at.tensor; t++) sum += s->tensor_shares ? (double)s->tensor_shares[first + t] : 1;
        c->part[r] = (s->tensor_shares ? (double)s->tensor_shares[first + at.t] : 1) / sum;
    }
}

/* Seconds per sequence that rank r needs for the embedding and the head, if its stage has them. */
static double ends_seconds(const struct yokei_division *c, int r)
{
    const struct yokei_mesh at = yokei_mesh_at(&c->s->mesh, r);
    return c->part[r]
           * ((at.s == 0 ? c->times[r].before : 0) + (at.s == at.pipeline - 1 ? c->times[r].after : 0));
}

/* The part of a rank's parameters to which the rank applies AdamW. */
static double part_of_optimizer(const struct yokei_run_state *s)
{
    return s->t->plan.zero ? 1.0 / s->mesh.data : 1;
}

/*
 * Choose the blocks of the stages by the slowest rank of each stage, for a step in which the replicas have
 * equal shares.
 */
static yoke_status choose_layers(struct yokei_division *c)
{
    struct yokei_run_state *s = c->s;
    struct yokei_plan *p = &s->t->plan;
    const int stages = s->mesh.pipeline, n = stages * s->mesh.chunks, n_sizes = s->mesh.data * stages;
    const double share = (double)p->batch / s->mesh.data;
    double *cost = calloc((size_t)n_sizes, sizeof *cost), *base = calloc((size_t)n_sizes, sizeof *base);
    int64_t *blocks = calloc((size_t)n, sizeof *blocks);
    const yoke_status status = cost && base && blocks
                                   ? YOKE_OK
                                   : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d stages", stages);
    for (int r = 0; r < s->n_ranks && !status; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        const int i = at.d * stages + at.s;
        const double own = part_of_optimizer(s), none = own * elements_of(c, at.s, 0),
                     one = own * elements_of(c, at.s, 1) - none;
        cost[i] = fmax(cost[i], c->part[r] * (share * c->times[r].block + one * c->times[r].element));
        base[i] = fmax(base[i], share * ends_seconds(c, r) + c->part[r] * none * c->times[r].element);
    }
    if (!status)
        yokei_balance_stages(yokei_run_n_blocks(s->model), s->mesh.data, stages, s->mesh.chunks, base, cost,
                             blocks);
    if (!status) yokei_run_numbers_text(blocks, n, ',', p->layers, sizeof p->layers);
    free(cost);
    free(base);
    free(blocks);
    return status;
}

static void note_costs(struct yokei_division *c)
{
    const struct yokei_run_state *s = c->s;
    for (int r = 0; r < s->n_ranks; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        const int64_t blocks = yokei_run_blocks_of_stage(s, at.s);
        c->seconds[r] = ends_seconds(c, r) + c->part[r] * (double)blocks * c->times[r].block;
        c->fixed[r] = c->part[r] * part_of_optimizer(s) * elements_of(c, at.s, blocks) * c->times[r].element;
        c->cost[at.d] = fmax(c->cost[at.d], c->seconds[r]);
        c->replica_fixed[at.d] = fmax(c->replica_fixed[at.d], c->fixed[r]);
    }
}

static yoke_status sums(void *context, const bool *used, double *seconds_out)
{
    struct yokei_division *c = context;
    double most = 0;
    for (int stage = 0; stage < c->s->mesh.pipeline; stage++)
        most = fmax(most, elements_of(c, stage, yokei_run_blocks_of_stage(c->s, stage))
                              / yokei_mesh_width(&c->s->mesh, stage));
    return yokei_run_measure_sums(c->s, used, (int64_t)most + 1, seconds_out);
}

/*
 * While a pipeline fills and drains, every stage except the slowest works on one micro-batch, and no other
 * work overlaps with it.
 */
static double fill_seconds(const struct yokei_division *c, int d)
{
    const struct yokei_run_state *s = c->s;
    const double micro_batch = (double)yokei_mesh_micro_batch(&s->mesh, c->shares[d], s->t->micro_batch);
    double sum = -c->cost[d];
    for (int stage = 0; stage < s->mesh.pipeline; stage++) {
        double slowest = 0;
        for (int t = 0; t < yokei_mesh_width(&s->mesh, stage); t++)
            slowest = fmax(slowest, c->seconds[yokei_mesh_rank(&s->mesh, d, stage, t)]);
        sum += slowest;
    }
    return sum
           * (strcmp(s->t->plan.schedule, "naive") == 0 ? (double)c->shares[d]
                                                        : micro_batch / s->mesh.chunks);
}

static yoke_status choose_replicas(struct yokei_division *c, bool shares_are_given)
{
    const struct yokei_run_state *s = c->s;
    const struct yokei_plan *p = &s->t->plan;
    const int n = s->mesh.data;
    double compute = 0;
    bool *used = c->used;
    yoke_status status = YOKE_OK;
    for (int d = 0; d < n && shares_are_given; d++)
        c->shares[d] = s->shares[yokei_mesh_rank(&s->mesh, d, 0, 0)];
    if (!shares_are_given)
        status = yokei_balance_replicas(n, p->batch, c->replica_fixed, c->cost, sums, c, c->shares,
                                        &c->step_seconds);
    for (int d = 0, n_used = 0; d < n && !status; d++) {
        used[d] = c->shares[d] > 0;
        n_used += used[d];
        if (used[d])
            compute = fmax(compute,
                           c->replica_fixed[d] + (double)c->shares[d] * c->cost[d] + fill_seconds(c, d));
        if (d == n - 1 && n_used > 1) status = sums(c, used, &c->sums_seconds);
    }
    c->step_seconds = compute + c->sums_seconds;
    return status;
}

/* Choose the cuts of tensors and layers by the measured times, without communication. */
static yoke_status choose_cuts(struct yokei_division *c, const struct yokei_given *given)
{
    struct yokei_run_state *s = c->s;
    struct yokei_plan *p = &s->t->plan;
    even_out(s, c->times, c->done);
    if (!given->tensor_shares && widest(s) > 1 && widest(s) <= yokei_model_heads(yokei_plan_model(p)))
        YOKE_TRY(choose_tensor_shares(c));
    YOKE_TRY(yokei_run_read_cuts(s));
    note_parts(c);
    if (!given->layers && s->mesh.pipeline > 1
        && s->mesh.pipeline * s->mesh.chunks <= yokei_run_n_blocks(s->model))
        YOKE_TRY(choose_layers(c));
    YOKE_TRY(yokei_run_read_cuts(s));
    note_costs(c);
    return YOKE_OK;
}

static yoke_status choose_all(struct yokei_division *c, const struct yokei_given *given)
{
    struct yokei_run_state *s = c->s;
    const struct yoke_trainer_config ranks = { .comm = s->comm, .control = s->control };
    YOKE_TRY(yokei_run_measure(
        s, yokei_mesh_micro_batch(&s->mesh, YOKE_MAX(s->t->plan.batch / s->mesh.data, 1), s->t->micro_batch),
        c->times));
    YOKE_TRY(yokei_ranks_all_well(&ranks, choose_cuts(c, given)));
    return choose_replicas(c, given->shares);
}

yoke_status yokei_run_choose(struct yokei_run_state *s, const struct yokei_given *given)
{
    const size_t n = (size_t)s->n_ranks, n_data = (size_t)s->mesh.data;
    double *const room = calloc(3 * n + 2 * n_data, sizeof *room);
    struct yokei_division c = { .s = s,
                                .times = calloc(n, sizeof *c.times),
                                .shares = calloc(n_data, sizeof *c.shares),
                                .done = calloc(n, sizeof *c.done),
                                .used = calloc(n_data, sizeof *c.used) };
    const struct yoke_trainer_config ranks = { .comm = s->comm, .control = s->control };
    yoke_status status = room && c.times && c.shares && c.done && c.used
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    status = yokei_ranks_all_well(&ranks, status);
    if (!status) {
        c.seconds = room, c.fixed = room + n, c.part = room + 2 * n, c.cost = room + 3 * n,
        c.replica_fixed = c.cost + n_data;
        status = choose_all(&c, given);
    }
    if (!status) {
        s->chose_shares = s->chose_shares || !given->shares;
        yokei_run_write_division(s, &c);
        yokei_run_report_division(s, &c);
    }
    free(room);
    free(c.times);
    free(c.shares);
    free(c.done);
    free(c.used);
    return status;
}

/* Which of the three parts can be chosen at all. */
bool yokei_run_is_open(const struct yokei_run_state *s, const struct yokei_given *given)
{
    const struct yokei_mesh *m = &s->mesh;
    return (!given->shares && m->data > 1)
           || (!given->layers && m->pipeline > 1 && m->pipeline * m->chunks < yokei_run_n_blocks(s->model))
           || (!given->tensor_shares && widest(s) > 1
               && widest(s) < yokei_model_heads(yokei_plan_model(&s->t->plan)));
}
