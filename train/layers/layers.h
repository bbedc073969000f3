/* SPDX-License-Identifier: Apache-2.0 */
/** Yoke's layers, listed once; and what they share. */
#ifndef TRAIN_LAYERS_LAYERS_H
#define TRAIN_LAYERS_LAYERS_H

#include <yoke/train.h>

/** Every layer; tests/unit/train_layers.c checks each of the list. */
#define YOKE_LAYERS(LAYER) LAYER(embedding) LAYER(attention) LAYER(mlp) LAYER(norm) LAYER(head)

/** Describe a parameter: "<layer's name without its last word>.<suffix>", or the suffix alone where `scope` is NULL. */
void yokei_parameter(struct yoke_parameter *out, const char *scope, const char *suffix, enum yoke_init init, double std,
                     int64_t rows, int64_t columns);

/* ---- linear.c: y = x W + b with W [in, out], as Hugging Face's GPT-2 stores it ---- */
struct yokei_linear {
    int64_t N, in, out; /* rows, features */
};
/** y [N, out] = x W + b, with `add` on top of what y holds; with `gelu`, aux = x W + b and y = gelu(aux). */
yoke_status yokei_linear_forward(const struct yoke_layer_call *call, const struct yokei_linear *l, const void *x,
                                 const void *weight, const void *bias, bool add, bool gelu, void *aux, void *y);
/** dx [N, in] = dy W^T */
yoke_status yokei_linear_backward_input(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                        const void *dy, const void *weight, void *dx);
/** dweight += x^T dy, dbias += column sums of dy */
yoke_status yokei_linear_backward_weight(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                         const void *x, const void *dy, void *dweight, void *dbias);

/* ---- linear.c: layer norm over the rows of x [N, C] ---- */
struct yokei_norm {
    int64_t N, C;
    float eps;
    void *mean, *rstd;
};
yoke_status yokei_norm_forward(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *x,
                               const void *gamma, const void *beta, void *y);
/** dx = norm's input gradient [+ dresidual] */
yoke_status yokei_norm_backward_input(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *dy,
                                      const void *x, const void *gamma, const void *dresidual, void *dx);
yoke_status yokei_norm_backward_weight(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *dy,
                                       const void *x, const void *gamma, void *dgamma, void *dbeta);

#endif
