/* SPDX-License-Identifier: Apache-2.0 */
/* yoke plan --search: the search, and the plan.json of its first layout. */
#include "cli/train/plan_search.h"

#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/progress.h"
#include "cli/train/memo.h"
#include "cli/train/plan_measure.h"
#include "cli/train/plan_source.h"
#include "cli/train/search_advice.h"
#include "core/base/base.h"
#include "core/base/times.h"
#include "train/search/bounds.h"
#include "train/search/cluster_file.h"

static volatile sig_atomic_t interrupted;

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static bool show_progress(void *context, const struct yokei_search_progress *p)
{
    (void)context;
    if (isfinite(p->least_bubble))
        cli_progress_now("%lld layouts predicted, the smallest bubble is %.4g, none is below %.4g",
                         (long long)p->n_predicted, p->least_bubble, p->bubble_bound);
    else if (isinf(p->best_seconds))
        cli_progress_now("%lld layouts predicted, no step yet, %lld left", (long long)p->n_predicted,
                         (long long)p->n_left);
    else
        cli_progress_now("%lld layouts predicted, best step %.4g s, no layout is below %.4g s",
                         (long long)p->n_predicted, p->best_seconds, p->bound_seconds);
    return !interrupted;
}

/* ---- options ---- */

/*
 * The search chooses these, so an option that fixes one of them would be ignored. Without a cluster file the
 * first two of them say what to measure.
 */
static yoke_status check_options(const struct cli_options *o)
{
    static const char *const chosen[] = {
        "ranks",         "devices",           "dp",     "pp",          "tp",         "shares",
        "schedule",      "schedule-file",     "chunks", "layers",      "costs",      "recompute",
        "tensor-shares", "sequence-parallel", "zero",   "zero-shares", "micro-batch"
    };
    for (size_t i = cli_text(o, "cluster") ? 0 : 2; i < YOKE_COUNT(chosen); i++)
        if (cli_is_set(o, chosen[i]))
            return yoke_fail(YOKE_EINVAL, "yoke plan: --search chooses --%s: leave it out (%s)", chosen[i],
                             cli_origin(o, chosen[i]));
    return YOKE_OK;
}

/* unlimited: the cluster without --memory-limit. */
static yoke_status read_cluster(const struct cli_options *o, struct yokei_cluster *c,
                                struct yokei_cluster *unlimited, double *measured_seconds)
{
    const uint64_t limit = cli_bytes(o, "memory-limit");
    if (cli_text(o, "cluster"))
        YOKE_TRY(yokei_cluster_read(cli_text(o, "cluster"), c));
    else
        YOKE_TRY(cli_plan_measure(o, c, measured_seconds));
    *unlimited = *c;
    for (int k = 0; k < c->n_kinds && limit; k++) c->kind[k].memory = YOKE_MIN(c->kind[k].memory, limit);
    return YOKE_OK;
}

/* Say before the search if a file could not be written, or would replace what the search reads. */
static yoke_status check_files(const struct cli_options *o)
{
    static const char *const written[] = { "output", "memo" };
    const char *const read[] = { cli_text(o, "cluster"), cli_text(o, "model") };
    const int first = !read[0];
    for (size_t i = 0; i < YOKE_COUNT(written); i++) {
        const char *path = cli_text(o, written[i]);
        struct yokei_output *output;
        if (!path) continue;
        if (cli_check_output(path, read + first, (read[1] ? 2 : 1) - first))
            return yoke_fail(YOKE_EINVAL,
                             "yoke plan: --%s %s: the search reads this file, so it would be lost; name "
                             "another one",
                             written[i], path);
        YOKE_TRY(yokei_output_open(path, &output));
        yokei_output_abandon(output);
    }
    return YOKE_OK;
}

/* A plan.json names devices. Say before the search if the cluster has none of this machine. */
static yoke_status check_output(const struct cli_options *o, const struct yokei_cluster *c)
{
    bool any = !cli_text(o, "output");
    for (int k = 0; k < c->n_kinds; k++) any = any || c->kind[k].device[0];
    return any ? YOKE_OK
               : yoke_fail(
                   YOKE_ECONFIG,
                   "%s: no kind of device has a local-device, so -o cannot name the devices of the ranks: add "
                   "it, or leave -o out",
                   cli_text(o, "cluster") ? cli_text(o, "cluster") : "the measured devices");
}

/* ---- plan.json ---- */

