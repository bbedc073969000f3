/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule drawn with letters. Each stage (a part of the pipeline) has a row, and time goes to the right.
 */
#include "cli/show/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

enum { MOST_PANELS = 4 };

/* How time is mapped to columns. */
struct canvas {
    const struct cli_schedule *s;
    double scale;  /* columns per unit of time */
    int columns;   /* number of columns for the whole time */
    int margin;    /* number of columns for "S12 " */
    int panel;     /* columns of a panel */
    bool labelled; /* work is labelled "F1"; else it is one letter, a capital for odd micro-batches */
};

static int column(const struct canvas *c, double time) { return (int)floor(time * c->scale + 0.5 + 1e-9); }

/*
 * The scale at which each piece of work has room for its label and for `space` columns. *unit_out is the
 * number of columns of the piece that needs the most.
 */
static double scale_for(const struct cli_schedule *s, int space, int *unit_out)
{
    double scale = 0;
    *unit_out = 1;
    for (int stage = 0; stage < s->shape.n_stages; stage++)
        for (int i = 0; i < s->schedule.rank[stage].n; i++) {
            const struct yokei_action *a = &s->schedule.rank[stage].action[i];
            const struct yokei_span *span = &s->simulated.stage[stage].span[i];
            char label[48];
            if (!cli_is_work(a) || span->end <= span->start) continue;
            const int unit = (int)strlen(cli_action_label(s, a, label, sizeof label)) + space;
            if (unit / (span->end - span->start) <= scale) continue;
            scale = unit / (span->end - span->start);
            *unit_out = unit;
        }
    return scale;
}

/* The end of the last work. Actions behind it are not drawn. */
static double end_of_work(const struct cli_schedule *s)
{
    double end = 0;
    for (int stage = 0; stage < s->shape.n_stages; stage++)
        end = YOKE_MAX(end, s->simulated.stage[stage].last);
    return end;
}

static struct canvas canvas_of(const struct cli_schedule *s)
{
    char last[16];
    yokei_text(last, sizeof last, "S%d ", s->shape.n_stages);
    struct canvas c = { .s = s, .margin = (int)strlen(last), .labelled = true };
    int unit, unit_narrow;
    const double end = end_of_work(s), wide = scale_for(s, 1, &unit), narrow = scale_for(s, 0, &unit_narrow);
    c.panel = s->width - c.margin;
    if (wide * end <= c.panel)
        c.scale = wide;
    else if (narrow * end <= c.panel)
        c.scale = narrow;
    else if (wide * end <= (double)MOST_PANELS * (c.panel - c.panel % unit))
        c.scale = wide, c.panel -= c.panel % unit;
    else
        c.scale = c.panel / end, c.labelled = false;
    c.columns = column(&c, end);
    return c;
}

static void fill_row(const struct canvas *c, int stage, char *row)
{
    const struct cli_schedule *s = c->s;
    memset(row, '.', (size_t)c->columns);
    for (int i = 0; i < s->schedule.rank[stage].n; i++) {
        const struct yokei_action *a = &s->schedule.rank[stage].action[i];
        const struct yokei_span *span = &s->simulated.stage[stage].span[i];
        const int from = column(c, span->start), to = column(c, span->end);
        char label[48];
        if (!cli_is_work(a) || from == to) continue;
        cli_action_label(s, a, label, sizeof label);
        if (!c->labelled) {
            memset(row + from, a->index % 2 ? label[0] + ('a' - 'A') : label[0], (size_t)(to - from));
            continue;
        }
        const int used = YOKE_MIN((int)strlen(label), to - from);
        memset(row + from, '-', (size_t)(to - from));
        memcpy(row + from, label, (size_t)used);
        if (to - from > used) row[to - 1] = ' ';
    }
}

