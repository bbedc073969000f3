/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the public header of layers: sizes, parameters, and the observed calls of ops. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/observer.h"
#include "parallel/op_times.h"

yoke_status yoke_layer_bytes(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part,
                             size_t *bytes_out)
{
    if (!layer || !shape || !bytes_out) return yoke_fail(YOKE_EINVAL, "yoke_layer_bytes: a pointer is null");
    if ((int)part < 0 || part >= YOKE_N_PARTS)
        return yoke_fail(YOKE_EINVAL, "yoke_layer_bytes: part %d is none of 0..%d", (int)part,
                         YOKE_N_PARTS - 1);
    if (shape->B < 1 || shape->T < 1)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_layer_bytes: a shape of %lld sequences of %lld tokens; both must be at least 1",
            (long long)shape->B, (long long)shape->T);
    const struct yoke_place *place = shape->place;
    if (place && place->sequence_parallel && shape->B * shape->T < place->tensor_size)
        return yoke_fail(
            YOKE_ECONFIG,
            "sequence parallelism deals the %lld tokens of a micro-batch to %d tensor ranks: some get none; raise the "
            "micro-batch or the sequence, or do without",
            (long long)(shape->B * shape->T), place->tensor_size);
    *bytes_out = yoke_align(layer->type->bytes(layer, shape, part));
    return YOKE_OK;
}

void yoke_layer_output(const yoke_layer *layer, const struct yoke_shape *shape, int64_t *rows_out,
                       int64_t *columns_out, int64_t *ld_out)
{
    const struct yoke_range rows = yoke_place_rows(shape->place, shape->B * shape->T);
    *rows_out = rows.end - rows.begin;
    *columns_out = *ld_out = layer->out;
    if (layer->type->output) layer->type->output(layer, shape, rows_out, columns_out, ld_out);
}

static yoke_status check_place(const yoke_layer *layer, const struct yoke_place *place)
{
    int64_t total = 0;
    if (place->tensor_size < 1 || place->tensor_size > YOKE_MAX_TENSOR || place->tensor_rank < 0
        || place->tensor_rank >= place->tensor_size)
        return yoke_fail(YOKE_ECONFIG, "layer %s: rank %d of %d tensor ranks: there may be 1 to %d",
                         layer->name, place->tensor_rank, place->tensor_size, YOKE_MAX_TENSOR);
    for (int r = 0; place->tensor_shares && r < place->tensor_size; r++) {
        if (place->tensor_shares[r] < 1 || place->tensor_shares[r] > 1 << 20)
            return yoke_fail(YOKE_ECONFIG,
                             "layer %s: the share of tensor rank %d is %lld: give each from 1 to %d",
                             layer->name, r, (long long)place->tensor_shares[r], 1 << 20);
        total += place->tensor_shares[r];
    }
    if (total > 1 << 24)
        return yoke_fail(YOKE_ECONFIG, "layer %s: the tensor shares add up to %lld: give smaller numbers",
                         layer->name, (long long)total);
    return YOKE_OK;
}

yoke_status yoke_layer_check(const yoke_layer *layer, const struct yoke_place *place)
{
    struct yoke_parameter p;
    if (!layer || !place) return yoke_fail(YOKE_EINVAL, "yoke_layer_check: a pointer is null");
    YOKE_TRY(check_place(layer, place));
    if (layer->type->check) YOKE_TRY(layer->type->check(layer, place));
    if (place->tensor_size == 1 || !layer->type->parameter) return YOKE_OK;
    for (int i = 0; i < YOKE_MAX_PARAMETERS && layer->type->parameter(layer, place, i, &p); i++) {
        bool known = (p.replicated_axes & YOKE_AXIS_TENSOR) != 0;
        for (int d = 0; d < p.n_dims; d++) known = known || p.shard[d].n > 0;
        if (!known)
            return yoke_fail(
                YOKE_ECONFIG,
                "layer %s: its type %s does not say how %d tensor ranks hold %s: run it with --tp 1, or let it deal the "
                "parameter or declare it as replicated over them",
                layer->name, layer->type->name, place->tensor_size, p.name);
    }
    return YOKE_OK;
}

