/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/svg_axes.h"
#include "core/base/base.h"

enum { COLUMNS = 400 };
enum { BAR_LABEL = 18, BAR = 16, BAR_GAP = 6, BAR_AXIS = 38 };

/* ---- what is drawn ---- */

static void keep(size_t *kept, size_t *n, size_t index)
{
    if (*n && kept[*n - 1] >= index) return;
    kept[(*n)++] = index;
}

/*
 * Choose the points that are drawn of a line: the first, the least, the largest and the last of each column
 * of the drawing, in their order. Writes at most 4 * COLUMNS indices to kept_out. Returns their number.
 */
static size_t decimate(const struct svg_series *line, const struct svg_axes *a, size_t *kept_out)
{
    const double *x = line->x, *y = line->y;
    const size_t n = line->n;
    size_t n_kept = 0;
    const double low = n ? svg_x(a, x[0]) : 0, width = n ? svg_x(a, x[n - 1]) - low : 0;
    for (size_t i = 0; i < n;) {
        const int column = width > 0 ? (int)fmin((svg_x(a, x[i]) - low) / width * COLUMNS, COLUMNS - 1) : 0;
        size_t first = n, last = n, least = n, most = n;
        for (;
             i < n
             && (width > 0 ? (int)fmin((svg_x(a, x[i]) - low) / width * COLUMNS, COLUMNS - 1) : 0) == column;
             i++) {
            if (!svg_has(a, x[i], y[i])) continue;
            if (first == n) first = least = most = i;
            if (y[i] < y[least]) least = i;
            if (y[i] > y[most]) most = i;
            last = i;
        }
        if (first == n) continue;
        keep(kept_out, &n_kept, first);
        keep(kept_out, &n_kept, least < most ? least : most);
        keep(kept_out, &n_kept, least < most ? most : least);
        keep(kept_out, &n_kept, last);
    }
    return n_kept;
}

/* ---- lines ---- */

/* Each colour has dashes of its own, for a print without colours. */
static const char *dash_of(const struct svg_chart *chart, const struct svg_series *line)
{
    static const char *const dashes[] = { "none", "7 3", "2 2", "9 3 2 3", "14 4", "9 3 2 3 2 3", "1 3" };
    return chart->n_series > 1 && !line->faint ? dashes[line->colour % YOKE_COUNT(dashes)] : "none";
}

static bool is_broken(const struct svg_series *line, const struct svg_axes *a, size_t from, size_t to)
{
    for (size_t i = from + 1; i < to && !line->sparse; i++)
        if (!svg_has(a, line->x[i], line->y[i])) return true;
    return false;
}

static void draw_line(struct report_page *page, const struct svg_chart *chart, const struct svg_series *line,
                      const struct svg_axes *a)
{
    size_t *kept = malloc(4 * COLUMNS * sizeof *kept);
    if (!kept) return;
    const size_t n = decimate(line, a, kept);
    fprintf(page->to, "<path class=\"curve%s\" style=\"stroke:var(--c%d)\" stroke-dasharray=\"%s\" d=\"",
            line->faint ? " faint" : "", line->colour, dash_of(chart, line));
    for (size_t k = 0; k < n; k++)
        fprintf(page->to, "%c%.1f %.1f", k == 0 || is_broken(line, a, kept[k - 1], kept[k]) ? 'M' : 'L',
                svg_at_x(a, line->x[kept[k]]), svg_at_y(a, line->y[kept[k]]));
    fputs("\"/>\n", page->to);
    for (size_t k = 0; k < n && (line->sparse || n == 1); k++)
        fprintf(page->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" style=\"fill:var(--c%d)\"/>\n",
                svg_at_x(a, line->x[kept[k]]), svg_at_y(a, line->y[kept[k]]), line->colour);
    free(kept);
}

static void describe_line(struct report_page *page, const struct svg_chart *chart,
                          const struct svg_series *line)
{
    size_t n = 0, least = 0, most = 0, last = 0;
    char text[512];
    for (size_t i = 0; i < line->n; i++) {
        if (!svg_is_drawn(line->y[i])) continue;
        if (!n || line->y[i] < line->y[least]) least = i;
        if (!n || line->y[i] > line->y[most]) most = i;
        last = i, n++;
    }
    if (n)
        yokei_text(text, sizeof text,
                   "%.80s: %zu points; least %.9g at %s %.9g, largest %.9g at %.9g, last %.9g at %.9g. ",
                   line->name, n, line->y[least], chart->x_name, line->x[least], line->y[most], line->x[most],
                   line->y[last], line->x[last]);
    else
        yokei_text(text, sizeof text, "%.80s: no points. ", line->name);
    report_put(page, text);
}

