/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnosis as JSON. */
#include <math.h>
#include <stdlib.h>

#include "cli/diagnose/diagnose.h"
#include "cli/options/json_values.h"
#include "core/base/base.h"

static json_t *ranks_json(const struct yokei_facts *f)
{
    json_t *list = json_array();
    for (int r = 0; r < f->n_ranks; r++) {
        const struct yokei_facts_rank *k = &f->rank[r];
        json_t *rank = json_pack("{s:i, s:o, s:o, s:i, s:i, s:i}", "rank", r, "device",
                                 cli_json_text(k->device), "host", cli_json_text(k->host), "replica", k->d,
                                 "stage", k->s, "tensor", k->t);
        json_t *parts = json_object();
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++)
            json_object_set_new(parts, yokei_step_part_names[p], cli_json_real(k->parts[p]));
        json_object_set_new(rank, "seconds", parts);
        json_object_set_new(rank, "processor_seconds", cli_json_real(k->processor));
        json_object_set_new(rank, "queued_seconds", cli_json_real(k->queued));
        json_object_set_new(rank, "preemptions", cli_json_real(k->preemptions));
        json_object_set_new(rank, "major_faults", cli_json_real(k->faults));
        json_object_set_new(rank, "compile_seconds", cli_json_real(k->compile));
        json_array_append_new(list, rank);
    }
    return list;
}

static json_t *causes_json(const struct yokei_diagnosis *d)
{
    json_t *list = json_array();
    double left = d->step;
    for (int i = 0; i < d->n; i++) {
        const struct yokei_cause *c = &d->cause[i];
        left = fmax(left - c->gain, 0);
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cause",
                            yokei_diagnose_cause_names[c->kind], "seconds", cli_json_real(c->seconds),
                            "gain_seconds", cli_json_real(c->gain), "score", cli_json_real(c->score), "rank",
                            c->rank >= 0 ? json_integer(c->rank) : json_null(), "other_rank",
                            c->other >= 0 ? json_integer(c->other) : json_null(), "evidence",
                            cli_json_text(c->evidence), "change", cli_json_text(c->remedy), "can_apply",
                            json_boolean(c->change != YOKEI_CHANGE_NONE), "predicted_step_seconds",
                            cli_json_real(left)));
    }
    return list;
}

static json_t *run_json(const struct diagnose_run *run)
{
    const struct yokei_facts *f = &run->facts;
    json_t *problems = json_array();
    for (int i = 0; i < run->n_problems; i++)
        json_array_append_new(problems, cli_json_text(run->problems[i]));
    return json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "run",
                     cli_json_text(run->name), "rows", (json_int_t)f->n_rows, "warm_up_steps",
                     (json_int_t)f->n_warm, "steady_steps", (json_int_t)f->n_steady, "step_seconds",
                     cli_json_real(f->step), "standard_error", cli_json_real(f->noise),
                     "warm_up_extra_seconds", cli_json_real(f->warm_extra), "modelled_step_seconds",
                     cli_json_real(run->found.modelled), "threshold_seconds",
                     cli_json_real(run->found.threshold), "tokens_per_second",
                     cli_json_real(f->tokens_per_second), "ranks", ranks_json(f), "causes",
                     causes_json(&run->found), "problems", problems);
}

static json_t *limit_json(const struct diagnose_shown *v)
{
    struct yokei_limit limit = { .is_known = false };
    if (v->before) {
        const struct yokei_facts *a = &v->before->facts, *b = &v->run->facts;
        yokei_limit_of(a->n_ranks < b->n_ranks ? a : b, a->n_ranks < b->n_ranks ? b : a, &limit);
    }
    if (!limit.is_known) return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "ratio_of_ranks", cli_json_real(limit.ideal), "speed_up",
                     cli_json_real(limit.got), "not_computing_seconds", cli_json_real(limit.exposed),
                     "explained_speed_up", cli_json_real(limit.by_division), "largest_speed_up",
                     cli_json_real(limit.most));
}

yoke_status diagnose_json(const struct diagnose_shown *v, FILE *to)
{
    json_t *root = json_pack("{s:i, s:o, s:o, s:o}", "schema", 1, "now", run_json(v->run), "before",
                             v->before ? run_json(v->before) : json_null(), "limit", limit_json(v));
    const bool written = root && !json_dumpf(root, to, JSON_INDENT(1) | JSON_REAL_PRECISION(9))
                         && fputc('\n', to) != EOF;
    json_decref(root);
    return written ? YOKE_OK : yoke_fail(YOKE_EIO, "yoke diagnose: the JSON cannot be written");
}
