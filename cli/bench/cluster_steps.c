/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole training steps of small models, measured while all ranks work. An op that is repeated alone finds its
 * operands in the caches, and its launch is hidden behind the call before it. In a step neither is true. So
 * each rank trains small models without the other ranks, and measures its steps twice:
 *
 *   op by op    The trainer's profiler measures each op with the caches as the op before it has left them. A
 *               row has the ops of one name and one size. Its time is the first quartile. Ops in which the
 *               rank stands still take longer, and do not count here.
 *   as a whole  The steps run as in a training: ops are queued, and threads of the rank wait for them.
 *
 * A step of n ops, whose rows say S seconds, takes the time x S + y n. x is above 1 if the rank stands still
 * at times, or if other work of the rank needs its cores. y is what a launch adds. It is negative if the
 * profiler has waited longer for an op than a step does. A device that runs each call before it returns has
 * no launches, so y is 0. x and y are found from all steps by least squares of the relative errors. Each row
 * gets the time that it takes by them, so that its steps add up.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/train.h>

#include "cli/bench/cluster.h"
#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST_RUNS = 8, MOST_SAMPLES = 128, LEAST_STEPS = 2, MOST_STEPS = 10000 };
static const double PROFILED_PART = 0.3; /* of the time of a run */
static const double LEAST_OP = 0.25;     /* the least part of a row's time that remains without the waiting */

/* A model, and how many sequences of it go through a step. */
struct run {
    const char *preset;
    bool is_llama;
    int64_t layers, vocabulary; /* 0: those of the preset */
    int64_t sequence, micro_batch;
};
static const struct run tiny_runs[] = { { "nano", false, 0, 0, 64, 1 },
                                        { "nano", false, 0, 0, 64, 4 },
                                        { "llama-nano", true, 0, 0, 64, 1 },
                                        { "llama-nano", true, 0, 0, 64, 4 } };
static const struct run micro_runs[] = {
    { "micro", false, 0, 0, 64, 1 },      { "micro", false, 0, 0, 64, 2 },
    { "micro", false, 0, 0, 64, 8 },      { "llama-micro", true, 0, 0, 64, 1 },
    { "llama-micro", true, 0, 0, 64, 2 }, { "llama-micro", true, 0, 0, 64, 8 }
};
static const struct run wide_runs[] = { { "124m", false, 2, 256, 256, 1 },
                                        { "124m", false, 2, 256, 256, 4 } };

/* Ops of one name and one size in one of the calls F, B and W, in all profiled steps. */
struct row {
    char call; /* the first letter of the call */
    double count[MOST_RUNS];
    int n;
    double sample[MOST_SAMPLES];
};
/* The measurements of a precision. */
struct steps {
    const char *dtype;
    struct yokei_op_time *op; /* [BENCH_STEP_OPS] the first op of each row; in the end the results */
    struct row *row;          /* [BENCH_STEP_OPS] */
    int n_rows, run;          /* run: the present one, and in the end their number */
    double profiled[MOST_RUNS], seconds[MOST_RUNS]; /* number of profiled steps; mean time of a whole step */
};

/* ---- a run ---- */

struct side {
    yoke_model *model;
    yoke_trainer *trainer;
    int32_t *text;
};

static yoke_status make_model(const struct run *run, yoke_model **model_out)
{
    if (run->is_llama) {
        struct yoke_llama_config c;
        YOKE_TRY(yoke_llama_preset(run->preset, &c));
        return yoke_model_llama(&c, model_out);
    }
    struct yoke_gpt2_config c;
    YOKE_TRY(yoke_gpt2_preset(run->preset, &c));
    if (run->layers) c.n_layer = run->layers, c.vocab_size = run->vocabulary;
    return yoke_model_gpt2(&c, model_out);
}

static yoke_status open_side(const struct bench_cluster *b, const struct run *run, yoke_dtype dtype,
                             struct side *out)
{
    const int64_t n = run->micro_batch * run->sequence;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    c.precision = dtype;
    c.batch = c.micro_batch = run->micro_batch;
    c.sequence = run->sequence;
    c.seed = 1;
    c.clip = 1;
    c.weight_decay = 0.1;
    *out = (struct side){ .text = malloc((size_t)(n + 1) * sizeof *out->text) };
    if (!out->text) return yoke_fail(YOKE_ENOMEM, "no memory for %lld tokens", (long long)n);
    for (int64_t i = 0; i <= n; i++) out->text[i] = (int32_t)(i * 7919 % 251); /* bytes */
    YOKE_TRY(make_model(run, &out->model));
    return yoke_trainer_create(out->model, b->device, &c, &out->trainer);
}

static void close_side(struct side *s)
{
    yoke_trainer_destroy(s->trainer);
    yoke_model_destroy(s->model);
    free(s->text);
}

