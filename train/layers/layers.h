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

/* ---- half.c: half of a GPT-2 block, y = x + out(body(in(norm(x)))); the body is the layer's own ---- */
enum {
    YOKEI_HALF_GAMMA, YOKEI_HALF_BETA, YOKEI_HALF_IN_WEIGHT, YOKEI_HALF_IN_BIAS, YOKEI_HALF_OUT_WEIGHT, YOKEI_HALF_OUT_BIAS
};
struct yokei_half_type {
    const char *norm, *in, *out; /* names of the parameters, without ".weight" and ".bias" */
    int inner, outer;            /* features that the body takes and gives, in units of C */
};
struct yokei_half {
    struct yokei_norm norm;
    struct yokei_linear in, out;
    void *inner;        /* F to B: the body's input [N, inner C] */
    void *ln, *outer;   /* F to W: the norm's output [N, C], the body's output [N, outer C] */
    void *dinner, *dln; /* B to W: the gradients of inner and ln */
};
/** Fill in the half; `bytes` begins at 0, and what the body needs besides is added after it. */
void yokei_half_lay_out(const struct yokei_half_type *type, const yoke_layer *layer, const struct yoke_shape *shape,
                        const struct yoke_layer_call *call, struct yokei_half *half_out, size_t bytes[YOKE_N_PARTS]);
bool yokei_half_parameter(const struct yokei_half_type *type, const yoke_layer *layer, int index, struct yoke_parameter *out);
/** inner = in(norm(x)); with `gelu`, outer = gelu(inner) too. Then y = x + out(outer). */
yoke_status yokei_half_enter(const struct yoke_layer_call *call, const struct yokei_half *half, bool gelu);
yoke_status yokei_half_leave(const struct yoke_layer_call *call, const struct yokei_half *half);
/** douter [N, outer C] from dy; then, with dinner computed by the body, dln and dx. */
yoke_status yokei_half_backward_leave(const struct yoke_layer_call *call, const struct yokei_half *half, void *douter);
yoke_status yokei_half_backward_enter(const struct yoke_layer_call *call, const struct yokei_half *half);
yoke_status yokei_half_backward_weight(const struct yoke_layer_call *call, const struct yokei_half *half);

#endif
