/* SPDX-License-Identifier: Apache-2.0 */
/** Yoke's layers, listed once; and what they share. */
#ifndef TRAIN_LAYERS_LAYERS_H
#define TRAIN_LAYERS_LAYERS_H

#include <yoke/train.h>

/** Every layer; tests/unit/train_layers.c checks each of the list. */
#define YOKE_LAYERS(LAYER)                                              \
    LAYER(embedding) LAYER(attention) LAYER(mlp) LAYER(norm) LAYER(head) \
    LAYER(llama_embedding) LAYER(llama_attention) LAYER(llama_mlp) LAYER(rmsnorm) LAYER(llama_head)

/** What an embedding and a head know of their model, whichever it is. */
struct yokei_vocabulary {
    int64_t C, V, n_positions; /* 0 positions: they are not embedded */
    double std, drop;
    const char *embedding, *positions, *head; /* names of parameters; a head that is the embedding has its name */
};
struct yokei_vocabulary yokei_vocabulary_of(const yoke_layer *layer);
/** Refuse a place where a rank would have none of the words. */
yoke_status yokei_vocabulary_check(const yoke_layer *layer, const struct yoke_place *place);

/** `bytes_of` of a type that lists its fields in lay_out(layer, shape, call, &fields, bytes). */
#define YOKEI_BYTES_OF                                                                                          \
    static size_t bytes_of(const yoke_layer *layer, const struct yoke_shape *shape, enum yoke_part part)        \
    {                                                                                                           \
        struct fields f;                                                                                        \
        size_t bytes[YOKE_N_PARTS];                                                                             \
        lay_out(layer, shape, NULL, &f, bytes);                                                                 \
        return bytes[part];                                                                                     \
    }

/** Describe a parameter: "<layer's name without its last word>.<suffix>", or the suffix alone where `scope` is NULL. */
void yokei_parameter(struct yoke_parameter *out, const char *scope, const char *suffix, enum yoke_init init, double std,
                     int64_t rows, int64_t columns);

/* ---- tensor.c: what layers do together with the ranks that share their tensors ---- */
bool yokei_is_dealt(const struct yoke_place *place);
/** This rank's share of a dimension that is n_parts times `units` units of `width` elements; the whole where the rank is alone. */
void yokei_deal(struct yoke_ranges *shard, const struct yoke_place *place, int64_t units, int64_t width, int n_parts);
/** All ranks hold the whole parameter. by_rows: its gradient is made of own rows, so of a part of them under sequence parallelism. */
void yokei_replicate(struct yoke_parameter *parameter, const struct yoke_place *place, bool by_rows);
/** YOKE_ECONFIG where a rank would get none of n; `what` they are, in the plural. */
yoke_status yokei_deal_check(const yoke_layer *layer, const struct yoke_place *place, int64_t n, const char *what);
/** The rows of N to which this rank adds residual and bias, once among the ranks: its own, or without sequence parallelism rank 0 all. */
struct yoke_range yokei_rows_added(const struct yoke_place *place, int64_t N);

/** Rows [N, C] that the ranks add up or bring together, and of which this rank keeps its own: all without sequence parallelism. */
struct yokei_rows {
    int64_t N, C, n_own;
    struct yoke_range own;
    bool is_cut;      /* own are some of them: sequence parallelism */
    yoke_dtype sum;   /* type of what is added up */
    void *all, *sums; /* workspace: [N, C] and [n_own, C] of that type; NULL where they are not needed */
};
/** Fill in, and add to `bytes` what it needs. sum: in which a rank's part is added to the others'; rounded to shape->dtype after. */
void yokei_rows_lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, int64_t C, yoke_dtype sum,
                        struct yokei_rows *rows_out, size_t bytes[YOKE_N_PARTS]);
/** all [N, C] = the ranks' own rows. */
yoke_status yokei_rows_gather(const struct yoke_layer_call *call, const struct yokei_rows *rows, const void *own, void *all);
/** The same where own rows are some; they lie in the workspace until the next sum. */
yoke_status yokei_rows_all(const struct yoke_layer_call *call, const struct yokei_rows *rows, const void *own, const void **all_out);
/** Where this rank's part [N, C] of type rows->sum goes; then target [n_own, C] = own rows of the sum of all parts. */
void *yokei_rows_partial(const struct yokei_rows *rows, void *target);
yoke_status yokei_rows_sum(const struct yoke_layer_call *call, const struct yokei_rows *rows, void *target);

