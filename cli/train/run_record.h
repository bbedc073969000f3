/* SPDX-License-Identifier: Apache-2.0 */
/**
 * run.json: the options with which a run was started, and the machines on which it ran. docs/REPORTS.md
 * describes the file.
 */
#ifndef CLI_TRAIN_RUN_RECORD_H
#define CLI_TRAIN_RUN_RECORD_H

#include "cli/cli.h"
#include "train/run/loop.h"

/**
 * Gather the devices and the hosts of all ranks, and write run.json in the run directory. Collective over
 * t->comm. The device, the communicators and t->run_dir are there. YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status cli_run_record(const struct cli_context *context, const struct yokei_training *t);

#endif
