/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, layers: the interface of a model's layers. Yoke's own layers and a user's layers use the same one.
 *
 * A model is a list of layers. A layer maps x [B*T, in] to y [B*T, out]. Both hold one row of features per
 * position. A layer contains its residual connection, so a model can be cut between any two layers. A layer
 * has three calls: forward (F), backward_input (B: dx from dy) and backward_weight (W: the gradients of the
 * parameters). B and W are separate because a pipeline schedule may run W much later. For each micro-batch, F
 * comes before B, and B comes before W.
 *
 * A call leaves the data that a later call needs in the *stash* of that layer and micro-batch. The stash has
 * three declared parts: F_TO_B lives from F to B, F_TO_W from F to W, and B_TO_W from B to W. x, y and dy are
 * kept for as long as the layer's type declares (input_until, output_until, gradient_until). All calls share
 * the workspace, and its content is lost after each call. The caller owns all of this memory.
 * yoke_layer_bytes() is exact, and a layer allocates nothing.
 *
 * Several ranks may share a layer's tensors (tensor parallelism). The layer then divides its parameters with
 * yoke_place_range(), both in `parameter` and in `bytes`. It sums the partial results of the ranks with
 * yoke_call_sum() and the functions after it. Without sequence parallelism, x, y and their gradients are the
 * same on all these ranks. With sequence parallelism, each rank holds only its own rows. All other
 * computation of a rank needs no other rank.
 *
 * A layer calls the device with YOKE_CALL(call, op, fields...), which issues yoke_op() to the call's stream.
 * The planner and the profiler use the same line. The planner asks for costs and scratch memory and runs
 * nothing. The profiler measures the time. Therefore a layer must not read host memory in its calls. A layer
 * that has to read host memory asks yoke_call_runs() first.
 *
 * To add a layer, write one file with a `const struct yoke_layer_type`, and add a line to YOKE_LAYERS
 * (train/layers/layers.h). The tests then check the gradients, the stash and the memory of the new layer too.
 * examples/own_layer.c adds a layer from outside this source tree.
 */
#ifndef YOKE_LAYER_H
#define YOKE_LAYER_H

#include <yoke/yoke.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yoke_layer yoke_layer;
typedef struct yoke_observer yoke_observer;

/**
 * In YOKE_TRAIN, F is followed by B and W. In YOKE_EVALUATE only F runs, nothing is kept after F, and there
 * is no dropout.
 */
enum yoke_mode { YOKE_TRAIN = 0, YOKE_EVALUATE };

/** The position of a call in the run. All offsets are global: they are the same in every parallel layout. */
struct yoke_pass {
    size_t size;
    enum yoke_mode mode;
    int64_t step;
    int micro_batch; /* index among this rank's micro-batches of this step */
    int chunk;       /* index of the chunk (run of layers) of this pipeline stage; 0 without interleaving */
    int64_t sample_offset; /* index, in the step's global batch, of the first sequence of this micro-batch */
    int64_t token_offset;  /* position, within its sequence, of the first token of each sequence */
    int64_t normaliser;    /* tokens of the whole step on all ranks: loss = sum of losses / normaliser */
    float loss_scale;
    uint64_t seed; /* random draws are keyed by (seed, step, layer name, global sample, position, feature) */
};
#define YOKE_PASS_INIT YOKE_SIZED(yoke_pass)

/** Indices [begin, end) of one dimension. A plain value. */
struct yoke_range {
    int64_t begin, end;
};

#define YOKE_MAX_TENSOR 64 /* the most ranks that can share a layer's tensors */

/**
 * A rank's place on the mesh. It holds everything on the mesh that determines which part of a layer the rank
 * holds and computes.
 */
struct yoke_place {
    size_t size;
    int tensor_rank, tensor_size; /* at most YOKE_MAX_TENSOR */
    /* [tensor_size] the proportions in which heads, features and vocabulary are divided; NULL: equal */
    const int64_t *tensor_shares;
    /* x and y hold this rank's rows only (yoke_place_rows); otherwise all ranks hold all rows */
    bool sequence_parallel;
};
#define YOKE_PLACE_INIT YOKE_SIZED(yoke_place)
/**
 * The part that this rank holds of n indivisible units. Each rank gets whole units, in proportion to the
 * shares and in the order of the ranks. The ranges of all ranks together cover n. If place is NULL, the rank
 * holds all units. A rank may get no unit. Layers refuse this case in yoke_layer_check().
 */
