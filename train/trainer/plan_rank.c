/* SPDX-License-Identifier: Apache-2.0 */
/* Plan a trainer before anything is allocated: shares, parameters, programs and memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer/memory.h"

enum { DEFAULT_BATCH = 8, DEFAULT_BUCKET = 25 << 20 };

static yoke_status check_config(const yoke_model *model, struct yoke_trainer_config *c)
{
    if (c->size != sizeof *c)
        return yoke_fail(YOKE_EINVAL,
                         "trainer: the configuration's size is %zu, not %zu: use YOKE_TRAINER_CONFIG_INIT",
                         c->size, sizeof *c);
    if (model->n_layers < 1) return yoke_fail(YOKE_ECONFIG, "trainer: the model has no layers");
    if (c->precision != YOKE_F32 && c->precision != YOKE_F16 && c->precision != YOKE_BF16
        && c->precision != YOKE_F64)
        return yoke_fail(YOKE_ECONFIG, "trainer: precision %s is none of f32, bf16, f16",
                         yoke_dtype_name(c->precision));
    if (c->batch == 0) c->batch = DEFAULT_BATCH;
    if (c->bucket_bytes == 0) c->bucket_bytes = DEFAULT_BUCKET;
    if (c->beta1 == 0) c->beta1 = 0.9;
    if (c->beta2 == 0) c->beta2 = 0.95;
    if (c->eps == 0) c->eps = 1e-8;
    if (c->batch < 1 || c->micro_batch < 0 || c->micro_batch > c->batch)
        return yoke_fail(
            YOKE_ECONFIG,
            "batch %lld and micro-batch %lld: the batch must be at least 1 and the micro-batch at most the batch",
            (long long)c->batch, (long long)c->micro_batch);
    if (c->sequence < 1)
        return yoke_fail(YOKE_ECONFIG, "sequence %lld: tokens per sequence must be at least 1",
                         (long long)c->sequence);
    if ((double)c->batch * (double)c->sequence > 2e9)
        return yoke_fail(
            YOKE_ECONFIG,
            "batch %lld of sequences of %lld tokens: more than 2e9 tokens a step; lower one of them",
            (long long)c->batch, (long long)c->sequence);
    const struct {
        const char *name;
        double value, least, below;
    } reals[] = { { "beta1", c->beta1, 0, 1 },  { "beta2", c->beta2, 0, 1 },
                  { "eps", c->eps, 0, 1 },      { "weight_decay", c->weight_decay, 0, 1e3 },
                  { "clip", c->clip, 0, 1e30 }, { "loss_scale", c->loss_scale, 0, 1e30 } };
    for (size_t i = 0; i < YOKE_COUNT(reals); i++)
        if (!(reals[i].value >= reals[i].least && reals[i].value < reals[i].below))
            return yoke_fail(YOKE_ECONFIG, "%s is %g; it must lie in [%g, %g)", reals[i].name, reals[i].value,
                             reals[i].least, reals[i].below);
    return YOKE_OK;
}

/*
 * A layer with learnt positions limits the sequence length. The shape of its parameter "wpe.weight" has the
 * limit.
 */
static yoke_status check_sequence(const struct yokei_parameters *ps, int64_t sequence)
{
    for (int i = 0; i < ps->n; i++)
        if (strcmp(ps->item[i].name, "wpe.weight") == 0 && ps->item[i].shape[0] < sequence)
            return yoke_fail(
                YOKE_ECONFIG,
                "sequence %lld is longer than the model's %lld positions: lower --sequence, or raise n_positions",
                (long long)sequence, (long long)ps->item[i].shape[0]);
    return YOKE_OK;
}

