/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy rates and peaks of one device, measured briefly in a child process. Versions of libraries,
 * found in a child process too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>
#include <jansson.h>

#include "cli/devices/child.h"
#include "cli/devices/info.h"
#include "cli/options/progress.h"
#include "core/backend.h"
#include "core/base/base.h"
#include "core/base/times.h"

#define COPY_BYTES (64u << 20)
#define REPEATS 5
#define LIMIT_SECONDS 120.0 /* includes the first compilation of a device's kernels */

const yoke_dtype cli_speed_types[CLI_N_SPEED_TYPES] = { YOKE_F32, YOKE_BF16, YOKE_F16 };

enum copy_kind { TO_DEVICE, TO_HOST };

static yoke_status time_copy(yoke_stream *stream, enum copy_kind kind, void *memory, void *host, size_t bytes,
                             double *rate_out)
{
    double seconds[REPEATS];
    for (int i = -1; i < REPEATS; i++) { /* the first one warms up */
        uint64_t start = yokei_now_ns();
        if (kind == TO_DEVICE) YOKE_TRY(yoke_copy_to_device(stream, memory, host, bytes));
        if (kind == TO_HOST) YOKE_TRY(yoke_copy_to_host(stream, host, memory, bytes));
        YOKE_TRY(yoke_stream_sync(stream));
        if (i >= 0) seconds[i] = (double)(yokei_now_ns() - start) * 1e-9;
    }
    qsort(seconds, REPEATS, sizeof *seconds, yokei_by_value);
    *rate_out = (double)bytes / seconds[REPEATS / 2];
    return YOKE_OK;
}

static yoke_status measure_copies(yoke_device *device, yoke_stream *stream, struct cli_speed *out)
{
    void *memory = NULL, *host = malloc(COPY_BYTES);
    yoke_status status = host ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no memory for the measurement");
    if (!status) memset(host, 1, COPY_BYTES);
    if (!status) status = yoke_alloc(device, COPY_BYTES, &memory);
    if (!status) status = time_copy(stream, TO_DEVICE, memory, host, COPY_BYTES, &out->to_device);
    if (!status) status = yokei_copy_rate(device, &out->copy);
    if (!status) status = time_copy(stream, TO_HOST, memory, host, COPY_BYTES, &out->to_host);
    yoke_free(device, memory);
    free(host);
    return status;
}

static void measure_speed(const void *argument, void *result)
{
    const char *spec = argument;
    struct cli_speed *out = result;
    yoke_device *device;
    yoke_stream *stream;
    cli_progress_now("%s, copies", spec);
    if (yoke_device_open(spec, NULL, &device) || yoke_stream_create(device, &stream)
        || measure_copies(device, stream, out)) {
        yokei_text(out->error, sizeof out->error, "%s", yoke_last_error());
        return;
    }
    for (int t = 0; t < CLI_N_SPEED_TYPES; t++) {
        cli_progress_now("%s, products in %s", spec, yoke_dtype_name(cli_speed_types[t]));
        if (yoke_gemm_peak(device, cli_speed_types[t], &out->gemm[t], &out->gemm_size[t]))
            yokei_text(out->reason[t], sizeof out->reason[t], "%s", yoke_last_error());
    }
}

void cli_measure_device(const char *spec, struct cli_speed *out)
{
    char reason[200] = "";
    memset(out, 0, sizeof *out);
    if (!cli_in_child(measure_speed, spec, out, sizeof *out, LIMIT_SECONDS, reason, sizeof reason))
        yokei_text(out->error, sizeof out->error, "the measurement %s", reason);
}

/* ---- versions ---- */

struct libraries {
    int n, capacity;
    struct cli_library list[16];
};

static void add_library(struct libraries *to, const char *name, const char *format, ...) YOKE_PRINTF(3, 4);
static void add_library(struct libraries *to, const char *name, const char *format, ...)
{
    if (to->n == (int)YOKE_COUNT(to->list)) return;
    struct cli_library *l = &to->list[to->n++];
    va_list args;
    yokei_text(l->name, sizeof l->name, "%s", name);
    va_start(args, format);
    vsnprintf(l->version, sizeof l->version, format, args);
    va_end(args);
}

