/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of --devices auto. auto.h has its rules. */
#include "cli/launch/auto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/emulated.h"

static const double PAIR_GAIN = 1.05; /* two ranks must bring this much, because they also sum gradients */
static const double PROMISE = 0.25;   /* part of a promised speed-up, as in train/run/division.c */

static bool is_gpu(const struct cli_auto_device *d) { return !strncmp(d->info.features, "gpu ", 4); }
static bool is_host(const struct cli_auto_device *d) { return !strcmp(d->info.backend, "host"); }

static const char *address_of(const struct cli_auto_device *d, char *text, size_t bytes)
{
    const char *at = strstr(d->info.features, " pci=");
    yokei_text(text, bytes, "%.*s", at ? (int)strcspn(at + 5, " ") : 0, at ? at + 5 : "");
    return text;
}

/* The order in which backends are asked for GPUs. A vendor's own interface comes before OpenCL. */
static int order_of(const struct yoke_device_info *info)
{
    static const char *const names[] = { "cuda", "hip", "opencl", "host" };
    for (int i = 0; i < (int)YOKE_COUNT(names); i++)
        if (!strcmp(info->backend, names[i])) return i;
    return -1;
}

/* List the devices: the GPUs of each backend in turn, then host, then the OpenCL devices of the processor. */
static int list(const struct yoke_backend_report *reports, int n_reports, struct cli_auto_device *out)
{
    int n = 0;
    for (int place = 0; place < 6; place++)
        for (int b = 0; b < n_reports; b++)
            for (int i = 0; i < reports[b].n_devices && n < CLI_AUTO_DEVICES; i++) {
                struct cli_auto_device d = { .info = reports[b].devices[i] };
                const int order = order_of(&d.info);
                if (order < 0 || place != (is_gpu(&d) ? order : is_host(&d) ? 4 : 5)) continue;
                out[n++] = d;
            }
    return n;
}

/* The device of another backend that is the same GPU, and is taken already; NULL: there is none. */
static const struct cli_auto_device *same_gpu(const struct cli_auto_device *devices, int n,
                                              const struct cli_auto_device *d)
{
    char mine[32], other[32];
    address_of(d, mine, sizeof mine);
    for (int i = 0; i < n; i++) {
        const struct cli_auto_device *o = &devices[i];
        const bool other_backend = strcmp(o->info.backend, d->info.backend) != 0;
        if (!o->is_taken || !is_gpu(o)) continue;
        address_of(o, other, sizeof other);
        /* Two platforms of OpenCL may have one GPU too. Devices of CUDA and of HIP are different ones. */
        if (mine[0] && !strcmp(mine, other) && (other_backend || !strcmp(d->info.backend, "opencl")))
            return o;
        if (!mine[0] && other_backend && !strcmp(d->info.backend, "opencl")
            && !strcmp(o->info.name, d->info.name))
            return o;
    }
    return NULL;
}

/* A device of the same kind that was measured before. Its speed counts for this one too. */
static const struct cli_auto_device *measured_twin(const struct cli_auto_device *devices, int n,
                                                   const struct cli_auto_device *d)
{
    for (int i = 0; i < n; i++)
        if (devices[i].is_taken && devices[i].speed > 0 && !strcmp(devices[i].info.backend, d->info.backend)
            && !strcmp(devices[i].info.name, d->info.name))
            return &devices[i];
    return NULL;
}

/*
 * The variable by which the user hides this OpenCL GPU from its vendor's own interface; NULL: none. The names
 * of the platforms stand in their versions.
 */
static const char *hidden_by(const struct cli_auto_device *d)
{
    static const struct {
        const char *platform, *variable;
    } rows[] = { { "CUDA", "CUDA_VISIBLE_DEVICES" }, { "AMD-APP", "HIP_VISIBLE_DEVICES" } };
    for (size_t i = 0; i < YOKE_COUNT(rows) && !strcmp(d->info.backend, "opencl"); i++)
        if (strstr(d->info.driver, rows[i].platform) && getenv(rows[i].variable)) return rows[i].variable;
    return NULL;
}

