/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choose the algorithm of an operation, its chunks, and the number of its lanes. The choice may depend only
 * on facts that all ranks share.
 */
#include "collectives/choice/choice.h"

#include "collectives/algorithms/hierarchy.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shm.h"

/*
 * In shared memory 64 KiB was fastest at every size, because the chunks in flight stay in the cores' own
 * caches.
 */
enum {
    SMALL_BYTES = 16 << 10,
    LEAST_SHARED_CHUNK = 16 << 10,
    SHARED_CHUNK = 64 << 10,
    LEAST_CHUNK = 64 << 10
};
enum { ONESHOT_OWN_CORES = 16 << 10, STAGED_LEAST = 32 << 10 };
enum { SWAP_BYTES = 64 << 10, LEAST_CROSSING = 8 << 10, MOST_IN_RING = 8 /* hosts */ };

static void choose_chunks(struct yokei_op *op, size_t longest)
{
    const yoke_comm *comm = op->comm;
    const size_t bytes = YOKE_MAX(yoke_dtype_bytes(op->dtype), yoke_dtype_bytes(op->wire));
    const bool in_caches = comm->all_shared && !comm->settings.chunk_is_forced;
    const size_t most = YOKE_MAX((in_caches ? YOKE_MIN(comm->settings.chunk_bytes, (size_t)SHARED_CHUNK)
                                            : comm->settings.chunk_bytes)
                                     / bytes,
                                 1);
    const size_t worth = comm->all_shared ? LEAST_SHARED_CHUNK
                                          : LEAST_CHUNK; /* a message over MPI costs more */
    const size_t least = comm->settings.chunk_is_forced ? most : YOKE_MIN(worth / bytes, most);
    /* Chunks are multiples of 64 elements, so that they begin where vectors do. */
    const size_t even = ((longest + YOKEI_LANES - 1) / YOKEI_LANES + 63) / 64 * 64;
    op->chunk = YOKE_MIN(YOKE_MAX(even, least), most);
    op->n_rounds = longest ? (longest + op->chunk - 1) / op->chunk : 1;
    op->n_lanes = (int)YOKE_MIN(op->n_rounds, (size_t)YOKEI_LANES);
}

static void choose_slices(struct yokei_op *op, const size_t counts[], const size_t send_counts[])
{
    const int size = op->comm->size;
    op->slices = op->slices_room;
    op->send_slices = send_counts ? op->slices_room + size + 1 : op->slices;
    op->slices[0] = op->send_slices[0] = 0;
    for (int r = 0; r < size; r++) {
        size_t length = counts ? counts[r]
                               : op->count / (size_t)size + ((size_t)r < op->count % (size_t)size);
        if (op->before) length = yokei_slice_begin(op->before, size, op->count, 16, r + 1) - op->slices[r];
        op->slices[r + 1] = op->slices[r] + length;
        if (send_counts) op->send_slices[r + 1] = op->send_slices[r] + send_counts[r];
    }
}

/*
 * The shares, for operations in which the ranks divide sums; NULL: equal shares. Measured shares may differ
 * in the next run, so they must not change bits. Given shares may.
 */
static const uint32_t *uneven(const struct yokei_op *op, const uint32_t *before, bool changes_bits)
{
    const enum yokei_shares_source source = op->comm->shares.source;
    const bool divides = op->kind == YOKEI_ALL_REDUCE || op->kind == YOKEI_REDUCE;
    return divides && (source == YOKEI_SHARES_GIVEN || (source == YOKEI_SHARES_MEASURED && !changes_bits))
               ? before
               : NULL;
}

/*
 * The stage holds one slice of a chunk for each rank, or one slice for all ranks. Both parts of the stage
 * have the same size. Ranks that share a core must give it to each other. This costs as much as copying
 * tens of KiB, and the caches lose their data. So such ranks have fewer and longer stages.
 */
