/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check that all ranks make the same call. One rank of every pair makes another call. Every rank must get
 * YOKE_EMISMATCH, at the latest at its next call, with a text that names both ranks and both calls. The test
 * runs on one host, and with tests/ranks/run -H on several, where messages between hosts go over MPI.
 */
#include "tests/ranks/ranks.h"

enum kind { COUNT, LARGE_COUNT, DTYPE, REDUCTION, COLLECTIVE, ORDER, ROOT, COUNTS, N_KINDS };
static const char *const names[N_KINDS] = { "count",      "large count", "type", "reduction",
                                            "collective", "order",       "root", "counts per rank" };

static float send_buffer[400000], recv_buffer[400000];

/*
 * Make a rank's calls. `odd` is the one rank that differs. A rank makes up to three calls; the first error is
 * the result.
 */
static yoke_status call(yoke_comm *comm, enum kind kind, int odd)
{
    float *s = send_buffer, *r = recv_buffer;
    size_t counts[64];
    for (int i = 0; i < ranks_size; i++) counts[i] = 10;
    switch (kind) {
    case COUNT: return yoke_all_reduce(s, r, odd ? 128 : 64, YOKE_F32, YOKE_SUM, comm, NULL);
    case LARGE_COUNT: return yoke_all_reduce(s, r, odd ? 400000 : 390000, YOKE_F32, YOKE_SUM, comm, NULL);
    case DTYPE: return yoke_all_reduce(s, r, 64, odd ? YOKE_I32 : YOKE_F32, YOKE_SUM, comm, NULL);
    case REDUCTION: return yoke_all_reduce(s, r, 64, YOKE_F32, odd ? YOKE_MAX : YOKE_SUM, comm, NULL);
    case COLLECTIVE:
        return odd ? yoke_all_gather(s, r, 64, YOKE_F32, comm, NULL)
                   : yoke_all_reduce(s, r, 64, YOKE_F32, YOKE_SUM, comm, NULL);
    case ORDER:
        if (odd) YOKE_TRY(yoke_barrier(comm, NULL));
        YOKE_TRY(yoke_all_reduce(s, r, 64, YOKE_F32, YOKE_SUM, comm, NULL));
        return odd ? YOKE_OK : yoke_barrier(comm, NULL);
    case ROOT: return yoke_broadcast(s, r, 64, YOKE_F32, odd ? 1 : 0, comm, NULL);
    default:
        if (odd) counts[0] = 11, counts[1] = 9;
        return yoke_all_gather_v(s, r, counts, YOKE_F32, comm, NULL);
    }
}

static int named(const char *text, int odd)
{
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d called", odd);
    const char *first = strstr(text, " called "), *second = first ? strstr(first + 1, " called ") : NULL;
    return first && second && strstr(text, rank);
}

/* Make the call, then barriers until the error comes. It must come at the first barrier. */
static int all_ranks_know(enum kind kind, int odd, bool no_shared)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.no_shared = no_shared;
    config.timeout_ms = 20000;
    config.name = "mismatch";
    yoke_comm *comm;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    const uint64_t begin = yokei_now_ns();
    yoke_status status = call(comm, kind, ranks_rank == odd);
    if (!status) status = yoke_barrier(comm, NULL);
    const double seconds = (double)(yokei_now_ns() - begin) * 1e-9;
    char text[1024];
    snprintf(text, sizeof text, "%s", yoke_last_error());
    int ok = status == YOKE_EMISMATCH && named(text, odd) && yoke_comm_error(comm) == YOKE_EMISMATCH
             && yoke_barrier(comm, NULL) == YOKE_EMISMATCH;
    if (!ok)
        fprintf(stderr, "# rank %d of %d: %s, odd rank %d: status %d after %.3f s: %s\n", ranks_rank,
                ranks_size, names[kind], odd, (int)status, seconds, text);
    /* Because the others may still read this rank's record. */
    ok = ranks_all(ok);
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

int main(void)
{
    ranks_start();
    const char *hosts = ranks_hosts();
    for (int v = 0; v < 2; v++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            int ok = 1;
            /* A single rank differs from all others, so every pair of ranks differs in one of these runs. */
            for (int odd = 0; odd < ranks_size; odd++) ok &= all_ranks_know((enum kind)kind, odd, v);
            ranks_check(ok, "a different %s of any rank is found by all, over %s, hosts %s", names[kind],
                        v ? "MPI" : "shared memory", hosts ? hosts : "one");
        }
    if (hosts) ranks_check(ranks_only_records(), "nothing but records is in the run directories");
    return ranks_end();
}
