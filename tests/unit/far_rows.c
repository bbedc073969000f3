/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that lie more than 2^31 elements from the beginning of their tensor. Each op with rows and a leading
 * dimension runs twice on the same numbers: with rows side by side, and with a leading dimension of more than
 * 2^30 elements. Both results must have the same bits. The memory of the second run is a reserved range of
 * addresses, of which only the rows are touched. An index in 32 bits leaves the rows. Prints TAP.
 *
 *   far_rows SPEC      SPEC: a device whose memory the host can access, such as host
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <yoke/yoke.h>

#include "core/base/base.h"

enum { N = 3, C = 40, TENSORS = 8 };
static const int64_t far_ld = ((int64_t)1 << 30) + 16;

typedef uint16_t row_t[C]; /* bf16 */

struct side {
    yoke_device *device;
    yoke_stream *stream;
    int64_t ld;
    uint16_t *t[TENSORS];                   /* [N, C], rows at a distance of ld */
    uint16_t *v, *w, *mean, *rstd, *losses; /* rows side by side: [C] in bf16, or [N] in bf16 or f32 */
    int32_t *targets;                       /* [N] */
};

static yoke_status layernorm_forward(const struct side *s)
{
    return yoke_layernorm_forward(s->stream, &YOKE_ARGS(layernorm_forward, .dtype = YOKE_BF16, .N = N, .C = C,
                                                        .x = s->t[0], .ldx = s->ld, .gamma = s->v,
                                                        .beta = s->w, .eps = 1e-5f, .y = s->t[1],
                                                        .ldy = s->ld, .mean = s->mean, .rstd = s->rstd));
}

static yoke_status layernorm_backward(const struct side *s)
{
    YOKE_TRY(layernorm_forward(s));
    return yoke_layernorm_backward(
        s->stream, &YOKE_ARGS(layernorm_backward, .dtype = YOKE_BF16, .N = N, .C = C, .dy = s->t[2],
                              .lddy = s->ld, .x = s->t[0], .ldx = s->ld, .gamma = s->v, .mean = s->mean,
                              .rstd = s->rstd, .dresidual = s->t[3], .lddresidual = s->ld, .dx = s->t[4],
                              .lddx = s->ld, .dgamma = NULL, .dbeta = NULL));
}

static yoke_status rmsnorm_forward(const struct side *s)
{
    return yoke_rmsnorm_forward(s->stream, &YOKE_ARGS(rmsnorm_forward, .dtype = YOKE_BF16, .N = N, .C = C,
                                                      .x = s->t[0], .ldx = s->ld, .gamma = s->v, .eps = 1e-5f,
                                                      .y = s->t[1], .ldy = s->ld, .rstd = s->rstd));
}

static yoke_status rmsnorm_backward(const struct side *s)
{
    YOKE_TRY(rmsnorm_forward(s));
    return yoke_rmsnorm_backward(
        s->stream, &YOKE_ARGS(rmsnorm_backward, .dtype = YOKE_BF16, .N = N, .C = C, .dy = s->t[2],
                              .lddy = s->ld, .x = s->t[0], .ldx = s->ld, .gamma = s->v, .rstd = s->rstd,
                              .dresidual = s->t[3], .lddresidual = s->ld, .dx = s->t[4], .lddx = s->ld));
}

/* A forward pass, then a backward pass, of one sample with N positions and 2 heads. */
static yoke_status attention(const struct side *s)
{
    YOKE_TRY(yoke_attention_forward(
        s->stream,
        &YOKE_ARGS(attention_forward, .dtype = YOKE_BF16, .causal = true, .B = 1, .T = N, .H = 2, .Hkv = 2,
                   .D = C / 2, .scale = 0.25f, .q = s->t[0], .ldq = s->ld, .k = s->t[1], .ldk = s->ld,
                   .v = s->t[2], .ldv = s->ld, .o = s->t[3], .ldo = s->ld, .lse = s->mean)));
    return yoke_attention_backward(
        s->stream, &YOKE_ARGS(attention_backward, .dtype = YOKE_BF16, .causal = true, .B = 1, .T = N, .H = 2,
                              .Hkv = 2, .D = C / 2, .scale = 0.25f, .q = s->t[0], .ldq = s->ld, .k = s->t[1],
                              .ldk = s->ld, .v = s->t[2], .ldv = s->ld, .o = s->t[3], .ldo = s->ld,
                              .d_o = s->t[4], .lddo = s->ld, .lse = s->mean, .dq = s->t[5], .lddq = s->ld,
                              .dk = s->t[6], .lddk = s->ld, .dv = s->t[7], .lddv = s->ld));
}

