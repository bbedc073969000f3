/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing of the line of progress, by a thread of the process that watches.
 *
 * A drawn line leaves the cursor at its own beginning. Every line of stderr that a process of the job prints
 * begins by clearing to the end of the line (output.c). So a note of another rank, which does not know of the
 * line, replaces it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options/progress_said.h"
#include "core/base/base.h"

#define MS UINT64_C(1000000)
static const uint64_t TICK = 100 * MS, AGAIN = 1000 * MS, SILENT = 2000 * MS, BRIEF = 300 * MS;

static struct cli_said *said; /* NULL: nobody watches */
static uint64_t delay_ns, verb_ns;
static pid_t watcher; /* this process */
static pid_t command; /* what a shell has started: this process, or yoke run */

/* The lock of everything below, which only the process that draws uses. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change;
static bool has_signals;
static char shown[700]; /* what stands on the terminal; "": nothing */
static uint64_t shown_ns;
static struct cli_estimate estimate;
static unsigned estimate_of;
/* The handler of signals looks at these. */
static atomic_bool is_drawn, is_writing, is_held, was_stopped;

/* ---- the text of the line ---- */

/* A copy of everything that the line shows. */
struct view {
    bool is_begun, is_busy; /* a work of another rank counts while rank 0 has a work of its own */
    unsigned number, busy_number;
    double done, total, busy_share;
    uint64_t begun_ns, now_ns, busy_ns;
    char what[sizeof said->what], now[sizeof said->now], busy[sizeof said->busy];
};

static void take_view(struct view *v)
{
    cli_said_lock(said);
    /* a child process that was killed in the middle of a compilation does not say that it has ended */
    if (said->n_busy && said->busy_process != watcher && kill(said->busy_process, 0)) said->n_busy = 0;
    v->is_begun = atomic_load(&said->is_begun);
    v->is_busy = said->n_busy && (v->is_begun || !said->busy_rank);
    v->number = said->number, v->busy_number = said->busy_number;
    v->done = atomic_load(&said->done), v->total = atomic_load(&said->total);
    v->busy_share = v->is_busy ? atomic_load(&said->busy_share) : -1;
    v->begun_ns = v->is_begun ? said->begun_ns : verb_ns;
    v->now_ns = said->now_ns, v->busy_ns = said->busy_ns;
    memcpy(v->what, said->what, sizeof v->what);
    memcpy(v->now, said->now, sizeof v->now);
    memcpy(v->busy, said->busy, sizeof v->busy);
    cli_said_unlock(said);
}

/* Whether the line is shown: there is something to say, and it takes long. */
static bool is_due(const struct view *v, uint64_t now)
{
    if (now < v->begun_ns + delay_ns || atomic_load(&said->is_paused)) return false;
    return v->is_begun || (v->is_busy && now >= v->busy_ns + YOKE_MIN(BRIEF, delay_ns));
}

static void append(char *text, size_t bytes, const char *more)
{
    const size_t n = strlen(text);
    yokei_text(text + n, bytes - n, "%s", more);
}

/* How far the work is, and how long it still takes. `total` -1: `done` is a share. 0: nobody knows. */
static void append_how_far(double done, double total, unsigned number, uint64_t begun, uint64_t now,
                           char *text, size_t bytes)
{
    char more[80], left[48];
    const double seconds = (double)now * 1e-9, all = total < 0 ? 1 : total;
    if (number != estimate_of) cli_estimate_begin(&estimate, (double)begun * 1e-9), estimate_of = number;
    if (!(all > 0)) return;
    cli_estimate_look(&estimate, seconds, done);
    cli_time_left_text(cli_estimate_left(&estimate, seconds, all), left, sizeof left);
    if (total < 0)
        yokei_text(more, sizeof more, "%.0f %%", 100 * done);
    else
        yokei_text(more, sizeof more, "%.0f of %.0f", done, total);
    append(text, bytes, *text ? ": " : "");
    append(text, bytes, more);
    append(text, bytes, *left ? ", " : "");
    append(text, bytes, left);
}

/* "WHAT: 3 of 9, about 2 min left, now PART (12 s)". The seconds say that the program is not dead. */
static void write_text(const struct view *v, uint64_t now, char *text, size_t bytes)
{
    const char *part = v->is_busy ? v->busy : v->now;
    const uint64_t since = v->is_busy ? v->busy_ns : v->now_ns;
    const bool has_total = v->is_begun && v->total != 0;
    text[0] = '\0';
    if (v->is_begun) append(text, bytes, v->what);
    if (has_total) append_how_far(v->done, v->total, 2 * v->number, v->begun_ns, now, text, bytes);
    if (*part) append(text, bytes, !*text ? "" : has_total ? ", now " : ": ");
    append(text, bytes, part);
    if (!has_total && v->busy_share >= 0)
        append_how_far(v->busy_share, -1, 2 * v->busy_number + 1, v->busy_ns, now, text, bytes);
    else if (*text && now >= since + SILENT) {
        char silent[32];
        yokei_text(silent, sizeof silent, " (%.0f s)", (double)(now - since) * 1e-9);
        append(text, bytes, silent);
    }
}

/* ---- drawing ---- */

/* Errors are ignored. A terminal that is gone shows nothing. */
static void write_raw(const char *text, size_t n)
{
    const ssize_t written = write(STDERR_FILENO, text, n);
    (void)written;
}

