/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation on the reference backend. include/yoke/ops/norm.h has the maths. */
#include "backends/reference/reference.h"

static yoke_status reference_layernorm_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_forward_args *a = call->args;
    (void)stream;
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t n = 0; n < a->N; n++) {
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < a->C; c++) mean += yokei_load(a->dtype, a->x, n * a->ldx + c);
        mean /= (double)a->C;
        for (int64_t c = 0; c < a->C; c++) {
            const double centred = yokei_load(a->dtype, a->x, n * a->ldx + c) - mean;
            variance += centred * centred;
        }
        variance /= (double)a->C;
        const double rstd = 1 / sqrt(variance + a->eps);
        for (int64_t c = 0; c < a->C; c++) {
            const double xhat = (yokei_load(a->dtype, a->x, n * a->ldx + c) - mean) * rstd;
            yokei_store(a->dtype, a->y, n * a->ldy + c,
                        xhat * yokei_load(wide, a->gamma, c) + yokei_load(wide, a->beta, c));
        }
        if (a->mean) yokei_store(wide, a->mean, n, mean);
        if (a->rstd) yokei_store(wide, a->rstd, n, rstd);
    }
    return YOKE_OK;
}
const struct yoke_op reference_layernorm_forward = { .run = reference_layernorm_forward_run };

/*
 * dx may alias dy or dresidual. So the averages are computed first, and in each row, element c of both is
 * read before dx[n, c] is written.
 */
static void layernorm_input_gradient(const struct yoke_layernorm_backward_args *a)
{
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t n = 0; n < a->N; n++) {
        const double mean = yokei_load(wide, a->mean, n), rstd = yokei_load(wide, a->rstd, n);
        double avg_g = 0, avg_g_xhat = 0;
        for (int64_t c = 0; c < a->C; c++) {
            const double xhat = (yokei_load(a->dtype, a->x, n * a->ldx + c) - mean) * rstd;
            const double g = yokei_load(a->dtype, a->dy, n * a->lddy + c) * yokei_load(wide, a->gamma, c);
            avg_g += g;
            avg_g_xhat += g * xhat;
        }
        avg_g /= (double)a->C;
        avg_g_xhat /= (double)a->C;
        for (int64_t c = 0; c < a->C; c++) {
            const double xhat = (yokei_load(a->dtype, a->x, n * a->ldx + c) - mean) * rstd;
            const double g = yokei_load(a->dtype, a->dy, n * a->lddy + c) * yokei_load(wide, a->gamma, c);
            double dx = rstd * (g - avg_g - xhat * avg_g_xhat);
            if (a->dresidual) dx += yokei_load(a->dtype, a->dresidual, n * a->lddresidual + c);
            yokei_store(a->dtype, a->dx, n * a->lddx + c, dx);
        }
    }
}

static void layernorm_weight_gradient(const struct yoke_layernorm_backward_args *a)
{
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t c = 0; c < a->C; c++) {
        double dgamma = yokei_load(wide, a->dgamma, c), dbeta = yokei_load(wide, a->dbeta, c);
        for (int64_t n = 0; n < a->N; n++) {
            const double mean = yokei_load(wide, a->mean, n), rstd = yokei_load(wide, a->rstd, n);
            const double xhat = (yokei_load(a->dtype, a->x, n * a->ldx + c) - mean) * rstd;
            const double dy = yokei_load(a->dtype, a->dy, n * a->lddy + c);
            dgamma += dy * xhat;
            dbeta += dy;
        }
        yokei_store(wide, a->dgamma, c, dgamma);
        yokei_store(wide, a->dbeta, c, dbeta);
    }
}

static yoke_status reference_layernorm_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_backward_args *a = call->args;
    (void)stream;
    if (a->dgamma) layernorm_weight_gradient(a); /* first, because dx may overwrite dy */
    if (a->dx) layernorm_input_gradient(a);
    return YOKE_OK;
}
const struct yoke_op reference_layernorm_backward = { .run = reference_layernorm_backward_run };

static yoke_status reference_rmsnorm_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_rmsnorm_forward_args *a = call->args;
    (void)stream;
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t n = 0; n < a->N; n++) {
        double squares = 0;
        for (int64_t c = 0; c < a->C; c++) {
            const double x = yokei_load(a->dtype, a->x, n * a->ldx + c);
            squares += x * x;
        }
        const double rstd = 1 / sqrt(squares / (double)a->C + a->eps);
        for (int64_t c = 0; c < a->C; c++)
            yokei_store(a->dtype, a->y, n * a->ldy + c,
                        yokei_load(a->dtype, a->x, n * a->ldx + c) * rstd * yokei_load(wide, a->gamma, c));
        if (a->rstd) yokei_store(wide, a->rstd, n, rstd);
    }
    return YOKE_OK;
}
const struct yoke_op reference_rmsnorm_forward = { .run = reference_rmsnorm_forward_run };

static void rmsnorm_input_gradient(const struct yoke_rmsnorm_backward_args *a, int64_t n)
{
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const double rstd = yokei_load(wide, a->rstd, n);
    double average = 0;
    for (int64_t c = 0; c < a->C; c++)
        average += yokei_load(a->dtype, a->dy, n * a->lddy + c) * yokei_load(wide, a->gamma, c)
                   * yokei_load(a->dtype, a->x, n * a->ldx + c) * rstd;
    average /= (double)a->C;
    for (int64_t c = 0; c < a->C; c++) {
        const double xhat = yokei_load(a->dtype, a->x, n * a->ldx + c) * rstd;
        double dx = rstd
                    * (yokei_load(a->dtype, a->dy, n * a->lddy + c) * yokei_load(wide, a->gamma, c)
                       - xhat * average);
        if (a->dresidual) dx += yokei_load(a->dtype, a->dresidual, n * a->lddresidual + c);
        yokei_store(a->dtype, a->dx, n * a->lddx + c, dx);
    }
}

static yoke_status reference_rmsnorm_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_rmsnorm_backward_args *a = call->args;
    (void)stream;
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t c = 0; a->dgamma && c < a->C; c++) { /* first, because dx may overwrite dy */
        double dgamma = yokei_load(wide, a->dgamma, c);
        for (int64_t n = 0; n < a->N; n++)
            dgamma += yokei_load(a->dtype, a->dy, n * a->lddy + c)
                      * yokei_load(a->dtype, a->x, n * a->ldx + c) * yokei_load(wide, a->rstd, n);
        yokei_store(wide, a->dgamma, c, dgamma);
    }
    for (int64_t n = 0; a->dx && n < a->N; n++) rmsnorm_input_gradient(a, n);
    return YOKE_OK;
}
const struct yoke_op reference_rmsnorm_backward = { .run = reference_rmsnorm_backward_run };
