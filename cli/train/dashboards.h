/* SPDX-License-Identifier: Apache-2.0 */
/** Checks of the options --tensorboard and --metrics-file before a run starts. */
#ifndef CLI_TRAIN_DASHBOARDS_H
#define CLI_TRAIN_DASHBOARDS_H

#include "cli/options/options.h"

/**
 * Refuse paths that cannot be written, and paths that another option of yoke train uses too. Makes the folder
 * of --tensorboard. YOKE_EINVAL, YOKE_EIO.
 */
yoke_status cli_check_dashboards(const struct cli_options *options, const char *run_dir);

#endif
