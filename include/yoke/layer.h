/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, layers: the interface that the layers of a model are written against, Yoke's own and a user's alike.
 *
 * A model is a list of layers. A layer maps x [B*T, in] to y [B*T, out], rows of features per position, and carries its
 * residual inside, so that a model can be cut between any two layers. It has three calls: forward (F), backward_input
 * (B: dx from dy) and backward_weight (W: gradients of the parameters). B and W are separate, since a pipeline's
 * schedule may run W much later; W of one micro-batch comes after its B, which comes after its F.
 *
 * What a later call needs, an earlier one leaves in the *stash* of that (layer, micro-batch), in three declared parts:
 * F_TO_B lives from F to B, F_TO_W from F to W, B_TO_W from B to W. x, y and dy are kept as long as the type declares
 * (input_until, output_until, gradient_until). The workspace is shared by all calls and keeps nothing. The caller owns
 * all of it: yoke_layer_bytes() is exact, and a layer allocates nothing.
 *
 * Ranks may share a layer's tensors (tensor parallelism). The layer then deals its parameters by yoke_place_range(), in `parameter` and in
 * `bytes` alike, and adds up what each of them makes with yoke_call_sum() and its like. Without sequence parallelism x, y and their gradients
 * are the same on all of them; with it they are own rows. What a rank computes from them it computes as if the others were not there.
 *
 * A layer reaches the device by YOKE_CALL(call, op, fields...), which issues yoke_op() to the call's stream. The same
 * line serves the planner (which asks for costs and scratch and runs nothing) and the profiler (which times it). So a
 * layer looks at no memory of the host's in its calls; one that must, asks yoke_call_runs() first.
 *
 * To add a layer: one file with a `const struct yoke_layer_type`, and a line in YOKE_LAYERS (train/layers/layers.h): its
 * gradients, its stash and its memory are then checked with those of the others. examples/own_layer.c adds one from outside.
 */
#ifndef YOKE_LAYER_H
#define YOKE_LAYER_H

#include <yoke/yoke.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yoke_layer yoke_layer;
typedef struct yoke_observer yoke_observer;

/** Train: F is followed by B and W. Evaluate: F alone; nothing is kept after it and nothing is dropped out. */
enum yoke_mode { YOKE_TRAIN = 0, YOKE_EVALUATE };

/** What a call is told of its place in the run. All offsets are global: the same in every parallel layout. */
struct yoke_pass {
    size_t size;
    enum yoke_mode mode;
    int64_t step;
    int micro_batch;       /* of this rank, in this step */
    int chunk;             /* of the pipeline stage's layers; 0 without interleaving */
    int64_t sample_offset; /* index, in the step's global batch, of this micro-batch's first sequence */
    int64_t token_offset;  /* position, in its sequence, of each sequence's first token */
    int64_t normaliser;    /* tokens of the whole step on all ranks: loss = sum of losses / normaliser */
    float loss_scale;
    uint64_t seed;         /* random draws are keyed by (seed, step, layer name, global sample, position, feature) */
};
#define YOKE_PASS_INIT YOKE_SIZED(yoke_pass)

/** Indices [begin, end) of one dimension. A plain value. */
struct yoke_range {
    int64_t begin, end;
};

#define YOKE_MAX_TENSOR 64 /* ranks that share a layer's tensors */

/** Where a rank stands on the mesh, as far as what a layer holds and computes depends on it. */
struct yoke_place {
    size_t size;
    int tensor_rank, tensor_size; /* at most YOKE_MAX_TENSOR */
    const int64_t *tensor_shares; /* [tensor_size], in which heads, features and vocabulary are dealt; NULL: equal */
    bool sequence_parallel;       /* x and y hold this rank's rows only (yoke_place_rows); else all ranks hold all rows */
};
#define YOKE_PLACE_INIT YOKE_SIZED(yoke_place)
/**
 * What the rank holds of n indivisible units: whole ones, in proportion to the shares, in the order of the ranks; the ranges of all
 * ranks cover n. place NULL: all. A rank may come out with none: layers refuse that in yoke_layer_check().
 */
