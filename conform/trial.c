/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of a case: memory, canaries, and the generators of values. compare.c runs the case and
 * compares.
 */
#include "conform/trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The canary is NaN as f64, f32, f16 and bf16, and a negative number as i32. So an op that reads memory which
 * it must not read gets a NaN.
 */
static const uint16_t canary = 0xfff5;

enum { GUARD_BYTES = 256 };

static void *body(const struct tensor *x, unsigned char *image) { return image + x->lead_bytes; }

void trial_batch(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t batch,
                 int64_t rows, int64_t cols, int64_t ld, int64_t stride)
{
    struct tensor *x = &t->tensor[id];
    *x = (struct tensor){ .present = true,
                          .name = name,
                          .role = role,
                          .dtype = dtype,
                          .batch = batch,
                          .rows = rows,
                          .cols = cols,
                          .ld = ld,
                          .stride = stride,
                          .alias = -1 };
    const size_t element = yoke_dtype_bytes(dtype);
    x->extent = batch && rows && cols ? (batch - 1) * stride + (rows - 1) * ld + cols : 0;
    /* In cases of odd number the tensor begins at an address that is aligned only to the element. */
    x->lead_bytes = GUARD_BYTES + (t->index & 1 ? element : 0);
    x->image_bytes = (x->lead_bytes + (size_t)x->extent * element + GUARD_BYTES + 1) / 2 * 2;
    const size_t n = x->extent ? (size_t)x->extent : 1;
    if (t->dry) return;
    x->before = malloc(x->image_bytes);
    if (!t->timed) {
        x->after = malloc(x->image_bytes);
        x->initial = malloc(n * sizeof(double));
        x->exact = malloc(n * sizeof(double));
        x->bound = calloc(n, sizeof(double));
    }
    if (!x->before || (!t->timed && (!x->after || !x->initial || !x->exact || !x->bound))) {
        t->status = yoke_fail(YOKE_ENOMEM, "conformance: no memory for %s of %zu bytes", name,
                              x->image_bytes);
        x->extent = x->batch = 0;
        return;
    }
    for (size_t i = 0; i < x->image_bytes; i += 2) memcpy(x->before + i, &canary, 2);
}

void trial_matrix(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t rows,
                  int64_t cols, int64_t ld)
{
    trial_batch(t, id, name, role, dtype, 1, rows, cols, ld, 0);
}

void trial_vector(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t n)
{
    trial_batch(t, id, name, role, dtype, 1, 1, n, n, 0);
}

void trial_alias(struct trial *t, int id, const char *name, int of)
{
    const struct tensor *in = &t->tensor[of];
    trial_batch(t, id, name, OUT, in->dtype, in->batch, in->rows, in->cols, in->ld, in->stride);
    t->tensor[id].alias = of;
}

void trial_describe(struct trial *t, const char *format, ...)
{
    static const char *const names[N_FLAVOURS] = { "", " wide", " subnormal", " zeros", " nan", " inf" };
    va_list args;
    va_start(args, format);
    char words[112];
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    yokei_text(t->words, sizeof t->words, "%s%s", words, names[t->flavour]);
}

/* ---- values ---- */

void trial_set(struct trial *t, int id, int64_t element, double value)
{
    struct tensor *x = &t->tensor[id];
    if (element < x->extent && x->before) yokei_store(x->dtype, body(x, x->before), element, value);
}

void trial_set_int(struct trial *t, int id, int64_t element, int32_t value)
{
    struct tensor *x = &t->tensor[id];
    if (element < x->extent && x->before) ((int32_t *)body(x, x->before))[element] = value;
}

double trial_get(const struct trial *t, int id, int64_t element)
{
    const struct tensor *x = &t->tensor[id];
    return x->before ? yokei_load(x->dtype, body(x, x->before), element) : 0;
}

double trial_got(const struct trial *t, int id, int64_t element)
{
    const struct tensor *x = &t->tensor[id], *at = x->alias < 0 ? x : &t->tensor[x->alias];
    return yokei_load(x->dtype, body(at, at->after), element);
}

/*
 * The key has the type, the case and the name of the draw, so that a case does not depend on the cases before
 * it.
 */
static struct yokei_philox_key key_of(const struct trial *t, const char *what)
{
    char name[64];
    yokei_text(name, sizeof name, "%s/%d/%s", yoke_dtype_name(t->dtype), t->index, what);
    return yokei_philox_named(t->seed, name);
}

