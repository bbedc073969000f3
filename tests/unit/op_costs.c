/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost that each op states. It is counted by hand here, by the rules of include/yoke/ops/common.h, for a
 * small shape. All devices must state the same operations and bytes.
 */
#include "tests/unit/test.h"
#include "core/backend.h"

static const char *const devices[] = { "reference", "host", "opencl:0" };

/* Any address: an optional operand counts if its pointer is not NULL. */
static char given[1];

/* Stands for the call of one op on a device. */
typedef yoke_status ask(const yoke_device *device, struct yoke_cost *cost);

/* The shapes: N rows of C columns, or n elements. */
enum { N = 4, C = 8, F = 8, V = 16, n = 40 };
#define ASK(op, ...)                                                                           \
    static yoke_status ask_##op(const yoke_device *device, struct yoke_cost *cost)             \
    {                                                                                          \
        return yoke_##op##_can(device, &YOKE_ARGS(op, .dtype = YOKE_BF16, __VA_ARGS__), cost); \
    }
ASK(gemm, .out_dtype = YOKE_BF16, .M = 3, .N = 4, .K = 5, .batch = 2, .lda = 5, .stride_a = 15, .ldb = 4,
    .ldc = 4, .stride_c = 12, .alpha = 1, .beta = 1, .epilogue = YOKE_EPILOGUE_BIAS)
ASK(bias_backward, .N = N, .C = C, .ld = C)
ASK(layernorm_forward, .N = N, .C = C, .ldx = C, .ldy = C, .eps = 1e-5f, .mean = given, .rstd = given)
ASK(layernorm_backward, .N = N, .C = C, .lddy = C, .ldx = C)
ASK(rmsnorm_forward, .N = N, .C = C, .ldx = C, .ldy = C, .eps = 1e-5f)
ASK(rmsnorm_backward, .N = N, .C = C, .lddy = C, .ldx = C, .dx = given, .lddx = C, .dresidual = given,
    .lddresidual = C)
ASK(gelu_forward, .n = n)
ASK(gelu_backward, .n = n)
ASK(gelu_erf_forward, .n = n)
ASK(gelu_erf_backward, .n = n)
ASK(swiglu_forward, .N = N, .F = F, .ldgate = F, .ldup = F, .ldy = F)
ASK(swiglu_backward, .N = N, .F = F, .ldgate = F, .ldup = F, .lddy = F, .lddgate = F, .lddup = F)
#define HEADS .B = 2, .T = 3, .H = 4, .Hkv = 2, .D = 8, .scale = 1, .ldq = 32, .ldk = 16, .ldv = 16, .ldo = 32
ASK(attention_forward, HEADS, .causal = true, .lse = given)
ASK(attention_backward, HEADS, .lddo = 32, .lddq = 32, .lddk = 16, .lddv = 16)
ASK(embed_forward, .N = N, .T = 2, .C = C, .V = V, .wpe = given)
ASK(embed_backward, .N = N, .T = 2, .C = C, .V = V)
ASK(xent_forward, .N = N, .V = V, .ld = V, .losses = given)
ASK(xent_backward, .N = N, .V = V, .ld = V, .lddlogits = V, .scale = 1)
ASK(xent_join, .P = 2, .N = N, .ld = N, .losses = given)
ASK(grad_norm, .n = n, .scale = 1, .block = 16)
ASK(add, .n = n)
ASK(scale, .n = n)
ASK(dropout, .N = N, .C = C, .T = 2, .ldx = C, .ldy = C, .residual = given, .ldresidual = C)
ASK(rope, .N = N, .T = 2, .H = 2, .D = 4, .theta = 100, .ldx = 8)

static yoke_status ask_adamw(const yoke_device *device, struct yoke_cost *cost)
{
    return yoke_adamw_can(device,
                          &YOKE_ARGS(adamw, .dtype = YOKE_F32, .n = n, .grad_scale = 1, .step = 1,
                                     .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .copy = given,
                                     .copy_dtype = YOKE_BF16),
                          cost);
}

static yoke_status ask_cast(const yoke_device *device, struct yoke_cost *cost)
{
    return yoke_cast_can(device, &YOKE_ARGS(cast, .from = YOKE_F32, .to = YOKE_BF16, .n = n), cost);
}

