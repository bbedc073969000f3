/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice about a search. The clusters are made so that one limit binds, and so that one change of the
 * hardware helps most. Ops take time only by their arithmetic, or links only by their bytes, so the answers
 * are known.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/train.h>

#include "core/base/base.h"
#include "train/search/advice.h"

static yoke_device *host;
static yoke_model *model;
static struct yokei_cluster *cluster;

enum { SECONDS = 60 };

/* Kinds with this rate of products and attention in f32, and nothing else that takes time. */
static void add_kind(const char *name, double rate, uint64_t memory)
{
    struct yokei_device_kind *k = &cluster->kind[cluster->n_kinds];
    struct yokei_cluster_host *h = &cluster->host[cluster->n_hosts];
    yokei_text(k->name, sizeof k->name, "%s", name);
    k->memory = memory;
    for (int class = YOKEI_CLASS_GEMM; class <= YOKEI_CLASS_ATTENTION; class ++) {
        k->speed[YOKEI_SPEED_F32][class].n_points = 1;
        k->speed[YOKEI_SPEED_F32][class].point[0].rate = rate;
    }
    *h = (struct yokei_cluster_host){ .n = 1, .n_lists = 1, .inner = -1, .n_links = 1 };
    yokei_text(h->name, sizeof h->name, "host-%s", name);
    h->devices[0] = (struct yokei_host_devices){ cluster->n_kinds++, 1, 0 };
    cluster->n_hosts++;
}

static void new_cluster(double link_rate)
{
    *cluster = (struct yokei_cluster){ .name = "made", .n_links = 1 };
    cluster->link[0] = (struct yokei_link){ "wire", link_rate, 0 };
}

static struct yokei_search_config config_of(int64_t batch)
{
    return (struct yokei_search_config){ .predict = { .model = model,
                                                      .cluster = cluster,
                                                      .device = host,
                                                      .precision = YOKE_F32,
                                                      .batch = batch,
                                                      .sequence = 8 },
                                         .n_best = 3 };
}

static void advise(const struct yokei_search_config *config, const struct yokei_cluster *unlimited,
                   struct yokei_search_result *result, struct yokei_advice *advice)
{
    assert_ok(yokei_search(config, result));
    assert_true(result->is_complete);
    assert_ok(yokei_advise(
        &(struct yokei_advice_config){ .search = config, .unlimited = unlimited, .seconds = SECONDS }, result,
        advice));
    assert_true(advice->is_complete);
}

static const struct yokei_change *find(const struct yokei_advice *advice, const char *text)
{
    for (int i = 0; i < advice->n; i++)
        if (strstr(advice->change[i].text, text)) return &advice->change[i];
    fail_msg("there is no change '%s'", text);
    return NULL;
}

/* One device: its step is proportional to its arithmetic, and two alike devices take half of it. */
static void one_more_host_halves_the_step(void **state)
{
    struct yokei_search_result r;
    struct yokei_advice a;
    (void)state;
    new_cluster(1e15);
    add_kind("one", 1e9, (uint64_t)1 << 30);
    const struct yokei_search_config config = config_of(4);
    advise(&config, NULL, &r, &a);
    const double step = r.best[0].prediction.step_seconds;
    const struct yokei_change *first = yokei_advice_first(&a, YOKEI_CHANGE_HARDWARE);
    assert_string_equal(first->text, "1 more host host-one");
    if (fabs(first->step_seconds / step - 0.5) > 1e-3)
        fail_msg("a second host makes the step %.9g of what it was", first->step_seconds / step);
    assert_true(find(&a, "10 % more memory")->step_seconds == step);
    assert_true(find(&a, "1.25 times the memory")->step_seconds == step);
    assert_true(find(&a, "twice the rate")->step_seconds == step);
    yokei_advice_free(&a);
    yokei_search_result_free(&r);
}

