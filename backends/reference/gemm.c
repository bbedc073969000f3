/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products and the bias gradient on the reference backend. include/yoke/ops/gemm.h has the maths. */
#include "backends/reference/reference.h"

static yoke_status reference_gemm_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *a = call->args;
    (void)stream;
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
const struct yoke_op reference_gemm = { .run = reference_gemm_run };

static yoke_status reference_bias_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_bias_backward_args *a = call->args;
    (void)stream;
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t c = 0; c < a->C; c++) {
        double sum = yokei_load(wide, a->dbias, c);
        for (int64_t n = 0; n < a->N; n++) sum += yokei_load(a->dtype, a->dy, n * a->ld + c);
        yokei_store(wide, a->dbias, c, sum);
    }
    return YOKE_OK;
}
const struct yoke_op reference_bias_backward = { .run = reference_bias_backward_run };
