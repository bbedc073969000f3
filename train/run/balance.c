/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who does how much, as planned or by the speed of each device on the model's own layers.
 *
 * Micro-batches follow from shares, and speeds were measured with some micro-batch: the order is (1) micro-batches as if shares were equal,
 * with which every device is measured, (2) tensor shares, (3) blocks of each stage, (4) which replicas work and their shares, by their slowest
 * rank, (5) micro-batches from these. What is given (--tensor-shares, --layers, --shares) takes the place of its step. Where a replica
 * is left out, those that remain are measured again without it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/balance.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

static const double AS_FAST = 1.25; /* ranks on one device, or on cores of one host, that differ by less are taken for equal: it is what else runs there */

/* What is chosen from, for all ranks that work. */
struct choice {
    struct yokei_run_state *s;
    struct yokei_speed *speed;      /* [n_ranks] */
    double *part;                   /* [n_ranks] of each layer's tensors */
    double *seconds, *fixed;        /* [n_ranks] per sequence; per step, whatever the sequences */
    double *cost, *replica_fixed;   /* [mesh.data] of its slowest rank */
    int64_t *shares;                /* [mesh.data] */
    bool *done;                     /* [n_ranks] room */
    double step_seconds, sums_seconds;
};

struct yoke_trainer_config yokei_run_trainer_config(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    yoke_dtype_parse(p->precision, &c.precision);
    c.batch = p->batch;
    c.micro_batch = p->n_ranks && s->placed ? p->ranks[s->placed[s->rank]].micro_batch : YOKE_MIN(s->t->micro_batch, p->batch);
    c.sequence = p->sequence;
    c.shares = s->replica_shares;
    c.data = s->mesh.data;
    c.pipeline = (int)p->pipeline;
    c.tensor = (int)p->tensor;
    c.stage_tensor = s->widths;
    c.chunks = (int)p->chunks;
    c.pipeline_kind = p->schedule[0] ? p->schedule : NULL;
    c.schedule = p->schedule_text;
    c.stage_blocks = s->stage_blocks;
    c.tensor_shares = s->tensor_shares;
    c.sequence_parallel = p->sequence_parallel != 0;
    c.recompute = p->recompute[0] ? p->recompute : NULL;
    c.zero = (int)p->zero;
    c.zero_shares = s->zero_shares;
    c.bucket_bytes = (size_t)p->bucket_bytes;
    c.seed = p->seed;
    c.beta1 = p->beta1;
    c.beta2 = p->beta2;
    c.weight_decay = p->weight_decay;
    c.clip = p->clip;
    c.loss_scale = p->loss_scale;
    c.memory_limit = s->t->memory_limit;
    c.overlap = s->t->overlap;
    c.comm = s->comm;
    c.control = s->control;
    return c;
}

/* ---- what is given ---- */

/* A replayed plan is for so many ranks, and these devices, or it is no replay. */
static yoke_status check_size(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    if (!p->n_ranks || p->n_ranks == s->n_ranks) return YOKE_OK;
    return yoke_fail(YOKE_ECONFIG, "%s is for %lld ranks, but there are %d: start it with yoke run -n %lld", s->t->replay ? s->t->plan_path : "shares",
                     (long long)p->n_ranks, s->n_ranks, (long long)p->n_ranks);
}

static yoke_status check_devices(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    for (int r = 0; r < s->n_ranks; r++)
        if (s->t->replay && p->ranks[r].device[0] && strcmp(p->ranks[r].device, s->ranks[r].device) != 0)
            return yoke_fail(YOKE_ECONFIG, "%s has rank %d on %s, but it is on %s: give --devices in the plan's order", s->t->plan_path, r,
                             p->ranks[r].device, s->ranks[r].device);
    return YOKE_OK;
}

/* A checkpoint's run goes on with other ranks or devices: what was chosen for the plan's is not for these. */
static bool fits(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    bool same = p->n_ranks == s->n_ranks;
    for (int r = 0; r < s->n_ranks && same; r++) same = !p->ranks[r].device[0] || strcmp(p->ranks[r].device, s->ranks[r].device) == 0;
    return same;
}