struct yoke_range yoke_place_range(const struct yoke_place *place, int64_t n);
/** The same of the B*T rows of x and y under sequence parallelism, dealt evenly; without it all rows. */
struct yoke_range yoke_place_rows(const struct yoke_place *place, int64_t n_rows);

/** Sizes of one micro-batch. */
struct yoke_shape {
    size_t size;
    yoke_dtype dtype; /* of activations and of matrices' working copies */
    int64_t B, T;     /* sequences, and tokens per sequence */
    enum yoke_mode mode;
    const struct yoke_place *place; /* NULL: the rank holds whole layers */
};
#define YOKE_SHAPE_INIT YOKE_SIZED(yoke_shape)

/** The parts of a layer's memory. */
enum yoke_part {
    YOKE_F_TO_B = 0,
    YOKE_F_TO_W,
    YOKE_B_TO_W,
    YOKE_N_STASHES,
    YOKE_WORKSPACE = YOKE_N_STASHES,
    YOKE_N_PARTS
};

/** The last call that reads a boundary buffer (x, y or dy). */
enum yoke_until { YOKE_UNTIL_F = 0, YOKE_UNTIL_B, YOKE_UNTIL_W };

/** The axes of the mesh of ranks, as bits. */
enum yoke_axis { YOKE_AXIS_DATA = 1, YOKE_AXIS_PIPELINE = 2, YOKE_AXIS_TENSOR = 4 };

#define YOKE_MAX_DIMS 4
#define YOKE_MAX_RANGES 4
#define YOKE_MAX_PARAMETERS 32 /* of one layer */

/** What a rank holds of one dimension: the ranges, one after the other (fused QKV under tensor parallelism has three). A plain value. */
struct yoke_ranges {
    int n;
    struct yoke_range range[YOKE_MAX_RANGES];
};

enum yoke_init { YOKE_INIT_ZEROS = 0, YOKE_INIT_ONES, YOKE_INIT_NORMAL };

/** A parameter, as its layer declares it. */
struct yoke_parameter {
    size_t size;
    char name[96];                 /* global and unique: "h.0.attn.c_attn.weight"; a name declared twice is one tied parameter */
    int n_dims;
    int64_t shape[YOKE_MAX_DIMS];  /* logical shape: that of the whole parameter, as it stands in a checkpoint */
    struct yoke_ranges shard[YOKE_MAX_DIMS]; /* what this rank holds; n = 0: the whole dimension */
    uint32_t replicated_axes;      /* ranks along these axes hold the same elements (YOKE_AXIS_DATA always) */
    uint32_t partial_axes;         /* gradients are to be summed over these axes (YOKE_AXIS_DATA always) */
    enum yoke_init init;           /* drawn element by element, keyed by (seed, name, index in the logical shape) */
    double init_std;               /* of YOKE_INIT_NORMAL */
    bool decay;                    /* weight decay applies */
    bool matrix;                   /* has a 16-bit working copy in 16-bit precision; else the layer is given the f32 master */
    bool overwrites;               /* W writes all of its gradient where call->fresh says so; else it is zeroed before */
};
#define YOKE_PARAMETER_INIT YOKE_SIZED(yoke_parameter)

/** What the ranks that share a layer's tensors do together; in order with `stream`. Layers go through yoke_call_sum and its like. */
struct yoke_tensor_group {
    size_t size;
    void *context;
    /** x [n] of all ranks, summed in f32 or wider in the order of the ranks, in place: the same bits on all. */
    yoke_status (*sum)(void *context, void *x, int64_t n, yoke_dtype dtype, yoke_stream *stream);
    /** all = the ranks' pieces one after the other; counts [tensor_size] elements. */
    yoke_status (*gather)(void *context, const void *mine, void *all, const int64_t counts[], yoke_dtype dtype, yoke_stream *stream);
    /** mine = this rank's piece of the sum of all ranks' `all`. */
    yoke_status (*scatter_sum)(void *context, const void *all, void *mine, const int64_t counts[], yoke_dtype dtype, yoke_stream *stream);
};
#define YOKE_TENSOR_GROUP_INIT YOKE_SIZED(yoke_tensor_group)

