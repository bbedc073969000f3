/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

yoke_status yokei_check_size(const char *op, size_t given, size_t expected)
{
    if (given >= expected) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL,
                     "%s: args->size is %zu, %zu is expected; build the arguments with YOKE_ARGS(%s, ...)",
                     op, given, expected, op);
}

yoke_status yokei_check_float(const char *op, const char *field, yoke_dtype dtype)
{
    if (dtype == YOKE_F32 || dtype == YOKE_F16 || dtype == YOKE_BF16 || dtype == YOKE_F64) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL,
                     "%s: %s is %s; one of f32, f16, bf16 is expected (f64 on the reference backend)", op,
                     field, yoke_dtype_name(dtype));
}

yoke_status yokei_check_extent(const char *op, const char *field, int64_t value)
{
    if (value >= 0 && value <= (int64_t)1 << 40) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: %s is %lld; 0 to 2^40 is expected", op, field, (long long)value);
}

yoke_status yokei_check_shard(const char *op, int64_t vocab_start, int64_t V, int64_t vocabulary)
{
    YOKE_TRY(yokei_check_extent(op, "V", V));
    YOKE_TRY(yokei_check_extent(op, "vocab_start", vocab_start));
    YOKE_TRY(yokei_check_extent(op, "vocabulary", vocabulary));
    if (!vocabulary || vocab_start + V <= vocabulary) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL,
                     "%s: the shard from vocab_start %lld on with V %lld goes beyond the vocabulary of %lld",
                     op, (long long)vocab_start, (long long)V, (long long)vocabulary);
}

yoke_status yokei_check_not_zero(const char *op, const char *field, double value)
{
    if (value != 0) return YOKE_OK; /* NaN passes this check, and is visible in the result */
    return yoke_fail(YOKE_EINVAL, "%s: %s is 0, as if it had not been set; set it (1 for no effect)", op,
                     field);
}

static bool empty(const struct yokei_operand *x) { return x->rows == 0 || x->columns == 0 || x->batch == 0; }

yoke_status yokei_check_operand(const char *op, const struct yokei_operand *x, bool pointers)
{
    if (x->rows > 1 && x->ld < x->columns)
        return yoke_fail(YOKE_EINVAL, "%s: the leading dimension of %s is %lld, less than its %lld columns",
                         op, x->name, (long long)x->ld, (long long)x->columns);
    if (x->stride < 0) return yoke_fail(YOKE_EINVAL, "%s: the stride of %s is negative", op, x->name);
    if (x->ld > (int64_t)1 << 40)
        return yoke_fail(YOKE_EINVAL, "%s: the leading dimension of %s is beyond 2^40", op, x->name);
    if (!pointers || empty(x)) return YOKE_OK;
    if (!x->p) return x->optional ? YOKE_OK : yoke_fail(YOKE_EINVAL, "%s: %s is NULL", op, x->name);
    if ((uintptr_t)x->p % yoke_dtype_bytes(x->dtype))
        return yoke_fail(YOKE_EINVAL, "%s: %s at %p is not aligned to its %s elements", op, x->name, x->p,
                         yoke_dtype_name(x->dtype));
    return YOKE_OK;
}

static uintptr_t end_of(const struct yokei_operand *x)
{
    const int64_t elements = (x->batch - 1) * x->stride + (x->rows - 1) * x->ld + x->columns;
    return (uintptr_t)x->p + (uintptr_t)elements * yoke_dtype_bytes(x->dtype);
}

/*
 * Whether two operands are columns of one matrix side by side, such as the three parts of a fused QKV matrix.
 * They have the same ld, and their rows do not overlap.
 */
static bool interleaved(const struct yokei_operand *a, const struct yokei_operand *b)
{
    const size_t bytes = yoke_dtype_bytes(a->dtype);
    if (a->ld != b->ld || bytes != yoke_dtype_bytes(b->dtype) || a->rows < 2 || a->batch > 1 || b->batch > 1)
        return false;
    const uintptr_t low = YOKE_MIN((uintptr_t)a->p, (uintptr_t)b->p),
                    high = YOKE_MAX((uintptr_t)a->p, (uintptr_t)b->p);
    const struct yokei_operand *first = (uintptr_t)a->p == low ? a : b, *second = first == a ? b : a;
    const uintptr_t row = (uintptr_t)a->ld * bytes, offset = (high - low) % row;
    return offset >= (uintptr_t)first->columns * bytes && offset + (uintptr_t)second->columns * bytes <= row;
}

yoke_status yokei_check_apart(const char *op, const struct yokei_operand *out, const struct yokei_operand *in,
                              bool same_allowed)
{
    if (!out->p || !in->p || empty(out) || empty(in)) return YOKE_OK;
    if ((uintptr_t)out->p >= end_of(in) || (uintptr_t)in->p >= end_of(out)) return YOKE_OK;
    if (same_allowed && out->p == in->p && (out->ld == in->ld || out->rows < 2)
        && yoke_dtype_bytes(out->dtype) == yoke_dtype_bytes(in->dtype))
        return YOKE_OK;
    if (interleaved(out, in)) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: %s and %s overlap%s", op, out->name, in->name,
                     same_allowed ? "; they may only be the same matrix with the same leading dimension"
                                  : "");
}

yoke_status yokei_check_map(const char *op, const struct yokei_operand in[], int n_in,
                            const struct yokei_operand *out, bool pointers)
{
    YOKE_TRY(yokei_check_float(op, "dtype", out->dtype));
    YOKE_TRY(yokei_check_extent(op, "n", out->columns));
    for (int i = 0; i < n_in; i++) YOKE_TRY(yokei_check_operand(op, &in[i], pointers));
    YOKE_TRY(yokei_check_operand(op, out, pointers));
    for (int i = 0; i < n_in && pointers; i++) YOKE_TRY(yokei_check_apart(op, out, &in[i], true));
    return YOKE_OK;
}

yoke_status yokei_check_dropout(const char *op, float p)
{
    if (p >= 0 && p < 1) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: p is %g; the probability to drop an element is expected in [0, 1)", op,
                     (double)p);
}

yoke_status yokei_check_counter(const char *op, const char *field, int64_t start, int64_t n)
{
    if (start >= 0 && start <= ((int64_t)1 << 32) - n) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: %s is %lld; it and the %lld that follow are expected in [0, 2^32)", op,
                     field, (long long)start, (long long)n);
}
