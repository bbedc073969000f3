/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group's small sums on one communicator, of one type and reduction, run as one: what they cost is the ranks' waiting for each
 * other, and that is paid once. The header's hash covers the counts of the parts, so calls that differ are found as ever.
 */
#include <string.h>

#include "collectives/internal.h"

enum { EACH_BYTES = 16 << 10, TOTAL_BYTES = 256 << 10 };

static size_t bytes_of(const struct yokei_op *op) { return op->count * yoke_dtype_bytes(op->dtype); }

bool yokei_may_fuse(const struct yokei_op *op)
{
    /* Whether a rank's own device is staged is not known to the others; whether any is, they know. */
    return op && op->kind == YOKEI_ALL_REDUCE && !op->comm->any_staged && op->comm->size > 1 && bytes_of(op) <= EACH_BYTES;
}

yoke_status yokei_fuse(struct yokei_op *const ops[], int n_ops, int *n_out)
{
    struct yokei_op *op = ops[0];
    size_t total = 0;
    int n = 0;
    while (n < n_ops && ops[n]->comm == op->comm && ops[n]->dtype == op->dtype && ops[n]->reduction == op->reduction &&
           (n == 0 || total + bytes_of(ops[n]) <= TOTAL_BYTES))
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
    for (int i = 0; i < n; i++) op->parts[i] = (struct yokei_part){ ops[i]->send, ops[i]->recv, ops[i]->count };
    op->n_parts = n;
    op->count = total / yoke_dtype_bytes(op->dtype);
    op->send = op->recv = op->fused;
    yokei_plan(op, NULL, NULL);
    for (int i = 1; i < n; i++) yokei_op_free(ops[i]);
    return YOKE_OK;
}

void yokei_fuse_pack(struct yokei_op *op)
{
    const size_t unit = yoke_dtype_bytes(op->dtype);
    char *at = op->fused;
    for (int i = 0; i < op->n_parts; at += op->parts[i++].count * unit)
        if (op->parts[i].count) memcpy(at, op->parts[i].send, op->parts[i].count * unit);
}

void yokei_fuse_unpack(struct yokei_op *op)
{
    const size_t unit = yoke_dtype_bytes(op->dtype);
    const char *at = op->fused;
    for (int i = 0; i < op->n_parts; at += op->parts[i++].count * unit)
        if (op->parts[i].count) memcpy(op->parts[i].recv, at, op->parts[i].count * unit);
}
