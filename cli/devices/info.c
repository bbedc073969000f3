/* SPDX-License-Identifier: Apache-2.0 */
/* yoke info: devices, speeds, cores and libraries. With --check it also tests the machine. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/devices/info.h"
#include "cli/devices/verify.h"
#include "core/base/base.h"
#include "core/base/binding.h"

#define MAX_REPORTS 16
#define MAX_LIBRARIES 16
#define MAX_CHECKS 32

static const char *const finding_names[] = {
    [CLI_PASS] = "PASS", [CLI_WARN] = "WARN", [CLI_FAIL] = "FAIL", [CLI_SKIP] = "SKIP"
};

/* Write the names of the types, such as "f32 bf16", to `out`. */
static const char *types_of(uint32_t bits, char *out, size_t bytes)
{
    out[0] = 0;
    for (int t = 0; t < YOKE_N_DTYPES; t++) {
        if (!(bits & 1u << t)) continue;
        size_t used = strlen(out);
        yokei_text(out + used, bytes - used, "%s%s", used ? " " : "", yoke_dtype_name((yoke_dtype)t));
    }
    return out;
}

static const char *bytes_text(uint64_t n, char *out, size_t bytes)
{
    if (n >= 1ull << 30)
        yokei_text(out, bytes, "%.1f GiB", (double)n / (1ull << 30));
    else if (n >= 1ull << 20)
        yokei_text(out, bytes, "%.1f MiB", (double)n / (1ull << 20));
    else
        yokei_text(out, bytes, "%" PRIu64 " KiB", n >> 10);
    return out;
}

/*
 * 16-bit support in words: arithmetic in the type itself, or numbers that are stored in the type and widened
 * to f32. Every kernel can do the latter.
 */
static const char *half_of(const struct yoke_device_info *d, yoke_dtype dtype)
{
    if (d->arithmetic & 1u << dtype) return "computed";
    return d->storage & 1u << dtype ? "stored, computed in f32" : "no";
}

static void print_speed(const struct cli_speed *s)
{
    if (s->error[0]) {
        printf("             speed: %s\n", s->error);
        return;
    }
    printf("             copy %.1f GB/s (read + write), to device %.1f, to host %.1f GB/s\n", s->copy * 1e-9,
           s->to_device * 1e-9, s->to_host * 1e-9);
    printf("             gemm");
    for (int t = 0; t < CLI_N_SPEED_TYPES; t++) {
        const char *name = yoke_dtype_name(cli_speed_types[t]);
        if (s->gemm[t] > 0)
            printf("%s %s %.4g GFLOP/s (%d)", t ? "," : "", name, s->gemm[t] * 1e-9, (int)s->gemm_size[t]);
        else
            printf("%s %s not offered", t ? "," : "", name);
    }
    putchar('\n');
}

/* Print every backend. If it has no device to run on, print why. */
static void print_backends(const struct yoke_backend_report *reports, int n_reports)
{
    printf("\nBackends\n");
    for (int b = 0; b < n_reports; b++) {
        printf("  %-10s ", reports[b].name);
        if (reports[b].n_devices)
            printf("present, %d device%s\n", reports[b].n_devices, reports[b].n_devices == 1 ? "" : "s");
        else
            printf("absent: %s\n", reports[b].reason);
    }
}

/* An OpenCL device of type CPU is, by OpenCL's definition, the processor that this program runs on. */
static bool is_host_cpu(const struct yoke_device_info *d)
{
    return !strcmp(d->backend, "opencl") && !strncmp(d->features, "cpu ", 4);
}

/* The NUMA node and the units nearest to a GPU. "": the host has one node, or the place is unknown. */
static void nearest_of(const struct yoke_device_info *d, char *text, size_t bytes)
{
    struct yokei_place place;
    struct yokei_binding near;
    bool is_placed;
    char units[512];
    text[0] = '\0';
    yokei_place_of(d->features, &place);
    if (!place.pci[0] || yokei_bindings(&place, 1, &near, &is_placed) || near.node < 0) return;
    yokei_units_text(near.units, units, sizeof units);
    yokei_text(text, bytes, "NUMA node %d, processing units %s", near.node, units);
}