static yoke_status share_out(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    const int n = p->mesh.data;
    const char *who = p->mesh.data == p->n_ranks ? "rank" : "replica";
    p->shares = calloc((size_t)n, sizeof *p->shares);
    p->first = calloc((size_t)n, sizeof *p->first);
    p->n_micro_batches = calloc((size_t)n, sizeof *p->n_micro_batches);
    if (!p->shares || !p->first || !p->n_micro_batches)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d replicas", n);
    int64_t sum = 0;
    for (int r = 0; r < n; r++) {
        p->shares[r] = c->shares ? c->shares[r] : c->batch / n + (r < c->batch % n);
        if (p->shares[r] < 0)
            return yoke_fail(YOKE_ECONFIG, "the share of %s %d is %lld sequences: give 0 or more", who, r,
                             (long long)p->shares[r]);
        p->first[r] = sum;
        sum += p->shares[r];
    }
    if (sum != c->batch)
        return yoke_fail(
            YOKE_ECONFIG,
            "the shares of %d %ss add up to %lld sequences, but the batch is %lld: make them equal", n, who,
            (long long)sum, (long long)c->batch);
    p->micro_batch = yokei_mesh_micro_batch(&p->mesh, p->shares[p->mesh.d], c->micro_batch);
    return YOKE_OK;
}

static uint64_t hash_mesh(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *p,
                          uint64_t hash)
{
    const struct yokei_mesh *m = &p->mesh;
    const int facts[] = {
        m->data, m->pipeline,           m->widths ? 0 : m->tensor, m->chunks, c->sequence_parallel,
        c->zero, c->zero_shares != NULL
    };
    hash = yokei_hash(facts, sizeof facts, hash);
    hash = yokei_hash(p->zero_shares, (size_t)m->data * sizeof *p->zero_shares, hash);
    if (m->widths) hash = yokei_hash(m->widths, (size_t)m->pipeline * sizeof *m->widths, hash);
    if (c->stage_blocks)
        hash = yokei_hash(c->stage_blocks, (size_t)(m->pipeline * m->chunks) * sizeof *c->stage_blocks, hash);
    if (p->tensor_shares)
        hash = yokei_hash(p->tensor_shares, (size_t)p->n_tensor_shares * sizeof *p->tensor_shares, hash);
    if (c->pipeline_kind) hash = yokei_hash(c->pipeline_kind, strlen(c->pipeline_kind), hash);
    return c->recompute ? yokei_hash(c->recompute, strlen(c->recompute), hash) : hash;
}

enum { REPORT_FACTS, REPORT_MICRO_BATCH, REPORT_BUCKETS, N_REPORT };

/*
 * Use the values that rank r sent. The ranks of a replica send micro-batches to each other, so they must
 * agree on the micro-batch.
 */
static yoke_status note_micro_batch(struct yokei_trainer_plan *p, int r, const double *all)
{
    const int d = yokei_mesh_at(&p->mesh, r).d, first = yokei_mesh_rank(&p->mesh, d, 0, 0);
    const double own = all[r * N_REPORT + REPORT_MICRO_BATCH],
                 its = all[first * N_REPORT + REPORT_MICRO_BATCH];
    if (own != its)
        return yoke_fail(
            YOKE_EMISMATCH,
            "trainer: ranks %d and %d of one replica have micro-batches of %.0f and %.0f sequences: give them the same",
            first, r, its, own);
    p->n_micro_batches[d] = yokei_n_micro_batches(p->shares[d], (int64_t)own);
    const struct yokei_mesh at = yokei_mesh_at(&p->mesh,
                                               r); /* shards of different sizes may have different buckets */
    if (at.t <= p->mesh.t)
        p->n_buckets[at.s] = p->mesh.data > 1 ? (int)all[r * N_REPORT + REPORT_BUCKETS] : 0;
    return YOKE_OK;
}

