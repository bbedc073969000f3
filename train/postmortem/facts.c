/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a run: which replays and computations a post-mortem needs, and their results. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/map.h"
#include "train/models/model_files.h"
#include "train/postmortem/inside.h"
#include "train/text/bpe.h"

enum { STARTS = 3, CHECKED = 96, OTHERS = 64, BEHIND = 8 };

static void busy(const struct yokei_postmortem *p, const char *text)
{
    if (p->config->busy) p->config->busy(p->config->context, text);
}

/* ---- the files of the run ---- */

/* A later start without a black box may have written another plan into the same folder. */
static void check_plan(struct yokei_postmortem *p)
{
    const struct yokei_box_head *h = p->head;
    const int64_t n_stages = YOKE_MAX(p->plan.pipeline, 1), tensor = YOKE_MAX(p->plan.tensor, 1);
    int64_t n_working = 0;
    yoke_dtype then = YOKE_N_DTYPES, planned = YOKE_N_DTYPES;
    for (int64_t r = 0; r < p->plan.n_ranks; r++) n_working += p->plan.ranks[r].samples > 0;
    const bool same_precision = !yoke_dtype_parse(h->precision, &then)
                                && !yoke_dtype_parse(p->plan.precision, &planned) && then == planned;
    const bool same_layout = n_stages == h->n_stages && (p->plan.stage_tensor[0] || tensor == h->n_places);
    if (p->plan.batch == h->batch && p->plan.sequence == h->sequence && p->plan.seed == h->seed
        && same_precision && same_layout && (!p->plan.n_ranks || n_working == h->n_ranks))
        return;
    yokei_postmortem_miss(p->facts,
                          "the plan: plan.json is of another run (%" PRId64 " ranks, pp %" PRId64
                          ", tp %" PRId64 ", batch %" PRId64 ", sequence %" PRId64
                          ", %s) than the black box (%d ranks, pp %d, tp %d, batch %" PRId64
                          ", sequence %" PRId64 ", %s)",
                          n_working, n_stages, tensor, p->plan.batch, p->plan.sequence, p->plan.precision,
                          h->n_ranks, h->n_stages, h->n_places, h->batch, h->sequence, h->precision);
    p->has_plan = false;
}

static void read_plan(struct yokei_postmortem *p)
{
    char path[4200];
    yokei_text(path, sizeof path, "%s/plan.json", p->config->run);
    p->has_plan = yokei_plan_read(path, &p->plan) == YOKE_OK;
    if (!p->has_plan) yokei_postmortem_miss(p->facts, "the plan: %s", yoke_last_error());
    if (p->has_plan) check_plan(p);
    yokei_text(p->facts->precision, sizeof p->facts->precision, "%s", p->head->precision);
    yokei_text(p->facts->skip_samples, sizeof p->facts->skip_samples, "%s", p->head->skip_samples);
}

static yoke_status encode(const struct yokei_postmortem *p, const struct yokei_tokens_config *c,
                          struct yokei_tokens **tokens_out)
{
    struct yokei_bpe *bpe = NULL;
    struct yokei_map map;
    struct yokei_ids ids = { 0 };
    YOKE_TRY(yokei_bpe_open(p->config->tokenizer, &bpe));
    yoke_status status = yokei_map_open(p->data, YOKE_EDATA, &map);
    if (!status) {
        status = yokei_bpe_encode(bpe, map.data, map.bytes, 0, &ids);
        yokei_map_close(&map);
    }
    yokei_bpe_close(bpe);
    if (!status) return yokei_tokens_of(p->data, ids.id, ids.n, c, tokens_out);
    free(ids.id);
    return status;
}

static void open_tokens(struct yokei_postmortem *p)
{
    struct yokei_tokens_config c = YOKEI_TOKENS_CONFIG_INIT;
    p->data = p->config->data ? p->config->data : p->head->data_path;
    if (!p->has_plan) return;
    c.format = p->config->is_llmc ? YOKEI_TOKENS_LLMC : YOKEI_TOKENS_AUTO;
    c.vocab = yokei_model_vocabulary(yokei_plan_model(&p->plan));
    c.validation_share = p->plan.validation_share;
    const bool encodes = p->config->tokenizer && !p->config->is_llmc;
    if (encodes ? encode(p, &c, &p->tokens) : yokei_tokens_open(p->data, &c, &p->tokens)) {
        yokei_postmortem_miss(p->facts, "the data: %s", yoke_last_error());
        return;
    }
    if (yokei_tokens_hash(p->tokens) == p->head->data_hash) return;
    yokei_postmortem_miss(p->facts,
                          "the data: %s has other tokens now (hash %016" PRIx64
                          ") than in the run (%016" PRIx64 ")",
                          p->data, yokei_tokens_hash(p->tokens), p->head->data_hash);
    yokei_tokens_close(p->tokens);
    p->tokens = NULL;
}