static void print_device(const struct yoke_device_info *d, const struct cli_speed *s)
{
    char memory[32], stored[64], nearest[640];
    struct cli_choices choices;
    printf("  %-10s %s\n", d->spec, d->name);
    if (d->driver[0]) printf("             %s\n", d->driver);
    if (is_host_cpu(d)) printf("             this machine's own CPU, the same cores as host's, by OpenCL\n");
    printf("             %s, %d compute units%s, types %s\n",
           bytes_text(d->memory_bytes, memory, sizeof memory), d->compute_units,
           d->host_visible ? ", memory seen by the host" : "", types_of(d->storage, stored, sizeof stored));
    printf("             bf16 %s; f16 %s\n", half_of(d, YOKE_BF16), half_of(d, YOKE_F16));
    if (d->features[0]) printf("             %s\n", d->features);
    nearest_of(d, nearest, sizeof nearest);
    if (nearest[0]) printf("             nearest: %s\n", nearest);
    cli_choices_of(d->spec, &choices);
    if (choices.products[0]) printf("             %s\n", choices.products);
    if (choices.sensors[0]) printf("             %s\n", choices.sensors);
    printf("             variants by %s\n", choices.text);
    if (s) print_speed(s);
}

static void print_machine(void)
{
    struct yokei_topology t;
    char memory[32], l2[32], l3[32];
    if (yokei_topology(&t)) {
        printf("Machine: %s\n", yoke_last_error());
        return;
    }
    printf("Machine\n  %s: %d core%s, %d hardware thread%s, %d package%s, %d NUMA node%s\n", t.cpu, t.n_cores,
           t.n_cores == 1 ? "" : "s", t.n_processing_units, t.n_processing_units == 1 ? "" : "s",
           t.n_packages, t.n_packages == 1 ? "" : "s", t.n_numa_nodes, t.n_numa_nodes == 1 ? "" : "s");
    printf("  memory %s, L2 %s, L3 %s\n", bytes_text(t.memory_bytes, memory, sizeof memory),
           bytes_text(t.l2_bytes, l2, sizeof l2), bytes_text(t.l3_bytes, l3, sizeof l3));
}

static json_t *speed_json(const struct cli_speed *s)
{
    if (s->error[0]) return json_pack("{s:s}", "error", s->error);
    json_t *out = json_pack("{s:f, s:f, s:f}", "copy_bytes_per_s", s->copy, "to_device_bytes_per_s",
                            s->to_device, "to_host_bytes_per_s", s->to_host);
    json_t *gemm = json_object();
    for (int t = 0; t < CLI_N_SPEED_TYPES; t++)
        json_object_set_new(gemm, yoke_dtype_name(cli_speed_types[t]),
                            s->gemm[t] > 0 ? json_pack("{s:f, s:i}", "flop_per_s", s->gemm[t], "size",
                                                       (int)s->gemm_size[t])
                                           : json_pack("{s:s}", "reason", s->reason[t]));
    json_object_set_new(out, "gemm", gemm);
    return out;
}

static json_t *device_json(const struct yoke_device_info *d, const struct cli_speed *s)
{
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:b, s:o, s:o, s:s}", "spec", d->spec,
                            "backend", d->backend, "name", d->name, "driver", d->driver, "memory_bytes",
                            (json_int_t)d->memory_bytes, "max_alloc_bytes", (json_int_t)d->max_alloc_bytes,
                            "compute_units", d->compute_units, "host_visible", d->host_visible, "storage",
                            verify_types_json(d->storage), "arithmetic", verify_types_json(d->arithmetic),
                            "features", d->features);
    struct cli_choices c;
    cli_choices_of(d->spec, &c);
    if (out)
        json_object_set_new(out, "tuning",
                            c.error[0] ? json_pack("{s:s}", "error", c.error)
                                       : json_pack("{s:s, s:s, s:s, s:i, s:i, s:b}", "kind", c.kind, "file",
                                                   c.file, "made", c.made, "choices", c.n_choices, "skipped",
                                                   c.n_skipped, "other_variants", c.other_variants));
    char nearest[640];
    nearest_of(d, nearest, sizeof nearest);
    if (out && nearest[0]) json_object_set_new(out, "nearest", json_string(nearest));
    if (out && c.products[0]) json_object_set_new(out, "products", json_string(c.products));
    if (out && c.sensors[0]) json_object_set_new(out, "sensors", json_string(c.sensors));
    if (out) json_object_set_new(out, "host_cpu", json_boolean(is_host_cpu(d)));
    if (out && s) json_object_set_new(out, "speed", speed_json(s));
    return out ? out : json_pack("{s:s, s:s}", "spec", d->spec, "error", "the driver's texts are not UTF-8");
}

static json_t *machine_json(void)
{
    struct yokei_topology t;
    if (yokei_topology(&t)) return json_pack("{s:s}", "error", yoke_last_error());
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I}", "cpu", t.cpu, "cores", t.n_cores,
                     "hardware_threads", t.n_processing_units, "packages", t.n_packages, "numa_nodes",
                     t.n_numa_nodes, "memory_bytes", (json_int_t)t.memory_bytes, "l2_bytes",
                     (json_int_t)t.l2_bytes, "l3_bytes", (json_int_t)t.l3_bytes);
}

