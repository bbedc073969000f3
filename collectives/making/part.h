/* SPDX-License-Identifier: Apache-2.0 */
/** What a communicator's configuration says. making/settings.c owns this part of struct yoke_comm. */
#ifndef COLLECTIVES_MAKING_PART_H
#define COLLECTIVES_MAKING_PART_H

#include <yoke/comm.h>

#include "collectives/operation/message.h"

struct yokei_settings {
    enum yoke_accum accum;
    enum yoke_reproducible reproducible;
    enum yoke_wait wait_policy;
    enum yoke_check check;
    int64_t timeout_ms, stall_ms;
    size_t chunk_bytes; /* most bytes of data in a message; a multiple of 64 */
    bool chunk_is_forced, no_shared;
    bool costs_given;     /* the configuration gave the costs; they were not measured */
    int forced_algorithm; /* -1: chosen by size */
    enum yoke_island island;
    /* The label of this rank's island, and a hash of all labels. "" and 0: no labels are given. */
    char label[YOKEI_ISLAND_NAME];
    uint32_t labels;
    bool labels_in_config; /* the configuration gave the labels, and not the environment or a parent */
};

#endif
