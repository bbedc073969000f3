/* SPDX-License-Identifier: Apache-2.0 */
/* The black box of a run (train/blackbox/box.h): what each rank notes of its steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/base.h"
#include "core/base/choices.h"
#include "train/run/black_box.h"
#include "train/trainer/facts.h"

struct yokei_run_box {
    struct yokei_box_writer *writer; /* NULL: this rank's file could not be made */
    struct yokei_box_values *values; /* [n_layers] */
    int *layer;                      /* [n_layers] index in the model of each layer of this rank */
    int n_layers;
    struct yokei_spike_series losses, norms;
    int64_t traced_step;  /* the last step whose passes were repeated; 0: none */
    int64_t noted_step;   /* the last step that has a record */
    int64_t first_sample; /* of the current step */
};

/* ---- creation ---- */

/* The layers and tensors that this rank holds. */
static yoke_status list(const struct yokei_run_state *s, struct yokei_run_box *b,
                        struct yokei_box_layer **layers_out, struct yokei_box_tensor **tensors_out)
{
    const struct yokei_trainer_plan *p = &s->trainer->plan;
    const int n = yoke_model_n_layers(s->model);
    struct yokei_box_layer *layers = calloc((size_t)n + 1, sizeof *layers);
    struct yokei_box_tensor *tensors = calloc((size_t)p->parameters.n + 1, sizeof *tensors);
    b->layer = calloc((size_t)n + 1, sizeof *b->layer);
    b->values = calloc((size_t)n + 1, sizeof *b->values);
    *layers_out = layers;
    *tensors_out = tensors;
    if (!layers || !tensors || !b->layer || !b->values)
        return yoke_fail(YOKE_ENOMEM, "black box: no host memory for %d layers", n);
    for (int l = 0; l < n; l++) {
        if (!p->held[l]) continue;
        yokei_text(layers[b->n_layers].name, sizeof layers->name, "%s", yoke_model_layer(s->model, l)->name);
        layers[b->n_layers].layer = l;
        b->layer[b->n_layers++] = l;
    }
    for (int i = 0; i < p->parameters.n; i++) {
        yokei_text(tensors[i].name, sizeof tensors->name, "%s", p->parameters.item[i].name);
        tensors[i].layer = p->parameters.first_layer[i];
        tensors[i].is_counted = p->counted[i];
        tensors[i].n = p->state.slot[i].n;
    }
    return YOKE_OK;
}

static void fill_data(const struct yokei_run_state *s, struct yokei_box_head *h)
{
    h->batch = s->t->plan.batch;
    h->sequence = s->t->plan.sequence;
    h->seed = s->t->plan.seed;
    h->data_hash = s->tokens_hash;
    h->n_training_tokens = yokei_tokens_count(s->tokens, YOKEI_TOKENS_TRAIN);
    yokei_tokens_place(s->tokens, &h->first_byte, &h->token_bytes);
    yokei_text(h->skip_samples, sizeof h->skip_samples, "%s", s->t->plan.skip_samples);
    yokei_text(h->data_path, sizeof h->data_path, "%s", s->t->tokens);
}

static void fill_device(const struct yokei_run_state *s, struct yokei_box_head *h)
{
    const struct yoke_device_info *info = yoke_device_info(s->t->device);
    yokei_text(h->precision, sizeof h->precision, "%s", yoke_dtype_name(s->config.precision));
    yokei_text(h->device, sizeof h->device, "%s", info->spec);
    yokei_text(h->device_name, sizeof h->device_name, "%s", info->name);
    yokei_text(h->driver, sizeof h->driver, "%s", info->driver);
    yokei_text(h->features, sizeof h->features, "%s", info->features);
    yokei_text(h->vendor, sizeof h->vendor, "%s", info->vendor);
    yokei_text(h->version_of_yoke, sizeof h->version_of_yoke, "%s", yoke_version());
    gethostname(h->host, sizeof h->host - 1);
    yokei_choices_text(s->t->device, h->choices, sizeof h->choices);
}

