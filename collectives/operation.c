/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about an operation, from choice.c and from algorithms. */
#include "collectives/comm.h"

size_t yokei_longest_slice(const struct yokei_op *op)
{
    size_t longest = 0;
    for (int r = 0; r < op->comm->size; r++) longest = YOKE_MAX(longest, op->slices[r + 1] - op->slices[r]);
    return longest;
}

bool yokei_is_long(const struct yokei_op *op)
{
    return op->count * yoke_dtype_bytes(op->dtype) * (size_t)op->comm->size * 2 > yokei_process.l3_bytes;
}

/*
 * The answer is the same in all operations of a communicator. Otherwise a lane's stage could become part of
 * another lane's stage while a rank still reads it.
 */
bool yokei_has_wide_stages(const yoke_comm *comm)
{
    return comm->all_shared && !comm->any_staged && comm->n_on_host > comm->n_cores;
}

size_t yokei_stage_bytes(const yoke_comm *comm)
{
    return yokei_has_wide_stages(comm) ? YOKEI_WIDE_STAGE_BYTES : YOKEI_STAGE_BYTES;
}
