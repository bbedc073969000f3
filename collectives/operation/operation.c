/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about an operation, from choice.c and from algorithms. */
#include "collectives/operation/operation.h"
#include "core/base/base.h"

size_t yokei_longest_slice(const struct yokei_op *op)
{
    size_t longest = 0;
    for (int r = 0; r < op->size; r++) longest = YOKE_MAX(longest, op->slices[r + 1] - op->slices[r]);
    return longest;
}

void yokei_no_work(const struct yokei_op *op, struct yokei_lane *lane) { (void)op, (void)lane; }

bool yokei_is_long(const struct yokei_op *op)
{
    return op->count * yoke_dtype_bytes(op->dtype) * (size_t)op->size * 2 > op->cache_bytes;
}

size_t yokei_slice_begin(const uint32_t *before, int n, size_t length, size_t unit, int j)
{
    if (!before) {
        const size_t parts = (size_t)n, pitch = ((length + parts - 1) / parts + unit - 1) / unit * unit;
        return YOKE_MIN((size_t)j * pitch, length);
    }
    const size_t all = before[n], at = length / all * before[j] + length % all * before[j] / all;
    return YOKE_MIN((at + unit - 1) / unit * unit, length);
}

const char *yoke_reduction_name(yoke_reduction op)
{
    static const char *const names[YOKE_N_REDUCTIONS] = { "sum", "avg", "min", "max", "prod" };
    return (unsigned)op < YOKE_N_REDUCTIONS ? names[op] : "?";
}
