/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every layer of YOKE_LAYERS alone, on the reference backend in f64. The test checks
 * - the gradients, against central differences;
 * - the declared memory: no byte outside is touched, and nothing is read that is gone according to the
 *   declaration;
 * - B (the gradient of the input) separately from W (the gradient of the weights);
 * - accumulation over micro-batches;
 * - shards of the layer's parameters.
 * Everything is also checked for layers whose tensors several ranks share. The other ranks do not exist, and
 * all data from them are 0. This rank's result is then a function of its own, and its gradient must be right.
 * (tests/ranks/tensor.c checks layers with real other ranks.)
 */
#include "tests/unit/layer_models.h"
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "parallel/parameters.h"
#include "train/layers/layers.h"

enum { B = 3, T = 5, GUARD = 64, SEED = 20240611 };
static const int64_t five_to_three[] = { 5, 3 };
static const struct place {
    const char *name;
    struct yoke_place place;
} places[] = { { "alone", { sizeof(struct yoke_place), 0, 1, NULL, false } },
               { "first of two", { sizeof(struct yoke_place), 0, 2, NULL, false } },
               { "first of two by rows", { sizeof(struct yoke_place), 0, 2, NULL, true } },
               { "second of two by rows", { sizeof(struct yoke_place), 1, 2, NULL, true } },
               /* The first rank has three of four query heads, the second has one. So both ranks need one K/V
                  head of Llama. */
               { "first of two, split groups", { sizeof(struct yoke_place), 0, 2, five_to_three, false } },
               { "second of two by rows, split groups",
                 { sizeof(struct yoke_place), 1, 2, five_to_three, true } } };
/* The subject of a check. */
struct subject {
    const struct yoke_layer_type *type;
    const struct yoke_place *place;
    const struct source *source;
};

/* One layer with all of its memory, each piece between guards. */
struct bench {
    yoke_device *device;
    yoke_stream *stream;
    yoke_model *model;
    const yoke_layer *layer;
    struct yoke_shape shape;
    struct yoke_pass pass;
    struct yoke_tensor_group group;
    int n_parameters;
    struct yoke_parameter parameter[YOKE_MAX_PARAMETERS];
    void *weights[YOKE_MAX_PARAMETERS], *gradients[YOKE_MAX_PARAMETERS];
    size_t sizes[YOKE_MAX_PARAMETERS];
    uint32_t fresh;
    void *tokens, *targets, *losses, *x, *y, *dy, *dx, *part[YOKE_N_PARTS];
    size_t part_bytes[YOKE_N_PARTS], n_x, n_y;
};

/* ---- one rank plays a group of ranks: the other ranks would add or show zeros ---- */
static yoke_status lone_sum(void *context, void *x, int64_t n, yoke_dtype dtype, yoke_stream *stream)
{
    (void)context, (void)x, (void)n, (void)dtype, (void)stream;
    return YOKE_OK;
}

static yoke_status lone_gather(void *context, const void *mine, void *all, const int64_t counts[],
                               yoke_dtype dtype, yoke_stream *stream)
{
    const struct yoke_place *place = context;
    const size_t element = yoke_dtype_bytes(dtype);
    size_t before = 0, total = 0;
    for (int r = 0; r < place->tensor_size; total += (size_t)counts[r], r++)
        if (r < place->tensor_rank) before += (size_t)counts[r];
    YOKE_TRY(yoke_fill(stream, all, 0, total * element));
    return yoke_copy(stream, (char *)all + before * element, mine,
                     (size_t)counts[place->tensor_rank] * element);
}

static yoke_status lone_scatter_sum(void *context, const void *all, void *mine, const int64_t counts[],
                                    yoke_dtype dtype, yoke_stream *stream)
{
    const struct yoke_place *place = context;
    size_t before = 0;
    for (int r = 0; r < place->tensor_rank; r++) before += (size_t)counts[r];
    const size_t element = yoke_dtype_bytes(dtype);
    return yoke_copy(stream, mine, (const char *)all + before * element,
                     (size_t)counts[place->tensor_rank] * element);
}

static void *guarded(struct bench *b, size_t bytes)
{
    void *address;
    assert_ok(yoke_alloc(b->device, bytes + 2 * GUARD, &address));
    memset(address, 0xa5, bytes + 2 * GUARD);
    return (char *)address + GUARD;
}

/* Check the guards, then free. */
static void release(struct bench *b, void *field, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)field - GUARD;
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(p[i], 0xa5);
        assert_int_equal(p[GUARD + bytes + i], 0xa5);
    }
    assert_ok(yoke_free(b->device, (char *)field - GUARD));
}

