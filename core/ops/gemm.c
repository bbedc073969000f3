/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

#include <string.h>

static yoke_status gemm_check(const struct yoke_gemm_args *a, bool pointers)
{
    const char *op = "gemm";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    if (a->out_dtype != a->dtype && a->out_dtype != yoke_dtype_wide(a->dtype))
        return yoke_fail(YOKE_EINVAL, "gemm: out_dtype %s does not go with dtype %s: the same, or %s",
                         yoke_dtype_name(a->out_dtype), yoke_dtype_name(a->dtype),
                         yoke_dtype_name(yoke_dtype_wide(a->dtype)));
    YOKE_TRY(yokei_check_extent(op, "M", a->M));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "K", a->K));
    YOKE_TRY(yokei_check_extent(op, "batch", a->batch));
    YOKE_TRY(yokei_check_not_zero(op, "batch", (double)a->batch));
    YOKE_TRY(yokei_check_not_zero(op, "alpha", a->alpha));
    if ((unsigned)a->epilogue > YOKE_EPILOGUE_BIAS_GELU)
        return yoke_fail(YOKE_EINVAL, "gemm: unknown epilogue %d", (int)a->epilogue);
    struct yokei_operand A = yokei_matrix("a", a->a, a->dtype, a->trans_a ? a->K : a->M,
                                          a->trans_a ? a->M : a->K, a->lda);
    struct yokei_operand B = yokei_matrix("b", a->b, a->dtype, a->trans_b ? a->N : a->K,
                                          a->trans_b ? a->K : a->N, a->ldb);
    struct yokei_operand C = yokei_matrix("c", a->c, a->out_dtype, a->M, a->N, a->ldc);
    struct yokei_operand X = yokei_optional(yokei_matrix("aux", a->aux, a->out_dtype, a->M, a->N, a->ldaux));
    const struct yokei_operand bias = yokei_vector("bias", a->bias, yoke_dtype_wide(a->dtype), a->N);
    A.batch = B.batch = C.batch = X.batch = a->batch;
    A.stride = a->stride_a, B.stride = a->stride_b, C.stride = a->stride_c, X.stride = a->stride_aux;
    const bool has_aux = a->epilogue == YOKE_EPILOGUE_BIAS_GELU && a->aux;
    pointers = pointers && a->M > 0 && a->N > 0; /* the result is empty, so no operand is checked */
    YOKE_TRY(yokei_check_operand(op, &A, pointers));
    YOKE_TRY(yokei_check_operand(op, &B, pointers));
    YOKE_TRY(yokei_check_operand(op, &C, pointers));
    const int64_t extent = C.rows ? (C.rows - 1) * C.ld + C.columns : 0;
    if (a->batch > 1 && a->stride_c < extent)
        return yoke_fail(YOKE_EINVAL,
                         "gemm: stride_c %lld lets the %lld results overlap; at least %lld is needed",
                         (long long)a->stride_c, (long long)a->batch, (long long)extent);
    if (a->epilogue != YOKE_EPILOGUE_NONE) YOKE_TRY(yokei_check_operand(op, &bias, pointers));
    if (has_aux) YOKE_TRY(yokei_check_operand(op, &X, pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &C, &A, false));
    YOKE_TRY(yokei_check_apart(op, &C, &B, false));
    if (a->epilogue != YOKE_EPILOGUE_NONE) YOKE_TRY(yokei_check_apart(op, &C, &bias, false));
    if (has_aux) {
        YOKE_TRY(yokei_check_apart(op, &X, &A, false));
        YOKE_TRY(yokei_check_apart(op, &X, &B, false));
        YOKE_TRY(yokei_check_apart(op, &X, &C, false));
    }
    return YOKE_OK;
}

static yoke_status bias_backward_check(const struct yoke_bias_backward_args *a, bool pointers)
{
    const char *op = "bias_backward";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "C", a->C));
    const struct yokei_operand dy = yokei_matrix("dy", a->dy, a->dtype, a->N, a->C, a->ld);
    const struct yokei_operand dbias = yokei_vector("dbias", a->dbias, yoke_dtype_wide(a->dtype), a->C);
    YOKE_TRY(yokei_check_operand(op, &dy, pointers));
    YOKE_TRY(yokei_check_operand(op, &dbias, pointers));
    return pointers ? yokei_check_apart(op, &dbias, &dy, false) : YOKE_OK;
}

/*
 * ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ----
 *
 * A product counts as in BLAS: M N K multiplications and as many additions. What the epilogue, alpha and beta
 * add is per element of C, and so is left out. Matrices that all products share (stride 0) are read once.
 */
static struct yokei_call gemm_call(const struct yoke_gemm_args *a)
{
    const double M = (double)a->M, N = (double)a->N, K = (double)a->K, batch = (double)a->batch;
    const double in = yokei_bytes(a->dtype), out = yokei_bytes(a->out_dtype);
    const bool has_aux = a->epilogue == YOKE_EPILOGUE_BIAS_GELU && a->aux;
    double bytes = K * in * (M * (a->stride_a ? batch : 1) + N * (a->stride_b ? batch : 1));
    bytes += batch * M * N * out * (1 + (a->beta != 0) + has_aux);
    if (a->epilogue != YOKE_EPILOGUE_NONE) bytes += N * yokei_wide_bytes(a->dtype);
    struct yokei_call call = yokei_call_of(YOKE_OP_gemm, a, a->dtype, M * N * K * batch,
                                           2 * batch * M * N * K, bytes);
    call.second = a->out_dtype;
    call.edge = YOKE_MIN(M, YOKE_MIN(N, K));
    return call;
}

/* One addition per element of dy. */
static struct yokei_call bias_backward_call(const struct yoke_bias_backward_args *a)
{
    const double elements = (double)a->N * (double)a->C;
    return yokei_call_of(YOKE_OP_bias_backward, a, a->dtype, elements, elements,
                         elements * yokei_bytes(a->dtype) + 2 * (double)a->C * yokei_wide_bytes(a->dtype));
}

/* ---- the public functions ---- */

yoke_status yoke_gemm(yoke_stream *stream, const struct yoke_gemm_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_gemm, stream, args, sizeof *args));
    YOKE_TRY(gemm_check(args, true));
    const struct yokei_call call = gemm_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_gemm_can(const yoke_device *device, const struct yoke_gemm_args *args,
                          struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_gemm, device, args, sizeof *args));
    YOKE_TRY(gemm_check(args, false));
    const struct yokei_call call = gemm_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_bias_backward(yoke_stream *stream, const struct yoke_bias_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_bias_backward, stream, args, sizeof *args));
    YOKE_TRY(bias_backward_check(args, true));
    const struct yokei_call call = bias_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_bias_backward_can(const yoke_device *device, const struct yoke_bias_backward_args *args,
                                   struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_bias_backward, device, args, sizeof *args));
    YOKE_TRY(bias_backward_check(args, false));
    const struct yokei_call call = bias_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}
