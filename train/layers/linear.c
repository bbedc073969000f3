/* SPDX-License-Identifier: Apache-2.0 */
/* Linear maps and layer norm in the form in which the layers use them, and the description of parameters. */
#include <stdio.h>
#include <string.h>
#include "core/base/base.h"
#include "train/layers/layers.h"

void yokei_parameter(struct yoke_parameter *out, const char *scope, const char *suffix, enum yoke_init init,
                     double std, int64_t rows, int64_t columns)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    const char *dot = scope ? strrchr(scope, '.') : NULL;
    if (dot)
        yokei_text(out->name, sizeof out->name, "%.*s.%s", (int)(dot - scope), scope, suffix);
    else
        yokei_text(out->name, sizeof out->name, "%s", suffix);
    out->n_dims = columns ? 2 : 1;
    out->shape[0] = rows;
    out->shape[1] = columns;
    out->replicated_axes = out->partial_axes = YOKE_AXIS_DATA;
    out->init = init;
    out->init_std = std;
    out->matrix = out->decay = out->overwrites = columns != 0;
}

yoke_status yokei_linear_forward(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                 const void *x, const void *weight, const void *bias, bool add, bool gelu,
                                 void *aux, void *y, yoke_dtype y_dtype)
{
    yoke_dtype dtype = call->shape->dtype;
    return YOKE_CALL(call, gemm, .dtype = dtype, .out_dtype = y_dtype, .M = l->N, .N = l->out, .K = l->in,
                     .batch = 1, .a = x, .lda = l->in, .b = weight, .ldb = l->out, .c = y, .ldc = l->out,
                     .alpha = 1.0f, .beta = add ? 1.0f : 0.0f,
                     .epilogue = gelu   ? YOKE_EPILOGUE_BIAS_GELU
                                 : bias ? YOKE_EPILOGUE_BIAS
                                        : YOKE_EPILOGUE_NONE,
                     .bias = bias, .aux = aux, .ldaux = l->out);
}

yoke_status yokei_linear_backward_input(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                        const void *dy, const void *weight, void *dx, yoke_dtype dx_dtype)
{
    yoke_dtype dtype = call->shape->dtype;
    return YOKE_CALL(call, gemm, .dtype = dtype, .out_dtype = dx_dtype, .trans_b = true, .M = l->N,
                     .N = l->in, .K = l->out, .batch = 1, .a = dy, .lda = l->out, .b = weight, .ldb = l->out,
                     .c = dx, .ldc = l->in, .alpha = 1.0f);
}

yoke_status yokei_linear_backward_weight(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                         const void *x, const void *dy, int index)
{
    yoke_dtype dtype = call->shape->dtype;
    return YOKE_CALL(call, gemm, .dtype = dtype, .out_dtype = yoke_dtype_wide(dtype), .trans_a = true,
                     .M = l->in, .N = l->out, .K = l->N, .batch = 1, .a = x, .lda = l->in, .b = dy,
                     .ldb = l->out, .c = call->gradients[index], .ldc = l->out, .alpha = 1.0f,
                     .beta = yoke_call_beta(call, index));
}

yoke_status yokei_bias_backward(const struct yoke_layer_call *call, int64_t N, int64_t C, const void *dy,
                                int64_t ld, void *dbias)
{
    return YOKE_CALL(call, bias_backward, .dtype = call->shape->dtype, .N = N, .C = C, .dy = dy, .ld = ld,
                     .dbias = dbias);
}

void yokei_norm_lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, int64_t N,
                        int64_t C, double eps, struct yokei_norm *n, size_t bytes[YOKE_N_PARTS])
{
    const size_t wide = yoke_dtype_bytes(yoke_dtype_wide(shape->dtype));
    void *mean = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, N, wide),
         *rstd = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, N, wide);
    *n = (struct yokei_norm){ N,    C,    (float)eps,
                              mean, rstd, yoke_part_field(shape, call, bytes, YOKE_B_TO_W, 2 * C, wide) };
}

yoke_status yokei_norm_forward(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *x,
                               const void *gamma, const void *beta, void *y)
{
    return YOKE_CALL(call, layernorm_forward, .dtype = call->shape->dtype, .N = n->N, .C = n->C, .x = x,
                     .ldx = n->C, .gamma = gamma, .beta = beta, .eps = n->eps, .y = y, .ldy = n->C,
                     .mean = n->mean, .rstd = n->rstd);
}