static json_t *libraries_json(const struct cli_library *list, int n)
{
    json_t *out = json_object();
    for (int i = 0; i < n; i++) json_object_set_new(out, list[i].name, json_string(list[i].version));
    return out;
}

static yoke_status print_info(json_t *root)
{
    int failed = json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
    return failed ? yoke_fail(YOKE_EIO, "stdout: cannot write the results") : YOKE_OK;
}

static yoke_status facts(const struct cli_context *context, const struct yoke_backend_report *reports,
                         int n_reports)
{
    struct cli_library libraries[MAX_LIBRARIES];
    bool json = cli_flag(context->options, "json"), measure = !cli_flag(context->options, "no-speed");
    int n_libraries = cli_libraries(libraries, MAX_LIBRARIES);
    json_t *devices = json_array(), *absent = json_object();
    int n_measured = 0, n_devices = 0;
    for (int b = 0; b < n_reports; b++) n_devices += reports[b].n_devices;
    cli_progress_begin("measuring the devices");
    if (!json) {
        printf("yoke %s\n\n", yoke_version());
        print_machine();
        printf("\nDevices\n");
    }
    for (int b = 0; b < n_reports; b++) {
        for (int i = 0; i < reports[b].n_devices; i++) {
            const struct yoke_device_info *d = &reports[b].devices[i];
            struct cli_speed speed;
            if (measure) {
                cli_progress_now("%s (kernels are compiled on the first start)", d->spec);
                cli_progress_at(n_measured++, n_devices);
                cli_measure_device(d->spec, &speed);
                cli_progress_pause();
            }
            if (json)
                json_array_append_new(devices, device_json(d, measure ? &speed : NULL));
            else
                print_device(d, measure ? &speed : NULL);
            fflush(stdout);
        }
        if (!reports[b].n_devices)
            json_object_set_new(absent, reports[b].name, json_string(reports[b].reason));
    }
    cli_progress_end();
    if (json)
        return print_info(json_pack("{s:i, s:s, s:o, s:o, s:o, s:o}", "schema", 1, "version", yoke_version(),
                                    "machine", machine_json(), "devices", devices, "absent", absent,
                                    "libraries", libraries_json(libraries, n_libraries)));
    print_backends(reports, n_reports);
    printf("\nLibraries\n");
    for (int i = 0; i < n_libraries; i++) printf("  %-14s %s\n", libraries[i].name, libraries[i].version);
    json_decref(devices);
    json_decref(absent);
    return YOKE_OK;
}

static yoke_status check_machine(const struct cli_context *context, const struct yoke_backend_report *reports,
                                 int n_reports)
{
    struct cli_check checks[MAX_CHECKS];
    bool json = cli_flag(context->options, "json");
    int n = cli_check_machine(reports, n_reports, checks, MAX_CHECKS), count[4] = { 0 };
    const struct cli_check *failed = NULL;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const struct cli_check *c = &checks[i];
        count[c->finding]++;
        if (c->finding == CLI_FAIL && !failed) failed = c;
        if (json) {
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "check", c->name, "finding",
                                                  finding_names[c->finding], "text", c->text, "fix", c->fix));
            continue;
        }
        printf("%s  %-14s %s\n", finding_names[c->finding], c->name, c->text);
        if (c->fix[0]) printf("      %-14s fix: %s\n", "", c->fix);
    }
    if (json)
        YOKE_TRY(
            print_info(json_pack("{s:i, s:s, s:o}", "schema", 1, "version", yoke_version(), "checks", list)));
    else {
        printf("%d passed, %d warnings, %d failed, %d skipped\n", count[CLI_PASS], count[CLI_WARN],
               count[CLI_FAIL], count[CLI_SKIP]);
        json_decref(list);
    }
    if (!failed) return YOKE_OK;
    return yoke_fail(failed->status, "this machine: %s: %s; fix: %s", failed->name, failed->text,
                     failed->fix);
}

yoke_status cli_info(const struct cli_context *context)
{
    struct yoke_backend_report *reports = calloc(MAX_REPORTS, sizeof *reports);
    int n_reports = 0;
    if (!reports) return yoke_fail(YOKE_ENOMEM, "no memory for the list of devices");
    yoke_status status = yoke_discover(reports, MAX_REPORTS, &n_reports);
    if (!status)
        status = (cli_flag(context->options, "check") ? check_machine : facts)(context, reports, n_reports);
    free(reports);
    return status;
}
