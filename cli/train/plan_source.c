/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run of yoke train. It comes from options, from a plan's file, or from a checkpoint. */
#include "cli/train/plan_source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/plan_fixed.h"
#include "cli/train/plan_model.h"
#include "core/base/base.h"
#include "parallel/balance.h"
#include "parallel/schedule.h"
#include "train/trainer/memory.h"

static yoke_status read_model(const struct cli_options *o, struct yokei_plan *p)
{
    YOKE_TRY(cli_plan_model(cli_text(o, "model"), &p->model));
    if (cli_is_set(o, "dropout")) yokei_model_set_dropout(&p->model, cli_real(o, "dropout"));
    return YOKE_OK;
}

/*
 * Read shares as sequences or as ratios, such as "24,8" or "3:1". There is one share for each of n replicas.
 */
static yoke_status read_weights(const char *text, int n_wanted, const char *who, double *weights)
{
    double sum = 0;
    int n = 0;
    for (const char *at = text; *at; n++) {
        char *end;
        double w = strtod(at, &end);
        if (end == at || !(w >= 0) || !isfinite(w) || (*end && *end != ':' && *end != ','))
            return yoke_fail(YOKE_ECONFIG,
                             "--shares %s: \"%s\" is no share; write auto, or one number per %s, such as 3:1",
                             text, at, who);
        if (n < n_wanted) weights[n] = w;
        sum += w;
        at = *end ? end + 1 : end;
    }
    if (n != n_wanted || !(sum > 0))
        return yoke_fail(YOKE_ECONFIG,
                         "--shares %s: %d shares for %d %ss, not all of them 0: give one per %s", text, n,
                         n_wanted, who, who);
    for (int d = 0; d < n_wanted; d++) weights[d] /= sum;
    return YOKE_OK;
}

static yoke_status read_shares(const char *text, const struct yokei_mesh *mesh, struct yokei_plan *plan,
                               int64_t micro_batch)
{
    const int n_ranks = yokei_mesh_size(mesh);
    double *weights = calloc((size_t)mesh->data, sizeof *weights);
    int64_t *shares = calloc((size_t)mesh->data, sizeof *shares);
    plan->ranks = calloc((size_t)n_ranks, sizeof *plan->ranks);
    yoke_status status = weights && shares && plan->ranks
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "--shares: no host memory for %d ranks", n_ranks);
    if (!status) status = read_weights(text, mesh->data, mesh->data == n_ranks ? "rank" : "replica", weights);
    if (!status) yokei_balance(weights, mesh->data, plan->batch, shares);
    for (int r = 0; r < n_ranks && !status; r++) {
        const int d = yokei_mesh_at(mesh, r).d;
        plan->ranks[r].job_rank = -1;
        plan->ranks[r].share = weights[d];
        plan->ranks[r].samples = shares[d];
        plan->ranks[r].micro_batch = shares[d] ? yokei_mesh_micro_batch(mesh, shares[d], micro_batch) : 0;
    }
    plan->n_ranks = n_ranks;
    free(weights);
    free(shares);
    if (status) {
        free(plan->ranks);
        plan->ranks = NULL;
        plan->n_ranks = 0;
    }
    return status;
}

/* Read "2", or the number of ranks of each stage: "2,1". */
static yoke_status read_tensor(const char *text, struct yokei_plan *p)
{
    int64_t *list;
    p->stage_tensor[0] = 0;
    if (strpbrk(text, ",:")) {
        if (strlen(text) >= sizeof p->stage_tensor)
            return yoke_fail(YOKE_ECONFIG, "--tp: %zu characters; at most %zu are taken", strlen(text),
                             sizeof p->stage_tensor - 1);
        yokei_text(p->stage_tensor, sizeof p->stage_tensor, "%s", text);
        p->tensor = 0;
        return YOKE_OK;
    }
    YOKE_TRY(yokei_plan_numbers("--tp", text, 1, &list));
    p->tensor = list[0];
    free(list);
    return p->tensor <= 100000 ? YOKE_OK : yoke_fail(YOKE_ECONFIG, "--tp %s: at most 100000", text);
}

/*
 * Read the user's own schedule. Its errors are reported later, by all ranks alike, when the stages and
 * micro-batches are known.
 */
