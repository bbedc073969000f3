/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares layers whose tensors several ranks share with the same layers on one rank: the outputs of the
 * forward and the backward pass, every parameter's gradient, and the gradient's norm. It covers each type of
 * layer, and whole GPT-2 and Llama models, in f32 and bf16, with and without sequence parallelism, with equal
 * and with uneven shares. Every rank runs both sides on its device. The test is also built with planted bugs
 * (tensor_planted_*), and must notice each.
 *   tensor [DEVICE...]    the ranks use these devices in turn; default host
 * Different devices round differently. So gradients of tensors that all ranks hold have the same bits only on
 * ranks of one kind of device.
 */
#include "tests/ranks/ranks.h"

#include <math.h>
#include "parallel/parameters.h"
#include "tests/golden/gates.h"
#include "train/layers/layers.h"
#include "train/trainer/trainer.h"

enum { B = 2, T = 13, N = B * T, SEED = 20250117, MOST_LAYERS = 16 };

/* ---- planted bugs: stand-ins for the library's own functions ---- */
#if defined PLANT_SUMMED_TWICE
/* Bug: gradients that are the same on all ranks are summed over the ranks. */
#define PLANT "a replicated gradient summed over the ranks"
#define PLANT_SHOWS_IN gradients
void yokei_replicate(struct yoke_parameter *p, const struct yoke_place *place, bool by_rows)
{
    (void)by_rows;
    p->replicated_axes |= YOKE_AXIS_TENSOR;
    if (yokei_is_dealt(place)) p->partial_axes |= YOKE_AXIS_TENSOR;
}
#elif defined PLANT_COUNTED
/* Bug: the norm counts replicated parameters once per rank. */
#define PLANT "a replicated parameter counted on each rank in the norm"
#define PLANT_SHOWS_IN norm
void yokei_replicate(struct yoke_parameter *p, const struct yoke_place *place, bool by_rows)
{
    if (by_rows && yokei_is_dealt(place) && place->sequence_parallel) p->partial_axes |= YOKE_AXIS_TENSOR;
}
#elif defined PLANT_BIAS
/* Bug: matrix products that are divided by rows add their bias on each rank. */
#define PLANT "a bias added on each rank"
#define PLANT_SHOWS_IN y
yoke_status yokei_linear_forward(const struct yoke_layer_call *call, const struct yokei_linear *l,
                                 const void *x, const void *weight, const void *bias, bool add, bool gelu,
                                 void *aux, void *y, yoke_dtype y_dtype)
{
    if (!bias) bias = call->weights[YOKEI_GPT2_OUT_BIAS];
    return YOKE_CALL(call, gemm, .dtype = call->shape->dtype, .out_dtype = y_dtype, .M = l->N, .N = l->out,
                     .K = l->in, .batch = 1, .a = x, .lda = l->in, .b = weight, .ldb = l->out, .c = y,
                     .ldc = l->out, .alpha = 1.0f, .beta = add ? 1.0f : 0.0f,
                     .epilogue = gelu ? YOKE_EPILOGUE_BIAS_GELU : YOKE_EPILOGUE_BIAS, .bias = bias,
                     .aux = aux, .ldaux = l->out);
}
#elif defined PLANT_DROPPED
/* Bug: equal shares, rounded down. No rank gets the rest. */
#define PLANT "the rest of uneven shares dropped"
#define PLANT_SHOWS_IN losses
struct yoke_range yoke_place_range(const struct yoke_place *place, int64_t n)
{
    if (!place || place->tensor_size <= 1) return (struct yoke_range){ 0, n };
    return (struct yoke_range){ n / place->tensor_size * place->tensor_rank,
                                n / place->tensor_size * (place->tensor_rank + 1) };
}
#endif

/* ---- one side: layers [first, end) of the model at one place, with all their memory ---- */
struct side {
    yoke_device *device;
    yoke_stream *stream;
    const yoke_model *model;
    const struct yoke_tensor_group *group;
    struct yoke_place place;
    struct yoke_shape shape;
    int first, end;
    struct yokei_parameters ps;
    void *weights[64], *gradients[64];
    void *y[MOST_LAYERS + 1], *dy[MOST_LAYERS + 1]; /* [l]: input of layer l */
    void *tokens, *targets, *losses;
    void *stash[MOST_LAYERS][YOKE_N_STASHES], *workspace;
};

