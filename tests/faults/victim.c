/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that does all-reduces until it is harmed. This is the program under test of tests/faults/harm. It
 * prints "rank R pid P" before it starts MPI, so it can be harmed at any moment of its life.
 *   victim [ROUNDS [MS]]
 * ROUNDS: the rank ends normally after so many rounds. Without ROUNDS, or with -1, it goes on until an error.
 * With -N rank 1 kills itself after N rounds. MS: rank 0 computes for so many milliseconds in each round, and
 * the other ranks wait for it. If VICTIM_FOLDER is set, the rank writes there that it has begun, and later
 * which error it got and when. VICTIM_BYTES sets the size of every call.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <yoke/comm.h>

#define LARGEST 40000

static void compute(double ms)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double)(now.tv_sec - begin.tv_sec) * 1e3 + (double)(now.tv_nsec - begin.tv_nsec) * 1e-6 < ms);
}

/* Write a file `name`-RANK with a line of text. The file is there whole, or not at all. */
static void leave_word(const char *name, const char *text)
{
    const char *folder = getenv("VICTIM_FOLDER"), *rank = getenv("PMI_RANK");
    char path[4200], draft[4224];
    struct timespec now;
    if (!folder || !rank) return;
    snprintf(path, sizeof path, "%s/%s-%s", folder, name, rank);
    snprintf(draft, sizeof draft, "%s.new", path);
    clock_gettime(CLOCK_MONOTONIC, &now);
    FILE *file = fopen(draft, "w");
    if (!file) return;
    fprintf(file, "%.6f %s\n", (double)now.tv_sec + 1e-9 * (double)now.tv_nsec, text);
    fclose(file);
    rename(draft, path);
}

static yoke_status work(yoke_comm *comm, long rounds, double ms, size_t fixed, float *data)
{
    for (long round = 0; rounds < 0 || round < rounds; round++) {
        size_t count = fixed ? fixed : (size_t)(round * 7919) % LARGEST + 1;
        for (size_t i = 0; i < count; i++) data[i] = 1;
        if (rounds < -1 && round == -rounds && yoke_comm_rank(comm) == 1) raise(SIGKILL);
        if (ms > 0 && yoke_comm_rank(comm) == 0) compute(ms);
        YOKE_TRY(yoke_all_reduce(data, data, count, YOKE_F32, YOKE_SUM, comm, NULL));
        for (size_t i = 0; i < count; i++)
            if (data[i] != (float)yoke_comm_size(comm))
                return yoke_fail(YOKE_ENUMERIC, "round %ld, element %zu: wrong sum %g", round, i, data[i]);
        if (round == 0) leave_word("begun", "");
    }
    return YOKE_OK;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : -1;
    const char *rank = getenv("PMI_RANK"), *bytes = getenv("VICTIM_BYTES");
    const size_t fixed = bytes ? (size_t)atol(bytes) / sizeof(float) : 0;
    float *data = malloc((fixed > LARGEST ? fixed : LARGEST) * sizeof *data);
    int provided;
    printf("rank %s pid %d\n", rank ? rank : "0", (int)getpid());
    fflush(stdout);
    if (!data || MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)) return 1;
    yoke_comm *comm;
    yoke_status status = yoke_comm_create(MPI_COMM_WORLD, NULL, NULL, &comm);
    if (!status) {
        status = work(comm, rounds, argc > 2 ? atof(argv[2]) : 0, fixed, data);
        if (status) leave_word("said", yoke_last_error());
        yoke_comm_destroy(comm);
    }
    if (status) _exit(yoke_status_exit_code(status)); /* after a fault no rank calls MPI_Finalize */
    free(data);
    return yoke_mpi_stop() != YOKE_OK; /* MPI_Finalize does not always return between hosts */
}
