/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that ops must refuse before they ask a backend: wrong sizes, shapes, leading dimensions, null
 * pointers, unset fields, and overlaps.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

static yoke_device *device;
static yoke_stream *stream;
static float *m; /* 64 floats */

static int open_reference(void **state)
{
    (void)state;
    return yoke_device_open("reference", NULL, &device) || yoke_stream_create(device, &stream)
           || yoke_stream_reserve(stream, 4096) || yoke_alloc(device, 64 * sizeof *m, (void **)&m);
}

static int close_reference(void **state)
{
    (void)state;
    return yoke_free(device, m) || yoke_stream_destroy(stream) || yoke_device_close(device);
}

#define GEMM(...) yoke_gemm(stream, &YOKE_ARGS(gemm, .out_dtype = YOKE_F32, .K = 2, __VA_ARGS__))
#define SQUARE .M = 2, .N = 2, .lda = 2, .ldb = 2, .ldc = 2, .a = m, .b = m + 4, .c = m + 8

static void gemm(void **state)
{
    (void)state;
    for (int i = 0; i < 64; i++) m[i] = 1;
    assert_ok(GEMM(SQUARE, .batch = 1, .alpha = 1));
    assert_true(m[8] == 2 && m[11] == 2);
    assert_fails(YOKE_EINVAL, "alpha is 0", GEMM(SQUARE, .batch = 1));
    assert_fails(YOKE_EINVAL, "batch is 0", GEMM(SQUARE, .alpha = 1));
    assert_fails(YOKE_EINVAL, "M is -1", GEMM(.M = -1, .N = 2, .batch = 1, .alpha = 1));
    assert_fails(YOKE_EINVAL, "leading dimension of a is 1",
                 GEMM(.M = 2, .N = 2, .lda = 1, .ldb = 2, .ldc = 2, .a = m, .b = m + 4, .c = m + 8,
                      .batch = 1, .alpha = 1));
    assert_fails(YOKE_EINVAL, "b is NULL",
                 GEMM(.M = 2, .N = 2, .lda = 2, .ldb = 2, .ldc = 2, .a = m, .c = m + 8, .batch = 1,
                      .alpha = 1));
    assert_fails(YOKE_EINVAL, "c and a overlap",
                 GEMM(.M = 2, .N = 2, .lda = 2, .ldb = 2, .ldc = 2, .a = m, .b = m + 8, .c = m + 3,
                      .batch = 1, .alpha = 1));
    assert_fails(YOKE_EINVAL, "not aligned",
                 GEMM(.M = 2, .N = 2, .lda = 2, .ldb = 2, .ldc = 2, .a = (char *)m + 2, .b = m + 8,
                      .c = m + 16, .batch = 1, .alpha = 1));
    assert_fails(YOKE_EINVAL, "stride_c 3", GEMM(SQUARE, .batch = 2, .alpha = 1, .stride_c = 3));
    assert_fails(YOKE_EINVAL, "bias is NULL",
                 GEMM(SQUARE, .batch = 1, .alpha = 1, .epilogue = YOKE_EPILOGUE_BIAS));
    assert_fails(YOKE_EINVAL, "epilogue",
                 GEMM(SQUARE, .batch = 1, .alpha = 1, .epilogue = (enum yoke_epilogue)9));
    assert_fails(YOKE_EINVAL, "out_dtype",
                 yoke_gemm(stream, &YOKE_ARGS(gemm, SQUARE, .dtype = YOKE_BF16, .out_dtype = YOKE_F16, .K = 2,
                                              .batch = 1, .alpha = 1)));
    assert_fails(YOKE_EINVAL, "dtype is i32", GEMM(SQUARE, .dtype = YOKE_I32, .batch = 1, .alpha = 1));
    struct yoke_gemm_args old = { .size = 8 };
    assert_fails(YOKE_EINVAL, "YOKE_ARGS(gemm", yoke_gemm(stream, &old));
    assert_fails(YOKE_EINVAL, "NULL", yoke_gemm(NULL, &old));
    /* Zero sizes are no work, not an error, whatever the pointers. */
    assert_ok(GEMM(.M = 0, .N = 2, .batch = 1, .alpha = 1, .ldb = 2));
}

