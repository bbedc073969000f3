/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command writes: notes, warnings, errors and one line of progress to stderr, for a person who
 * watches, and text of any kind to stdout. Only this file keeps stdout and stderr in order. It flushes stdout
 * before it writes to stderr. So if both streams go to one file, a note stands between lines of a table, and
 * never inside one.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/base/base.h"

enum { COLUMNS_UNKNOWN = 80, SECONDS_SILENT = 2 };

/* ---- terminals ---- */

static const char *above(const char *name)
{
    const char *text = getenv(name); /* under yoke run both streams are pipes to the launcher */
    return text && strcmp(text, "no") != 0 ? text : NULL;
}

bool cli_on_terminal(void) { return isatty(STDERR_FILENO) || above("YOKE_TERMINAL"); }

bool cli_out_on_terminal(void) { return isatty(STDOUT_FILENO) || above("YOKE_TERMINAL_OUT"); }

void cli_pass_terminals_to_ranks(void)
{
    const char *name = isatty(STDERR_FILENO) ? ttyname(STDERR_FILENO) : NULL;
    setenv("YOKE_TERMINAL", !cli_on_terminal() ? "no" : name ? name : "yes", 1);
    setenv("YOKE_TERMINAL_OUT", cli_out_on_terminal() ? "yes" : "no", 1);
}

/* The number of columns is read before each line, because a window may change its size. */
static int terminal_columns(void)
{
    struct winsize size = { 0 };
    const char *name = above("YOKE_TERMINAL");
    if (isatty(STDERR_FILENO))
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    else if (name && name[0] == '/') {
        const int fd = open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0) {
            if (isatty(fd)) ioctl(fd, TIOCGWINSZ, &size);
            close(fd);
        }
    }
    return size.ws_col ? size.ws_col : COLUMNS_UNKNOWN;
}

int cli_out_columns(void)
{
    struct winsize size = { 0 };
    const bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col;
    return known ? size.ws_col : COLUMNS_UNKNOWN;
}

/*
 * The longest beginning of `text` that takes at most `columns` columns. In UTF-8, a byte that continues a
 * character takes no column.
 */
static size_t fitting(const char *text, int columns)
{
    size_t n = 0;
    for (int used = 0; text[n]; n++) {
        if (((unsigned char)text[n] & 0xc0) == 0x80) continue;
        if (++used > columns) break;
    }
    return n;
}

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

/* ---- the line of progress ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char shown[512]; /* "": no line is shown */
static uint64_t shown_ns;
static bool has_ticker;

/* One write, so that lines of several processes do not mix. \033[K clears the rest of a longer line. */
static void draw_progress(const char *text)
{
    char line[sizeof shown + 64];
    yokei_text(line, sizeof line, "\r%.*s\033[K", (int)fitting(text, terminal_columns() - 1), text);
    fflush(stdout);
    fputs(line, stderr);
    fflush(stderr);
}

/* A line that is unchanged for long also shows for how long, so that nobody takes the program for dead. */
static void *tick(void *unused)
{
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
        pthread_mutex_lock(&lock);
        const double seconds = (double)(yokei_now_ns() - shown_ns) * 1e-9;
        if (shown[0] && seconds >= SECONDS_SILENT) {
            char text[sizeof shown + 32];
            yokei_text(text, sizeof text, "%.480s (%.0f s)", shown, seconds);
            draw_progress(text);
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* A child process must not begin with a lock that a thread of its parent holds. */
static void lock_for_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void start_ticker(void)
{
    pthread_t thread;
    if (has_ticker) return;
    has_ticker = !yokei_thread_without_signals(&thread, tick, NULL);
    if (has_ticker) {
        pthread_detach(thread);
        pthread_atfork(lock_for_fork, after_fork, after_fork);
    }
}

void cli_progress(const char *format, ...)
{
    if (!cli_on_terminal()) return;
    char text[sizeof shown], *safe;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    safe = cli_printable(text);
    pthread_mutex_lock(&lock);
    const bool stood = shown[0] != 0;
    yokei_text(shown, sizeof shown, "%s", safe ? safe : "");
    shown_ns = yokei_now_ns();
    if (stood || shown[0]) draw_progress(shown);
    start_ticker();
    pthread_mutex_unlock(&lock);
    free(safe);
}

static void end_line(void)
{
    if (shown[0]) fputc('\n', stderr);
    shown[0] = 0;
}

void cli_progress_end(void)
{
    pthread_mutex_lock(&lock);
    end_line();
    pthread_mutex_unlock(&lock);
}

/* ---- lines on stderr ---- */

static void put_line(const char *before, const char *text)
{
    char *safe = cli_printable(text);
    pthread_mutex_lock(&lock);
    end_line();
    fflush(stdout);
    fprintf(stderr, "%s%s\n", before, safe ? safe : "no memory for a message");
    fflush(stderr);
    pthread_mutex_unlock(&lock);
    free(safe);
}

void cli_error(const char *text) { put_line("yoke: error: ", text); }

void cli_note(const char *format, ...)
{
    char text[4600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_line("", text);
}

void cli_warn(const char *format, ...)
{
    char text[4600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_line("yoke: warning: ", text);
}

void cli_put_text(struct cli_printer *printer, const void *bytes, size_t n, bool last)
{
    if (cli_out_on_terminal())
        cli_put_printable(printer, bytes, n, last, stdout);
    else
        fwrite(bytes, 1, n, stdout);
}
