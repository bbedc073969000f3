/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors in a kernel of the host. The rotary embedding is compiled once more, with an error in its
 * store. It replaces the kernel of one instruction set. The sweep of this instruction set must report each
 * error, and must pass the same text without an error.
 */
#include "backends/host/kernels.h"
#include "conform/conform.h"

#include <stdio.h>

static enum { SOUND, TRUNCATES, WITHOUT_LAST_COLUMN, N_ERRORS } error;

/* The store of vec.h, with an error. */
static void wrong_store(yoke_dtype t, void *p, int64_t i, int64_t n, vf v)
{
    if (error == TRUNCATES && t == YOKE_BF16) {
        float x[VL];
        vstore_n(YOKE_F32, x, 0, n, v);
        for (int64_t j = 0; j < n; j++) ((uint16_t *)p)[i + j] = (uint16_t)(yokei_f32_bits(x[j]) >> 16);
    } else {
        vstore_n(t, p, i, error == WITHOUT_LAST_COLUMN && n < VL ? n - 1 : n, v);
    }
}

#define vstore_n wrong_store
#include "backends/host/rope.c"

/* The function of the backend that the kernel calls. The library does not export it. */
void host_for(yoke_stream *stream, int64_t n, int64_t grain, host_range *run, const void *context)
{
    (void)stream, (void)grain;
    run(context, 0, n);
}

static void keep(void *context, const struct conform_line *line)
{
    if (line->verdict == CONFORM_FAIL) conform_text(line, context, 1400);
}

int main(void)
{
    static const char *const names[N_ERRORS] = {
        "the same text without an error, which passes",
        "a store to bf16 that truncates, in a kernel of the host",
        "a last column that is not stored, in a kernel of the host"
    };
    yoke_device *device;
    int n_bad = 0;
    if (yoke_device_open("host", NULL, &device)) {
        printf("not ok 1 - the host device opens: %s\n1..1\n", yoke_last_error());
        return 1;
    }
    struct host_device *host = device->impl;
    /* the generic instruction set, for which this file is compiled */
    struct host_isa isa = *host->isas[host->n_isas - 1];
    isa.ops[YOKE_OP_rope] = &HOST_NAME(host_rope);
    host->isas[host->n_isas - 1] = &isa;
    for (error = SOUND; error < N_ERRORS; error++) {
        struct conform_options options = CONFORM_OPTIONS_INIT;
        struct conform_summary summary = { .n_fail = -1 };
        char text[1400] = "";
        options.op = "rope";
        options.dtype = "bf16";
        options.variant = isa.name;
        const yoke_status status = conform_run(device, &options, keep, text, &summary);
        const bool good = !status && (error ? summary.n_fail == 1 : summary.n_pass == 1 && !summary.n_fail);
        printf("%sok %d - %s%s\n# %s\n", good ? "" : "not ", (int)error + 1, error ? "caught: " : "",
               names[error], status ? yoke_last_error() : text);
        n_bad += !good;
    }
    yoke_device_close(device);
    printf("1..%d\n", N_ERRORS);
    return n_bad > 0;
}
