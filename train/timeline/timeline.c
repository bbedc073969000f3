/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collect a timeline during a run. Each rank keeps its own records. At the end rank 0 receives all records
 * over host memory, in pieces.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/base.h"
#include "train/timeline/timeline.h"
#include "train/trainer/trainer.h"

struct yokei_collector {
    char *path;
    int64_t first_step;
    int wanted, taken; /* numbers of steps */
    yoke_trainer *trainer;
    struct yokei_times *times; /* [wanted][instructions] */
    bool finished;
    yoke_status status; /* result of simulating and writing, on rank 0 */
    char text[512];
    struct yokei_timeline_summary summary;
};

/* ---- a rank's own part ---- */

yoke_status yokei_collector_create(const char *path, int64_t first_step, int n_steps, yoke_trainer *trainer,
                                   struct yokei_collector **collector_out)
{
    struct yokei_collector *t = calloc(1, sizeof *t);
    if (t) t->path = strdup(path);
    if (t) t->times = calloc((size_t)n_steps * (size_t)trainer->record.n + 1, sizeof *t->times);
    if (!t || !t->path || !t->times) {
        yokei_collector_free(t);
        return yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %d steps of %d instructions", n_steps,
                         trainer->record.n);
    }
    t->first_step = first_step;
    t->wanted = n_steps;
    t->trainer = trainer;
    *collector_out = t;
    return YOKE_OK;
}

void yokei_collector_free(struct yokei_collector *t)
{
    if (!t) return;
    free(t->path);
    free(t->times);
    free(t);
}

static bool is_collected(const struct yokei_collector *t, int64_t step)
{
    return step >= t->first_step && step < t->first_step + t->wanted;
}

void yokei_collector_before(struct yokei_collector *t, int64_t step)
{
    yokei_trainer_exact(t->trainer, is_collected(t, step));
}

yoke_status yokei_collector_behind(struct yokei_collector *t, int64_t step)
{
    const struct yokei_record *record;
    if (!is_collected(t, step)) return YOKE_OK;
    YOKE_TRY(yokei_trainer_record(t->trainer, &record));
    memcpy(t->times + (size_t)t->taken++ * (size_t)record->n, record->at,
           (size_t)record->n * sizeof *record->at);
    return YOKE_OK;
}

bool yokei_collector_is_full(const struct yokei_collector *t) { return t->taken == t->wanted; }

/* The bytes of a message or a sum. For other instructions, the bytes that their ops move. */
static double bytes_of(const struct yoke_trainer *t, const struct yokei_instruction *i)
{
    const struct yokei_program *p = &t->plan.train;
    const int buffer = i->x >= 0 ? i->x : i->y;
    if (i->kind == YOKEI_REDUCE)
        return (double)t->plan.state.bucket[i->bucket].n * (double)yoke_dtype_bytes(t->plan.state.wide);
    if (yokei_is_message(i->kind)) return buffer >= 0 ? (double)p->buffer[buffer].bytes : 0;
    return yokei_instruction_cost(p, i).bytes;
}

static double memory_at(const struct yoke_trainer *t, int n)
{
    const struct yokei_program *p = &t->plan.train;
    double bytes = (double)t->plan.state.bytes;
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffer[b].first <= n && n <= p->buffer[b].last) bytes += (double)p->buffer[b].bytes;
    return bytes;
}

/* Pack the instructions, then the times of all steps in seconds since `origin_ns` of this rank's clock. */
static double *words_of(const struct yokei_collector *t, uint64_t origin_ns)
{
    const struct yokei_program *p = &t->trainer->plan.train;
    const size_t n = (size_t)p->n, n_times = (size_t)t->taken * n;
    double *words = malloc((n * YOKEI_TIMELINE_WORDS + n_times * 4 + 1) * sizeof *words), *w = words;
    for (int i = 0; words && i < p->n; i++) {
        const struct yokei_instruction *in = &p->instruction[i];
        const double packed[YOKEI_TIMELINE_WORDS] = { in->kind,
                                                      in->layer,
                                                      in->micro_batch,
                                                      in->chunk,
                                                      in->bucket,
                                                      in->stream,
                                                      in->recomputes,
                                                      yokei_instruction_cost(p, in).flops,
                                                      bytes_of(t->trainer, in),
                                                      memory_at(t->trainer, i) };
        memcpy(w, packed, sizeof packed);
        w += YOKEI_TIMELINE_WORDS;
    }
    for (size_t i = 0; words && i < n_times; i++) {
        const struct yokei_times *at = &t->times[i];
        const uint64_t ns[4] = { at->posted, at->begin, at->returned, at->end ? at->end : at->returned };
        for (int k = 0; k < 4; k++) *w++ = at->posted ? (double)(int64_t)(ns[k] - origin_ns) * 1e-9 : NAN;
    }
    return words;
}

