/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A trial is one case of a conformance row, and a row is the set of conformance tests of one op. A trial has
 * its tensors in host memory, on the device, and in f64 for the oracle (the reference backend). This header
 * also has the generators that fill the tensors, and the comparison. Read it to write a row.
 */
#ifndef CONFORM_TRIAL_H
#define CONFORM_TRIAL_H

#include "conform/conform.h"
#include "conform/problem.h"
#include "core/backend.h"
#include "core/base/base.h"

#include <math.h>

enum { CONFORM_MAX_TENSORS = 14 };

enum role {
    IN,  /* an input; the op must not change it */
    OUT, /* an output that the op overwrites; it holds NaN before */
    SUM, /* read and written: the op adds to random values, or updates the tensor in place */
};

/** The kinds of values in the main inputs of a case. */
enum flavour {
    ORDINARY,  /* normally distributed */
    WIDE,      /* signed powers of two over a wide range of exponents, times 1 to 2 */
    SUBNORMAL, /* below the type's smallest normal number; some are zero */
    ZEROS,     /* half of the elements +0 and -0, the other half ORDINARY */
    NANS,      /* ORDINARY with a few NaN */
    INFS,      /* ORDINARY with a few infinities of both signs */
    N_FLAVOURS
};

/* Special values of tensor.bound. */
/* The maths does not define the element (0 times infinity), so every value passes. */
#define BOUND_ANY (-1.0)
#define BOUND_NOT_FINITE (-2.0) /* NaN or infinity of either sign */

struct tensor {
    bool present;
    bool strict; /* the sign of zero counts, and a 16-bit NaN must be quiet */
    const char *name;
    enum role role;
    yoke_dtype dtype;
    int64_t batch, rows, cols, ld, stride;
    int64_t extent; /* number of elements from the first to the last, gaps included */
    int alias;      /* index of the tensor at the same address, or -1 */
    /* Copies of the device's memory before and after the call: guard, elements, guard. */
    size_t lead_bytes, image_bytes;
    unsigned char *before, *after;
    void *memory;    /* the device's allocation */
    double *initial; /* [extent] exact values before the call, in the same layout as on the device */
    /* [extent] the oracle's memory: first the exact inputs, after the call the oracle's results */
    double *exact;
    double *bound; /* [extent] largest allowed |got - exact|; the row fills it */
};

/** A side is where a call runs: on the device under test, or on the oracle. */
struct side {
    bool oracle;
    yoke_device *device;
    yoke_stream *stream;
};

struct trial {
    const struct conform_row *row;
    int index; /* index of the case in the row's table; indices beyond the table mean random shapes */
    yoke_dtype dtype;
    enum flavour flavour;
    uint64_t seed;
    struct side device, oracle;
    struct tensor tensor[CONFORM_MAX_TENSORS];
    char words[128];    /* the case in words */
    yoke_status status; /* status of setup: out of memory */
    const int64_t
        *dims;  /* if not NULL: use this shape (in the order of conform_sizes) instead of a case of the row */
    bool timed; /* the call is only timed: no oracle, no copies of results, and inputs that repeat */
    bool dry;   /* timed, and without memory: only the extents and the answer of `can` are wanted */
};

/**
 * The places of a model's step, in their order: weights are converted, then comes the forward pass, then the
 * backward pass from the loss to the embedding, then the optimizer. If an op has two places, its row has the
 * first one.
 */
enum conform_place {
    AT_WEIGHTS,
    AT_EMBEDDING,
    AT_DROPOUT,
    AT_NORM,
    AT_PRODUCT,
    AT_POSITION,
    AT_ATTENTION,
    AT_RESIDUAL,
    AT_ACTIVATION,
    AT_LOSS,
    BACK_LOSS,
    BACK_PRODUCT,
    BACK_ACTIVATION,
    BACK_ATTENTION,
    BACK_NORM,
    BACK_EMBEDDING,
    AT_SCALING,
    AT_GRADIENT_NORM,
    AT_UPDATE
};

/** The pairs that check an op's gradient (gradient_pairs.h). An op without a gradient has none. */
struct gradient_pairs {
    const struct gradient_pair *list;
    size_t n;
};

