/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of calls whose small sums run as one: their results, beside other calls and other communicators; the
 * call numbers that they take; differences between the ranks in their parts; and a communicator that failed.
 */
#include <unistd.h>

#include "tests/ranks/ranks.h"

enum { CALLS = 300, ROOM = 6000 };

struct sums {
    float *data[CALLS];
    double *wide[CALLS];
    size_t count[CALLS];
};

static void fill(struct sums *s)
{
    for (int i = 0; i < CALLS; i++) {
        s->count[i] = i % 50 == 49 ? ROOM : (size_t)(i % 17);
        for (size_t k = 0; k < s->count[i]; k++)
            s->data[i][k] = (float)(ranks_rank + i), s->wide[i][k] = (double)(ranks_rank * 2 + i);
    }
}

static int is_summed(const struct sums *s, const struct sums *out)
{
    const double ranks = ranks_size * (ranks_size - 1) / 2.0;
    for (int i = 0; i < CALLS; i++)
        for (size_t k = 0; k < s->count[i]; k++) {
            if ((double)out->data[i][k] != ranks + ranks_size * (double)i) return 0;
            if (i % 3 == 0 && out->wide[i][k] != (ranks_size - 1) * 2.0 + i) return 0;
        }
    return 1;
}

static int allocate(struct sums *s)
{
    int ok = 1;
    for (int i = 0; i < CALLS; i++) {
        s->data[i] = calloc(ROOM, sizeof(float));
        s->wide[i] = calloc(ROOM, sizeof(double));
        ok = ok && s->data[i] && s->wide[i];
    }
    return ok;
}

/*
 * All kinds of calls in one group, on two communicators. Calls of equal type are fused, whatever stands
 * between them.
 */
static int mixed(yoke_comm *a, yoke_comm *b, struct sums *in, struct sums *out)
{
    const int right = (ranks_rank + 1) % ranks_size, left = (ranks_rank + ranks_size - 1) % ranks_size;
    int32_t sent = ranks_rank, got = -1, root = ranks_rank == 0 ? 77 : 0;
    fill(in);
    RANKS_TRY(yoke_group_start());
    for (int i = 0; i < CALLS; i++) {
        float *to = i % 2 ? in->data[i] : out->data[i]; /* some sums are in place */
        RANKS_TRY(yoke_all_reduce(in->data[i], to, in->count[i], YOKE_F32, YOKE_SUM, i % 5 ? a : b, NULL));
        if (i % 3 == 0)
            RANKS_TRY(yoke_all_reduce(in->wide[i], out->wide[i], in->count[i], YOKE_F64, YOKE_MAX, a, NULL));
        if (i == 100) RANKS_TRY(yoke_send(&sent, 1, YOKE_I32, right, a, NULL));
        if (i == 101) RANKS_TRY(yoke_recv(&got, 1, YOKE_I32, left, a, NULL));
        if (i == 150) RANKS_TRY(yoke_broadcast(&root, &root, 1, YOKE_I32, 0, b, NULL));
    }
    RANKS_TRY(yoke_group_end());
    for (int i = 1; i < CALLS; i += 2) memcpy(out->data[i], in->data[i], in->count[i] * sizeof(float));
    return is_summed(in, out) && got == left && root == 77;
}

/* Two hundred sums take one call number, so the error of the call after them says #2. */
static int one_number(void)
{
    yoke_comm *comm = NULL;
    float x[200];
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, NULL, &comm));
    RANKS_TRY(yoke_group_start());
    for (int i = 0; i < 200; i++) {
        x[i] = 1;
        RANKS_TRY(yoke_all_reduce(&x[i], &x[i], 1, YOKE_F32, YOKE_SUM, comm, NULL));
    }
    RANKS_TRY(yoke_group_end());
    int ok = 1;
    for (int i = 0; i < 200; i++) ok = ok && x[i] == (float)ranks_size;
    const yoke_status status = yoke_all_reduce(x, x, ranks_rank == 0 ? 1 : 2, YOKE_F32, YOKE_SUM, comm, NULL);
    ok = ok
         && (ranks_size == 1 ? !status
                             : status == YOKE_EMISMATCH && strstr(yoke_last_error(), "all_reduce #2 "));
    yoke_comm_destroy(comm);
    return ok;
}

/* The same total in other parts is a mismatch. No rank may get another rank's elements. */
static int other_parts(bool no_shared)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.no_shared = no_shared;
    yoke_comm *comm = NULL;
    float x[30] = { 0 };
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &comm));
    const size_t first = ranks_rank == ranks_size - 1 ? 20 : 10;
    RANKS_TRY(yoke_group_start());
    RANKS_TRY(yoke_all_reduce(x, x, first, YOKE_F32, YOKE_SUM, comm, NULL));
    RANKS_TRY(yoke_all_reduce(x + first, x + first, 30 - first, YOKE_F32, YOKE_SUM, comm, NULL));
    yoke_status status = yoke_group_end();
    if (!status && ranks_size > 1)
        status = yoke_barrier(comm, NULL); /* the error must come at the barrier at the latest */
    const int ok = ranks_size == 1
                       ? !status
                       : status == YOKE_EMISMATCH && strstr(yoke_last_error(), "counts of the group's calls");
    yoke_comm_destroy(comm);
    return ok;
}