/* ---- dropout: the same elements in every layout, and again in the backward pass ---- */
/** p while training, else 0. */
static inline float yokei_drop_p(const struct yoke_shape *shape, double p) { return shape->mode == YOKE_TRAIN ? (float)p : 0.0f; }
/** The key of what `layer` draws for `what` in this step. */
uint64_t yokei_drop_key(const yoke_layer *layer, const struct yoke_layer_call *call, const char *what);
/** y = dropout(x) [+ residual] of own rows [n_own, C]; residual NULL: none. y may be x or residual. */
yoke_status yokei_drop_rows(const yoke_layer *layer, const struct yoke_layer_call *call, const char *what, float p, const struct yokei_rows *rows,
                            const void *x, const void *residual, void *y);

/* ---- linear.c: y = x W + b with W [in, out], as Hugging Face's GPT-2 stores it ---- */
struct yokei_linear {
    int64_t N, in, out; /* rows, features */
};
/** y [N, out] = x W + b, with `add` on top of what y holds; with `gelu`, aux = x W + b and y = gelu(aux). bias NULL: none. */
yoke_status yokei_linear_forward(const struct yoke_layer_call *call, const struct yokei_linear *l, const void *x, const void *weight,
                                 const void *bias, bool add, bool gelu, void *aux, void *y, yoke_dtype y_dtype);
/** dx [N, in] = dy W^T */
yoke_status yokei_linear_backward_input(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                        const void *dy, const void *weight, void *dx, yoke_dtype dx_dtype);
/** Gradient `index` of the call += x^T dy */
yoke_status yokei_linear_backward_weight(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                         const void *x, const void *dy, int index);
/** dbias += column sums of dy [N, C] */
yoke_status yokei_bias_backward(const struct yoke_layer_call *call, int64_t N, int64_t C, const void *dy, void *dbias);

/** Gradient `index` of the call += part [n], wide, which B left: what it can make in the pass that it makes anyway. */
yoke_status yokei_gradient_add(const struct yoke_layer_call *call, int index, const void *part, int64_t n);

/* ---- linear.c: layer norm over the rows of x [N, C] ---- */
struct yokei_norm {
    int64_t N, C;
    float eps;
    void *mean, *rstd; /* F to B */
    void *dgamma;      /* B to W: gradients of gamma and beta [2, C], wide */
};
/** Add them to a layer's memory. */
void yokei_norm_lay_out(const struct yoke_shape *shape, const struct yoke_layer_call *call, int64_t N, int64_t C, double eps,
                        struct yokei_norm *n_out, size_t bytes[YOKE_N_PARTS]);
yoke_status yokei_norm_forward(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *x,
                               const void *gamma, const void *beta, void *y);
/** dx = norm's input gradient [+ dresidual]; gamma's and beta's come with it, for W */
yoke_status yokei_norm_backward_input(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *dy,
                                      const void *x, const void *gamma, const void *dresidual, void *dx);
/** Gradients `gamma` and `beta` of the call += what B left. */
yoke_status yokei_norm_backward_weight(const struct yoke_layer_call *call, const struct yokei_norm *n, int gamma, int beta);

/* ---- linear.c: y = x W^T with W [out, in], as Hugging Face's Llama stores it; columns of wider rows, ld apart ---- */
struct yokei_projection {
    int64_t N, in, out, ldy; /* rows, features, and how wide the rows of y are */
};
/** y [N, out] = x W^T, with `add` on top of what y holds. */
yoke_status yokei_project(const struct yoke_layer_call *call, const struct yokei_projection *l, const void *x, const void *weight, bool add,
                          void *y, yoke_dtype y_dtype);
/** dx [N, in] = dy W, with `add` on top of what dx holds. */
yoke_status yokei_project_backward_input(const struct yoke_layer_call *call, const struct yokei_projection *l, const void *dy,
                                         const void *weight, bool add, void *dx, yoke_dtype dx_dtype);
/** dweight, which is gradient `index` of the call or rows of it, += dy^T x */
yoke_status yokei_project_backward_weight(const struct yoke_layer_call *call, const struct yokei_projection *l, const void *x, const void *dy,
                                          int index, void *dweight);

