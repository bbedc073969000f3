/* SPDX-License-Identifier: Apache-2.0 */
/* Points with names. Each has its name as a tip, and in the drawing where no other name is in the way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/svg_axes.h"
#include "core/base/base.h"

/* LETTER and LINE: the room of a letter and of a line, at the size of text on a phone. */
enum { MARK = 4, LETTER = 8, LINE = 18, MOST_NAMES = 64, LONGEST_NAME = 28 };

struct box {
    double x0, y0, x1, y1;
};
/* A point in the drawing. */
struct mark {
    double x, y;
    const char *name;
    const struct svg_series *of;
    size_t index;
};

void svg_mark(struct report_page *page, int colour, double x, double y)
{
    fprintf(page->to, "<path style=\"fill:var(--c%d)\" d=\"", colour % 7);
    switch (colour % 4) {
    case 0:
        fprintf(page->to, "M%.1f %.1fa%d %d 0 1 0 %d 0a%d %d 0 1 0 %d 0z", x - MARK, y, MARK, MARK, 2 * MARK,
                MARK, MARK, -2 * MARK);
        break;
    case 1:
        fprintf(page->to, "M%.1f %.1fh%dv%dh%dz", x - MARK, y - MARK, 2 * MARK, 2 * MARK, -2 * MARK);
        break;
    case 2:
        fprintf(page->to, "M%.1f %.1fl%d %dh%dz", x, y - MARK - 1, MARK + 1, 2 * MARK, -2 * MARK - 2);
        break;
    default:
        fprintf(page->to, "M%.1f %.1fl%d %dl%d %dl%d %dz", x, y - MARK - 1, MARK + 1, MARK + 1, -MARK - 1,
                MARK + 1, -MARK - 1, -MARK - 1);
    }
    fputs("\"", page->to);
}

static bool meet(const struct box *a, const struct box *b)
{
    return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

/* Whether a name in this box would cover a mark. Names beside a mark leave room for the mark itself. */
static bool covers(const struct box *box, const struct mark *marks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (marks[i].x > box->x0 - MARK && marks[i].x < box->x1 + MARK && marks[i].y > box->y0 - MARK + 2
            && marks[i].y < box->y1 + MARK - 2)
            return true;
    return false;
}

/* Find room for a name beside its mark, where it covers no other name and no mark. */
static bool find_room(const struct svg_axes *a, const struct mark *own, const struct mark *marks,
                      size_t n_marks, const struct box *taken, int n_taken, struct box *out)
{
    const double x = own->x, y = own->y, width = (double)strlen(own->name) * LETTER + 6;
    const double side = y - LINE / 2.0, above = y - MARK - LINE, below = y + MARK;
    const double tries[][2] = { { x + MARK + 1, side },
                                { x - MARK - 1 - width, side },
                                { x - width / 2, above },
                                { x - width / 2, below },
                                { x, above },
                                { x, below },
                                { x - width, above },
                                { x - width, below } };
    for (size_t t = 0; t < YOKE_COUNT(tries); t++) {
        const struct box box = { tries[t][0], tries[t][1], tries[t][0] + width, tries[t][1] + LINE };
        bool is_free = box.x0 >= SVG_LEFT && box.x1 <= SVG_WIDE && box.y0 >= SVG_TOP
                       && box.y1 <= a->high - SVG_BOTTOM && !covers(&box, marks, n_marks);
        for (int i = 0; i < n_taken && is_free; i++) is_free = !meet(&box, &taken[i]);
        *out = box;
        if (is_free) return true;
    }
    return false;
}

static void draw_name(struct report_page *page, const struct box *box, const char *name)
{
    fprintf(page->to,
            "<text style=\"paint-order:stroke;stroke:var(--ground);stroke-width:3px\" x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"middle\">",
            (box->x0 + box->x1) / 2, box->y1 - 5);
    report_put(page, name);
    fputs("</text>\n", page->to);
}

/* The marks of all series that have names: the first of each series, then the second ones, and so on. */
static size_t collect(const struct svg_chart *chart, const struct svg_axes *a, struct mark *marks)
{
    size_t n = 0;
    bool more = true;
    for (size_t i = 0; more; i++) {
        more = false;
        for (int s = 0; s < chart->n_series; s++) {
            const struct svg_series *points = &chart->series[s];
            if (!points->names || i >= points->n) continue;
            more = true;
            if (svg_has(a, points->x[i], points->y[i]))
                marks[n++] = (struct mark){ svg_at_x(a, points->x[i]), svg_at_y(a, points->y[i]),
                                            points->names[i], points, i };
        }
    }
    return n;
}

static void draw_mark(struct report_page *page, const struct svg_chart *chart, const struct mark *m)
{
    char text[128];
    yokei_text(text, sizeof text, " %s: %s %.9g, %s %.9g", m->of->name, chart->x_name, m->of->x[m->index],
               chart->y_name, m->of->y[m->index]);
    svg_mark(page, m->of->colour, m->x, m->y);
    fputs("><title>", page->to);
    report_put(page, m->name);
    report_put(page, text);
    fputs("</title></path>\n", page->to);
}

static bool is_named(const struct mark *marks, const size_t *named, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(marks[named[i]].name, name)) return true;
    return false;
}

void svg_points(struct report_page *page, const struct svg_chart *chart, const struct svg_axes *a)
{
    struct box taken[MOST_NAMES];
    size_t named[MOST_NAMES], n = 0;
    int n_taken = 0;
    for (int s = 0; s < chart->n_series; s++) n += chart->series[s].names ? chart->series[s].n : 0;
    struct mark *marks = calloc(n + 1, sizeof *marks);
    if (!marks) return;
    n = collect(chart, a, marks);
    for (size_t i = 0; i < n; i++) draw_mark(page, chart, &marks[i]);
    for (size_t i = 0; i < n && n_taken < MOST_NAMES; i++) {
        if (strlen(marks[i].name) > LONGEST_NAME || is_named(marks, named, n_taken, marks[i].name)) continue;
        if (!find_room(a, &marks[i], marks, n, taken, n_taken, &taken[n_taken])) continue;
        named[n_taken] = i;
        draw_name(page, &taken[n_taken++], marks[i].name);
    }
    free(marks);
}
