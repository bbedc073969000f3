/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke_comm_explain: the choices for a call, its time by the cost model, and the reason for the choices. n is
 * a rank's data in bytes, and p the number of ranks. The rates were measured with all ranks at work, so
 * nothing is divided by the number of cores.
 */
#include <string.h>

#include "collectives/call.h"

/* Seconds per 1e9 bytes are nanoseconds per byte. The result is in microseconds. */
static double at_rate(double bytes, double gbps) { return gbps > 0 ? bytes / (gbps * 1e3) : 0; }

struct amounts {
    double p, own, all; /* number of ranks; bytes of one rank's data; bytes of the whole data */
};

/* Bytes that a rank copies to shared memory, sums, and copies from there. */
static void shared_traffic(const struct yokei_op *op, const struct amounts *a, double *put, double *summed,
                           double *picked)
{
    const bool one_shot = op->algorithm == &yokei_oneshot, direct = op->algorithm == &yokei_direct;
    const double n = a->own, rest = (a->p - 1) / a->p;
    *put = direct ? 0 : n;
    *summed = *picked = 0;
    switch (op->kind) {
    case YOKEI_ALL_REDUCE:
    case YOKEI_REDUCE:
        *summed = one_shot ? a->p * n : n;
        *picked = one_shot ? 0 : direct ? n : rest * n;
        return;
    case YOKEI_REDUCE_SCATTER: *summed = n; return;
    case YOKEI_ALL_GATHER:
    case YOKEI_GATHER: *picked = a->all; return;
    case YOKEI_SCATTER: *picked = n / a->p; return;
    case YOKEI_BARRIER:
    case YOKEI_DESTROY: *put = 0; return;
    default: *picked = n; return;
    }
}

static double predict_shared(const struct yokei_op *op, const struct amounts *a)
{
    const struct yokei_costs *c = &op->comm->costs;
    double put, summed, picked;
    shared_traffic(op, a, &put, &summed, &picked);
    /* In slices the ranks of a lane's round wait for each other three times. The lanes' rounds overlap. */
    const double looks = op->algorithm == &yokei_oneshot  ? 1
                         : op->algorithm == &yokei_direct ? 2
                                                          : 1 + 3.0 * (double)op->n_rounds / op->n_lanes;
    return looks * c->sync_us
           + at_rate(put + summed + picked, yokei_is_long(op) ? c->long_gbps : c->shared_gbps);
}

/* For message algorithms: the number of steps one after another, and the bytes that a rank sends. */
static double predict_messages(const struct yokei_op *op, const struct amounts *a)
{
    const struct yokei_costs *c = &op->comm->costs;
    const double p = a->p, wide = (double)yoke_dtype_bytes(op->wire) / (double)yoke_dtype_bytes(op->dtype);
    double steps = p - 1, bytes = a->own * wide;
    if (op->algorithm->traffic) op->algorithm->traffic(op, a->all * wide, &steps, &bytes);
    const bool sums = yokei_reduces(op);
    return steps * c->message_us + at_rate(bytes, c->message_gbps)
           + at_rate(sums ? 2 * a->own * wide : 0, c->sum_gbps);
}

/*
 * Between hosts the model counts all data that a host's ranks send. Within a host it counts only the sums,
 * which are the larger part of the work there.
 */
static double predict_hierarchy(const struct yokei_op *op, const struct amounts *a)
{
    const struct yokei_costs *c = &op->comm->costs;
    const double hosts = op->comm->hosts.n,
                 wide = (double)yoke_dtype_bytes(op->wire) / (double)yoke_dtype_bytes(op->dtype);
    const bool sums = yokei_reduces(op);
    double steps = hosts - 1, bytes = a->all * wide; /* chain */
    switch (op->crossing) {
    /* from all ranks of the host, the part for other hosts */
    case YOKEI_CROSS_EACH: steps = 1, bytes *= a->p / hosts * (hosts - 1) / hosts; break;
    case YOKEI_CROSS_LEADERS:
    case YOKEI_CROSS_SWAP: steps = 1, bytes *= hosts - 1; break;
    case YOKEI_CROSS_RING: steps = 2 * (hosts - 1), bytes *= 2 * (hosts - 1) / hosts; break;
    case YOKEI_CROSS_PARTS: bytes *= (hosts - 1) / hosts; break;
    case YOKEI_CROSS_CHAIN:
        if (op->kind == YOKEI_ALL_REDUCE) steps *= 2;
        break;
    }
    return steps * c->message_us + 2 * c->sync_us + at_rate(bytes, c->message_gbps)
           + at_rate(sums ? 2 * a->own * wide : 0, c->sum_gbps);
}

