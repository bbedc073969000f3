/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts that all families of ops share. An op is an operation on device memory, such as gelu_forward.
 *
 * An op is called as follows.
 *   In C:   yoke_gelu_forward(stream, &YOKE_ARGS(gelu_forward, .dtype = YOKE_BF16, .n = n, .x = x, .y = y));
 *   In C++: yoke_gelu_forward_args args = YOKE_ARGS(gelu_forward); args.dtype = YOKE_BF16; …;
 *           yoke_gelu_forward(stream, &args);
 * Every op `f` has struct yoke_f_args and two functions. yoke_f(stream, args) issues the op.
 * yoke_f_can(device, args, cost) says whether the device offers this type and shape, and what the op costs.
 * yoke_f_can runs nothing and reads no memory.
 *
 * Rules for all ops:
 *  - Matrices are row-major, with a leading dimension `ld` in elements (ld >= columns).
 *  - Pointers are device addresses, aligned to their element.
 *  - Outputs may not overlap inputs unless the comment says so.
 *  - Dimensions are int64_t. A zero dimension is legal and does nothing, except that an output of empty sums
 *    is still overwritten with zeros.
 *  - An op never allocates. If `can` states a scratch, the caller must have reserved it with
 *    yoke_stream_reserve.
 *
 * The cost that yoke_f_can states (struct yoke_cost) has the same flops and bytes on every device:
 *  - flops is the number of arithmetic operations in the op's formula (Maths). Each + - * / counts one, and
 *    so does each max, sqrt, exp and each rounding that the formula states. A sum of n numbers counts n. A
 *    value with a name (xhat) counts once, and a term without a name each time that it is written. If an op
 *    works on each element, its operations per row are left out. gemm and attention count their products
 *    alone. Comparisons, indices and random numbers are not arithmetic.
 *  - bytes is the size of all operands. Each input is read once, and each output is written once. An output
 *    that is accumulated (+=) counts twice, because it is read too.
 *  - An operand that may be NULL counts if its pointer is not NULL. If an op has several outputs, and all of
 *    them may be NULL and are, then all of them count.
 *
 * Words and symbols in the comments of the ops:
 *  - "wide" is f64 for f64 data (reference backend only), and f32 for all other data.
 *  - u is the unit roundoff of the stored type: 2^-24 for f32, 2^-11 for f16, 2^-8 for bf16 (round to nearest
 *    even, u = eps / 2).
 *  - u32 = 2^-24; gamma(n) = n u32 / (1 - n u32).
 *  - eta in a bound is the absolute underflow term of the type.
 */
#ifndef YOKE_OPS_COMMON_H
#define YOKE_OPS_COMMON_H

#include <yoke/base.h>
#include <yoke/device.h>

/**
 * The arguments of op `op`, with `size` set. All fields that are not named are zero. In C++ no field can be
 * named here, so set the fields afterwards.
 */
#ifdef __cplusplus
#define YOKE_ARGS(op) YOKE_SIZED(yoke_##op##_args)
#else
#define YOKE_ARGS(op, ...) ((struct yoke_##op##_args){ .size = sizeof(struct yoke_##op##_args), __VA_ARGS__ })
#endif

#endif
