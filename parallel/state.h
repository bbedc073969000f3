/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What lives on the device across steps, and where: weights, gradients, moments, and a step's input and output.
 *
 * Gradients, working weights, masters and moments lie in *buckets*: flat rows of elements, a parameter behind the other. A bucket's gradients
 * are summed over the replicas in one go, and each replica owns a *slice* of the row: the norm of the gradients in it is that replica's to
 * compute, and where optimizer states are divided (ZeRO-1) only the owner has their moments and masters, and steps their weights.
 */
#ifndef PARALLEL_STATE_H
#define PARALLEL_STATE_H

#include "parallel/parameters.h"

/*
 * Elements of a parameter whose squares are added up on the device. Slices begin and end at multiples of it in the parameter, so the norm of all
 * gradients, which is added up exactly from these sums, has the same bits however parameters are cut into stages, buckets and slices. Vectors are
 * short: where blocks fill them they lie side by side, and one call serves them all.
 */
enum { YOKEI_NORM_BLOCK = 1024, YOKEI_NORM_BLOCK_OF_VECTORS = 32 };

/** The replicas of this rank's part of the model, and what they divide. */
struct yokei_replicas {
    int n, d;                /* how many, and which one this is */
    const int64_t *shares;   /* [n] in which buckets are cut into slices, none below 0, not all 0; NULL: equal */
    bool divides;            /* moments and masters (ZeRO-1); with one replica there is nothing to divide */
    bool is_tensor;          /* ranks share tensors: what all of them hold lies in buckets of its own */
    const bool *tied;        /* [parameters] that another stage holds too: each has a bucket of its own; NULL: none */
    bool has_ties;           /* ranks of that stage hold other pieces of them, so their slices would not meet: these gradients are summed whole */
};

/** Where one parameter's tensors lie, as offsets into the rank's one allocation. */
struct yokei_slot {
    int64_t n;               /* elements held by the ranks of a replica that share its tensors: this one's part */
    int bucket;
    int64_t at;              /* its first element in the bucket */
    struct yoke_range own;   /* of its elements, those in this rank's slice of the bucket: whole blocks */
    struct yoke_range kept;  /* those whose moments, and master where there is a copy, are here: all, or the own ones */
    size_t gradient, weight; /* of all elements; weight: what layers are given, the working copy or the f32 itself */
    size_t master, moment1, moment2; /* of the kept ones */
    size_t norms;            /* of the own ones: pairs of grad_norm, one for each of the bucket's blocks; slots as they lie */
    int64_t n_norms;
    bool has_copy;
};

/** A contiguous piece of the gradients that is summed over the replicas in one go. */
struct yokei_bucket {
    int64_t n;               /* elements, padding included */
    int first, end;          /* its parameters, in state->order */
    int layer;               /* complete once W of this layer is done in the last micro-batch */
    bool has_copy;           /* its weights are in 16 bits */
    bool is_shared;          /* its slices are the same on ranks that hold other buckets */
    int64_t norm_block;      /* elements */
    bool sums_slices;        /* REDUCE leaves the own slice of the sum; else all of it */
    struct yoke_range own, kept; /* as in the slots, of the whole row */
    size_t *counts;          /* [replicas] elements of each slice */
    size_t gradient, weight, master, moment1, moment2;
};

struct yokei_state {
    yoke_dtype dtype, wide;
    int n;
    struct yokei_slot *slot; /* as in yokei_parameters */
    int *order;              /* [n] parameters as they lie: bucket after bucket */
    int n_buckets;           /* in the order in which they become complete */
    struct yokei_bucket *bucket;
    bool is_divided;         /* moments and masters are */
    size_t *counts;          /* of all buckets */
    size_t gradients, gradients_bytes;
    size_t tokens, targets;  /* i32 [tokens of the rank's share] */
    size_t losses;           /* wide, the same */
    size_t norms;            /* wide [n_norms, 2] */
    int64_t n_norms;
    size_t bytes;            /* all of it; what a program needs comes behind */
    size_t divided_bytes, undivided_bytes; /* of what is divided: this rank's part; and all of it */
    struct yoke_memory_report report;
};

/** Lay out. `n_tokens`: of the rank's share of a step, or of an evaluation, whichever is more. */
yoke_status yokei_state_create(const struct yokei_parameters *parameters, const struct yokei_replicas *replicas, yoke_dtype dtype,
                               int64_t n_tokens, size_t bucket_bytes, struct yokei_state *state_out);
void yokei_state_free(struct yokei_state *state);

/** Elements of a parameter that are here of a kind of tensor, and where the first of them lies. Gradients: valid after the sum. */
struct yoke_range yokei_slot_range(const struct yokei_state *state, int parameter, enum yoke_tensor_kind kind, size_t *offset_out);
/** A working weight's type. */
static inline yoke_dtype yokei_weight_dtype(const struct yokei_state *s, bool has_copy) { return has_copy ? s->dtype : s->wide; }
static inline bool yokei_is_empty(struct yoke_range r) { return r.begin >= r.end; }

#endif
