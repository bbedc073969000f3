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
/** What was wrong with the file. */
struct diagnose_ending {
    const char *torn; /* why events at its end may be missing; NULL: it is complete */
    int64_t n_bad;    /* events that are no JSON */
    int64_t n_long;   /* values above 1 MiB */
};
/**
 * Visit the elements of "traceEvents", or of the list that the file is. The file may be packed by gzip. If it
 * ends too early, what came before was visited. Events that are no JSON, and values above 1 MiB, are left
 * out. Bytes that are no UTF-8 become question marks. Errors are YOKE_EDATA (it cannot be read, or is no
 * trace), YOKE_ENOMEM, and those of `visit`.
 */
yoke_status diagnose_events(const char *path, diagnose_visit *visit, void *context,
                            struct diagnose_ending *ending_out);

#endif