static void choose_stages(struct yokei_op *op)
{
    const size_t size = (size_t)op->comm->size, bytes = yoke_dtype_bytes(op->dtype);
    const bool whole = op->kind == YOKEI_ALL_REDUCE || op->kind == YOKEI_REDUCE
                       || op->kind == YOKEI_BROADCAST;
    const bool one = op->kind == YOKEI_ALL_GATHER || op->kind == YOKEI_GATHER;
    const size_t room = yokei_stage_bytes(op->comm) / bytes / (one ? 1 : size) / 16 * 16;
    const size_t most = whole ? room * size : room, length = whole ? op->count : yokei_longest_slice(op);
    const size_t unit = whole ? 16 * size : 16;
    /* Each copy from or to a device takes a fixed time. So there are fewer and longer copies, and more of
       them are in flight. */
    const bool staged = op->comm->any_staged && !op->on_host;
    const size_t least = staged ? most : STAGED_LEAST / bytes / unit * unit;
    const size_t lanes = staged                            ? YOKEI_LANES
                         : yokei_has_wide_stages(op->comm) ? YOKEI_WIDE_LANES
                                                           : YOKEI_SHARED_LANES;
    /* the other ranks wait until the first piece is there */
    const size_t pieces = op->kind == YOKEI_BROADCAST ? YOKE_MAX(lanes, YOKEI_SHARED_LANES) : lanes;
    const size_t even = ((length + pieces - 1) / pieces + unit - 1) / unit * unit;
    op->chunk = YOKE_MIN(YOKE_MAX(YOKE_MAX(even, least), unit), most);
    op->n_rounds = YOKE_MAX((length + op->chunk - 1) / op->chunk, 1);
    op->n_lanes = (int)YOKE_MIN(op->n_rounds, lanes);
}

/* The algorithm that the configuration names for this operation; NULL: none. */
static const struct yokei_algorithm *named_algorithm(const struct yokei_op *op)
{
    const int id = op->comm->settings.forced_algorithm;
    return op->kind == YOKEI_ALL_REDUCE && id >= 0 ? yokei_algorithm((unsigned)id) : NULL;
}

/* Whether the configuration names no algorithm for this operation, or one that works between such ranks. */
static bool may_reach(const struct yokei_op *op, enum yoke_reach reach)
{
    return !named_algorithm(op) || yokei_algorithm_reach(yokei_algorithm_id(named_algorithm(op))) == reach;
}

static bool may_share(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    if (comm->size == 1 || !comm->all_shared || op->send_slices != op->slices) return false;
    if (named_algorithm(op)) return may_reach(op, YOKE_REACH_ON_HOST);
    return (size_t)comm->size * 16 * sizeof(double) <= YOKEI_STAGE_BYTES;
}

static bool can_be_direct(const struct yokei_op *op)
{
    const int id = op->comm->settings.forced_algorithm;
    switch (op->kind) {
    case YOKEI_ALL_REDUCE:
    case YOKEI_REDUCE_SCATTER:
    case YOKEI_ALL_GATHER:
    case YOKEI_BROADCAST:
    case YOKEI_ALL_TO_ALL: return id < 0 || yokei_algorithm((unsigned)id)->in_allocations;
    default: return false;
    }
}

/* The most bytes that a rank publishes in one piece. */
static size_t most_in_one_piece(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    if (named_algorithm(op)) return named_algorithm(op)->one_piece ? YOKEI_ONESHOT_BYTES : 0;
    if (comm->costs.oneshot_bytes > 0)
        return YOKE_MIN((size_t)comm->costs.oneshot_bytes, (size_t)YOKEI_ONESHOT_BYTES);
    return comm->n_on_host <= comm->n_cores ? ONESHOT_OWN_CORES : YOKEI_ONESHOT_BYTES;
}

static void choose_shared(struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    op->published_bytes = yokei_published_bytes(op);
    op->measured_bytes = comm->costs.oneshot_bytes;
    op->n_lanes = 1;
    op->n_rounds = 1;
    op->algorithm = &yokei_oneshot;
    if (op->published_bytes <= most_in_one_piece(op)) return;
    /* The buffers may lie in memory of yoke_comm_alloc, if there ever was any. This is known only when all
       ranks have announced where their buffers lie. */
    op->algorithm = comm->memory.n_allocations && can_be_direct(op) ? &yokei_direct : &yokei_slices;
    op->before = uneven(op, comm->shares.staged, false);
    op->before_plain = uneven(op, comm->shares.plain, false);
    choose_stages(op);
}

