/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, their texts and exit codes, and the calling thread's error text. */
#include "core/base/base.h"

#include <stdio.h>
#include <string.h>

#define STRING(x) #x
#define VERSION_STRING(a, b, c) STRING(a) "." STRING(b) "." STRING(c) /* expands a, b and c first */

static const struct {
    const char *name, *text;
    int exit_code;
} table[YOKE_N_STATUS] = {
    [YOKE_OK] = { "YOKE_OK", "success", 0 },
    [YOKE_EINVAL] = { "YOKE_EINVAL", "an argument is wrong", 2 },
    [YOKE_EUNSUPPORTED] = { "YOKE_EUNSUPPORTED", "not offered by this device, type or shape", 12 },
    [YOKE_ENOMEM] = { "YOKE_ENOMEM", "not enough memory", 13 },
    [YOKE_EBUSY] = { "YOKE_EBUSY", "the object is still in use", 1 },
    [YOKE_ENODEV] = { "YOKE_ENODEV", "no such device", 12 },
    [YOKE_EBACKEND] = { "YOKE_EBACKEND", "the vendor's driver or library failed", 12 },
    [YOKE_ECOMPILE] = { "YOKE_ECOMPILE", "a device program did not compile", 12 },
    [YOKE_EIO] = { "YOKE_EIO", "a file could not be read or written", 13 },
    [YOKE_EDATA] = { "YOKE_EDATA",
                     "a data file, a checkpoint or a message between ranks is missing or corrupt", 11 },
    [YOKE_ECONFIG] = { "YOKE_ECONFIG", "a configuration or plan is wrong", 10 },
    [YOKE_EMISMATCH] = { "YOKE_EMISMATCH", "the ranks' calls or configurations do not match", 14 },
    [YOKE_ETIMEOUT] = { "YOKE_ETIMEOUT", "a rank made no progress in time", 15 },
    [YOKE_EDEAD] = { "YOKE_EDEAD", "a rank died or was stopped", 16 },
    [YOKE_EABORTED] = { "YOKE_EABORTED", "the communicator was aborted", 16 },
    [YOKE_ENUMERIC] = { "YOKE_ENUMERIC", "not a finite number", 17 },
    [YOKE_EREGRESSED] = { "YOKE_EREGRESSED", "slower than the baseline allows", 18 },
    [YOKE_EPREEMPTED] = { "YOKE_EPREEMPTED", "stopped on request, checkpoint saved", 75 },
    [YOKE_EINTERNAL] = { "YOKE_EINTERNAL", "a fault of Yoke's own", 1 },
};

static _Thread_local char last_error[sizeof(struct yokei_error)];

const char *yoke_status_name(yoke_status status)
{
    return (unsigned)status < YOKE_N_STATUS ? table[status].name : "unknown status";
}

const char *yoke_status_text(yoke_status status)
{
    return (unsigned)status < YOKE_N_STATUS ? table[status].text : "unknown status";
}

int yoke_status_exit_code(yoke_status status)
{
    return (unsigned)status < YOKE_N_STATUS ? table[status].exit_code : 1;
}

const char *yoke_last_error(void) { return last_error; }

void yokei_error_save(struct yokei_error *out) { memcpy(out->text, last_error, sizeof last_error); }
void yokei_error_restore(const struct yokei_error *saved)
{
    memcpy(last_error, saved->text, sizeof last_error);
}

yoke_status yoke_fail(yoke_status status, const char *format, ...)
{
    /* Write to a copy first, because an argument may be the present error text. */
    char text[sizeof last_error];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(last_error, text, sizeof text);
    yoke_log(YOKE_LOG_DEBUG, "%s: %s", yoke_status_name(status), last_error);
    return status;
}

yoke_status yoke_fail_context(yoke_status status, const char *format, ...)
{
    char context[1024], old[sizeof last_error];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    memcpy(old, last_error, sizeof old);
    yokei_text(last_error, sizeof last_error, "%s: %s", context, old);
    return status;
}

const char *yoke_version(void)
{
    return VERSION_STRING(YOKE_VERSION_MAJOR, YOKE_VERSION_MINOR, YOKE_VERSION_PATCH);
}
