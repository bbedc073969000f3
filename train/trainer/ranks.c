/* SPDX-License-Identifier: Apache-2.0 */
/* All communication of a trainer with the other ranks. A rank without communicators is alone. */
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "train/trainer/trainer.h"

void yokei_ranks(const struct yoke_trainer_config *config, int *rank_out, int *n_ranks_out)
{
    *rank_out = config->comm ? yoke_comm_rank(config->comm) : 0;
    *n_ranks_out = config->comm ? yoke_comm_size(config->comm) : 1;
}

yoke_status yokei_ranks_revoke(const struct yoke_trainer_config *config, yoke_status mine)
{
    yoke_comm *const all[] = { config->comm, config->control };
    struct yokei_error text;
    yokei_error_save(&text);
    for (size_t i = 0; i < YOKE_COUNT(all) && mine; i++)
        if (all[i]) yoke_comm_abort(all[i], text.text);
    yokei_error_restore(&text);
    return mine;
}

yoke_status yokei_ranks_gather(const struct yoke_trainer_config *config, const double *mine, int n,
                               double *all)
{
    if (!config->comm) {
        memcpy(all, mine, (size_t)n * sizeof *mine);
        return YOKE_OK;
    }
    if (!config->control)
        return yoke_fail(
            YOKE_EINVAL,
            "trainer: a communicator over the device needs one over host memory beside it (control)");
    return yoke_all_gather(mine, all, (size_t)n, YOKE_F64, config->control, NULL);
}

yoke_status yokei_ranks_gather_bytes(const struct yoke_trainer_config *config, const void *mine, size_t bytes,
                                     void *all)
{
    if (config->comm) return yoke_all_gather(mine, all, bytes, YOKE_U8, config->control, NULL);
    memcpy(all, mine, bytes);
    return YOKE_OK;
}

yoke_status yokei_ranks_agree(const struct yoke_trainer_config *config, uint64_t hash,
                              const struct yokei_mesh *mesh, const char *what)
{
    int rank, n_ranks;
    yokei_ranks(config, &rank, &n_ranks);
    double mine = (double)(hash >> 12),
           *all = calloc((size_t)n_ranks, sizeof *all); /* 52 bits are exact in a double */
    if (!all) return yokei_ranks_revoke(config, yoke_fail(YOKE_ENOMEM, "comparing ranks: no host memory"));
    yoke_status status = yokei_ranks_gather(config, &mine, 1, all);
    for (int r = 0; r < n_ranks && !status; r++) {
        const struct yokei_mesh at = mesh ? yokei_mesh_at(mesh, r) : (struct yokei_mesh){ 0 };
        const int like = mesh ? yokei_mesh_rank(mesh, 0, at.s, at.t) : 0;
        if (all[r] != all[like]) status = yoke_fail(YOKE_EMISMATCH, "ranks %d and %d %s", like, r, what);
    }
    free(all);
    return status;
}

/* The last error of this thread that all ranks have. A long text is cut. */
static _Thread_local char shared_error[640];

bool yokei_ranks_alike(void) { return shared_error[0] && strstr(yoke_last_error(), shared_error); }

yoke_status yokei_ranks_share(yoke_status status)
{
    yokei_text(shared_error, sizeof shared_error, "%s", yoke_last_error());
    return status;
}

yoke_status yokei_ranks_all_well(const struct yoke_trainer_config *config, yoke_status mine)
{
    enum { TEXT = 512 / sizeof(double), WORDS = TEXT + 1 };
    int rank, n_ranks;
    yokei_ranks(config, &rank, &n_ranks);
    if (n_ranks == 1) return mine;
    double report[WORDS] = { 0 }, *all = calloc((size_t)n_ranks * WORDS, sizeof *all);
    if (!all)
        return yokei_ranks_revoke(config, yoke_fail(YOKE_ENOMEM, "no host memory for the reports of %d ranks",
                                                    n_ranks));
    report[0] = (double)mine;
    char text[TEXT * sizeof(double)] = "";
    if (mine) yokei_text(text, sizeof text, "%s", yoke_last_error());
    memcpy(report + 1, text, sizeof text);
    yoke_status status = yokei_ranks_gather(config, report, WORDS, all);
    for (int r = 0; r < n_ranks && !status; r++) {
        const double *his = all + (size_t)r * WORDS;
        memcpy(text, his + 1, sizeof text);
        text[sizeof text - 1] = 0;
        if (his[0] <= 0) continue;
        status = yokei_ranks_share(yoke_fail((yoke_status)his[0], "rank %d: %s", r, text));
    }
    free(all);
    return status;
}

