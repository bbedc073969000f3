/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a step, layer by layer: see facts.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer/facts.h"

/*
 * A parameter is sampled in so many runs of so many elements, which are spread evenly over this rank's slice.
 * A slice with no more elements is sampled as a whole.
 */
enum { RUNS = 8, RUN = 256 };
/*
 * Outputs that the host does not see are copied in pieces of so many elements. A sampled step copies at most
 * so many outputs of a layer, because a fast device would wait too long for more. A step that is traced back
 * copies all of them.
 */
enum { OUTPUTS = 1 << 18, MOST_OUTPUTS = 1 << 20 };

/* ---- creation ---- */

static int64_t own_count(const struct yokei_slot *slot)
{
    return yokei_is_empty(slot->own) ? 0 : slot->own.end - slot->own.begin;
}

static void add_piece(struct yokei_step_facts *f, int parameter, size_t offset, int64_t n, size_t *at,
                      size_t wide)
{
    f->piece[f->n_pieces++] = (struct yokei_step_facts_piece){ parameter, offset, *at, n };
    *at += (size_t)n * wide;
}

/* Choose the samples of a parameter that this rank counts. Its masters, or its weights, have this type. */
static void choose(const struct yoke_trainer *t, struct yokei_step_facts *f, int i, size_t *at)
{
    const struct yokei_slot *slot = &t->plan.state.slot[i];
    const size_t wide = yoke_dtype_bytes(t->plan.state.wide);
    const int64_t n = own_count(slot);
    const size_t first = slot->master + (size_t)(slot->own.begin - slot->kept.begin) * wide;
    f->factor[i] = 1;
    if (!t->plan.counted[i] || !n) return;
    if (n <= RUNS * RUN) {
        add_piece(f, i, first, n, at, wide);
        return;
    }
    for (int k = 0; k < RUNS; k++)
        add_piece(f, i, first + (size_t)((n - RUN) / (RUNS - 1) * k) * wide, RUN, at, wide);
    f->factor[i] = (double)n / (RUNS * RUN);
}

yoke_status yokei_step_facts_create(yoke_trainer *t)
{
    const struct yokei_state *s = &t->plan.state;
    struct yokei_step_facts *f = calloc(1, sizeof *f);
    size_t bytes = 0;
    t->facts = f;
    if (f) {
        f->layer = calloc((size_t)t->model->n_layers + 1, sizeof *f->layer);
        f->piece = calloc((size_t)s->n * RUNS + 1, sizeof *f->piece);
        f->factor = calloc((size_t)s->n + 1, sizeof *f->factor);
        f->outputs = malloc(OUTPUTS * yoke_dtype_bytes(s->wide));
    }
    if (f && f->piece && f->factor) {
        for (int i = 0; i < s->n; i++) choose(t, f, i, &bytes);
        f->before = malloc(bytes + 1);
        f->after = malloc(bytes + 1);
    }
    if (!f || !f->layer || !f->piece || !f->factor || !f->outputs || !f->before || !f->after) {
        yokei_step_facts_free(t);
        return yoke_fail(YOKE_ENOMEM, "facts of a step: no host memory");
    }
    yokei_step_facts_begin(t, false);
    return YOKE_OK;
}

void yokei_step_facts_free(yoke_trainer *t)
{
    if (!t || !t->facts) return;
    struct yokei_step_facts *f = t->facts;
    free(f->layer);
    free(f->piece);
    free(f->factor);
    free(f->outputs);
    free(f->before);
    free(f->after);
    free(f);
    t->facts = NULL;
}

void yokei_step_facts_begin(yoke_trainer *t, bool samples)
{
    struct yokei_step_facts *f = t->facts;
    for (int l = 0; l < t->model->n_layers; l++)
        f->layer[l] = (struct yokei_layer_facts){ .update_squares = NAN,
                                                  .weight_squares = NAN,
                                                  .largest = NAN };
    f->samples = samples;
    f->n_bad = f->own_bad = 0;
    f->bad_tensor = f->own_bad_tensor = f->bad_layer = f->bad_micro_batch = -1;
    f->is_traced = false;
    f->worst_sequence = -1;
    f->worst_loss = NAN;
}

/* ---- losses ---- */

void yokei_step_facts_loss(yoke_trainer *t, int64_t sequence, double sum, int64_t tokens)
{
    struct yokei_step_facts *f = t->facts;
    const double loss = sum / (double)tokens;
    if (f->worst_sequence >= 0 && !(loss > f->worst_loss) && !(isnan(loss) && !isnan(f->worst_loss))) return;
    f->worst_sequence = sequence;
    f->worst_loss = loss;
}

/* ---- gradients ---- */

void yokei_step_facts_gradient(yoke_trainer *t, int parameter, double squares, double n_bad)
{
    struct yokei_step_facts *f = t->facts;
    const int *layer_of = t->plan.parameters.first_layer, layer = layer_of[parameter];
    if (t->plan.counted[parameter]) f->layer[layer].squares += squares;
    if (!(n_bad > 0)) return;
    f->layer[layer].n_bad += (int64_t)n_bad;
    f->n_bad += (int64_t)n_bad;
    /* the backward pass goes from the last layer to the first, and within a layer in the same direction */
    if (f->bad_tensor < 0 || layer >= layer_of[f->bad_tensor]) f->bad_tensor = parameter;
}

/* ---- outputs ---- */

/*
 * The bits of a number without its sign are in the order of the absolute values. From the bits of infinity on
 * the number is not finite.
 */