static yoke_status read_schedule_file(const struct cli_options *o, struct yokei_plan *p)
{
    const char *path = cli_is_set(o, "schedule-file") ? cli_text(o, "schedule-file") : NULL;
    void *data;
    size_t bytes;
    free(p->schedule_text);
    p->schedule_text = NULL;
    if (!path) return YOKE_OK;
    if (strcmp(cli_text(o, "schedule"), "auto"))
        return yoke_fail(YOKE_ECONFIG, "--schedule %s and --schedule-file %s are both given: leave one out",
                         cli_text(o, "schedule"), path);
    const yoke_status status = yokei_file_read_as(path, YOKE_ECONFIG, 64 << 20, &data, &bytes);
    if (status) return yoke_fail_context(status, "--schedule-file");
    p->schedule_text = data; /* a zero byte follows the data */
    struct yokei_schedule parsed;
    YOKE_TRY(yokei_schedule_parse(p->schedule_text, path, &parsed));
    yokei_schedule_free(&parsed);
    return YOKE_OK;
}

/* Read a text option. "auto" and "none" mean the same as no value. */
static yoke_status read_word_option(const struct cli_options *o, const char *option, char *place,
                                    size_t bytes)
{
    const char *text = cli_is_set(o, option) ? cli_text(o, option) : "";
    if (strlen(text) >= bytes)
        return yoke_fail(YOKE_ECONFIG, "--%s: %zu characters; at most %zu are taken", option, strlen(text),
                         bytes - 1);
    yokei_text(place, bytes, "%s", strcmp(text, "auto") && strcmp(text, "none") ? text : "");
    return YOKE_OK;
}

/* Add the samples of --skip-samples to those of the plan. */
static yoke_status add_skips(const struct cli_options *o, struct yokei_plan *p)
{
    struct yokei_skips skips, more;
    if (!cli_is_set(o, "skip-samples")) return YOKE_OK;
    YOKE_TRY(yokei_skips_parse("skip_samples", p->skip_samples, &skips));
    YOKE_TRY(yokei_skips_parse("--skip-samples", cli_text(o, "skip-samples"), &more));
    for (int i = 0; i < more.n; i++)
        YOKE_TRY(yokei_skips_add("--skip-samples", &skips, more.first[i], more.last[i]));
    yokei_skips_text(&skips, p->skip_samples);
    return YOKE_OK;
}

static yoke_status read_mesh(const struct cli_context *context, struct yokei_plan *p, int64_t micro_batch)
{
    const struct cli_options *o = context->options;
    const struct {
        const char *option;
        char *place;
        size_t bytes;
    } texts[] = { { "schedule", p->schedule, sizeof p->schedule },
                  { "layers", p->layers, sizeof p->layers },
                  { "recompute", p->recompute, sizeof p->recompute },
                  { "tensor-shares", p->tensor_shares, sizeof p->tensor_shares },
                  { "zero-shares", p->zero_shares, sizeof p->zero_shares } };
    struct yokei_mesh mesh;
    p->data = cli_is_set(o, "dp") ? cli_int(o, "dp") : 0;
    p->pipeline = cli_int(o, "pp");
    YOKE_TRY(read_tensor(cli_text(o, "tp"), p));
    YOKE_TRY(read_schedule_file(o, p));
    p->chunks = cli_int(o, "chunks");
    p->sequence_parallel = cli_flag(o, "sequence-parallel");
    yokei_text(p->balance, sizeof p->balance,
               "equal"); /* for planning without ranks, which cannot measure anything */
    yokei_text(p->placement, sizeof p->placement, "rank");
    for (size_t i = 0; i < YOKE_COUNT(texts); i++)
        YOKE_TRY(read_word_option(o, texts[i].option, texts[i].place, texts[i].bytes));
    int *widths;
    YOKE_TRY(yokei_plan_widths(p, &widths));
    yoke_status status = yokei_mesh_create(context->size, context->rank, (int)p->data, (int)p->pipeline,
                                           (int)p->tensor, widths, (int)p->chunks, &mesh);
    if (!status) p->data = mesh.data;
    if (!status && strcmp(cli_text(o, "shares"), "auto"))
        status = read_shares(cli_text(o, "shares"), &mesh, p, micro_batch);
    free(widths);
    return status;
}