/*
 * Each element has its value on one rank and is 0 on all others. The bits are added as integers, so -0 and
 * NaN keep their bits too.
 */
yoke_status yokei_ranks_join(const struct yoke_trainer_config *config, const float *mine, int64_t n, int root,
                             float *out)
{
    return yoke_reduce(mine, out, (size_t)n, YOKE_I32, YOKE_SUM, root, config->control, NULL);
}

yoke_status yokei_ranks_count(const struct yoke_trainer_config *config, const int64_t *mine, int64_t n,
                              int64_t *sum)
{
    if (config->comm) return yoke_reduce(mine, sum, (size_t)n, YOKE_I64, YOKE_SUM, 0, config->control, NULL);
    memcpy(sum, mine, (size_t)n * sizeof *mine);
    return YOKE_OK;
}

yoke_status yokei_zero_sum(yoke_trainer *t, int parameter, yoke_comm *comm, yoke_stream *stream)
{
    size_t offset;
    const struct yoke_range r = yokei_slot_range(&t->plan.state, parameter, YOKE_TENSOR_GRADIENT, &offset);
    void *gradient = yoke_at(t->base, offset);
    return yokei_is_empty(r) ? YOKE_OK
                             : yoke_all_reduce(gradient, gradient, (size_t)(r.end - r.begin),
                                               t->plan.state.wide, YOKE_SUM, comm, stream);
}

/* ---- algorithms ---- */

/*
 * If an algorithm does not add in the order of the ranks, it uses a separate order for each slice. The slices
 * of all_reduce and reduce_scatter differ.
 */
yoke_status yokei_ranks_sums_in_order(yoke_comm *comm, int64_t n, int64_t longest, yoke_dtype dtype,
                                      bool *in_order_out)
{
    struct yoke_comm_choice whole, slices;
    YOKE_TRY(yoke_comm_explain(comm, "all_reduce", (size_t)n, dtype, YOKE_SUM, &whole));
    YOKE_TRY(yoke_comm_explain(comm, "reduce_scatter", (size_t)longest, dtype, YOKE_SUM, &slices));
    *in_order_out = whole.in_rank_order && slices.in_rank_order;
    return YOKE_OK;
}

yoke_status yokei_ranks_stay_on_host(yoke_comm *comm, bool *stay_out)
{
    struct yoke_comm_choice choice;
    YOKE_TRY(yoke_comm_explain(comm, "all_reduce", 1 << 20, YOKE_F32, YOKE_SUM, &choice));
    *stay_out = choice.reach == YOKE_REACH_ON_HOST;
    return YOKE_OK;
}

/* ---- clocks ---- */

yoke_status yokei_ranks_hand_over(const struct yoke_trainer_config *config, int from, const double *mine,
                                  size_t n, double *his)
{
    enum { PIECE = 32768 };
    int rank, n_ranks;
    yokei_ranks(config, &rank, &n_ranks);
    for (size_t at = 0; at < n && (rank == 0 || rank == from); at += PIECE) {
        const size_t some = YOKE_MIN(n - at, (size_t)PIECE);
        if (rank == from)
            YOKE_TRY(yoke_send(mine + at, some, YOKE_F64, 0, config->control, NULL));
        else
            YOKE_TRY(yoke_recv(his + at, some, YOKE_F64, from, config->control, NULL));
    }
    return YOKE_OK;
}