yoke_status yoke_layer_parameter(const yoke_layer *layer, int index, struct yoke_parameter *parameter_out)
{
    struct yoke_place place = { .size = sizeof place, .tensor_size = 1 };
    struct yoke_parameter found;
    if (!layer || !parameter_out) return yoke_fail(YOKE_EINVAL, "yoke_layer_parameter: a pointer is null");
    if (index < 0 || index >= YOKE_MAX_PARAMETERS || !layer->type->parameter
        || !layer->type->parameter(layer, &place, index, &found))
        return yoke_fail(YOKE_EINVAL, "yoke_layer_parameter: layer %s has no parameter %d", layer->name,
                         index);
    *parameter_out = found;
    return YOKE_OK;
}

struct yoke_cost *yoke_observer_cost(yoke_observer *observer)
{
    observer->cost = (struct yoke_cost){ .size = sizeof observer->cost };
    return &observer->cost;
}

static yoke_status record(yoke_observer *o, const char *op)
{
    if (o->n_ops == o->capacity) {
        int capacity = o->capacity ? 2 * o->capacity : 256;
        struct yokei_op *ops = realloc(o->ops, (size_t)capacity * sizeof *ops);
        if (!ops) return yoke_fail(YOKE_ENOMEM, "planning: no host memory for the list of ops");
        o->ops = ops;
        o->capacity = capacity;
    }
    o->ops[o->n_ops++] = (struct yokei_op){ op, o->cost.flops, o->cost.bytes, o->cost.scratch_bytes };
    if (o->cost.scratch_bytes > o->scratch_bytes) o->scratch_bytes = o->cost.scratch_bytes;
    return YOKE_OK;
}

yoke_status yokei_observer_repeat(yoke_observer *o, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        o->cost.flops = o->ops[i].flops;
        o->cost.bytes = o->ops[i].bytes;
        o->cost.scratch_bytes = o->ops[i].scratch_bytes;
        YOKE_TRY(record(o, o->ops[i].name));
    }
    return YOKE_OK;
}

bool yoke_observer_begin(yoke_observer *o, const char *op, yoke_status can)
{
    o->status = can;
    if (can) {
        yoke_fail_context(can, "%s%s%s", o->layer, *o->layer ? " " : "", o->call);
        return false;
    }
    if (!o->runs) {
        o->status = record(o, op);
        return false;
    }
    o->op = op;
    o->status = yokei_op_times_offered(o) ? yokei_op_times_begin(o) : yoke_stream_sync(o->stream);
    o->begun_ns = yokei_now_ns();
    return o->status == YOKE_OK;
}

yoke_status yoke_observer_end(yoke_observer *o, yoke_status ran)
{
    YOKE_TRY(ran);
    if (yokei_op_times_offered(o)) return yokei_op_times_end(o);
    YOKE_TRY(yoke_stream_sync(o->stream));
    if (o->profile)
        o->profile(o->profile_context, o->layer, o->call, o->op, &o->cost,
                   (double)(yokei_now_ns() - o->begun_ns) * 1e-9);
    return YOKE_OK;
}

yoke_status yoke_observer_status(yoke_observer *o) { return o->status; }

bool yoke_call_runs(const struct yoke_layer_call *call) { return !call->observer || call->observer->runs; }

void yoke_call_forbid(const struct yoke_layer_call *call, void *address, size_t bytes)
{
    if (!yoke_call_runs(call)) return;
    /* after an error the device is lost, and the op that follows says so */
    (void)yokei_annotate(call->device, call->stream,
                         &(struct yokei_annotation){ address, bytes, YOKEI_MEMORY_FORBIDDEN, NULL, 0 });
}

yoke_status yoke_call_copy(const struct yoke_layer_call *call, void *target, const void *source, size_t bytes)
{
    yoke_observer *o = call->observer;
    if (!o) return yoke_copy(call->stream, target, source, bytes);
    yoke_observer_cost(o)->bytes = 2.0 * (double)bytes;
    if (!yoke_observer_begin(o, "copy", YOKE_OK)) return yoke_observer_status(o);
    return yoke_observer_end(o, yoke_copy(call->stream, target, source, bytes));
}

