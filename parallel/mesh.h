/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The mesh of ranks: data x pipeline x tensor. Ranks that share a layer's tensors follow each other, then the replicas of a stage, then
 * the stages: so what talks most is closest where ranks are placed host by host, and the border between hosts or vendors is one
 * between stages.
 */
#ifndef PARALLEL_MESH_H
#define PARALLEL_MESH_H

#include "parallel/program.h"

struct yokei_mesh {
    int data, pipeline, tensor; /* ranks along each axis; tensor: of this rank's stage */
    const int *widths;          /* [pipeline] ranks that share the tensors of each stage, the caller's; NULL: `tensor` everywhere */
    int chunks;                 /* of layers that each stage runs; 1 without interleaving */
    int d, s, t;                /* this rank's replica, stage, and place among those that share its tensors */
};

/**
 * Sizes of 0: 1, but data: what is left. widths [pipeline]: stages of different widths, NULL: all of `tensor`; it must outlive the mesh.
 * YOKE_ECONFIG where all of them together are not the number of ranks.
 */
yoke_status yokei_mesh_create(int n_ranks, int rank, int data, int pipeline, int tensor, const int *widths, int chunks,
                              struct yokei_mesh *mesh_out);
/** Ranks that share the tensors of stage s, and those of all stages, which is a replica. */
static inline int yokei_mesh_width(const struct yokei_mesh *m, int s) { return m->widths ? m->widths[s] : m->tensor; }
int yokei_mesh_replica(const struct yokei_mesh *mesh);
/** Whether stages a and b have the same number of ranks: then each rank of one has its counterpart in the other. */
static inline bool yokei_mesh_pairs(const struct yokei_mesh *m, int a, int b) { return yokei_mesh_width(m, a) == yokei_mesh_width(m, b); }
int yokei_mesh_rank(const struct yokei_mesh *mesh, int d, int s, int t);
/** The mesh as the rank at (d, s, t) sees it. */
struct yokei_mesh yokei_mesh_at(const struct yokei_mesh *mesh, int rank);
static inline int yokei_mesh_size(const struct yokei_mesh *m) { return m->data * yokei_mesh_replica(m); }

/** Sequences that a replica with such a share puts through at once: `wanted`, or, 0: the whole share, in a pipeline four pieces a stage. */
int64_t yokei_mesh_micro_batch(const struct yokei_mesh *mesh, int64_t share, int64_t wanted);

/** How a model may be cut: `before` layers, then n blocks of `per_block` layers each, then the rest. */
struct yokei_blocks {
    int before, per_block, n;
};
/**
 * Cut n_layers layers into pipeline * chunks runs, virtual stage c * pipeline + s being chunk c of stage s. blocks_of [pipeline * chunks]:
 * blocks of each virtual stage; NULL: as equal as can be, the earlier ones one more. chunk_out [chunks]: what this rank runs.
 * YOKE_ECONFIG: too few blocks, or a sum that is not theirs.
 */
yoke_status yokei_mesh_chunks(const struct yokei_mesh *mesh, const struct yokei_blocks *blocks, int n_layers, const int64_t *blocks_of,
                              struct yokei_chunk *chunk_out);

#endif