void cli_plan_choices(const struct cli_context *context, struct yokei_plan *p)
{
    yokei_text(p->balance, sizeof p->balance, "%s", cli_text(context->options, "balance"));
    yokei_text(p->placement, sizeof p->placement, "%s", cli_text(context->options, "placement"));
}

void cli_plan_set_precision(struct yokei_plan *p, const char *word)
{
    yokei_text(p->precision, sizeof p->precision, "%s",
               !strcmp(word, "f32")   ? "fp32"
               : !strcmp(word, "f16") ? "fp16"
                                      : word);
}

yoke_status cli_plan_from_options(const struct cli_context *context, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    struct yokei_plan *p = &t->plan;
    YOKE_TRY(read_model(o, p));
    if (cli_is_model_file(cli_text(o, "model"))) t->model_file = cli_text(o, "model");
    const char *longest_key;
    const int64_t longest = yokei_model_longest(yokei_plan_model(p), &longest_key);
    char precision[16];
    cli_plan_set_precision(p, cli_list_item(o, "precision", 0, precision, sizeof precision));
    yokei_text(p->all_reduce, sizeof p->all_reduce, "auto"); /* by size, and the same in every run */
    p->seed = (uint64_t)cli_int(o, "seed");
    p->validation_share = cli_real(o, "validation-share");
    YOKE_TRY(add_skips(o, p));
    p->batch = cli_int(o, "batch");
    p->sequence = cli_int(o, "sequence") ? cli_int(o, "sequence") : longest;
    p->bucket_bytes = (int64_t)cli_bytes(o, "bucket-bytes");
    p->learning_rate = cli_real(o, "learning-rate");
    p->min_learning_rate = cli_is_set(o, "min-learning-rate") ? cli_real(o, "min-learning-rate")
                                                              : p->learning_rate / 10;
    if (p->min_learning_rate > p->learning_rate)
        return yoke_fail(
            YOKE_ECONFIG,
            "--min-learning-rate %g is more than --learning-rate %g: the learning rate falls from the second to the first, so swap them or lower the first",
            p->min_learning_rate, p->learning_rate);
    p->warmup = cli_int(o, "warmup");
    p->zero = cli_int(o, "zero");
    p->weight_decay = cli_real(o, "weight-decay");
    p->beta1 = cli_real(o, "beta1");
    p->beta2 = cli_real(o, "beta2");
    p->clip = cli_real(o, "clip");
    p->loss_scale = cli_real(o, "loss-scale");
    p->budget_seconds = cli_real(o, "budget-seconds");
    p->steps = p->budget_seconds > 0 ? 0 : cli_int(o, "steps");
    if (p->budget_seconds > 0 && strcmp(cli_origin(o, "steps"), "default") != 0)
        return yoke_fail(
            YOKE_ECONFIG,
            "--steps and --budget-seconds are both given: a run ends by one of them, leave one out");
    t->micro_batch = cli_int(o, "micro-batch");
    if (t->micro_batch > p->batch)
        return yoke_fail(YOKE_ECONFIG,
                         "--micro-batch %lld is more than --batch %lld: lower it to at most the batch",
                         (long long)t->micro_batch, (long long)p->batch);
    if (p->sequence > longest && yokei_model_is_cut(yokei_plan_model(p)))
        return yoke_fail(
            YOKE_ECONFIG,
            "--sequence %lld is longer than the model's %s, which is %lld, and Yoke computes no sliding window: lower --sequence",
            (long long)p->sequence, longest_key, (long long)longest);
    if (p->sequence > longest)
        return yoke_fail(
            YOKE_ECONFIG,
            "--sequence %lld is longer than the model's %lld positions: lower it, or raise %s in its config.json",
            (long long)p->sequence, (long long)longest, longest_key);
    return read_mesh(context, p, t->micro_batch);
}

yoke_status cli_plan_from_file(const struct cli_context *context, const char *path, struct yokei_training *t)
{
    t->replay = true;
    t->plan_path = path;
    YOKE_TRY(yokei_plan_read(path, &t->plan));
    return cli_plan_refuse_others(context->options, &t->plan, path, true);
}

