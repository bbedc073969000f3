/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Metrics as text for Prometheus, in one of two formats: OpenMetrics 1.0, and the older text format of
 * Prometheus (0.0.4), which node_exporter reads. In OpenMetrics the lines TYPE and HELP of a counter have its
 * name without _total, there are lines UNIT, and the text ends with # EOF.
 *
 * The functions only fill a buffer, and keep an error until yokei_exposition_publish.
 */
#ifndef TRAIN_DASHBOARDS_EXPOSITION_H
#define TRAIN_DASHBOARDS_EXPOSITION_H

#include <yoke/base.h>

struct yokei_exposition {
    bool is_prometheus; /* the older format */
    bool lacks_memory;
    const char *family; /* the current family */
    bool is_counter;
    char *text;
    size_t n, capacity;
};

struct yokei_label {
    const char *name, *value;
};

/** The bytes of the UTF-8 character at `text`, which ends with a 0 byte; 0: the bytes are not UTF-8. */
size_t yokei_character_bytes(const char *text);
/** Whether a path names a file for node_exporter, which reads files with the suffix .prom. */
bool yokei_exposition_is_prometheus(const char *path);
/**
 * Begin a family of metrics. `name` is without _total. `unit` is a unit that the name ends with, such as
 * "seconds"; NULL: none. The texts need no escapes, and stay valid while the family is written.
 */
void yokei_exposition_family(struct yokei_exposition *exposition, const char *name, bool is_counter,
                             const char *unit, const char *help);
/** Add a sample of the family. Values of labels are escaped. Bytes that are not UTF-8 become U+FFFD. */
void yokei_exposition_sample(struct yokei_exposition *exposition, const struct yokei_label *labels,
                             int n_labels, double value);
/**
 * Write the text to a file, which has the old text until it has the new one. The buffer is then empty.
 * Errors: YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_exposition_publish(struct yokei_exposition *exposition, const char *path);
void yokei_exposition_free(struct yokei_exposition *exposition);

#endif
