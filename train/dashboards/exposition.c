/* SPDX-License-Identifier: Apache-2.0 */
#include "train/dashboards/exposition.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

bool yokei_exposition_is_prometheus(const char *path)
{
    static const char suffix[] = ".prom";
    const size_t n = strlen(path), length = sizeof suffix - 1;
    return n >= length && strcmp(path + n - length, suffix) == 0;
}

static void put(struct yokei_exposition *x, const char *text, size_t n)
{
    if (x->lacks_memory) return;
    if (x->n + n > x->capacity) {
        const size_t capacity = 2 * (x->n + n) + 4096;
        char *more = realloc(x->text, capacity);
        if (!more) {
            x->lacks_memory = true;
            return;
        }
        x->text = more;
        x->capacity = capacity;
    }
    if (n) memcpy(x->text + x->n, text, n);
    x->n += n;
}

/* Put the texts after `x` until a NULL. */
static void put_all(struct yokei_exposition *x, ...)
{
    va_list texts;
    va_start(texts, x);
    for (const char *text; (text = va_arg(texts, const char *));) put(x, text, strlen(text));
    va_end(texts);
}

void yokei_exposition_family(struct yokei_exposition *x, const char *name, bool is_counter, const char *unit,
                             const char *help)
{
    const char *suffix = is_counter && x->is_prometheus ? "_total " : " ";
    x->family = name;
    x->is_counter = is_counter;
    put_all(x, "# TYPE ", name, suffix, is_counter ? "counter\n" : "gauge\n", NULL);
    if (unit && !x->is_prometheus) put_all(x, "# UNIT ", name, " ", unit, "\n", NULL);
    put_all(x, "# HELP ", name, suffix, help, "\n", NULL);
}

size_t yokei_character_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    const size_t n = c[0] < 0x80   ? 1
                     : c[0] < 0xc2 ? 0
                     : c[0] < 0xe0 ? 2
                     : c[0] < 0xf0 ? 3
                     : c[0] < 0xf5 ? 4
                                   : 0;
    for (size_t i = 1; i < n; i++)
        if (c[i] < 0x80 || c[i] > 0xbf) return 0;
    /* encodings that are too long, surrogates, and numbers above the last character */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90)
        || (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return n;
}

static void put_label_value(struct yokei_exposition *x, const char *value)
{
    for (size_t n; *value; value += n) {
        n = yokei_character_bytes(value);
        if (!n) {
            put_all(x, "\xef\xbf\xbd", NULL);
            n = 1;
        } else if (*value == '\\' || *value == '"')
            put_all(x, *value == '"' ? "\\\"" : "\\\\", NULL);
        else if (*value == '\n')
            put_all(x, "\\n", NULL);
        else
            put(x, value, n);
    }
}

void yokei_exposition_sample(struct yokei_exposition *x, const struct yokei_label *labels, int n_labels,
                             double value)
{
    char number[40] = "NaN";
    put_all(x, x->family, x->is_counter ? "_total" : "", n_labels ? "{" : "", NULL);
    for (int i = 0; i < n_labels; i++) {
        put_all(x, i ? "," : "", labels[i].name, "=\"", NULL);
        put_label_value(x, labels[i].value);
        put_all(x, "\"", NULL);
    }
    if (isinf(value))
        yokei_text(number, sizeof number, value > 0 ? "+Inf" : "-Inf");
    else if (!isnan(value))
        yokei_text(number, sizeof number, "%.15g", value);
    put_all(x, n_labels ? "} " : " ", number, "\n", NULL);
}

yoke_status yokei_exposition_publish(struct yokei_exposition *x, const char *path)
{
    if (!x->is_prometheus) put_all(x, "# EOF\n", NULL);
    const bool lacked = x->lacks_memory;
    const size_t n = x->n;
    x->n = 0;
    x->lacks_memory = false;
    if (lacked) return yoke_fail(YOKE_ENOMEM, "%s: no memory to write the metrics", path);
    return yokei_file_publish(path, x->text, n);
}

void yokei_exposition_free(struct yokei_exposition *x)
{
    free(x->text);
    *x = (struct yokei_exposition){ .n = 0 };
}