static yoke_status gemm(const struct side *s)
{
    return yoke_gemm(s->stream,
                     &YOKE_ARGS(gemm, .dtype = YOKE_BF16, .out_dtype = YOKE_BF16, .M = N, .N = N, .K = C,
                                .batch = 1, .trans_b = true, .a = s->t[0], .lda = s->ld, .b = s->t[1],
                                .ldb = s->ld, .c = s->t[2], .ldc = s->ld, .alpha = 1));
}

static yoke_status bias_backward(const struct side *s)
{
    return yoke_bias_backward(s->stream, &YOKE_ARGS(bias_backward, .dtype = YOKE_BF16, .N = N, .C = C,
                                                    .dy = s->t[0], .ld = s->ld, .dbias = s->v));
}

static yoke_status swiglu_forward(const struct side *s)
{
    return yoke_swiglu_forward(s->stream, &YOKE_ARGS(swiglu_forward, .dtype = YOKE_BF16, .N = N, .F = C,
                                                     .gate = s->t[0], .ldgate = s->ld, .up = s->t[1],
                                                     .ldup = s->ld, .y = s->t[2], .ldy = s->ld));
}

static yoke_status swiglu_backward(const struct side *s)
{
    return yoke_swiglu_backward(
        s->stream, &YOKE_ARGS(swiglu_backward, .dtype = YOKE_BF16, .N = N, .F = C, .gate = s->t[0],
                              .ldgate = s->ld, .up = s->t[1], .ldup = s->ld, .dy = s->t[2], .lddy = s->ld,
                              .dgate = s->t[3], .lddgate = s->ld, .dup = s->t[4], .lddup = s->ld));
}

static yoke_status rope(const struct side *s)
{
    return yoke_rope(s->stream, &YOKE_ARGS(rope, .dtype = YOKE_BF16, .N = N, .T = N, .H = 2, .D = C / 2,
                                           .theta = 10000, .x = s->t[0], .ldx = s->ld));
}

static yoke_status xent(const struct side *s)
{
    YOKE_TRY(yoke_xent_forward(s->stream, &YOKE_ARGS(xent_forward, .dtype = YOKE_BF16, .N = N, .V = C,
                                                     .logits = s->t[0], .ld = s->ld, .targets = s->targets,
                                                     .lse = s->mean, .losses = s->losses)));
    return yoke_xent_backward(s->stream,
                              &YOKE_ARGS(xent_backward, .dtype = YOKE_BF16, .N = N, .V = C, .logits = s->t[0],
                                         .ld = s->ld, .targets = s->targets, .lse = s->mean, .scale = 1,
                                         .dlogits = s->t[1], .lddlogits = s->ld));
}

static yoke_status dropout(const struct side *s)
{
    return yoke_dropout(s->stream, &YOKE_ARGS(dropout, .dtype = YOKE_BF16, .N = N, .C = C, .T = N, .p = 0.25f,
                                              .key = 7, .x = s->t[0], .ldx = s->ld, .residual = s->t[1],
                                              .ldresidual = s->ld, .y = s->t[2], .ldy = s->ld));
}

static const struct {
    const char *name;
    yoke_status (*run)(const struct side *s);
} ops[] = { { "layernorm_forward", layernorm_forward },
            { "layernorm_backward", layernorm_backward },
            { "rmsnorm_forward", rmsnorm_forward },
            { "rmsnorm_backward", rmsnorm_backward },
            { "attention_forward and attention_backward", attention },
            { "gemm", gemm },
            { "bias_backward", bias_backward },
            { "swiglu_forward", swiglu_forward },
            { "swiglu_backward", swiglu_backward },
            { "rope", rope },
            { "xent_forward and xent_backward", xent },
            { "dropout", dropout } };

