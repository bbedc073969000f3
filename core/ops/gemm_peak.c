/* SPDX-License-Identifier: Apache-2.0 */
/* The peak of a device: the best speed of its large square products. */
#include <math.h>

#include "core/base/base.h"
#include "core/base/emulated.h"
#include "yoke/ops/gemm.h"

enum { SMALLEST = 256, LARGEST = 16384, SOME = 3 };
static const double LONG_ENOUGH = 0.01, A_SIZE = 0.1; /* seconds */

/* A matrix product with its memory. Nothing is freed while it runs. */
struct product {
    yoke_device *device;
    yoke_stream *stream;
    struct yoke_gemm_args args;
    double flops; /* of the product */
    void *memory[3];
};

static void drop(struct product *p)
{
    yoke_stream_sync(p->stream);
    for (int i = 0; i < 3; i++) {
        yoke_free(p->device, p->memory[i]);
        p->memory[i] = NULL;
    }
}

/*
 * Run the product at least SOME times and for at least `budget` seconds. The shortest time counts, because
 * other work on the machine only makes a product slower.
 */
static yoke_status time_product(struct product *p, double budget, double *seconds_out)
{
    const uint64_t start = yokei_now_ns();
    double least = INFINITY, spent = 0;
    for (int i = 0; i < SOME || spent < budget; i++) {
        const uint64_t begun = yokei_now_ns();
        YOKE_TRY(yoke_gemm(p->stream, &p->args));
        YOKE_TRY(yoke_stream_sync(p->stream));
        const uint64_t now = yokei_now_ns();
        least = fmin(least, (double)(now - begun) * 1e-9);
        spent = (double)(now - start) * 1e-9;
    }
    *seconds_out = least;
    return YOKE_OK;
}

/*
 * The byte 0x3c everywhere is 0.01 in f32 and bf16 and 1.06 in f16. With these values no sum overflows, and
 * none is subnormal.
 */
static yoke_status prepare(struct product *p, yoke_dtype dtype, int64_t N)
{
    struct yoke_cost cost = { .size = sizeof cost };
    const size_t bytes = (size_t)(N * N) * yoke_dtype_bytes(dtype);
    for (int i = 0; i < 3; i++) {
        const yoke_status status = yoke_alloc(p->device, bytes, &p->memory[i]);
        if (status) return yoke_fail_context(status, "the measurement of matrix products");
        YOKE_TRY(yoke_fill(p->stream, p->memory[i], 0x3c, bytes));
    }
    p->args = YOKE_ARGS(gemm, .dtype = dtype, .out_dtype = dtype, .M = N, .N = N, .K = N, .batch = 1,
                        .a = p->memory[0], .lda = N, .b = p->memory[1], .ldb = N, .c = p->memory[2], .ldc = N,
                        .alpha = 1);
    YOKE_TRY(yoke_gemm_can(p->device, &p->args, &cost));
    YOKE_TRY(yoke_stream_reserve(p->stream, cost.scratch_bytes));
    p->flops = cost.flops;
    /* This call warms up and is not timed. On some devices it compiles the kernels. */
    YOKE_TRY(yoke_gemm(p->stream, &p->args));
    return yoke_stream_sync(p->stream);
}

/* Measure larger and larger products. The highest speed of all sizes counts. */
static yoke_status measure(struct product *p, yoke_dtype dtype, double *rate_out, int64_t *size_out)
{
    uint64_t available, total;
    double seconds = 0;
    *rate_out = 0;
    YOKE_TRY(yoke_device_memory(p->device, &available, &total));
    for (int64_t N = SMALLEST;; N *= 2) {
        YOKE_TRY(prepare(p, dtype, N));
        YOKE_TRY(time_product(p, A_SIZE, &seconds));
        if (p->flops / seconds > *rate_out) *rate_out = p->flops / seconds, *size_out = N;
        if (seconds >= LONG_ENOUGH || N == LARGEST
            || 12 * (uint64_t)(N * N) * yoke_dtype_bytes(dtype) > available / 8)
            break;
        drop(p);
    }
    return YOKE_OK;
}

yoke_status yoke_gemm_peak(yoke_device *device, yoke_dtype dtype, double *flops_per_second_out,
                           int64_t *size_out)
{
    struct product p = { .device = device };
    double rate;
    int64_t size = 0;
    if (!device || !flops_per_second_out) return yoke_fail(YOKE_EINVAL, "yoke_gemm_peak: a NULL argument");
    if (yokei_is_emulated(yoke_device_info(device)->features))
        return yoke_fail(YOKE_EUNSUPPORTED, "%s is emulated, and its speed is not the speed of a GPU",
                         yoke_device_info(device)->spec);
    YOKE_TRY(yoke_stream_create(device, &p.stream));
    yoke_status status = measure(&p, dtype, &rate, &size);
    drop(&p);
    const yoke_status ended = yoke_stream_destroy(p.stream);
    if (!status) status = ended;
    if (status) return status;
    *flops_per_second_out = rate;
    if (size_out) *size_out = size;
    return YOKE_OK;
}