/* A fast device has twice the speed of a slow one. A step takes 1 / 3, and with two fast ones 1 / 4. */
static void a_faster_kind_helps(void **state)
{
    struct yokei_search_result r;
    struct yokei_advice a;
    (void)state;
    new_cluster(1e15);
    add_kind("slow", 1e9, (uint64_t)1 << 30);
    add_kind("fast", 2e9, (uint64_t)1 << 30);
    cluster->between[0][0] = cluster->between[1][1] = -1;
    const struct yokei_search_config config = config_of(60);
    advise(&config, NULL, &r, &a);
    const double step = r.best[0].prediction.step_seconds;
    const double gain = find(&a, "slow as fast as fast")->step_seconds / step;
    if (fabs(gain - 0.75) > 1e-3) fail_msg("the step becomes %.9g of what it was, not 0.75", gain);
    assert_true(yokei_advice_first(&a, YOKEI_CHANGE_HARDWARE) != NULL);
    /* a third device, fast: 3 / 5 */
    assert_string_equal(yokei_advice_first(&a, YOKEI_CHANGE_HARDWARE)->text, "1 more host host-fast");
    assert_true(fabs(find(&a, "1 more host host-fast")->step_seconds / step - 0.6) < 1e-3);
    yokei_advice_free(&a);
    yokei_search_result_free(&r);
}

/* A limit of memory below what the fastest layout needs binds, and without the limit its step is reached. */
static void a_limit_of_memory_binds(void **state)
{
    struct yokei_search_result free_result, r;
    struct yokei_advice a;
    struct yokei_cluster *unlimited = malloc(sizeof *unlimited);
    (void)state;
    assert_non_null(unlimited);
    new_cluster(1e9);
    add_kind("one", 1e9, (uint64_t)1 << 30);
    cluster->kind[0].speed[YOKEI_SPEED_F32][YOKEI_CLASS_GEMM].seconds = 1e-6; /* small micro-batches cost */
    struct yokei_search_config config = config_of(8);
    config.n_best = 1;
    assert_ok(yokei_search(&config, &free_result));
    uint64_t need = 0;
    for (int i = 0; i < free_result.best[0].prediction.n_memory; i++)
        need = YOKE_MAX(need, free_result.best[0].prediction.memory[i].report.total);
    *unlimited = *cluster;
    cluster->kind[0].memory = need - 1;
    advise(&config, unlimited, &r, &a);
    const double fastest = free_result.best[0].prediction.step_seconds;
    assert_int_equal(r.n_best, 1);
    assert_true(r.best[0].prediction.step_seconds > fastest);
    assert_true(find(&a, "no --memory-limit")->step_seconds == fastest);
    assert_true(find(&a, "10 % more memory")->step_seconds == fastest);
    assert_true(yokei_advice_first(&a, YOKEI_CHANGE_LIMIT)->step_seconds == fastest);
    yokei_advice_free(&a);
    yokei_search_result_free(&r);
    yokei_search_result_free(&free_result);
    free(unlimited);
}

/* If nothing fits: as much memory as the nearest layout needs, and hosts with a price before memory. */
static void what_makes_it_fit(void **state)
{
    struct yokei_search_result r;
    struct yokei_advice a;
    (void)state;
    new_cluster(1e9);
    add_kind("one", 1e9, 1 << 20);
    cluster->kind[0].memory = (uint64_t)1 << 20;
    cluster->host[0].price = 3;
    struct yokei_search_config config = config_of(2);
    advise(&config, NULL, &r, &a);
    assert_int_equal(r.n_best, 0);
    assert_true(r.is_near && a.n >= 1);
    for (int i = 0; i < a.n; i++) assert_true(a.change[i].fits);
    const struct yokei_change *more = find(&a, "MiB more memory in each one");
    assert_true(more->margin >= 0);
    /* hosts have a price, so they come first if they help at all */
    const bool hosts_help = strstr(a.change[0].text, "more host") != NULL;
    assert_true(hosts_help || a.n == 1);
    yokei_advice_free(&a);
    yokei_search_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_more_host_halves_the_step),
                                        cmocka_unit_test(a_faster_kind_helps),
                                        cmocka_unit_test(a_limit_of_memory_binds),
                                        cmocka_unit_test(what_makes_it_fit) };
    const struct yoke_gpt2_config gpt2 = { sizeof gpt2, 2, 4, 64, 16, 256, 1e-5, 0.02 };
    cluster = malloc(sizeof *cluster);
    if (!cluster || yoke_device_open("host", NULL, &host) || yoke_model_gpt2(&gpt2, &model)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    yoke_model_destroy(model);
    free(cluster);
    return yoke_device_close(host) ? 1 : failed;
}