static void forget_ranks(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    yokei_run_note(s, "the checkpoint is of other devices: shares are chosen anew, and bits will differ");
    yokei_plan_forget_ranks(p);
    p->layers[0] = p->tensor_shares[0] = p->zero_shares[0] = 0;
}

static yoke_status read_cuts(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    free(s->stage_blocks);
    free(s->tensor_shares);
    s->stage_blocks = s->tensor_shares = NULL;
    YOKE_TRY(yokei_plan_numbers("--layers", p->layers, s->mesh.pipeline * s->mesh.chunks, &s->stage_blocks));
    return yokei_plan_numbers("--tensor-shares", p->tensor_shares, s->widths ? yokei_mesh_replica(&s->mesh) : s->mesh.tensor, &s->tensor_shares);
}

/* The numbers, with `between` between them; nothing where the field has no room: then they are equal. */
static void write_numbers(const int64_t *list, int n, char between, char *out, size_t bytes)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        char number[24];
        yokei_text(number, sizeof number, "%.*s%lld", i > 0, &between, (long long)list[i]);
        if (at + strlen(number) >= bytes) {
            out[0] = 0;
            return;
        }
        yokei_text(out + at, bytes - at, "%s", number);
        at += strlen(number);
    }
}

static bool all_equal(const int64_t *list, int n)
{
    for (int i = 1; i < n; i++)
        if (list[i] != list[0]) return false;
    return true;
}

/* ---- what is chosen ---- */

static int64_t count_elements(const yoke_model *model, int first, int end)
{
    struct yoke_parameter p;
    int64_t sum = 0;
    for (int l = first; l < end; l++) {
        const yoke_layer *layer = yoke_model_layer(model, l);
        const struct yoke_place whole = { .size = sizeof whole, .tensor_size = 1 };
        for (int i = 0; layer->type->parameter && i < YOKE_MAX_PARAMETERS && layer->type->parameter(layer, &whole, i, &p); i++) sum += yokei_logical_count(&p);
    }
    return sum;
}

static int n_blocks_of(const yoke_model *m) { return (m->n_layers - m->before - m->after) / YOKE_MAX(m->per_block, 1); }

/* Of a replica's parameters, those of stage s with so many blocks. A tied one is on the first stage and on the last. */
static double elements_of(const struct choice *c, int stage, int64_t blocks)
{
    const yoke_model *m = c->s->model;
    const int last = c->s->mesh.pipeline - 1;
    if (last == 0) return (double)yoke_model_n_elements(m);
    double sum = (double)(blocks * count_elements(m, m->before, m->before + YOKE_MAX(m->per_block, 1)));
    if (stage == 0) sum += (double)count_elements(m, 0, m->before);
    if (stage == last) sum += (double)count_elements(m, m->n_layers - m->after, m->n_layers);
    return sum;
}

/* The same device, or cores of one host. */
static bool is_like(const struct yokei_run_state *s, int a, int b)
{
    return s->job.host_of[s->placed[a]] == s->job.host_of[s->placed[b]] && s->threads[a] == s->threads[b] &&
           strcmp(s->ranks[a].device, s->ranks[b].device) == 0;
}

/* Ranks on one device count as equal where they nearly are: the fastest and all that are about as fast, then the fastest of the rest. */
static void even_out(const struct yokei_run_state *s, struct yokei_speed *speed, bool *done)
{
    memset(done, 0, (size_t)s->n_ranks * sizeof *done);
    for (int fastest = 0; fastest >= 0;) {
        fastest = -1;
        for (int r = 0; r < s->n_ranks; r++)
            if (!done[r] && (fastest < 0 || speed[r].block < speed[fastest].block)) fastest = r;
        if (fastest < 0) return;
        const double least = speed[fastest].block;
        struct yokei_speed sum = { 0 };
        int n = 0;
        for (int r = 0; r < s->n_ranks; r++) {
            if (done[r] || !is_like(s, fastest, r) || speed[r].block > AS_FAST * least) continue;
            sum.before += speed[r].before, sum.block += speed[r].block, sum.after += speed[r].after, sum.element += speed[r].element;
            n++;
        }
        for (int r = 0; r < s->n_ranks; r++) {
            if (done[r] || !is_like(s, fastest, r) || speed[r].block > AS_FAST * least) continue;
            done[r] = true;
            speed[r] = (struct yokei_speed){ sum.before / n, sum.block / n, sum.after / n, sum.element / n };
        }
    }
}