struct yoke_range yoke_place_range(const struct yoke_place *place, int64_t n);
/**
 * The part that this rank holds of the B*T rows of x and y. With sequence parallelism the rows are divided
 * evenly. Without it, each rank holds all rows.
 */
struct yoke_range yoke_place_rows(const struct yoke_place *place, int64_t n_rows);

/** Sizes of one micro-batch. */
struct yoke_shape {
    size_t size;
    yoke_dtype dtype; /* data type of activations and of the working copies of matrices */
    int64_t B, T;     /* sequences, and tokens per sequence */
    enum yoke_mode mode;
    const struct yoke_place *place; /* NULL: the rank holds whole layers */
    /*
     * bytes that stay free behind each field of a part, on devices that check accesses to memory (emulated
     * ones); 0 on all others
     */
    size_t red_zone;
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
#define YOKE_MAX_PARAMETERS 32 /* the most parameters of one layer */

/**
 * The part of one dimension that a rank holds, as consecutive ranges. Fused QKV under tensor parallelism has
 * three ranges. A plain value.
 */
struct yoke_ranges {
    int n;
    struct yoke_range range[YOKE_MAX_RANGES];
};

enum yoke_init { YOKE_INIT_ZEROS = 0, YOKE_INIT_ONES, YOKE_INIT_NORMAL };

/** A parameter, as its layer declares it. */
struct yoke_parameter {
    size_t size;
    /* global and unique: "h.0.attn.c_attn.weight"; a name declared twice is one tied parameter */
    char name[96];
    int n_dims;
    int64_t shape[YOKE_MAX_DIMS]; /* logical shape: the shape of the whole parameter, as in a checkpoint */
    struct yoke_ranges shard[YOKE_MAX_DIMS]; /* the part that this rank holds; n = 0: the whole dimension */
    /* ranks along these axes hold the same elements (always includes YOKE_AXIS_DATA) */
    uint32_t replicated_axes;
    uint32_t partial_axes; /* gradients must be summed over these axes (always includes YOKE_AXIS_DATA) */
    /* elements are drawn one by one, keyed by (seed, name, index in the logical shape) */
    enum yoke_init init;
    double init_std; /* standard deviation for YOKE_INIT_NORMAL */
    bool decay;      /* weight decay applies */
    bool matrix; /* has a 16-bit working copy in 16-bit precision; otherwise the layer gets the f32 master */
    bool overwrites; /* W writes the whole gradient if call->fresh says so; otherwise it is zeroed before W */
};
#define YOKE_PARAMETER_INIT YOKE_SIZED(yoke_parameter)

/**
 * The collectives of the ranks that share a layer's tensors. They run in order with `stream`. Layers do not
 * call them directly but use yoke_call_sum and the functions after it.
 */
struct yoke_tensor_group {
    size_t size;
    void *context;
    /**
     * Sum x [n] of all ranks in place, in f32 or wider and in the order of the ranks. All get the same bits.
     */
    yoke_status (*sum)(void *context, void *x, int64_t n, yoke_dtype dtype, yoke_stream *stream);
    /** Set `all` to the concatenation of all ranks' `mine`. counts [tensor_size] are in elements. */
    yoke_status (*gather)(void *context, const void *mine, void *all, const int64_t counts[],
                          yoke_dtype dtype, yoke_stream *stream);
    /** Sum all ranks' `all`, and set `mine` to this rank's piece of the sum. */
    yoke_status (*scatter_sum)(void *context, const void *all, void *mine, const int64_t counts[],
                               yoke_dtype dtype, yoke_stream *stream);
};
#define YOKE_TENSOR_GROUP_INIT YOKE_SIZED(yoke_tensor_group)

/** The arguments of one call of a layer. Pointers that this kind of call does not use are NULL. */
struct yoke_layer_call {
    size_t size;
    yoke_device *device;
    yoke_stream *stream;
    yoke_observer *observer; /* NULL if the ops only run; see YOKE_CALL */
    const struct yoke_pass *pass;
    const struct yoke_shape *shape;
    /* in the order of declaration; matrices have shape->dtype, others are wide (f32; f64 for f64 data) */
    const void *const *weights;
    void *const *gradients; /* wide; W adds to them (+=), except to the fresh ones; for W only */
    /* bit i: gradients[i] has no content yet, and W must write it; set only if parameter i `overwrites` */
    uint32_t fresh;
    const int32_t *tokens;  /* [B*T], for layers that read them */
    const int32_t *targets; /* [B*T]; below 0: ignored */
    void *losses;           /* wide [B*T], written by the loss layer's F */
    /* [B*T, in]; NULL for a layer with in = 0. With sequence parallelism x, y, dy and dx hold this rank's
     * rows only */
    const void *x;
    /*
     * [B*T, out] (yoke_layer_output); read-only except in F, and in B of a layer whose output is the model's
     */
    void *y;
    const void *dy;                         /* shape as y; NULL for the last layer */
    void *dx;                               /* shape as x */
    const struct yoke_tensor_group *tensor; /* NULL: this rank holds whole layers */
    /* NULL where the part has 0 bytes; in YOKE_EVALUATE it lives only during the call */
    void *stash[YOKE_N_STASHES];
    void *workspace;
};
#define YOKE_LAYER_CALL_INIT YOKE_SIZED(yoke_layer_call)

/**
 * The factor for the existing gradient of parameter i when W adds its product to it. The factor is 1, or 0
 * for a fresh gradient, which is then not read.
 */
static inline float yoke_call_beta(const struct yoke_layer_call *call, int i)
{
    return call->fresh >> i & 1 ? 0.0f : 1.0f;
}

/** A kind of layer. */
struct yoke_layer_type {
    size_t size;
    const char *name;               /* "attention" */
    size_t config_bytes;            /* size of the struct that layer->config points to */
    enum yoke_until input_until;    /* the last call that reads x */
    enum yoke_until output_until;   /* the last call that reads y */
    enum yoke_until gradient_until; /* the last call that reads dy: YOKE_UNTIL_B or YOKE_UNTIL_W */
    /**
     * Refuse an invalid configuration with YOKE_ECONFIG. The message says how to correct it. place is NULL
     * when the layer is added to a model. Otherwise the layer is about to run at this place. If one of the
     * ranks that share the layer's tensors must refuse, then all of them must refuse. May be NULL.
     */
    yoke_status (*check)(const yoke_layer *layer, const struct yoke_place *place);
    /**
     * The shape of the part of y that this rank holds, if it is not [yoke_place_rows(B*T), layer->out] with
     * ld = layer->out. May be NULL.
     */
    void (*output)(const yoke_layer *layer, const struct yoke_shape *shape, int64_t *rows_out,
                   int64_t *columns_out, int64_t *ld_out);
    /** Describe parameter `index` for a rank at `place`. Returns false if there is no such parameter. */
    bool (*parameter)(const yoke_layer *layer, const struct yoke_place *place, int index,
                      struct yoke_parameter *out);
    /** The exact bytes of one part for one micro-batch. The result depends only on the arguments. */
    size_t (*bytes)(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part);
    yoke_status (*forward)(const yoke_layer *layer, const struct yoke_layer_call *call);
    /** NULL if the layer has no input that needs a gradient and leaves nothing for W. */
    yoke_status (*backward_input)(const yoke_layer *layer, const struct yoke_layer_call *call);
    /** NULL if there are no parameters. */
    yoke_status (*backward_weight)(const yoke_layer *layer, const struct yoke_layer_call *call);
};
#define YOKE_LAYER_TYPE_INIT YOKE_SIZED(yoke_layer_type)

/** A layer of a model. */
struct yoke_layer {
    size_t size;
    const struct yoke_layer_type *type;
    /* "h.0.mlp": prefix of its parameters' names; also used in messages and in the keys of random numbers */
    char name[64];
    int64_t in, out;    /* features per position of x and y; 0: none */
    const void *config; /* a struct of the layer's type */
};
#define YOKE_LAYER_INIT YOKE_SIZED(yoke_layer)

/**
 * Bytes of one part of the layer's memory for one micro-batch of `shape`. Each part is rounded up to a
 * multiple of 64.
 */
yoke_status yoke_layer_bytes(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part,
                             size_t *bytes_out);
/**
 * The shape of the layer's output on this rank, and its leading dimension: row r begins at element r * ld,
 * and the output has rows * ld elements. If a head's vocabulary is divided, the rank has the logits of its
 * own words for all rows. A head rounds ld up, so that each row begins at a multiple of 16 bytes. Nothing
 * writes the elements between two rows.
 */
void yoke_layer_output(const yoke_layer *layer, const struct yoke_shape *shape, int64_t *rows_out,
                       int64_t *columns_out, int64_t *ld_out);
/**
 * Refuse a place where the layer cannot run. All ranks that share the layer's tensors refuse alike. Examples
 * are shares that leave one rank without a head, and parameters that are neither divided nor declared as
 * replicated over these ranks (a layer that knows nothing of places). The error is YOKE_ECONFIG, and its
 * message says how to correct it.
 */
yoke_status yoke_layer_check(const yoke_layer *layer, const struct yoke_place *place);
/**
 * Parameter `index` of the layer on a rank that holds the whole layer. YOKE_EINVAL if there is no such
 * parameter.
 */
yoke_status yoke_layer_parameter(const yoke_layer *layer, int index, struct yoke_parameter *parameter_out);

/**
 * Round up to a multiple of 64. The fields of a part lie one after the other, each at a multiple of 64 bytes.
 */
static inline size_t yoke_align(size_t bytes) { return (bytes + 63) & ~(size_t)63; }
/** `base + offset`; NULL stays NULL. */
static inline void *yoke_at(const void *base, size_t offset)
{
    return base ? (char *)(uintptr_t)base + offset : NULL;
}

/**
 * Tell a device that checks accesses that these bytes behind a field belong to no field. Used by
 * yoke_part_field.
 */
void yoke_call_forbid(const struct yoke_layer_call *call, void *address, size_t bytes);

/**
 * Add a field to a part. Returns the field's address in `call` (NULL without a call), and adds the field's
 * bytes to bytes[part]. A layer lists its fields in one function. Both `bytes` of its type and its calls use
 * this function.
 */
static inline void *yoke_part_field(const struct yoke_shape *shape, const struct yoke_layer_call *call,
                                    size_t bytes[YOKE_N_PARTS], enum yoke_part part, int64_t n,
                                    size_t element_bytes)
{
    void *base = !call ? NULL : part == YOKE_WORKSPACE ? call->workspace : call->stash[part];
    void *field = yoke_at(base, bytes[part]);
    const size_t used = (size_t)n * element_bytes, taken = yoke_align(used) + shape->red_zone;
    if (base && shape->red_zone) yoke_call_forbid(call, yoke_at(field, used), taken - used);
    bytes[part] += taken;
    return field;
}

/* ---- ops of a layer ---- */

/**
 * Issue an op and return its yoke_status: YOKE_CALL(call, gelu_forward, .dtype = …, .n = …, .x = …, .y = …).
 */
#ifndef __cplusplus
#define YOKE_CALL(call, op, ...) YOKE_CALL_WITH(call, op, &YOKE_ARGS(op, __VA_ARGS__))
#endif
/** The same with a pointer to the arguments. C++ has only this form. */
#define YOKE_CALL_WITH(call, op, args)                                                                  \
    (!(call)->observer ? yoke_##op((call)->stream, args)                                                \
     : yoke_observer_begin((call)->observer, #op,                                                       \
                           yoke_##op##_can((call)->device, args, yoke_observer_cost((call)->observer))) \
         ? yoke_observer_end((call)->observer, yoke_##op((call)->stream, args))                         \
         : yoke_observer_status((call)->observer))
/**
 * Copy memory on the device, and write zeros to it. The planner and the profiler see both, as with YOKE_CALL.
 */
yoke_status yoke_call_copy(const struct yoke_layer_call *call, void *target, const void *source,
                           size_t bytes);
yoke_status yoke_call_zero(const struct yoke_layer_call *call, void *target, size_t bytes);
/**
 * The collectives of the ranks that share the layer's tensors (call->tensor, call->shape->place). With one
 * rank, sum does nothing, and gather and scatter_sum copy. All of these ranks must issue the same collectives
 * in the same order. Sums have type `dtype` and are rounded once.
 */
yoke_status yoke_call_sum(const struct yoke_layer_call *call, void *x, int64_t n, yoke_dtype dtype);
yoke_status yoke_call_gather(const struct yoke_layer_call *call, const void *mine, void *all,
                             const int64_t counts[], yoke_dtype dtype);
yoke_status yoke_call_scatter_sum(const struct yoke_layer_call *call, const void *all, void *mine,
                                  const int64_t counts[], yoke_dtype dtype);
/**
 * Whether a layer may read memory. False while the program is being planned, because addresses are not valid
 * then.
 */
bool yoke_call_runs(const struct yoke_layer_call *call);

/* Used by YOKE_CALL: the planner's and the profiler's view of the ops that a layer issues. */
struct yoke_cost *yoke_observer_cost(yoke_observer *observer);
bool yoke_observer_begin(yoke_observer *observer, const char *op, yoke_status can);
yoke_status yoke_observer_end(yoke_observer *observer, yoke_status ran);
yoke_status yoke_observer_status(yoke_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
