/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What all op families share.
 *
 * An op is called as   yoke_gelu_forward(stream, &YOKE_ARGS(gelu_forward, .dtype = YOKE_BF16, .n = n, .x = x, .y = y));
 * and in C++ as        yoke_gelu_forward_args args = YOKE_ARGS(gelu_forward); args.dtype = YOKE_BF16; …; yoke_gelu_forward(stream, &args);
 * Every op `f` has:  struct yoke_f_args;  yoke_f(stream, args) issues it;  yoke_f_can(device, args, cost) asks whether
 * the device offers that type and shape, and what it costs, without running it (pointers are not looked at).
 *
 * Common to all ops: matrices are row-major with a leading dimension `ld` in elements (ld >= columns); pointers are
 * device addresses aligned to their element; outputs may not overlap inputs unless the comment says so; dimensions are
 * int64_t; a zero dimension is legal and does nothing (it still zeroes what is overwritten by an empty sum).
 * An op never allocates: the scratch that `can` states must have been reserved with yoke_stream_reserve.
 * "wide" is f32, and f64 for f64 data (reference backend only).
 * u is the unit roundoff of the stored type: 2^-24 f32, 2^-11 f16, 2^-8 bf16 (round to nearest even, u = eps / 2);
 * u32 = 2^-24; gamma(n) = n u32 / (1 - n u32). Bounds add the absolute underflow term of the type where they say eta.
 */
#ifndef YOKE_OPS_COMMON_H
#define YOKE_OPS_COMMON_H

#include <yoke/base.h>
#include <yoke/device.h>

/** The arguments of op `f`, with `size` set and all fields that are not named zero. In C++ no field can be named here: set them afterwards. */
#ifdef __cplusplus
#define YOKE_ARGS(op) YOKE_SIZED(yoke_##op##_args)
#else
#define YOKE_ARGS(op, ...) \
    ((struct yoke_##op##_args){.size = sizeof(struct yoke_##op##_args), __VA_ARGS__})
#endif

/** The two functions that every op has. */
#define YOKE_OP_DECLARE(op)                                                                    \
    yoke_status yoke_##op(yoke_stream *stream, const struct yoke_##op##_args *args);           \
    yoke_status yoke_##op##_can(const yoke_device *device, const struct yoke_##op##_args *args, \
                                struct yoke_cost *cost_out);

#endif