static double predict(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    const double unit = (double)yoke_dtype_bytes(op->dtype), p = comm->size;
    const bool slices = op->kind == YOKEI_ALL_GATHER || op->kind == YOKEI_GATHER;
    const struct amounts a = { .p = p,
                               .all = (double)op->count * unit,
                               .own = (double)op->count * unit / (slices ? p : 1) };
    const bool shared = op->algorithm->announces && op->algorithm != &yokei_hierarchy;
    if (comm->size == 1 || (shared ? comm->costs.shared_gbps : comm->costs.message_gbps) <= 0)
        return 0; /* not measured */
    if (op->algorithm == &yokei_hierarchy) return predict_hierarchy(op, &a);
    return shared ? predict_shared(op, &a) : predict_messages(op, &a);
}

/* Describe the slices that the ranks' shares give in this call. */
static void explain_shares(const struct yokei_op *op, char *text, size_t bytes)
{
    const yoke_comm *comm = op->comm;
    const struct yokei_shares *s = &comm->shares;
    const bool given = s->source == YOKEI_SHARES_GIVEN;
    const size_t used = strlen(text);
    if (s->source == YOKEI_SHARES_EQUAL || comm->size == 1) return;
    if (!op->before) {
        if (op->kind == YOKEI_ALL_REDUCE && !given
            && (op->algorithm == &yokei_ring
                || (op->algorithm == &yokei_hierarchy && op->crossing == YOKEI_CROSS_RING)))
            yokei_text(
                text + used, bytes - used,
                "; equal slices: in a ring they decide the order of the sums, so measured speeds do not count");
        return;
    }
    const bool in_columns = op->algorithm == &yokei_hierarchy;
    const uint32_t *before = op->algorithm == &yokei_direct ? s->plain : op->before;
    const int n = in_columns ? comm->hosts.least : comm->size;
    uint32_t least = UINT32_MAX, most = 0;
    for (int j = 0; j < n; j++) {
        least = YOKE_MIN(least, before[j + 1] - before[j]);
        most = YOKE_MAX(most, before[j + 1] - before[j]);
    }
    yokei_text(text + used, bytes - used, "; %s sum slices of %.0f%% to %.0f%%, by %s",
               in_columns ? "columns" : "ranks", 100.0 * least / before[n], 100.0 * most / before[n],
               given ? "the shares given" : "measured speeds");
}

static void explain(const struct yokei_op *op, char *text, size_t bytes)
{
    const yoke_comm *comm = op->comm;
    char forced[64] = "";
    if (op->kind == YOKEI_ALL_REDUCE && comm->forced_algorithm >= 0
        && yokei_algorithm((unsigned)comm->forced_algorithm) == op->algorithm)
        yokei_text(forced, sizeof forced, "; the configuration names it");
    if (comm->size == 1) {
        yokei_text(text, bytes, "there is one rank");
    } else if (op->algorithm == &yokei_oneshot) {
        yokei_text(
            text, bytes,
            "all %d ranks share memory; a rank shows %zu bytes, up to %.0f one shot is not slower than slices%s%s",
            comm->size, op->shown_bytes, comm->costs.oneshot_bytes,
            comm->costs.oneshot_bytes > 0 ? "" : " (not measured)", forced);
    } else if (op->algorithm == &yokei_direct) {
        yokei_text(
            text, bytes,
            "all %d ranks share memory, and have memory of yoke_comm_alloc: with buffers there nothing is copied aside, "
            "else it is slices%s",
            comm->size, forced);
    } else if (op->algorithm == &yokei_slices) {
        yokei_text(
            text, bytes,
            "all %d ranks share memory; too long for one shot: each works on its slice of chunks that stay in the caches%s",
            comm->size, forced);
    } else if (op->algorithm == &yokei_hierarchy) {
        static const char *const ways[] = {
            [YOKEI_CROSS_LEADERS] = "one message between their leaders",
            [YOKEI_CROSS_SWAP] = "sums are swapped between them",
            [YOKEI_CROSS_RING] = "sums go around in a ring of them",
            [YOKEI_CROSS_CHAIN] = "data goes along a chain of them",
            [YOKEI_CROSS_PARTS] = "each slice crosses once",
            [YOKEI_CROSS_EACH] = "one message for what a host has for another"
        };
        yokei_text(text, bytes, "%d hosts of %d to %d ranks that share memory: %s%s", comm->hosts.n,
                   comm->hosts.least, comm->hosts.most, ways[op->crossing], forced);
    } else {
        const char *where = comm->all_shared ? "messages through shared memory"
                                             : "not all ranks share memory: messages";
        const unsigned id = yokei_algorithm_id(op->algorithm);
        const bool was_chosen = op->algorithm->why
                                && (op->kind == YOKEI_ALL_REDUCE || yokei_algorithm_adds_in_rank_order(id));
        const char *what = was_chosen ? op->algorithm->why : "; the way of this collective";
        yokei_text(text, bytes, "%s%s", where, forced[0] ? forced : what);
    }
}

