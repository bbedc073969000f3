/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What is counted of a rank's programs for a plan that nothing runs: their memory, and the ops that they
 * issue. Ranks whose layers, shapes and order of passes are equal have equal counts, also in different
 * layouts. So a search over layouts makes few programs.
 */
#ifndef TRAIN_TRAINER_COUNTED_H
#define TRAIN_TRAINER_COUNTED_H

#include "parallel/program.h"

struct yoke_trainer_config;
struct yokei_trainer_plan;

/** The sizes of a program. */
struct yokei_counted_program {
    size_t bytes, scratch_bytes;
    struct yokei_program_parts parts;
    /* the numbers of instructions and of buffers, of issued ops, of micro-batches, and of pieces set to 0 */
    int64_t n_instructions, n_buffers, n_issued, n_micro_batches, n_zeroed;
};
/** The host memory of the lists of a program with these sizes. */
size_t yokei_counted_host(const struct yokei_counted_program *program);

/** The calls of a kind (F, B or W) of a layer that issue the same ops. */
struct yokei_counted_call {
    int chunk, layer; /* layer: counted from the first one of the chunk */
    enum yokei_instruction_kind kind;
    int first_op, n_ops;
    int times, again; /* how often a step makes the call: for the first time, and as recomputation */
};

enum yokei_counted_kind {
    YOKEI_COUNTED_TRAIN,
    YOKEI_COUNTED_EVALUATE,
    YOKEI_COUNTED_LOGITS,
    YOKEI_N_COUNTED
};

/** What is counted of the passes of a rank. The rest of a step depends on the state: see below. */
struct yokei_counted {
    struct yokei_counted_program program[YOKEI_N_COUNTED];
    double flops, recomputed; /* as in struct yokei_planned */
    int n_calls, n_ops;
    struct yokei_counted_call *call; /* [n_calls] */
    struct yokei_op *op;             /* [n_ops] */
};

/** The part of a step that depends on the rank's state. */
struct yokei_counted_bucket {
    int64_t n; /* elements */
    int chunk,
        layer; /* the last layer of the backward pass that has a gradient in the bucket, as in a call */
    bool has_copy, sums_slices;
};
struct yokei_counted_once {
    int n_ops, n_norms, n_zeros; /* ops of ZERO come first, then those of NORMS, then those of STEP */
    struct yokei_op *op;
    int n_buckets;
    struct yokei_counted_bucket *bucket;
    bool is_divided; /* STEP is followed by all-gathers of the weights */
    bool has_tied;   /* the step sums the gradients of parameters of the first and the last stage */
    /* with divided steps: the bytes by which the largest slices of a replica exceed those of this rank */
    size_t more_elsewhere;
    int64_t n_tied, n_replicated; /* elements of these, and of parameters that all tensor ranks hold */
};

/**
 * Count the programs of a plan whose place, parameters and state are known, unless programs with equal counts
 * are in the tree. The tree owns *counts_out. `shape` and `order` are those of the pipeline and of the rank's
 * line. The schedule must be a generated one.
 */
yoke_status yokei_count_programs(void **tree, const struct yoke_trainer_config *config,
                                 const struct yokei_schedule_order *order, const struct yokei_pipeline *shape,
                                 struct yokei_trainer_plan *plan, const struct yokei_counted **counts_out);
void yokei_counted_free(void **tree);
/**
 * Count the rest, and add its instructions to those of the program `train`. Free the result with
 * yokei_counted_once_free.
 */
yoke_status yokei_count_once(const struct yokei_trainer_plan *plan, struct yokei_counted_program *train,
                             struct yokei_counted_once *once_out);
void yokei_counted_once_free(struct yokei_counted_once *once);

#endif