/* ---- the parts of all ranks, on rank 0 ---- */

/* The numbers that a rank sends before its part of the timeline. */
struct header {
    double n, taken, host_id;
    char host[64], device[32];
};
enum { HEADER_WORDS = sizeof(struct header) / sizeof(double) };

static yoke_status gather_headers(const struct yokei_collector *t, struct yokei_timeline *timeline,
                                  struct header *all)
{
    const struct yoke_trainer *trainer = t->trainer;
    struct header mine = { .n = trainer->plan.train.n,
                           .taken = t->taken,
                           .host_id = (double)(yokei_host_id() >> 12) };
    gethostname(mine.host, sizeof mine.host - 1);
    yokei_text(mine.device, sizeof mine.device, "%s", yoke_device_info(trainer->device)->spec);
    YOKE_TRY(yokei_ranks_gather(&trainer->config, (const double *)(const void *)&mine, HEADER_WORDS,
                                (double *)(void *)all));
    timeline->n_steps = t->taken;
    for (int r = 0; r < timeline->n_ranks; r++) {
        struct yokei_timeline_rank *rank = &timeline->rank[r];
        const struct yokei_mesh at = yokei_mesh_at(&trainer->plan.mesh, r);
        rank->n = (int)all[r].n;
        rank->d = at.d, rank->s = at.s, rank->t = at.t;
        yokei_text(rank->host, sizeof rank->host, "%.63s", all[r].host);
        yokei_text(rank->device, sizeof rank->device, "%.31s", all[r].device);
        timeline->n_steps = YOKE_MIN(timeline->n_steps, (int)all[r].taken);
    }
    return YOKE_OK;
}

static yoke_status unpack(struct yokei_timeline *timeline, struct yokei_timeline_rank *r, const double *w)
{
    const size_t n = (size_t)r->n, n_times = (size_t)timeline->n_steps * n;
    r->list = calloc(n + 1, sizeof *r->list);
    r->span = calloc(n_times + 1, sizeof *r->span);
    if (!r->list || !r->span)
        return yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %zu instructions", n);
    for (size_t i = 0; i < n; i++, w += YOKEI_TIMELINE_WORDS)
        r->list[i] = (struct yokei_timeline_instruction){ (int)w[0], (int)w[1], (int)w[2], (int)w[3],
                                                          (int)w[4], (int)w[5], (int)w[6], w[7],
                                                          w[8],      w[9] };
    for (size_t i = 0; i < n_times; i++, w += 4)
        r->span[i] = (struct yokei_timeline_span){ w[0] + r->clock_offset, w[1] + r->clock_offset,
                                                   w[2] + r->clock_offset, w[3] + r->clock_offset };
    return YOKE_OK;
}

/*
 * Collect all parts on rank 0. Times are sent relative to an origin of each rank's own clock, so that they
 * keep their nanoseconds. A rank's origin is the time at which its first instruction was posted. The measured
 * offset converts the times of a rank to rank 0's clock and origin.
 */
