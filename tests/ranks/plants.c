/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted bugs: functions with the same names as functions of Yoke's libraries. A program that is linked with
 * this file, or a process that has it preloaded, calls these functions instead of the libraries'. Each one
 * calls the library's function unless its bug is chosen. To add a bug, add a row in plants.h, an `if` in the
 * nearest function here, and a row in planted.c that names the gate that must notice it.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "core/base/base.h"
#include "tests/ranks/plants.h"
#include "train/layers/layers.h"
#include "train/trainer/trainer.h"

static enum plant chosen = N_PLANTS;

void plants_choose(enum plant plant) { chosen = plant; }

static bool is_planted(enum plant plant)
{
    static const char *const names[] = { "",
#define PLANT_NAME(name, what) #name,
                                         PLANTS(PLANT_NAME)
#undef PLANT_NAME
    };
    if (chosen == N_PLANTS) {
        const char *name = getenv("PLANT");
        chosen = PLANT_NONE;
        for (int p = 1; name && p < N_PLANTS; p++)
            if (!strcmp(names[p], name)) chosen = (enum plant)p;
    }
    return chosen == plant;
}

/*
 * The library's own function. It is looked up at run time, so that this file can be preloaded into programs
 * without the library.
 */
#define OWN(function, type) ((type)(uintptr_t)dlsym(RTLD_NEXT, #function))

typedef yoke_status all_reduce_function(const void *, void *, size_t, yoke_dtype, yoke_reduction, yoke_comm *,
                                        yoke_stream *);
/* Sums of gradients are in place and in order with a stream. */
yoke_status yoke_all_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                            yoke_comm *comm, yoke_stream *stream)
{
    const bool sums_gradients = send == recv && op == YOKE_SUM && stream;
    if (sums_gradients && is_planted(PLANT_unsummed)) return YOKE_OK;
    if (sums_gradients && is_planted(PLANT_averaged)) op = YOKE_AVG;
    return OWN(yoke_all_reduce, all_reduce_function *)(send, recv, count, dtype, op, comm, stream);
}

typedef yoke_status plan_function(const yoke_model *, yoke_device *, struct yoke_trainer_config *,
                                  struct yokei_trainer_plan *);

yoke_status yokei_trainer_plan(const yoke_model *model, yoke_device *device, struct yoke_trainer_config *c,
                               struct yokei_trainer_plan *plan)
{
    const yoke_status status = OWN(yokei_trainer_plan, plan_function *)(model, device, c, plan);
    for (int i = 0; !status && i < plan->parameters.n && is_planted(PLANT_counted); i++)
        if (plan->parameters.item[i].replicated_axes & YOKE_AXIS_TENSOR && !plan->tied[i])
            plan->counted[i] = true;
    return status;
}

typedef struct yoke_range range_function(const struct yoke_place *, int64_t);

/* Bug: equal shares, rounded down. No rank gets the rest. */
struct yoke_range yoke_place_range(const struct yoke_place *place, int64_t n)
{
    if (!is_planted(PLANT_dropped) || !place || place->tensor_size <= 1)
        return OWN(yoke_place_range, range_function *)(place, n);
    return (struct yoke_range){ n / place->tensor_size * place->tensor_rank,
                                n / place->tensor_size * (place->tensor_rank + 1) };
}

typedef yoke_status backward_function(yoke_trainer *, const int32_t *, const int32_t *, double,
                                      struct yoke_step_result *);

/* Bug: each rank uses only its own overflow. */
yoke_status yoke_trainer_backward(yoke_trainer *t, const int32_t *tokens, const int32_t *targets,
                                  double clock, struct yoke_step_result *result)
{
    const yoke_status status = OWN(yoke_trainer_backward, backward_function *)(t, tokens, targets, clock,
                                                                               result);
    if (!status && is_planted(PLANT_scales)) t->result.overflow = t->reports[t->plan.rank].overflow;
    return status;
}

/* ---- bugs of a step's program; on devices whose memory the host sees ---- */

typedef yoke_status run_function(const struct yokei_machine *, int, int);

static yoke_status run_own(const struct yokei_machine *k, int from, int to)
{
    return OWN(yokei_run, run_function *)(k, from, to);
}

static void *at(const struct yokei_machine *k, size_t offset) { return (char *)k->base + offset; }

static size_t weight_bytes(const struct yokei_state *s, int i)
{
    return (size_t)s->slot[i].n * (s->slot[i].has_copy && s->dtype != YOKE_F32 ? 2 : 4);
}

/* The weights as they were before the last step of the optimizer. */
static struct {
    const struct yoke_trainer *of;
    char *weights;
} old;

static void keep_weights(const struct yokei_machine *k)
{
    const struct yokei_state *s = k->job->state;
    size_t bytes = 0, used = 0;
    for (int i = 0; i < s->n; i++) bytes += weight_bytes(s, i);
    free(old.weights);
    old.of = k->context;
    old.weights = malloc(bytes + 1);
    for (int i = 0; i < s->n && old.weights; used += weight_bytes(s, i), i++)
        memcpy(old.weights + used, at(k, s->slot[i].weight), weight_bytes(s, i));
}

static void swap_weights(const struct yokei_machine *k)
{
    const struct yokei_state *s = k->job->state;
    char *kept = old.weights;
    for (int i = 0; i < s->n; i++) {
        char *weight = at(k, s->slot[i].weight);
        for (size_t b = 0; b < weight_bytes(s, i); b++, kept++) {
            const char other = *kept;
            *kept = weight[b];
            weight[b] = other;
        }
    }
}

static yoke_status run_stale(const struct yokei_machine *k, int from, int to)
{
    const struct yoke_trainer *t = k->context;
    yoke_status status = YOKE_OK;
    if (t->step <= 1 && from == 0)
        old.of = NULL; /* the kept weights are another trainer's, or another run's */
    if (from > k->program->agree) keep_weights(k);
    for (int n = from; n < to && !status; n++) {
        const struct yokei_instruction *i = &k->program->instruction[n];
        const bool stale = i->kind == YOKEI_FORWARD && !i->recomputes && i->micro_batch == 1
                           && t->plan.mesh.s == 0 && old.of == t;
        if (stale) swap_weights(k);
        status = run_own(k, n, n + 1);
        if (stale) swap_weights(k);
    }
    return status;
}

static yoke_status run_tied_twice(const struct yokei_machine *k, int from, int to)
{
    yoke_status status = YOKE_OK;
    for (int n = from; n < to && !status; n++) {
        status = run_own(k, n, n + 1);
        if (!status && k->program->instruction[n].kind == YOKEI_TIED) status = run_own(k, n, n + 1);
    }
    return status;
}

yoke_status yokei_run(const struct yokei_machine *k, int from, int to)
{
    const struct yoke_trainer *t = k->context;
    const bool trains = t && k->program->agree < k->program->n;
    struct yokei_machine own = *k;
    if (!trains) return run_own(k, from, to); /* this is the planner, or an evaluation */
    if (is_planted(PLANT_means) && k->job->n_sequences)
        own.pass.normaliser = k->job->n_sequences * k->job->T * t->plan.mesh.data;
    if (is_planted(PLANT_stale) && t->plan.mesh.pipeline > 1) return run_stale(k, from, to);
    if (is_planted(PLANT_tied)) return run_tied_twice(k, from, to);
    const yoke_status status = run_own(&own, from, to);
    if (!status && is_planted(PLANT_last_bit) && from > k->program->agree
        && t->plan.stage_recomputes[t->plan.mesh.s])
        *(uint32_t *)at(k, k->job->state->slot[1].master) ^= 1;
    return status;
}
