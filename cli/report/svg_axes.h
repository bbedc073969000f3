/* SPDX-License-Identifier: Apache-2.0 */
/** The axes of a chart of lines and points: where a value lies in the drawing, and the ticks. */
#ifndef CLI_REPORT_SVG_AXES_H
#define CLI_REPORT_SVG_AXES_H

#include "cli/report/svg.h"

/* Units of the drawing. It is scaled to the width of its column, and its text stays readable on a phone. */
enum { SVG_WIDE = 480, SVG_HIGH = 240, SVG_LEFT = 64, SVG_RIGHT = 12, SVG_TOP = 26, SVG_BOTTOM = 38 };
enum { SVG_TICKS = 5 };

/** The ends of the axes. Those of a logarithmic axis are powers of ten. */
struct svg_axes {
    double x0, x1, y0, y1;
    bool log_x, log_y;
    int high;
};

/** Find the axes of a chart. False: there is no point. */
bool svg_axes_find(const struct svg_chart *chart, struct svg_axes *axes_out);
void svg_axes_draw(struct report_page *page, const struct svg_chart *chart, const struct svg_axes *axes);
/** Whether a value has a place on an axis. With a larger one the axis would be infinitely long. */
bool svg_is_drawn(double value);
/** Whether a point has a place on the axes. */
bool svg_has(const struct svg_axes *axes, double x, double y);
/** A value, or its logarithm on a logarithmic axis. */
double svg_x(const struct svg_axes *axes, double x);
/** The place in the drawing. */
double svg_at_x(const struct svg_axes *axes, double x);
double svg_at_y(const struct svg_axes *axes, double y);

/** The step of an axis with at most `most` + 1 ticks: 1, 2 or 5 times a power of ten. */
double svg_tick_step(double low, double high, int most);
/** A number on an axis: 20k and 1.5M where numbers are long. */
void svg_tick_text(double value, double step, char *out, size_t bytes);

/* ---- svg_points.c ---- */
/** Draw the points of all series that have names, and those names for which there is room. */
void svg_points(struct report_page *page, const struct svg_chart *chart, const struct svg_axes *axes);
/** Draw the mark of a series. */
void svg_mark(struct report_page *page, int colour, double x, double y);

#endif