static yoke_status step(const struct side *s)
{
    struct yoke_step_result result = YOKE_STEP_RESULT_INIT;
    YOKE_TRY(yoke_trainer_backward(s->trainer, s->text, s->text + 1, 0, &result));
    return yoke_trainer_apply(s->trainer, 1e-3, &result);
}

static void add_op(void *context, const char *layer, const char *call, const char *op,
                   const struct yoke_cost *cost, double seconds)
{
    struct steps *s = context;
    int i = 0;
    (void)layer;
    while (i < s->n_rows
           && (strcmp(s->op[i].op, op) != 0 || s->row[i].call != call[0] || s->op[i].flops != cost->flops
               || s->op[i].bytes != cost->bytes))
        i++;
    if (i == BENCH_STEP_OPS) return;
    if (i == s->n_rows) {
        s->n_rows++;
        s->op[i] = (struct yokei_op_time){ .flops = cost->flops, .bytes = cost->bytes };
        yokei_text(s->op[i].op, sizeof s->op[i].op, "%s", op);
        /* the optimizer's state is f32 in every precision */
        yokei_text(s->op[i].dtype, sizeof s->op[i].dtype, "%s",
                   yokei_op_class_of(op) == YOKEI_CLASS_OPTIMIZER ? "f32" : s->dtype);
    }
    struct row *r = &s->row[i];
    r->call = call[0];
    r->count[s->run]++;
    r->sample[r->n++ % MOST_SAMPLES] = seconds;
}

/* Steps for `seconds`. Returns their number and their mean time. */
static yoke_status time_steps(const struct side *side, double seconds, double *n_out, double *mean_out)
{
    const double begin = yokei_now();
    int n = 0;
    while (n < LEAST_STEPS || (n < MOST_STEPS && yokei_now() - begin < seconds)) {
        YOKE_TRY(step(side));
        n++;
    }
    *n_out = n;
    *mean_out = (yokei_now() - begin) / n;
    return YOKE_OK;
}

static yoke_status measure_side(struct steps *s, const struct side *side, double seconds)
{
    double n, mean;
    yoke_trainer_profile(side->trainer, add_op, s);
    YOKE_TRY(time_steps(side, PROFILED_PART * seconds, &s->profiled[s->run], &mean));
    yoke_trainer_profile(side->trainer, NULL, NULL);
    YOKE_TRY(step(side));
    return time_steps(side, (1 - PROFILED_PART) * seconds, &n, &s->seconds[s->run]);
}

/* A device that has no room for a model, or not all of its ops, leaves the run out. */
static yoke_status measure_run(const struct bench_cluster *b, struct steps *s, const struct run *run,
                               yoke_dtype dtype, double seconds)
{
    struct side side;
    yoke_status status = open_side(b, run, dtype, &side);
    if (!status) status = step(&side); /* it compiles kernels */
    const bool has_it = !status;
    if (status == YOKE_EUNSUPPORTED || status == YOKE_ENOMEM) status = YOKE_OK;
    if (!status) status = yoke_barrier(b->control, NULL);
    if (!status && has_it) status = measure_side(s, &side, seconds);
    s->run += has_it;
    close_side(&side);
    return status ? yoke_fail_context(status, "steps of %s in %s", run->preset, s->dtype) : YOKE_OK;
}

/* ---- the times of the rows ---- */

static bool is_long(const struct yokei_op_time *op) { return op->seconds > YOKEI_LONG_OP; }

/* The first quartile of each row. A long op is longer than any pause, so that its mean counts. */
static void rate_rows(struct steps *s)
{
    for (int i = 0; i < s->n_rows; i++) {
        struct row *r = &s->row[i];
        const int n = YOKE_MIN(r->n, MOST_SAMPLES);
        double sum = 0;
        for (int k = 0; k < n; k++) sum += r->sample[k];
        yokei_sort(r->sample, n);
        s->op[i].seconds = r->sample[n / 4] > YOKEI_LONG_OP ? sum / n : r->sample[n / 4];
    }
}

/* Seconds and number of the short ops of a run's step, and the rest of the step, which they must fill. */
static void sum_run(const struct steps *s, int run, double *seconds_out, double *n_out, double *rest_out)
{
    *seconds_out = *n_out = 0, *rest_out = s->seconds[run];
    for (int i = 0; i < s->n_rows; i++) {
        const double n = s->row[i].count[run] / s->profiled[run];
        if (is_long(&s->op[i]))
            *rest_out -= n * s->op[i].seconds;
        else
            *seconds_out += n * s->op[i].seconds, *n_out += n;
    }
}

