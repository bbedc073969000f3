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

struct conform_line;
/** Called once per line, in order; `line` is valid during the call. */
typedef void (*conform_callback)(void *context, const struct conform_line *line);

/** What to run. Zero means the default everywhere. */
struct conform_options {
    size_t size;
    const char *op;      /* one op ("layernorm_backward"), a family ("norm"); NULL: all */
    const char *dtype;   /* one type ("bf16"); NULL: all that the device stores */
    const char *variant; /* one variant by name; NULL: all of the device */
    uint64_t seed;       /* of the inputs; default 1 */
    bool full;           /* the soak's sweep: many more random shapes, and every variant in every type */
    int only_case;       /* one case of each line, by its number from 1; 0: all */
    const struct conform_line *after; /* go on behind this line, which counts as failed: for one that killed its process */
    conform_callback before_case;     /* called before each case, with op, type, variant, worst_case and case_number set; may be NULL */
    yoke_device *gradient_device; /* of conform_gradients; NULL: the reference device */
};
#define CONFORM_OPTIONS_INIT { .size = sizeof(struct conform_options) }

/* CONFORM_LEFT_OUT: the usual sweep does not run this variant in this type (see conform_run); `full` does. */
enum conform_verdict { CONFORM_PASS, CONFORM_FAIL, CONFORM_SKIP, CONFORM_LEFT_OUT };

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
    /* The first case that failed, or the one with the greatest ratio; in it, the element with the greatest ratio. */
    char worst_case[128]; /* in words: "N 5 C 257 ld +3 nan" */
    int case_number;      /* from 1; 0: none ran */
    bool has_element;     /* what follows is of an element; not where the op itself returned an error */
    char worst_output[16];
    int64_t worst_index[3]; /* batch, row, column */
    double got, wanted, bound;
    yoke_status status;    /* what the op returned: YOKE_OK where it ran */
    char reason[1024];     /* why it failed or was skipped, with a compiler's message; "" when it passed */
};

struct conform_summary {
    size_t size;
    int n_pass, n_fail, n_skip, n_left_out; /* lines */
    int n_cases;
};

/**
 * The place of an op in the order in which a model's forward and then backward pass use them, from 0: the first of several
 * that differ is the one to look at, because what comes later may differ in consequence, or by the same cause.
 */
int conform_order(const char *op);

/**
 * Hold `device` to the reference backend, op by op in conform_order. A conformance failure is no error of this call: it is
 * a line that says FAIL and a count in the summary. `callback` may be NULL. The device must be idle; its forced variants are
 * released at the end. Every op, type and variant of the device gets a line. Where programs are compiled at run time, the
 * usual sweep runs every variant in f32 and one of them in each other type; the others' lines say LEFT OUT.
 * Errors: YOKE_EINVAL (an unknown op, type or variant, with the nearest name), YOKE_ENOMEM, and what opening the
 * reference device or a stream reports.
 */
yoke_status conform_run(yoke_device *device, const struct conform_options *options, conform_callback callback,
                        void *context, struct conform_summary *summary_out);

/**
 * Central differences in f64, for every backward op: |analytic - numeric| against a bound of truncation and cancellation.
 * One line per gradient: op "layernorm_backward", variant "gradient", worst_output "dx"; its cases are elements.
 * `options`: op (a backward op, or a family), seed and gradient_device, which stores f64 and lets the host see its memory,
 * are looked at. YOKE_EINVAL for a dtype, variant or case, which there are none of, and for an op that has no gradient.
 */
yoke_status conform_gradients(const struct conform_options *options, conform_callback callback, void *context,
                              struct conform_summary *summary_out);

/**
 * A line as text:  layernorm_backward bf16 avx512 host   17 cases  bound 0.31  ulp 2  worst dx[3,17] ...  PASS
 * Failures carry got, wanted, the case and the seed.
 */
void conform_text(const struct conform_line *line, char *text, size_t bytes);

/** The command that repeats the case that a line names, alone: yoke verify --device opencl:0 --op ... --case 17 */
void conform_command(const struct conform_line *line, char *text, size_t bytes);

/** "PASS", "FAIL", "SKIP", "LEFT OUT". */
const char *conform_verdict_name(enum conform_verdict verdict);

#endif
