/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for layouts. On small random clusters, brute force over the whole space must find the same
 * fastest step, and no bound may be above a prediction. YOKE_SOAK=1 tries 500 clusters.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/train.h>

#include "core/base/base.h"
#include "train/models/model.h"
#include "train/search/bounds.h"
#include "train/search/choices.h"

static yoke_device *host;
static struct {
    struct yokei_philox_key key;
    uint64_t n; /* numbers that were drawn */
} draws;

/* A number in [0, n), and one in [1, most], evenly on a logarithmic scale. */
static int draw(int n) { return (int)(yokei_uniform(draws.key, draws.n++) * n); }
static double draw_factor(double most) { return pow(most, yokei_uniform(draws.key, draws.n++)); }

/* ---- random clusters ---- */

static void draw_kind(struct yokei_device_kind *k, int index, double memory)
{
    yokei_text(k->name, sizeof k->name, "kind%d", index);
    k->memory = (uint64_t)(memory * draw_factor(8));
    for (int type = 0; type < YOKEI_N_SPEED_TYPES; type++)
        for (int class = 0; class < YOKEI_N_CLASSES; class ++) {
            struct yokei_speed *s = &k->speed[type][class];
            s->n_points = class <= YOKEI_CLASS_ATTENTION ? 1 + draw(2) : 0;
            s->point[0].rate = 1e9 * draw_factor(20);
            s->point[1].work = 1e5;
            s->point[1].rate = 2 * s->point[0].rate;
            s->bytes_per_second = 1e9 * draw_factor(10);
            s->seconds = draw(2) ? 1e-6 : 0;
        }
}

static void draw_cluster(struct yokei_cluster *c, double memory)
{
    *c = (struct yokei_cluster){ .name = "drawn", .n_kinds = 1 + draw(2), .n_links = 2 };
    for (int k = 0; k < c->n_kinds; k++) draw_kind(&c->kind[k], k, memory);
    for (int l = 0; l < 2; l++)
        c->link[l] = (struct yokei_link){ "link", 1e8 * draw_factor(100), draw(2) ? 1e-6 : 0,
                                          draw(2) ? 2e-6 : 0 };
    c->n_hosts = c->n_kinds;
    for (int h = 0; h < c->n_hosts; h++) {
        c->host[h] = (struct yokei_cluster_host){
            .name = "host", .n = 1 + draw(2), .n_lists = 1, .inner = -1, .n_links = 1 + draw(2)
        };
        c->host[h].devices[0] = (struct yokei_host_devices){ h, 1 + draw(2), 0 };
        for (int g = 0; g < c->n_hosts; g++) c->between[h][g] = 1;
    }
}

/* ---- brute force ---- */

static const double LARGEST_BUBBLE = 0.02;

struct brute {
    yokei_predictor *predictor;
    const struct yokei_predict_config *config;
    struct yokei_model_sizes sizes;
    double best;
    double best_busy, least_bubble; /* the best step within LARGEST_BUBBLE, and the smallest bubble of all */
    struct yokei_layout layout;     /* of the best step */
    long n;
};

