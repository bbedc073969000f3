/* SPDX-License-Identifier: Apache-2.0 */
/* yoke train: options to a training run, and what a person sees of it. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "core/base/base.h"
#include "parallel/balance.h"
#include "train/loop.h"

/* What a plan fixes: beside --plan these options would contradict it. */
static const char *const fixed_by_plan[] = {
    "model", "precision", "batch", "micro-batch", "sequence", "shares", "seed", "steps", "budget-seconds", "learning-rate",
    "min-learning-rate", "warmup", "weight-decay", "beta1", "beta2", "clip", "loss-scale", "bucket-bytes", "dp", "pp", "tp", "schedule",
    "chunks", "layers", "recompute", "tensor-shares", "sequence-parallel",
};

static bool is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

static yoke_status read_model(const char *name, struct yoke_gpt2_config *out)
{
    if (strchr(name, '/') || is_file(name)) return yokei_gpt2_config_read(name, out);
    return yoke_gpt2_preset(name, out);
}

/* Shares as sequences or as ratios: "24,8", "3:1"; one for each of n replicas. */
static yoke_status read_weights(const char *text, int n_wanted, const char *who, double *weights)
{
    double sum = 0;
    int n = 0;
    for (const char *at = text; *at; n++) {
        char *end;
        double w = strtod(at, &end);
        if (end == at || !(w >= 0) || !isfinite(w) || (*end && *end != ':' && *end != ','))
            return yoke_fail(YOKE_ECONFIG, "--shares %s: \"%s\" is no share; write auto, or one number per %s, such as 3:1", text, at, who);
        if (n < n_wanted) weights[n] = w;
        sum += w;
        at = *end ? end + 1 : end;
    }
    if (n != n_wanted || !(sum > 0))
        return yoke_fail(YOKE_ECONFIG, "--shares %s: %d shares for %d %ss, not all of them 0: give one per %s", text, n, n_wanted, who, who);
    for (int d = 0; d < n_wanted; d++) weights[d] /= sum;
    return YOKE_OK;
}

