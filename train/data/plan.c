/* SPDX-License-Identifier: Apache-2.0 */
#include "train/data/plan.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/data/gpt2_schema.h"

#define LIMIT 1e12
#define RANK(member) offsetof(struct yokei_plan_rank, member), sizeof(((struct yokei_plan_rank *)0)->member)
#define VARIANT(member) offsetof(struct yokei_plan_variant, member), sizeof(((struct yokei_plan_variant *)0)->member)
#define PLAN(member) offsetof(struct yokei_plan, member), sizeof(((struct yokei_plan *)0)->member)

static const struct yokei_json_field RANK_FIELDS[] = {
    { "device", YOKEI_JSON_TEXT, RANK(device), true },
    { "share", YOKEI_JSON_F64, RANK(share), true, 0, 1 },
    { "samples", YOKEI_JSON_I64, RANK(samples), true, 0, LIMIT },
    { "micro_batch", YOKEI_JSON_I64, RANK(micro_batch), true, 0, LIMIT },
    { "threads", YOKEI_JSON_I64, RANK(threads), false, 0, 65536 },
    { "job_rank", YOKEI_JSON_I64, RANK(job_rank), false, -1, 100000 },
    { "predicted_seconds", YOKEI_JSON_F64, RANK(predicted_seconds), false, 0, LIMIT },
    { "measured_seconds", YOKEI_JSON_F64, RANK(measured_seconds), false, 0, LIMIT },
    { 0 },
};
static const struct yokei_json_schema RANK_SCHEMA = { RANK_FIELDS, sizeof(struct yokei_plan_rank), false, YOKE_ECONFIG };

static const struct yokei_json_field VARIANT_FIELDS[] = {
    { "device", YOKEI_JSON_TEXT, VARIANT(device), true },
    { "op", YOKEI_JSON_TEXT, VARIANT(op), true },
    { "variant", YOKEI_JSON_TEXT, VARIANT(variant), true },
    { 0 },
};
static const struct yokei_json_schema VARIANT_SCHEMA = { VARIANT_FIELDS, sizeof(struct yokei_plan_variant), false, YOKE_ECONFIG };

#define PROGRESS(member) offsetof(struct yokei_plan_progress, member), sizeof(((struct yokei_plan_progress *)0)->member)
static const struct yokei_json_field PROGRESS_FIELDS[] = {
    { "step", YOKEI_JSON_I64, PROGRESS(step), true, 1, LIMIT },
    { "permille", YOKEI_JSON_I64, PROGRESS(permille), true, 0, 1000 },
    { 0 },
};
static const struct yokei_json_schema PROGRESS_SCHEMA = { PROGRESS_FIELDS, sizeof(struct yokei_plan_progress), false, YOKE_ECONFIG };

_Static_assert(sizeof(size_t) == sizeof(int64_t), "a size is read and written as a 64-bit integer");
#define MEMORY(member) { #member, YOKEI_JSON_I64, offsetof(struct yoke_memory_report, member), sizeof(size_t), false, 0, 1e18 }
static const struct yokei_json_field MEMORY_FIELDS[] = {
    MEMORY(weights), MEMORY(gradients), MEMORY(optimizer), MEMORY(activations), MEMORY(stash), MEMORY(boundaries), MEMORY(received),
    MEMORY(layer_workspace), MEMORY(unused), MEMORY(workspace), MEMORY(scratch), MEMORY(total), MEMORY(staging_shared), MEMORY(staging),
    MEMORY(host), { 0 },
};
static const struct yokei_json_schema MEMORY_SCHEMA = { MEMORY_FIELDS, sizeof(struct yoke_memory_report), false, YOKE_ECONFIG };

static const char *const PRECISIONS[] = { "fp32", "bf16", "fp16", NULL };
static const char *const BALANCES[] = { "", "auto", "equal", NULL };
static const char *const PLACEMENTS[] = { "", "host", "rank", NULL };

