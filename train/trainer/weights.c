/* SPDX-License-Identifier: Apache-2.0 */
/* Copy weights, gradients and moments into and out of a trainer, as f32 in host memory. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "core/base/busy.h"
#include "train/trainer/trainer.h"

/* Find the elements that this rank keeps, and the offset of the first of them. */
static yoke_status find(const yoke_trainer *t, enum yoke_tensor_kind kind, int index,
                        struct yoke_range *here_out, size_t *offset_out)
{
    if (!t || index < 0 || index >= t->plan.state.n)
        return yoke_fail(YOKE_EINVAL, "trainer: there is no parameter %d", index);
    if ((int)kind < YOKE_TENSOR_WEIGHT || kind > YOKE_TENSOR_MOMENT2)
        return yoke_fail(YOKE_EINVAL, "trainer: there is no kind of tensor %d", (int)kind);
    *here_out = yokei_slot_range(&t->plan.state, index, kind, offset_out);
    return YOKE_OK;
}

int yoke_trainer_n_parameters(const yoke_trainer *t) { return t ? t->plan.parameters.n : 0; }

const struct yoke_parameter *yoke_trainer_parameter(const yoke_trainer *t, int index)
{
    return t && index >= 0 && index < t->plan.parameters.n ? &t->plan.parameters.item[index] : NULL;
}

static yoke_status check_piece(const yoke_trainer *t, int index, int64_t first, int64_t n)
{
    if (first < 0 || n < 0 || first > t->plan.state.slot[index].n - n)
        return yoke_fail(YOKE_EINVAL, "trainer: parameter %d has no elements %lld to %lld", index,
                         (long long)first, (long long)(first + n));
    return YOKE_OK;
}

/* Copy n values of a type from an offset to the host, divided by `scale`. */
static yoke_status fetch(yoke_trainer *t, size_t offset, yoke_dtype dtype, int64_t n, double scale,
                         float *out)
{
    size_t width = yoke_dtype_bytes(dtype);
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    void *values = dtype == YOKE_F32 ? out : malloc((size_t)n * width + 1);
    if (!values) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory");
    yoke_status status = yoke_copy_to_host(stream, values, yoke_at(t->base, offset), (size_t)n * width);
    if (!status) status = yoke_stream_sync(stream);
    if (dtype != YOKE_F32 || scale != 1.0)
        for (int64_t i = 0; i < n && !status; i++) out[i] = (float)(yokei_load(dtype, values, i) / scale);
    if (values != out) free(values);
    return status;
}

yoke_status yokei_trainer_get_piece(yoke_trainer *t, enum yoke_tensor_kind kind, int index, int64_t first,
                                    int64_t n, float *out)
{
    static const char *const names[] = { "weights", "gradients", "first moments", "second moments" };
    struct yoke_range here = { 0, 0 };
    size_t offset = 0;
    YOKE_TRY(find(t, kind, index, &here, &offset));
    YOKE_TRY(check_piece(t, index, first, n));
    if (n && (first < here.begin || first + n > here.end))
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "the %s of parameter %s: replica %d keeps elements %lld to %lld of %lld only (zero 1); call "
            "yoke_trainer_get_whole, on all ranks",
            names[kind], t->plan.parameters.item[index].name, t->plan.mesh.d, (long long)here.begin,
            (long long)here.end, (long long)t->plan.state.slot[index].n);
    const double scale = kind == YOKE_TENSOR_GRADIENT && t->gradient_scale > 0 ? t->gradient_scale : 1.0;
    return fetch(t, offset + (size_t)(first - here.begin) * yoke_dtype_bytes(t->plan.state.wide),
                 t->plan.state.wide, n, scale, out);
}

yoke_status yokei_trainer_get_working(yoke_trainer *t, int index, float *out)
{
    const struct yokei_slot *slot = &t->plan.state.slot[index];
    return fetch(t, slot->weight, yokei_weight_dtype(&t->plan.state, slot->has_copy), slot->n, 1.0, out);
}

yoke_status yoke_trainer_get(yoke_trainer *t, enum yoke_tensor_kind kind, int index, float *out)
{
    struct yoke_range here = { 0, 0 };
    size_t offset = 0;
    YOKE_TRY(find(t, kind, index, &here, &offset));
    YOKE_TRY(yokei_trainer_check("yoke_trainer_get", t));
    return yokei_trainer_get_piece(t, kind, index, 0, t->plan.state.slot[index].n, out);
}

