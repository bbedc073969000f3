/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of arguments and the counts of work that all families of ops share. For each op `op`, the file
 * of its family has two functions
 *     static yoke_status op_check(const struct yoke_op_args *a, bool pointers)
 *     static struct yokei_work op_work(const struct yoke_op_args *a)
 * YOKEI_OP(family, op) makes yoke_op() and yoke_op_can() from them. Both functions check the arguments and
 * then call the backend. yoke_op_can() takes flops and bytes from op_work, and the scratch from the backend.
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

/** The work of a call. include/yoke/ops/common.h says how it is counted. */
struct yokei_work {
    double flops, bytes;
};
static inline double yokei_bytes(yoke_dtype dtype) { return (double)yoke_dtype_bytes(dtype); }
static inline double yokei_wide_bytes(yoke_dtype dtype) { return yokei_bytes(yoke_dtype_wide(dtype)); }
/** The work of an op that does `flops` operations on each of n elements, in `arrays` arrays of one type. */
static inline struct yokei_work yokei_work_each(yoke_dtype dtype, double n, int flops, int arrays)
{
    return (struct yokei_work){ flops * n, arrays * n * yokei_bytes(dtype) };
}

/** yoke_op() and yoke_op_can() of a family. */
#define YOKEI_OP(family, op)                                                                       \
    yoke_status yoke_##op##_can(const yoke_device *device, const struct yoke_##op##_args *args,    \
                                struct yoke_cost *cost_out)                                        \
    {                                                                                              \
        if (!device || !args) return yoke_fail(YOKE_EINVAL, #op "_can: a NULL argument");          \
        YOKE_TRY(yokei_check_maker(#op "_can", device));                                           \
        YOKE_TRY(yokei_check_size(#op, args->size, sizeof *args));                                 \
        YOKE_TRY(op##_check(args, false));                                                         \
        const struct yokei_work work = op##_work(args);                                            \
        struct yoke_cost cost = { .size = sizeof cost, .flops = work.flops, .bytes = work.bytes }; \
        YOKE_TRY(device->backend->family->op.can(device, args, &cost.scratch_bytes));              \
        if (cost_out) *cost_out = cost;                                                            \
        return YOKE_OK;                                                                            \
    }                                                                                              \
    yoke_status yoke_##op(yoke_stream *stream, const struct yoke_##op##_args *args)                \
    {                                                                                              \
        if (!stream || !args) return yoke_fail(YOKE_EINVAL, #op ": a NULL argument");              \
        YOKE_TRY(yokei_check_maker(#op, stream->device));                                          \
        YOKE_TRY(yokei_check_size(#op, args->size, sizeof *args));                                 \
        YOKE_TRY(op##_check(args, true));                                                          \
        stream->last_op = #op;                                                                     \
        return stream->device->backend->family->op.run(stream, args);                              \
    }

#endif