static void fill_head(const struct yokei_run_state *s, const struct yokei_run_box *b,
                      struct yokei_box_head *h)
{
    const struct yokei_trainer_plan *p = &s->trainer->plan;
    memset(h, 0, sizeof *h);
    h->rank = s->rank;
    h->n_ranks = s->n_ranks;
    h->job_rank = s->job.rank_of ? s->job.rank_of[s->placed[s->rank]] : s->rank;
    h->replica = p->mesh.d, h->stage = p->mesh.s, h->place = p->mesh.t;
    h->n_replicas = p->mesh.data, h->n_stages = p->mesh.pipeline, h->n_places = p->place.tensor_size;
    h->zero = s->config.zero;
    h->sample_every = (int32_t)YOKE_MIN(s->t->black_box_every, (int64_t)INT32_MAX);
    h->micro_batch = p->micro_batch;
    h->n_layers = (uint32_t)b->n_layers;
    h->n_tensors = (uint32_t)p->parameters.n;
    h->n_model_layers = yoke_model_n_layers(s->model);
    h->first_step = s->first_step;
    fill_data(s, h);
    fill_device(s, h);
    if (s->t->resume) yokei_text(h->resumed_from, sizeof h->resumed_from, "%s", s->t->resume);
}

/* Without the file the run goes on, because a record is not worth a training. */
static void open_file(const struct yokei_run_state *s, struct yokei_run_box *b,
                      const struct yokei_box_layer *layers, const struct yokei_box_tensor *tensors)
{
    struct yokei_box_head *head = malloc(sizeof *head);
    const bool goes_on = s->t->resume != NULL;
    if (!head) return;
    fill_head(s, b, head);
    if (s->rank == 0) yokei_box_drop(s->t->run_dir, s->n_ranks, goes_on);
    if (yokei_box_create(s->t->run_dir, head, layers, tensors, goes_on, &b->writer))
        yoke_log(YOKE_LOG_WARN, "rank %d trains without a black box: %s", s->rank, yoke_last_error());
    free(head);
}

yoke_status yokei_run_box_begin(struct yokei_run_state *s)
{
    struct yokei_box_layer *layers = NULL;
    struct yokei_box_tensor *tensors = NULL;
    if (!s->t->run_dir) return YOKE_OK;
    if (!s->t->black_box_every) {
        /* the box of an older run would be taken for that of this run, whose plan is in the folder now */
        if (s->rank == 0 && !s->t->resume) yokei_box_drop(s->t->run_dir, 0, false);
        return YOKE_OK;
    }
    struct yokei_run_box *b = s->box = calloc(1, sizeof *b);
    if (!b) return yoke_fail(YOKE_ENOMEM, "black box: no host memory");
    yoke_status status = list(s, b, &layers, &tensors);
    if (!status) status = yokei_step_facts_create(s->trainer);
    if (!status) open_file(s, b, layers, tensors);
    free(layers);
    free(tensors);
    return status;
}

/* ---- a step ---- */

void yokei_run_box_step(struct yokei_run_state *s, int64_t step)
{
    if (!s->box) return;
    /* the first step of a start is sampled too, because what changes with a start shows there */
    yokei_step_facts_begin(s->trainer, step % s->t->black_box_every == 0 || step == s->first_step + 1);
    s->box->first_sample = yokei_skips_nth(&s->skips, s->next_sample, 0);
    if (s->box->writer) yokei_box_begin(s->box->writer, step);
}

/* A hash of the step's tokens and targets, which tells whether a replay reads the same. */
static uint64_t hash_batch(const struct yokei_run_state *s)
{
    const size_t bytes = (size_t)(s->shares[s->rank] * s->t->plan.sequence) * sizeof(int32_t);
    return yokei_hash(s->targets, bytes, yokei_hash(s->inputs, bytes, 0));
}

