/* SPDX-License-Identifier: Apache-2.0 */
/* What a change of a limit or of the cluster would gain. See advice.h. */
#include "train/search/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST_CHANGES = 128, MOST_FACTOR = 64 };

struct advising {
    const struct yokei_advice_config *config;
    const struct yokei_search_result *result;
    struct yokei_advice *advice;
    struct yokei_cluster *cluster;     /* the copy that a change may edit */
    struct yokei_search_config search; /* the search of the change */
    double costs[MOST_CHANGES];        /* of each change, by which they are ordered if nothing fits */
    uint64_t ends_ns;
    bool is_stopped;
};

static bool go_on(void *context, const struct yokei_search_progress *progress)
{
    struct advising *a = context;
    const struct yokei_search_config *c = a->config->search;
    if (c->progress && !c->progress(c->context, progress)) a->is_stopped = true;
    return !a->is_stopped && yokei_now_ns() < a->ends_ns;
}

/* Begin a change: copy the cluster and the configuration. */
static void reset(struct advising *a)
{
    *a->cluster = *a->config->search->predict.cluster;
    a->search = *a->config->search;
    a->search.predict.cluster = a->cluster;
    a->search.n_best = 1;
    a->search.context = a;
    a->search.progress = go_on;
}

static void take(struct yokei_change *c, const struct yokei_layout *l, const struct yokei_prediction *p)
{
    if (!p->fits || (c->fits && c->step_seconds <= p->step_seconds)) return;
    c->fits = true;
    c->step_seconds = p->step_seconds;
    c->price_per_hour = p->price_per_hour;
    c->bubble = p->bubble;
    c->margin = p->margin;
    c->layout = *l;
}

static yoke_status try_layout(struct advising *a, yokei_predictor *predictor,
                              const struct yokei_ranked *known, struct yokei_change *c)
{
    struct yokei_prediction p;
    const double most = a->search.largest_bubble;
    if (known->precision != a->config->search->predict.precision) return YOKE_OK;
    const yoke_status status = yokei_predict(predictor, &known->layout, &p);
    if (status) return status == YOKE_ENOMEM ? status : YOKE_OK; /* the changed run refuses this layout */
    if (most == 0 || p.bubble <= most) take(c, &known->layout, &p);
    yokei_prediction_free(&p);
    return YOKE_OK;
}

/* The layouts of the first search on the changed cluster, so that a short search never loses against them. */
static yoke_status try_known(struct advising *a, struct yokei_change *c)
{
    yokei_predictor *predictor;
    const struct yokei_search_result *r = a->result;
    yoke_status status = yokei_predictor_create(&a->search.predict, &predictor);
    if (status) return status == YOKE_ENOMEM ? status : YOKE_OK; /* the search says the same */
    for (int i = 0; i < r->n_best && !status; i++)
        if (r->best[i].batch == a->config->search->predict.batch)
            status = try_layout(a, predictor, &r->best[i], c);
    if (r->is_near && !status) status = try_layout(a, predictor, &r->nearest, c);
    if (r->is_idle && !status) status = try_layout(a, predictor, &r->least_idle, c);
    yokei_predictor_destroy(predictor);
    return status;
}

/* Search with the change that lies in a->cluster and a->search. */
static yoke_status try_change(struct advising *a, enum yokei_change_kind kind, double cost, bool *fits_out,
                              const char *text)
{
    struct yokei_advice *advice = a->advice;
    struct yokei_search_result r;
    if (fits_out) *fits_out = false;
    if (a->is_stopped || advice->n == MOST_CHANGES || yokei_cluster_check(a->cluster)) return YOKE_OK;
    if (a->config->begin && !a->config->begin(a->config->context, text)) {
        a->is_stopped = true;
        return YOKE_OK;
    }
    struct yokei_change *c = &advice->change[advice->n];
    *c = (struct yokei_change){ .kind = kind };
    yokei_text(c->text, sizeof c->text, "%s", text);
    YOKE_TRY(try_known(a, c));
    a->ends_ns = yokei_now_ns() + (uint64_t)(a->config->seconds * 1e9);
    const yoke_status status = yokei_search(&a->search, &r);
    if (status == YOKE_ENOMEM) return status;
    if (!status) {
        if (r.n_best) take(c, &r.best[0].layout, &r.best[0].prediction);
        c->is_proved = r.is_proved;
        yokei_search_result_free(&r);
    }
    if (a->is_stopped) return YOKE_OK; /* the change was not tried wholly */
    a->costs[advice->n++] = cost;
    if (fits_out) *fits_out = c->fits;
    return YOKE_OK;
}

