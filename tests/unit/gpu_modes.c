/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of every op with (buffer, offset) addresses, each with its first variant. tests/conform runs
 * its sweep with shared virtual memory; this test runs the other one of the two memory modes. Prints TAP.
 */
#include "conform/conform.h"
#include "core/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_lines, n_bad;

static void on_line(void *context, const struct conform_line *line)
{
    (void)context;
    char text[1024];
    conform_text(line, text, sizeof text);
    for (char *p = text; *p; p++)
        if (*p == '#') *p = ' '; /* TAP's own mark */
    const bool bad = line->verdict != CONFORM_PASS;
    n_bad += bad;
    printf("%sok %d - %s\n", bad ? "not " : "", ++n_lines, text);
    fflush(stdout);
}

int main(void)
{
    yoke_device *device;
    setenv("YOKE_OPENCL_ADDRESS", "buffer", 1);
    yoke_status status = yoke_device_open("opencl:0", NULL, &device);
    if (status == YOKE_ENODEV) {
        printf("ok 1 - no OpenCL device # SKIP %s\n1..1\n", yoke_last_error());
        return 0;
    }
    for (int op = 0; !status && op < YOKE_N_OPS; op++) {
        struct conform_options options = CONFORM_OPTIONS_INIT;
        struct conform_summary summary = { 0 };
        options.op = yokei_op_names[op];
        options.variant = yoke_variant_name(device, options.op, 0);
        options.seed = 7;
        /*
         * Addresses do not depend on the storage type, and the first compilation of each program takes a
         * second or more. So 16 bits are tested only where types meet.
         */
        options.dtype = op == YOKE_OP_gemm ? NULL : "f32";
        status = conform_run(device, &options, on_line, NULL, &summary);
    }
    if (!status) status = yoke_device_close(device);
    printf("%sok %d - every op ran%s%s\n1..%d\n", status ? "not " : "", n_lines + 1, status ? ": " : "",
           status ? yoke_last_error() : "", n_lines + 1);
    return status || n_bad;
}