/* Write numbers at round times, at least ten columns apart. No number is cut at the end of its panel. */
static void fill_ruler(const struct canvas *c, char *row)
{
    const double least = 10 / c->scale, power = pow(10, floor(log10(least)));
    const double step = least <= power       ? power
                        : least <= 2 * power ? 2 * power
                        : least <= 5 * power ? 5 * power
                                             : 10 * power;
    memset(row, ' ', (size_t)c->columns);
    for (int k = 0;; k++) {
        char text[32];
        const int at = column(c, k * step), length = (int)strlen(cli_time_text(k * step, text, sizeof text));
        if (at + length > c->columns) return;
        if (at / c->panel == (at + length) / c->panel || (at + length) % c->panel == 0)
            memcpy(row + at, text, (size_t)length);
    }
}

static void print_panel(const struct canvas *c, const char *name, const char *row, int from, FILE *to)
{
    int length = YOKE_MIN(c->panel, c->columns - from);
    while (length > 0 && row[from + length - 1] == ' ') length--;
    if (length > 0)
        fprintf(to, "%-*s%.*s\n", c->margin, name, length, row + from);
    else
        fprintf(to, "%s\n", name);
}

static yoke_status draw_canvas(const struct canvas *c, FILE *to)
{
    char *row = malloc((size_t)c->columns + 1), name[16];
    if (!row) return yoke_fail(YOKE_ENOMEM, "yoke schedule: no memory for %d columns", c->columns);
    for (int from = 0; from < c->columns; from += c->panel) {
        if (from) fputc('\n', to);
        for (int stage = 0; stage < c->s->shape.n_stages; stage++) {
            fill_row(c, stage, row);
            yokei_text(name, sizeof name, "S%d", stage + 1);
            print_panel(c, name, row, from, to);
        }
        fill_ruler(c, row);
        print_panel(c, "", row, from, to);
        const int at = column(c, c->s->moment) - from;
        if (c->s->has_moment && at >= 0 && at < c->panel) fprintf(to, "%*s^\n", c->margin + at, "");
    }
    free(row);
    return YOKE_OK;
}

static void summary(const struct cli_schedule *s, FILE *to)
{
    char a[32], b[32];
    const struct yokei_simulated *t = &s->simulated;
    fprintf(to, "stage      busy   idle   most micro-batches held\n");
    for (int stage = 0; stage < s->shape.n_stages; stage++) {
        const struct yokei_stage_times *x = &t->stage[stage];
        char name[16];
        yokei_text(name, sizeof name, "S%d", stage + 1);
        fprintf(to, "%-5s %9s %5.1f%%   %s%s\n", name, cli_time_text(x->busy, a, sizeof a), 100 * x->idle,
                cli_time_text(x->peak, b, sizeof b),
                x->busy > x->useful ? ", and the inputs of the micro-batches that it recomputes" : "");
    }
    fprintf(to,
            "bubble %.2f%%: the mean idle fraction of the stages, 1 - m (F + B + W) / %s; total time %s\n",
            100 * t->bubble, cli_time_text(t->longest, a, sizeof a), cli_time_text(t->total, b, sizeof b));
}

yoke_status cli_schedule_ascii(const struct cli_schedule *s, FILE *to)
{
    const struct canvas c = canvas_of(s);
    fprintf(to, "%s: %d stage%s", s->kind, s->shape.n_stages, s->shape.n_stages == 1 ? "" : "s");
    if (s->shape.n_chunks > 1) fprintf(to, " of %d chunks (a, b, ...)", s->shape.n_chunks);
    fprintf(to, ", %d micro-batch%s\n\n", s->shape.n_micro_batches,
            s->shape.n_micro_batches == 1 ? "" : "es");
    YOKE_TRY(draw_canvas(&c, to));
    if (!c.labelled)
        fputs("Capital letters are micro-batches 1, 3, ..., small letters are micro-batches 2, 4, ...\n"
              "A larger --width shows the numbers.\n",
              to);
    fputc('\n', to);
    if (s->has_moment)
        cli_schedule_moment_text(s, to);
    else
        summary(s, to);
    return YOKE_OK;
}