static void take_gpu(struct cli_auto_device *devices, int index, const struct cli_auto_measure *measure)
{
    struct cli_auto_device *d = &devices[index];
    const struct cli_auto_device *same = same_gpu(devices, index, d);
    const struct cli_auto_device *twin = measured_twin(devices, index, d);
    char address[32], reason[400] = "";
    if (same) {
        address_of(d, address, sizeof address);
        yokei_text(d->why, sizeof d->why, "the same GPU as %s (%s%s)", same->info.spec,
                   address[0] ? "PCI " : "the same name; its driver tells no PCI address", address);
        return;
    }
    const char *hidden = hidden_by(d);
    if (hidden) {
        yokei_text(d->why, sizeof d->why, "not in %s", hidden);
        return;
    }
    d->is_taken = true;
    if (yokei_is_emulated(d->info.features)) {
        yokei_text(d->why, sizeof d->why, "an emulated GPU, whose speed is not measured");
    } else if (twin) {
        d->speed = twin->speed;
        yokei_text(d->why, sizeof d->why, "a GPU, the same kind as %s (%.1f sequences/s)", twin->info.spec,
                   twin->speed);
    } else if (measure->alone(measure->context, d->info.spec, &d->speed, reason, sizeof reason)) {
        yokei_text(d->why, sizeof d->why, "a GPU, %.1f sequences/s", d->speed);
    } else {
        d->is_taken = false;
        yokei_text(d->why, sizeof d->why, "it cannot train here: %s", reason);
    }
}

/*
 * The seconds of a step in which `slow` gets k of the sequences and devices with the speed `fast` the rest,
 * for the best k of at least 1.
 */
static double step_with(double fast, double slow, int64_t batch)
{
    double best = INFINITY;
    for (int64_t k = 1; k < batch; k++) {
        const double seconds = fmax((double)(batch - k) / fast, (double)k / slow);
        if (seconds > best) break; /* from here on the slow device decides */
        best = seconds;
    }
    return best;
}

/* Host beside GPUs. */
static void weigh_host(struct cli_auto_device *devices, int n, struct cli_auto_device *host,
                       const struct cli_auto_job *job, const struct cli_auto_measure *measure)
{
    double fast = 0;
    bool unknown = false;
    char reason[400] = "";
    for (int i = 0; i < n; i++) {
        if (!devices[i].is_taken) continue;
        fast += devices[i].speed;
        unknown = unknown || !(devices[i].speed > 0);
    }
    if (unknown) {
        yokei_text(host->why, sizeof host->why,
                   "beside emulated GPUs, whose times do not tell whether it helps");
        return;
    }
    if (job->not_divided) {
        yokei_text(host->why, sizeof host->why, "beside GPUs, because %s", job->not_divided);
        return;
    }
    if (!measure->alone(measure->context, host->info.spec, &host->speed, reason, sizeof reason)) {
        yokei_text(host->why, sizeof host->why, "it cannot train here: %s", reason);
        return;
    }
    const double without = (double)job->batch / fast, with = step_with(fast, host->speed, job->batch);
    const double promised = host->speed / fast, gain = without / with - 1;
    host->is_taken = gain >= PROMISE * promised;
    yokei_text(
        host->why, sizeof host->why,
        "%.1f sequences/s beside %.1f of the GPUs; a step of %lld sequences would take %.3g s with it, "
        "%.3g s without it",
        host->speed, fast, (long long)job->batch, with, without);
}

/* The fastest taken or measured OpenCL device of the processor; NULL: there is none. */
static struct cli_auto_device *best_of(struct cli_auto_device *devices, int n, bool host)
{
    struct cli_auto_device *best = NULL;
    for (int i = 0; i < n; i++)
        if (is_host(&devices[i]) == host && devices[i].speed > 0 && (!best || devices[i].speed > best->speed))
            best = &devices[i];
    return best;
}

