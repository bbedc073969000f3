/* SPDX-License-Identifier: Apache-2.0 */
/* yoke blackbox --json: one JSON object per line. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options/json_values.h"
#include "cli/show/blackbox.h"
#include "core/base/base.h"

/* Write a line, and release the object. */
static yoke_status put(json_t *object, FILE *to)
{
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    if (!line) return yoke_fail(YOKE_ENOMEM, "yoke blackbox: no host memory");
    fprintf(to, "%s\n", line);
    free(line);
    return YOKE_OK;
}

static json_t *whole(int64_t x) { return json_integer((json_int_t)x); }
static json_t *text_or_null(const char *text) { return text && text[0] ? cli_json_text(text) : json_null(); }
static json_t *index_or_null(int64_t x) { return x >= 0 ? whole(x) : json_null(); }

static json_t *hash_text(uint64_t hash)
{
    char text[24];
    yokei_text(text, sizeof text, "%016llx", (unsigned long long)hash);
    return json_string(text);
}

/* As plan.json has it, because many JSON readers keep numbers in doubles. */
static json_t *seed_text(uint64_t seed)
{
    char text[24];
    yokei_text(text, sizeof text, "%llu", (unsigned long long)seed);
    return json_string(text);
}

static json_t *mesh_of(const struct yokei_box_head *h)
{
    return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "replica", h->replica, "replicas", h->n_replicas,
                     "stage", h->stage, "stages", h->n_stages, "tensor_rank", h->place, "tensor_ranks",
                     h->n_places, "zero", h->zero);
}

static json_t *device_of(const struct yokei_box_head *h)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "spec", text_or_null(h->device), "name",
                     text_or_null(h->device_name), "driver", text_or_null(h->driver), "features",
                     text_or_null(h->features), "vendor", text_or_null(h->vendor), "choices",
                     text_or_null(h->choices));
}

static json_t *data_of(const struct yokei_box_head *h)
{
    return json_pack("{s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:s}", "path", text_or_null(h->data_path), "hash",
                     hash_text(h->data_hash), "training_tokens", (json_int_t)h->n_training_tokens,
                     "token_bytes", (json_int_t)h->token_bytes, "first_byte", (json_int_t)h->first_byte,
                     "batch", (json_int_t)h->batch, "sequence", (json_int_t)h->sequence, "micro_batch",
                     (json_int_t)h->micro_batch, "skip_samples", h->skip_samples);
}

static json_t *audit_of(const struct yokei_box_status *s)
{
    if (!s->audit_step) return json_null();
    return json_pack("{s:I,s:o,s:o,s:s}", "step", (json_int_t)s->audit_step, "ratio",
                     cli_json_real(s->audit_ratio), "seconds", cli_json_real(s->audit_seconds), "status",
                     yoke_status_name((yoke_status)s->audit_status));
}