/* ---- llama_block.c: half of a Llama block, y = x + out(body(in(norm(x)))), without biases; the body is the layer's own ---- */
enum { YOKEI_LLAMA_MOST_IN = 3 };
struct yokei_llama_in {
    const char *name;          /* of its weight, without ".weight" */
    int64_t whole;             /* rows of the whole weight */
    struct yoke_range held;    /* of which this rank holds these, */
    struct yoke_range used;    /* and computes these: all that it holds, but of K/V heads that all ranks hold */
};
struct yokei_llama_type {
    const char *norm, *out;    /* names of the parameters, without ".weight" */
    int n_in;
    /** Describe the products into the half, and the features of the one out of it: of all ranks and of this one. */
    void (*describe)(const yoke_layer *layer, const struct yoke_place *place, struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN], int64_t *outer,
                     struct yoke_range *held);
};
/* Parameters: the norm's gain, the weights into the half, the one out of it. */
struct yokei_llama_half {
    const struct yokei_llama_type *type;
    struct yokei_rows rows;
    int64_t width, outer_width; /* features of inner and outer on this rank */
    struct yokei_llama_in in[YOKEI_LLAMA_MOST_IN];
    float eps;
    void *inner;                /* F to B: the body's input [N, width], the results of `in` side by side */
    void *rstd;                 /* F to B: the norm's statistics */
    void *ln, *outer;           /* F to W: the norm's output [n_own, C], the body's output [N, outer_width] */
    void *dinner, *dgamma, *dy; /* B to W: the gradients of inner and of the norm's gain, and dy of all rows where it must be gathered */
    void *dln;                  /* workspace: the gradient of ln */
};
void yokei_llama_lay_out(const struct yokei_llama_type *type, const yoke_layer *layer, const struct yoke_shape *shape,
                         const struct yoke_layer_call *call, struct yokei_llama_half *half_out, size_t bytes[YOKE_N_PARTS]);
bool yokei_llama_parameter(const struct yokei_llama_type *type, const yoke_layer *layer, const struct yoke_place *place, int index,
                           struct yoke_parameter *out);
yoke_status yokei_llama_enter(const struct yoke_layer_call *call, const struct yokei_llama_half *half);
yoke_status yokei_llama_leave(const struct yoke_layer_call *call, const struct yokei_llama_half *half);
yoke_status yokei_llama_backward_leave(const struct yoke_layer_call *call, const struct yokei_llama_half *half, void *douter);
yoke_status yokei_llama_backward_enter(const struct yoke_layer_call *call, const struct yokei_llama_half *half);
yoke_status yokei_llama_backward_weight(const struct yoke_layer_call *call, const struct yokei_llama_half *half);

/* ---- gpt2_block.c: half of a GPT-2 block, y = x + out(body(in(norm(x)))); the body is the layer's own ---- */
enum {
    YOKEI_HALF_GAMMA, YOKEI_HALF_BETA, YOKEI_HALF_IN_WEIGHT, YOKEI_HALF_IN_BIAS, YOKEI_HALF_OUT_WEIGHT, YOKEI_HALF_OUT_BIAS
};
struct yokei_half_type {
    const char *norm, *in, *out; /* names of the parameters, without ".weight" and ".bias" */
    int parts, outer;            /* the body takes `parts` times the features that it gives, which are outer * C */
    bool heads;                  /* ranks that share the half are dealt whole heads; else single features */
};
/* Of the features of inner and outer a rank that shares the half has its own: `in` is dealt by columns, `out` by rows. */
struct yokei_half {
    struct yokei_norm norm;     /* own rows */
    struct yokei_linear in, out;
    struct yokei_rows rows;
    void *inner;                /* F to B: the body's input [N, in.out] */
    void *ln, *outer;           /* F to W: the norm's output [n_own, C], the body's output [N, out.in] */
    void *dinner, *dy;          /* B to W: the gradient of inner, and dy of all rows where it must be gathered */
    void *dln;                  /* workspace: the gradient of ln */
    const yoke_layer *layer;
    float drop;                 /* probability that an element of `out` is dropped before it comes on x; 0: none */
    void *dropped;              /* B to W: dy of own rows as `out` sees it, without what was dropped; NULL: dy itself */
};
/** Features of inner and outer that are dealt as one, and how many of these there are. */
int64_t yokei_half_units(const struct yokei_half_type *type, const yoke_layer *layer, int64_t *width_out);
/** Fill in the half; `bytes` begins at 0, and what the body needs besides is added after it. */
void yokei_half_lay_out(const struct yokei_half_type *type, const yoke_layer *layer, const struct yoke_shape *shape,
                        const struct yoke_layer_call *call, struct yokei_half *half_out, size_t bytes[YOKE_N_PARTS]);
bool yokei_half_parameter(const struct yokei_half_type *type, const yoke_layer *layer, const struct yoke_place *place, int index,
                          struct yoke_parameter *out);
/** inner = in(norm(x)); with `gelu`, outer = gelu(inner) too. Then y = x + out(outer). */
yoke_status yokei_half_enter(const struct yoke_layer_call *call, const struct yokei_half *half, bool gelu);
yoke_status yokei_half_leave(const struct yoke_layer_call *call, const struct yokei_half *half);
/** douter [N, out.in] from dy; then, with dinner computed by the body, dln and dx. */
yoke_status yokei_half_backward_leave(const struct yoke_layer_call *call, const struct yokei_half *half, void *douter);
yoke_status yokei_half_backward_enter(const struct yoke_layer_call *call, const struct yokei_half *half);
yoke_status yokei_half_backward_weight(const struct yoke_layer_call *call, const struct yokei_half *half);

#endif
