/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a post-mortem for programs. */
#include <jansson.h>

#include "cli/options/json_values.h"
#include "cli/postmortem/postmortem.h"
#include "core/base/base.h"

static json_t *step_or_null(int64_t step) { return step >= 0 ? json_integer((json_int_t)step) : json_null(); }

static json_t *numbers(const int *list, int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(out, json_integer(list[i]));
    return out;
}

static json_t *replay(const struct yokei_replayed *r)
{
    if (!r->device[0]) return json_null();
    json_t *out = json_pack("{s:b,s:s,s:s,s:b,s:I,s:I,s:o,s:b,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "ran",
                            (int)r->ran, "device", r->device, "precision", r->precision, "exact",
                            (int)r->is_exact, "from", (json_int_t)r->from, "compared",
                            (json_int_t)r->n_compared, "differs_in", step_or_null(r->off_step),
                            "loss_differs", (int)r->is_loss_off, "layers_that_differ", r->n_layers_off,
                            "layer", cli_json_text(r->layer), "loss_then", cli_json_real(r->loss_then),
                            "loss_now", cli_json_real(r->loss_now), "norm_then", cli_json_real(r->norm_then),
                            "norm_now", cli_json_real(r->norm_now), "fails_in", step_or_null(r->failed_step),
                            "last_loss", cli_json_real(r->last_loss), "why", cli_json_text(r->why));
    json_object_set_new(out, "ranks", json_integer(r->n_ranks));
    json_object_set_new(out, "ranks_that_differ", numbers(r->ranks_off.rank, r->ranks_off.n));
    json_object_set_new(out, "ended_early", json_boolean(r->is_cut));
    return out;
}

static json_t *sample(const struct yokei_sample_loss *s)
{
    return json_pack("{s:I,s:I,s:o,s:o,s:o}", "sample", (json_int_t)s->sample, "step", (json_int_t)s->step,
                     "token", step_or_null(s->token), "byte", step_or_null(s->byte), "loss",
                     cli_json_real(s->loss));
}

static json_t *samples(const struct yokei_postmortem_facts *f)
{
    if (!f->are_samples_checked) return json_null();
    return json_pack("{s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "checked", (json_int_t)f->n_samples, "others",
                     (json_int_t)f->n_others, "bad", (json_int_t)f->n_bad_samples, "median",
                     cli_json_real(f->others_median), "limit", cli_json_real(f->others_limit), "first_bad",
                     f->n_bad_samples ? sample(&f->first_bad_sample) : json_null(), "worst",
                     sample(&f->worst_sample));
}

static json_t *lines(const char *first, int n, size_t bytes)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, cli_json_text(first + (size_t)i * bytes));
    return list;
}

static json_t *ranks(const struct yokei_postmortem_facts *f)
{
    json_t *list = json_array();
    for (int r = 0; r < f->n_rank_losses; r++)
        json_array_append_new(list, json_pack("{s:i,s:s,s:o,s:o,s:b}", "rank", f->rank_loss[r].rank, "device",
                                              f->rank_loss[r].device, "loss_then",
                                              cli_json_real(f->rank_loss[r].then), "loss_now",
                                              cli_json_real(f->rank_loss[r].now), "wrong",
                                              (int)f->rank_loss[r].is_off));
    return list;
}

static json_t *formulas(const struct yokei_formula_check *c)
{
    if (!c->ran && !c->why[0]) return json_null();
    return json_pack("{s:b,s:o,s:I,s:o,s:o,s:b,s:b,s:b,s:o,s:o,s:o}", "ran", (int)c->ran, "why",
                     cli_json_text(c->why), "step", (json_int_t)c->step, "loss_then",
                     cli_json_real(c->loss_then), "loss_now", cli_json_real(c->loss_now), "loss_differs",
                     (int)c->is_loss_off, "output_differs", (int)c->is_output_off, "gradient_differs",
                     (int)c->is_gradient_off, "layer", cli_json_text(c->layer), "layer_then",
                     cli_json_real(c->then), "layer_now", cli_json_real(c->now));
}

yoke_status cli_postmortem_json(const struct cli_postmortem *p, FILE *to)
{
    const struct yokei_postmortem_facts *f = &p->facts;
    const struct yokei_verdict *v = &p->verdict;
    json_t *root = json_pack("{s:i,s:o,s:s,s:o,s:o,s:o,s:o,s:s,s:o}", "schema", 1, "run",
                             cli_json_text(p->run), "cause", yokei_culprit_names[v->cause], "step",
                             step_or_null(v->step), "layer",
                             v->layer[0] ? cli_json_text(v->layer) : json_null(), "evidence",
                             lines(v->evidence[0], v->n_evidence, sizeof v->evidence[0]), "ruled_out",
                             lines(v->ruled_out[0], v->n_ruled_out, sizeof v->ruled_out[0]), "prevention",
                             v->prevention, "missing",
                             lines(f->missing[0], f->n_missing, sizeof f->missing[0]));
    if (!root) return yoke_fail(YOKE_ENOMEM, "post-mortem: no host memory for the report");
    json_object_set_new(root, "parameter", v->parameter[0] ? cli_json_text(v->parameter) : json_null());
    json_object_set_new(root, "formulas", formulas(&f->formulas));
    json_object_set_new(root, "culprit_ranks", numbers(v->rank, v->n_ranks));
    json_object_set_new(root, "odd",
                        json_pack("{s:s,s:o,s:b,s:o,s:o,s:o}", "what", yokei_odd_names[f->odd], "step",
                                  step_or_null(f->odd_step), "recovered", (int)f->has_recovered, "value",
                                  cli_json_real(f->odd_value), "median", cli_json_real(f->odd_median),
                                  "limit", cli_json_real(f->odd_limit)));
    json_object_set_new(root, "start_step", step_or_null(f->start_step));
    json_object_set_new(root, "rate",
                        f->rate_step < 0 ? json_null()
                                         : json_pack("{s:I,s:f,s:f}", "step", (json_int_t)f->rate_step,
                                                     "then", f->rate_then, "planned", f->rate_planned));
    json_object_set_new(root, "samples", samples(f));
    json_object_set_new(root, "ranks", ranks(f));
    json_object_set_new(root, "replays",
                        json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "own", replay(&f->own), "older",
                                  replay(&f->elsewhere), "alone", replay(&f->alone), "f32", replay(&f->f32),
                                  "other", replay(&f->other), "slower", replay(&f->slower)));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (!text) return yoke_fail(YOKE_ENOMEM, "post-mortem: no host memory for the report");
    fprintf(to, "%s\n", text);
    free(text);
    return YOKE_OK;
}
