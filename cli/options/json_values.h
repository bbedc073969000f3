/* SPDX-License-Identifier: Apache-2.0 */
/** Values for the JSON that verbs print. */
#ifndef CLI_OPTIONS_JSON_VALUES_H
#define CLI_OPTIONS_JSON_VALUES_H

#include <jansson.h>
#include <math.h>

/** A path or another text of the user in JSON. JSON holds only UTF-8, so a text of other bytes is null. */
static inline json_t *cli_json_text(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}
/** A number in JSON. JSON has no NaN and no infinity, so these are null. */
static inline json_t *cli_json_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

#endif
