/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training step: the program up to the agreement, then the optimizer. Also evaluation and logits, which run
 * only forward passes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "train/trainer/facts.h"

/* The numbers that a rank sends at the agreement. */
enum {
    REPORT_LOSS,
    REPORT_COMPUTE,
    REPORT_CLOCK,
    REPORT_OVERFLOW,
    REPORT_STOP,
    REPORT_SPAN,
    REPORT_BUSY,
    REPORT_USEFUL,
    REPORT_EXPOSED,
    REPORT_DATA,
    REPORT_CHECKPOINT,
    REPORT_PROCESSOR,
    REPORT_QUEUED,
    REPORT_PREEMPTIONS,
    REPORT_FAULTS,
    REPORT_COMPILE,
    REPORT_SQUARES,
    N_REPORT = REPORT_SQUARES + YOKEI_EXACT_LIMBS
};
_Static_assert((int)N_REPORT == (int)YOKEI_REPORT, "the report of a rank at an agreement");

static int64_t own_share(const struct yoke_trainer *t) { return t->plan.shares[t->plan.mesh.d]; }

/*
 * Whether this rank's losses count. Only the last stage has losses, and all ranks that share its tensors have
 * the same ones.
 */
static bool has_losses(const struct yoke_trainer *t)
{
    return t->plan.mesh.s == t->plan.mesh.pipeline - 1 && t->plan.mesh.t == 0;
}

/* On an eager stream (one that runs each call before it returns) a message would block all other work. */
static yoke_status message(void *context, enum yokei_instruction_kind kind, void *data, int64_t n_rows,
                           int64_t columns, yoke_stream *stream, yoke_event *done)
{
    struct yoke_trainer *t = context;
    const struct yokei_message what = {
        kind, data, n_rows, columns, t->plan.state.dtype, t->config.sequence_parallel
    };
    return yokei_groups_message(&t->groups, &t->plan.mesh, &what, yokei_is_eager(t->device) ? NULL : stream,
                                done);
}

static yoke_status tied(void *context, yoke_stream *stream) { return yokei_tied_sum(context, stream); }

/*
 * Sum the gradients of parameters that all ranks of a tensor group hold. With sequence parallelism each rank
 * has a part, and the sum of the parts is used. Otherwise the gradient of the first rank is used, because
 * ranks with different devices have slightly different bits, and their weights must stay equal.
 */
static yoke_status replicated(void *context, yoke_stream *stream)
{
    struct yoke_trainer *t = context;
    const struct yokei_state *s = &t->plan.state;
    const struct yoke_parameter *item = t->plan.parameters.item;
    yoke_status status = YOKE_OK;
    for (int i = 0; i < s->n; i++)
        if (item[i].replicated_axes & YOKE_AXIS_TENSOR && !(item[i].partial_axes & YOKE_AXIS_TENSOR)
            && t->plan.mesh.t > 0)
            YOKE_TRY(yoke_fill(stream, yoke_at(t->base, s->slot[i].gradient), 0,
                               (size_t)s->slot[i].n * yoke_dtype_bytes(s->wide)));
    YOKE_TRY(yoke_group_start());
    for (int i = 0; i < s->n && !status; i++)
        if (item[i].replicated_axes & YOKE_AXIS_TENSOR)
            status = yokei_zero_sum(t, i, t->groups.tensor, stream);
    const yoke_status ended = yoke_group_end();
    return status ? status : ended;
}

/* The sum of all losses, which have arrived. The black box also gets the sum of each sequence. */
static double add_losses(struct yoke_trainer *t)
{
    const int64_t T = t->config.sequence;
    double all = 0;
    for (int64_t sequence = 0; sequence < own_share(t) && has_losses(t); sequence++) {
        double sum = 0;
        for (int64_t i = 0; i < T; i++) {
            const double loss = yokei_load(t->plan.state.wide, t->host_losses, sequence * T + i);
            all += loss;
            sum += loss;
        }
        if (t->facts) yokei_step_facts_loss(t, sequence, sum, T);
    }
    return all;
}