/* Clock values are sent as integers, because a double cannot hold all their bits. */
static yoke_status exchange_clock(yoke_comm *control, bool sends, int peer, uint64_t *ns)
{
    return sends ? yoke_send(ns, sizeof *ns, YOKE_U8, peer, control, NULL)
                 : yoke_recv(ns, sizeof *ns, YOKE_U8, peer, control, NULL);
}

/*
 * Rank 0 requests the peer's clock several times, as in NTP. The peer reads its clock between request and
 * reply. So the midpoint of the shortest round trip has an error of at most half the round-trip time. The
 * first message carries rank 0's origin, the last message the peer's origin.
 */
yoke_status yokei_ranks_clock(const struct yoke_trainer_config *config, int peer, uint64_t origin_ns,
                              bool is_shared, double *offset_out, double *error_out)
{
    enum { ROUNDS = 20 };
    int rank, n_ranks;
    yokei_ranks(config, &rank, &n_ranks);
    uint64_t shortest = UINT64_MAX, his_origin = origin_ns;
    int64_t ahead = 0; /* the peer's clock minus this rank's clock */
    for (int i = 0; i < (is_shared ? 0 : ROUNDS); i++) {
        uint64_t asked = yokei_now_ns(), his = 0;
        if (rank != 0) {
            YOKE_TRY(exchange_clock(config->control, false, 0, &asked));
            his = yokei_now_ns();
            YOKE_TRY(exchange_clock(config->control, true, 0, &his));
            continue;
        }
        YOKE_TRY(exchange_clock(config->control, true, peer, &asked));
        YOKE_TRY(exchange_clock(config->control, false, peer, &his));
        const uint64_t took = yokei_now_ns() - asked;
        if (took >= shortest) continue;
        shortest = took;
        ahead = (int64_t)(his - (asked + took / 2));
    }
    YOKE_TRY(exchange_clock(config->control, rank != 0, rank ? 0 : peer, &his_origin));
    /* the peer's time since its origin, plus this offset, is this rank's time since its own origin */
    *offset_out = (double)((int64_t)(his_origin - origin_ns) - ahead) * 1e-9;
    *error_out = is_shared ? 0 : (double)(shortest / 2) * 1e-9;
    return YOKE_OK;
}

yoke_status yokei_ranks_join_all(const struct yoke_trainer_config *config, float *values, int64_t n)
{
    return config->control
               ? yoke_all_reduce(values, values, (size_t)n, YOKE_I32, YOKE_SUM, config->control, NULL)
               : YOKE_OK;
}

/* ---- the ranks that share a layer's tensors ---- */

static yoke_status tensor_sum(void *comm, void *x, int64_t n, yoke_dtype dtype, yoke_stream *stream)
{
    return yoke_all_reduce(x, x, (size_t)n, dtype, YOKE_SUM, comm, stream);
}

/* The collectives count in size_t. All ranks pass the same counts. */
static const size_t *unsigned_counts(const yoke_comm *comm, const int64_t counts[],
                                     size_t out[YOKE_MAX_TENSOR])
{
    for (int r = 0; r < yoke_comm_size(comm) && r < YOKE_MAX_TENSOR; r++) out[r] = (size_t)counts[r];
    return out;
}

static yoke_status tensor_gather(void *comm, const void *mine, void *all, const int64_t counts[],
                                 yoke_dtype dtype, yoke_stream *stream)
{
    size_t elements[YOKE_MAX_TENSOR];
    return yoke_all_gather_v(mine, all, unsigned_counts(comm, counts, elements), dtype, comm, stream);
}

static yoke_status tensor_scatter_sum(void *comm, const void *all, void *mine, const int64_t counts[],
                                      yoke_dtype dtype, yoke_stream *stream)
{
    size_t elements[YOKE_MAX_TENSOR];
    return yoke_reduce_scatter_v(all, mine, unsigned_counts(comm, counts, elements), dtype, YOKE_SUM, comm,
                                 stream);
}

struct yoke_tensor_group yokei_ranks_tensor(yoke_comm *comm)
{
    return (struct yoke_tensor_group){ sizeof(struct yoke_tensor_group), comm, tensor_sum, tensor_gather,
                                       tensor_scatter_sum };
}