static const struct yokei_json_field PLAN_FIELDS[] = {
    { "version", YOKEI_JSON_I64, PLAN(version), true, YOKEI_PLAN_VERSION, YOKEI_PLAN_VERSION },
    { "model", YOKEI_JSON_OBJECT, PLAN(model), false, .schema = &yokei_gpt2_schema, .sized = true },
    { "llama", YOKEI_JSON_OBJECT, PLAN(llama), false, .schema = &yokei_llama_schema, .sized = true },
    { "precision", YOKEI_JSON_TEXT, PLAN(precision), true, .choices = PRECISIONS },
    { "seed", YOKEI_JSON_U64, PLAN(seed), true },
    { "batch", YOKEI_JSON_I64, PLAN(batch), true, 1, LIMIT },
    { "sequence", YOKEI_JSON_I64, PLAN(sequence), true, 1, LIMIT },
    { "data_hash", YOKEI_JSON_TEXT, PLAN(data_hash), false },
    { "all_reduce", YOKEI_JSON_TEXT, PLAN(all_reduce), false },
    { "bucket_bytes", YOKEI_JSON_I64, PLAN(bucket_bytes), false, 0, LIMIT },
    { "chunk_bytes", YOKEI_JSON_I64, PLAN(chunk_bytes), false, 0, LIMIT },
    { "comm_costs", YOKEI_JSON_TEXT, PLAN(comm_costs), false },
    { "comm_shares", YOKEI_JSON_TEXT, PLAN(comm_shares), false },
    { "ranks", YOKEI_JSON_ARRAY, PLAN(ranks), true, 1, 100000, .schema = &RANK_SCHEMA, .count_offset = offsetof(struct yokei_plan, n_ranks) },
    { "data", YOKEI_JSON_I64, PLAN(data), false, 0, 100000 },
    { "pipeline", YOKEI_JSON_I64, PLAN(pipeline), false, 0, 100000 },
    { "tensor", YOKEI_JSON_I64, PLAN(tensor), false, 0, 100000 },
    { "stage_tensor", YOKEI_JSON_TEXT, PLAN(stage_tensor), false },
    { "chunks", YOKEI_JSON_I64, PLAN(chunks), false, 0, 1000 },
    { "schedule", YOKEI_JSON_TEXT, PLAN(schedule), false },
    { "schedule_text", YOKEI_JSON_STRING, PLAN(schedule_text), false },
    { "layers", YOKEI_JSON_TEXT, PLAN(layers), false },
    { "recompute", YOKEI_JSON_TEXT, PLAN(recompute), false },
    { "sequence_parallel", YOKEI_JSON_I64, PLAN(sequence_parallel), false, 0, 1 },
    { "tensor_shares", YOKEI_JSON_TEXT, PLAN(tensor_shares), false },
    { "zero", YOKEI_JSON_I64, PLAN(zero), false, 0, 1 },
    { "zero_shares", YOKEI_JSON_TEXT, PLAN(zero_shares), false },
    { "balance", YOKEI_JSON_TEXT, PLAN(balance), false, .choices = BALANCES },
    { "placement", YOKEI_JSON_TEXT, PLAN(placement), false, .choices = PLACEMENTS },
    { "predicted_step_seconds", YOKEI_JSON_F64, PLAN(predicted_step_seconds), false, 0, LIMIT },
    { "measured_step_seconds", YOKEI_JSON_F64, PLAN(measured_step_seconds), false, 0, LIMIT },
    { "variants", YOKEI_JSON_ARRAY, PLAN(variants), false, 0, 100000, .schema = &VARIANT_SCHEMA,
      .count_offset = offsetof(struct yokei_plan, n_variants) },
    { "learning_rate", YOKEI_JSON_F64, PLAN(learning_rate), false, 0, 1e3 },
    { "min_learning_rate", YOKEI_JSON_F64, PLAN(min_learning_rate), false, 0, 1e3 },
    { "weight_decay", YOKEI_JSON_F64, PLAN(weight_decay), false, 0, 1e3 },
    { "beta1", YOKEI_JSON_F64, PLAN(beta1), false, 0, 1 },
    { "beta2", YOKEI_JSON_F64, PLAN(beta2), false, 0, 1 },
    { "clip", YOKEI_JSON_F64, PLAN(clip), false, 0, 1e9 },
    { "loss_scale", YOKEI_JSON_F64, PLAN(loss_scale), false, 0, 1e30 },
    { "warmup", YOKEI_JSON_I64, PLAN(warmup), false, 0, LIMIT },
    { "steps", YOKEI_JSON_I64, PLAN(steps), false, 0, LIMIT },
    { "budget_seconds", YOKEI_JSON_F64, PLAN(budget_seconds), false, 0, 1e9 },
    { "memory", YOKEI_JSON_ARRAY, PLAN(memory), false, 0, 100000, .schema = &MEMORY_SCHEMA, .count_offset = offsetof(struct yokei_plan, n_memory) },
    { "progress", YOKEI_JSON_ARRAY, PLAN(progress), false, 0, 100000, .schema = &PROGRESS_SCHEMA,
      .count_offset = offsetof(struct yokei_plan, n_progress) },
    { 0 },
};
const struct yokei_json_schema yokei_plan_schema = { PLAN_FIELDS, sizeof(struct yokei_plan), false, YOKE_ECONFIG };

