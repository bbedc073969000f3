/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory-bound operations of a device beside a triad (a = b + s c) with the same number of threads. The two
 * alternate in one run.
 *
 *   bench/bandwidth [DEVICE [THREADS [WORD...]]]
 *
 * With WORDs it measures only the operations whose names contain one of them. Speeds are medians of 15
 * repetitions. For PoCL set POCL_MAX_PTHREAD_COUNT to THREADS. The bytes are the least that the operation
 * must move, as its `can` function states. Each operation is first compared with its conformance bounds. An
 * operation that fails prints no speed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/yoke.h>

#include "conform/conform.h"
#include "core/base/base.h"
#include "core/base/times.h"

enum { N_REPEATS = 15, ROWS = 8192, COLUMNS = 768, N = ROWS * COLUMNS };
static const double GOAL = 0.5;

static void check(yoke_status status, const char *what)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", what, yoke_last_error());
    exit(1);
}

/*
 * Threads that sleep between triads. OpenMP's threads would spin for a while on the cores that the operation
 * needs.
 */
struct triad {
    pthread_barrier_t begin, end;
    float *a, *b, *c;
    int n_threads;
    bool done;
};
struct part {
    struct triad *triad;
    pthread_t thread;
    int index;
};

static void *triad_part(void *context)
{
    const struct part *part = context;
    struct triad *t = part->triad;
    const int from = (int)((int64_t)N * part->index / t->n_threads),
              to = (int)((int64_t)N * (part->index + 1) / t->n_threads);
    for (;;) {
        pthread_barrier_wait(&t->begin);
        if (t->done) return NULL;
        for (int i = from; i < to; i++) t->a[i] = t->b[i] + 3.0f * t->c[i];
        pthread_barrier_wait(&t->end);
    }
}

static struct part *triad_start(struct triad *t, int n_threads)
{
    struct part *parts = calloc((size_t)n_threads, sizeof *parts);
    t->n_threads = n_threads;
    t->a = malloc(4 * N), t->b = malloc(4 * N), t->c = malloc(4 * N);
    for (int i = 0; i < N; i++) t->a[i] = 0.0f, t->b[i] = (float)i, t->c[i] = 1.0f;
    pthread_barrier_init(&t->begin, NULL, (unsigned)n_threads + 1);
    pthread_barrier_init(&t->end, NULL, (unsigned)n_threads + 1);
    for (int i = 0; i < n_threads; i++) {
        parts[i] = (struct part){ .triad = t, .index = i };
        if (pthread_create(&parts[i].thread, NULL, triad_part, &parts[i])) {
            fprintf(stderr, "no thread could be started\n");
            exit(1);
        }
    }
    return parts;
}

static double triad(struct triad *t)
{
    uint64_t start = yokei_now_ns();
    pthread_barrier_wait(&t->begin);
    pthread_barrier_wait(&t->end);
    return 12.0 * N / (double)(yokei_now_ns() - start);
}

static void triad_stop(struct triad *t, struct part *parts)
{
    t->done = true;
    pthread_barrier_wait(&t->begin);
    for (int i = 0; i < t->n_threads; i++) pthread_join(parts[i].thread, NULL);
    pthread_barrier_destroy(&t->begin);
    pthread_barrier_destroy(&t->end);
    free(t->a), free(t->b), free(t->c), free(parts);
}

struct operands {
    yoke_dtype dtype;
    char *x, *y, *z, *t; /* [ROWS, COLUMNS] */
    float *gamma, *beta, *mean, *rstd, *dgamma, *dbeta, *w, *m, *v, *g, *out;
    int32_t *tokens;
};