/* ---- several hosts or islands, some of whose ranks share memory ---- */

static bool may_be_hierarchical(const struct yokei_op *op)
{
    if (op->hosts->n < 2 || op->hosts->most < 2) return false;
    switch (op->kind) {
    case YOKEI_ALL_REDUCE: return may_reach(op, YOKE_REACH_ACROSS_HOSTS);
    case YOKEI_REDUCE:
    case YOKEI_BROADCAST:
    case YOKEI_REDUCE_SCATTER:
    case YOKEI_ALL_GATHER:
    case YOKEI_BARRIER:
    case YOKEI_DESTROY: return true;
    case YOKEI_ALL_TO_ALL: return yokei_leaders_all_to_all_fits(op);
    /* The hierarchy gains nothing here. Each element crosses once anyway, and the messages of a root go one
       after another. */
    default: return false;
    }
}

/*
 * How long sums cross. Swapping takes the fewest latencies between few hosts. Halving sends the bytes of a
 * ring in fewer messages that follow one another. If the number of hosts is no power of two, it sends more
 * bytes from some hosts, but a ring of many hosts sends short messages only.
 */
static enum yokei_crossing sum_crossing(const struct yokei_op *op)
{
    const int hosts = op->hosts->n;
    const bool is_small = op->count * yoke_dtype_bytes(op->wire) <= SWAP_BYTES;
    if (hosts == 2 || (is_small && hosts <= MOST_IN_RING)) return YOKEI_CROSS_SWAP;
    return hosts > MOST_IN_RING || (hosts & (hosts - 1)) == 0 ? YOKEI_CROSS_HALVING : YOKEI_CROSS_RING;
}

/*
 * Choose how the data crosses between hosts. False: the hierarchy has no way that keeps the order of the
 * ranks.
 */
static bool choose_crossing(struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    op->published_bytes = yokei_published_bytes(op);
    op->crossing = YOKEI_CROSS_EACH;
    if (op->kind == YOKEI_ALL_TO_ALL) return true;
    op->crossing = YOKEI_CROSS_LEADERS;
    if (yokei_leaders_fit(op)) return true;
    op->crossing = YOKEI_CROSS_CHAIN;
    if (op->kind == YOKEI_BROADCAST) return true;
    if (yokei_reduces(op) && comm->settings.reproducible)
        return op->hosts->in_order && op->kind != YOKEI_REDUCE_SCATTER;
    if (op->kind == YOKEI_ALL_REDUCE) {
        op->crossing = sum_crossing(op);
    } else if (op->kind != YOKEI_REDUCE) {
        op->crossing = YOKEI_CROSS_PARTS;
    }
    return true;
}

/* The most elements of a slice. They fit into a message, and into both parts of the stage. */
static size_t most_of_slice(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    const size_t bytes = yoke_dtype_bytes(op->dtype), wire = YOKE_MAX(yoke_dtype_bytes(op->wire), bytes),
                 size = (size_t)comm->size;
    const bool in_parts = op->crossing == YOKEI_CROSS_PARTS;
    const size_t published = in_parts ? (op->kind == YOKEI_ALL_GATHER ? 1 : size) : (size_t)op->hosts->least;
    const size_t seats = in_parts                              ? yokei_parts_seats(op)
                         : op->crossing == YOKEI_CROSS_SWAP    ? (size_t)op->hosts->n + 1
                         : op->crossing == YOKEI_CROSS_HALVING ? 2 /* the result and the partial sum */
                                                               : 1;
    return YOKE_MIN(YOKE_MIN(comm->settings.chunk_bytes, YOKEI_STAGE_BYTES / seats) / wire,
                    YOKEI_STAGE_BYTES / (published * bytes));
}

/* Set the shares of the columns. False: no column would sum anything. */
static bool divide_columns(struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    op->before = uneven(op, op->hosts->are_islands ? comm->shares.island_columns : comm->shares.columns,
                        op->crossing == YOKEI_CROSS_RING);
    return !op->before || op->before[op->hosts->least];
}

