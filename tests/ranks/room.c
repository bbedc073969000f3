/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No shared memory can be had. One rank, or all ranks, get a limit on the size of files (RLIMIT_FSIZE) before
 * the communicator is made. Messages must then go over MPI, one line must say so and give the reason, and
 * results must be right.
 */
#include <sys/resource.h>

#include "tests/ranks/ranks.h"

static int n_lines;
static char line[1024];

static void keep(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    if (level > YOKE_LOG_WARN) return;
    n_lines++;
    snprintf(line, sizeof line, "%s", text);
}

static int limited(int first, int last)
{
    struct rlimit was, limit;
    char who[32];
    getrlimit(RLIMIT_FSIZE, &was);
    limit = was;
    /*
     * Enough for the flight record (a file in which a rank notes what it does), but not for the slots in
     * shared memory.
     */
    limit.rlim_cur = 1 << 20;
    const int mine = ranks_rank >= first && ranks_rank <= last;
    if (mine && setrlimit(RLIMIT_FSIZE, &limit)) return 0;
    n_lines = 0;
    yoke_comm *comm;
    const yoke_status status = yoke_comm_create(ranks_world, NULL, NULL, &comm);
    if (mine) setrlimit(RLIMIT_FSIZE, &was);
    RANKS_TRY(status);
    static float data[100000];
    for (size_t i = 0; i < 100000; i++) data[i] = (float)(i % 7);
    RANKS_TRY(yoke_all_reduce(data, data, 100000, YOKE_F32, YOKE_SUM, comm, NULL));
    int wrong = 0;
    for (size_t i = 0; i < 100000; i++) wrong += data[i] != (float)(i % 7 * (size_t)ranks_size);
    RANKS_TRY(yoke_comm_destroy(comm));
    snprintf(who, sizeof who, "rank %d has no memory", first);
    const int said = ranks_rank ? !n_lines
                                : n_lines == 1 && strstr(line, who) && strstr(line, "File too large")
                                      && strstr(line, "go over MPI");
    if (!said) fprintf(stderr, "# rank %d: %d lines: %s\n", ranks_rank, n_lines, line);
    return !wrong && said;
}

int main(void)
{
    ranks_start();
    yoke_log_set(keep, NULL, YOKE_LOG_WARN);
    ranks_check(limited(0, ranks_size - 1),
                "no rank may make a file of a megabyte: all goes over MPI, and one line says why");
    ranks_check(limited(ranks_size - 1, ranks_size - 1),
                "the last rank may not: all goes over MPI, and one line names it");
    return ranks_end();
}