/* Of the groups that share tensors. */
static int widest(const struct yokei_run_state *s)
{
    int most = 1;
    for (int stage = 0; stage < s->mesh.pipeline; stage++) most = YOKE_MAX(most, yokei_mesh_width(&s->mesh, stage));
    return most;
}

/* Ranks [first, first + groups * width) share tensors in groups of `width` that follow each other: heads of each place, for all groups alike. */
static void deal_heads(const struct choice *c, int first, int groups, int width, double *room, int64_t *heads)
{
    const int n = groups * width;
    for (int i = 0; i < n; i++) {
        room[i] = 0;
        room[n + i] = c->speed[first + i].block;
    }
    yokei_balance_groups(yokei_model_heads(yokei_plan_model(&c->s->t->plan)), groups, width, room, room + n, 1, heads);
}

/* One list for all stages, or, where they have widths of their own, one for each. */
static yoke_status choose_tensor_shares(struct choice *c)
{
    struct yokei_run_state *s = c->s;
    struct yokei_plan *p = &s->t->plan;
    double *room = calloc(2 * (size_t)s->n_ranks, sizeof *room);
    int64_t *heads = calloc((size_t)s->n_ranks, sizeof *heads);
    const yoke_status status = room && heads ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    bool equal = true;
    int n = 0;
    p->tensor_shares[0] = 0;
    if (!status && !s->widths) {
        n = s->mesh.tensor;
        deal_heads(c, 0, s->n_ranks / n, n, room, heads);
        equal = all_equal(heads, n);
    }
    for (int stage = 0; stage < s->mesh.pipeline && s->widths && !status; stage++) {
        deal_heads(c, yokei_mesh_rank(&s->mesh, 0, stage, 0), s->mesh.data, s->widths[stage], room, heads + n);
        equal = equal && all_equal(heads + n, s->widths[stage]);
        n += s->widths[stage];
    }
    if (!equal) write_numbers(heads, n, ':', p->tensor_shares, sizeof p->tensor_shares);
    free(room);
    free(heads);
    return status;
}

/* Which part of its group's tensors each rank has. */
static void note_parts(struct choice *c)
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

/* Of rank r: seconds per sequence of embedding and head, as far as its stage has them. */
static double ends_seconds(const struct choice *c, int r)
{
    const struct yokei_mesh at = yokei_mesh_at(&c->s->mesh, r);
    return c->part[r] * ((at.s == 0 ? c->speed[r].before : 0) + (at.s == at.pipeline - 1 ? c->speed[r].after : 0));
}

/* Of a rank's parameters those that it applies AdamW to. */
static double part_of_optimizer(const struct yokei_run_state *s) { return s->t->plan.zero ? 1.0 / s->mesh.data : 1; }

