/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/map.h"

enum { PATH_BYTES = 256 };

/* The place of a value in the file, for messages. */
struct place {
    const char *file;
    char path[PATH_BYTES];
};

static void member_at(void *object, const struct yokei_json_field *field, void **member, int64_t **count)
{
    *member = (char *)object + field->offset;
    *count = (int64_t *)(void *)((char *)object + field->count_offset);
}

static void inner_place(const struct place *outer, const char *key, struct place *inner)
{
    inner->file = outer->file;
    yokei_text(inner->path, PATH_BYTES, "%s%s%s", outer->path, outer->path[0] ? "." : "", key);
}

const char *yokei_json_kind(const json_t *value)
{
    static const char *const kinds[] = { "an object", "a list", "a string", "an integer",
                                         "a number",  "true",   "false",    "null" };
    return kinds[json_typeof(value)];
}

static yoke_status wrong_kind(const struct place *at, const json_t *value, const char *wanted)
{
    return yoke_fail(YOKE_ECONFIG, "%s: %s is %s; %s is wanted", at->file, at->path, yokei_json_kind(value),
                     wanted);
}

static bool outside(const struct yokei_json_field *field, double value)
{
    return !(field->min == 0 && field->max == 0) && !(value >= field->min && value <= field->max);
}

static yoke_status wrong_range(const struct place *at, const struct yokei_json_field *field, double value,
                               const char *what)
{
    return yoke_fail(YOKE_ECONFIG, "%s: %s is %.17g%s; it must be between %.17g and %.17g", at->file,
                     at->path, value, what, field->min, field->max);
}

static yoke_status read_object(const struct place *at, json_t *value, const struct yokei_json_schema *schema,
                               void *out);

static yoke_status read_number(const struct place *at, json_t *value, const struct yokei_json_field *field,
                               void *member)
{
    if (field->type == YOKEI_JSON_I64 ? !json_is_integer(value) : !json_is_number(value))
        return wrong_kind(at, value, field->type == YOKEI_JSON_I64 ? "an integer" : "a number");
    if (outside(field, json_number_value(value))) return wrong_range(at, field, json_number_value(value), "");
    if (field->type == YOKEI_JSON_I64)
        *(int64_t *)member = json_integer_value(value);
    else
        *(double *)member = json_number_value(value);
    return YOKE_OK;
}

static yoke_status read_u64(const struct place *at, json_t *value, void *member)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *(uint64_t *)member = (uint64_t)json_integer_value(value);
        return YOKE_OK;
    }
    const char *text = json_string_value(value);
    if (!text)
        return wrong_kind(at, value, "a whole number of 64 bits, not negative, or the same as a string,");
    errno = 0;
    uint64_t number = strtoull(text, NULL, 10);
    if (!*text || strspn(text, "0123456789") != strlen(text) || errno)
        return yoke_fail(YOKE_ECONFIG, "%s: %s is \"%.40s\"; a whole number of 64 bits is wanted", at->file,
                         at->path, text);
    *(uint64_t *)member = number;
    return YOKE_OK;
}

static yoke_status read_text(const struct place *at, json_t *value, const struct yokei_json_field *field,
                             char *member)
{
    const char *text = json_string_value(value);
    if (!text) return wrong_kind(at, value, "a string");
    if (strlen(text) >= field->bytes)
        return yoke_fail(YOKE_ECONFIG, "%s: %s is longer than %zu bytes", at->file, at->path,
                         field->bytes - 1);
    if (field->choices) {
        const char *const *choice = field->choices;
        while (*choice && strcmp(*choice, text) != 0) choice++;
        if (!*choice) {
            const char *nearest = yokei_nearest(text, field->choices);
            char list[200] = "";
            for (choice = field->choices; *choice; choice++)
                yokei_text(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"",
                           choice == field->choices ? "" : ", ", *choice);
            return yoke_fail(YOKE_ECONFIG, "%s: %s is \"%.60s\"; it must be one of %s%s%s%s", at->file,
                             at->path, text, list, nearest ? ": did you mean \"" : "", nearest ? nearest : "",
                             nearest ? "\"?" : "");
        }
    }
    memset(member, 0, field->bytes);
    memcpy(member, text, strlen(text));
    return YOKE_OK;
}