void yokei_ranks_busy(const struct yoke_trainer_config *config, const char *what)
{
    if (config->comm) yoke_comm_busy(config->comm, what);
    if (config->control) yoke_comm_busy(config->control, what);
}

/* ---- the groups of a mesh ---- */

/*
 * Split a communicator into groups of ranks with the same colour. A rank with a colour below 0 takes part in
 * the call but gets no communicator.
 */
static yoke_status split(yoke_comm *from, int color, int key, const char *name, enum yoke_reproducible sums,
                         yoke_comm **comm_out)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.name = name;
    config.reproducible = sums;
    return yoke_comm_split(from, color, key, &config, comm_out);
}

/*
 * Create a communicator for each direction between stages `b` and b + 1 (after the last stage comes the
 * first). With one per direction, a message that is not yet received delays no other message. The
 * communicator has two ranks. If the stages have different widths, it has all ranks of both.
 */
static yoke_status connect_stages(yoke_comm *from, const struct yokei_mesh *m, int b, struct yokei_groups *g)
{
    const int after = (b + 1) % m->pipeline;
    const bool is_member = m->s == b || m->s == after, pairs = yokei_mesh_pairs(m, b, after);
    const int color = pairs ? m->d * m->tensor + m->t : m->d;
    const int key = pairs ? m->s != b : m->s == b ? m->t : yokei_mesh_width(m, b) + m->t;
    for (int way = 0; way < 2; way++) {
        yoke_comm *comm = NULL;
        YOKE_TRY(split(from, is_member ? color : -1, key, way ? "gradients" : "activations",
                       YOKE_REPRODUCIBLE_RUN, &comm));
        if (m->s == b)
            g->next[way] = comm;
        else if (is_member)
            g->previous[way] = comm;
    }
    return YOKE_OK;
}

/*
 * Create the communicators that sum the gradients of tied parameters: one for a pair of counterparts, or one
 * for each pair whose rows overlap.
 */
static yoke_status connect_tied(yoke_comm *from, const struct yokei_trainer_plan *p, struct yokei_groups *g)
{
    const struct yokei_mesh *m = &p->mesh;
    const int last = m->pipeline - 1, column = m->d * m->tensor + m->t;
    if (!p->n_ties)
        return split(from, m->s == 0 || m->s == last ? column : -1, m->s, "tied", YOKE_REPRODUCIBLE_RUN,
                     &g->tied);
    g->ties = calloc((size_t)p->n_ties, sizeof *g->ties);
    if (!g->ties) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d communicators", p->n_ties);
    for (g->n_ties = 0; g->n_ties < p->n_ties; g->n_ties++) {
        const struct yokei_tie *tie = &p->ties[g->n_ties];
        const bool is_member = (m->s == 0 && m->t == tie->first) || (m->s == last && m->t == tie->last);
        YOKE_TRY(
            split(from, is_member ? m->d : -1, m->s, "tied", YOKE_REPRODUCIBLE_RUN, &g->ties[g->n_ties]));
    }
    return YOKE_OK;
}

yoke_status yokei_groups_create(const struct yoke_trainer_config *config, const struct yokei_trainer_plan *p,
                                struct yokei_groups *g)
{
    yoke_comm *all = config->comm;
    const struct yokei_mesh *m = &p->mesh;
    const int n_borders = m->pipeline == 1 ? 0 : m->pipeline - (m->chunks == 1);
    int widest = 0;
    memset(g, 0, sizeof *g);
    /* stage 0's border with stage 1 is the first border, and its border with the last stage is the last */
    g->earlier_is_next = m->s == 0;
    if (!all) return YOKE_OK;
    for (int s = 0; s < m->pipeline; s++) widest = YOKE_MAX(widest, yokei_mesh_width(m, s));
    if (m->data > 1 && m->data < yokei_mesh_size(m))
        YOKE_TRY(
            split(all, yokei_mesh_rank(m, 0, m->s, m->t), m->d, "data", YOKE_REPRODUCIBLE_RUN, &g->data));
    if (widest > 1) {
        YOKE_TRY(split(all, m->tensor > 1 ? yokei_mesh_rank(m, m->d, m->s, 0) : -1, m->t, "tensor",
                       YOKE_REPRODUCIBLE_SHAPE, &g->tensor));
        if (g->tensor) g->tensor_group = yokei_ranks_tensor(g->tensor);
    }
    for (int b = 0; b < n_borders; b++) YOKE_TRY(connect_stages(all, m, b, g));
    return p->has_tied ? connect_tied(all, p, g) : YOKE_OK;
}

