/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of an OpenCL device: ours in f32, f16 and bf16 beside CLBlast's defaults and the host backend (oneDNN
 * where it is installed), on the same number of threads. Each result is checked first (a wrong one prints no speed), then
 * all take turns; medians. The operands of row-major products lie as a forward pass has them: A [M, K], B [K, N].
 *
 *   opencl_gemm [SPEC [THREADS]]      default opencl:0 and POCL_MAX_PTHREAD_COUNT, or 1
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "yoke/yoke.h"

#define ROUNDS 15
#define CHECKS 200

static const struct shape { int64_t M, N, K; } shapes[] = {
    { 256, 256, 256 }, { 512, 512, 512 }, { 768, 768, 768 }, { 1024, 1024, 1024 }, { 2048, 1024, 256 }, { 37, 1000, 515 },
};

/* ---- the libraries that this program itself calls ---- */

static struct {
    cl_int (*clGetPlatformIDs)(cl_uint, cl_platform_id *, cl_uint *);
    cl_int (*clGetDeviceIDs)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
    cl_context (*clCreateContext)(const cl_context_properties *, cl_uint, const cl_device_id *,
                                  void (*)(const char *, const void *, size_t, void *), void *, cl_int *);
    cl_command_queue (*clCreateCommandQueue)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
    cl_mem (*clCreateBuffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    cl_int (*clEnqueueReadBuffer)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *);
    cl_int (*clFinish)(cl_command_queue);
    cl_int (*clReleaseMemObject)(cl_mem);
    int (*CLBlastSgemm)(int, int, int, size_t, size_t, size_t, float, cl_mem, size_t, size_t, cl_mem, size_t, size_t, float,
                        cl_mem, size_t, size_t, cl_command_queue *, cl_event *);
} cl;

static struct { bool there; cl_context context; cl_command_queue queue; } clblast;

static bool open_clblast(char *reason, size_t bytes)
{
    static const char *const opencl_names[] = { "libOpenCL.so.1", NULL }, *const clblast_names[] = { "libclblast.so.1", NULL };
#define SYMBOL(name) { #name, &cl.name }
    const struct yokei_symbol opencl_symbols[] = {
        SYMBOL(clGetPlatformIDs), SYMBOL(clGetDeviceIDs), SYMBOL(clCreateContext), SYMBOL(clCreateCommandQueue),
        SYMBOL(clCreateBuffer), SYMBOL(clEnqueueReadBuffer), SYMBOL(clFinish), SYMBOL(clReleaseMemObject),
    };
    const struct yokei_symbol clblast_symbols[] = { SYMBOL(CLBlastSgemm) };
    if (!yokei_dl_open(opencl_names, opencl_symbols, YOKE_COUNT(opencl_symbols), reason, bytes)
        || !yokei_dl_open(clblast_names, clblast_symbols, YOKE_COUNT(clblast_symbols), reason, bytes))
        return false;
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    yokei_text(reason, bytes, "no context on the first platform's first device");
    if (cl.clGetPlatformIDs(1, &platform, NULL) || cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) return false;
    clblast.context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    if (error) return false;
    clblast.queue = cl.clCreateCommandQueue(clblast.context, device, 0, &error);
    return clblast.there = !error;
}

/* ---- the contenders ---- */

/** One way to compute C, with its operands where it wants them. */
struct contender {
    const char *name;
    yoke_dtype dtype;
    yoke_device *device; /* NULL: CLBlast */
    yoke_stream *stream;
    void *a, *b, *c;
    double seconds[ROUNDS];
};

static yoke_status multiply(struct contender *x, const struct shape *s)
{
    if (!x->device) {
        int code = cl.CLBlastSgemm(101, 111, 111, (size_t)s->M, (size_t)s->N, (size_t)s->K, 1.0f, x->a, 0, (size_t)s->K, x->b, 0,
                                   (size_t)s->N, 0.0f, x->c, 0, (size_t)s->N, &clblast.queue, NULL);
        if (code) return yoke_fail(YOKE_EBACKEND, "CLBlastSgemm returned %d", code);
        return cl.clFinish(clblast.queue) ? yoke_fail(YOKE_EBACKEND, "clFinish failed") : YOKE_OK;
    }
    const struct yoke_gemm_args args = { .size = sizeof args, .dtype = x->dtype, .out_dtype = x->dtype, .M = s->M, .N = s->N,
                                         .K = s->K, .batch = 1, .a = x->a, .lda = s->K, .b = x->b, .ldb = s->N, .c = x->c,
                                         .ldc = s->N, .alpha = 1.0f };
    struct yoke_cost cost = { .size = sizeof cost };
    YOKE_TRY(yoke_gemm_can(x->device, &args, &cost));
    YOKE_TRY(yoke_stream_reserve(x->stream, cost.scratch_bytes));
    YOKE_TRY(yoke_gemm(x->stream, &args));
    return yoke_stream_sync(x->stream);
}

