/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal: drawn in place by plain ANSI sequences, and given back as it was, whatever ends the program.
 * Signals come in only while this file waits or writes. So a terminal that takes no output (Ctrl-S) holds no
 * signal up.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/watch/watch.h"
#include "core/base/base.h"

enum { SOMETIMES_COLUMNS = 80, SOMETIMES_ROWS = 24 };

/* The other screen, no cursor, no wrapping, an empty page; and back. */
static const char TAKE[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J",
                  LEAVE[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static volatile sig_atomic_t asked, stop_asked, changed;
static bool is_taken, is_gone;
static sigset_t outside; /* the signals that were blocked before */

static void on_ending(int signal) { asked = signal; }
static void on_stop(int signal) { (void)signal, stop_asked = 1; }
static void on_change(int signal) { (void)signal, changed = 1; }

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler }; /* without SA_RESTART, so that write() returns */
    struct sigaction was;
    if (!sigaction(signal, NULL, &was) && was.sa_handler == SIG_IGN) return; /* nohup */
    sigaction(signal, &action, NULL);
}

/* Wait until the terminal takes output, or a signal comes. */
static bool is_ready(int milliseconds)
{
    struct pollfd out = { STDOUT_FILENO, POLLOUT, 0 };
    const struct timespec wait = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
    if (ppoll(&out, 1, &wait, &outside) != 1) return false;
    is_gone = is_gone || out.revents & (POLLERR | POLLHUP | POLLNVAL);
    return !is_gone;
}

/* Write as much as the terminal takes until a signal asks for the end. */
static void put(const char *text, size_t n, int milliseconds)
{
    while (n && is_ready(milliseconds)) {
        sigset_t inside;
        sigprocmask(SIG_SETMASK, &outside, &inside);
        const ssize_t done = write(STDOUT_FILENO, text, n);
        const int error = errno;
        sigprocmask(SIG_SETMASK, &inside, NULL);
        is_gone = is_gone || (done < 0 && error != EINTR && error != EAGAIN);
        if (is_gone || (done < 0 && asked)) return;
        text += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

static void enter(void)
{
    is_taken = true;
    changed = 1;
    put(TAKE, sizeof TAKE - 1, 1000);
}

void watch_screen_take(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < YOKE_COUNT(ending); i++) sigaddset(&set, ending[i]);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGCONT);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, &outside);
    for (size_t i = 0; i < YOKE_COUNT(ending); i++) handle(ending[i], on_ending);
    handle(SIGTSTP, on_stop);
    handle(SIGCONT, on_change);
    handle(SIGWINCH, on_change);
    fflush(stdout);
    enter();
}

void watch_screen_leave(void)
{
    if (!is_taken) return;
    is_taken = false;
    put(LEAVE, sizeof LEAVE - 1, 200);
}

/* Stop as the user asked, with the terminal as it was, and take it again afterwards. */
static void stop_here(void)
{
    struct sigaction action = { .sa_handler = SIG_DFL }, was;
    sigset_t set;
    stop_asked = 0;
    watch_screen_leave();
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    sigaction(SIGTSTP, &action, &was);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* the process stops here */
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGTSTP, &was, NULL);
    enter();
}

int watch_screen_wait(double seconds)
{
    const uint64_t begun = yokei_now_ns();
    while (!asked && !changed) {
        const double left = seconds - yokei_seconds_since(begun);
        if (stop_asked) {
            stop_here();
            break;
        }
        if (left <= 0) break;
        const struct timespec wait = { (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };
        ppoll(NULL, 0, &wait, &outside);
    }
    return asked;
}

void watch_screen_size(int *columns_out, int *rows_out)
{
    struct winsize size = { 0 };
    const bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *columns_out = known && size.ws_col ? size.ws_col : SOMETIMES_COLUMNS;
    *rows_out = known && size.ws_row ? size.ws_row : SOMETIMES_ROWS;
}

static const char *style_of(enum watch_style style)
{
    return style == WATCH_ALARM ? "\033[1;31m" : style == WATCH_BOLD ? "\033[1m" : "";
}

/*
 * Each line is written over the line before, and its rest is cleared. So nothing flickers. After a change of
 * the size the page is cleared first.
 */
bool watch_screen_draw(const struct watch_view *view, bool colours)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return true; /* the next view may find memory */
    fputs(changed ? "\033[0m\033[H\033[2J" : "\033[H", to);
    changed = 0;
    for (int i = 0; i < view->n; i++) {
        const char *style = colours ? style_of(view->lines[i].style) : "";
        fprintf(to, "%s%s%s%s\033[K", i ? "\r\n" : "", style, view->lines[i].text, *style ? "\033[0m" : "");
    }
    fputs("\033[J", to);
    fclose(to);
    if (text) put(text, bytes, 1000);
    free(text);
    return !is_gone;
}
