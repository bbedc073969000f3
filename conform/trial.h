/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One case of a conformance row: its tensors in host memory, on the device and, in f64, for the oracle; the generators
 * that fill them; and the comparison. The author of a row reads this header.
 */
#ifndef CONFORM_TRIAL_H
#define CONFORM_TRIAL_H

#include "conform/conform.h"
#include "core/backend.h"
#include "core/base/base.h"

#include <math.h>

enum { CONFORM_MAX_TENSORS = 14 };

enum role {
    IN,  /* must not change */
    OUT, /* overwritten; holds NaN before */
    SUM, /* read and written: += from random values, or updated in place */
};

/** What the main inputs of a case hold. */
enum flavour {
    ORDINARY,  /* normal */
    WIDE,      /* signed powers of two over a wide range of exponents, times 1 to 2 */
    SUBNORMAL, /* below the type's least normal number, some of them zero */
    ZEROS,     /* +0 and -0, half of the elements ordinary */
    NANS,      /* ordinary, a few NaN */
    INFS,      /* ordinary, a few infinities of both signs */
    N_FLAVOURS
};

/* Special values of tensor.bound. */
#define BOUND_ANY (-1.0)        /* the maths leaves the element open (0 times infinity): everything passes */
#define BOUND_NOT_FINITE (-2.0) /* NaN or infinity of either sign */

struct tensor {
    bool present;
    bool strict; /* the sign of zero counts, and a 16-bit NaN must be quiet */
    const char *name;
    enum role role;
    yoke_dtype dtype;
    int64_t batch, rows, cols, ld, stride;
    int64_t extent; /* elements from the first to the last, gaps included */
    int alias;      /* tensor that lies at the same address, or -1 */
    /* Images of the device's memory: guard, elements, guard. */
    size_t lead_bytes, image_bytes;
    unsigned char *before, *after;
    void *memory;    /* the device's allocation */
    double *initial; /* exact values before, laid out as on the device */
    double *exact;   /* the oracle's view: inputs exactly, then its results */
    double *bound;   /* of |got - exact|, filled by the row */
};

/** Where a call goes: the device under test, or the oracle. */
struct side {
    bool oracle;
    yoke_device *device;
    yoke_stream *stream;
};

struct trial {
    const struct conform_row *row;
    int index; /* of the case in the row's table; past it, random shapes */
    yoke_dtype dtype;
    enum flavour flavour;
    uint64_t seed;
    struct side device, oracle;
    struct tensor tensor[CONFORM_MAX_TENSORS];
    char words[128]; /* the case in words */
    yoke_status status; /* of setup: out of memory */
    const int64_t *dims; /* not NULL: this shape, by the names of conform_sizes, instead of a case of the row's */
    bool timed;          /* the shape is only timed: no oracle, no images of results, inputs that repeat */
    bool dry;            /* timed, and without memory: for the extents, and what `can` answers */
};

struct conform_row {
    uint32_t dtypes; /* bit (1u << dtype) */
    int n_cases;     /* of the row's own table */
    /** Choose shape and flavour by t->index, declare and fill the tensors, describe the case. */
    void (*setup)(struct trial *t);
    /** Issue the op to one side, or with `cost` ask whether it is offered. */
    yoke_status (*call)(struct trial *t, const struct side *side, struct yoke_cost *cost);
    /** Fill the bounds of all outputs; the device's results are there (trial_got). */
    void (*bound)(struct trial *t);
};

#define CONFORM_FLOATS (1u << YOKE_F32 | 1u << YOKE_F16 | 1u << YOKE_BF16 | 1u << YOKE_F64)

/* One row per op: an op without one does not link. */
#define CONFORM_DECLARE_ROW(op) extern const struct conform_row conform_row_##op;
YOKE_ALL_OPS(CONFORM_DECLARE_ROW)
#undef CONFORM_DECLARE_ROW

