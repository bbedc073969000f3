/* SPDX-License-Identifier: Apache-2.0 */
/** What `yoke tune` and `yoke bench kernels` share: which ops, types and sizes are meant, and measurements in turn. */
#ifndef CLI_BENCH_SIDES_H
#define CLI_BENCH_SIDES_H

#include "cli/cli.h"
#include "conform/problem.h"

struct kernels_selection {
    bool op[YOKE_N_OPS], dtype[YOKE_N_DTYPES];
};
/**
 * --op (ops and families) and --dtype of a verb; all where they are not given. YOKE_EINVAL with the nearest name.
 * A pair that a backend does not store is left to its `can`.
 */
yoke_status kernels_select(const struct cli_options *options, struct kernels_selection *out);
static inline bool kernels_selected(const struct kernels_selection *s, enum yoke_op_id op, yoke_dtype dtype)
{
    return s->op[op] && s->dtype[dtype] && conform_dtypes_of(op) & 1u << dtype;
}

/**
 * The sizes to measure an op at: those of conform_sizes whose names `--size` holds (a first word, such as micro, is enough),
 * or shapes such as "N=512 C=768", in which dimensions that are not named are those of the op's last size. Without --size:
 * all that are not named `without`. Returns their number, 0: the op has none of them. A text that fits no op is for
 * kernels_check_sizes to refuse.
 */
int kernels_sizes(const struct cli_options *options, enum yoke_op_id op, const char *without, struct conform_size out[CONFORM_MAX_SIZES]);
/** YOKE_EINVAL where an item of --size means nothing to any op that is selected. */
yoke_status kernels_check_sizes(const struct cli_options *options, const struct kernels_selection *selection);

/** One of several that are measured in turn. `run` makes n calls and waits for their end. */
struct kernels_side {
    yoke_status (*run)(void *context, int n);
    void *context;
    int n_calls;      /* of a sample */
    double *times;    /* seconds of a call, one per round */
    double median;
};
enum { KERNELS_LEAST_ROUNDS = 5, KERNELS_MOST_ROUNDS = 31 };
/**
 * Measure all sides, round by round, one sample each in turn: about `budget` seconds together, but at least
 * KERNELS_LEAST_ROUNDS rounds. The first call of each, which may compile, and what warms caches up is not counted.
 * `times` has room for KERNELS_MOST_ROUNDS; *rounds_out gets how many there were.
 */
yoke_status kernels_measure(struct kernels_side *sides, int n_sides, double budget, int *rounds_out);
/** The median of x[i] / y[i]: both sides of a round were measured within moments. And the ratio of the least of each: what else runs only adds. */
double kernels_ratio(const double *x, const double *y, int n);
double kernels_least_ratio(const double *x, const double *y, int n);

/** "12.3 us" */
void kernels_time_text(double seconds, char *out, size_t bytes);

#endif