/*
 * Copy losses and norms from the device. The squares of the gradients are added without rounding, and each
 * element of the model counts once.
 */
static yoke_status fetch(struct yoke_trainer *t, double *loss_sum_out, struct yokei_exact *squares_out,
                         bool *overflow_out)
{
    const struct yokei_state *s = &t->plan.state;
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    size_t wide = yoke_dtype_bytes(s->wide);
    int64_t n = own_share(t) * t->config.sequence;
    YOKE_TRY(yoke_copy_to_host(stream, t->host_losses, yoke_at(t->base, s->losses), (size_t)n * wide));
    YOKE_TRY(
        yoke_copy_to_host(stream, t->host_norms, yoke_at(t->base, s->norms), (size_t)s->n_norms * 2 * wide));
    YOKE_TRY(yoke_stream_sync(stream));
    t->fetched_ns = yokei_now_ns();
    struct yokei_exact squares = { { 0 }, false };
    bool overflow = false;
    for (int i = 0; i < s->n; i++) {
        const int64_t first = (int64_t)((s->slot[i].norms - s->norms) / (2 * wide));
        double sum = 0, n_bad = 0;
        for (int64_t k = first; k < first + s->slot[i].n_norms; k++) {
            const double square = yokei_load(s->wide, t->host_norms, 2 * k);
            if (t->plan.counted[i]) yokei_exact_add(&squares, square);
            sum += square;
            n_bad += yokei_load(s->wide, t->host_norms, 2 * k + 1);
        }
        overflow = overflow || n_bad != 0;
        if (t->facts) yokei_step_facts_gradient(t, i, sum, n_bad);
    }
    yokei_exact_carry(&squares);
    *loss_sum_out = add_losses(t);
    *squares_out = squares;
    *overflow_out = overflow || squares.is_infinite;
    return YOKE_OK;
}

/*
 * The agreement is one all-gather. Every rank gets the loss, overflow flag, speed and clock of every rank, so
 * all ranks make the same decisions.
 */
static yoke_status agree(void *context)
{
    struct yoke_trainer *t = context;
    double mine[N_REPORT];
    struct yokei_exact squares;
    bool overflow;
    YOKE_TRY(fetch(t, &mine[REPORT_LOSS], &squares, &overflow));
    mine[REPORT_COMPUTE] = t->result.seconds;
    mine[REPORT_CLOCK] = t->clock;
    mine[REPORT_OVERFLOW] = overflow;
    for (int i = 0; i < YOKEI_EXACT_LIMBS; i++) mine[REPORT_SQUARES + i] = (double)squares.limb[i];
    mine[REPORT_STOP] = t->asked_to_stop;
    struct yokei_step_times times;
    YOKE_TRY(yokei_timing_measure(t, &times));
    mine[REPORT_SPAN] = times.span, mine[REPORT_BUSY] = times.busy, mine[REPORT_USEFUL] = times.useful,
    mine[REPORT_EXPOSED] = times.exposed;
    mine[REPORT_DATA] = t->data_seconds, mine[REPORT_CHECKPOINT] = t->checkpoint_seconds;
    t->data_seconds = t->checkpoint_seconds = 0;
    struct yokei_usage_values used;
    yokei_usage_take(&t->usage, &used);
    mine[REPORT_PROCESSOR] = used.processor_seconds, mine[REPORT_QUEUED] = used.queued_seconds;
    mine[REPORT_PREEMPTIONS] = used.preemptions, mine[REPORT_FAULTS] = used.major_faults;
    mine[REPORT_COMPILE] = used.compile_seconds + t->compiled_seconds;
    t->compiled_seconds = 0;
    const int n = t->plan.n_ranks;
    double *const all = t->gathered;
    const yoke_status status = yokei_ranks_gather(&t->config, mine, N_REPORT, all);
    double loss = 0;
    bool any = false;
    for (int r = 0; r < n && !status; r++) {
        const double *report = all + r * N_REPORT;
        t->reports[r] = (struct yoke_rank_report){ report[REPORT_LOSS],       report[REPORT_COMPUTE],
                                                   report[REPORT_CLOCK],      report[REPORT_OVERFLOW] != 0,
                                                   report[REPORT_STOP] != 0,  report[REPORT_SPAN],
                                                   report[REPORT_BUSY],       report[REPORT_USEFUL],
                                                   report[REPORT_EXPOSED],    report[REPORT_DATA],
                                                   report[REPORT_CHECKPOINT], report[REPORT_PROCESSOR],
                                                   report[REPORT_QUEUED],     report[REPORT_PREEMPTIONS],
                                                   report[REPORT_FAULTS],     report[REPORT_COMPILE] };
        loss += report[REPORT_LOSS];
        any = any || report[REPORT_OVERFLOW] != 0;
    }
    /*
     * The square of each element comes from one rank. So all ranks clip by the same norm, although devices
     * add in different orders.
     */
    squares = (struct yokei_exact){ { 0 }, false };
    for (int r = 0; r < n && !status; r++) yokei_exact_join(&squares, all + r * N_REPORT + REPORT_SQUARES);
    YOKE_TRY(status);
    t->result.loss = loss / ((double)t->config.batch * (double)t->config.sequence);
    t->result.overflow = any;
    t->result.gradient_norm = sqrt(yokei_exact_value(&squares));
    return YOKE_OK;
}