#define SCAN(type, infinity)                                               \
    do {                                                                   \
        const type *bits = values;                                         \
        type most = 0;                                                     \
        for (int64_t i = 0; i < n; i++) {                                  \
            const type absolute = (type)(bits[i] & (type)((type)-1 >> 1)); \
            const bool is_finite = absolute < (infinity);                  \
            bad += !is_finite;                                             \
            most = is_finite && absolute > most ? absolute : most;         \
        }                                                                  \
        memcpy(number, &most, sizeof most);                                \
    } while (0)

void yokei_step_facts_scan(yoke_dtype dtype, const void *values, int64_t n, float *largest, int64_t *n_bad)
{
    char number[sizeof(double)] = { 0 };
    int64_t bad = 0;
    switch (dtype) {
    case YOKE_F32: SCAN(uint32_t, UINT32_C(0x7f800000)); break;
    case YOKE_F16: SCAN(uint16_t, 0x7c00); break;
    case YOKE_BF16: SCAN(uint16_t, 0x7f80); break;
    default: SCAN(uint64_t, UINT64_C(0x7ff0000000000000)); break;
    }
    *largest = fmaxf(*largest, (float)yokei_load(dtype, number, 0));
    *n_bad += bad;
}

/* Scan elements first to first + n of an output, without the elements between two rows. */
static void scan_rows(yoke_dtype dtype, const void *values, int64_t first, int64_t n, int64_t columns,
                      int64_t ld, struct yokei_layer_facts *l)
{
    if (columns == ld) columns = ld = first + n; /* there is nothing between two rows */
    for (int64_t at = first; at < first + n;) {
        const int64_t column = at % ld, to_next = ld - column, end = YOKE_MIN(first + n, at + to_next);
        const int64_t some = YOKE_MIN(end - at, columns - column);
        if (some > 0)
            yokei_step_facts_scan(dtype,
                                  (const char *)values + (size_t)(at - first) * yoke_dtype_bytes(dtype), some,
                                  &l->largest, &l->outputs_bad);
        at = end;
    }
}

yoke_status yokei_step_facts_output(void *context, const struct yokei_instruction *i,
                                    const struct yoke_layer_call *call)
{
    yoke_trainer *t = context;
    struct yokei_step_facts *f = t->facts;
    struct yokei_layer_facts *l = &f->layer[i->layer];
    const yoke_dtype dtype = call->shape->dtype;
    const int64_t bad_before = l->outputs_bad;
    int64_t rows, columns, ld;
    yoke_layer_output(yoke_model_layer(t->model, i->layer), call->shape, &rows, &columns, &ld);
    const void *seen = yoke_host_ptr(t->device, call->y);
    const int64_t all = rows * ld,
                  n = seen || f->is_traced ? all : YOKE_MIN(all, MOST_OUTPUTS - l->n_outputs);
    l->n_outputs += n;
    if (seen) {
        YOKE_TRY(yoke_stream_sync(call->stream));
        scan_rows(dtype, seen, 0, n, columns, ld, l);
    }
    for (int64_t at = 0; at < n && !seen; at += OUTPUTS) {
        const int64_t some = YOKE_MIN(n - at, (int64_t)OUTPUTS);
        const size_t bytes = yoke_dtype_bytes(dtype);
        YOKE_TRY(yoke_copy_to_host(call->stream, f->outputs, (const char *)call->y + (size_t)at * bytes,
                                   (size_t)some * bytes));
        YOKE_TRY(yoke_stream_sync(call->stream));
        scan_rows(dtype, f->outputs, at, some, columns, ld, l);
    }
    if (l->outputs_bad > bad_before && (f->bad_layer < 0 || i->layer < f->bad_layer)) {
        f->bad_layer = i->layer;
        f->bad_micro_batch = i->micro_batch;
    }
    return YOKE_OK;
}

/* ---- updates ---- */

static yoke_status copy_samples(const struct yoke_trainer *t, void *to)
{
    const struct yokei_step_facts *f = t->facts;
    const size_t wide = yoke_dtype_bytes(t->plan.state.wide);
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    for (int k = 0; k < f->n_pieces; k++)
        YOKE_TRY(yoke_copy_to_host(stream, (char *)to + f->piece[k].at, yoke_at(t->base, f->piece[k].offset),
                                   (size_t)f->piece[k].n * wide));
    return yoke_stream_sync(stream);
}

yoke_status yokei_step_facts_before_update(yoke_trainer *t) { return copy_samples(t, t->facts->before); }

yoke_status yokei_step_facts_after_update(yoke_trainer *t)
{
    const yoke_dtype wide = t->plan.state.wide;
    struct yokei_step_facts *f = t->facts;
    YOKE_TRY(copy_samples(t, f->after));
    for (int k = 0; k < f->n_pieces; k++) {
        const struct yokei_step_facts_piece *p = &f->piece[k];
        struct yokei_layer_facts *l = &f->layer[t->plan.parameters.first_layer[p->parameter]];
        double changes = 0, weights = 0;
        for (int64_t i = 0; i < p->n; i++) {
            const double w = yokei_load(wide, (const char *)f->before + p->at, i),
                         change = yokei_load(wide, (const char *)f->after + p->at, i) - w;
            changes += change * change;
            weights += w * w;
        }
        l->update_squares = (isnan(l->update_squares) ? 0 : l->update_squares)
                            + f->factor[p->parameter] * changes;
        l->weight_squares = (isnan(l->weight_squares) ? 0 : l->weight_squares)
                            + f->factor[p->parameter] * weights;
    }
    return YOKE_OK;
}