/* ---- changes ---- */

static yoke_status without_memory_limit(struct advising *a)
{
    const struct yokei_cluster *all = a->config->unlimited;
    bool differs = false;
    reset(a);
    for (int k = 0; all && k < all->n_kinds; k++) {
        differs = differs || all->kind[k].memory > a->cluster->kind[k].memory;
        a->cluster->kind[k].memory = all->kind[k].memory;
    }
    return differs ? try_change(a, YOKEI_CHANGE_LIMIT, 0, NULL, "no --memory-limit") : YOKE_OK;
}

static yoke_status try_limits(struct advising *a)
{
    char text[128];
    reset(a);
    for (int k = 0; k < a->cluster->n_kinds; k++)
        a->cluster->kind[k].memory += a->cluster->kind[k].memory / 10;
    YOKE_TRY(try_change(a, YOKEI_CHANGE_LIMIT, 0, NULL, "10 % more memory in all devices"));
    YOKE_TRY(without_memory_limit(a));
    if (a->config->search->largest_bubble <= 0) return YOKE_OK;
    reset(a);
    a->search.largest_bubble = 0;
    yokei_text(text, sizeof text, "no limit of the bubble (now %g)", a->config->search->largest_bubble);
    return try_change(a, YOKEI_CHANGE_LIMIT, 0, NULL, text);
}

static yoke_status try_faster_link(struct advising *a)
{
    char text[128];
    int slowest = 0;
    reset(a);
    if (!a->cluster->n_links) return YOKE_OK;
    for (int l = 1; l < a->cluster->n_links; l++)
        if (a->cluster->link[l].bytes_per_second < a->cluster->link[slowest].bytes_per_second) slowest = l;
    a->cluster->link[slowest].bytes_per_second *= 2;
    yokei_text(text, sizeof text, "twice the rate of the slowest link, %s", a->cluster->link[slowest].name);
    return try_change(a, YOKEI_CHANGE_HARDWARE, 0, NULL, text);
}

/* `more` more hosts of an entry. False: no link is known between two such hosts. */
static bool add_hosts(struct yokei_cluster *c, int entry, int more)
{
    int *own = &c->between[entry][entry];
    if (c->host[entry].n == 1) {
        for (int other = 0; other < c->n_hosts && *own < 0; other++) *own = c->between[entry][other];
        if (*own < 0) return false;
    }
    c->host[entry].n += more;
    return true;
}

static double best_rate(const struct yokei_cluster *c, int kind, int type)
{
    const struct yokei_speed *s = &c->kind[kind].speed[type][YOKEI_CLASS_GEMM];
    return s->n_points ? s->point[s->n_points - 1].rate : 0;
}

/* Give a kind the better of its own speed and another one's: the rates, the bandwidth and the latency. */
static void speed_up(struct yokei_speed *own, const struct yokei_speed *other)
{
    const double own_rate = own->n_points ? own->point[own->n_points - 1].rate : INFINITY;
    const double rate = other->n_points ? other->point[other->n_points - 1].rate : INFINITY;
    const double own_bytes = own->bytes_per_second, own_seconds = own->seconds;
    if (rate > own_rate) *own = *other;
    const bool unlimited = own_bytes == 0 || other->bytes_per_second == 0;
    own->bytes_per_second = unlimited ? 0 : fmax(own_bytes, other->bytes_per_second);
    own->seconds = fmin(own_seconds, other->seconds);
}

static yoke_status try_speeds(struct advising *a)
{
    const struct yokei_cluster *c = a->config->search->predict.cluster;
    const int type = yokei_speed_type_of(a->config->search->predict.precision);
    char text[128];
    for (int slow = 0; slow < c->n_kinds; slow++)
        for (int fast = 0; fast < c->n_kinds; fast++) {
            if (best_rate(c, slow, type) >= best_rate(c, fast, type)) continue;
            reset(a);
            for (int class = 0; class < YOKEI_N_CLASSES; class ++)
                speed_up(&a->cluster->kind[slow].speed[type][class], &c->kind[fast].speed[type][class]);
            a->cluster->kind[slow].peak[type] = c->kind[fast].peak[type];
            yokei_text(text, sizeof text, "%s as fast as %s", c->kind[slow].name, c->kind[fast].name);
            YOKE_TRY(try_change(a, YOKEI_CHANGE_HARDWARE, 0, NULL, text));
        }
    return YOKE_OK;
}

