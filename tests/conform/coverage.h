/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that a conformance sweep has no gap: every op must have exactly one line for every type and every
 * variant of the device.
 */
#ifndef TESTS_CONFORM_COVERAGE_H
#define TESTS_CONFORM_COVERAGE_H

#include "conform/conform.h"
#include "core/backend.h"
#include "core/base/base.h"

#include <string.h>

enum { COVERAGE_VARIANTS = 32 };
_Static_assert(YOKE_N_OPS <= 64, "ops are the bits of a mask");

/* The result of a sweep for each op, type and variant. */
struct coverage {
    struct {
        int n_lines, n_left_out, n_ran; /* n_ran: lines of which at least one case ran */
        bool declined;                  /* `can` declined every case, and the line has a reason */
    } of[YOKE_N_OPS][YOKE_N_DTYPES][COVERAGE_VARIANTS];
};

/*
 * The device's n-th variant of an op. An op without variants has the single variant "". NULL after the last
 * variant.
 */
static inline const char *coverage_variant(const yoke_device *device, const char *op, int n)
{
    const char *name = yoke_variant_name(device, op, n);
    return name || n ? name : "";
}

static inline void coverage_note(struct coverage *c, const yoke_device *device,
                                 const struct conform_line *line)
{
    const char *name;
    for (int op = 0; op < YOKE_N_OPS; op++) {
        if (strcmp(yokei_op_names[op], line->op)) continue;
        for (int v = 0; v < COVERAGE_VARIANTS && (name = coverage_variant(device, line->op, v)); v++) {
            if (strcmp(name, line->variant)) continue;
            c->of[op][line->dtype][v].n_lines++;
            c->of[op][line->dtype][v].n_left_out += line->verdict == CONFORM_LEFT_OUT;
            c->of[op][line->dtype][v].n_ran += line->n_cases > 0;
            c->of[op][line->dtype][v].declined = line->verdict == CONFORM_SKIP && line->n_not_offered > 0
                                                 && line->reason[0];
        }
    }
}

/*
 * Whether an op has a type by its header. Ops have all storage types, but AdamW's weights are f32 only. (f64
 * exists only on the reference backend.)
 */
static inline bool coverage_has_type(int op, yoke_dtype dtype)
{
    return dtype == YOKE_F32 || (op != YOKE_OP_adamw && (dtype == YOKE_F16 || dtype == YOKE_BF16));
}

static inline bool coverage_ran_elsewhere(const struct coverage *c, int op, yoke_dtype dtype, int but)
{
    for (int v = 0; v < COVERAGE_VARIANTS; v++)
        if (v != but && c->of[op][dtype][v].n_ran) return true;
    return false;
}

/*
 * The reason why the line of one op, type and variant is a gap; NULL if it is not a gap. The line is not a
 * gap if it ran, or if the device declined it with a reason. Unless the sweep is `full`, it may also be left
 * out. Then another variant must have run in this type, and this variant must have run in f32. A variant with
 * 64 lanes need not have run in f32 either, because it does the same as the variant with 32 lanes.
 */
static inline const char *coverage_gap(const struct coverage *c, int op, yoke_dtype dtype, int v, bool full)
{
    if (c->of[op][dtype][v].n_lines != 1) return c->of[op][dtype][v].n_lines ? "several lines" : "no line";
    if (c->of[op][dtype][v].n_ran || c->of[op][dtype][v].declined) return NULL;
    if (!c->of[op][dtype][v].n_left_out) return "neither run, nor declined with a reason";
    if (full) return "left out of the full sweep";
    if (!coverage_ran_elsewhere(c, op, dtype, v))
        return "left out, and no other variant was run in this type";
    if (dtype != YOKE_F32 && !c->of[op][YOKE_F32][v].n_ran && !c->of[op][YOKE_F32][v].declined
        && !c->of[op][YOKE_F32][v].n_left_out)
        return "left out, and not run in f32 either";
    return NULL;
}

/* Call `found` for every gap in the ops of `mask` (one bit per op). Returns the number of gaps. */
static inline int coverage_gaps(const struct coverage *c, const yoke_device *device, uint64_t mask, bool full,
                                void (*found)(void *context, const char *text), void *context)
{
    int n = 0;
    const char *name;
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int dtype = 0; dtype < YOKE_N_DTYPES && mask >> op & 1; dtype++)
            for (int v = 0; coverage_has_type(op, (yoke_dtype)dtype)
                            && (name = coverage_variant(device, yokei_op_names[op], v));
                 v++) {
                const char *why = v < COVERAGE_VARIANTS ? coverage_gap(c, op, (yoke_dtype)dtype, v, full)
                                                        : "more variants than this test holds";
                if (!why) continue;
                char text[256];
                yokei_text(text, sizeof text, "%s %s %s on %s: %s", yokei_op_names[op],
                           yoke_dtype_name((yoke_dtype)dtype), name, yoke_device_info(device)->spec, why);
                if (found) found(context, text);
                n++;
            }
    return n;
}

#endif