/* Device number `index` of a list: "cuda:3". The device of a kind is that of number 0. */
static void name_device(const struct yokei_device_kind *kind, int index, char *out, size_t bytes)
{
    const char *colon = strrchr(kind->device, ':');
    if (!colon)
        yokei_text(out, bytes, "%s", kind->device);
    else
        yokei_text(out, bytes, "%.*s:%d", (int)(colon - kind->device), kind->device,
                   atoi(colon + 1) + index / YOKE_MAX(kind->sharers, 1));
}

static yoke_status list_ranks(const struct cli_searched *x, const struct yokei_ranked *best,
                              struct yokei_plan *p)
{
    const struct yokei_layout *l = &best->layout;
    struct yokei_places places;
    YOKE_TRY(yokei_places_create(x->cluster, l->tensor, l->kind, l->n_kinds, &places));
    p->n_ranks = best->prediction.n_ranks;
    p->ranks = calloc((size_t)p->n_ranks, sizeof *p->ranks);
    yoke_status status = p->ranks ? YOKE_OK
                                  : yoke_fail(YOKE_ENOMEM, "plan: no host memory for %lld ranks",
                                              (long long)p->n_ranks);
    for (int r = 0; r < p->n_ranks && !status; r++) {
        const int t = r % l->tensor, d = r / l->tensor % l->data, s = r / l->tensor / l->data;
        const struct yokei_slot_place *slot = &places.slot[yokei_layout_slot(l, s, d)];
        const char *device = x->cluster->kind[slot->kind].device;
        struct yokei_plan_rank *rank = &p->ranks[r];
        if (!device[0])
            status = yoke_fail(
                YOKE_ECONFIG,
                "plan: %s has no local-device for %s, so no plan.json can name the devices of the ranks: "
                "add it, or leave -o out",
                x->cluster->name, x->cluster->kind[slot->kind].name);
        rank->job_rank = -1;
        rank->samples = best->prediction.shares[d];
        rank->share = (double)rank->samples / (double)p->batch;
        rank->micro_batch = l->micro_batch;
        name_device(&x->cluster->kind[slot->kind], slot->first + t, rank->device, sizeof rank->device);
    }
    yokei_places_free(&places);
    return status;
}

static yoke_status write_plan(const struct cli_searched *x, const char *path, struct yokei_plan *p)
{
    const struct yokei_ranked *best = &x->result->best[0];
    const struct yokei_layout *l = &best->layout;
    size_t used = 0;
    p->batch = best->batch;
    cli_plan_set_precision(p, yoke_dtype_name(best->precision));
    p->data = l->data, p->pipeline = l->pipeline, p->tensor = l->tensor, p->chunks = l->chunks;
    p->zero = l->zero, p->sequence_parallel = l->sequence_parallel;
    p->predicted_step_seconds = best->prediction.step_seconds;
    p->schedule[0] = p->layers[0] = p->recompute[0] = 0;
    if (l->pipeline > 1) yokei_text(p->schedule, sizeof p->schedule, "%s", yokei_pipeline_names[l->schedule]);
    if (l->recompute)
        yokei_text(p->recompute, sizeof p->recompute, "%s", yokei_recompute_words[l->recompute]);
    for (int i = 0; i < l->pipeline * l->chunks && l->pipeline > 1; i++) {
        yokei_text(p->layers + used, sizeof p->layers - used, "%s%d", i ? "," : "", l->blocks[i]);
        used = strlen(p->layers);
    }
    if (used + 1 == sizeof p->layers)
        return yoke_fail(YOKE_ECONFIG, "plan: %d stages are too many for a plan.json",
                         l->pipeline * l->chunks);
    YOKE_TRY(list_ranks(x, best, p));
    return yokei_plan_write(path, p);
}

/* ---- the verb ---- */

/* A limit of the bubble excludes all layouts that fit. */
static yoke_status nothing_is_busy(const struct cli_searched *x, double limit)
{
    const struct yokei_ranked *least = &x->result->least_idle;
    char text[320], change[1024], bound[96];
    cli_ranked_text(x, least, text, sizeof text);
    cli_advice_allowing(x, "has so small a bubble",
                        "raise --batch, which fills the pipelines with more micro-batches", change,
                        sizeof change);
    return yoke_fail(
        YOKE_ECONFIG,
        "yoke plan: --largest-bubble %g excludes all layouts that fit into memory. The smallest bubble "
        "is %.4g, that of %s%s: set --largest-bubble to %.3g or more; %s",
        limit, least->prediction.bubble, text, cli_bubble_bound_text(x->result, bound, sizeof bound),
        ceil(least->prediction.bubble * 1000) / 1000, change);
}

