/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of conversions. The result must be the correctly rounded value, bit for bit. 16-bit types are
 * tested with all 65536 patterns. f32 is tested with random patterns (all exponents, NaN, subnormals), and
 * with numbers at and beside the midpoints of two 16-bit numbers, where a wrong rounding shows.
 */
#include "conform/trial.h"

#include <string.h>

struct shape {
    int64_t n;
    yoke_dtype to;
    enum { ALL_PATTERNS, MIDPOINTS } values;
    bool aliased;
};

static const struct shape shapes[] = {
    { 65536, YOKE_F32, ALL_PATTERNS },    { 65536, YOKE_F16, ALL_PATTERNS },
    { 65536, YOKE_BF16, ALL_PATTERNS },   { 65536, YOKE_F16, MIDPOINTS },
    { 65536, YOKE_BF16, MIDPOINTS },      { 1, YOKE_BF16, MIDPOINTS },
    { 17, YOKE_F32, MIDPOINTS },          { 31, YOKE_F16, MIDPOINTS },
    { 1031, YOKE_F32, MIDPOINTS, true },  { 1031, YOKE_F16, MIDPOINTS, true },
    { 1031, YOKE_BF16, MIDPOINTS, true }, { 0, YOKE_BF16, MIDPOINTS },
    { 5003, YOKE_F64, ALL_PATTERNS },
};

enum { X, Y };

static struct shape shape_of(const struct trial *t)
{
    static const yoke_dtype to[] = { YOKE_F32, YOKE_F16, YOKE_BF16 };
    if (t->dims) return (struct shape){ .n = t->dims[0], .to = t->dtype == YOKE_F32 ? YOKE_BF16 : YOKE_F32 };
    struct shape s = { .n = 1 + trial_random(t, "n", 0, 9000),
                       .to = to[t->index % 3],
                       .values = t->index / 3 % 2 };
    if ((size_t)t->index < YOKE_COUNT(shapes)) s = shapes[t->index];
    /* Only the reference backend has f64. */
    if (s.to == YOKE_F64 && !(yoke_device_info(t->device.device)->storage & 1u << YOKE_F64)) s.to = YOKE_F32;
    s.aliased &= yoke_dtype_bytes(s.to) == yoke_dtype_bytes(t->dtype);
    return s;
}

/*
 * Number i: the midpoint above a 16-bit pattern of the target type, or a neighbour of this midpoint in f32.
 */
static double midpoint(yoke_dtype to, int64_t i)
{
    const yoke_dtype type = to == YOKE_F16 ? YOKE_F16 : YOKE_BF16;
    const uint16_t pattern[2] = { (uint16_t)(i * 31337), (uint16_t)(i * 31337 + 1) };
    const double low = yokei_load(type, pattern, 0), high = yokei_load(type, pattern, 1);
    if (!isfinite(low) || !isfinite(high)) return low;
    const float middle = (float)((low + high) / 2);
    return i % 3 == 0 ? middle : nextafterf(middle, i % 3 == 1 ? INFINITY : -INFINITY);
}

static void cast_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    t->flavour = ORDINARY;
    trial_vector(t, X, "x", IN, t->dtype, s.n);
    if (t->timed) trial_fill(t, X, 1);
    for (int64_t i = 0; i < s.n && !t->timed; i++) {
        const uint16_t low = (uint16_t)i, high = (uint16_t)trial_random(t, "pattern", i, 65536);
        const uint32_t pattern = yoke_dtype_bytes(t->dtype) == 2
                                     ? low
                                     : (uint32_t)high << 16 | (uint16_t)(i * 40503);
        if (s.values == MIDPOINTS)
            trial_set(t, X, i, midpoint(s.to, i));
        else if (t->dtype == YOKE_F64)
            trial_set(t, X, i, yokei_bits_f32(pattern) * 0x1.0000004p0);
        else if (t->status == YOKE_OK)
            memcpy(t->tensor[X].before + t->tensor[X].lead_bytes + (size_t)i * yoke_dtype_bytes(t->dtype),
                   &pattern, yoke_dtype_bytes(t->dtype));
    }
    if (s.aliased)
        trial_alias(t, Y, "y", X);
    else
        trial_vector(t, Y, "y", OUT, s.to, s.n);
    t->tensor[Y].dtype = s.to; /* the alias may have another type of the same size */
    t->tensor[Y].strict = true;
    trial_describe(t, "to %s n %d%s%s", yoke_dtype_name(s.to), (int)s.n,
                   s.values == MIDPOINTS ? " midpoints" : "", s.aliased ? " y=x" : "");
}

static yoke_status cast_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(cast, side, cost, .from = side_dtype(side, t->dtype), .to = side_dtype(side, s.to),
                        .n = s.n, .x = trial_at(t, side, X, 0), .y = trial_at(t, side, Y, 0));
}

/* The bound stays 0. The expected value is the oracle's value, rounded once. */
static void cast_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    for (int64_t i = 0; i < s.n; i++) {
        uint64_t element = 0;
        yokei_store(s.to, &element, 0, exact_of(t, X)[i]);
        t->tensor[Y].exact[i] = yokei_load(s.to, &element, 0);
    }
}

const struct conform_row conform_row_cast = CONFORM_ROW(cast, AT_WEIGHTS, CONFORM_FLOATS, shapes,
                                                        conform_elements_sizes, NO_GRADIENTS, cast_setup,
                                                        cast_call, cast_bound);