/*
 * Divide the work anew among the ranks: as the options say, or as replicas. Without such options keep the
 * plan's layout, with other shares or micro-batches if they are given.
 */
static yoke_status lay_out_anew(const struct cli_context *context, struct yokei_training *t)
{
    static const char *const mesh_options[] = {
        "dp",      "pp",       "tp",        "schedule",      "schedule-file",
        "chunks",  "layers",   "recompute", "tensor-shares", "sequence-parallel",
        "balance", "placement"
    };
    const struct cli_options *o = context->options;
    struct yokei_plan *p = &t->plan;
    struct yokei_mesh mesh;
    bool anew = p->n_ranks != context->size;
    t->micro_batch = cli_int(o, "micro-batch");
    if (cli_is_set(o, "zero")) p->zero = cli_int(o, "zero"); /* changes no bits of the result */
    if (anew) p->comm_shares[0] = p->comm_costs[0] = 0;      /* they belong to other ranks */
    for (size_t i = 0; i < YOKE_COUNT(mesh_options); i++) anew = anew || cli_is_set(o, mesh_options[i]);
    if (anew || cli_is_set(o, "shares")) {
        yokei_plan_forget_ranks(p);
        p->zero_shares[0] = 0; /* they belong to replicas with other shares */
    }
    if (anew) {
        YOKE_TRY(read_mesh(context, p, t->micro_batch));
        cli_plan_choices(context, p);
        return YOKE_OK;
    }
    if (cli_is_set(o, "zero-shares"))
        YOKE_TRY(read_word_option(o, "zero-shares", p->zero_shares, sizeof p->zero_shares));
    int *widths;
    YOKE_TRY(yokei_plan_widths(p, &widths));
    yoke_status status = yokei_mesh_create(context->size, context->rank, (int)p->data, (int)p->pipeline,
                                           (int)p->tensor, widths, (int)p->chunks, &mesh);
    if (!status && cli_is_set(o, "shares")) {
        if (strcmp(cli_text(o, "shares"), "auto"))
            status = read_shares(cli_text(o, "shares"), &mesh, p, t->micro_batch);
    } else {
        for (int64_t r = 0; r < p->n_ranks && t->micro_batch && !status; r++)
            p->ranks[r].micro_batch = p->ranks[r].samples
                                          ? yokei_mesh_micro_batch(&mesh, p->ranks[r].samples, t->micro_batch)
                                          : 0;
    }
    free(widths);
    return status;
}

yoke_status cli_plan_from_checkpoint(const struct cli_context *context, const char *path, char *folder,
                                     size_t bytes, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    struct yokei_plan *p = &t->plan;
    if (cli_text(o, "plan"))
        return yoke_fail(
            YOKE_ECONFIG,
            "--plan and --resume are both given: a checkpoint holds its own plan, leave --plan out");
    if (cli_text(o, "init"))
        return yoke_fail(
            YOKE_ECONFIG,
            "--init and --resume are both given: a checkpoint holds its own weights, leave --init out");
    int64_t step;
    YOKE_TRY(yokei_run_resume_plan(path, folder, bytes, p, &step, &t->replay));
    YOKE_TRY(cli_plan_refuse_others(o, p, folder, false));
    t->resume = t->plan_path = folder;
    YOKE_TRY(add_skips(o, p));
    if (cli_is_set(o, "steps")) {
        if (p->budget_seconds > 0)
            return yoke_fail(YOKE_ECONFIG,
                             "--steps is given, but the run of %s has a budget of time: leave it out",
                             folder);
        p->steps = cli_int(o, "steps");
        if (p->steps < step)
            return yoke_fail(
                YOKE_ECONFIG,
                "--steps %lld is less than the %lld steps that %s has done: --steps counts from the run's start, so give more than "
                "%lld, or resume from an earlier checkpoint",
                (long long)p->steps, (long long)step, folder, (long long)step);
    }
    return lay_out_anew(context, t);
}

json_t *cli_memory_json(const struct yoke_memory_report *report)
{
    json_t *parts = json_object();
    for (const struct yokei_memory_part *p = yokei_memory_parts; p->name; p++)
        json_object_set_new(parts, p->name, json_integer((json_int_t)yokei_memory_part_of(report, p)));
    return parts;
}