/* Each row has the operation's name and one call of it. */
/* clang-format off */
#define EACH_OP(ROW) \
    ROW(add, .dtype = o->dtype, .n = N, .x = o->x, .y = o->y, .z = o->z) \
    ROW(scale, .dtype = o->dtype, .n = N, .alpha = 1.25f, .x = o->x, .y = o->z) \
    ROW(cast, .from = YOKE_F32, .to = o->dtype, .n = N, .x = o->w, .y = o->z) \
    ROW(gelu_forward, .dtype = o->dtype, .n = N, .x = o->x, .y = o->z) \
    ROW(gelu_backward, .dtype = o->dtype, .n = N, .x = o->x, .dy = o->y, .dx = o->z) \
    ROW(layernorm_forward, .dtype = o->dtype, .N = ROWS, .C = COLUMNS, .x = o->x, .ldx = COLUMNS, \
    .gamma = o->gamma, \
        .beta = o->beta, .eps = 1e-5f, .y = o->z, .ldy = COLUMNS, .mean = o->mean, .rstd = o->rstd) \
    ROW(layernorm_backward, .dtype = o->dtype, .N = ROWS, .C = COLUMNS, .dy = o->y, .lddy = COLUMNS, \
    .x = o->x, \
        .ldx = COLUMNS, .gamma = o->gamma, .mean = o->mean, .rstd = o->rstd, .dx = o->z, .lddx = COLUMNS, \
        .dgamma = o->dgamma, .dbeta = o->dbeta) \
    ROW(rmsnorm_forward, .dtype = o->dtype, .N = ROWS, .C = COLUMNS, .x = o->x, .ldx = COLUMNS, \
    .gamma = o->gamma, \
        .eps = 1e-5f, .y = o->z, .ldy = COLUMNS, .rstd = o->rstd) \
    ROW(rmsnorm_backward, .dtype = o->dtype, .N = ROWS, .C = COLUMNS, .dy = o->y, .lddy = COLUMNS, \
    .x = o->x, \
        .ldx = COLUMNS, .gamma = o->gamma, .rstd = o->rstd, .dx = o->z, .lddx = COLUMNS, \
    .dgamma = o->dgamma) \
    ROW(swiglu_forward, .dtype = o->dtype, .N = ROWS, .F = COLUMNS, .gate = o->x, .ldgate = COLUMNS, \
    .up = o->y, \
        .ldup = COLUMNS, .y = o->z, .ldy = COLUMNS) \
    ROW(swiglu_backward, .dtype = o->dtype, .N = ROWS, .F = COLUMNS, .gate = o->x, .ldgate = COLUMNS, \
    .up = o->y, \
        .ldup = COLUMNS, .dy = o->y, .lddy = COLUMNS, .dgate = o->z, .lddgate = COLUMNS, .dup = o->t, \
    .lddup = COLUMNS) \
    ROW(gelu_erf_forward, .dtype = o->dtype, .n = N, .x = o->x, .y = o->z) \
    ROW(gelu_erf_backward, .dtype = o->dtype, .n = N, .x = o->x, .dy = o->y, .dx = o->z) \
    ROW(dropout, .dtype = o->dtype, .N = ROWS, .C = COLUMNS, .T = 64, .p = 0.1f, .key = 1, .x = o->x, \
    .ldx = COLUMNS, \
        .residual = o->y, .ldresidual = COLUMNS, .y = o->z, .ldy = COLUMNS) \
    ROW(rope, .dtype = o->dtype, .N = ROWS, .T = 64, .H = COLUMNS / 64, .D = 64, .theta = 10000, \
    .x = o->z, .ldx = COLUMNS) \
    ROW(bias_backward, .dtype = o->dtype, .N = ROWS, .C = COLUMNS, .dy = o->y, .ld = COLUMNS, \
    .dbias = o->dgamma) \
    ROW(embed_forward, .dtype = o->dtype, .N = ROWS, .T = ROWS, .C = COLUMNS, .V = 256, \
    .tokens = o->tokens, .wte = o->x, \
        .wpe = o->y, .y = o->z) \
    ROW(embed_backward, .dtype = o->dtype, .N = ROWS, .T = ROWS, .C = COLUMNS, .V = 256, \
    .tokens = o->tokens, .dy = o->y, \
        .dwte = o->w, .dwpe = o->m) \
    ROW(xent_forward, .dtype = o->dtype, .N = ROWS, .V = COLUMNS, .logits = o->x, .ld = COLUMNS, \
    .targets = o->tokens, \
        .lse = o->mean, .losses = o->rstd) \
    ROW(xent_backward, .dtype = o->dtype, .N = ROWS, .V = COLUMNS, .logits = o->x, .ld = COLUMNS, \
    .targets = o->tokens, \
        .lse = o->mean, .scale = 1.0f / ROWS, .dlogits = o->z, .lddlogits = COLUMNS) \
    ROW(xent_join, .dtype = YOKE_F32, .N = N / 8, .P = 4, .lse_parts = o->w, .picked_parts = o->m, \
    .ld = N / 8, \
        .targets = o->tokens, .lse = o->g, .losses = o->v) \
    ROW(adamw, .dtype = YOKE_F32, .copy_dtype = o->dtype, .n = N, .w = o->w, .m = o->m, .v = o->v, \
    .grad = o->g, \
        .copy = o->z, .lr = 1e-4f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, \
    .grad_scale = 1.0f, \
        .step = 10) \
    ROW(grad_norm, .dtype = o->dtype, .n = N, .grad = o->x, .scale = 1.0f, .out = o->out)
