/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of both sub-layers of a Llama block: the norm, several products before the body, the
 * product after it, and the residual x. Ranks that share the sub-layer hold rows of the weights before the
 * body, and columns of the weight after it. In W [out, in] these are the features that each rank got.
 */
#include "core/base/base.h"
#include "train/layers/layers.h"

static int64_t length(struct yoke_range r) { return r.end - r.begin; }

void yokei_llama_lay_out(const struct yokei_llama_type *type, const yoke_layer *layer,
                         const struct yoke_shape *shape, const struct yoke_layer_call *call,
                         struct yokei_llama_sublayer *sub, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_llama_config *c = layer->config;
    const yoke_dtype wide = yoke_dtype_wide(shape->dtype);
    const size_t narrow = yoke_dtype_bytes(shape->dtype);
    int64_t outer;
    struct yoke_range held;
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    *sub = (struct yokei_llama_sublayer){ .type = type, .eps = (float)c->rms_norm_eps };
    type->describe(layer, shape->place, sub->in, &outer, &held);
    for (int i = 0; i < type->n_in; i++) sub->width += length(sub->in[i].used);
    sub->outer_width = length(held);
    yokei_rows_lay_out(shape, call, c->hidden_size, wide, &sub->rows, bytes);
    const int64_t N = sub->rows.N, own = sub->rows.n_own, C = sub->rows.C;
    sub->inner = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, N * sub->width, narrow);
    sub->ln = yoke_part_field(shape, call, bytes, YOKE_F_TO_W, own * C, narrow);
    sub->rstd = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, own, yoke_dtype_bytes(wide));
    sub->outer = yoke_part_field(shape, call, bytes, YOKE_F_TO_W, N * sub->outer_width, narrow);
    sub->dinner = yoke_part_field(shape, call, bytes, YOKE_B_TO_W, N * sub->width, narrow);
    sub->dgamma = yoke_part_field(shape, call, bytes, YOKE_B_TO_W, C, yoke_dtype_bytes(wide));
    sub->dln = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, own * C, narrow);
    sub->dy = sub->rows.is_cut ? yoke_part_field(shape, call, bytes, YOKE_B_TO_W, N * C, narrow) : NULL;
}

bool yokei_llama_parameter(const struct yokei_llama_type *type, const yoke_layer *layer,
                           const struct yoke_place *place, int index, struct yoke_parameter *out)
{
    const struct yoke_llama_config *c = layer->config;
    struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN];
    struct yoke_range held;
    int64_t outer;
    char suffix[64];
    type->describe(layer, place, in, &outer, &held);
    const int n_in = type->n_in, after = n_in + 1;
    const bool is_bias = index > after;
    if (index < 0 || index > (in[0].has_bias ? after + n_in : after)) return false;
    yokei_text(suffix, sizeof suffix, "%s.%s",
               index == 0       ? type->norm
               : index == after ? type->out
                                : in[(index - 1) % (n_in + 1)].name,
               is_bias ? "bias" : "weight");
    if (index == 0) {
        yokei_parameter(out, layer->name, suffix, YOKE_INIT_ONES, 0, c->hidden_size, 0);
        yokei_replicate(out, place, true);
    } else if (index != after) {
        const struct yokei_llama_in *i = &in[(index - 1) % (n_in + 1)];
        const bool all = length(i->held) == i->whole;
        if (is_bias)
            yokei_parameter(out, layer->name, suffix, YOKE_INIT_ZEROS, 0, i->whole, 0);
        else
            yokei_parameter(out, layer->name, suffix, YOKE_INIT_NORMAL, c->initializer_range, i->whole,
                            c->hidden_size);
        /* otherwise the gradients of the rows that are not used must be 0 */
        out->overwrites = out->overwrites && length(i->used) == length(i->held);
        if (all && yokei_is_dealt(place)) { /* each rank computes the gradient of the rows that it uses */
            out->replicated_axes |= YOKE_AXIS_TENSOR;
            out->partial_axes |= YOKE_AXIS_TENSOR;
        } else if (!all)
            out->shard[0] = (struct yoke_ranges){ 1, { i->held } };
    } else {
        yokei_parameter(out, layer->name, suffix, YOKE_INIT_NORMAL, c->initializer_range, c->hidden_size,
                        outer);
        if (length(held) < outer) out->shard[1] = (struct yoke_ranges){ 1, { held } };
    }
    return true;
}