/* No bound may be above the step of this layout. */
static void check_bounds(struct brute *b, const struct yokei_layout *l, const int16_t *stages,
                         const struct yokei_prediction *p)
{
    struct yokei_places places;
    struct yokei_cut_problem problem;
    int used[YOKEI_MOST_KINDS] = { 0 };
    double work, optimizer, shares, mesh;
    assert_ok(yokei_places_create(b->config->cluster, l->tensor, l->kind, l->n_kinds, &places));
    assert_ok(yokei_places_share(&places, l));
    for (int i = 0; i < l->data * l->pipeline; i++)
        for (int k = 0; k < l->n_kinds; k++) used[k] += places.slot[i].kind == l->kind[k];
    assert_ok(yokei_bound_cuts(b->predictor, b->config, l, &b->sizes, places.slot, false, &problem));
    assert_ok(yokei_bound_work(b->predictor, b->config, l, &b->sizes, used, &work));
    assert_ok(yokei_bound_optimizer(b->config, l, &b->sizes, used, places.slot, &optimizer));
    assert_ok(yokei_bound_shares(b->predictor, b->config, l, &b->sizes, places.slot, INFINITY, &shares));
    struct yokei_layout plain = *l;
    plain.recompute = 0, plain.zero = 0, plain.chunks = 1, plain.schedule = YOKEI_PIPELINE_1F1B;
    struct yokei_host_links links;
    yokei_host_links_of(b->config->cluster, l->tensor, &links);
    assert_ok(yokei_bound_mesh(b->predictor, b->config, &plain, &b->sizes, &links, used, &mesh));
    double bubble, busy, bubble_mesh;
    struct yokei_cut_problem idle;
    assert_ok(yokei_bound_bubble(b->predictor, b->config, l, &b->sizes, places.slot, &bubble));
    assert_ok(yokei_bound_bubble_cuts(b->predictor, b->config, l, &b->sizes, places.slot, &idle, &busy));
    assert_ok(yokei_bound_bubble_mesh(b->predictor, b->config, &plain, &b->sizes, used, &bubble_mesh));
    const double cut_bubble = busy > 0 ? 1 - busy / (l->pipeline * yokei_cut_value(&idle, stages)) : 0;
    yokei_places_free(&places);
    if (fmax(bubble, fmax(cut_bubble, bubble_mesh)) > p->bubble + 1e-9)
        fail_msg(
            "dp %d pp %d tp %d chunks %d %s recompute %d micro-batch %d by replica %d: the bounds %.9g, of the cut "
            "%.9g, of the mesh %.9g are above the bubble %.9g",
            l->data, l->pipeline, l->tensor, l->chunks, yokei_pipeline_names[l->schedule], l->recompute,
            (int)l->micro_batch, l->by_replica, bubble, cut_bubble, bubble_mesh, p->bubble);
    const double most = p->step_seconds * (1 + 1e-9);
    const double cut = yokei_cut_value(&problem, stages) + optimizer;
    if (cut > most || work + optimizer > most || shares + optimizer > most || mesh > most)
        fail_msg(
            "dp %d pp %d tp %d chunks %d %s recompute %d zero %d by replica %d micro-batch %d: the bounds cut %.9g, "
            "work %.9g, shares %.9g, mesh %.9g are above the step %.9g",
            l->data, l->pipeline, l->tensor, l->chunks, yokei_pipeline_names[l->schedule], l->recompute,
            l->zero, l->by_replica, (int)l->micro_batch, cut, work + optimizer, shares + optimizer, mesh,
            p->step_seconds);
    for (int s = 0; s < l->pipeline && p->fits; s++)
        if (stages[s] > problem.stage[s].most)
            fail_msg("stage %d: %d blocks fit, but the bound of memory allows %d", s, stages[s],
                     problem.stage[s].most);
}

/*
 * Whether the layout is outside of the space, because its replicas are those of another order of kinds in
 * another sequence. Slices of ZeRO-1 are rounded, so the sequence changes steps a little.
 */
static bool is_outside(const struct brute *b, const struct yokei_layout *l)
{
    int n_slots = 0;
    bool whole = true, descends = false;
    for (int k = 0; k < l->n_kinds; k++) {
        const int slots = yokei_slots_of(b->config->cluster, l->tensor, l->kind[k]);
        n_slots += slots;
        whole = whole && slots % l->pipeline == 0;
        descends = descends || (k && l->kind[k] < l->kind[k - 1]);
    }
    return l->by_replica && whole && descends && n_slots == l->data * l->pipeline;
}

static void try_layout(struct brute *b, struct yokei_layout *l, const int16_t *stages)
{
    struct yokei_prediction p;
    for (int c = 0; c < l->chunks; c++)
        for (int s = 0; s < l->pipeline; s++)
            l->blocks[c * l->pipeline + s] = (int16_t)(stages[s] / l->chunks + (c < stages[s] % l->chunks));
    if (is_outside(b, l) || yokei_predict(b->predictor, l, &p)) return;
    b->n++;
    check_bounds(b, l, stages, &p);
    if (p.fits && p.bubble <= LARGEST_BUBBLE) b->best_busy = fmin(b->best_busy, p.step_seconds);
    if (p.fits) b->least_bubble = fmin(b->least_bubble, p.bubble);
    if (p.fits && p.step_seconds < b->best) b->best = p.step_seconds, b->layout = *l;
    yokei_prediction_free(&p);
}