/* Check the values that must be equal on all ranks, and gather the values that differ. */
static yoke_status compare_ranks(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    uint64_t facts[12] = { (uint64_t)c->precision, (uint64_t)c->batch, (uint64_t)c->sequence, c->bucket_bytes,
                           c->seed };
    memcpy(&facts[5], (double[]){ c->beta1, c->beta2, c->eps, c->weight_decay, c->clip, c->loss_scale },
           6 * sizeof(double));
    uint64_t hash = yokei_hash(facts, sizeof facts, (uint64_t)c->scale_interval);
    hash = yokei_hash(p->shares, (size_t)p->mesh.data * sizeof *p->shares, hash);
    hash = hash_mesh(c, p, hash);
    for (int i = 0; i < p->logical.n; i++) {
        hash = yokei_hash(p->logical.item[i].name, strlen(p->logical.item[i].name), hash);
        hash = yokei_hash(p->logical.item[i].shape, sizeof p->logical.item[i].shape, hash);
    }
    if (c->schedule) hash = yokei_hash(c->schedule, strlen(c->schedule), hash);
    double mine[N_REPORT] = { (double)(hash >> 12), (double)p->micro_batch, (double)p->state.n_buckets };
    double *all = calloc((size_t)p->n_ranks * N_REPORT, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d ranks", p->n_ranks);
    yoke_status status = c->comm ? yokei_ranks_gather(c, mine, N_REPORT, all) : YOKE_OK;
    /* planned without the other ranks: assume that they are like this rank */
    for (int r = 0; r < p->n_ranks && !c->comm; r++) memcpy(all + r * N_REPORT, mine, sizeof mine);
    for (int r = 0; r < p->n_ranks && !status; r++) {
        if (all[r * N_REPORT] != all[0])
            status = yoke_fail(
                YOKE_EMISMATCH,
                "trainer: ranks 0 and %d are set up differently (model, precision, batch, sequence, shares, seed or optimizer): "
                "give all ranks the same",
                r);
        else if (!status)
            status = note_micro_batch(p, r, all);
    }
    free(all);
    return status;
}

static void set_jobs(const yoke_model *model, yoke_device *device, const struct yoke_trainer_config *c,
                     struct yokei_trainer_plan *p)
{
    p->train_job = (struct yokei_job){ .layers = (const yoke_layer *const *)model->layer,
                                       .n_layers = model->n_layers,
                                       .n_chunks = p->mesh.chunks,
                                       .chunk = p->chunk,
                                       .recomputed = p->recomputed,
                                       .parameters = &p->parameters,
                                       .state = &p->state,
                                       .device = device,
                                       .place = p->place,
                                       .T = c->sequence,
                                       .n_sequences = p->shares[p->mesh.d],
                                       .micro_batch = p->micro_batch };
    p->evaluate_job = p->logits_job = p->train_job;
    p->evaluate_job.n_sequences = p->micro_batch;
    p->logits_job.n_sequences = p->logits_job.micro_batch = 1;
}

static yoke_status count(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    struct yokei_pipeline shape;
    struct yokei_schedule_order order;
    YOKE_TRY(yokei_trainer_order(c, p, &shape, &order));
    return yokei_count_programs(p->count_tree, c, &order, &shape, p, &p->counts);
}

static yoke_status lower(const yoke_model *model, yoke_device *device, const struct yoke_trainer_config *c,
                         struct yokei_trainer_plan *p)
{
    yoke_status status = YOKE_OK;
    struct yokei_schedule schedule = { 0, NULL };
    int own = 0;
    set_jobs(model, device, c, p);
    if (p->count_tree && !c->schedule) return count(c, p);
    YOKE_TRY_GOTO(yokei_trainer_schedule(c, p, &schedule, &own), free_schedule);
    YOKE_TRY_GOTO(yokei_choose_segment(c, &schedule.rank[own], p), free_schedule);
    YOKE_TRY_GOTO(yokei_program_train(&p->train_job, &schedule.rank[own], &p->train), free_schedule);
    YOKE_TRY_GOTO(yokei_program_evaluate(&p->evaluate_job, &p->evaluate), free_schedule);
    YOKE_TRY_GOTO(yokei_program_evaluate(&p->logits_job, &p->logits), free_schedule);
free_schedule:
    yokei_schedule_free(&schedule);
    return status;
}

/*
 * The sizes of a program that was made. The capacities of its lists are those that lowering has given them.
 */
static yoke_status size_of(const struct yokei_program *p, struct yokei_counted_program *out)
{
    *out = (struct yokei_counted_program){ .bytes = p->bytes,
                                           .scratch_bytes = p->planner.scratch_bytes,
                                           .n_instructions = p->n,
                                           .n_buffers = p->n_buffers,
                                           .n_issued = p->planner.n_ops,
                                           .n_micro_batches = p->n_micro_batches,
                                           .n_zeroed = p->n_zeroed };
    return yokei_program_parts(p, &out->parts);
}

/* The sizes of all programs, from counts or from the programs themselves. */
static yoke_status sizes_of(struct yokei_trainer_plan *p, struct yokei_counted_program sizes[YOKEI_N_COUNTED])
{
    if (p->counts) {
        memcpy(sizes, p->counts->program, sizeof p->counts->program);
        return yokei_count_once(p, &sizes[YOKEI_COUNTED_TRAIN], &p->once);
    }
    YOKE_TRY(size_of(&p->train, &sizes[YOKEI_COUNTED_TRAIN]));
    YOKE_TRY(size_of(&p->evaluate, &sizes[YOKEI_COUNTED_EVALUATE]));
    return size_of(&p->logits, &sizes[YOKEI_COUNTED_LOGITS]);
}

/* The host memory that the trainer allocates for itself, and that a caller needs for one batch. */
static size_t host_bytes(const struct yoke_trainer_config *config, const struct yokei_trainer_plan *p,
                         const struct yokei_counted_program sizes[YOKEI_N_COUNTED])
{
    const size_t n_tokens = (size_t)(YOKE_MAX(p->shares[p->mesh.d], p->micro_batch) * config->sequence),
                 wide = yoke_dtype_bytes(p->state.wide);
    const size_t losses = n_tokens * wide, norms = ((size_t)p->state.n_norms * 2 + 1) * wide,
                 batch = 2 * n_tokens * sizeof(int32_t);
    size_t lists = 0;
    for (int i = 0; i < YOKEI_N_COUNTED; i++) lists += yokei_counted_host(&sizes[i]);
    return losses + norms + batch
           + (size_t)p->n_ranks * (sizeof(struct yoke_rank_report) + sizeof(struct yokei_memory_rank))
           + lists;
}

static yoke_status add_up(const struct yoke_trainer_config *c, const yoke_device *device,
                          struct yokei_trainer_plan *p)
{
    struct yokei_counted_program sizes[YOKEI_N_COUNTED], *most = sizes;
    YOKE_TRY(sizes_of(p, sizes));
    for (int i = 0; i < YOKEI_N_COUNTED; i++) {
        if (sizes[i].bytes > most->bytes) most = &sizes[i];
        p->scratch_bytes = YOKE_MAX(p->scratch_bytes, sizes[i].scratch_bytes);
    }
    const struct yokei_program_parts *parts = &most->parts;
    p->arena_bytes = p->state.bytes + most->bytes;
    p->report = p->state.report;
    p->report.activations = most->bytes;
    p->report.scratch = p->scratch_bytes;
    p->report.total = p->arena_bytes + p->scratch_bytes;
    p->report.stash = parts->of[YOKEI_BUFFER_STASH];
    p->report.boundaries = parts->of[YOKEI_BUFFER_BOUNDARY];
    p->report.layer_workspace = parts->of[YOKEI_BUFFER_WORKSPACE];
    p->report.received = parts->received;
    p->report.unused = parts->unused;
    p->report.host = host_bytes(c, p, sizes);
    return yokei_groups_footprint(c, p, !yoke_device_info(device)->host_visible, &p->report.staging_shared,
                                  &p->report.staging);
}

/*
 * Whether a layer's stash is dropped and recomputed. That holds for layers that have an input, and with
 * "attention" only for attention layers.
 */
static bool forgets(const yoke_layer *layer, const char *what)
{
    if (!layer->in || !layer->type->backward_input || layer->type->gradient_until == YOKE_UNTIL_F)
        return false;
    return !strcmp(what, "full") || (!strcmp(what, "attention") && !strcmp(layer->type->name, "attention"));
}

/* Parse "none", "attention" or "full", given once for all stages or once per stage, separated by commas. */
static yoke_status choose_recomputed(const yoke_model *model, const struct yoke_trainer_config *c,
                                     struct yokei_trainer_plan *p)
{
    const char *at = c->recompute ? c->recompute : "none";
    const bool for_each = strchr(at, ',') != NULL;
    for (int s = 0; s < p->mesh.pipeline; s++) {
        const size_t length = strcspn(at, ",");
        char what[16];
        yokei_text(what, sizeof what, "%.*s", (int)YOKE_MIN(length, sizeof what - 1), at);
        const char *const *word = yokei_recompute_words;
        while (*word && strcmp(*word, what) != 0) word++;
        if (!*word)
            return yoke_fail(
                YOKE_ECONFIG,
                "recompute \"%s\": \"%s\" is none of none, attention, full (once, or for each of %d stages by commas)",
                c->recompute, what, p->mesh.pipeline);
        p->stage_recomputes[s] = strcmp(what, "none") != 0;
        for (int l = 0; l < model->n_layers && s == p->mesh.s; l++)
            p->recomputed[l] = p->held[l] && forgets(model->layer[l], what);
        if (!for_each) continue;
        at += length;
        if ((*at == ',') != (s + 1 < p->mesh.pipeline))
            return yoke_fail(YOKE_ECONFIG, "recompute \"%s\": give one word, or one for each of %d stages",
                             c->recompute, p->mesh.pipeline);
        at += *at == ',';
    }
    return YOKE_OK;
}

/* Cut the model into the layers of every stage and of this rank. */
static yoke_status cut(const yoke_model *model, const struct yoke_trainer_config *c,
                       struct yokei_trainer_plan *p)
{
    const int per_block = YOKE_MAX(model->per_block, 1);
    const struct yokei_blocks blocks = { model->before, per_block,
                                         (model->n_layers - model->before - model->after) / per_block };
    p->chunk = calloc((size_t)p->mesh.chunks, sizeof *p->chunk);
    p->held = calloc((size_t)model->n_layers, sizeof *p->held);
    p->recomputed = calloc((size_t)model->n_layers, sizeof *p->recomputed);
    p->stage_of = calloc((size_t)model->n_layers, sizeof *p->stage_of);
    p->n_buckets = calloc((size_t)p->mesh.pipeline, sizeof *p->n_buckets);
    p->stage_recomputes = calloc((size_t)p->mesh.pipeline, sizeof *p->stage_recomputes);
    if (!p->chunk || !p->held || !p->recomputed || !p->stage_of || !p->n_buckets || !p->stage_recomputes)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d layers", model->n_layers);
    for (int turn = 1; turn <= p->mesh.pipeline; turn++) { /* this rank's own stage comes last */
        struct yokei_mesh at = p->mesh;
        at.s = (p->mesh.s + turn) % p->mesh.pipeline;
        if (at.pipeline == 1)
            p->chunk[0] = (struct yokei_chunk){ 0, model->n_layers };
        else
            YOKE_TRY(yokei_mesh_chunks(&at, &blocks, model->n_layers, c->stage_blocks, p->chunk));
        for (int k = 0; k < at.chunks; k++)
            for (int l = p->chunk[k].first; l < p->chunk[k].end; l++) p->stage_of[l] = at.s;
    }
    for (int l = 0; l < model->n_layers; l++) {
        const struct yoke_place place = yokei_plan_place(c, p, p->stage_of[l], 0);
        p->held[l] = p->stage_of[l] == p->mesh.s;
        YOKE_TRY(yoke_layer_check(model->layer[l], &place)); /* the same on all ranks */
    }
    return choose_recomputed(model, c, p);
}

static yoke_status copy_shares(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    p->n_tensor_shares = c->stage_tensor ? yokei_mesh_replica(&p->mesh) : p->mesh.tensor;
    p->tensor_shares = calloc((size_t)p->n_tensor_shares, sizeof *p->tensor_shares);
    if (!p->tensor_shares)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d shares", p->n_tensor_shares);
    for (int t = 0; t < p->n_tensor_shares; t++) {
        p->tensor_shares[t] = c->tensor_shares[t];
        if (c->tensor_shares[t] < 1)
            return yoke_fail(YOKE_ECONFIG,
                             "the tensor share of rank %d of its group is %lld: give at least 1", t,
                             (long long)c->tensor_shares[t]);
    }
    return YOKE_OK;
}

static yoke_status place_rank(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    if (c->stage_tensor) {
        p->widths = calloc((size_t)YOKE_MAX(c->pipeline, 1), sizeof *p->widths);
        if (!p->widths) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d stages", c->pipeline);
        memcpy(p->widths, c->stage_tensor, (size_t)YOKE_MAX(c->pipeline, 1) * sizeof *p->widths);
    }
    YOKE_TRY(yokei_mesh_create(p->n_ranks, p->rank, c->data, c->pipeline, c->tensor, p->widths, c->chunks,
                               &p->mesh));
    if (c->tensor_shares) YOKE_TRY(copy_shares(c, p));
    p->place = yokei_plan_place(c, p, p->mesh.s, p->mesh.t);
    return YOKE_OK;
}

/* The first and the last stage that use each parameter. stages [logical.n] */
struct stages {
    int least, most;
};

static void find_stages(const struct yokei_trainer_plan *p, struct stages *stages)
{
    for (int i = 0; i < p->logical.n; i++) stages[i] = (struct stages){ p->mesh.pipeline, -1 };
    for (int l = 0; l < p->logical.n_layers; l++)
        for (int i = 0; i < p->logical.n_of_layer[l]; i++) {
            struct stages *k = &stages[p->logical.of_layer[l][i]];
            k->least = YOKE_MIN(k->least, p->stage_of[l]);
            k->most = YOKE_MAX(k->most, p->stage_of[l]);
        }
}

/*
 * Choose which rank adds the norm of a parameter that several ranks hold. If the first and the last stage
 * share it, the first stage adds it.
 */
static yoke_status choose_counted(struct yokei_trainer_plan *p, const struct stages *stages)
{
    const struct yokei_parameters *own = &p->parameters;
    for (int i = 0; i < p->logical.n; i++) {
        const int least = stages[i].least, most = stages[i].most;
        const int mine = yokei_parameter_find(own, p->logical.item[i].name);
        const bool tied = least != most;
        if (tied && (least != 0 || most != p->mesh.pipeline - 1))
            return yoke_fail(
                YOKE_ECONFIG,
                "parameter %s is used by stages %d and %d of %d: only the first and the last stage can share one; cut the "
                "model elsewhere (--layers)",
                p->logical.item[i].name, least, most, p->mesh.pipeline);
        p->has_tied |= tied;
        if (mine < 0) continue;
        p->tied[mine] = tied;
        p->counted[mine] = !(tied && p->mesh.s > 0)
                           && !(own->item[mine].replicated_axes & YOKE_AXIS_TENSOR && p->mesh.t > 0);
    }
    return YOKE_OK;
}

static yoke_status count_parameters(struct yokei_trainer_plan *p)
{
    struct stages *stages = malloc(((size_t)p->logical.n + 1) * sizeof *stages);
    p->counted = calloc((size_t)p->parameters.n + 1, sizeof *p->counted);
    p->tied = calloc((size_t)p->parameters.n + 1, sizeof *p->tied);
    yoke_status status = stages && p->counted && p->tied
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d parameters",
                                         p->logical.n);
    if (!status) {
        find_stages(p, stages);
        status = choose_counted(p, stages);
    }
    free(stages);
    return status;
}

