/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Parts that `yoke tune` and `yoke bench kernels` share: the selection of operations, types and sizes, and
 * measurements in turn.
 */
#ifndef CLI_BENCH_SIDES_H
#define CLI_BENCH_SIDES_H

#include "cli/cli.h"
#include "conform/problem.h"

struct kernels_selection {
    bool op[YOKE_N_OPS], dtype[YOKE_N_DTYPES];
};
/**
 * Read the options --op (operations and families) and --dtype of a verb. An option that is not given selects
 * all. The selection may hold a pair that a backend does not store. The backend's `can` function refuses this
 * pair.
 * Errors: YOKE_EINVAL; the text has the nearest name.
 */
yoke_status kernels_select(const struct cli_options *options, struct kernels_selection *out);
static inline bool kernels_selected(const struct kernels_selection *s, enum yoke_op_id op, yoke_dtype dtype)
{
    return s->op[op] && s->dtype[dtype] && conform_dtypes_of(op) & 1u << dtype;
}

/**
 * The sizes at which to measure an operation. `--size` holds names from conform_sizes (a first word, such as
 * micro, is enough), or shapes such as "N=512 C=768". A dimension that a shape does not name is that of the
 * operation's last size. Without --size those are used that are named `only`, or if `only` is "", all that
 * are not named `without`. Returns the number of sizes. 0: the operation has none of them.
 * kernels_check_sizes refuses a text that fits no operation.
 */
int kernels_sizes(const struct cli_options *options, enum yoke_op_id op, const char *only,
                  const char *without, struct conform_size out[CONFORM_MAX_SIZES]);
/** Check that each item of --size fits a selected operation. Errors: YOKE_EINVAL. */
yoke_status kernels_check_sizes(const struct cli_options *options, const struct kernels_selection *selection);

/** One of several calls that are measured in turn. `run` makes n calls and waits for their end. */
struct kernels_side {
    yoke_status (*run)(void *context, int n);
    void *context;
    int n_calls;   /* number of calls in a sample */
    double *times; /* [KERNELS_MOST_ROUNDS] seconds of a call, one value per round */
    double median;
};
enum { KERNELS_LEAST_ROUNDS = 5, KERNELS_MOST_ROUNDS = 31 };
/**
 * Measure all sides in rounds. In each round each side makes one sample. The rounds take about `budget`
 * seconds together, but there are at least KERNELS_LEAST_ROUNDS of them. The first call of each side, which
 * may compile, and the calls that warm the caches up are not counted. `times` must have room for
 * KERNELS_MOST_ROUNDS values. *rounds_out is the number of rounds.
 */
yoke_status kernels_measure(struct kernels_side *sides, int n_sides, double budget, int *rounds_out);
/**
 * kernels_ratio returns the median of x[i] / y[i]; the samples of a round were taken shortly after one
 * another. kernels_least_ratio returns the ratio of the least times, because other programs can only make a
 * time longer.
 */
double kernels_ratio(const double *x, const double *y, int n);
double kernels_least_ratio(const double *x, const double *y, int n);

/** Write a time such as "12.3 us" to `out`. */
void kernels_time_text(double seconds, char *out, size_t bytes);

#endif
