/* SPDX-License-Identifier: Apache-2.0 */
/* How the calling thread waits for operations. It works on all communicators meanwhile, and may sleep. */
#include <time.h>

#include "collectives/engine/engine.h"
#include "collectives/transport/shm.h"
#include "collectives/transport/transport.h"
#include "core/base/bell.h"

/* Whether only ranks of this host can bring what the operation waits for. These ranks also wake this rank. */
static bool waits_for_own_host(const struct yokei_op *op)
{
    if (op->comm->all_shared) return true;
    for (int i = 0; i < op->n_lanes; i++) {
        struct yokei_lane *lane = op->lanes[i];
        bool drained = false;
        if (lane->phase == YOKEI_LANE_DONE) continue;
        if (!lane->rings || lane->phase != YOKEI_LANE_WORK) return false;
        if (yokei_mpi_transport.drained(op->comm, lane, &drained) || !drained) return false;
    }
    return true;
}

/*
 * The only communicator with work, if ranks of this host wake this rank when they bring data; else NULL.
 * *only_out: nothing else can bring the data that is awaited.
 */
static yoke_comm *only_ringing(bool *only_out)
{
    yoke_comm *busy = NULL;
    for (yoke_comm *comm = yokei_process.comms; comm; comm = comm->next) {
        if (!comm->work.queue) continue;
        if (busy) return NULL;
        busy = comm;
    }
    if (!busy || !busy->memory.segment || busy->hosts.n_local == 1 || busy->work.queue->staged
        || !busy->work.queue->begun)
        return NULL;
    *only_out = waits_for_own_host(busy->work.queue);
    return busy;
}

/* The same, if it is the communicator of one of these operations. */
static yoke_comm *rings_for(struct yokei_op *const ops[], int n_ops, bool *only_out)
{
    yoke_comm *busy = only_ringing(only_out);
    for (int i = 0; busy && i < n_ops; i++)
        if (ops[i]->comm == busy) return busy;
    return NULL;
}

enum { SPINS = 4000 };
static const uint64_t SLEEP_NS = 2000000;

/*
 * How a rank waits: the communicator on whose shared memory it is about to sleep, the wake-up count (`rung`)
 * before its last look, and how long it sleeps at most.
 */
struct waiter {
    struct yokei_wait wait;
    yoke_comm *armed; /* NULL: the rank is not about to sleep */
    uint32_t rung;
    uint64_t ns;
};

static void arm(struct waiter *w, yoke_comm *on, uint64_t ns)
{
    w->rung = yokei_shm_sleep_begin(on);
    w->armed = on;
    w->ns = ns;
}

static void disarm(struct waiter *w, uint64_t ns)
{
    if (w->armed) yokei_shm_sleep_end(w->armed, w->rung, ns);
    w->armed = NULL;
}

/*
 * Wait after a look that found nothing. Other ranks wake a rank that sleeps on shared memory. So if data can
 * only come from there (`only`), the rank sleeps soon. If a message may also come from elsewhere, it sleeps
 * only briefly.
 */
static void wait_idle(struct waiter *w, yoke_comm *on, bool only)
{
    const bool enough = w->wait.policy == YOKEI_WAIT_SPIN    ? w->wait.n_idle >= SPINS
                        : w->wait.policy == YOKEI_WAIT_SLEEP ? true
                                                             : yokei_wait_is_alone(&w->wait);
    if (w->armed) {
        disarm(w, w->armed == on ? w->ns : 0);
    } else if (on && only && enough) {
        arm(w, on, SLEEP_NS);
    } else if (on) {
        const uint64_t ns = yokei_wait_turn(&w->wait);
        if (ns) arm(w, on, ns);
    } else {
        yokei_wait_idle(&w->wait);
    }
}

/* One thread more, or less, waits for these operations in a call. The lock is held. */
static void count_blocked(struct yokei_op *const ops[], int n_ops, int change)
{
    atomic_fetch_add_explicit(&yokei_process.n_blocked, change, memory_order_relaxed);
    for (int i = 0; i < n_ops; i++)
        atomic_fetch_add_explicit(&ops[i]->comm->work.n_awaited, change, memory_order_relaxed);
}

