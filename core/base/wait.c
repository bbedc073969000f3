/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for other ranks. A rank that has a core of its own spins first, then sleeps. If ranks share cores,
 * a rank gives the core away after every unsuccessful poll, because the peer that it waits for may need the
 * core. After a fifth of a millisecond without progress, both kinds of ranks sleep, for at most half a
 * millisecond at a time. By then latency no longer matters.
 */
#include "core/base/base.h"

#include <sched.h>
#include <time.h>

enum { SPIN_POLLS = 2000, CHECK_EVERY = 64, SLEEPING = 1 << 30 };
/* a yield takes 200-300 ns if no process takes the core, and over 1000 ns if one does */
static const uint64_t SWITCH_NS = 600, ALONE_NS = 10000;
static const uint64_t YIELD_NS = 200000, SLEEP_LEAST_NS = 20000, SLEEP_MOST_NS = 500000;

uint64_t yokei_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void yokei_wait_init(struct yokei_wait *wait, enum yokei_wait_policy policy, int n_ranks_on_host, int n_cores)
{
    if (policy == YOKEI_WAIT_AUTO) policy = n_ranks_on_host <= n_cores ? YOKEI_WAIT_SPIN : YOKEI_WAIT_YIELD;
    *wait = (struct yokei_wait){ .policy = policy };
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void nap(uint64_t ns)
{
    const struct timespec t = { .tv_sec = 0, .tv_nsec = (long)ns };
    nanosleep(&t, NULL);
}

static void give_way(struct yokei_wait *wait)
{
    const uint64_t before = yokei_now_ns();
    sched_yield();
    const uint64_t after = yokei_now_ns();
    if (after - before > SWITCH_NS)
        wait->alone_since_ns = 0;
    else if (!wait->alone_since_ns)
        wait->alone_since_ns = before;
}

bool yokei_wait_is_alone(const struct yokei_wait *wait)
{
    return wait->alone_since_ns && yokei_now_ns() - wait->alone_since_ns > ALONE_NS;
}

uint64_t yokei_wait_turn(struct yokei_wait *wait)
{
    const uint64_t n = wait->n_idle++;
    if (wait->policy == YOKEI_WAIT_SPIN && n < SPIN_POLLS) {
        relax();
        return 0;
    }
    if (n == 0 || (wait->policy == YOKEI_WAIT_SPIN && n == SPIN_POLLS)) wait->idle_since_ns = yokei_now_ns();
    const bool sleeping = wait->policy == YOKEI_WAIT_SLEEP || n >= SLEEPING;
    const uint64_t idle = sleeping || n % CHECK_EVERY == CHECK_EVERY - 1
                              ? yokei_now_ns() - wait->idle_since_ns
                              : 0;
    if (sleeping || idle > YIELD_NS) {
        if (n < SLEEPING) wait->n_idle = SLEEPING;
        const uint64_t ns = idle / 8;
        return ns < SLEEP_LEAST_NS ? SLEEP_LEAST_NS : ns > SLEEP_MOST_NS ? SLEEP_MOST_NS : ns;
    }
    give_way(wait);
    return 0;
}

void yokei_wait_idle(struct yokei_wait *wait)
{
    const uint64_t ns = yokei_wait_turn(wait);
    if (ns) nap(ns);
}