yoke_status yoke_call_zero(const struct yoke_layer_call *call, void *target, size_t bytes)
{
    yoke_observer *o = call->observer;
    if (!o) return yoke_fill(call->stream, target, 0, bytes);
    yoke_observer_cost(o)->bytes = (double)bytes;
    if (!yoke_observer_begin(o, "fill", YOKE_OK)) return yoke_observer_status(o);
    return yoke_observer_end(o, yoke_fill(call->stream, target, 0, bytes));
}

/* ---- the ranks that share a layer's tensors ---- */

struct yoke_range yoke_place_range(const struct yoke_place *place, int64_t n)
{
    if (!place || place->tensor_size <= 1) return (struct yoke_range){ 0, n };
    int64_t before = 0, own = 0, total = 0;
    for (int r = 0; r < place->tensor_size; r++) {
        const int64_t share = place->tensor_shares ? place->tensor_shares[r] : 1;
        if (r < place->tensor_rank) before += share;
        if (r == place->tensor_rank) own = share;
        total += share;
    }
    return (struct yoke_range){ (n * before + total / 2) / total, (n * (before + own) + total / 2) / total };
}

struct yoke_range yoke_place_rows(const struct yoke_place *place, int64_t n_rows)
{
    if (!place || !place->sequence_parallel) return (struct yoke_range){ 0, n_rows };
    return (struct yoke_range){ n_rows * place->tensor_rank / place->tensor_size,
                                n_rows * (place->tensor_rank + 1) / place->tensor_size };
}

/*
 * Begin a collective of n elements. It tells the planner or the profiler how many bytes cross. Returns false
 * if the collective must not run; *status then says why.
 */
static bool begin_together(const struct yoke_layer_call *call, const char *op, int64_t n, yoke_dtype dtype,
                           yoke_status *status)
{
    yoke_observer *o = call->observer;
    *status = YOKE_OK;
    if (!o) return true;
    yoke_observer_cost(o)->bytes = (double)n * (double)yoke_dtype_bytes(dtype);
    if (yoke_observer_begin(o, op, YOKE_OK)) return true;
    *status = yoke_observer_status(o);
    return false;
}

static yoke_status end_together(const struct yoke_layer_call *call, yoke_status ran)
{
    return call->observer ? yoke_observer_end(call->observer, ran) : ran;
}

static bool is_alone(const struct yoke_layer_call *call)
{
    return !call->shape->place || call->shape->place->tensor_size <= 1;
}

static int64_t total_of(const struct yoke_layer_call *call, const int64_t counts[])
{
    int64_t n = 0;
    for (int r = 0; r < call->shape->place->tensor_size; r++) n += counts[r];
    return n;
}

yoke_status yoke_call_sum(const struct yoke_layer_call *call, void *x, int64_t n, yoke_dtype dtype)
{
    yoke_status status;
    if (is_alone(call)) return YOKE_OK;
    if (!begin_together(call, "tensor_sum", n, dtype, &status)) return status;
    return end_together(call, call->tensor->sum(call->tensor->context, x, n, dtype, call->stream));
}

yoke_status yoke_call_gather(const struct yoke_layer_call *call, const void *mine, void *all,
                             const int64_t counts[], yoke_dtype dtype)
{
    yoke_status status;
    if (is_alone(call)) return yoke_call_copy(call, all, mine, (size_t)counts[0] * yoke_dtype_bytes(dtype));
    if (!begin_together(call, "tensor_gather", total_of(call, counts), dtype, &status)) return status;
    return end_together(call,
                        call->tensor->gather(call->tensor->context, mine, all, counts, dtype, call->stream));
}

yoke_status yoke_call_scatter_sum(const struct yoke_layer_call *call, const void *all, void *mine,
                                  const int64_t counts[], yoke_dtype dtype)
{
    yoke_status status;
    if (is_alone(call)) return yoke_call_copy(call, mine, all, (size_t)counts[0] * yoke_dtype_bytes(dtype));
    if (!begin_together(call, "tensor_scatter_sum", total_of(call, counts), dtype, &status)) return status;
    return end_together(call, call->tensor->scatter_sum(call->tensor->context, all, mine, counts, dtype,
                                                        call->stream));
}

void yokei_observer_free(yoke_observer *o)
{
    free(o->ops);
    memset(o, 0, sizeof *o);
}