static void try_cuts(struct brute *b, struct yokei_layout *l, int s, int left, int16_t *stages)
{
    if (s == l->pipeline - 1) {
        stages[s] = (int16_t)left;
        if (left >= l->chunks) try_layout(b, l, stages);
        return;
    }
    for (int n = l->chunks; n < left; n++) {
        stages[s] = (int16_t)n;
        try_cuts(b, l, s + 1, left - n, stages);
    }
}

/* All schedules, recomputations, ZeRO and sequence parallelism of a mesh. */
static void try_settings(struct brute *b, struct yokei_layout l)
{
    static const int chunks[YOKEI_N_PIPELINES][2] = { [YOKEI_PIPELINE_INTERLEAVED] = { 2, 4 } };
    int16_t stages[YOKEI_MOST_CUTS];
    for (int kind = 0; kind < YOKEI_N_PIPELINES; kind++)
        for (int c = 0; c < 2; c++)
            for (int more = 0; more < 3 * 2 * 2 * 2; more++) {
                l.schedule = (enum yokei_pipeline_kind)kind;
                l.chunks = chunks[kind][c] ? chunks[kind][c] : 1;
                l.recompute = more % 3;
                l.zero = more / 3 % 2;
                l.sequence_parallel = more / 6 % 2;
                l.by_replica = more / 12;
                if ((l.chunks == 1 && c) || (l.pipeline == 1 && kind != YOKEI_PIPELINE_1F1B)) continue;
                if ((l.data == 1 && l.zero) || (l.tensor == 1 && l.sequence_parallel)) continue;
                if (l.chunks * l.pipeline > b->sizes.n_blocks) continue;
                try_cuts(b, &l, 0, b->sizes.n_blocks, stages);
            }
}

static void try_meshes(struct brute *b, struct yokei_layout l)
{
    const struct yokei_cluster *c = b->config->cluster;
    for (l.tensor = 1; l.tensor <= 2; l.tensor++) {
        bool divides = false;
        int n_slots = 0;
        for (int h = 0; h < c->n_hosts; h++) divides = divides || c->host[h].devices[0].n % l.tensor == 0;
        for (int k = 0; k < l.n_kinds; k++) n_slots += yokei_slots_of(c, l.tensor, l.kind[k]);
        for (l.pipeline = 1; divides && l.pipeline <= n_slots; l.pipeline++)
            for (l.data = 1; l.data * l.pipeline <= n_slots; l.data++)
                for (l.micro_batch = 1; l.micro_batch <= b->config->batch; l.micro_batch *= 2)
                    try_settings(b, l);
    }
}

static void try_orders(struct brute *b, struct yokei_layout *l)
{
    for (int k = 0; k < b->config->cluster->n_kinds; k++) {
        bool used = false;
        for (int i = 0; i < l->n_kinds; i++) used = used || l->kind[i] == k;
        if (used) continue;
        l->kind[l->n_kinds++] = k;
        try_meshes(b, *l);
        try_orders(b, l);
        l->n_kinds--;
    }
}

/* ---- the comparison ---- */

/* A limit of the bubble: the bounds of the bubble must discard no layout that counts. */
static void compare_busy(const struct brute *b, struct yokei_search_config config)
{
    struct yokei_search_result r;
    config.largest_bubble = LARGEST_BUBBLE;
    assert_ok(yokei_search(&config, &r));
    assert_int_equal(r.n_best, isfinite(b->best_busy));
    if (r.n_best)
        assert_true(fabs(r.best[0].prediction.step_seconds / b->best_busy - 1) <= 1e-12);
    else if (isfinite(b->least_bubble))
        assert_true(r.is_idle && fabs(r.least_idle.prediction.bubble - b->least_bubble) <= 1e-12
                    && fabs(r.counts.bubble_bound - b->least_bubble) <= 1e-8);
    yokei_search_result_free(&r);
    config.most_cuts = 0; /* as a user searches */
    assert_ok(yokei_search(&config, &r));
    assert_int_equal(r.n_best, isfinite(b->best_busy));
    if (!r.n_best && isfinite(b->least_bubble))
        assert_true(r.is_idle && r.least_idle.prediction.bubble >= b->least_bubble * (1 - 1e-12)
                    && r.counts.bubble_bound <= b->least_bubble * (1 + 1e-9));
    yokei_search_result_free(&r);
}