static void can_looks_at_shapes_only(void **state)
{
    (void)state;
    struct yoke_cost cost = { 0 };
    assert_ok(yoke_gemm_can(device,
                            &YOKE_ARGS(gemm, .M = 3, .N = 4, .K = 5, .batch = 2, .alpha = 1, .lda = 5,
                                       .ldb = 4, .ldc = 4, .stride_c = 12),
                            &cost));
    assert_true(cost.flops == 2.0 * 3 * 4 * 5 * 2);
    assert_ok(yoke_layernorm_backward_can(
        device, &YOKE_ARGS(layernorm_backward, .N = 4, .C = 8, .lddy = 8, .ldx = 8), &cost));
    assert_fails(YOKE_EINVAL, "leading dimension of x",
                 yoke_layernorm_backward_can(
                     device, &YOKE_ARGS(layernorm_backward, .N = 4, .C = 8, .lddy = 8, .ldx = 7), &cost));
}

static void norm(void **state)
{
    (void)state;
#define NORM(...)                                                                                    \
    yoke_layernorm_forward(stream, &YOKE_ARGS(layernorm_forward, .N = 2, .C = 4, .ldx = 4, .ldy = 4, \
                                              .gamma = m + 32, .beta = m + 36, __VA_ARGS__))
    assert_ok(NORM(.eps = 1e-5f, .x = m, .y = m)); /* in place */
    assert_fails(YOKE_EINVAL, "eps is 0", NORM(.x = m, .y = m));
    assert_fails(YOKE_EINVAL, "y and x overlap", NORM(.eps = 1e-5f, .x = m, .y = m + 1));
    assert_fails(YOKE_EINVAL, "both, or neither", NORM(.eps = 1e-5f, .x = m, .y = m, .mean = m + 40));
    assert_fails(YOKE_EINVAL, "y and gamma overlap", NORM(.eps = 1e-5f, .x = m, .y = m + 28));
#define NORMB(...)                                                                                      \
    yoke_layernorm_backward(stream, &YOKE_ARGS(layernorm_backward, .N = 2, .C = 4, .lddy = 4, .ldx = 4, \
                                               .dy = m, .x = m + 8, .gamma = m + 32, .mean = m + 36,    \
                                               .rstd = m + 38, __VA_ARGS__))
    assert_ok(NORMB(.dx = m, .lddx = 4, .dgamma = m + 44, .dbeta = m + 48));
    assert_fails(YOKE_EINVAL, "dx and x overlap", NORMB(.dx = m + 8, .lddx = 4));
    assert_fails(YOKE_EINVAL, "dgamma and dbeta are wanted both", NORMB(.dgamma = m + 44));
    assert_fails(YOKE_EINVAL, "dbeta and dy overlap", NORMB(.dgamma = m + 44, .dbeta = m + 2));
    assert_fails(YOKE_EINVAL, "dgamma and dx overlap",
                 NORMB(.dx = m + 16, .lddx = 4, .dgamma = m + 18, .dbeta = m + 48));
}

static void attention(void **state)
{
    (void)state;
#define ATTEND(...)                                                                                 \
    yoke_attention_forward(stream, &YOKE_ARGS(attention_forward, .B = 1, .T = 2, .D = 2, .ldq = 12, \
                                              .ldk = 12, .ldv = 12, .ldo = 4, .q = m, .k = m + 4,   \
                                              .v = m + 8, .o = m + 32, __VA_ARGS__))
    assert_ok(ATTEND(.H = 2, .Hkv = 2, .scale = 1, .causal = true));
    assert_fails(YOKE_EINVAL, "not a multiple of Hkv", ATTEND(.H = 3, .Hkv = 2, .scale = 1));
    assert_fails(YOKE_EINVAL, "Hkv 0", ATTEND(.H = 2, .scale = 1));
    assert_fails(YOKE_EINVAL, "scale is 0", ATTEND(.H = 2, .Hkv = 2));
    /* The three gradients may be the column blocks of one matrix, but not overlapping ones. */
#define BACK(dk_)                                                                                            \
    yoke_attention_backward(stream, &YOKE_ARGS(attention_backward, .B = 1, .T = 2, .H = 1, .Hkv = 1, .D = 2, \
                                               .scale = 1, .ldq = 2, .ldk = 2, .ldv = 2, .ldo = 2,           \
                                               .lddo = 2, .q = m, .k = m + 4, .v = m + 8, .o = m + 12,       \
                                               .d_o = m + 16, .lse = m + 20, .lddq = 6, .lddk = 6,           \
                                               .lddv = 6, .dq = m + 32, .dk = dk_, .dv = m + 36))
    assert_ok(BACK(m + 34));
    assert_fails(YOKE_EINVAL, "dk and dq overlap", BACK(m + 33));
}

