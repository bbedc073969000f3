/* SPDX-License-Identifier: Apache-2.0 */
/** The list of Yoke's layers, and the helpers that the layers share. */
#ifndef TRAIN_LAYERS_LAYERS_H
#define TRAIN_LAYERS_LAYERS_H

#include <yoke/train.h>

/** The list of all layers. tests/unit/train_layers.c checks each of them. */
/* clang-format off */
#define YOKE_LAYERS(LAYER) \
    LAYER(gpt2_embedding) LAYER(gpt2_attention) LAYER(gpt2_mlp) LAYER(gpt2_norm) LAYER(gpt2_head) \
    LAYER(llama_embedding) LAYER(llama_attention) LAYER(llama_mlp) LAYER(llama_norm) LAYER(llama_head)
/* clang-format on */

/**
 * The properties of a model that its embedding and head layers need. GPT-2 and Llama models both provide it.
 */
struct yokei_vocabulary {
    int64_t C, V, n_positions; /* n_positions 0: positions have no embedding */
    double std, drop;
    /* names of parameters; if the head is the embedding (tied), both have the same name */
    const char *embedding, *positions, *head;
};
struct yokei_vocabulary yokei_vocabulary_of(const yoke_layer *layer);
/** Refuse a place where some rank would get no word of the vocabulary. */
yoke_status yokei_vocabulary_check(const yoke_layer *layer, const struct yoke_place *place);

/** Define `bytes_of` for a type that lists its fields in lay_out(layer, shape, call, &fields, bytes). */
#define YOKEI_BYTES_OF                                                                                   \
    static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part) \
    {                                                                                                    \
        struct fields f;                                                                                 \
        size_t bytes[YOKE_N_PARTS];                                                                      \
        lay_out(layer, shape, NULL, &f, bytes);                                                          \
        return bytes[part];                                                                              \
    }

/**
 * The value of a layer's type. Its file defines `parameter`, `bytes_of`, `forward` and `backward_weight`. The
 * fields that not every type has come at the end, such as `.check = check`.
 */
#define YOKEI_LAYER_TYPE(name_, config_, input, output, gradient, ...)                                     \
    {                                                                                                      \
        .size = sizeof(struct yoke_layer_type), .name = name_, .config_bytes = sizeof(struct config_),     \
        .input_until = input, .output_until = output, .gradient_until = gradient, __VA_ARGS__,             \
        .parameter = parameter, .bytes = bytes_of, .forward = forward, .backward_weight = backward_weight, \
    }

/**
 * Define `parameter`, `backward_weight` and the type of a sub-layer of a model, such as yoke_layer_gpt2_mlp.
 * Its file defines `sublayer_type`, `check`, `bytes_of`, `forward` and `backward_input`.
 */
#define YOKEI_SUBLAYER(model, kind)                                                                 \
    static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index,       \
                          struct yoke_parameter *out)                                               \
    {                                                                                               \
        return yokei_##model##_parameter(&sublayer_type, layer, place, index, out);                 \
    }                                                                                               \
    static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call) \
    {                                                                                               \
        return yokei_##model##_backward_weight(&sublayer_type, layer, call);                        \
    }                                                                                               \
    const struct yoke_layer_type yoke_layer_##model##_##kind = YOKEI_LAYER_TYPE(                    \
        #kind, yoke_##model##_config, YOKE_UNTIL_B, YOKE_UNTIL_F, YOKE_UNTIL_W, .check = check,     \
        .backward_input = backward_input)

/**
 * Describe a parameter. Its name is "<layer's name without its last word>.<suffix>", or the suffix alone if
 * `scope` is NULL.
 */
void yokei_parameter(struct yoke_parameter *out, const char *scope, const char *suffix, enum yoke_init init,
                     double std, int64_t rows, int64_t columns);

/* ---- tensor.c: what a layer does together with the ranks that share its tensors ---- */
bool yokei_is_dealt(const struct yoke_place *place);
/**
 * This rank's share of a dimension. The dimension has n_parts parts of `units` units with `width` elements
 * each. If the rank is alone, its share is the whole dimension.
 */
void yokei_deal(struct yoke_ranges *shard, const struct yoke_place *place, int64_t units, int64_t width,
                int n_parts);
/**
 * All ranks hold the whole parameter. by_rows: its gradient is computed from the rank's own rows. With
 * sequence parallelism these are only a part of the rows.
 */
void yokei_replicate(struct yoke_parameter *parameter, const struct yoke_place *place, bool by_rows);
/**
 * YOKE_ECONFIG if some rank would get none of n things. `what` is the plural noun for these things in the
 * message.
 */