enum { N_GROUPS = 7 };
/* List the communicators in the same order on all ranks: border by border, with the ties last. */
static void list_groups(const struct yokei_groups *g, yoke_comm *list[N_GROUPS])
{
    yoke_comm *const *const a = g->earlier_is_next ? g->next : g->previous;
    yoke_comm *const *const b = g->earlier_is_next ? g->previous : g->next;
    yoke_comm *const all[N_GROUPS] = { g->data, g->tensor, a[0], a[1], b[0], b[1], g->tied };
    memcpy(list, all, sizeof all);
}

/* Destroying a communicator is collective. */
void yokei_groups_destroy(struct yokei_groups *g)
{
    yoke_comm *all[N_GROUPS];
    list_groups(g, all);
    for (int i = 0; i < N_GROUPS; i++)
        if (all[i]) yoke_comm_destroy(all[i]);
    for (int i = 0; i < g->n_ties; i++)
        if (g->ties[i]) yoke_comm_destroy(g->ties[i]);
    free(g->ties);
    memset(g, 0, sizeof *g);
}

void yokei_groups_revoke(struct yokei_groups *g, const char *why)
{
    yoke_comm *all[N_GROUPS];
    list_groups(g, all);
    for (int i = 0; i < N_GROUPS; i++)
        if (all[i]) yoke_comm_abort(all[i], why);
    for (int i = 0; i < g->n_ties; i++)
        if (g->ties[i]) yoke_comm_abort(g->ties[i], why);
}

yoke_status yokei_groups_error(const struct yokei_groups *g, const struct yoke_trainer_config *config)
{
    yoke_comm *all[N_GROUPS];
    list_groups(g, all);
    for (int i = 0; i < N_GROUPS; i++)
        if (all[i]) YOKE_TRY(yoke_comm_error(all[i]));
    for (int i = 0; i < g->n_ties; i++)
        if (g->ties[i]) YOKE_TRY(yoke_comm_error(g->ties[i]));
    return config->comm ? yoke_comm_error(config->comm) : YOKE_OK;
}

/* ---- messages between stages ---- */

static yoke_status exchange(bool sends, void *data, int64_t n, yoke_dtype dtype, int peer, yoke_comm *comm,
                            yoke_stream *stream, yoke_event *done)
{
    if (sends)
        return stream ? yoke_send(data, (size_t)n, dtype, peer, comm, stream)
                      : yoke_isend(data, (size_t)n, dtype, peer, comm, done);
    return stream ? yoke_recv(data, (size_t)n, dtype, peer, comm, stream)
                  : yoke_irecv(data, (size_t)n, dtype, peer, comm, done);
}

/* A rank may have nothing to send to a stage with fewer ranks. Then the message is complete at once. */
static yoke_status exchange_pieces(bool sends, const struct yoke_piece *pieces, int n, yoke_dtype dtype,
                                   yoke_comm *comm, yoke_stream *stream, yoke_event *done)
{
    if (!n) return YOKE_OK;
    if (!stream)
        return sends ? yoke_isend_pieces(pieces, n, dtype, comm, done)
                     : yoke_irecv_pieces(pieces, n, dtype, comm, done);
    YOKE_TRY(yoke_group_start());
    yoke_status status = YOKE_OK;
    for (int i = 0; i < n && !status; i++)
        status = exchange(sends, pieces[i].data, (int64_t)pieces[i].count, dtype, pieces[i].peer, comm,
                          stream, NULL);
    const yoke_status ended = yoke_group_end();
    return status ? status : ended;
}

