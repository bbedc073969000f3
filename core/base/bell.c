/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint32_t rings;
static atomic_int sleepers, n_expected;
static atomic_bool hangs;

void yokei_bell_hang(void) { atomic_store(&hangs, true); }

bool yokei_bell_hangs(void) { return atomic_load_explicit(&hangs, memory_order_relaxed); }

void yokei_bell_expect(void) { atomic_fetch_add(&n_expected, 1); }

bool yokei_bell_is_expected(void) { return atomic_load(&n_expected) > 0; }

void yokei_bell_wake(void)
{
    atomic_fetch_add(&rings, 1);
    if (atomic_load(&sleepers)) syscall(SYS_futex, &rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void yokei_bell_ring(void)
{
    atomic_fetch_sub(&n_expected, 1);
    yokei_bell_wake();
}

uint32_t yokei_bell_rung(void) { return atomic_load(&rings); }

void yokei_bell_sleep(uint32_t rung, uint64_t ns)
{
    const struct timespec most = { .tv_sec = (time_t)(ns / 1000000000u),
                                   .tv_nsec = (long)(ns % 1000000000u) };
    atomic_fetch_add(&sleepers, 1);
    syscall(SYS_futex, &rings, FUTEX_WAIT_PRIVATE, rung, &most, NULL, 0);
    atomic_fetch_sub(&sleepers, 1);
}
