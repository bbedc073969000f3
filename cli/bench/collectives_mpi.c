/* SPDX-License-Identifier: Apache-2.0 */
/* The measured collectives as calls of MPI, for the column of the rival. */
#include <limits.h>
#include <string.h>

#include "cli/bench/collectives.h"

static MPI_Datatype mpi_type(const struct bench_case *c)
{
    switch (c->dtype) {
    case YOKE_F32: return MPI_FLOAT;
    case YOKE_F64: return MPI_DOUBLE;
    case YOKE_I32: return MPI_INT32_T;
    case YOKE_I64: return MPI_INT64_T;
    case YOKE_I8: return MPI_INT8_T;
    case YOKE_U8: return MPI_UINT8_T;
    /* MPI can move 16-bit floating-point numbers, but cannot add them */
    default: return bench_facts[c->kind].reduces ? MPI_DATATYPE_NULL : MPI_INT16_T;
    }
}

static MPI_Op mpi_op(yoke_reduction op)
{
    return op == YOKE_SUM    ? MPI_SUM
           : op == YOKE_MIN  ? MPI_MIN
           : op == YOKE_MAX  ? MPI_MAX
           : op == YOKE_PROD ? MPI_PROD
                             : MPI_OP_NULL;
}

bool bench_mpi_offers(const struct bench_case *c)
{
    if (bench_facts[c->kind].reduces && mpi_op(c->reduction) == MPI_OP_NULL) return false;
    return mpi_type(c) != MPI_DATATYPE_NULL && c->count <= INT_MAX;
}

struct bench_case bench_mpi_case(const struct bench_case *c)
{
    struct bench_case result = *c;
    result.in_place = c->in_place || c->kind == BENCH_BROADCAST;
    return result;
}

int bench_mpi_call(const struct bench_case *c, char *send, char *recv, MPI_Comm comm)
{
    const struct bench_places at = bench_places(c, send, recv);
    const MPI_Datatype type = mpi_type(c);
    const MPI_Op op = mpi_op(c->reduction);
    const int n = (int)c->count, right = (c->rank + 1) % c->size, left = (c->rank + c->size - 1) % c->size;
    const bool here = c->in_place && (!bench_facts[c->kind].has_root || c->rank == c->root);
    const void *from = here ? MPI_IN_PLACE : at.send;
    switch (c->kind) {
    case BENCH_ALL_REDUCE: return PMPI_Allreduce(from, at.recv, n, type, op, comm);
    case BENCH_REDUCE: return PMPI_Reduce(from, at.recv, n, type, op, c->root, comm);
    case BENCH_REDUCE_SCATTER: /* see bench_mpi_settle */
        return PMPI_Reduce_scatter_block(from, c->in_place ? recv : at.recv, n, type, op, comm);
    case BENCH_ALL_GATHER: return PMPI_Allgather(from, n, type, at.recv, n, type, comm);
    case BENCH_BROADCAST: return PMPI_Bcast(recv, n, type, c->root, comm);
    case BENCH_GATHER: return PMPI_Gather(from, n, type, at.recv, n, type, c->root, comm);
    case BENCH_SCATTER:
        return PMPI_Scatter(at.send, n, type, here ? MPI_IN_PLACE : at.recv, n, type, c->root, comm);
    case BENCH_ALL_TO_ALL: return PMPI_Alltoall(at.send, n, type, at.recv, n, type, comm);
    case BENCH_SENDRECV:
        return PMPI_Sendrecv(at.send, n, type, right, 0, at.recv, n, type, left, 0, comm, MPI_STATUS_IGNORE);
    default: return PMPI_Barrier(comm);
    }
}

void bench_mpi_settle(const struct bench_case *c, char *recv)
{
    const size_t slice = c->count * yoke_dtype_bytes(c->dtype);
    if (c->kind == BENCH_REDUCE_SCATTER && c->in_place) memmove(recv + (size_t)c->rank * slice, recv, slice);
}