static void compare(const yoke_model *model, struct yokei_cluster *c, double memory, long *n, int *n_fit)
{
    draw_cluster(c, memory);
    struct yokei_search_config config = { .predict = { .model = model,
                                                       .cluster = c,
                                                       .device = host,
                                                       .precision = draw(2) ? YOKE_F32 : YOKE_BF16,
                                                       .batch = 1 << draw(4),
                                                       .sequence = 8,
                                                       .bucket_bytes = draw(2) ? 4096 : 0 },
                                          .n_best = 1,
                                          .most_cuts = 1000000 };
    struct brute b = {
        .config = &config.predict, .best = INFINITY, .best_busy = INFINITY, .least_bubble = INFINITY
    };
    struct yokei_search_result r;
    assert_ok(yokei_predictor_create(&config.predict, &b.predictor));
    yokei_model_sizes(model, &b.sizes);
    try_orders(&b, &(struct yokei_layout){ 0 });
    assert_ok(yokei_search(&config, &r));
    assert_true(r.is_complete && r.is_proved);
    *n += b.n;
    if (isinf(b.best)) {
        assert_int_equal(r.n_best, 0);
    } else {
        ++*n_fit;
        assert_int_equal(r.n_best, 1);
        if (fabs(r.best[0].prediction.step_seconds / b.best - 1) > 1e-12)
            fail_msg(
                "the search finds %.9g s, brute force %.9g s: dp %d pp %d tp %d chunks %d %s recompute %d zero %d "
                "by replica %d, kinds %d (%d first), micro-batch %d",
                r.best[0].prediction.step_seconds, b.best, b.layout.data, b.layout.pipeline, b.layout.tensor,
                b.layout.chunks, yokei_pipeline_names[b.layout.schedule], b.layout.recompute, b.layout.zero,
                b.layout.by_replica, b.layout.n_kinds, b.layout.kind[0], (int)b.layout.micro_batch);
    }
    yokei_search_result_free(&r);
    compare_busy(&b, config);
    yokei_predictor_destroy(b.predictor);
}

static void brute_force(void **state)
{
    (void)state;
    const char *soak = getenv("YOKE_SOAK");
    const int n_trials = soak && soak[0] == '1' ? 500 : 8;
    const struct yoke_gpt2_config gpt2 = { sizeof gpt2, 4, 4, 32, 16, 61, 1e-5, 0.02 };
    const struct yoke_llama_config llama = { .size = sizeof llama,
                                             .num_hidden_layers = 3,
                                             .num_attention_heads = 4,
                                             .num_key_value_heads = 2,
                                             .hidden_size = 32,
                                             .intermediate_size = 48,
                                             .max_position_embeddings = 16,
                                             .vocab_size = 40,
                                             .rms_norm_eps = 1e-5,
                                             .rope_theta = 10000,
                                             .initializer_range = 0.02 };
    struct yokei_cluster *c = malloc(sizeof *c);
    yoke_model *models[2];
    long n = 0;
    int n_fit = 0;
    assert_non_null(c);
    assert_ok(yoke_model_gpt2(&gpt2, &models[0]));
    assert_ok(yoke_model_llama(&llama, &models[1]));
    for (int trial = 0; trial < n_trials; trial++)
        compare(models[trial % 2], c, trial % 3 ? 1 << 20 : 8 << 20, &n, &n_fit);
    printf("%d clusters, %d of them with memory enough, %ld layouts\n", n_trials, n_fit, n);
    assert_true(n_fit > n_trials / 3 && n > 100 * n_trials);
    for (int i = 0; i < 2; i++) assert_ok(yoke_model_destroy(models[i]));
    free(c);
}

/* ---- batches and precisions ---- */

static double per_sequence(const struct yokei_ranked *x)
{
    return x->prediction.step_seconds / (double)x->batch;
}

