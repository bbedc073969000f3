/* SPDX-License-Identifier: Apache-2.0 */
/* Compute the reference on one host rank. Every layout is compared with it. */
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "parallel/balance.h"
#include "train/parity/gates.h"
#include "train/parity/inside.h"

const int yokei_parity_checks[YOKEI_PARITY_CHECKS] = { 1, 10, 20 };

void yokei_parity_fill_batch(struct yokei_parity *p, int64_t step)
{
    static const char *const words[] = { "in the ", "beginning ", "was ",    "a yoke ",
                                         "of two ", "unequal ",   "beasts ", "pulling. " };
    const struct yokei_philox_key key = yokei_philox_named(p->config.seed, "text");
    const int64_t n = p->config.batch * p->config.sequence,
                  V = yokei_model_vocabulary(yokei_model_of(&p->config.model));
    int64_t at = 0;
    for (uint64_t i = (uint64_t)step * 1000; at <= n; i++)
        for (const char *c = words[(size_t)(yokei_uniform(key, i) * 7.999)]; *c && at <= n; c++, at++) {
            const int32_t token = (int32_t)((unsigned char)*c % V);
            if (at < n) p->tokens[at] = token;
            if (at > 0) p->targets[at - 1] = token;
        }
}

double yokei_parity_rate(int64_t step) { return 1e-3 * fmin(1, (double)step / 10); }

static void lay_out(const struct yokei_parity_layout *l, struct yokei_parity_setup *u)
{
    struct yoke_trainer_config *c = &u->config;
    double weights[YOKEI_PARITY_MOST];
    for (int64_t d = 0; d < l->n_shares; d++) weights[d] = (double)l->shares[d];
    if (l->n_shares) yokei_balance(weights, (int)l->n_shares, c->batch, u->shares);
    for (int64_t s = 0; s < l->n_tensor; s++) u->widths[s] = (int)l->tensor[s];
    c->shares = l->n_shares ? u->shares : NULL;
    c->micro_batch = l->micro_batch;
    c->data = (int)l->data;
    c->pipeline = (int)l->pipeline;
    c->tensor = l->n_tensor > 1 ? 0 : (int)l->tensor[0];
    c->stage_tensor = l->n_tensor > 1 ? u->widths : NULL;
    c->chunks = (int)l->chunks;
    c->pipeline_kind = l->schedule[0] ? l->schedule : NULL;
    c->recompute = l->recompute[0] ? l->recompute : NULL;
    c->stage_blocks = l->n_layers ? l->layers : NULL;
    c->tensor_shares = l->n_tensor_shares ? l->tensor_shares : NULL;
    c->sequence_parallel = l->sequence_parallel;
    c->zero = (int)l->zero;
}

void yokei_parity_set_up(const struct yokei_parity *p, const struct yokei_parity_layout *l,
                         yoke_dtype precision, struct yokei_parity_setup *out)
{
    *out = (struct yokei_parity_setup){ .config = YOKE_TRAINER_CONFIG_INIT };
    struct yoke_trainer_config *c = &out->config;
    c->precision = precision;
    c->batch = p->config.batch;
    c->sequence = p->config.sequence;
    c->seed = p->config.seed;
    c->clip = 1;
    c->loss_scale = precision == YOKE_F16 ? p->config.loss_scale : 0;
    /* so that there are several buckets, and some are summed during the backward pass */
    c->bucket_bytes = 64 << 10;
    if (l) lay_out(l, out);
}

void yokei_parity_expected_free(struct yokei_parity_expected *e)
{
    for (int k = 0; k < YOKEI_PARITY_CHECKS; k++) {
        free(e->weights[k]);
        free(e->gradients[k]);
    }
    memset(e, 0, sizeof *e);
}

static yoke_status get_all(yoke_trainer *t, enum yoke_tensor_kind kind, float *all)
{
    for (int i = 0; i < yoke_trainer_n_logical(t); i++) {
        YOKE_TRY(yoke_trainer_get_whole(t, kind, i, all));
        all += yokei_logical_count(yoke_trainer_logical(t, i));
    }
    return YOKE_OK;
}

static bool all_finite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* The index of a step in the list of checked steps, or -1. */
static int check_at(int64_t step)
{
    for (int k = 0; k < YOKEI_PARITY_CHECKS; k++)
        if (yokei_parity_checks[k] == step) return k;
    return -1;
}

static yoke_status train(struct yokei_parity *p, yoke_trainer *t, struct yokei_parity_expected *e)
{
    struct yoke_step_result result;
    for (int64_t step = 1; step <= p->steps; step++) {
        const int k = check_at(step);
        if (k >= 0) YOKE_TRY(get_all(t, YOKE_TENSOR_WEIGHT, e->weights[k]));
        yokei_parity_fill_batch(p, step);
        YOKE_TRY(yoke_trainer_backward(t, p->tokens, p->targets, 0, &result));
        if (k >= 0) YOKE_TRY(get_all(t, YOKE_TENSOR_GRADIENT, e->gradients[k]));
        e->losses[step - 1] = result.loss;
        e->norms[step - 1] = result.gradient_norm;
        YOKE_TRY(yoke_trainer_apply(t, yokei_parity_rate(step), &result));
    }
    return YOKE_OK;
}

