/* SPDX-License-Identifier: Apache-2.0 */
/** The arithmetic of the collectives, the same on every rank. */
#ifndef COLLECTIVES_ARITHMETIC_SUM_H
#define COLLECTIVES_ARITHMETIC_SUM_H

#include <yoke/comm.h>

/** The type of partial results in messages. */
yoke_dtype yokei_wire_dtype(yoke_dtype dtype, yoke_reduction reduction, enum yoke_accum accum);
/**
 * target = message OP own, in up to three outputs, in one pass. If one operand is NULL, the target is the
 * other one.
 */
struct yokei_combine {
    size_t n;
    yoke_reduction reduction;
    const void *a, *b; /* operands in their order; b may be NULL */
    yoke_dtype a_dtype, b_dtype;
    bool finish;    /* for avg: multiply by 1/size */
    bool canonical; /* NaN becomes the quiet NaN without payload */
    int size;
    void *out[3]; /* NULL: not written */
    yoke_dtype out_dtype[3];
};
void yokei_combine(const struct yokei_combine *c);
/**
 * For tests: from now on use this processor's nth best instruction set for sums. Returns the set's name;
 * NULL: there is no nth set.
 */
const char *yokei_sum_use(int nth);
/**
 * out[..][i] = in[0][i] OP in[1][i] OP ..., from the left, rounded once. NaN becomes the quiet NaN without
 * payload.
 * A sum may be made in parts. With `partial` the outputs are of type `wire`, and avg does not divide yet. The
 * first n_wire inputs are partial sums of type `wire`.
 */
struct yokei_fold {
    size_t n;
    yoke_reduction reduction; /* avg: the sum / size */
    yoke_dtype dtype;         /* type of the inputs and outputs */
    yoke_dtype wire;
    int n_wire;
    bool partial;
    int n_in, n_out, size; /* at least one input */
    const void *const *in;
    void *const *out; /* may be an input, at the same place */
    /* Bit o: output o is stored past the caches. The last bit stands for all further outputs. */
    unsigned stream;
    /* Bit o: other ranks read output o next. It is computed elsewhere and then copied there by whole cache
       lines. */
    unsigned published;
};
void yokei_fold(const struct yokei_fold *fold);
void yokei_copy(void *target, const void *source, size_t bytes, bool stream);

#endif
