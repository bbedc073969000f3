/* SPDX-License-Identifier: Apache-2.0 */
/** Values for the JSON that verbs print. */
#ifndef CLI_OPTIONS_JSON_VALUES_H
#define CLI_OPTIONS_JSON_VALUES_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/base.h"

/** A path or another text of the user in JSON. JSON holds only UTF-8, so a text of other bytes is null. */
static inline json_t *cli_json_text(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}
/** A number in JSON. JSON has no NaN and no infinity, so these are null. */
static inline json_t *cli_json_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/** Print the results of a verb, and free them. NULL, which Jansson returns without memory: YOKE_ENOMEM. */
static inline yoke_status cli_json_print(json_t *root, const char *verb)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text) return yoke_fail(YOKE_ENOMEM, "%s: no host memory for the results", verb);
    puts(text);
    free(text);
    return YOKE_OK;
}

#endif
