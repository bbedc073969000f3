/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer asks of the other ranks. A rank without communicators is alone. */
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "train/trainer.h"

void yokei_ranks(const struct yoke_trainer_config *config, int *rank_out, int *n_ranks_out)
{
    *rank_out = config->comm ? yoke_comm_rank(config->comm) : 0;
    *n_ranks_out = config->comm ? yoke_comm_size(config->comm) : 1;
}

yoke_status yokei_ranks_gather(const struct yoke_trainer_config *config, const double *mine, int n, double *all)
{
    if (!config->comm) {
        memcpy(all, mine, (size_t)n * sizeof *mine);
        return YOKE_OK;
    }
    if (!config->control)
        return yoke_fail(YOKE_EINVAL, "trainer: a communicator over the device needs one over host memory beside it (control)");
    return yoke_all_gather(mine, all, (size_t)n, YOKE_F64, config->control, NULL);
}

yoke_status yokei_ranks_agree(const struct yoke_trainer_config *config, uint64_t hash, const struct yokei_mesh *mesh, const char *what)
{
    int rank, n_ranks;
    yokei_ranks(config, &rank, &n_ranks);
    double mine = (double)(hash >> 12), *all = calloc((size_t)n_ranks, sizeof *all); /* 52 bits: exact */
    if (!all) return yoke_fail(YOKE_ENOMEM, "comparing ranks: no host memory");
    yoke_status status = yokei_ranks_gather(config, &mine, 1, all);
    for (int r = 0; r < n_ranks && !status; r++) {
        const struct yokei_mesh at = mesh ? yokei_mesh_at(mesh, r) : (struct yokei_mesh){ 0 };
        const int like = mesh ? yokei_mesh_rank(mesh, 0, at.s, at.t) : 0;
        if (all[r] != all[like]) status = yoke_fail(YOKE_EMISMATCH, "ranks %d and %d %s", like, r, what);
    }
    free(all);
    return status;
}

yoke_status yokei_ranks_all_well(const struct yoke_trainer_config *config, yoke_status mine)
{
    enum { TEXT = 512 / sizeof(double), WORDS = TEXT + 1 };
    int rank, n_ranks;
    yokei_ranks(config, &rank, &n_ranks);
    if (n_ranks == 1) return mine;
    double said[WORDS] = { 0 }, *all = calloc((size_t)n_ranks * WORDS, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "no host memory for %d ranks", n_ranks);
    said[0] = (double)mine;
    char text[TEXT * sizeof(double)] = "";
    if (mine) yokei_text(text, sizeof text, "%s", yoke_last_error());
    memcpy(said + 1, text, sizeof text);
    yoke_status status = yokei_ranks_gather(config, said, WORDS, all);
    for (int r = 0; r < n_ranks && !status; r++) {
        const double *his = all + (size_t)r * WORDS;
        memcpy(text, his + 1, sizeof text);
        text[sizeof text - 1] = 0;
        if (his[0] > 0) status = yoke_fail((yoke_status)his[0], "rank %d: %s", r, text);
    }
    free(all);
    return status;
}

/* Where each element is one rank's and 0 on the others: bits are added as integers, which leaves those of -0 and NaN alone, too. */
yoke_status yokei_ranks_join(const struct yoke_trainer_config *config, const float *mine, int64_t n, int root, float *out)
{
    return yoke_reduce(mine, out, (size_t)n, YOKE_I32, YOKE_SUM, root, config->control, NULL);
}

yoke_status yokei_ranks_sum(yoke_comm *comm, void *gradients, int64_t n, yoke_dtype dtype, yoke_stream *stream)
{
    return yoke_all_reduce(gradients, gradients, (size_t)n, dtype, YOKE_SUM, comm, stream);
}

yoke_status yokei_ranks_join_all(const struct yoke_trainer_config *config, float *values, int64_t n)
{
    return config->control ? yoke_all_reduce(values, values, (size_t)n, YOKE_I32, YOKE_SUM, config->control, NULL) : YOKE_OK;
}

yoke_status yokei_ranks_group(bool begin) { return begin ? yoke_group_start() : yoke_group_end(); }

/* ---- the ranks that share a layer's tensors ---- */

static yoke_status tensor_sum(void *comm, void *x, int64_t n, yoke_dtype dtype, yoke_stream *stream)
{
    return yoke_all_reduce(x, x, (size_t)n, dtype, YOKE_SUM, comm, stream);
}

/* The collectives count in size_t; all ranks pass the same. */
static const size_t *unsigned_counts(const yoke_comm *comm, const int64_t counts[], size_t out[YOKE_MAX_TENSOR])
{
    for (int r = 0; r < yoke_comm_size(comm) && r < YOKE_MAX_TENSOR; r++) out[r] = (size_t)counts[r];
    return out;
}

static yoke_status tensor_gather(void *comm, const void *mine, void *all, const int64_t counts[], yoke_dtype dtype, yoke_stream *stream)
{
    size_t elements[YOKE_MAX_TENSOR];
    return yoke_all_gather_v(mine, all, unsigned_counts(comm, counts, elements), dtype, comm, stream);
}

static yoke_status tensor_scatter_sum(void *comm, const void *all, void *mine, const int64_t counts[], yoke_dtype dtype, yoke_stream *stream)
{
    size_t elements[YOKE_MAX_TENSOR];
    return yoke_reduce_scatter_v(all, mine, unsigned_counts(comm, counts, elements), dtype, YOKE_SUM, comm, stream);
}

