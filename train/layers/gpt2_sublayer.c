/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of both sub-layers of a GPT-2 block: the norm, the product before the body, the product
 * after it, and the residual x.
 */
#include <math.h>
#include "core/base/base.h"
#include "train/layers/layers.h"

int64_t yokei_gpt2_units(const struct yokei_gpt2_type *type, const yoke_layer *layer, int64_t *width_out)
{
    const struct yoke_gpt2_config *c = layer->config;
    const int64_t features = type->outer * c->n_embd, units = type->heads ? c->n_head : features;
    *width_out = features / units;
    return units;
}

void yokei_gpt2_lay_out(const struct yokei_gpt2_type *type, const yoke_layer *layer,
                        const struct yoke_shape *shape, const struct yoke_layer_call *call,
                        struct yokei_gpt2_sublayer *sub, size_t bytes[YOKE_N_PARTS])
{
    const struct yoke_gpt2_config *c = layer->config;
    const int64_t C = c->n_embd;
    const yoke_dtype wide_dtype = yoke_dtype_wide(shape->dtype);
    const size_t narrow = yoke_dtype_bytes(shape->dtype);
    int64_t width;
    const struct yoke_range units = yoke_place_range(shape->place, yokei_gpt2_units(type, layer, &width));
    const int64_t features = (units.end - units.begin) * width;
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    yokei_rows_lay_out(shape, call, C, wide_dtype, &sub->rows, bytes);
    const int64_t N = sub->rows.N, own = sub->rows.n_own;
    sub->in = (struct yokei_linear){ N, C, type->parts * features };
    sub->out = (struct yokei_linear){ N, features, C };
    sub->inner = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, N * sub->in.out, narrow);
    sub->ln = yoke_part_field(shape, call, bytes, YOKE_F_TO_W, own * C, narrow);
    yokei_norm_lay_out(shape, call, own, C, c->layer_norm_epsilon, &sub->norm, bytes);
    sub->outer = yoke_part_field(shape, call, bytes, YOKE_F_TO_W, N * sub->out.in, narrow);
    sub->dinner = yoke_part_field(shape, call, bytes, YOKE_B_TO_W, N * sub->in.out, narrow);
    sub->dln = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, own * C, narrow);
    /*
     * dy is gathered once for B and W. ln is gathered twice, because otherwise it would have to be kept from
     * F to W.
     */
    sub->dy = sub->rows.is_cut ? yoke_part_field(shape, call, bytes, YOKE_B_TO_W, N * C, narrow) : NULL;
    sub->layer = layer;
    sub->drop = yokei_drop_p(shape, c->resid_pdrop);
    sub->dropped = sub->drop > 0 ? yoke_part_field(shape, call, bytes, YOKE_B_TO_W, own * C, narrow) : NULL;
}

bool yokei_gpt2_parameter(const struct yokei_gpt2_type *type, const yoke_layer *layer,
                          const struct yoke_place *place, int index, struct yoke_parameter *out)
{
    const struct yoke_gpt2_config *c = layer->config;
    const int64_t C = c->n_embd, outer = type->outer * C, inner = type->parts * outer;
    const double std = c->initializer_range;
    const struct {
        const char *name, *kind;
        enum yoke_init init;
        double std;
        int64_t rows, columns;
    } list[] = {
        [YOKEI_GPT2_GAMMA] = { type->norm, "weight", YOKE_INIT_ONES, 0, C, 0 },
        [YOKEI_GPT2_BETA] = { type->norm, "bias", YOKE_INIT_ZEROS, 0, C, 0 },
        [YOKEI_GPT2_IN_WEIGHT] = { type->in, "weight", YOKE_INIT_NORMAL, std, C, inner },
        [YOKEI_GPT2_IN_BIAS] = { type->in, "bias", YOKE_INIT_ZEROS, 0, inner, 0 },
        /*
         * GPT-2 initializes the weights that write to the residual with a smaller deviation, which depends on
         * the number of sub-layers that add to it.
         */
        [YOKEI_GPT2_OUT_WEIGHT] = { type->out, "weight", YOKE_INIT_NORMAL,
                                    std / sqrt(2.0 * (double)c->n_layer), outer, C },
        [YOKEI_GPT2_OUT_BIAS] = { type->out, "bias", YOKE_INIT_ZEROS, 0, C, 0 },
    };
    char suffix[64];
    if (index < 0 || index >= (int)YOKE_COUNT(list)) return false;
    yokei_text(suffix, sizeof suffix, "%s.%s", list[index].name, list[index].kind);
    yokei_parameter(out, layer->name, suffix, list[index].init, list[index].std, list[index].rows,
                    list[index].columns);
    int64_t width;
    const int64_t units = yokei_gpt2_units(type, layer, &width);
    if (index == YOKEI_GPT2_IN_WEIGHT || index == YOKEI_GPT2_IN_BIAS)
        yokei_deal(&out->shard[index == YOKEI_GPT2_IN_WEIGHT], place, units, width, type->parts);
    else if (index == YOKEI_GPT2_OUT_WEIGHT)
        yokei_deal(&out->shard[0], place, units, width, 1);
    else
        yokei_replicate(out, place, true);
    return true;
}

yoke_status yokei_gpt2_enter(const struct yoke_layer_call *call, const struct yokei_gpt2_sublayer *sub,
                             bool gelu)
{
    const void *const *w = call->weights, *ln;
    YOKE_TRY(yokei_norm_forward(call, &sub->norm, call->x, w[YOKEI_GPT2_GAMMA], w[YOKEI_GPT2_BETA], sub->ln));
    YOKE_TRY(yokei_rows_all(call, &sub->rows, sub->ln, &ln));
    return yokei_linear_forward(call, &sub->in, ln, w[YOKEI_GPT2_IN_WEIGHT], w[YOKEI_GPT2_IN_BIAS], false,
                                gelu, gelu ? sub->inner : NULL, gelu ? sub->outer : sub->inner,
                                call->shape->dtype);
}