static void fill(void *values, size_t n, const char *name, double scale, double shift)
{
    struct yokei_philox_key key = yokei_philox_named(SEED, name);
    for (size_t i = 0; i < n; i++) ((double *)values)[i] = shift + scale * yokei_normal(key, i);
}

static void set_up(struct bench *b, const struct subject *subject, int64_t batch)
{
    const struct yoke_layer_type *type = subject->type;
    const struct yoke_place *place = subject->place;
    int64_t y_rows, y_columns, y_ld;
    memset(b, 0, sizeof *b);
    assert_ok(yoke_device_open("reference", NULL, &b->device));
    assert_ok(yoke_stream_create(b->device, &b->stream));
    assert_ok(yoke_stream_reserve(b->stream, 1 << 20));
    assert_ok(subject->source->build(&b->model));
    b->layer = layer_of(b->model, type);
    b->shape = (struct yoke_shape){ sizeof b->shape, YOKE_F64, batch, T, YOKE_TRAIN, place };
    b->group = (struct yoke_tensor_group){ sizeof b->group, (void *)(uintptr_t)place, lone_sum, lone_gather,
                                           lone_scatter_sum };
    assert_ok(yoke_layer_check(b->layer, place));
    b->pass = (struct yoke_pass){ .size = sizeof b->pass, .normaliser = 16, .loss_scale = 4, .seed = SEED };
    size_t rows = (size_t)(batch * T);
    const struct yoke_range own = yoke_place_rows(place, batch * T);
    b->n_x = (size_t)((own.end - own.begin) * b->layer->in);
    yoke_layer_output(b->layer, &b->shape, &y_rows, &y_columns, &y_ld);
    b->n_y = (size_t)(y_rows * y_ld);
    for (int part = 0; part < YOKE_N_PARTS; part++) {
        assert_ok(yoke_layer_bytes(b->layer, &b->shape, (enum yoke_part)part, &b->part_bytes[part]));
        b->part[part] = guarded(b, b->part_bytes[part]);
        memset(b->part[part], 0xff,
               b->part_bytes[part]); /* NaN, so that a read before the first write is noticed */
    }
    for (; type->parameter && b->n_parameters < YOKE_MAX_PARAMETERS; b->n_parameters++) {
        int p = b->n_parameters;
        if (!type->parameter(b->layer, place, p, &b->parameter[p])) break;
        b->sizes[p] = (size_t)yokei_local_count(&b->parameter[p]);
        b->weights[p] = guarded(b, b->sizes[p] * 8);
        b->gradients[p] = guarded(b, b->sizes[p] * 8);
        fill(b->weights[p], b->sizes[p], b->parameter[p].name, 0.4,
             b->parameter[p].init == YOKE_INIT_ONES ? 1 : 0);
        memset(b->gradients[p], 0, b->sizes[p] * 8);
    }
    b->x = guarded(b, b->n_x * 8), b->dx = guarded(b, b->n_x * 8);
    b->y = guarded(b, b->n_y * 8), b->dy = guarded(b, b->n_y * 8);
    fill(b->x, b->n_x, "x", 1, 0), fill(b->dy, b->n_y, "dy", 1, 0);
    b->tokens = guarded(b, rows * 4), b->targets = guarded(b, rows * 4), b->losses = guarded(b, rows * 8);
    for (size_t i = 0; i < rows; i++) {
        ((int32_t *)b->tokens)[i] = (int32_t)((i * 7 + 3) % (size_t)config.vocab_size);
        ((int32_t *)b->targets)[i] = i == 4 ? -1 : (int32_t)((i * 5 + 1) % (size_t)config.vocab_size);
    }
}

static void tear_down(struct bench *b)
{
    size_t rows = (size_t)(b->shape.B * T);
    for (int part = 0; part < YOKE_N_PARTS; part++) release(b, b->part[part], b->part_bytes[part]);
    for (int p = 0; p < b->n_parameters; p++) {
        release(b, b->weights[p], b->sizes[p] * 8);
        release(b, b->gradients[p], b->sizes[p] * 8);
    }
    release(b, b->x, b->n_x * 8), release(b, b->dx, b->n_x * 8);
    release(b, b->y, b->n_y * 8), release(b, b->dy, b->n_y * 8);
    release(b, b->tokens, rows * 4), release(b, b->targets, rows * 4), release(b, b->losses, rows * 8);
    assert_ok(yoke_stream_destroy(b->stream));
    assert_ok(yoke_device_close(b->device));
    assert_ok(yoke_model_destroy(b->model));
}