static void groups_and_dropout(void **state)
{
    (void)state;
#define GROUPS(...)                                                                                  \
    yoke_attention_forward(stream, &YOKE_ARGS(attention_forward, .B = 1, .T = 1, .D = 2, .scale = 1, \
                                              .ldq = 12, .ldk = 12, .ldv = 12, .ldo = 6, .q = m,     \
                                              .k = m + 12, .v = m + 24, .o = m + 36, __VA_ARGS__))
    assert_ok(GROUPS(.H = 3, .Hkv = 2, .head_start = 3, .group = 2));
    assert_fails(YOKE_EINVAL, "the 3 heads from 4 on, in groups of 2, read 2",
                 GROUPS(.H = 3, .Hkv = 1, .head_start = 4, .group = 2));
    assert_fails(YOKE_EINVAL, "group is -1", GROUPS(.H = 2, .Hkv = 1, .group = -1));
    assert_fails(YOKE_EINVAL, "head_start is -1", GROUPS(.H = 2, .Hkv = 2, .head_start = -1));
    assert_fails(YOKE_EINVAL, "p is 1; the probability", GROUPS(.H = 2, .Hkv = 2, .p = 1));
    assert_fails(YOKE_EINVAL, "sample_start is", GROUPS(.H = 2, .Hkv = 2, .sample_start = (int64_t)1 << 32));
#define DROP(...) \
    yoke_dropout(stream, &YOKE_ARGS(dropout, .N = 2, .C = 4, .ldx = 4, .ldy = 4, .x = m, __VA_ARGS__))
    assert_ok(DROP(.T = 2, .p = 0.5f, .y = m));
    assert_fails(YOKE_EINVAL, "T is 0", DROP(.p = 0.5f, .y = m));
    assert_fails(YOKE_EINVAL, "p is -0.1", DROP(.T = 2, .p = -0.1f, .y = m));
    assert_fails(YOKE_EINVAL, "p is nan", DROP(.T = 2, .p = (float)NAN, .y = m));
    assert_fails(YOKE_EINVAL, "y and x overlap", DROP(.T = 2, .y = m + 2));
    assert_fails(YOKE_EINVAL, "y and residual overlap",
                 DROP(.T = 2, .y = m + 16, .residual = m + 18, .ldresidual = 4));
    assert_fails(YOKE_EINVAL, "leading dimension of residual is 3",
                 DROP(.T = 2, .y = m + 16, .residual = m + 32, .ldresidual = 3));
    assert_fails(YOKE_EINVAL, "channel_start is 4294967295",
                 DROP(.T = 2, .y = m, .channel_start = 4294967295));
    assert_fails(YOKE_EINVAL, "pos_start is -1", DROP(.T = 2, .y = m, .pos_start = -1));
}

static void llama_ops(void **state)
{
    (void)state;
#define RMS(...)                                                                                         \
    yoke_rmsnorm_forward(stream, &YOKE_ARGS(rmsnorm_forward, .N = 2, .C = 4, .ldx = 4, .ldy = 4, .x = m, \
                                            .gamma = m + 32, __VA_ARGS__))
    assert_ok(RMS(.eps = 1e-5f, .y = m));
    assert_fails(YOKE_EINVAL, "eps is 0", RMS(.y = m));
    assert_fails(YOKE_EINVAL, "rstd and y overlap", RMS(.eps = 1e-5f, .y = m + 8, .rstd = m + 10));
#define RMSB(...)                                                                                            \
    yoke_rmsnorm_backward(stream, &YOKE_ARGS(rmsnorm_backward, .N = 2, .C = 4, .lddy = 4, .ldx = 4, .dy = m, \
                                             .x = m + 8, .gamma = m + 32, .rstd = m + 40, __VA_ARGS__))
    assert_ok(RMSB(.dx = m, .lddx = 4, .dgamma = m + 44));
    assert_fails(YOKE_EINVAL, "dx and x overlap", RMSB(.dx = m + 8, .lddx = 4));
    assert_fails(YOKE_EINVAL, "dgamma and gamma overlap", RMSB(.dgamma = m + 33));
    assert_fails(YOKE_EINVAL, "leading dimension of dx is 3", RMSB(.dx = m, .lddx = 3));
#define GLU(...)                                                                                   \
    yoke_swiglu_forward(stream, &YOKE_ARGS(swiglu_forward, .N = 2, .F = 4, .gate = m, .ldgate = 8, \
                                           .up = m + 4, .ldup = 8, __VA_ARGS__))
    assert_ok(GLU(.y = m + 16, .ldy = 4));
    assert_fails(YOKE_EINVAL, "y and gate overlap", GLU(.y = m + 2, .ldy = 4));
    assert_fails(YOKE_EINVAL, "leading dimension of y is 3", GLU(.y = m + 16, .ldy = 3));
#define GLUB(...)                                                                                    \
    yoke_swiglu_backward(stream, &YOKE_ARGS(swiglu_backward, .N = 2, .F = 4, .gate = m, .ldgate = 4, \
                                            .up = m + 8, .ldup = 4, .dy = m + 16, .lddy = 4, __VA_ARGS__))
    assert_ok(GLUB(.dgate = m, .lddgate = 4, .dup = m + 8, .lddup = 4));
    assert_fails(YOKE_EINVAL, "dgate and dy overlap",
                 GLUB(.dgate = m + 16, .lddgate = 4, .dup = m + 8, .lddup = 4));
    assert_fails(YOKE_EINVAL, "dup and dgate overlap",
                 GLUB(.dgate = m + 32, .lddgate = 4, .dup = m + 34, .lddup = 4));
    assert_fails(YOKE_EINVAL, "y and x overlap",
                 yoke_gelu_erf_forward(stream, &YOKE_ARGS(gelu_erf_forward, .n = 4, .x = m, .y = m + 2)));
#define ROPE(...) yoke_rope(stream, &YOKE_ARGS(rope, .N = 2, .H = 1, .x = m, .ldx = 4, __VA_ARGS__))
    assert_ok(ROPE(.T = 2, .D = 4, .theta = 10000));
    assert_fails(YOKE_EINVAL, "D is 3", ROPE(.T = 2, .D = 3, .theta = 10000));
    assert_fails(YOKE_EINVAL, "theta is 0", ROPE(.T = 2, .D = 4));
    assert_fails(YOKE_EINVAL, "T is 0", ROPE(.D = 4, .theta = 10000));
    assert_fails(YOKE_EINVAL, "leading dimension of x is 4", ROPE(.T = 2, .D = 6, .theta = 10000));
    assert_fails(YOKE_EINVAL, "pos_start is", ROPE(.T = 2, .D = 4, .theta = 10000, .pos_start = 4294967295));
}

