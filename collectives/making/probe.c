/* SPDX-License-Identifier: Apache-2.0 */
/* What the measurements of costs and of speeds share. */
#include "collectives/arithmetic/sum.h"
#include "collectives/call/internal.h"
#include "collectives/making/measure.h"

enum { BYTES = YOKEI_PROBE_BYTES };

void yokei_sum_once(float *data)
{
    yokei_fold(&(struct yokei_fold){ .n = BYTES / sizeof *data,
                                     .reduction = YOKE_SUM,
                                     .dtype = YOKE_F32,
                                     .n_in = 2,
                                     .n_out = 1,
                                     .size = 2,
                                     .in = (const void *const[]){ data, data + BYTES / sizeof *data },
                                     .out = (void *const[]){ data } });
}

yoke_status yokei_all_have_room(yoke_comm *comm, bool has_room, bool *any_out)
{
    /* 0 or 1: *any_out. Above 1: this rank has no memory. The lowest such rank has the largest number. */
    float word = has_room ? any_out && *any_out : (float)(1 + comm->size - comm->rank);
    YOKE_TRY(yokei_reduce_on_host(comm, &word, 1, YOKE_F32, YOKE_MAX));
    if (word > 1)
        return yoke_fail(YOKE_ENOMEM, "rank %d of communicator \"%s\" has no memory to measure with",
                         1 + comm->size - (int)word, comm->name);
    if (any_out) *any_out = word > 0;
    return YOKE_OK;
}
