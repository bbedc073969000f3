/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same numbers on every mesh. A GPT-2 of four blocks is divided into pipeline stages, chunks, tensors and
 * replicas, with all kinds of schedules, and with and without recomputation. The gates (tolerances) of yoke
 * parity compare it with one host rank. Layouts that differ only in schedule, recomputation and ZeRO must
 * give the same bits. One start of 8 ranks runs all layouts.
 */
#include "tests/ranks/parity.h"

static const char layouts[] =
    /* one rank, and replicas */
    "micro-batch=3 precision=f32,bf16,f16\n"
    "micro-batch=3 recompute=full\n"
    "micro-batch=3 recompute=attention\n"
    "dp=2 micro-batch=2\n"
    "soak dp=2 micro-batch=2 recompute=full\n"
    "dp=2 shares=5:3 micro-batch=2 precision=f32,bf16,f16 steps=NN\n"
    "soak dp=2 shares=1:7 micro-batch=4\n"
    "dp=4 micro-batch=2\n"
    "soak dp=4 micro-batch=2 recompute=attention\n"
    "dp=4 shares=4:1:2:1 micro-batch=2\n"
    /* pipelines */
    "pp=2 micro-batch=2 schedule=1f1b precision=f32,bf16,f16 steps=NN\n"
    "pp=2 micro-batch=2 schedule=naive\n"
    "pp=2 micro-batch=2 schedule=gpipe\n"
    "pp=2 micro-batch=2 schedule=1f1b\n"
    "pp=2 micro-batch=2 schedule=zb-h1\n"
    "pp=2 micro-batch=2 schedule=interleaved chunks=2\n"
    "soak pp=2 micro-batch=2 schedule=naive recompute=attention\n"
    "pp=2 micro-batch=2 schedule=gpipe recompute=none,full\n"
    "pp=2 micro-batch=2 schedule=1f1b recompute=full\n"
    "pp=2 micro-batch=2 schedule=zb-h1 recompute=attention,none\n"
    "pp=2 micro-batch=2 schedule=interleaved chunks=2 recompute=full\n"
    "pp=2 micro-batch=3 schedule=1f1b layers=3,1\n"
    "soak pp=2 micro-batch=3 schedule=gpipe layers=1,3\n"
    "pp=4 micro-batch=1 schedule=1f1b precision=f32,bf16\n"
    "soak pp=4 micro-batch=1 schedule=naive recompute=full\n"
    "pp=4 micro-batch=1 schedule=gpipe precision=f32,bf16\n"
    "pp=4 micro-batch=1 schedule=zb-h1 recompute=none,full,attention,full\n"
    "dp=2 pp=2 shares=5:3 micro-batch=2 schedule=1f1b precision=f32,f16\n"
    "dp=2 pp=2 shares=5:3 micro-batch=2 schedule=gpipe recompute=attention precision=f32,f16\n"
    "dp=2 pp=2 shares=5:3 micro-batch=2 schedule=zb-h1 recompute=full\n"
    "dp=4 pp=2 micro-batch=1 schedule=1f1b\n"
    "soak dp=4 pp=2 micro-batch=1 schedule=gpipe recompute=full\n"
    "dp=4 pp=2 micro-batch=1 schedule=interleaved chunks=2\n"
    "soak dp=2 pp=4 micro-batch=1 schedule=1f1b\n"
    "dp=2 pp=4 micro-batch=1 schedule=zb-h1 recompute=full\n"
    /* tensors */
    "tp=2 micro-batch=4 precision=f32,bf16,f16 steps=NN\n"
    "tp=2 micro-batch=4\n"
    "tp=2 micro-batch=4 recompute=full\n"
    "tp=2 micro-batch=4 sequence-parallel\n"
    "tp=2 micro-batch=4 sequence-parallel recompute=full\n"
    "tp=2 micro-batch=3 tensor-shares=3:1\n"
    "soak tp=2 micro-batch=3 tensor-shares=3:1 recompute=attention\n"
    "tp=2 micro-batch=3 tensor-shares=3:1 recompute=full\n"
    "tp=2 micro-batch=3 tensor-shares=1:3 sequence-parallel precision=f32,bf16\n"
    "tp=3 micro-batch=2\n"
    "tp=4 micro-batch=4\n"
    "soak tp=4 micro-batch=4 sequence-parallel\n"
    "tp=4 micro-batch=4 sequence-parallel recompute=attention\n"
    "dp=2 tp=2 shares=5:3 tensor-shares=1:3 sequence-parallel micro-batch=2\n"
    "dp=2 tp=2 micro-batch=2 precision=f32,f16\n"
    "dp=2 tp=2 micro-batch=2 recompute=full precision=f32,f16\n"
    "soak dp=4 tp=2 micro-batch=2\n"
    "dp=4 tp=2 micro-batch=2 sequence-parallel recompute=full\n"
    "soak dp=2 tp=4 micro-batch=2\n"
    "dp=2 tp=4 micro-batch=2 sequence-parallel recompute=full\n"
    /* both, and all three */
    "pp=2 tp=2 micro-batch=2 sequence-parallel schedule=1f1b\n"
    "pp=2 tp=2 micro-batch=2 sequence-parallel schedule=zb-h1 recompute=full\n"
    "soak pp=2 tp=2 micro-batch=2 schedule=naive\n"
    "pp=2 tp=2 micro-batch=2 schedule=gpipe recompute=attention\n"
    "pp=2 tp=2 micro-batch=2 schedule=interleaved chunks=2\n"
    "soak pp=2 tp=4 micro-batch=2 schedule=1f1b\n"
    "pp=2 tp=4 micro-batch=2 sequence-parallel schedule=zb-h1 recompute=full\n"
    "soak pp=4 tp=2 micro-batch=1 schedule=1f1b\n"
    "pp=4 tp=2 micro-batch=1 schedule=zb-h1 recompute=attention\n"
    "dp=2 pp=2 tp=2 micro-batch=1 schedule=1f1b precision=f32,bf16,f16\n"
    "soak dp=2 pp=2 tp=2 micro-batch=1 schedule=gpipe recompute=full\n"
    "dp=2 pp=2 tp=2 micro-batch=1 schedule=zb-h1 recompute=attention precision=f32,bf16,f16\n"
    "dp=2 pp=2 tp=2 micro-batch=1 schedule=interleaved chunks=2\n"
    "dp=2 pp=2 tp=2 micro-batch=1 schedule=naive sequence-parallel\n"
    "dp=2 pp=2 tp=2 micro-batch=1 schedule=1f1b sequence-parallel recompute=full\n"
    "soak dp=2 pp=2 tp=2 micro-batch=1 schedule=zb-h1 shares=5:3 tensor-shares=3:1 layers=1,3\n"
    "dp=2 pp=2 tp=2 micro-batch=1 schedule=zb-h1 recompute=attention shares=5:3 tensor-shares=3:1 precision=bf16,f16\n"
    /* moments and masters divided over the replicas: the same bits as without ZeRO above */
    "dp=2 micro-batch=2 zero=1\n"
    "dp=2 shares=5:3 micro-batch=2 zero=1 precision=f32,bf16,f16 steps=NN\n"
    "soak dp=4 micro-batch=2 zero=1 recompute=full\n"
    "dp=2 pp=2 shares=5:3 micro-batch=2 schedule=zb-h1 zero=1 precision=f32,f16\n"
    "dp=4 pp=2 micro-batch=1 schedule=interleaved chunks=2 zero=1\n"
    "dp=2 tp=2 micro-batch=2 zero=1 precision=f32,f16\n"
    "dp=2 pp=2 tp=2 micro-batch=1 schedule=1f1b zero=1 precision=f32,bf16,f16\n"
    /* stages of different widths */
    "pp=2 tp=2,1 micro-batch=2 precision=f32,bf16\n"
    "pp=2 tp=1,2 micro-batch=2 schedule=zb-h1 sequence-parallel tensor-shares=1:3:1 recompute=full\n"
    "pp=2 tp=2,1 micro-batch=2 schedule=zb-h1 recompute=full,none precision=f32,bf16\n"
    "soak pp=2 tp=1,2 micro-batch=2 sequence-parallel tensor-shares=1:3:1\n"
    "pp=2 tp=2,2 micro-batch=2 tensor-shares=3:1:1:3\n" /* stages whose pieces of a tied parameter do not
                                                           match */
    "soak pp=2 tp=3,1 micro-batch=2 sequence-parallel\n"
    "pp=3 tp=1,2,1 micro-batch=2 schedule=1f1b\n"
    "pp=2 tp=3,2 micro-batch=2\n"
    "soak pp=2 tp=2,3 micro-batch=2 sequence-parallel recompute=full\n"
    "pp=2 tp=2,3 micro-batch=2 schedule=interleaved chunks=2 precision=f32,f16\n"
    "dp=2 pp=2 tp=1,2 shares=5:3 micro-batch=2 recompute=attention\n";

