/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The fields of config.json that transformers reads at more than one place: under two names, or in an object
 * and beside it. For each field a table lists the places that version 4 and version 5 of transformers read.
 * All reading of such fields goes through these functions. Where both versions use the same value, Yoke uses
 * this value. Where they use different values, the file is refused with both values.
 * tests/golden/make_config.py asks both versions for the values that they use.
 */
#ifndef TRAIN_FILES_CONFIG_PLACES_H
#define TRAIN_FILES_CONFIG_PLACES_H

#include <jansson.h>

#include "train/files/json.h"

enum { YOKEI_CONFIG_PLACES = 3, YOKEI_CONFIG_PLACE_BYTES = 80 };

/**
 * A place of a value: `key` in `object`. NULL as `object` means the top level of the file. "a|b" means the
 * object a, unless it is missing, null or empty; then the object b.
 */
struct yokei_config_place {
    const char *object, *key;
};
struct yokei_config_field {
    const char *key; /* the name in Yoke's schema, and at the top level of a file that Yoke writes */
    /* The first place that has a value counts. The last entry has key NULL. */
    struct yokei_config_place in_4[YOKEI_CONFIG_PLACES + 1], in_5[YOKEI_CONFIG_PLACES + 1];
    /* If Yoke computes only one value: this value as JSON, and why. The schema does not have such a field. */
    const char *only, *why;
};

/**
 * Read config.json's text by the schema into `out`, as yokei_json_parse() does, with the values that
 * transformers uses for `fields` (the last has key NULL). `nullable` (NULL-terminated) lists keys of whole
 * numbers that may be null, which is read as 0. Errors name the place at which the value was found. Errors:
 * those of yokei_json_parse(), and YOKE_ECONFIG if the versions of transformers use different values, or for
 * a value that is not computed.
 */
yoke_status yokei_config_parse(const char *path, const char *text, size_t bytes,
                               const struct yokei_config_field *fields, const char *const *nullable,
                               const struct yokei_json_schema *schema, void *out);
/**
 * Give a field the same value at all its places that `root` has. `root` is a config.json that will be
 * written, and has Yoke's value under the name of the schema. YOKE_ENOMEM.
 */
yoke_status yokei_config_agree(json_t *root, const struct yokei_config_field *fields);

#endif
