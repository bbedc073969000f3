/* SPDX-License-Identifier: Apache-2.0 */
/** What a rank writes into its record and reports to the other ranks about a failure or a wait: report.c. */
#ifndef COLLECTIVES_FAULTS_REPORT_H
#define COLLECTIVES_FAULTS_REPORT_H

#include "collectives/ground/comm.h"

/** Write into this rank's record that the communicator has failed, and why. */
void yokei_record_failure(const yoke_comm *comm);
/**
 * Report the communicator's error to the other ranks. A thread that may not call MPI reports it only to the
 * ranks of this host. Then failure.unreported stays set, and another thread calls this later.
 */
void yokei_report_failure(yoke_comm *comm);
/** Fail if another rank has reported that the communicator failed. Cheap enough for every call. */
void yokei_receive_reports(yoke_comm *comm);
/**
 * Ask the members on other hosts what they call and for which rank they wait. Members on this host have this
 * in their records.
 */
void yokei_probe(yoke_comm *comm, struct yokei_op *op, uint64_t now);
/**
 * Whether the rank's record may say what this communicator's operation waits for. While a thread is blocked
 * in a call, the record says what that call waits for.
 */
static inline bool yokei_records_wait(const yoke_comm *comm)
{
    return !atomic_load_explicit(&yokei_process.n_blocked, memory_order_relaxed)
           || atomic_load_explicit(&comm->work.n_awaited, memory_order_relaxed);
}

#endif