static yoke_status put(yoke_trainer *t, size_t offset, yoke_dtype dtype, const float *values, int64_t n,
                       void *scratch)
{
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    yoke_convert(YOKE_F32, values, dtype, scratch, (size_t)n);
    YOKE_TRY(
        yoke_copy_to_device(stream, yoke_at(t->base, offset), scratch, (size_t)n * yoke_dtype_bytes(dtype)));
    return yoke_stream_sync(stream);
}

yoke_status yokei_trainer_set_piece(yoke_trainer *t, enum yoke_tensor_kind kind, int index, int64_t first,
                                    int64_t n, const float *values)
{
    struct yoke_range here = { 0, 0 };
    size_t offset = 0;
    YOKE_TRY(find(t, kind, index, &here, &offset));
    YOKE_TRY(check_piece(t, index, first, n));
    const struct yokei_state *s = &t->plan.state;
    const struct yokei_slot *slot = &s->slot[index];
    const int64_t begin = YOKE_MAX(first, here.begin), end = YOKE_MIN(first + n, here.end);
    void *scratch = malloc((size_t)n * yoke_dtype_bytes(s->wide) + 1);
    if (!scratch) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory");
    yoke_status status = YOKE_OK;
    if (begin < end)
        status = put(t, offset + (size_t)(begin - here.begin) * yoke_dtype_bytes(s->wide), s->wide,
                     values + (begin - first), end - begin, scratch);
    if (!status && kind == YOKE_TENSOR_WEIGHT && slot->has_copy)
        status = put(t, slot->weight + (size_t)first * yoke_dtype_bytes(s->dtype), s->dtype, values, n,
                     scratch);
    free(scratch);
    return status;
}

yoke_status yoke_trainer_set(yoke_trainer *t, enum yoke_tensor_kind kind, int index, const float *values)
{
    struct yoke_range here = { 0, 0 };
    size_t offset = 0;
    YOKE_TRY(find(t, kind, index, &here, &offset));
    YOKE_TRY(yokei_trainer_check("yoke_trainer_set", t));
    return yokei_trainer_set_piece(t, kind, index, 0, t->plan.state.slot[index].n, values);
}

/* Set the state to 0. The red zones between its arrays may not be touched. */
static yoke_status clear(struct yoke_trainer *t)
{
    const struct yokei_state *s = &t->plan.state;
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    struct yokei_array array;
    if (!s->red_zone) return yoke_fill(stream, t->base, 0, s->bytes);
    for (int i = 0; yokei_state_array(s, i, &array); i++)
        YOKE_TRY(yoke_fill(stream, yoke_at(t->base, array.offset), 0, array.bytes));
    return YOKE_OK;
}

yoke_status yoke_trainer_draw(yoke_trainer *t, uint64_t seed)
{
    if (!t) return yoke_fail(YOKE_EINVAL, "yoke_trainer_draw: trainer is null");
    YOKE_TRY(yokei_trainer_check("yoke_trainer_draw", t));
    const struct yokei_state *s = &t->plan.state;
    enum { PIECE = 64 << 10 }; /* elements; a whole embedding would take host memory that was not planned */
    float *values = malloc(PIECE * sizeof *values);
    if (!values) return yoke_fail(YOKE_ENOMEM, "yoke_trainer_draw: no host memory");
    yokei_busy_begin("drawing the weights");
    yoke_status status = clear(t);
    double done = 0, all = 0;
    for (int i = 0; i < s->n; i++) all += (double)s->slot[i].n;
    for (int i = 0; i < s->n; i++)
        for (int64_t first = 0; first < s->slot[i].n && !status; first += PIECE) {
            const int64_t n = YOKE_MIN((int64_t)PIECE, s->slot[i].n - first);
            yokei_parameter_draw_piece(&t->plan.parameters.item[i], seed, first, n, values);
            status = yokei_trainer_set_piece(t, YOKE_TENSOR_WEIGHT, i, first, n, values);
            yokei_busy_at(done += (double)n, all);
        }
    yokei_busy_end();
    free(values);
    YOKE_TRY(status);
    t->config.seed = seed;
    t->step = t->optimizer_step = 0;
    t->gradient_scale = 0;
    t->ready = false;
    yokei_loss_scale_init(&t->loss_scale, t->config.precision, t->config.loss_scale,
                          t->config.scale_interval);
    return YOKE_OK;
}