static struct yokei_projection projection_of(const struct yokei_llama_sublayer *sub, int i)
{
    return (struct yokei_projection){ sub->rows.N, sub->rows.C, length(sub->in[i].used), sub->width };
}

static struct yokei_projection projection_out(const struct yokei_llama_sublayer *sub)
{
    return (struct yokei_projection){ sub->rows.N, sub->outer_width, sub->rows.C, sub->rows.C };
}

/* The first row that this rank uses of a weight before the body, or of the weight's gradient. */
static void *used_rows(const struct yokei_llama_sublayer *sub, int i, const void *weight, yoke_dtype dtype)
{
    return yoke_at(weight, (size_t)((sub->in[i].used.begin - sub->in[i].held.begin) * sub->rows.C)
                               * yoke_dtype_bytes(dtype));
}

/*
 * The first element that this rank uses of a bias before the body, or of the bias's gradient. Both are wide.
 */
static void *used_bias(const struct yoke_layer_call *call, const struct yokei_llama_sublayer *sub, int i,
                       const void *const *parameters)
{
    if (!sub->in[i].has_bias) return NULL;
    return yoke_at(parameters[2 + sub->type->n_in + i],
                   (size_t)(sub->in[i].used.begin - sub->in[i].held.begin)
                       * yoke_dtype_bytes(yoke_dtype_wide(call->shape->dtype)));
}

yoke_status yokei_llama_enter(const struct yoke_layer_call *call, const struct yokei_llama_sublayer *sub)
{
    const yoke_dtype dtype = call->shape->dtype;
    const int64_t C = sub->rows.C;
    const void *ln;
    int64_t column = 0;
    YOKE_TRY(YOKE_CALL(call, rmsnorm_forward, .dtype = dtype, .N = sub->rows.n_own, .C = C, .x = call->x,
                       .ldx = C, .gamma = call->weights[0], .eps = sub->eps, .y = sub->ln, .ldy = C,
                       .rstd = sub->rstd));
    YOKE_TRY(yokei_rows_all(call, &sub->rows, sub->ln, &ln));
    for (int i = 0; i < sub->type->n_in; i++) {
        const struct yokei_projection l = projection_of(sub, i);
        YOKE_TRY(yokei_project(call, &l, ln, used_rows(sub, i, call->weights[1 + i], dtype),
                               used_bias(call, sub, i, call->weights), false,
                               yoke_at(sub->inner, (size_t)column * yoke_dtype_bytes(dtype)), dtype));
        column += l.out;
    }
    return YOKE_OK;
}

/*
 * Compute rows [begin, end) of this rank's part of y. With `residual`, x is added by the product's beta, so
 * that the product is not rounded before.
 */
static yoke_status leave_rows(const struct yoke_layer_call *call, const struct yokei_llama_sublayer *sub,
                              int64_t begin, int64_t end, bool residual)
{
    const struct yokei_rows *r = &sub->rows;
    const size_t narrow = yoke_dtype_bytes(call->shape->dtype);
    struct yokei_projection some = projection_out(sub);
    void *part = yoke_at(yokei_rows_partial(r, call->y), (size_t)(begin * r->C) * yoke_dtype_bytes(r->sum));
    some.N = end - begin;
    if (begin >= end) return YOKE_OK;
    if (residual) YOKE_TRY(yokei_rows_start(call, r, begin, end, part));
    return yokei_project(call, &some, yoke_at(sub->outer, (size_t)(begin * sub->outer_width) * narrow),
                         call->weights[1 + sub->type->n_in], NULL, residual, part, r->sum);
}

yoke_status yokei_llama_leave(const struct yoke_layer_call *call, const struct yokei_llama_sublayer *sub)
{
    const struct yoke_range added = yokei_rows_added(call->shape->place, sub->rows.N);
    YOKE_TRY(leave_rows(call, sub, 0, added.begin, false));
    YOKE_TRY(leave_rows(call, sub, added.begin, added.end, true));
    YOKE_TRY(leave_rows(call, sub, added.end, sub->rows.N, false));
    return yokei_rows_sum(call, &sub->rows, call->y);
}

