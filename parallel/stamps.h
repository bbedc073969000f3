/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The times of instructions on a device that measures times between events. Two events stand around each
 * instruction in its stream, so the streams go on without waiting for the host.
 */
#ifndef PARALLEL_STAMPS_H
#define PARALLEL_STAMPS_H

#include <yoke/device.h>

struct yokei_stamps;

/** For n instructions. *stamps_out is NULL if the device measures no times. YOKE_ENOMEM, YOKE_EBACKEND. */
yoke_status yokei_stamps_create(yoke_device *device, int n, struct yokei_stamps **stamps_out);
void yokei_stamps_free(struct yokei_stamps *stamps);
/** Begin a step. Blocks until the stream's work has ended, so that the host's clock can be read. */
yoke_status yokei_stamps_start(struct yokei_stamps *stamps, yoke_stream *stream);
/** Stand before, or behind, instruction n. Neither call blocks. */
yoke_status yokei_stamps_begin(struct yokei_stamps *stamps, int n, yoke_stream *stream);
yoke_status yokei_stamps_end(struct yokei_stamps *stamps, int n, yoke_stream *stream);
/** The times of instruction n, by yokei_now_ns. Both are 0 if the instruction has not ended. */
yoke_status yokei_stamps_read(const struct yokei_stamps *stamps, int n, uint64_t *begin_out,
                              uint64_t *end_out);

#endif
