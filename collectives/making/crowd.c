/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warning for ranks of one host that are not bound to cores, each with as many threads as there are cores.
 * Such ranks halve each other's speed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/making/making.h"

int yokei_own_threads(const yoke_comm *comm)
{
    const char *text = getenv("OMP_NUM_THREADS");
    cpu_set_t cores;
    /* Without a device, or with a device other than the host, the number of the host's threads does not
       matter here. */
    if (!comm->device || strcmp(yoke_device_info(comm->device)->backend, "host")) return 1;
    const int n = sched_getaffinity(0, sizeof cores, &cores) ? 1 : CPU_COUNT(&cores),
              asked = text ? atoi(text) : 0;
    return asked > 0 ? YOKE_MIN(asked, n) : n;
}

void yokei_warn_of_crowd(const yoke_comm *comm)
{
    static bool warned;
    uint64_t any[YOKE_COUNT(comm->peers[0].info.cores)] = { 0 };
    int n_ranks = 0, n_threads = 0, n_cores = 0, most = 0;
    /* yoke run binds the ranks, unless it was told not to */
    if (warned || yokei_process.world_rank || getenv("YOKE_SUPERVISOR")) return;
    for (int r = 0; r < comm->size; r++) {
        const struct yokei_peer_info *info = &comm->peers[r].info;
        if (!comm->peers[r].flight) continue;
        n_ranks++;
        n_threads += info->n_threads;
        most = YOKE_MAX(most, info->n_threads);
        for (size_t word = 0; word < YOKE_COUNT(any); word++) any[word] |= info->cores[word];
    }
    for (size_t word = 0; word < YOKE_COUNT(any); word++) n_cores += __builtin_popcountll(any[word]);
    /* With one thread each, the ranks cannot have fewer threads. */
    if (n_ranks < 2 || most < 2 || n_cores < 1 || n_threads <= n_cores) return;
    warned = true;
    yoke_log(
        YOKE_LOG_WARN,
        "%d ranks of host %s run %d threads together on %d cores, and are not bound to cores of their own, so they slow each other "
        "down: start them with `yoke run`, bind them (srun --cpu-bind=cores -c N, mpiexec.mpich -bind-to core:N), or set OMP_NUM_THREADS=%d",
        n_ranks, comm->peers[comm->rank].info.host, n_threads, n_cores, YOKE_MAX(1, n_cores / n_ranks));
}
