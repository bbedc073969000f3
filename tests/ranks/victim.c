/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls collectives of changing kinds and sizes until one fails, or for SECONDS. Then it writes status, time
 * and error text to $YOKE_RUN_DIR/result.RANK, and exits with the status's exit code. Tests that kill and
 * stop ranks use it.
 *   tests/ranks/victim [SECONDS [shm|mpi [mixed|large|idle]]]
 * large: 16 MiB are in flight. idle: the rank is mostly between two calls.
 */
#include "tests/ranks/ranks.h"

enum { LARGE = 4 << 20 };

static yoke_status work(yoke_comm *comm, const char *load, float *send, float *recv, uint64_t end)
{
    static const size_t counts[] = { 16, 1000, 262144, 4, 70001 };
    const bool large = !strcmp(load, "large"), idle = !strcmp(load, "idle");
    yoke_status status = YOKE_OK;
    /* Rank 0 decides when to end, so that all ranks make the same calls. */
    for (uint32_t turn = 0, more = 1; !status && more; turn++) {
        const size_t count = large ? LARGE : counts[turn % YOKE_COUNT(counts)];
        for (size_t i = 0; i < count; i++) send[i] = (float)((i + turn) % 5), recv[i] = -1;
        status = yoke_all_reduce(send, recv, count, YOKE_F32, YOKE_SUM, comm, NULL);
        for (size_t i = 0; i < count && !status;
             i++) /* a rank that dies must not leave a partial sum to the others */
            if (recv[i] != (float)((i + turn) % 5 * (size_t)ranks_size))
                status = yoke_fail(YOKE_ENUMERIC, "element %zu of %zu is %g", i, count, recv[i]);
        if (!status && turn % 7 == 0) status = yoke_barrier(comm, NULL);
        if (!status && (idle || turn % 11 == 0)) usleep(idle ? 20000 : 500);
        more = yokei_now_ns() < end;
        if (!status) status = yoke_broadcast(&more, &more, 1, YOKE_I32, 0, comm, NULL);
    }
    return status;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 20;
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.no_shared = argc > 2 && !strcmp(argv[2], "mpi");
    config.name = "victim";
    yoke_comm *comm = NULL;
    ranks_start();
    yoke_status status = yoke_comm_create(ranks_world, NULL, &config, &comm);
    float *send = calloc(LARGE, sizeof *send), *recv = calloc(LARGE, sizeof *recv);
    if (!send || !recv) return 1;
    if (!status)
        status = work(comm, argc > 3 ? argv[3] : "mixed", send, recv,
                      yokei_now_ns() + (uint64_t)(seconds * 1e9));
    const unsigned long long now = yokei_now_ns();
    char path[4200], draft[4224], text[1024];
    snprintf(text, sizeof text, "%s", status ? yoke_last_error() : "");
    const char *folder = getenv("YOKE_RUN_DIR");
    if (folder) {
        snprintf(path, sizeof path, "%s/result.%d", folder, ranks_rank);
        snprintf(draft, sizeof draft, "%s.new", path);
        FILE *file = fopen(draft, "w");
        if (!file) return 1;
        fprintf(file, "%d %llu %s\n", (int)status, now, text);
        fclose(file);
        rename(draft, path);
    }
    yoke_comm_destroy(comm);
    free(send);
    free(recv);
    if (status) _exit(yoke_status_exit_code(status)); /* MPI is not finalised after a fault */
    return yoke_mpi_stop() != YOKE_OK;
}