static yoke_status put_rank(const struct yokei_boxes *b, int r, FILE *to)
{
    const struct yokei_box *box = b->box[r];
    if (!box)
        return put(json_pack("{s:s,s:i,s:o}", "kind", "rank", "rank", r, "problem",
                             text_or_null(b->problem[r])),
                   to);
    const struct yokei_box_head *h = &box->head;
    const bool runs = box->status.end == YOKEI_BOX_RUNS;
    json_t *o = json_pack("{s:s,s:i,s:i,s:i,s:o,s:i,s:o,s:o,s:o,s:s,s:o}", "kind", "rank", "rank", r,
                          "job_rank", h->job_rank, "ranks", h->n_ranks, "host", text_or_null(h->host), "pid",
                          h->pid, "mesh", mesh_of(h), "device", device_of(h), "data", data_of(h), "precision",
                          h->precision, "yoke", text_or_null(h->version_of_yoke));
    if (!o) return yoke_fail(YOKE_ENOMEM, "yoke blackbox: no host memory");
    json_object_set_new(o, "seed", seed_text(h->seed));
    json_object_set_new(o, "sample_every", whole(h->sample_every));
    json_object_set_new(o, "started", cli_json_real(h->started));
    json_object_set_new(o, "start", whole(h->attempt));
    json_object_set_new(o, "first_step", whole(h->first_step));
    json_object_set_new(o, "resumed_from", text_or_null(h->resumed_from));
    json_object_set_new(o, "end", json_string(yokei_box_end_names[box->status.end]));
    json_object_set_new(o, "end_step", whole(runs ? box->begun_step : box->status.end_step));
    json_object_set_new(o, "status", json_string(yoke_status_name((yoke_status)box->status.error)));
    json_object_set_new(o, "error", text_or_null(box->status.text));
    json_object_set_new(o, "audit", audit_of(&box->status));
    json_object_set_new(o, "records", whole(box->n));
    json_object_set_new(o, "torn", whole(box->n_torn));
    json_object_set_new(o, "cut", json_boolean(box->is_cut));
    json_object_set_new(o, "problem", json_null());
    json_object_set_new(o, "rule",
                        json_pack("{s:i,s:i,s:i,s:f,s:f,s:f,s:f}", "window", h->window, "least_values",
                                  h->least_values, "quiet_steps", h->quiet_steps, "loss_deviations",
                                  h->loss_deviations, "loss_least", h->loss_least, "norm_deviations",
                                  h->norm_deviations, "norm_least", h->norm_least));
    return put(o, to);
}

static yoke_status put_event(int r, const struct yokei_box_event *e, FILE *to)
{
    return put(json_pack("{s:s,s:i,s:s,s:I,s:i,s:o,s:o,s:o,s:o,s:o}", "kind", "event", "rank", r, "event",
                         yokei_box_kind_names[e->kind], "step", (json_int_t)e->step, "start", (int)e->attempt,
                         "time", cli_json_real(e->time), "a", cli_json_real(e->a), "b", cli_json_real(e->b),
                         "c", cli_json_real(e->c), "text", text_or_null(e->text)),
               to);
}

/* ---- steps ---- */

/* The samples of a rank's replica; where each one begins, if `places`. */
static json_t *rank_of_step(const struct yokei_box *box, int r, int64_t at, bool places)
{
    const struct yokei_box_record *record = yokei_box_record(box, at);
    const struct yokei_box_head *h = &box->head;
    const int64_t first = yokei_box_sample(h, record->first_sample, record->own_first);
    json_t *list = json_null();
    if (places) {
        list = json_array();
        for (int64_t k = 0; k < YOKE_MIN(record->own_count, h->batch); k++) {
            const int64_t sample = yokei_box_sample(h, first, k);
            json_array_append_new(list, index_or_null(h->token_bytes ? yokei_box_sample_byte(h, sample)
                                                                     : yokei_box_sample_token(h, sample)));
        }
    }
    return json_pack("{s:i,s:I,s:I,s:o,s:o,s:o,s:I,s:I}", "rank", r, "first_sample", (json_int_t)first,
                     "samples", (json_int_t)record->own_count, "tokens_hash", hash_text(record->tokens_hash),
                     "places", list, "own_loss", cli_json_real(record->own_loss), "not_finite",
                     (json_int_t)record->n_bad, "own_not_finite", (json_int_t)record->own_bad);
}

static json_t *layers_of_step(const struct yokei_boxes *b, const struct yokei_boxes_layer *layers)
{
    json_t *list = json_array();
    for (int l = 0; l < b->n_model_layers; l++)
        json_array_append_new(
            list,
            json_pack("{s:o,s:o,s:o,s:o,s:o,s:I,s:I}", "layer", text_or_null(b->layer[l]), "gradient_norm",
                      cli_json_real(layers[l].gradient_norm), "largest_output",
                      cli_json_real(layers[l].largest), "update_norm", cli_json_real(layers[l].update_norm),
                      "update_ratio", cli_json_real(layers[l].update_ratio), "gradients_not_finite",
                      (json_int_t)layers[l].n_bad, "outputs_not_finite", (json_int_t)layers[l].outputs_bad));
    return list;
}