static yoke_status collect(const struct yokei_collector *t, struct yokei_timeline *timeline,
                           struct header *all)
{
    const struct yoke_trainer_config *c = &t->trainer->config;
    const int me = t->trainer->plan.rank;
    YOKE_TRY(gather_headers(t, timeline, all));
    double *offsets = calloc(2 * (size_t)timeline->n_ranks, sizeof *offsets),
           *errors = offsets + timeline->n_ranks;
    if (!offsets) return yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %d ranks", timeline->n_ranks);
    const uint64_t origin = t->times[0].posted;
    yoke_status status = YOKE_OK;
    for (int r = 1; r < timeline->n_ranks && !status; r++)
        if (me == 0 || me == r)
            status = yokei_ranks_clock(c, r, origin, all[r].host_id == all[0].host_id, &offsets[r],
                                       &errors[r]);
    double *words = words_of(t, origin);
    if (!words && !status)
        status = yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %d instructions", t->trainer->record.n);
    status = yokei_ranks_all_well(c, status);
    for (int r = 0; r < timeline->n_ranks && !status; r++) {
        struct yokei_timeline_rank *rank = &timeline->rank[r];
        /*
         * Every rank has recorded the same number of steps as this one, because all ranks collect the same
         * steps.
         */
        const size_t n = (size_t)rank->n * (YOKEI_TIMELINE_WORDS + 4 * (size_t)timeline->n_steps);
        double *his = me == 0 && r ? malloc((n + 1) * sizeof *his) : NULL;
        if (me == 0) rank->clock_offset = offsets[r], rank->clock_error = errors[r];
        /* this error ends the run, because rank r waits */
        if (me == 0 && r && !his)
            status = yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %zu numbers", n);
        if (!status && r) status = yokei_ranks_hand_over(c, r, words, n, his);
        if (!status && me == 0) status = unpack(timeline, rank, r ? his : words);
        free(his);
    }
    free(offsets);
    free(words);
    return status;
}

static yoke_status write_file(const struct yokei_timeline *timeline,
                              const struct yokei_timeline_simulation *simulation, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "timeline %s: no host memory", path);
    yokei_timeline_json(timeline, simulation, to);
    yoke_status status = fclose(to) ? yoke_fail(YOKE_ENOMEM, "timeline %s: no host memory for its text", path)
                                    : YOKE_OK;
    if (!status) status = yokei_file_write(path, text, bytes);
    free(text);
    return status ? yoke_fail_context(status, "the timeline was not written, all else of the run is complete")
                  : YOKE_OK;
}

/* On rank 0: simulate and write. */
static yoke_status make_use(struct yokei_collector *t, const struct yokei_timeline *timeline)
{
    struct yokei_timeline_simulation simulation;
    YOKE_TRY(yokei_timeline_simulate(timeline, &simulation));
    t->summary = simulation.summary;
    const yoke_status status = write_file(timeline, &simulation, t->path);
    yokei_timeline_simulation_free(&simulation);
    return status;
}

static void timeline_free(struct yokei_timeline *t)
{
    for (int r = 0; r < t->n_ranks && t->rank; r++) {
        free(t->rank[r].list);
        free(t->rank[r].span);
    }
    free(t->rank);
    memset(t, 0, sizeof *t);
}

yoke_status yokei_collector_finish(struct yokei_collector *t)
{
    const struct yokei_trainer_plan *p = &t->trainer->plan;
    struct yokei_timeline timeline = { .mesh = p->mesh,
                                       .n_ranks = p->n_ranks,
                                       .first_step = t->first_step,
                                       .layers = (const yoke_layer *const *)t->trainer->model->layer };
    if (t->finished || !t->taken) return YOKE_OK;
    t->finished = true;
    yokei_trainer_exact(t->trainer, false);
    struct header *all = calloc((size_t)p->n_ranks, sizeof *all);
    timeline.rank = calloc((size_t)p->n_ranks, sizeof *timeline.rank);
    yoke_status status = all && timeline.rank
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %d ranks", p->n_ranks);
    if (!status) status = collect(t, &timeline, all);
    if (!status && p->rank == 0) {
        yokei_ranks_busy(&t->trainer->config, "writing a timeline");
        t->status = make_use(t, &timeline);
        if (t->status) yokei_text(t->text, sizeof t->text, "%s", yoke_last_error());
    }
    timeline_free(&timeline);
    free(all);
    return status;
}

yoke_status yokei_collector_status(struct yokei_collector *t)
{
    return yokei_ranks_all_well(&t->trainer->config,
                                t->status ? yoke_fail(t->status, "%s", t->text) : YOKE_OK);
}

const struct yokei_timeline_summary *yokei_collector_summary(const struct yokei_collector *t)
{
    return t->summary.n_steps ? &t->summary : NULL;
}