static const void *dy_of(const struct yoke_layer_call *call, const struct yokei_llama_sublayer *sub)
{
    return sub->dy ? sub->dy : call->dy;
}

yoke_status yokei_llama_backward_leave(const struct yoke_layer_call *call,
                                       const struct yokei_llama_sublayer *sub, void *douter)
{
    const struct yokei_projection out = projection_out(sub);
    if (sub->dy) YOKE_TRY(yokei_rows_gather(call, &sub->rows, call->dy, sub->dy));
    return yokei_project_backward_input(call, &out, dy_of(call, sub), call->weights[1 + sub->type->n_in],
                                        false, douter, call->shape->dtype);
}

static yoke_status norm_backward(const struct yoke_layer_call *call, const struct yokei_llama_sublayer *sub)
{
    const int64_t C = sub->rows.C;
    YOKE_TRY(
        yoke_call_zero(call, sub->dgamma, (size_t)C * yoke_dtype_bytes(yoke_dtype_wide(call->shape->dtype))));
    return YOKE_CALL(call, rmsnorm_backward, .dtype = call->shape->dtype, .N = sub->rows.n_own, .C = C,
                     .dy = sub->dln, .lddy = C, .x = call->x, .ldx = C, .gamma = call->weights[0],
                     .rstd = sub->rstd, .dresidual = call->dy, .lddresidual = C, .dx = call->dx, .lddx = C,
                     .dgamma = sub->dgamma);
}

yoke_status yokei_llama_backward_enter(const struct yoke_layer_call *call,
                                       const struct yokei_llama_sublayer *sub)
{
    const yoke_dtype dtype = call->shape->dtype;
    int64_t column = 0;
    for (int i = 0; i < sub->type->n_in; i++) {
        const struct yokei_projection l = projection_of(sub, i);
        YOKE_TRY(yokei_project_backward_input(call, &l,
                                              yoke_at(sub->dinner, (size_t)column * yoke_dtype_bytes(dtype)),
                                              used_rows(sub, i, call->weights[1 + i], dtype), i > 0,
                                              yokei_rows_partial(&sub->rows, sub->dln), sub->rows.sum));
        column += l.out;
    }
    YOKE_TRY(yokei_rows_sum(call, &sub->rows, sub->dln));
    return norm_backward(call, sub);
}

yoke_status yokei_llama_backward_weight(const struct yokei_llama_type *type, const yoke_layer *layer,
                                        const struct yoke_layer_call *call)
{
    struct yokei_llama_sublayer fields;
    const struct yokei_llama_sublayer *sub = &fields;
    size_t bytes[YOKE_N_PARTS];
    yokei_llama_lay_out(type, layer, call->shape, call, &fields, bytes);
    const yoke_dtype dtype = call->shape->dtype;
    const struct yokei_projection out = projection_out(sub);
    const void *ln;
    int64_t column = 0;
    YOKE_TRY(yokei_project_backward_weight(call, &out, sub->outer, dy_of(call, sub), 1 + sub->type->n_in,
                                           call->gradients[1 + sub->type->n_in]));
    YOKE_TRY(yokei_rows_all(call, &sub->rows, sub->ln, &ln));
    for (int i = 0; i < sub->type->n_in; i++) {
        const struct yokei_projection l = projection_of(sub, i);
        const void *dy = yoke_at(sub->dinner, (size_t)column * yoke_dtype_bytes(dtype));
        YOKE_TRY(yokei_project_backward_weight(
            call, &l, ln, dy, 1 + i, used_rows(sub, i, call->gradients[1 + i], yoke_dtype_wide(dtype))));
        if (sub->in[i].has_bias)
            YOKE_TRY(yokei_bias_backward(call, l.N, l.out, dy, l.ldy,
                                         used_bias(call, sub, i, (const void *const *)call->gradients)));
        column += l.out;
    }
    return yokei_gradient_add(call, 0, sub->dgamma, sub->rows.C);
}