/** All that conform knows about an op. */
struct conform_row {
    enum conform_place place;
    uint32_t dtypes; /* mask of bits (1u << dtype) */
    int n_cases;     /* number of cases in the row's own table */
    const struct conform_sizes *sizes;
    struct gradient_pairs gradients;
    /** Choose shape and flavour by t->index. Declare and fill the tensors. Describe the case in words. */
    void (*setup)(struct trial *t);
    /**
     * If cost is NULL, issue the op on one side. Otherwise ask whether the side offers the op, and fill
     * *cost.
     */
    yoke_status (*call)(struct trial *t, const struct side *side, struct yoke_cost *cost);
    /** Fill the bounds of all outputs. The device's results can be read with trial_got. */
    void (*bound)(struct trial *t);
};

/**
 * The row of an op. If an argument is missing, the file does not compile. An op whose name ends in _backward
 * needs gradients. The last arguments are the functions setup, call and bound.
 */
/* clang-format off */
#define CONFORM_ROW(op, place_, dtypes_, cases_, sizes_, gradients_, setup_, call_, bound_) \
    { .place = place_, .dtypes = dtypes_, .n_cases = (int)YOKE_COUNT(cases_), \
      .sizes = CONFORM_CHECKED(op, gradients_) ? &sizes_ : NULL, .gradients = { gradients_ }, \
      .setup = setup_, .call = call_, .bound = bound_ }
