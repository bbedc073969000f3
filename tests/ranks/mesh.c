/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same numbers on every mesh: a GPT-2 of four blocks, divided into pipeline stages, chunks, tensors and replicas, in all kinds of
 * schedules and with stashes recomputed, is held against one host rank by the gates of parity.h. What differs in nothing but schedule and
 * recomputation gives the same bits. With a number as argument: that case alone.
 */
enum { N_BLOCKS = 4, QUICK = 1 };
#include "tests/ranks/parity.h"

#define HOSTS2 { "host", "host" }
#define HOSTS3 { "host", "host", "host" }
#define HOSTS4 { "host", "host", "host", "host" }
#define HOSTS5 { "host", "host", "host", "host", "host" }
#define HOSTS6 { "host", "host", "host", "host", "host", "host" }

static const struct {
    struct layout layout;
    bool same_as_before; /* differs from the one before in nothing that may change bits */
} cases[] = {
    { { HOSTS2, { 8 }, 2, .pipeline = 2, .kind = "1f1b" }, false },
    { { HOSTS2, { 8 }, 2, .pipeline = 2, .kind = "naive" }, true },
    { { HOSTS2, { 8 }, 2, .pipeline = 2, .kind = "gpipe" }, true },
    { { HOSTS2, { 8 }, 2, .pipeline = 2, .kind = "zb-h1" }, true },
    { { HOSTS2, { 8 }, 2, .pipeline = 2, .chunks = 2, .kind = "interleaved" }, true },
    { { HOSTS2, { 8 }, 2, .pipeline = 2, .kind = "1f1b", .recompute = "full" }, true },
    { { HOSTS2, { 8 }, 2, .pipeline = 2, .kind = "zb-h1", .recompute = "attention,none" }, true },
    { { HOSTS2, { 8 }, 3, .pipeline = 2, .kind = "1f1b", .blocks = { 3, 1 } }, false },
    { { HOSTS2, { 8 }, 3, .pipeline = 2, .kind = "gpipe", .blocks = { 1, 3 } }, true },
    { { { "host" }, { 8 }, 3 }, false },
    { { { "host" }, { 8 }, 3, .recompute = "full" }, true },
    { { HOSTS4, { 8 }, 1, .pipeline = 4, .kind = "1f1b" }, false },
    { { HOSTS4, { 8 }, 1, .pipeline = 4, .kind = "zb-h1", .recompute = "none,full,attention,full" }, true },
    { { HOSTS4, { 5, 3 }, 2, .pipeline = 2, .kind = "1f1b" }, false },
    { { HOSTS4, { 5, 3 }, 2, .pipeline = 2, .kind = "gpipe", .recompute = "attention" }, true },
    { { HOSTS2, { 8 }, 4, .tensor = 2 }, false },
    { { HOSTS2, { 8 }, 4, .tensor = 2, .recompute = "full" }, true },
    { { HOSTS2, { 8 }, 4, .tensor = 2, .sequence_parallel = true }, false },
    { { HOSTS2, { 8 }, 4, .tensor = 2, .sequence_parallel = true, .recompute = "full", .kind = "1f1b" }, true },
    { { HOSTS2, { 8 }, 3, .tensor = 2, .tensor_shares = { 3, 1 } }, false },
    { { HOSTS4, { 8 }, 2, .tensor = 2, .pipeline = 2, .kind = "1f1b", .sequence_parallel = true }, false },
    { { HOSTS4, { 8 }, 2, .tensor = 2, .pipeline = 2, .kind = "zb-h1", .sequence_parallel = true, .recompute = "full" }, true },
    { { HOSTS4, { 5, 3 }, 2, .tensor = 2, .tensor_shares = { 1, 3 }, .sequence_parallel = true }, false },
    { { HOSTS4, { 8 }, 4, .tensor = 4 }, false },
    { { HOSTS3, { 8 }, 2, .pipeline = 2, .widths = { 2, 1 } }, false },
    { { HOSTS3, { 8 }, 2, .pipeline = 2, .widths = { 2, 1 }, .kind = "zb-h1", .recompute = "full,none" }, true },
    { { HOSTS3, { 8 }, 2, .pipeline = 2, .widths = { 1, 2 }, .sequence_parallel = true, .tensor_shares = { 1, 3, 1 } }, false },
    { { HOSTS4, { 8 }, 2, .pipeline = 2, .widths = { 3, 1 }, .sequence_parallel = true }, false },
    { { HOSTS4, { 8 }, 2, .pipeline = 3, .widths = { 1, 2, 1 }, .kind = "1f1b" }, false },
    { { HOSTS5, { 8 }, 2, .pipeline = 2, .widths = { 3, 2 } }, false },
    { { HOSTS5, { 8 }, 2, .pipeline = 2, .widths = { 2, 3 }, .sequence_parallel = true, .recompute = "full" }, false },
    { { HOSTS5, { 8 }, 2, .pipeline = 2, .widths = { 2, 3 }, .chunks = 2, .kind = "interleaved" }, false },
    { { HOSTS6, { 5, 3 }, 2, .pipeline = 2, .widths = { 1, 2 }, .recompute = "attention" }, false },
    { { { "host", "opencl:0", "host" }, { 8 }, 2, .pipeline = 2, .widths = { 2, 1 } }, false },
    { { { "opencl:0", "host", "host" }, { 8 }, 2, .pipeline = 2, .widths = { 1, 2 }, .sequence_parallel = true }, false },
    { { { "host", "opencl:0" }, { 8 }, 4, .tensor = 2, .sequence_parallel = true }, false },
    { { { "host", "opencl:0" }, { 8 }, 2, .pipeline = 2, .kind = "1f1b" }, false },
    { { { "opencl:0", "host" }, { 8 }, 2, .pipeline = 2, .kind = "zb-h1", .recompute = "full" }, false },
};

