/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status check_groups(const char *op, int64_t H, int64_t Hkv, int64_t head_start, int64_t group)
{
    YOKE_TRY(yokei_check_counter(op, "head_start", head_start, H));
    if (group < 0 || group > INT32_MAX)
        return yoke_fail(
            YOKE_EINVAL,
            "%s: group is %lld; a K/V head serves at least one head (0: H / Hkv), and at most 2^31 - 1", op,
            (long long)group);
    if (!group && (Hkv < 1 || H % Hkv))
        return yoke_fail(
            YOKE_EINVAL,
            "%s: H %lld is not a multiple of Hkv %lld; set Hkv = H where heads are not grouped, or group where they "
            "are a piece of more",
            op, (long long)H, (long long)Hkv);
    const int64_t needed = group && H ? (head_start + H - 1) / group - head_start / group + 1 : Hkv;
    if (Hkv != needed || Hkv < 1)
        return yoke_fail(YOKE_EINVAL,
                         "%s: Hkv is %lld; the %lld heads from %lld on, in groups of %lld, read %lld", op,
                         (long long)Hkv, (long long)H, (long long)head_start, (long long)group,
                         (long long)needed);
    return YOKE_OK;
}

/* Check the fields that both directions have. */
#define CHECK_SHAPE(op, a)                                                                           \
    do {                                                                                             \
        YOKE_TRY(check_shape(op, (a)->dtype, (a)->B, (a)->T, (a)->H, (a)->Hkv, (a)->D, (a)->scale)); \
        YOKE_TRY(check_groups(op, (a)->H, (a)->Hkv, (a)->head_start, (a)->group));                   \
        YOKE_TRY(yokei_check_dropout(op, (a)->p));                                                   \
        YOKE_TRY(yokei_check_counter(op, "sample_start", (a)->sample_start, (a)->B));                \
    } while (0)

static yoke_status check_shape(const char *op, yoke_dtype dtype, int64_t B, int64_t T, int64_t H, int64_t Hkv,
                               int64_t D, float scale)
{
    YOKE_TRY(yokei_check_float(op, "dtype", dtype));
    YOKE_TRY(yokei_check_extent(op, "B", B));
    YOKE_TRY(yokei_check_extent(op, "T", T));
    YOKE_TRY(yokei_check_extent(op, "H", H));
    YOKE_TRY(yokei_check_extent(op, "Hkv", Hkv));
    YOKE_TRY(yokei_check_extent(op, "D", D));
    if (D < 1) return yoke_fail(YOKE_EINVAL, "%s: D is 0; a head has at least one channel", op);
    return yokei_check_not_zero(op, "scale", scale);
}

static yoke_status attention_forward_check(const struct yoke_attention_forward_args *a, bool pointers)
{
    const char *op = "attention_forward";
    CHECK_SHAPE(op, a);
    const int64_t rows = a->B * a->T, q_columns = a->H * a->D, kv_columns = a->Hkv * a->D;
    const struct yokei_operand q = yokei_matrix("q", a->q, a->dtype, rows, q_columns, a->ldq);
    const struct yokei_operand k = yokei_matrix("k", a->k, a->dtype, rows, kv_columns, a->ldk);
    const struct yokei_operand v = yokei_matrix("v", a->v, a->dtype, rows, kv_columns, a->ldv);
    const struct yokei_operand o = yokei_matrix("o", a->o, a->dtype, rows, q_columns, a->ldo);
    const struct yokei_operand lse = yokei_optional(
        yokei_vector("lse", a->lse, yoke_dtype_wide(a->dtype), a->B * a->H * a->T));
    const struct yokei_operand *const all[] = { &q, &k, &v, &o, &lse };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    for (size_t i = 0; i < 3; i++) {
        YOKE_TRY(yokei_check_apart(op, &o, all[i], false));
        YOKE_TRY(yokei_check_apart(op, &lse, all[i], false));
    }
    return yokei_check_apart(op, &lse, &o, false);
}

