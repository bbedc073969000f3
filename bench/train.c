/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training speed.
 *   1. tokens per second beside Debian's PyTorch (/usr/bin/python3 with torch, when there): same model, weights, tokens and
 *      threads; the first losses must agree, or no speed is printed; then one step of each in turn, medians.
 *   2. the time of each op of one step, with the share of the device's limit that it reaches: the larger of
 *      (operations / matrix peak) and (bytes / copy rate) over its time, both limits measured on the spot.
 * Usage: train [device [precision [batch [model]]]]     defaults: host fp32 8 micro
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/rival.h"
#include "core/base/base.h"
#include "train/loop.h"

enum { ROUNDS = 7, MOST_OPS = 64 };

struct side {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    struct yoke_gpt2_config config;
    int64_t batch, T;
    int32_t *tokens, *targets;
};

/* ---- the other side: a Python process that takes a step per line ---- */
static bool rival_step(struct rival *r, double *loss, double *seconds)
{
    char line[256];
    return ask_rival(r, "step", line, sizeof line) && sscanf(line, "%lf %lf", loss, seconds) == 2;
}

/* ---- our side ---- */
static yoke_status own_step(struct side *s, double *loss, double *seconds)
{
    struct yoke_step_result result;
    YOKE_TRY(yoke_trainer_backward(s->trainer, s->tokens, s->targets, 0, &result));
    YOKE_TRY(yoke_trainer_apply(s->trainer, 1e-3, &result));
    *loss = result.loss;
    *seconds = result.seconds;
    return YOKE_OK;
}

static yoke_status set_up(struct side *s, const char *device, const char *precision, const char *model)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    YOKE_TRY(yoke_gpt2_preset(model, &s->config));
    YOKE_TRY(yoke_dtype_parse(precision, &c.precision));
    s->T = s->config.n_positions;
    c.batch = s->batch;
    c.sequence = s->T;
    c.seed = 1;
    c.clip = 1;
    c.weight_decay = 0.1;
    YOKE_TRY(yoke_device_open(device, NULL, &s->device));
    YOKE_TRY(yoke_model_gpt2(&s->config, &s->model));
    YOKE_TRY(yoke_trainer_create(s->model, s->device, &c, &s->trainer));
    size_t n = (size_t)(s->batch * s->T);
    s->tokens = malloc(n * 4);
    s->targets = malloc(n * 4);
    struct yokei_philox_key key = yokei_philox_named(1, "bench");
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t t = 0; t <= s->T; t++) {
            int32_t token = (int32_t)(yokei_uniform(key, (uint64_t)(b * (s->T + 1) + t)) * (double)s->config.vocab_size);
            if (t < s->T) s->tokens[b * s->T + t] = token;
            if (t > 0) s->targets[b * s->T + t - 1] = token;
        }
    return YOKE_OK;
}