static yoke_status try_hardware(struct advising *a)
{
    const struct yokei_cluster *c = a->config->search->predict.cluster;
    char text[128];
    YOKE_TRY(try_faster_link(a));
    for (int k = 0; k < c->n_kinds; k++) {
        reset(a);
        a->cluster->kind[k].memory += a->cluster->kind[k].memory / 4;
        yokei_text(text, sizeof text, "1.25 times the memory of %s", c->kind[k].name);
        YOKE_TRY(try_change(a, YOKEI_CHANGE_HARDWARE, 0, NULL, text));
    }
    for (int h = 0; h < c->n_hosts; h++) {
        reset(a);
        yokei_text(text, sizeof text, "1 more host %s", c->host[h].name);
        if (add_hosts(a->cluster, h, 1)) YOKE_TRY(try_change(a, YOKEI_CHANGE_HARDWARE, 0, NULL, text));
    }
    return try_speeds(a);
}

/* ---- changes that make a layout fit ---- */

enum { COST_OF_MEMORY = 1000000000, COST_WITHOUT_PRICE = 1000000 };

/* The price of one host with its devices; without prices, the number of its devices, which is above all. */
static double host_cost(const struct yokei_cluster *c, int entry)
{
    const struct yokei_cluster_host *h = &c->host[entry];
    double price = h->price, n = 0;
    for (int l = 0; l < h->n_lists; l++) {
        price += h->devices[l].n * c->kind[h->devices[l].kind].price;
        n += h->devices[l].n;
    }
    return price > 0 ? price : COST_WITHOUT_PRICE * n;
}

static yoke_status try_more_hosts(struct advising *a)
{
    const struct yokei_cluster *c = a->config->search->predict.cluster;
    char text[128];
    for (int h = 0; h < c->n_hosts; h++) {
        bool fits = false;
        for (int factor = 2; factor <= MOST_FACTOR && !fits && !a->is_stopped; factor *= 2) {
            const int more = c->host[h].n * (factor - 1);
            reset(a);
            if (!add_hosts(a->cluster, h, more)) break;
            yokei_text(text, sizeof text, "%d more host%s %s", more, more > 1 ? "s" : "", c->host[h].name);
            YOKE_TRY(try_change(a, YOKEI_CHANGE_HARDWARE, more * host_cost(c, h), &fits, text));
        }
    }
    return YOKE_OK;
}

/* As much memory as the nearest layout needs. */
static yoke_status try_more_memory(struct advising *a)
{
    char text[192] = "";
    double more = 0;
    if (!a->result->is_near) return YOKE_OK;
    const struct yokei_prediction *p = &a->result->nearest.prediction;
    reset(a);
    for (int i = 0; i < p->n_memory; i++) {
        struct yokei_device_kind *k = &a->cluster->kind[p->memory[i].kind];
        k->memory = YOKE_MAX(k->memory, (uint64_t)p->memory[i].report.total);
    }
    for (int k = 0; k < a->cluster->n_kinds; k++) {
        const struct yokei_device_kind *old = &a->config->search->predict.cluster->kind[k];
        const double missing = (double)(a->cluster->kind[k].memory - old->memory);
        if (missing <= 0) continue;
        yokei_text(text + strlen(text), sizeof text - strlen(text), "%s%.4g MiB more memory in each %s",
                   text[0] ? ", " : "", ceil(missing / 1048576.0 * 10) / 10, old->name);
        more += missing / 1048576.0 * yokei_cluster_devices(a->cluster, k);
    }
    return text[0] ? try_change(a, YOKEI_CHANGE_HARDWARE, COST_OF_MEMORY + more, NULL, text) : YOKE_OK;
}

/* A limit of the bubble excludes all layouts that fit: fill the pipelines with more micro-batches. */
static yoke_status try_larger_batch(struct advising *a)
{
    char text[64];
    bool fits = false;
    for (int factor = 2; factor <= MOST_FACTOR && !fits && !a->is_stopped; factor *= 2) {
        reset(a);
        a->search.predict.batch *= factor;
        a->search.predict.model_flops *= factor;
        yokei_text(text, sizeof text, "--batch %lld", (long long)a->search.predict.batch);
        YOKE_TRY(try_change(a, YOKEI_CHANGE_LIMIT, 1e-6 * factor, &fits, text));
    }
    return YOKE_OK;
}