static yoke_status read_shares(const char *text, const struct yokei_mesh *mesh, struct yokei_plan *plan, int64_t micro_batch)
{
    const int n_ranks = yokei_mesh_size(mesh);
    double *weights = calloc((size_t)mesh->data, sizeof *weights);
    int64_t *shares = calloc((size_t)mesh->data, sizeof *shares);
    plan->ranks = calloc((size_t)n_ranks, sizeof *plan->ranks);
    yoke_status status = weights && shares && plan->ranks ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "--shares: no host memory for %d ranks", n_ranks);
    if (!status) status = read_weights(text, mesh->data, mesh->data == n_ranks ? "rank" : "replica", weights);
    if (!status) yokei_balance(weights, mesh->data, plan->batch, shares);
    for (int r = 0; r < n_ranks && !status; r++) {
        const int d = yokei_mesh_at(mesh, r).d;
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

static yoke_status read_mesh(const struct cli_context *context, struct yokei_plan *p, int64_t micro_batch)
{
    const struct cli_options *o = context->options;
    const struct {
        const char *option;
        char *place;
        size_t bytes;
    } texts[] = { { "schedule", p->schedule, sizeof p->schedule }, { "layers", p->layers, sizeof p->layers },
                  { "recompute", p->recompute, sizeof p->recompute }, { "tensor-shares", p->tensor_shares, sizeof p->tensor_shares } };
    struct yokei_mesh mesh;
    p->data = cli_is_set(o, "dp") ? cli_int(o, "dp") : 0;
    p->pipeline = cli_int(o, "pp");
    p->tensor = cli_int(o, "tp");
    p->chunks = cli_int(o, "chunks");
    p->sequence_parallel = cli_flag(o, "sequence-parallel");
    for (size_t i = 0; i < YOKE_COUNT(texts); i++) {
        const char *text = cli_is_set(o, texts[i].option) ? cli_text(o, texts[i].option) : "";
        if (strlen(text) >= texts[i].bytes)
            return yoke_fail(YOKE_ECONFIG, "--%s: %zu characters; at most %zu are taken", texts[i].option, strlen(text), texts[i].bytes - 1);
        yokei_text(texts[i].place, texts[i].bytes, "%s", strcmp(text, "auto") && strcmp(text, "none") ? text : "");
    }
    YOKE_TRY(yokei_mesh_create(context->size, context->rank, (int)p->data, (int)p->pipeline, (int)p->tensor, (int)p->chunks, &mesh));
    p->data = mesh.data;
    return strcmp(cli_text(o, "shares"), "auto") ? read_shares(cli_text(o, "shares"), &mesh, p, micro_batch) : YOKE_OK;
}

static yoke_status plan_from_options(const struct cli_context *context, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    struct yokei_plan *p = &t->plan;
    YOKE_TRY(read_model(cli_text(o, "model"), &p->model));
    yokei_text(p->precision, sizeof p->precision, "%s", cli_text(o, "precision"));
    yokei_text(p->all_reduce, sizeof p->all_reduce, "auto"); /* by size, the same in every run */
    p->seed = (uint64_t)cli_int(o, "seed");
    p->batch = cli_int(o, "batch");
    p->sequence = cli_int(o, "sequence") ? cli_int(o, "sequence") : p->model.n_positions;
    p->bucket_bytes = (int64_t)cli_bytes(o, "bucket-bytes");
    p->learning_rate = cli_real(o, "learning-rate");
    p->min_learning_rate = cli_is_set(o, "min-learning-rate") ? cli_real(o, "min-learning-rate") : p->learning_rate / 10;
    p->warmup = cli_int(o, "warmup");
    p->weight_decay = cli_real(o, "weight-decay");
    p->beta1 = cli_real(o, "beta1");
    p->beta2 = cli_real(o, "beta2");
    p->clip = cli_real(o, "clip");
    p->loss_scale = cli_real(o, "loss-scale");
    p->budget_seconds = cli_real(o, "budget-seconds");
    p->steps = p->budget_seconds > 0 ? 0 : cli_int(o, "steps");
    if (p->budget_seconds > 0 && strcmp(cli_origin(o, "steps"), "default") != 0)
        return yoke_fail(YOKE_ECONFIG, "--steps and --budget-seconds are both given: a run ends by one of them, leave one out");
    t->micro_batch = cli_int(o, "micro-batch");
    if (t->micro_batch > p->batch)
        return yoke_fail(YOKE_ECONFIG, "--micro-batch %lld is more than --batch %lld: lower it to at most the batch",
                         (long long)t->micro_batch, (long long)p->batch);
    if (p->sequence > p->model.n_positions)
        return yoke_fail(YOKE_ECONFIG, "--sequence %lld is longer than the model's %lld positions: lower it, or raise n_positions in its config.json",
                         (long long)p->sequence, (long long)p->model.n_positions);
    return read_mesh(context, p, t->micro_batch);
}

static yoke_status plan_from_file(const struct cli_context *context, const char *path, struct yokei_training *t)
{
    for (size_t i = 0; i < YOKE_COUNT(fixed_by_plan); i++)
        if (strcmp(cli_origin(context->options, fixed_by_plan[i]), "default") != 0 && cli_is_set(context->options, fixed_by_plan[i]))
            return yoke_fail(YOKE_ECONFIG, "%s and --plan are both given: the plan fixes %s, leave the option (%s) out", fixed_by_plan[i],
                             fixed_by_plan[i], cli_origin(context->options, fixed_by_plan[i]));
    t->replay = true;
    t->plan_path = path;
    return yokei_plan_read(path, &t->plan);
}

static void show_progress(void *context, const struct yokei_training_progress *p)
{
    char ranks[256] = "";
    size_t at = 0;
    (void)context;
    for (int64_t r = 0; r < p->n_ranks && at + 64 < sizeof ranks; r++) {
        yokei_text(ranks + at, sizeof ranks - at, "%s%s %.0f%% %.1fk/s", r ? ", " : "", p->ranks[r].device, 100 * p->ranks[r].share,
                   p->ranks[r].tokens_per_second * 1e-3);
        at = strlen(ranks);
    }
    int64_t left = isfinite(p->seconds_left) ? (int64_t)(p->seconds_left + 0.5) : 0;
    if (cli_on_terminal())
        cli_progress("step %lld  loss %.3f  %.1fk tokens/s  [%s]  %lld:%02lld left", (long long)p->step, p->loss,
                     p->tokens_per_second * 1e-3, ranks, (long long)(left / 60), (long long)(left % 60));
    else if (p->step == 1)
        cli_note("step 1  loss %.3f  %.1fk tokens/s  [%s]", p->loss, p->tokens_per_second * 1e-3, ranks);
}

static void show_note(void *context, const char *text)
{
    (void)context;
    cli_note("%s", text);
}

/* Rank 0 makes a folder where `yoke run` has made none. */
static yoke_status choose_run_dir(const struct cli_context *context, char *dir, size_t bytes)
{
    const char *given = cli_text(context->options, "run-dir");
    if (given) yokei_text(dir, bytes, "%s", given); /* the command line, or YOKE_RUN_DIR */
    else if (context->run_dir) yokei_text(dir, bytes, "%s", context->run_dir);
    else {
        char stamp[32];
        time_t now = time(NULL);
        struct tm local;
        strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
        yokei_text(dir, bytes, "runs/train-%s", stamp);
    }
    return context->rank == 0 ? yokei_make_folder(dir) : YOKE_OK;
}

static json_t *number_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static yoke_status show_json(const struct yokei_training *t, const struct yokei_training_result *r)
{
    json_t *root = json_pack("{s:I,s:I,s:f,s:o,s:o,s:o,s:o,s:I,s:b,s:s,s:I,s:o}", "steps", (json_int_t)r->steps, "tokens",
                             (json_int_t)r->tokens, "seconds", r->seconds, "first_loss", number_or_null(r->first_loss), "loss",
                             number_or_null(r->loss), "validation_loss", number_or_null(r->validation_loss), "baseline_loss",
                             number_or_null(r->baseline_loss), "validation_tokens", (json_int_t)r->validation_tokens,
                             "losses_are_nats_per_byte", (int)r->bytes, "run_dir", t->run_dir, "memory_bytes",
                             (json_int_t)r->memory.total, "ranks", json_array());
    json_t *ranks = json_object_get(root, "ranks");
    for (int64_t i = 0; i < t->plan.n_ranks; i++)
        json_array_append_new(ranks, json_pack("{s:s,s:I}", "device", t->plan.ranks[i].device, "samples",
                                               (json_int_t)t->plan.ranks[i].samples));
    if (r->sample) {
        /* The sample may hold any bytes; JSON only text. */
        json_t *text = json_stringn(r->sample, r->sample_bytes);
        json_object_set_new(root, "sample", text ? text : json_null());
        json_object_set_new(root, "word_share", json_real(r->word_share));
        json_object_set_new(root, "words", json_integer((json_int_t)r->n_words));
    }
    char *line = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!line) return yoke_fail(YOKE_ENOMEM, "train: no host memory for the results");
    puts(line);
    free(line);
    return YOKE_OK;
}

