/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Read JSON files into C structs and write them, both by one table of fields. Types, ranges and allowed words
 * are checked. An error names the file, the path inside it ("ranks[1].share") and the reason. For an unknown
 * key it names the most similar key.
 */
#ifndef TRAIN_FILES_JSON_H
#define TRAIN_FILES_JSON_H

#include <yoke/base.h>

enum yokei_json_type {
    YOKEI_JSON_I64,  /* int64_t; min..max */
    YOKEI_JSON_F64,  /* double; min..max; an integer is accepted */
    YOKEI_JSON_BOOL, /* bool */
    /* char[bytes] inside the struct; if `choices` is not NULL, only these texts are allowed */
    YOKEI_JSON_TEXT,
    YOKEI_JSON_STRING, /* char *: an allocated text of any length; NULL: none, written as "" */
    /* uint64_t; written as a decimal string, because many JSON readers keep numbers in doubles; strings and
     * numbers are read */
    YOKEI_JSON_U64,
    YOKEI_JSON_OBJECT, /* a struct inside the struct, described by `schema` */
    /* T *: an allocated array of structs described by `schema`; its int64_t count is at count_offset;
     * min..max entries */
    YOKEI_JSON_ARRAY,
};

struct yokei_json_schema;
struct yokei_json_field {
    const char *key;
    enum yokei_json_type type;
    size_t offset, bytes;       /* offset of the member; bytes: size of a TEXT */
    bool required;              /* otherwise a missing key leaves the member unchanged */
    double min, max;            /* min == max == 0: no limit */
    const char *const *choices; /* NULL-terminated */
    const struct yokei_json_schema *schema;
    size_t count_offset;
    /* OBJECT: begins with a size_t, which is 0 if the object is absent; an absent object is not written, and
     * reading sets the size */
    bool sized;
};
struct yokei_json_schema {
    const struct yokei_json_field *fields; /* in the order in which they are written; the last has key NULL */
    size_t bytes;                          /* size of the struct */
    bool ignore_unknown;
    yoke_status unreadable; /* the status for a file that is missing or not JSON; YOKE_OK means YOKE_EDATA */
};

/**
 * Read `path` into `out`, which holds the defaults (arrays and strings NULL). On failure `out` is unchanged.
 * Errors: schema->unreadable (missing; not JSON, with line and column; not an object), YOKE_ECONFIG (schema),
 * YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_json_read(const char *path, const struct yokei_json_schema *schema, void *out);
/** The same from text in memory; `path` is for messages. */
yoke_status yokei_json_parse(const char *path, const char *text, size_t bytes,
                             const struct yokei_json_schema *schema, void *out);
/** Free the arrays and strings in the struct, and set them to NULL and 0. */
void yokei_json_free(const struct yokei_json_schema *schema, void *object);
/**
 * Write a file atomically. Keys are in the schema's order, and numbers read back as the same bits. YOKE_EIO,
 * YOKE_EINVAL (NaN), YOKE_ENOMEM.
 */
yoke_status yokei_json_write(const char *path, const struct yokei_json_schema *schema, const void *object);
/**
 * The same as one malloc'ed string that ends with a newline, indented or on one line. With `nan_is_null`, NaN
 * and infinities become null.
 */
yoke_status yokei_json_text(const struct yokei_json_schema *schema, const void *object, bool indented,
                            bool nan_is_null, char **text_out);
/**
 * Load any JSON file of at most 16 MiB as a jansson tree. The caller calls json_decref(). The status is
 * `wrong` for a file that is not JSON, and in the cases in which yokei_file_open() uses `wrong`. jansson
 * refuses nesting deeper than 2048.
 */
struct json_t;
yoke_status yokei_json_load(const char *path, yoke_status wrong, struct json_t **root_out);
/**
 * A jansson value as one malloc'ed string: indented, with keys in its order, and with numbers that read back
 * as the same bits. YOKE_ENOMEM, YOKE_EINVAL.
 */
yoke_status yokei_json_dump(const struct json_t *value, char **text_out);
/** The kind of a value in words, for messages: "a list", "a string", … */
const char *yokei_json_kind(const struct json_t *value);

#endif
