/* SPDX-License-Identifier: Apache-2.0 */
/* Weights, gradients and moments in and out of a trainer, as f32 in host memory. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer.h"

static yoke_status slot_of(const yoke_trainer *t, enum yoke_tensor_kind kind, int index, size_t *offset_out)
{
    if (!t || index < 0 || index >= t->plan.state.n)
        return yoke_fail(YOKE_EINVAL, "trainer: there is no parameter %d", index);
    const struct yokei_slot *slot = &t->plan.state.slot[index];
    switch (kind) {
    case YOKE_TENSOR_WEIGHT: *offset_out = slot->master; return YOKE_OK;
    case YOKE_TENSOR_GRADIENT: *offset_out = slot->gradient; return YOKE_OK;
    case YOKE_TENSOR_MOMENT1: *offset_out = slot->moment1; return YOKE_OK;
    case YOKE_TENSOR_MOMENT2: *offset_out = slot->moment2; return YOKE_OK;
    }
    return yoke_fail(YOKE_EINVAL, "trainer: there is no kind of tensor %d", (int)kind);
}

int yoke_trainer_n_parameters(const yoke_trainer *t) { return t ? t->plan.parameters.n : 0; }

const struct yoke_parameter *yoke_trainer_parameter(const yoke_trainer *t, int index)
{
    return t && index >= 0 && index < t->plan.parameters.n ? &t->plan.parameters.item[index] : NULL;
}

static yoke_status check_piece(const yoke_trainer *t, int index, int64_t first, int64_t n)
{
    if (first < 0 || n < 0 || first > t->plan.state.slot[index].n - n)
        return yoke_fail(YOKE_EINVAL, "trainer: parameter %d has no elements %lld to %lld", index, (long long)first, (long long)(first + n));
    return YOKE_OK;
}

yoke_status yokei_trainer_get_piece(yoke_trainer *t, enum yoke_tensor_kind kind, int index, int64_t first, int64_t n, float *out)
{
    size_t offset = 0;
    YOKE_TRY(slot_of(t, kind, index, &offset));
    YOKE_TRY(check_piece(t, index, first, n));
    yoke_dtype wide = t->plan.state.wide;
    size_t width = yoke_dtype_bytes(wide);
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    void *values = wide == YOKE_F32 ? out : malloc((size_t)n * width + 1);
    if (!values) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory");
    yoke_status status = yoke_copy_to_host(stream, values, yoke_at(t->base, offset + (size_t)first * width), (size_t)n * width);
    if (!status) status = yoke_stream_sync(stream);
    double scale = kind == YOKE_TENSOR_GRADIENT && t->gradient_scale > 0 ? t->gradient_scale : 1.0;
    if (wide != YOKE_F32 || scale != 1.0)
        for (int64_t i = 0; i < n && !status; i++) out[i] = (float)(yokei_load(wide, values, i) / scale);
    if (values != out) free(values);
    return status;
}

yoke_status yoke_trainer_get(yoke_trainer *t, enum yoke_tensor_kind kind, int index, float *out)
{
    size_t offset = 0;
    YOKE_TRY(slot_of(t, kind, index, &offset));
    return yokei_trainer_get_piece(t, kind, index, 0, t->plan.state.slot[index].n, out);
}

static yoke_status put(yoke_trainer *t, size_t offset, yoke_dtype dtype, int64_t first, const float *values, int64_t n, void *scratch)
{
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    size_t width = yoke_dtype_bytes(dtype);
    yoke_convert(YOKE_F32, values, dtype, scratch, (size_t)n);
    YOKE_TRY(yoke_copy_to_device(stream, yoke_at(t->base, offset + (size_t)first * width), scratch, (size_t)n * width));
    return yoke_stream_sync(stream);
}

yoke_status yokei_trainer_set_piece(yoke_trainer *t, enum yoke_tensor_kind kind, int index, int64_t first, int64_t n, const float *values)
{
    size_t offset = 0;
    YOKE_TRY(slot_of(t, kind, index, &offset));
    YOKE_TRY(check_piece(t, index, first, n));
    const struct yokei_state *s = &t->plan.state;
    const struct yokei_slot *slot = &s->slot[index];
    void *scratch = malloc((size_t)n * yoke_dtype_bytes(s->wide) + 1);
    if (!scratch) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory");
    yoke_status status = put(t, offset, s->wide, first, values, n, scratch);
    if (!status && kind == YOKE_TENSOR_WEIGHT && slot->has_copy)
        status = put(t, slot->weight, s->dtype, first, values, n, scratch);
    free(scratch);
    return status;
}

yoke_status yoke_trainer_set(yoke_trainer *t, enum yoke_tensor_kind kind, int index, const float *values)
{
    size_t offset = 0;
    YOKE_TRY(slot_of(t, kind, index, &offset));
    return yokei_trainer_set_piece(t, kind, index, 0, t->plan.state.slot[index].n, values);
}

yoke_status yoke_trainer_draw(yoke_trainer *t, uint64_t seed)
{
    if (!t) return yoke_fail(YOKE_EINVAL, "yoke_trainer_draw: trainer is null");
    const struct yokei_state *s = &t->plan.state;
    yoke_stream *stream = t->stream[YOKEI_COMPUTE];
    enum { PIECE = 64 << 10 }; /* elements: a whole embedding would take host memory that nobody planned */
    float *values = malloc(PIECE * sizeof *values);
    if (!values) return yoke_fail(YOKE_ENOMEM, "yoke_trainer_draw: no host memory");
    yoke_status status = yoke_fill(stream, t->base, 0, s->bytes);
    for (int i = 0; i < s->n; i++)
        for (int64_t first = 0; first < s->slot[i].n && !status; first += PIECE) {
            const int64_t n = YOKE_MIN((int64_t)PIECE, s->slot[i].n - first);
            yokei_parameter_draw_piece(&t->plan.parameters.item[i], seed, first, n, values);
            status = yokei_trainer_set_piece(t, YOKE_TENSOR_WEIGHT, i, first, n, values);
        }
    free(values);
    YOKE_TRY(status);
    t->config.seed = seed;
    t->step = t->optimizer_step = 0;
    t->gradient_scale = 0;
    t->ready = false;
    yokei_loss_scale_init(&t->loss_scale, t->config.precision, t->config.loss_scale, t->config.scale_interval);
    return YOKE_OK;
}

