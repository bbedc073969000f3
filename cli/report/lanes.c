/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/lanes.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/svg_axes.h"
#include "core/base/base.h"

/* Units of the drawing. The script of zoom.c has the same ones. */
enum { WIDE = SVG_WIDE, LEFT = SVG_LEFT, RIGHT = SVG_RIGHT, INSIDE = WIDE - LEFT - RIGHT, HEADING = 20 };
enum { AXIS = SVG_BOTTOM, TICKS = 4, LETTER = 9, HIGHEST_WIDE = 270 };

/* ---- boxes ---- */

yoke_status lane_add(struct lane *lane, const struct lane_box *box)
{
    if (lane->n == lane->capacity) {
        const size_t capacity = lane->capacity ? 2 * lane->capacity : 16;
        struct lane_box *boxes = realloc(lane->boxes, capacity * sizeof *boxes);
        if (!boxes) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for a timeline");
        lane->boxes = boxes;
        lane->capacity = capacity;
    }
    lane->boxes[lane->n++] = *box;
    return YOKE_OK;
}

void lane_free(struct lane *lane)
{
    free(lane->boxes);
    lane->boxes = NULL;
    lane->n = lane->capacity = 0;
}

static int by_begin(const void *a, const void *b)
{
    const struct lane_box *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static void sort(struct lane *lane)
{
    if (lane->n > 1) qsort(lane->boxes, lane->n, sizeof *lane->boxes, by_begin);
}

double lane_busy(struct lane *lane, const struct lane_kind *kinds, int track)
{
    double busy = 0, end = -INFINITY;
    sort(lane);
    for (size_t i = 0; i < lane->n; i++) {
        const struct lane_box *b = &lane->boxes[i];
        if (kinds[b->kind].track != track) continue;
        busy += fmax(b->end - fmax(b->begin, end), 0);
        end = fmax(end, b->end);
    }
    return busy;
}

/* Merge the boxes of one part of the axis. They are first[0..n), of which those of other tracks stay. */
static void merge_part(struct lane_box *first, size_t n, const struct lane_kind *kinds, int n_kinds,
                       int track, bool *gone)
{
    double most = -1;
    struct lane_box *whole = NULL;
    int64_t count = 0;
    double time[16] = { 0 }, end = 0;
    for (size_t i = 0; i < n; i++) {
        if (kinds[first[i].kind].track != track) continue;
        if (!whole) whole = &first[i], end = whole->end;
        time[first[i].kind] += first[i].end - first[i].begin;
        count += first[i].n;
        end = fmax(end, first[i].end);
        gone[i] = whole != &first[i];
    }
    if (!whole || count == whole->n) return;
    for (int k = 0; k < n_kinds; k++)
        if (kinds[k].track == track && time[k] > most) most = time[k], whole->kind = k;
    whole->end = end;
    whole->n = count;
    yokei_text(whole->text, sizeof whole->text, "%" PRId64 " together, mostly %.24s", count,
               kinds[whole->kind].name);
}

/* Leave at most about `columns` boxes of each track. Returns the number of boxes that are gone. */
static int64_t merge(struct lane *lane, const struct lanes *chart, int columns)
{
    int64_t n_gone = 0;
    bool *gone = lane->n > (size_t)columns ? calloc(lane->n, sizeof *gone) : NULL;
    size_t kept = 0;
    if (!gone) return 0;
    for (size_t i = 0, j; i < lane->n; i = j) {
        const int column = (int)fmin(lane->boxes[i].begin / chart->end * columns, columns);
        for (j = i + 1;
             j < lane->n && (int)fmin(lane->boxes[j].begin / chart->end * columns, columns) == column;)
            j++;
        for (int track = 0; track < 2; track++)
            merge_part(lane->boxes + i, j - i, chart->kinds, chart->n_kinds, track, gone + i);
    }
    for (size_t i = 0; i < lane->n; i++) {
        if (gone[i])
            n_gone++;
        else
            lane->boxes[kept++] = lane->boxes[i];
    }
    lane->n = kept;
    free(gone);
    return n_gone;
}

/* ---- drawing ---- */

/* The height of the boxes of a row, and of a row. Boxes with texts are higher. */
static int bar_of(const struct lanes *chart) { return chart->is_labelled ? 36 : 18; }
static int row_of(const struct lanes *chart) { return bar_of(chart) + 4; }

static double at(const struct lanes *chart, double x) { return fmin(fmax(x / chart->end, 0), 1) * INSIDE; }

static void draw_box(struct report_page *page, const struct lanes *chart, const struct lane_box *b)
{
    const struct lane_kind *kind = &chart->kinds[b->kind];
    const double x = at(chart, b->begin), width = at(chart, b->end) - x, bar = bar_of(chart) / 100.0,
                 top = kind->top * bar, height = kind->height * bar;
    fprintf(page->to, "<rect class=\"k%d\" x=\"%.6g\" y=\"%.4g\" width=\"%.5g\" height=\"%.4g\"><title>",
            kind->colour, x, top, fmax(width, 0.05), height);
    report_put(page, b->text);
    fprintf(page->to, ": %.6g-%.6g</title></rect>\n", b->begin, b->end);
    if (!chart->is_labelled || b->n > 1 || width < LETTER * (double)strlen(b->text) + 2) return;
    fprintf(page->to, "<text class=\"in\" x=\"%.6g\" y=\"%.4g\" text-anchor=\"middle\">", x + width / 2,
            top + height / 2 + 4.5);
    report_put(page, b->text);
    fputs("</text>\n", page->to);
}

static int top_of(const struct lanes *chart, int lane)
{
    int y = 0;
    for (int i = 0; i <= lane && i < chart->n; i++)
        y += (chart->lanes[i].heading[0] ? HEADING : 0) + (i < lane ? row_of(chart) : 0);
    return y;
}

static void draw_labels(struct report_page *page, const struct lanes *chart)
{
    for (int i = 0; i < chart->n; i++) {
        const struct lane *lane = &chart->lanes[i];
        const int y = top_of(chart, i);
        if (lane->heading[0]) {
            fprintf(page->to, "<text x=\"0\" y=\"%d\">", y - 6);
            report_put(page, lane->heading);
            fputs("</text>\n", page->to);
        }
        fprintf(page->to, "<text class=\"soft\" x=\"0\" y=\"%d\">", y + bar_of(chart) / 2 + 4);
        report_put(page, lane->label);
        fprintf(page->to, "</text><path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, y + row_of(chart) - 2,
                WIDE - RIGHT);
    }
}

static void draw_axis(struct report_page *page, const struct lanes *chart, int y)
{
    char text[32];
    fprintf(page->to, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, y, WIDE - RIGHT);
    for (int i = 0; i <= TICKS; i++) {
        const double x = LEFT + (double)INSIDE * i / TICKS;
        yokei_text(text, sizeof text, "%.4g", chart->end * i / TICKS);
        fprintf(page->to,
                "<path class=\"axis\" d=\"M%.1f %dv5\"/><text class=\"soft tick\" x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"%s\">%s</text>\n",
                x, y, x, y + 18, i == TICKS ? "end" : "middle", text);
    }
    fprintf(page->to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDE - RIGHT, y + 34);
    report_put(page, chart->unit);
    fputs("</text>\n", page->to);
}

static void draw_lanes(struct report_page *page, const struct lanes *chart, int high)
{
    const int id = page->n_charts;
    fprintf(page->to,
            "<clipPath id=\"c%d\"><rect x=\"%d\" y=\"0\" width=\"%d\" height=\"%d\"/></clipPath>\n"
            "<g clip-path=\"url(#c%d)\"><g class=\"view\" transform=\"translate(%d 0)\">\n",
            id, LEFT, INSIDE, high, id, LEFT);
    for (int i = 0; i < chart->n; i++) {
        const struct lane *lane = &chart->lanes[i];
        fprintf(page->to, "<g transform=\"translate(0 %d)\">\n", top_of(chart, i));
        for (size_t b = 0; b < lane->n; b++) draw_box(page, chart, &lane->boxes[b]);
        if (isfinite(lane->mark))
            fprintf(page->to, "<path class=\"limit\" d=\"M%.6g 0v%d\"/>\n", at(chart, lane->mark),
                    bar_of(chart));
        fputs("</g>\n", page->to);
    }
    fputs("</g></g>\n", page->to);
}

static void put_key(struct report_page *page, const struct lanes *chart)
{
    fputs("<ul class=\"key\">\n", page->to);
    for (int k = 0; k < chart->n_kinds; k++) {
        const struct lane_kind *kind = &chart->kinds[k];
        bool is_used = false;
        for (int i = 0; i < chart->n && !is_used; i++)
            for (size_t b = 0; b < chart->lanes[i].n && !is_used; b++)
                is_used = chart->lanes[i].boxes[b].kind == k;
        if (!is_used) continue;
        fprintf(
            page->to,
            "<li><svg viewBox=\"0 0 32 16\" aria-hidden=\"true\"><rect class=\"k%d\" y=\"%.4g\" width=\"32\" "
            "height=\"%.4g\"/></svg>",
            kind->colour, kind->top * 16 / 100.0, kind->height * 16 / 100.0);
        report_put(page, kind->name);
        fputs("</li>\n", page->to);
    }
    if (chart->mark) {
        fputs(
            "<li><svg viewBox=\"0 0 32 16\" aria-hidden=\"true\"><path class=\"limit\" d=\"M16 0v16\"/></svg>",
            page->to);
        report_put(page, chart->mark);
        fputs("</li>\n", page->to);
    }
    fputs("</ul>\n", page->to);
}

/* The end of an axis: the least one that is not before `end`, and whose ticks have at most two digits. */
static double round_end(double end)
{
    static const double steps[] = { 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10 };
    const double power = pow(10, floor(log10(end / TICKS)));
    for (size_t i = 0; i < YOKE_COUNT(steps) && power > 0; i++)
        if (steps[i] * power * TICKS >= end) return steps[i] * power * TICKS;
    return end;
}

int64_t lanes_chart(struct report_page *page, const struct lanes *given)
{
    int64_t n_gone = 0;
    if (!(given->end > 0) || !isfinite(given->end) || given->n < 1) return 0;
    struct lanes rounded = *given, *const chart = &rounded;
    if (isfinite(round_end(given->end))) rounded.end = round_end(given->end);
    if (page->markdown) {
        report_paragraph(page, "%s", chart->title);
        return 0;
    }
    for (int i = 0; i < chart->n; i++) {
        sort(&chart->lanes[i]);
        n_gone += merge(&chart->lanes[i], chart, YOKE_MAX(LANES_MOST_BOXES / chart->n / 2 - 1, 8));
    }
    const int high = top_of(chart, chart->n - 1) + row_of(chart);
    /* A chart of few lanes has the width of the page. One of many lanes would be too high then. */
    svg_begin(page, chart->title, high + AXIS, high <= HIGHEST_WIDE, chart->is_labelled ? NULL : "lanes",
              chart->end);
    report_put(page, chart->description);
    fputs("</desc>\n", page->to);
    draw_lanes(page, chart, high);
    draw_labels(page, chart);
    draw_axis(page, chart, high);
    fputs("</svg>\n", page->to);
    put_key(page, chart);
    fputs("</figure>\n", page->to);
    if (!chart->is_labelled) page->zooms = true;
    return n_gone;
}