/* With more memory a layout may need fewer stages. */
static yoke_status try_larger_memory(struct advising *a)
{
    char text[128];
    for (int k = 0; k < a->config->search->predict.cluster->n_kinds; k++) {
        bool fits = false;
        for (int factor = 2; factor <= 8 && !fits && !a->is_stopped; factor *= 2) {
            reset(a);
            a->cluster->kind[k].memory *= (uint64_t)factor;
            yokei_text(text, sizeof text, "%d times the memory of %s", factor, a->cluster->kind[k].name);
            YOKE_TRY(try_change(a, YOKEI_CHANGE_HARDWARE, COST_OF_MEMORY + factor, &fits, text));
        }
    }
    return YOKE_OK;
}

static yoke_status try_less_idle(struct advising *a)
{
    YOKE_TRY(without_memory_limit(a));
    YOKE_TRY(try_larger_batch(a));
    YOKE_TRY(try_more_hosts(a));
    return try_larger_memory(a);
}

static yoke_status try_what_fits(struct advising *a)
{
    if (a->result->is_idle) return try_less_idle(a);
    YOKE_TRY(without_memory_limit(a));
    reset(a);
    if (a->search.predict.precision == YOKE_F32) {
        a->search.predict.precision = YOKE_BF16;
        YOKE_TRY(try_change(a, YOKEI_CHANGE_LIMIT, 0, NULL, "--precision bf16"));
    }
    YOKE_TRY(try_more_hosts(a));
    return try_more_memory(a);
}

/* ---- the whole ---- */

static bool comes_before(const struct advising *a, int i, int j)
{
    const struct yokei_change *x = &a->advice->change[i], *y = &a->advice->change[j];
    if (!a->result->n_best) return a->costs[i] < a->costs[j];
    if (x->kind != y->kind) return x->kind < y->kind;
    if (x->fits != y->fits) return x->fits;
    return x->step_seconds < y->step_seconds;
}

/* Insertion sort: there are few changes, and equal ones stay in their order. */
static void sort(struct advising *a)
{
    for (int i = 1; i < a->advice->n; i++)
        for (int j = i; j > 0 && comes_before(a, j, j - 1); j--) {
            const struct yokei_change change = a->advice->change[j];
            const double cost = a->costs[j];
            a->advice->change[j] = a->advice->change[j - 1];
            a->costs[j] = a->costs[j - 1];
            a->advice->change[j - 1] = change;
            a->costs[j - 1] = cost;
        }
}

/* Only changes that make a layout fit are advice if none fits. */
static void keep_what_fits(struct advising *a)
{
    int n = 0;
    for (int i = 0; i < a->advice->n; i++) {
        if (!a->advice->change[i].fits) continue;
        a->advice->change[n] = a->advice->change[i];
        a->costs[n++] = a->costs[i];
    }
    a->advice->n = n;
}

yoke_status yokei_advise(const struct yokei_advice_config *config, const struct yokei_search_result *result,
                         struct yokei_advice *out)
{
    struct advising a = { .config = config, .result = result, .advice = out };
    *out = (struct yokei_advice){ 0 };
    out->change = calloc(MOST_CHANGES, sizeof *out->change);
    a.cluster = malloc(sizeof *a.cluster);
    yoke_status status = YOKE_OK;
    if (!out->change || !a.cluster) status = yoke_fail(YOKE_ENOMEM, "advice: no host memory");
    if (!status && result->n_best) status = try_limits(&a);
    if (!status) status = result->n_best ? try_hardware(&a) : try_what_fits(&a);
    if (!status && !result->n_best) keep_what_fits(&a);
    if (!status) sort(&a);
    out->is_complete = !a.is_stopped;
    free(a.cluster);
    if (status) yokei_advice_free(out);
    return status;
}

void yokei_advice_free(struct yokei_advice *advice)
{
    free(advice->change);
    *advice = (struct yokei_advice){ 0 };
}

const struct yokei_change *yokei_advice_first(const struct yokei_advice *advice, enum yokei_change_kind kind)
{
    for (int i = 0; i < advice->n; i++)
        if (advice->change[i].kind == kind && advice->change[i].fits) return &advice->change[i];
    return NULL;
}