static yoke_status give(struct contender *x, const void *values, int64_t n, void **out)
{
    size_t bytes = (size_t)n * yoke_dtype_bytes(x->dtype);
    if (!x->device) {
        cl_int error;
        *out = cl.clCreateBuffer(clblast.context, values ? CL_MEM_COPY_HOST_PTR : 0, bytes, (void *)(uintptr_t)values, &error);
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
                   ? yoke_fail(YOKE_EBACKEND, "clEnqueueReadBuffer failed") : YOKE_OK;
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

/* Samples of C against f64 sums of the operands as they are stored, within the op's own bound. */
static yoke_status verify(const struct contender *x, const struct shape *s, const void *a, const void *b, const void *c)
{
    const double u32 = yokei_unit_roundoff(YOKE_F32), gamma = (double)(s->K + 2) * u32;
    struct yokei_philox_key key = yokei_philox_named(1, "checks");
    for (int i = 0; i < CHECKS; i++) {
        int64_t m = (int64_t)(yokei_uniform(key, 2 * (uint64_t)i) * (double)s->M);
        int64_t n = (int64_t)(yokei_uniform(key, 2 * (uint64_t)i + 1) * (double)s->N);
        if (i < 8) m = s->M - 1, n = s->N - 1 - i; /* the far edge */
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < s->K; k++) {
            double product = yokei_load(x->dtype, a, m * s->K + k) * yokei_load(x->dtype, b, k * s->N + n);
            sum += product;
            magnitude += fabs(product);
        }
        double got = yokei_load(x->dtype, c, m * s->N + n);
        if (!(fabs(got - sum) <= yokei_unit_roundoff(x->dtype) * fabs(sum) + 2 * gamma * magnitude + yokei_underflow(x->dtype)))
            return yoke_fail(YOKE_ENUMERIC, "%s: c[%lld, %lld] is %g, should be %g", x->name, (long long)m, (long long)n, got, sum);
    }
    return YOKE_OK;
}

/* ---- one row of the table ---- */

static yoke_status prepare(struct contender *x, const struct shape *s, const float *a, const float *b)
{
    const int64_t na = s->M * s->K, nb = s->K * s->N, nc = s->M * s->N;
    size_t bytes = yoke_dtype_bytes(x->dtype);
    void *ha = malloc((size_t)na * bytes), *hb = malloc((size_t)nb * bytes), *hc = malloc((size_t)nc * bytes);
    yoke_status status = YOKE_OK;
    if (!ha || !hb || !hc) {
        status = yoke_fail(YOKE_ENOMEM, "no host memory for %lld x %lld x %lld", (long long)s->M, (long long)s->N, (long long)s->K);
        goto done;
    }
    yoke_convert(YOKE_F32, a, x->dtype, ha, (size_t)na);
    yoke_convert(YOKE_F32, b, x->dtype, hb, (size_t)nb);
    YOKE_TRY_GOTO(give(x, ha, na, &x->a), done);
    YOKE_TRY_GOTO(give(x, hb, nb, &x->b), done);
    YOKE_TRY_GOTO(give(x, NULL, nc, &x->c), done);
    YOKE_TRY_GOTO(multiply(x, s), done); /* compiles, too */
    YOKE_TRY_GOTO(take(x, hc, nc), done);
    status = verify(x, s, ha, hb, hc);
done:
    free(ha);
    free(hb);
    free(hc);
    return status;
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double gflops(struct contender *x, const struct shape *s)
{
    qsort(x->seconds, ROUNDS, sizeof x->seconds[0], compare);
    return 2e-9 * (double)s->M * (double)s->N * (double)s->K / x->seconds[ROUNDS / 2];
}

enum { OWN_F32, OWN_F16, OWN_BF16, HOST, CLBLAST, N_CONTENDERS };

static yoke_status row(struct contender *all, const struct shape *s)
{
    const int64_t na = s->M * s->K, nb = s->K * s->N;
    const int n = clblast.there ? N_CONTENDERS : CLBLAST;
    yoke_status status = YOKE_OK;
    float *a = malloc((size_t)na * sizeof *a), *b = malloc((size_t)nb * sizeof *b);
    if (!a || !b) {
        status = yoke_fail(YOKE_ENOMEM, "no host memory");
        goto done;
    }
    struct yokei_philox_key key = yokei_philox_named(1, "operands");
    for (int64_t i = 0; i < na; i++) a[i] = (float)(2 * yokei_uniform(key, (uint64_t)i) - 1);
    for (int64_t i = 0; i < nb; i++) b[i] = (float)(2 * yokei_uniform(key, (uint64_t)(na + i)) - 1);
    for (int i = 0; i < n; i++) YOKE_TRY_GOTO(prepare(&all[i], s, a, b), done);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            uint64_t start = yokei_now_ns();
            YOKE_TRY_GOTO(multiply(&all[i], s), done);
            all[i].seconds[round] = 1e-9 * (double)(yokei_now_ns() - start);
        }
    double speed[N_CONTENDERS] = { 0 };
    for (int i = 0; i < n; i++) speed[i] = gflops(&all[i], s);
    char name[64], ratio[16] = "-", theirs[16] = "-";
    snprintf(name, sizeof name, "%lldx%lldx%lld", (long long)s->M, (long long)s->N, (long long)s->K);
    if (clblast.there) {
        snprintf(theirs, sizeof theirs, "%.1f", speed[CLBLAST]);
        snprintf(ratio, sizeof ratio, "%.1f", speed[OWN_F32] / speed[CLBLAST]);
    }
    printf("%-16s %8.1f %8.1f %8.1f %9s %8.1f   %10s %9.2f %8.2f %9.2f\n", name, speed[OWN_F32], speed[OWN_F16], speed[OWN_BF16],
           theirs, speed[HOST], ratio, speed[OWN_F32] / speed[HOST], speed[OWN_F16] / speed[OWN_F32],
           speed[OWN_BF16] / speed[OWN_F32]);
    fflush(stdout);
done:
    for (int i = 0; i < n; i++) {
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
    struct contender all[N_CONTENDERS] = {
        [OWN_F32] = { .name = "own f32", .dtype = YOKE_F32, .device = device, .stream = stream },
        [OWN_F16] = { .name = "own f16", .dtype = YOKE_F16, .device = device, .stream = stream },
        [OWN_BF16] = { .name = "own bf16", .dtype = YOKE_BF16, .device = device, .stream = stream },
        [HOST] = { .name = "host f32", .dtype = YOKE_F32, .device = host, .stream = host_stream },
        [CLBLAST] = { .name = "CLBlast f32", .dtype = YOKE_F32 },
    };
    if (!open_clblast(reason, sizeof reason)) printf("without CLBlast: %s\n", reason);
    printf("%s: %s, %d threads; host gemm by %s\nGFLOP/s, medians of %d, taking turns\n\n", spec, yoke_device_info(device)->name, n_threads,
           yoke_variant_name(host, "gemm", 0), ROUNDS);
    printf("%-16s %8s %8s %8s %9s %8s   %10s %9s %8s %9s\n", "M x N x K", "f32", "f16", "bf16", "CLBlast", "host", "f32/CLBlast",
           "f32/host", "f16/f32", "bf16/f32");
    for (size_t i = 0; i < YOKE_COUNT(shapes); i++) YOKE_TRY_GOTO(row(all, &shapes[i]), done);
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
    setenv("POCL_MAX_PTHREAD_COUNT", threads, 1); /* before PoCL is loaded; it ignores affinity */
    yoke_status status = bench(argc > 1 ? argv[1] : "opencl:0", atoi(threads));
    if (status) fprintf(stderr, "opencl_gemm: %s\n", yoke_last_error());
    return yoke_status_exit_code(status);
}
