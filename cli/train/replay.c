/* SPDX-License-Identifier: Apache-2.0 */
/* yoke replay (hidden): a rank of a replay that yoke postmortem starts in the layout of a run. */
#include <string.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "cli/train/communicators.h"
#include "core/base/base.h"
#include "train/postmortem/layout.h"

static yoke_status run(const struct cli_context *context, const struct yokei_replay_order *order,
                       struct yokei_training *t)
{
    char checkpoint[4096];
    YOKE_TRY(yokei_replay_prepare(order, context->rank, checkpoint, sizeof checkpoint, t));
    YOKE_TRY(yoke_device_open(context->device ? context->device : "host", NULL, &t->device));
    YOKE_TRY(cli_open_communicators(context, t));
    const yoke_status status = yokei_replay_run(t);
    t->resume = NULL;
    /* it was asked to end behind its last step */
    return status == YOKE_EABORTED || status == YOKE_EPREEMPTED ? YOKE_OK : status;
}

yoke_status cli_replay(const struct cli_context *context)
{
    struct yokei_replay_order order;
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    if (context->n_words != 1)
        return yoke_fail(YOKE_EINVAL,
                         "yoke replay is started by yoke postmortem, and is of no use by itself");
    YOKE_TRY(yokei_replay_order_read(context->words[0], &order));
    yoke_status status = run(context, &order, &t);
    /* After a fault the other ranks may be gone. So nothing that waits for them is called. */
    if (!status && t.control) status = yoke_comm_destroy(t.control);
    if (!status && t.comm) status = yoke_comm_destroy(t.comm);
    if (!status) status = yoke_device_close(t.device);
    yokei_plan_free(&t.plan);
    yokei_replay_order_free(&order);
    return status;
}
