/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a stand-in driver, and the text of the last fault. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulate/gpu/driver.h"

static char last_fault[1400];

bool emulate_log_is_set(void)
{
    const char *path = getenv("YOKE_EMULATE_LOG");
    return path && *path;
}

void emulate_print(const char *format, ...)
{
    char line[1600];
    const int prefix = snprintf(line, 100, "yoke: stand-in %s: ", emulate_vendor.library);
    va_list arguments;
    va_start(arguments, format);
    const int length_behind = vsnprintf(line + prefix, sizeof line - (size_t)prefix, format, arguments);
    va_end(arguments);
    int length = prefix + length_behind;
    if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
    line[length++] = '\n';
    /* One write a line, so that the lines of several processes do not mix. */
    const int file = emulate_log_is_set()
                         ? open(getenv("YOKE_EMULATE_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)
                         : -1;
    if (write(file >= 0 ? file : STDERR_FILENO, line, (size_t)length) < 0) {
        /* Nobody is left to whom this could be said. */
    }
    if (file >= 0) close(file);
}

void emulate_keep_fault(const char *text) { snprintf(last_fault, sizeof last_fault, "%s", text); }

const char *yoke_emulate_last_fault(void)
{
    static __thread char copy[sizeof last_fault];
    emulate_lock();
    memcpy(copy, last_fault, sizeof copy);
    emulate_unlock();
    return copy;
}
