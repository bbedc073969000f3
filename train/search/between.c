/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor group on two hosts would cost. The search leaves such groups out. */
#include <math.h>
#include "core/base/base.h"
#include "train/models/model.h"
#include "train/search/predict.h"

/* The time of a message of these bytes between any two hosts, at least. */
static double least_message(const struct yokei_cluster *c, double bytes)
{
    double least = INFINITY;
    for (int a = 0; a < c->n_hosts; a++)
        for (int b = 0; b < c->n_hosts; b++) {
            if ((a == b && c->host[a].n == 1) || c->between[a][b] < 0) continue;
            const struct yokei_link *link = &c->link[c->between[a][b]];
            least = fmin(least, link->seconds + bytes / link->bytes_per_second);
        }
    return least;
}

yoke_status yokei_tensor_between(const struct yokei_predict_config *c, const struct yokei_layout *l,
                                 double *passes_out, double *sums_out)
{
    enum { SUMS = 4, RANKS = 2 }; /* sums of a block: two in F, and two in B */
    const yoke_model *model = c->model;
    const double bytes = (double)(l->micro_batch * c->sequence)
                         * (double)model->layer[model->before + model->per_block - 1]->out
                         * (double)yoke_dtype_bytes(c->precision);
    yokei_predictor *predictor;
    struct yokei_unit u;
    *passes_out = *sums_out = 0;
    const double message = least_message(c->cluster, bytes / RANKS);
    if (isinf(message)) return YOKE_OK;
    YOKE_TRY(yokei_predictor_create(c, &predictor));
    const yoke_status status = yokei_predict_unit(predictor, 1, false, 0, l->micro_batch, l->kind[0], &u);
    yokei_predictor_destroy(predictor);
    YOKE_TRY(status);
    *passes_out = (u.block.F + u.block.B + u.block.W) / RANKS;
    *sums_out = SUMS * 2 * (RANKS - 1) * message;
    return YOKE_OK;
}
