/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls collectives of changing kinds and sizes until one fails, or for SECONDS. Then it writes status, time and text
 * to $YOKE_RUN_DIR/result.RANK and ends with the status's exit code. For tests that kill and stop ranks.
 *   tests/ranks/victim [SECONDS [mpi]]
 */
#include "tests/ranks/ranks.h"

static yoke_status work(yoke_comm *comm, float *send, float *recv, uint64_t end)
{
    static const size_t counts[] = { 16, 1000, 262144, 4, 70001 };
    yoke_status status = YOKE_OK;
    /* Rank 0 decides on the end, so that all make the same calls. */
    for (uint32_t turn = 0, more = 1; !status && more; turn++) {
        const size_t count = counts[turn % YOKE_COUNT(counts)];
        status = yoke_all_reduce(send, recv, count, YOKE_F32, YOKE_SUM, comm, NULL);
        if (!status && turn % 7 == 0) status = yoke_barrier(comm, NULL);
        if (!status && turn % 11 == 0) usleep(500);
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
    float *send = calloc(300000, sizeof *send), *recv = calloc(300000, sizeof *recv);
    if (!status) status = work(comm, send, recv, yokei_now_ns() + (uint64_t)(seconds * 1e9));
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