/* Compute on this rank's device if it is a host device. Otherwise open a host device. */
static yoke_status compute(struct yokei_parity *p, yoke_dtype precision, struct yokei_parity_expected *e)
{
    const bool own = !strncmp(p->devices[p->rank], "host", 4);
    yoke_device *device = own ? p->config.device : NULL;
    yoke_trainer *t = NULL;
    struct yokei_parity_setup setup;
    yokei_parity_set_up(p, NULL, precision, &setup);
    if (!own) YOKE_TRY(yoke_device_open("host", NULL, &device));
    yoke_status status = yoke_trainer_create(p->model, device, &setup.config, &t);
    if (!status) status = train(p, t, e);
    if (t) yoke_trainer_destroy(t);
    if (!own) yoke_device_close(device);
    if (status)
        return yoke_fail_context(status, "the reference, one host rank in %s", yoke_dtype_name(precision));
    for (int k = 0; k < YOKEI_PARITY_CHECKS; k++)
        e->finite[k] = e->gradients[k] && all_finite(e->gradients[k], p->n_elements);
    for (int k = 0; k < YOKEI_PARITY_CHECKS; k++)
        if (e->finite[k]) return YOKE_OK;
    return yoke_fail(
        YOKE_ENUMERIC,
        "the reference, one host rank in %s: no gradients to compare with are finite: give more steps, another seed, or leave "
        "the precision out",
        yoke_dtype_name(precision));
}

static yoke_status allocate(const struct yokei_parity *p, struct yokei_parity_expected *e)
{
    for (int k = 0; k < YOKEI_PARITY_CHECKS && yokei_parity_checks[k] <= p->steps; k++) {
        e->weights[k] = malloc((size_t)p->n_elements * sizeof(float));
        e->gradients[k] = malloc((size_t)p->n_elements * sizeof(float));
        if (!e->weights[k] || !e->gradients[k])
            return yoke_fail(YOKE_ENOMEM, "parity: no host memory for a reference of %lld elements",
                             (long long)p->n_elements);
    }
    return YOKE_OK;
}

/*
 * The rank that computes a precision. Ranks on host devices take turns. If there is none, all ranks take
 * turns.
 */
static int owner_of(const struct yokei_parity *p, int nth)
{
    int n = 0;
    for (int r = 0; r < p->n_ranks; r++) n += !strncmp(p->devices[r], "host", 4);
    if (!n) return nth % p->n_ranks;
    for (int r = 0, i = nth % n; r < p->n_ranks; r++)
        if (!strncmp(p->devices[r], "host", 4) && i-- == 0) return r;
    return 0;
}

static yoke_status broadcast_expected(struct yokei_parity *p, int owner, struct yokei_parity_expected *e)
{
    struct yokei_parity_expected got = *e;
    yoke_comm *control = p->config.control;
    YOKE_TRY(yoke_broadcast(&got, &got, sizeof got, YOKE_U8, owner, control, NULL));
    memcpy(e->finite, got.finite, sizeof e->finite);
    memcpy(e->losses, got.losses, sizeof e->losses);
    memcpy(e->norms, got.norms, sizeof e->norms);
    for (int k = 0; k < YOKEI_PARITY_CHECKS && e->weights[k]; k++) {
        YOKE_TRY(yoke_broadcast(e->weights[k], e->weights[k], (size_t)p->n_elements, YOKE_F32, owner, control,
                                NULL));
        YOKE_TRY(yoke_broadcast(e->gradients[k], e->gradients[k], (size_t)p->n_elements, YOKE_F32, owner,
                                control, NULL));
    }
    return YOKE_OK;
}

yoke_status yokei_parity_reference(struct yokei_parity *p, const bool precisions[YOKE_N_DTYPES])
{
    yoke_status status = YOKE_OK;
    int nth = 0;
    yokei_ranks_busy(&p->world, "computing the reference");
    for (int d = 0; d < YOKE_N_DTYPES && !status; d++) {
        if (!precisions[d]) continue;
        status = allocate(p, &p->expected[d]);
        if (!status && owner_of(p, nth) == p->rank) status = compute(p, (yoke_dtype)d, &p->expected[d]);
        nth++;
    }
    YOKE_TRY(yokei_ranks_all_well(&p->world, status));
    nth = 0;
    for (int d = 0; d < YOKE_N_DTYPES; d++) {
        if (!precisions[d]) continue;
        if (p->n_ranks > 1) YOKE_TRY(broadcast_expected(p, owner_of(p, nth), &p->expected[d]));
        p->expected[d].there = true;
        nth++;
    }
    return YOKE_OK;
}
