/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of an OpenCL device. f32 stands beside CLBlast's defaults and the host backend (oneDNN
 * where it is installed), on the same number of threads. 16-bit types stand beside Yoke's own f32. Each
 * result is checked first, and a wrong one prints no speed. Then all take turns, and medians are printed. N:
 * A [M, K], B [K, N], as in a forward pass. T: B is [N, K].
 *
 * "stream": products are issued one after the other, as in a training step, and waited for together (about 3
 * ms of them at a time, at most 16). "each": every product is waited for. Between two turns the threads of
 * the last side come to rest for 10 ms. Then the next side works for 3 ms that are not timed.
 *
 *   opencl_gemm [SPEC [THREADS]]      default opencl:0 and POCL_MAX_PTHREAD_COUNT, or 1
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "yoke/yoke.h"

#define ROUNDS 9
#define CHECKS 200
#define TURN_SECONDS 3e-3
#define REST_NS 10000000

/*
 * `goals`: the goals hold for this size. The other sizes are products of a training step, deep products and
 * ragged ones.
 */
static const struct shape {
    int64_t M, N, K;
    bool goals;
} shapes[] = {
    { 256, 256, 256, true }, { 512, 512, 512, true }, { 768, 768, 768, true }, { 1024, 1024, 1024, true },
    { 512, 1024, 256 },      { 512, 256, 1024 },      { 256, 256, 3000 },      { 37, 1000, 515 },
};

/* ---- the libraries that this program calls itself ---- */

static struct {
    cl_int (*clGetPlatformIDs)(cl_uint, cl_platform_id *, cl_uint *);
    cl_int (*clGetDeviceIDs)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
    cl_context (*clCreateContext)(const cl_context_properties *, cl_uint, const cl_device_id *,
                                  void (*)(const char *, const void *, size_t, void *), void *, cl_int *);
    cl_command_queue (*clCreateCommandQueue)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
    cl_mem (*clCreateBuffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    cl_int (*clEnqueueReadBuffer)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                                  const cl_event *, cl_event *);
    cl_int (*clFinish)(cl_command_queue);
    cl_int (*clReleaseMemObject)(cl_mem);
    int (*CLBlastSgemm)(int, int, int, size_t, size_t, size_t, float, cl_mem, size_t, size_t, cl_mem, size_t,
                        size_t, float, cl_mem, size_t, size_t, cl_command_queue *, cl_event *);
} cl;

static struct {
    bool there;
    cl_context context;
    cl_command_queue queue;
} clblast;

