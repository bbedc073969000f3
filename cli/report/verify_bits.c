/* SPDX-License-Identifier: Apache-2.0 */
/* Files of yoke verify --bits: whether other devices compute the same bits as the first one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

static int first_column(const struct devices *d)
{
    for (int c = 0; c < d->n_columns; c++)
        if (d->columns[c].bits) return c;
    return -1;
}

/* Cases of an operation and type that both files have with the same inputs, and those that differ. */
struct compared {
    int n, n_differ;
    const struct bits_line *first; /* the first one that differs */
};

static void compare_line(const struct bits_line *line, const struct bits *other, struct compared *out)
{
    const struct bits_line *found = bits_find(other, line);
    if (!found || found->inputs != line->inputs) return;
    out->n++;
    if (found->results == line->results) return;
    if (!out->n_differ++) out->first = line;
}

/* Whether a line of the first file has a case in another file. */
static bool has_common_case(const struct devices *d, int first)
{
    const struct bits *bits = &d->columns[first].bits->bits;
    struct compared found = { .n = 0 };
    for (int c = first + 1; c < d->n_columns && !found.n; c++)
        for (int i = 0; i < bits->n && !found.n && d->columns[c].bits; i++)
            compare_line(&bits->lines[i], &d->columns[c].bits->bits, &found);
    return found.n > 0;
}

static void put_other(struct report_page *page, const struct device_column *first,
                      const struct device_column *other)
{
    struct compared all = { .n = 0 };
    for (int i = 0; i < first->bits->bits.n; i++)
        compare_line(&first->bits->bits.lines[i], &other->bits->bits, &all);
    if (!all.n)
        report_item(page,
                    "%s and %s have no case of the same variant with the same inputs, so no bits are "
                    "compared.",
                    first->label, other->label);
    else if (all.n_differ)
        report_item(page, "%s and %s have other bits in %d of %d cases, first in %s %s %s.", first->label,
                    other->label, all.n_differ, all.n, all.first->op, all.first->dtype, all.first->variant);
    else
        report_item(page, "%s and %s have the same bits in all %d cases that both files have.", first->label,
                    other->label, all.n);
}

void device_bits_result(struct report_page *page, const struct devices *d)
{
    const int first = first_column(d);
    if (first < 0) return;
    int n = 0;
    for (int c = first + 1; c < d->n_columns; c++) {
        if (!d->columns[c].bits) continue;
        put_other(page, &d->columns[first], &d->columns[c]);
        n++;
    }
    if (!n)
        report_item(page, "%s: the page has no second file of hashes, so no bits are compared.",
                    d->columns[first].label);
}

/* The end of the lines of one operation and type. Sorted lines of them stand together. */
static int end_of(const struct bits *bits, int from)
{
    int to = from;
    while (to < bits->n && !strcmp(bits->lines[to].op, bits->lines[from].op)
           && !strcmp(bits->lines[to].dtype, bits->lines[from].dtype))
        to++;
    return to;
}

static void put_row(struct report_page *page, const struct devices *d, int first, int from, int to)
{
    const struct bits *bits = &d->columns[first].bits->bits;
    char text[100];
    yokei_text(text, sizeof text, "%s %s", bits->lines[from].op, bits->lines[from].dtype);
    report_row_begin(page);
    report_cell(page, text);
    for (int c = first + 1; c < d->n_columns; c++) {
        struct compared found = { .n = 0 };
        if (!d->columns[c].bits) continue;
        for (int i = from; i < to; i++) compare_line(&bits->lines[i], &d->columns[c].bits->bits, &found);
        report_number(page, found.n, "%.0f");
        report_number(page, found.n_differ, "%.0f");
        report_cell(page, !found.n ? "-" : found.n_differ ? "differ" : "equal");
    }
    report_row_end(page);
}

yoke_status device_bits(struct report_page *page, const struct devices *d)
{
    enum { EACH = 3 };
    static char text[EACH * DEVICE_MOST_FILES][2 * DEVICE_NAME + 64];
    const char *heads[1 + EACH * DEVICE_MOST_FILES] = { "bits of" };
    const int first = first_column(d);
    int n = 0, n_rows = 0;
    for (int c = first + 1; c < d->n_columns && first >= 0; c++) {
        const char *a = d->columns[first].label, *b = d->columns[c].label;
        if (!d->columns[c].bits) continue;
        yokei_text(text[n], sizeof text[n], "%s and %s: cases", a, b);
        yokei_text(text[n + 1], sizeof text[n], "of these differ");
        yokei_text(text[n + 2], sizeof text[n], "bits of %s", b);
        for (int i = 0; i < EACH; i++, n++) heads[1 + n] = text[n];
    }
    if (!n || !has_common_case(d, first)) return YOKE_OK;
    report_heading(page, "Bits");
    report_paragraph(page,
                     "Cases of the same variant with the same inputs are compared. docs/NUMERICS.md says "
                     "which variants have the same bits on different devices.");
    report_table_begin(page, heads, 1 + n);
    const struct bits *bits = &d->columns[first].bits->bits;
    for (int from = 0, to; from < bits->n && n_rows < DEVICE_MOST_ROWS; from = to, n_rows++) {
        to = end_of(bits, from);
        put_row(page, d, first, from, to);
    }
    report_table_end(page);
    return YOKE_OK;
}