static yoke_status put_step(const struct cli_blackbox *b, int64_t i, struct yokei_boxes_layer *layers,
                            FILE *to)
{
    const uint32_t odd = YOKEI_BOX_OVERFLOW | YOKEI_BOX_LOSS_SPIKE | YOKEI_BOX_NORM_SPIKE | YOKEI_BOX_BAD_LOSS
                         | YOKEI_BOX_UNFINISHED;
    const struct yokei_boxes *all = b->boxes;
    struct yokei_boxes_total t;
    char flags[160];
    yokei_boxes_step(all, i, &t, layers);
    cli_blackbox_flags(t.flags, flags, sizeof flags);
    json_t *ranks = json_array();
    for (int r = 0; r < all->n; r++)
        if (all->steps[i].at[r] >= 0)
            json_array_append_new(ranks, rank_of_step(all->box[r], r, all->steps[i].at[r],
                                                      i == b->chosen || t.flags & odd));
    json_t *o = json_pack("{s:s,s:I,s:i,s:o,s:o,s:o,s:o,s:o,s:o}", "kind", "step", "step", (json_int_t)t.step,
                          "start", (int)t.attempt, "time", cli_json_real(t.time), "seconds",
                          cli_json_real(t.seconds), "loss", cli_json_real(t.loss), "gradient_norm",
                          cli_json_real(t.gradient_norm), "learning_rate", cli_json_real(t.learning_rate),
                          "loss_scale", cli_json_real(t.loss_scale));
    if (!o) return yoke_fail(YOKE_ENOMEM, "yoke blackbox: no host memory");
    json_object_set_new(o, "flags", json_string(flags));
    json_object_set_new(o, "audit_ratio", cli_json_real(t.audit_ratio));
    json_object_set_new(o, "whole", json_boolean(t.is_whole));
    json_object_set_new(o, "not_finite", whole((int64_t)t.n_bad));
    json_object_set_new(o, "worst_sample", index_or_null(t.worst_sample));
    json_object_set_new(o, "worst_loss", cli_json_real(t.worst_loss));
    json_object_set_new(o, "bad_tensor", text_or_null(t.bad_tensor));
    json_object_set_new(o, "bad_rank", index_or_null(t.bad_rank));
    json_object_set_new(o, "own_bad_tensor", text_or_null(t.own_bad_tensor));
    json_object_set_new(o, "own_bad_rank", index_or_null(t.own_bad_rank));
    json_object_set_new(o, "bad_layer", text_or_null(t.bad_layer));
    json_object_set_new(o, "bad_layer_rank", index_or_null(t.bad_layer_rank));
    json_object_set_new(o, "bad_micro_batch", index_or_null(t.bad_micro_batch));
    json_object_set_new(o, "layers", layers_of_step(all, layers));
    json_object_set_new(o, "ranks", ranks);
    return put(o, to);
}

yoke_status cli_blackbox_json(const struct cli_blackbox *b, FILE *to)
{
    const struct yokei_boxes *all = b->boxes;
    struct yokei_boxes_layer *layers = calloc((size_t)all->n_model_layers + 1, sizeof *layers);
    yoke_status status = layers ? put(json_pack("{s:s,s:i,s:o,s:i,s:I}", "kind", "run", "schema", 1, "folder",
                                                text_or_null(all->folder), "ranks", all->n, "steps",
                                                (json_int_t)all->n_steps),
                                      to)
                                : yoke_fail(YOKE_ENOMEM, "yoke blackbox: no host memory");
    for (int r = 0; r < all->n && !status; r++) status = put_rank(all, r, to);
    for (int r = 0; r < all->n; r++)
        for (int i = 0; all->box[r] && i < all->box[r]->n_events && !status; i++)
            if (!cli_blackbox_repeats(all, r, &all->box[r]->events[i]))
                status = put_event(r, &all->box[r]->events[i], to);
    for (int64_t i = b->first; i < all->n_steps && !status; i++) status = put_step(b, i, layers, to);
    free(layers);
    return status;
}