yoke_status yokei_step_load(struct yoke_trainer *t, const int32_t *tokens, const int32_t *targets, int64_t n)
{
    const struct yokei_state *s = &t->plan.state;
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    YOKE_TRY(yokei_annotate_clear(stream, t->base, s, YOKEI_CLEAR_BATCH));
    YOKE_TRY(yoke_copy_to_device(stream, yoke_at(t->base, s->tokens), tokens, (size_t)n * sizeof *tokens));
    return yoke_copy_to_device(stream, yoke_at(t->base, s->targets), targets, (size_t)n * sizeof *targets);
}

void yokei_step_set_up(struct yoke_trainer *t, const struct yokei_job *job,
                       const struct yokei_program *program)
{
    struct yokei_machine *k = &t->machine;
    *k = (struct yokei_machine){ .job = job, .program = program, .base = t->base, .context = t };
    for (int s = 0; s < YOKEI_N_STREAMS; s++) k->stream[s] = t->stream[s];
    k->event = t->event;
    k->message = message;
    k->messages_signal = yokei_is_eager(t->device);
    k->tensor = t->groups.tensor ? &t->timed : NULL;
    k->observer = t->profiling ? &t->profiler : NULL;
    k->slow = t->slow;
    k->pass = (struct yoke_pass){ .size = sizeof k->pass,
                                  .mode = program->mode,
                                  .step = t->step,
                                  .sample_offset = t->plan.first[t->plan.mesh.d],
                                  .normaliser = t->config.batch * t->config.sequence,
                                  .loss_scale = (float)t->loss_scale.scale,
                                  .seed = t->config.seed };
}

/* Compute time is measured up to there, because all that follows waits for these instructions anyway. */
int yokei_step_end_of_compute(const struct yokei_program *p)
{
    int n = p->agree;
    while (n > 0
           && (p->instruction[n - 1].kind == YOKEI_NORMS || p->instruction[n - 1].kind == YOKEI_TIED
               || p->instruction[n - 1].kind == YOKEI_REPLICATED
               || p->instruction[n - 1].kind == YOKEI_REDUCE))
        n--;
    return n;
}