/* A replica's stages by the slowest of their ranks, for a step in which replicas have equal shares. */
static yoke_status choose_layers(struct choice *c)
{
    struct yokei_run_state *s = c->s;
    struct yokei_plan *p = &s->t->plan;
    const int stages = s->mesh.pipeline, n = stages * s->mesh.chunks, n_sizes = s->mesh.data * stages;
    const double share = (double)p->batch / s->mesh.data;
    double *cost = calloc((size_t)n_sizes, sizeof *cost), *base = calloc((size_t)n_sizes, sizeof *base);
    int64_t *blocks = calloc((size_t)n, sizeof *blocks);
    const yoke_status status = cost && base && blocks ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d stages", stages);
    for (int r = 0; r < s->n_ranks && !status; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        const int i = at.d * stages + at.s;
        const double own = part_of_optimizer(s), none = own * elements_of(c, at.s, 0), one = own * elements_of(c, at.s, 1) - none;
        cost[i] = fmax(cost[i], c->part[r] * (share * c->speed[r].block + one * c->speed[r].element));
        base[i] = fmax(base[i], share * ends_seconds(c, r) + c->part[r] * none * c->speed[r].element);
    }
    if (!status) yokei_balance_stages(n_blocks_of(s->model), s->mesh.data, stages, s->mesh.chunks, base, cost, blocks);
    if (!status) write_numbers(blocks, n, ',', p->layers, sizeof p->layers);
    free(cost);
    free(base);
    free(blocks);
    return status;
}

/* As yokei_mesh_chunks cuts. */
static int64_t blocks_of_stage(const struct yokei_run_state *s, int stage)
{
    const int n = s->mesh.pipeline * s->mesh.chunks, all = n_blocks_of(s->model);
    int64_t sum = 0;
    for (int v = stage; v < n; v += s->mesh.pipeline) sum += s->stage_blocks ? s->stage_blocks[v] : all / n + (v < all % n);
    return sum;
}

static void note_costs(struct choice *c)
{
    const struct yokei_run_state *s = c->s;
    for (int r = 0; r < s->n_ranks; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        const int64_t blocks = blocks_of_stage(s, at.s);
        c->seconds[r] = ends_seconds(c, r) + c->part[r] * (double)blocks * c->speed[r].block;
        c->fixed[r] = c->part[r] * part_of_optimizer(s) * elements_of(c, at.s, blocks) * c->speed[r].element;
        c->cost[at.d] = fmax(c->cost[at.d], c->seconds[r]);
        c->replica_fixed[at.d] = fmax(c->replica_fixed[at.d], c->fixed[r]);
    }
}

static yoke_status sums(void *context, const bool *used, double *seconds_out)
{
    struct choice *c = context;
    double most = 0;
    for (int stage = 0; stage < c->s->mesh.pipeline; stage++)
        most = fmax(most, elements_of(c, stage, blocks_of_stage(c->s, stage)) / yokei_mesh_width(&c->s->mesh, stage));
    return yokei_run_measure_sums(c->s, used, (int64_t)most + 1, seconds_out);
}

/* While a pipeline fills and drains, all its stages but the slowest work on one micro-batch that nobody hides. */
static double fill_seconds(const struct choice *c, int d)
{
    const struct yokei_run_state *s = c->s;
    const double micro_batch = (double)yokei_mesh_micro_batch(&s->mesh, c->shares[d], s->t->micro_batch);
    double sum = -c->cost[d];
    for (int stage = 0; stage < s->mesh.pipeline; stage++) {
        double slowest = 0;
        for (int t = 0; t < yokei_mesh_width(&s->mesh, stage); t++) slowest = fmax(slowest, c->seconds[yokei_mesh_rank(&s->mesh, d, stage, t)]);
        sum += slowest;
    }
    return sum * (strcmp(s->t->plan.schedule, "naive") == 0 ? (double)c->shares[d] : micro_batch / s->mesh.chunks);
}

static yoke_status choose_replicas(struct choice *c, bool shares_are_given)
{
    const struct yokei_run_state *s = c->s;
    const struct yokei_plan *p = &s->t->plan;
    const int n = s->mesh.data;
    double compute = 0;
    bool *used = calloc((size_t)n, sizeof *used);
    if (!used) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d replicas", n);
    yoke_status status = YOKE_OK;
    for (int d = 0; d < n && shares_are_given; d++) c->shares[d] = s->shares[yokei_mesh_rank(&s->mesh, d, 0, 0)];
    if (!shares_are_given) status = yokei_balance_replicas(n, p->batch, c->replica_fixed, c->cost, sums, c, c->shares, &c->step_seconds);
    for (int d = 0, n_used = 0; d < n && !status; d++) {
        used[d] = c->shares[d] > 0;
        n_used += used[d];
        if (used[d]) compute = fmax(compute, c->replica_fixed[d] + (double)c->shares[d] * c->cost[d] + fill_seconds(c, d));
        if (d == n - 1 && n_used > 1) status = sums(c, used, &c->sums_seconds);
    }
    c->step_seconds = compute + c->sums_seconds;
    free(used);
    return status;
}

