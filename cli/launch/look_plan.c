/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a plan, for --devices auto. */
#include <stdlib.h>
#include <string.h>

#include "cli/launch/look.h"
#include "core/base/base.h"
#include "train/plan/run_plan.h"
#include "train/run/loop.h"

static const struct yokei_plan_rank *rank_of(const struct yokei_plan *plan, int64_t job_rank)
{
    for (int64_t i = 0; i < plan->n_ranks; i++)
        if ((plan->ranks[i].job_rank < 0 ? i : plan->ranks[i].job_rank) == job_rank) return &plan->ranks[i];
    return NULL;
}

static yoke_status list_planned(const struct yokei_plan *plan, const char *path, char *devices, size_t bytes)
{
    devices[0] = '\0';
    for (int64_t r = 0; r < plan->n_ranks; r++) {
        const struct yokei_plan_rank *rank = rank_of(plan, r);
        const size_t used = strlen(devices);
        if (!rank || !rank->device[0])
            return yoke_fail(YOKE_ECONFIG,
                             "%s: --devices auto needs a plan that names the device of each rank", path);
        if (used + strlen(rank->device) + 2 > bytes)
            return yoke_fail(YOKE_ECONFIG, "%s: --devices auto takes plans of fewer ranks: name the devices",
                             path);
        yokei_text(devices + used, bytes - used, "%s%s", r ? "," : "", rank->device);
    }
    return YOKE_OK;
}

static bool are_here(const char *devices)
{
    struct yoke_backend_report *reports = calloc(CLI_AUTO_REPORTS, sizeof *reports);
    int n = 0;
    bool all = reports && !yoke_discover(reports, CLI_AUTO_REPORTS, &n);
    for (const char *item = devices; all && *item; item += strcspn(item, ","), item += *item == ',') {
        const size_t length = strcspn(item, ",");
        bool found = false;
        for (int b = 0; b < n; b++)
            for (int i = 0; i < reports[b].n_devices; i++) {
                const char *spec = reports[b].devices[i].spec;
                found = found || (strlen(spec) == length && !strncmp(spec, item, length));
            }
        all = found;
    }
    free(reports);
    return all;
}

yoke_status cli_look_planned(const struct cli_context *context, const struct cli_verb *verb, int n_ranks,
                             char *devices, size_t bytes, int *n_out)
{
    struct cli_options *o = NULL;
    struct yokei_plan plan = YOKEI_PLAN_INIT;
    char folder[4096];
    int64_t step;
    bool replays = false;
    devices[0] = '\0';
    *n_out = 0;
    if (!verb || verb->bit != CLI_TRAIN) return YOKE_OK;
    YOKE_TRY(cli_look_options(context, verb, &o));
    const char *path = cli_text(o, "plan"), *from = cli_text(o, "resume");
    yoke_status status = path   ? yokei_plan_read(path, &plan)
                         : from ? yokei_run_resume_plan(from, folder, sizeof folder, &plan, &step, &replays)
                                : YOKE_OK;
    if (!status && (path || from)) status = list_planned(&plan, path ? path : from, devices, bytes);
    if (!status && devices[0] && !path && ((n_ranks && n_ranks != plan.n_ranks) || !are_here(devices))) {
        cli_note("%s was made on %s, which do not fit this job: looking at the devices of this host", from,
                 devices);
        devices[0] = '\0';
    }
    if (!status && devices[0]) {
        cli_note("--devices auto: those of %s: %s", path ? path : from, devices);
        *n_out = (int)plan.n_ranks;
    }
    yokei_plan_free(&plan);
    cli_options_free(o);
    return status;
}
