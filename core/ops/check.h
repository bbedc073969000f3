/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of arguments that all families of ops share, and what the public functions of all ops do. For
 * each op `op`, the file of its family has four functions:
 *     static yoke_status op_check(const struct yoke_op_args *a, bool pointers)
 *         refuses wrong arguments
 *     static struct yokei_call op_call(const struct yoke_op_args *a)
 *         the row of the op: type, size and work of a call
 *     yoke_op() and yoke_op_can(), the public functions
 */
#ifndef CORE_OPS_CHECK_H
#define CORE_OPS_CHECK_H

#include "core/backend.h"
#include "core/base/base.h"

/**
 * One matrix operand at `p`: rows x columns of `dtype`, with leading dimension ld. There are `batch` such
 * matrices, `stride` elements apart.
 */
struct yokei_operand {
    const char *name;
    const void *p;
    yoke_dtype dtype;
    int64_t rows, columns, ld;
    bool optional;
    int64_t batch, stride;
};

yoke_status yokei_check_size(const char *op, size_t given, size_t expected);
/** dtype is one of f32, f16, bf16, f64. `can` says whether the device has this type. */
yoke_status yokei_check_float(const char *op, const char *field, yoke_dtype dtype);
/**
 * 0 <= value <= 2^40. A product of two such values and the size of an element then still fits 64 bits, after
 * the backend's own checks.
 */
yoke_status yokei_check_extent(const char *op, const char *field, int64_t value);
/**
 * A shard of the vocabulary: V entries from vocab_start on. If `vocabulary` is not 0, the shard lies inside
 * it.
 */
yoke_status yokei_check_shard(const char *op, int64_t vocab_start, int64_t V, int64_t vocabulary);
/**
 * ld >= columns. With `pointers`, the pointer is aligned to its element, and is not NULL unless the operand
 * is optional or empty.
 */
yoke_status yokei_check_operand(const char *op, const struct yokei_operand *x, bool pointers);
/**
 * The address ranges of the two operands do not overlap. With `same_allowed`, they may begin at the same
 * address with the same ld.
 */
yoke_status yokei_check_apart(const char *op, const struct yokei_operand *out, const struct yokei_operand *in,
                              bool same_allowed);
/**
 * For an op on each element: the inputs and the output are vectors of one type and one length. The output may
 * be the same array as an input.
 */
yoke_status yokei_check_map(const char *op, const struct yokei_operand in[], int n_in,
                            const struct yokei_operand *out, bool pointers);
/** Dropout's probability is in [0, 1). Its counters are 32 bits wide and can hold [start, start + n). */
yoke_status yokei_check_dropout(const char *op, float p);
yoke_status yokei_check_counter(const char *op, const char *field, int64_t start, int64_t n);
/** The field must not have the value 0, which means that it is unset. */
yoke_status yokei_check_not_zero(const char *op, const char *field, double value);

static inline struct yokei_operand yokei_vector(const char *name, const void *p, yoke_dtype dtype, int64_t n)
{
    return (struct yokei_operand){ name, p, dtype, 1, n, n, false, 1, 0 };
}
static inline struct yokei_operand yokei_matrix(const char *name, const void *p, yoke_dtype dtype,
                                                int64_t rows, int64_t columns, int64_t ld)
{
    return (struct yokei_operand){ name, p, dtype, rows, columns, ld, false, 1, 0 };
}
static inline struct yokei_operand yokei_optional(struct yokei_operand x)
{
    x.optional = true;
    return x;
}

static inline double yokei_bytes(yoke_dtype dtype) { return (double)yoke_dtype_bytes(dtype); }
static inline double yokei_wide_bytes(yoke_dtype dtype) { return yokei_bytes(yoke_dtype_wide(dtype)); }

/** The row of an op, see struct yokei_call. The function takes all members that every op must state. */
static inline struct yokei_call yokei_call_of(enum yoke_op_id op, const void *args, yoke_dtype dtype,
                                              double size, double flops, double bytes)
{
    return (struct yokei_call){
        .op = op, .args = args, .dtype = dtype, .size = size, .flops = flops, .bytes = bytes
    };
}
/** The row of an op that does `flops` operations on each of n elements, in `arrays` arrays of one type. */
static inline struct yokei_call yokei_call_each(enum yoke_op_id op, const void *args, yoke_dtype dtype,
                                                double n, int flops, int arrays)
{
    return yokei_call_of(op, args, dtype, n, flops * n, arrays * n * yokei_bytes(dtype));
}

/* ---- call.c ---- */

/**
 * What yoke_op() does first: refuse NULL, a device of another process, and arguments that are smaller than
 * `bytes`.
 */
yoke_status yokei_op_begin(enum yoke_op_id op, const yoke_stream *stream, const void *args, size_t bytes);
/** The same for yoke_op_can(). */
yoke_status yokei_op_begin_can(enum yoke_op_id op, const yoke_device *device, const void *args, size_t bytes);
/** Issue the call to the stream, if the device has the op and stores the types. */
yoke_status yokei_op_run(yoke_stream *stream, const struct yokei_call *call);
/** Whether the device offers the call. *cost_out gets the work, and the scratch memory that is needed. */
yoke_status yokei_op_can(const yoke_device *device, const struct yokei_call *call,
                         struct yoke_cost *cost_out);

#endif
