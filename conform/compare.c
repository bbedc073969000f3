/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one case on the oracle and on the device, compares the results, checks canaries and inputs, and runs
 * the case again to compare the bits.
 */
#include "conform/trial.h"

#include <stdlib.h>
#include <string.h>

static bool is_result(const struct tensor *x) { return x->present && x->role != IN; }

/* ---- running ---- */

static yoke_status run_oracle(struct trial *t)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        struct tensor *x = &t->tensor[id];
        if (!x->present || x->dtype == YOKE_I32) continue;
        for (int64_t i = 0; i < x->extent; i++) x->initial[i] = x->exact[i] = trial_get(t, id, i);
    }
    struct yoke_cost cost = { .size = sizeof cost };
    YOKE_TRY(t->row->call(t, &t->oracle, &cost));
    YOKE_TRY(yoke_stream_reserve(t->oracle.stream, cost.scratch_bytes));
    YOKE_TRY(t->row->call(t, &t->oracle, NULL));
    return yoke_stream_sync(t->oracle.stream);
}

/* Whether the op alone gives the tensor its values, and no other tensor lies there. */
static bool is_overwritten(const struct trial *t, int id)
{
    const struct tensor *x = &t->tensor[id];
    if (!x->memory || x->role != OUT) return false;
    for (int other = 0; other < CONFORM_MAX_TENSORS; other++)
        if (t->tensor[other].present && t->tensor[other].alias == id) return false;
    return true;
}

/*
 * Tell a device that checks accesses that these results have no values yet. Then a read of one is an error.
 */
static yoke_status forget_results(const struct trial *t)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS && yokei_annotates(t->device.device); id++) {
        const struct tensor *x = &t->tensor[id];
        if (!x->extent || !is_overwritten(t, id)) continue;
        const size_t element = yoke_dtype_bytes(x->dtype);
        const bool is_dense = x->ld == x->cols && x->batch == 1;
        const int64_t rows = is_dense ? 1 : x->rows, cols = is_dense ? x->extent : x->cols;
        for (int64_t row = 0; row < x->batch * rows; row++) {
            const size_t at = (size_t)(row / rows * x->stride + row % rows * x->ld) * element;
            YOKE_TRY(yokei_annotate(t->device.device, t->device.stream,
                                    &(struct yokei_annotation){ (char *)x->memory + x->lead_bytes + at,
                                                                (size_t)cols * element,
                                                                YOKEI_MEMORY_UNDEFINED, NULL, 0 }));
        }
    }
    return YOKE_OK;
}

static yoke_status issue_to_device(struct trial *t)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        const struct tensor *x = &t->tensor[id];
        if (x->memory) YOKE_TRY(yoke_copy_to_device(t->device.stream, x->memory, x->before, x->image_bytes));
    }
    YOKE_TRY(forget_results(t));
    YOKE_TRY(t->row->call(t, &t->device, NULL));
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        const struct tensor *x = &t->tensor[id];
        if (x->memory) YOKE_TRY(yoke_copy_to_host(t->device.stream, x->after, x->memory, x->image_bytes));
    }
    return YOKE_OK;
}

/* Nothing of the run may be active at the end, because its memory is freed next. */
yoke_status trial_run_device(struct trial *t)
{
    char error[4096];
    const yoke_status status = issue_to_device(t);
    if (!status) return yoke_stream_sync(t->device.stream);
    yokei_text(error, sizeof error, "%s", yoke_last_error());
    yoke_stream_sync(t->device.stream);
    return yoke_fail(status, "%s", error);
}

yoke_status trial_allocate(struct trial *t)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        struct tensor *x = &t->tensor[id];
        if (!x->present || x->alias >= 0) continue;
        const yoke_status status = yoke_alloc(t->device.device, x->image_bytes, &x->memory);
        if (status) return yoke_fail_context(status, "tensor %s", x->name);
        YOKE_TRY(yokei_annotate(t->device.device, NULL,
                                &(struct yokei_annotation){ (char *)x->memory + x->lead_bytes,
                                                            (size_t)x->extent * yoke_dtype_bytes(x->dtype),
                                                            YOKEI_MEMORY_AS_IS, x->name, 0 }));
    }
    return YOKE_OK;
}

void trial_release(struct trial *t)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        struct tensor *x = &t->tensor[id];
        yoke_free(t->device.device, x->memory);
        free(x->before);
        free(x->after);
        free(x->initial);
        free(x->exact);
        free(x->bound);
        *x = (struct tensor){ .present = false };
    }
}

/* ---- comparing ---- */

/* The magnitude from which numbers of this type round to infinity. */
static double overflow_threshold(yoke_dtype dtype)
{
    switch (dtype) {
    case YOKE_F16: return 65520;
    case YOKE_BF16: return 0x1p128 * (1 - 0x1p-9);
    case YOKE_F32: return 0x1p128 * (1 - 0x1p-25);
    default: return INFINITY;
    }
}

