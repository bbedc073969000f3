/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors: the reference backend with one op replaced by a wrong one. The conformance rows (or the
 * gradient check) must report each error. They must also pass the same ops without the error.
 */
#include "conform/conform.h"
#include "core/backend.h"
#include "core/base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct yoke_backend *sound; /* the reference backend without errors */

/* The correct op, with these arguments. */
static yoke_status run_sound(yoke_stream *stream, const struct yokei_call *call, const void *args)
{
    struct yokei_call other = *call;
    other.args = args;
    return sound->ops[call->op]->run(stream, &other);
}

/* ---- matrix products ---- */

static yoke_status gemm_without_last_column(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *args = call->args;
    struct yoke_gemm_args a = *args;
    if (a.N > 1) a.N--;
    return run_sound(stream, call, &a);
}

static yoke_status gemm_without_last_product(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *args = call->args;
    struct yoke_gemm_args a = *args;
    if (a.K > 1) a.K--;
    return run_sound(stream, call, &a);
}

static uint16_t truncated_bf16(float x) { return (uint16_t)(yokei_f32_bits(x) >> 16); }

/* Computes the product in f32, but truncates it to bf16 instead of rounding. */
static yoke_status gemm_truncated(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *args = call->args;
    struct yoke_gemm_args a = *args;
    if (a.out_dtype != YOKE_BF16 || a.epilogue == YOKE_EPILOGUE_BIAS_GELU)
        return run_sound(stream, call, call->args);
    float *c = calloc((size_t)(a.batch * a.M * a.N) + 1, sizeof *c);
    if (!c) return yoke_fail(YOKE_ENOMEM, "planted gemm: no memory");
    a.out_dtype = YOKE_F32, a.c = c, a.ldc = a.N, a.stride_c = a.M * a.N;
    for (int64_t i = 0; a.beta != 0 && i < a.batch * a.M * a.N; i++)
        c[i] = (float)yokei_load(
            YOKE_BF16, args->c, i / a.stride_c * args->stride_c + i % a.stride_c / a.N * args->ldc + i % a.N);
    const yoke_status status = run_sound(stream, call, &a);
    for (int64_t i = 0; i < a.batch * a.M * a.N; i++)
        ((uint16_t *)args->c)[i / a.stride_c * args->stride_c + i % a.stride_c / a.N * args->ldc + i % a.N] =
            truncated_bf16(c[i]);
    free(c);
    return status;
}

/* Writes one element to the right of the last row, where ld leaves a gap. */
static yoke_status gemm_beyond_its_columns(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *a = call->args;
    YOKE_TRY(run_sound(stream, call, call->args));
    if (a->M && a->N && a->ldc > a->N && a->batch == 1)
        yokei_store(a->out_dtype, a->c, (a->M - 2 > 0 ? a->M - 2 : 0) * a->ldc + a->N, 1);
    return YOKE_OK;
}

/* Gives the right result, but the last bit of one element changes from call to call. */
static yoke_status gemm_unrepeatable(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *a = call->args;
    static int n;
    YOKE_TRY(run_sound(stream, call, call->args));
    if (a->M && a->N && a->out_dtype == YOKE_F32) ((uint32_t *)a->c)[0] ^= (uint32_t)(n++ & 1);
    return YOKE_OK;
}

/* ---- attention ---- */

/* Masks with weights of 0 instead of leaving keys out. But 0 times NaN is NaN. */
static yoke_status attention_unmasked(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_forward_args *a = call->args;
    YOKE_TRY(run_sound(stream, call, call->args));
    for (int64_t b = 0; b < a->B && a->causal; b++)
        for (int64_t t = 0; t < a->T; t++)
            for (int64_t i = 0; i < a->H * a->D; i++) {
                const int64_t h = i / a->D, hkv = h / (a->H / a->Hkv), at = (b * a->T + t) * a->ldo + i;
                double o = yokei_load(a->dtype, a->o, at);
                for (int64_t j = t + 1; j < a->T; j++)
                    o += 0 * yokei_load(a->dtype, a->v, (b * a->T + j) * a->ldv + hkv * a->D + i % a->D);
                yokei_store(a->dtype, a->o, at, o);
            }
    return YOKE_OK;
}

static yoke_status attention_unscaled(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_forward_args *args = call->args;
    struct yoke_attention_forward_args a = *args;
    a.scale = 1;
    return run_sound(stream, call, &a);
}

static yoke_status attention_backward_unscaled(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_backward_args *a = call->args;
    YOKE_TRY(run_sound(stream, call, call->args));
    for (int64_t row = 0; row < a->B * a->T; row++)
        for (int64_t i = 0; i < a->Hkv * a->D; i++)
            yokei_store(a->dtype, a->dk, row * a->lddk + i,
                        yokei_load(a->dtype, a->dk, row * a->lddk + i) / (double)a->scale);
    return YOKE_OK;
}

