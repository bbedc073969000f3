/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Witnesses, for jobs without agents. There no process outlives the launcher, which kills all ranks within a
 * millisecond after the first of them ended badly. After that all records look alike. So each rank has a
 * witness: a thread that sleeps until another rank of its host ends, and writes down which was the first.
 *
 * The witness must be faster than the launcher, which notices when the kernel closes a dead rank's files.
 * Before that, the kernel walks the dead threads' lists of robust futexes. It marks the futex words, and
 * wakes the threads that wait for them. So each rank's record has such a word (`life`), which this thread
 * owns, and the witnesses of the other ranks wait for it. The mark stays in the record. So later, or on
 * another host, it still says that the process ended without recording anything.
 *
 * The thread takes no lock, calls no MPI function and takes no signals. It makes the system calls itself, for
 * two reasons. The C library's robust mutexes cannot be waited for together, and a rank that ends normally
 * cannot leave them behind.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collectives/faults/witness.h"
#include "collectives/ground/comm.h"

_Static_assert(YOKEI_LIFE_ENDED == FUTEX_OWNER_DIED, "the kernel's mark");
enum { MOST_WATCHED = FUTEX_WAITV_MAX - 1 }; /* one place is for the bell */

static struct {
    bool runs;
    pthread_t thread;
    /* a wake-up counter, which changes when there is one more rank to watch, or nothing more to do */
    _Atomic uint32_t bell;
    atomic_bool ends, testified;
    const struct yokei_flight_file *_Atomic
        *ranks; /* [n_ranks] records of the watched ranks; NULL: not watched */
    int n_ranks;
} witness;

static long wake_waiters(const _Atomic uint32_t *word)
{
    return syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * Let the kernel mark `life` if this thread ends before it has set `life` to 0. The memory that the kernel
 * reads then must still exist.
 */
static void be_remembered(_Atomic uint32_t *life)
{
    static struct robust_list entry;
    static struct robust_list_head head;
    entry.next = &head.list;
    head = (struct robust_list_head){ .list.next = &entry, .futex_offset = (char *)life - (char *)&entry };
    if (syscall(SYS_set_robust_list, &head, sizeof head)) return;
    atomic_store(life, (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS);
    wake_waiters(life); /* wake the witnesses that were there before */
}

/*
 * Ask for short time slices. A thread that needs little time then runs at once, even if ranks keep every core
 * busy (Linux 6.12; no effect before).
 */
static void be_quick(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } turns;
    if (syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0u)) return;
    turns.runtime = 100000;
    if (turns.policy == SCHED_OTHER) syscall(SYS_sched_setattr, 0, &turns, 0u);
}

/*
 * The watched rank that ended first. -1: none has ended, -2: it is too late to tell, or the rank has recorded
 * its error.
 */
static int first_that_ended(void)
{
    int found = -1;
    for (int r = 0; r < witness.n_ranks; r++) {
        const struct yokei_flight_file *file = witness.ranks[r];
        if (!file || !(atomic_load(&file->life) & YOKEI_LIFE_ENDED)) continue;
        if (found >= 0 || atomic_load(&file->state) == YOKEI_RANK_FAILED) return -2;
        found = r;
    }
    return found;
}

/* Write down the first rank that ended, once. True: there is nothing more to look for. */
static bool testify(struct yokei_flight_file *own)
{
    const int first = first_that_ended();
    if (first == -1) return false;
    if (atomic_exchange(&witness.testified, true) || first < 0) return true;
    atomic_store_explicit(&own->first_gone_ns, yokei_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&own->first_gone, first, memory_order_release);
    wake_waiters(&witness.ranks[first]->life); /* the kernel has woken only one of this rank's witnesses */
    return true;
}

void yokei_witness_glance(void)
{
    if (witness.runs && !atomic_load_explicit(&witness.testified, memory_order_relaxed))
        testify(yokei_process.flight);
}

/* Sleep until the bell changes from `rung`, or, with `others`, until one of the watched ranks ends. */
static void sleep_until_news(uint32_t rung, bool others)
{
    struct futex_waitv list[FUTEX_WAITV_MAX] = {
        { .val = rung, .uaddr = (uintptr_t)&witness.bell, .flags = FUTEX_32 }
    };
    unsigned n = 1;
    for (int r = 0; r < witness.n_ranks && others; r++) {
        const struct yokei_flight_file *file = witness.ranks[r];
        if (!file) continue;
        const uint32_t life = atomic_load(&file->life);
        if (life & YOKEI_LIFE_ENDED) return;
        list[n++] = (struct futex_waitv){ .val = life, .uaddr = (uintptr_t)&file->life, .flags = FUTEX_32 };
    }
    /* A kernel before 5.16 cannot wait for several words. Then this rank is no witness, but has its own
       mark. */
    if (syscall(SYS_futex_waitv, list, n, 0, NULL, 0) < 0 && errno == ENOSYS)
        syscall(SYS_futex, &witness.bell, FUTEX_WAIT, rung, NULL, NULL, 0);
}

static void *watch(void *own_record)
{
    struct yokei_flight_file *own = own_record;
    be_quick();
    be_remembered(&own->life);
    while (!atomic_load(&witness.ends)) {
        const uint32_t rung = atomic_load(&witness.bell);
        const bool done = testify(own);
        if (!atomic_load(&witness.ends)) sleep_until_news(rung, !done);
    }
    atomic_store(&own->life, 0);
    return NULL;
}

static void ring_bell(void)
{
    atomic_fetch_add(&witness.bell, 1);
    wake_waiters(&witness.bell);
}

static bool begin_witness(void)
{
    if (witness.runs) return true;
    witness.n_ranks = yokei_process.n_world;
    witness.ranks = calloc((size_t)witness.n_ranks, sizeof witness.ranks[0]);
    if (!witness.ranks) return false;
    atomic_store(&witness.ends, false);
    atomic_store(&witness.testified, false);
    witness.runs = !yokei_thread_without_signals(&witness.thread, watch, yokei_process.flight);
    if (!witness.runs) yokei_witness_end();
    return witness.runs;
}

void yokei_witness_add(int world_rank)
{
    const struct yokei_process *p = &yokei_process;
    if (!p->is_witness || world_rank < 0 || world_rank >= p->n_world || !begin_witness()) return;
    /* Each rank is watched by the ranks that come shortly before it, because a wait has no room for all
       ranks of a large host. */
    if ((world_rank - p->world_rank + p->n_world) % p->n_world > MOST_WATCHED || witness.ranks[world_rank])
        return;
    const struct yokei_flight_file *file;
    if (yokei_flight_open(p->run_dir, world_rank, &file)) return;
    witness.ranks[world_rank] = file;
    ring_bell();
}

/* A forked process has no witness thread. */
static void forget(void) { witness.runs = false; }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget); }

void yokei_witness_end(void)
{
    if (witness.runs) {
        atomic_store(&witness.ends, true);
        ring_bell();
        pthread_join(witness.thread, NULL);
    }
    for (int r = 0; r < witness.n_ranks && witness.ranks; r++) yokei_flight_close(witness.ranks[r]);
    free((void *)witness.ranks);
    witness.ranks = NULL;
    witness.runs = false;
}
