/* SPDX-License-Identifier: Apache-2.0 */
/** The devices and the links that yoke plan --search has measured itself, as a part of the memo. */
#ifndef CLI_TRAIN_MEMO_MEASURED_H
#define CLI_TRAIN_MEMO_MEASURED_H

#include <stdio.h>

#include "train/search/cluster.h"

/** The file that the memo's commands make of the measured devices. */
#define CLI_MEMO_CLUSTER "memo-cluster.yaml"

/** The speeds of the measured devices in one precision, and the links, as tables. */
void cli_memo_measured(const struct yokei_cluster *cluster, yoke_dtype precision, double seconds, FILE *to);
/** The command that writes CLI_MEMO_CLUSTER. The errors are those of yokei_cluster_text. */
yoke_status cli_memo_cluster_command(const struct yokei_cluster *cluster, FILE *to);

#endif
