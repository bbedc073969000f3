/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state: the memory on the device that lives from step to step, and the place of each array in it. It
 * holds weights, gradients, moments, and the input and output of a step.
 *
 * Gradients, working weights, masters (f32 copies of 16-bit weights) and moments lie in *buckets*. A bucket
 * is a flat row of elements, one parameter after the other. The gradients of a bucket are summed over the
 * replicas in one operation. Each replica owns a *slice* of the row, and computes the norm of the gradients
 * in its slice. If optimizer states are divided (ZeRO-1), only the owner of a slice has its moments and
 * masters, and only the owner updates its weights.
 */
#ifndef PARALLEL_STATE_H
#define PARALLEL_STATE_H

#include "parallel/parameters.h"

/*
 * The device adds up the squares of a parameter's gradient in blocks of this many elements. The host adds
 * these sums without rounding. Slices begin and end at multiples of a block within the parameter. So the norm
 * of all gradients has the same bits, however parameters are cut into stages, buckets and slices. Vectors
 * have smaller blocks because they are short. If whole blocks fill neighbouring vectors, one call serves all
 * of these vectors.
 */
enum { YOKEI_NORM_BLOCK = 1024, YOKEI_NORM_BLOCK_OF_VECTORS = 32 };

/** The replicas of this rank's part of the model, and the tensors that they divide among themselves. */
struct yokei_replicas {
    int n, d; /* the number of replicas, and the index of this one */
    /*
     * [n] the sizes of the slices are in proportion to these. None is below 0, not all are 0. NULL: equal
     * slices.
     */
    const int64_t *shares;
    bool divides; /* moments and masters are divided (ZeRO-1); with one replica this has no effect */
    /* ranks share tensors. Parameters that all of these ranks hold whole then have separate buckets */
    bool is_tensor;
    /*
     * [parameters] whether another stage holds the parameter, too. Then it has its own bucket. NULL: none
     * does.
     */
    const bool *tied;
    /*
     * Ranks of the other stage hold other pieces of tied parameters, so their slices would not match. These
     * gradients are summed whole.
     */
    bool has_ties;
};

/**
 * A slot says where one parameter's tensors lie. Offsets are in bytes from the start of the rank's one
 * allocation.
 */
struct yokei_slot {
    int64_t n; /* elements of the parameter that this rank holds (its shard) */
    int bucket;
    int64_t at;            /* the index in the bucket of the shard's first element */
    struct yoke_range own; /* elements of the shard in this rank's slice of the bucket; whole blocks */
    /* elements whose moments, and master if there is one, this rank keeps: all, or `own` */
    struct yoke_range kept;
    /* offsets of all elements; layers get `weight`: the 16-bit working copy, or else the weight itself */
    size_t gradient, weight;
    size_t master, moment1, moment2; /* offsets of the elements `kept` */
    /*
     * Offset of the pairs that grad_norm writes, one pair for each block of `own`; slots follow state->order.
     */
    size_t norms;
    int64_t n_norms; /* number of these pairs */
    bool has_copy;   /* the parameter has a 16-bit working copy and a master */
};

/** A contiguous piece of the gradients that is summed over the replicas in one operation. */
struct yokei_bucket {
    int64_t n;          /* number of elements, padding included */
    int first, end;     /* the bucket's parameters are state->order[first] to state->order[end - 1] */
    int layer;          /* the bucket is complete when this layer's W of the last micro-batch is done */
    bool has_copy;      /* the working weights are in 16 bits */
    bool is_shared;     /* the bucket has the same slices on ranks whose other buckets differ */
    int64_t norm_block; /* elements of a block of the norm */
    /* REDUCE leaves only this rank's slice of the sum (a reduce-scatter); else the whole sum */
    bool sums_slices;
    struct yoke_range own, kept;                       /* as in the slots, but in elements of the whole row */
    size_t *counts;                                    /* [replicas] number of elements of each slice */
    size_t gradient, weight, master, moment1, moment2; /* offsets in bytes */
};

struct yokei_state {
    yoke_dtype dtype, wide;
    int n;
    struct yokei_slot *slot; /* [n] in the order of yokei_parameters */
    int *order;              /* [n] indices of parameters in the order of memory: bucket after bucket */
    int n_buckets;
    struct yokei_bucket *bucket; /* [n_buckets] in the order in which the backward pass completes them */
    bool is_divided;             /* moments and masters are divided among the replicas */
    size_t *counts;              /* [n_buckets][replicas] the buckets' `counts` point into it */
    size_t gradients, gradients_bytes;
    size_t tokens, targets; /* i32 [tokens of the rank's share] */
    size_t losses;          /* wide [tokens of the rank's share] */
    size_t norms;           /* wide [n_norms, 2] */
    int64_t n_tokens;       /* places for tokens */
    int64_t n_norms;
    size_t bytes; /* size of the state; the buffers of a program come after it */
    size_t divided_bytes,
        undivided_bytes; /* moments and masters: the size of this rank's part, and the size of all parts */
    struct yoke_memory_report report;
    size_t red_zone; /* bytes behind each array that belong to none (yokei_red_zone) */
};

/** One array of the state, such as the gradients of a bucket. */
struct yokei_array {
    const char *what;
    int bucket; /* -1: the array belongs to no bucket */
    size_t offset, bytes;
};
/** The array with this index, from 0, in no certain order; false past the last one. */
bool yokei_state_array(const struct yokei_state *state, int index, struct yokei_array *array_out);

/**
 * Give every array of the state its place. `n_tokens` is the number of tokens in the rank's share of a step
 * or of an evaluation, whichever is larger. `red_zone` is that of the device (yokei_red_zone). Free the state
 * with yokei_state_free. YOKE_ENOMEM.
 */
yoke_status yokei_state_create(const struct yokei_parameters *parameters,
                               const struct yokei_replicas *replicas, yoke_dtype dtype, int64_t n_tokens,
                               size_t bucket_bytes, size_t red_zone, struct yokei_state *state_out);
void yokei_state_free(struct yokei_state *state);

/**
 * The elements of a parameter that this rank has of one kind of tensor, and the offset of the first one. For
 * gradients the range is that of the elements that are valid after the sum over the replicas.
 */
struct yoke_range yokei_slot_range(const struct yokei_state *state, int parameter, enum yoke_tensor_kind kind,
                                   size_t *offset_out);
/** The type of a working weight. */
static inline yoke_dtype yokei_weight_dtype(const struct yokei_state *s, bool has_copy)
{
    return has_copy ? s->dtype : s->wide;
}
static inline bool yokei_is_empty(struct yoke_range r) { return r.begin >= r.end; }

#endif
