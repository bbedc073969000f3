/* SPDX-License-Identifier: Apache-2.0 */
#include "train/plan/run_plan.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/comm.h>

#include "core/base/base.h"
#include "parallel/schedule.h"

#define LIMIT 1e12
#define RANK(member) offsetof(struct yokei_plan_rank, member), sizeof(((struct yokei_plan_rank *)0)->member)
#define PLAN(member) offsetof(struct yokei_plan, member), sizeof(((struct yokei_plan *)0)->member)

static const struct yokei_json_field RANK_FIELDS[] = {
    { "device", YOKEI_JSON_TEXT, RANK(device), true },
    { "share", YOKEI_JSON_F64, RANK(share), true, 0, 1 },
    { "samples", YOKEI_JSON_I64, RANK(samples), true, 0, LIMIT },
    { "micro_batch", YOKEI_JSON_I64, RANK(micro_batch), true, 0, LIMIT },
    { "threads", YOKEI_JSON_I64, RANK(threads), true, 0, 65536 },
    { "job_rank", YOKEI_JSON_I64, RANK(job_rank), true, -1, 100000 },
    { "predicted_seconds", YOKEI_JSON_F64, RANK(predicted_seconds), false, 0, LIMIT },
    { "measured_seconds", YOKEI_JSON_F64, RANK(measured_seconds), false, 0, LIMIT },
    { "memory_limit", YOKEI_JSON_I64, RANK(memory_limit), false, 0, 1e15 },
    { 0 },
};
static const struct yokei_json_schema RANK_SCHEMA = { RANK_FIELDS, sizeof(struct yokei_plan_rank), false,
                                                      YOKE_ECONFIG };

#define PROGRESS(member) \
    offsetof(struct yokei_plan_progress, member), sizeof(((struct yokei_plan_progress *)0)->member)
static const struct yokei_json_field PROGRESS_FIELDS[] = {
    { "step", YOKEI_JSON_I64, PROGRESS(step), true, 1, LIMIT },
    { "permille", YOKEI_JSON_I64, PROGRESS(permille), true, 0, 1000 },
    { 0 },
};
static const struct yokei_json_schema PROGRESS_SCHEMA = { PROGRESS_FIELDS, sizeof(struct yokei_plan_progress),
                                                          false, YOKE_ECONFIG };

_Static_assert(sizeof(size_t) == sizeof(int64_t), "a size is read and written as a 64-bit integer");
/* clang-format off */
#define MEMORY(member) { #member, YOKEI_JSON_I64, offsetof(struct yoke_memory_report, member), \
        sizeof(size_t), false, 0, 1e18 }
/* clang-format on */
static const struct yokei_json_field MEMORY_FIELDS[] = {
    MEMORY(weights),        MEMORY(gradients),  MEMORY(optimizer), MEMORY(activations),
    MEMORY(stash),          MEMORY(boundaries), MEMORY(received),  MEMORY(layer_workspace),
    MEMORY(unused),         MEMORY(workspace),  MEMORY(scratch),   MEMORY(total),
    MEMORY(staging_shared), MEMORY(staging),    MEMORY(host),      { 0 },
};
static const struct yokei_json_schema MEMORY_SCHEMA = { MEMORY_FIELDS, sizeof(struct yoke_memory_report),
                                                        false, YOKE_ECONFIG };

#define PRODUCT(member) \
    offsetof(struct yokei_plan_product, member), sizeof(((struct yokei_plan_product *)0)->member)
static const struct yokei_json_field PRODUCT_FIELDS[] = {
    { "rank", YOKEI_JSON_I64, PRODUCT(rank), true, 0, 100000 },
    { "product", YOKEI_JSON_TEXT, PRODUCT(product), true },
    { "algorithm", YOKEI_JSON_TEXT, PRODUCT(algorithm), true },
    { 0 },
};
static const struct yokei_json_schema PRODUCT_SCHEMA = { PRODUCT_FIELDS, sizeof(struct yokei_plan_product),
                                                         false, YOKE_ECONFIG };

