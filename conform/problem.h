/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ops at shapes that the caller chooses, for `yoke tune` and `yoke bench kernels`. Tensors, calls and bounds
 * are those of the conformance rows (conform/trial.h), but the sizes are those of transformers. A problem is
 * one call of an op, ready to be made many times.
 */
#ifndef CONFORM_PROBLEM_H
#define CONFORM_PROBLEM_H

#include "conform/conform.h"
#include "core/backend.h"

enum { CONFORM_MAX_DIMS = 6, CONFORM_MAX_SIZES = 12 };

/**
 * One shape, with a name. "micro" and "124m" are shapes from the GPT-2 models of these names. "tiny" is
 * smaller.
 */
struct conform_size {
    const char *name;
    int64_t dim[CONFORM_MAX_DIMS];
};

/**
 * The dimensions of an op, and the shapes that are measured. Every op must have an entry, or Yoke does not
 * compile.
 */
struct conform_sizes {
    /* names of the dimensions, such as "N", "C"; NULL ends the list */
    const char *dims[CONFORM_MAX_DIMS + 1];
    struct conform_size list[CONFORM_MAX_SIZES]; /* in ascending order; a name of NULL ends the list */
    /* A shape that takes too long to check is halved, dimension by dimension, to no less than this. */
    int least[CONFORM_MAX_DIMS];
    /* The op sums rows, and its lanes do so together. So another variant gives other bits. False for gemm. */
    bool sums;
};
const struct conform_sizes *conform_sizes_of(enum yoke_op_id op);
/** The types that an op's inputs may have, as a mask of bits (1u << dtype). */
uint32_t conform_dtypes_of(enum yoke_op_id op);
/**
 * Write a shape as text: "M 512 N 1024 K 256". After the second dimension, sizes of 0 or 1 are left out. A
 * flag (ta, tb) that is 1 is written by its name alone.
 */
void conform_dims_text(enum yoke_op_id op, const int64_t dims[CONFORM_MAX_DIMS], char *out, size_t bytes);

struct conform_problem;
/**
 * Allocate the op's tensors on the device and fill them. Outputs to which the op adds, or that it updates,
 * grow with each call. Free the problem with conform_problem_close.
 * Errors: YOKE_ENOMEM, and YOKE_EINVAL if the op's check of its arguments refuses the dimensions.
 */
yoke_status conform_problem_open(yoke_device *device, yoke_stream *stream, enum yoke_op_id op,
                                 yoke_dtype dtype, const int64_t dims[CONFORM_MAX_DIMS],
                                 struct conform_problem **problem_out);
void conform_problem_close(struct conform_problem *problem);
/**
 * Ask the current variant for its cost, and reserve its scratch memory. YOKE_EUNSUPPORTED: the variant does
 * not offer this call.
 */
yoke_status conform_problem_ready(struct conform_problem *problem, struct yoke_cost *cost_out);
/** Issue the call once. */
yoke_status conform_problem_run(struct conform_problem *problem);

/**
 * Compare the current variant with the reference at this shape. If that would take long, it uses a smaller
 * shape; dims_out gets the shape that was used. Of the line it writes the verdict, the ratio, and the fields
 * that describe the failing element.
 */
yoke_status conform_problem_check(yoke_device *device, yoke_stream *stream, enum yoke_op_id op,
                                  yoke_dtype dtype, const int64_t dims[CONFORM_MAX_DIMS],
                                  struct conform_line *line_out, int64_t dims_out[CONFORM_MAX_DIMS]);

#endif
