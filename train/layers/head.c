/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head: logits = x W^T, and the softmax cross-entropy of each token. W is the embedding or a matrix of
 * its own. The logits are the layer's output y. B replaces them by their own gradient in place, and W reads
 * this gradient. Ranks that share the head divide the words, and each rank has the logits of its own words
 * for all tokens. The ranks exchange the log-sum-exp of their words and the logit of the target, so all ranks
 * compute the same losses.
 */
#include "train/layers/layers.h"

struct fields {
    struct yokei_rows rows;  /* rows of x and of its gradient */
    struct yoke_range words; /* the words of this rank */
    int64_t V, ld;           /* number of these words, and of elements from one row of logits to the next */
    void *lse;               /* stash from F to B: [N] */
    /* workspace: log-sum-exp and the target's logit [2, N], for own words, and for each rank's words one
     * after the other */
    void *own, *parts;
};

/*
 * Each row of logits begins at a multiple of 16 bytes. Otherwise the vocabulary of GPT-2, 50257, would leave
 * only the slow algorithms of libraries, which load single elements.
 */
static int64_t row_of(int64_t words, yoke_dtype dtype)
{
    const int64_t step = 16 / (int64_t)yoke_dtype_bytes(dtype);
    return (words + step - 1) / step * step;
}

static void lay_out(const yoke_layer *layer, const struct yoke_shape *shape,
                    const struct yoke_layer_call *call, struct fields *f, size_t bytes[YOKE_N_PARTS])
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    const yoke_dtype wide = yoke_dtype_wide(shape->dtype);
    for (int part = 0; part < YOKE_N_PARTS; part++) bytes[part] = 0;
    yokei_rows_lay_out(shape, call, c.C, wide, &f->rows, bytes);
    f->words = yoke_place_range(shape->place, c.V);
    f->V = f->words.end - f->words.begin;
    f->ld = row_of(f->V, shape->dtype);
    f->lse = yoke_part_field(shape, call, bytes, YOKE_F_TO_B, f->rows.N, yoke_dtype_bytes(wide));
    if (!yokei_is_dealt(shape->place)) return;
    f->own = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, 2 * f->rows.N, yoke_dtype_bytes(wide));
    f->parts = yoke_part_field(shape, call, bytes, YOKE_WORKSPACE, shape->place->tensor_size * 2 * f->rows.N,
                               yoke_dtype_bytes(wide));
}

YOKEI_BYTES_OF

static void output(const yoke_layer *layer, const struct yoke_shape *shape, int64_t *rows_out,
                   int64_t *columns_out, int64_t *ld_out)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    const struct yoke_range words = yoke_place_range(shape->place, c.V);
    *rows_out = shape->B * shape->T;
    *columns_out = words.end - words.begin;
    *ld_out = row_of(*columns_out, shape->dtype);
}

static bool parameter(const yoke_layer *layer, const struct yoke_place *place, int index,
                      struct yoke_parameter *out)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    if (index > 0) return false;
    yokei_parameter(out, NULL, c.head, YOKE_INIT_NORMAL, c.std, c.V, c.C);
    yokei_deal(&out->shard[0], place, c.V, 1, 1);
    return true;
}

/* Fill in the fields of a call, and gather the rows of x that its product reads. */
static yoke_status enter(const yoke_layer *layer, const struct yoke_layer_call *call, struct fields *f,
                         const void **x_out)
{
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, call->shape, call, f, bytes);
    return yokei_rows_all(call, &f->rows, call->x, x_out);
}