static yoke_status choose_all(struct choice *c, bool layers_are_given, bool tensor_shares_are_given, bool shares_are_given)
{
    struct yokei_run_state *s = c->s;
    struct yokei_plan *p = &s->t->plan;
    YOKE_TRY(yokei_run_measure(s, yokei_mesh_micro_batch(&s->mesh, YOKE_MAX(p->batch / s->mesh.data, 1), s->t->micro_batch), c->speed));
    even_out(s, c->speed, c->done);
    if (!tensor_shares_are_given && widest(s) > 1 && widest(s) <= yokei_model_heads(yokei_plan_model(p))) YOKE_TRY(choose_tensor_shares(c));
    YOKE_TRY(read_cuts(s));
    note_parts(c);
    if (!layers_are_given && s->mesh.pipeline > 1 && s->mesh.pipeline * s->mesh.chunks <= n_blocks_of(s->model)) YOKE_TRY(choose_layers(c));
    YOKE_TRY(read_cuts(s));
    note_costs(c);
    return choose_replicas(c, shares_are_given);
}

/* ---- what is written down ---- */

static void write_down(struct yokei_run_state *s, const struct choice *c)
{
    struct yokei_plan *p = &s->t->plan;
    double sum = 0;
    for (int d = 0; d < s->mesh.data; d++) sum += 1 / c->cost[d];
    for (int r = 0; r < s->n_ranks; r++) {
        struct yokei_plan_rank *rank = &p->ranks[s->placed[r]];
        const int d = yokei_mesh_at(&s->mesh, r).d;
        s->shares[r] = c->shares[d];
        rank->samples = c->shares[d];
        rank->share = c->shares[d] ? 1 / c->cost[d] / sum : 0;
        rank->predicted_seconds = (double)c->shares[d] * c->seconds[r];
        rank->micro_batch = c->shares[d] ? yokei_mesh_micro_batch(&s->mesh, c->shares[d], s->t->micro_batch) : 0;
    }
    p->predicted_step_seconds = c->step_seconds;
}

static void tell(const struct yokei_run_state *s, const struct choice *c)
{
    const struct yokei_plan *p = &s->t->plan;
    char alone[128] = "", blocks[64] = "", tensors[64];
    for (int r = 0; r < s->n_ranks; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        if (at.pipeline > 1) yokei_text(blocks, sizeof blocks, ", stage %d with %lld of %d blocks", at.s + 1, (long long)blocks_of_stage(s, at.s), n_blocks_of(s->model));
        tensors[0] = 0;
        if (at.tensor > 1) yokei_text(tensors, sizeof tensors, ", %.0f%% of each layer's tensors", 100 * c->part[r]);
        if (s->shares[r]) yokei_text(alone, sizeof alone, "predicted %.3g s of computing a step", (double)s->shares[r] * c->seconds[r]);
        else yokei_text(alone, sizeof alone, "too slow to help with this batch, summing with it included: it is left out");
        yokei_run_note(s, "rank %d %s: %.1f sequences/s%s%s, gets %lld of %lld sequences a step; %s", s->job.rank_of[s->placed[r]], s->ranks[r].device,
                       1 / c->seconds[r], blocks, tensors, (long long)s->shares[r], (long long)p->batch, alone);
    }
    if (c->sums_seconds > 0) yokei_run_note(s, "predicted step: %.3g s, %.3g s of them to sum gradients", c->step_seconds, c->sums_seconds);
    else yokei_run_note(s, "predicted step: %.3g s", c->step_seconds);
}