yoke_status yokei_deal_check(const yoke_layer *layer, const struct yoke_place *place, int64_t n,
                             const char *what);
/**
 * The rows of N to which this rank adds the residual and the bias. Each row is added by one rank only: with
 * sequence parallelism by the rank that owns it, otherwise by rank 0.
 */
struct yoke_range yokei_rows_added(const struct yoke_place *place, int64_t N);

/**
 * Rows [N, C] that the ranks sum or gather. Each rank keeps its own rows. Without sequence parallelism these
 * are all rows.
 */
struct yokei_rows {
    int64_t N, C, n_own;
    struct yoke_range own;
    bool is_cut;      /* own rows are only some of the rows (sequence parallelism) */
    yoke_dtype sum;   /* data type in which the ranks' parts are summed */
    void *all, *sums; /* workspace [N, C] and [n_own, C] of that type; NULL if not needed */
};
/**
 * Fill in the struct, and add the bytes that it needs to `bytes`. `sum` is the type in which a rank's part is
 * added to the other ranks' parts. The sum is then rounded to shape->dtype.
 */
void yokei_rows_lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, int64_t C,
                        yoke_dtype sum, struct yokei_rows *rows_out, size_t bytes[YOKE_N_PARTS]);
/** Gather: all [N, C] = the own rows of all ranks. */
yoke_status yokei_rows_gather(const struct yoke_layer_call *call, const struct yokei_rows *rows,
                              const void *own, void *all);
/** The same if own rows are only some rows. The gathered rows lie in the workspace until the next sum. */
yoke_status yokei_rows_all(const struct yoke_layer_call *call, const struct yokei_rows *rows, const void *own,
                           const void **all_out);
/**
 * yokei_rows_partial returns the place for this rank's part [N, C] of type rows->sum. yokei_rows_sum then
 * sets target [n_own, C] to the own rows of the sum of all parts.
 */
void *yokei_rows_partial(const struct yokei_rows *rows, void *target);
yoke_status yokei_rows_sum(const struct yoke_layer_call *call, const struct yokei_rows *rows, void *target);
/** Set rows [begin, end) of a part, which begin at `part`, to the residual x. They are own rows. */
yoke_status yokei_rows_start(const struct yoke_layer_call *call, const struct yokei_rows *rows, int64_t begin,
                             int64_t end, void *part);

/* ---- dropout: it drops the same elements in every layout, and drops them again in the backward pass ---- */
/** p while training, otherwise 0. */
static inline float yokei_drop_p(const struct yoke_shape *shape, double p)
{
    return shape->mode == YOKE_TRAIN ? (float)p : 0.0f;
}
/** The key of the random numbers that `layer` draws for `what` in this step. */
uint64_t yokei_drop_key(const yoke_layer *layer, const struct yoke_layer_call *call, const char *what);
/** y = dropout(x) [+ residual] for own rows [n_own, C]. residual NULL: none. y may be x or residual. */
yoke_status yokei_drop_rows(const yoke_layer *layer, const struct yoke_layer_call *call, const char *what,
                            float p, const struct yokei_rows *rows, const void *x, const void *residual,
                            void *y);

/* ---- linear.c: y = x W + b with W [in, out], as Hugging Face's GPT-2 stores it ---- */
struct yokei_linear {
    int64_t N, in, out; /* rows, features */
};
/**
 * y [N, out] = x W + b. With `add` the result is added to y. With `gelu`, aux = x W + b and y = gelu(aux).
 * bias NULL: none.
 */
yoke_status yokei_linear_forward(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                 const void *x, const void *weight, const void *bias, bool add, bool gelu,
                                 void *aux, void *y, yoke_dtype y_dtype);
/** dx [N, in] = dy W^T */
yoke_status yokei_linear_backward_input(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                        const void *dy, const void *weight, void *dx, yoke_dtype dx_dtype);
/** Gradient `index` of the call += x^T dy */
yoke_status yokei_linear_backward_weight(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                         const void *x, const void *dy, int index);
/** dbias += column sums of dy [N, C], whose leading dimension is ld */
yoke_status yokei_bias_backward(const struct yoke_layer_call *call, int64_t N, int64_t C, const void *dy,
                                int64_t ld, void *dbias);

/**
 * Gradient `index` of the call += part [n]. The part is wide, and B computed it as a by-product of its own
 * pass.
 */
yoke_status yokei_gradient_add(const struct yoke_layer_call *call, int index, const void *part, int64_t n);

