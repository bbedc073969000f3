/* SPDX-License-Identifier: Apache-2.0 */
/* Compare two checkpoints: the tensors by their bits, the runs by their manifests. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/busy.h"
#include "train/checkpoint/checkpoint.h"

/* Whether the manifest has a tensor of that name. */
static bool is_in(const struct yokei_manifest *m, const char *name)
{
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return true;
    return false;
}

/* A number that is not finite is infinitely far from all numbers with other bits. */
static void compare_piece(const float *a, const float *b, int64_t first, int64_t n,
                          struct yokei_tensor_difference *d)
{
    for (int64_t i = 0; i < n; i++) {
        if (yokei_f32_bits(a[i]) == yokei_f32_bits(b[i])) continue;
        d->n_different++;
        const double x = a[i], y = b[i];
        const bool finite = isfinite(x) && isfinite(y);
        const double far = finite ? fabs(x - y) : INFINITY, most = fmax(fabs(x), fabs(y));
        if (far > d->largest || d->n_different == 1) d->largest = far, d->at = first + i;
        d->relative = fmax(d->relative, !finite ? INFINITY : most > 0 ? far / most : 0);
    }
}

static yoke_status compare_tensor(const struct yokei_tensor *a, const struct yokei_tensor *b, float *pieces,
                                  struct yokei_tensor_difference *d)
{
    const int64_t count = (int64_t)(a->bytes / sizeof(float));
    bool same = a->n_dims == b->n_dims;
    for (int k = 0; same && k < a->n_dims; k++) same = a->shape[k] == b->shape[k];
    if (!same) {
        d->problem = "the shapes differ";
        return YOKE_OK;
    }
    for (int64_t first = 0; first < count; first += YOKEI_PIECE) {
        const int64_t n = YOKE_MIN(count - first, (int64_t)YOKEI_PIECE);
        YOKE_TRY(yokei_tensor_piece(a, first, n, YOKE_F32, pieces));
        YOKE_TRY(yokei_tensor_piece(b, first, n, YOKE_F32, pieces + YOKEI_PIECE));
        compare_piece(pieces, pieces + YOKEI_PIECE, first, n, d);
    }
    return YOKE_OK;
}

yoke_status yokei_checkpoint_compare(const struct yokei_checkpoint *a, const struct yokei_checkpoint *b,
                                     void *context,
                                     void (*visit)(void *context,
                                                   const struct yokei_tensor_difference *difference))
{
    const struct yokei_manifest *m = &a->manifest, *o = &b->manifest;
    float *pieces = malloc(2 * YOKEI_PIECE * sizeof *pieces);
    if (!pieces) return yoke_fail(YOKE_ENOMEM, "comparing checkpoints: no host memory");
    yoke_status status = YOKE_OK;
    yokei_busy_begin("comparing the tensors");
    for (int64_t i = 0; i < m->n_tensors + o->n_tensors && !status; i++) {
        yokei_busy_at((double)i, (double)(m->n_tensors + o->n_tensors));
        const char *name = i < m->n_tensors ? m->tensors[i].name : o->tensors[i - m->n_tensors].name;
        struct yokei_tensor_difference d = { .problem = NULL };
        if (i >= m->n_tensors && is_in(m, name)) continue;
        yokei_text(d.name, sizeof d.name, "%s", name);
        const struct yokei_tensor *x = yokei_checkpoint_tensor(a, name, YOKE_TENSOR_WEIGHT),
                                  *y = yokei_checkpoint_tensor(b, name, YOKE_TENSOR_WEIGHT);
        if (!x || !y)
            d.problem = x ? "only in the first" : "only in the second";
        else
            status = compare_tensor(x, y, pieces, &d);
        if (!status) visit(context, &d);
    }
    yokei_busy_end();
    free(pieces);
    return status;
}

struct differences {
    char *text;
    size_t bytes;
    bool any;
};

static void differ(struct differences *d, bool differs, const char *format, ...) YOKE_PRINTF(3, 4);
static void differ(struct differences *d, bool differs, const char *format, ...)
{
    va_list args;
    size_t used = strlen(d->text);
    if (!differs) return;
    d->any = true;
    if (used && used + 1 < d->bytes) yokei_text(d->text + used, d->bytes - used, "\n");
    used = strlen(d->text);
    va_start(args, format);
    vsnprintf(d->text + used, d->bytes - used, format, args);
    va_end(args);
}

bool yokei_manifest_differs(const struct yokei_manifest *a, const struct yokei_manifest *b, char *text,
                            size_t bytes)
{
    struct differences d = { text, bytes, false };
    const struct yokei_plan *p = &a->plan, *q = &b->plan;
    char first[256], second[256];
    *text = 0;
#define WHOLE(key, x, y) differ(&d, (x) != (y), "%s: %lld, %lld", key, (long long)(x), (long long)(y))
#define REAL(key, x, y) differ(&d, (x) != (y), "%s: %.17g, %.17g", key, (double)(x), (double)(y))
#define TEXT(key, x, y) differ(&d, strcmp(x, y) != 0, "%s: %s, %s", key, x, y)
    WHOLE("step", a->step, b->step);
    WHOLE("optimizer_step", a->optimizer_step, b->optimizer_step);
    WHOLE("tokens", a->tokens, b->tokens);
    WHOLE("data_next_sample", a->data_next_sample, b->data_next_sample);
    WHOLE("seed", a->seed, b->seed);
    REAL("loss_scale", a->loss_scale, b->loss_scale);
    WHOLE("good_steps", a->good_steps, b->good_steps);
    WHOLE("skipped_steps", a->skipped_steps, b->skipped_steps);
    yokei_model_describe(yokei_plan_model(p), first, sizeof first);
    yokei_model_describe(yokei_plan_model(q), second, sizeof second);
    TEXT("plan.model", first, second);
    TEXT("plan.precision", p->precision, q->precision);
    TEXT("plan.data_hash", p->data_hash, q->data_hash);
    WHOLE("plan.batch", p->batch, q->batch);
    WHOLE("plan.sequence", p->sequence, q->sequence);
    REAL("plan.learning_rate", p->learning_rate, q->learning_rate);
    REAL("plan.min_learning_rate", p->min_learning_rate, q->min_learning_rate);
    REAL("plan.weight_decay", p->weight_decay, q->weight_decay);
    REAL("plan.beta1", p->beta1, q->beta1);
    REAL("plan.beta2", p->beta2, q->beta2);
    REAL("plan.clip", p->clip, q->clip);
    WHOLE("plan.warmup", p->warmup, q->warmup);
    WHOLE("plan.steps", p->steps, q->steps);
    REAL("plan.budget_seconds", p->budget_seconds, q->budget_seconds);
#undef WHOLE
#undef REAL
#undef TEXT
    return d.any;
}
