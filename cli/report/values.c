/* SPDX-License-Identifier: Apache-2.0 */
/* Values of files that may be missing or of another type, groups of them, and numbers in words. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

const char *device_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double device_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

struct keyed {
    const char *key;
    size_t index;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

int64_t device_group(char *const keys[], size_t n, int64_t *group_out)
{
    struct keyed *sorted = calloc(n ? n : 1, sizeof *sorted);
    int64_t n_groups = 0;
    if (!sorted) return -1;
    for (size_t i = 0; i < n; i++) {
        if (!keys[i]) {
            free(sorted);
            return -1;
        }
        sorted[i] = (struct keyed){ keys[i], i };
    }
    qsort(sorted, n, sizeof *sorted, by_key);
    /* Equal keys first get the index of the first of them. */
    for (size_t i = 0, first = 0; i < n; i++) {
        if (strcmp(sorted[first].key, sorted[i].key)) first = i;
        group_out[sorted[i].index] = (int64_t)sorted[first].index;
    }
    for (size_t i = 0; i < n; i++)
        group_out[i] = group_out[i] == (int64_t)i ? n_groups++ : group_out[group_out[i]];
    free(sorted);
    return n_groups;
}

void device_keys_free(char **keys, size_t n)
{
    for (size_t i = 0; keys && i < n; i++) free(keys[i]);
    free(keys);
}

const char *device_count(double count, char out[REPORT_REAL])
{
    yokei_text(out, REPORT_REAL, isfinite(count) ? "%.15g" : "unknown", count);
    return out;
}

const char *device_seconds(double seconds, char out[REPORT_REAL])
{
    const char *const format = !isfinite(seconds) ? "unknown"
                               : seconds < 1e-3   ? "%.3g us"
                               : seconds < 1      ? "%.3g ms"
                                                  : "%.3g s";
    yokei_text(out, REPORT_REAL, format,
               seconds < 1e-3 ? 1e6 * seconds
               : seconds < 1  ? 1e3 * seconds
                              : seconds);
    return out;
}
