/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --devices auto decides, for machines that are written down here: the devices as the drivers report
 * them, and the speeds that a measurement would give.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/launch/auto.h"
#include "core/base/base.h"
#include "tests/unit/test.h"

static struct yoke_backend_report reports[CLI_AUTO_REPORTS];
static int n_reports;
static struct cli_auto_device found[CLI_AUTO_DEVICES];
static int n_found, n_measured;
struct speed {
    const char *spec;
    double speed;
};
static const struct speed *table; /* ends with a row without a spec */
static double pair[2];

static void backend(const char *name, const char *reason)
{
    struct yoke_backend_report *r = &reports[n_reports++];
    *r = (struct yoke_backend_report){ .size = sizeof *r };
    yokei_text(r->name, sizeof r->name, "%s", name);
    yokei_text(r->reason, sizeof r->reason, "%s", reason);
}

/* Add a device to the last backend. */
static void device(const char *name, const char *features)
{
    struct yoke_backend_report *r = &reports[n_reports - 1];
    struct yoke_device_info *d = &r->devices[r->n_devices];
    *d = (struct yoke_device_info){ .size = sizeof *d, .index = r->n_devices };
    yokei_text(d->backend, sizeof d->backend, "%s", r->name);
    yokei_text(d->name, sizeof d->name, "%s", name);
    yokei_text(d->features, sizeof d->features, "%s", features);
    if (!strcmp(r->name, "host") || !strcmp(r->name, "reference"))
        yokei_text(d->spec, sizeof d->spec, "%s", r->name);
    else
        yokei_text(d->spec, sizeof d->spec, "%s:%d", r->name, r->n_devices);
    r->n_devices++;
}

static bool alone(void *context, const char *spec, double *speed_out, char *why, size_t bytes)
{
    (void)context;
    n_measured++;
    for (const struct speed *s = table; s && s->spec; s++)
        if (!strcmp(s->spec, spec)) *speed_out = s->speed;
    if (*speed_out > 0) return true;
    yokei_text(why, bytes, "out of order");
    return false;
}

static bool together(void *context, const char *const specs[2], double speeds_out[2], char *why, size_t bytes)
{
    (void)context, (void)specs;
    yokei_text(why, bytes, "not together");
    memcpy(speeds_out, pair, sizeof pair);
    return pair[0] > 0;
}

/* The devices that are taken, as text. */
static const char *taken(const struct speed *s, const char *not_divided, int batch)
{
    static char text[512];
    const struct cli_auto_job job = { not_divided, batch };
    const struct cli_auto_measure measure = { NULL, alone, together };
    table = s;
    n_measured = 0;
    n_found = cli_auto_choose(reports, n_reports, &job, &measure, found);
    cli_auto_list(found, n_found, true, text, sizeof text);
    return text;
}

static const char *why(const char *spec)
{
    for (int i = 0; i < n_found; i++)
        if (!strcmp(found[i].info.spec, spec)) return found[i].why;
    fail_msg("%s was not looked at", spec);
    return "";
}

static void begin(void)
{
    n_reports = 0;
    memset(pair, 0, sizeof pair);
    backend("host", "");
    device("a CPU", "avx512");
}

static void one_gpu_of_two_backends(void **state)
{
    (void)state;
    begin();
    backend("opencl", "");
    device("NVIDIA H100", "gpu buffer-offsets pci=0000:17:00.0");
    device("NVIDIA H100", "gpu buffer-offsets pci=0000:65:00.0"); /* as if CUDA could not use it */
    device("a CPU", "cpu svm-fine");
    backend("cuda", "");
    device("NVIDIA H100", "gpu sm_90 pci=0000:17:00.0");
    backend("reference", "");
    device("float64", "");
    const struct speed s[] = { { "cuda:0", 5000 }, { "opencl:1", 900 }, { "host", 40 }, { 0 } };
    assert_string_equal("cuda:0,opencl:1", taken(s, NULL, 16));
    assert_non_null(strstr(why("opencl:0"), "the same GPU as cuda:0 (PCI 0000:17:00.0)"));
    assert_non_null(strstr(why("opencl:2"), "the host's own processor"));
    assert_non_null(strstr(why("host"), "40.0 sequences/s beside 5900.0"));
    assert_int_equal(5, n_found); /* the reference backend is for tests */
    /* the user hides it */
    yokei_text(reports[1].devices[1].driver, 64, "570.1 (OpenCL 3.0 CUDA 12.8)");
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    assert_string_equal("cuda:0", taken(s, NULL, 16));
    assert_string_equal("not in CUDA_VISIBLE_DEVICES", why("opencl:1"));
    unsetenv("CUDA_VISIBLE_DEVICES");
    /* a driver of OpenCL that tells no address: the name decides */
    yokei_text(reports[1].devices[0].features, 64, "gpu buffer-offsets");
    assert_string_equal("cuda:0,opencl:1", taken(s, NULL, 16));
    assert_non_null(strstr(why("opencl:0"), "the same name"));
}

