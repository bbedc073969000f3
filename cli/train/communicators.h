/* SPDX-License-Identifier: Apache-2.0 */
/** The communicators of a training. */
#ifndef CLI_TRAIN_COMMUNICATORS_H
#define CLI_TRAIN_COMMUNICATORS_H

#include "cli/cli.h"
#include "train/run/loop.h"

/**
 * Open t->comm and t->control over all ranks, as the plan says, and write the choices into the plan. One rank
 * has none. Collective. Errors: YOKE_ECONFIG (the plan), and those of yoke_comm_create.
 */
yoke_status cli_open_communicators(const struct cli_context *context, struct yokei_training *t);

#endif
