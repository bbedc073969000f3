/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of a run beside its loss: every device's peak and work, and a timeline. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "core/base/base.h"
#include "core/base/emulated.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

enum { FIRST_COLLECTED = 3 }; /* earlier steps warm up caches and the network's windows */

/*
 * All ranks measure at the same time, because the ranks of one host share its memory and, on a CPU, its clock
 * rate.
 */
static double own_peak(struct yokei_run_state *s)
{
    double peak = NAN;
    if (s->t->peak == YOKEI_PEAK_GIVEN) return s->t->peak_flops;
    if (s->t->peak == YOKEI_PEAK_OFF) return NAN;
    return yoke_gemm_peak(s->t->device, s->config.precision, &peak, NULL) ? NAN : peak;
}

/*
 * If streams are queued, run one more step in which all computation is synchronised. The waiting times of
 * later steps are derived from the time that the passes took in this step.
 */
static yoke_status look_at_step(struct yokei_run_state *s, bool some_queue)
{
    struct yoke_step_result result;
    if (!some_queue) return YOKE_OK;
    yokei_trainer_exact(s->trainer, true);
    YOKE_TRY(yoke_trainer_backward(s->trainer, s->inputs, s->targets, 0, &result));
    yokei_trainer_exact(s->trainer, false);
    return yoke_trainer_apply(s->trainer, 0, &result);
}

yoke_status yokei_run_look(struct yokei_run_state *s)
{
    enum { QUEUES, FLOPS, PEAK, EMULATED, SAID };
    double mine[SAID] = { !yokei_is_eager(s->t->device), yokei_trainer_flops(s->trainer), NAN,
                          yokei_is_emulated(yoke_device_info(s->t->device)->features) };
    bool some_queue = false;
    double *all = calloc((size_t)s->n_ranks * SAID, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    /* This gather lets all ranks start the measurement together. */
    yoke_status status = yokei_ranks_gather(&s->config, mine, SAID, all);
    for (int r = 0; r < s->n_ranks; r++) some_queue |= all[r * SAID + QUEUES] != 0;
    yokei_run_busy(s, "measuring each device's peak");
    mine[PEAK] = own_peak(s);
    if (!status) status = yokei_ranks_gather(&s->config, mine, SAID, all);
    for (int r = 0; r < s->n_ranks && !status; r++) {
        s->flops[r] = all[r * SAID + FLOPS];
        s->peaks[r] = all[r * SAID + PEAK];
        if (s->t->peak == YOKEI_PEAK_MEASURED && isnan(s->peaks[r]) && all[r * SAID + EMULATED] == 0)
            yokei_run_note(s, "rank %d: the peak of %s could not be measured, so there is no mfu: %s", r,
                           s->ranks[r].device,
                           r == s->rank ? yoke_last_error() : "it says why if YOKE_LOG=1 is set");
    }
    free(all);
    if (!status) status = look_at_step(s, some_queue);
    return status;
}

/* A path that cannot be written is refused before the training. The reader of a pipe would see an end. */
static yoke_status check_path(const char *path)
{
    struct stat is;
    struct yokei_output *output;
    if (!stat(path, &is) && !S_ISREG(is.st_mode)) return YOKE_OK;
    YOKE_TRY(yokei_output_open(path, &output));
    yokei_output_abandon(output);
    return YOKE_OK;
}

yoke_status yokei_run_begin_timeline(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    const int64_t wanted = YOKE_MAX(s->t->timeline_steps, 1);
    int64_t first = s->first_step + FIRST_COLLECTED;
    if (!s->t->timeline) return YOKE_OK;
    if (s->rank == 0) YOKE_TRY(check_path(s->t->timeline));
    /* If the run is short, its last steps are collected. */
    if (p->budget_seconds <= 0) first = YOKE_MAX(YOKE_MIN(first, p->steps - wanted + 1), s->first_step + 1);
    return yokei_collector_create(s->t->timeline, first, (int)wanted, s->trainer, &s->collector);
}

yoke_status yokei_run_timeline(struct yokei_run_state *s, bool is_end)
{
    if (!s->collector || (!is_end && !yokei_collector_is_full(s->collector))) return YOKE_OK;
    return yokei_collector_finish(s->collector);
}
