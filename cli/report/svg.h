/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Charts as SVG inside the page. Each chart has a title that says the finding, and a description for readers
 * that do not see it. In Markdown a chart is its title.
 *
 * These packaged C libraries were looked at, and none fits. plplot and gnuplot's programs write SVG with
 * fixed colours and without text alternatives, and their packages bring a program or a hundred megabytes of
 * dependencies. cairo draws, but has no axes, and writes its text as outlines of glyphs, which nobody can
 * read, search or restyle. libgd makes only pixels. None of them lets the style sheet of the page choose the
 * colours for a dark ground. The charts here need lines, bars and ticks, which are a few hundred lines of C.
 */
#ifndef CLI_REPORT_SVG_H
#define CLI_REPORT_SVG_H

#include "cli/report/page.h"

/** The rows of `x` ascend. A point whose y is not finite is left out, and the line is broken there. */
struct svg_series {
    const char *name;
    const double *x, *y; /* [n] */
    size_t n;
    int colour;               /* 0 to 6 */
    const char *const *names; /* [n] of points that no line joins, the most important first; NULL: a line */
    bool faint;               /* behind a smoothed line of the same values */
    bool sparse;              /* points with marks, joined over the values that are missing between them */
};

struct svg_chart {
    const char *title; /* the finding, as a sentence with the number */
    const char *x_name, *y_name;
    const struct svg_series *series;
    int n_series;
    bool from_zero;        /* the vertical axis begins at 0 */
    bool log_x, log_y;     /* logarithmic axes; a point at or below 0 has no place on them */
    bool x_in_bytes;       /* the horizontal axis counts in KiB and MiB; it is logarithmic */
    int high;              /* units of the drawing; 0: as high as the other charts */
    const char *mark_name; /* what is marked on the horizontal axis; NULL: nothing */
    double mark;
};
/** Write a chart of lines and points. Nothing is written if there is no finite point. */
void svg_lines(struct report_page *page, const struct svg_chart *chart);

/** A row of bars. */
struct svg_bar {
    const char *label;
    const double *parts; /* [n_parts] at least 0; NaN: none */
    double limit;        /* a mark on the axis; NaN: none */
};
struct svg_bars {
    const char *title, *unit;
    const char *const *names; /* [n_parts] */
    int n_parts;
    const struct svg_bar *bars;
    int n_bars;
    bool beside; /* the parts of a row are bars of their own below each other; else they are stacked */
    double most; /* the end of the axis; 0: the longest bar */
};
void svg_bars(struct report_page *page, const struct svg_bars *chart);

/* ---- for lanes.c ---- */
/**
 * Write the beginning of a figure, up to the drawing's title. The description and "</desc>" follow. A wide
 * figure has the width of the page. With `class_name` the drawing can be zoomed, and its axis ends at `end`.
 */
void svg_begin(struct report_page *page, const char *title, int high, bool is_wide, const char *class_name,
               double end);

#endif
