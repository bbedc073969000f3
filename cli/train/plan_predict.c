/* SPDX-License-Identifier: Apache-2.0 */
/* yoke plan --cluster without --search: predict the step of the layout that the options describe. */
#include <stdlib.h>
#include <string.h>

#include "cli/train/plan_search.h"
#include "cli/train/plan_source.h"
#include "cli/train/search_choices.h"
#include "core/base/base.h"
#include "train/models/model.h"
#include "train/search/bounds.h"
#include "train/search/cluster_file.h"
#include "train/trainer/facts.h"

struct predicting {
    const struct cli_options *o;
    struct yokei_training t;
    struct yokei_cluster cluster;
    yoke_model *model;
    yoke_device *device;
    struct yokei_layout layout;
    struct yokei_slot_place *slots;
    int64_t *shares; /* NULL: in proportion to the replicas' speeds */
};

/* ---- options ---- */

/* The prediction has no numbers for these. */
static yoke_status check_options(const struct cli_options *o)
{
    static const char *const of_search[] = { "memo", "advice", "largest-bubble" };
    static const char *const others[] = { "schedule-file", "tensor-shares", "zero-shares", "costs",
                                          "output" };
    for (size_t i = 0; i < YOKE_COUNT(of_search); i++)
        if (cli_is_set(o, of_search[i]) && strcmp(cli_origin(o, of_search[i]), "default") != 0)
            return yoke_fail(YOKE_EINVAL, "yoke plan: --%s is for --search: add it, or leave --%s out",
                             of_search[i], of_search[i]);
    for (size_t i = 0; i < YOKE_COUNT(others); i++)
        if (cli_is_set(o, others[i]) && strcmp(cli_text(o, others[i]), "auto")
            && strcmp(cli_origin(o, others[i]), "default") != 0)
            return yoke_fail(YOKE_EINVAL,
                             "yoke plan: the step on a cluster is not predicted with --%s: leave --%s or "
                             "--cluster out",
                             others[i], others[i]);
    return YOKE_OK;
}

static yoke_status read_words(const struct yokei_plan *p, struct yokei_layout *l)
{
    int recompute = 0;
    if (p->schedule[0]) {
        int k = 0;
        while (yokei_pipeline_names[k] && strcmp(p->schedule, yokei_pipeline_names[k])) k++;
        if (!yokei_pipeline_names[k])
            return yoke_fail(YOKE_ECONFIG, "yoke plan: unknown schedule %s", p->schedule);
        l->schedule = (enum yokei_pipeline_kind)k;
    } else {
        l->schedule = yokei_pipeline_default(l->chunks);
    }
    while (recompute < 3 && p->recompute[0] && strcmp(p->recompute, yokei_recompute_words[recompute]))
        recompute++;
    if (recompute == 3)
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --recompute %s: the step on a cluster is predicted for stages that "
                         "all do the same: write none, attention or full",
                         p->recompute);
    l->recompute = recompute;
    return YOKE_OK;
}

static yoke_status read_blocks(const struct predicting *w, struct yokei_layout *l)
{
    const int n = l->pipeline * l->chunks;
    const int64_t all = (w->model->n_layers - w->model->before - w->model->after)
                        / YOKE_MAX(w->model->per_block, 1);
    int64_t *list = NULL, sum = 0;
    if (n > YOKEI_MOST_CUTS)
        return yoke_fail(YOKE_ECONFIG, "yoke plan: %d stages and chunks; at most %d are predicted", n,
                         YOKEI_MOST_CUTS);
    YOKE_TRY(yokei_plan_numbers("--layers", w->t.plan.layers, n, &list));
    for (int i = 0; i < n; i++) {
        const int64_t blocks = list ? list[i] : all / n + (i < all % n);
        sum += blocks;
        l->blocks[i] = (int16_t)YOKE_MIN(blocks, INT16_MAX);
    }
    free(list);
    return sum == all ? YOKE_OK
                      : yoke_fail(YOKE_ECONFIG, "--layers %s: %lld blocks, but the model has %lld",
                                  w->t.plan.layers, (long long)sum, (long long)all);
}

/* The sequences of each replica, if the options give them. */
static yoke_status read_shares(struct predicting *w)
{
    const struct yokei_plan *p = &w->t.plan;
    const int64_t n = w->layout.data, per_replica = p->n_ranks / YOKE_MAX(n, 1) / w->layout.pipeline;
    if (!p->n_ranks) return YOKE_OK;
    w->shares = calloc((size_t)n, sizeof *w->shares);
    if (!w->shares) return yoke_fail(YOKE_ENOMEM, "plan: no host memory for %lld replicas", (long long)n);
    for (int64_t d = 0; d < n; d++) {
        w->shares[d] = p->ranks[d * per_replica].samples;
        if (!w->shares[d])
            return yoke_fail(YOKE_ECONFIG, "--shares %s: replica %lld gets no sequence",
                             cli_text(w->o, "shares"), (long long)d);
    }
    return YOKE_OK;
}