/* Refuse wrong values of config->zero and its shares, and set the plan's shares. */
static yoke_status choose_zero_shares(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    enum { MOST = 1 << 20 };
    int64_t sum = 0;
    if (c->zero != 0 && c->zero != 1)
        return yoke_fail(
            YOKE_ECONFIG,
            "zero %d: 0 (each replica keeps all optimizer states) and 1 (each keeps a slice of them) are offered",
            c->zero);
    p->zero_shares = calloc((size_t)p->mesh.data, sizeof *p->zero_shares);
    if (!p->zero_shares)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d replicas", p->mesh.data);
    for (int d = 0; d < p->mesh.data; d++) {
        p->zero_shares[d] = c->zero_shares ? c->zero_shares[d] : 1;
        if (p->zero_shares[d] < 0 || p->zero_shares[d] > MOST)
            return yoke_fail(YOKE_ECONFIG,
                             "the share of replica %d of the optimizer states is %lld: give 0 to %d", d,
                             (long long)p->zero_shares[d], MOST);
        sum += p->zero_shares[d];
    }
    if (!sum)
        return yoke_fail(YOKE_ECONFIG,
                         "the shares of all %d replicas of the optimizer states are 0: give one of them more",
                         p->mesh.data);
    return YOKE_OK;
}

/* Plan everything that does not depend on the other ranks. The rank's place and layers are known. */
static yoke_status plan_alone(const yoke_model *model, const yoke_device *device,
                              const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    const struct yoke_place whole = { .size = sizeof whole, .tensor_size = 1 };
    const yoke_layer *const *layers = (const yoke_layer *const *)model->layer;
    YOKE_TRY(yokei_parameters_create(layers, model->n_layers, NULL, &whole, &p->logical));
    YOKE_TRY(check_sequence(&p->logical, c->sequence));
    YOKE_TRY(yokei_parameters_create(layers, model->n_layers, p->held, &p->place, &p->parameters));
    YOKE_TRY(count_parameters(p));
    YOKE_TRY(yokei_plan_ties(model, c, p));
    YOKE_TRY(choose_zero_shares(c, p));
    const struct yokei_replicas replicas = { .n = p->mesh.data,
                                             .d = p->mesh.d,
                                             .shares = p->zero_shares,
                                             .divides = c->zero == 1,
                                             .is_tensor = p->mesh.tensor > 1,
                                             .tied = p->tied,
                                             .has_ties = p->n_ties > 0 };
    return yokei_state_create(&p->parameters, &replicas, c->precision,
                              YOKE_MAX(p->shares[p->mesh.d], p->micro_batch) * c->sequence, c->bucket_bytes,
                              yokei_red_zone(device), &p->state);
}

