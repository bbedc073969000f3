/* SPDX-License-Identifier: Apache-2.0 */
/* Create a trainer from a plan that fits, and destroy it. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/op_times.h"
#include "train/trainer/facts.h"
#include "train/trainer/memory.h"

static yoke_status allocate(struct yoke_trainer *t)
{
    const struct yokei_trainer_plan *p = &t->plan;
    size_t wide = yoke_dtype_bytes(p->state.wide);
    int64_t n_tokens = YOKE_MAX(p->shares[p->mesh.d], p->micro_batch) * t->config.sequence;
    for (int s = 0; s < YOKEI_N_STREAMS; s++) YOKE_TRY(yoke_stream_create(t->device, &t->stream[s]));
    const yoke_status status = yoke_alloc(t->device, p->arena_bytes, &t->base);
    if (status)
        return yoke_fail_context(status, "trainer: weights, gradients, optimizer state and activations");
    YOKE_TRY(yokei_annotate_arena(t->device, t->base, p->arena_bytes, &p->parameters, &p->state));
    YOKE_TRY(yoke_stream_reserve(t->stream[YOKEI_COMPUTE], p->scratch_bytes));
    const int n_events = YOKE_MAX(p->train.n_events, YOKE_MAX(p->evaluate.n_events, p->logits.n_events));
    t->event = calloc((size_t)n_events + 1, sizeof *t->event);
    t->reports = calloc((size_t)p->n_ranks, sizeof *t->reports);
    t->gathered = calloc((size_t)p->n_ranks, YOKEI_REPORT * sizeof *t->gathered);
    t->host_losses = malloc((size_t)n_tokens * wide);
    t->host_norms = malloc(((size_t)p->state.n_norms * 2 + 1) * wide);
    if (!t->event || !t->reports || !t->gathered || !t->host_losses || !t->host_norms)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory");
    for (; t->n_events < n_events; t->n_events++)
        YOKE_TRY(yoke_event_create(t->device, &t->event[t->n_events]));
    return YOKE_OK;
}

/* Prepare the steps. No call here synchronises with another rank. */
static yoke_status begin(struct yoke_trainer *t)
{
    yokei_usage_begin(&t->usage);
    YOKE_TRY(yokei_timing_create(t));
    YOKE_TRY(yokei_zero_begin(t));
    t->config.stage_blocks = t->config.tensor_shares = t->config.zero_shares = NULL;
    t->config.stage_tensor = NULL;
    t->config.recompute = t->config.pipeline_kind = NULL;
    YOKE_TRY(yoke_trainer_draw(t, t->config.seed));
    return yokei_live_add(&yokei_objects, t, sizeof *t);
}

static void destroy(yoke_trainer *t)
{
    for (int s = 0; s < YOKEI_N_STREAMS; s++)
        if (t->stream[s]) yoke_stream_sync(t->stream[s]);
    /*
     * Asynchronous operations outside the streams must complete first, if necessary with an error. Until then
     * they use this memory and signal these events.
     */
    for (int e = 0; e < t->n_events && yokei_is_eager(t->device); e++) yoke_event_sync(t->event[e]);
    if (t->between && yokei_is_eager(t->device)) yoke_event_sync(t->between);
    for (int e = 0; e < t->n_events; e++) yoke_event_destroy(t->event[e]);
    if (t->between) yoke_event_destroy(t->between);
    yokei_op_times_free(&t->profiler);
    for (int s = 0; s < YOKEI_N_STREAMS; s++)
        if (t->stream[s]) yoke_stream_destroy(t->stream[s]);
    yokei_groups_destroy(&t->groups);
    if (t->base) yoke_free(t->device, t->base);
    free(t->event);
    free(t->reports);
    free(t->gathered);
    free(t->memory);
    free(t->host_losses);
    free(t->host_norms);
    free(t->sums_in_order);
    yokei_step_facts_free(t);
    yokei_record_free(&t->record);
    yokei_usage_end(&t->usage);
    yokei_trainer_plan_free(&t->plan);
    t->model->n_trainers--;
    free(t);
}

/* Plan, and load the programs that the plan needs, so that the device's free memory is that beside them. */
static yoke_status plan_with_programs(struct yoke_trainer *t)
{
    uint64_t before = 0, after = 0, total;
    yokei_ranks_busy(&t->config, "loading the programs of its device");
    YOKE_TRY(yoke_device_memory(t->device, &before, &total));
    yokei_prepare_programs(t->device, true);
    const yoke_status status = yokei_trainer_plan(t->model, t->device, &t->config, &t->plan);
    yokei_prepare_programs(t->device, false);
    YOKE_TRY(status);
    YOKE_TRY(yoke_device_memory(t->device, &after, &total));
    if (before > after && !yoke_device_info(t->device)->host_visible)
        yoke_log(YOKE_LOG_INFO, "%s: the programs of a step take %.1f MiB of the device",
                 yoke_device_info(t->device)->spec, (double)(before - after) / (1 << 20));
    return YOKE_OK;
}

/* Refuse the plan on all ranks if it does not fit on one of them. Nothing is allocated on a device. */
static yoke_status fit(struct yoke_trainer *t)
{
    YOKE_TRY(yokei_memory_gather(&t->config, t->device, &t->plan, t->memory));
    return yokei_memory_check(t->model, t->device, &t->config, &t->plan, t->memory);
}

/*
 * If the devices of replicas round AdamW differently, plan again so that each slice of the weights is stepped
 * by one replica, which sends it to the others.
 */
