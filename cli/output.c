/* SPDX-License-Identifier: Apache-2.0 */
/* What the command writes to stderr: notes, warnings, and one line of progress for a person who watches. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/base/base.h"

static bool progress_shown;

bool cli_on_terminal(void)
{
    const char *above = getenv("YOKE_TERMINAL"); /* under yoke run, stderr is a pipe to the launcher */
    return isatty(STDERR_FILENO) || (above && !strcmp(above, "yes"));
}

void cli_progress(const char *format, ...)
{
    if (!cli_on_terminal()) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* One write, so that lines of several processes do not mix; \033[K clears what a longer line left. */
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    progress_shown = true;
}

void cli_progress_end(void)
{
    if (progress_shown) fputc('\n', stderr);
    progress_shown = false;
}

static void note(const char *before, const char *format, va_list args)
{
    char text[4600];
    vsnprintf(text, sizeof text, format, args);
    cli_progress_end();
    fprintf(stderr, "%s%s\n", before, text);
    fflush(stderr);
}

void cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note("", format, args);
    va_end(args);
}

void cli_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note("yoke: warning: ", format, args);
    va_end(args);
}