static yoke_dtype wide_of(const struct side *s) { return yoke_dtype_wide(s->shape.dtype); }

/* The number of elements of the tensor between layers l - 1 and l. */
static int64_t boundary(const struct side *s, int l)
{
    int64_t rows, columns, ld;
    if (l == 0) return 0;
    yoke_layer_output(yoke_model_layer(s->model, l - 1), &s->shape, &rows, &columns, &ld);
    return rows * ld;
}

static yoke_status put(struct side *s, void *to, yoke_dtype dtype, const float *values, int64_t n)
{
    void *converted = malloc((size_t)n * yoke_dtype_bytes(dtype) + 1);
    yoke_convert(YOKE_F32, values, dtype, converted, (size_t)n);
    yoke_status status = yoke_copy_to_device(s->stream, to, converted, (size_t)n * yoke_dtype_bytes(dtype));
    if (!status) status = yoke_stream_sync(s->stream);
    free(converted);
    return status;
}

static yoke_status get(struct side *s, const void *from, yoke_dtype dtype, float *values, int64_t n)
{
    void *raw = malloc((size_t)n * yoke_dtype_bytes(dtype) + 1);
    yoke_status status = yoke_copy_to_host(s->stream, raw, from, (size_t)n * yoke_dtype_bytes(dtype));
    if (!status) status = yoke_stream_sync(s->stream);
    if (!status) yoke_convert(dtype, raw, YOKE_F32, values, (size_t)n);
    free(raw);
    return status;
}

/*
 * Draw a parameter as the library does. But biases and gains must differ from 0 and 1, so that they have an
 * effect.
 */
static void draw_parameter(const struct yoke_parameter *p, float *out)
{
    struct yoke_parameter q = *p;
    if (q.init != YOKE_INIT_NORMAL) q.init_std = 0.2;
    q.init = YOKE_INIT_NORMAL;
    yokei_parameter_draw_piece(&q, SEED, 0, yokei_local_count(&q), out);
    for (int64_t i = 0; p->init == YOKE_INIT_ONES && i < yokei_local_count(p); i++) out[i] += 1;
}

static yoke_status alloc(struct side *s, size_t bytes, void **out)
{
    YOKE_TRY(yoke_alloc(s->device, bytes + 64, out));
    return yoke_fill(s->stream, *out, 0xff,
                     bytes + 64); /* NaN, so that elements that nothing writes are noticed */
}

static yoke_status open_parameters(struct side *s)
{
    const size_t wide = yoke_dtype_bytes(wide_of(s));
    for (int p = 0; p < s->ps.n; p++) {
        const struct yoke_parameter *q = &s->ps.item[p];
        const int64_t n = yokei_local_count(q);
        float *values = malloc((size_t)n * sizeof *values + 1);
        draw_parameter(q, values);
        YOKE_TRY(alloc(s, (size_t)n * wide, &s->weights[p]));
        YOKE_TRY(put(s, s->weights[p], q->matrix ? s->shape.dtype : wide_of(s), values, n));
        YOKE_TRY(alloc(s, (size_t)n * wide, &s->gradients[p]));
        YOKE_TRY(yoke_fill(s->stream, s->gradients[p], 0, (size_t)n * wide));
        free(values);
    }
    return YOKE_OK;
}

