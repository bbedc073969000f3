/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run, in which the slices of the optimizer states may follow the ranks' free memory. */
#include <stdlib.h>
#include "core/base/base.h"
#include "train/trainer/trainer.h"

/*
 * Plan again with slices by free memory, if equal slices are too much for a device and other devices have
 * room.
 */
static yoke_status plan_by_memory(const yoke_model *model, yoke_device *device,
                                  const struct yoke_trainer_config *config, struct yokei_trainer_plan *p)
{
    struct yoke_trainer_config c = *config;
    const int rank = p->rank, n_ranks = p->n_ranks;
    bool uneven = false;
    int64_t *shares = calloc((size_t)p->mesh.data, sizeof *shares);
    yoke_status status = shares ? YOKE_OK
                                : yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d replicas",
                                            p->mesh.data);
    if (!status) status = yokei_zero_shares(&c, device, p, shares, &uneven);
    if (status || uneven) yokei_trainer_plan_free(p);
    c.zero_shares = shares;
    if (!status && uneven) status = yokei_trainer_plan_as(model, device, &c, rank, n_ranks, p);
    free(shares);
    return status;
}

yoke_status yokei_trainer_plan(const yoke_model *model, yoke_device *device, struct yoke_trainer_config *c,
                               struct yokei_trainer_plan *p)
{
    int rank, n_ranks;
    yokei_ranks(c, &rank, &n_ranks);
    YOKE_TRY(yokei_trainer_plan_as(model, device, c, rank, n_ranks, p));
    return c->comm && !c->zero_shares && p->state.is_divided ? plan_by_memory(model, device, c, p) : YOKE_OK;
}

yoke_status yoke_trainer_plan_memory(const yoke_model *model, yoke_device *device,
                                     const struct yoke_trainer_config *config,
                                     struct yoke_memory_report *report_out)
{
    struct yokei_trainer_plan plan;
    if (!model || !device || !config || !report_out)
        return yoke_fail(YOKE_EINVAL, "yoke_trainer_plan_memory: a pointer is null");
    struct yoke_trainer_config c = *config;
    YOKE_TRY(yokei_trainer_plan(model, device, &c, &plan));
    *report_out = plan.report;
    yokei_trainer_plan_free(&plan);
    return YOKE_OK;
}
