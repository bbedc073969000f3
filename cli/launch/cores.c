/* SPDX-License-Identifier: Apache-2.0 */
/* The cores of each rank of a host. cores.h explains it. */
#include "cli/launch/cores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yoke/device.h>

#include "cli/launch/job_dir.h"
#include "core/base/base.h"
#include "core/base/binding.h"

enum { MOST_REPORTS = 16, MOST_BYTES = 1 << 17 };
static const double LOOK_SECONDS = 25; /* longest wait for the first agent, which asks every driver */

void cli_device_of_rank(const char *devices, int rank, char *spec, size_t bytes)
{
    int n = 1;
    for (const char *c = devices; *c; c++) n += *c == ',';
    const char *item = devices;
    for (int i = rank % n; i > 0; i--) item = strchr(item, ',') + 1;
    yokei_text(spec, bytes, "%.*s", (int)strcspn(item, ","), item);
}

/* Whether a device of this backend may be a GPU. */
static bool may_be_gpu(const char *spec)
{
    return !strncmp(spec, "cuda", 4) || !strncmp(spec, "hip", 3) || !strncmp(spec, "opencl", 6);
}

static const struct yoke_device_info *find(const struct yoke_backend_report *reports, int n, const char *spec)
{
    char whole[64];
    yokei_text(whole, sizeof whole, strchr(spec, ':') ? "%s" : "%s:0", spec);
    for (int b = 0; b < n; b++)
        for (int i = 0; i < reports[b].n_devices; i++)
            if (!strcmp(reports[b].devices[i].spec, whole)) return &reports[b].devices[i];
    return NULL;
}

/* The places of the devices of all ranks on this host, which have the job's numbers `first` and higher. */
static yoke_status look(const char *devices, int first, int n, struct yokei_place *places)
{
    struct yoke_backend_report *reports = calloc(MOST_REPORTS, sizeof *reports);
    int n_reports = 0;
    if (!reports) return yoke_fail(YOKE_ENOMEM, "no memory for the list of devices");
    const yoke_status status = yoke_discover(reports, MOST_REPORTS, &n_reports);
    for (int i = 0; i < n && !status; i++) {
        char spec[64];
        cli_device_of_rank(devices, first + i, spec, sizeof spec);
        const struct yoke_device_info *info = find(reports, n_reports, spec);
        places[i] = (struct yokei_place){ 0 };
        if (info) yokei_place_of(info->features, &places[i]);
    }
    free(reports);
    return status;
}

/*
 * The text of the file. Its first line has the units that may be used on this host and says whether the
 * places of GPUs decided. The other lines have, for each rank of the host, the rank, its device, its number
 * of cores, its node and its units.
 */
static void write_shares(const char *folder, const char *devices, int first, int n,
                         const struct yokei_binding *made, bool is_near)
{
    uint64_t all[YOKEI_UNIT_WORDS];
    char *text = malloc(MOST_BYTES), units[2048], host[64] = "", spec[64];
    if (!text || yokei_bound_units(all)) {
        free(text);
        return;
    }
    gethostname(host, sizeof host - 1);
    yokei_units_text(all, units, sizeof units);
    yokei_text(text, MOST_BYTES, "host %s may use units %s; %s\n", host, units,
               is_near ? "near the GPUs" : "equal shares");
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(text);
        cli_device_of_rank(devices, first + i, spec, sizeof spec);
        yokei_units_text(made[i].units, units, sizeof units);
        yokei_text(text + used, MOST_BYTES - used, "rank %d %s: %d cores, node %d, units %s\n", first + i,
                   spec, made[i].n_cores, made[i].node, units);
    }
    cli_cores_write(folder, text);
    free(text);
}

/* The first rank's part: divide the cores, and tell the other agents. */
static yoke_status divide(const struct cli_agent *agent, const char *devices, struct yokei_binding *mine,
                          bool *is_near_out)
{
    const int n = agent->local_size;
    struct yokei_place *places = calloc((size_t)n, sizeof *places);
    struct yokei_binding *made = calloc((size_t)n, sizeof *made);
    yoke_status status = places && made ? look(devices, agent->rank, n, places)
                                        : yoke_fail(YOKE_ENOMEM, "no memory for %d ranks", n);
    if (!status) status = yokei_bindings(places, n, made, is_near_out);
    if (!status) {
        write_shares(agent->folder, devices, agent->rank, n, made, *is_near_out);
        *mine = made[0];
    } else
        cli_cores_write(agent->folder, "the places of the devices are unknown\n");
    free(places);
    free(made);
    return status;
}

/* Read this rank's line. False: there is none, because the ranks of the host are not neighbours. */
static bool read_share(const struct cli_agent *agent, const char *text, struct yokei_binding *mine,
                       bool *is_near_out)
{
    char all[2048], units[2048];
    uint64_t allowed[YOKEI_UNIT_WORDS], first[YOKEI_UNIT_WORDS];
    const char *line = text;
    if (sscanf(text, "host %*s may use units %2047[^;]", all) != 1 || !yokei_units_read(all, first))
        return false;
    /* If the launcher has bound each rank by itself, that binding stays. */
    mine->n_cores = 0;
    if (yokei_bound_units(allowed) || memcmp(allowed, first, sizeof first) != 0) return true;
    *is_near_out = strstr(text, "; near the GPUs\n") != NULL;
    while ((line = strchr(line, '\n')) && *++line) {
        int rank;
        if (sscanf(line, "rank %d %*s %d cores, node %d, units %2047s", &rank, &mine->n_cores, &mine->node,
                   units)
                == 4
            && rank == agent->rank)
            return yokei_units_read(units, mine->units);
    }
    return false;
}

/* The other ranks' part: wait for the file. */
static bool await_share(const struct cli_agent *agent, struct yokei_binding *mine, bool *is_near_out)
{
    char *text = malloc(MOST_BYTES);
    const uint64_t begun = yokei_now_ns();
    bool there = false;
    while (text && !(there = cli_cores_read(agent->folder, text, MOST_BYTES))
           && yokei_seconds_since(begun) < LOOK_SECONDS)
        usleep(10000);
    const bool fits = there && read_share(agent, text, mine, is_near_out);
    free(text);
    return fits;
}

static bool any_gpu(const char *devices)
{
    for (const char *item = devices; item && *item; item += strcspn(item, ","), item += *item == ',')
        if (may_be_gpu(item)) return true;
    return false;
}

int cli_cores_bind(const struct cli_agent *agent, const char *devices, bool *is_near_out)
{
    struct yokei_binding mine;
    int n_cores = 0;
    *is_near_out = false;
    if (any_gpu(devices) && yokei_has_places()) {
        const bool first = agent->local_rank == 0;
        if (first ? !divide(agent, devices, &mine, is_near_out) : await_share(agent, &mine, is_near_out)) {
            struct yokei_topology bound;
            if (mine.n_cores) return yokei_bind_as(&mine) ? 0 : mine.n_cores;
            return yokei_topology(&bound) ? 0 : bound.n_cores;
        }
        *is_near_out = false;
    }
    return yokei_bind(agent->local_rank, agent->local_size, &n_cores) ? 0 : n_cores;
}
