/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command writes: notes, warnings and errors to stderr, for a person who watches, and text of any
 * kind to stdout. progress_draw.c draws the line of progress. Only this file keeps stdout and stderr in
 * order. It flushes stdout before it writes to stderr. So if both streams go to one file, a note stands
 * between lines of a table, and never inside one.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/base/base.h"

void cli_order_streams(void)
{
    static char
        buffer[1 << 16]; /* longer than any line of a table; the C library ignores a length without memory */
    struct stat out, err;
    const bool one_file = !fstat(STDOUT_FILENO, &out) && !fstat(STDERR_FILENO, &err)
                          && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    /* The launcher joins both streams of a rank. */
    if (one_file || getenv("PMI_RANK")) setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
}

/* ---- lines on stderr ---- */

/*
 * On a terminal, a line of progress of another process may stand where this line begins: see progress_draw.c.
 * One write, so that lines of several processes do not mix.
 */
static void put_line(const char *before, const char *text)
{
    const bool others = cli_progress_is_parents() || getenv("YOKE_TERMINAL"); /* other ranks, and yoke run */
    const bool can_clear = others && cli_on_terminal() && !cli_terminal_is_dumb();
    char *safe = cli_printable(text), *line = NULL;
    if (asprintf(&line, "%s%s%s\n", can_clear ? "\033[K" : "", before,
                 safe ? safe : "no memory for a message")
        < 0)
        line = NULL;
    cli_progress_lock();
    fflush(stdout);
    fputs(line ? line : "no memory for a message\n", stderr);
    fflush(stderr);
    cli_progress_unlock();
    free(line);
    free(safe);
}

#define PUT(before, format)                         \
    do {                                            \
        char text[4600];                            \
        va_list args;                               \
        va_start(args, format);                     \
        vsnprintf(text, sizeof text, format, args); \
        va_end(args);                               \
        put_line(before, text);                     \
    } while (0)

void cli_error(const char *text) { put_line("yoke: error: ", text); }

void cli_warn(const char *format, ...) { PUT("yoke: warning: ", format); }

void cli_say(const char *format, ...) { PUT("", format); }

void cli_note(const char *format, ...)
{
    if (!cli_is_quiet()) PUT("", format);
}

void cli_put_text(struct cli_printer *printer, const void *bytes, size_t n, bool last)
{
    if (cli_out_on_terminal())
        cli_put_printable(printer, bytes, n, last, stdout);
    else
        fwrite(bytes, 1, n, stdout);
}