static yoke_status list_devices(struct yokei_postmortem *p)
{
    p->facts->devices = calloc((size_t)p->boxes->n, sizeof *p->facts->devices);
    if (!p->facts->devices) return yoke_fail(YOKE_ENOMEM, "post-mortem: no host memory");
    for (int r = 0; r < p->boxes->n; r++)
        if (p->boxes->box[r])
            yokei_text(p->facts->devices[r], sizeof p->facts->devices[r], "%s",
                       p->boxes->box[r]->head.device);
    return YOKE_OK;
}

static yoke_status open_run(struct yokei_postmortem *p)
{
    YOKE_TRY(yokei_boxes_read(p->config->run, &p->boxes));
    int n_torn = 0;
    bool is_cut = false;
    for (int r = 0; r < p->boxes->n; r++) {
        if (!p->boxes->box[r]) {
            yokei_postmortem_miss(p->facts, "%s", p->boxes->problem[r]);
            continue;
        }
        if (!p->head) p->head = &p->boxes->box[r]->head;
        n_torn += p->boxes->box[r]->n_torn;
        is_cut = is_cut || p->boxes->box[r]->is_cut;
    }
    if (n_torn)
        yokei_postmortem_miss(p->facts, "%d records or events of the black box: they are torn", n_torn);
    if (is_cut) yokei_postmortem_miss(p->facts, "records of the black box: a file is cut");
    if (!p->boxes->n_steps)
        return yoke_fail(YOKE_EDATA, "%s: its black box has no record of a step", p->config->run);
    p->then = calloc(2 * (size_t)p->boxes->n_model_layers + 2, sizeof *p->then);
    if (!p->then) return yoke_fail(YOKE_ENOMEM, "post-mortem: no host memory");
    p->now = p->then + p->boxes->n_model_layers;
    YOKE_TRY(list_devices(p));
    p->facts->has_box = true;
    read_plan(p);
    open_tokens(p);
    return YOKE_OK;
}

/* ---- the places where replays can begin ---- */

static bool was_resumed_at(const struct yokei_postmortem *p, int64_t step)
{
    for (int r = 0; r < p->boxes->n; r++)
        for (int e = 0; p->boxes->box[r] && e < p->boxes->box[r]->n_events; e++) {
            const struct yokei_box_event *event = &p->boxes->box[r]->events[e];
            if (event->kind == YOKEI_BOX_EVENT_START && event->step == step && step > 0) return true;
        }
    return false;
}

static void add_start(const struct yokei_postmortem *p, struct yokei_postmortem_start *start, int *n,
                      int64_t step, const char *checkpoint)
{
    for (int i = 0; i < *n; i++)
        if (start[i].step == step) return;
    if (*n == STARTS || yokei_postmortem_find(p, step + 1) < 0) return;
    start[*n].step = step;
    start[*n].is_resume = was_resumed_at(p, step);
    yokei_text(start[(*n)++].checkpoint, sizeof start->checkpoint, "%s", checkpoint);
}

/* The checkpoint from which the newest start went on. It may lie elsewhere than those that the run saves. */
static void add_resumed(const struct yokei_postmortem *p, struct yokei_postmortem_start *start, int *n,
                        int64_t least)
{
    const struct yokei_box_head *h = p->head;
    const char *folder = p->config->folder;
    char path[4096];
    if (!h->resumed_from[0] || h->first_step >= p->facts->odd_step || h->first_step < least) return;
    yokei_text(path, sizeof path, "%s", h->resumed_from);
    if (!yokei_is_there(path) && path[0] != '/' && folder)
        yokei_text(path, sizeof path, "%s/%s", folder, h->resumed_from);
    if (yokei_is_there(path)) add_start(p, start, n, h->first_step, path);
}