/* ---- linear.c: layer norm over the rows of x [N, C] ---- */
struct yokei_norm {
    int64_t N, C;
    float eps;
    void *mean, *rstd; /* stash from F to B */
    void *dgamma;      /* stash from B to W: gradients of gamma and beta [2, C], wide */
};
/** Add the norm's fields to a layer's memory. */
void yokei_norm_lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, int64_t N,
                        int64_t C, double eps, struct yokei_norm *n_out, size_t bytes[YOKE_N_PARTS]);
yoke_status yokei_norm_forward(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *x,
                               const void *gamma, const void *beta, void *y);
/**
 * dx = norm's input gradient [+ dresidual]. The gradients of gamma and beta are computed in the same pass and
 * stashed for W.
 */
yoke_status yokei_norm_backward_input(const struct yoke_layer_call *call, const struct yokei_norm *n,
                                      const void *dy, const void *x, const void *gamma, const void *dresidual,
                                      void *dx);
/** Gradients `gamma` and `beta` of the call += the gradients that B stashed. */
yoke_status yokei_norm_backward_weight(const struct yoke_layer_call *call, const struct yokei_norm *n,
                                       int gamma, int beta);

/*
 * ---- linear.c: y = x W^T with W [out, in], as Hugging Face's Llama stores it; y may be columns of a wider
 * array ----
 */
struct yokei_projection {
    int64_t N, in, out, ldy; /* rows, features, and the leading dimension of y */
};
/** y [N, out] = x W^T + b. With `add` the result is added to y. bias NULL: none. */
yoke_status yokei_project(const struct yoke_layer_call *call, const struct yokei_projection *l, const void *x,
                          const void *weight, const void *bias, bool add, void *y, yoke_dtype y_dtype);
/** dx [N, in] = dy W. With `add` the result is added to dx. */
yoke_status yokei_project_backward_input(const struct yoke_layer_call *call, const struct yokei_projection *l,
                                         const void *dy, const void *weight, bool add, void *dx,
                                         yoke_dtype dx_dtype);
/** dweight += dy^T x. dweight is gradient `index` of the call, or some rows of that gradient. */
yoke_status yokei_project_backward_weight(const struct yoke_layer_call *call,
                                          const struct yokei_projection *l, const void *x, const void *dy,
                                          int index, void *dweight);

/*
 * ---- llama_sublayer.c: a sub-layer of a Llama block, y = x + out(body(in(norm(x)))). The products before
 * the body may have biases. A block has two sub-layers, attention and MLP. Each has its own body. ----
 */
enum { YOKEI_LLAMA_MOST_IN = 3 };
/** The channels of a head. */
static inline int64_t yokei_llama_head_dim(const struct yoke_llama_config *c)
{
    return c->head_dim ? c->head_dim : c->hidden_size / c->num_attention_heads;
}
struct yokei_llama_in {
    const char *name;       /* name of the weight, without ".weight" */
    int64_t whole;          /* rows of the whole weight */
    struct yoke_range held; /* the rows that this rank holds */
    /* the rows that this rank computes: all that it holds, except for K/V heads that all ranks hold */
    struct yoke_range used;
    bool has_bias; /* has a bias too, divided like the rows; either all products before the body or none */
};
struct yokei_llama_type {
    const char *norm, *out; /* names of the parameters, without ".weight" */
    int n_in;
    /**
     * Describe the products before the body (`in`), and the features of the product after it: their number in
     * all ranks (`outer`) and the range of this rank (`held`).
     */
    void (*describe)(const yoke_layer *layer, const struct yoke_place *place,
                     struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN], int64_t *outer, struct yoke_range *held);
};
/*
 * Parameters, in order: the gain of the norm, the weights before the body, the weight after it, the biases.
 */
struct yokei_llama_sublayer {
    const struct yokei_llama_type *type;
    struct yokei_rows rows;
    int64_t width, outer_width; /* features of inner and outer on this rank */
    struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN];
    float eps;
    void *inner; /* stash from F to B: the body's input [N, width], the results of `in` side by side */
    void *rstd;  /* stash from F to B: the norm's statistics */
    void *ln,
        *outer; /* stash from F to W: the norm's output [n_own, C], the body's output [N, outer_width] */
    /* stash from B to W: the gradients of inner and of the norm's gain, and dy of all rows if it must be
     * gathered */
    void *dinner, *dgamma, *dy;
    void *dln; /* workspace: the gradient of ln */
};
void yokei_llama_lay_out(const struct yokei_llama_type *type, const yoke_layer *layer,
                         const struct yoke_shape *shape, const struct yoke_layer_call *call,
                         struct yokei_llama_sublayer *sublayer_out, size_t bytes[YOKE_N_PARTS]);