void svg_begin(struct report_page *page, const char *title, int high, bool is_wide, const char *class_name,
               double end)
{
    const int id = ++page->n_charts;
    fputs(is_wide ? "<figure class=\"wide\">\n<figcaption>" : "<figure>\n<figcaption>", page->to);
    report_put(page, title);
    fprintf(page->to, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"t%d d%d\"",
            SVG_WIDE, high, id, id);
    if (class_name) fprintf(page->to, " class=\"%s\" data-end=\"%.17g\"", class_name, end);
    fprintf(page->to, ">\n<title id=\"t%d\">", id);
    report_put(page, title);
    fprintf(page->to, "</title>\n<desc id=\"d%d\">", id);
}

static void figure_begin(struct report_page *page, const char *title, int high)
{
    svg_begin(page, title, high, false, NULL, 0);
}

static void key_begin(struct report_page *page) { fputs("<ul class=\"key\">\n", page->to); }

static void key_of_line(struct report_page *page, const struct svg_chart *chart,
                        const struct svg_series *line)
{
    if (line->names) {
        fputs("<li><svg viewBox=\"0 0 32 16\" aria-hidden=\"true\">", page->to);
        svg_mark(page, line->colour, 16, 8);
        fputs("/></svg>", page->to);
        report_put(page, line->name);
        fputs("</li>\n", page->to);
        return;
    }
    fprintf(page->to,
            "<li><svg viewBox=\"0 0 32 16\" aria-hidden=\"true\"><path class=\"curve%s\" style=\"stroke:"
            "var(--c%d);stroke-width:3\" stroke-dasharray=\"%s\" d=\"M0 8H32\"/></svg>",
            line->faint ? " faint" : "", line->colour, dash_of(chart, line));
    report_put(page, line->name);
    fputs("</li>\n", page->to);
}

static bool has_mark(const struct svg_chart *chart, const struct svg_axes *a)
{
    return chart->mark_name && chart->mark >= a->x0 && chart->mark <= a->x1;
}

static void key_of_mark(struct report_page *page, const struct svg_chart *chart)
{
    fputs(
        "<li><svg viewBox=\"0 0 32 16\" aria-hidden=\"true\"><path class=\"limit\" stroke-dasharray=\"3 2\" "
        "d=\"M16 0v16\"/></svg>",
        page->to);
    report_put(page, chart->mark_name);
    fputs("</li>\n", page->to);
}

void svg_lines(struct report_page *page, const struct svg_chart *chart)
{
    struct svg_axes a;
    if (!svg_axes_find(chart, &a)) return;
    if (page->markdown) {
        report_paragraph(page, "%s", chart->title);
        return;
    }
    figure_begin(page, chart->title, a.high);
    for (int s = 0; s < chart->n_series; s++) describe_line(page, chart, &chart->series[s]);
    if (has_mark(chart, &a)) {
        char text[64];
        report_put(page, chart->mark_name);
        yokei_text(text, sizeof text, ": %s %.9g.", chart->x_name, chart->mark);
        report_put(page, text);
    }
    fputs("</desc>\n", page->to);
    svg_axes_draw(page, chart, &a);
    for (int s = 0; s < chart->n_series; s++)
        if (!chart->series[s].names) draw_line(page, chart, &chart->series[s], &a);
    svg_points(page, chart, &a);
    if (has_mark(chart, &a))
        fprintf(page->to, "<path class=\"limit\" stroke-dasharray=\"3 2\" d=\"M%.2f %dV%d\"/>\n",
                svg_at_x(&a, chart->mark), SVG_TOP, a.high - SVG_BOTTOM);
    fputs("</svg>\n", page->to);
    key_begin(page);
    for (int s = 0; s < chart->n_series; s++) key_of_line(page, chart, &chart->series[s]);
    if (has_mark(chart, &a)) key_of_mark(page, chart);
    fputs("</ul>\n</figure>\n", page->to);
}

/* ---- bars ---- */

static double known(double part) { return svg_is_drawn(part) && part > 0 ? part : 0; }

static double longest_bar(const struct svg_bars *chart)
{
    double longest = chart->most;
    for (int b = 0; b < chart->n_bars && !(chart->most > 0); b++) {
        double sum = 0;
        for (int p = 0; p < chart->n_parts; p++) {
            const double part = known(chart->bars[b].parts[p]);
            sum = chart->beside ? fmax(sum, part) : sum + part;
        }
        longest = fmax(longest, fmax(sum, known(chart->bars[b].limit)));
    }
    return svg_is_drawn(longest) ? longest : 0;
}