/*
 * The nearest checkpoint before the odd step, the last one from which the run itself went on, and the next
 * older one, or the beginning of the run.
 */
static int find_starts(const struct yokei_postmortem *p, struct yokei_postmortem_start *start)
{
    struct yokei_checkpoint_entry *list = NULL;
    const char *dir = p->config->checkpoints;
    const int64_t odd = p->facts->odd_step, least = odd - p->config->most_steps;
    char path[4096];
    size_t n_list = 0;
    int n = 0;
    if (dir && yokei_checkpoint_list(dir, &list, &n_list))
        yokei_postmortem_miss(p->facts, "the checkpoints: %s", yoke_last_error());
    for (size_t i = 0; i < n_list; i++)
        if (list[i].state == YOKEI_CHECKPOINT_INCOMPLETE && list[i].step < odd && list[i].step >= least)
            yokei_postmortem_miss(p->facts, "the checkpoint of step %" PRId64 ": %s", list[i].step,
                                  list[i].why);
    for (int round = 0; round < 3; round++) { /* 0: the nearest; 1: of a resume; 2: any */
        if (round == 1) add_resumed(p, start, &n, least);
        for (size_t i = n_list; i-- > 0;) {
            if (list[i].state != YOKEI_CHECKPOINT_COMPLETE || list[i].step >= odd || list[i].step < least)
                continue;
            if (round == 1 && !was_resumed_at(p, list[i].step)) continue;
            yokei_checkpoint_path(dir, list[i].step, path, sizeof path);
            add_start(p, start, &n, list[i].step, path);
            if (round == 0) break;
        }
    }
    free(list);
    if (p->has_plan && least <= 0) add_start(p, start, &n, 0, "");
    if (!n)
        yokei_postmortem_miss(p->facts,
                              "a checkpoint of steps %" PRId64 " to %" PRId64
                              "%s%s: nothing can be repeated%s",
                              YOKE_MAX(least, (int64_t)1), odd - 1, dir ? " in " : "", dir ? dir : "",
                              least > 0 ? "; a larger --most-steps takes an older start" : "");
    return n;
}

/* ---- the losses of ranks and of samples ---- */

static void check_ranks(struct yokei_postmortem *p, const struct yokei_postmortem_start *start)
{
    struct yokei_postmortem_facts *f = p->facts;
    const int64_t i = yokei_postmortem_find(p, start->step + 1);
    const double tolerance = yokei_postmortem_rounding(f->precision);
    if (i < 0 || p->boxes->n < 2) return;
    for (int r = 0; r < p->boxes->n && f->n_rank_losses < YOKEI_POSTMORTEM_RANKS; r++) {
        if (!p->boxes->box[r] || p->boxes->steps[i].at[r] < 0) continue;
        const struct yokei_box_record *record = yokei_box_record(p->boxes->box[r], p->boxes->steps[i].at[r]);
        if (record->own_loss == 0) continue; /* the rank computes no loss */
        struct yokei_rank_loss *loss = &f->rank_loss[f->n_rank_losses];
        *loss = (struct yokei_rank_loss){ .rank = r, .then = record->own_loss };
        loss->now = yokei_postmortem_loss(p, start, start->step, record->first_sample, record->own_first,
                                          record->own_count);
        if (isnan(loss->now)) continue;
        yokei_text(loss->device, sizeof loss->device, "%s", p->boxes->box[r]->head.device);
        loss->is_off = !(fabs(loss->now - loss->then) <= tolerance * fabs(loss->now));
        f->n_rank_losses++;
    }
}

/*
 * The mean loss of the step behind `resumed` with the weights of `start`, of all samples or of those of a
 * rank; NaN: it cannot be computed.
 */
static double loss_behind(struct yokei_postmortem *p, const struct yokei_postmortem_start *resumed,
                          const struct yokei_postmortem_start *start, int rank)
{
    const int64_t i = yokei_postmortem_find(p, resumed->step + 1);
    const double T = (double)p->head->sequence;
    struct yokei_boxes_total t;
    yokei_boxes_step(p->boxes, i, &t, NULL);
    p->facts->recorded_loss = t.loss;
    if (rank < 0)
        return yokei_postmortem_loss(p, start, resumed->step, t.first_sample, 0, p->head->batch)
               / ((double)p->head->batch * T);
    const struct yokei_box_record *r = yokei_box_record(p->boxes->box[rank], p->boxes->steps[i].at[rank]);
    p->facts->recorded_loss = r->own_loss / ((double)r->own_count * T);
    return yokei_postmortem_loss(p, start, resumed->step, r->first_sample, r->own_first, r->own_count)
           / ((double)r->own_count * T);
}