static void fill_values(const struct yokei_run_state *s, const struct yokei_run_box *b)
{
    for (int i = 0; i < b->n_layers; i++) {
        const struct yokei_layer_facts *l = &s->trainer->facts->layer[b->layer[i]];
        b->values[i] = (struct yokei_box_values){
            .squares = l->squares,
            .n_bad = (uint64_t)l->n_bad,
            .update_squares = l->update_squares,
            .weight_squares = l->weight_squares,
            .largest = l->largest,
            .outputs_bad = (uint32_t)YOKE_MIN(l->outputs_bad, (int64_t)UINT32_MAX),
        };
    }
}

static struct yokei_box_record record_of(const struct yokei_run_state *s, const struct yoke_step_result *step,
                                         double rate)
{
    const struct yokei_step_facts *f = s->trainer->facts;
    struct yokei_box_record r = { .step = step->step,
                                  .seconds = step->seconds,
                                  .loss = step->loss,
                                  .gradient_norm = step->gradient_norm,
                                  .learning_rate = rate,
                                  .loss_scale = step->loss_scale,
                                  .own_loss = s->trainer->reports[s->rank].loss_sum,
                                  .first_sample = s->box->first_sample,
                                  .tokens_hash = hash_batch(s),
                                  .n_bad = f->n_bad,
                                  .bad_tensor = f->bad_tensor,
                                  .own_bad_tensor = f->own_bad_tensor,
                                  .own_bad = f->own_bad,
                                  .bad_layer = f->bad_layer,
                                  .bad_micro_batch = f->bad_micro_batch,
                                  .audit_ratio = NAN,
                                  .worst_sample = -1,
                                  .worst_loss = f->worst_loss };
    yoke_trainer_range(s->trainer, &r.own_first, &r.own_count);
    if (f->worst_sequence >= 0)
        r.worst_sample = yokei_skips_nth(&s->skips, r.first_sample, r.own_first + f->worst_sequence);
    r.flags = (step->overflow ? YOKEI_BOX_OVERFLOW : 0u) | (f->samples ? YOKEI_BOX_SAMPLED : 0u)
              | (f->is_traced ? YOKEI_BOX_TRACED : 0u);
    return r;
}

/* Note spikes in the record. True: one begins. */
static bool judge(struct yokei_run_box *b, struct yokei_box_record *r)
{
    struct yokei_spike spike;
    bool any = false;
    if (isfinite(r->loss) && yokei_spike_loss(&yokei_spike_rule, &b->losses, r->loss, &spike)) {
        yokei_box_note(b->writer, YOKEI_BOX_EVENT_LOSS_SPIKE, r->step, r->loss, spike.median, spike.limit,
                       NULL);
        r->flags |= YOKEI_BOX_LOSS_SPIKE;
        any = true;
    }
    if (!(r->flags & YOKEI_BOX_OVERFLOW) && isfinite(r->gradient_norm)
        && yokei_spike_norm(&yokei_spike_rule, &b->norms, r->gradient_norm, &spike)) {
        yokei_box_note(b->writer, YOKEI_BOX_EVENT_NORM_SPIKE, r->step, r->gradient_norm, spike.median,
                       spike.limit, NULL);
        r->flags |= YOKEI_BOX_NORM_SPIKE;
        any = true;
    }
    return any;
}

static void note_overflow(const struct yokei_run_state *s, const struct yokei_box_record *r)
{
    const struct yokei_step_facts *f = s->trainer->facts;
    const int tensor = f->own_bad_tensor >= 0 ? f->own_bad_tensor : f->bad_tensor;
    yokei_box_note(s->box->writer, YOKEI_BOX_EVENT_OVERFLOW, r->step, r->loss_scale,
                   (double)(f->is_traced ? f->own_bad : f->n_bad), 0,
                   tensor >= 0 ? s->trainer->plan.parameters.item[tensor].name : NULL);
}