/*
 * The number of elements of a chunk in which no slice is longer than `most`. It is a multiple of *step_out.
 */
static size_t chunk_of_slices(struct yokei_op *op, size_t most, size_t columns, size_t *step_out)
{
    op->unit = most < (op->before ? 64 : 16) ? 1 : 16;
    *step_out = columns * op->unit;
    if (!op->before) return columns * most / op->unit * op->unit;
    size_t widest = 1;
    for (size_t c = 0; c < columns; c++) widest = YOKE_MAX(widest, op->before[c + 1] - op->before[c]);
    *step_out = op->unit;
    return YOKE_MIN((most - 2 * op->unit) * op->before[columns] / widest, columns * most);
}

/* Choose the hierarchy. False: it cannot be one. */
static bool choose_hierarchy(struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    if (!may_be_hierarchical(op) || !choose_crossing(op)) return false;
    if (op->crossing == YOKEI_CROSS_LEADERS || op->crossing == YOKEI_CROSS_EACH) {
        op->algorithm = &yokei_hierarchy;
        op->n_rounds = 1;
        op->n_lanes = 1;
        return true;
    }
    const size_t most = most_of_slice(op),
                 columns = op->crossing == YOKEI_CROSS_PARTS ? 1 : (size_t)op->hosts->least;
    if (!most || !divide_columns(op)) {
        op->before = NULL;
        return false;
    }
    if (most < 4) op->before = NULL; /* this happens with thousands of ranks on a host */
    size_t step;
    op->algorithm = &yokei_hierarchy;
    const size_t length = chunk_of_slices(op, most, columns, &step),
                 whole = op->crossing == YOKEI_CROSS_PARTS ? yokei_longest_slice(op) : op->count;
    const size_t least = LEAST_CROSSING / yoke_dtype_bytes(op->dtype) / op->unit * op->unit * columns;
    /* Where stages are fewer and longer, each lane uses the beginning of its stage. */
    const size_t lanes = yokei_has_wide_stages(comm) ? YOKEI_WIDE_LANES : YOKEI_CROSS_LANES;
    const size_t even_share = ((whole + lanes - 1) / lanes + step - 1) / step * step;
    op->chunk = YOKE_MIN(YOKE_MAX(YOKE_MAX(even_share, least), step), length / step * step);
    op->n_rounds = YOKE_MAX((whole + op->chunk - 1) / op->chunk, 1);
    op->n_lanes = (int)YOKE_MIN(op->n_rounds, lanes);
    return true;
}

/*
 * How all_reduce sums by messages. A named algorithm is used if it can run. An algorithm that needs shared
 * memory cannot run here.
 */
static enum yokei_algorithm_id sum_by_messages(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    const enum yokei_algorithm_id id = named_algorithm(op) ? yokei_algorithm_id(named_algorithm(op))
                                                           : YOKEI_N_ALGORITHMS;
    const bool counts = named_algorithm(op) && yokei_algorithm_reach(id) == YOKE_REACH_MESSAGES;
    if (counts && yokei_algorithm_adds_in_rank_order(id)) return id;
    if (comm->settings.reproducible) return YOKEI_EXCHANGE;
    if (comm->size == 1) return YOKEI_CHAIN;
    if (counts) return id;
    return !named_algorithm(op) && op->count * yoke_dtype_bytes(op->wire) <= SMALL_BYTES ? YOKEI_DOUBLING
                                                                                         : YOKEI_RING;
}

static void choose_sum_by_messages(struct yokei_op *op)
{
    const enum yokei_algorithm_id id = sum_by_messages(op);
    op->algorithm = yokei_algorithm(id);
    if (!op->algorithm->by_slices) {
        choose_chunks(op, op->count);
        return;
    }
    op->before = uneven(op, op->comm->shares.plain, !yokei_algorithm_adds_in_rank_order(id));
    choose_slices(op, NULL, NULL);
    choose_chunks(op, yokei_longest_slice(op));
}