/* ---- the others ---- */

static yoke_status gelu_erf(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_forward_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++) {
        const double x = yokei_load(a->dtype, a->x, i);
        yokei_store(a->dtype, a->y, i, 0.5 * x * (1 + erf(x * M_SQRT1_2)));
    }
    return YOKE_OK;
}

static yoke_status gelu_backward_erf(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_backward_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++) {
        const double x = yokei_load(a->dtype, a->x, i), dy = yokei_load(a->dtype, a->dy, i);
        const double slope = 0.5 * (1 + erf(x * M_SQRT1_2)) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
        yokei_store(a->dtype, a->dx, i, dy * slope);
    }
    return YOKE_OK;
}

static yoke_status cast_truncated(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_cast_args *a = call->args;
    if (a->from != YOKE_F32 || a->to != YOKE_BF16) return run_sound(stream, call, call->args);
    for (int64_t i = 0; i < a->n; i++) {
        const float x = ((const float *)a->x)[i];
        ((uint16_t *)a->y)[i] = isnan(x) ? yokei_f32_to_bf16(x) : truncated_bf16(x);
    }
    return YOKE_OK;
}

/* Works in blocks of 16 rows, and forgets the remaining rows. */
static yoke_status embed_backward_without_last_block(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_backward_args *args = call->args;
    struct yoke_embed_backward_args a = *args;
    a.N = a.N / 16 * 16;
    return run_sound(stream, call, &a);
}

/* A shard uses its nearest row for a token that it does not hold. */
static yoke_status embed_forward_nearest_token(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_forward_args *args = call->args;
    struct yoke_embed_forward_args a = *args;
    int32_t *tokens = calloc((size_t)a.N + 1, sizeof *tokens);
    if (!tokens) return yoke_fail(YOKE_ENOMEM, "planted embed_forward: no memory");
    for (int64_t n = 0; n < a.N; n++)
        tokens[n] = (int32_t)YOKE_MAX(a.vocab_start, YOKE_MIN(args->tokens[n], a.vocab_start + a.V - 1));
    a.tokens = tokens;
    const yoke_status status = run_sound(stream, call, &a);
    free(tokens);
    return status;
}

static yoke_status adamw_late_by_one(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_adamw_args *args = call->args;
    struct yoke_adamw_args a = *args;
    a.step++;
    return run_sound(stream, call, &a);
}

static yoke_status layernorm_backward_overwrites(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_backward_args *a = call->args;
    for (int64_t c = 0; a->dgamma && c < a->C; c++) yokei_store(yoke_dtype_wide(a->dtype), a->dgamma, c, 0);
    return run_sound(stream, call, call->args);
}

/* Changes its input. */
static yoke_status xent_forward_spoils_logits(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_forward_args *a = call->args;
    YOKE_TRY(run_sound(stream, call, call->args));
    if (a->N && a->V) yokei_store(a->dtype, (void *)(uintptr_t)a->logits, 0, 0);
    return YOKE_OK;
}

/* Subtracts 1 for the target also on shards that do not have the target's column. */
static yoke_status xent_backward_on_every_shard(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_backward_args *a = call->args;
    YOKE_TRY(run_sound(stream, call, call->args));
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t target = a->targets[n] - a->vocab_start;
        if (a->targets[n] < 0 || (target >= 0 && target < a->V)) continue;
        const int64_t at = n * a->lddlogits + a->targets[n] % a->V;
        yokei_store(a->dtype, a->dlogits, at, yokei_load(a->dtype, a->dlogits, at) - (double)a->scale);
    }
    return YOKE_OK;
}

/* Uses the first shard's log sum exp for all, as if nothing had been joined. */
static yoke_status xent_join_of_first_part(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_join_args *args = call->args;
    struct yoke_xent_join_args a = *args;
    a.P = 1;
    return run_sound(stream, call, &a);
}

/* Gives an ignored row the loss of a row whose target is in no shard. */
static yoke_status xent_join_counts_ignored(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_join_args *a = call->args;
    YOKE_TRY(run_sound(stream, call, call->args));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t n = 0; a->losses && n < a->N; n++)
        if (a->targets[n] < 0) yokei_store(wide, a->losses, n, yokei_load(wide, a->lse, n));
    return YOKE_OK;
}

/* Draws the mask of a rank's channels as if they were the first ones. */
static yoke_status dropout_of_first_channels(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_dropout_args *args = call->args;
    struct yoke_dropout_args a = *args;
    a.channel_start = 0;
    return run_sound(stream, call, &a);
}

