/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ops at shapes that the caller names, for `yoke tune` and `yoke bench kernels`: the conformance rows' own tensors, calls and
 * bounds, at sizes of transformers instead of ragged ones. A problem is such a call, ready to be made again and again.
 */
#ifndef CONFORM_PROBLEM_H
#define CONFORM_PROBLEM_H

#include "conform/conform.h"
#include "core/backend.h"

enum { CONFORM_MAX_DIMS = 6, CONFORM_MAX_SIZES = 12 };

/** One shape, with a name: "micro" and "124m" are those of the GPT-2s of these names, "tiny" is smaller. */
struct conform_size {
    const char *name;
    int64_t dim[CONFORM_MAX_DIMS];
};

/** What an op's shape consists of, and the shapes that are measured. An op without an entry does not compile. */
struct conform_sizes {
    const char *dims[CONFORM_MAX_DIMS + 1]; /* names, ended by NULL: "N", "C" */
    struct conform_size list[CONFORM_MAX_SIZES]; /* ended by a name of NULL; ascending */
    int least[CONFORM_MAX_DIMS];  /* a shape that is too long to be checked is halved in these dimensions, first to last, to no less */
    bool sums;                    /* rows are summed up: another variant gives other bits */
};
const struct conform_sizes *conform_sizes_of(enum yoke_op_id op);
/** The types of an op's inputs: bit (1u << dtype). */
uint32_t conform_dtypes_of(enum yoke_op_id op);
/** "M 512 N 1024 K 256", without dimensions that are 1 or 0. */
void conform_dims_text(enum yoke_op_id op, const int64_t dims[CONFORM_MAX_DIMS], char *out, size_t bytes);

struct conform_problem;
/**
 * The op's tensors on the device, filled. Outputs that are accumulated or updated grow with each call.
 * Errors: YOKE_ENOMEM, and what the arguments' check reports of impossible dims (YOKE_EINVAL).
 */
yoke_status conform_problem_open(yoke_device *device, yoke_stream *stream, enum yoke_op_id op, yoke_dtype dtype,
                                 const int64_t dims[CONFORM_MAX_DIMS], struct conform_problem **problem_out);
void conform_problem_close(struct conform_problem *problem);
/** Ask the variant that holds now, and reserve its scratch. YOKE_EUNSUPPORTED: it does not offer this call. */
yoke_status conform_problem_ready(struct conform_problem *problem, struct yoke_cost *cost_out);
/** Issue one call. */
yoke_status conform_problem_run(struct conform_problem *problem);

/**
 * Hold the variant that holds now to the reference at this shape, or at a shorter one where that would take long; *dims_out
 * says which. Of the line, verdict, ratio and what the failing element is are written.
 */
yoke_status conform_problem_check(yoke_device *device, yoke_stream *stream, enum yoke_op_id op, yoke_dtype dtype,
                                  const int64_t dims[CONFORM_MAX_DIMS], struct conform_line *line_out, int64_t dims_out[CONFORM_MAX_DIMS]);

#endif