/*
 * Compute rows [begin, end) of this rank's part of y. With `added`, the bias is included, and x too if there
 * is no dropout. x is added by the product's beta, so that it is not rounded.
 */
static yoke_status leave_rows(const struct yoke_layer_call *call, const struct yokei_gpt2_sublayer *sub,
                              int64_t begin, int64_t end, bool added)
{
    const bool residual = added && sub->drop == 0;
    const void *const *w = call->weights;
    const struct yokei_rows *r = &sub->rows;
    const size_t narrow = yoke_dtype_bytes(call->shape->dtype);
    const struct yokei_linear some = { end - begin, sub->out.in, sub->out.out };
    void *part = yoke_at(yokei_rows_partial(r, call->y), (size_t)(begin * r->C) * yoke_dtype_bytes(r->sum));
    if (begin >= end) return YOKE_OK;
    if (residual) YOKE_TRY(yokei_rows_start(call, r, begin, end, part));
    return yokei_linear_forward(call, &some, yoke_at(sub->outer, (size_t)(begin * sub->out.in) * narrow),
                                w[YOKEI_GPT2_OUT_WEIGHT], added ? w[YOKEI_GPT2_OUT_BIAS] : NULL, residual,
                                false, NULL, part, r->sum);
}

yoke_status yokei_gpt2_leave(const struct yoke_layer_call *call, const struct yokei_gpt2_sublayer *sub)
{
    const struct yoke_range added = yokei_rows_added(call->shape->place, sub->rows.N);
    YOKE_TRY(leave_rows(call, sub, 0, added.begin, false));
    YOKE_TRY(leave_rows(call, sub, added.begin, added.end, true));
    YOKE_TRY(leave_rows(call, sub, added.end, sub->rows.N, false));
    YOKE_TRY(yokei_rows_sum(call, &sub->rows, call->y));
    return sub->drop > 0 ? yokei_drop_rows(sub->layer, call, "residual", sub->drop, &sub->rows, call->y,
                                           call->x, call->y)
                         : YOKE_OK;
}

/* dy as `out` needs it, for own rows and for all rows. */
static const void *own_dy(const struct yoke_layer_call *call, const struct yokei_gpt2_sublayer *sub)
{
    return sub->dropped ? sub->dropped : call->dy;
}
static const void *dy_of(const struct yoke_layer_call *call, const struct yokei_gpt2_sublayer *sub)
{
    return sub->dy ? sub->dy : own_dy(call, sub);
}

yoke_status yokei_gpt2_backward_leave(const struct yoke_layer_call *call,
                                      const struct yokei_gpt2_sublayer *sub, void *douter)
{
    if (sub->drop > 0)
        YOKE_TRY(yokei_drop_rows(sub->layer, call, "residual", sub->drop, &sub->rows, call->dy, NULL,
                                 sub->dropped));
    if (sub->dy) YOKE_TRY(yokei_rows_gather(call, &sub->rows, own_dy(call, sub), sub->dy));
    return yokei_linear_backward_input(call, &sub->out, dy_of(call, sub),
                                       call->weights[YOKEI_GPT2_OUT_WEIGHT], douter, call->shape->dtype);
}

yoke_status yokei_gpt2_backward_enter(const struct yoke_layer_call *call,
                                      const struct yokei_gpt2_sublayer *sub)
{
    const void *const *w = call->weights;
    YOKE_TRY(yokei_linear_backward_input(call, &sub->in, sub->dinner, w[YOKEI_GPT2_IN_WEIGHT],
                                         yokei_rows_partial(&sub->rows, sub->dln), sub->rows.sum));
    YOKE_TRY(yokei_rows_sum(call, &sub->rows, sub->dln));
    return yokei_norm_backward_input(call, &sub->norm, sub->dln, call->x, w[YOKEI_GPT2_GAMMA], call->dy,
                                     call->dx);
}

yoke_status yokei_gpt2_backward_weight(const struct yokei_gpt2_type *type, const yoke_layer *layer,
                                       const struct yoke_layer_call *call)
{
    struct yokei_gpt2_sublayer fields;
    const struct yokei_gpt2_sublayer *sub = &fields;
    size_t bytes[YOKE_N_PARTS];
    yokei_gpt2_lay_out(type, layer, call->shape, call, &fields, bytes);
    void *const *g = call->gradients;
    const void *ln;
    YOKE_TRY(
        yokei_linear_backward_weight(call, &sub->out, sub->outer, dy_of(call, sub), YOKEI_GPT2_OUT_WEIGHT));
    YOKE_TRY(yokei_bias_backward(call, sub->rows.n_own, sub->rows.C, own_dy(call, sub), sub->rows.C,
                                 g[YOKEI_GPT2_OUT_BIAS]));
    YOKE_TRY(yokei_rows_all(call, &sub->rows, sub->ln, &ln));
    YOKE_TRY(yokei_linear_backward_weight(call, &sub->in, ln, sub->dinner, YOKEI_GPT2_IN_WEIGHT));
    YOKE_TRY(
        yokei_bias_backward(call, sub->in.N, sub->in.out, sub->dinner, sub->in.out, g[YOKEI_GPT2_IN_BIAS]));
    return yokei_norm_backward_weight(call, &sub->norm, YOKEI_GPT2_GAMMA, YOKEI_GPT2_BETA);
}
