/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix product in bf16 on any device: examples/gemm [DEVICE]. The default device is "host".
 * Needs libyoke alone:  cc gemm.c $(pkg-config --cflags --libs libyoke)
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

#define MUST(call)                                                               \
    do {                                                                         \
        yoke_status s = (call);                                                  \
        if (s) {                                                                 \
            fprintf(stderr, "%s: %s\n", yoke_status_text(s), yoke_last_error()); \
            return yoke_status_exit_code(s);                                     \
        }                                                                        \
    } while (0)

enum { M = 4, N = 3, K = 8 };

int main(int argc, char **argv)
{
    yoke_device *device;
    yoke_stream *stream;
    MUST(yoke_device_open(argc > 1 ? argv[1] : "host", NULL, &device));
    MUST(yoke_stream_create(device, &stream));

    /* a[m, k] = m + 1 and b[k, n] = n + 1. So c[m, n] = K (m + 1)(n + 1), which is exact in bf16. */
    float wide_a[M * K], wide_b[K * N], c[M * N];
    uint16_t narrow_a[M * K], narrow_b[K * N];
    for (int i = 0; i < M * K; i++) wide_a[i] = (float)(i / K + 1);
    for (int i = 0; i < K * N; i++) wide_b[i] = (float)(i % N + 1);
    yoke_convert(YOKE_F32, wide_a, YOKE_BF16, narrow_a, M * K);
    yoke_convert(YOKE_F32, wide_b, YOKE_BF16, narrow_b, K * N);

    void *a, *b, *result;
    MUST(yoke_alloc(device, sizeof narrow_a, &a));
    MUST(yoke_alloc(device, sizeof narrow_b, &b));
    MUST(yoke_alloc(device, sizeof c, &result));
    MUST(yoke_copy_to_device(stream, a, narrow_a, sizeof narrow_a));
    MUST(yoke_copy_to_device(stream, b, narrow_b, sizeof narrow_b));

    /* Ask first whether the device has this type and shape, and how much scratch memory it needs. */
    struct yoke_gemm_args args = YOKE_ARGS(gemm, .dtype = YOKE_BF16, .out_dtype = YOKE_F32, .M = M, .N = N,
                                           .K = K, .batch = 1, .a = a, .lda = K, .b = b, .ldb = N,
                                           .c = result, .ldc = N, .alpha = 1);
    struct yoke_cost cost;
    MUST(yoke_gemm_can(device, &args, &cost));
    MUST(yoke_stream_reserve(stream, cost.scratch_bytes));
    MUST(yoke_gemm(stream, &args));
    MUST(yoke_copy_to_host(stream, c, result, sizeof c));
    MUST(yoke_stream_sync(stream));

    int wrong = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) wrong += c[m * N + n] != (float)(K * (m + 1) * (n + 1));
    printf("%s on %s: %d x %d product, %d of %d elements wrong\n", yoke_device_info(device)->spec,
           yoke_device_info(device)->name, M, N, wrong, M * N);

    MUST(yoke_free(device, a));
    MUST(yoke_free(device, b));
    MUST(yoke_free(device, result));
    MUST(yoke_stream_destroy(stream));
    MUST(yoke_device_close(device));
    return wrong != 0;
}