static void clear(void)
{
    if (atomic_exchange(&is_drawn, false)) write_raw("\r\033[K", 4);
    shown[0] = '\0';
}

/*
 * Whether this process may draw. A job that a shell has put into the background would draw over what its
 * user types. Ranks have process groups of their own, so yoke run's group counts. A command that is not the
 * first process of its group may have been started by a program that makes groups, such as timeout. It draws,
 * unless it was stopped before.
 */
static bool is_in_foreground(void)
{
    const pid_t group = getpgid(command), front = tcgetpgrp(STDERR_FILENO);
    return group < 0 || front < 0 || front == group || (group != command && !atomic_load(&was_stopped));
}

/* Before the process ends or stops by a signal, clear the line. Then let the signal have its usual effect. */
static void on_signal(int number)
{
    const int was_errno = errno;
    struct sigaction usual = { .sa_handler = SIG_DFL }, own;
    sigset_t this, was;
    atomic_store(&is_held, true);
    /* the thread that draws is never interrupted, so it ends its drawing */
    for (int i = 0; i < 50 && atomic_load(&is_writing); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    if (atomic_exchange(&is_drawn, false)) write_raw("\r\033[K", 4);
    sigaction(number, &usual, &own);
    sigemptyset(&this);
    sigaddset(&this, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &this, &was);
    /* the process was stopped, and goes on */
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    sigaction(number, &own, NULL);
    atomic_store(&was_stopped, true);
    atomic_store(&is_held, false);
    errno = was_errno;
}

/* A signal that has a handler already, or is ignored, keeps it. */
static void catch_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP };
    for (size_t i = 0; i < YOKE_COUNT(numbers) && !has_signals; i++) {
        struct sigaction now, action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
        if (!sigaction(numbers[i], NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
    }
    has_signals = true;
}

/* One write, so that lines of several processes do not mix. */
static void draw(const char *text)
{
    char line[sizeof shown + 16];
    catch_signals();
    yokei_text(line, sizeof line, "\r%.*s\033[K\r", (int)cli_fitting(text, cli_columns() - 1), text);
    atomic_store(&is_writing, true);
    if (!atomic_load(&is_held)) {
        atomic_store(&is_drawn, true);
        write_raw(line, strlen(line));
    }
    atomic_store(&is_writing, false);
}

/* Bring the terminal up to date. The lock is held. */
static void show(uint64_t now)
{
    struct view v;
    char text[sizeof shown], *safe;
    if (atomic_load(&is_held)) return;
    text[0] = '\0';
    take_view(&v);
    write_text(&v, now, text, sizeof text); /* in any case, because the estimate looks at the work then */
    if (!*text || !is_due(&v, now) || !is_in_foreground()) {
        clear();
        return;
    }
    /* drawn again in any case after a while, because another process may have printed a line over it */
    if (!strcmp(text, shown) && atomic_load(&is_drawn) && now < shown_ns + AGAIN) return;
    yokei_text(shown, sizeof shown, "%s", text);
    shown_ns = now;
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    safe = cli_printable(text);
    if (safe) draw(safe);
    free(safe);
}

static bool has_something(void)
{
    cli_said_lock(said);
    const bool has = atomic_load(&said->is_begun) || said->n_busy;
    cli_said_unlock(said);
    return has;
}

static void *tick(void *unused)
{
    (void)unused;
    const uint64_t often = delay_ns ? TICK : TICK / 20, idle = YOKE_MAX(delay_ns / 4, often); /* 0: a test */
    pthread_mutex_lock(&lock);
    for (;;) {
        const uint64_t next = yokei_now_ns() + (has_something() || shown[0] ? often : idle);
        const struct timespec then = { .tv_sec = (time_t)(next / (1000 * MS)),
                                       .tv_nsec = (long)(next % (1000 * MS)) };
        pthread_cond_timedwait(&change, &lock, &then);
        show(yokei_now_ns());
    }
    return NULL;
}

/* ---- the process that watches, and its children ---- */

static void lock_for_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void in_child(void)
{
    atomic_store(&is_drawn, false); /* the parent clears its line */
    shown[0] = '\0';
    pthread_mutex_unlock(&lock);
}

/* Without the thread nothing is drawn, and all else goes on. */
static void start_thread(void)
{
    pthread_condattr_t monotonic;
    pthread_t thread;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (yokei_thread_without_signals(&thread, tick, NULL)) return;
    pthread_detach(thread);
    pthread_atfork(lock_for_fork, after_fork, in_child);
}

static void clear_once(void)
{
    cli_progress_lock();
    cli_progress_unlock();
}

void cli_progress_watch(int rank)
{
    const char *after = getenv("YOKE_PROGRESS_AFTER_MS"), *supervisor = getenv("YOKE_SUPERVISOR");
    if (said || cli_is_quiet() || !cli_on_terminal() || cli_terminal_is_dumb()) return;
    if (rank) {
        cli_said_join(rank);
        return;
    }
    delay_ns = after && *after ? strtoull(after, NULL, 10) * MS : SILENT;
    verb_ns = yokei_now_ns();
    watcher = getpid();
    command = getenv("PMI_RANK") ? (supervisor ? atoi(supervisor) : -1) : watcher;
    said = cli_said_open(cli_out_on_terminal(), clear_once);
    if (said) start_thread();
}

void cli_progress_lock(void)
{
    pthread_mutex_lock(&lock);
    clear();
}

void cli_progress_unlock(void) { pthread_mutex_unlock(&lock); }