#define TEXT_OF(ID, name, can_be_named, in_rank_order, reach) YOKE_IF_NAMED(can_be_named)(#name, )
#define PIPELINE_TEXT(name, text, ...) text,
static const char *const PRECISIONS[] = { "fp32", "bf16", "fp16", NULL };
static const char *const BALANCES[] = { "", "auto", "equal", NULL };
static const char *const PLACEMENTS[] = { "", "host", "rank", NULL };
static const char *const ALGORITHMS[] = { "auto", YOKE_ALGORITHMS(TEXT_OF) NULL };
static const char *const SCHEDULES[] = { "", YOKEI_PIPELINES(PIPELINE_TEXT) NULL };

/* The configuration of a kind of models. A plan has one of them. */
#define MODEL_FIELD(id, config, key, ...) \
    { key, YOKEI_JSON_OBJECT, PLAN(model.id), false, .schema = &yokei_kind_##id.schema, .sized = true },

/*
 * Keys that decide the run's numbers are required. Without one of them, the plan could not repeat its run.
 * The other keys are observations of a run.
 */

static const struct yokei_json_field PLAN_FIELDS[] = {
    { "version", YOKEI_JSON_I64, PLAN(version), true, YOKEI_PLAN_VERSION, YOKEI_PLAN_VERSION },
    YOKEI_MODEL_KINDS(MODEL_FIELD){ "precision", YOKEI_JSON_TEXT, PLAN(precision), true,
                                    .choices = PRECISIONS },
    { "seed", YOKEI_JSON_U64, PLAN(seed), true },
    { "batch", YOKEI_JSON_I64, PLAN(batch), true, 1, 1e6 },
    { "sequence", YOKEI_JSON_I64, PLAN(sequence), true, 1, 1e6 },
    { "data_hash", YOKEI_JSON_TEXT, PLAN(data_hash), true },
    { "validation_share", YOKEI_JSON_F64, PLAN(validation_share), true, 1e-6, 0.5 },
    { "skip_samples", YOKEI_JSON_TEXT, PLAN(skip_samples), true },
    { "all_reduce", YOKEI_JSON_TEXT, PLAN(all_reduce), true, .choices = ALGORITHMS },
    { "bucket_bytes", YOKEI_JSON_I64, PLAN(bucket_bytes), true, 0, 1e15 },
    { "chunk_bytes", YOKEI_JSON_I64, PLAN(chunk_bytes), true, 0, 1e15 },
    { "comm_costs", YOKEI_JSON_TEXT, PLAN(comm_costs), true },
    { "comm_shares", YOKEI_JSON_TEXT, PLAN(comm_shares), true },
    { "ranks", YOKEI_JSON_ARRAY, PLAN(ranks), true, 1, 100000, .schema = &RANK_SCHEMA,
      .count_offset = offsetof(struct yokei_plan, n_ranks) },
    { "left_out", YOKEI_JSON_TEXT, PLAN(left_out), false },
    { "data", YOKEI_JSON_I64, PLAN(data), true, 0, 100000 },
    { "pipeline", YOKEI_JSON_I64, PLAN(pipeline), true, 0, 100000 },
    { "tensor", YOKEI_JSON_I64, PLAN(tensor), true, 0, 100000 },
    { "stage_tensor", YOKEI_JSON_TEXT, PLAN(stage_tensor), true },
    { "chunks", YOKEI_JSON_I64, PLAN(chunks), true, 0, 1000 },
    { "schedule", YOKEI_JSON_TEXT, PLAN(schedule), true, .choices = SCHEDULES },
    { "schedule_text", YOKEI_JSON_STRING, PLAN(schedule_text), true },
    { "layers", YOKEI_JSON_TEXT, PLAN(layers), true },
    { "recompute", YOKEI_JSON_TEXT, PLAN(recompute), true },
    { "sequence_parallel", YOKEI_JSON_I64, PLAN(sequence_parallel), true, 0, 1 },
    { "tensor_shares", YOKEI_JSON_TEXT, PLAN(tensor_shares), true },
    { "zero", YOKEI_JSON_I64, PLAN(zero), true, 0, 1 },
    { "zero_shares", YOKEI_JSON_TEXT, PLAN(zero_shares), true },
    { "balance", YOKEI_JSON_TEXT, PLAN(balance), true, .choices = BALANCES },
    { "placement", YOKEI_JSON_TEXT, PLAN(placement), true, .choices = PLACEMENTS },
    { "predicted_step_seconds", YOKEI_JSON_F64, PLAN(predicted_step_seconds), false, 0, LIMIT },
    { "measured_step_seconds", YOKEI_JSON_F64, PLAN(measured_step_seconds), false, 0, LIMIT },
    { "learning_rate", YOKEI_JSON_F64, PLAN(learning_rate), true, 0, 100 },
    { "min_learning_rate", YOKEI_JSON_F64, PLAN(min_learning_rate), true, 0, 100 },
    { "weight_decay", YOKEI_JSON_F64, PLAN(weight_decay), true, 0, 100 },
    { "beta1", YOKEI_JSON_F64, PLAN(beta1), true, 0, 0.9999999 },
    { "beta2", YOKEI_JSON_F64, PLAN(beta2), true, 0, 0.9999999 },
    { "clip", YOKEI_JSON_F64, PLAN(clip), true, 0, 1e9 },
    { "loss_scale", YOKEI_JSON_F64, PLAN(loss_scale), true, 0, 1e15 },
    { "warmup", YOKEI_JSON_I64, PLAN(warmup), true, 0, 1e9 },
    { "steps", YOKEI_JSON_I64, PLAN(steps), true, 0, 1e9 },
    { "budget_seconds", YOKEI_JSON_F64, PLAN(budget_seconds), true, 0, 1e8 },
    { "memory", YOKEI_JSON_ARRAY, PLAN(memory), false, 0, 100000, .schema = &MEMORY_SCHEMA,
      .count_offset = offsetof(struct yokei_plan, n_memory) },
    { "products", YOKEI_JSON_ARRAY, PLAN(products), true, 0, 1e7, .schema = &PRODUCT_SCHEMA,
      .count_offset = offsetof(struct yokei_plan, n_products) },
    { "progress", YOKEI_JSON_ARRAY, PLAN(progress), true, 0, 100000, .schema = &PROGRESS_SCHEMA,
      .count_offset = offsetof(struct yokei_plan, n_progress) },
    { 0 },
};
const struct yokei_json_schema yokei_plan_schema = { PLAN_FIELDS, sizeof(struct yokei_plan), false,
                                                     YOKE_ECONFIG };

/*
 * Whether the text has the form of a device, "host" or "opencl:0". Whether the device exists is found when it
 * is opened.
 */
static bool is_device(const char *text)
{
    const size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_"),
                 digits = text[name] == ':' ? strspn(text + name + 1, "0123456789") : 0;
    return name && (!text[name] || (digits && !text[name + 1 + digits]));
}

static yoke_status check_left_out(const struct yokei_plan *plan, const char *where)
{
    char item[sizeof plan->ranks->device];
    for (const char *at = plan->left_out; *at;) {
        const size_t length = strcspn(at, ",");
        yokei_text(item, sizeof item, "%.*s", (int)YOKE_MIN(length, sizeof item - 1), at);
        at += length + (at[length] == ',');
        if (length < sizeof item && is_device(item)) continue;
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: left_out has \"%s\"; list the devices that no rank may have, such as \"host,opencl:0\"",
            where, item);
    }
    return YOKE_OK;
}