void yokei_trainer_restore(yoke_trainer *t, int64_t step, int64_t optimizer_step, double scale,
                           int64_t good_steps, int skipped)
{
    t->step = step;
    t->optimizer_step = optimizer_step;
    t->gradient_scale = 0;
    t->ready = false;
    t->loss_scale.scale = scale;
    t->loss_scale.good_steps = good_steps;
    t->loss_scale.skipped = skipped;
    t->loss_scale.any_good = optimizer_step > 0;
}

/* ---- whole tensors of divided models ---- */

int yoke_trainer_n_logical(const yoke_trainer *t) { return t ? t->plan.logical.n : 0; }

const struct yoke_parameter *yoke_trainer_logical(const yoke_trainer *t, int index)
{
    return t && index >= 0 && index < t->plan.logical.n ? &t->plan.logical.item[index] : NULL;
}

/* The index of this rank's parameter with that name; -1: another stage holds it. */
static int held_index(const yoke_trainer *t, int logical)
{
    return yokei_parameter_find(&t->plan.parameters, t->plan.logical.item[logical].name);
}

/*
 * The elements of a parameter that this replica contributes when the whole is put together: its slice, or on
 * the first replica all.
 */
static struct yoke_range contribution(const yoke_trainer *t, int index)
{
    const struct yokei_slot *slot = &t->plan.state.slot[index];
    const struct yoke_range all = { 0, slot->n }, none = { 0, 0 };
    return t->plan.state.is_divided ? slot->own : t->plan.mesh.d == 0 ? all : none;
}

/*
 * Every element of the whole comes from one rank. The sum with the zeros of all other ranks has the same
 * bits.
 */
static yoke_status get_and_place(yoke_trainer *t, enum yoke_tensor_kind kind, int held, float *whole)
{
    const struct yoke_parameter *p = &t->plan.parameters.item[held];
    const struct yoke_range own = contribution(t, held);
    if (yokei_is_empty(own)) return YOKE_OK;
    float *local = calloc((size_t)yokei_local_count(p) + 1, sizeof *local);
    if (!local) return yoke_fail(YOKE_ENOMEM, "yoke_trainer_get_whole: no host memory");
    const yoke_status status = yokei_trainer_get_piece(t, kind, held, own.begin, own.end - own.begin,
                                                       local + own.begin);
    if (!status) yokei_shard_place(p, local, whole);
    free(local);
    return status;
}

/* Check the arguments of a call for a whole tensor. `name` is the name of the argument `data`. */
static yoke_status check_whole(const char *call, const yoke_trainer *t, int logical, const float *data,
                               const char *name)
{
    if (!t || !data) return yoke_fail(YOKE_EINVAL, "%s: %s is null", call, t ? name : "trainer");
    if (logical >= 0 && logical < t->plan.logical.n) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: there is no parameter %d: the model has %d", call, logical,
                     t->plan.logical.n);
}

yoke_status yoke_trainer_get_whole(yoke_trainer *t, enum yoke_tensor_kind kind, int logical, float *out)
{
    YOKE_TRY(check_whole("yoke_trainer_get_whole", t, logical, out, "out"));
    YOKE_TRY(yokei_trainer_check("yoke_trainer_get_whole", t));
    const int held = held_index(t, logical);
    if (t->plan.mesh.data == t->plan.n_ranks && !t->plan.state.is_divided)
        return yoke_trainer_get(t, kind, held, out);
    const int64_t n = yokei_logical_count(&t->plan.logical.item[logical]);
    memset(out, 0, (size_t)n * sizeof *out);
    yoke_status status = YOKE_OK;
    if (held >= 0 && t->plan.counted[held]) status = get_and_place(t, kind, held, out);
    const yoke_status summed = yokei_ranks_join_all(&t->config, out, n);
    return status ? status : summed;
}

yoke_status yoke_trainer_set_whole(yoke_trainer *t, enum yoke_tensor_kind kind, int logical,
                                   const float *values)
{
    YOKE_TRY(check_whole("yoke_trainer_set_whole", t, logical, values, "values"));
    YOKE_TRY(yokei_trainer_check("yoke_trainer_set_whole", t));
    const int held = held_index(t, logical);
    if (held < 0) return YOKE_OK;
    const struct yoke_parameter *p = &t->plan.parameters.item[held];
    float *local = malloc((size_t)yokei_local_count(p) * sizeof *local + 1);
    if (!local) return yoke_fail(YOKE_ENOMEM, "yoke_trainer_set_whole: no host memory");
    yokei_shard_slice(p, values, local);
    const yoke_status status = yoke_trainer_set(t, kind, held, local);
    free(local);
    return status;
}
