/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Conformance compares every op of a device with the reference backend, element by element. The differences
 * must stay within bounds that are derived from the unit roundoff and the length of the reductions.
 * tests/conform and `yoke verify` use this library.
 *
 * A case is one call of an op with one set of inputs, drawn from a seed. The reference backend in f64 (the
 * oracle) gets the same inputs, converted exactly. The difference of the two results must be within the bound
 * from conform/<family>.c. Around and between the elements of a result lie canaries (known bytes) that the op
 * must not overwrite. Inputs must not change. The padding of inputs is NaN, so that an op that reads it is
 * noticed. A second run must give the same bits.
 */
#ifndef CONFORM_CONFORM_H
#define CONFORM_CONFORM_H

#include <yoke/yoke.h>

struct conform_line;
/** Called once for each line of results, in order. `line` is valid only during the call. */
typedef void (*conform_callback)(void *context, const struct conform_line *line);

/** The hashes of one case, see conform_options.bits. */
struct conform_bits {
    size_t size;
    const char *op;
    yoke_dtype dtype;
    const char *variant; /* "" if the op has no variants */
    int case_number;     /* from 1 */
    const char *words;   /* the case in words: "N 5 C 257 ld +3 nan" */
    uint64_t inputs;     /* hash of all that the op can read */
    uint64_t results;    /* hash of the results' elements. All NaN count as equal */
};
/** Called once for each case that ran, in order. `bits` is valid only during the call. */
typedef void (*conform_bits_callback)(void *context, const struct conform_bits *bits);

/** The tests to run. In every field zero means the default. */
struct conform_options {
    size_t size;
    /* ops ("layernorm_backward") and families ("norm"), with commas between them; NULL: all */
    const char *op;
    const char *dtype;   /* types ("bf16,f16"); NULL: all types that the device stores */
    const char *variant; /* one variant (implementation of an op) by name; NULL: all variants of the device */
    uint64_t seed;       /* seed of the inputs; default 1 */
    bool full;           /* the full sweep: many more random shapes, and every variant in every type */
    int only_case;       /* run one case of each line, by its number from 1; 0: all */
    /* go on after this line, which counts as failed; for a line that killed its process */
    const struct conform_line *after;
    /* Called before each case, with op, type, variant, worst_case and case_number set; may be NULL. */
    conform_callback before_case;
    /*
     * If this is set, each case runs once, and nothing is compared with the reference. The callback gets the
     * hashes of the case. A line then passes if no op returned an error.
     */
    conform_bits_callback bits;
    /* Called before each case with the share of the sweep that is done, from 0 to 1; may be NULL. */
    void (*share)(void *context, double share);
    yoke_device *gradient_device; /* the device for conform_gradients; NULL: the reference device */
};
/* clang-format off */
#define CONFORM_OPTIONS_INIT { .size = sizeof(struct conform_options) }
/* clang-format on */

/*
 * CONFORM_LEFT_OUT: the default sweep does not run this variant in this type (see conform_run). The full
 * sweep does.
 */
enum conform_verdict { CONFORM_PASS, CONFORM_FAIL, CONFORM_SKIP, CONFORM_LEFT_OUT };

/** The result of all cases of one (op, type, variant). */
struct conform_line {
    size_t size;
    const char *op;
    yoke_dtype dtype;    /* type of the inputs */
    const char *variant; /* "" if the op has no variants */
    const char *device;  /* the device's spec, such as "opencl:0" */
    enum conform_verdict verdict;
    int n_cases;       /* number of cases that ran */
    int n_not_offered; /* number of cases whose shape or type the op's `can` function declined */
    double ratio; /* greatest |got - wanted| / bound; infinity if NaN or infinity is in the wrong place */
    /* greatest distance in units in the last place (of the element, or of its tensor's root mean square) */
    double ulp;
    uint64_t seed;
    /*
     * The first case that failed; if none failed, the case with the greatest ratio. The element is the one
     * with the greatest ratio.
     */
    char worst_case[128]; /* in words: "N 5 C 257 ld +3 nan" */
    int case_number;      /* from 1; 0: no case ran */
    /* the fields from worst_output to `bound` describe an element; false if the op returned an error */
    bool has_element;
    char worst_output[16];
    int64_t worst_index[3]; /* batch, row, column */
    double got, wanted, bound;
    yoke_status status; /* the status that the op returned */
    char reason[1024];  /* why the line failed or was skipped, with a compiler's message; "" if it passed */
};

struct conform_summary {
    size_t size;
    int n_pass, n_fail, n_skip, n_left_out; /* numbers of lines */
    int n_cases;
};

/**
 * The index of an op, from 0, in the order in which a model's forward pass and then its backward pass use the
 * ops. If several ops fail, look at the first one. Later ops may fail as a consequence, or from the same
 * cause.
 */
int conform_order(const char *op);

/**
 * Compare the ops of `device` with the reference backend, in the order of conform_order. If an op fails, the
 * call still succeeds: the op's line says FAIL, and the summary counts it. `callback` may be NULL. The device
 * must be idle. At the end the device has no forced variants. Every op, type and variant of the device gets a
 * line. If the device compiles programs at run time, the default sweep runs every variant in f32. In each
 * other type it runs the first variant, and those that the device chooses. The lines of the other variants
 * say LEFT OUT.
 * Errors: YOKE_EINVAL (an unknown op, type or variant; the text has the nearest name), YOKE_ENOMEM, and the
 *         errors of opening the reference device or a stream.
 */
yoke_status conform_run(yoke_device *device, const struct conform_options *options, conform_callback callback,
                        void *context, struct conform_summary *summary_out);

/**
 * Check every backward op by central differences in f64. |analytic - numeric| must be within a bound for
 * truncation and cancellation. Each gradient gets one line: op "layernorm_backward", variant "gradient",
 * worst_output "dx". The cases of such a line are elements. The call uses these options: op (a backward op,
 * or a family), seed and gradient_device. This device must store f64, and the host must be able to access its
 * memory. YOKE_EINVAL if options set dtype, variant or only_case, which gradients do not have, and for an op
 * that has no gradient.
 */
yoke_status conform_gradients(const struct conform_options *options, conform_callback callback, void *context,
                              struct conform_summary *summary_out);

/**
 * Write a line as text:
 *   layernorm_backward bf16 avx512 host   17 cases  bound 0.31  ulp 2  worst dx[3,17] ...  PASS
 * The text of a failure has got, wanted, the case and the seed.
 */
void conform_text(const struct conform_line *line, char *text, size_t bytes);

/**
 * Write the command that repeats only the case that a line names:
 *   yoke verify --device opencl:0 --op ... --case 17
 */
void conform_command(const struct conform_line *line, char *text, size_t bytes);

/** "PASS", "FAIL", "SKIP", "LEFT OUT". */
const char *conform_verdict_name(enum conform_verdict verdict);

#endif
