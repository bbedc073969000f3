/* SPDX-License-Identifier: Apache-2.0 */
/* Points with names. Each has its name as a tip, and in the drawing where no other name is in the way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/svg_axes.h"
#include "core/base/base.h"

/* LETTER and LINE: the room of a letter and of a line, at the size of text on a phone. */
enum { MARK = 4, LETTER = 7, LINE = 14, MOST_NAMES = 64, LONGEST_NAME = 28 };

struct box {
    double x0, y0, x1, y1;
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

/* Find room for a name beside its point. False: there is none. */
static bool find_room(const struct svg_axes *a, double x, double y, double width, const struct box *taken,
                      int n_taken, struct box *out)
{
    const double tries[][2] = { { x + MARK + 3, y - LINE / 2.0 },
                                { x - MARK - 3 - width, y - LINE / 2.0 },
                                { x - width / 2, y - MARK - 2 - LINE },
                                { x - width / 2, y + MARK + 2 } };
    for (size_t t = 0; t < YOKE_COUNT(tries); t++) {
        const struct box box = { tries[t][0], tries[t][1], tries[t][0] + width, tries[t][1] + LINE };
        bool free = box.x0 >= SVG_LEFT && box.x1 <= SVG_WIDE && box.y0 >= SVG_TOP
                    && box.y1 <= a->high - SVG_BOTTOM;
        for (int i = 0; i < n_taken && free; i++) free = !meet(&box, &taken[i]);
        *out = box;
        if (free) return true;
    }
    return false;
}

static void draw_name(struct report_page *page, const struct box *box, const char *name)
{
    fprintf(page->to,
            "<text style=\"paint-order:stroke;stroke:var(--ground);stroke-width:3px\" x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"middle\">",
            (box->x0 + box->x1) / 2, box->y1 - 3);
    report_put(page, name);
    fputs("</text>\n", page->to);
}

void svg_points(struct report_page *page, const struct svg_chart *chart, const struct svg_axes *a)
{
    struct box taken[MOST_NAMES];
    int n_taken = 0;
    for (int s = 0; s < chart->n_series; s++) {
        const struct svg_series *points = &chart->series[s];
        for (size_t i = 0; points->names && i < points->n; i++) {
            if (!svg_has(a, points->x[i], points->y[i])) continue;
            char text[128];
            yokei_text(text, sizeof text, ": %s %.9g, %s %.9g", chart->x_name, points->x[i], chart->y_name,
                       points->y[i]);
            svg_mark(page, points->colour, svg_at_x(a, points->x[i]), svg_at_y(a, points->y[i]));
            fputs("><title>", page->to);
            report_put(page, points->names[i]);
            report_put(page, text);
            fputs("</title></path>\n", page->to);
        }
    }
    /* The first name of each series, then the second ones, so that each series has names. */
    bool more = true;
    for (size_t i = 0; more && n_taken < MOST_NAMES; i++) {
        more = false;
        for (int s = 0; s < chart->n_series && n_taken < MOST_NAMES; s++) {
            const struct svg_series *points = &chart->series[s];
            if (!points->names || i >= points->n) continue;
            more = true;
            const size_t letters = strlen(points->names[i]);
            if (letters > LONGEST_NAME || !svg_has(a, points->x[i], points->y[i])) continue;
            if (!find_room(a, svg_at_x(a, points->x[i]), svg_at_y(a, points->y[i]), (double)letters * LETTER,
                           taken, n_taken, &taken[n_taken]))
                continue;
            draw_name(page, &taken[n_taken++], points->names[i]);
        }
    }
}