static yoke_status open_side(struct side *s)
{
    const int n_layers = yoke_model_n_layers(s->model);
    const yoke_layer *layers[MOST_LAYERS];
    bool held[MOST_LAYERS];
    size_t workspace = 0, bytes;
    for (int l = 0; l < n_layers; l++)
        layers[l] = yoke_model_layer(s->model, l), held[l] = l >= s->first && l < s->end;
    s->shape.place = &s->place;
    YOKE_TRY(yokei_parameters_create(layers, n_layers, held, &s->place, &s->ps));
    YOKE_TRY(open_parameters(s));
    for (int l = s->first; l <= s->end; l++) {
        YOKE_TRY(alloc(s, (size_t)boundary(s, l) * yoke_dtype_bytes(s->shape.dtype), &s->y[l]));
        YOKE_TRY(alloc(s, (size_t)boundary(s, l) * yoke_dtype_bytes(s->shape.dtype), &s->dy[l]));
        if (l == s->end) break;
        for (int part = 0; part < YOKE_N_STASHES; part++) {
            YOKE_TRY(yoke_layer_bytes(layers[l], &s->shape, (enum yoke_part)part, &bytes));
            YOKE_TRY(alloc(s, bytes, &s->stash[l][part]));
        }
        YOKE_TRY(yoke_layer_bytes(layers[l], &s->shape, YOKE_WORKSPACE, &bytes));
        workspace = YOKE_MAX(workspace, bytes);
    }
    YOKE_TRY(alloc(s, workspace, &s->workspace));
    YOKE_TRY(alloc(s, N * 4, &s->tokens));
    YOKE_TRY(alloc(s, N * 4, &s->targets));
    return alloc(s, N * 8, &s->losses);
}

static void close_side(struct side *s)
{
    for (int p = 0; p < s->ps.n; p++)
        yoke_free(s->device, s->weights[p]), yoke_free(s->device, s->gradients[p]);
    for (int l = s->first; l <= s->end; l++) {
        yoke_free(s->device, s->y[l]), yoke_free(s->device, s->dy[l]);
        for (int part = 0; part < YOKE_N_STASHES && l < s->end; part++)
            yoke_free(s->device, s->stash[l][part]);
    }
    yoke_free(s->device, s->workspace), yoke_free(s->device, s->tokens), yoke_free(s->device, s->targets),
        yoke_free(s->device, s->losses);
    yokei_parameters_free(&s->ps);
}

/* Write this side's rows of `whole` [N, columns], normally distributed and the same on all ranks. */
static yoke_status feed(struct side *s, void *to, const char *name, int64_t columns)
{
    const struct yoke_range own = yoke_place_rows(&s->place, N);
    struct yokei_philox_key key = yokei_philox_named(SEED, name);
    const int64_t n = (own.end - own.begin) * columns;
    float *values = malloc((size_t)n * sizeof *values + 1);
    for (int64_t i = 0; i < n; i++) values[i] = (float)yokei_normal(key, (uint64_t)(own.begin * columns + i));
    yoke_status status = put(s, to, s->shape.dtype, values, n);
    free(values);
    return status;
}

static yoke_status feed_tokens(struct side *s, int64_t vocabulary)
{
    int32_t tokens[N], targets[N];
    for (int i = 0; i < N; i++) {
        tokens[i] = (int32_t)((i * 97 + 5) % vocabulary);
        /* The last word of the vocabulary is among the targets. */
        targets[i] = i == 7 ? -1 : (int32_t)((i * 61 + vocabulary - 1) % vocabulary);
    }
    YOKE_TRY(yoke_copy_to_device(s->stream, s->tokens, tokens, sizeof tokens));
    YOKE_TRY(yoke_copy_to_device(s->stream, s->targets, targets, sizeof targets));
    return yoke_stream_sync(s->stream);
}