/* Host and OpenCL devices of the processor compete for its cores, and there is no GPU. */
static void weigh_processor(struct cli_auto_device *devices, int n, const struct cli_auto_job *job,
                            const struct cli_auto_measure *measure)
{
    char reason[400];
    double speeds[2] = { 0, 0 };
    for (int i = 0; i < n; i++)
        if (n > 1
            && !measure->alone(measure->context, devices[i].info.spec, &devices[i].speed, reason,
                               sizeof reason))
            yokei_text(devices[i].why, sizeof devices[i].why, "it cannot train here: %s", reason);
    struct cli_auto_device *host = best_of(devices, n, true), *other = best_of(devices, n, false);
    if (n == 1) {
        devices[0].is_taken = true;
        yokei_text(devices[0].why, sizeof devices[0].why, "the only device");
        return;
    }
    struct cli_auto_device *best = !host || (other && other->speed > host->speed) ? other : host;
    if (!best) return;
    const char *const specs[2] = { host ? host->info.spec : "", other ? other->info.spec : "" };
    const bool pair = host && other && !job->not_divided
                      && measure->together(measure->context, specs, speeds, reason, sizeof reason);
    const bool both = pair && speeds[0] + speeds[1] >= PAIR_GAIN * best->speed;
    for (int i = 0; i < n; i++) {
        struct cli_auto_device *d = &devices[i];
        if (d->why[0]) continue;
        d->is_taken = both ? d == host || d == other : d == best;
        if (pair && (d == host || d == other))
            yokei_text(
                d->why, sizeof d->why,
                "%.1f sequences/s on all cores; %s and %s together, on half of the cores each: %.1f + %.1f",
                d->speed, host->info.spec, other->info.spec, speeds[0], speeds[1]);
        else
            yokei_text(
                d->why, sizeof d->why,
                "%.1f sequences/s; the devices of the processor share its cores, and %s is the fastest",
                d->speed, best->info.spec);
    }
}

/* Put the devices that are taken first, without another change of the order. */
static void taken_first(struct cli_auto_device *devices, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && devices[k].is_taken && !devices[k - 1].is_taken; k--) {
            const struct cli_auto_device d = devices[k];
            devices[k] = devices[k - 1];
            devices[k - 1] = d;
        }
}

int cli_auto_choose(const struct yoke_backend_report *reports, int n_reports, const struct cli_auto_job *job,
                    const struct cli_auto_measure *measure, struct cli_auto_device *out)
{
    const int n = list(reports, n_reports, out);
    int n_gpus = 0;
    while (n_gpus < n && is_gpu(&out[n_gpus])) n_gpus++;
    for (int i = 0; i < n_gpus; i++) take_gpu(out, i, measure);
    if (!cli_auto_count(out, n_gpus))
        weigh_processor(out + n_gpus, n - n_gpus, job, measure);
    else
        for (int i = n_gpus; i < n; i++) {
            if (is_host(&out[i]))
                weigh_host(out, n_gpus, &out[i], job, measure);
            else
                yokei_text(out[i].why, sizeof out[i].why, "the host's own processor, beside GPUs");
        }
    taken_first(out, n);
    return n;
}

void cli_auto_limit(struct cli_auto_device *devices, int n, int n_ranks)
{
    while (cli_auto_count(devices, n) > n_ranks) {
        struct cli_auto_device *slowest = NULL;
        for (int i = 0; i < n; i++)
            if (devices[i].is_taken && (!slowest || devices[i].speed <= slowest->speed))
                slowest = &devices[i];
        slowest->is_taken = false;
        const size_t used = strlen(slowest->why);
        yokei_text(slowest->why + used, sizeof slowest->why - used, "; %d asked for", n_ranks);
    }
    taken_first(devices, n);
}

int cli_auto_count(const struct cli_auto_device *devices, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += devices[i].is_taken;
    return count;
}

void cli_auto_list(const struct cli_auto_device *devices, int n, bool taken, char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(text);
        if (devices[i].is_taken == taken)
            yokei_text(text + used, bytes - used, "%s%s", used ? "," : "", devices[i].info.spec);
    }
}

yoke_status cli_auto_nothing(const struct yoke_backend_report *reports, int n_reports,
                             const struct cli_auto_device *devices, int n)
{
    char text[3072] = "";
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(text);
        yokei_text(text + used, sizeof text - used, "; %s: %s", devices[i].info.spec, devices[i].why);
    }
    for (int b = 0; b < n_reports; b++) {
        const size_t used = strlen(text);
        if (!reports[b].n_devices)
            yokei_text(text + used, sizeof text - used, "; %s: %s", reports[b].name, reports[b].reason);
    }
    return yoke_fail(YOKE_ENODEV, "--devices auto finds no device that can do the work%s", text);
}