/* The type is bf16, with 2 bytes. Wide elements have 4 bytes, and tokens too. Every op has a line. */
/* clang-format off */
#define OF_gemm 2 * 3 * 4 * 5 * 2, (2 * 3 * 5 + 5 * 4) * 2 + 2 * 3 * 4 * 2 * 2 + 4 * 4
#define OF_bias_backward N * C, N * C * 2 + 2 * C * 4
#define OF_layernorm_forward 8 * N * C, 2 * N * C * 2 + 2 * C * 4 + 2 * N * 4
#define OF_layernorm_backward 13 * N * C, 3 * N * C * 2 + 2 * N * 4 + 5 * C * 4
#define OF_rmsnorm_forward 4 * N * C, 2 * N * C * 2 + C * 4
#define OF_rmsnorm_backward 8 * N * C, 4 * N * C * 2 + N * 4 + C * 4
#define OF_gelu_forward 9 * n, 2 * n * 2
#define OF_gelu_backward 18 * n, 3 * n * 2
#define OF_gelu_erf_forward 24 * n, 2 * n * 2
#define OF_gelu_erf_backward 30 * n, 3 * n * 2
#define OF_swiglu_forward 5 * N * F, 3 * N * F * 2
#define OF_swiglu_backward 11 * N * F, 5 * N * F * 2
#define OF_attention_forward 4 * 2 * 4 * (1 + 2 + 3) * 8, 6 * (2 * 32 + 2 * 16) * 2 + 6 * 4 * 4
#define OF_attention_backward 10 * 2 * 4 * 9 * 8, 6 * (4 * 32 + 4 * 16) * 2 + 6 * 4 * 4
#define OF_embed_forward N * C, (4 + 2 + 4) * C * 2 + N * 4
#define OF_embed_backward 2 * N * C, N * C * 2 + 2 * (4 + 2) * C * 4 + N * 4
#define OF_xent_forward 4 * N * V, N * V * 2 + 3 * N * 4
#define OF_xent_backward 4 * N * V, 2 * N * V * 2 + 2 * N * 4
#define OF_xent_join 5 * 2 * N, 2 * 3 * N * 4 + N * 4
#define OF_adamw 18 * n, 7 * n * 4 + n * 2
#define OF_grad_norm 3 * n, n * 2 + 2 * 3 * 4
#define OF_cast n, n *(4 + 2)
#define OF_add n, 3 * n * 2
#define OF_scale n, 2 * n * 2
#define OF_dropout 2 * N * C, 3 * N * C * 2
#define OF_rope 3 * N * 8, 2 * N * 8 * 2
/* clang-format on */

#define ENTRY(op) { #op, ask_##op, OF_##op },
static const struct {
    const char *op;
    ask *ask;
    double flops, bytes;
} costs[] = { YOKE_ALL_OPS(ENTRY) };

static void all_devices_state_the_same_cost(void **state)
{
    int n_devices = 0;
    (void)state;
    for (size_t d = 0; d < YOKE_COUNT(devices); d++) {
        yoke_device *device;
        if (yoke_device_open(devices[d], NULL, &device)) {
            printf("# %s is not here: %s\n", devices[d], yoke_last_error());
            continue;
        }
        n_devices++;
        for (size_t i = 0; i < YOKE_COUNT(costs); i++) {
            struct yoke_cost cost = { .size = sizeof cost };
            if (costs[i].ask(device, &cost))
                fail_msg("%s on %s: %s", costs[i].op, devices[d], yoke_last_error());
            if (cost.flops != costs[i].flops || cost.bytes != costs[i].bytes)
                fail_msg("%s on %s: %g operations and %g bytes, expected %g and %g", costs[i].op, devices[d],
                         cost.flops, cost.bytes, costs[i].flops, costs[i].bytes);
        }
        assert_ok(yoke_device_close(device));
    }
    assert_true(n_devices >= 2); /* the reference and the host are always here */
}

/* LayerNorm's two calls, for the input and for the weights, do less than twice the work of one call for both.
 */
static void what_is_not_wanted_does_not_count(void **state)
{
    yoke_device *device;
    struct yoke_cost both = { .size = sizeof both }, input = both, weights = both;
    struct yoke_layernorm_backward_args a = YOKE_ARGS(layernorm_backward, .N = N, .C = C, .lddy = C, .ldx = C,
                                                      .lddx = C);
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    assert_ok(yoke_layernorm_backward_can(device, &a, &both));
    a.dx = given;
    assert_ok(yoke_layernorm_backward_can(device, &a, &input));
    a.dx = NULL, a.dgamma = a.dbeta = given;
    assert_ok(yoke_layernorm_backward_can(device, &a, &weights));
    assert_true(both.flops == 13 * N * C && input.flops == 10 * N * C && weights.flops == 5 * N * C);
    assert_true(weights.bytes < both.bytes && input.bytes < both.bytes);
    assert_ok(yoke_device_close(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_devices_state_the_same_cost),
        cmocka_unit_test(what_is_not_wanted_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