static yoke_status read_string(const struct place *at, json_t *value, void *member)
{
    const char *text = json_string_value(value);
    if (!text) return wrong_kind(at, value, "a string");
    char *copy = *text ? strdup(text) : NULL;
    if (*text && !copy) return yoke_fail(YOKE_ENOMEM, "%s: no memory for %s", at->file, at->path);
    memcpy(member, &copy, sizeof copy);
    return YOKE_OK;
}

static yoke_status read_array(const struct place *at, json_t *value, const struct yokei_json_field *field,
                              void *object)
{
    void *member;
    int64_t *count;
    member_at(object, field, &member, &count);
    if (!json_is_array(value)) return wrong_kind(at, value, "a list");
    size_t n = json_array_size(value), bytes = field->schema->bytes;
    if (outside(field, (double)n)) return wrong_range(at, field, (double)n, " entries long");
    if (n == 0) return YOKE_OK;
    char *items = calloc(n, bytes);
    if (!items) return yoke_fail(YOKE_ENOMEM, "%s: no memory for %s", at->file, at->path);
    /*
     * The object owns the memory before it is filled. So freeing the object also frees what was read before
     * an error.
     */
    memcpy(member, &items, sizeof items);
    *count = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        struct place inner = { at->file, "" };
        yokei_text(inner.path, PATH_BYTES, "%s[%zu]", at->path, i);
        YOKE_TRY(read_object(&inner, json_array_get(value, i), field->schema, items + i * bytes));
    }
    return YOKE_OK;
}

static yoke_status read_field(const struct place *at, json_t *value, const struct yokei_json_field *field,
                              void *object)
{
    void *member = (char *)object + field->offset;
    switch (field->type) {
    case YOKEI_JSON_I64:
    case YOKEI_JSON_F64: return read_number(at, value, field, member);
    case YOKEI_JSON_U64: return read_u64(at, value, member);
    case YOKEI_JSON_TEXT: return read_text(at, value, field, member);
    case YOKEI_JSON_STRING: return read_string(at, value, member);
    case YOKEI_JSON_OBJECT:
        if (field->sized) *(size_t *)member = field->schema->bytes;
        return read_object(at, value, field->schema, member);
    case YOKEI_JSON_ARRAY: return read_array(at, value, field, object);
    case YOKEI_JSON_BOOL: break;
    }
    if (!json_is_boolean(value)) return wrong_kind(at, value, "true or false");
    *(bool *)member = json_is_true(value);
    return YOKE_OK;
}

static const struct yokei_json_field *find_field(const struct yokei_json_schema *schema, const char *key)
{
    for (const struct yokei_json_field *field = schema->fields; field->key; field++)
        if (strcmp(field->key, key) == 0) return field;
    return NULL;
}