int64_t trial_random(const struct trial *t, const char *what, int64_t index, int64_t n)
{
    return (int64_t)(yokei_uniform(key_of(t, what), (uint64_t)index) * (double)n);
}

static double least_normal(yoke_dtype dtype) { return dtype == YOKE_F16 ? 0x1p-14 : 0x1p-126; }

/* The value of the n-th element. Each element takes two numbers of the random stream. */
static double draw(struct yokei_philox_key key, uint64_t n, enum flavour flavour, yoke_dtype dtype,
                   double scale, int range)
{
    const double normal = yokei_normal(key, 2 * n), uniform = yokei_uniform(key, 2 * n + 1);
    if (flavour == WIDE) {
        const double low = dtype == YOKE_F16 ? -YOKE_MIN(range, 14) : -range,
                     high = dtype == YOKE_F16 ? YOKE_MIN(range, 14) : range;
        return copysign(exp2(low + uniform * (high - low)), normal);
    }
    if (flavour == SUBNORMAL)
        return uniform < 0.125 ? copysign(0, normal) : copysign(uniform * least_normal(dtype), normal);
    if (flavour == ZEROS && uniform < 0.5) return copysign(0, normal);
    return normal * scale;
}

/* Fill with one block of random numbers, repeated. The speed of an op does not depend on the numbers. */
static void fill_repeating(struct trial *t, int id, double scale)
{
    enum { PERIOD = 4099 };
    struct tensor *x = &t->tensor[id];
    const size_t element = yoke_dtype_bytes(x->dtype), n = (size_t)x->extent;
    unsigned char *first = body(x, x->before);
    for (size_t i = 0; i < YOKE_MIN(n, (size_t)PERIOD); i++)
        trial_set(t, id, (int64_t)i, yokei_normal(key_of(t, x->name), i) * scale);
    for (size_t i = PERIOD; i < n; i += PERIOD)
        memcpy(first + i * element, first, YOKE_MIN(n - i, (size_t)PERIOD) * element);
}

void trial_constant(struct trial *t, int id, double value)
{
    for (int64_t i = 0; i < t->tensor[id].extent && !t->dry; i++) trial_set(t, id, i, value);
}

static void fill(struct trial *t, int id, enum flavour flavour, double scale, int range)
{
    struct tensor *x = &t->tensor[id];
    if (t->timed) {
        if (!t->dry) fill_repeating(t, id, scale);
        return;
    }
    const struct yokei_philox_key key = key_of(t, x->name);
    uint64_t n = 0;
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t r = 0; r < x->rows; r++)
            for (int64_t c = 0; c < x->cols; c++, n++)
                trial_set(t, id, b * x->stride + r * x->ld + c,
                          draw(key, n, flavour, x->dtype, scale, range));
    if (flavour != NANS && flavour != INFS) return;
    const int64_t total = x->batch * x->rows * x->cols, n_special = total ? 1 + total / 211 : 0;
    for (int64_t i = 0; i < n_special; i++) {
        const int64_t at = trial_random(t, "special", i, total);
        const int64_t b = at / (x->rows * x->cols), r = at / x->cols % x->rows, c = at % x->cols;
        trial_set(t, id, b * x->stride + r * x->ld + c,
                  flavour == NANS                 ? NAN
                  : trial_random(t, "sign", i, 2) ? INFINITY
                                                  : -INFINITY);
    }
}

void trial_fill(struct trial *t, int id, double scale) { fill(t, id, ORDINARY, scale, 0); }

void trial_flavoured(struct trial *t, int id, double scale, int range)
{
    fill(t, id, t->flavour, scale, range);
}

void *trial_at(const struct trial *t, const struct side *side, int id, int64_t offset)
{
    const struct tensor *x = &t->tensor[id];
    if (!x->present) return NULL;
    if (side->oracle && x->dtype == YOKE_I32) return (int32_t *)body(x, x->before) + offset;
    if (side->oracle) return x->exact + offset;
    const struct tensor *at = x->alias < 0 ? x : &t->tensor[x->alias];
    return (unsigned char *)at->memory + at->lead_bytes + (size_t)offset * yoke_dtype_bytes(x->dtype);
}

double bound_rounded(yoke_dtype dtype, double wanted, double e)
{
    if (dtype == YOKE_F32 || dtype == YOKE_F64) return e + yokei_underflow(dtype);
    return e + yokei_unit_roundoff(dtype) * (fabs(wanted) + e) + yokei_underflow(dtype);
}