/* Calls get only the memory that the type declares to live that long. */
static struct yoke_layer_call call_of(struct bench *b, enum yoke_until until)
{
    const struct yoke_layer_type *type = b->layer->type;
    struct yoke_layer_call call = { .size = sizeof call,
                                    .device = b->device,
                                    .stream = b->stream,
                                    .pass = &b->pass,
                                    .shape = &b->shape,
                                    .weights = (const void *const *)b->weights,
                                    .tokens = b->tokens,
                                    .targets = b->targets,
                                    .losses = b->losses,
                                    .tensor = &b->group };
    if (b->n_x && (until == YOKE_UNTIL_F || type->input_until >= until)) call.x = b->x;
    if (until == YOKE_UNTIL_F || type->output_until >= until) call.y = b->y;
    if (until != YOKE_UNTIL_F && type->gradient_until >= until) call.dy = b->dy;
    if (until == YOKE_UNTIL_B && b->n_x) call.dx = b->dx;
    if (until == YOKE_UNTIL_W) call.gradients = b->gradients, call.fresh = b->fresh;
    for (int part = 0; part < YOKE_N_STASHES; part++) {
        bool lives = part == YOKE_F_TO_B ? until <= YOKE_UNTIL_B
                                         : part == YOKE_F_TO_W || until >= YOKE_UNTIL_B;
        call.stash[part] = lives && b->part_bytes[part] ? b->part[part] : NULL;
    }
    call.workspace = b->part[YOKE_WORKSPACE];
    memset(b->part[YOKE_WORKSPACE], 0xff, b->part_bytes[YOKE_WORKSPACE]);
    return call;
}

static void forward(struct bench *b)
{
    struct yoke_layer_call call = call_of(b, YOKE_UNTIL_F);
    assert_ok(b->layer->type->forward(b->layer, &call));
    assert_ok(yoke_stream_sync(b->stream));
}

static void backward_input(struct bench *b)
{
    struct yoke_layer_call call = call_of(b, YOKE_UNTIL_B);
    if (b->layer->type->backward_input) assert_ok(b->layer->type->backward_input(b->layer, &call));
    assert_ok(yoke_stream_sync(b->stream));
    memset(b->part[YOKE_F_TO_B], 0xff, b->part_bytes[YOKE_F_TO_B]); /* gone now */
}

static void backward_weight(struct bench *b)
{
    struct yoke_layer_call call = call_of(b, YOKE_UNTIL_W);
    if (b->layer->type->backward_weight) assert_ok(b->layer->type->backward_weight(b->layer, &call));
    assert_ok(yoke_stream_sync(b->stream));
}

/*
 * The function whose gradients are checked: the sum of dy * y, or the scaled mean loss for a layer that ends
 * the model.
 */
static double objective(struct bench *b)
{
    double sum = 0;
    forward(b);
    if (b->layer->type->gradient_until == YOKE_UNTIL_F) {
        for (size_t i = 0; i < (size_t)(b->shape.B * T); i++) sum += ((double *)b->losses)[i];
        return sum * (double)b->pass.loss_scale / (double)b->pass.normaliser;
    }
    for (size_t i = 0; i < b->n_y; i++) sum += ((double *)b->y)[i] * ((double *)b->dy)[i];
    return sum;
}

/* Largest difference between a gradient and central differences, over the gradient's largest element. */
static double difference(struct bench *b, double *values, const double *gradient, size_t n)
{
    const double h = 1e-5;
    double worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(gradient[i]));
    for (size_t i = 0; i < n; i++) {
        double kept = values[i];
        values[i] = kept + h;
        double up = objective(b);
        values[i] = kept - h;
        double down = objective(b);
        values[i] = kept;
        worst = fmax(worst, fabs((up - down) / (2 * h) - gradient[i]));
    }
    return worst / fmax(largest, 1e-30);
}

static void gradients(void **state)
{
    const struct subject *subject = *state;
    struct bench b;
    set_up(&b, subject, B);
    forward(&b), backward_input(&b), backward_weight(&b);
    double *dx = malloc(b.n_x * 8 + 8), *dw[YOKE_MAX_PARAMETERS];
    memcpy(dx, b.dx, b.n_x * 8);
    for (int p = 0; p < b.n_parameters; p++) {
        dw[p] = malloc(b.sizes[p] * 8);
        memcpy(dw[p], b.gradients[p], b.sizes[p] * 8);
    }
    if (b.n_x) assert_true(difference(&b, b.x, dx, b.n_x) < 2e-8);
    for (int p = 0; p < b.n_parameters; p++) {
        /*
         * Only the first rank adds parameters such as positions to y, but all ranks know their whole
         * gradient.
         */
        const bool of_first = b.parameter[p].replicated_axes & ~b.parameter[p].partial_axes
                              & YOKE_AXIS_TENSOR;
        double worst = of_first && subject->place->tensor_rank > 0
                           ? 0
                           : difference(&b, b.weights[p], dw[p], b.sizes[p]);
        if (!(worst < 2e-8))
            fail_msg("%s of %s: gradient off by %.2e of its largest element", b.parameter[p].name,
                     subject->type->name, worst);
        free(dw[p]);
    }
    free(dx);
    tear_down(&b);
}

