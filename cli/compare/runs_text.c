/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of two runs, as text and as JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare/runs.h"
#include "core/base/base.h"

enum { WORDS = 512, MARGIN = 26 };

/* The devices of the ranks, each kind once, with the number of its ranks: "host, 2 x opencl:0". */
static const char *devices_of(const struct compare_run *run, char out[WORDS])
{
    yokei_text(out, WORDS, "%s", run->has_plan ? "" : "-");
    for (int64_t r = 0; r < run->plan.n_ranks; r++) {
        int64_t n = 0, before = 0;
        for (int64_t s = 0; s < run->plan.n_ranks; s++) {
            const bool same = !strcmp(run->plan.ranks[s].device, run->plan.ranks[r].device);
            n += same;
            before += same && s < r;
        }
        if (before) continue;
        const size_t used = strlen(out);
        char times[32] = "";
        if (n > 1) yokei_text(times, sizeof times, "%" PRId64 " x ", n);
        yokei_text(out + used, WORDS - used, "%s%s%s", used ? ", " : "", times, run->plan.ranks[r].device);
    }
    return out;
}

static const char *layout_of(const struct compare_run *run, char out[WORDS])
{
    const struct yokei_plan *p = &run->plan;
    if (run->has_plan)
        yokei_text(out, WORDS, "dp %" PRId64 ", pp %" PRId64 ", tp %s%.0" PRId64 ", zero %" PRId64, p->data,
                   p->pipeline, p->stage_tensor, p->stage_tensor[0] ? 0 : p->tensor, p->zero);
    else
        yokei_text(out, WORDS, "-");
    return out;
}

static const char *steps_of(const struct compare_run *run, char out[WORDS])
{
    const struct yokei_metrics_rows *m = &run->metrics;
    if (m->n)
        yokei_text(out, WORDS, "%" PRId64 " to %" PRId64 "%s", m->rows[0].step, m->rows[m->n - 1].step,
                   m->cut ? " (the last line is cut)" : "");
    else
        yokei_text(out, WORDS, "-");
    return out;
}

static const char *number(double x, const char *format, char out[WORDS])
{
    if (isfinite(x) && x > 0)
        yokei_text(out, WORDS, format, x);
    else
        yokei_text(out, WORDS, "-");
    return out;
}

static void put_line(FILE *to, const char *name, const char *old, const char *new)
{
    fprintf(to, "%-*s %-36s %s\n", MARGIN, name, old, new);
}

static void put_numbers(FILE *to, const char *name, const char *format, double old, double new)
{
    char a[WORDS], b[WORDS], ratio[WORDS] = "";
    if (old > 0 && new > 0) yokei_text(ratio, sizeof ratio, "  (%.3g times the old)", new / old);
    const size_t used = strlen(number(new, format, b));
    yokei_text(b + used, sizeof b - used, "%s", ratio);
    put_line(to, name, number(old, format, a), b);
}

static void put_sides(const struct compare_curves *c, FILE *to)
{
    const struct compare_run *a = &c->runs[0], *b = &c->runs[1];
    char x[WORDS], y[WORDS];
    put_line(to, "run", a->folder, b->folder);
    put_line(to, "devices", devices_of(a, x), devices_of(b, y));
    put_line(to, "layout", layout_of(a, x), layout_of(b, y));
    put_line(to, "precision", a->has_plan ? a->plan.precision : "-", b->has_plan ? b->plan.precision : "-");
    put_line(to, "steps", steps_of(a, x), steps_of(b, y));
    put_numbers(to, "tokens/s (median)", "%.5g", a->tokens_per_second, b->tokens_per_second);
    put_numbers(to, "memory of all ranks, MiB", "%.5g", a->memory / 0x1p20, b->memory / 0x1p20);
    put_numbers(to, "memory of one rank, MiB", "%.5g", a->largest_memory / 0x1p20,
                b->largest_memory / 0x1p20);
    put_line(to, "last loss", number(a->loss, "%.6g", x), number(b->loss, "%.6g", y));
    if (isfinite(a->validation_loss) || isfinite(b->validation_loss))
        put_line(to, "last validation loss", number(a->validation_loss, "%.6g", x),
                 number(b->validation_loss, "%.6g", y));
}

static void put_largest(FILE *to, bool held, const char *where, const struct compare_loss *l)
{
    if (!l->step) return;
    fprintf(to, "largest relative difference %s: %.3g at step %" PRId64, where, l->relative, l->step);
    if (held) fprintf(to, "; %.3g is allowed", l->gate);
    fputc('\n', to);
}

static void put_curves(const struct compare_curves *c, FILE *to)
{
    if (!c->n_common) return;
    fprintf(to, "\n%" PRId64 " common steps from step %" PRId64 " on; ", c->n_common, c->first_step);
    if (c->first_other)
        fprintf(to, "the losses differ from step %" PRId64 " on\n", c->first_other);
    else
        fputs("all losses have the same bits\n", to);
    char where[64];
    yokei_text(where, sizeof where, "in the %" PRId64 " steps from there on", c->gate_steps);
    put_largest(to, c->held, where, &c->early);
    put_largest(to, c->held, "later", &c->later);
    if (c->rates_part)
        fprintf(to,
                "the learning rates differ from step %" PRId64 " on, so these losses are held to no gate\n",
                c->rates_part);
}