/* Several long messages in both directions at once, which no rank has received yet: none holds up the caller. */
static yoke_status exchange(const char *spec, MPI_Comm two, int rank)
{
    enum { N = 1 << 20, N_MESSAGES = 3 };
    yoke_device *device;
    yoke_comm *comm[2]; /* for what rank 0 sends, and rank 1 */
    yoke_event *sent[N_MESSAGES], *got[N_MESSAGES];
    void *out[N_MESSAGES], *in[N_MESSAGES];
    YOKE_TRY(yoke_device_open(spec, NULL, &device));
    for (int way = 0; way < 2; way++) YOKE_TRY(yoke_comm_create(two, device, NULL, &comm[way]));
    for (int k = 0; k < N_MESSAGES; k++) {
        YOKE_TRY(yoke_event_create(device, &sent[k]));
        YOKE_TRY(yoke_event_create(device, &got[k]));
        YOKE_TRY(yoke_alloc(device, N * 4, &out[k]));
        YOKE_TRY(yoke_alloc(device, N * 4, &in[k]));
        for (int i = 0; i < N; i++) ((int32_t *)out[k])[i] = i * (k + 2) + rank;
        YOKE_TRY(yoke_isend(out[k], N, YOKE_I32, !rank, comm[rank], sent[k]));
    }
    for (int k = 0; k < N_MESSAGES; k++) YOKE_TRY(yoke_irecv(in[k], N, YOKE_I32, !rank, comm[!rank], got[k]));
    yoke_status status = YOKE_OK;
    for (int k = 0; k < N_MESSAGES; k++) {
        YOKE_TRY(yoke_event_sync(got[k]));
        YOKE_TRY(yoke_event_sync(sent[k]));
        for (int i = 0; i < N && !status; i++)
            if (((int32_t *)in[k])[i] != i * (k + 2) + !rank) status = yoke_fail(YOKE_EDATA, "message %d, element %d", k, i);
    }
    for (int k = 0; k < N_MESSAGES; k++) {
        yoke_free(device, out[k]);
        yoke_free(device, in[k]);
        yoke_event_destroy(sent[k]);
        yoke_event_destroy(got[k]);
    }
    for (int way = 0; way < 2; way++) YOKE_TRY(yoke_comm_destroy(comm[way]));
    yoke_device_close(device);
    return status;
}

