/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a model uses the ops. */
#include "conform/trial.h"

#include <string.h>

#define OP(op) YOKE_OP_##op
/*
 * The order of a step: weights are converted, then forward, then backward from the loss to the embedding,
 * then the optimizer. An op that has two places is listed at the first one.
 */
static const enum yoke_op_id order[] = { OP(cast),
                                         OP(embed_forward),
                                         OP(dropout),
                                         OP(layernorm_forward),
                                         OP(rmsnorm_forward),
                                         OP(gemm),
                                         OP(rope),
                                         OP(attention_forward),
                                         OP(add),
                                         OP(gelu_forward),
                                         OP(gelu_erf_forward),
                                         OP(swiglu_forward),
                                         OP(xent_forward),
                                         OP(xent_join),
                                         OP(xent_backward),
                                         OP(bias_backward),
                                         OP(swiglu_backward),
                                         OP(gelu_erf_backward),
                                         OP(gelu_backward),
                                         OP(attention_backward),
                                         OP(rmsnorm_backward),
                                         OP(layernorm_backward),
                                         OP(embed_backward),
                                         OP(scale),
                                         OP(grad_norm),
                                         OP(adamw) };
#undef OP
_Static_assert(sizeof order / sizeof *order == YOKE_N_OPS, "a new op needs its place here");

int conform_order(const char *op)
{
    for (int i = 0; i < YOKE_N_OPS; i++)
        if (!strcmp(op, yokei_op_names[order[i]])) return i;
    return YOKE_N_OPS;
}

enum yoke_op_id conform_op_at(int place) { return order[place]; }
