/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a group's small sums as one operation, if they are on one communicator, of one type and one reduction.
 * Small sums cost the ranks' waiting for each other, and the fused operation pays this only once. The
 * header's hash covers the counts of the parts, so calls that differ are still found.
 */
#include <string.h>

#include "collectives/engine.h"

enum { EACH_BYTES = 16 << 10, TOTAL_BYTES = 256 << 10 };

static size_t bytes_of(const struct yokei_op *op) { return op->count * yoke_dtype_bytes(op->dtype); }

bool yokei_may_fuse(const struct yokei_op *op)
{
    return op && op->kind == YOKEI_ALL_REDUCE && op->comm->size > 1 && bytes_of(op) <= EACH_BYTES;
}

yoke_status yokei_fuse(struct yokei_op *const ops[], int n_ops, int *n_out)
{
    struct yokei_op *op = ops[0];
    size_t total = 0;
    int n = 0;
    while (n < n_ops && ops[n]->comm == op->comm && ops[n]->dtype == op->dtype
           && ops[n]->reduction == op->reduction && (n == 0 || total + bytes_of(ops[n]) <= TOTAL_BYTES))
        total += bytes_of(ops[n++]);
    *n_out = n;
    if (n == 1) return YOKE_OK;
    op->parts = malloc((size_t)n * sizeof *op->parts);
    op->fused = aligned_alloc(64, (total + 64) / 64 * 64);
    if (!op->parts || !op->fused) {
        free(op->parts);
        free(op->fused);
        op->parts = NULL;
        op->fused = NULL;
        return yoke_fail(YOKE_ENOMEM, "yoke_group_end: no memory for %zu bytes", total);
    }
    for (int i = 0; i < n; i++)
        op->parts[i] = (struct yokei_part){ ops[i]->send, ops[i]->recv, ops[i]->count, ops[i]->staged };
    op->n_parts = n;
    op->count = total / yoke_dtype_bytes(op->dtype);
    op->send = op->recv = op->fused;
    op->staged = false;
    yokei_choose(op, NULL, NULL);
    for (int i = 1; i < n; i++) yokei_op_free(ops[i]);
    return YOKE_OK;
}

/*
 * Copy the parts to `fused`, or from there. If the host does not see the device's memory, the copies are only
 * issued.
 */
static yoke_status move(struct yokei_op *op, bool out)
{
    yoke_comm *comm = op->comm;
    struct yokei_lane *lane = op->lanes[0];
    const size_t unit = yoke_dtype_bytes(op->dtype);
    char *at = op->fused;
    lane->brings = lane->puts = false;
    for (int i = 0; i < op->n_parts; i++) {
        const struct yokei_part *part = &op->parts[i];
        const size_t bytes = part->count * unit;
        if (bytes && part->staged) {
            YOKE_TRY(out ? yoke_copy_to_host(comm->out_stream, at, part->send, bytes)
                         : yoke_copy_to_device(comm->in_stream, part->recv, at, bytes));
            *(out ? &lane->brings : &lane->puts) = true;
        } else if (bytes) {
            memcpy(out ? (void *)at : part->recv, out ? part->send : (void *)at, bytes);
        }
        at += bytes;
    }
    return yokei_stage_depart(comm, lane);
}

yoke_status yokei_fuse_move(struct yokei_op *op, bool out, bool *done_out)
{
    if (!op->packs) YOKE_TRY(move(op, out));
    YOKE_TRY(yokei_stage_arrived(op->comm, op->lanes[0], done_out));
    op->packs = !*done_out;
    if (*done_out) op->packed = out;
    return YOKE_OK;
}
