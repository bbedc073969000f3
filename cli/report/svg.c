/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

/* Units of the drawing. It is scaled to the width of its column, and its text stays readable on a phone. */
enum { WIDE = 480, HIGH = 240, LEFT = 64, RIGHT = 12, TOP = 26, BOTTOM = 38, COLUMNS = 400, TICKS = 5 };
enum { BAR_LABEL = 18, BAR = 16, BAR_GAP = 6, BAR_AXIS = 38 };

struct axes {
    double x0, x1, y0, y1;
};

/* Values beyond this have no place on an axis, because the length of the axis would be infinite. */
static bool is_drawn(double y) { return fabs(y) < 1e300; }

/* ---- what is drawn ---- */

static void keep(size_t *kept, size_t *n, size_t index)
{
    if (*n && kept[*n - 1] >= index) return;
    kept[(*n)++] = index;
}

/*
 * Choose the points that are drawn of n points: the first, the least, the largest and the last of each column
 * of the drawing, in their order. Writes at most 4 * columns indices to kept_out. Returns their number.
 */
static size_t decimate(const double *x, const double *y, size_t n, int columns, size_t *kept_out)
{
    size_t n_kept = 0;
    const double low = n ? x[0] : 0, width = n ? x[n - 1] - low : 0;
    for (size_t i = 0; i < n;) {
        const int column = width > 0 ? (int)fmin((x[i] - low) / width * columns, columns - 1) : 0;
        size_t first = n, last = n, least = n, most = n;
        for (; i < n && (width > 0 ? (int)fmin((x[i] - low) / width * columns, columns - 1) : 0) == column;
             i++) {
            if (!is_drawn(y[i])) continue;
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

/* The step of an axis with at most `most` + 1 ticks: 1, 2 or 5 times a power of ten. */
static double tick_step(double low, double high, int most)
{
    const double rough = (high - low) / most, power = pow(10, floor(log10(rough)));
    const double part = rough / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

/* ---- axes ---- */

static double at_x(const struct axes *a, double x)
{
    return LEFT + (x - a->x0) / (a->x1 - a->x0) * (WIDE - LEFT - RIGHT);
}
static double at_y(const struct axes *a, double y)
{
    return HIGH - BOTTOM - (y - a->y0) / (a->y1 - a->y0) * (HIGH - TOP - BOTTOM);
}

static void widen(double *low, double *high)
{
    if (*high > *low) return;
    const double by = *low ? fabs(*low) / 2 : 1;
    *low -= by;
    *high += by;
}

/* False: there is no point. */
static bool find_axes(const struct svg_chart *chart, struct axes *a)
{
    *a = (struct axes){ INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (int s = 0; s < chart->n_series; s++) {
        const struct svg_series *line = &chart->series[s];
        for (size_t i = 0; i < line->n; i++) {
            if (!is_drawn(line->y[i])) continue;
            a->x0 = fmin(a->x0, line->x[i]), a->x1 = fmax(a->x1, line->x[i]);
            a->y0 = fmin(a->y0, line->y[i]), a->y1 = fmax(a->y1, line->y[i]);
        }
    }
    if (!(a->x0 <= a->x1)) return false;
    if (chart->from_zero) a->y0 = fmin(a->y0, 0);
    widen(&a->x0, &a->x1);
    widen(&a->y0, &a->y1);
    const double room = (a->y1 - a->y0) / 20;
    a->y1 += room;
    if (!(chart->from_zero && a->y0 == 0)) a->y0 -= room;
    return true;
}

/* A number on an axis: 20k and 1.5M where numbers are long. */
static void tick_text(double value, double step, char *out, size_t bytes)
{
    const double size = fmax(fabs(value), step);
    if (fabs(value) < step / 1e6) value = 0;
    if (size >= 1e4 && size < 1e6)
        yokei_text(out, bytes, "%.6gk", value / 1e3);
    else if (size >= 1e6 && size < 1e9)
        yokei_text(out, bytes, "%.6gM", value / 1e6);
    else
        yokei_text(out, bytes, "%.6g", value);
}

static void draw_axes(struct report_page *page, const struct svg_chart *chart, const struct axes *a)
{
    char text[32];
    double step = tick_step(a->y0, a->y1, TICKS);
    for (int i = 0; i <= TICKS; i++) {
        const double y = ceil(a->y0 / step) * step + i * step;
        if (!(y <= a->y1)) break;
        tick_text(y, step, text, sizeof text);
        fprintf(page->to,
                "<path class=\"axis\" d=\"M%d %.1fH%d\"/><text class=\"soft\" x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%s</text>\n",
                LEFT, at_y(a, y), WIDE - RIGHT, LEFT - 6, at_y(a, y) + 4, text);
    }
    step = tick_step(a->x0, a->x1, TICKS);
    for (int i = 0; i <= TICKS; i++) {
        const double x = ceil(a->x0 / step) * step + i * step;
        if (!(x <= a->x1)) break;
        tick_text(x, step, text, sizeof text);
        fprintf(page->to,
                "<path class=\"axis\" d=\"M%.1f %dv5\"/><text class=\"soft\" x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%s</text>\n",
                at_x(a, x), HIGH - BOTTOM, fmin(at_x(a, x), WIDE - RIGHT - 8), HIGH - BOTTOM + 18, text);
    }
    fprintf(page->to, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n<text x=\"4\" y=\"14\">", LEFT, TOP,
            HIGH - BOTTOM, WIDE - RIGHT);
    report_put(page, chart->y_name);
    fprintf(page->to, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDE - RIGHT, HIGH - 4);
    report_put(page, chart->x_name);
    fputs("</text>\n", page->to);
}

/* ---- lines ---- */

/* The lines of a chart have different dashes, for a print without colours. */
static const char *dash_of(const struct svg_chart *chart, const struct svg_series *line)
{
    static const char *const dashes[] = { "none", "7 3", "2 2", "9 3 2 3" };
    return chart->n_series > 1 && !line->faint ? dashes[line->colour % YOKE_COUNT(dashes)] : "none";
}

static bool is_broken(const struct svg_series *line, size_t from, size_t to)
{
    for (size_t i = from + 1; i < to && !line->sparse; i++)
        if (!is_drawn(line->y[i])) return true;
    return false;
}

static void draw_line(struct report_page *page, const struct svg_chart *chart, const struct svg_series *line,
                      const struct axes *a)
{
    size_t *kept = malloc(4 * COLUMNS * sizeof *kept);
    if (!kept) return;
    const size_t n = decimate(line->x, line->y, line->n, COLUMNS, kept);
    fprintf(page->to, "<path class=\"curve%s\" style=\"stroke:var(--c%d)\" stroke-dasharray=\"%s\" d=\"",
            line->faint ? " faint" : "", line->colour, dash_of(chart, line));
    for (size_t k = 0; k < n; k++)
        fprintf(page->to, "%c%.1f %.1f", k == 0 || is_broken(line, kept[k - 1], kept[k]) ? 'M' : 'L',
                at_x(a, line->x[kept[k]]), at_y(a, line->y[kept[k]]));
    fputs("\"/>\n", page->to);
    for (size_t k = 0; k < n && (line->sparse || n == 1); k++)
        fprintf(page->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" style=\"fill:var(--c%d)\"/>\n",
                at_x(a, line->x[kept[k]]), at_y(a, line->y[kept[k]]), line->colour);
    free(kept);
}

static void describe_line(struct report_page *page, const struct svg_chart *chart,
                          const struct svg_series *line)
{
    size_t n = 0, least = 0, most = 0, last = 0;
    char text[512];
    for (size_t i = 0; i < line->n; i++) {
        if (!is_drawn(line->y[i])) continue;
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

void svg_begin(struct report_page *page, const char *title, int high, const char *class_name, double end)
{
    const int id = ++page->n_charts;
    fputs("<figure>\n<figcaption>", page->to);
    report_put(page, title);
    fprintf(page->to, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"t%d d%d\"",
            WIDE, high, id, id);
    if (class_name) fprintf(page->to, " class=\"%s\" data-end=\"%.17g\"", class_name, end);
    fprintf(page->to, ">\n<title id=\"t%d\">", id);
    report_put(page, title);
    fprintf(page->to, "</title>\n<desc id=\"d%d\">", id);
}

static void figure_begin(struct report_page *page, const char *title, int high)
{
    svg_begin(page, title, high, NULL, 0);
}

static void key_begin(struct report_page *page) { fputs("<ul class=\"key\">\n", page->to); }

static void key_of_line(struct report_page *page, const struct svg_chart *chart,
                        const struct svg_series *line)
{
    fprintf(page->to,
            "<li><svg viewBox=\"0 0 32 16\" aria-hidden=\"true\"><path class=\"curve%s\" style=\"stroke:"
            "var(--c%d);stroke-width:3\" stroke-dasharray=\"%s\" d=\"M0 8H32\"/></svg>",
            line->faint ? " faint" : "", line->colour, dash_of(chart, line));
    report_put(page, line->name);
    fputs("</li>\n", page->to);
}

void svg_lines(struct report_page *page, const struct svg_chart *chart)
{
    struct axes a;
    if (!find_axes(chart, &a)) return;
    if (page->markdown) {
        report_paragraph(page, "%s", chart->title);
        return;
    }
    figure_begin(page, chart->title, HIGH);
    for (int s = 0; s < chart->n_series; s++) describe_line(page, chart, &chart->series[s]);
    fputs("</desc>\n", page->to);
    draw_axes(page, chart, &a);
    for (int s = 0; s < chart->n_series; s++) draw_line(page, chart, &chart->series[s], &a);
    fputs("</svg>\n", page->to);
    key_begin(page);
    for (int s = 0; s < chart->n_series; s++) key_of_line(page, chart, &chart->series[s]);
    fputs("</ul>\n</figure>\n", page->to);
}

/* ---- bars ---- */

static double known(double part) { return is_drawn(part) && part > 0 ? part : 0; }

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
    return is_drawn(longest) ? longest : 0;
}

static void describe_bars(struct report_page *page, const struct svg_bars *chart)
{
    for (int b = 0; b < chart->n_bars; b++) {
        char text[256];
        report_put(page, chart->bars[b].label);
        for (int p = 0; p < chart->n_parts; p++) {
            if (!is_drawn(chart->bars[b].parts[p])) continue;
            yokei_text(text, sizeof text, "%s %.80s %.9g", p ? "," : ":", chart->names[p],
                       chart->bars[b].parts[p]);
            report_put(page, text);
        }
        if (is_drawn(chart->bars[b].limit)) {
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
        const double part = fmin(known(bar->parts[p]) * scale, WIDE - x);
        const int top = y + BAR_LABEL + (chart->beside ? p * BAR / 2 : 0);
        if (part > 0)
            fprintf(page->to,
                    "<rect x=\"%.1f\" y=\"%d\" width=\"%.2f\" height=\"%d\" style=\"fill:var(--c%d)\"/>\n", x,
                    top, part, chart->beside ? BAR / 2 - 1 : BAR, p % 7);
        if (!chart->beside) x += part;
    }
    if (is_drawn(bar->limit) && bar->limit * scale <= WIDE)
        fprintf(page->to, "<path class=\"limit\" d=\"M%.1f %dv%d\"/>\n", fmin(bar->limit * scale, WIDE - 1),
                y + BAR_LABEL - 3, BAR + 6);
}

static void bars_axis(struct report_page *page, const struct svg_bars *chart, double longest, int y)
{
    const double step = tick_step(0, longest, TICKS);
    char text[32];
    for (int i = 0; i <= TICKS && i * step <= longest * (1 + 1e-9); i++) {
        const double x = i * step, at = x / longest * WIDE;
        tick_text(x, step, text, sizeof text);
        fprintf(page->to,
                "<path class=\"axis\" d=\"M%.1f %dv5\"/><text class=\"soft\" x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"%s\">%s</text>\n",
                fmin(at, WIDE - 1), y, at, y + 18,
                i == 0           ? "start"
                : at > WIDE - 30 ? "end"
                                 : "middle",
                text);
    }
    fprintf(page->to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDE, y + 34);
    report_put(page, chart->unit);
    fputs("</text>\n", page->to);
    fprintf(page->to, "<path class=\"axis\" d=\"M0 %dH%d\"/>\n", y, WIDE);
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
    for (int b = 0; b < chart->n_bars; b++) draw_bar(page, chart, &chart->bars[b], b * bar, WIDE / longest);
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