static double ulp_of(yoke_dtype dtype, double x)
{
    int exponent;
    frexp(x, &exponent);
    return fmax(ldexp(2 * yokei_unit_roundoff(dtype), exponent - 1), 2 * yokei_underflow(dtype));
}

/* |got - wanted| / bound; infinity if no rounding explains the difference. */
static double ratio_of(const struct tensor *x, double got, double wanted, double bound)
{
    if (bound == BOUND_ANY) return 0;
    if (bound == BOUND_NOT_FINITE) return isfinite(got) ? INFINITY : 0;
    if (isnan(wanted)) return isnan(got) ? 0 : INFINITY;
    if (isinf(wanted)) return got == wanted ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (isinf(got)) { /* overflow: right if the value, or a value within its bound, rounds to infinity */
        const double threshold = overflow_threshold(x->dtype);
        if ((got > 0) != (wanted > 0) || fabs(wanted) + bound < threshold) return INFINITY;
        return fabs(wanted) < threshold ? 1 : 0;
    }
    if (x->strict && signbit(got) != signbit(wanted)) return INFINITY;
    const double error = fabs(got - wanted);
    if (error == 0) return 0;
    return isnan(bound) ? INFINITY : error / bound; /* a bound of 0 requires the exact value */
}

static bool quiet(const struct tensor *x, const void *elements, int64_t i)
{
    switch (x->dtype) {
    case YOKE_F16: return ((const uint16_t *)elements)[i] & 0x0200;
    case YOKE_BF16: return ((const uint16_t *)elements)[i] & 0x0040;
    default: return true;
    }
}

/*
 * The distance in ulp is in units of the element, or of its tensor's root mean square if that is greater.
 * Otherwise an element that is small because of cancellation would count as very far off.
 */
static double root_mean_square(const struct tensor *x)
{
    double sum = 0, n = 0;
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t r = 0; r < x->rows; r++)
            for (int64_t c = 0; c < x->cols; c++) {
                const double value = x->exact[b * x->stride + r * x->ld + c];
                if (!isfinite(value)) continue;
                sum += value * value;
                n++;
            }
    return n > 0 && isfinite(sum) ? sqrt(sum / n) : 0;
}

static void compare_element(const struct trial *t, int id, int64_t b, int64_t r, int64_t c, double size,
                            struct finding *f)
{
    const struct tensor *x = &t->tensor[id];
    const int64_t at = b * x->stride + r * x->ld + c;
    const double got = trial_got(t, id, at), wanted = x->exact[at], bound = x->bound[at];
    double ratio = ratio_of(x, got, wanted, bound);
    const struct tensor *memory = x->alias < 0 ? x : &t->tensor[x->alias];
    if (x->strict && isnan(got) && !quiet(x, memory->after + memory->lead_bytes, at)) ratio = INFINITY;
    if (isfinite(got) && isfinite(wanted) && bound >= 0)
        f->ulp = fmax(f->ulp, fabs(got - wanted) / ulp_of(x->dtype, fmax(fabs(wanted), size)));
    if (f->output && !(ratio > f->ratio)) return;
    *f = (struct finding){ .ratio = ratio,
                           .ulp = f->ulp,
                           .output = x->name,
                           .index = { b, r, c },
                           .got = got,
                           .wanted = wanted,
                           .bound = bound,
                           .has_element = true };
}

static void compare(const struct trial *t, struct finding *f)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        const struct tensor *x = &t->tensor[id];
        if (!is_result(x)) continue;
        const double size = root_mean_square(x);
        for (int64_t b = 0; b < x->batch; b++)
            for (int64_t r = 0; r < x->rows; r++)
                for (int64_t c = 0; c < x->cols; c++) compare_element(t, id, b, r, c, size, f);
    }
    if (f->ratio > 1) yokei_text(f->reason, sizeof f->reason, "%s is outside its bound", f->output);
}

/* The tensor that may be written at the address of x, or NULL. */
static const struct tensor *writer_of(const struct trial *t, int id)
{
    if (t->tensor[id].role != IN) return &t->tensor[id];
    for (int other = 0; other < CONFORM_MAX_TENSORS; other++)
        if (is_result(&t->tensor[other]) && t->tensor[other].alias == id) return &t->tensor[other];
    return NULL;
}

bool tensor_has(const struct tensor *x, int64_t element)
{
    if (element < 0 || element >= x->extent) return false;
    /* Results never overlap, because the stride is at least one matrix. */
    const int64_t in_batch = x->stride ? element % x->stride : element;
    return in_batch / x->ld < x->rows && in_batch % x->ld < x->cols;
}