static yoke_status unknown_key(const struct place *at, const char *key,
                               const struct yokei_json_schema *schema)
{
    const char *names[64] = { NULL };
    size_t n = 0;
    for (const struct yokei_json_field *field = schema->fields; field->key && n + 1 < YOKE_COUNT(names);
         field++)
        names[n++] = field->key;
    const char *nearest = yokei_nearest(key, names);
    struct place inner;
    inner_place(at, key, &inner);
    return yoke_fail(YOKE_ECONFIG, "%s: unknown key %s%s%s%s", at->file, inner.path,
                     nearest ? ": did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

/* Report a missing required key. The most similar key in the file is probably the one that was meant. */
static yoke_status missing_key(const struct place *at, const char *key, json_t *value)
{
    struct place inner;
    inner_place(at, key, &inner);
    const char **names = calloc(json_object_size(value) + 1, sizeof *names), *name;
    if (!names) return yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", at->file);
    size_t n = 0;
    json_t *ignored;
    json_object_foreach(value, name, ignored) names[n++] = name;
    const char *nearest = yokei_nearest(key, names);
    free(names);
    return yoke_fail(YOKE_ECONFIG, "%s: %s is missing%s%s%s", at->file, inner.path,
                     nearest ? "; the nearest key that is there is \"" : "", nearest ? nearest : "",
                     nearest ? "\"" : "");
}

static yoke_status read_object(const struct place *at, json_t *value, const struct yokei_json_schema *schema,
                               void *out)
{
    if (!json_is_object(value)) return wrong_kind(at, value, "an object");
    const char *key;
    json_t *item;
    json_object_foreach(value, key, item)
    {
        const struct yokei_json_field *field = find_field(schema, key);
        if (!field && schema->ignore_unknown) continue;
        if (!field) return unknown_key(at, key, schema);
        struct place inner;
        inner_place(at, key, &inner);
        YOKE_TRY(read_field(&inner, item, field, out));
    }
    for (const struct yokei_json_field *field = schema->fields; field->key; field++)
        if (field->required && !json_object_get(value, field->key)) return missing_key(at, field->key, value);
    return YOKE_OK;
}

yoke_status yokei_json_parse(const char *path, const char *text, size_t bytes,
                             const struct yokei_json_schema *schema, void *out)
{
    yoke_status unreadable = schema->unreadable ? schema->unreadable : YOKE_EDATA;
    json_error_t error;
    if (bytes == 0) return yoke_fail(unreadable, "%s: is empty; a JSON object is wanted", path);
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return yoke_fail(unreadable, "%s: is not valid JSON: line %d, column %d: %s", path, error.line,
                         error.column, error.text);
    struct place at = { path, "" };
    void *copy = malloc(schema->bytes);
    yoke_status status = YOKE_OK;
    if (!json_is_object(root))
        status = yoke_fail(unreadable, "%s: holds %s; a JSON object is wanted", path, yokei_json_kind(root));
    else if (!copy)
        status = yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", path);
    else {
        memcpy(copy, out, schema->bytes);
        status = read_object(&at, root, schema, copy);
        if (status)
            yokei_json_free(schema, copy);
        else
            memcpy(out, copy, schema->bytes);
    }
    free(copy);
    json_decref(root);
    return status;
}

yoke_status yokei_json_read(const char *path, const struct yokei_json_schema *schema, void *out)
{
    struct yokei_map map;
    YOKE_TRY(yokei_map_open(path, schema->unreadable ? schema->unreadable : YOKE_EDATA, &map));
    yoke_status status = yokei_json_parse(path, (const char *)map.data, map.bytes, schema, out);
    yokei_map_close(&map);
    return status;
}

yoke_status yokei_json_load(const char *path, yoke_status wrong, json_t **root_out)
{
    enum { MOST = 16 << 20 };
    json_error_t error;
    void *text;
    size_t bytes;
    YOKE_TRY(yokei_file_read_as(path, wrong, MOST, &text, &bytes));
    json_t *root = bytes ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    free(text);
    if (!bytes) return yoke_fail(wrong, "%s: is empty; a JSON object is wanted", path);
    if (!root)
        return yoke_fail(wrong, "%s: is not valid JSON: line %d, column %d: %s", path, error.line,
                         error.column, error.text);
    *root_out = root;
    return YOKE_OK;
}

void yokei_json_free(const struct yokei_json_schema *schema, void *object)
{
    for (const struct yokei_json_field *field = schema->fields; field->key; field++) {
        void *member, *items;
        int64_t *count;
        member_at(object, field, &member, &count);
        if (field->type == YOKEI_JSON_OBJECT) yokei_json_free(field->schema, member);
        if (field->type != YOKEI_JSON_ARRAY && field->type != YOKEI_JSON_STRING) continue;
        memcpy(&items, member, sizeof items);
        for (int64_t i = 0; items && field->type == YOKEI_JSON_ARRAY && i < *count; i++)
            yokei_json_free(field->schema, (char *)items + (size_t)i * field->schema->bytes);
        free(items);
        memset(member, 0, sizeof items);
        if (field->type == YOKEI_JSON_ARRAY) *count = 0;
    }
}
