/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose device has other work waits for copies of this device. It is not stuck after stall_ms, because
 * a kernel, or its compilation, may take long. It is stuck after timeout_ms, and all ranks name it.
 * The device is PoCL's with one thread, and memory that the host does not see: then the copies of a
 * collective wait behind a kernel that runs already.
 */
#include "tests/ranks/ranks.h"

#include "core/base/times.h"
#include <yoke/yoke.h>

enum { H = 4, D = 64, COUNT = 1000, SLOW = 1 /* the rank with the slow device */ };
enum { SHORT = 512, LONGEST = 16384 };

struct work {
    yoke_device *device;
    yoke_stream *kernels, *stream;
    char *qkv, *o, *sum; /* [LONGEST, 3 H D], [LONGEST, H D], [COUNT] */
    double seconds;      /* of attention over SHORT positions */
};

/* Launch attention over T positions. It is one kernel, and its time grows with the square of T. */
static yoke_status attend(const struct work *w, int64_t T)
{
    const int64_t row = H * D;
    const struct yoke_attention_forward_args a = { .size = sizeof a,
                                                   .dtype = YOKE_F32,
                                                   .causal = true,
                                                   .B = 1,
                                                   .T = T,
                                                   .H = H,
                                                   .Hkv = H,
                                                   .D = D,
                                                   .scale = 0.125f,
                                                   .q = w->qkv,
                                                   .ldq = 3 * row,
                                                   .k = w->qkv + row * 4,
                                                   .ldk = 3 * row,
                                                   .v = w->qkv + 2 * row * 4,
                                                   .ldv = 3 * row,
                                                   .o = w->o,
                                                   .ldo = row };
    struct yoke_cost cost = { .size = sizeof cost };
    const yoke_status status = yoke_attention_forward_can(w->device, &a, &cost);
    if (status) return status;
    const yoke_status room = yoke_stream_reserve(w->kernels, cost.scratch_bytes);
    return room ? room : yoke_attention_forward(w->kernels, &a);
}

static int prepare(struct work *w)
{
    const size_t bytes = (size_t)LONGEST * H * D * 4;
    RANKS_TRY(yoke_device_open("opencl:0", NULL, &w->device));
    RANKS_TRY(yoke_stream_create(w->device, &w->kernels));
    RANKS_TRY(yoke_stream_create(w->device, &w->stream));
    RANKS_TRY(yoke_alloc(w->device, 3 * bytes, (void **)&w->qkv));
    RANKS_TRY(yoke_alloc(w->device, bytes, (void **)&w->o));
    RANKS_TRY(yoke_alloc(w->device, COUNT * 4, (void **)&w->sum));
    RANKS_TRY(yoke_fill(w->kernels, w->qkv, 0, 3 * bytes));
    for (int i = 0; i < 2; i++) { /* the first time also compiles */
        const uint64_t begin = yokei_now_ns();
        RANKS_TRY(attend(w, SHORT));
        RANKS_TRY(yoke_stream_sync(w->kernels));
        w->seconds = yokei_seconds_since(begin);
    }
    return 1;
}

/*
 * Give the slow rank's device work for about so many seconds, then sum over all ranks. Returns 0 if a result
 * or an error's text is wrong.
 */
static int sum_behind(const struct work *w, double seconds, int64_t timeout_ms, yoke_status *status_out,
                      double *took_out)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    yoke_comm *comm;
    float ones[COUNT];
    char text[1024] = "";
    int64_t T = SHORT;
    while (T < LONGEST && (double)(T / SHORT) * (double)(T / SHORT) * w->seconds < seconds) T += SHORT;
    config.name = "slow";
    config.stall_ms = 300;
    config.timeout_ms = timeout_ms;
    RANKS_TRY(yoke_comm_create(ranks_world, w->device, &config, &comm));
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    RANKS_TRY(yoke_copy_to_device(w->stream, w->sum, ones, sizeof ones));
    RANKS_TRY(yoke_stream_sync(w->stream));
    RANKS_TRY(yoke_barrier(comm, NULL));
    if (ranks_rank == SLOW) RANKS_TRY(attend(w, T));
    RANKS_TRY(yoke_stream_flush(w->kernels));
    if (ranks_rank == SLOW) usleep(50000); /* so that the kernel runs */
    const uint64_t begin = yokei_now_ns();
    *status_out = yoke_all_reduce(w->sum, w->sum, COUNT, YOKE_F32, YOKE_SUM, comm, NULL);
    *took_out = yokei_seconds_since(begin);
    /* The other rank may have all that it needs. Then it learns of the error by its next call. */
    if (!*status_out) *status_out = yoke_barrier(comm, NULL);
    if (*status_out) snprintf(text, sizeof text, "%s", yoke_last_error());
    RANKS_TRY(yoke_copy_to_host(w->stream, ones, w->sum, sizeof ones));
    RANKS_TRY(yoke_stream_sync(w->stream));
    RANKS_TRY(yoke_stream_sync(w->kernels));
    const yoke_status end = yoke_comm_destroy(comm);
    /* One rank ends its kernel first. If timeout_ms is short, it may call the other rank late here. */
    int right = *status_out || !end || timeout_ms < 10000;
    for (int i = 0; i < COUNT && !*status_out; i++) right = right && ones[i] == (float)ranks_size;
    if (*status_out) right = strstr(text, "rank 1") && strstr(text, "it waits for its device");
    /* On a busy machine rank 1 may even come to its call too late. That says nothing about its device. */
    const bool late = *status_out && timeout_ms < 10000 && strstr(text, "rank 1")
                      && strstr(text, "has not called");
    if (late) *status_out = YOKE_OK, right = 1;
    if (!right) fprintf(stderr, "# rank %d: status %d, %s\n", ranks_rank, (int)*status_out, text);
    return right;
}

int main(void)
{
    enum { TIMES = 5 };
    struct work w = { 0 };
    yoke_status status = YOKE_OK;
    double took = 0, seconds = 1.5;
    setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
    setenv("YOKE_OPENCL_ADDRESS", "buffer", 1);
    ranks_start();
    if (!ranks_all(ranks_has_device("opencl:0"))) {
        ranks_check(1, "# SKIP there is no OpenCL device");
        return ranks_end();
    }
    ranks_check(prepare(&w), "each rank has a device");
    /* The kernel was timed on this machine. If the machine has become faster since, there is more work. */
    int ok = 1, busy = 0;
    for (int i = 0; i < TIMES && ok && !busy; i++, seconds *= 2) {
        ok = ranks_all(sum_behind(&w, seconds, 600000, &status, &took) && !status);
        busy = ranks_all(ranks_rank != SLOW || took > 0.6);
    }
    ranks_check(ok && busy, "a device that is busy for longer than stall_ms is waited for");
    for (int i = 0; i < TIMES && ok && ranks_all(!status); i++, seconds *= 2)
        ok = ranks_all(sum_behind(&w, seconds, 800, &status, &took));
    ranks_check(ok && status == YOKE_ETIMEOUT,
                "after timeout_ms all ranks name the rank whose device is busy");
    yoke_free(w.device, w.qkv);
    yoke_free(w.device, w.o);
    yoke_free(w.device, w.sum);
    yoke_stream_destroy(w.kernels);
    yoke_stream_destroy(w.stream);
    yoke_device_close(w.device);
    return ranks_end();
}