/* Check that all bytes outside the results are unchanged. */
static void check_untouched(const struct trial *t, struct finding *f)
{
    for (int id = 0; id < CONFORM_MAX_TENSORS && !f->reason[0]; id++) {
        const struct tensor *x = &t->tensor[id];
        if (!x->present || x->alias >= 0 || !memcmp(x->before, x->after, x->image_bytes)) continue;
        const struct tensor *writer = writer_of(t, id);
        const int64_t bytes = (int64_t)yoke_dtype_bytes(x->dtype);
        for (size_t i = 0; i < x->image_bytes; i++) {
            if (x->before[i] == x->after[i]) continue;
            const int64_t offset = (int64_t)i - (int64_t)x->lead_bytes;
            const int64_t element = offset >= 0 ? offset / bytes : -1 - (-1 - offset) / bytes;
            if (writer && tensor_has(writer, element)) continue;
            *f = (struct finding){ .ratio = INFINITY, .ulp = f->ulp, .output = x->name, .reason = "" };
            yokei_text(f->reason, sizeof f->reason, "%s: element %lld, outside the result, was overwritten%s",
                       x->name, (long long)element, writer ? "" : " (an input)");
            break;
        }
    }
}

/*
 * Report the first element in which two copies of a tensor's memory differ. `got` is the second run's value,
 * `wanted` the first run's.
 */
static void name_changed_element(const struct trial *t, int id, const unsigned char *first, struct finding *f)
{
    const struct tensor *x = writer_of(t, id), *at = &t->tensor[id];
    *f = (struct finding){ .ratio = INFINITY, .ulp = f->ulp, .output = at->name, .reason = "" };
    yokei_text(f->reason, sizeof f->reason,
               "%s: a second run gave other bits (got: the second run's, wanted: the first's)",
               x ? x->name : at->name);
    for (int64_t i = 0; x && i < x->extent; i++) {
        const int64_t element_bytes = (int64_t)yoke_dtype_bytes(x->dtype),
                      offset = (int64_t)at->lead_bytes + i * element_bytes;
        if (!tensor_has(x, i) || !memcmp(first + offset, at->after + offset, (size_t)element_bytes)) continue;
        const int64_t in_batch = x->stride ? i % x->stride : i;
        f->output = x->name;
        f->has_element = true;
        f->index[0] = x->stride ? i / x->stride : 0, f->index[1] = in_batch / x->ld,
        f->index[2] = in_batch % x->ld;
        f->got = yokei_load(x->dtype, at->after + at->lead_bytes, i);
        f->wanted = yokei_load(x->dtype, first + at->lead_bytes, i);
        return;
    }
}

/* Run again. The copies of the second run replace those of the first, and must be equal to them. */
static yoke_status check_repeatable(struct trial *t, struct finding *f)
{
    unsigned char *first[CONFORM_MAX_TENSORS] = { NULL };
    yoke_status status = YOKE_OK;
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        struct tensor *x = &t->tensor[id];
        if (!x->memory) continue;
        first[id] = malloc(x->image_bytes);
        if (!first[id]) {
            status = yoke_fail(YOKE_ENOMEM, "conformance: no memory for %zu bytes", x->image_bytes);
            goto free_images;
        }
        memcpy(first[id], x->after, x->image_bytes);
    }
    YOKE_TRY_GOTO(trial_run_device(t), free_images);
    for (int id = 0; id < CONFORM_MAX_TENSORS && !f->reason[0]; id++) {
        const struct tensor *x = &t->tensor[id];
        if (!x->memory || !memcmp(first[id], x->after, x->image_bytes)) continue;
        name_changed_element(t, id, first[id], f);
    }
free_images:
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) free(first[id]);
    return status;
}

yoke_status trial_begin(struct trial *t)
{
    struct yoke_cost cost = { .size = sizeof cost };
    t->status = YOKE_OK;
    t->row->setup(t);
    YOKE_TRY(t->status);
    YOKE_TRY(trial_allocate(t));
    YOKE_TRY(t->row->call(t, &t->device, &cost));
    return yoke_stream_reserve(t->device.stream, cost.scratch_bytes);
}

yoke_status trial_run(struct trial *t, struct finding *out)
{
    struct finding f = { .ratio = 0 };
    yoke_status status;
    YOKE_TRY_GOTO(trial_begin(t), release_tensors);
    YOKE_TRY_GOTO(run_oracle(t), release_tensors);
    YOKE_TRY_GOTO(trial_run_device(t), release_tensors);
    t->row->bound(t);
    compare(t, &f);
    check_untouched(t, &f);
    YOKE_TRY_GOTO(check_repeatable(t, &f), release_tensors);
    *out = f;
release_tensors:
    trial_release(t);
    return status;
}