yoke_status yokei_wait_for(struct yokei_op *const ops[], int n_ops)
{
    struct yokei_process *process = &yokei_process;
    if (!n_ops) return YOKE_OK;
    struct waiter waiter = { .wait = ops[0]->comm->work.wait };
    bool is_blocked = false;
    /* Threads of the device's driver may do the copies on the core that would spin. If many copies are on
       their way, waiting a little longer costs nothing. */
    for (int i = 0; i < n_ops; i++)
        if (ops[i]->staged && waiter.wait.policy == YOKEI_WAIT_SPIN)
            waiter.wait.policy = ops[i]->n_rounds > (size_t)ops[i]->n_lanes ? YOKEI_WAIT_SLEEP
                                                                            : YOKEI_WAIT_YIELD;
    for (;;) {
        bool all = true;
        pthread_mutex_lock(&process->lock);
        const bool moved = yokei_progress();
        for (int i = 0; i < n_ops; i++) all &= atomic_load_explicit(&ops[i]->ended, memory_order_relaxed);
        if (all) break;
        /* only now, because by now the record shows the operations that have just begun */
        if (!is_blocked) count_blocked(ops, n_ops, 1);
        is_blocked = true;
        bool only = false;
        yoke_comm *on = moved ? NULL : rings_for(ops, n_ops, &only);
        if (on && only) on->work.watch_soon = true;
        pthread_mutex_unlock(&process->lock);
        if (moved) {
            disarm(&waiter, 0);
            yokei_wait_progress(&waiter.wait);
        } else {
            wait_idle(&waiter, on, only);
        }
    }
    disarm(&waiter, 0);
    if (is_blocked) count_blocked(ops, n_ops, -1);
    yoke_status status = YOKE_OK;
    for (int i = 0; i < n_ops; i++) {
        ops[i]->comm->work.watch_soon = false;
        if (ops[i]->status && !status) status = yokei_sticky(ops[i]->comm);
        if (ops[i]->status) yokei_settle_failure(ops[i]->comm); /* the progress thread may not call MPI */
        yokei_op_free(ops[i]);
    }
    pthread_mutex_unlock(&process->lock);
    return status;
}

/* ---- the progress thread ---- */

enum { LONGEST_NS = 500000 };

/* Whether every communicator with work waits until its stream has reached its operation. */
static bool waits_for_streams(void)
{
    for (const yoke_comm *comm = yokei_process.comms; comm; comm = comm->next)
        if (comm->work.queue && (comm->work.queue->begun || !comm->work.queue->follows)) return false;
    return true;
}

/*
 * Before an operation has begun, the end of the device's work is awaited. If the device rings the bell at the
 * end, looks in between would only take the core from a device that is a CPU. Afterwards other ranks are
 * awaited. Ranks of this host wake the thread through shared memory. It sleeps there only if no thread of
 * this rank waits for operations in a call.
 */
void yokei_wait_in_thread(void)
{
    struct yokei_process *p = &yokei_process;
    struct waiter w = { .armed = NULL };
    yokei_wait_init(&w.wait, YOKEI_WAIT_SLEEP, 1, 1);
    while (!p->thread_ends) {
        if (!p->n_async) {
            disarm(&w, 0);
            p->asleep_on = NULL;
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        const uint32_t rung = yokei_bell_rung();
        const bool moved = yokei_progress(), streams = !moved && waits_for_streams();
        bool only = false;
        const bool may_arm = !moved && !atomic_load_explicit(&p->n_blocked, memory_order_relaxed);
        yoke_comm *on = may_arm ? only_ringing(&only) : NULL;
        p->asleep_on = w.armed ? w.armed : on;
        pthread_mutex_unlock(&p->lock);
        if (moved) {
            disarm(&w, 0);
            yokei_wait_progress(&w.wait);
        } else if (w.armed) {
            disarm(&w, w.armed == on ? w.ns : 0);
        } else {
            const uint64_t ns = yokei_wait_turn(&w.wait);
            if (on)
                arm(&w, on, only ? LONGEST_NS : ns);
            else
                yokei_bell_sleep(rung, streams && yokei_bell_is_expected() ? LONGEST_NS : ns);
        }
        pthread_mutex_lock(&p->lock);
        p->asleep_on = w.armed;
    }
    disarm(&w, 0);
    p->asleep_on = NULL;
}

void yokei_wake_thread(const yoke_comm *comm)
{
    while (yokei_process.asleep_on == comm) { /* the thread sleeps for half a millisecond at most */
        pthread_mutex_unlock(&yokei_process.lock);
        nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
        pthread_mutex_lock(&yokei_process.lock);
    }
}