yoke_status yokei_step_drain(struct yoke_trainer *t)
{
    const struct yokei_program *p = t->machine.program;
    for (int i = 0; i < p->n; i++)
        if (yokei_is_message(p->instruction[i].kind))
            YOKE_TRY(yoke_event_sync(t->machine.event[p->instruction[i].record]));
    /* a message that failed is complete too, and left its buffer unchanged */
    return yokei_groups_error(&t->groups, &t->config);
}

static yoke_status check_losses(const struct yoke_trainer *t)
{
    for (int r = 0; r < t->plan.n_ranks; r++)
        if (!isfinite(t->reports[r].loss_sum))
            return yoke_fail(
                YOKE_ENUMERIC,
                "step %lld: the loss of rank %d is %s: lower the learning rate, or look at the data and the initial weights",
                (long long)t->step, r, isnan(t->reports[r].loss_sum) ? "not a number" : "infinite");
    return YOKE_OK;
}

yoke_status yoke_trainer_backward(yoke_trainer *t, const int32_t *tokens, const int32_t *targets,
                                  double clock, struct yoke_step_result *result_out)
{
    if (!t || !result_out)
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_backward: %s is null", t ? "result_out" : "trainer");
    YOKE_TRY(yokei_trainer_check("yoke_trainer_backward", t));
    int64_t n = own_share(t) * t->config.sequence;
    if (n && (!tokens || !targets))
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_backward: %s is null", tokens ? "targets" : "tokens");
    const struct yokei_program *p = &t->plan.train;
    t->begun_ns = yokei_now_ns();
    t->clock = clock;
    t->ready = false;
    t->step++;
    yokei_step_set_up(t, &t->plan.train_job, p);
    t->machine.reduce = t->plan.mesh.data > 1 ? yokei_zero_reduce : NULL;
    t->machine.gather = t->plan.state.is_divided ? yokei_zero_gather : NULL;
    t->machine.tied = t->groups.tied || t->groups.ties ? tied : NULL;
    t->machine.replicated = t->groups.tensor ? replicated : NULL;
    t->machine.agree = agree;
    t->machine.reduces_signal = t->overlaps && t->machine.reduce;
    t->machine.record = &t->record;
    t->machine.after = t->facts && t->facts->samples ? yokei_step_facts_output : NULL;
    yokei_record_clear(&t->record);
    t->gradient_scale = t->loss_scale.scale;
    t->result = (struct yoke_step_result){ .size = sizeof t->result,
                                           .step = t->step,
                                           .loss_scale = t->loss_scale.scale,
                                           .n_ranks = t->plan.n_ranks,
                                           .ranks = t->reports };
    int middle = yokei_step_end_of_compute(p);
    YOKE_TRY(yokei_step_load(t, tokens, targets, n));
    YOKE_TRY(yokei_annotate_clear(t->stream[YOKEI_COMPUTE], t->base, &t->plan.state,
                                  YOKEI_CLEAR_GRADIENTS | YOKEI_CLEAR_NORMS));
    YOKE_TRY(yokei_run(&t->machine, 0, middle));
    YOKE_TRY(yoke_stream_sync(t->stream[YOKEI_COMPUTE]));
    t->result.seconds = yokei_seconds_since(t->begun_ns);
    t->passed_ns = yokei_now_ns();
    YOKE_TRY(yokei_run(&t->machine, middle, p->agree + 1));
    YOKE_TRY(yokei_step_drain(t));
    t->result.seconds = yokei_seconds_since(t->begun_ns);
    YOKE_TRY(check_losses(t));
    t->ready = true;
    *result_out = t->result;
    return YOKE_OK;
}