static void write_record(struct yokei_run_state *s, struct yokei_box_record *r)
{
    struct yokei_run_box *b = s->box;
    b->noted_step = r->step;
    if (!b->writer) return;
    const bool begins = !(r->flags & (YOKEI_BOX_UNFINISHED | YOKEI_BOX_BAD_LOSS)) && judge(b, r);
    if (r->flags & YOKEI_BOX_OVERFLOW) note_overflow(s, r);
    fill_values(s, b);
    yokei_box_append(b->writer, r, b->values);
    if (begins && yokei_box_copy(b->writer, r->step))
        yoke_log(YOKE_LOG_WARN, "the black box was not copied after a spike: %s", yoke_last_error());
}

/*
 * Repeat the passes of a step that overflowed, but not so often that it costs more than the samples do. All
 * ranks decide alike. With fp16 the first steps overflow until the loss scale is right.
 */
static yoke_status trace_back(struct yokei_run_state *s, int64_t step, bool must)
{
    struct yokei_run_box *b = s->box;
    if (!must && b->traced_step && step - b->traced_step < s->t->black_box_every) return YOKE_OK;
    b->traced_step = step;
    return yokei_trainer_trace_back(s->trainer, s->inputs, s->targets);
}

yoke_status yokei_run_box_applied(struct yokei_run_state *s, const struct yoke_step_result *step)
{
    return s->box && step->overflow ? trace_back(s, step->step, false) : YOKE_OK;
}

void yokei_run_box_note(struct yokei_run_state *s, const struct yoke_step_result *step, double rate,
                        yoke_status audited)
{
    struct yokei_run_box *b = s->box;
    if (!b) return;
    struct yokei_box_record r = record_of(s, step, rate);
    if (b->writer && s->audit && step->step % s->t->audit_every == 0) {
        r.flags |= YOKEI_BOX_AUDITED;
        r.audit_ratio = s->audited.ratio;
        yokei_box_audited(b->writer, step->step, s->audited.ratio, s->audited.seconds, audited);
        if (audited)
            yokei_box_note(b->writer, YOKEI_BOX_EVENT_AUDIT, step->step, s->audited.ratio, 0, 0, NULL);
    }
    write_record(s, &r);
}

/* ---- the end ---- */

/* A step has begun and has no record. All ranks know its loss if the ranks have agreed on it. */
static void note_unfinished(struct yokei_run_state *s, yoke_status status)
{
    struct yokei_run_box *b = s->box;
    const struct yoke_trainer *t = s->trainer;
    const struct yoke_step_result *step = &t->result;
    const bool has_loss = status == YOKE_ENUMERIC;
    if (has_loss && (!isfinite(step->loss) || step->overflow)) {
        struct yokei_error text;
        yokei_error_save(&text);
        trace_back(s, step->step, true);
        yokei_error_restore(&text);
    }
    if (!b->writer) return;
    struct yokei_box_record r = record_of(s, step, NAN);
    r.flags |= YOKEI_BOX_UNFINISHED;
    if (!has_loss) r.loss = r.gradient_norm = r.own_loss = NAN;
    if (has_loss && !isfinite(step->loss)) {
        const int layer = t->facts->bad_layer;
        r.flags |= YOKEI_BOX_BAD_LOSS;
        yokei_box_note(b->writer, YOKEI_BOX_EVENT_BAD_LOSS, r.step, r.own_loss, 0, 0,
                       layer >= 0 ? yoke_model_layer(s->model, layer)->name : NULL);
    }
    write_record(s, &r);
}

void yokei_run_box_end(struct yokei_run_state *s, yoke_status status)
{
    struct yokei_run_box *b = s->box;
    struct yokei_error text;
    if (!b) return;
    yokei_error_save(&text);
    if (s->begun_ns && status && status != YOKE_EPREEMPTED && b->noted_step < s->trainer->step)
        note_unfinished(s, status);
    yokei_box_close(b->writer,
                    !status                     ? YOKEI_BOX_DONE
                    : status == YOKE_EPREEMPTED ? YOKEI_BOX_STOPPED
                                                : YOKEI_BOX_FAILED,
                    status, status ? text.text : NULL);
    yokei_error_restore(&text);
    free(b->layer);
    free(b->values);
    free(b);
    s->box = NULL;
}
