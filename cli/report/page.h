/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A page that is written from top to bottom, as HTML or as Markdown. Every text is escaped here, so a name
 * from a file cannot become markup. The HTML is also well-formed XML. It refers to nothing outside the
 * file. Its policy (Content-Security-Policy) lets browsers run no script but the page's own.
 */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

#include <stdio.h>
#include <yoke/base.h>

/** A longer table is folded, and its summary says how many rows it has. Markdown has no such tables. */
enum { REPORT_MOST_ROWS = 40 };

/** The table that is being written. */
struct report_table {
    FILE *to; /* where the page goes on */
    char **heads, *rows;
    size_t bytes;
    int n_heads, n_rows;
};

struct report_page {
    FILE *to;
    bool markdown;
    int n_charts; /* charts so far; the number makes their identifiers */
    bool zooms;   /* a chart can be zoomed, so the page needs its script */
    struct report_table table;
};

void report_begin(struct report_page *page, const char *title);
void report_end(struct report_page *page);

/** Write text with control characters and broken UTF-8 as \xNN, and with markup escaped. */
void report_put(struct report_page *page, const char *text);
void report_heading(struct report_page *page, const char *text);
void report_paragraph(struct report_page *page, const char *format, ...) YOKE_PRINTF(2, 3);
/** Lines that belong together, such as the result in five lines. */
void report_list_begin(struct report_page *page);
void report_item(struct report_page *page, const char *format, ...) YOKE_PRINTF(2, 3);
void report_list_end(struct report_page *page);
/** A command, as it stands. */
void report_command(struct report_page *page, const char *text);

/* ---- tables ---- */
void report_table_begin(struct report_page *page, const char *const heads[], int n_heads);
void report_row_begin(struct report_page *page);
void report_cell(struct report_page *page, const char *text);
/** A number, shown by `format`. The HTML also has all of its digits. NaN is shown as "-". */
void report_number(struct report_page *page, double value, const char *format);
void report_row_end(struct report_page *page);
void report_table_end(struct report_page *page);

/** Charts stand between these calls, side by side where the window is wide. */
void report_charts_begin(struct report_page *page);
void report_charts_end(struct report_page *page);

#endif
