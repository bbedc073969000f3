/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the line of progress says. It is stored in memory that is shared with child processes, and nothing is
 * drawn here. If nobody watches, nothing is stored.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options/progress_said.h"
#include "core/base/base.h"
#include "core/base/busy.h"

static struct cli_said *said;  /* NULL: nobody watches, or this is not rank 0 */
static struct cli_said *heard; /* where long works of the libraries are said; the same, or that of rank 0 */
static int own_rank;
static pid_t busy_self;    /* this process, as its last long work has noted it */
static bool is_watcher;    /* this process draws, and is no child of the one that does */
static bool is_in_the_way; /* results on stdout go to the same terminal */
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

/* What another rank does is said unless something else is. */
static bool others_are_busy(void)
{
    return own_rank && heard->n_busy && heard->busy_process != busy_self && !kill(heard->busy_process, 0);
}

static void begin_busy(const char *text)
{
    cli_said_lock(heard);
    busy_self = getpid();
    const bool is_heard = !others_are_busy();
    if (is_heard && heard->busy_process != busy_self) heard->n_busy = 0, heard->busy_process = busy_self;
    if (is_heard && !heard->n_busy++) {
        if (own_rank)
            yokei_text(heard->busy, sizeof heard->busy, "rank %d: %s", own_rank, text);
        else
            yokei_text(heard->busy, sizeof heard->busy, "%s", text);
        heard->busy_rank = own_rank;
        heard->busy_ns = yokei_now_ns();
        heard->busy_number++;
        atomic_store(&heard->busy_share, -1);
    }
    cli_said_unlock(heard);
}

static void share_busy(double share)
{
    if (heard->busy_process == busy_self)
        atomic_store_explicit(&heard->busy_share, share, memory_order_relaxed);
}

/* If nothing else is shown, the line must be gone when results are printed. */
static void end_busy(void)
{
    cli_said_lock(heard);
    if (heard->n_busy && heard->busy_process == busy_self) heard->n_busy--;
    const bool is_last = !heard->n_busy && !atomic_load(&heard->is_begun);
    cli_said_unlock(heard);
    if (is_last && is_watcher) clear_line();
}

static const struct yokei_busy callbacks = { begin_busy, share_busy, end_busy };

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

/* ---- the memory ---- */

static const char variable[] = "YOKE_PROGRESS";

static void init(struct cli_said *s)
{
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->lock, &shared);
    pthread_mutexattr_destroy(&shared);
}

static struct cli_said *map(int fd)
{
    void *memory = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0),
                        fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Nothing is inherited, so a program of the user that is a rank has no descriptor of this memory. */
void cli_progress_share_with_ranks(void)
{
    char text[96];
    const int fd = memfd_create("yoke-progress", MFD_CLOEXEC);
    struct cli_said *s = fd >= 0 && !ftruncate(fd, sizeof *s) ? map(fd) : NULL;
    unsetenv(variable);
    if (!s) {
        if (fd >= 0) close(fd);
        return;
    }
    init(s);
    s->key = yokei_now_ns() ^ (uint64_t)getpid() << 40;
    yokei_text(text, sizeof text, "/proc/%d/fd/%d:%llx", (int)getpid(), fd, (unsigned long long)s->key);
    setenv(variable, text, 1);
}

/* The memory of the job. NULL: there is none, or this is another host, where the name is no such file. */
static struct cli_said *map_of_job(void)
{
    const char *text = getenv(variable), *colon = text ? strrchr(text, ':') : NULL;
    char path[64];
    struct stat is;
    struct cli_said *s = NULL;
    if (!colon || strncmp(text, "/proc/", 6) || (size_t)(colon - text) >= sizeof path) return NULL;
    yokei_text(path, sizeof path, "%.*s", (int)(colon - text), text);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return NULL;
    if (!fstat(fd, &is) && S_ISREG(is.st_mode) && (size_t)is.st_size == sizeof *s) s = map(fd);
    close(fd);
    if (s && s->key == strtoull(colon + 1, NULL, 16)) return s;
    if (s) munmap(s, sizeof *s);
    return NULL;
}

static void in_child(void) { is_watcher = false; }

struct cli_said *cli_said_open(bool in_the_way, void (*clear)(void))
{
    if (!(said = map_of_job()) && (said = map(-1))) init(said);
    if (!said) return NULL;
    heard = said;
    is_watcher = true;
    is_in_the_way = in_the_way;
    clear_line = clear;
    pthread_atfork(NULL, NULL, in_child);
    yokei_busy_set(&callbacks);
    return said;
}

void cli_said_join(int rank)
{
    struct cli_said *of_job = map_of_job();
    if (!of_job) return;
    heard = of_job;
    own_rank = rank;
    yokei_busy_set(&callbacks);
}