yoke_status yokei_trainer_plan_position(const yoke_model *model, struct yoke_trainer_config *c, int rank,
                                        int n_ranks, struct yokei_trainer_plan *p)
{
    memset(p, 0, sizeof *p);
    p->rank = rank;
    p->n_ranks = n_ranks;
    yoke_status status = check_config(model, c);
    if (!status) status = place_rank(c, p);
    if (!status) status = share_out(c, p);
    if (status) yokei_trainer_plan_free(p);
    return status;
}

yoke_status yokei_trainer_plan_place(const yoke_model *model, struct yoke_trainer_config *c, int rank,
                                     int n_ranks, struct yokei_trainer_plan *p)
{
    YOKE_TRY(yokei_trainer_plan_position(model, c, rank, n_ranks, p));
    const yoke_status status = cut(model, c, p);
    if (status) yokei_trainer_plan_free(p);
    return status;
}

yoke_status yokei_trainer_plan_placed(const yoke_model *model, yoke_device *device,
                                      const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    yoke_status status = YOKE_OK;
    YOKE_TRY_GOTO(plan_alone(model, device, c, p), free_plan);
    YOKE_TRY_GOTO(compare_ranks(c, p), free_plan);
    /* one device may lack an op, or one line of a schedule may have too few buckets; then all ranks refuse */
    status = lower(model, device, c, p);
    YOKE_TRY_GOTO(c->comm ? yokei_ranks_all_well(c, status) : status, free_plan);
    YOKE_TRY_GOTO(add_up(c, device, p), free_plan);
    return YOKE_OK;
free_plan:
    yokei_trainer_plan_free(p);
    return status;
}

yoke_status yokei_trainer_plan_as(const yoke_model *model, yoke_device *device, struct yoke_trainer_config *c,
                                  int rank, int n_ranks, struct yokei_trainer_plan *p)
{
    YOKE_TRY(yokei_trainer_plan_place(model, c, rank, n_ranks, p));
    return yokei_trainer_plan_placed(model, device, c, p);
}