static yoke_status attention_backward_check(const struct yoke_attention_backward_args *a, bool pointers)
{
    const char *op = "attention_backward";
    CHECK_SHAPE(op, a);
    const int64_t rows = a->B * a->T, q_columns = a->H * a->D, kv_columns = a->Hkv * a->D;
    const struct yokei_operand ins[] = {
        yokei_matrix("q", a->q, a->dtype, rows, q_columns, a->ldq),
        yokei_matrix("k", a->k, a->dtype, rows, kv_columns, a->ldk),
        yokei_matrix("v", a->v, a->dtype, rows, kv_columns, a->ldv),
        yokei_matrix("o", a->o, a->dtype, rows, q_columns, a->ldo),
        yokei_matrix("d_o", a->d_o, a->dtype, rows, q_columns, a->lddo),
        yokei_vector("lse", a->lse, yoke_dtype_wide(a->dtype), a->B * a->H * a->T),
    };
    const struct yokei_operand outs[] = {
        yokei_matrix("dq", a->dq, a->dtype, rows, q_columns, a->lddq),
        yokei_matrix("dk", a->dk, a->dtype, rows, kv_columns, a->lddk),
        yokei_matrix("dv", a->dv, a->dtype, rows, kv_columns, a->lddv),
    };
    for (size_t i = 0; i < YOKE_COUNT(ins); i++) YOKE_TRY(yokei_check_operand(op, &ins[i], pointers));
    for (size_t i = 0; i < YOKE_COUNT(outs); i++) {
        YOKE_TRY(yokei_check_operand(op, &outs[i], pointers));
        if (!pointers) continue;
        for (size_t j = 0; j < YOKE_COUNT(ins); j++)
            YOKE_TRY(yokei_check_apart(op, &outs[i], &ins[j], false));
        for (size_t j = 0; j < i; j++) YOKE_TRY(yokei_check_apart(op, &outs[i], &outs[j], false));
    }
    return YOKE_OK;
}

/*
 * ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ----
 *
 * The products count, 2 D for each pair of a query and a key that the mask keeps. The softmax is per pair and
 * not per pair and channel, so it is left out.
 */
static double pairs_of(int64_t B, int64_t T, int64_t H, bool causal)
{
    return (double)B * (double)H * (double)T * (causal ? ((double)T + 1) / 2 : (double)T);
}

/* Two products: S and O. */
static struct yokei_call attention_forward_call(const struct yoke_attention_forward_args *a)
{
    const double rows = (double)a->B * (double)a->T, H = (double)a->H, Hkv = (double)a->Hkv, D = (double)a->D;
    struct yokei_call call = yokei_call_of(
        YOKE_OP_attention_forward, a, a->dtype, rows * H * D, 4 * pairs_of(a->B, a->T, a->H, a->causal) * D,
        2 * rows * (H + Hkv) * D * yokei_bytes(a->dtype) + !!a->lse * rows * H * yokei_wide_bytes(a->dtype));
    call.edge = (double)a->T;
    return call;
}

/* Five products: S once more, dV, dP, dQ and dK. */
static struct yokei_call attention_backward_call(const struct yoke_attention_backward_args *a)
{
    const double rows = (double)a->B * (double)a->T, H = (double)a->H, Hkv = (double)a->Hkv, D = (double)a->D;
    struct yokei_call call = yokei_call_of(
        YOKE_OP_attention_backward, a, a->dtype, rows * H * D, 10 * pairs_of(a->B, a->T, a->H, a->causal) * D,
        4 * rows * (H + Hkv) * D * yokei_bytes(a->dtype) + rows * H * yokei_wide_bytes(a->dtype));
    call.edge = (double)a->T;
    return call;
}

/* ---- the public functions ---- */

yoke_status yoke_attention_forward(yoke_stream *stream, const struct yoke_attention_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_attention_forward, stream, args, sizeof *args));
    YOKE_TRY(attention_forward_check(args, true));
    const struct yokei_call call = attention_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_attention_forward_can(const yoke_device *device,
                                       const struct yoke_attention_forward_args *args,
                                       struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_attention_forward, device, args, sizeof *args));
    YOKE_TRY(attention_forward_check(args, false));
    const struct yokei_call call = attention_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_attention_backward(yoke_stream *stream, const struct yoke_attention_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_attention_backward, stream, args, sizeof *args));
    YOKE_TRY(attention_backward_check(args, true));
    const struct yokei_call call = attention_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_attention_backward_can(const yoke_device *device,
                                        const struct yoke_attention_backward_args *args,
                                        struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_attention_backward, device, args, sizeof *args));
    YOKE_TRY(attention_backward_check(args, false));
    const struct yokei_call call = attention_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}