#define GRADIENTS(list) list, YOKE_COUNT(list)
#define NO_GRADIENTS NULL, 0
#define CONFORM_IS_BACKWARD(op) (!__builtin_strcmp(&("_backward" #op)[sizeof #op - 1], "_backward"))
#define CONFORM_CHECKED(op, list, n) \
    sizeof(struct { \
        _Static_assert(!CONFORM_IS_BACKWARD(op) || (n) > 0, \
                       #op " is a backward op, so it needs a pair that checks its gradient"); \
        int checked; \
    })
/* clang-format on */

#define CONFORM_FLOATS (1u << YOKE_F32 | 1u << YOKE_F16 | 1u << YOKE_BF16 | 1u << YOKE_F64)

/* Every op has a row. If an op has none, the program does not link. */
#define CONFORM_DECLARE_ROW(op) extern const struct conform_row conform_row_##op;
YOKE_ALL_OPS(CONFORM_DECLARE_ROW)
#undef CONFORM_DECLARE_ROW
const struct conform_row *conform_row_of(enum yoke_op_id op);

/* The shapes that several families measure: rows [N, C] that are summed, and [n] elements. */
extern const struct conform_sizes conform_rows_sizes, conform_elements_sizes;

/** Call the op with these arguments, or its `can` function if cost is not NULL. */
#define CONFORM_CALL(op, side, cost, ...)                                          \
    ((cost) ? yoke_##op##_can((side)->device, &YOKE_ARGS(op, __VA_ARGS__), (cost)) \
            : yoke_##op((side)->stream, &YOKE_ARGS(op, __VA_ARGS__)))

/**
 * One of several ops in a call. All of them must be offered. The scratch memory of the call is the largest of
 * the ops' needs.
 */
#define CONFORM_STEP(op, side, cost, ...)                                                  \
    do {                                                                                   \
        const size_t scratch_before = (cost) ? (cost)->scratch_bytes : 0;                  \
        YOKE_TRY(CONFORM_CALL(op, side, cost, __VA_ARGS__));                               \
        if (cost) (cost)->scratch_bytes = YOKE_MAX((cost)->scratch_bytes, scratch_before); \
    } while (0)

/* ---- declaring tensors ---- */
void trial_matrix(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t rows,
                  int64_t cols, int64_t ld);
void trial_batch(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t batch,
                 int64_t rows, int64_t cols, int64_t ld, int64_t stride);
void trial_vector(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t n);
/** Declare an output at the address of input `of`, with the same shape and strides. */
void trial_alias(struct trial *t, int id, const char *name, int of);
void trial_describe(struct trial *t, const char *format, ...) YOKE_PRINTF(2, 3);

/* ---- filling tensors ---- */
/** Fill with normally distributed values of standard deviation `scale`. */
void trial_fill(struct trial *t, int id, double scale);
/**
 * Fill by the trial's flavour. WIDE takes exponents from -range to range, or the type's range if that is
 * smaller.
 */
void trial_flavoured(struct trial *t, int id, double scale, int range);
void trial_set(struct trial *t, int id, int64_t element, double value);
double trial_get(const struct trial *t, int id, int64_t element);
void trial_set_int(struct trial *t, int id, int64_t element, int32_t value);
/**
 * The first entry of shard p of P shards of a vocabulary with V entries. trial_shard(V, P, P) is V, the end
 * of the last shard. V must be at least P + 4. The shards are uneven on purpose: the first has 5 entries, the
 * second 1, and the others have equal parts of the rest. With P = 1 the only shard has all entries.
 */
static inline int64_t trial_shard(int64_t V, int64_t P, int64_t p)
{
    return p == P ? V : p == 0 ? 0 : p == 1 ? 5 : p == 2 ? 6 : 6 + (p - 2) * (V - 6) / (P - 2);
}
/**
 * Set every element to `value`. A timed backward pass uses this for the results of the forward pass, which
 * are not computed.
 */
void trial_constant(struct trial *t, int id, double value);
/**
 * A uniform random number in [0, n), for shapes and tokens. It depends on seed, type, case, `what` and
 * `index` alone.
 */
int64_t trial_random(const struct trial *t, const char *what, int64_t index, int64_t n);

/* ---- for call ---- */
/** The address of element `offset` of a tensor on a side. NULL if the case does not have the tensor. */
void *trial_at(const struct trial *t, const struct side *side, int id, int64_t offset);
static inline yoke_dtype side_dtype(const struct side *side, yoke_dtype dtype)
{
    return side->oracle ? YOKE_F64 : dtype;
}

/* ---- for bound ---- */
static inline double *exact_of(const struct trial *t, int id) { return t->tensor[id].exact; }
/** The device's result, converted exactly. */
double trial_got(const struct trial *t, int id, int64_t element);
/**
 * The bound of a result that has an error e from 32-bit arithmetic, and is then rounded once to its stored
 * type.
 */
double bound_rounded(yoke_dtype dtype, double wanted, double e);
static inline double gamma32(double n) { return n * 0x1p-24 / (1 - n * 0x1p-24); }
static const double u32 = 0x1p-24;
static const double eta32 = 0x1p-150;   /* half of the smallest subnormal f32 */
static const double flush32 = 0x1p-126; /* the largest error from flushing a subnormal f32 to zero */

/* ---- for the sweep ---- */
/** The op whose conform_order is `place`. */
enum yoke_op_id conform_op_at(int place);
/** Whether the options select this op, by its name or by its family. */
bool conform_selected(const struct conform_options *options, enum yoke_op_id op);
/** YOKE_EINVAL if the options name an op or type that does not exist. The error text has the nearest name. */
yoke_status conform_check_options(const struct conform_options *options);

/* ---- for the run ---- */
struct finding {
    double ratio, ulp;
    const char *output;
    int64_t index[3];
    double got, wanted, bound;
    bool has_element; /* the fields from `output` to `bound` describe an element */
    yoke_status status;
    char reason[sizeof((struct conform_line *)0)->reason];
};
/**
 * Set up the trial, run it on both sides, compare, and run it again. YOKE_EUNSUPPORTED: the device does not
 * offer the case.
 */
yoke_status trial_run(struct trial *t, struct finding *out);
/**
 * Set up the trial, run it on the device once, and hash its inputs and its results. The hashes do not depend
 * on where the tensors lie. YOKE_EUNSUPPORTED: the device does not offer the case.
 */
yoke_status trial_bits(struct trial *t, uint64_t *inputs_out, uint64_t *results_out);
/**
 * Set up the trial, allocate its tensors, and reserve the scratch memory of its call. After a failure too,
 * the caller must call trial_release.
 */
yoke_status trial_begin(struct trial *t);
/**
 * Copy the tensors to the device, issue the call, copy them back into `after`, and wait. After a failure too,
 * nothing of the run is still active.
 */
yoke_status trial_run_device(struct trial *t);
/** Whether an element between the first and the last one belongs to the tensor, and not to its padding. */
bool tensor_has(const struct tensor *x, int64_t element);
/**
 * Allocate the tensors' memory on the device. trial_release frees this memory and all that setup has
 * allocated.
 */
yoke_status trial_allocate(struct trial *t);
void trial_release(struct trial *t);

#endif