static void equal_gpus_are_measured_once(void **state)
{
    (void)state;
    begin();
    backend("hip", "");
    for (int i = 0; i < 8; i++) device("AMD MI300X", "gpu gfx942");
    const struct speed s[] = { { "hip:0", 4000 }, { "host", 30 }, { 0 } };
    assert_string_equal("hip:0,hip:1,hip:2,hip:3,hip:4,hip:5,hip:6,hip:7", taken(s, NULL, 64));
    assert_int_equal(2, n_measured);
    assert_non_null(strstr(why("hip:5"), "the same kind as hip:0 (4000.0"));
    cli_auto_limit(found, n_found, 2);
    assert_int_equal(2, cli_auto_count(found, n_found));
    assert_non_null(strstr(why("hip:7"), "; 2 asked for"));
}

/* Host beside a GPU: it needs a whole sequence, and a quarter of the speed-up that its speed promises. */
static void host_where_it_helps(void **state)
{
    (void)state;
    begin();
    backend("cuda", "");
    device("a small GPU", "gpu sm_75 pci=0000:01:00.0");
    const struct speed near[] = { { "cuda:0", 300 }, { "host", 100 }, { 0 } };
    assert_string_equal("cuda:0,host", taken(near, NULL, 16)); /* 12 and 4 sequences: 4/3 as fast */
    assert_string_equal("cuda:0", taken(near, NULL, 2)); /* one of two sequences takes longer than both */
    assert_string_equal("cuda:0", taken(near, "only yoke train divides its work by speed", 16));
    assert_non_null(strstr(why("host"), "only yoke train"));
    const struct speed far[] = { { "cuda:0", 3000 }, { "host", 100 }, { 0 } };
    assert_string_equal("cuda:0", taken(far, NULL, 16));
    assert_non_null(
        strstr(why("host"), "a step of 16 sequences would take 0.01 s with it, 0.00533 s without it"));
    assert_string_equal("cuda:0,host", taken(far, NULL, 64)); /* 62 and 2 */
}

static void the_processor_alone(void **state)
{
    (void)state;
    begin();
    assert_string_equal("host", taken(NULL, NULL, 16));
    assert_int_equal(0, n_measured);
    backend("opencl", "");
    device("a CPU", "cpu svm-fine");
    device("a CPU, by another platform", "cpu buffer-offsets");
    const struct speed s[] = { { "host", 250 }, { "opencl:0", 130 }, { "opencl:1", 140 }, { 0 } };
    pair[0] = 137, pair[1] = 71; /* fewer together than host alone */
    assert_string_equal("host", taken(s, NULL, 16));
    assert_non_null(
        strstr(why("host"), "250.0 sequences/s on all cores; host and opencl:1 together, on half"));
    assert_non_null(strstr(why("opencl:1"), "137.0 + 71.0"));
    pair[1] = 140;
    assert_string_equal("host,opencl:1", taken(s, NULL, 16));
    pair[1] = 120; /* 257 is not 5 % more than 250 */
    assert_string_equal("host", taken(s, NULL, 16));
    pair[1] = 140;
    assert_string_equal("host", taken(s, "only yoke train divides its work by speed", 16));
    const struct speed broken[] = { { "host", 0 }, { "opencl:0", 0 }, { "opencl:1", 140 }, { 0 } };
    assert_string_equal("opencl:1", taken(broken, NULL, 16));
    assert_non_null(strstr(why("host"), "out of order"));
}

static void emulated_devices(void **state)
{
    (void)state;
    begin();
    backend("cuda", "");
    device("stand-in", "gpu sm_90 emulated pci=0000:01:00.0");
    backend("hip", "");
    device("stand-in", "gpu gfx942 emulated pci=0000:41:00.0");
    assert_string_equal("cuda:0,hip:0", taken(NULL, NULL, 16));
    assert_int_equal(0, n_measured);
    assert_non_null(strstr(why("host"), "beside emulated GPUs"));
}

static void nothing_usable(void **state)
{
    (void)state;
    n_reports = 0;
    backend("host", "its driver crashed while it was probed (Segmentation fault)");
    backend("cuda", "libcuda.so.1 is not found");
    backend("hip", "");
    device("AMD", "gpu gfx906");
    assert_string_equal("", taken(NULL, NULL, 16));
    assert_fails(YOKE_ENODEV, "hip:0: it cannot train here: out of order; host: its driver crashed",
                 cli_auto_nothing(reports, n_reports, found, n_found));
    assert_non_null(strstr(yoke_last_error(), "cuda: libcuda.so.1 is not found"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu_of_two_backends), cmocka_unit_test(equal_gpus_are_measured_once),
        cmocka_unit_test(host_where_it_helps),     cmocka_unit_test(the_processor_alone),
        cmocka_unit_test(emulated_devices),        cmocka_unit_test(nothing_usable),
    };
    return cmocka_run_group_tests_name("cli_auto", tests, NULL, NULL);
}
