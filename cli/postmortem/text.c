/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a post-mortem for people. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/postmortem/postmortem.h"
#include "core/base/base.h"

struct writer {
    FILE *to;
    bool is_markdown;
};

static void heading(const struct writer *w, const char *text)
{
    fprintf(w->to, w->is_markdown ? "\n## %s\n\n" : "\n%s\n", text);
}

static void item(const struct writer *w, const char *format, ...) YOKE_PRINTF(2, 3);
static void item(const struct writer *w, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs(w->is_markdown ? "- " : "  ", w->to);
    for (const char *at = text; *at; at++) {
        if (w->is_markdown && strchr("\\`*_<>[]|#", *at)) fputc('\\', w->to);
        fputc((unsigned char)*at < ' ' ? ' ' : *at, w->to);
    }
    fputc('\n', w->to);
}

static void replay(const struct writer *w, const struct yokei_replayed *r, const char *how)
{
    char where[256], steps[96] = "";
    if (!r->device[0]) return;
    yokei_text(where, sizeof where, "%s, on %s in %s from step %" PRId64, how, r->device, r->precision,
               r->from);
    if (r->n_ranks > 1)
        yokei_text(where, sizeof where, "%s, on its %d ranks and devices in %s from step %" PRId64, how,
                   r->n_ranks, r->precision, r->from);
    if (r->is_cut) yokei_text(steps, sizeof steps, "; it ended early, behind step %" PRId64, r->last_step);
    if (!r->ran)
        item(w, "%s: it did not run: %s", where, r->why);
    else if (r->failed_step >= 0)
        item(w, "%s: it fails in step %" PRId64, where, r->failed_step);
    else if (!r->n_compared)
        item(w, "%s: its last loss is %.6g%s", where, r->last_loss, steps);
    else if (r->off_step < 0)
        item(w, "%s: %" PRId64 " steps are as recorded%s%s", where, r->n_compared,
             r->is_exact ? ", bit for bit" : ", but for rounding", steps);
    else
        item(w, "%s: step %" PRId64 " differs (loss %.9g then, %.9g now)%s", where, r->off_step, r->loss_then,
             r->loss_now, steps);
}

/* The step by the formulas of the model: whether it was computed, and why not. */
static void formulas(const struct writer *w, const struct yokei_formula_check *c)
{
    if (c->ran)
        item(w, "by the formulas of the model in f64: the loss of step %" PRId64 " is %.9g, recorded as %.9g",
             c->step, c->loss_now, c->loss_then);
    else if (c->why[0])
        item(w, "by the formulas of the model in f64: not computed, because %s", c->why);
}

static void timeline(const struct writer *w, const struct yokei_postmortem_facts *f)
{
    heading(w, "Timeline");
    if (f->start_step >= 0)
        item(w, "step %" PRId64 ": %s", f->start_step,
             f->is_resume    ? "the run went on from this checkpoint; the replays begin here"
             : f->start_step ? "a checkpoint; the replays begin here"
                             : "the run begins, and so do the replays");
    if (f->rate_step >= 0)
        item(w, "step %" PRId64 ": learning rate %.6g, planned %.6g", f->rate_step, f->rate_then,
             f->rate_planned);
    if (f->own.ran && f->own.off_step >= 0)
        item(w, "step %" PRId64 ": the first step that is not what its replay gives", f->own.off_step);
    if (f->odd == YOKEI_ODD_NONE)
        item(w, "no step of the records is odd");
    else if (isfinite(f->odd_limit))
        item(w, "step %" PRId64 ": %s, %.6g; the median before it is %.6g, and the limit %.6g%s", f->odd_step,
             yokei_odd_names[f->odd], f->odd_value, f->odd_median, f->odd_limit,
             f->has_recovered ? "; the run came back" : "; the run did not come back");
    else
        item(w, "step %" PRId64 ": %s%s%s", f->odd_step, yokei_odd_names[f->odd],
             f->odd_layer[0] ? ", first in the output of " : "", f->odd_layer);
    item(w, "step %" PRId64 ": the last record of %" PRId64 ", of %d rank%s%s", f->last_step, f->n_steps,
         f->n_ranks, f->n_ranks == 1 ? "" : "s", f->is_open ? "; the run goes on, or was killed" : "");
}

void cli_postmortem_text(const struct cli_postmortem *p, bool is_markdown, FILE *to)
{
    const struct writer w = { to, is_markdown };
    const struct yokei_verdict *v = &p->verdict;
    const struct yokei_postmortem_facts *f = &p->facts;
    fprintf(to, is_markdown ? "# Post-mortem of `%s`\n\n" : "post-mortem of %s\n", p->run);
    fprintf(to, is_markdown ? "**Cause: %s.**" : "cause: %s", yokei_culprit_texts[v->cause]);
    if (v->step >= 0) fprintf(to, " First wrong step: %" PRId64 ".", v->step);
    if (v->layer[0]) fprintf(to, " Layer: %s.", v->layer);
    if (v->parameter[0]) fprintf(to, " Parameter: %s.", v->parameter);
    for (int i = 0; i < v->n_ranks; i++)
        fprintf(to, "%s%d (%s)%s",
                i                ? ", "
                : v->n_ranks > 1 ? " Ranks: "
                                 : " Rank: ",
                v->rank[i], f->devices[v->rank[i]], i + 1 < v->n_ranks ? "" : ".");
    fputc('\n', to);
    timeline(&w, f);
    heading(&w, "Evidence");
    for (int i = 0; i < v->n_evidence; i++) item(&w, "%s", v->evidence[i]);
    if (!v->n_evidence) item(&w, "none");
    heading(&w, "Replays");
    replay(&w, &f->own, "in the run's precision");
    replay(&w, &f->elsewhere, "from an older start");
    replay(&w, &f->alone, "on one rank");
    replay(&w, &f->f32, "in f32");
    replay(&w, &f->other, "on another device");
    replay(&w, &f->slower, "with a tenth of the learning rate");
    formulas(&w, &f->formulas);
    if (!f->own.device[0]) item(&w, "none");
    heading(&w, "Ruled out");
    for (int i = 0; i < v->n_ruled_out; i++) item(&w, "%s", v->ruled_out[i]);
    if (!v->n_ruled_out) item(&w, "nothing");
    if (f->n_missing) heading(&w, "Missing");
    for (int i = 0; i < f->n_missing; i++) item(&w, "%s", f->missing[i]);
    heading(&w, "Prevention");
    item(&w, "%s", v->prevention);
}
