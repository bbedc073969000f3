/* SPDX-License-Identifier: Apache-2.0 */
/** The cost model as a text: costs.c. */
#ifndef COLLECTIVES_CHOICE_COSTS_H
#define COLLECTIVES_CHOICE_COSTS_H

#include "collectives/ground/comm.h"

/** Read or write the text form, "sync_us=0.25,shared_gbps=21,...". YOKE_ECONFIG */
yoke_status yokei_costs_read(const char *text, struct yokei_costs *costs);
void yokei_costs_text(const struct yokei_costs *costs, char *text_out, size_t bytes);
/** Copy the costs of the communicator from which this one was made. */
void yokei_costs_inherit(yoke_comm *comm, const yoke_comm *parent);
/** The fields of the costs, one after another: number i, and whether a larger value is worse. */
size_t yokei_costs_count(void);
double *yokei_costs_value(struct yokei_costs *costs, size_t i, bool *more_is_worse_out);

#endif
