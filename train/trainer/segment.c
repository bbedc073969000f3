/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The length of the segments of a stage that recomputes. A segment is a run of layers that are recomputed
 * together. The length with the least memory is used. Short segments keep more inputs, and they keep them for
 * every micro-batch in flight. Long segments keep more of the stash of one micro-batch. The length changes no
 * bit of the results.
 */
#include <search.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "train/trainer/key.h"
#include "train/trainer/trainer.h"

/* The ranks of this rank's tensor group. */
struct group {
    const struct yoke_trainer_config *c;
    const struct yokei_trainer_plan *p;
    struct yokei_key keys[YOKE_MAX_TENSOR]; /* of each rank's layers */
    bool is_distinct[YOKE_MAX_TENSOR];      /* no earlier rank has the same key */
};

static yoke_status list_ranks(struct group *g)
{
    for (int t = 0; t < g->p->mesh.tensor; t++) {
        const struct yoke_place place = yokei_plan_place(g->c, g->p, g->p->mesh.s, t);
        YOKE_TRY(yokei_key_layers(&g->keys[t], &g->p->train_job, &place, g->c->precision));
        if (g->keys[t].failed)
            return yoke_fail(YOKE_ENOMEM, "trainer: no host memory to plan %d tensor ranks",
                             g->p->mesh.tensor);
        g->is_distinct[t] = true;
        for (int e = 0; e < t && g->is_distinct[t]; e++)
            g->is_distinct[t] = yokei_key_compare(&g->keys[e], &g->keys[t]) != 0;
    }
    return YOKE_OK;
}

/*
 * The bytes of a step's buffers with a segment length, on the rank of this tensor group that needs most.
 * Uneven shares make these bytes differ. If the ranks chose different segment lengths, they would issue the
 * sums of their F and B in different orders.
 */
static yoke_status most_of_group(const struct group *g, const struct yokei_actions *actions, int segment,
                                 size_t *bytes_out)
{
    struct yokei_job job = g->p->train_job;
    job.segment = segment;
    *bytes_out = 0;
    for (int t = 0; t < g->p->mesh.tensor; t++) {
        size_t bytes;
        if (!g->is_distinct[t]) continue;
        job.place = yokei_plan_place(g->c, g->p, g->p->mesh.s, t);
        YOKE_TRY(yokei_program_train_bytes(&job, actions, &bytes));
        *bytes_out = YOKE_MAX(*bytes_out, bytes);
    }
    return YOKE_OK;
}

static yoke_status search(const struct group *g, const struct yokei_actions *actions, int longest,
                          int *best_out)
{
    size_t least = 0, bytes;
    *best_out = 0;
    for (int n = 1; n < 2 * longest; n *= 2) {
        YOKE_TRY(most_of_group(g, actions, YOKE_MIN(n, longest), &bytes));
        if (!*best_out || bytes <= least) *best_out = YOKE_MIN(n, longest), least = bytes;
    }
    return YOKE_OK;
}

/* ---- lengths that were chosen before ---- */

struct chosen {
    struct yokei_key key;
    int length;
};

static int compare(const void *a, const void *b)
{
    return yokei_key_compare(&((const struct chosen *)a)->key, &((const struct chosen *)b)->key);
}

static void free_chosen(void *at)
{
    struct chosen *chosen = at;
    yokei_key_free(&chosen->key);
    free(chosen);
}

void yokei_segments_free(void **segments)
{
    tdestroy(*segments, free_chosen);
    *segments = NULL;
}

/* Everything on which the length depends. It does not depend on the replica, nor on the rank of the group. */
static void put_all(struct yokei_key *key, const struct group *g, const struct yokei_actions *actions)
{
    const struct yokei_job *job = &g->p->train_job;
    yokei_key_put(key, &job->device, sizeof job->device);
    const int64_t numbers[] = { g->c->precision, job->T, job->n_sequences, job->micro_batch,
                                g->c->sequence_parallel };
    yokei_key_put(key, numbers, sizeof numbers);
    for (int i = 0; i < actions->n; i++) { /* sums of buckets use no buffers */
        const struct yokei_action *a = &actions->action[i];
        if (!yokei_action_has_micro_batch(a->kind)) continue;
        const int64_t action[] = { a->kind, a->index, a->chunk };
        yokei_key_put(key, action, sizeof action);
    }
    for (int t = 0; t < g->p->mesh.tensor; t++) yokei_key_put(key, g->keys[t].bytes, g->keys[t].n);
}

static yoke_status search_once(const struct group *g, const struct yokei_actions *actions, int longest,
                               void **segments, int *best_out)
{
    struct chosen *chosen = calloc(1, sizeof *chosen);
    if (chosen) put_all(&chosen->key, g, actions);
    struct chosen *const *known = chosen && !chosen->key.failed ? tsearch(chosen, segments, compare) : NULL;
    yoke_status status = known ? YOKE_OK
                               : yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d actions", actions->n);
    if (!status && *known == chosen) {
        status = search(g, actions, longest, &chosen->length);
        if (status) tdelete(chosen, segments, compare);
    }
    if (!status) *best_out = (*known)->length;
    if (chosen && (status || *known != chosen)) free_chosen(chosen);
    return status;
}

yoke_status yokei_choose_segment(const struct yoke_trainer_config *c, const struct yokei_actions *actions,
                                 struct yokei_trainer_plan *p)
{
    struct group g = { .c = c, .p = p };
    int longest = 0;
    bool any = false;
    for (int l = 0; l < p->train_job.n_layers; l++) any = any || p->recomputed[l];
    for (int k = 0; k < p->mesh.chunks && any; k++)
        longest = YOKE_MAX(longest, p->chunk[k].end - p->chunk[k].first);
    if (!longest) return YOKE_OK;
    yoke_status status = list_ranks(&g);
    if (!status)
        status = p->segments ? search_once(&g, actions, longest, p->segments, &p->train_job.segment)
                             : search(&g, actions, longest, &p->train_job.segment);
    for (int t = 0; t < p->mesh.tensor; t++) yokei_key_free(&g.keys[t]);
    return status;
}
