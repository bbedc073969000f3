/* SPDX-License-Identifier: Apache-2.0 */
/** --devices auto: look at the devices of this host, measure them, and choose (auto.h). */
#ifndef CLI_LAUNCH_LOOK_H
#define CLI_LAUNCH_LOOK_H

#include "cli/cli.h"
#include "cli/launch/auto.h"

/**
 * Look at the devices of this host for the verb and its words, and choose those for n_ranks ranks; 0: as many
 * as auto takes. The function prints a line for each device. `lines`, of `bytes` bytes, gets these lines too.
 * Errors: YOKE_ENODEV (no device; fewer than n_ranks), YOKE_ENOMEM, and those of the verb's options.
 */
yoke_status cli_look(const struct cli_context *context, const struct cli_verb *verb, int n_ranks,
                     struct cli_auto_device *devices_out, int *n_out, char *lines, size_t bytes);

/**
 * The devices of the plan that the verb repeats (--plan) or goes on from (--resume), in the order of the job's
 * ranks, and their number. "" and 0 if the verb does neither, and, for a checkpoint's plan, if this host does
 * not have its devices or -n asks for another number of ranks (n_ranks; 0: any). Errors: those of the file.
 */
yoke_status cli_look_planned(const struct cli_context *context, const struct cli_verb *verb, int n_ranks,
                             char *devices, size_t bytes, int *n_out);

#endif