static void separation(void **state)
{
    const struct subject *subject = *state;
    struct bench b;
    set_up(&b, subject, B);
    forward(&b);
    backward_input(&b);
    for (int p = 0; p < b.n_parameters; p++) /* B does not change the weights' gradients. */
        for (size_t i = 0; i < b.sizes[p]; i++) assert_true(((double *)b.gradients[p])[i] == 0);
    double *dx = malloc(b.n_x * 8 + 8);
    memcpy(dx, b.dx, b.n_x * 8);
    backward_weight(&b);
    assert_memory_equal(dx, b.dx, b.n_x * 8); /* and W leaves dx alone */
    double *once[YOKE_MAX_PARAMETERS];
    for (int p = 0; p < b.n_parameters; p++) {
        once[p] = malloc(b.sizes[p] * 8);
        memcpy(once[p], b.gradients[p], b.sizes[p] * 8);
    }
    backward_weight(&b); /* W accumulates, and does not change its stash */
    for (int p = 0; p < b.n_parameters; p++) {
        for (size_t i = 0; i < b.sizes[p]; i++)
            assert_true(fabs(((double *)b.gradients[p])[i] - 2 * once[p][i])
                        <= 1e-12 * (1 + fabs(once[p][i])));
        /* If the layer declares that it can, W overwrites the gradient, whatever it held. */
        memset(b.gradients[p], b.parameter[p].overwrites ? 0xff : 0, b.sizes[p] * 8);
        b.fresh |= (uint32_t)b.parameter[p].overwrites << p;
    }
    backward_weight(&b);
    for (int p = 0; p < b.n_parameters; p++) {
        for (size_t i = 0; i < b.sizes[p]; i++) assert_true(((double *)b.gradients[p])[i] == once[p][i]);
        free(once[p]);
    }
    free(dx);
    tear_down(&b);
}

/* The gradients of micro-batches of one sequence add up to the gradient of the whole batch, because the
 * normaliser is that of the whole batch. */
static void micro_batches(void **state)
{
    const struct subject *subject = *state;
    struct bench all, one;
    set_up(&all, subject, B);
    forward(&all), backward_input(&all), backward_weight(&all);
    set_up(&one, subject, 1);
    for (int64_t m = 0; m < B; m++) {
        one.pass.micro_batch = (int)m;
        one.pass.sample_offset = m;
        memcpy(one.x, (double *)all.x + (size_t)m * one.n_x, one.n_x * 8);
        if (subject->type->gradient_until != YOKE_UNTIL_F)
            memcpy(one.dy, (double *)all.dy + (size_t)m * one.n_y, one.n_y * 8);
        memcpy(one.tokens, (int32_t *)all.tokens + m * T, T * 4);
        memcpy(one.targets, (int32_t *)all.targets + m * T, T * 4);
        forward(&one), backward_input(&one), backward_weight(&one);
        for (size_t i = 0; i < one.n_x; i++)
            assert_true(fabs(((double *)one.dx)[i] - ((double *)all.dx)[(size_t)m * one.n_x + i]) < 1e-12);
    }
    for (int p = 0; p < all.n_parameters; p++)
        for (size_t i = 0; i < all.sizes[p]; i++)
            assert_true(fabs(((double *)one.gradients[p])[i] - ((double *)all.gradients[p])[i]) < 1e-11);
    tear_down(&one);
    tear_down(&all);
}

/*
 * Sizes must grow with the batch. Evaluation must need the same parts. Every parameter must be valid and
 * divisible.
 */
