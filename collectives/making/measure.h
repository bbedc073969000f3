/* SPDX-License-Identifier: Apache-2.0 */
/** What the ranks measure together when a communicator is made: measure.c, speeds.c, probe.c. */
#ifndef COLLECTIVES_MAKING_MEASURE_H
#define COLLECTIVES_MAKING_MEASURE_H

#include "collectives/ground/comm.h"

/* ---- probe.c ---- */
enum { YOKEI_PROBE_BYTES = 64 << 10 };
/**
 * Sum once, as in the measurements of speeds and costs: the first half of data [2 YOKEI_PROBE_BYTES] += the
 * second half, in f32.
 */
void yokei_sum_once(float *data);
/**
 * Let all ranks know whether each of them has the memory for a measurement. YOKE_ENOMEM names the first rank
 * that has not. *any_out (may be NULL): before, whether something holds on this rank; after, whether it holds
 * on any rank. Collective. The lock is not held.
 */
yoke_status yokei_all_have_room(yoke_comm *comm, bool has_room, bool *any_out);

/* ---- measure.c: the cost model ---- */
/** Measure the costs with all ranks, or use an earlier measurement. Collective. The lock is not held. */
yoke_status yokei_costs_begin(yoke_comm *comm);

/* ---- speeds.c: how fast each rank sums ---- */
/**
 * Measure how fast each rank sums. speeds_out[r] is in sixteenths of the fastest rank's speed, the same on
 * all ranks. Collective. The lock is not held.
 */
yoke_status yokei_speeds_measure(yoke_comm *comm, uint32_t speeds_out[]);
/**
 * Convert bytes per second to sixteenths. same[r] is the first rank of r's group, and the ranks of a group
 * get the mean of their rates.
 */
void yokei_speeds_compare(double rates[], const int same[], int n, uint32_t speeds_out[]);

#endif