static void others(void **state)
{
    (void)state;
    int32_t *tokens = (int32_t *)(m + 60);
    assert_fails(YOKE_EINVAL, "not a multiple of T",
                 yoke_embed_forward(stream, &YOKE_ARGS(embed_forward, .N = 3, .T = 2, .C = 1, .V = 2,
                                                       .tokens = tokens, .wte = m, .y = m + 8)));
    assert_fails(YOKE_EINVAL, "V is 0",
                 yoke_xent_forward(stream, &YOKE_ARGS(xent_forward, .N = 1, .lse = m)));
    assert_fails(YOKE_EINVAL, "scale is 0",
                 yoke_xent_backward(stream,
                                    &YOKE_ARGS(xent_backward, .N = 1, .V = 2, .ld = 2, .lddlogits = 2)));
    assert_fails(YOKE_EINVAL, "beyond the vocabulary of 9",
                 yoke_embed_forward(stream, &YOKE_ARGS(embed_forward, .T = 1, .V = 4, .vocab_start = 6,
                                                       .vocabulary = 9)));
    assert_fails(YOKE_EINVAL, "beyond the vocabulary of 9",
                 yoke_embed_backward(stream, &YOKE_ARGS(embed_backward, .T = 1, .V = 4, .vocab_start = 6,
                                                        .vocabulary = 9)));
    assert_fails(YOKE_EINVAL, "beyond the vocabulary of 9",
                 yoke_xent_forward(stream,
                                   &YOKE_ARGS(xent_forward, .V = 4, .vocab_start = 6, .vocabulary = 9)));
    assert_fails(YOKE_EINVAL, "beyond the vocabulary of 9",
                 yoke_xent_backward(stream, &YOKE_ARGS(xent_backward, .V = 4, .vocab_start = 6,
                                                       .vocabulary = 9, .scale = 1)));
    assert_ok(yoke_xent_backward(stream, &YOKE_ARGS(xent_backward, .V = 4, .vocab_start = 5, .vocabulary = 9,
                                                    .scale = 1)));
#define JOIN(...) \
    yoke_xent_join(stream, &YOKE_ARGS(xent_join, .N = 2, .lse_parts = m, .lse = m + 8, __VA_ARGS__))
    assert_fails(YOKE_EINVAL, "P is 0", JOIN(.P = 0));
    assert_fails(YOKE_EINVAL, "leading dimension of lse_parts", JOIN(.P = 2, .ld = 1));
    assert_ok(JOIN(.P = 2, .ld = 2));
    assert_fails(YOKE_EINVAL, "picked_parts is NULL",
                 JOIN(.P = 2, .ld = 2, .losses = m + 12, .targets = tokens));
    assert_fails(YOKE_EINVAL, "targets is NULL",
                 JOIN(.P = 2, .ld = 2, .losses = m + 12, .picked_parts = m + 4));
    assert_fails(YOKE_EINVAL, "losses and lse overlap",
                 JOIN(.P = 2, .ld = 2, .losses = m + 9, .picked_parts = m + 4, .targets = tokens));
    assert_fails(YOKE_EINVAL, "lse and lse_parts overlap", JOIN(.P = 5, .ld = 2));
    assert_fails(YOKE_EINVAL, "step is 0", yoke_adamw(stream, &YOKE_ARGS(adamw, .n = 1, .grad_scale = 1)));
    assert_fails(YOKE_EINVAL, "betas",
                 yoke_adamw(stream, &YOKE_ARGS(adamw, .n = 1, .grad_scale = 1, .step = 1, .beta1 = 1)));
    assert_fails(YOKE_EINVAL, "kept in f32",
                 yoke_adamw(stream,
                            &YOKE_ARGS(adamw, .dtype = YOKE_BF16, .n = 1, .grad_scale = 1, .step = 1)));
    assert_fails(YOKE_EINVAL, "scale is 0", yoke_grad_norm(stream, &YOKE_ARGS(grad_norm, .n = 1)));
    assert_fails(YOKE_EINVAL, "y and x overlap",
                 yoke_cast(stream,
                           &YOKE_ARGS(cast, .from = YOKE_BF16, .to = YOKE_F32, .n = 4, .x = m, .y = m)));
    assert_ok(yoke_cast(stream, &YOKE_ARGS(cast, .from = YOKE_F32, .to = YOKE_F32, .n = 4, .x = m, .y = m)));
    assert_fails(YOKE_EINVAL, "z and x overlap",
                 yoke_add(stream, &YOKE_ARGS(add, .n = 4, .x = m, .y = m + 8, .z = m + 2)));
    assert_ok(yoke_add(stream, &YOKE_ARGS(add, .n = 4, .x = m, .y = m + 8, .z = m)));
    assert_fails(YOKE_EINVAL, "n is -4", yoke_scale(stream, &YOKE_ARGS(scale, .n = -4)));
    assert_fails(YOKE_EINVAL, "no op is called", yoke_variant_force(device, "gem", NULL));
    assert_fails(YOKE_EINVAL, "has no variant", yoke_variant_force(device, "gemm", "nonsense"));
}