static int by_tokens(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The layouts of the choices together must be the best ones of the searches of each choice alone. */
static void compare_choices(const yoke_model *model, struct yokei_cluster *c, int *n_batches)
{
    enum { N = 4, BEST = 5 };
    static const struct yokei_search_choice choice[N] = {
        { 4, YOKE_F32 }, { 6, YOKE_F32 }, { 6, YOKE_BF16 }, { 4, YOKE_BF16 }
    };
    struct yokei_search_config config = { .predict = { .model = model,
                                                       .cluster = c,
                                                       .device = host,
                                                       .batch = 4,
                                                       .sequence = 8,
                                                       .model_flops = 4e6 },
                                          .n_best = BEST,
                                          .most_cuts = 1000000 };
    struct yokei_search_result all, one;
    double alone[N * BEST];
    int n = 0, n_equal = 0;
    draw_cluster(c, 8 << 20);
    assert_ok(
        yokei_search_choices(&(struct yokei_choices_config){ &config, N, choice, NULL, NULL, NULL }, &all));
    assert_true(all.is_complete && all.is_proved);
    for (int i = 0; i < N; i++) {
        struct yokei_search_config own = config;
        own.predict.batch = choice[i].batch;
        own.predict.precision = choice[i].precision;
        assert_ok(yokei_search(&own, &one));
        for (int k = 0; k < one.n_best; k++) {
            assert_int_equal(one.best[k].batch, choice[i].batch);
            assert_int_equal(one.best[k].precision, choice[i].precision);
            alone[n++] = per_sequence(&one.best[k]);
        }
        yokei_search_result_free(&one);
    }
    qsort(alone, (size_t)n, sizeof *alone, by_tokens);
    assert_int_equal(all.n_best, YOKE_MIN(n, BEST));
    for (int k = 0; k < all.n_best; k++) {
        const struct yokei_prediction *p = &all.best[k].prediction;
        assert_true(fabs(per_sequence(&all.best[k]) / alone[k] - 1) < 1e-12);
        /* MFU counts the work of the layout's own batch */
        const double peaks = 1e6 * (double)all.best[k].batch / (p->step_seconds * p->utilisation);
        assert_true(fabs(p->tokens_per_second * per_sequence(&all.best[k]) / 8 - 1) < 1e-12 && peaks >= 1e9);
        *n_batches |= all.best[k].batch == 4 ? 1 : 2;
        n_equal += all.best[k].n_equal;
        for (int j = 0; j < k; j++) { /* no two are equal */
            const struct yokei_ranked *a = &all.best[j], *b = &all.best[k];
            assert_false(a->batch == b->batch && a->precision == b->precision
                         && a->layout.data == b->layout.data && a->layout.pipeline == b->layout.pipeline
                         && a->layout.tensor == b->layout.tensor
                         && fabs(a->prediction.step_seconds / b->prediction.step_seconds - 1) < 1e-9
                         && a->prediction.price_per_hour == b->prediction.price_per_hour);
        }
    }
    printf("%d layouts, %d equal ones left out\n", all.n_best, n_equal);
    yokei_search_result_free(&all);
}

static void choices(void **state)
{
    (void)state;
    const struct yoke_gpt2_config gpt2 = { sizeof gpt2, 4, 4, 32, 16, 61, 1e-5, 0.02 };
    struct yokei_cluster *c = malloc(sizeof *c);
    yoke_model *model;
    int n_batches = 0;
    assert_non_null(c);
    assert_ok(yoke_model_gpt2(&gpt2, &model));
    for (int trial = 0; trial < 4; trial++) compare_choices(model, c, &n_batches);
    assert_int_equal(n_batches, 3); /* layouts of both batches were among the best */
    assert_ok(yoke_model_destroy(model));
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(brute_force), cmocka_unit_test(choices) };
    const char *seed = getenv("YOKE_SEED");
    const uint64_t used = seed ? strtoull(seed, NULL, 10) : 20261126;
    draws.key = yokei_philox_named(used, "clusters");
    printf("seed %llu\n", (unsigned long long)used);
    if (yoke_device_open("host", NULL, &host)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return yoke_device_close(host) ? 1 : failed;
}