static yoke_status run_call(struct side *s, int l, enum yoke_until call_kind)
{
    const yoke_layer *layer = yoke_model_layer(s->model, l);
    const void *weights[YOKE_MAX_PARAMETERS];
    void *gradients[YOKE_MAX_PARAMETERS];
    const struct yoke_pass pass = { .size = sizeof pass, .normaliser = N, .loss_scale = 8, .seed = SEED };
    for (int p = 0; p < s->ps.n_of_layer[l]; p++) {
        weights[p] = s->weights[s->ps.of_layer[l][p]];
        gradients[p] = s->gradients[s->ps.of_layer[l][p]];
    }
    struct yoke_layer_call call = { .size = sizeof call,
                                    .device = s->device,
                                    .stream = s->stream,
                                    .pass = &pass,
                                    .shape = &s->shape,
                                    .weights = weights,
                                    .gradients = call_kind == YOKE_UNTIL_W ? gradients : NULL,
                                    .tokens = s->tokens,
                                    .targets = s->targets,
                                    .losses = s->losses,
                                    .x = s->y[l],
                                    .y = s->y[l + 1],
                                    .dy = layer->type->gradient_until == YOKE_UNTIL_F ? NULL : s->dy[l + 1],
                                    .dx = s->dy[l],
                                    .tensor = s->group,
                                    .workspace = s->workspace };
    for (int part = 0; part < YOKE_N_STASHES; part++) call.stash[part] = s->stash[l][part];
    if (call_kind == YOKE_UNTIL_F) return layer->type->forward(layer, &call);
    if (call_kind == YOKE_UNTIL_B)
        return layer->type->backward_input ? layer->type->backward_input(layer, &call) : YOKE_OK;
    return layer->type->backward_weight ? layer->type->backward_weight(layer, &call) : YOKE_OK;
}

/*
 * Run the layers. y_out gets the output as f32. It is copied before B, because B of a head turns the output
 * into a gradient.
 */
static yoke_status run_side(struct side *s, float *y_out)
{
    for (int l = s->first; l < s->end; l++) YOKE_TRY(run_call(s, l, YOKE_UNTIL_F));
    YOKE_TRY(get(s, s->y[s->end], s->shape.dtype, y_out, boundary(s, s->end)));
    for (int l = s->end - 1; l >= s->first; l--) {
        YOKE_TRY(run_call(s, l, YOKE_UNTIL_B));
        YOKE_TRY(run_call(s, l, YOKE_UNTIL_W));
    }
    return yoke_stream_sync(s->stream);
}

/* ---- comparison ---- */
struct verdict {
    double y, dx, losses, gradients, norm; /* ratios to their gates; at most 1 passes */
    /* Same: replicated gradients are equal on all ranks; slices: drawn shards are slices of the whole. */
    bool same, slices;
    char worst[96];
};

/* Sum over the ranks with MPI, so that the tested library does not judge itself. It sleeps while it waits. */
static void sum_over_ranks(void *values, int n, MPI_Datatype type)
{
    int complete = 0;
    MPI_Request request;
    PMPI_Iallreduce(MPI_IN_PLACE, values, n, type, MPI_SUM, ranks_world, &request);
    for (PMPI_Test(&request, &complete, MPI_STATUS_IGNORE); !complete;
         PMPI_Test(&request, &complete, MPI_STATUS_IGNORE))
        usleep(20);
}

static bool is_dealt(const struct yoke_parameter *p)
{
    return yokei_local_count(p) < yokei_logical_count(p) || p->shard[0].n || p->shard[1].n;
}

/* Whether values [n] have the same bits on all ranks. */
static bool same_bits(const float *values, int64_t n)
{
    uint32_t hash = (uint32_t)yokei_hash(values, (size_t)n * sizeof *values, 1);
    double sums[2] = { hash, (double)hash * hash };
    sum_over_ranks(sums, 2, MPI_DOUBLE);
    return sums[0] == (double)ranks_size * hash && sums[1] == (double)ranks_size * ((double)hash * hash);
}

/* Put a parameter's whole gradient together from the ranks' parts. */
static yoke_status assemble(struct side *s, int p, float *whole, double *squares, struct verdict *v)
{
    const struct yoke_parameter *q = &s->ps.item[p];
    const int64_t n = yokei_local_count(q), n_whole = yokei_logical_count(q);
    float *local = malloc((size_t)n * sizeof *local + 1);
    if (q->partial_axes & YOKE_AXIS_TENSOR)
        YOKE_TRY(s->group->sum(s->group->context, s->gradients[p], n, wide_of(s), s->stream));
    YOKE_TRY(get(s, s->gradients[p], wide_of(s), local, n));
    for (int64_t i = 0; i < n && (ranks_rank == 0 || !(q->replicated_axes & YOKE_AXIS_TENSOR)); i++)
        *squares += (double)local[i] * (double)local[i];
    if (is_dealt(q)) {
        memset(whole, 0, (size_t)n_whole * sizeof *whole);
        yokei_shard_place(q, local, whole);
        sum_over_ranks(whole, (int)n_whole, MPI_FLOAT);
    } else {
        v->same = v->same && same_bits(local, n);
        memcpy(whole, local, (size_t)n * sizeof *whole);
    }
    free(local);
    return YOKE_OK;
}