static void tear_down(struct side *s)
{
    yoke_trainer_destroy(s->trainer);
    yoke_model_destroy(s->model);
    yoke_device_close(s->device);
    free(s->tokens);
    free(s->targets);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* What the other side reads: weights, and each sequence with the token behind it. */
static yoke_status write_inputs(struct side *s, const char *weights, const char *tokens)
{
    YOKE_TRY(yokei_weights_dump(s->trainer, YOKE_TENSOR_WEIGHT, weights));
    int32_t *all = malloc((size_t)(s->batch * (s->T + 1)) * 4);
    for (int64_t b = 0; b < s->batch; b++) {
        memcpy(all + b * (s->T + 1), s->tokens + b * s->T, (size_t)s->T * 4);
        all[b * (s->T + 1) + s->T] = s->targets[b * s->T + s->T - 1];
    }
    yoke_status status = yokei_file_write(tokens, all, (size_t)(s->batch * (s->T + 1)) * 4);
    free(all);
    return status;
}

static yoke_status take_turns(struct side *s, struct rival *r, bool has_rival, const char *precision)
{
    double own[ROUNDS], other[ROUNDS], loss, rival_loss = 0, seconds;
    double tokens = (double)(s->batch * s->T);
    YOKE_TRY(own_step(s, &loss, &seconds)); /* compiles, and is compared */
    has_rival = has_rival && rival_step(r, &rival_loss, &seconds);
    double gate = strcmp(precision, "fp32") == 0 ? 1e-5 : 1e-2;
    if (has_rival && !(fabs(loss - rival_loss) <= gate * loss))
        return yoke_fail(YOKE_ENUMERIC, "the first losses differ: %.9g here, %.9g in PyTorch", loss, rival_loss);
    for (int i = 0; i < ROUNDS; i++) {
        YOKE_TRY(own_step(s, &loss, &own[i]));
        if (has_rival && !rival_step(r, &rival_loss, &other[i])) return yoke_fail(YOKE_EBACKEND, "PyTorch's process ended");
    }
    double mine = tokens / median(own, ROUNDS);
    printf("%-9s %-5s %6.0f tokens/step  yoke %9.0f tokens/s", yoke_device_info(s->device)->spec, precision, tokens, mine);
    if (has_rival) {
        double theirs = tokens / median(other, ROUNDS);
        printf("  pytorch %9.0f tokens/s  ratio %.2f\n", theirs, mine / theirs);
    } else {
        printf("  (no /usr/bin/python3 with torch: apt-get install python3-torch)\n");
    }
    return YOKE_OK;
}

static yoke_status compare(struct side *s, const char *precision)
{
    char weights[64], tokens[64], numbers[5][16];
    struct rival r = { 0 };
    snprintf(weights, sizeof weights, "/tmp/yoke-bench-%d.safetensors", (int)getpid());
    snprintf(tokens, sizeof tokens, "/tmp/yoke-bench-%d.tokens", (int)getpid());
    const int64_t values[5] = { s->config.n_layer, s->config.n_head, s->batch, s->T, omp_get_max_threads() };
    for (int i = 0; i < 5; i++) snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i]);
    YOKE_TRY(write_inputs(s, weights, tokens));
    char *argv[] = { "/usr/bin/python3", SOURCES "/bench/train_torch.py", weights, tokens, numbers[0], numbers[1], numbers[2], numbers[3],
                     (char *)(uintptr_t)precision, numbers[4], NULL };
    bool started = start_rival(&r, argv);
    unlink(weights);
    unlink(tokens);
    yoke_status status = take_turns(s, &r, started, precision);
    stop_rival(&r);
    return status;
}

/* ---- the ops of one step ---- */
struct row {
    char name[48];
    int count;
    double seconds, flops, bytes;
};
static struct row rows[MOST_OPS];
static int n_rows;

static void count_op(void *context, const char *layer, const char *call, const char *op, const struct yoke_cost *cost, double seconds)
{
    char name[48];
    (void)context, (void)layer;
    snprintf(name, sizeof name, "%s %s", call, op);
    int i = 0;
    while (i < n_rows && strcmp(rows[i].name, name) != 0) i++;
    if (i == n_rows && n_rows < MOST_OPS) snprintf(rows[n_rows++].name, sizeof rows[0].name, "%s", name);
    if (i == MOST_OPS) return;
    rows[i].count++;
    rows[i].seconds += seconds;
    rows[i].flops += cost->flops;
    rows[i].bytes += cost->bytes;
}

