/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The mesh of ranks: data x pipeline x tensor. Ranks are numbered in this order: first the ranks that share a
 * layer's tensors, then the replicas of a stage, then the stages. So the ranks that communicate most have
 * adjacent numbers. If ranks are placed host by host, these ranks are close to each other. A border between
 * hosts or vendors then lies between two stages.
 */
#ifndef PARALLEL_MESH_H
#define PARALLEL_MESH_H

#include "parallel/program.h"

struct yokei_mesh {
    int data, pipeline, tensor; /* ranks along each axis; `tensor` is that of this rank's stage */
    /*
     * [pipeline] ranks that share the tensors of each stage; the caller owns it. NULL: `tensor` everywhere.
     */
    const int *widths;
    int chunks;  /* chunks of layers that each stage runs; 1 without interleaving */
    int d, s, t; /* this rank's replica, its stage, and its index among the ranks that share its tensors */
};

/**
 * Make the mesh. A size of 0 means 1, except that `data` 0 means all ranks that the other axes leave. widths
 * [pipeline] gives the stages different widths; NULL gives all stages the width `tensor`. `widths` must
 * outlive the mesh. YOKE_ECONFIG if the sizes do not make the number of ranks.
 */
yoke_status yokei_mesh_create(int n_ranks, int rank, int data, int pipeline, int tensor, const int *widths,
                              int chunks, struct yokei_mesh *mesh_out);
/**
 * The number of ranks that share the tensors of stage s. yokei_mesh_replica is the sum over all stages: the
 * ranks of a replica.
 */
static inline int yokei_mesh_width(const struct yokei_mesh *m, int s)
{
    return m->widths ? m->widths[s] : m->tensor;
}
int yokei_mesh_replica(const struct yokei_mesh *mesh);
/**
 * Whether stages a and b have the same number of ranks. Then each rank of one stage has one counterpart in
 * the other.
 */
static inline bool yokei_mesh_pairs(const struct yokei_mesh *m, int a, int b)
{
    return yokei_mesh_width(m, a) == yokei_mesh_width(m, b);
}
int yokei_mesh_rank(const struct yokei_mesh *mesh, int d, int s, int t);
/** The same mesh with the d, s, t and `tensor` of another rank. */
struct yokei_mesh yokei_mesh_at(const struct yokei_mesh *mesh, int rank);
static inline int yokei_mesh_size(const struct yokei_mesh *m) { return m->data * yokei_mesh_replica(m); }

/**
 * The number of sequences in a micro-batch of a replica whose share of a batch is `share`. It is `wanted`, at
 * most the share. If `wanted` is 0, it is the whole share without a pipeline, and the share divided by four
 * times the number of stages with one. It is at least 1.
 */
int64_t yokei_mesh_micro_batch(const struct yokei_mesh *mesh, int64_t share, int64_t wanted);

/**
 * Where a model may be cut: `before` layers, then n blocks of `per_block` layers each, then the other layers.
 */
struct yokei_blocks {
    int before, per_block, n;
};
/**
 * Cut n_layers layers into pipeline * chunks virtual stages. Virtual stage c * pipeline + s is chunk c of
 * stage s. blocks_of [pipeline * chunks]: the number of blocks of each virtual stage. NULL: as equal as
 * possible; the first virtual stages get one block more. chunk_out [chunks]: the layers that this rank runs.
 * YOKE_ECONFIG: too few blocks, or blocks_of does not add up to the number of blocks.
 */
yoke_status yokei_mesh_chunks(const struct yokei_mesh *mesh, const struct yokei_blocks *blocks, int n_layers,
                              const int64_t *blocks_of, struct yokei_chunk *chunk_out);

#endif