static yoke_status compare_gradients(struct side *whole, struct side *dealt, struct verdict *v)
{
    const yoke_dtype dtype = whole->shape.dtype;
    double expected_squares = 0, squares = 0;
    for (int p = 0; p < whole->ps.n; p++) {
        const struct yoke_parameter *q = &whole->ps.item[p];
        const int64_t n = yokei_logical_count(q), n_local = yokei_local_count(&dealt->ps.item[p]);
        float *expected = malloc((size_t)n * 4), *got = malloc((size_t)n * 4), *drawn = malloc((size_t)n * 4),
              *slice = malloc((size_t)n * 4);
        YOKE_TRY(get(whole, whole->gradients[p], wide_of(whole), expected, n));
        YOKE_TRY(assemble(dealt, p, got, &squares, v));
        const double ratio = gates_gradient(q->name, got, expected, (size_t)n, 0, dtype,
                                            gates_tolerance(dtype, false));
        if (!(ratio <= v->gradients))
            v->gradients = ratio, snprintf(v->worst, sizeof v->worst, "%s", q->name);
        expected_squares += pow(gates_norm(expected, (size_t)n), 2);
        yokei_parameter_draw_piece(q, SEED, 0, yokei_local_count(q), expected);
        yokei_shard_slice(&dealt->ps.item[p], expected, slice);
        yokei_parameter_draw_piece(&dealt->ps.item[p], SEED, 0, yokei_local_count(&dealt->ps.item[p]), drawn);
        v->slices = v->slices && !memcmp(slice, drawn, (size_t)n_local * 4);
        free(expected), free(got), free(drawn), free(slice);
    }
    sum_over_ranks(&squares, 1, MPI_DOUBLE);
    v->norm = expected_squares > 0
                  ? fabs(sqrt(squares / expected_squares) - 1) / gates_tolerance(dtype, false)
                  : 0;
    return YOKE_OK;
}

/*
 * Compare `got`, this rank's rows of a tensor [rows, columns] (or columns, for a head), with the whole
 * tensor. Row r of `got` begins at element r * own_ld, and of the whole tensor at r * ld.
 */
static double ratio_of(const struct side *s, const float *got, const float *whole, int64_t n_own,
                       int64_t columns, int64_t ld, int64_t first_column, int64_t own_columns, int64_t own_ld)
{
    const struct yoke_range rows = own_columns == columns ? yoke_place_rows(&s->place, N)
                                                          : (struct yoke_range){ 0, N };
    double sums[2] = { 0, 0 };
    if ((rows.end - rows.begin) * own_ld != n_own) return INFINITY;
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t c = 0; c < own_columns; c++) {
            const double e = (double)whole[r * ld + first_column + c],
                         g = (double)got[(r - rows.begin) * own_ld + c];
            sums[0] += (g - e) * (g - e);
            sums[1] += e * e;
        }
    sum_over_ranks(sums, 2, MPI_DOUBLE);
    return sqrt(sums[0] / sums[1]) / gates_tolerance(s->shape.dtype, false);
}