static bool open_clblast(char *reason, size_t bytes)
{
    static const char *const opencl_names[] = { "libOpenCL.so.1", NULL }, *const clblast_names[] = {
        "libclblast.so.1", NULL
    };
/* clang-format off */
#define SYMBOL(name) { #name, &cl.name }
    /* clang-format on */
    const struct yokei_symbol opencl_symbols[] = {
        SYMBOL(clGetPlatformIDs), SYMBOL(clGetDeviceIDs),
        SYMBOL(clCreateContext),  SYMBOL(clCreateCommandQueue),
        SYMBOL(clCreateBuffer),   SYMBOL(clEnqueueReadBuffer),
        SYMBOL(clFinish),         SYMBOL(clReleaseMemObject),
    };
    const struct yokei_symbol clblast_symbols[] = { SYMBOL(CLBlastSgemm) };
    if (!yokei_dl_open(opencl_names, opencl_symbols, YOKE_COUNT(opencl_symbols), reason, bytes)
        || !yokei_dl_open(clblast_names, clblast_symbols, YOKE_COUNT(clblast_symbols), reason, bytes))
        return false;
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    yokei_text(reason, bytes, "no context on the first platform's first device");
    if (cl.clGetPlatformIDs(1, &platform, NULL)
        || cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return false;
    clblast.context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    if (error) return false;
    clblast.queue = cl.clCreateCommandQueue(clblast.context, device, 0, &error);
    return clblast.there = !error;
}

/* ---- the contenders ---- */

/** One way to compute C, with its operands in its own memory. */
struct contender {
    const char *name;
    yoke_dtype dtype;
    bool turned;         /* B is [N, K] */
    yoke_device *device; /* NULL: CLBlast */
    yoke_stream *stream;
    int rounds;
    void *a, *b, *c;
    double stream_seconds[ROUNDS], each_seconds[ROUNDS]; /* seconds per product */
    double flops;                                        /* operations of a product, as Yoke counts them */
};

/* Issue a product without waiting for it. */
static yoke_status issue(struct contender *x, const struct shape *s)
{
    if (!x->device) {
        int code = cl.CLBlastSgemm(101, 111, x->turned ? 112 : 111, (size_t)s->M, (size_t)s->N, (size_t)s->K,
                                   1.0f, x->a, 0, (size_t)s->K, x->b, 0, (size_t)(x->turned ? s->K : s->N),
                                   0.0f, x->c, 0, (size_t)s->N, &clblast.queue, NULL);
        return code ? yoke_fail(YOKE_EBACKEND, "CLBlastSgemm returned %d", code) : YOKE_OK;
    }
    const struct yoke_gemm_args args = { .size = sizeof args,
                                         .dtype = x->dtype,
                                         .out_dtype = x->dtype,
                                         .M = s->M,
                                         .N = s->N,
                                         .K = s->K,
                                         .batch = 1,
                                         .trans_b = x->turned,
                                         .a = x->a,
                                         .lda = s->K,
                                         .b = x->b,
                                         .ldb = x->turned ? s->K : s->N,
                                         .c = x->c,
                                         .ldc = s->N,
                                         .alpha = 1.0f };
    struct yoke_cost cost = { .size = sizeof cost };
    YOKE_TRY(yoke_gemm_can(x->device, &args, &cost));
    YOKE_TRY(yoke_stream_reserve(x->stream, cost.scratch_bytes));
    x->flops = cost.flops;
    return yoke_gemm(x->stream, &args);
}

/* Issue n products and wait once. *seconds_out is the time of one product. */
static yoke_status multiply(struct contender *x, const struct shape *s, int n, double *seconds_out)
{
    uint64_t start = yokei_now_ns();
    for (int i = 0; i < n; i++) YOKE_TRY(issue(x, s));
    if (x->device)
        YOKE_TRY(yoke_stream_sync(x->stream));
    else if (cl.clFinish(clblast.queue))
        return yoke_fail(YOKE_EBACKEND, "clFinish failed");
    *seconds_out = 1e-9 * (double)(yokei_now_ns() - start) / n;
    return YOKE_OK;
}

/*
 * A side's turn: first work that is not timed, then products in a stream, then as many products that are each
 * waited for.
 */
static yoke_status turn(struct contender *x, const struct shape *s, int round)
{
    double seconds, product, sum = 0;
    nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL);
    uint64_t start = yokei_now_ns();
    do YOKE_TRY(multiply(x, s, 1, &product));
    while (1e-9 * (double)(yokei_now_ns() - start) < TURN_SECONDS);
    const int n = (int)fmax(1, fmin(16, TURN_SECONDS / product));
    YOKE_TRY(multiply(x, s, n, &x->stream_seconds[round]));
    for (int i = 0; i < n; i++) {
        YOKE_TRY(multiply(x, s, 1, &seconds));
        sum += seconds;
    }
    x->each_seconds[round] = sum / n;
    return YOKE_OK;
}

static yoke_status give(struct contender *x, const void *values, int64_t n, void **out)
{
    size_t bytes = (size_t)n * yoke_dtype_bytes(x->dtype);
    if (!x->device) {
        cl_int error;
        *out = cl.clCreateBuffer(clblast.context, values ? CL_MEM_COPY_HOST_PTR : 0, bytes,
                                 (void *)(uintptr_t)values, &error);
        return error ? yoke_fail(YOKE_ENOMEM, "clCreateBuffer returned %d", error) : YOKE_OK;
    }
    YOKE_TRY(yoke_alloc(x->device, bytes, out));
    if (values) YOKE_TRY(yoke_copy_to_device(x->stream, *out, values, bytes));
    return yoke_stream_sync(x->stream);
}

static yoke_status take(struct contender *x, void *values, int64_t n)
{
    size_t bytes = (size_t)n * yoke_dtype_bytes(x->dtype);
    if (!x->device)
        return cl.clEnqueueReadBuffer(clblast.queue, x->c, CL_TRUE, 0, bytes, values, 0, NULL, NULL)
                   ? yoke_fail(YOKE_EBACKEND, "clEnqueueReadBuffer failed")
                   : YOKE_OK;
    YOKE_TRY(yoke_copy_to_host(x->stream, values, x->c, bytes));
    return yoke_stream_sync(x->stream);
}

static void release(struct contender *x, void *memory)
{
    if (x->device)
        yoke_free(x->device, memory);
    else if (memory)
        cl.clReleaseMemObject(memory);
}

