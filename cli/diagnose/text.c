/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnosis as text for a terminal, and as Markdown. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/diagnose.h"
#include "core/base/base.h"

enum { MOST_RANKS = 32 };

static void heading(const struct diagnose_shown *v, FILE *to, const char *text)
{
    fprintf(to, v->markdown ? "\n## %s\n\n" : "\n%s\n", text);
}

static void summary(const struct diagnose_shown *v, const struct diagnose_run *run, FILE *to)
{
    const struct yokei_facts *f = &run->facts;
    const char *begin = v->markdown ? "- " : "";
    char *name = cli_printable(run->name);
    fprintf(to, "%s%s: %d rank%s, %" PRId64 " step%s; the times are means of %" PRId64 " steady one%s\n",
            begin, name ? name : "?", f->n_ranks, f->n_ranks == 1 ? "" : "s", f->n_rows,
            f->n_rows == 1 ? "" : "s", f->n_steady, f->n_steady == 1 ? "" : "s");
    free(name);
    fprintf(to, "%sa steady step takes %.4g ms, with a standard error of %.2g %%\n", begin, 1e3 * f->step,
            100 * f->noise);
    if (f->n_warm && f->warm_extra > 0)
        fprintf(to, "%sthe first %" PRId64 " step%s took %.3g s longer than steady ones (warm-up)\n", begin,
                f->n_warm, f->n_warm == 1 ? "" : "s", f->warm_extra);
}

/* Ranks in a row of equal device and place in the table: the busiest first, at most MOST_RANKS. */
static void division(const struct diagnose_shown *v, const struct diagnose_run *run, FILE *to)
{
    const struct yokei_facts *f = &run->facts;
    const int n = YOKE_MIN(f->n_ranks, MOST_RANKS);
    heading(v, to, "Where the time of a steady step went, in ms");
    fputs(v->markdown ? "| rank | device |" : "rank  device          ", to);
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++)
        fprintf(to, v->markdown ? " %s |" : " %10.10s",
                p == YOKEI_STEP_EXPOSED ? "exposed" : yokei_step_part_names[p]);
    fputs(v->markdown ? " sum |\n|---|---|" : "        sum\n", to);
    for (int p = 0; p <= YOKEI_N_STEP_PARTS && v->markdown; p++) fputs("---:|", to);
    if (v->markdown) fputs("\n", to);
    for (int r = 0; r < n; r++) {
        double sum = 0;
        char *device = cli_printable(f->rank[r].device);
        fprintf(to, v->markdown ? "| %d | %s |" : "%4d  %-16.16s", r, device ? device : "?");
        free(device);
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) {
            fprintf(to, v->markdown ? " %.4g |" : " %10.4g", 1e3 * f->rank[r].parts[p]);
            sum += f->rank[r].parts[p];
        }
        fprintf(to, v->markdown ? " %.4g |\n" : " %10.4g\n", 1e3 * sum);
    }
    if (n < f->n_ranks)
        fprintf(to, "%sthe table ends after %d of %d ranks\n", v->markdown ? "\n" : "", n, f->n_ranks);
}

static const struct yokei_cause *same_of(const struct yokei_diagnosis *d, enum yokei_cause_kind kind)
{
    for (int i = 0; i < d->n; i++)
        if (d->cause[i].kind == kind) return &d->cause[i];
    return NULL;
}

static void put_cause(const struct diagnose_shown *v, int i, double left, FILE *to)
{
    const struct yokei_diagnosis *d = &v->run->found;
    const struct yokei_cause *c = &d->cause[i], *old = v->before ? same_of(&v->before->found, c->kind) : NULL;
    const char *begin = v->markdown ? "   - " : "   ";
    char *evidence = cli_printable(c->evidence);
    fprintf(to, v->markdown ? "%d. **%s**" : "%d. %s", i + 1, yokei_diagnose_cause_names[c->kind]);
    fprintf(to, ": %.4g ms of a step (%.3g %%), confidence %.2f", 1e3 * c->seconds,
            100 * c->seconds / d->step, c->score);
    if (v->before && !old) fputs("; new", to);
    if (old) fprintf(to, "; it was %.4g ms before", 1e3 * old->seconds);
    fprintf(to, "\n%sevidence: %s\n", begin, evidence ? evidence : c->evidence);
    fprintf(to, "%schange: %s\n", begin, c->remedy);
    fprintf(to, "%spredicted: a step of %.4g ms, %.2f times as fast\n", begin, 1e3 * left,
            left > 0 ? (left + c->gain) / left : INFINITY);
    free(evidence);
}