/* The rows of a message that rank t of a stage holds. */
static struct yoke_range rows_at(const struct yokei_mesh *m, const struct yokei_message *x, int s, int t)
{
    const int width = yokei_mesh_width(m, s);
    const struct yoke_place place = { .size = sizeof place,
                                      .tensor_rank = t,
                                      .tensor_size = width,
                                      .sequence_parallel = x->is_cut && width > 1 };
    return yoke_place_rows(&place, x->n_rows);
}

/*
 * The rows that `sender` of stage `from` sends to `receiver` of stage `to`. If all senders hold the same
 * rows, one of them sends. If each sender holds its own rows, it sends the rows that the receiver must hold.
 */
static struct yoke_range rows_between(const struct yokei_mesh *m, const struct yokei_message *x, int from,
                                      int sender, int to, int receiver)
{
    const int n_from = yokei_mesh_width(m, from), n_to = yokei_mesh_width(m, to);
    const struct yoke_range has = rows_at(m, x, from, sender), wants = rows_at(m, x, to, receiver);
    struct yoke_range both = { YOKE_MAX(has.begin, wants.begin), YOKE_MIN(has.end, wants.end) };
    const bool is_its = (x->is_cut && n_from > 1) || receiver * n_from / n_to == sender;
    if (!is_its || both.end < both.begin) both.end = both.begin;
    return both;
}

yoke_status yokei_groups_message(const struct yokei_groups *g, const struct yokei_mesh *m,
                                 const struct yokei_message *x, yoke_stream *stream, yoke_event *done)
{
    const bool forward = x->kind == YOKEI_SEND_ACTIVATION || x->kind == YOKEI_RECEIVE_ACTIVATION;
    const bool sends = x->kind == YOKEI_SEND_ACTIVATION || x->kind == YOKEI_SEND_GRADIENT;
    const bool to_next = forward
                         == sends; /* activations go to the next stage, and gradients come from there */
    const int other = (m->s + (to_next ? 1 : m->pipeline - 1)) % m->pipeline;
    const struct yoke_range own = rows_at(m, x, m->s, m->t);
    yoke_comm *comm = (to_next ? g->next : g->previous)[!forward];
    if (yokei_mesh_pairs(m, m->s, other))
        return exchange(sends, x->data, (own.end - own.begin) * x->columns, x->dtype, to_next, comm, stream,
                        done);
    struct yoke_piece pieces[YOKE_MAX_TENSOR];
    int n = 0;
    for (int t = 0; t < yokei_mesh_width(m, other) && n < YOKE_MAX_TENSOR; t++) {
        const struct yoke_range rows = sends ? rows_between(m, x, m->s, m->t, other, t)
                                             : rows_between(m, x, other, t, m->s, m->t);
        if (rows.begin < rows.end)
            pieces[n++] = (struct yoke_piece){
                yoke_at(x->data,
                        (size_t)((rows.begin - own.begin) * x->columns) * yoke_dtype_bytes(x->dtype)),
                (size_t)((rows.end - rows.begin) * x->columns), to_next ? yokei_mesh_width(m, m->s) + t : t
            };
    }
    return exchange_pieces(sends, pieces, n, x->dtype, comm, stream, done);
}

/* ---- host memory of all communicators ---- */

/* Add the memory of one communicator. */
static yoke_status add_footprint(const struct yoke_comm_shape *like, int n_ranks, int n_sends, int n_receives,
                                 bool is_staged, size_t sum[2])
{
    struct yoke_comm_shape shape = *like;
    struct yoke_comm_memory memory;
    shape.n_ranks = n_ranks, shape.n_sends = n_sends, shape.n_receives = n_receives;
    shape.is_staged = is_staged;
    YOKE_TRY(yoke_comm_shape_memory(&shape, &memory));
    sum[0] += memory.shared;
    sum[1] += memory.private_bytes;
    return YOKE_OK;
}

/*
 * Add the two communicators over a border with a neighbouring stage. Count the ranks to which this rank sends
 * and from which it receives.
 */