/* Compare samples of C with f64 sums of the stored operands, within the operation's own bound. */
static yoke_status verify(const struct contender *x, const struct shape *s, const void *a, const void *b,
                          const void *c)
{
    const double u32 = yokei_unit_roundoff(YOKE_F32), gamma = (double)(s->K + 2) * u32;
    struct yokei_philox_key key = yokei_philox_named(1, "checks");
    for (int i = 0; i < CHECKS; i++) {
        int64_t m = (int64_t)(yokei_uniform(key, 2 * (uint64_t)i) * (double)s->M);
        int64_t n = (int64_t)(yokei_uniform(key, 2 * (uint64_t)i + 1) * (double)s->N);
        if (i < 8) m = s->M - 1, n = s->N - 1 - i; /* at the far edge */
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < s->K; k++) {
            double product = yokei_load(x->dtype, a, m * s->K + k)
                             * yokei_load(x->dtype, b, x->turned ? n * s->K + k : k * s->N + n);
            sum += product;
            magnitude += fabs(product);
        }
        double got = yokei_load(x->dtype, c, m * s->N + n);
        if (!(fabs(got - sum) <= yokei_unit_roundoff(x->dtype) * fabs(sum) + 2 * gamma * magnitude
                                     + yokei_underflow(x->dtype)))
            return yoke_fail(YOKE_ENUMERIC, "%s, %lld x %lld x %lld: c[%lld, %lld] is %g, should be %g",
                             x->name, (long long)s->M, (long long)s->N, (long long)s->K, (long long)m,
                             (long long)n, got, sum);
    }
    return YOKE_OK;
}

/* ---- one row of the table ---- */

static yoke_status prepare(struct contender *x, const struct shape *s, const float *a, const float *b)
{
    const int64_t na = s->M * s->K, nb = s->K * s->N, nc = s->M * s->N;
    size_t bytes = yoke_dtype_bytes(x->dtype);
    void *ha = malloc((size_t)na * bytes), *hb = malloc((size_t)nb * bytes), *hc = malloc((size_t)nc * bytes);
    double seconds;
    yoke_status status = YOKE_OK;
    if (!ha || !hb || !hc) {
        status = yoke_fail(YOKE_ENOMEM, "no host memory for %lld x %lld x %lld", (long long)s->M,
                           (long long)s->N, (long long)s->K);
        goto done;
    }
    yoke_convert(YOKE_F32, a, x->dtype, ha, (size_t)na);
    yoke_convert(YOKE_F32, b, x->dtype, hb, (size_t)nb);
    YOKE_TRY_GOTO(give(x, ha, na, &x->a), done);
    YOKE_TRY_GOTO(give(x, hb, nb, &x->b), done);
    YOKE_TRY_GOTO(give(x, NULL, nc, &x->c), done);
    YOKE_TRY_GOTO(multiply(x, s, 1, &seconds), done); /* compiles the kernel too */
    YOKE_TRY_GOTO(take(x, hc, nc), done);
    status = verify(x, s, ha, hb, hc);
done:
    free(ha);
    free(hb);
    free(hc);
    return status;
}

enum { F32_N, F32_T, F16_N, F16_T, BF16_N, BF16_T, HOST_N, HOST_T, CLBLAST_N, CLBLAST_T, N_CONTENDERS };

/* Which speeds are compared. The own speed must be at least `goal` times the other's. */
static const struct goal {
    int own, other;
    double goal;
} goals[] = {
    { F32_N, HOST_N, 0.7 }, { F32_T, HOST_T, 0.7 }, { F32_N, CLBLAST_N, 6 }, { F32_T, CLBLAST_T, 6 },
    { F16_N, F32_N, 0.9 },  { F16_T, F32_T, 0.9 },  { BF16_N, F32_N, 0.9 },  { BF16_T, F32_T, 0.9 },
};

static int n_goals, n_met;

static void print_rows(struct contender *all, const struct shape *s)
{
    const double flops = 1e-9 * all[F32_N].flops; /* of every contender */
    double stream[N_CONTENDERS], each[N_CONTENDERS];
    for (int i = 0; i < N_CONTENDERS; i++) {
        if (!all[i].rounds) continue;
        stream[i] = flops / yokei_median(all[i].stream_seconds, all[i].rounds);
        each[i] = flops / yokei_median(all[i].each_seconds, all[i].rounds);
    }
    for (size_t g = 0; g < YOKE_COUNT(goals); g++) {
        const int own = goals[g].own, other = goals[g].other;
        if (!all[other].rounds) continue;
        const double ratio = stream[own] / stream[other];
        printf("%4lld x %4lld x %4lld  %-7s %8.1f  %-14s %8.1f  %6.2f", (long long)s->M, (long long)s->N,
               (long long)s->K, all[own].name, stream[own], all[other].name, stream[other], ratio);
        if (s->goals)
            printf("  %4.1f %-6s", goals[g].goal, ratio >= goals[g].goal ? "met" : "missed");
        else
            printf("  %11s", "");
        printf("   %8.1f  %8.1f  %6.2f\n", each[own], each[other], each[own] / each[other]);
        n_goals += s->goals;
        n_met += s->goals && ratio >= goals[g].goal;
    }
    fflush(stdout);
}