static void memory_and_shards(void **state)
{
    const struct subject *subject = *state;
    struct bench b;
    set_up(&b, subject, B);
    struct yoke_shape twice = b.shape, narrow = b.shape;
    twice.B = 2 * B;
    narrow.dtype = YOKE_BF16;
    for (int part = 0; part < YOKE_N_PARTS; part++) {
        size_t more, less;
        assert_ok(yoke_layer_bytes(b.layer, &twice, (enum yoke_part)part, &more));
        assert_ok(yoke_layer_bytes(b.layer, &narrow, (enum yoke_part)part, &less));
        assert_true(more >= b.part_bytes[part] && (b.part_bytes[part] == 0) == (more == 0));
        /* 16-bit parts of a sum are added in f32, for which f64 needs no room of its own. */
        assert_true(
            (less <= b.part_bytes[part] || (subject->place->tensor_size > 1 && part == YOKE_WORKSPACE))
            && less % 64 == 0);
    }
    for (int p = 0; p < b.n_parameters; p++) {
        struct yoke_parameter *q = &b.parameter[p];
        int64_t n = yokei_logical_count(q), last = q->shape[q->n_dims - 1];
        assert_true(n > 0 && q->name[0] && (q->replicated_axes & YOKE_AXIS_DATA)
                    && (q->partial_axes & YOKE_AXIS_DATA));
        float *whole = malloc((size_t)n * 4), *local = malloc((size_t)n * 4), *back = calloc((size_t)n, 4);
        const bool replicated = (q->replicated_axes & YOKE_AXIS_TENSOR) != 0;
        assert_true(subject->place->tensor_size == 1 || replicated == (yokei_local_count(q) == n));
        for (int d = 0; d < YOKE_MAX_DIMS; d++) q->shard[d].n = 0;
        yokei_parameter_draw_piece(q, SEED, 0, yokei_local_count(q), whole);
        /*
         * Three uneven shards of the last dimension in turn: drawn alone they equal the slices of the whole.
         */
        int64_t cut[] = { 0, 1, last / 2 + 1, last };
        for (int s = 0; s < 3; s++) {
            q->shard[q->n_dims - 1] = (struct yoke_ranges){ 1, { { cut[s], cut[s + 1] } } };
            yokei_parameter_draw_piece(q, SEED, 0, yokei_local_count(q), local);
            float *sliced = malloc((size_t)n * 4);
            yokei_shard_slice(q, whole, sliced);
            assert_memory_equal(local, sliced, (size_t)yokei_local_count(q) * 4);
            yokei_shard_place(q, local, back);
            free(sliced);
        }
        assert_memory_equal(back, whole, (size_t)n * 4);
        free(whole), free(local), free(back);
    }
    assert_fails(YOKE_EINVAL, "no parameter", yoke_layer_parameter(b.layer, b.n_parameters, &b.parameter[0]));
    assert_fails(YOKE_EINVAL, "part", yoke_layer_bytes(b.layer, &b.shape, YOKE_N_PARTS, &b.n_x));
    tear_down(&b);
}

/* Every listed layer must be in a model of this test, or it would not be checked. */
static void all_are_checked(void **state)
{
    (void)state;
    for (size_t l = 0; l < YOKE_COUNT(listed); l++) {
        bool found = false;
        for (size_t m = 0; m < YOKE_COUNT(sources); m++) found = found || occurs(&sources[m], listed[l]);
        if (!found)
            fail_msg("layer %s is listed, but occurs in none of the models of this test", listed[l]->name);
    }
}

int main(void)
{
    enum { N_CHECKS = 4, N_TESTS = N_CHECKS * YOKE_COUNT(listed) * YOKE_COUNT(places) * YOKE_COUNT(sources) };
    static struct CMUnitTest tests[N_TESTS + 1]; /* some are left out; cmocka skips what is empty */
    static char names[N_TESTS][96];
    static struct subject subjects[N_TESTS];
    const struct {
        const char *name;
        CMUnitTestFunction run;
    } checks[N_CHECKS] = { { "central differences", gradients },
                           { "B apart from W", separation },
                           { "micro-batches add up", micro_batches },
                           { "memory and shards", memory_and_shards } };
    size_t n = 0;
    printf("# seed %d\n", SEED);
    for (size_t m = 0; m < YOKE_COUNT(sources); m++)
        for (size_t l = 0; l < YOKE_COUNT(listed); l++)
            for (size_t p = 0; occurs(&sources[m], listed[l]) && p < YOKE_COUNT(places); p++)
                for (size_t c = 0; c < N_CHECKS; c++) {
                    /* Micro-batches of another size give this rank other rows. */
                    if (places[p].place.sequence_parallel && checks[c].run == micro_batches) continue;
                    subjects[n] = (struct subject){ listed[l], &places[p].place, &sources[m] };
                    snprintf(names[n], sizeof names[n], "%s of %s, %s: %s", listed[l]->name, sources[m].name,
                             places[p].name, checks[c].name);
                    tests[n] = (struct CMUnitTest){ names[n], checks[c].run, NULL, NULL, &subjects[n] };
                    n++;
                }
    tests[n] = (struct CMUnitTest)cmocka_unit_test(all_are_checked);
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