static void explain_copies(const yoke_comm *comm, char *text, size_t bytes)
{
    const size_t at = strlen(text);
    if (comm->any_staged && comm->size > 1)
        yokei_text(text + at, bytes - at,
                   "; copies from and to devices, in up to %d pieces at once, come on top", YOKEI_LANES);
}

yoke_status yoke_comm_explain(yoke_comm *comm, const char *collective, size_t count, yoke_dtype dtype,
                              yoke_reduction reduction, struct yoke_comm_choice *choice_out)
{
    static const char call[] = "yoke_comm_explain";
    if (!comm || !collective || !choice_out) return yoke_fail(YOKE_EINVAL, "%s: a NULL argument", call);
    YOKE_TRY(yokei_check_process(call, comm));
    unsigned kind = 0;
    while (kind < YOKEI_N_KINDS && strcmp(yokei_kind_name(kind), collective)) kind++;
    if (kind == YOKEI_N_KINDS || kind == YOKEI_SEND || kind == YOKEI_RECV || kind == YOKEI_GROUP
        || kind == YOKEI_DESTROY)
        return yoke_fail(
            YOKE_EINVAL,
            "%s: '%s' is none of all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, gather, scatter, barrier",
            call, collective);
    YOKE_TRY(yokei_check_buffer(call, "buffer", comm, 0, dtype));
    const bool reduces = yokei_kind_reduces(kind);
    if (reduces) YOKE_TRY(yokei_check_reduction(call, dtype, reduction));
    const bool each = kind == YOKEI_REDUCE_SCATTER || kind == YOKEI_ALL_GATHER || kind == YOKEI_GATHER
                      || kind == YOKEI_SCATTER || kind == YOKEI_ALL_TO_ALL;
    if (count > SIZE_MAX / 16 / (size_t)comm->size)
        return yoke_fail(YOKE_EINVAL, "%s: count %zu is too large", call, count);
    struct yokei_op *op;
    pthread_mutex_lock(&yokei_process.lock);
    const yoke_status status = yokei_op_new(comm, (enum yokei_kind)kind, &op);
    if (!status) {
        op->count = kind == YOKEI_BARRIER ? 0 : count * (each ? (size_t)comm->size : 1);
        op->dtype = dtype;
        op->reduction = reduction;
        op->root = kind == YOKEI_BROADCAST || kind == YOKEI_REDUCE || kind == YOKEI_GATHER
                           || kind == YOKEI_SCATTER
                       ? 0
                       : -1;
        yokei_choose(op, NULL, NULL);
        *choice_out = (struct yoke_comm_choice){
            .size = sizeof *choice_out,
            .chunk_bytes = YOKE_MIN(op->chunk ? op->chunk : op->count, op->count) * yoke_dtype_bytes(dtype),
            .n_lanes = op->n_lanes,
            .predicted_us = predict(op)
        };
        yokei_text(choice_out->algorithm, sizeof choice_out->algorithm, "%s",
                   yokei_algorithm_name(yokei_algorithm_id(op->algorithm)));
        explain(op, choice_out->why, sizeof choice_out->why);
        explain_shares(op, choice_out->why, sizeof choice_out->why);
        explain_copies(comm, choice_out->why, sizeof choice_out->why);
        yokei_shares_text(comm, choice_out->shares, sizeof choice_out->shares);
        yokei_costs_text(&comm->costs, choice_out->costs, sizeof choice_out->costs);
        yokei_op_free(op);
    }
    pthread_mutex_unlock(&yokei_process.lock);
    return status;
}
