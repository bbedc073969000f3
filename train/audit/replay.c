/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A third opinion for replicas that differ without a majority: the rank repeats the common micro-batch on a
 * host device of its own process, from its own weights, and compares its gradients with the result. The run
 * ends after this, so memory may be allocated. A replica must be one rank, which has the whole model.
 */
#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "train/audit/audit.h"
#include "train/parity/gates.h"

static yoke_status open_host(const struct yokei_audit *a, yoke_device **device_out,
                             yoke_trainer **trainer_out)
{
    const struct yoke_trainer *t = a->t;
    struct yoke_trainer_config c = t->config;
    c.batch = c.micro_batch = a->n_sequences;
    c.shares = c.stage_blocks = c.tensor_shares = c.zero_shares = NULL;
    c.stage_tensor = NULL;
    c.schedule = c.recompute = c.pipeline_kind = NULL;
    c.data = c.pipeline = c.tensor = c.chunks = 1;
    c.zero = 0;
    c.memory_limit = 0;
    c.sequence_parallel = false;
    c.comm = c.control = NULL;
    YOKE_TRY(yoke_device_open("host", NULL, device_out));
    return yoke_trainer_create(t->model, *device_out, &c, trainer_out);
}

/* Set the host's weights, which layers get as this rank's layers get them. */
static yoke_status copy_weights(const struct yokei_audit *a, yoke_trainer *host, float *values)
{
    for (int i = 0; i < a->t->plan.state.n; i++) {
        YOKE_TRY(yokei_trainer_get_working(a->t, i, values));
        YOKE_TRY(yokei_trainer_set_piece(host, YOKE_TENSOR_WEIGHT, i, 0, a->t->plan.state.slot[i].n, values));
    }
    return YOKE_OK;
}

/* Run the micro-batch with what decides its numbers: the step, the loss scale and the number of tokens. */
static yoke_status run_host(const struct yokei_audit *a, yoke_trainer *host)
{
    const struct yoke_trainer *t = a->t;
    yokei_step_set_up(host, &host->plan.train_job, &host->plan.train);
    host->machine.pass.step = t->step;
    host->machine.pass.sample_offset = 0;
    host->machine.pass.normaliser = t->config.batch * t->config.sequence;
    host->machine.pass.loss_scale = (float)t->loss_scale.scale;
    YOKE_TRY(yokei_step_load(host, a->tokens, a->targets, a->n_sequences * t->config.sequence));
    YOKE_TRY(yokei_annotate_clear(host->stream[YOKEI_COMPUTE], host->base, &host->plan.state,
                                  YOKEI_CLEAR_GRADIENTS | YOKEI_CLEAR_NORMS));
    YOKE_TRY(yokei_run(&host->machine, 0, host->plan.train.agree));
    return yoke_stream_sync(host->stream[YOKEI_COMPUTE]);
}

static yoke_status compare(const struct yokei_audit *a, yoke_trainer *host, float *got, float *expected,
                           double *ratio_out)
{
    const yoke_dtype precision = a->t->config.precision;
    double before = 0, worst = 0;
    for (int i = 0; i < a->t->plan.state.n; i++) {
        const char *name = a->t->plan.parameters.item[i].name;
        const int64_t n = a->t->plan.state.slot[i].n;
        struct yokei_gate_squares s = { { 0 }, { 0 } };
        yoke_stream *mine = a->t->stream[YOKEI_COMPUTE], *its = host->stream[YOKEI_COMPUTE];
        YOKE_TRY(yoke_copy_to_host(mine, got, yoke_at(a->t->base, a->t->plan.state.slot[i].gradient),
                                   (size_t)n * sizeof *got));
        YOKE_TRY(yoke_copy_to_host(its, expected, yoke_at(host->base, host->plan.state.slot[i].gradient),
                                   (size_t)n * sizeof *expected));
        YOKE_TRY(yoke_stream_sync(mine));
        YOKE_TRY(yoke_stream_sync(its));
        yokei_gate_add(name, got, expected, (size_t)n, &s);
        const double squares = s.expected[0];
        yokei_gate_lean(name, before, &s);
        before = squares;
        worst = fmax(worst, yokei_gate_ratio(name, &s, precision, yokei_gate_gradient(precision, false)));
    }
    *ratio_out = worst;
    return YOKE_OK;
}

double yokei_audit_replay(struct yokei_audit *a)
{
    yoke_device *device = NULL;
    yoke_trainer *host = NULL;
    double ratio = NAN;
    int64_t most = 1;
    for (int i = 0; i < a->t->plan.state.n; i++) most = YOKE_MAX(most, a->t->plan.state.slot[i].n);
    float *values = malloc(2 * (size_t)most * sizeof *values);
    yokei_ranks_busy(&a->t->config, "repeating a micro-batch on the host");
    yoke_status status = values ? open_host(a, &device, &host) : YOKE_ENOMEM;
    if (!status) status = copy_weights(a, host, values);
    if (!status) status = run_host(a, host);
    if (!status) status = compare(a, host, values, values + most, &ratio);
    if (host) yoke_trainer_destroy(host);
    if (device) yoke_device_close(device);
    free(values);
    return status ? NAN : ratio;
}
