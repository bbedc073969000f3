/* SPDX-License-Identifier: Apache-2.0 */
/**
 * JSON files to and from C structs by one table of fields: types, ranges, defaults and spelling are checked, and an error
 * names the file, the path inside it ("ranks[1].share"), the reason, and the nearest key for an unknown one.
 */
#ifndef TRAIN_FILES_JSON_H
#define TRAIN_FILES_JSON_H

#include <yoke/base.h>

enum yokei_json_type {
    YOKEI_JSON_I64,    /* int64_t; min..max */
    YOKEI_JSON_F64,    /* double; min..max; an integer is accepted */
    YOKEI_JSON_BOOL,   /* bool */
    YOKEI_JSON_TEXT,   /* char[bytes] inside the struct; `choices` limits it where not NULL */
    YOKEI_JSON_STRING, /* char *: an allocated text of any length; NULL: none, written as "" */
    YOKEI_JSON_U64,    /* uint64_t; written as a decimal string, because JSON's readers keep numbers in doubles; both are read */
    YOKEI_JSON_OBJECT, /* a struct inside the struct, by `schema` */
    YOKEI_JSON_ARRAY,  /* T *: an allocated array of structs by `schema`; its int64_t count lies at count_offset; min..max entries */
};

struct yokei_json_schema;
struct yokei_json_field {
    const char *key;
    enum yokei_json_type type;
    size_t offset, bytes;          /* of the member; TEXT: its size */
    bool required;                 /* else the member keeps what it held before the read */
    double min, max;               /* min == max == 0: no limit */
    const char *const *choices;    /* NULL-terminated */
    const struct yokei_json_schema *schema;
    size_t count_offset;
    bool sized;                    /* OBJECT: begins with a size_t, 0 where it is not there: then it is not written, and reading sets it */
};
struct yokei_json_schema {
    const struct yokei_json_field *fields; /* in the order in which they are written; ends with key NULL */
    size_t bytes;                          /* of the struct */
    bool ignore_unknown;
    yoke_status unreadable;                /* for a file that is missing or no JSON; YOKE_OK means YOKE_EDATA */
};

/**
 * Read `path` into `out`, which holds the defaults (arrays and strings NULL). On failure `out` is as it was.
 * Errors: schema->unreadable (missing, not JSON: line and column; not an object), YOKE_ECONFIG (schema), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_json_read(const char *path, const struct yokei_json_schema *schema, void *out);
/** The same from text in memory; `path` is for messages. */
yoke_status yokei_json_parse(const char *path, const char *text, size_t bytes, const struct yokei_json_schema *schema, void *out);
/** Free the arrays and strings inside, and set them to NULL and 0. */
void yokei_json_free(const struct yokei_json_schema *schema, void *object);
/** Write atomically, keys in the schema's order, numbers so that they read back as the same bits. YOKE_EIO, YOKE_EINVAL (NaN), YOKE_ENOMEM. */
yoke_status yokei_json_write(const char *path, const struct yokei_json_schema *schema, const void *object);
/** The same as one malloc'ed string that ends with a newline: indented, or on one line. NaN and infinities become null when `nan_is_null`. */
yoke_status yokei_json_text(const struct yokei_json_schema *schema, const void *object, bool indented, bool nan_is_null,
                            char **text_out);
/**
 * Any JSON file, of at most 16 MiB, as jansson's tree, for json_decref(): what is no JSON, and what yokei_file_open() calls so, is `wrong`.
 * jansson refuses what is nested deeper than 2048.
 */
struct json_t;
yoke_status yokei_json_load(const char *path, yoke_status wrong, struct json_t **root_out);
/** A value of jansson's as such a string: indented, keys in its order, numbers so that they read back as the same bits. YOKE_ENOMEM, YOKE_EINVAL. */
yoke_status yokei_json_dump(const struct json_t *value, char **text_out);
/** "a list", "a string", …: what a value is, for messages. */
const char *yokei_json_kind(const struct json_t *value);

#endif
