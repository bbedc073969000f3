/* SPDX-License-Identifier: Apache-2.0 */
/** yoke verify: the sweep in a child process, and its report. */
#ifndef CLI_DEVICES_VERIFY_H
#define CLI_DEVICES_VERIFY_H

#include <jansson.h>

#include "cli/cli.h"
#include "conform/conform.h"
#include "core/tune.h"

/** What the sweep found out about the device when it was opened. */
struct verify_device {
    bool is_open;
    struct yoke_device_info info;
    struct yokei_tuning_source tuning; /* where its choices of variants come from */
};

/** A sweep: what was asked for, and what came of it. */
struct verify {
    const char *spec;
    struct conform_options options;
    double hang_s;          /* a case that takes longer counts as hung */
    void (*opened)(yoke_device *device); /* called in each child when the device is open; NULL: nothing. Tests plant errors here. */
    conform_callback callback;
    void *context;
    struct verify_device device;
    struct conform_summary summary;
    struct conform_line first; /* the first line that failed, in conform_order; op is NULL where none did */
    int n_crashes;             /* children that died or hung */
};

/**
 * Run the sweep in a child process, line by line. A case that kills the child, or takes longer than hang_s, is a line that fails,
 * and a new child goes on behind it. Errors: what the child's conform_run reports; YOKE_EBACKEND where the device kills its
 * process before the first case, or at its end.
 */
yoke_status verify_sweep(struct verify *v);

/** The report as one JSON document. `status` and `error`: what the sweep as a whole ended with; `lines` is taken over. */
json_t *verify_json(const struct verify *v, yoke_status status, const char *error, json_t *lines);
/** One line of it. */
json_t *verify_line_json(const struct conform_line *line);

#endif
