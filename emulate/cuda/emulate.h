/* SPDX-License-Identifier: Apache-2.0 */
/** What the stand-in CUDA driver offers beyond CUDA's interface and beyond emulate/gpu/emulate.h. */
#ifndef EMULATE_CUDA_EMULATE_H
#define EMULATE_CUDA_EMULATE_H

#include "emulate/gpu/emulate.h"

/** The number of contexts on the stack of the calling thread. */
int yoke_emulate_stack_depth(void);

/**
 * What the stand-in cuBLASLt does with an f32 bias of a 16-bit result (YOKE_EMULATE_BIAS). It refuses the
 * bias; or it adds the bias and rounds once; or it rounds the product before it adds the bias; or it rounds
 * the bias.
 */
enum emulate_bias { EMULATE_BIAS_REFUSED, EMULATE_BIAS_ONCE, EMULATE_BIAS_TWICE, EMULATE_BIAS_SHORT };
int yoke_emulate_bias(void);

#endif
