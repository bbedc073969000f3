/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a core slow all the time, on purpose. A process of its own works on that core in bursts, as
 * interrupts do. The process has priority over all other processes that want to run there. An ordinary busy
 * process has another effect. The kernel gives it the core for milliseconds, in which all ranks wait, and in
 * between the ranks are as fast as ever.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <yoke/base.h>

#include "bench/collectives.h"
#include "core/base/base.h"

enum { BURST_NS = 50000, PAUSE_NS = 50000 };
static cpu_set_t allowed;
static pid_t child;

static void work_in_bursts(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
    while (getppid() == parent) {
        const uint64_t begin = yokei_now_ns();
        while (yokei_now_ns() - begin < BURST_NS) continue;
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
    }
    _exit(0);
}

/* Place the busy process on the last of the two cores, before anything is measured. */
static const char *settle(pid_t pid, int core)
{
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(core, &last);
    if (sched_setaffinity(pid, sizeof last, &last)) return "a process cannot be bound to a core";
    if (sched_setscheduler(pid, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 }))
        return errno == EPERM ? "it takes a process of real-time priority, for which there is no permission"
                              : strerror(errno);
    return NULL;
}

const char *bench_neighbour_begin(void)
{
    cpu_set_t two;
    int first = -1, last = -1;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return "the cores cannot be listed";
    for (int c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &allowed)) continue;
        if (first < 0) first = c;
        last = c;
    }
    if (first == last) return "it takes two cores";
    fflush(NULL);
    const pid_t parent = getpid();
    child = fork();
    if (child < 0) return "no process can be started";
    if (!child) work_in_bursts(parent);
    const char *why = settle(child, last);
    /* The ranks have one core each: the first core, and the busy process's core. */
    CPU_ZERO(&two);
    CPU_SET(first, &two);
    CPU_SET(last, &two);
    if (!why && sched_setaffinity(0, sizeof two, &two)) why = "the ranks cannot be bound to two cores";
    if (why) bench_neighbour_end();
    return why;
}

void bench_neighbour_end(void)
{
    if (child <= 0) return;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    child = 0;
    sched_setaffinity(0, sizeof allowed, &allowed);
}
