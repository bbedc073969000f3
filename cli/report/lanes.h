/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Charts of lanes: a row for each rank or stage, and boxes for what it did from when to when. Timelines,
 * pipeline schedules and the last operations of a run are charts of lanes. The kinds of boxes differ in
 * colour and also in their place in the height of the row. Each box has a text that browsers show under the
 * pointer.
 */
#ifndef CLI_REPORT_LANES_H
#define CLI_REPORT_LANES_H

#include "cli/report/page.h"

enum { LANE_TEXT = 56, LANE_LABEL = 24 };

struct lane_kind {
    const char *name;
    int colour; /* 0 to 6 */
    /* from the top of the row, and of the row's height, in percent */
    int top, height;
    int track; /* 0 or 1; boxes of different tracks lie above each other, and are never merged */
};

struct lane_box {
    double begin, end; /* in the unit of the chart; begin <= end */
    int kind;
    int64_t n; /* for how many boxes this one stands */
    char text[LANE_TEXT];
};

struct lane {
    char label[LANE_LABEL];
    char heading[64]; /* a line above the lane; "": none */
    struct lane_box *boxes;
    size_t n, capacity;
    double mark; /* a line through the lane; NaN: none */
};

/** Add a box. YOKE_ENOMEM. The caller calls lane_free(). */
yoke_status lane_add(struct lane *lane, const struct lane_box *box);
void lane_free(struct lane *lane);
/** The sum of the lengths of the boxes of a track. Boxes of a track that overlap count once. */
double lane_busy(struct lane *lane, const struct lane_kind *kinds, int track);

struct lanes {
    const char *title;       /* the finding, as a sentence with the number */
    const char *description; /* for readers that do not see the chart */
    const char *unit;        /* "milliseconds" */
    struct lane *lanes;      /* the boxes are merged where there are too many */
    int n;
    const struct lane_kind *kinds;
    int n_kinds;
    double end;       /* the axis goes from 0 to here */
    const char *mark; /* what a line through a lane means; NULL: there are none */
    bool is_labelled; /* write the texts of boxes into them where they fit; such a chart has no zoom */
};

enum { LANES_MOST_BOXES = 6000 };
/**
 * Write a chart of lanes with at most LANES_MOST_BOXES boxes. If there are more, the boxes of a track that
 * begin in the same part of the axis become one box, which has the kind that takes most of the time.
 * Returns the number of boxes that were merged with others; 0: none. Nothing is written if `end` is not
 * positive.
 */
int64_t lanes_chart(struct report_page *page, const struct lanes *chart);

/* ---- zoom.c ---- */
/**
 * The policy for the head of the page, which forbids everything but the page's own script, and the script.
 */
extern const char zoom_policy[];
extern const char zoom_script[];

#endif