/* Addresses without memory, which comes when a page is touched. */
static void *reserve(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool open_side(struct side *s)
{
    const size_t bytes = ((size_t)(N - 1) * (size_t)s->ld + C) * sizeof(uint16_t);
    uint16_t **const small[] = { &s->v, &s->w, &s->mean, &s->rstd, &s->losses };
    for (int i = 0; i < TENSORS; i++)
        if (!(s->t[i] = reserve(bytes))) return false;
    for (size_t i = 0; i < YOKE_COUNT(small); i++)
        if (!(*small[i] = reserve(4096))) return false;
    return (s->targets = reserve(4096)) != NULL;
}

/* Numbers from -2 to 2, the same on both sides. */
static void fill(const struct side *s)
{
    for (int i = 0; i < TENSORS; i++)
        for (int r = 0; r < N; r++)
            for (int c = 0; c < C; c++)
                s->t[i][r * s->ld + c] = yokei_f32_to_bf16((float)((i * 31 + r * 17 + c * 7) % 41 - 20) / 10);
    for (int c = 0; c < C; c++) s->v[c] = s->w[c] = yokei_f32_to_bf16((float)(c % 9 - 4) / 4);
    memset(s->mean, 0, 4096), memset(s->rstd, 0, 4096), memset(s->losses, 0, 4096);
    for (int r = 0; r < N; r++) s->targets[r] = (5 * r + 1) % C;
}

static bool same(const struct side *a, const struct side *b)
{
    bool equal = !memcmp(a->v, b->v, 4096) && !memcmp(a->mean, b->mean, 4096)
                 && !memcmp(a->rstd, b->rstd, 4096) && !memcmp(a->losses, b->losses, 4096);
    for (int i = 0; i < TENSORS; i++)
        for (int r = 0; r < N; r++)
            equal = equal && !memcmp(a->t[i] + r * a->ld, b->t[i] + r * b->ld, sizeof(row_t));
    return equal;
}

static yoke_status run(const struct side *s, int op)
{
    fill(s);
    YOKE_TRY(yoke_stream_reserve(s->stream, 1 << 20));
    YOKE_TRY(ops[op].run(s));
    return yoke_stream_sync(s->stream);
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "host";
    struct side near = { .ld = C }, far = { .ld = far_ld };
    int bad = 0;
    const yoke_status opened = yoke_device_open(spec, NULL, &near.device);
    if (opened == YOKE_ENODEV && strcmp(spec, "host") != 0) {
        printf("ok 1 - far rows on %s # SKIP %s\n1..1\n", spec, yoke_last_error());
        return 0;
    }
    if (!opened && !yoke_device_info(near.device)->host_visible) {
        printf("ok 1 - far rows on %s # SKIP the host cannot access its memory\n1..1\n", spec);
        return yoke_device_close(near.device) != YOKE_OK;
    }
    if (opened || yoke_stream_create(near.device, &near.stream) || !open_side(&near) || !open_side(&far)) {
        printf("not ok 1 - far rows on %s: %s\n1..1\n", spec, yoke_last_error());
        return 1;
    }
    far.device = near.device;
    far.stream = near.stream;
    for (int op = 0; op < (int)YOKE_COUNT(ops); op++) {
        const yoke_status status = run(&near, op) ? YOKE_EINTERNAL : run(&far, op);
        const bool good = !status && same(&near, &far);
        printf("%sok %d - %s on %s: rows over 2^31 elements away%s%s\n", good ? "" : "not ", op + 1,
               ops[op].name, spec, status ? ": " : "", status ? yoke_last_error() : "");
        fflush(stdout);
        bad += !good;
    }
    yoke_stream_destroy(near.stream);
    yoke_device_close(near.device);
    printf("1..%d\n", (int)YOKE_COUNT(ops));
    return bad > 0;
}
