/* SPDX-License-Identifier: Apache-2.0 */
/** yoke compare: what both kinds of comparison share. */
#ifndef CLI_COMPARE_COMPARE_H
#define CLI_COMPARE_COMPARE_H

#include <jansson.h>
#include <math.h>

#include "cli/cli.h"
#include "cli/options/json_values.h"

/** The request of a comparison. */
struct compare_request {
    const char *paths[2]; /* the old and the new file or run directory */
    const char *bits[2];  /* the files of --bits, or NULL */
    double threshold;     /* 0: none */
    bool by_share;
    double loss_gate;
    bool json;
};

/** Compare two files of yoke bench kernels, or two run directories, and write the results to `to`. */
yoke_status compare_kernels(const struct compare_request *request, FILE *to);
yoke_status compare_runs(const struct compare_request *request, FILE *to);

/* ---- results.c ---- */
/** Write a document, and release it. YOKE_ENOMEM, YOKE_EIO. */
yoke_status compare_put_json(json_t *root, FILE *to);
/**
 * The error of a value that is wrong in a file that was read. yokei_json_read calls this a wrong
 * configuration, but here the file is data.
 */
yoke_status compare_as_data(yoke_status status);

#endif