void yokei_trainer_restore(yoke_trainer *t, int64_t step, int64_t optimizer_step, double scale, int64_t good_steps, int skipped)
{
    t->step = step;
    t->optimizer_step = optimizer_step;
    t->gradient_scale = 0;
    t->ready = false;
    t->loss_scale.scale = scale;
    t->loss_scale.good_steps = good_steps;
    t->loss_scale.skipped = skipped;
}

/* ---- whole tensors of divided models ---- */

int yoke_trainer_n_logical(const yoke_trainer *t) { return t ? t->plan.logical.n : 0; }

const struct yoke_parameter *yoke_trainer_logical(const yoke_trainer *t, int index)
{
    return t && index >= 0 && index < t->plan.logical.n ? &t->plan.logical.item[index] : NULL;
}

/* This rank's parameter of that name; -1: another stage's. */
static int held_index(const yoke_trainer *t, int logical) { return yokei_parameter_find(&t->plan.parameters, t->plan.logical.item[logical].name); }

/* Every element of the whole comes from one rank of the first replica: the sum with zeros of all others has its bits. */
static yoke_status get_and_place(yoke_trainer *t, enum yoke_tensor_kind kind, int held, float *whole)
{
    const struct yoke_parameter *p = &t->plan.parameters.item[held];
    float *local = malloc((size_t)yokei_local_count(p) * sizeof *local + 1);
    if (!local) return yoke_fail(YOKE_ENOMEM, "yoke_trainer_get_whole: no host memory");
    const yoke_status status = yoke_trainer_get(t, kind, held, local);
    if (!status) yokei_shard_place(p, local, whole);
    free(local);
    return status;
}

yoke_status yoke_trainer_get_whole(yoke_trainer *t, enum yoke_tensor_kind kind, int logical, float *out)
{
    if (!t || !out || logical < 0 || logical >= t->plan.logical.n)
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_get_whole: there is no parameter %d, or out is null", logical);
    const int held = held_index(t, logical);
    if (t->plan.mesh.data == t->plan.n_ranks) return yoke_trainer_get(t, kind, held, out);
    const int64_t n = yokei_logical_count(&t->plan.logical.item[logical]);
    memset(out, 0, (size_t)n * sizeof *out);
    yoke_status status = YOKE_OK;
    if (held >= 0 && t->plan.mesh.d == 0 && t->plan.counted[held]) status = get_and_place(t, kind, held, out);
    const yoke_status summed = yokei_ranks_join_all(&t->config, out, n);
    return status ? status : summed;
}

yoke_status yoke_trainer_set_whole(yoke_trainer *t, enum yoke_tensor_kind kind, int logical, const float *values)
{
    if (!t || !values || logical < 0 || logical >= t->plan.logical.n)
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_set_whole: there is no parameter %d, or values is null", logical);
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