static yoke_status losses(const yoke_layer *layer, const struct yoke_layer_call *call, const struct fields *f)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    const struct yoke_shape *s = call->shape;
    const yoke_dtype wide = yoke_dtype_wide(s->dtype);
    const int64_t N = f->rows.N;
    const bool dealt = yokei_is_dealt(s->place);
    const size_t row = (size_t)N * yoke_dtype_bytes(wide);
    int64_t counts[YOKE_MAX_TENSOR];
    YOKE_TRY(YOKE_CALL(call, xent_forward, .dtype = s->dtype, .N = N, .V = f->V,
                       .vocab_start = f->words.begin, .vocabulary = c.V, .logits = call->y, .ld = f->ld,
                       .targets = call->targets, .lse = dealt ? f->own : f->lse,
                       .picked = dealt ? yoke_at(f->own, row) : NULL, .losses = dealt ? NULL : call->losses));
    if (!dealt) return YOKE_OK;
    for (int r = 0; r < s->place->tensor_size; r++) counts[r] = 2 * N;
    YOKE_TRY(yoke_call_gather(call, f->own, f->parts, counts, wide));
    return YOKE_CALL(call, xent_join, .dtype = s->dtype, .P = s->place->tensor_size, .N = N,
                     .lse_parts = f->parts, .picked_parts = yoke_at(f->parts, row), .ld = 2 * N,
                     .targets = call->targets, .lse = f->lse, .losses = call->losses);
}

static yoke_status forward(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_shape *s = call->shape;
    const void *x;
    struct fields f;
    YOKE_TRY(enter(layer, call, &f, &x));
    const int64_t C = f.rows.C;
    YOKE_TRY(YOKE_CALL(call, gemm, .dtype = s->dtype, .out_dtype = s->dtype, .trans_b = true, .M = f.rows.N,
                       .N = f.V, .K = C, .batch = 1, .a = x, .lda = C, .b = call->weights[0], .ldb = C,
                       .c = call->y, .ldc = f.ld, .alpha = 1.0f));
    return losses(layer, call, &f);
}

static yoke_status backward_input(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yokei_vocabulary c = yokei_vocabulary_of(layer);
    const struct yoke_shape *s = call->shape;
    struct fields f;
    size_t bytes[YOKE_N_PARTS];
    lay_out(layer, s, call, &f, bytes);
    const int64_t C = f.rows.C, N = f.rows.N;
    float scale = (float)((double)call->pass->loss_scale / (double)call->pass->normaliser);
    YOKE_TRY(YOKE_CALL(call, xent_backward, .dtype = s->dtype, .N = N, .V = f.V, .vocab_start = f.words.begin,
                       .vocabulary = c.V, .logits = call->y, .ld = f.ld, .targets = call->targets,
                       .lse = f.lse, .scale = scale, .dlogits = call->y, .lddlogits = f.ld));
    YOKE_TRY(YOKE_CALL(call, gemm, .dtype = s->dtype, .out_dtype = f.rows.sum, .M = N, .N = C, .K = f.V,
                       .batch = 1, .a = call->y, .lda = f.ld, .b = call->weights[0], .ldb = C,
                       .c = yokei_rows_partial(&f.rows, call->dx), .ldc = C, .alpha = 1.0f));
    return yokei_rows_sum(call, &f.rows, call->dx);
}

static yoke_status backward_weight(const yoke_layer *layer, const struct yoke_layer_call *call)
{
    const struct yoke_shape *s = call->shape;
    const void *x;
    struct fields f;
    YOKE_TRY(enter(layer, call, &f, &x));
    const int64_t C = f.rows.C;
    return YOKE_CALL(call, gemm, .dtype = s->dtype, .out_dtype = yoke_dtype_wide(s->dtype), .trans_a = true,
                     .M = f.V, .N = C, .K = f.rows.N, .batch = 1, .a = call->y, .lda = f.ld, .b = x, .ldb = C,
                     .c = call->gradients[0], .ldc = C, .alpha = 1.0f, .beta = yoke_call_beta(call, 0));
}

#define HEAD(config_)                                                           \
    YOKEI_LAYER_TYPE("head", config_, YOKE_UNTIL_W, YOKE_UNTIL_W, YOKE_UNTIL_F, \
                     .check = yokei_vocabulary_check, .output = output, .backward_input = backward_input)
const struct yoke_layer_type yoke_layer_gpt2_head = HEAD(yoke_gpt2_config);
const struct yoke_layer_type yoke_layer_llama_head = HEAD(yoke_llama_config);
