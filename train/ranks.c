/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer asks of the other ranks: two collectives. A rank without communicators is alone. */
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "train/trainer.h"

void yokei_ranks(const struct yoke_trainer_config *config, int *rank_out, int *n_ranks_out)
{
    *rank_out = config->comm ? yoke_comm_rank(config->comm) : 0;
    *n_ranks_out = config->comm ? yoke_comm_size(config->comm) : 1;
}

yoke_status yokei_ranks_gather(const struct yoke_trainer_config *config, const double *mine, int n, double *all)
{
    if (!config->comm) {
        memcpy(all, mine, (size_t)n * sizeof *mine);
        return YOKE_OK;
    }
    if (!config->control)
        return yoke_fail(YOKE_EINVAL, "trainer: a communicator over the device needs one over host memory beside it (control)");
    return yoke_all_gather(mine, all, (size_t)n, YOKE_F64, config->control, NULL);
}

yoke_status yokei_ranks_agree(const struct yoke_trainer_config *config, uint64_t hash, const char *what)
{
    int rank, n_ranks;
    yokei_ranks(config, &rank, &n_ranks);
    double mine = (double)(hash >> 12), *all = calloc((size_t)n_ranks, sizeof *all); /* 52 bits: exact */
    if (!all) return yoke_fail(YOKE_ENOMEM, "comparing ranks: no host memory");
    yoke_status status = yokei_ranks_gather(config, &mine, 1, all);
    for (int r = 0; r < n_ranks && !status; r++)
        if (all[r] != all[0]) status = yoke_fail(YOKE_EMISMATCH, "ranks 0 and %d %s", r, what);
    free(all);
    return status;
}

yoke_status yokei_ranks_sum(const struct yoke_trainer_config *config, void *gradients, int64_t n, yoke_dtype dtype,
                            yoke_stream *stream)
{
    return yoke_all_reduce(gradients, gradients, (size_t)n, dtype, YOKE_SUM, config->comm, stream);
}

void yokei_ranks_busy(const struct yoke_trainer_config *config, const char *what)
{
    if (config->comm) yoke_comm_busy(config->comm, what);
    if (config->control) yoke_comm_busy(config->control, what);
}