static void causes(const struct diagnose_shown *v, FILE *to)
{
    const struct yokei_diagnosis *d = &v->run->found;
    double left = d->step;
    heading(v, to, d->n ? "Causes, the most expensive one first" : "Causes");
    if (!d->n)
        fprintf(to, "nothing to mend: no cause costs more than %.3g ms of a step (%.2g %%)\n",
                1e3 * d->threshold, 100 * d->threshold / d->step);
    for (int i = 0; i < d->n; i++) {
        left = fmax(left - d->cause[i].gain, 0);
        put_cause(v, i, left, to);
    }
}

/* What changed between two runs, part by part, and what more ranks can give. */
static void difference(const struct diagnose_shown *v, FILE *to)
{
    const struct yokei_facts *a = &v->before->facts, *b = &v->run->facts;
    const bool grew = a->n_ranks < b->n_ranks;
    struct yokei_limit limit;
    heading(v, to, "Since the run before, mean of the ranks in ms");
    fputs(v->markdown ? "| part | before | now | difference |\n|---|---:|---:|---:|\n"
                      : "part                          before        now difference\n",
          to);
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) {
        const double x = 1e3 * yokei_facts_mean(a, (enum yokei_step_part)p),
                     y = 1e3 * yokei_facts_mean(b, (enum yokei_step_part)p);
        fprintf(to, v->markdown ? "| %s | %.4g | %.4g | %+.4g |\n" : "%-25s %10.4g %10.4g %+10.4g\n",
                yokei_step_part_names[p], x, y, y - x);
    }
    fprintf(to,
            v->markdown ? "| step | %.4g | %.4g | %+.4g |\n"
                        : "step                      %10.4g %10.4g %+10.4g\n",
            1e3 * a->step, 1e3 * b->step, 1e3 * (b->step - a->step));
    for (int i = 0; i < v->before->found.n; i++)
        if (!same_of(&v->run->found, v->before->found.cause[i].kind))
            fprintf(to, "%sgone: %s, which cost %.4g ms of a step\n", v->markdown ? "\n" : "",
                    yokei_diagnose_cause_names[v->before->found.cause[i].kind],
                    1e3 * v->before->found.cause[i].seconds);
    yokei_limit_of(grew ? a : b, grew ? b : a, &limit);
    if (!limit.is_known) return;
    const struct yokei_facts *large = grew ? b : a, *small = grew ? a : b;
    fprintf(
        to,
        "%s%d ranks are %.3g times as fast as %d, of %.3g that the numbers allow. %.4g ms of the %.4g ms of a "
        "step on %d ranks are no computing; the divisions of both runs explain a factor of %.3g.\n",
        v->markdown ? "\n" : "", large->n_ranks, limit.got, small->n_ranks, limit.ideal, 1e3 * limit.exposed,
        1e3 * large->step, large->n_ranks, limit.by_division);
    if (isfinite(limit.most))
        fprintf(
            to,
            "By the same arithmetic no number of ranks exceeds %.3g times the speed of %d ranks, as long as "
            "nothing else changes.\n",
            limit.most, small->n_ranks);
}

static void problems(const struct diagnose_shown *v, FILE *to)
{
    const struct diagnose_run *const runs[] = { v->before, v->run };
    int n = v->run->n_problems + (v->before ? v->before->n_problems : 0);
    if (!n) return;
    heading(v, to, "Missing");
    for (int k = 0; k < 2; k++)
        for (int i = 0; runs[k] && i < runs[k]->n_problems; i++) {
            char *text = cli_printable(runs[k]->problems[i]);
            fprintf(to, "- %s%s\n", v->before && k == 0 ? "the run before: " : "", text ? text : "?");
            free(text);
        }
}

void diagnose_text(const struct diagnose_shown *v, FILE *to)
{
    if (v->markdown) fputs("# Diagnosis\n\n", to);
    summary(v, v->run, to);
    division(v, v->run, to);
    causes(v, to);
    if (v->before) difference(v, to);
    problems(v, to);
}
