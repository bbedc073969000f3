/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yoke's own steps inside an island: the ranks publish their chunks in shared memory, and the rank of a
 * column reads its slice of all of them. See inside.h.
 */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/algorithms/inside.h"
#include "collectives/transport/shared.h"

struct yokei_chunk yokei_chunk_of(const struct yokei_op *op, size_t round)
{
    const size_t base = round * op->chunk;
    return (struct yokei_chunk){ .base = base, .length = YOKE_MIN(op->chunk, op->count - base) };
}

size_t yokei_column_begin(const struct yokei_op *op, const struct yokei_chunk *c, int column)
{
    return yokei_slice_begin(op->before, op->hosts->least, c->length, op->unit, column);
}

char *yokei_result_of(const struct yokei_op *op, const struct yokei_lane *lane, int r, size_t within)
{
    return yokei_stage_at(op, r, lane, 1) + within * yoke_dtype_bytes(op->dtype);
}

size_t yokei_part_of(const struct yokei_op *op, size_t round, int r, size_t *n_out)
{
    const size_t length = op->slices[r + 1] - op->slices[r], from = YOKE_MIN(round * op->chunk, length);
    *n_out = YOKE_MIN(op->chunk, length - from);
    return from;
}

/* ---- whole data ---- */

static void inside_publish(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_chunk c = yokei_chunk_of(op, lane->step.round);
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    if (op->kind == YOKEI_BROADCAST && op->root != op->rank) return;
    for (int column = 0; column < op->hosts->least; column++) {
        const size_t at = yokei_column_begin(op, &c, column), n = yokei_column_begin(op, &c, column + 1) - at;
        if (op->kind == YOKEI_BROADCAST || op->staged || column != yokei_own_place(op))
            yokei_bring(op, lane, yokei_stage_at(op, op->rank, lane, 0) + at * bytes, (c.base + at) * bytes,
                        n * bytes);
    }
}

/* Where the host finds the data that this rank sends of the chunk, from element `at` of the chunk on. */
static const char *inside_own_data(const struct yokei_op *op, const struct yokei_lane *lane,
                                   const struct yokei_chunk *c, size_t at)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    return op->staged ? yokei_stage_at(op, op->rank, lane, 0) + at * bytes
                      : (const char *)op->send + (c->base + at) * bytes;
}

/* This island's ranks in their order. */
static int inside_reduce_scatter(const struct yokei_op *op, const struct yokei_lane *lane,
                                 const struct yokei_chunk *chunk, size_t at, size_t n,
                                 const void **operands_out)
{
    (void)n;
    for (int i = 0; i < op->hosts->n_local; i++)
        operands_out[i] = op->hosts->local[i] == op->rank ? inside_own_data(op, lane, chunk, at)
                                                          : yokei_stage_at(op, op->hosts->local[i], lane, 0)
                                                                + at * yoke_dtype_bytes(op->dtype);
    return op->hosts->n_local;
}

static void inside_all_gather(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_chunk c = yokei_chunk_of(op, lane->step.round);
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    for (int i = 0; i < op->hosts->least; i++) {
        /* each rank begins with another column, so that they do not access the same one */
        const int column = (yokei_own_place(op) + i) % op->hosts->least;
        const size_t at = yokei_column_begin(op, &c, column), n = yokei_column_begin(op, &c, column + 1) - at;
        if (column != yokei_own_place(op) || op->staged)
            yokei_put(op, lane, (c.base + at) * bytes, yokei_result_of(op, lane, op->hosts->local[column], 0),
                      n * bytes);
    }
}

static const char *inside_root_data(const struct yokei_op *op, const struct yokei_lane *lane, size_t at)
{
    return yokei_stage_at(op, op->root, lane, 0) + at * yoke_dtype_bytes(op->dtype);
}

static void inside_broadcast(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_chunk c = yokei_chunk_of(op, lane->step.round);
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    const bool is_root = op->root == op->rank;
    const char *from = is_root ? inside_own_data(op, lane, &c, 0) : inside_root_data(op, lane, 0);
    if (!is_root || op->recv != op->send) yokei_put(op, lane, c.base * bytes, from, c.length * bytes);
}

/* ---- parts ---- */

/* The data of rank `owner` for rank q is the q-th chunk in owner's stage. */
static char *part_at(const struct yokei_op *op, const struct yokei_lane *lane, int owner, int q)
{
    return yokei_stage_at(op, owner, lane, 0) + (size_t)q * op->chunk * yoke_dtype_bytes(op->dtype);
}

static void inside_publish_parts(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype), round = lane->step.round;
    size_t n;
    if (op->kind == YOKEI_ALL_GATHER) {
        const size_t at = yokei_part_of(op, round, op->rank, &n);
        yokei_bring(op, lane, yokei_stage_at(op, op->rank, lane, 0), at * bytes, n * bytes);
        return;
    }
    for (int q = 0; q < op->size; q++) {
        const size_t at = op->slices[q] + yokei_part_of(op, round, q, &n);
        if (q != op->rank || op->staged)
            yokei_bring(op, lane, part_at(op, lane, op->rank, q), at * bytes, n * bytes);
    }
}

static int inside_reduce_for(const struct yokei_op *op, const struct yokei_lane *lane, int q,
                             const void **operands_out, size_t *n_out)
{
    const size_t at = op->slices[q] + yokei_part_of(op, lane->step.round, q, n_out);
    for (int i = 0; i < op->hosts->n_local; i++)
        operands_out[i] = op->hosts->local[i] == op->rank && !op->staged
                              ? (const char *)op->send + at * yoke_dtype_bytes(op->dtype)
                              : part_at(op, lane, op->hosts->local[i], q);
    return op->hosts->n_local;
}

static const char *inside_gathered_from(const struct yokei_op *op, const struct yokei_lane *lane, int q)
{
    size_t n;
    if (q != op->rank || op->staged) return yokei_stage_at(op, q, lane, 0);
    return (const char *)op->send + yokei_part_of(op, lane->step.round, q, &n) * yoke_dtype_bytes(op->dtype);
}

static const struct yokei_inside tables[] = {
    { "shared memory", NULL, inside_publish, inside_reduce_scatter, inside_all_gather, inside_root_data,
      inside_broadcast, inside_publish_parts, inside_reduce_for, inside_gathered_from },
};

const struct yokei_inside *yokei_inside(const struct yokei_op *op)
{
    const struct yokei_inside *table = tables;
    while (table->serves && !table->serves(op)) table++;
    return table;
}