static yoke_status add_border(const struct yoke_comm_shape *like, const struct yokei_mesh *m,
                              const struct yokei_message *x, int other, bool is_staged, size_t sum[2])
{
    const bool pairs = yokei_mesh_pairs(m, m->s, other);
    int n_sends = pairs, n_receives = pairs;
    for (int t = 0; t < yokei_mesh_width(m, other) && !pairs; t++) {
        const struct yoke_range out = rows_between(m, x, m->s, m->t, other, t),
                                in = rows_between(m, x, other, t, m->s, m->t);
        n_sends += out.begin < out.end;
        n_receives += in.begin < in.end;
    }
    const int n = pairs ? 2 : yokei_mesh_width(m, m->s) + yokei_mesh_width(m, other);
    YOKE_TRY(add_footprint(like, n, n_sends, 0, is_staged,
                           sum)); /* activations in one direction, gradients in the other */
    return add_footprint(like, n, 0, n_receives, is_staged, sum);
}

/* Add the communicators that yokei_groups_create creates. */
static yoke_status add_groups(const struct yoke_comm_shape *like, const struct yoke_trainer_config *config,
                              const struct yokei_trainer_plan *p, bool is_staged, size_t sum[2])
{
    const struct yokei_mesh *m = &p->mesh;
    const struct yokei_message x = { .n_rows = p->micro_batch * config->sequence,
                                     .is_cut = config->sequence_parallel };
    const int n_borders = m->pipeline == 1 ? 0 : m->pipeline - (m->chunks == 1), last = m->pipeline - 1;
    int n_ties = p->has_tied && !p->n_ties && (m->s == 0 || m->s == last);
    if (m->data > 1 && m->data < yokei_mesh_size(m))
        YOKE_TRY(add_footprint(like, m->data, 0, 0, is_staged, sum));
    if (m->tensor > 1) YOKE_TRY(add_footprint(like, m->tensor, 0, 0, is_staged, sum));
    for (int b = 0; b < n_borders; b++) {
        const int after = (b + 1) % m->pipeline;
        if (m->s == b || m->s == after)
            YOKE_TRY(add_border(like, m, &x, m->s == b ? after : b, is_staged, sum));
    }
    for (int i = 0; i < p->n_ties; i++)
        n_ties += (m->s == 0 && m->t == p->ties[i].first) || (m->s == last && m->t == p->ties[i].last);
    for (int i = 0; i < n_ties; i++) YOKE_TRY(add_footprint(like, 2, 0, 0, is_staged, sum));
    return YOKE_OK;
}

yoke_status yokei_groups_footprint(const struct yoke_trainer_config *config,
                                   const struct yokei_trainer_plan *p, bool is_staged, size_t *shared_out,
                                   size_t *private_out)
{
    const int n = yokei_mesh_size(&p->mesh);
    struct yoke_comm_shape like = YOKE_COMM_SHAPE_INIT;
    struct yoke_comm_memory made;
    size_t sum[2] = { 0, 0 };
    *shared_out = *private_out = 0;
    if (n == 1) return YOKE_OK;
    if (config->comm) {
        YOKE_TRY(yoke_comm_memory(config->comm, &made));
        like.is_far = made.is_far;
        like.no_shared = made.shared == 0;
    }
    YOKE_TRY(add_footprint(&like, n, 0, 0, is_staged && p->mesh.data == n,
                           sum));                        /* the communicator for gradients */
    YOKE_TRY(add_footprint(&like, n, 0, 0, false, sum)); /* the control communicator */
    YOKE_TRY(add_groups(&like, config, p, is_staged, sum));
    *shared_out = sum[0];
    *private_out = sum[1];
    return YOKE_OK;
}

size_t yokei_ranks_taken(const struct yoke_trainer_config *config)
{
    const yoke_comm *const given[] = { config->comm, config->control };
    size_t sum = 0;
    for (size_t i = 0; i < YOKE_COUNT(given); i++) {
        struct yoke_comm_memory memory;
        if (given[i] && !yoke_comm_memory(given[i], &memory)) sum += memory.shared + memory.private_bytes;
    }
    return sum;
}