yoke_status yoke_trainer_apply(yoke_trainer *t, double learning_rate, struct yoke_step_result *result)
{
    if (!t || !result) return yoke_fail(YOKE_EINVAL, "yoke_trainer_apply: a pointer is null");
    YOKE_TRY(yokei_trainer_check("yoke_trainer_apply", t));
    if (!t->ready)
        return yoke_fail(YOKE_EINVAL,
                         "yoke_trainer_apply: no gradient is due; call yoke_trainer_backward first");
    if (!(learning_rate >= 0) || !isfinite(learning_rate))
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_apply: learning rate %g", learning_rate);
    uint64_t begun = yokei_now_ns();
    t->ready = false;
    if (!t->result.overflow) {
        double norm = t->result.gradient_norm, clip = t->config.clip;
        double coefficient = clip > 0 ? fmin(1.0, clip / (norm + 1e-6)) : 1.0;
        t->optimizer_step++;
        t->machine.adamw = (struct yokei_adamw){ learning_rate,          t->config.beta1,
                                                 t->config.beta2,        t->config.eps,
                                                 t->config.weight_decay, coefficient / t->gradient_scale,
                                                 t->optimizer_step };
        const bool samples = t->facts && t->facts->samples;
        if (samples) YOKE_TRY(yokei_step_facts_before_update(t));
        YOKE_TRY(yokei_run(&t->machine, t->plan.train.agree + 1, t->plan.train.n));
        YOKE_TRY(yoke_stream_sync(t->stream[YOKEI_COMPUTE]));
        if (samples) YOKE_TRY(yokei_step_facts_after_update(t));
        if (t->plan.state.is_divided) YOKE_TRY(yoke_stream_sync(t->stream[YOKEI_COMMUNICATION]));
        if (t->plan.state.is_divided) YOKE_TRY(yokei_groups_error(&t->groups, &t->config));
    }
    result->seconds += yokei_seconds_since(begun);
    return yokei_loss_scale_update(&t->loss_scale, t->result.overflow, t->step);
}

void yoke_trainer_ask_to_stop(yoke_trainer *t) { t->asked_to_stop = true; }

void yokei_trainer_note(yoke_trainer *t, double data_seconds, double checkpoint_seconds)
{
    t->data_seconds += data_seconds;
    t->checkpoint_seconds += checkpoint_seconds;
}

void yokei_trainer_note_compiled(yoke_trainer *t, double seconds) { t->compiled_seconds += seconds; }

/* Run one evaluation program. Missing sequences of the last micro-batch are filled with ignored tokens. */
static yoke_status evaluate_some(struct yoke_trainer *t, const int32_t *tokens, const int32_t *targets,
                                 int64_t count, double *sum)
{
    const struct yokei_state *s = &t->plan.state;
    int64_t B = t->plan.evaluate_job.n_sequences, T = t->config.sequence, n = count * T, all = B * T;
    size_t wide = yoke_dtype_bytes(s->wide);
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    yokei_step_set_up(t, &t->plan.evaluate_job, &t->plan.evaluate);
    YOKE_TRY(yokei_step_load(t, tokens, targets, n));
    if (n < all) {
        YOKE_TRY(yoke_fill(stream, yoke_at(t->base, s->tokens + (size_t)n * 4), 0, (size_t)(all - n) * 4));
        YOKE_TRY(
            yoke_fill(stream, yoke_at(t->base, s->targets + (size_t)n * 4), 0xff, (size_t)(all - n) * 4));
    }
    YOKE_TRY(yokei_run(&t->machine, 0, t->plan.evaluate.n));
    YOKE_TRY(yokei_step_drain(t));
    YOKE_TRY(yokei_annotate_read(&t->machine));
    if (!has_losses(t)) return YOKE_OK;
    YOKE_TRY(yoke_copy_to_host(stream, t->host_losses, yoke_at(t->base, s->losses), (size_t)n * wide));
    YOKE_TRY(yoke_stream_sync(stream));
    for (int64_t i = 0; i < n; i++) *sum += yokei_load(s->wide, t->host_losses, i);
    return YOKE_OK;
}