struct yoke_tensor_group yokei_ranks_tensor(yoke_comm *comm)
{
    return (struct yoke_tensor_group){ sizeof(struct yoke_tensor_group), comm, tensor_sum, tensor_gather, tensor_scatter_sum };
}

void yokei_ranks_busy(const struct yoke_trainer_config *config, const char *what)
{
    if (config->comm) yoke_comm_busy(config->comm, what);
    if (config->control) yoke_comm_busy(config->control, what);
}

/* ---- the groups of a mesh ---- */

/* The ranks that give the same colour; a colour below 0 takes part in the call only. */
static yoke_status split(yoke_comm *from, int color, int key, const char *name, enum yoke_reproducible sums, yoke_comm **comm_out)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.name = name;
    config.reproducible = sums;
    return yoke_comm_split(from, color, key, &config, comm_out);
}

/*
 * Between stages `b` and b + 1 (the first one behind the last) one communicator of two ranks for each direction, so that a message
 * that waits for its receiver holds up no other.
 */
static yoke_status connect_stages(yoke_comm *from, const struct yokei_mesh *m, int b, struct yokei_groups *g)
{
    const int after = (b + 1) % m->pipeline, column = m->d * m->tensor + m->t;
    const bool is_member = m->s == b || m->s == after;
    for (int way = 0; way < 2; way++) {
        yoke_comm *comm = NULL;
        YOKE_TRY(split(from, is_member ? column : -1, m->s == b ? 0 : 1, way ? "gradients" : "activations", YOKE_REPRODUCIBLE_RUN, &comm));
        if (m->s == b) g->next[way] = comm;
        else if (is_member) g->previous[way] = comm;
    }
    return YOKE_OK;
}

yoke_status yokei_groups_create(const struct yoke_trainer_config *config, const struct yokei_mesh *m, bool has_tied, struct yokei_groups *g)
{
    yoke_comm *all = config->comm;
    const int column = m->d * m->tensor + m->t, n_borders = m->pipeline == 1 ? 0 : m->pipeline - (m->chunks == 1);
    memset(g, 0, sizeof *g);
    g->earlier_is_next = m->s == 0; /* its border with the second stage is the first one, that with the last stage the last */
    if (!all) return YOKE_OK;
    if (m->data > 1 && m->data < yokei_mesh_size(m)) YOKE_TRY(split(all, m->s * m->tensor + m->t, m->d, "data", YOKE_REPRODUCIBLE_RUN, &g->data));
    if (m->tensor > 1) {
        YOKE_TRY(split(all, m->s * m->data + m->d, m->t, "tensor", YOKE_REPRODUCIBLE_SHAPE, &g->tensor));
        g->tensor_group = yokei_ranks_tensor(g->tensor);
    }
    for (int b = 0; b < n_borders; b++) YOKE_TRY(connect_stages(all, m, b, g));
    if (has_tied) YOKE_TRY(split(all, m->s == 0 || m->s == m->pipeline - 1 ? column : -1, m->s, "tied", YOKE_REPRODUCIBLE_RUN, &g->tied));
    return YOKE_OK;
}

enum { N_GROUPS = 7 };

/* In one order on all ranks, border after border. */
static void list_groups(const struct yokei_groups *g, yoke_comm *list[N_GROUPS])
{
    yoke_comm *const *const first = g->earlier_is_next ? g->next : g->previous, *const *const second = g->earlier_is_next ? g->previous : g->next;
    yoke_comm *const all[N_GROUPS] = { g->data, g->tensor, first[0], first[1], second[0], second[1], g->tied };
    memcpy(list, all, sizeof all);
}

/* Destroying is collective. */
void yokei_groups_destroy(struct yokei_groups *g)
{
    yoke_comm *all[N_GROUPS];
    list_groups(g, all);
    for (int i = 0; i < N_GROUPS; i++)
        if (all[i]) yoke_comm_destroy(all[i]);
    memset(g, 0, sizeof *g);
}

yoke_status yokei_groups_error(const struct yokei_groups *g, const struct yoke_trainer_config *config)
{
    yoke_comm *all[N_GROUPS];
    list_groups(g, all);
    for (int i = 0; i < N_GROUPS; i++)
        if (all[i]) YOKE_TRY(yoke_comm_error(all[i]));
    return config->comm ? yoke_comm_error(config->comm) : YOKE_OK;
}

yoke_status yokei_groups_message(const struct yokei_groups *g, enum yokei_instruction_kind kind, void *data, int64_t n, yoke_dtype dtype,
                                 yoke_stream *stream, yoke_event *done)
{
    const bool forward = kind == YOKEI_SEND_ACTIVATION || kind == YOKEI_RECEIVE_ACTIVATION, sends = kind == YOKEI_SEND_ACTIVATION || kind == YOKEI_SEND_GRADIENT;
    const bool to_next = forward == sends; /* activations go to the next stage, gradients come from there */
    yoke_comm *comm = (to_next ? g->next : g->previous)[!forward];
    const int peer = to_next;
    if (sends) return stream ? yoke_send(data, (size_t)n, dtype, peer, comm, stream) : yoke_isend(data, (size_t)n, dtype, peer, comm, done);
    return stream ? yoke_recv(data, (size_t)n, dtype, peer, comm, stream) : yoke_irecv(data, (size_t)n, dtype, peer, comm, done);
}