char *compare_difference_text(const json_t *difference)
{
    char *text = NULL, *old = json_dumps(json_object_get(difference, "old"), JSON_ENCODE_ANY | JSON_COMPACT),
         *new = json_dumps(json_object_get(difference, "new"), JSON_ENCODE_ANY | JSON_COMPACT);
    const int length = asprintf(&text, "%s differs: %s and %s",
                                json_string_value(json_object_get(difference, "key")),
                                old ? old : "not readable", new ? new : "not readable");
    free(old);
    free(new);
    return length < 0 ? NULL : text;
}

static void put_plan_differences(const struct compare_curves *c, FILE *to)
{
    size_t i;
    const json_t *d;
    json_array_foreach(c->plan_differences, i, d)
    {
        char *text = compare_difference_text(d);
        fprintf(to, "%s\n", text ? text : "a setting differs, and there is no memory for its text");
        free(text);
    }
}

void compare_runs_text(const struct compare_curves *c, FILE *to)
{
    put_sides(c, to);
    put_curves(c, to);
    put_plan_differences(c, to);
    for (int i = 0; i < 2; i++) {
        if (c->runs[i].plan_problem[0]) fprintf(to, "missing: %s\n", c->runs[i].plan_problem);
        if (c->runs[i].metrics_problem[0]) fprintf(to, "missing: %s\n", c->runs[i].metrics_problem);
    }
    if (c->parted.step)
        fprintf(to, "the losses part at step %" PRId64 "\n", c->parted.step);
    else if (c->held && c->n_early + c->n_later)
        fprintf(to, "the losses of %" PRId64 " steps are within the gates\n", c->n_early + c->n_later);
    else
        fputs("the losses are held to no gate\n", to);
}

/* ---- JSON ---- */

static json_t *json_positive(double x) { return cli_json_real(x > 0 ? x : NAN); }

static json_t *json_problems(const struct compare_run *run)
{
    json_t *list = json_array();
    if (run->plan_problem[0]) json_array_append_new(list, cli_json_text(run->plan_problem));
    if (run->metrics_problem[0]) json_array_append_new(list, cli_json_text(run->metrics_problem));
    return list;
}

static json_t *json_run(const struct compare_run *run)
{
    const struct yokei_metrics_rows *m = &run->metrics;
    json_t *devices = json_array();
    for (int64_t r = 0; r < run->plan.n_ranks; r++)
        json_array_append_new(devices, cli_json_text(run->plan.ranks[r].device));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "folder",
                     cli_json_text(run->folder), "devices", devices, "precision",
                     cli_json_text(run->has_plan ? run->plan.precision : NULL), "first_step",
                     m->n ? json_integer(m->rows[0].step) : json_null(), "last_step",
                     m->n ? json_integer(m->rows[m->n - 1].step) : json_null(), "last_line_is_cut", m->cut,
                     "tokens_per_second", cli_json_real(run->tokens_per_second), "memory",
                     json_positive(run->memory), "largest_memory", json_positive(run->largest_memory), "loss",
                     cli_json_real(run->loss), "validation_loss", cli_json_real(run->validation_loss),
                     "problems", json_problems(run));
}

static json_t *json_step(int64_t step) { return step ? json_integer(step) : json_null(); }

static json_t *json_loss(const struct compare_loss *l)
{
    if (!l->step) return json_null();
    return json_pack("{s:I, s:o, s:o, s:o, s:f}", "step", (json_int_t)l->step, "old",
                     cli_json_real(l->loss[0]), "new", cli_json_real(l->loss[1]), "relative",
                     cli_json_real(l->relative), "gate", l->gate);
}

yoke_status compare_runs_json(const struct compare_curves *c, FILE *to)
{
    const double speed = c->runs[1].tokens_per_second / c->runs[0].tokens_per_second;
    return compare_put_json(
        json_pack("{s:i, s:s, s:o, s:o, s:o, s:O, s:I, s:o, s:o, s:I, s:o, s:o, s:o, s:b}", "schema", 1,
                  "kind", "runs", "old", json_run(&c->runs[0]), "new", json_run(&c->runs[1]),
                  "tokens_per_second_ratio", cli_json_real(speed), "plan_differences", c->plan_differences,
                  "common_steps", (json_int_t)c->n_common, "first_step_of_other_loss",
                  json_step(c->first_other), "first_step_of_other_learning_rate", json_step(c->rates_part),
                  "steps_held", (json_int_t)(c->held ? c->n_early + c->n_later : 0), "largest",
                  json_loss(&c->early), "largest_later", json_loss(&c->later), "parted",
                  json_loss(&c->parted), "agree", c->held && !c->parted.step && c->n_early + c->n_later > 0),
        to);
}