static yoke_status check_rank(const struct yokei_plan_rank *rank, int64_t index, const char *where)
{
    if (!rank->device[0]) return yoke_fail(YOKE_ECONFIG, "%s: ranks[%lld].device is empty; name one, such as \"host\"", where, (long long)index);
    if (rank->samples < 0 || rank->micro_batch < 0 || rank->micro_batch > rank->samples || (rank->samples > 0 && rank->micro_batch == 0))
        return yoke_fail(YOKE_ECONFIG, "%s: ranks[%lld].micro_batch is %lld; it must be between 1 and the rank's %lld samples", where,
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
    return yoke_fail(YOKE_ECONFIG, "%s \"%s\": give %d whole numbers of at least 1, with commas or colons between them", what, text, n);
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

/* Ranks that work on the same samples. */
static yoke_status ranks_of_replica(const struct yokei_plan *plan, int64_t *n_out)
{
    int *widths;
    YOKE_TRY(yokei_plan_widths(plan, &widths));
    *n_out = widths ? 0 : YOKE_MAX(plan->pipeline, 1) * YOKE_MAX(plan->tensor, 1);
    for (int s = 0; s < plan->pipeline && widths; s++) *n_out += widths[s];
    free(widths);
    return YOKE_OK;
}

yoke_status yokei_plan_check(const struct yokei_plan *plan, const char *where)
{
    const struct yokei_model model = yokei_plan_model(plan);
    if (!plan->model.size == !plan->llama.size)
        return yoke_fail(YOKE_ECONFIG, "%s: %s; give \"model\" with the sizes of a GPT-2, or \"llama\" with those of a Llama", where,
                         plan->model.size ? "there are two models" : "the required key \"model\" is missing");
    yoke_status status = yokei_model_check(model);
    if (status) return yoke_fail_context(status, "%s: %s", where, model.llama ? "llama" : "model");
    if (plan->sequence > yokei_model_positions(model))
        return yoke_fail(YOKE_ECONFIG, "%s: sequence is %lld, but %s is %lld; lower the sequence length", where, (long long)plan->sequence,
                         model.llama ? "llama.max_position_embeddings" : "model.n_positions", (long long)yokei_model_positions(model));
    if (plan->data_hash[0] && (strlen(plan->data_hash) != 16 || strspn(plan->data_hash, "0123456789abcdef") != 16))
        return yoke_fail(YOKE_ECONFIG, "%s: data_hash is \"%s\"; 16 hexadecimal digits are wanted", where, plan->data_hash);
    int64_t sum = 0;
    for (int64_t i = 0; i < plan->n_ranks; i++) {
        YOKE_TRY(check_rank(&plan->ranks[i], i, where));
        sum += plan->ranks[i].samples;
    }
    int64_t width = 1;
    status = ranks_of_replica(plan, &width);
    if (status) return yoke_fail_context(status, "%s", where);
    if (sum != plan->batch * width)
        return yoke_fail(YOKE_ECONFIG, "%s: the samples of all ranks add up to %lld, but batch is %lld%s; they must agree", where,
                         (long long)sum, (long long)plan->batch, width > 1 ? ", times the ranks of a replica" : "");
    return YOKE_OK;
}

static yoke_status check_read(yoke_status status, struct yokei_plan *plan, const char *where, struct yokei_plan *plan_out)
{
    YOKE_TRY(status);
    status = yokei_plan_check(plan, where);
    if (status) yokei_plan_free(plan);
    else *plan_out = *plan;
    return status;
}

static struct yokei_plan defaults(void)
{
    struct yokei_plan plan = YOKEI_PLAN_INIT;
    return plan;
}

yoke_status yokei_plan_read(const char *path, struct yokei_plan *plan_out)
{
    struct yokei_plan plan = defaults();
    return check_read(yokei_json_read(path, &yokei_plan_schema, &plan), &plan, path, plan_out);
}

yoke_status yokei_plan_parse(const char *where, const char *text, size_t bytes, struct yokei_plan *plan_out)
{
    struct yokei_plan plan = defaults();
    return check_read(yokei_json_parse(where, text, bytes, &yokei_plan_schema, &plan), &plan, where, plan_out);
}

yoke_status yokei_plan_write(const char *path, const struct yokei_plan *plan)
{
    YOKE_TRY(yokei_plan_check(plan, path));
    return yokei_json_write(path, &yokei_plan_schema, plan);
}

yoke_status yokei_plan_text(const struct yokei_plan *plan, char **text_out)
{
    YOKE_TRY(yokei_plan_check(plan, "plan"));
    return yokei_json_text(&yokei_plan_schema, plan, true, false, text_out);
}

void yokei_plan_free(struct yokei_plan *plan) { yokei_json_free(&yokei_plan_schema, plan); }

void yokei_plan_forget_ranks(struct yokei_plan *plan)
{
    free(plan->ranks);
    plan->ranks = NULL;
    plan->n_ranks = 0;
}