static yoke_status compare(struct side *whole, struct side *dealt, const float *y_whole, const float *y_dealt,
                           struct verdict *v)
{
    const yoke_layer *last = yoke_model_layer(whole->model, whole->end - 1);
    const bool ends = last->type->gradient_until == YOKE_UNTIL_F;
    int64_t rows, columns, ld, own_ld;
    yoke_layer_output(last, &whole->shape, &rows, &columns, &ld);
    yoke_layer_output(last, &dealt->shape, &rows, &columns, &own_ld);
    const struct yoke_range words = yoke_place_range(&dealt->place, last->out);
    *v = (struct verdict){ .same = true, .slices = true };
    v->y = ratio_of(dealt, y_dealt, y_whole, rows * own_ld, last->out, ld, ends ? words.begin : 0, columns,
                    own_ld);
    if (ends) {
        float expected[N], got[N];
        YOKE_TRY(get(whole, whole->losses, wide_of(whole), expected, N));
        YOKE_TRY(get(dealt, dealt->losses, wide_of(dealt), got, N));
        v->losses = gates_distance(got, expected, N) / gates_norm(expected, N)
                    / gates_tolerance(whole->shape.dtype, false);
    }
    const int64_t n = boundary(whole, whole->first), n_own = boundary(dealt, dealt->first);
    if (n) {
        float *expected = malloc((size_t)n * 4), *got = malloc((size_t)n_own * 4 + 1);
        YOKE_TRY(get(whole, whole->dy[whole->first], whole->shape.dtype, expected, n));
        YOKE_TRY(get(dealt, dealt->dy[dealt->first], dealt->shape.dtype, got, n_own));
        v->dx = ratio_of(dealt, got, expected, n_own, n / N, n / N, 0, n / N, n / N);
        free(expected), free(got);
    }
    return compare_gradients(whole, dealt, v);
}

/* ---- what is checked ---- */
struct bench {
    yoke_device *device;
    yoke_stream *stream;
    struct yoke_tensor_group group;
    yoke_model *model; /* one of these is the current model */
    yoke_model *models[2];
    int64_t vocabulary;
    bool is_mixed; /* ranks have different devices */
};

static yoke_status run_both(const struct bench *b, int first, int end, yoke_dtype dtype,
                            const int64_t *shares, bool sequence, struct verdict *v)
{
    struct side sides[2];
    float *y[2];
    for (int i = 0; i < 2; i++) {
        struct side *s = &sides[i];
        *s = (struct side){ .device = b->device,
                            .stream = b->stream,
                            .model = b->model,
                            .first = first,
                            .end = end,
                            .group = &b->group };
        s->shape = (struct yoke_shape){ sizeof s->shape, dtype, B, T, YOKE_TRAIN, NULL };
        s->place = (struct yoke_place){ .size = sizeof s->place, .tensor_size = 1 };
        if (i == 1)
            s->place = (struct yoke_place){ sizeof s->place, ranks_rank, ranks_size, shares, sequence };
        YOKE_TRY(open_side(s));
        YOKE_TRY(feed_tokens(s, b->vocabulary));
        if (first > 0) YOKE_TRY(feed(s, s->y[first], "x", yoke_model_layer(b->model, first)->in));
        if (yoke_model_layer(b->model, end - 1)->type->gradient_until != YOKE_UNTIL_F)
            YOKE_TRY(feed(s, s->dy[end], "dy", yoke_model_layer(b->model, end - 1)->out));
        y[i] = malloc((size_t)boundary(s, end) * sizeof(float));
        YOKE_TRY(run_side(s, y[i]));
    }
    YOKE_TRY(compare(&sides[0], &sides[1], y[0], y[1], v));
    for (int i = 0; i < 2; i++) close_side(&sides[i]), free(y[i]);
    return YOKE_OK;
}

static void check(const struct bench *b, int first, int end, const char *what, yoke_dtype dtype,
                  const int64_t *shares, bool sequence)
{
    struct verdict v = { 0 };
    const yoke_status status = run_both(b, first, end, dtype, shares, sequence, &v);
    char name[128];
    snprintf(name, sizeof name, "%s, %s, %s shares%s", what, yoke_dtype_name(dtype),
             shares ? "uneven" : "equal", sequence ? ", sequence parallel" : "");
#ifdef PLANT
    ranks_check(!status && !(v.PLANT_SHOWS_IN <= 10), PLANT " is noticed: %s", name);
#else
    ranks_check(!status && v.y <= 1 && v.dx <= 1 && v.losses <= 1 && v.gradients <= 1,
                "y, dx and gradients: %s", name);
    ranks_check(!status && v.norm <= 1 && (v.same || b->is_mixed) && v.slices,
                "replicated alike, counted once, drawn as slices: %s", name);
#endif
    if (ranks_rank == 0)
        printf("# of their gates: y %.3f, dx %.3f, losses %.3f, norm %.3f, gradients %.3f (%s)%s%s\n", v.y,
               v.dx, v.losses, v.norm, v.gradients, v.worst, v.same ? "" : ", ranks differ",
               v.slices ? "" : ", no slices");
}