static void show_text(const struct yokei_training *t, const struct yokei_training_result *r)
{
    const char *unit = r->bytes ? "nats per byte" : "nats per token";
    if (r->sample) {
        printf("--- sample (%zu bytes", r->sample_bytes);
        if (r->n_words) printf("; %.0f %% of its %lld words of three or more letters occur in the text", 100 * r->word_share, (long long)r->n_words);
        printf(") ---\n");
        fwrite(r->sample, 1, r->sample_bytes, stdout);
        printf("\n---\n");
    }
    printf("steps            %lld (%lld tokens in %.1f s, %.1f k tokens/s)\n", (long long)r->steps, (long long)r->tokens, r->seconds,
           (double)r->tokens / r->seconds * 1e-3);
    for (int64_t i = 0; i < t->plan.n_ranks; i++)
        printf("rank %-2lld %-9s %lld of %lld sequences a step\n", (long long)i, t->plan.ranks[i].device, (long long)t->plan.ranks[i].samples,
               (long long)t->plan.batch);
    printf("memory           %.1f MiB on rank 0\n", (double)r->memory.total / 1048576.0);
    printf("training loss    %.4f (at the start %.4f)\n", r->loss, r->first_loss);
    if (isfinite(r->validation_loss))
        printf("validation loss  %.4f %s on %lld held-out tokens\n", r->validation_loss, unit, (long long)r->validation_tokens);
    if (isfinite(r->baseline_loss))
        printf("yardstick        %.4f nats per byte by an order-3 byte-count model of the same text, on the same bytes\n", r->baseline_loss);
    printf("run directory    %s\n", t->run_dir);
}

