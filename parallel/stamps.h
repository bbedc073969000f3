/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The times of instructions on a device that measures times between events. The instruction's stream records
 * one event before the instruction and one event after it. So within a step no stream waits for the host.
 */
#ifndef PARALLEL_STAMPS_H
#define PARALLEL_STAMPS_H

#include <yoke/device.h>

struct yokei_stamps;

/**
 * Create stamps for n instructions. *stamps_out is NULL if the device measures no times. Errors: YOKE_ENOMEM,
 * YOKE_EBACKEND.
 */
yoke_status yokei_stamps_create(yoke_device *device, int n, struct yokei_stamps **stamps_out);
void yokei_stamps_free(struct yokei_stamps *stamps);
/** Begin a step. Blocks until the stream's work has ended, and then reads the host's clock. */
yoke_status yokei_stamps_start(struct yokei_stamps *stamps, yoke_stream *stream);
/** Record the event before instruction n, or the event after it. Neither call blocks. */
yoke_status yokei_stamps_begin(struct yokei_stamps *stamps, int n, yoke_stream *stream);
yoke_status yokei_stamps_end(struct yokei_stamps *stamps, int n, yoke_stream *stream);
/** The times of instruction n, on the clock of yokei_now_ns. Both are 0 if the instruction has not ended. */
yoke_status yokei_stamps_read(const struct yokei_stamps *stamps, int n, uint64_t *begin_out,
                              uint64_t *end_out);

#endif