static yoke_status nothing_fits(const struct cli_searched *x)
{
    const struct yokei_search_result *r = x->result;
    char text[320], change[1024];
    if (!r->is_near)
        return yoke_fail(YOKE_ECONFIG, "yoke plan: no layout of the model can be run on this cluster");
    const struct yokei_rank_memory *worst = cli_tightest(&r->nearest.prediction);
    cli_ranked_text(x, &r->nearest, text, sizeof text);
    cli_advice_allowing(x, "fits", "use devices with more memory or more devices, or a lower --sequence",
                        change, sizeof change);
    return yoke_fail(
        YOKE_ENOMEM,
        "yoke plan: no layout fits. The nearest is %s: a rank of stage %d needs %.1f MiB on %s, which has "
        "%.1f MiB: %s",
        text, worst->stage, (double)worst->report.total / 1048576.0, x->cluster->kind[worst->kind].name,
        (double)worst->have / 1048576.0, change);
}

/* No layout is allowed. The memo says the same at length. */
static yoke_status nothing_allowed(const struct cli_options *o, const struct cli_searched *x,
                                   const struct yokei_search_config *config)
{
    const struct yokei_search_result *r = x->result;
    if (!r->is_complete && r->is_idle)
        return yoke_fail(YOKE_ECONFIG,
                         "yoke plan: interrupted before a layout was found whose bubble is at most %g; the "
                         "smallest bubble so far is %.4g, and no layout has one below %.4g",
                         config->largest_bubble, r->least_idle.prediction.bubble, r->counts.bubble_bound);
    if (!r->is_complete)
        return yoke_fail(YOKE_ECONFIG,
                         "yoke plan: interrupted before a layout was found that fits: %lld layouts were "
                         "predicted, and others are left",
                         (long long)r->counts.n_predicted);
    if (cli_text(o, "memo") && (r->is_near || r->is_idle))
        YOKE_TRY(cli_memo_write(cli_text(o, "memo"), o, x, config));
    return r->is_idle ? nothing_is_busy(x, config->largest_bubble) : nothing_fits(x);
}

/* The batch and the precision of a choice, if there are several. */
static void begin_choice(void *context, const struct yokei_search_choice *c)
{
    const struct cli_choices *choices = context;
    if (choices->n > 1)
        cli_progress_begin("search with batch %lld in %s", (long long)c->batch,
                           yoke_dtype_name(c->precision));
}

static void skip_choice(void *context, const struct yokei_search_choice *c, const char *why)
{
    const struct cli_choices *choices = context;
    if (choices->n > 1)
        cli_note("not searched: batch %lld in %s: %s", (long long)c->batch, yoke_dtype_name(c->precision),
                 why);
}

/* Search all batches and precisions. From then on `config` has those of the first layout. */
static yoke_status search_choices(struct yokei_search_config *config, const struct cli_searched *x,
                                  struct yokei_search_result *result)
{
    const struct cli_choices *choices = x->choices;
    YOKE_TRY(
        yokei_search_choices(&(struct yokei_choices_config){ config, choices->n, choices->choice,
                                                             (void *)choices, begin_choice, skip_choice },
                             result));
    if (choices->n > 1) cli_goal_sort(x->goal, result);
    const struct yokei_ranked *first = result->n_best    ? &result->best[0]
                                       : result->is_idle ? &result->least_idle
                                                         : &result->nearest;
    if (!first->batch) return YOKE_OK;
    config->predict.model_flops *= (double)first->batch / (double)config->predict.batch;
    config->predict.batch = first->batch;
    config->predict.precision = first->precision;
    return YOKE_OK;
}

