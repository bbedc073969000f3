/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Event files of TensorBoard. A file is a list of records (TFRecord: length, checksums, data). The data of a
 * record is a protobuf message Event of TensorBoard's event.proto. This writer encodes the few messages that
 * it needs by hand.
 *
 * An event has a step, and any number of values: scalars, texts and histograms. Values are added between
 * yokei_events_begin and yokei_events_end. These functions only fill a buffer, and keep an error until
 * yokei_events_flush.
 */
#ifndef TRAIN_DASHBOARDS_TFEVENTS_H
#define TRAIN_DASHBOARDS_TFEVENTS_H

#include <yoke/base.h>

struct yokei_events;

/** Buckets of each sign: four for each power of two from 2^-64 to 2^32. */
enum { YOKEI_HISTOGRAM_SIDE = 384, YOKEI_HISTOGRAM_BUCKETS = 2 * YOKEI_HISTOGRAM_SIDE + 1 };

/** The finite values of some elements, counted. */
struct yokei_histogram {
    double min, max, sum, squares;
    int64_t *count; /* [YOKEI_HISTOGRAM_BUCKETS] from negative to positive values */
};
/** Count values. They must be finite. */
void yokei_histogram_add(struct yokei_histogram *histogram, const float *values, int64_t n);
/** The upper end of a bucket. */
double yokei_histogram_limit(int bucket);

/**
 * Create a new event file in a folder. The folder is made if it does not exist. The name has the time and the
 * host, and no other file has it. *older_out says whether the folder has other event files. Errors: YOKE_EIO,
 * YOKE_ENOMEM.
 */
yoke_status yokei_events_open(const char *folder, struct yokei_events **events_out, bool *older_out);
/** The path of the file. */
const char *yokei_events_path(const struct yokei_events *events);

/** Begin an event. `seconds` is the time since 1970. */
void yokei_events_begin(struct yokei_events *events, double seconds, int64_t step);
/**
 * Add a value to the event. `about` is a description that TensorBoard shows; NULL: none. A description
 * belongs only to the first value of a tag. TensorBoard's values are f32.
 */
void yokei_events_scalar(struct yokei_events *events, const char *tag, const char *about, double value);
/** Add a text in Markdown. */
void yokei_events_text(struct yokei_events *events, const char *tag, const char *about, const char *text);
void yokei_events_histogram(struct yokei_events *events, const char *tag, const char *about,
                            const struct yokei_histogram *histogram);
void yokei_events_end(struct yokei_events *events);
/**
 * Add an event that says that a run begins here. TensorBoard's readers then drop the values of this and of
 * later steps that they have read from earlier files of the folder.
 */
void yokei_events_start(struct yokei_events *events, double seconds, int64_t step);
/** Whether there are events that yokei_events_flush has not written. */
bool yokei_events_are_pending(const struct yokei_events *events);
/**
 * Write the events to the file. After an error, the file has only whole records, and the events are lost. The
 * caller may go on. Errors: YOKE_EIO (also if the file was deleted), YOKE_ENOMEM.
 */
yoke_status yokei_events_flush(struct yokei_events *events);
/** Flush and close. NULL is allowed. */
yoke_status yokei_events_close(struct yokei_events *events);

#endif
