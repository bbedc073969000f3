/* SPDX-License-Identifier: Apache-2.0 */
/** yoke blackbox: print the black box of a training run. */
#ifndef CLI_SHOW_BLACKBOX_H
#define CLI_SHOW_BLACKBOX_H

#include <stdio.h>

#include "train/blackbox/box.h"

struct cli_blackbox {
    const struct yokei_boxes *boxes;
    int64_t first;  /* index of the first step to show */
    int64_t chosen; /* index of the step to show layer by layer; -1: none */
};

/** Whether an event is the same on all ranks, and this rank is not the first one that can be read. */
bool cli_blackbox_repeats(const struct yokei_boxes *boxes, int rank, const struct yokei_box_event *event);
/** The words of a record's flags, separated by commas. */
void cli_blackbox_flags(uint32_t flags, char *out, size_t bytes);

void cli_blackbox_text(const struct cli_blackbox *b, FILE *to);
/** JSON, one object per line. */
yoke_status cli_blackbox_json(const struct cli_blackbox *b, FILE *to);

#endif
