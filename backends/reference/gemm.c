/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products and the bias gradient on the reference backend. include/yoke/ops/gemm.h has the maths. */
#include "backends/reference/reference.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(reference, op)
YOKE_GEMM_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(reference, op)
const struct yoke_gemm_ops reference_gemm_ops = { YOKE_GEMM_OPS(ENTRY) };

static yoke_status reference_gemm_can(const yoke_device *device, const struct yoke_gemm_args *a,
                                      size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    YOKE_TRY(reference_check(YOKE_OP_gemm, "dtype", a->dtype));
    if (a->out_dtype != a->dtype && a->out_dtype != yoke_dtype_wide(a->dtype))
        return yoke_fail(YOKE_EUNSUPPORTED, "gemm: out_dtype = %s for %s input is not offered; use %s or %s",
                         yoke_dtype_name(a->out_dtype), yoke_dtype_name(a->dtype), yoke_dtype_name(a->dtype),
                         yoke_dtype_name(yoke_dtype_wide(a->dtype)));
    return YOKE_OK;
}

static yoke_status reference_gemm_run(yoke_stream *stream, const struct yoke_gemm_args *a)
{
    YOKE_TRY(reference_gemm_can(stream->device, a, NULL));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t i = 0; i < a->batch; i++)
        for (int64_t m = 0; m < a->M; m++)
            for (int64_t n = 0; n < a->N; n++) {
                double sum = 0;
                for (int64_t k = 0; k < a->K; k++) {
                    const int64_t mk = a->trans_a ? k * a->lda + m : m * a->lda + k;
                    const int64_t kn = a->trans_b ? n * a->ldb + k : k * a->ldb + n;
                    sum += yokei_load(a->dtype, a->a, i * a->stride_a + mk)
                           * yokei_load(a->dtype, a->b, i * a->stride_b + kn);
                }
                const int64_t at = i * a->stride_c + m * a->ldc + n;
                double c = a->alpha * sum;
                if (a->beta != 0) c += a->beta * yokei_load(a->out_dtype, a->c, at);
                if (a->epilogue != YOKE_EPILOGUE_NONE) c += yokei_load(wide, a->bias, n);
                if (a->epilogue == YOKE_EPILOGUE_BIAS_GELU) {
                    c = reference_round(a->out_dtype, c);
                    if (a->aux) yokei_store(a->out_dtype, a->aux, i * a->stride_aux + m * a->ldaux + n, c);
                    c = reference_gelu(c);
                }
                yokei_store(a->out_dtype, a->c, at, c);
            }
    return YOKE_OK;
}

static yoke_status reference_bias_backward_can(const yoke_device *device,
                                               const struct yoke_bias_backward_args *a,
                                               size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_bias_backward, "dtype", a->dtype);
}

static yoke_status reference_bias_backward_run(yoke_stream *stream, const struct yoke_bias_backward_args *a)
{
    YOKE_TRY(reference_bias_backward_can(stream->device, a, NULL));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t c = 0; c < a->C; c++) {
        double sum = yokei_load(wide, a->dbias, c);
        for (int64_t n = 0; n < a->N; n++) sum += yokei_load(a->dtype, a->dy, n * a->ld + c);
        yokei_store(wide, a->dbias, c, sum);
    }
    return YOKE_OK;
}