/* If one rank alone differs, its samples are the evidence. A rank of a pipeline may compute no loss. */
static int rank_of_loss(const struct yokei_postmortem *p, const struct yokei_postmortem_start *resumed)
{
    const struct yokei_ranks_off *off = &p->facts->own.ranks_off;
    const int64_t i = yokei_postmortem_find(p, resumed->step + 1);
    if (off->n != 1 || i < 0 || p->boxes->steps[i].at[off->rank[0]] < 0) return -1;
    const struct yokei_box_record *r = yokei_box_record(p->boxes->box[off->rank[0]],
                                                        p->boxes->steps[i].at[off->rank[0]]);
    return r->own_loss != 0 && r->own_count > 0 ? off->rank[0] : -1;
}

static void check_stale(struct yokei_postmortem *p, const struct yokei_postmortem_start *start,
                        const struct yokei_postmortem_start *older)
{
    struct yokei_postmortem_facts *f = p->facts;
    f->stale_rank = rank_of_loss(p, start);
    f->resumed_loss = loss_behind(p, start, start, f->stale_rank);
    f->stale_loss = loss_behind(p, start, older, f->stale_rank);
    f->stale_step = older->step;
    f->is_stale_tried = isfinite(f->resumed_loss) && isfinite(f->stale_loss);
}

/* Samples of steps [first, last], at most `most`, and the steps that read them. */
static int list_samples(const struct yokei_postmortem *p, int64_t first, int64_t last, int most,
                        int64_t *samples, int64_t *steps)
{
    int n = 0;
    for (int64_t step = last; step >= first && step > 0; step--) {
        const int64_t i = yokei_postmortem_find(p, step);
        struct yokei_boxes_total t;
        if (i < 0) break;
        yokei_boxes_step(p->boxes, i, &t, NULL);
        for (int64_t k = 0; k < p->head->batch && n < most; k++) {
            steps[n] = step;
            samples[n++] = yokei_box_sample(p->head, t.first_sample, k);
        }
    }
    return n;
}

static void judge_samples(struct yokei_postmortem *p, const int64_t *samples, const int64_t *steps,
                          const double *losses, int n)
{
    struct yokei_postmortem_facts *f = p->facts;
    f->worst_sample.loss = f->first_bad_sample.loss = -INFINITY;
    f->n_samples = n;
    for (int i = 0; i < n; i++) {
        const double loss = losses[i];
        const struct yokei_sample_loss s = { .sample = samples[i],
                                             .token = yokei_box_sample_token(p->head, samples[i]),
                                             .byte = yokei_box_sample_byte(p->head, samples[i]),
                                             .step = steps[i],
                                             .loss = loss };
        if (!(loss <= f->worst_sample.loss)) f->worst_sample = s;
        if (loss <= f->others_limit) continue;
        if (f->n_bad_samples < YOKEI_POSTMORTEM_BAD) f->bad_sample[f->n_bad_samples] = s.sample;
        if (!f->n_bad_samples++ || s.sample < f->first_bad_sample.sample) f->first_bad_sample = s;
    }
}

/*
 * The samples of the last steps up to the odd one, against those of steps before. A sample is bad if the
 * model that has learnt the others would do better by a uniform guess, and if it is far from the others.
 */