/** The op with these arguments, or its `can`. */
#define CONFORM_CALL(op, side, cost, ...)                                                  \
    ((cost) ? yoke_##op##_can((side)->device, &YOKE_ARGS(op, __VA_ARGS__), (cost)) \
            : yoke_##op((side)->stream, &YOKE_ARGS(op, __VA_ARGS__)))

/** One of several ops of a call that must all be offered; their scratch is the largest of theirs. */
#define CONFORM_STEP(op, side, cost, ...)                                                             \
    do {                                                                                                \
        const size_t scratch_before = (cost) ? (cost)->scratch_bytes : 0;                               \
        YOKE_TRY(CONFORM_CALL(op, side, cost, __VA_ARGS__));                                            \
        if (cost) (cost)->scratch_bytes = YOKE_MAX((cost)->scratch_bytes, scratch_before);              \
    } while (0)

/* ---- declaring tensors ---- */
void trial_matrix(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t rows, int64_t cols,
                  int64_t ld);
void trial_batch(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t batch, int64_t rows,
                 int64_t cols, int64_t ld, int64_t stride);
void trial_vector(struct trial *t, int id, const char *name, enum role role, yoke_dtype dtype, int64_t n);
/** An output at the address of input `of`, with its geometry. */
void trial_alias(struct trial *t, int id, const char *name, int of);
void trial_describe(struct trial *t, const char *format, ...) YOKE_PRINTF(2, 3);

/* ---- filling them ---- */
/** Normal with standard deviation `scale`. */
void trial_fill(struct trial *t, int id, double scale);
/** By the trial's flavour; WIDE takes exponents in [-range, range], less where the type has less. */
void trial_flavoured(struct trial *t, int id, double scale, int range);
void trial_set(struct trial *t, int id, int64_t element, double value);
double trial_get(const struct trial *t, int id, int64_t element);
void trial_set_int(struct trial *t, int id, int64_t element, int32_t value);
/**
 * Where shard p of P of a vocabulary of V begins; shard P begins at V, which is at least P + 4. Uneven on purpose: 5
 * entries, 1 entry, and equal shares of what is left. P = 1: all.
 */
static inline int64_t trial_shard(int64_t V, int64_t P, int64_t p)
{
    return p == P ? V : p == 0 ? 0 : p == 1 ? 5 : p == 2 ? 6 : 6 + (p - 2) * (V - 6) / (P - 2);
}
/** What a timed backward pass takes for the results of a forward pass that nobody has computed: every element `value`. */
void trial_constant(struct trial *t, int id, double value);
/** Uniform in [0, n), by (seed, op, case, what, index): the generator of shapes and tokens. */
int64_t trial_random(const struct trial *t, const char *what, int64_t index, int64_t n);

/* ---- for call ---- */
/** Address of element `offset` of a tensor on a side; NULL when the case has no such tensor. */
void *trial_at(const struct trial *t, const struct side *side, int id, int64_t offset);
static inline yoke_dtype side_dtype(const struct side *side, yoke_dtype dtype) { return side->oracle ? YOKE_F64 : dtype; }

/* ---- for bound ---- */
static inline double *exact_of(const struct trial *t, int id) { return t->tensor[id].exact; }
/** The device's result, exactly. */
double trial_got(const struct trial *t, int id, int64_t element);
/** An accumulated error e in 32-bit arithmetic, then one rounding to the stored type. */
double bound_rounded(yoke_dtype dtype, double wanted, double e);
static inline double gamma32(double n) { return n * 0x1p-24 / (1 - n * 0x1p-24); }
static const double u32 = 0x1p-24;
static const double eta32 = 0x1p-150;    /* half the least subnormal f32 */
static const double flush32 = 0x1p-126; /* what flushing a subnormal f32 to zero loses at most */

/* ---- for the sweep ---- */
/** The op at a place of conform_order. */
enum yoke_op_id conform_op_at(int place);
/** Whether the options' op or family is, or holds, this op. */
bool conform_selected(const struct conform_options *options, enum yoke_op_id op);
/** YOKE_EINVAL for an op or type that there is none of, with the nearest name. */
yoke_status conform_check_options(const struct conform_options *options);

/* ---- for the run ---- */
struct finding {
    double ratio, ulp;
    const char *output;
    int64_t index[3];
    double got, wanted, bound;
    bool has_element; /* output to bound are of an element */
    yoke_status status;
    char reason[sizeof((struct conform_line *)0)->reason];
};
/** Set up, run on both sides, compare, run again. YOKE_EUNSUPPORTED: the device does not offer the case. */
yoke_status trial_run(struct trial *t, struct finding *out);
/** The tensors' memory on the device; and all that setup and this have allocated. */
yoke_status trial_allocate(struct trial *t);
void trial_release(struct trial *t);

#endif
