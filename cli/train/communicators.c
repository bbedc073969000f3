/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of a training. */
#include "cli/train/communicators.h"

#include <mpi.h>
#include <stdlib.h>
#include <yoke/comm.h>

#include "core/base/base.h"

/*
 * YOKE_ALGORITHM chooses the algorithm if no plan does. The choice goes into the plan, so that a replay sums
 * in the same way. An unknown algorithm is refused when the communicator is created.
 */
static void note_algorithm(struct yokei_training *t)
{
    const char *name = getenv("YOKE_ALGORITHM");
    if (!t->plan_path && name && *name) yokei_text(t->plan.all_reduce, sizeof t->plan.all_reduce, "%s", name);
}

yoke_status cli_open_communicators(const struct cli_context *context, struct yokei_training *t)
{
    struct yoke_comm_config gradients = YOKE_COMM_CONFIG_INIT, control = YOKE_COMM_CONFIG_INIT;
    if (context->size == 1) return YOKE_OK;
    gradients.name = "gradients";
    control.name = "control";
    note_algorithm(t);
    gradients.algorithm = t->plan.all_reduce;
    gradients.chunk_bytes = (size_t)t->plan.chunk_bytes;
    if (t->plan.comm_costs[0]) gradients.costs = control.costs = t->plan.comm_costs;
    /* else from YOKE_SUM_SHARES, else measured */
    if (t->plan.comm_shares[0]) gradients.shares = control.shares = t->plan.comm_shares;
    const yoke_status status = yoke_comm_create(MPI_COMM_WORLD, t->device, &gradients, &t->comm);
    if ((status == YOKE_ECONFIG || status == YOKE_EINVAL) && t->plan_path)
        return yoke_fail_context(YOKE_ECONFIG, "%s: all_reduce, chunk_bytes, comm_costs or comm_shares",
                                 t->plan_path);
    YOKE_TRY(status);
    YOKE_TRY(yoke_comm_error(t->comm)); /* a rank may have failed in the last steps of the creation */
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, NULL, &control, &t->control));
    struct yoke_comm_choice explained;
    YOKE_TRY(yoke_comm_explain(t->comm, "all_reduce", 1, YOKE_F32, YOKE_SUM, &explained));
    yokei_text(t->plan.comm_costs, sizeof t->plan.comm_costs, "%s", explained.costs);
    yokei_text(t->plan.comm_shares, sizeof t->plan.comm_shares, "%s", explained.shares);
    return YOKE_OK;
}
