/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork. libgomp (GCC's OpenMP) keeps the threads of a team for the next parallel region of the same thread. A
 * child process has only the thread that forked. If that thread had a team, the child's first parallel region
 * would wait for ever for threads that only the parent has. So the team is released before each fork, and
 * parent and child make a new one at their next parallel region. LLVM's runtime resets itself in a child.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "backends/host/host.h"

#include <dlfcn.h>
#include <omp.h>

static __typeof__(omp_pause_resource_all) *release; /* NULL: the runtime needs no help, or offers none */
static _Thread_local bool release_failed;           /* at the last fork of this thread */
static bool has_lost_team;

/* A function of LLVM's runtime; its address is NULL where this runtime is not in the process. */
extern void __kmpc_fork_call(void) __attribute__((weak));

/* The library is asked for by address, because a process may contain both runtimes. */
static bool is_gnu(void *function)
{
    Dl_info here, llvm;
    void *const other = (void *)(uintptr_t)__kmpc_fork_call;
    return !other || !dladdr(function, &here) || !dladdr(other, &llvm) || here.dli_fbase != llvm.dli_fbase;
}

/* Inside a parallel region the team is at work, and cannot be released. */
static void before_fork(void) { release_failed = release && release(omp_pause_hard); }
static void in_child(void) { has_lost_team = release_failed; }

__attribute__((constructor)) static void watch_forks(void)
{
    void *function = dlsym(RTLD_DEFAULT, "omp_pause_resource_all");
    if (!function || !is_gnu(function)) return;
    *(void **)&release = function;
    pthread_atfork(before_fork, NULL, in_child);
}

yoke_status host_check_team(void)
{
    if (!has_lost_team) return YOKE_OK;
    return yoke_fail(
        YOKE_ENODEV,
        "device 'host': this process was forked inside a parallel region of OpenMP. It has none of the region's other "
        "threads, so computing would wait for them for ever. Fork before or after parallel regions, or start a program by "
        "exec in the child");
}
