/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums that run while the caller does other work (yoke_iall_reduce): several at once, their order, and the
 * calls that are refused.
 */
#include "tests/ranks/ranks.h"

#include <stdlib.h>
#include "core/base/base.h"

enum { N = 300000, N_SUMS = 4 };

/* All sums begin before the rank waits for any of them. Ranks may also call the blocking sum meanwhile. */
static yoke_status sums(yoke_comm *comm, yoke_device *device, bool some_block)
{
    float *data[N_SUMS];
    yoke_event *done[N_SUMS];
    yoke_status status = YOKE_OK;
    for (int k = 0; k < N_SUMS; k++) {
        YOKE_TRY(yoke_event_create(device, &done[k]));
        YOKE_TRY(yoke_alloc(device, N * sizeof(float), (void **)&data[k]));
        for (int i = 0; i < N; i++) data[k][i] = (float)((i % 1000) * (k + 1) + ranks_rank);
        if (some_block && ranks_rank == 1)
            YOKE_TRY(yoke_all_reduce(data[k], data[k], N, YOKE_F32, YOKE_SUM, comm, NULL));
        else
            YOKE_TRY(yoke_iall_reduce(data[k], data[k], N, YOKE_F32, YOKE_SUM, comm, done[k]));
    }
    const int ranks_sum = ranks_size * (ranks_size - 1) / 2;
    /* The sums of a communicator end in their order, so the end of the last one is the end of all. */
    for (int k = N_SUMS - 1; k >= 0; k--) {
        bool complete = false;
        YOKE_TRY(k == N_SUMS - 1 ? yoke_event_sync(done[k]) : yoke_event_query(done[k], &complete));
        if (k < N_SUMS - 1 && !complete)
            status = yoke_fail(YOKE_EDATA, "sum %d goes on, which came before one that is over", k);
        for (int i = 0; i < N && !status; i++)
            if (data[k][i] != (float)((i % 1000) * (k + 1) * ranks_size + ranks_sum))
                status = yoke_fail(YOKE_EDATA, "sum %d, element %d: %g", k, i, (double)data[k][i]);
        if (!status && yokei_eager_event_ns(done[k]) == 0)
            status = yoke_fail(YOKE_EDATA, "the end of sum %d has no time", k);
    }
    for (int k = 0; k < N_SUMS; k++) {
        yoke_free(device, data[k]);
        yoke_event_destroy(done[k]);
    }
    return status;
}

static yoke_status refused(yoke_comm *comm, yoke_comm *bare, yoke_device *device)
{
    float x[4] = { 0 };
    yoke_event *done;
    YOKE_TRY(yoke_event_create(device, &done));
    bool ok = yoke_iall_reduce(x, x, 4, YOKE_F32, YOKE_SUM, comm, NULL) == YOKE_EINVAL;
    ok = ok && yoke_iall_reduce(x, x, 4, YOKE_F32, YOKE_SUM, NULL, done) == YOKE_EINVAL;
    /* The communicator has no device, so no event belongs to it. */
    ok = ok && yoke_iall_reduce(x, x, 4, YOKE_F32, YOKE_SUM, bare, done) == YOKE_EINVAL;
    ok = ok && yoke_iall_reduce(x, x, 4, YOKE_I32, YOKE_AVG, comm, done) == YOKE_EUNSUPPORTED;
    YOKE_TRY(yoke_group_start());
    ok = ok && yoke_iall_reduce(x, x, 4, YOKE_F32, YOKE_SUM, comm, done) == YOKE_EINVAL;
    ok = yoke_group_end() == YOKE_EINVAL && ok;
    YOKE_TRY(yoke_event_destroy(done));
    return ok ? YOKE_OK : yoke_fail(YOKE_EINTERNAL, "something that cannot be was not refused");
}

int main(void)
{
    yoke_device *device = NULL;
    yoke_comm *comm[2] = { NULL }, *bare = NULL;
    struct yoke_comm_config messages = YOKE_COMM_CONFIG_INIT;
    ranks_start();
    messages.no_shared = true;
    yoke_status status = yoke_device_open("host", NULL, &device);
    if (!status) status = yoke_comm_create(ranks_world, device, NULL, &comm[0]);
    if (!status) status = yoke_comm_create(ranks_world, device, &messages, &comm[1]);
    if (!status) status = yoke_comm_create(ranks_world, NULL, NULL, &bare);
    ranks_check(!status, "communicators");
    for (int k = 0; k < 2 && !status; k++) {
        status = sums(comm[k], device, false);
        if (status) printf("# rank %d: %s\n", ranks_rank, yoke_last_error());
        ranks_check(!status, k ? "sums in flight, over messages" : "sums in flight, in memory that all see");
        if (!status) status = sums(comm[k], device, true);
        ranks_check(!status, "some ranks wait in theirs");
    }
    ranks_check(refused(comm[0], bare, device) == YOKE_OK, "what cannot be is refused");
    for (int k = 0; k < 2; k++) yoke_comm_destroy(comm[k]);
    yoke_comm_destroy(bare);
    yoke_device_close(device);
    return ranks_end();
}