static int set_up(struct bench *b, const char *device)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    struct yoke_gpt2_config c;
    yoke_comm *comm;
    RANKS_TRY(yoke_gpt2_preset("nano", &c));
    c.vocab_size = b->vocabulary = 251; /* a prime, so that no two ranks get equal parts */
    c.n_head = 8;                       /* uneven for 3, and enough for uneven shares of 4 */
    c.initializer_range = 0.1;
    config.name = "tensor";
    config.reproducible = YOKE_REPRODUCIBLE_SHAPE;
    RANKS_TRY(yoke_device_open(device, NULL, &b->device));
    RANKS_TRY(yoke_stream_create(b->device, &b->stream));
    RANKS_TRY(yoke_stream_reserve(b->stream, 16 << 20));
    RANKS_TRY(yoke_comm_create(ranks_world, b->device, &config, &comm));
    b->group = yokei_ranks_tensor(comm);
    RANKS_TRY(yoke_model_gpt2(&c, &b->models[0]));
    struct yoke_llama_config l;
    RANKS_TRY(yoke_llama_preset("llama-nano", &l));
    l.vocab_size = c.vocab_size;
    l.num_attention_heads = 8,
    l.num_key_value_heads = 4; /* groups of two: split by three ranks, and by uneven shares */
    l.initializer_range = 0.1;
    l.attention_dropout = 0.1;
    RANKS_TRY(yoke_model_llama(&l, &b->models[1]));
    return 1;
}

int main(int argc, char **argv)
{
    static const int64_t uneven[][4] = { { 1 }, { 3, 1 }, { 2, 1, 1 }, { 3, 2, 2, 1 } };
    static const struct {
        int first, end;
        const char *what;
    } subjects[] = { { 0, 7, "model" }, { 0, 1, "embedding" }, { 1, 2, "attention" },
                     { 2, 3, "mlp" },   { 5, 6, "norm" },      { 6, 7, "head" } };
#ifdef PLANT
    const size_t n_subjects = 1, n_models = 1;
    const int first = 1, end = 2;
#else
    const size_t n_subjects = YOKE_COUNT(subjects), n_models = 2;
    const int first = 0, end = 8;
#endif
    struct bench b;
    ranks_start();
    if (ranks_rank == 0) printf("# seed %d\n", SEED);
    memset(&b, 0, sizeof b);
    for (int r = 1; r < ranks_size && argc > 2; r++)
        b.is_mixed = b.is_mixed || strcmp(argv[1 + r % (argc - 1)], argv[1]) != 0;
    if (!ranks_check(ranks_size <= 4 && set_up(&b, argc > 1 ? argv[1 + ranks_rank % (argc - 1)] : "host"),
                     "set up"))
        return ranks_end();
    for (size_t m = 0; m < n_models; m++)
        for (int k = first; k < end; k++) {
            const int64_t *shares = k & 1 ? uneven[ranks_size - 1] : NULL;
            const yoke_dtype dtype = k & 4 ? YOKE_BF16 : YOKE_F32;
            b.model = b.models[m];
            for (size_t i = 0; i < n_subjects; i++) {
                char what[32];
                snprintf(what, sizeof what, "%s%s", m ? "Llama's " : "", subjects[i].what);
                check(&b, subjects[i].first, subjects[i].end, what, dtype, shares, k & 2);
            }
        }
    for (int m = 0; m < 2; m++) yoke_model_destroy(b.models[m]);
    yoke_comm_destroy(b.group.context);
    yoke_stream_destroy(b.stream);
    yoke_device_close(b.device);
    return ranks_end();
}