static void check_samples(struct yokei_postmortem *p, const struct yokei_postmortem_start *start)
{
    struct yokei_postmortem_facts *f = p->facts;
    int64_t samples[YOKEI_POSTMORTEM_SAMPLES], steps[YOKEI_POSTMORTEM_SAMPLES];
    double losses[YOKEI_POSTMORTEM_SAMPLES], others[OTHERS], distance[OTHERS];
    char why[320];
    if (!p->tokens || !start->step) return;
    const int n = list_samples(p, YOKE_MAX(f->odd_step - 3, start->step - BEHIND), f->odd_step, CHECKED,
                               samples, steps),
              n_others = list_samples(p, f->odd_step - 64, YOKE_MIN(steps[n ? n - 1 : 0], f->odd_step) - 1,
                                      OTHERS, samples + n, steps + n);
    if (!n || n_others < 4) return;
    if (!yokei_postmortem_probe(p, start, "host", samples, n + n_others, losses, why, sizeof why)) {
        yokei_postmortem_miss(f, "the losses of single samples: %s", why);
        return;
    }
    for (int i = 0; i < n_others; i++) others[i] = losses[n + i];
    f->others_median = yokei_median(others, n_others);
    for (int i = 0; i < n_others; i++) distance[i] = fabs(others[i] - f->others_median);
    f->uniform_loss = log((double)yokei_model_vocabulary(yokei_plan_model(&p->plan)));
    f->others_limit = fmax(f->uniform_loss, f->others_median + 8 * 1.4826 * yokei_median(distance, n_others));
    f->n_others = n_others;
    f->are_samples_checked = true;
    judge_samples(p, samples, steps, losses, n);
}

/* ---- the weight that changed ---- */

/*
 * Repeat the steps up to the next checkpoint of the run, and compare the weights (weights.c). `device` as in
 * an order.
 */
static void find_weight(struct yokei_postmortem *p, const struct yokei_postmortem_start *start,
                        const char *device)
{
    struct yokei_checkpoint_entry *list = NULL;
    const int64_t off = p->facts->own.off_step;
    struct yokei_replayed again;
    char path[4200];
    int64_t next = -1;
    size_t n = 0;
    if (!p->config->checkpoints || yokei_checkpoint_list(p->config->checkpoints, &list, &n)) return;
    for (size_t i = 0; i < n && next < 0; i++)
        if (list[i].state == YOKEI_CHECKPOINT_COMPLETE && list[i].step >= off
            && list[i].step <= off + p->config->most_steps)
            next = list[i].step;
    free(list);
    if (next < 0) return;
    yokei_checkpoint_path(p->config->checkpoints, next, path, sizeof path);
    const struct yokei_postmortem_order o = {
        .start = start, .device = device, .rate = 1, .last = next, .beside = path
    };
    yokei_postmortem_replay(p, &o, &again);
}

/* ---- the replays ---- */

/* `device` NULL: in the layout of the run. */
static void repeat(struct yokei_postmortem *p, const struct yokei_postmortem_start *start, const char *device,
                   bool in_f32, double rate, int64_t last, struct yokei_replayed *out)
{
    const struct yokei_postmortem_order o = {
        .start = start, .device = device, .in_f32 = in_f32, .rate = rate, .last = last
    };
    char text[200], where[64];
    yokei_text(where, sizeof where, "%d ranks", (int)p->plan.n_ranks);
    if (device) yokei_text(where, sizeof where, "%s", device);
    yokei_text(text, sizeof text, "repeating steps %" PRId64 " to %" PRId64 " on %s%s%s", start->step + 1,
               last, where, in_f32 ? " in f32" : "", rate != 1 ? " with a lower learning rate" : "");
    busy(p, text);
    yokei_postmortem_replay(p, &o, out);
    if (!out->ran && !(p->config->is_other_optional && device && device == p->config->other))
        yokei_postmortem_miss(p->facts, "a replay on %s%s from step %" PRId64 ": %.200s", where,
                              in_f32 ? " in f32" : "", start->step, out->why);
}

/* Replays from each start until one differs from its records. Which start is used; -1: none. */
static int repeat_own(struct yokei_postmortem *p, const struct yokei_postmortem_start *start, int n,
                      const char *device)
{
    struct yokei_postmortem_facts *f = p->facts;
    struct yokei_replayed r;
    int used = -1;
    for (int i = 0; i < n; i++) {
        repeat(p, &start[i], device, false, 1, p->end, &r);
        if (!r.ran) continue;
        if (used >= 0 && r.off_step < 0) continue;
        f->own = r;
        used = i;
        if (r.off_step >= 0) break;
    }
    if (used < 0 || f->own.off_step != f->own.from + 1) return used;
    for (int i = 0; i < n && !f->elsewhere.ran; i++)
        if (start[i].step < f->own.from) repeat(p, &start[i], device, false, 1, f->own.from, &f->elsewhere);
    return used;
}