static yoke_status plan_for_rounding(struct yoke_trainer *t)
{
    bool differs;
    YOKE_TRY(yokei_rounding_compare(&t->config, t->device, &t->plan, &differs));
    if (!differs || t->config.zero || t->plan.mesh.data == 1) return YOKE_OK;
    if (t->plan.rank == 0)
        yoke_log(
            YOKE_LOG_WARN,
            "trainer: the ranks' devices round AdamW differently, so each weight is stepped by one replica and sent to "
            "the others, as with zero 1");
    yokei_trainer_plan_free(&t->plan);
    t->config.zero = 1;
    YOKE_TRY(yokei_trainer_plan(t->model, t->device, &t->config, &t->plan));
    return fit(t);
}

/*
 * Whether this rank has an error of its own, such as a fault of its device, that the other ranks do not have.
 * The other ranks may be waiting for this rank, on communicators that know nothing of the error. Errors of a
 * communicator need no revocation, because each of its ranks gets them.
 */
static bool is_alone(yoke_status status)
{
    switch (status) {
    case YOKE_ENOMEM:
    case YOKE_EBACKEND:
    case YOKE_ECOMPILE:
    case YOKE_EIO:
    case YOKE_EDATA:
    case YOKE_EINTERNAL: return !yokei_ranks_alike();
    default: return false;
    }
}

void yokei_trainer_revoke(yoke_trainer *t, yoke_status status)
{
    struct yokei_error text;
    if (!is_alone(status)) return;
    yokei_error_save(&text);
    yokei_groups_revoke(&t->groups, text.text);
    yokei_error_restore(&text);
    yokei_ranks_revoke(&t->config, status);
}

yoke_status yoke_trainer_create(const yoke_model *model, yoke_device *device,
                                const struct yoke_trainer_config *config, yoke_trainer **trainer_out)
{
    yoke_status status = YOKE_OK;
    if (!model || !device || !config || !trainer_out)
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_create: a pointer is null");
    struct yoke_trainer *t = calloc(1, sizeof *t);
    if (!t) return yokei_ranks_revoke(config, yoke_fail(YOKE_ENOMEM, "yoke_trainer_create: no host memory"));
    t->config = *config;
    t->maker = yokei_this_process();
    t->device = device;
    t->model = (yoke_model *)(uintptr_t)model; /* only the model's count of users is written */
    YOKE_TRY_GOTO(yokei_slow_factor(&t->slow), free_trainer);
    YOKE_TRY_GOTO(plan_with_programs(t), free_trainer);
    t->model->n_trainers++;
    t->memory = calloc((size_t)t->plan.n_ranks, sizeof *t->memory);
    status = t->memory ? YOKE_OK
                       : yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d ranks", t->plan.n_ranks);
    YOKE_TRY_GOTO(status, destroy_trainer);
    YOKE_TRY_GOTO(fit(t), destroy_trainer);
    YOKE_TRY_GOTO(plan_for_rounding(t), destroy_trainer);
    t->config.shares = NULL;
    t->config.schedule = NULL;
    YOKE_TRY_GOTO(yokei_ranks_all_well(&t->config, allocate(t)), destroy_trainer);
    if (t->plan.mesh.data < t->plan.n_ranks)
        YOKE_TRY_GOTO(yokei_groups_create(&t->config, &t->plan, &t->groups), destroy_trainer);
    YOKE_TRY_GOTO(yokei_ranks_all_well(&t->config, begin(t)), destroy_trainer);
    *trainer_out = t;
    return YOKE_OK;
destroy_trainer:
    yokei_trainer_revoke(t, status);
    /* the trainer is in the list if only another rank failed */
    yokei_live_remove(&yokei_objects, t, NULL, NULL);
    destroy(t);
    return status;
free_trainer:
    if (is_alone(status)) yokei_ranks_revoke(config, status);
    free(t);
    return status;
}

yoke_status yoke_trainer_destroy(yoke_trainer *t)
{
    if (!t) return YOKE_OK;
    YOKE_TRY(yokei_object_leaves("yoke_trainer_destroy", "trainer", t));
    destroy(t);
    return YOKE_OK;
}

yoke_status yoke_trainer_memory(const yoke_trainer *trainer, struct yoke_memory_report *report_out)
{
    if (!trainer || !report_out) return yoke_fail(YOKE_EINVAL, "yoke_trainer_memory: a pointer is null");
    *report_out = trainer->plan.report;
    return YOKE_OK;
}

yoke_status yoke_trainer_memory_of(const yoke_trainer *trainer, int rank,
                                   struct yoke_memory_report *report_out)
{
    if (!trainer || !report_out) return yoke_fail(YOKE_EINVAL, "yoke_trainer_memory_of: a pointer is null");
    if (rank < 0 || rank >= trainer->plan.n_ranks)
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_memory_of: rank %d is none of %d", rank,
                         trainer->plan.n_ranks);
    *report_out = trainer->memory[rank].report;
    return YOKE_OK;
}

void yoke_trainer_range(const yoke_trainer *trainer, int64_t *first_out, int64_t *count_out)
{
    *first_out = trainer->plan.first[trainer->plan.mesh.d];
    *count_out = trainer->plan.shares[trainer->plan.mesh.d];
}

void yoke_trainer_profile(yoke_trainer *trainer, yoke_profile_function function, void *context)
{
    trainer->profiling = function != NULL;
    yokei_op_times_free(&trainer->profiler);
    trainer->profiler = (struct yoke_observer){ .runs = true,
                                                .stream = trainer->stream[YOKEI_COMPUTE],
                                                .profile = function,
                                                .profile_context = context,
                                                .layer = "",
                                                .call = "" };
}
