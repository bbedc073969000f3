/* SPDX-License-Identifier: Apache-2.0 */
/** yoke tune: measuring (measure.c), choosing (choose.c), and the file and the command (tune.c). */
#ifndef CLI_TUNE_TUNE_H
#define CLI_TUNE_TUNE_H

#include <stdio.h>

#include "cli/bench/sides.h"

/*
 * A variant takes the default's place where it is TUNE_MARGIN times as fast, by the medians of rounds, on the mean over the shapes
 * of a class, and TUNE_BEST times by the best of rounds, to which nothing else that runs has added; at none of the shapes it may
 * fall below TUNE_LOSS.
 */
#define TUNE_MARGIN 1.05
#define TUNE_BEST 1.02
#define TUNE_LOSS 0.97
enum { TUNE_MOST_VARIANTS = 32 };

enum tune_verdict {
    TUNE_DEFAULT,  /* what runs without a file; the others' ratios are to it */
    TUNE_CHOSEN,
    TUNE_KEPT_OUT, /* not faster by the margin */
    TUNE_SLOW,     /* so slow in a first look that it was not held to the reference */
    TUNE_REFUSED,  /* fails conformance */
    TUNE_ABSENT,   /* does not offer this op, type or shape */
};
const char *tune_verdict_name(enum tune_verdict verdict);

/** What became of one variant at one size. */
struct tune_row {
    enum yoke_op_id op;
    yoke_dtype dtype;
    const struct conform_size *size;
    const char *variant;
    enum tune_verdict verdict;
    double seconds; /* median; of TUNE_SLOW the first look; 0: not measured */
    double ratio;   /* times as fast as the default, the median over rounds; 0: not measured */
    double best;    /* and by the best of rounds */
    char why[200];  /* of TUNE_REFUSED */
};

/** All variants of one op and type at all sizes. */
struct tune_matrix {
    enum yoke_op_id op;
    yoke_dtype dtype;
    int n_sizes, n_variants;
    const struct conform_size *sizes;
    const char *variants[TUNE_MOST_VARIANTS];
    struct tune_point {
        bool offered;          /* this size, by the built-in rule */
        double size, edge;     /* as the device measures them */
        int by_rule;           /* the variant that ran without a choice */
        double seconds;        /* of it, in the first look; then the median */
    } point[CONFORM_MAX_SIZES];
    struct tune_row cell[CONFORM_MAX_SIZES][TUNE_MOST_VARIANTS];
    int chosen[CONFORM_MAX_SIZES]; /* the variant of each size; -1: the built-in rule */
};

/**
 * Measure all variants of an op on a device that was opened without choices: a first look; conformance of those that may win;
 * then `seconds` for each size, in turn. Nothing is forced afterwards. What fails conformance is in the matrix and is never
 * measured further. Errors: what the device reports of its own default.
 */
yoke_status tune_measure(yoke_device *device, yoke_stream *stream, enum yoke_op_id op, yoke_dtype dtype, const struct conform_size *sizes,
                         int n_sizes, double seconds, struct tune_matrix *out);

/** Fill matrix->chosen and the verdicts: see docs/TUNING.md for the rules. */
void tune_choose(struct tune_matrix *matrix);
/** The lines of a tuning file for what was chosen, with what was measured as comments. Returns the number of choices. */
int tune_write(const struct tune_matrix *matrix, FILE *to);

#endif