static yoke_status check_rank(const struct yokei_plan_rank *rank, int64_t index, const char *where)
{
    if (!is_device(rank->device))
        return yoke_fail(YOKE_ECONFIG,
                         "%s: ranks[%lld].device is \"%s\"; name one, such as \"host\" or \"opencl:0\"",
                         where, (long long)index, rank->device);
    if (rank->samples < 0 || rank->micro_batch < 0 || rank->micro_batch > rank->samples
        || (rank->samples > 0 && rank->micro_batch == 0))
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: ranks[%lld].micro_batch is %lld; it must be between 1 and the rank's %lld samples", where,
            (long long)index, (long long)rank->micro_batch, (long long)rank->samples);
    return YOKE_OK;
}

yoke_status yokei_plan_numbers(const char *what, const char *text, int n, int64_t **out)
{
    *out = NULL;
    if (!*text) return YOKE_OK;
    int64_t *list = calloc((size_t)n, sizeof *list);
    if (!list) return yoke_fail(YOKE_ENOMEM, "%s: no host memory", what);
    int at = 0;
    for (const char *p = text; *p; at++) {
        char *end;
        const long long value = strtoll(p, &end, 10);
        if (end == p || value < 1 || (*end && *end != ',' && *end != ':') || at == n) break;
        list[at] = value;
        p = *end ? end + 1 : end;
        if (!*p && at + 1 == n) {
            *out = list;
            return YOKE_OK;
        }
    }
    free(list);
    return yoke_fail(YOKE_ECONFIG,
                     "%s \"%s\": give %d whole numbers of at least 1, with commas or colons between them",
                     what, text, n);
}