/* The backward pass draws another mask than the forward pass. */
static yoke_status attention_backward_other_mask(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_backward_args *args = call->args;
    struct yoke_attention_backward_args a = *args;
    a.key++;
    return run_sound(stream, call, &a);
}

/* Counts the heads of a piece from the piece's first head. */
static yoke_status attention_heads_from_zero(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_forward_args *args = call->args;
    struct yoke_attention_forward_args a = *args;
    a.head_start = 0;
    return run_sound(stream, call, &a);
}

/* Leaves out the part of the gradient that goes through the statistics. */
static yoke_status rmsnorm_backward_of_constant_size(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_rmsnorm_backward_args *a = call->args;
    YOKE_TRY(run_sound(stream, call, call->args));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t n = 0; a->dx && a->dx != a->dy && !a->dresidual && n < a->N; n++)
        for (int64_t c = 0; c < a->C; c++)
            yokei_store(a->dtype, a->dx, n * a->lddx + c,
                        yokei_load(wide, a->rstd, n) * yokei_load(a->dtype, a->dy, n * a->lddy + c)
                            * yokei_load(wide, a->gamma, c));
    return YOKE_OK;
}

/* Rotates neighbouring channels together, as other models do. */
static yoke_status rope_neighbours(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_rope_args *a = call->args;
    (void)stream;
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t i = 0; i < a->H * a->D / 2; i++) {
            const double w = (double)(a->pos_start + n % a->T)
                             * pow(a->theta, -2.0 * (double)(i % (a->D / 2)) / (double)a->D),
                         s = a->inverse ? -sin(w) : sin(w);
            const int64_t at = n * a->ldx + 2 * i;
            const double x = yokei_load(a->dtype, a->x, at), y = yokei_load(a->dtype, a->x, at + 1);
            yokei_store(a->dtype, a->x, at, x * cos(w) - y * s);
            yokei_store(a->dtype, a->x, at + 1, y * cos(w) + x * s);
        }
    return YOKE_OK;
}

static yoke_status swiglu_swapped(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_swiglu_forward_args *args = call->args;
    struct yoke_swiglu_forward_args a = *args;
    a.gate = args->up, a.ldgate = args->ldup;
    a.up = args->gate, a.ldup = args->ldgate;
    return run_sound(stream, call, &a);
}

/* ---- running ---- */

