/* SPDX-License-Identifier: Apache-2.0 */
/** yoke plan --search without a cluster file: measure the devices of this machine. */
#ifndef CLI_TRAIN_PLAN_MEASURE_H
#define CLI_TRAIN_PLAN_MEASURE_H

#include "cli/cli.h"
#include "train/search/cluster.h"

/**
 * Start yoke bench cluster on the ranks of --ranks and --devices, and read what it has measured. A note says
 * how long this took, and how to keep the file. Errors: that of the job, whose text it has printed itself;
 * YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status cli_plan_measure(const struct cli_options *options, struct yokei_cluster *cluster_out,
                             double *seconds_out);

#endif