static yoke_status read_layout(struct predicting *w)
{
    const struct yokei_plan *p = &w->t.plan;
    struct yokei_layout *l = &w->layout;
    if (p->stage_tensor[0])
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --tp %s: the step on a cluster is predicted for stages of one width",
                         p->stage_tensor);
    if (p->zero > 1)
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --zero %lld: the step on a cluster is predicted for 0 and 1",
                         (long long)p->zero);
    *l = (struct yokei_layout){ .data = (int)p->data,
                                .pipeline = (int)YOKE_MAX(p->pipeline, 1),
                                .tensor = (int)YOKE_MAX(p->tensor, 1),
                                .chunks = (int)YOKE_MAX(p->chunks, 1),
                                .zero = (int)p->zero,
                                .sequence_parallel = p->sequence_parallel };
    const struct yokei_mesh mesh = {
        .data = l->data, .pipeline = l->pipeline, .tensor = l->tensor, .chunks = l->chunks
    };
    if (p->batch < l->data)
        return yoke_fail(YOKE_ECONFIG, "yoke plan: --batch %lld is less than the %d replicas",
                         (long long)p->batch, l->data);
    l->micro_batch = yokei_mesh_micro_batch(&mesh, p->batch / l->data, w->t.micro_batch);
    YOKE_TRY(read_words(p, l));
    YOKE_TRY(read_blocks(w, l));
    return read_shares(w);
}

/* ---- places ---- */

/* Whether a name of --devices means this kind: its own name, or its name on this machine. */
static bool means(const char *name, const struct yokei_device_kind *kind)
{
    return !strcmp(name, kind->name) || (kind->device[0] && !strcmp(name, kind->device));
}

/* By host, by list of the host, and by device. */
static int in_file_order(const void *a, const void *b)
{
    const struct yokei_slot_place *x = a, *y = b;
    return x->host != y->host   ? x->host - y->host
           : x->list != y->list ? x->list - y->list
                                : x->first - y->first;
}

/* The slots for tensor groups, in the order of the file. next [n_kinds]: the first free one of each kind. */
struct free_slots {
    struct yokei_places places;
    int next[YOKEI_MOST_KINDS];
};

static yoke_status list_slots(const struct predicting *w, struct free_slots *out)
{
    int kinds[YOKEI_MOST_KINDS];
    *out = (struct free_slots){ .next = { 0 } };
    for (int k = 0; k < w->cluster.n_kinds; k++) kinds[k] = k;
    YOKE_TRY(yokei_places_create(&w->cluster, w->layout.tensor, kinds, w->cluster.n_kinds, &out->places));
    qsort(out->places.slot, (size_t)out->places.n_slots, sizeof *out->places.slot, in_file_order);
    return YOKE_OK;
}

/* The first free slot of the kind that --devices names for the ranks of a tensor group. */
static yoke_status take_slot(const struct predicting *w, struct free_slots *slots, int group,
                             struct yokei_slot_place *out)
{
    const int n = cli_list_count(w->o, "devices"), first = group * w->layout.tensor;
    char name[64] = "", other[64];
    if (n) cli_list_item(w->o, "devices", first % n, name, sizeof name);
    for (int t = 1; n && t < w->layout.tensor; t++) {
        cli_list_item(w->o, "devices", (first + t) % n, other, sizeof other);
        if (strcmp(name, other))
            return yoke_fail(YOKE_EINVAL,
                             "yoke plan: --devices gives ranks %d and %d, which share a layer's tensors, %s "
                             "and %s: the step is predicted for tensor ranks on one kind of device",
                             first, first + t, name, other);
    }
    const struct yokei_places *p = &slots->places;
    int best = p->n_slots;
    for (int k = 0; k < w->cluster.n_kinds; k++) {
        int *next = &slots->next[k];
        if (n && !means(name, &w->cluster.kind[k])) continue;
        while (*next < p->n_slots && p->slot[*next].kind != k) ++*next;
        best = YOKE_MIN(best, *next);
    }
    if (best < p->n_slots) {
        *out = p->slot[best];
        slots->next[out->kind]++;
        return YOKE_OK;
    }
    return yoke_fail(YOKE_ECONFIG, "%s: no place is left for rank %d%s%s: the cluster has %d devices",
                     cli_text(w->o, "cluster"), first, n ? " on " : "", name,
                     yokei_cluster_devices(&w->cluster, -1));
}

/* Ranks are numbered stage by stage, and replica by replica within a stage. The slots have the same order. */
static yoke_status place(struct predicting *w)
{
    struct yokei_layout *l = &w->layout;
    const int n = l->data * l->pipeline;
    struct free_slots free_slots;
    w->slots = calloc((size_t)n, sizeof *w->slots);
    if (!w->slots) return yoke_fail(YOKE_ENOMEM, "plan: no host memory for %d ranks", n);
    YOKE_TRY(list_slots(w, &free_slots));
    yoke_status status = YOKE_OK;
    for (int i = 0; i < n && !status; i++) {
        status = take_slot(w, &free_slots, i, &w->slots[i]);
        int k = 0;
        while (!status && k < l->n_kinds && l->kind[k] != w->slots[i].kind) k++;
        if (!status && k == l->n_kinds) l->kind[l->n_kinds++] = w->slots[i].kind;
    }
    yokei_places_free(&free_slots.places);
    return status;
}