/** One call of a layer. Pointers that its kind of call does not use are NULL. */
struct yoke_layer_call {
    size_t size;
    yoke_device *device;
    yoke_stream *stream;
    yoke_observer *observer;       /* NULL when ops simply run; see YOKE_CALL */
    const struct yoke_pass *pass;
    const struct yoke_shape *shape;
    const void *const *weights;    /* in the order of declaration: shape->dtype for matrices, wide for the others */
    void *const *gradients;        /* wide, accumulated (+=), but those that are fresh; W only */
    uint32_t fresh;                /* bit i: gradients[i] holds nothing yet and is to be written; set only where parameter i `overwrites` */
    const int32_t *tokens;         /* [B*T], for layers that read them */
    const int32_t *targets;        /* [B*T]; below 0: ignored */
    void *losses;                  /* wide [B*T], written by the loss layer's F */
    const void *x;                 /* [B*T, in]; NULL for a layer with in = 0. Under sequence parallelism x, y, dy and dx hold own rows */
    void *y;                       /* [B*T, out] (yoke_layer_output); const but in F, and in B for a layer whose output is the model's */
    const void *dy;                /* as y; NULL for the last layer */
    void *dx;                      /* as x */
    const struct yoke_tensor_group *tensor; /* NULL: this rank holds whole layers */
    void *stash[YOKE_N_STASHES];   /* NULL where bytes are 0; in YOKE_EVALUATE it lives during the call only */
    void *workspace;
};
#define YOKE_LAYER_CALL_INIT YOKE_SIZED(yoke_layer_call)

/** What W's product multiplies the gradient of parameter i by that it finds: 0, which does not read it, or 1. */
static inline float yoke_call_beta(const struct yoke_layer_call *call, int i) { return call->fresh >> i & 1 ? 0.0f : 1.0f; }

/** A kind of layer. */
struct yoke_layer_type {
    size_t size;
    const char *name;              /* "attention" */
    size_t config_bytes;           /* of the struct behind layer->config */
    enum yoke_until input_until;   /* x is read last by … */
    enum yoke_until output_until;  /* y */
    enum yoke_until gradient_until; /* dy: YOKE_UNTIL_B or YOKE_UNTIL_W */
    /**
     * Refuse a configuration that cannot be: YOKE_ECONFIG with the fix. place NULL: the layer is added to a model; else it is about to
     * run there, and what holds for one of the ranks that share its tensors must be refused on all of them. May be NULL.
     */
    yoke_status (*check)(const yoke_layer *layer, const struct yoke_place *place);
    /** What this rank holds of y, where that is not [yoke_place_rows(B*T), layer->out]. May be NULL. */
    void (*output)(const yoke_layer *layer, const struct yoke_shape *shape, int64_t *rows_out, int64_t *columns_out);
    /** Describe parameter `index` for a rank at `place`; false past the last. */
    bool (*parameter)(const yoke_layer *layer, const struct yoke_place *place, int index, struct yoke_parameter *out);
    /** Exact bytes of one part for one micro-batch; depends on its arguments alone. */
    size_t (*bytes)(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part);
    yoke_status (*forward)(const yoke_layer *layer, const struct yoke_layer_call *call);
    /** NULL where the layer has no input to pass a gradient to and nothing to leave to W. */
    yoke_status (*backward_input)(const yoke_layer *layer, const struct yoke_layer_call *call);
    /** NULL where there are no parameters. */
    yoke_status (*backward_weight)(const yoke_layer *layer, const struct yoke_layer_call *call);
};
#define YOKE_LAYER_TYPE_INIT YOKE_SIZED(yoke_layer_type)

/** A layer of a model. */
struct yoke_layer {
    size_t size;
    const struct yoke_layer_type *type;
    char name[64];       /* "h.0.mlp": in front of its parameters' names, in messages, and in random keys */
    int64_t in, out;     /* features per position of x and y; 0: none */
    const void *config;  /* the type's own struct */
};
#define YOKE_LAYER_INIT YOKE_SIZED(yoke_layer)

/** Bytes of one part of the layer's memory for one micro-batch of `shape`, each part rounded up to 64. */
yoke_status yoke_layer_bytes(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part,
                             size_t *bytes_out);