bool yokei_llama_parameter(const struct yokei_llama_type *type, const yoke_layer *layer,
                           const struct yoke_place *place, int index, struct yoke_parameter *out);
yoke_status yokei_llama_enter(const struct yoke_layer_call *call,
                              const struct yokei_llama_sublayer *sublayer);
yoke_status yokei_llama_leave(const struct yoke_layer_call *call,
                              const struct yokei_llama_sublayer *sublayer);
yoke_status yokei_llama_backward_leave(const struct yoke_layer_call *call,
                                       const struct yokei_llama_sublayer *sublayer, void *douter);
yoke_status yokei_llama_backward_enter(const struct yoke_layer_call *call,
                                       const struct yokei_llama_sublayer *sublayer);
yoke_status yokei_llama_backward_weight(const struct yokei_llama_type *type, const yoke_layer *layer,
                                        const struct yoke_layer_call *call);

/*
 * ---- gpt2_sublayer.c: a sub-layer of a GPT-2 block, y = x + out(body(in(norm(x)))). Attention and MLP each
 * have their own body. ----
 */
enum {
    YOKEI_GPT2_GAMMA,
    YOKEI_GPT2_BETA,
    YOKEI_GPT2_IN_WEIGHT,
    YOKEI_GPT2_IN_BIAS,
    YOKEI_GPT2_OUT_WEIGHT,
    YOKEI_GPT2_OUT_BIAS
};
struct yokei_gpt2_type {
    const char *norm, *in, *out; /* names of the parameters, without ".weight" and ".bias" */
    /* the body's input has `parts` times as many features as its output; its output has outer * C features */
    int parts, outer;
    bool heads; /* ranks that share the sub-layer get whole heads; otherwise they get single features */
};
/*
 * A rank that shares the sub-layer holds its own features of inner and outer. `in` is divided by columns,
 * `out` by rows.
 */
struct yokei_gpt2_sublayer {
    struct yokei_norm norm; /* own rows */
    struct yokei_linear in, out;
    struct yokei_rows rows;
    void *inner;      /* stash from F to B: the body's input [N, in.out] */
    void *ln, *outer; /* stash from F to W: the norm's output [n_own, C], the body's output [N, out.in] */
    void *dinner,
        *dy;   /* stash from B to W: the gradient of inner, and dy of all rows if it must be gathered */
    void *dln; /* workspace: the gradient of ln */
    const yoke_layer *layer;
    float drop; /* probability that an element of `out` is dropped before x is added; 0: none */
    /* stash from B to W: dy of own rows after dropout, as `out` needs it; NULL: dy itself is used */
    void *dropped;
};
/**
 * The number of units that are divided among ranks. *width_out is the number of features of inner and outer
 * in one unit.
 */
int64_t yokei_gpt2_units(const struct yokei_gpt2_type *type, const yoke_layer *layer, int64_t *width_out);
/** Fill in the sub-layer. `bytes` starts at 0. What the body needs in addition is added after this call. */
void yokei_gpt2_lay_out(const struct yokei_gpt2_type *type, const yoke_layer *layer,
                        const struct yoke_shape *shape, const struct yoke_layer_call *call,
                        struct yokei_gpt2_sublayer *sublayer_out, size_t bytes[YOKE_N_PARTS]);
bool yokei_gpt2_parameter(const struct yokei_gpt2_type *type, const yoke_layer *layer,
                          const struct yoke_place *place, int index, struct yoke_parameter *out);
/** enter: inner = in(norm(x)); with `gelu` also outer = gelu(inner). leave: y = x + out(outer). */
yoke_status yokei_gpt2_enter(const struct yoke_layer_call *call, const struct yokei_gpt2_sublayer *sublayer,
                             bool gelu);
yoke_status yokei_gpt2_leave(const struct yoke_layer_call *call, const struct yokei_gpt2_sublayer *sublayer);
/** backward_leave: douter [N, out.in] from dy. The body then computes dinner. backward_enter: dln and dx. */
yoke_status yokei_gpt2_backward_leave(const struct yoke_layer_call *call,
                                      const struct yokei_gpt2_sublayer *sublayer, void *douter);
yoke_status yokei_gpt2_backward_enter(const struct yoke_layer_call *call,
                                      const struct yokei_gpt2_sublayer *sublayer);
yoke_status yokei_gpt2_backward_weight(const struct yokei_gpt2_type *type, const yoke_layer *layer,
                                       const struct yoke_layer_call *call);

#endif