static void describe_bars(struct report_page *page, const struct svg_bars *chart)
{
    for (int b = 0; b < chart->n_bars; b++) {
        char text[256];
        bool any = false;
        report_put(page, chart->bars[b].label);
        for (int p = 0; p < chart->n_parts; p++) {
            if (!svg_is_drawn(chart->bars[b].parts[p])) continue;
            yokei_text(text, sizeof text, "%s %.80s %.9g", any ? "," : ":", chart->names[p],
                       chart->bars[b].parts[p]);
            any = true;
            report_put(page, text);
        }
        if (svg_is_drawn(chart->bars[b].limit)) {
            yokei_text(text, sizeof text, "; limit %.9g", chart->bars[b].limit);
            report_put(page, text);
        }
        fputs(". ", page->to);
    }
}

static void draw_bar(struct report_page *page, const struct svg_bars *chart, const struct svg_bar *bar, int y,
                     double scale)
{
    double x = 0;
    fprintf(page->to, "<text x=\"0\" y=\"%d\">", y + BAR_LABEL - 5);
    report_put(page, bar->label);
    fputs("</text>\n", page->to);
    for (int p = 0; p < chart->n_parts; p++) {
        const double part = fmin(known(bar->parts[p]) * scale, SVG_WIDE - x);
        const int top = y + BAR_LABEL + (chart->beside ? p * BAR / 2 : 0);
        if (part > 0)
            fprintf(page->to,
                    "<rect x=\"%.1f\" y=\"%d\" width=\"%.2f\" height=\"%d\" style=\"fill:var(--c%d)\"/>\n", x,
                    top, part, chart->beside ? BAR / 2 - 1 : BAR, p % 7);
        if (!chart->beside) x += part;
    }
    if (svg_is_drawn(bar->limit) && bar->limit * scale <= SVG_WIDE)
        fprintf(page->to, "<path class=\"limit\" d=\"M%.1f %dv%d\"/>\n",
                fmin(bar->limit * scale, SVG_WIDE - 1), y + BAR_LABEL - 3, BAR + 6);
}

static void bars_axis(struct report_page *page, const struct svg_bars *chart, double longest, int y)
{
    const double step = svg_tick_step(0, longest, SVG_TICKS);
    char text[32];
    for (int i = 0; i <= SVG_TICKS && i * step <= longest * (1 + 1e-9); i++) {
        const double x = i * step, at = x / longest * SVG_WIDE;
        svg_tick_text(x, step, text, sizeof text);
        fprintf(page->to,
                "<path class=\"axis\" d=\"M%.1f %dv5\"/><text class=\"soft\" x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"%s\">%s</text>\n",
                fmin(at, SVG_WIDE - 1), y, at, y + 18,
                i == 0               ? "start"
                : at > SVG_WIDE - 30 ? "end"
                                     : "middle",
                text);
    }
    fprintf(page->to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", SVG_WIDE, y + 34);
    report_put(page, chart->unit);
    fputs("</text>\n", page->to);
    fprintf(page->to, "<path class=\"axis\" d=\"M0 %dH%d\"/>\n", y, SVG_WIDE);
}

void svg_bars(struct report_page *page, const struct svg_bars *chart)
{
    const double longest = longest_bar(chart);
    if (!(longest > 0)) return;
    if (page->markdown) {
        report_paragraph(page, "%s", chart->title);
        return;
    }
    const int bar = BAR_LABEL + (chart->beside ? YOKE_MAX(BAR, chart->n_parts * BAR / 2) : BAR) + BAR_GAP,
              high = chart->n_bars * bar;
    figure_begin(page, chart->title, high + BAR_AXIS);
    describe_bars(page, chart);
    fputs("</desc>\n", page->to);
    for (int b = 0; b < chart->n_bars; b++)
        draw_bar(page, chart, &chart->bars[b], b * bar, SVG_WIDE / longest);
    bars_axis(page, chart, longest, high);
    fputs("</svg>\n", page->to);
    key_begin(page);
    for (int p = 0; p < chart->n_parts; p++) {
        fprintf(page->to,
                "<li><svg viewBox=\"0 0 32 16\" aria-hidden=\"true\"><rect width=\"32\" height=\"16\" "
                "style=\"fill:var(--c%d)\"/></svg>",
                p % 7);
        report_put(page, chart->names[p]);
        fputs("</li>\n", page->to);
    }
    fputs("</ul>\n</figure>\n", page->to);
}