/* A backend does not check types: core refuses those that the device does not store, in both functions. */
static void types(void **state)
{
    (void)state;
    yoke_device *host;
    yoke_stream *own;
    double x[2] = { 1, 2 };
    const char *const words = "type f64 is not offered on device host; use f32, f16 or bf16";
    assert_ok(yoke_device_open("host", NULL, &host));
    assert_ok(yoke_stream_create(host, &own));
    const struct yoke_scale_args scale = YOKE_ARGS(scale, .dtype = YOKE_F64, .n = 2, .alpha = 1, .x = x,
                                                   .y = x);
    const struct yoke_cast_args cast = YOKE_ARGS(cast, .from = YOKE_F32, .to = YOKE_F64, .n = 1, .x = x,
                                                 .y = x + 1);
    const struct yoke_adamw_args adamw = YOKE_ARGS(adamw, .n = 1, .grad_scale = 1, .step = 1, .eps = 1e-8f,
                                                   .copy = x, .copy_dtype = YOKE_F64);
    assert_fails(YOKE_EUNSUPPORTED, words, yoke_scale(own, &scale));
    assert_fails(YOKE_EUNSUPPORTED, words, yoke_scale_can(host, &scale, NULL));
    assert_fails(YOKE_EUNSUPPORTED, words, yoke_cast(own, &cast));
    assert_fails(YOKE_EUNSUPPORTED, words, yoke_adamw_can(host, &adamw, NULL));
    assert_true(x[0] == 1 && x[1] == 2);
    assert_ok(yoke_scale_can(device, &scale, NULL)); /* the reference stores f64 */
    assert_ok(yoke_stream_destroy(own));
    assert_ok(yoke_device_close(host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm),
        cmocka_unit_test(can_looks_at_shapes_only),
        cmocka_unit_test(norm),
        cmocka_unit_test(attention),
        cmocka_unit_test(groups_and_dropout),
        cmocka_unit_test(llama_ops),
        cmocka_unit_test(others),
        cmocka_unit_test(types),
    };
    return cmocka_run_group_tests_name("checks", tests, open_reference, close_reference);
}