/* The search, and then its advice. SIGINT ends either of them. */
static yoke_status search_and_advise(struct yokei_search_config *config, struct cli_searched *x,
                                     const struct yokei_cluster *unlimited, double advice_seconds,
                                     struct yokei_search_result *result, struct yokei_advice *advice)
{
    struct sigaction action = { .sa_handler = note_signal, .sa_flags = SA_RESTART }, before;
    const uint64_t begun = yokei_now_ns();
    /* Programs come and go by the thousand. Memory that stays is faster than memory that is given back. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    sigaction(SIGINT, &action, &before);
    cli_progress_begin("search");
    yoke_status status = search_choices(config, x, result);
    cli_progress_end();
    x->seconds = (double)(yokei_now_ns() - begun) * 1e-9;
    if (!status) status = cli_advice_make(x, config, unlimited, advice_seconds, advice);
    sigaction(SIGINT, &before, NULL);
    return status;
}

static yoke_status search(const struct cli_options *o, struct yokei_training *t,
                          struct yokei_search_config *config, struct cli_searched *x,
                          const struct yokei_cluster *unlimited, struct yokei_search_result *result,
                          struct yokei_advice *advice)
{
    YOKE_TRY(search_and_advise(config, x, unlimited, cli_real(o, "advice"), result, advice));
    if (!result->is_complete && result->n_best) cli_note("interrupted: these are the best layouts so far");
    if (!result->n_best) return nothing_allowed(o, x, config);
    YOKE_TRY(yokei_tensor_between(&config->predict, &result->best[0].layout, &x->between_passes,
                                  &x->between_sums));
    if (cli_flag(o, "json"))
        YOKE_TRY(cli_search_json(x));
    else
        cli_search_show(x);
    if (cli_text(o, "output")) YOKE_TRY(write_plan(x, cli_text(o, "output"), &t->plan));
    if (cli_text(o, "memo")) YOKE_TRY(cli_memo_write(cli_text(o, "memo"), o, x, config));
    return cli_goal_check(x->goal, result, x->advice);
}

yoke_status cli_goal_of_plan(const struct cli_options *o, const struct yokei_plan *plan,
                             const yoke_model *model, struct cli_goal *goal)
{
    struct yokei_model_sizes sizes;
    double parameters = 0;
    yokei_model_sizes(model, &sizes);
    for (int i = 0; i < 3; i++)
        parameters += (sizes.matrices[i] + sizes.vectors[i]) * (i == 1 ? sizes.n_blocks : 1);
    return cli_goal_read(o, plan->batch, plan->sequence, parameters, goal);
}

static yoke_status run(const struct cli_context *context, struct yokei_training *t,
                       struct yokei_cluster cluster[2], struct yokei_search_config *config,
                       struct yokei_search_result *result, struct yokei_advice *advice, yoke_model **model)
{
    const struct cli_options *o = context->options;
    struct cli_context alone = *context;
    struct cli_goal goal;
    struct cli_choices choices;
    struct cli_searched x = { t, cluster, result, &goal, advice, .choices = &choices };
    x.unlimited = &cluster[1];
    alone.size = 1;
    YOKE_TRY(check_options(o));
    YOKE_TRY(check_files(o));
    YOKE_TRY(cli_choices_read(o, &choices));
    YOKE_TRY(cli_plan_from_options(&alone, t));
    YOKE_TRY(read_cluster(o, cluster, &cluster[1], &x.measured_seconds));
    YOKE_TRY(check_output(o, cluster));
    YOKE_TRY(yokei_model_create(yokei_plan_model(&t->plan), model));
    YOKE_TRY(cli_goal_of_plan(o, &t->plan, *model, &goal));
    YOKE_TRY(yoke_device_open("host", NULL, &config->predict.device));
    config->predict.model = *model;
    config->predict.cluster = cluster;
    config->predict.precision = choices.choice[0].precision;
    config->predict.batch = t->plan.batch;
    config->predict.sequence = t->plan.sequence;
    config->predict.bucket_bytes = (size_t)t->plan.bucket_bytes;
    config->predict.model_flops = (double)t->plan.batch * (double)t->plan.sequence
                                  * yokei_model_flops(yokei_plan_model(&t->plan), t->plan.sequence);
    config->largest_bubble = cli_real(o, "largest-bubble");
    config->progress = show_progress;
    return search(o, t, config, &x, &cluster[1], result, advice);
}

yoke_status cli_plan_search(const struct cli_context *context)
{
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    struct yokei_search_config config = { .n_best = 0 };
    struct yokei_search_result result = { 0 };
    struct yokei_advice advice = { 0 };
    yoke_model *model = NULL;
    struct yokei_cluster *cluster = calloc(2, sizeof *cluster);
    if (!cluster) return yoke_fail(YOKE_ENOMEM, "plan: no host memory for a cluster");
    yoke_status status = run(context, &t, cluster, &config, &result, &advice, &model);
    char text[4096];
    yokei_text(text, sizeof text, "%s", status ? yoke_last_error() : "");
    yokei_search_result_free(&result);
    yokei_advice_free(&advice);
    yoke_model_destroy(model);
    if (config.predict.device) {
        const yoke_status closed = yoke_device_close(config.predict.device);
        if (!status) status = closed;
    }
    yokei_plan_free(&t.plan);
    free(cluster);
    return status && text[0] ? yoke_fail(status, "%s", text) : status;
}