/* dgamma and dbeta lie one after the other. */
static void *dbeta_of(const struct yoke_layer_call *call, const struct yokei_norm *n)
{
    return yoke_at(n->dgamma, (size_t)n->C * yoke_dtype_bytes(yoke_dtype_wide(call->shape->dtype)));
}

/* Compute all gradients in one pass over dy and x, so that W needs neither. */
yoke_status yokei_norm_backward_input(const struct yoke_layer_call *call, const struct yokei_norm *n,
                                      const void *dy, const void *x, const void *gamma, const void *dresidual,
                                      void *dx)
{
    YOKE_TRY(yoke_call_zero(call, n->dgamma,
                            2 * (size_t)n->C * yoke_dtype_bytes(yoke_dtype_wide(call->shape->dtype))));
    return YOKE_CALL(call, layernorm_backward, .dtype = call->shape->dtype, .N = n->N, .C = n->C, .dy = dy,
                     .lddy = n->C, .x = x, .ldx = n->C, .gamma = gamma, .mean = n->mean, .rstd = n->rstd,
                     .dresidual = dresidual, .lddresidual = n->C, .dx = dx, .lddx = n->C, .dgamma = n->dgamma,
                     .dbeta = dbeta_of(call, n));
}

yoke_status yokei_gradient_add(const struct yoke_layer_call *call, int index, const void *part, int64_t n)
{
    void *gradient = call->gradients[index];
    return YOKE_CALL(call, add, .dtype = yoke_dtype_wide(call->shape->dtype), .n = n, .x = gradient,
                     .y = part, .z = gradient);
}

yoke_status yokei_norm_backward_weight(const struct yoke_layer_call *call, const struct yokei_norm *n,
                                       int gamma, int beta)
{
    const size_t bytes = (size_t)n->C * yoke_dtype_bytes(yoke_dtype_wide(call->shape->dtype));
    /* One addition for both, where their gradients lie side by side as dgamma and dbeta do. */
    if (call->gradients[beta] == yoke_at(call->gradients[gamma], bytes))
        return yokei_gradient_add(call, gamma, n->dgamma, 2 * n->C);
    YOKE_TRY(yokei_gradient_add(call, gamma, n->dgamma, n->C));
    return yokei_gradient_add(call, beta, dbeta_of(call, n), n->C);
}

yoke_status yokei_project(const struct yoke_layer_call *call, const struct yokei_projection *l, const void *x,
                          const void *weight, const void *bias, bool add, void *y, yoke_dtype y_dtype)
{
    return YOKE_CALL(call, gemm, .dtype = call->shape->dtype, .out_dtype = y_dtype, .trans_b = true,
                     .M = l->N, .N = l->out, .K = l->in, .batch = 1, .a = x, .lda = l->in, .b = weight,
                     .ldb = l->in, .c = y, .ldc = l->ldy, .alpha = 1.0f, .beta = add ? 1.0f : 0.0f,
                     .epilogue = bias ? YOKE_EPILOGUE_BIAS : YOKE_EPILOGUE_NONE, .bias = bias);
}

yoke_status yokei_project_backward_input(const struct yoke_layer_call *call, const struct yokei_projection *l,
                                         const void *dy, const void *weight, bool add, void *dx,
                                         yoke_dtype dx_dtype)
{
    return YOKE_CALL(call, gemm, .dtype = call->shape->dtype, .out_dtype = dx_dtype, .M = l->N, .N = l->in,
                     .K = l->out, .batch = 1, .a = dy, .lda = l->ldy, .b = weight, .ldb = l->in, .c = dx,
                     .ldc = l->in, .alpha = 1.0f, .beta = add ? 1.0f : 0.0f);
}

yoke_status yokei_project_backward_weight(const struct yoke_layer_call *call,
                                          const struct yokei_projection *l, const void *x, const void *dy,
                                          int index, void *dweight)
{
    const yoke_dtype dtype = call->shape->dtype;
    return YOKE_CALL(call, gemm, .dtype = dtype, .out_dtype = yoke_dtype_wide(dtype), .trans_a = true,
                     .M = l->out, .N = l->in, .K = l->N, .batch = 1, .a = dy, .lda = l->ldy, .b = x,
                     .ldb = l->in, .c = dweight, .ldc = l->in, .alpha = 1.0f,
                     .beta = yoke_call_beta(call, index));
}