/* Two pieces with one event, in the order of the pieces; and what is refused. */
static yoke_status exchange_pieces(MPI_Comm two, int rank)
{
    enum { N = 100000, FEW = 3 };
    yoke_device *device;
    yoke_comm *comm[2];
    yoke_event *sent, *got;
    int32_t *out, *in;
    YOKE_TRY(yoke_device_open("host", NULL, &device));
    for (int way = 0; way < 2; way++) YOKE_TRY(yoke_comm_create(two, device, NULL, &comm[way]));
    YOKE_TRY(yoke_event_create(device, &sent));
    YOKE_TRY(yoke_event_create(device, &got));
    YOKE_TRY(yoke_alloc(device, (N + FEW) * 4, (void **)&out));
    YOKE_TRY(yoke_alloc(device, (N + FEW) * 4, (void **)&in));
    for (int i = 0; i < N + FEW; i++) out[i] = 7 * i + rank;
    const struct yoke_piece from[] = { { out, N, !rank }, { out + N, FEW, !rank } }, to[] = { { in, N, !rank }, { in + N, FEW, !rank } };
    if (yoke_isend_pieces(from, 0, YOKE_I32, comm[rank], sent) != YOKE_EINVAL) return yoke_fail(YOKE_EINTERNAL, "no pieces were not refused");
    if (yoke_irecv_pieces(&(struct yoke_piece){ in, N, 2 }, 1, YOKE_I32, comm[!rank], got) != YOKE_EINVAL)
        return yoke_fail(YOKE_EINTERNAL, "a peer that is not there was not refused");
    YOKE_TRY(yoke_isend_pieces(from, 2, YOKE_I32, comm[rank], sent));
    YOKE_TRY(yoke_irecv_pieces(to, 2, YOKE_I32, comm[!rank], got));
    YOKE_TRY(yoke_event_sync(got));
    YOKE_TRY(yoke_event_sync(sent));
    yoke_status status = YOKE_OK;
    for (int i = 0; i < N + FEW && !status; i++)
        if (in[i] != 7 * i + !rank) status = yoke_fail(YOKE_EDATA, "pieces: element %d is %d", i, in[i]);
    yoke_free(device, out);
    yoke_free(device, in);
    yoke_event_destroy(sent);
    yoke_event_destroy(got);
    for (int way = 0; way < 2; way++) YOKE_TRY(yoke_comm_destroy(comm[way]));
    yoke_device_close(device);
    return status;
}

int main(int argc, char **argv)
{
    static const yoke_dtype precisions[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    struct expected e[YOKE_COUNT(precisions)];
    struct verdict before[YOKE_COUNT(precisions)];
    ranks_start();
    if (ranks_rank == 0) printf("# seed %d\n", SEED);
    memset(e, 0, sizeof e);
    memset(before, 0, sizeof before);
    yoke_status status = YOKE_OK;
    for (size_t p = 0; p < YOKE_COUNT(precisions) && !status; p++) status = expect(precisions[p], &e[p]);
    if (!ranks_check(!status, "one host rank trains in f32, bf16 and f16")) return ranks_end();
    const bool opencl = ranks_all(is_there("opencl:0"));
    MPI_Comm two;
    PMPI_Comm_split(ranks_world, ranks_rank < 2 ? 0 : MPI_UNDEFINED, ranks_rank, &two);
    status = ranks_rank < 2 ? exchange("host", two, ranks_rank) : YOKE_OK;
    ranks_check(!status, "long messages in both directions at once");
    status = ranks_rank < 2 ? exchange_pieces(two, ranks_rank) : YOKE_OK;
    if (status) printf("# rank %d: %s\n", ranks_rank, yoke_last_error());
    ranks_check(!status, "several pieces with one event");
    if (two != MPI_COMM_NULL) PMPI_Comm_free(&two);
    const size_t only = argc > 1 ? (size_t)atoi(argv[1]) : YOKE_COUNT(cases);
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        if (only < YOKE_COUNT(cases) && i != only) continue;
        const struct layout *l = &cases[i].layout;
        bool wanted = n_ranks_of(l) <= ranks_size;
        for (int r = 0; r < n_ranks_of(l); r++) wanted = wanted && (opencl || strcmp(l->devices[r], "opencl:0"));
        for (size_t p = 0; p < YOKE_COUNT(precisions) && wanted; p++) {
            if (p > 0 && i % 4 != p) continue; /* all of f32, and a few of each other */
            const struct verdict v = check_layout(l, precisions[p], &e[p], &e[0]);
            if (p == 0 && cases[i].same_as_before && only == YOKE_COUNT(cases)) ranks_check(ranks_rank >= n_ranks_of(l) || v.hash == before[p].hash, "the same bits as before");
            before[p] = v;
        }
    }
    for (size_t p = 0; p < YOKE_COUNT(precisions); p++) free_expected(&e[p]);
    return ranks_end();
}