yoke_status yokei_plan_widths(const struct yokei_plan *plan, int **widths_out)
{
    const int n = (int)YOKE_MAX(plan->pipeline, 1);
    int64_t *list;
    *widths_out = NULL;
    YOKE_TRY(yokei_plan_numbers("--tp", plan->stage_tensor, n, &list));
    if (!list) return YOKE_OK;
    int *widths = calloc((size_t)n, sizeof *widths);
    for (int s = 0; s < n && widths; s++) widths[s] = (int)YOKE_MIN(list[s], 100000);
    free(list);
    *widths_out = widths;
    return widths ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "--tp: no host memory for %d stages", n);
}

/* The number of ranks that work on the same samples. */
static yoke_status ranks_of_replica(const struct yokei_plan *plan, int64_t *n_out)
{
    int *widths;
    YOKE_TRY(yokei_plan_widths(plan, &widths));
    *n_out = widths ? 0 : YOKE_MAX(plan->pipeline, 1) * YOKE_MAX(plan->tensor, 1);
    for (int s = 0; s < plan->pipeline && widths; s++) *n_out += widths[s];
    free(widths);
    return YOKE_OK;
}

/* Check the words: one for all stages, or one for each stage. */
static yoke_status check_recompute(const struct yokei_plan *plan, const char *where)
{
    const int64_t n_stages = YOKE_MAX(plan->pipeline, 1);
    int64_t n = 0;
    for (const char *at = plan->recompute; *at; n++) {
        const size_t bytes = strcspn(at, ",");
        const char *const *word = yokei_recompute_words;
        while (*word && (strlen(*word) != bytes || strncmp(*word, at, bytes) != 0)) word++;
        if (!*word)
            return yoke_fail(YOKE_ECONFIG,
                             "%s: recompute is \"%s\", but \"%.*s\" is none of none, attention, full", where,
                             plan->recompute, (int)bytes, at);
        at += bytes + (at[bytes] != 0);
    }
    if (n <= 1 || n == n_stages) return YOKE_OK;
    return yoke_fail(YOKE_ECONFIG, "%s: recompute is \"%s\"; give one word, or one for each of %lld stages",
                     where, plan->recompute, (long long)n_stages);
}

/* Check that a list is empty, or has n numbers, or has `otherwise` numbers (0: no other length). */
static yoke_status check_list(const char *where, const char *key, const char *text, int64_t n,
                              int64_t otherwise)
{
    int64_t *list = NULL;
    if (n > 1000000)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: %s would have %lld entries, more than 1000000: the layout has too many parts",
                         where, key, (long long)n);
    yoke_status status = yokei_plan_numbers(key, text, (int)n, &list);
    if (status && otherwise > 0 && otherwise != n && !yokei_plan_numbers(key, text, (int)otherwise, &list))
        status = YOKE_OK;
    else if (status)
        status = yoke_fail_context(status, "%s", where);
    free(list);
    return status;
}

static int64_t used_replicas(const struct yokei_plan *plan, int64_t width)
{
    int64_t used = 0;
    for (int64_t r = 0; r < plan->n_ranks; r++) used += plan->ranks[r].samples > 0;
    return used / YOKE_MAX(width, 1);
}

/*
 * Check lists and words, as the readers of the options do too. `width` is the number of ranks of a replica.
 */