/* Matrix peak and copy rate of this device, with the threads that it has here: the best of several. */
static yoke_status measure_limits(yoke_device *device, yoke_dtype dtype, double *peak_out, double *copy_out)
{
    enum { N = 768 };
    const size_t bytes = (size_t)64 << 20;
    yoke_stream *stream;
    void *a, *b;
    struct yoke_cost cost = { sizeof cost, 0, 0, 0 };
    YOKE_TRY(yoke_stream_create(device, &stream));
    YOKE_TRY(yoke_alloc(device, bytes, &a));
    YOKE_TRY(yoke_alloc(device, bytes, &b));
    YOKE_TRY(yoke_fill(stream, a, 0, bytes));
    struct yoke_gemm_args gemm = YOKE_ARGS(gemm, .dtype = dtype, .out_dtype = dtype, .M = N, .N = N, .K = N, .batch = 1, .a = a,
                                           .lda = N, .b = a, .ldb = N, .c = b, .ldc = N, .alpha = 1);
    YOKE_TRY(yoke_gemm_can(device, &gemm, &cost));
    YOKE_TRY(yoke_stream_reserve(stream, cost.scratch_bytes));
    *peak_out = *copy_out = 0;
    for (int i = 0; i < ROUNDS; i++) {
        YOKE_TRY(yoke_stream_sync(stream));
        uint64_t begun = yokei_now_ns();
        YOKE_TRY(yoke_gemm(stream, &gemm));
        YOKE_TRY(yoke_stream_sync(stream));
        uint64_t middle = yokei_now_ns();
        YOKE_TRY(yoke_copy(stream, b, a, bytes));
        YOKE_TRY(yoke_stream_sync(stream));
        *peak_out = fmax(*peak_out, 2.0 * N * N * N / (double)(middle - begun) * 1e9);
        *copy_out = fmax(*copy_out, 2.0 * (double)bytes / (double)(yokei_now_ns() - middle) * 1e9);
    }
    YOKE_TRY(yoke_free(device, a));
    YOKE_TRY(yoke_free(device, b));
    return yoke_stream_destroy(stream);
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct row *)a)->seconds, y = ((const struct row *)b)->seconds;
    return x > y ? -1 : x < y;
}

static yoke_status profile(struct side *s, yoke_dtype dtype)
{
    double peak, copy, loss, seconds, total = 0;
    YOKE_TRY(measure_limits(s->device, dtype, &peak, &copy));
    yoke_trainer_profile(s->trainer, count_op, NULL);
    YOKE_TRY(own_step(s, &loss, &seconds));
    yoke_trainer_profile(s->trainer, NULL, NULL);
    for (int i = 0; i < n_rows; i++) total += rows[i].seconds;
    qsort(rows, (size_t)n_rows, sizeof *rows, by_time);
    printf("\none step, op by op (limits: %.1f GFLOP/s, %.1f GB/s; %.1f ms in ops)\n%-30s %5s %9s %6s %9s %8s %7s\n", peak * 1e-9,
           copy * 1e-9, total * 1e3, "call op", "count", "ms", "share", "GFLOP/s", "GB/s", "%limit");
    for (int i = 0; i < n_rows; i++) {
        const struct row *r = &rows[i];
        double limit = fmax(r->flops / peak, r->bytes / copy);
        printf("%-30s %5d %9.3f %5.1f%% %9.1f %8.1f %6.0f%%\n", r->name, r->count, r->seconds * 1e3, 100 * r->seconds / total,
               r->flops / r->seconds * 1e-9, r->bytes / r->seconds * 1e-9, 100 * limit / r->seconds);
    }
    return YOKE_OK;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "host", *precision = argc > 2 ? argv[2] : "fp32";
    struct side s = { .batch = argc > 3 ? atoll(argv[3]) : 8 };
    yoke_dtype dtype = YOKE_F32;
    setvbuf(stdout, NULL, _IOLBF, 0);
    yoke_status status = yoke_dtype_parse(precision, &dtype);
    if (!status) status = set_up(&s, device, precision, argc > 4 ? argv[4] : "micro");
    if (!status) status = compare(&s, precision);
    if (!status) status = profile(&s, dtype);
    if (status) fprintf(stderr, "bench/train: %s\n", yoke_last_error());
    tear_down(&s);
    return yoke_status_exit_code(status);
}
