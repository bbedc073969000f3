/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the line of progress says. It is stored in memory that is shared with child processes, and nothing is
 * drawn here. If nobody watches, nothing is stored.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/options/progress_said.h"
#include "core/base/base.h"
#include "core/base/busy.h"

static struct cli_said *said; /* NULL: nobody watches */
static bool is_watcher;       /* this process draws, and is no child of the one that does */
static bool is_in_the_way;    /* results on stdout go to the same terminal */
static void (*clear_line)(void);

void cli_said_lock(struct cli_said *s)
{
    if (pthread_mutex_lock(&s->lock) == EOWNERDEAD) pthread_mutex_consistent(&s->lock);
}

void cli_said_unlock(struct cli_said *s) { pthread_mutex_unlock(&s->lock); }

bool cli_progress_is_watched(void) { return said != NULL; }

bool cli_progress_is_parents(void) { return said && !is_watcher; }

void cli_progress_now(const char *format, ...)
{
    char text[sizeof said->now];
    va_list args;
    if (!said) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_said_lock(said);
    memcpy(said->now, text, sizeof text);
    said->now_ns = yokei_now_ns();
    cli_said_unlock(said);
    cli_progress_resume();
}

void cli_progress_at(double done, double total)
{
    if (!said) return;
    atomic_store_explicit(&said->done, done, memory_order_relaxed);
    atomic_store_explicit(&said->total, total, memory_order_relaxed);
    cli_progress_resume();
}

void cli_progress_share(double share) { cli_progress_at(share, -1); }

static void begin_busy(const char *text)
{
    cli_said_lock(said);
    if (said->busy_process != getpid()) said->n_busy = 0, said->busy_process = getpid();
    if (!said->n_busy++) {
        yokei_text(said->busy, sizeof said->busy, "%s", text);
        said->busy_ns = yokei_now_ns();
        said->busy_number++;
        atomic_store(&said->busy_share, -1);
    }
    cli_said_unlock(said);
}

static void share_busy(double share)
{
    atomic_store_explicit(&said->busy_share, share, memory_order_relaxed);
}

/* If nothing else is shown, the line must be gone when results are printed. */
static void end_busy(void)
{
    cli_said_lock(said);
    if (said->n_busy && said->busy_process == getpid()) said->n_busy--;
    const bool is_last = !said->n_busy && !atomic_load(&said->is_begun);
    cli_said_unlock(said);
    if (is_last && is_watcher) clear_line();
}

void cli_progress_begin(const char *format, ...)
{
    char text[sizeof said->what];
    va_list args;
    if (!said || !is_watcher) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_said_lock(said);
    memcpy(said->what, text, sizeof text);
    said->now[0] = '\0';
    said->number++;
    said->begun_ns = said->now_ns = yokei_now_ns();
    atomic_store(&said->done, 0);
    atomic_store(&said->total, 0);
    atomic_store(&said->is_paused, false);
    atomic_store(&said->is_begun, true);
    cli_said_unlock(said);
}

void cli_progress_pause(void)
{
    if (!said || !is_watcher || !is_in_the_way) return;
    atomic_store(&said->is_paused, true);
    clear_line();
}

void cli_progress_end(void)
{
    if (!said || !is_watcher) return;
    atomic_store(&said->is_begun, false);
    atomic_store(&said->is_paused, false);
    clear_line();
}

void cli_progress_resume(void)
{
    if (said && is_watcher) atomic_store_explicit(&said->is_paused, false, memory_order_relaxed);
}

/* ---- opening ---- */

static void in_child(void) { is_watcher = false; }

struct cli_said *cli_said_open(bool in_the_way, void (*clear)(void))
{
    static const struct yokei_busy callbacks = { begin_busy, share_busy, end_busy };
    pthread_mutexattr_t shared;
    void *memory = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    said = memory;
    pthread_mutex_init(&said->lock, &shared);
    pthread_mutexattr_destroy(&shared);
    is_watcher = true;
    is_in_the_way = in_the_way;
    clear_line = clear;
    pthread_atfork(NULL, NULL, in_child);
    yokei_busy_set(&callbacks);
    return said;
}
