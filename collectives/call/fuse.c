/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a group's small sums as one operation, if they are on one communicator, of one type and one reduction.
 * Small sums cost the ranks' waiting for each other, and the fused operation pays this only once. The
 * header's hash covers the counts of the parts, so calls that differ are still found.
 */
#include <string.h>

#include "collectives/call/call.h"
#include "collectives/choice/choice.h"
#include "collectives/engine/engine.h"
#include "collectives/transport/stage.h"

enum { EACH_BYTES = 16 << 10 };

static size_t bytes_of(const struct yokei_op *op) { return op->count * yoke_dtype_bytes(op->dtype); }

bool yokei_may_fuse(const struct yokei_op *op)
{
    return op && op->kind == YOKEI_ALL_REDUCE && op->comm->size > 1 && bytes_of(op) <= EACH_BYTES;
}

yoke_status yokei_fuse(struct yokei_op *const ops[], int n_ops, int *n_out)
{
    struct yokei_op *op = ops[0];
    size_t total = 0;
    bool staged = false;
    int n = 0;
    while (n < n_ops && ops[n]->comm == op->comm && ops[n]->dtype == op->dtype
           && ops[n]->reduction == op->reduction
           && (n == 0 || total + bytes_of(ops[n]) <= YOKEI_FUSED_BYTES)) {
        staged |= ops[n]->staged;
        total += bytes_of(ops[n++]);
    }
    *n_out = n;
    if (n == 1) return YOKE_OK;
    op->parts = malloc((size_t)n * sizeof *op->parts);
    op->fused = staged ? yokei_stage_fused(op->comm) : aligned_alloc(64, (total + 64) / 64 * 64);
    if (!op->parts || !op->fused) {
        free(op->parts);
        if (!staged) free(op->fused);
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
