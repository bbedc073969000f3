/* SPDX-License-Identifier: Apache-2.0 */
/* What the ways to cross between hosts share (hierarchy.h): pieces of a slice, and pairs of hosts. */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

struct yokei_piece yokei_piece_of(const struct yokei_op *op, size_t round, int part, int span, int parts)
{
    struct yokei_piece p = { .chunk = yokei_chunk_of(op, round) };
    const int column = yokei_own_place(op);
    const size_t from = yokei_column_begin(op, &p.chunk, column),
                 n = yokei_column_begin(op, &p.chunk, column + 1) - from;
    p.within = yokei_slice_begin(NULL, parts, n, op->unit, part);
    p.n = yokei_slice_begin(NULL, parts, n, op->unit, part + span) - p.within;
    p.at = from + p.within;
    p.seat = (n + op->unit - 1) / op->unit * op->unit;
    return p;
}

int yokei_piece_outputs(const struct yokei_op *op, const struct yokei_lane *lane, const struct yokei_piece *p,
                        void *out[3], unsigned *published_out)
{
    int n = 0;
    *published_out = 0;
    if ((op->kind != YOKEI_REDUCE || op->root == op->rank) && !op->staged)
        out[n++] = (char *)op->recv + (p->chunk.base + p->at) * yoke_dtype_bytes(op->dtype);
    if (op->kind != YOKEI_REDUCE || yokei_root_is_here(op)) {
        *published_out = op->staged ? 0 : 1u << n;
        out[n++] = yokei_result_of(op, lane, op->rank, p->within);
    }
    if (lane->room) out[n++] = lane->room;
    return n;
}

bool yokei_piece_streams(const struct yokei_op *op)
{
    return !op->staged && (op->kind != YOKEI_REDUCE || op->root == op->rank) && yokei_is_long(op);
}

void yokei_piece_add(const struct yokei_op *op, const struct yokei_lane *lane, const struct yokei_piece *p,
                     void *const out[], int n_out, unsigned published, bool partial)
{
    int n = 0;
    if (lane->message) op->inputs[n++] = lane->message;
    n += yokei_inside(op)->reduce_scatter(op, lane, &p->chunk, p->at, p->n, op->inputs + n);
    yokei_fold(&(struct yokei_fold){ .n = p->n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = lane->message != NULL,
                                     .partial = partial,
                                     .n_in = n,
                                     .n_out = n_out,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = out,
                                     .stream = !partial && yokei_piece_streams(op),
                                     .published = published });
}

void yokei_piece_pass(const struct yokei_op *op, const struct yokei_lane *lane, const struct yokei_piece *p)
{
    void *out[3];
    unsigned published;
    const int n = yokei_piece_outputs(op, lane, p, out, &published);
    for (int o = 0; o < n; o++)
        yokei_copy(out[o], lane->message, p->n * yoke_dtype_bytes(op->dtype),
                   o == 0 && yokei_piece_streams(op));
}

void yokei_wait_published(const struct yokei_lane *lane, struct yokei_step *step)
{
    step->wait = YOKEI_STAGED;
    step->until = lane->epoch;
}

size_t yokei_sum_reads(const struct yokei_op *op, const struct yokei_step *step)
{
    return (size_t)(op->hosts->n_local - 1) * step->n * yoke_dtype_bytes(op->dtype);
}

/* ---- pairs of hosts ---- */

struct yokei_pairing yokei_pairing_of(const struct yokei_op *op)
{
    struct yokei_pairing p = { .n_pairs = 0 };
    const int host = yokei_own_host(op);
    while (2 << p.n_pairs <= op->hosts->n) p.n_pairs++;
    p.n_extra = op->hosts->n - (1 << p.n_pairs);
    p.id = host >= 2 * p.n_extra ? host - p.n_extra : host % 2 ? -1 : host / 2;
    p.takes = host < 2 * p.n_extra && host % 2 == 0;
    return p;
}

int yokei_pairing_host(const struct yokei_pairing *pairing, int k)
{
    const int id = pairing->id ^ 1 << k;
    return id < pairing->n_extra ? 2 * id : id + pairing->n_extra;
}
