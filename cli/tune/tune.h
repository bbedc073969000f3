/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke tune: the measurements (measure.c), the choice (choose.c), and the file and the command (tune.c). A
 * variant is one of several implementations of an operation on a device.
 */
#ifndef CLI_TUNE_TUNE_H
#define CLI_TUNE_TUNE_H

#include <stdio.h>

#include "cli/bench/sides.h"
#include "core/tune.h"

/*
 * A variant replaces the default variant if three things hold. The speeds are relative to the default.
 * - By the medians over rounds, the geometric mean of the variant's speed over the shapes of a class is at
 *   least TUNE_MARGIN.
 * - By the best rounds, this geometric mean is at least TUNE_BEST. Other programs on the machine have not
 *   made the best rounds slower.
 * - The speed is at least TUNE_LOSS at each shape.
 */
#define TUNE_MARGIN 1.05
#define TUNE_BEST 1.02
#define TUNE_LOSS 0.97
enum { TUNE_MOST_VARIANTS = 32 };

enum tune_verdict {
    TUNE_DEFAULT, /* the variant that runs without a tuning file; the others' ratios are relative to it */
    TUNE_CHOSEN,
    TUNE_KEPT_OUT, /* not faster by the margin */
    TUNE_SLOW,     /* so slow in the first, brief measurement that it was not compared with the reference */
    TUNE_REFUSED,  /* failed conformance */
    TUNE_ABSENT,   /* does not offer this operation, type or shape */
};
const char *tune_verdict_name(enum tune_verdict verdict);

/** The result of one variant at one size. */
struct tune_row {
    enum yoke_op_id op;
    yoke_dtype dtype;
    const struct conform_size *size;
    const char *variant;
    enum tune_verdict verdict;
    double seconds; /* median; for TUNE_SLOW the time of the first measurement; 0: not measured */
    double ratio;   /* median over rounds of the speed relative to the default; 0: not measured */
    double best;    /* the same by the best rounds */
    char why[200];  /* the reason for TUNE_REFUSED */
    char algorithm[YOKEI_DETAIL_BYTES]; /* of the library that this variant calls, or "" */
};

/** All variants of one operation and type at all sizes. */
struct tune_matrix {
    enum yoke_op_id op;
    yoke_dtype dtype;
    int n_sizes, n_variants;
    const struct conform_size *sizes;
    const char *variants[TUNE_MOST_VARIANTS];
    struct tune_point {
        bool offered;      /* the built-in rule's variant offers this size */
        double size, edge; /* size and edge of the call, as the device defines them */
        int by_rule;       /* the variant that ran without a choice */
        double seconds;    /* its time in the first measurement; later its median */
    } point[CONFORM_MAX_SIZES];
    struct tune_row cell[CONFORM_MAX_SIZES][TUNE_MOST_VARIANTS];
    int chosen[CONFORM_MAX_SIZES]; /* the chosen variant for each size; -1: the built-in rule */
};

/** How far a whole run is: sizes that are done, those of the present operation and type, and all of them. */
struct tune_share {
    int done, here, all;
};

/**
 * Measure all variants of an operation on a device that was opened without a tuning file. First each variant
 * is measured briefly. Then the variants that may win are tested for conformance. Then the variants are
 * measured in turn, for `seconds` at each size. No variant is forced afterwards. A variant that fails
 * conformance is in the matrix and is not measured further. Errors: the errors that the device reports for
 * its own default.
 */
yoke_status tune_measure(yoke_device *device, yoke_stream *stream, enum yoke_op_id op, yoke_dtype dtype,
                         const struct conform_size *sizes, int n_sizes, double seconds,
                         const struct tune_share *share, struct tune_matrix *out);

/** Set matrix->chosen and the verdicts. docs/TUNING.md has the rules. */
void tune_choose(struct tune_matrix *matrix);
/**
 * Write the lines of a tuning file for the choices, with the measurements as comments. Returns the number of
 * choices.
 */
int tune_write(const struct tune_matrix *matrix, FILE *to);

#endif