static const struct planted {
    const char *name, *op, *dtype;
    bool gradient;
    struct {
        enum yoke_op_id op;
        yoke_status (*run)(yoke_stream *stream, const struct yokei_call *call);
    } wrong; /* the op that is replaced, and by what. `op` above may call it */
} planted[] = {
    { "a dropped last column of a product",
      "gemm",
      "f32",
      false,
      { YOKE_OP_gemm, gemm_without_last_column } },
    { "a dropped last column of A in a product",
      "gemm",
      "bf16",
      false,
      { YOKE_OP_gemm, gemm_without_last_product } },
    { "a wrong rounding: a product truncated to bf16",
      "gemm",
      "bf16",
      false,
      { YOKE_OP_gemm, gemm_truncated } },
    { "a wrong rounding: a conversion truncated to bf16",
      "cast",
      "f32",
      false,
      { YOKE_OP_cast, cast_truncated } },
    { "an unmasked NaN in causal attention, f32",
      "attention_forward",
      "f32",
      false,
      { YOKE_OP_attention_forward, attention_unmasked } },
    { "an unmasked NaN in causal attention, bf16",
      "attention_forward",
      "bf16",
      false,
      { YOKE_OP_attention_forward, attention_unmasked } },
    { "a missing 1/sqrt(d), f32",
      "attention_forward",
      "f32",
      false,
      { YOKE_OP_attention_forward, attention_unscaled } },
    { "a missing 1/sqrt(d), bf16",
      "attention_forward",
      "bf16",
      false,
      { YOKE_OP_attention_forward, attention_unscaled } },
    { "a missing 1/sqrt(d) in dk",
      "attention_backward",
      "f16",
      false,
      { YOKE_OP_attention_backward, attention_backward_unscaled } },
    { "GELU erf for tanh, f32", "gelu_forward", "f32", false, { YOKE_OP_gelu_forward, gelu_erf } },
    { "GELU erf for tanh, f16", "gelu_forward", "f16", false, { YOKE_OP_gelu_forward, gelu_erf } },
    { "GELU erf for tanh, bf16", "gelu_forward", "bf16", false, { YOKE_OP_gelu_forward, gelu_erf } },
    { "GELU erf for tanh, backward, bf16",
      "gelu_backward",
      "bf16",
      false,
      { YOKE_OP_gelu_backward, gelu_backward_erf } },
    { "a missing last block of rows in embed_backward",
      "embed_backward",
      "f32",
      false,
      { YOKE_OP_embed_backward, embed_backward_without_last_block } },
    { "a token of another shard taken for one of this",
      "embed_forward",
      "bf16",
      false,
      { YOKE_OP_embed_forward, embed_forward_nearest_token } },
    { "a target's 1 taken off on a shard without its column, one shard",
      "xent_backward",
      "f32",
      false,
      { YOKE_OP_xent_backward, xent_backward_on_every_shard } },
    { "a target's 1 taken off on a shard without its column, joined",
      "xent_join",
      "bf16",
      false,
      { YOKE_OP_xent_backward, xent_backward_on_every_shard } },
    { "shards that are not joined",
      "xent_join",
      "f16",
      false,
      { YOKE_OP_xent_join, xent_join_of_first_part } },
    { "an ignored target that is counted by the join",
      "xent_join",
      "f32",
      false,
      { YOKE_OP_xent_join, xent_join_counts_ignored } },
    { "a wrong bias correction in adamw", "adamw", "f32", false, { YOKE_OP_adamw, adamw_late_by_one } },
    { "dgamma overwritten where it is accumulated",
      "layernorm_backward",
      "f16",
      false,
      { YOKE_OP_layernorm_backward, layernorm_backward_overwrites } },
    { "an element written beside the result",
      "gemm",
      "bf16",
      false,
      { YOKE_OP_gemm, gemm_beyond_its_columns } },
    { "a result that differs from run to run", "gemm", "f32", false, { YOKE_OP_gemm, gemm_unrepeatable } },
    { "an input that is changed",
      "xent_forward",
      "f32",
      false,
      { YOKE_OP_xent_forward, xent_forward_spoils_logits } },
    { "channels of a rank that drop what the first ones drop",
      "dropout",
      "bf16",
      false,
      { YOKE_OP_dropout, dropout_of_first_channels } },
    { "a piece of grouped heads counted from its first one",
      "attention_forward",
      "f32",
      false,
      { YOKE_OP_attention_forward, attention_heads_from_zero } },
    { "RMSNorm's statistics taken for constants",
      "rmsnorm_backward",
      "f16",
      false,
      { YOKE_OP_rmsnorm_backward, rmsnorm_backward_of_constant_size } },
    { "neighbouring channels turned together", "rope", "bf16", false, { YOKE_OP_rope, rope_neighbours } },
    { "gate and up swapped", "swiglu_forward", "bf16", false, { YOKE_OP_swiglu_forward, swiglu_swapped } },
    { "gradient check: attention drops out other pairs than forward",
      "attention_backward",
      NULL,
      true,
      { YOKE_OP_attention_backward, attention_backward_other_mask } },
    { "gradient check: GELU's derivative is that of another function",
      "gelu_backward",
      NULL,
      true,
      { YOKE_OP_gelu_backward, gelu_backward_erf } },
    { "gradient check: a missing 1/sqrt(d) in dk",
      "attention_backward",
      NULL,
      true,
      { YOKE_OP_attention_backward, attention_backward_unscaled } },
};

static void keep_failure(void *context, const struct conform_line *line)
{
    if (line->verdict == CONFORM_FAIL) conform_text(line, context, 1024);
}

static yoke_status sweep(yoke_device *device, const struct planted *p, char *text,
                         struct conform_summary *summary)
{
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = p->op;
    options.dtype = p->dtype;
    options.gradient_device = device;
    text[0] = '\0';
    return p->gradient ? conform_gradients(&options, keep_failure, text, summary)
                       : conform_run(device, &options, keep_failure, text, summary);
}

int main(void)
{
    yoke_device *device;
    int n = 0, n_bad = 0;
    char text[1024];
    if (yoke_device_open("reference", NULL, &device)) {
        printf("not ok 1 - the reference device opens: %s\n1..1\n", yoke_last_error());
        return 1;
    }
    sound = device->backend;
    for (size_t i = 0; i < YOKE_COUNT(planted); i++) {
        const struct planted *p = &planted[i];
        struct yoke_backend wrong = *sound;
        struct yoke_op wrong_op = *sound->ops[p->wrong.op];
        struct conform_summary without = { .n_fail = -1 }, with = { .n_fail = -1 };
        yoke_status status = sweep(device, p, text, &without);
        wrong_op.run = p->wrong.run;
        wrong.ops[p->wrong.op] = &wrong_op;
        device->backend = &wrong;
        if (!status) status = sweep(device, p, text, &with);
        device->backend = sound;
        const bool caught = !status && without.n_fail == 0 && without.n_pass > 0 && with.n_fail > 0;
        printf("%sok %d - caught: %s\n# %s\n", caught ? "" : "not ", ++n, p->name,
               status ? yoke_last_error() : text);
        n_bad += !caught;
    }
    yoke_device_close(device);
    printf("1..%d\n", n);
    return n_bad > 0;
}
