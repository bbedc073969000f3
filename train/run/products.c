/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms of a vendor's library in the plan. The library chooses an algorithm for each product, and
 * another version of the library, or another GPU, may choose another one, which adds in another order. So the
 * plan of a run has the algorithm of each product of each rank, and a replay or a resumed run uses them.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

enum { DOUBLES = (sizeof(struct yokei_plan_product) + sizeof(double) - 1) / sizeof(double) };

struct list {
    struct yokei_plan_product *item;
    int n, capacity;
    int64_t rank;
    bool failed; /* there was no memory */
};

static void note(void *context, const char *product, const char *algorithm)
{
    struct list *list = context;
    if (list->n == list->capacity) {
        const int capacity = list->capacity ? 2 * list->capacity : 32;
        struct yokei_plan_product *item = realloc(list->item, (size_t)capacity * sizeof *item);
        if (!item) {
            list->failed = true;
            return;
        }
        list->item = item;
        list->capacity = capacity;
    }
    struct yokei_plan_product *to = &list->item[list->n++];
    memset(to, 0, sizeof *to);
    to->rank = list->rank;
    yokei_text(to->product, sizeof to->product, "%s", product);
    yokei_text(to->algorithm, sizeof to->algorithm, "%s", algorithm);
}

static yoke_status no_memory(void) { return yoke_fail(YOKE_ENOMEM, "train: no host memory for the plan"); }

static int in_order(const void *a, const void *b)
{
    const struct yokei_plan_product *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    const int product = strcmp(x->product, y->product);
    return product ? product : strcmp(x->algorithm, y->algorithm);
}

/*
 * Say how many products of the plan do not run as the plan says, and how many others run. Both lists are
 * sorted here.
 */
static void compare(const struct yokei_run_state *s, struct yokei_plan_product *planned, int64_t n_planned,
                    struct yokei_plan_product *now, int64_t n_now)
{
    int64_t missing = 0, others = 0, rank = 0, i = 0, k = 0;
    if (n_planned) qsort(planned, (size_t)n_planned, sizeof *planned, in_order);
    if (n_now) qsort(now, (size_t)n_now, sizeof *now, in_order);
    while (i < n_planned || k < n_now) {
        const int order = i == n_planned ? 1 : k == n_now ? -1 : in_order(&planned[i], &now[k]);
        if (order) rank = order < 0 ? planned[i].rank : now[k].rank;
        missing += order < 0;
        others += order > 0;
        i += order <= 0;
        k += order >= 0;
    }
    if (missing || others)
        yokei_run_note(
            s,
            "warning: matrix products do not run by the algorithms of the plan: %lld of the plan are "
            "not used, and %lld others are, such as one of rank %lld. Sums may have other bits",
            (long long)missing, (long long)others, (long long)rank);
}

/* Gather the lists of all ranks. `most` is the length of the longest one. Collective. */
static yoke_status gather(const struct yokei_run_state *s, const struct list *mine, int most,
                          const double *lengths, struct yokei_plan *p)
{
    const size_t row = (size_t)most * DOUBLES;
    double *packed = calloc(row + 1, sizeof *packed),
           *all = calloc(row * (size_t)s->n_ranks + 1, sizeof *all);
    struct yokei_plan_product *list = calloc((size_t)most * (size_t)s->n_ranks + 1, sizeof *list);
    yoke_status status = packed && all && list ? YOKE_OK : no_memory();
    status = yokei_ranks_all_well(&s->config, status);
    for (int i = 0; i < mine->n && !status; i++)
        memcpy(packed + (size_t)i * DOUBLES, &mine->item[i], sizeof mine->item[i]);
    if (!status && s->n_ranks > 1 && row) status = yokei_ranks_gather(&s->config, packed, (int)row, all);
    if (!status && s->n_ranks == 1) memcpy(all, packed, row * sizeof *all);
    int64_t n = 0;
    for (int r = 0; r < s->n_ranks && !status; r++)
        for (int i = 0; i < (int)lengths[r]; i++)
            memcpy(&list[n++], all + (size_t)r * row + (size_t)i * DOUBLES, sizeof list[0]);
    free(packed), free(all);
    if (status) {
        free(list);
        return status;
    }
    if (s->t->replay || s->t->resume) compare(s, p->products, p->n_products, list, n);
    free(p->products);
    p->products = list;
    p->n_products = n;
    return YOKE_OK;
}

yoke_status yokei_run_set_products(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    yoke_status status = YOKE_OK;
    for (int64_t i = 0; i < p->n_products && !status; i++)
        if (p->products[i].rank == s->placed[s->rank])
            status = yokei_product_set(s->t->device, p->products[i].product, p->products[i].algorithm);
    return status ? yoke_fail_context(status, "the plan's products") : YOKE_OK;
}

yoke_status yokei_run_note_products(struct yokei_run_state *s)
{
    struct list mine = { .rank = s->placed[s->rank] };
    yokei_products_used(s->t->device, note, &mine);
    const double n = mine.n;
    double *lengths = calloc((size_t)s->n_ranks, sizeof *lengths), most = 0;
    yoke_status status = lengths && !mine.failed ? YOKE_OK : no_memory();
    status = yokei_ranks_all_well(&s->config, status);
    if (!status && s->n_ranks > 1) status = yokei_ranks_gather(&s->config, &n, 1, lengths);
    if (!status && s->n_ranks == 1) lengths[0] = n;
    for (int r = 0; r < s->n_ranks && !status; r++) most = YOKE_MAX(most, lengths[r]);
    if (!status) status = gather(s, &mine, (int)most, lengths, &s->t->plan);
    free(lengths);
    free(mine.item);
    return status;
}