static yoke_status files_and_sample(const struct cli_context *context, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    const char *text = cli_text(o, "text"), *tokens = cli_text(o, "tokens");
    if (!text == !tokens)
        return yoke_fail(YOKE_EINVAL, "train: give either --text FILE (bytes) or --tokens FILE.bin (as llm.c writes them)");
    t->tokens = text ? text : tokens;
    t->tokens_are_llmc = tokens != NULL;
    t->validation_share = cli_real(o, "validation-share");
    t->validation_tokens = cli_int(o, "validation-tokens");
    t->evaluate_every = cli_int(o, "evaluate-every");
    t->memory_limit = cli_bytes(o, "memory-limit");
    t->init = cli_text(o, "init");
    t->save = cli_text(o, "save");
    t->dump_gradients = cli_text(o, "dump-grads");
    t->prompt = cli_text(o, "prompt");
    t->sample_tokens = cli_int(o, "sample");
    t->temperature = cli_real(o, "temperature");
    t->top_k = cli_int(o, "top-k");
    t->progress = show_progress;
    t->note = show_note;
    return YOKE_OK;
}

static yoke_status open_communicators(const struct cli_context *context, struct yokei_training *t)
{
    struct yoke_comm_config gradients = YOKE_COMM_CONFIG_INIT, control = YOKE_COMM_CONFIG_INIT;
    if (context->size == 1) return YOKE_OK;
    gradients.name = "gradients";
    control.name = "control";
    if (t->plan.comm_costs[0]) gradients.costs = control.costs = t->plan.comm_costs;
    /* YOKE_SHARES is --shares here, and deals the batch. */
    gradients.shares = control.shares = t->plan.comm_shares[0] ? t->plan.comm_shares : "auto";
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, t->device, &gradients, &t->comm));
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, NULL, &control, &t->control));
    struct yoke_comm_plan explained;
    YOKE_TRY(yoke_comm_explain(t->comm, "all_reduce", 1, YOKE_F32, YOKE_SUM, &explained));
    yokei_text(t->plan.comm_costs, sizeof t->plan.comm_costs, "%s", explained.costs);
    yokei_text(t->plan.comm_shares, sizeof t->plan.comm_shares, "%s", explained.shares);
    return YOKE_OK;
}

static yoke_status train(const struct cli_context *context, struct yokei_training *t)
{
    const struct cli_options *o = context->options;
    struct yokei_training_result result = { 0 };
    char run_dir[4096];
    YOKE_TRY(files_and_sample(context, t));
    if (cli_text(o, "plan")) YOKE_TRY(plan_from_file(context, cli_text(o, "plan"), t));
    else YOKE_TRY(plan_from_options(context, t));
    YOKE_TRY(yoke_device_open(context->device ? context->device : cli_text(o, "device"), NULL, &t->device));
    YOKE_TRY(open_communicators(context, t));
    YOKE_TRY(choose_run_dir(context, run_dir, sizeof run_dir));
    t->run_dir = run_dir;
    YOKE_TRY(yokei_training_run(t, &result));
    yoke_status status = YOKE_OK;
    cli_progress_end();
    if (context->rank == 0 && cli_flag(o, "json")) status = show_json(t, &result);
    else if (context->rank == 0) show_text(t, &result);
    free(result.sample);
    t->run_dir = NULL;
    return status;
}

yoke_status cli_train(const struct cli_context *context)
{
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    yoke_status status = train(context, &t);
    /* After a fault the other ranks may be gone: nothing that waits for them is called, the process ends anyway. */
    if (!status && t.control) status = yoke_comm_destroy(t.control);
    if (!status && t.comm) status = yoke_comm_destroy(t.comm);
    if (!status) status = yoke_device_close(t.device);
    yokei_plan_free(&t.plan);
    return status;
}
