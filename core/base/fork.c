/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that were made by fork. The child has a copy of the parent's memory, but only the thread that
 * forked. So the objects of the parent do not work in the child: their threads, their driver and the other
 * ranks know only the parent. Each object therefore notes which process made it.
 */
#include "core/base/base.h"

#include <unistd.h>

atomic_uint yokei_forks;

struct yokei_maker yokei_this_process(void)
{
    return (struct yokei_maker){ .forks = atomic_load(&yokei_forks), .pid = (int)getpid() };
}

yoke_status yokei_refuse_fork(const char *call, const struct yokei_maker *maker, const char *what,
                              const char *instead)
{
    return yoke_fail(
        YOKE_EINVAL,
        "%s: %s belongs to process %d; this is process %d, which was forked from it and may not use "
        "it: %s",
        call, what, maker->pid, (int)getpid(), instead);
}

/* No thread may be inside the list of objects while the memory is copied. */
static void before_fork(void) { yokei_live_hold(); }
static void in_parent(void) { yokei_live_release(); }

static void in_child(void)
{
    atomic_fetch_add(&yokei_forks, 1);
    yokei_live_release();
    yokei_log_reset();
}

/* This runs when the library is loaded, so no object is older. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}