yoke_status yoke_trainer_evaluate(yoke_trainer *t, const int32_t *tokens, const int32_t *targets,
                                  int64_t n_sequences, double *loss_sum_out)
{
    if (!t || !loss_sum_out || (n_sequences > 0 && (!tokens || !targets)))
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_evaluate: a pointer is null");
    YOKE_TRY(yokei_trainer_check("yoke_trainer_evaluate", t));
    int64_t B = t->plan.evaluate_job.n_sequences, T = t->config.sequence;
    double sum = 0;
    t->ready = false;
    for (int64_t first = 0; first < n_sequences; first += B)
        YOKE_TRY(evaluate_some(t, tokens + first * T, targets + first * T, YOKE_MIN(B, n_sequences - first),
                               &sum));
    *loss_sum_out = sum;
    return YOKE_OK;
}

/* On the last stage, write the logits of this rank's part of the vocabulary into logits_out. */
static yoke_status run_logits(yoke_trainer *t, const int32_t *tokens, int64_t position, int64_t V,
                              float *logits_out)
{
    const struct yokei_state *s = &t->plan.state;
    const struct yokei_program *p = &t->plan.logits;
    const struct yoke_shape shape = { sizeof shape,       s->dtype,      1,
                                      t->config.sequence, YOKE_EVALUATE, &t->plan.place };
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    int64_t rows, columns, ld;
    yokei_step_set_up(t, &t->plan.logits_job, p);
    YOKE_TRY(yokei_step_load(t, tokens, tokens, t->config.sequence));
    YOKE_TRY(yokei_run(&t->machine, 0, p->n));
    YOKE_TRY(yokei_step_drain(t));
    if (t->plan.mesh.s < t->plan.mesh.pipeline - 1) return YOKE_OK;
    yoke_layer_output(yoke_model_layer(t->model, t->model->n_layers - 1), &shape, &rows, &columns, &ld);
    const int64_t first = columns < V ? yoke_place_range(&t->plan.place, V).begin : 0;
    const size_t bytes = (size_t)columns * yoke_dtype_bytes(s->dtype),
                 place = (size_t)(position * ld) * yoke_dtype_bytes(s->dtype);
    void *row = malloc(bytes);
    if (!row) return yoke_fail(YOKE_ENOMEM, "yoke_trainer_logits: no host memory");
    const struct yokei_buffer *y = &p->buffer[p->instruction[p->n - 1].y];
    yoke_status status = yoke_copy_to_host(stream, row, yoke_at(t->base, s->bytes + y->offset + place),
                                           bytes);
    if (!status) status = yoke_stream_sync(stream);
    if (!status) status = yokei_annotate_read(&t->machine);
    if (!status && (columns < V || t->plan.mesh.t == 0))
        yoke_convert(s->dtype, row, YOKE_F32, logits_out + first, (size_t)columns);
    free(row);
    return status;
}

yoke_status yoke_trainer_logits(yoke_trainer *t, const int32_t *tokens, int64_t position, float *logits_out)
{
    if (!t || !tokens || !logits_out) return yoke_fail(YOKE_EINVAL, "yoke_trainer_logits: a pointer is null");
    YOKE_TRY(yokei_trainer_check("yoke_trainer_logits", t));
    int64_t T = t->config.sequence, V = yoke_model_layer(t->model, t->model->n_layers - 1)->out;
    if (position < 0 || position >= T)
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_logits: position %lld is not in a sequence of %lld",
                         (long long)position, (long long)T);
    t->ready = false;
    const bool is_whole = t->plan.mesh.data == t->plan.n_ranks;
    memset(logits_out, 0, (size_t)V * sizeof *logits_out);
    yoke_status status = is_whole || t->plan.mesh.d == 0 ? run_logits(t, tokens, position, V, logits_out)
                                                         : YOKE_OK;
    if (is_whole) return status;
    /* each word has its logit on one rank and 0 on all others */
    const yoke_status joined = yokei_ranks_join_all(&t->config, logits_out, V);
    return status ? status : joined;
}