static yoke_status check_layout(const struct yokei_plan *plan, const char *where, int64_t width)
{
    YOKE_TRY(check_list(where, "layers", plan->layers,
                        YOKE_MAX(plan->pipeline, 1) * YOKE_MAX(plan->chunks, 1), 0));
    YOKE_TRY(check_list(where, "tensor_shares", plan->tensor_shares,
                        plan->stage_tensor[0] ? width : YOKE_MAX(plan->tensor, 1), 0));
    YOKE_TRY(check_list(where, "zero_shares", plan->zero_shares, YOKE_MAX(plan->data, 1),
                        used_replicas(plan, width)));
    YOKE_TRY(check_recompute(plan, where));
    if (plan->n_ranks == 1 && (plan->comm_costs[0] || plan->comm_shares[0]))
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: %s is \"%s\", but the plan has one rank, which exchanges nothing: it must be \"\"", where,
            plan->comm_costs[0] ? "comm_costs" : "comm_shares",
            plan->comm_costs[0] ? plan->comm_costs : plan->comm_shares);
    if (!plan->schedule_text) return YOKE_OK;
    if (plan->schedule[0])
        return yoke_fail(YOKE_ECONFIG,
                         "%s: schedule is \"%s\" and schedule_text is given too: one of them must be \"\"",
                         where, plan->schedule);
    char source[4400];
    struct yokei_schedule schedule;
    yokei_text(source, sizeof source, "%s: schedule_text", where);
    const yoke_status status = yokei_schedule_parse(plan->schedule_text, source, &schedule);
    if (!status) yokei_schedule_free(&schedule);
    return status ? yoke_fail_context(YOKE_ECONFIG, "%s", where) : YOKE_OK;
}

/* Check that the ranges of samples are written as a run writes them. */
static yoke_status check_skips(const struct yokei_plan *plan, const char *where)
{
    struct yokei_skips skips;
    char what[4400], text[YOKEI_SKIPS_BYTES];
    yokei_text(what, sizeof what, "%s: skip_samples", where);
    YOKE_TRY(yokei_skips_parse(what, plan->skip_samples, &skips));
    yokei_skips_text(&skips, text);
    if (!strcmp(text, plan->skip_samples)) return YOKE_OK;
    return yoke_fail(YOKE_ECONFIG, "%s is \"%.100s\": the ranges must rise and be apart, as in \"%.100s\"",
                     what, plan->skip_samples, text);
}

/* Check the data hash, the length of the run, and its recorded progress. */
static yoke_status check_run(const struct yokei_plan *plan, const char *where)
{
    if (strcmp(plan->data_hash, YOKEI_ANY_DATA) != 0
        && (strlen(plan->data_hash) != 16 || strspn(plan->data_hash, "0123456789abcdef") != 16))
        return yoke_fail(YOKE_ECONFIG,
                         "%s: data_hash is \"%s\"; 16 hexadecimal digits are wanted, or \"" YOKEI_ANY_DATA
                         "\" for a plan that goes with any data",
                         where, plan->data_hash);
    YOKE_TRY(check_skips(plan, where));
    if (plan->steps == 0 && plan->budget_seconds == 0)
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: steps and budget_seconds are both 0, so the run would do nothing: give one of them", where);
    if (plan->min_learning_rate > plan->learning_rate)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: min_learning_rate is %g, and learning_rate is %g: the learning rate falls "
                         "from the second to the first, so lower the first",
                         where, plan->min_learning_rate, plan->learning_rate);
    for (int64_t i = 1; i < plan->n_progress; i++)
        if (plan->progress[i].step <= plan->progress[i - 1].step
            || plan->progress[i].permille < plan->progress[i - 1].permille)
            return yoke_fail(
                YOKE_ECONFIG,
                "%s: progress[%lld] is step %lld at %lld permille, behind step %lld at %lld: steps must rise, permille may not fall",
                where, (long long)i, (long long)plan->progress[i].step, (long long)plan->progress[i].permille,
                (long long)plan->progress[i - 1].step, (long long)plan->progress[i - 1].permille);
    return YOKE_OK;
}

