/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for layers whose tensors several ranks share: the division of parameters, and rows [N, C] to
 * which all of these ranks add.
 *
 * In every precision, partial products are summed in f32, and the sum is rounded once when it is complete. So
 * 16-bit activations get the same bits as on one rank alone, except for the order of the sum. There is
 * another exception where the gradients of several products meet, as before Llama's norms: one rank alone
 * rounds between these products. The f32 sums send twice the bytes of sums that each rank rounds. But such
 * sums would round the residual as many times as there are ranks.
 */
#include "core/base/base.h"
#include "train/layers/layers.h"

bool yokei_is_dealt(const struct yoke_place *place) { return place && place->tensor_size > 1; }

static bool is_cut(const struct yoke_place *place)
{
    return yokei_is_dealt(place) && place->sequence_parallel;
}

void yokei_deal(struct yoke_ranges *shard, const struct yoke_place *place, int64_t units, int64_t width,
                int n_parts)
{
    const struct yoke_range own = yoke_place_range(place, units);
    if (!yokei_is_dealt(place)) return;
    shard->n = n_parts;
    for (int part = 0; part < n_parts; part++)
        shard->range[part] = (struct yoke_range){ (part * units + own.begin) * width,
                                                  (part * units + own.end) * width };
}

void yokei_replicate(struct yoke_parameter *p, const struct yoke_place *place, bool by_rows)
{
    p->replicated_axes |= YOKE_AXIS_TENSOR;
    if (by_rows && is_cut(place)) p->partial_axes |= YOKE_AXIS_TENSOR;
}

yoke_status yokei_deal_check(const yoke_layer *layer, const struct yoke_place *place, int64_t n,
                             const char *what)
{
    if (!yokei_is_dealt(place)) return YOKE_OK;
    for (int r = 0; r < place->tensor_size; r++) {
        struct yoke_place other = *place;
        other.tensor_rank = r;
        const struct yoke_range own = yoke_place_range(&other, n);
        if (own.begin < own.end) continue;
        if (n < place->tensor_size)
            return yoke_fail(
                YOKE_ECONFIG,
                "layer %s: its %lld %s cannot be dealt to %d tensor ranks, each whole and each rank one: lower --tp to at "
                "most %lld",
                layer->name, (long long)n, what, place->tensor_size, (long long)n);
        return yoke_fail(YOKE_ECONFIG,
                         "layer %s: of its %lld %s tensor rank %d gets none: raise its share, or lower --tp",
                         layer->name, (long long)n, what, r);
    }
    return YOKE_OK;
}

struct yoke_range yokei_rows_added(const struct yoke_place *place, int64_t N)
{
    if (yokei_is_dealt(place) && !place->sequence_parallel && place->tensor_rank > 0)
        return (struct yoke_range){ 0, 0 };
    return yoke_place_rows(place, N);
}

void yokei_rows_lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, int64_t C,
                        yoke_dtype sum, struct yokei_rows *r, size_t bytes[YOKE_N_PARTS])
{
    const bool cut = is_cut(shape->place), rounds = yokei_is_dealt(shape->place) && sum != shape->dtype;
    *r = (struct yokei_rows){
        .N = shape->B * shape->T, .C = C, .sum = rounds ? sum : shape->dtype, .is_cut = cut
    };
    r->own = yoke_place_rows(shape->place, r->N);
    r->n_own = r->own.end - r->own.begin;
    if (cut || rounds)
        r->all = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, r->N * C, yoke_dtype_bytes(r->sum));
    if (cut && rounds)
        r->sums = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, r->n_own * C, yoke_dtype_bytes(r->sum));
}

/* The number of elements in every rank's rows. */
static void count_rows(const struct yoke_layer_call *call, const struct yokei_rows *r,
                       int64_t counts[YOKE_MAX_TENSOR])
{
    struct yoke_place place = *call->shape->place;
    for (place.tensor_rank = 0; place.tensor_rank < place.tensor_size; place.tensor_rank++) {
        const struct yoke_range rows = yoke_place_rows(&place, r->N);
        counts[place.tensor_rank] = (rows.end - rows.begin) * r->C;
    }
}

yoke_status yokei_rows_gather(const struct yoke_layer_call *call, const struct yokei_rows *r, const void *own,
                              void *all)
{
    int64_t counts[YOKE_MAX_TENSOR];
    count_rows(call, r, counts);
    return yoke_call_gather(call, own, all, counts, call->shape->dtype);
}

yoke_status yokei_rows_all(const struct yoke_layer_call *call, const struct yokei_rows *r, const void *own,
                           const void **all_out)
{
    *all_out = r->is_cut ? r->all : own;
    return r->is_cut ? yokei_rows_gather(call, r, own, r->all) : YOKE_OK;
}

void *yokei_rows_partial(const struct yokei_rows *r, void *target) { return r->all ? r->all : target; }

yoke_status yokei_rows_sum(const struct yoke_layer_call *call, const struct yokei_rows *r, void *target)
{
    void *own = yokei_rows_partial(r, target);
    if (r->is_cut) {
        int64_t counts[YOKE_MAX_TENSOR];
        count_rows(call, r, counts);
        own = r->sums ? r->sums : target;
        YOKE_TRY(yoke_call_scatter_sum(call, r->all, own, counts, r->sum));
    } else {
        YOKE_TRY(yoke_call_sum(call, own, r->N * r->C, r->sum));
    }
    if (own == target) return YOKE_OK;
    return YOKE_CALL(call, cast, .from = r->sum, .to = call->shape->dtype, .n = r->n_own * r->C, .x = own,
                     .y = target);
}

yoke_status yokei_rows_start(const struct yoke_layer_call *call, const struct yokei_rows *r, int64_t begin,
                             int64_t end, void *part)
{
    const int64_t n = (end - begin) * r->C;
    const size_t narrow = yoke_dtype_bytes(call->shape->dtype);
    const void *x = yoke_at(call->x, (size_t)((begin - r->own.begin) * r->C) * narrow);
    return r->sum == call->shape->dtype
               ? yoke_call_copy(call, part, x, (size_t)n * narrow)
               : YOKE_CALL(call, cast, .from = call->shape->dtype, .to = r->sum, .n = n, .x = x, .y = part);
}

/* ---- dropout ---- */

uint64_t yokei_drop_key(const yoke_layer *layer, const struct yoke_layer_call *call, const char *what)
{
    char name[sizeof layer->name + 32];
    yokei_text(name, sizeof name, "%s/%s", layer->name, what);
    return yoke_random_key(call->pass->seed, call->pass->step, name);
}

yoke_status yokei_drop_rows(const yoke_layer *layer, const struct yoke_layer_call *call, const char *what,
                            float p, const struct yokei_rows *r, const void *x, const void *residual, void *y)
{
    return YOKE_CALL(call, dropout, .dtype = call->shape->dtype, .N = r->n_own, .C = r->C,
                     .T = call->shape->T, .p = p, .key = yokei_drop_key(layer, call, what),
                     .first_row = r->own.begin, .sample_start = call->pass->sample_offset,
                     .pos_start = call->pass->token_offset, .x = x, .ldx = r->C, .residual = residual,
                     .ldresidual = r->C, .y = y, .ldy = r->C);
}