static void repeat_others(struct yokei_postmortem *p, const struct yokei_postmortem_start *start,
                          const char *device)
{
    struct yokei_postmortem_facts *f = p->facts;
    const int64_t last = f->own.off_step >= 0 ? f->own.off_step : p->end;
    const struct yokei_postmortem_config *c = p->config;
    if (f->own.n_ranks > 1) repeat(p, start, "host", false, 1, YOKE_MIN(last, start->step + 2), &f->alone);
    if (strcmp(f->precision, "f32") != 0) repeat(p, start, device, true, 1, last, &f->f32);
    if (c->other && strcmp(c->other, device) != 0)
        repeat(p, start, c->other, false, 1, YOKE_MIN(last, start->step + 2), &f->other);
    const bool has_diverged = f->odd != YOKEI_ODD_NONE && !f->has_recovered;
    if (f->own.off_step < 0 && (has_diverged || f->worst_update > YOKEI_WILD_UPDATE))
        repeat(p, start, device, false, 0.1, p->end, &f->slower);
}

static bool is_off_at_once(const struct yokei_replayed *r) { return r->ran && r->off_step == r->from + 1; }

/* A replay repeats the faults of the program. So a step that it repeats is compared with the formulas. */
static void check_program(struct yokei_postmortem *p, const struct yokei_postmortem_start *start)
{
    struct yokei_formula_check *c = &p->facts->formulas;
    busy(p, "comparing a step with the formulas of the model");
    yokei_postmortem_check_formulas(p, start);
    if (c->is_loss_off || c->is_output_off || c->is_gradient_off)
        repeat(p, start, "reference", false, 1, start->step + 1, &c->reference);
}

static void gather(struct yokei_postmortem *p)
{
    struct yokei_postmortem_start start[STARTS];
    struct yokei_postmortem_facts *f = p->facts;
    yokei_postmortem_look(p);
    const int n = find_starts(p, start);
    const char *device = p->config->device ? p->config->device : p->head->device;
    p->end = YOKE_MIN(f->odd_step + BEHIND, f->last_step);
    f->start_step = n ? start[0].step : -1;
    busy(p, "comparing the tokens");
    yokei_postmortem_check_tokens(p, YOKE_MAX(f->odd_step - p->config->most_steps, (int64_t)1), p->end);
    if (!n || !p->tokens) return;
    int used = yokei_postmortem_has_layout(p) ? repeat_own(p, start, n, NULL) : -1;
    if (used < 0) used = repeat_own(p, start, n, device);
    if (used < 0) return;
    f->start_step = start[used].step;
    f->is_resume = start[used].is_resume;
    repeat_others(p, &start[used], device);
    if (f->own.off_step > f->own.from + 1 && f->own.is_exact && f->own.is_loss_off) {
        busy(p, "looking for the weight that changed");
        find_weight(p, &start[used], f->own.n_ranks > 1 ? NULL : device);
    }
    if (!is_off_at_once(&f->own)) check_program(p, &start[used]);
    busy(p, "computing the losses of samples");
    if (f->own.off_step < 0) check_samples(p, &start[0]);
    if (is_off_at_once(&f->own) || is_off_at_once(&f->alone) || is_off_at_once(&f->other))
        check_ranks(p, &start[used]);
    for (int i = 0; i < n && f->is_resume && f->own.off_step == f->own.from + 1 && !f->is_stale_tried; i++)
        if (start[i].step < start[used].step) check_stale(p, &start[used], &start[i]);
}

yoke_status yokei_postmortem_gather(const struct yokei_postmortem_config *c, struct yokei_postmortem_facts *f)
{
    *f = (struct yokei_postmortem_facts){
        .start_step = -1, .tokens_step = -1, .rate_step = -1, .stale_rank = -1
    };
    struct yokei_postmortem p = { .config = c, .facts = f };
    const yoke_status status = open_run(&p);
    if (!status) gather(&p);
    yokei_tokens_close(p.tokens);
    yokei_plan_free(&p.plan);
    free(p.then);
    yokei_boxes_free(p.boxes);
    return status;
}

void yokei_postmortem_free(struct yokei_postmortem_facts *f)
{
    free(f->devices);
    f->devices = NULL;
}