#define KEY_OF(id, config, key, name, ...) "\"" key "\" (" name "), "
yoke_status yokei_plan_check(const struct yokei_plan *plan, const char *where)
{
    const struct yokei_model model = yokei_plan_model(plan);
    const char *longest_key;
    const int64_t longest = yokei_model_longest(model, &longest_key);
    if (yokei_model_n_set(&plan->model) != 1)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: %s; give one of " YOKEI_MODEL_KINDS(KEY_OF) "with the model's sizes", where,
                         yokei_model_n_set(&plan->model) ? "there are two models"
                                                         : "the required key \"model\" is missing");
    yoke_status status = yokei_model_check(model);
    if (status) return yoke_fail_context(status, "%s: %s", where, model.row->key);
    if (plan->sequence > longest)
        return yoke_fail(YOKE_ECONFIG, "%s: sequence is %lld, but %s.%s is %lld%s; lower the sequence length",
                         where, (long long)plan->sequence, model.row->key, longest_key, (long long)longest,
                         yokei_model_is_cut(model) ? ", and Yoke computes no sliding window" : "");
    YOKE_TRY(check_run(plan, where));
    int64_t sum = 0;
    YOKE_TRY(check_left_out(plan, where));
    for (int64_t i = 0; i < plan->n_ranks; i++) {
        YOKE_TRY(check_rank(&plan->ranks[i], i, where));
        if (plan->ranks[i].samples) YOKE_TRY(yokei_plan_check_device(plan, i, plan->ranks[i].device, where));
        sum += plan->ranks[i].samples;
    }
    for (int64_t i = 0; i < plan->n_products; i++)
        if (plan->products[i].rank >= plan->n_ranks)
            return yoke_fail(YOKE_ECONFIG, "%s: products[%lld].rank is %lld, but there are %lld ranks", where,
                             (long long)i, (long long)plan->products[i].rank, (long long)plan->n_ranks);
    int64_t width = 1;
    status = ranks_of_replica(plan, &width);
    if (status) return yoke_fail_context(status, "%s: stage_tensor", where);
    if (sum != plan->batch * width)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: the samples of all ranks add up to %lld, but batch is %lld%s; they must agree",
                         where, (long long)sum, (long long)plan->batch,
                         width > 1 ? ", times the ranks of a replica" : "");
    if (plan->data && plan->data * width != plan->n_ranks)
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: data is %lld replicas of %lld ranks each, but there are %lld ranks; they must agree", where,
            (long long)plan->data, (long long)width, (long long)plan->n_ranks);
    return check_layout(plan, where, width);
}

static yoke_status check_read(yoke_status status, struct yokei_plan *plan, const char *where,
                              struct yokei_plan *plan_out)
{
    YOKE_TRY(status);
    status = yokei_plan_check(plan, where);
    if (status)
        yokei_plan_free(plan);
    else
        *plan_out = *plan;
    return status;
}

static struct yokei_plan defaults(void)
{
    struct yokei_plan plan = YOKEI_PLAN_INIT;
    return plan;
}

/* The file is not mapped, because a run on another host may replace it meanwhile. */
static yoke_status read_file(const char *path, struct yokei_plan *plan)
{
    enum { MOST = 64 << 20 };
    void *text;
    size_t bytes;
    YOKE_TRY(yokei_file_read_as(path, YOKE_ECONFIG, MOST, &text, &bytes));
    const yoke_status status = yokei_json_parse(path, text, bytes, &yokei_plan_schema, plan);
    free(text);
    return status;
}

yoke_status yokei_plan_read(const char *path, struct yokei_plan *plan_out)
{
    struct yokei_plan plan = defaults();
    char why[1024];
    const yoke_status status = check_read(read_file(path, &plan), &plan, path, plan_out);
    if (status != YOKE_ECONFIG || !yokei_is_there(path)) return status;
    yokei_text(why, sizeof why, "%s", yoke_last_error());
    return yoke_fail(
        status,
        "%s; mend it, or take a plan.json as yoke train writes it into its run folder, or yoke plan -o", why);
}

yoke_status yokei_plan_write(const char *path, const struct yokei_plan *plan)
{
    YOKE_TRY(yokei_plan_check(plan, path));
    return yokei_json_write(path, &yokei_plan_schema, plan);
}

void yokei_plan_free(struct yokei_plan *plan) { yokei_json_free(&yokei_plan_schema, plan); }

yoke_status yokei_plan_check_device(const struct yokei_plan *plan, int64_t rank, const char *device,
                                    const char *where)
{
    const size_t length = strlen(device);
    for (const char *item = plan->left_out; length && *item; item += strcspn(item, ","), item += *item == ',')
        if (strcspn(item, ",") == length && !strncmp(item, device, length))
            return yoke_fail(
                YOKE_ECONFIG,
                "%s: rank %lld has work on %s, but --devices auto left that device out (left_out is "
                "\"%s\"): name the devices by --devices, or let auto choose again without a plan",
                where, (long long)rank, device, plan->left_out);
    return YOKE_OK;
}

void yokei_plan_forget_ranks(struct yokei_plan *plan)
{
    free(plan->ranks);
    free(plan->products);
    plan->ranks = NULL;
    plan->products = NULL;
    plan->n_ranks = plan->n_products = 0;
}
