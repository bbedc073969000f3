/* SPDX-License-Identifier: Apache-2.0 */
/** yoke verify: the sweep (the series of test cases) in a child process, and its report. */
#ifndef CLI_DEVICES_VERIFY_H
#define CLI_DEVICES_VERIFY_H

#include <jansson.h>

#include "cli/cli.h"
#include "conform/conform.h"
#include "core/tune.h"

/** What the sweep found out about the device when it opened the device. */
struct verify_device {
    bool is_open;
    struct yoke_device_info info;
    struct yokei_tuning_source tuning; /* where its choices of variants come from */
};

/** A sweep: the request, and the result. */
struct verify {
    const char *spec;
    struct conform_options options;
    double hang_s; /* seconds; a case that takes longer counts as hung */
    /* called in each child when the device is open; NULL: nothing is called. Tests plant errors here. */
    void (*opened)(yoke_device *device);
    conform_callback callback;
    conform_bits_callback bits; /* if set, each case is hashed and not compared, see conform_options.bits */
    void *context;              /* of both callbacks */
    struct verify_device device;
    struct conform_summary summary;
    struct conform_line
        first;     /* the first line that failed, in conform_order; op is NULL if no line failed */
    int n_crashes; /* children that died or hung */
};

/**
 * Run the sweep in a child process, line by line. If a case kills the child, or takes longer than hang_s, its
 * line fails. A new child then continues after that case. Errors: the errors of the child's conform_run.
 * YOKE_EBACKEND: the device kills its process before the first case, or at the process's end.
 */
yoke_status verify_sweep(struct verify *v);

/**
 * The report as one JSON document. `status` and `error` are the result of the sweep as a whole. The document
 * takes over the reference to `lines`.
 */
json_t *verify_json(const struct verify *v, yoke_status status, const char *error, json_t *lines);
/** The names of the data types whose bits are set. `yoke info` prints them too. */
json_t *verify_types_json(uint32_t bits);
/** One line of the report. */
json_t *verify_line_json(const struct conform_line *line);

#endif
