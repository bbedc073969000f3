/* SPDX-License-Identifier: Apache-2.0 */
/** Read a Chrome trace event by event, so that the memory does not grow with the file. */
#ifndef CLI_DIAGNOSE_EVENTS_H
#define CLI_DIAGNOSE_EVENTS_H

#include <jansson.h>
#include <yoke/base.h>

/**
 * `key` is NULL for an event, or the key of another value at the top of the file. The value is valid during
 * the call. An error ends the reading.
 */
typedef yoke_status diagnose_visit(void *context, const char *key, const json_t *value);
/**
 * Visit the elements of "traceEvents", or of the list that the file is. *torn_out: the file ends too early,
 * or has something that is no JSON; what came before was visited. A value above 1 MiB is left out. Errors are
 * YOKE_EDATA (it cannot be read, or is no trace), YOKE_ENOMEM, and those of `visit`.
 */
yoke_status diagnose_events(const char *path, diagnose_visit *visit, void *context, bool *torn_out);

#endif