/* ---- the verb ---- */

static yoke_status predict(struct predicting *w, struct yokei_ranked *out)
{
    const struct yokei_plan *p = &w->t.plan;
    struct yokei_predict_config config = { .model = w->model,
                                           .cluster = &w->cluster,
                                           .device = w->device,
                                           .batch = p->batch,
                                           .sequence = p->sequence,
                                           .bucket_bytes = (size_t)p->bucket_bytes,
                                           .model_flops = (double)p->batch * (double)p->sequence
                                                          * yokei_model_flops(yokei_plan_model(p),
                                                                              p->sequence) };
    yokei_predictor *predictor;
    YOKE_TRY(yoke_dtype_parse(p->precision, &config.precision));
    YOKE_TRY(yokei_predictor_create(&config, &predictor));
    const struct yokei_fixed_layout fixed = { w->slots, w->shares };
    out->layout = w->layout;
    out->batch = p->batch;
    out->precision = config.precision;
    const yoke_status status = yokei_predict_fixed(predictor, &w->layout, &fixed, &out->prediction);
    out->bound = out->prediction.step_seconds;
    yokei_predictor_destroy(predictor);
    return status;
}

static yoke_status show(const struct predicting *w, struct yokei_ranked *ranked)
{
    const struct yokei_prediction *p = &ranked->prediction;
    struct yokei_search_result result = { .n_best = 1, .best = ranked };
    const struct yokei_advice advice = { 0 };
    const struct cli_choices choices = { .n = 1 };
    struct cli_goal goal;
    const struct cli_searched x = { .training = &w->t,
                                    .cluster = &w->cluster,
                                    .result = &result,
                                    .goal = &goal,
                                    .advice = &advice,
                                    .choices = &choices };
    YOKE_TRY(cli_goal_of_plan(w->o, &w->t.plan, w->model, &goal));
    if (cli_flag(w->o, "json"))
        YOKE_TRY(cli_predicted_json(&x));
    else
        cli_predicted_show(&x);
    YOKE_TRY(cli_goal_check(&goal, &result, NULL));
    return p->fits ? YOKE_OK
                   : yoke_fail(YOKE_ENOMEM,
                               "yoke plan: the layout does not fit: a device lacks %.3g %% of its memory",
                               -100 * p->margin);
}

static yoke_status run(const struct cli_context *context, struct predicting *w, struct yokei_ranked *ranked)
{
    struct cli_context ranks = *context;
    YOKE_TRY(check_options(w->o));
    YOKE_TRY(yokei_cluster_read(cli_text(w->o, "cluster"), &w->cluster));
    const uint64_t limit = cli_bytes(w->o, "memory-limit");
    for (int k = 0; k < w->cluster.n_kinds && limit; k++)
        w->cluster.kind[k].memory = YOKE_MIN(w->cluster.kind[k].memory, limit);
    ranks.size = cli_is_set(w->o, "ranks")             ? (int)cli_int(w->o, "ranks")
                 : cli_list_count(w->o, "devices") > 0 ? cli_list_count(w->o, "devices")
                                                       : yokei_cluster_devices(&w->cluster, -1);
    YOKE_TRY(cli_plan_from_options(&ranks, &w->t));
    YOKE_TRY(yokei_model_create(yokei_plan_model(&w->t.plan), &w->model));
    YOKE_TRY(read_layout(w));
    YOKE_TRY(place(w));
    YOKE_TRY(yoke_device_open("host", NULL, &w->device));
    YOKE_TRY(predict(w, ranked));
    return show(w, ranked);
}

yoke_status cli_plan_predict(const struct cli_context *context)
{
    struct predicting *w = calloc(1, sizeof *w);
    struct yokei_ranked ranked = { .bound = 0 };
    if (!w) return yoke_fail(YOKE_ENOMEM, "plan: no host memory for a cluster");
    w->o = context->options;
    w->t.plan = (struct yokei_plan)YOKEI_PLAN_INIT;
    yoke_status status = run(context, w, &ranked);
    char text[4096];
    yokei_text(text, sizeof text, "%s", status ? yoke_last_error() : "");
    yokei_prediction_free(&ranked.prediction);
    yoke_model_destroy(w->model);
    if (w->device) {
        const yoke_status closed = yoke_device_close(w->device);
        if (!status) status = closed;
    }
    yokei_plan_free(&w->t.plan);
    free(w->slots);
    free(w->shares);
    free(w);
    return status && text[0] ? yoke_fail(status, "%s", text) : status;
}
