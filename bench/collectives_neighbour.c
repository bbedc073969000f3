/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core that is slow all the time, made on purpose: a process of its own on that core which works in bursts, as interrupts do, and
 * goes before what else wants to run there. An ordinary busy process is no such thing: the kernel lets it have the core for
 * milliseconds, in which all ranks wait, and they are as fast as ever between.
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

/* It must be there before anything is measured: the last of the two cores is its. */
static const char *settle(pid_t pid, int core)
{
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(core, &last);
    if (sched_setaffinity(pid, sizeof last, &last)) return "a process cannot be bound to a core";
    if (sched_setscheduler(pid, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 }))
        return errno == EPERM ? "it takes a process of real-time priority, for which there is no permission" : strerror(errno);
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
    /* The ranks have one core each: the first, and the neighbour's. */
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
