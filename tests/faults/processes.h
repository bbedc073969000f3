/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to processes that the test did not start itself, or that another process may wait for. Such a
 * process may end at any time, and its number may then be another process's. So a test first opens a
 * descriptor of the process (hold_process), then looks whether it is the right one, and sends the signal to
 * the descriptor. A process that a test has started, and not yet waited for, keeps its number and needs no
 * descriptor.
 */
#ifndef TESTS_FAULTS_PROCESSES_H
#define TESTS_FAULTS_PROCESSES_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/flight/flight.h"

/* A descriptor of the process; -1: there is no such process. Linux has this call since 5.3. */
static inline int hold_process(pid_t pid)
{
    const int fd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pid > 1 && fd < 0 && errno != ESRCH && errno != EINVAL) {
        perror("pidfd_open, without which no test may send a signal");
        exit(99);
    }
    return fd;
}

static inline void signal_held(int process, int signal)
{
    if (process >= 0) syscall(SYS_pidfd_send_signal, process, signal, NULL, 0);
}

static inline void let_go_of(int process)
{
    if (process >= 0) close(process);
}

/*
 * Send a signal to a process of this host, if it is still the one that started at the time `start`. Returns
 * false if that process has ended.
 */
static inline bool signal_started(pid_t pid, uint64_t start, int signal)
{
    uint64_t now = 0;
    const int process = hold_process(pid);
    const char state = process >= 0 ? yokei_process_state(pid, &now) : '\0';
    const bool lives = state && state != 'Z' && now == start;
    if (lives) signal_held(process, signal);
    let_go_of(process);
    return lives;
}

/* Whether a child has ended. It is not waited for, so it keeps its number. */
static inline bool child_has_ended(pid_t child)
{
    siginfo_t info = { 0 };
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == child;
}

/* fork() that ends the test if it fails. To kill(), its answer would then mean all processes. */
static inline pid_t fork_or_exit(void)
{
    const pid_t pid = fork();
    if (pid >= 0) return pid;
    perror("fork");
    exit(99);
}

/* Make a folder in TMPDIR for this test alone. */
static inline void make_folder(char *path, size_t bytes, const char *name)
{
    const char *tmp = getenv("TMPDIR");
    const int length = snprintf(path, bytes, "%s/%s.XXXXXX", tmp && *tmp ? tmp : "/tmp", name);
    if (length > 0 && (size_t)length < bytes && mkdtemp(path)) return;
    perror(path);
    exit(99);
}

#endif
