/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/svg_axes.h"

#include <math.h>
#include <string.h>

#include "cli/report/report.h"
#include "core/base/base.h"

bool svg_is_drawn(double value) { return fabs(value) < 1e300; }

bool svg_has(const struct svg_axes *a, double x, double y)
{
    return svg_is_drawn(x) && svg_is_drawn(y) && (x > 0 || !a->log_x) && (y > 0 || !a->log_y);
}

double svg_x(const struct svg_axes *a, double x) { return a->log_x ? log10(x) : x; }
static double svg_y(const struct svg_axes *a, double y) { return a->log_y ? log10(y) : y; }

double svg_at_x(const struct svg_axes *a, double x)
{
    return SVG_LEFT + (svg_x(a, x) - a->x0) / (a->x1 - a->x0) * (SVG_WIDE - SVG_LEFT - SVG_RIGHT);
}
double svg_at_y(const struct svg_axes *a, double y)
{
    return a->high - SVG_BOTTOM - (svg_y(a, y) - a->y0) / (a->y1 - a->y0) * (a->high - SVG_TOP - SVG_BOTTOM);
}

/* An axis needs a length. A logarithmic one has at least a decade. */
static void widen(double *low, double *high, bool is_log)
{
    if (is_log) {
        const double by = fmax(0, 1 - (*high - *low)) / 2;
        *low -= by;
        *high += by;
    } else if (*high <= *low) {
        const double by = *low ? fabs(*low) / 2 : 1;
        *low -= by;
        *high += by;
    }
}

bool svg_axes_find(const struct svg_chart *chart, struct svg_axes *a)
{
    *a = (struct svg_axes){ INFINITY,
                            -INFINITY,
                            INFINITY,
                            -INFINITY,
                            chart->log_x || chart->x_in_bytes,
                            chart->log_y,
                            chart->high ? chart->high : SVG_HIGH };
    for (int s = 0; s < chart->n_series; s++) {
        const struct svg_series *line = &chart->series[s];
        for (size_t i = 0; i < line->n; i++) {
            if (!svg_has(a, line->x[i], line->y[i])) continue;
            const double x = svg_x(a, line->x[i]), y = svg_y(a, line->y[i]);
            a->x0 = fmin(a->x0, x), a->x1 = fmax(a->x1, x);
            a->y0 = fmin(a->y0, y), a->y1 = fmax(a->y1, y);
        }
    }
    if (!(a->x0 <= a->x1)) return false;
    if (chart->from_zero && !a->log_y) a->y0 = fmin(a->y0, 0);
    widen(&a->x0, &a->x1, a->log_x);
    widen(&a->y0, &a->y1, a->log_y);
    const double room = (a->y1 - a->y0) / 20;
    a->y1 += room;
    if (!(chart->from_zero && a->y0 == 0)) a->y0 -= room;
    return true;
}

/* ---- ticks ---- */

double svg_tick_step(double low, double high, int most)
{
    const double rough = (high - low) / most, power = pow(10, floor(log10(rough)));
    const double part = rough / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

void svg_tick_text(double value, double step, char *out, size_t bytes)
{
    if (fabs(value) < step / 1e6) value = 0;
    const double size = value ? fmax(fabs(value), step) : 0;
    if (size >= 1e4 && size < 1e6)
        yokei_text(out, bytes, "%.6gk", value / 1e3);
    else if (size >= 1e6 && size < 1e9)
        yokei_text(out, bytes, "%.6gM", value / 1e6);
    else
        yokei_text(out, bytes, "%.6g", value);
}

enum { MOST_TICKS = 3 * SVG_TICKS, LETTER = 8 }; /* LETTER: units of a letter, on a phone */
struct tick {
    double value;
    char text[REPORT_REAL];
};

static int linear_ticks(double low, double high, struct tick *out)
{
    const double step = svg_tick_step(low, high, SVG_TICKS);
    int n = 0;
    for (int i = 0; i <= SVG_TICKS; i++) {
        out[n].value = ceil(low / step) * step + i * step;
        if (!(out[n].value <= high)) break;
        svg_tick_text(out[n].value, step, out[n].text, sizeof out[n].text);
        n++;
    }
    return n;
}

/* Powers of ten. An axis of less than two decades also has 2 and 5 times each of them. */
static int log_ticks(double low, double high, struct tick *out)
{
    static const double between[] = { 1, 2, 5 };
    const int each = (int)ceil((high - low) / (2 * SVG_TICKS)), parts = high - low < 2 ? 3 : 1;
    int n = 0;
    for (double power = ceil(low - 1); power <= high && n < MOST_TICKS; power++) {
        if (parts == 1 && fmod(power, each) != 0) continue;
        for (int i = 0; i < parts && n < MOST_TICKS; i++) {
            const double value = between[i] * pow(10, power);
            if (!(log10(value) >= low && log10(value) <= high)) continue;
            out[n].value = value;
            svg_tick_text(value, 0, out[n].text, sizeof out[n].text);
            n++;
        }
    }
    return n;
}

/* Powers of two, as far apart that their texts have room. */
static int byte_ticks(double low, double high, struct tick *out)
{
    const double first = ceil(low / log10(2)), last = floor(high / log10(2));
    const int each = YOKE_MAX(1, (int)ceil((last - first) / SVG_TICKS));
    int n = 0;
    for (double power = first; power <= last && n < MOST_TICKS; power += each) {
        out[n].value = exp2(power);
        report_bytes(out[n].value, out[n].text);
        n++;
    }
    return n;
}

void svg_axes_draw(struct report_page *page, const struct svg_chart *chart, const struct svg_axes *a)
{
    struct tick ticks[MOST_TICKS];
    const int bottom = a->high - SVG_BOTTOM, right = SVG_WIDE - SVG_RIGHT;
    int n = (a->log_y ? log_ticks : linear_ticks)(a->y0, a->y1, ticks);
    for (int i = 0; i < n; i++)
        fprintf(page->to,
                "<path class=\"axis\" d=\"M%d %.1fH%d\"/><text class=\"soft\" x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%s</text>\n",
                SVG_LEFT, svg_at_y(a, ticks[i].value), right, SVG_LEFT - 6, svg_at_y(a, ticks[i].value) + 4,
                ticks[i].text);
    n = (chart->x_in_bytes ? byte_ticks : a->log_x ? log_ticks : linear_ticks)(a->x0, a->x1, ticks);
    for (int i = 0; i < n; i++) {
        const double x = svg_at_x(a, ticks[i].value);
        const bool at_edge = x + LETTER * (double)strlen(ticks[i].text) / 2 > SVG_WIDE;
        fprintf(page->to,
                "<path class=\"axis\" d=\"M%.1f %dv5\"/><text class=\"soft\" x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"%s\">%s</text>\n",
                x, bottom, at_edge ? SVG_WIDE : x, bottom + 18, at_edge ? "end" : "middle", ticks[i].text);
    }
    fprintf(page->to, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n<text x=\"4\" y=\"14\">", SVG_LEFT, SVG_TOP,
            bottom, right);
    report_put(page, chart->y_name);
    fprintf(page->to, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">", right, a->high - 4);
    report_put(page, chart->x_name);
    fputs("</text>\n", page->to);
}
