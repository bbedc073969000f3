/* SPDX-License-Identifier: Apache-2.0 */
/** The arithmetic of the collectives, the same on every rank. */
#ifndef COLLECTIVES_SUM_H
#define COLLECTIVES_SUM_H

#include <yoke/comm.h>

/** The type in which partial results of a reduction travel. */
yoke_dtype yokei_wire_dtype(yoke_dtype dtype, yoke_reduction reduction, enum yoke_accum accum);
/** target = message OP own (either may be NULL: then the other as it is), in up to three places, in one pass. */
struct yokei_combine {
    size_t n;
    yoke_reduction reduction;
    const void *a, *b;        /* operands in their order; b may be NULL */
    yoke_dtype a_dtype, b_dtype;
    bool finish;              /* avg: times 1/size */
    bool canonical;           /* NaN becomes the quiet one without payload */
    int size;
    void *out[3];             /* NULL: not written */
    yoke_dtype out_dtype[3];
};
void yokei_combine(const struct yokei_combine *c);
/** For tests: sum by the nth best instruction set of this processor from now on; its name, NULL: there is none. */
const char *yokei_sum_use(int nth);
/**
 * out[..][i] = in[0][i] OP in[1][i] OP …, from the left, rounded once; NaN is the quiet one without payload.
 * A sum may be made in parts: with `partial` the outputs are of type `wire`, and avg does not divide yet; the first n_wire inputs
 * are such.
 */
struct yokei_fold {
    size_t n;
    yoke_reduction reduction; /* avg: the sum / size */
    yoke_dtype dtype;         /* of inputs and outputs */
    yoke_dtype wire;
    int n_wire;
    bool partial;
    int n_in, n_out, size;    /* at least one input */
    const void *const *in;
    void *const *out;         /* may be an input, at the same place */
    unsigned stream;          /* bit o: output o goes past the caches; the last bit stands for all further ones */
    unsigned shown;           /* the same for: other ranks read output o next. It is copied there from elsewhere, line by whole line */
};
void yokei_fold(const struct yokei_fold *fold);
void yokei_copy(void *target, const void *source, size_t bytes, bool stream);

#endif