static yoke_status choose(struct yokei_run_state *s, bool layers_are_given, bool tensor_shares_are_given, bool shares_are_given)
{
    const size_t n = (size_t)s->n_ranks, n_data = (size_t)s->mesh.data;
    double *const room = calloc(3 * n + 2 * n_data, sizeof *room);
    struct choice c = { .s = s, .speed = calloc(n, sizeof *c.speed), .shares = calloc(n_data, sizeof *c.shares), .done = calloc(n, sizeof *c.done) };
    yoke_status status = room && c.speed && c.shares && c.done ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    if (!status) {
        c.seconds = room, c.fixed = room + n, c.part = room + 2 * n, c.cost = room + 3 * n, c.replica_fixed = c.cost + n_data;
        status = choose_all(&c, layers_are_given, tensor_shares_are_given, shares_are_given);
    }
    if (!status) {
        s->chose_shares = s->chose_shares || !shares_are_given;
        write_down(s, &c);
        tell(s, &c);
    }
    free(room);
    free(c.speed);
    free(c.shares);
    free(c.done);
    return status;
}

/* Replicas share the batch as equally as can be. */
static void deal_equally(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    for (int r = 0; r < s->n_ranks; r++) {
        const int d = yokei_mesh_at(&s->mesh, r).d;
        struct yokei_plan_rank *rank = &p->ranks[s->placed[r]];
        s->shares[r] = rank->samples = p->batch / s->mesh.data + (d < p->batch % s->mesh.data);
        rank->share = 1.0 / s->mesh.data;
        rank->micro_batch = s->shares[r] ? yokei_mesh_micro_batch(&s->mesh, s->shares[r], s->t->micro_batch) : 0;
    }
}

/* The plan's entries for all ranks of the job, as they are placed. */
static yoke_status list_ranks(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    const bool known = p->n_ranks > 0;
    if (!known) p->ranks = calloc((size_t)s->n_ranks, sizeof *p->ranks);
    if (!p->ranks) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    p->n_ranks = s->n_ranks;
    for (int r = 0; r < s->n_ranks; r++) {
        struct yokei_plan_rank *rank = &p->ranks[r];
        if ((s->t->replay || s->t->resume) && known && rank->threads && rank->threads != s->threads[r])
            yokei_run_note(s, "rank %d has %lld host threads, the plan's run had %lld: bits may differ", r, (long long)s->threads[r],
                           (long long)rank->threads);
        rank->threads = s->threads[r];
        rank->job_rank = s->job.rank_of[r];
        yokei_text(rank->device, sizeof rank->device, "%s", s->ranks[r].device);
        s->shares[r] = rank->samples;
    }
    return YOKE_OK;
}

/* What of the three can be chosen at all. */
static bool is_open(const struct yokei_run_state *s, bool layers_are_given, bool tensor_shares_are_given, bool shares_are_given)
{
    const struct yokei_mesh *m = &s->mesh;
    return (!shares_are_given && m->data > 1) || (!layers_are_given && m->pipeline > 1 && m->pipeline * m->chunks < n_blocks_of(s->model)) ||
           (!tensor_shares_are_given && widest(s) > 1 && widest(s) < yokei_model_heads(yokei_plan_model(&s->t->plan)));
}