/*
 * Several long messages in both directions at once. No rank has posted a receive yet, and no send may block
 * the caller.
 */
static yoke_status exchange(const char *spec, MPI_Comm two, int rank)
{
    enum { N = 1 << 20, N_MESSAGES = 3 };
    yoke_device *device;
    yoke_comm *comm[2]; /* one communicator for what rank 0 sends, and one for what rank 1 sends */
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
            if (((int32_t *)in[k])[i] != i * (k + 2) + !rank)
                status = yoke_fail(YOKE_EDATA, "message %d, element %d", k, i);
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

/*
 * Two pieces with one event arrive in the order of the pieces. The test also makes calls that must be
 * refused.
 */
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
    const struct yoke_piece from[] = { { out, N, !rank }, { out + N, FEW, !rank } },
                            to[] = { { in, N, !rank }, { in + N, FEW, !rank } };
    if (yoke_isend_pieces(from, 0, YOKE_I32, comm[rank], sent) != YOKE_EINVAL)
        return yoke_fail(YOKE_EINTERNAL, "no pieces were not refused");
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

int main(void)
{
    MPI_Comm two;
    ranks_start();
    if (ranks_rank == 0) printf("# seed %d\n", SEED);
    PMPI_Comm_split(ranks_world, ranks_rank < 2 ? 0 : MPI_UNDEFINED, ranks_rank, &two);
    yoke_status status = ranks_rank < 2 ? exchange("host", two, ranks_rank) : YOKE_OK;
    ranks_check(!status, "long messages in both directions at once");
    status = ranks_rank < 2 ? exchange_pieces(two, ranks_rank) : YOKE_OK;
    if (status) printf("# rank %d: %s\n", ranks_rank, yoke_last_error());
    ranks_check(!status, "several pieces with one event");
    if (two != MPI_COMM_NULL) PMPI_Comm_free(&two);
    ranks_check(check_layouts(soak_layouts(layouts), "host", 3) >= 60, "at least 60 layouts");
    return ranks_end();
}
