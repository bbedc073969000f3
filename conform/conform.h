/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Conformance: every op of a device against the reference backend, elementwise, within bounds that are derived from unit
 * roundoff and reduction length. Used by tests/conform and by `yoke verify`.
 *
 * One case is: inputs drawn from a seed; the same inputs, converted exactly, given to the reference backend in f64 (the
 * oracle); both results compared against the bound of conform/<family>.c. Around and between the elements of a result lie
 * canaries that must survive, inputs must not change, padding of inputs is NaN, and a second run must give the same bits.
 */
#ifndef CONFORM_CONFORM_H
#define CONFORM_CONFORM_H

#include <yoke/yoke.h>

/** What to run. Zero means the default everywhere. */
struct conform_options {
    size_t size;
    const char *op;      /* one op ("layernorm_backward"), a family ("norm"); NULL: all */
    const char *dtype;   /* one type ("bf16"); NULL: all that the device stores */
    const char *variant; /* one variant by name; NULL: all of the device */
    uint64_t seed;       /* of the inputs; default 1 */
    bool full;           /* the soak's sweep: many more random shapes, and every variant in every type */
    yoke_device *gradient_device; /* of conform_gradients; NULL: the reference device */
};
#define CONFORM_OPTIONS_INIT { sizeof(struct conform_options), NULL, NULL, NULL, 0, false, NULL }

enum conform_verdict { CONFORM_PASS, CONFORM_FAIL, CONFORM_SKIP };

/** The result of all cases of one (op, type, variant). */
struct conform_line {
    size_t size;
    const char *op;
    yoke_dtype dtype;    /* of the inputs */
    const char *variant; /* "" where the op has no variants */
    const char *device;  /* spec */
    enum conform_verdict verdict;
    int n_cases;         /* that ran */
    int n_not_offered;   /* shapes or types that `can` declined */
    double ratio;        /* greatest |got - wanted| / bound; infinity where NaN or infinity is misplaced */
    double ulp;          /* greatest distance in units in the last place (of the element, or of its tensor's root mean square) */
    uint64_t seed;
    /* The element with the greatest ratio. */
    char worst_case[128]; /* its case, in words: "N 5 C 257 ld +3 nan" */
    char worst_output[16];
    int64_t worst_index[3]; /* batch, row, column */
    double got, wanted, bound;
    char reason[256]; /* why it failed or was skipped; "" when it passed */
};

/** Called once per line, in order; `line` is valid during the call. */
typedef void (*conform_callback)(void *context, const struct conform_line *line);

struct conform_summary {
    size_t size;
    int n_pass, n_fail, n_skip; /* lines */
    int n_cases;
};

/**
 * Hold `device` to the reference backend. A conformance failure is no error of this call: it is a line that says FAIL
 * and a count in the summary. `callback` may be NULL. The device must be idle; its forced variants are released at the end.
 * Errors: YOKE_EINVAL (an unknown op, type or variant, with the nearest name), YOKE_ENOMEM, and what opening the
 * reference device or a stream reports.
 */
yoke_status conform_run(yoke_device *device, const struct conform_options *options, conform_callback callback,
                        void *context, struct conform_summary *summary_out);

/**
 * Central differences in f64, for every backward op: |analytic - numeric| against a bound of truncation and cancellation.
 * One line per gradient: op "layernorm_backward", variant "gradient", worst_output "dx"; its cases are elements.
 * `options`: op, seed and gradient_device, which stores f64 and lets the host see its memory, are looked at.
 */
yoke_status conform_gradients(const struct conform_options *options, conform_callback callback, void *context,
                              struct conform_summary *summary_out);

/**
 * A line as text:  layernorm_backward bf16 avx512 host   17 cases  bound 0.31  ulp 2  worst dx[3,17] ...  PASS
 * Failures carry got, wanted, the case and the seed.
 */
void conform_text(const struct conform_line *line, char *text, size_t bytes);

/** "PASS", "FAIL", "SKIP". */
const char *conform_verdict_name(enum conform_verdict verdict);

#endif