/** What this rank holds of the layer's output: a head whose vocabulary is dealt has logits of its own words, for all rows. */
void yoke_layer_output(const yoke_layer *layer, const struct yoke_shape *shape, int64_t *rows_out, int64_t *columns_out);
/**
 * Refuse a place where the layer cannot run, on all ranks that share its tensors alike: shares that leave one of them without a head,
 * parameters that are neither dealt nor declared as replicated over them (a layer that knows nothing of places). YOKE_ECONFIG with the fix.
 */
yoke_status yoke_layer_check(const yoke_layer *layer, const struct yoke_place *place);
/** A parameter of the layer on a whole (unsharded) place; YOKE_EINVAL past the last. */
yoke_status yoke_layer_parameter(const yoke_layer *layer, int index, struct yoke_parameter *parameter_out);

/** Fields of a part lie one after the other, each starting at a multiple of 64 bytes. */
static inline size_t yoke_align(size_t bytes) { return (bytes + 63) & ~(size_t)63; }
/** `base + offset`; NULL stays NULL. */
static inline void *yoke_at(const void *base, size_t offset) { return base ? (char *)(uintptr_t)base + offset : NULL; }

/**
 * Add a field to a part: its address in `call` (NULL without a call), and its bytes to bytes[part].
 * A layer lists its fields in one function; `bytes` of its type and its calls both go through that.
 */
static inline void *yoke_part_field(const struct yoke_layer_call *call, size_t bytes[YOKE_N_PARTS], enum yoke_part part,
                                    int64_t n, size_t element_bytes)
{
    void *base = !call ? NULL : part == YOKE_WORKSPACE ? call->workspace : call->stash[part];
    void *field = yoke_at(base, bytes[part]);
    bytes[part] += yoke_align((size_t)n * element_bytes);
    return field;
}

/* ---- ops of a layer ---- */

/** Issue an op: YOKE_CALL(call, gelu_forward, .dtype = …, .n = …, .x = …, .y = …). A yoke_status. */
#ifndef __cplusplus
#define YOKE_CALL(call, op, ...) YOKE_CALL_WITH(call, op, &YOKE_ARGS(op, __VA_ARGS__))
#endif
/** The same with a pointer to the arguments; in C++ there is this one alone. */
#define YOKE_CALL_WITH(call, op, args)                                                                              \
    (!(call)->observer ? yoke_##op((call)->stream, args)                                                            \
     : yoke_observer_begin((call)->observer, #op, yoke_##op##_can((call)->device, args, yoke_observer_cost((call)->observer))) \
         ? yoke_observer_end((call)->observer, yoke_##op((call)->stream, args))                                     \
         : yoke_observer_status((call)->observer))
/** Copy on the device, in the same manner; and write zeros. */
yoke_status yoke_call_copy(const struct yoke_layer_call *call, void *target, const void *source, size_t bytes);
yoke_status yoke_call_zero(const struct yoke_layer_call *call, void *target, size_t bytes);
/**
 * The collectives of the ranks that share the layer's tensors (call->tensor, call->shape->place); nothing to do for one rank, but that
 * gather and scatter_sum copy. Each must be issued by all of them in the same order. Sums are of `dtype`, rounded once.
 */
yoke_status yoke_call_sum(const struct yoke_layer_call *call, void *x, int64_t n, yoke_dtype dtype);
yoke_status yoke_call_gather(const struct yoke_layer_call *call, const void *mine, void *all, const int64_t counts[], yoke_dtype dtype);
yoke_status yoke_call_scatter_sum(const struct yoke_layer_call *call, const void *all, void *mine, const int64_t counts[],
                                  yoke_dtype dtype);
/** Whether memory may be looked at: false while the program is being planned, when addresses lead nowhere. */
bool yoke_call_runs(const struct yoke_layer_call *call);

/* What YOKE_CALL stands on: the planner's and the profiler's view of the ops that a layer issues. */
struct yoke_cost *yoke_observer_cost(yoke_observer *observer);
bool yoke_observer_begin(yoke_observer *observer, const char *op, yoke_status can);
yoke_status yoke_observer_end(yoke_observer *observer, yoke_status ran);
yoke_status yoke_observer_status(yoke_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
