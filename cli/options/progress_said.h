/* SPDX-License-Identifier: Apache-2.0 */
/** What the line of progress says: written by progress.c, drawn by progress_draw.c. */
#ifndef CLI_OPTIONS_PROGRESS_SAID_H
#define CLI_OPTIONS_PROGRESS_SAID_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cli/options/progress.h"

/**
 * Memory that is shared with child processes. The mutex is robust, because a child process may be killed
 * while it holds it.
 */
struct cli_said {
    pthread_mutex_t lock;
    uint64_t key; /* of the job, see cli_progress_share_with_ranks() */
    atomic_bool is_begun, is_paused;
    _Atomic double done, total; /* total -1: `done` is a share; 0: unknown */
    unsigned number;            /* of the works, so that the estimate begins anew with each */
    uint64_t begun_ns, now_ns;  /* when the work began, and the present part of it */
    char what[200], now[400];   /* what cli_progress_begin() and cli_progress_now() said */
    int n_busy;                 /* long works of the libraries in progress; the text is the first one's */
    int busy_rank;              /* the rank that does them */
    pid_t busy_process;         /* the process that does them */
    unsigned busy_number;       /* of such works */
    uint64_t busy_ns;           /* when the first one began */
    _Atomic double busy_share;  /* negative: unknown */
    char busy[256];
};

/**
 * Begin to note what is said. The memory, or NULL if there is none. `in_the_way`: results go to the terminal
 * of the line. `clear` is called in this process when the line must not be seen any more.
 */
struct cli_said *cli_said_open(bool in_the_way, void (*clear)(void));
/**
 * Called on the other ranks of a job. If yoke run shares memory with this rank and rank 0, the long works of
 * this rank's libraries are said in rank 0's line.
 */
void cli_said_join(int rank);
void cli_said_lock(struct cli_said *said);
void cli_said_unlock(struct cli_said *said);

#endif