static void ask_mpich(struct libraries *to)
{
    int (*version)(char *, int *);
    char reason[200], text[8192]; /* size is MPI_MAX_LIBRARY_VERSION_STRING */
    int length;
    const struct yokei_symbol symbols[] = { { "MPI_Get_library_version", &version } };
    if (!yokei_dl_open((const char *const[]){ "libmpich.so.12", "libmpi.so.12", NULL }, symbols, 1, reason,
                       sizeof reason)) {
        add_library(to, "MPICH", "not found: %s", reason);
        return;
    }
    version(text, &length);
    const char *device = strstr(text, "MPICH Device:");
    const char *number = strstr(text, "MPICH Version:");
    number = number ? number + strlen("MPICH Version:") : text;
    number += strspn(number, " \t");
    device = device ? device + strlen("MPICH Device:") : "";
    device += strspn(device, " \t");
    add_library(to, "MPICH", "%.*s (%.*s)", (int)strcspn(number, "\n"), number, (int)strcspn(device, "\n"),
                device);
}

static void ask_onednn(struct libraries *to)
{
    /* the beginning of dnnl_version_t, unchanged since oneDNN 1.0 */
    struct version {
        int major, minor, patch;
        const char *hash;
    };
    const struct version *(*version)(void);
    char reason[200];
    const struct yokei_symbol symbols[] = { { "dnnl_version", &version } };
    if (yokei_dl_open((const char *const[]){ "libdnnl.so.2", "libdnnl.so.3", "libdnnl.so", NULL }, symbols, 1,
                      reason, sizeof reason))
        add_library(to, "oneDNN", "%d.%d.%d", version()->major, version()->minor, version()->patch);
    else
        add_library(to, "oneDNN", "not found: %s", reason);
}

static void ask_others(struct libraries *to)
{
    unsigned (*hwloc)(void);
    int (*pcre2)(uint32_t what, void *where);
    char version[64];
    char *(*openblas)(void);
    char reason[200];
    if (yokei_dl_open((const char *const[]){ "libhwloc.so.15", "libhwloc.so", NULL },
                      (const struct yokei_symbol[]){ { "hwloc_get_api_version", &hwloc } }, 1, reason,
                      sizeof reason))
        add_library(to, "hwloc", "%u.%u.%u", hwloc() >> 16, hwloc() >> 8 & 255, hwloc() & 255);
    if (yokei_dl_open((const char *const[]){ "libOpenCL.so.1", NULL }, NULL, 0, reason, sizeof reason))
        add_library(to, "OpenCL loader", "found");
    else
        add_library(to, "OpenCL loader", "not found: %s", reason);
    if (yokei_dl_open((const char *const[]){ "libclblast.so.1", NULL }, NULL, 0, reason, sizeof reason))
        add_library(to, "CLBlast", "found (used by benchmarks only)");
    else
        add_library(to, "CLBlast", "not found (used by benchmarks only)");
    if (yokei_dl_open((const char *const[]){ "libopenblas.so.0", NULL },
                      (const struct yokei_symbol[]){ { "openblas_get_config", &openblas } }, 1, reason,
                      sizeof reason))
        add_library(to, "OpenBLAS", "%s (used by benchmarks only)", openblas());
    else
        add_library(to, "OpenBLAS", "not found (used by benchmarks only)");
    if (yokei_dl_open((const char *const[]){ "libpcre2-8.so.0", NULL },
                      (const struct yokei_symbol[]){ { "pcre2_config_8", &pcre2 } }, 1, reason, sizeof reason)
        && pcre2(11 /* PCRE2_CONFIG_VERSION */, NULL) <= (int)sizeof version && pcre2(11, version) > 0)
        add_library(to, "PCRE2", "%s", version);
    add_library(to, "jansson", "%s", JANSSON_VERSION);
    add_library(to, "libyaml", "%s", yaml_get_version_string());
}

static void ask_versions(const void *argument, void *result)
{
    (void)argument;
    ask_mpich(result);
    ask_onednn(result);
    ask_others(result);
}

int cli_libraries(struct cli_library *out, int capacity)
{
    struct libraries *found = calloc(1, sizeof *found);
    char reason[200];
    int n = 0;
    if (found && !cli_in_child(ask_versions, NULL, found, sizeof *found, 10, reason, sizeof reason))
        add_library(found, "libraries", "could not be asked: %s", reason);
    for (; found && n < found->n && n < capacity; n++) out[n] = found->list[n];
    free(found);
    return n;
}
