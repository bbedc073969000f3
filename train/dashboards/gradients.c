/* SPDX-License-Identifier: Apache-2.0 */
#include "train/dashboards/gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

enum { PIECE = 1 << 16, MIN = 0, MAX, SUM, SQUARES, N_RANGE };

/* The parameter's name up to the first number in it, or else without its last word. */
static void group_name(const char *parameter, char *out, size_t bytes)
{
    size_t n = strlen(parameter);
    for (const char *dot = strchr(parameter, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t digits = strspn(dot + 1, "0123456789");
        if (digits && (!dot[1 + digits] || dot[1 + digits] == '.')) {
            yokei_text(out, bytes, "%.*s", (int)(dot + 1 + digits - parameter), parameter);
            return;
        }
    }
    const char *last = strrchr(parameter, '.');
    if (last && (!strcmp(last, ".weight") || !strcmp(last, ".bias"))) n = (size_t)(last - parameter);
    yokei_text(out, bytes, "%.*s", (int)n, parameter);
}

static void find_groups(struct yokei_gradients *g)
{
    const struct yokei_parameters *all = &g->trainer->plan.logical;
    for (int i = 0; i < all->n; i++) {
        int k = 0;
        group_name(all->item[i].name, g->name[g->n_groups], sizeof g->name[0]);
        while (strcmp(g->name[k], g->name[g->n_groups]) != 0) k++;
        g->group[i] = k;
        g->n_groups = YOKE_MAX(g->n_groups, k + 1);
    }
}

static bool allocate(struct yokei_gradients *g)
{
    const size_t most = (size_t)g->trainer->plan.logical.n + 1, ranks = (size_t)g->trainer->plan.n_ranks;
    g->name = calloc(most, sizeof *g->name);
    g->group = calloc(most, sizeof *g->group);
    if (!g->name || !g->group) return false;
    find_groups(g);
    const size_t n = (size_t)g->n_groups + 1, counts = n * YOKEI_HISTOGRAM_BUCKETS;
    g->histogram = calloc(n, sizeof *g->histogram);
    g->mine = calloc(counts, sizeof *g->mine);
    g->sum = calloc(counts, sizeof *g->sum);
    g->range = calloc(n, N_RANGE * sizeof *g->range);
    g->ranges = calloc(n * ranks, N_RANGE * sizeof *g->ranges);
    g->piece = malloc(PIECE * sizeof *g->piece);
    return g->histogram && g->mine && g->sum && g->range && g->ranges && g->piece;
}

yoke_status yokei_gradients_create(struct yoke_trainer *trainer, struct yokei_gradients **gradients_out)
{
    struct yokei_gradients *g = calloc(1, sizeof *g);
    if (g) g->trainer = trainer;
    if (!g || !allocate(g)) {
        yokei_gradients_free(g);
        return yoke_fail(YOKE_ENOMEM, "histograms of gradients: no host memory");
    }
    *gradients_out = g;
    return YOKE_OK;
}

/* Count the elements of one parameter whose square this rank adds to the norm of the gradient. */
static yoke_status count_parameter(struct yokei_gradients *g, int index, struct yokei_histogram *h)
{
    const struct yokei_slot *slot = &g->trainer->plan.state.slot[index];
    for (int64_t first = slot->own.begin; first < slot->own.end; first += PIECE) {
        const int64_t n = YOKE_MIN((int64_t)PIECE, slot->own.end - first);
        YOKE_TRY(yokei_trainer_get_piece(g->trainer, YOKE_TENSOR_GRADIENT, index, first, n, g->piece));
        yokei_histogram_add(h, g->piece, n);
    }
    return YOKE_OK;
}

static yoke_status count_own(struct yokei_gradients *g)
{
    const struct yokei_trainer_plan *p = &g->trainer->plan;
    memset(g->mine, 0, (size_t)g->n_groups * YOKEI_HISTOGRAM_BUCKETS * sizeof *g->mine);
    for (int k = 0; k < g->n_groups; k++) {
        g->histogram[k] = (struct yokei_histogram){ INFINITY, -INFINITY, 0, 0, NULL };
        g->histogram[k].count = g->mine + (size_t)k * YOKEI_HISTOGRAM_BUCKETS;
    }
    for (int i = 0; i < p->state.n; i++) {
        const int logical = yokei_parameter_find(&p->logical, p->parameters.item[i].name);
        if (logical < 0)
            return yoke_fail(YOKE_EINTERNAL, "the model has no parameter %s", p->parameters.item[i].name);
        if (p->counted[i]) YOKE_TRY(count_parameter(g, i, &g->histogram[g->group[logical]]));
    }
    for (int k = 0; k < g->n_groups; k++) {
        const struct yokei_histogram *h = &g->histogram[k];
        const double range[N_RANGE] = { h->min, h->max, h->sum, h->squares };
        memcpy(g->range + (size_t)k * N_RANGE, range, sizeof range);
    }
    return YOKE_OK;
}

yoke_status yokei_gradients_count(struct yokei_gradients *g)
{
    const int n = g->n_groups, n_ranks = g->trainer->plan.n_ranks;
    YOKE_TRY(count_own(g));
    YOKE_TRY(yokei_ranks_count(&g->trainer->config, g->mine, (int64_t)n * YOKEI_HISTOGRAM_BUCKETS, g->sum));
    YOKE_TRY(yokei_ranks_gather(&g->trainer->config, g->range, n * N_RANGE, g->ranges));
    for (int k = 0; k < n; k++) {
        struct yokei_histogram *h = &g->histogram[k];
        *h = (struct yokei_histogram){ INFINITY, -INFINITY, 0, 0, NULL };
        h->count = g->sum + (size_t)k * YOKEI_HISTOGRAM_BUCKETS;
        for (int r = 0; r < n_ranks; r++) {
            const double *range = g->ranges + ((size_t)r * (size_t)n + (size_t)k) * N_RANGE;
            h->min = fmin(h->min, range[MIN]);
            h->max = fmax(h->max, range[MAX]);
            h->sum += range[SUM];
            h->squares += range[SQUARES];
        }
    }
    return YOKE_OK;
}

void yokei_gradients_free(struct yokei_gradients *g)
{
    if (!g) return;
    free(g->name);
    free(g->histogram);
    free(g->group);
    free(g->mine);
    free(g->sum);
    free(g->range);
    free(g->ranges);
    free(g->piece);
    free(g);
}