/* Find the y of the text above, divided by x. Less than two different runs say nothing about it. */
static double find_launch(const struct steps *s)
{
    double ss = 0, sn = 0, nn = 0, st = 0, nt = 0;
    for (int run = 0; run < s->run; run++) {
        double seconds, n, rest;
        sum_run(s, run, &seconds, &n, &rest);
        yoke_log(YOKE_LOG_INFO, "step %d in %s: %.4g ms, of which %.0f short ops are %.4g ms", run, s->dtype,
                 s->seconds[run] * 1e3, n, seconds * 1e3);
        if (!(rest > 0)) continue;
        seconds /= rest, n /= rest;
        ss += seconds * seconds, sn += seconds * n, nn += n * n, st += seconds, nt += n;
    }
    const double det = ss * nn - sn * sn, x = st * nn - nt * sn, y = nt * ss - st * sn;
    return det > 1e-6 * ss * nn && x > 0 ? y / x : 0;
}

/* The time of the whole steps / that of their rows. */
static double find_slowdown(const struct steps *s)
{
    double sum = 0;
    int n_runs = 0;
    for (int run = 0; run < s->run; run++) {
        double seconds, n, rest;
        sum_run(s, run, &seconds, &n, &rest);
        if (seconds > 0 && rest > 0) sum += rest / seconds, n_runs++;
    }
    return n_runs ? sum / n_runs : 1;
}

/* Returns x. */
static double finish(struct steps *s, bool is_eager)
{
    rate_rows(s);
    const double launch = is_eager ? 0 : find_launch(s);
    for (int i = 0; i < s->n_rows; i++)
        if (!is_long(&s->op[i]))
            s->op[i].seconds = fmax(s->op[i].seconds + launch, LEAST_OP * s->op[i].seconds);
    const double slowdown = find_slowdown(s);
    for (int i = 0; i < s->n_rows; i++) {
        if (!is_long(&s->op[i])) s->op[i].seconds *= slowdown;
        for (int run = 0; run < s->run; run++)
            s->op[i].count += s->row[i].count[run] / s->profiled[run] / s->seconds[run];
    }
    yoke_log(YOKE_LOG_INFO, "steps in %s take %.4g of the time of their ops, and %.4g us for each launch",
             s->dtype, slowdown, launch * 1e6);
    return slowdown;
}

/* ---- all precisions ---- */

/* The runs of the largest size of --size. */
static int list_runs(const struct bench_cluster *b, const struct run **list_out)
{
    const struct cli_options *o = b->context->options;
    int n = 0;
    char text[32];
    bool micro = false, wide = false;
    for (int i = 0; i < cli_list_count(o, "size"); i++) {
        cli_list_item(o, "size", i, text, sizeof text);
        micro = micro || !strcmp(text, "micro");
        wide = wide || !strcmp(text, "124m");
    }
    for (size_t i = 0; i < YOKE_COUNT(tiny_runs) && !micro && !wide; i++) list_out[n++] = &tiny_runs[i];
    for (size_t i = 0; i < YOKE_COUNT(micro_runs) && (micro || wide); i++) list_out[n++] = &micro_runs[i];
    for (size_t i = 0; i < YOKE_COUNT(wide_runs) && wide; i++) list_out[n++] = &wide_runs[i];
    return n;
}

static bool has_type(const struct bench_cluster *b, int dtype)
{
    return b->dtype[dtype] && (dtype == YOKE_F32 || yoke_device_info(b->device)->storage & 1u << dtype);
}

yoke_status bench_cluster_steps(const struct bench_cluster *b, double budget, struct yokei_op_time *op_out,
                                struct yokei_measured_rank *rank_out)
{
    const struct run *list[MOST_RUNS];
    const int n = list_runs(b, list), n_types = b->n_types;
    struct row *rows = malloc(BENCH_STEP_OPS * sizeof *rows);
    yoke_status status = rows ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no memory for the ops of steps");
    rank_out->slowdown = 0;
    for (int d = 0, type = 0; d < YOKE_N_DTYPES && !status; d++) {
        if (!b->dtype[d]) continue;
        struct steps s = { .dtype = yoke_dtype_name((yoke_dtype)d),
                           .op = op_out + type++ * BENCH_STEP_OPS,
                           .row = rows };
        memset(rows, 0, BENCH_STEP_OPS * sizeof *rows);
        memset(s.op, 0, BENCH_STEP_OPS * sizeof *s.op);
        for (int i = 0; i < n && !status; i++) {
            cli_progress_now("steps of %s in %s", list[i]->preset, s.dtype);
            cli_progress_at((type - 1) * n + i, n_types * n);
            if (has_type(b, d))
                status = measure_run(b, &s, list[i], (yoke_dtype)d, budget / (n_types * n));
            else
                status = yoke_barrier(b->control, NULL);
        }
        if (!status && s.run > 0)
            rank_out->slowdown = fmax(rank_out->slowdown, finish(&s, yokei_is_eager(b->device)));
    }
    if (!(rank_out->slowdown > 0)) rank_out->slowdown = 1;
    free(rows);
    return status;
}
