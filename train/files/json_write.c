/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/json.h"

/* A growing text. After the first failure nothing more is added. */
struct writer {
    char *text;
    size_t used, room;
    bool indented, nan_is_null;
    int depth;
    yoke_status status;
};

static void put(struct writer *w, const char *piece, size_t bytes)
{
    if (w->status) return;
    if (w->used + bytes + 1 > w->room) {
        size_t room = 2 * (w->used + bytes) + 256;
        char *text = realloc(w->text, room);
        if (!text) {
            w->status = yoke_fail(YOKE_ENOMEM, "no memory for %zu bytes of JSON", room);
            return;
        }
        w->text = text;
        w->room = room;
    }
    memcpy(w->text + w->used, piece, bytes);
    w->used += bytes;
    w->text[w->used] = 0;
}

static void put_text(struct writer *w, const char *text) { put(w, text, strlen(text)); }

static void put_line(struct writer *w)
{
    if (!w->indented) return;
    put_text(w, "\n");
    for (int i = 0; i < w->depth; i++) put_text(w, "  ");
}

static void put_string(struct writer *w, const char *key, const char *value)
{
    json_t *string = json_string(value);
    char *text = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    if (text)
        put_text(w, text);
    else if (!w->status)
        w->status = yoke_fail(YOKE_EINVAL, "\"%s\" cannot be written as JSON: it is not UTF-8", key);
    free(text);
    json_decref(string);
}

/*
 * Write the shortest decimal number that reads back as the same bits. It always has a point or an exponent.
 */
static void put_double(struct writer *w, const char *key, double value)
{
    if (!isfinite(value)) {
        if (w->nan_is_null)
            put_text(w, "null");
        else if (!w->status)
            w->status = yoke_fail(YOKE_EINVAL, "\"%s\" cannot be written as JSON: it is %g", key, value);
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    bool real = false;
    for (char *p = text; *p; p++) {
        if (!strchr("0123456789+-eE", *p)) *p = '.'; /* replace the locale's decimal point */
        real |= *p == '.' || *p == 'e';
    }
    put_text(w, text);
    if (!real) put_text(w, ".0");
}

static void put_object(struct writer *w, const struct yokei_json_schema *schema, const void *object);

static void put_array(struct writer *w, const struct yokei_json_field *field, const void *object)
{
    const char *items;
    int64_t n;
    memcpy(&items, (const char *)object + field->offset, sizeof items);
    memcpy(&n, (const char *)object + field->count_offset, sizeof n);
    put_text(w, "[");
    w->depth++;
    for (int64_t i = 0; i < n; i++) {
        if (i) put_text(w, w->indented ? "," : ", ");
        put_line(w);
        /* Each entry has its own line, so that a list of ranks reads like a table. */
        bool indented = w->indented;
        w->indented = false;
        put_object(w, field->schema, items + (size_t)i * field->schema->bytes);
        w->indented = indented;
    }
    w->depth--;
    if (n) put_line(w);
    put_text(w, "]");
}

static void put_field(struct writer *w, const struct yokei_json_field *field, const void *object)
{
    const char *member = (const char *)object + field->offset;
    char number[32], *string;
    switch (field->type) {
    case YOKEI_JSON_I64:
        yokei_text(number, sizeof number, "%" PRId64, *(const int64_t *)(const void *)member);
        put_text(w, number);
        break;
    case YOKEI_JSON_U64:
        yokei_text(number, sizeof number, "\"%" PRIu64 "\"", *(const uint64_t *)(const void *)member);
        put_text(w, number);
        break;
    case YOKEI_JSON_F64: put_double(w, field->key, *(const double *)(const void *)member); break;
    case YOKEI_JSON_BOOL: put_text(w, *(const bool *)(const void *)member ? "true" : "false"); break;
    case YOKEI_JSON_TEXT: put_string(w, field->key, member); break;
    case YOKEI_JSON_STRING:
        memcpy(&string, member, sizeof string);
        put_string(w, field->key, string ? string : "");
        break;
    case YOKEI_JSON_OBJECT: put_object(w, field->schema, member); break;
    case YOKEI_JSON_ARRAY: put_array(w, field, object); break;
    }
}

static void put_object(struct writer *w, const struct yokei_json_schema *schema, const void *object)
{
    bool first = true;
    put_text(w, "{");
    w->depth++;
    for (const struct yokei_json_field *field = schema->fields; field->key; field++) {
        if (field->sized && *(const size_t *)(const void *)((const char *)object + field->offset) == 0)
            continue;
        if (!first) put_text(w, w->indented ? "," : ", ");
        first = false;
        put_line(w);
        put_string(w, field->key, field->key);
        put_text(w, ": ");
        put_field(w, field, object);
    }
    w->depth--;
    put_line(w);
    put_text(w, "}");
}

yoke_status yokei_json_text(const struct yokei_json_schema *schema, const void *object, bool indented,
                            bool nan_is_null, char **text_out)
{
    struct writer w = { .indented = indented, .nan_is_null = nan_is_null };
    put_object(&w, schema, object);
    put_text(&w, "\n");
    if (w.status) {
        free(w.text);
        return w.status;
    }
    *text_out = w.text;
    return YOKE_OK;
}

/* ---- values of any shape ---- */

static void put_value(struct writer *w, const char *key, const json_t *value)
{
    const char *name;
    json_t *item;
    size_t i, n = 0;
    char number[32];
    if (json_is_string(value)) {
        put_string(w, key, json_string_value(value));
    } else if (json_is_real(value)) {
        put_double(w, key, json_real_value(value));
    } else if (json_is_integer(value)) {
        yokei_text(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        put_text(w, number);
    } else if (!json_is_object(value) && !json_is_array(value)) {
        put_text(w, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
    } else {
        const bool is_list = json_is_array(value);
        put_text(w, is_list ? "[" : "{");
        w->depth++;
        if (is_list) json_array_foreach(value, i, item)
            {
                if (n++) put_text(w, ",");
                put_line(w);
                put_value(w, key, item);
            }
        else
            json_object_foreach((json_t *)(uintptr_t)value, name, item)
            {
                if (n++) put_text(w, ",");
                put_line(w);
                put_string(w, name, name);
                put_text(w, ": ");
                put_value(w, name, item);
            }
        w->depth--;
        if (n) put_line(w);
        put_text(w, is_list ? "]" : "}");
    }
}

yoke_status yokei_json_dump(const json_t *value, char **text_out)
{
    struct writer w = { .indented = true };
    put_value(&w, "value", value);
    put_text(&w, "\n");
    if (w.status) {
        free(w.text);
        return w.status;
    }
    *text_out = w.text;
    return YOKE_OK;
}

yoke_status yokei_json_write(const char *path, const struct yokei_json_schema *schema, const void *object)
{
    char *text = NULL;
    yoke_status status = yokei_json_text(schema, object, true, false, &text);
    if (status) return yoke_fail_context(status, "%s", path);
    status = yokei_file_write(path, text, strlen(text));
    free(text);
    return status;
}