static yoke_status choose_what_is_open(struct yokei_run_state *s, bool shares_are_given, bool shares_stay_equal)
{
    const struct yokei_plan *p = &s->t->plan;
    const bool layers = p->layers[0] != 0, tensor_shares = p->tensor_shares[0] != 0;
    bool left_out;
    if (!shares_are_given) deal_equally(s);
    shares_are_given = shares_are_given || shares_stay_equal;
    YOKE_TRY(yokei_run_leave_out(s, &left_out)); /* nothing is theirs to begin with: given so, or more replicas than sequences */
    left_out = true;
    for (int turn = 0; left_out && s->rank >= 0; turn++) {
        if (s->n_ranks > 1 && strcmp(p->balance, "equal") != 0 && is_open(s, layers, tensor_shares, shares_are_given)) {
            yokei_run_note(s, turn ? "measuring again without what is left out"
                                   : "measuring each device on the model's own layers (kernels are compiled on the first start)");
            yokei_run_busy(s, "measuring each device");
            const yoke_status status = choose(s, layers, tensor_shares, shares_are_given);
            yokei_run_busy(s, "");
            if (status == YOKE_ENOMEM) { /* the same on all ranks; the trainer says what it lacks, and what would help */
                if (!shares_are_given) deal_equally(s);
            } else {
                YOKE_TRY(status);
            }
        }
        YOKE_TRY(yokei_run_leave_out(s, &left_out));
    }
    return YOKE_OK;
}

/*
 * Slices of the optimizer's states: as many as replicas work. Where some are left out, there may be one for each of all replicas, too, as
 * they were given: then those of the others.
 */
static yoke_status read_zero(struct yokei_run_state *s, const struct yokei_mesh *all)
{
    const struct yokei_plan *p = &s->t->plan;
    int64_t *given;
    const yoke_status status = yokei_plan_numbers("--zero-shares", p->zero_shares, s->mesh.data, &s->zero_shares);
    if (!status || all->data == s->mesh.data) return status;
    YOKE_TRY(yokei_plan_numbers("--zero-shares", p->zero_shares, all->data, &given));
    s->zero_shares = calloc((size_t)s->mesh.data, sizeof *given);
    for (int d = 0, n = 0; d < all->data && s->zero_shares; d++)
        if (p->ranks[yokei_mesh_rank(all, d, 0, 0)].samples) s->zero_shares[n++] = given[d];
    free(given);
    return s->zero_shares ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d replicas", s->mesh.data);
}

static yoke_status note_replicas(struct yokei_run_state *s)
{
    s->replica_shares = calloc((size_t)s->mesh.data, sizeof *s->replica_shares);
    if (!s->replica_shares) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d replicas", s->mesh.data);
    for (int r = 0; r < s->n_ranks; r++) {
        s->replica_shares[yokei_mesh_at(&s->mesh, r).d] = s->shares[r];
        s->ranks[r].share = (double)s->shares[r] / (double)s->t->plan.batch;
    }
    return YOKE_OK;
}

yoke_status yokei_run_balance(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    YOKE_TRY(check_size(s));
    YOKE_TRY(yokei_run_place(s));
    if (s->t->resume && p->n_ranks && !fits(s)) forget_ranks(s);
    if (p->n_ranks) YOKE_TRY(check_devices(s));
    const bool is_fixed = p->n_ranks && (s->t->replay || s->t->resume), shares_are_given = p->n_ranks > 0;
    /* The user's schedule has so many micro-batches for all replicas; an interleaved one needs multiples of the stages. */
    const bool shares_are_fixed = p->schedule_text != NULL || s->mesh.chunks > 1;
    const struct yokei_mesh all = s->mesh;
    bool left_out;
    YOKE_TRY(list_ranks(s));
    YOKE_TRY(read_cuts(s));
    if (is_fixed) YOKE_TRY(yokei_run_leave_out(s, &left_out));
    else YOKE_TRY(choose_what_is_open(s, shares_are_given, shares_are_fixed));
    if (s->rank < 0) return YOKE_OK;
    YOKE_TRY(read_cuts(s));
    YOKE_TRY(read_zero(s, &all));
    return note_replicas(s);
}

yoke_status yokei_run_balance_planned(struct yokei_run_state *s)
{
    const bool shares_are_given = s->t->plan.n_ranks > 0;
    YOKE_TRY(check_size(s));
    YOKE_TRY(yokei_run_lay_mesh(s));
    YOKE_TRY(list_ranks(s));
    YOKE_TRY(read_cuts(s));
    YOKE_TRY(read_zero(s, &s->mesh));
    if (!shares_are_given) deal_equally(s);
    return note_replicas(s);
}
