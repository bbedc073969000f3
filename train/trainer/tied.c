/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tied parameters that the first and the last stage both hold, if these stages have different widths. Then no
 * rank of one stage has a counterpart with the same elements in the other stage. A pair is one rank of each
 * stage whose rows overlap. Each pair sums its common rows over its own communicator. Every element is in one
 * pair, so it is added once, and both ranks get the same bits.
 */
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "train/trainer/trainer.h"

/* How rank t of stage s declares logical parameter p. False: that stage does not hold the parameter. */
static bool declared_at(const struct yokei_trainer_plan *plan, const yoke_model *model,
                        const struct yoke_trainer_config *c, int p, int s, int t, struct yoke_parameter *out)
{
    const struct yoke_place place = yokei_plan_place(c, plan, s, t);
    for (int l = 0; l < model->n_layers; l++) {
        if (plan->stage_of[l] != s) continue;
        for (int i = 0; i < plan->logical.n_of_layer[l]; i++)
            if (plan->logical.of_layer[l][i] == p)
                return model->layer[l]->type->parameter(model->layer[l], &place, i, out);
    }
    return false;
}

/* The rows that the rank holds: one range of the first dimension. */
static yoke_status rows_of(const struct yoke_parameter *p, int width, struct yoke_range *out)
{
    bool simple = p->shard[0].n == (width > 1);
    for (int d = 1; d < p->n_dims; d++) simple = simple && p->shard[d].n == 0;
    if (!simple)
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "parameter %s is shared by the first and the last stage, which have different numbers of tensor ranks: it "
            "must be dealt by whole rows there; give both stages the same number (--tp)",
            p->name);
    *out = width > 1 ? p->shard[0].range[0] : (struct yoke_range){ 0, p->shape[0] };
    return YOKE_OK;
}

/* The rows that rank i of the first stage and rank j of the last stage both hold. Empty: none. */
static yoke_status overlap(const struct yokei_trainer_plan *plan, const yoke_model *model,
                           const struct yoke_trainer_config *c, int p, int i, int j,
                           struct yoke_range *first_out, struct yoke_range *last_out,
                           struct yoke_range *both_out)
{
    struct yoke_parameter a, b;
    const int last = plan->mesh.pipeline - 1;
    *both_out = (struct yoke_range){ 0, 0 };
    if (!declared_at(plan, model, c, p, 0, i, &a) || !declared_at(plan, model, c, p, last, j, &b))
        return YOKE_OK;
    YOKE_TRY(rows_of(&a, yokei_mesh_width(&plan->mesh, 0), first_out));
    YOKE_TRY(rows_of(&b, yokei_mesh_width(&plan->mesh, last), last_out));
    both_out->begin = YOKE_MAX(first_out->begin, last_out->begin);
    both_out->end = YOKE_MAX(YOKE_MIN(first_out->end, last_out->end), both_out->begin);
    return YOKE_OK;
}

static bool is_tied(const struct yokei_trainer_plan *plan, int logical)
{
    bool first = false, last = false;
    for (int l = 0; l < plan->logical.n_layers; l++)
        for (int i = 0; i < plan->logical.n_of_layer[l]; i++) {
            first = first || (plan->logical.of_layer[l][i] == logical && plan->stage_of[l] == 0);
            last = last
                   || (plan->logical.of_layer[l][i] == logical
                       && plan->stage_of[l] == plan->mesh.pipeline - 1);
        }
    return first && last;
}

/*
 * Store the piece that this rank sums over the pair `tie` of ranks i and j: its rows of parameter p that are
 * also in `both`.
 */
static yoke_status keep_piece(struct yokei_trainer_plan *plan, int p, int i, int j, struct yoke_range first,
                              struct yoke_range last, struct yoke_range both)
{
    const struct yokei_mesh *m = &plan->mesh;
    const struct yoke_parameter *whole = &plan->logical.item[p];
    const bool is_first = m->s == 0 && m->t == i, is_last = m->s == m->pipeline - 1 && m->t == j;
    if (!is_first && !is_last) return YOKE_OK;
    struct yokei_tied_piece *list = realloc(plan->tied_piece,
                                            (size_t)(plan->n_tied_pieces + 1) * sizeof *list);
    if (!list)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d pieces of tied parameters",
                         plan->n_tied_pieces + 1);
    plan->tied_piece = list;
    const int64_t columns = yokei_logical_count(whole) / whole->shape[0];
    list[plan->n_tied_pieces++] = (struct yokei_tied_piece){
        plan->n_ties, yokei_parameter_find(&plan->parameters, whole->name),
        (both.begin - (is_first ? first : last).begin) * columns, (both.end - both.begin) * columns
    };
    return YOKE_OK;
}

/* Find the parameters of which ranks i and j both hold rows. If there are any, the two ranks are a pair. */
static yoke_status plan_pair(const yoke_model *model, const struct yoke_trainer_config *c,
                             struct yokei_trainer_plan *plan, int i, int j)
{
    bool any = false;
    for (int p = 0; p < plan->logical.n; p++) {
        struct yoke_range first, last, both;
        if (!is_tied(plan, p)) continue;
        YOKE_TRY(overlap(plan, model, c, p, i, j, &first, &last, &both));
        if (yokei_is_empty(both)) continue;
        YOKE_TRY(keep_piece(plan, p, i, j, first, last, both));
        any = true;
    }
    if (any) plan->ties[plan->n_ties++] = (struct yokei_tie){ i, j };
    return YOKE_OK;
}

yoke_status yokei_plan_ties(const yoke_model *model, const struct yoke_trainer_config *c,
                            struct yokei_trainer_plan *plan)
{
    const struct yokei_mesh *m = &plan->mesh;
    const int n_first = yokei_mesh_width(m, 0), n_last = yokei_mesh_width(m, m->pipeline - 1);
    /* if the configuration has widths, these are the shares of all stages */
    const int64_t *shares = plan->tensor_shares;
    const bool alike = n_first == n_last
                       && (!shares || !m->widths
                           || !memcmp(shares, shares + plan->n_tensor_shares - n_last,
                                      (size_t)n_first * sizeof *shares));
    if (!plan->has_tied || alike) return YOKE_OK;
    plan->ties = calloc((size_t)(n_first * n_last), sizeof *plan->ties);
    if (!plan->ties)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d pairs of ranks", n_first * n_last);
    for (int i = 0; i < n_first; i++)
        for (int j = 0; j < n_last; j++) YOKE_TRY(plan_pair(model, c, plan, i, j));
    return YOKE_OK;
}

yoke_status yokei_tied_sum(struct yoke_trainer *t, yoke_stream *stream)
{
    const struct yokei_trainer_plan *plan = &t->plan;
    const struct yokei_state *s = &plan->state;
    yoke_status status = YOKE_OK;
    for (int i = 0; i < s->n && t->groups.tied; i++)
        if (plan->tied[i]) YOKE_TRY(yokei_zero_sum(t, i, t->groups.tied, stream));
    if (!plan->n_tied_pieces) return YOKE_OK;
    YOKE_TRY(yoke_group_start());
    for (int k = 0; k < plan->n_tied_pieces && !status; k++) {
        const struct yokei_tied_piece *piece = &plan->tied_piece[k];
        void *rows = yoke_at(t->base, s->slot[piece->parameter].gradient
                                          + (size_t)piece->at * yoke_dtype_bytes(s->wide));
        status = yoke_all_reduce(rows, rows, (size_t)piece->n, s->wide, YOKE_SUM, t->groups.ties[piece->tie],
                                 stream);
    }
    const yoke_status ended = yoke_group_end();
    return status ? status : ended;
}