static yoke_status run_shape(struct contender *all, const struct shape *s)
{
    const int64_t na = s->M * s->K, nb = s->K * s->N;
    yoke_status status = YOKE_OK;
    float *a = malloc((size_t)na * sizeof *a), *b = malloc((size_t)nb * sizeof *b);
    if (!a || !b) {
        status = yoke_fail(YOKE_ENOMEM, "no host memory");
        goto done;
    }
    struct yokei_philox_key key = yokei_philox_named(1, "operands");
    for (int64_t i = 0; i < na; i++) a[i] = (float)(2 * yokei_uniform(key, (uint64_t)i) - 1);
    for (int64_t i = 0; i < nb; i++) b[i] = (float)(2 * yokei_uniform(key, (uint64_t)(na + i)) - 1);
    for (int i = 0; i < N_CONTENDERS; i++)
        if (all[i].rounds) YOKE_TRY_GOTO(prepare(&all[i], s, a, b), done);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < N_CONTENDERS; i++)
            if (round < all[i].rounds) YOKE_TRY_GOTO(turn(&all[i], s, round), done);
    print_rows(all, s);
done:
    for (int i = 0; i < N_CONTENDERS; i++) {
        release(&all[i], all[i].a);
        release(&all[i], all[i].b);
        release(&all[i], all[i].c);
        all[i].a = all[i].b = all[i].c = NULL;
    }
    free(a);
    free(b);
    return status;
}

static yoke_status bench(const char *spec, int n_threads)
{
    yoke_device *device = NULL, *host = NULL;
    yoke_stream *stream = NULL, *host_stream = NULL;
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    yoke_status status = YOKE_OK;
    char reason[256];
    config.n_threads = n_threads;
    YOKE_TRY_GOTO(yoke_device_open(spec, NULL, &device), done);
    YOKE_TRY_GOTO(yoke_stream_create(device, &stream), done);
    YOKE_TRY_GOTO(yoke_device_open("host", &config, &host), done);
    YOKE_TRY_GOTO(yoke_stream_create(host, &host_stream), done);
    if (!open_clblast(reason, sizeof reason)) printf("without CLBlast: %s\n", reason);
    const int theirs = clblast.there ? 3 : 0; /* few rounds, because CLBlast is slow */
                                              /* clang-format off */
#define OWN(label, type, b_turned) { .name = label, .dtype = type, .turned = b_turned, .device = device, \
        .stream = stream, .rounds = ROUNDS }
#define HOST(label, b_turned) { .name = label, .dtype = YOKE_F32, .turned = b_turned, .device = host, \
        .stream = host_stream, .rounds = ROUNDS }
                                              /* clang-format on */
    struct contender all[N_CONTENDERS] = {
        [F32_N] = OWN("f32 N", YOKE_F32, false),
        [F32_T] = OWN("f32 T", YOKE_F32, true),
        [F16_N] = OWN("f16 N", YOKE_F16, false),
        [F16_T] = OWN("f16 T", YOKE_F16, true),
        [BF16_N] = OWN("bf16 N", YOKE_BF16, false),
        [BF16_T] = OWN("bf16 T", YOKE_BF16, true),
        [HOST_N] = HOST("host f32 N", false),
        [HOST_T] = HOST("host f32 T", true),
        [CLBLAST_N] = { .name = "CLBlast f32 N", .rounds = theirs },
        [CLBLAST_T] = { .name = "CLBlast f32 T", .turned = true, .rounds = theirs },
    };
    printf("%s: %s, %d threads; host gemm by %s\nGFLOP/s, medians of %d turns, sides alternating\n\n", spec,
           yoke_device_info(device)->name, n_threads, yoke_variant_name(host, "gemm", 0), ROUNDS);
    printf("%-18s  %-7s %8s  %-14s %8s  %6s  %4s %-6s   %8s  %8s  %6s\n", "M x N x K", "own", "stream",
           "beside", "stream", "ratio", "goal", "", "each", "each", "ratio");
    for (size_t i = 0; i < YOKE_COUNT(shapes); i++) YOKE_TRY_GOTO(run_shape(all, &shapes[i]), done);
    printf("\n%d of %d goals met\n", n_met, n_goals);
done:
    if (stream) yoke_stream_destroy(stream);
    if (host_stream) yoke_stream_destroy(host_stream);
    if (device) yoke_device_close(device);
    if (host) yoke_device_close(host);
    return status;
}

int main(int argc, char **argv)
{
    const char *threads = argc > 2 ? argv[2] : getenv("POCL_MAX_PTHREAD_COUNT");
    if (!threads) threads = "1";
    setenv("POCL_MAX_PTHREAD_COUNT", threads,
           1); /* set before PoCL is loaded, because PoCL ignores affinity */
    yoke_status status = bench(argc > 1 ? argv[1] : "opencl:0", atoi(threads));
    if (status) fprintf(stderr, "opencl_gemm: %s\n", yoke_last_error());
    return yoke_status_exit_code(status);
}