/* clang-format on */

#define CALL(op, ...)                                                                            \
    static void call_##op(yoke_stream *stream, const struct operands *o)                         \
    {                                                                                            \
        check(yoke_##op(stream, &YOKE_ARGS(op, __VA_ARGS__)), #op);                              \
    }                                                                                            \
    static void cost_##op(yoke_device *device, const struct operands *o, struct yoke_cost *cost) \
    {                                                                                            \
        check(yoke_##op##_can(device, &YOKE_ARGS(op, __VA_ARGS__), cost), #op);                  \
    }
EACH_OP(CALL)
/* clang-format off */
#define ENTRY(op, ...) { #op, call_##op, cost_##op },
/* clang-format on */
static const struct {
    const char *name;
    void (*call)(yoke_stream *stream, const struct operands *o);
    void (*cost)(yoke_device *device, const struct operands *o, struct yoke_cost *cost);
} ops[] = { EACH_OP(ENTRY) };

/** Whether the operation conforms in this type, in the variant that is listed first, which CPUs run. */
static bool conforms(yoke_device *device, const char *op, yoke_dtype dtype)
{
    struct conform_options options = CONFORM_OPTIONS_INIT;
    struct conform_summary summary = { 0 };
    /* the type of these operations is the type of the source or of the weights */
    bool typed = strcmp(op, "cast") != 0 && strcmp(op, "adamw") != 0 && strcmp(op, "xent_join") != 0;
    options.op = op;
    options.dtype = typed ? yoke_dtype_name(dtype) : "f32";
    options.variant = yoke_variant_name(device, op, 0);
    check(conform_run(device, &options, NULL, NULL, &summary), op);
    return summary.n_pass > 0 && summary.n_fail == 0;
}

static void *fresh(yoke_device *device, yoke_stream *stream, yoke_dtype dtype, size_t n, double scale)
{
    void *device_side, *host_side = malloc(n * yoke_dtype_bytes(dtype));
    for (size_t i = 0; i < n; i++) {
        double x = (double)((i * 2654435761u) % 1000u) / 1000.0;
        if (dtype == YOKE_I32)
            ((int32_t *)host_side)[i] = (int32_t)(x * scale);
        else
            yokei_store(dtype, host_side, (int64_t)i, (x - 0.4) * scale);
    }
    check(yoke_alloc(device, n * yoke_dtype_bytes(dtype), &device_side), "alloc");
    check(yoke_copy_to_device(stream, device_side, host_side, n * yoke_dtype_bytes(dtype)), "copy");
    check(yoke_stream_sync(stream), "sync");
    free(host_side);
    return device_side;
}

/** Whether the operation's name contains one of the words. */
static bool named(const char *op, char *const words[], int n)
{
    for (int i = 0; i < n; i++)
        if (strstr(op, words[i])) return true;
    return false;
}

/** Fresh operands of one type on the device. give_back frees them. */
static struct operands take(yoke_device *device, yoke_stream *stream, yoke_dtype d)
{
    return (struct operands){
        .dtype = d,
        .x = fresh(device, stream, d, N, 4),
        .y = fresh(device, stream, d, N, 1),
        .z = fresh(device, stream, d, N, 1),
        .t = fresh(device, stream, d, N, 1),
        .gamma = fresh(device, stream, YOKE_F32, COLUMNS, 1),
        .beta = fresh(device, stream, YOKE_F32, COLUMNS, 1),
        .mean = fresh(device, stream, YOKE_F32, ROWS, 1),
        .rstd = fresh(device, stream, YOKE_F32, ROWS, 1),
        .dgamma = fresh(device, stream, YOKE_F32, COLUMNS, 1),
        .dbeta = fresh(device, stream, YOKE_F32, COLUMNS, 1),
        .w = fresh(device, stream, YOKE_F32, N, 1),
        .m = fresh(device, stream, YOKE_F32, N, 1),
        .v = fresh(device, stream, YOKE_F32, N, 0),
        .g = fresh(device, stream, YOKE_F32, N, 1),
        .out = fresh(device, stream, YOKE_F32, 2, 1),
        .tokens = fresh(device, stream, YOKE_I32, N / 8, 255),
    };
}

static void give_back(yoke_device *device, const struct operands *o)
{
    void *const all[] = { o->x,      o->y,     o->z, o->t, o->gamma, o->beta, o->mean, o->rstd,
                          o->dgamma, o->dbeta, o->w, o->m, o->v,     o->g,    o->out,  o->tokens };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) check(yoke_free(device, all[i]), "free");
}

/** Measure operation `op` in turn with the triad, print the line and return whether the goal is met. */
static bool measure(yoke_device *device, yoke_stream *stream, struct triad *limits, size_t op,
                    struct operands *o)
{
    struct yoke_cost cost = { .size = sizeof cost };
    double rate[N_REPEATS], limit[N_REPEATS];
    ops[op].cost(device, o, &cost);
    check(yoke_stream_reserve(stream, cost.scratch_bytes), "reserve");
    ops[op].call(stream, o); /* compiles the kernel and touches the pages */
    check(yoke_stream_sync(stream), "sync");
    for (int r = 0; r < N_REPEATS; r++) {
        limit[r] = triad(limits);
        uint64_t start = yokei_now_ns();
        ops[op].call(stream, o);
        check(yoke_stream_sync(stream), "sync");
        rate[r] = cost.bytes / (double)(yokei_now_ns() - start);
    }
    double speed = yokei_median(rate, N_REPEATS), most = yokei_median(limit, N_REPEATS);
    bool met = speed >= GOAL * most;
    printf("%-20s %-5s %7.2f GB/s  %5.2f of %.2f  %s\n", ops[op].name, yoke_dtype_name(o->dtype), speed,
           speed / most, most, met ? "met" : "MISSED");
    return met;
}

int main(int argc, char **argv)
{
    yoke_device *device;
    yoke_stream *stream;
    int n_threads = argc > 2 ? atoi(argv[2]) : 1;
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.n_threads = n_threads;
    check(yoke_device_open(argc > 1 ? argv[1] : "opencl:0", &config, &device), "open");
    check(yoke_stream_create(device, &stream), "stream");
    struct triad limits = { 0 };
    struct part *parts = triad_start(&limits, n_threads);
    int n_met = 0, n_ops = 0;
    printf("%s, %d x %d, %d thread(s); GB/s of least bytes, and the share of a triad's; goal %.1f\n",
           yoke_device_info(device)->name, ROWS, COLUMNS, n_threads, GOAL);
    static const yoke_dtype types[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    for (size_t t = 0; t < YOKE_COUNT(types); t++) {
        struct operands o = take(device, stream, types[t]);
        for (size_t i = 0; i < YOKE_COUNT(ops); i++) {
            if (argc > 3 && !named(ops[i].name, argv + 3, argc - 3)) continue;
            if (!conforms(device, ops[i].name, types[t])) {
                printf("%-20s %-5s WRONG\n", ops[i].name, yoke_dtype_name(types[t]));
                continue;
            }
            n_met += measure(device, stream, &limits, i, &o), n_ops++;
        }
        give_back(device, &o);
    }
    check(yoke_stream_destroy(stream), "stream");
    check(yoke_device_close(device), "close");
    printf("%d of %d goals met\n", n_met, n_ops);
    triad_stop(&limits, parts);
    return 0;
}