static void choose_messages(struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    switch (op->kind) {
    case YOKEI_ALL_REDUCE: choose_sum_by_messages(op); return;
    case YOKEI_REDUCE_SCATTER:
    case YOKEI_ALL_GATHER:
        op->algorithm = comm->settings.reproducible && op->kind == YOKEI_REDUCE_SCATTER ? &yokei_exchange
                                                                                        : &yokei_ring;
        choose_chunks(op, yokei_longest_slice(op));
        return;
    case YOKEI_BROADCAST:
    case YOKEI_REDUCE:
        op->algorithm = &yokei_chain;
        choose_chunks(op, op->count);
        return;
    case YOKEI_GATHER:
    case YOKEI_SCATTER:
    case YOKEI_ALL_TO_ALL:
        op->algorithm = &yokei_linear;
        choose_chunks(op, yokei_longest_slice(op));
        /* In all_to_all_v the ranks know different longest slices. But both sides of a message must use
           the same lane. */
        if (op->send_slices != op->slices) {
            op->chunk = YOKE_MAX(comm->settings.chunk_bytes / 4 / yoke_dtype_bytes(op->dtype), 1);
            op->n_lanes = YOKEI_LANES;
        }
        return;
    default:
        op->algorithm = &yokei_dissemination;
        op->n_rounds = 1;
        op->n_lanes = 1;
        return;
    }
}

static bool has_slices(enum yokei_kind kind)
{
    return kind == YOKEI_REDUCE_SCATTER || kind == YOKEI_ALL_GATHER || kind == YOKEI_GATHER
           || kind == YOKEI_SCATTER || kind == YOKEI_ALL_TO_ALL;
}

static void choose_by_host(struct yokei_op *op)
{
    op->hosts = &op->comm->hosts;
    if (may_share(op))
        choose_shared(op);
    else if (op->comm->settings.island == YOKE_ISLAND_OFF || !choose_hierarchy(op))
        choose_messages(op);
}

/* Choose the hierarchy by islands. False: it cannot be one; then the choice must be made again. */
static bool choose_by_island(struct yokei_op *op)
{
    op->hosts = &op->comm->islands;
    op->before = NULL;
    if (!has_slices(op->kind)) op->slices = op->send_slices = NULL;
    return choose_hierarchy(op);
}

bool yokei_grouping_is_free(const struct yokei_op *op)
{
    const bool is_float = op->dtype == YOKE_F32 || op->dtype == YOKE_F64 || op->dtype == YOKE_F16
                          || op->dtype == YOKE_BF16;
    return !yokei_reduces(op) || op->reproducible || !is_float || op->reduction == YOKE_MIN
           || op->reduction == YOKE_MAX;
}

/* Choose by island instead of by host, if the cost model predicts less time. */
static void choose_the_faster(struct yokei_op *op)
{
    struct yokei_op by_host = *op;
    const double host_us = yokei_predict(op);
    if (host_us <= 0 || !choose_by_island(op)) {
        *op = by_host;
        return;
    }
    by_host.host_us = op->host_us = host_us;
    by_host.island_us = op->island_us = yokei_predict(op);
    if (op->island_us <= 0 || op->island_us >= host_us) *op = by_host;
}

void yokei_choose(struct yokei_op *op, const size_t counts[], const size_t send_counts[])
{
    const enum yoke_island island = op->comm->settings.island;
    const bool reduces = yokei_reduces(op);
    op->wire = reduces ? yokei_wire_dtype(op->dtype, op->reduction, op->comm->settings.accum) : op->dtype;
    /* Round only once, however many hops there are. */
    if (reduces && op->comm->settings.reproducible)
        op->wire = yokei_wire_dtype(op->dtype, op->reduction, YOKE_ACCUM_F32);
    op->lanes = op->comm->work.lane_list;
    op->slices = op->send_slices = NULL;
    op->before = NULL;
    if (has_slices(op->kind)) choose_slices(op, counts, send_counts);
    const bool has_islands = yokei_has_islands(op->comm);
    if (has_islands && island == YOKE_ISLAND_VENDOR && choose_by_island(op)) return;
    op->before = NULL;
    choose_by_host(op);
    if (has_islands && island == YOKE_ISLAND_AUTO && yokei_grouping_is_free(op)) choose_the_faster(op);
}
