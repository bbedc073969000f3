/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/config_places.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

/* The value of a field for one version of transformers. */
struct found {
    json_t *value; /* borrowed; NULL: the version finds none */
    char place[YOKEI_CONFIG_PLACE_BYTES];
};

static bool is_filled(const json_t *object)
{
    return object && !json_is_null(object) && (!json_is_object(object) || json_object_size(object) > 0);
}

/* The name of the object that a place means: of "a|b" the first that is not empty. `name` may be NULL. */
static void object_name(const json_t *root, const char *object, char *name, size_t bytes)
{
    const char *bar = strchr(object, '|');
    yokei_text(name, bytes, "%.*s", bar ? (int)(bar - object) : (int)strlen(object), object);
    if (bar && !is_filled(json_object_get(root, name))) yokei_text(name, bytes, "%s", bar + 1);
}

static yoke_status find(const char *path, const json_t *root, const struct yokei_config_place *places,
                        struct found *out)
{
    char name[YOKEI_CONFIG_PLACE_BYTES / 2];
    out->value = NULL;
    for (; places->key && !out->value; places++) {
        const json_t *holder = root;
        if (places->object) {
            object_name(root, places->object, name, sizeof name);
            holder = json_object_get(root, name);
            if (holder && !json_is_null(holder) && !json_is_object(holder))
                return yoke_fail(YOKE_ECONFIG, "%s: %s is %s; an object is wanted", path, name,
                                 yokei_json_kind(holder));
        }
        out->value = json_object_get(holder, places->key);
        yokei_text(out->place, sizeof out->place, "%s%s%s", places->object ? name : "",
                   places->object ? "." : "", places->key);
    }
    return YOKE_OK;
}

static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static void show(const json_t *value, char *text, size_t bytes)
{
    char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(10));
    yokei_text(text, bytes, "%s", dump ? dump : "?");
    free(dump);
}

/* Find the value that counts: the value of both versions, or of the only version that finds one. */
static yoke_status find_both(const char *path, const json_t *root, const struct yokei_config_field *field,
                             struct found *out)
{
    struct found old;
    char value[64], other[64];
    YOKE_TRY(find(path, root, field->in_4, &old));
    YOKE_TRY(find(path, root, field->in_5, out));
    if (!out->value) *out = old;
    if (out->value && old.value && !is_same(old.value, out->value)) {
        show(old.value, value, sizeof value);
        show(out->value, other, sizeof other);
        return yoke_fail(
            YOKE_ECONFIG,
            "%s: %s is %s, but %s is %s: version 4 of transformers uses %s and version 5 uses %s; remove the wrong one",
            path, old.place, value, out->place, other, value, other);
    }
    if (!out->value || !field->only) return YOKE_OK;
    json_t *only = json_loads(field->only, JSON_DECODE_ANY, NULL);
    const bool computed = only && is_same(only, out->value);
    json_decref(only);
    if (computed) return YOKE_OK;
    show(out->value, value, sizeof value);
    return yoke_fail(YOKE_ECONFIG, "%s: %s is %s, which is not computed: %s", path, out->place, value,
                     field->why);
}

/* Read a null as 0, which lies outside the limits of such a number. */
static void take_null(json_t *root, const char *key, const struct yokei_json_schema *schema, void *out)
{
    if (!json_is_null(json_object_get(root, key))) return;
    for (const struct yokei_json_field *f = schema->fields; f->key; f++)
        if (strcmp(f->key, key) == 0) *(int64_t *)(void *)((char *)out + f->offset) = 0;
    json_object_del(root, key);
}

enum { MAX_FIELDS = 40, MAX_PLACES = 12 };
struct renamed {
    struct yokei_json_field fields[MAX_FIELDS];
    struct yokei_json_schema schema;
    char place[MAX_PLACES][YOKEI_CONFIG_PLACE_BYTES];
};

/*
 * A value that is not under its name of the schema gets a key of its own at the top level, which is the text
 * of its place. The schema reads this key, so errors about the value have its place.
 */
static yoke_status rename_fields(const char *path, json_t *root, const struct yokei_config_field *fields,
                                 struct renamed *r)
{
    size_t n = 0;
    for (; fields->key; fields++) {
        struct found found;
        YOKE_TRY(find_both(path, root, fields, &found));
        if (!found.value || fields->only || strcmp(found.place, fields->key) == 0) continue;
        struct yokei_json_field *field = r->fields;
        while (field->key && strcmp(field->key, fields->key) != 0) field++;
        if (!field->key || n == MAX_PLACES)
            return yoke_fail(YOKE_EINTERNAL, "%s: no room for the place of %s", path, fields->key);
        yokei_text(r->place[n], sizeof r->place[n], "%s", found.place);
        if (json_object_set(root, r->place[n], found.value))
            return yoke_fail(YOKE_ENOMEM, "%s: no host memory", path);
        field->key = r->place[n++];
    }
    return YOKE_OK;
}

yoke_status yokei_config_parse(const char *path, const char *text, size_t bytes,
                               const struct yokei_config_field *fields, const char *const *nullable,
                               const struct yokei_json_schema *schema, void *out)
{
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) { /* yokei_json_parse reports the error and its place */
        json_decref(root);
        return yokei_json_parse(path, text, bytes, schema, out);
    }
    struct renamed *r = calloc(1, sizeof *r);
    char *changed = NULL;
    size_t n = 0;
    while (schema->fields[n].key && n + 1 < MAX_FIELDS) n++;
    for (; *nullable; nullable++) take_null(root, *nullable, schema, out);
    yoke_status status = r ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no host memory", path);
    if (!status) {
        memcpy(r->fields, schema->fields, n * sizeof *r->fields);
        r->schema = *schema;
        r->schema.fields = r->fields;
        status = rename_fields(path, root, fields, r);
    }
    if (!status && !(changed = json_dumps(root, 0)))
        status = yoke_fail(YOKE_ENOMEM, "%s: no host memory", path);
    if (!status) status = yokei_json_parse(path, changed, strlen(changed), &r->schema, out);
    free(changed);
    json_decref(root);
    free(r);
    return status;
}

static bool agree_at(json_t *root, const struct yokei_config_place *places, json_t *value)
{
    bool done = true;
    for (; places->key; places++) {
        const char *object = places->object;
        while (object || !places->object) {
            char name[YOKEI_CONFIG_PLACE_BYTES / 2];
            const size_t n = object ? strcspn(object, "|") : 0;
            yokei_text(name, sizeof name, "%.*s", (int)n, object ? object : "");
            json_t *holder = object ? json_object_get(root, name) : root;
            json_t *there = json_object_get(holder, places->key);
            if (there && !is_same(there, value)) done = !json_object_set(holder, places->key, value) && done;
            if (!object || !object[n]) break;
            object += n + 1;
        }
    }
    return done;
}

yoke_status yokei_config_agree(json_t *root, const struct yokei_config_field *fields)
{
    for (; fields->key; fields++) {
        json_t *value = fields->only ? json_loads(fields->only, JSON_DECODE_ANY, NULL)
                                     : json_incref(json_object_get(root, fields->key));
        const bool done = value ? agree_at(root, fields->in_4, value) && agree_at(root, fields->in_5, value)
                                : !fields->only;
        json_decref(value);
        if (!done) return yoke_fail(YOKE_ENOMEM, "config.json: no host memory");
    }
    return YOKE_OK;
}