/*
 * One of a group's two communicators has failed. Odd ranks know this before their group; the other ranks may
 * hear of it before the group, in the group, or after it. The calls on the other communicator still run on
 * all ranks.
 */
static int beside_a_failed_one(bool no_shared)
{
    const int right = (ranks_rank + 1) % ranks_size, left = (ranks_rank + ranks_size - 1) % ranks_size;
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.no_shared = no_shared;
    yoke_comm *failed = NULL, *works = NULL;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &failed));
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &works));
    RANKS_TRY(yoke_barrier(works, NULL));
    if (ranks_rank == 0) yoke_comm_abort(failed, "on purpose");
    while (ranks_rank % 2 && !yoke_comm_error(failed)) usleep(1000);
    int ok = 1;
    for (int i = 0; i < 3; i++) {
        float x[3] = { 1, 1, 1 }, lost = 1;
        int32_t sent = ranks_rank, got = -1;
        RANKS_TRY(yoke_group_start());
        RANKS_TRY(yoke_all_reduce(&x[0], &x[0], 1, YOKE_F32, YOKE_SUM, works, NULL));
        yoke_all_reduce(&lost, &lost, 1, YOKE_F32, YOKE_SUM, failed, NULL);
        RANKS_TRY(yoke_all_reduce(&x[1], &x[1], 1, YOKE_F32, YOKE_SUM, works, NULL));
        yoke_send(&sent, 1, YOKE_I32, right, failed, NULL);
        RANKS_TRY(yoke_send(&sent, 1, YOKE_I32, right, works, NULL));
        RANKS_TRY(yoke_recv(&got, 1, YOKE_I32, left, works, NULL));
        RANKS_TRY(yoke_all_reduce(&x[2], &x[2], 1, YOKE_F32, YOKE_PROD, works, NULL));
        const yoke_status status = yoke_group_end();
        const float sum = (float)ranks_size;
        ok = ok && status == YOKE_EABORTED && strstr(yoke_last_error(), "on purpose");
        ok = ok && x[0] == sum && x[1] == sum && x[2] == 1 && got == left;
    }
    RANKS_TRY(yoke_barrier(works, NULL));
    RANKS_TRY(yoke_comm_destroy(works));
    yoke_comm_destroy(failed);
    return ok;
}

static int with_stream(const char *spec)
{
    yoke_device *device = NULL;
    yoke_stream *stream = NULL;
    yoke_comm *comm = NULL;
    enum { N = 64 };
    float values[N];
    void *memory[N];
    RANKS_TRY(yoke_device_open(spec, NULL, &device));
    RANKS_TRY(yoke_stream_create(device, &stream));
    RANKS_TRY(yoke_comm_create(ranks_world, device, NULL, &comm));
    for (int i = 0; i < N; i++) {
        values[i] = (float)(ranks_rank + i);
        RANKS_TRY(yoke_alloc(device, sizeof(float), &memory[i]));
        RANKS_TRY(yoke_copy_to_device(stream, memory[i], &values[i], sizeof(float)));
    }
    RANKS_TRY(yoke_group_start());
    for (int i = 0; i < N; i++)
        RANKS_TRY(yoke_all_reduce(memory[i], memory[i], 1, YOKE_F32, YOKE_SUM, comm, stream));
    RANKS_TRY(yoke_group_end());
    for (int i = 0; i < N; i++) RANKS_TRY(yoke_copy_to_host(stream, &values[i], memory[i], sizeof(float)));
    RANKS_TRY(yoke_stream_sync(stream));
    int ok = 1;
    for (int i = 0; i < N; i++) {
        ok = ok && values[i] == (float)(ranks_size * (ranks_size - 1) / 2 + ranks_size * i);
        yoke_free(device, memory[i]);
    }
    RANKS_TRY(yoke_comm_destroy(comm));
    yoke_stream_destroy(stream);
    yoke_device_close(device);
    return ok;
}

int main(void)
{
    static struct sums in, out;
    ranks_start();
    if (!allocate(&in) || !allocate(&out)) return 99;
    for (int no_shared = 0; no_shared < 2; no_shared++) {
        struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
        config.no_shared = no_shared;
        yoke_comm *a = NULL, *b = NULL;
        ranks_check(!yoke_comm_create(ranks_world, NULL, &config, &a)
                        && !yoke_comm_create(ranks_world, NULL, &config, &b),
                    "two communicators");
        for (int i = 0; i < 5; i++)
            ranks_check(mixed(a, b, &in, &out), "all kinds of calls in a group, %s",
                        no_shared ? "messages" : "shared memory");
        ranks_check(!yoke_comm_destroy(a) && !yoke_comm_destroy(b), "destroyed");
    }
    ranks_check(with_stream("host"), "sums of a host stream");
    ranks_check(with_stream("opencl:0"), "sums of an OpenCL stream");
    ranks_check(one_number(), "small sums of a group are one call");
    ranks_check(other_parts(false), "other parts of the same total are found, shared memory");
    ranks_check(other_parts(true), "other parts of the same total are found, messages");
    ranks_check(beside_a_failed_one(false), "calls run beside a communicator that failed, shared memory");
    ranks_check(beside_a_failed_one(true), "calls run beside a communicator that failed, messages");
    for (int i = 0; i < CALLS; i++) free(in.data[i]), free(in.wide[i]), free(out.data[i]), free(out.wide[i]);
    return ranks_end();
}
