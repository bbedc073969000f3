/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a view, and the curve of the loss. Every text becomes printable and fits the width here. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/watch/watch.h"
#include "core/base/base.h"

/* ---- text ---- */

static bool continues(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* Without UTF-8, a character of several bytes becomes one question mark. */
static void make_ascii(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!((unsigned char)*from & 0x80))
            *to++ = *from;
        else if (!continues(*from))
            *to++ = '?';
    *to = 0;
}

/* Add a text that is printable. The view takes it over. */
static void add_line(struct watch_view *view, enum watch_style style, char *text)
{
    if (view->n == view->capacity) {
        const int capacity = YOKE_MAX(64, 2 * view->capacity);
        struct watch_line *lines = realloc(view->lines, (size_t)capacity * sizeof *lines);
        if (lines) view->lines = lines, view->capacity = capacity;
    }
    if (!text || view->n == view->capacity) {
        view->no_memory = true;
        free(text);
        return;
    }
    text[cli_fitting(text, view->columns)] = 0;
    view->lines[view->n++] = (struct watch_line){ text, style };
}

static char *printable(const struct watch_view *view, const char *text)
{
    char *safe = cli_printable(text);
    for (char *c = safe; c && *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    if (safe && !view->utf8) make_ascii(safe);
    return safe;
}

void watch_put(struct watch_view *view, enum watch_style style, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    add_line(view, style, text ? printable(view, text) : NULL);
    free(text);
}

/* The bytes that stand on the first of several lines: up to the last ", " or blank that fits. */
static size_t first_part(const char *text, int columns)
{
    const size_t whole = cli_fitting(text, columns);
    size_t blank = 0;
    if (!text[whole]) return whole;
    for (size_t i = whole; i > 0; i--) {
        if (text[i] != ' ') continue;
        if (text[i - 1] == ',') return i;
        if (!blank) blank = i;
    }
    return blank ? blank : whole;
}

void watch_put_flow(struct watch_view *view, enum watch_style style, const char *text)
{
    char *safe = printable(view, text);
    if (!safe) view->no_memory = true;
    for (const char *at = safe; at && *at;) {
        size_t n = first_part(at, view->columns);
        if (n) add_line(view, style, strndup(at, n));
        while (!n || continues(at[n])) n++; /* a character that is wider than the view is left out */
        at += n;
        at += strspn(at, " ");
    }
    free(safe);
}

/* ---- the curve ---- */

enum { EIGHTHS = 8, WIDEST = 400 };

/* The largest loss of each column. Returns the number of columns. NaN: no loss is a number. */
static int columns_of(const struct watch_history *h, int width, double out[WIDEST])
{
    const int n = YOKE_MIN(h->n_buckets, YOKE_MIN(width, WIDEST));
    for (int c = 0; c < n; c++) {
        const int from = (int)((long)c * h->n_buckets / n), to = (int)((long)(c + 1) * h->n_buckets / n);
        out[c] = NAN;
        for (int b = from; b < to; b++)
            if (h->buckets[b].n_losses) out[c] = fmax(out[c], h->buckets[b].largest); /* fmax ignores NaN */
    }
    return n;
}

/* The character for a cell that is filled by `eighths` from below, with its 0 byte. */
static const char *cell(bool utf8, int eighths)
{
    static const char *const blocks[] = { " ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588" },
                             *const plain[] = { " ", "_", ".", ",", "-", "=", "+", "*", "#" };
    return (utf8 ? blocks : plain)[eighths < 0 ? 0 : eighths > EIGHTHS ? EIGHTHS : eighths];
}

void watch_put_curve(struct watch_view *view, const struct watch_history *h, int rows)
{
    double values[WIDEST], least = INFINITY, largest = -INFINITY;
    const int n = columns_of(h, view->columns, values);
    for (int c = 0; c < n; c++)
        if (isfinite(values[c])) least = fmin(least, values[c]), largest = fmax(largest, values[c]);
    if (!(least <= largest)) return;
    const double scale = largest > least ? (rows * EIGHTHS - 1) / (largest - least) : 0;
    for (int row = rows - 1; row >= 0; row--) {
        char text[3 * WIDEST + 1] = "";
        size_t used = 0;
        for (int c = 0; c < n; c++) {
            const int filled = isfinite(values[c]) ? 1 + (int)lround((values[c] - least) * scale) : 0;
            const char *block = cell(view->utf8, filled - row * EIGHTHS);
            yokei_text(text + used, sizeof text - used, "%s", block);
            used += strlen(block);
        }
        add_line(view, WATCH_PLAIN, strdup(text));
    }
}

void watch_view_free(struct watch_view *view)
{
    for (int i = 0; i < view->n; i++) free(view->lines[i].text);
    free(view->lines);
    view->lines = NULL;
    view->n = view->capacity = 0;
}
