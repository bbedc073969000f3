/* SPDX-License-Identifier: Apache-2.0 */
/* The meshes of a search, and the heap of what is not decided. */
#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "core/base/times.h"
#include "train/models/model.h"
#include "train/search/search_inside.h"

static const uint64_t SHOW_NS = 200 * 1000 * 1000;

/* ---- the heap ---- */

yoke_status yokei_search_push(struct yokei_searching *s, const struct yokei_node *node)
{
    if (s->n_nodes == s->capacity) {
        const int64_t capacity = 2 * s->capacity + 1024;
        struct yokei_node *list = realloc(s->node, (size_t)capacity * sizeof *list);
        if (!list)
            return yoke_fail(YOKE_ENOMEM, "search: no host memory for %lld layouts", (long long)capacity);
        s->node = list;
        s->capacity = capacity;
    }
    int64_t at = s->n_nodes++;
    for (; at > 0 && s->node[(at - 1) / 2].bound > node->bound; at = (at - 1) / 2)
        s->node[at] = s->node[(at - 1) / 2];
    s->node[at] = *node;
    return YOKE_OK;
}

struct yokei_node yokei_search_pop(struct yokei_searching *s)
{
    const struct yokei_node top = s->node[0], last = s->node[--s->n_nodes];
    int64_t at = 0;
    for (int64_t next = 1; next < s->n_nodes; next = 2 * at + 1) {
        if (next + 1 < s->n_nodes && s->node[next + 1].bound < s->node[next].bound) next++;
        if (last.bound <= s->node[next].bound) break;
        s->node[at] = s->node[next];
        at = next;
    }
    s->node[at] = last;
    return top;
}

double yokei_search_threshold(const struct yokei_searching *s)
{
    const struct yokei_search_result *r = s->result;
    const double most = s->config->most_seconds > 0 ? s->config->most_seconds : INFINITY;
    return r->n_best < s->n_best ? most : fmin(most, r->best[r->n_best - 1].prediction.step_seconds);
}

/* ---- the progress ---- */

void yokei_search_show(struct yokei_searching *s, bool at_once)
{
    struct yokei_search_result *r = s->result;
    const uint64_t now = yokei_now_ns();
    const double bound = fmin(s->n_nodes ? s->node[0].bound : INFINITY, s->left_bound);
    r->counts.n_left = s->n_nodes;
    r->counts.best_seconds = r->n_best ? r->best[0].prediction.step_seconds : INFINITY;
    r->counts.least_bubble = r->is_idle && !r->n_best ? r->least_idle.prediction.bubble : INFINITY;
    if (s->by_bubble)
        r->counts.bubble_bound = fmin(bound, r->counts.least_bubble);
    else
        r->counts.bound_seconds = fmin(bound, yokei_search_threshold(s));
    if (!s->config->progress || (!at_once && now - s->shown_ns < SHOW_NS)) return;
    s->shown_ns = now;
    if (!s->config->progress(s->config->context, &r->counts)) s->is_stopped = true;
}

/* ---- the space ---- */

struct yokei_layout yokei_node_layout(const struct yokei_searching *s, const struct yokei_node *n)
{
    struct yokei_layout l = { .data = n->data,
                              .pipeline = n->pipeline,
                              .tensor = n->tensor,
                              .chunks = YOKE_MAX(n->chunks, 1),
                              .schedule = (enum yokei_pipeline_kind)n->schedule,
                              .recompute = n->recompute,
                              .zero = n->zero,
                              .sequence_parallel = n->sequence_parallel,
                              .micro_batch = n->micro_batch,
                              .n_kinds = s->order[n->order].n_kinds,
                              .by_replica = n->by_replica };
    for (int i = 0; i < l.n_kinds; i++) l.kind[i] = s->order[n->order].kind[i];
    return l;
}

static bool has_speed(const struct yokei_predict_config *c, int kind)
{
    const struct yokei_device_kind *k = &c->cluster->kind[kind];
    return k->speed[yokei_speed_type_of(c->precision)][YOKEI_CLASS_GEMM].n_points > 0
           && yokei_cluster_devices(c->cluster, kind) > 0;
}

void yokei_search_used(const struct yokei_searching *s, const struct yokei_node *mesh, int *used)
{
    const struct yokei_order *o = &s->order[mesh->order];
    int n = mesh->data * mesh->pipeline;
    for (int i = 0; i < o->n_kinds; i++) {
        used[i] = YOKE_MIN(n, yokei_slots_of(s->config->predict.cluster, mesh->tensor, o->kind[i]));
        n -= used[i];
    }
}

/* List all ordered lists that continue this one. */
static yoke_status list_orders(struct yokei_searching *s, struct yokei_order *now)
{
    const struct yokei_predict_config *c = &s->config->predict;
    for (int k = 0; k < c->cluster->n_kinds; k++) {
        bool used = false;
        for (int i = 0; i < now->n_kinds; i++) used = used || now->kind[i] == k;
        if (used || !has_speed(c, k)) continue;
        struct yokei_order *list = realloc(s->order, ((size_t)s->n_orders + 1) * sizeof *list);
        if (!list)
            return yoke_fail(YOKE_ENOMEM, "search: no host memory for %d orders of devices", s->n_orders);
        s->order = list;
        now->kind[now->n_kinds++] = k;
        s->order[s->n_orders++] = *now;
        YOKE_TRY(list_orders(s, now));
        now->n_kinds--;
    }
    return YOKE_OK;
}

static struct yokei_region *region_of(struct yokei_searching *s, int pipeline, int tensor, int *index_out)
{
    struct yokei_search_result *r = s->result;
    for (*index_out = 0; *index_out < r->n_regions; ++*index_out)
        if (r->region[*index_out].pipeline == pipeline && r->region[*index_out].tensor == tensor)
            return &r->region[*index_out];
    struct yokei_region *list = realloc(r->region, ((size_t)r->n_regions + 1) * sizeof *list);
    if (!list) return NULL;
    r->region = list;
    r->region[r->n_regions] = (struct yokei_region){
        .pipeline = pipeline, .tensor = tensor, .bound = INFINITY, .best_seconds = INFINITY
    };
    return &r->region[r->n_regions++];
}

/* The slots of each kind of an order that the first n slots are. */
static void use_slots(const struct yokei_order *o, const int *slots_of, int n, int *used)
{
    for (int i = 0; i < o->n_kinds; i++) {
        used[i] = YOKE_MIN(n, slots_of[i]);
        n -= used[i];
    }
}

/*
 * Whether another order of the kinds has the same replicas in another sequence. This is so if all slots are
 * used and no replica lies on two kinds. The ascending order stands for all of these.
 */
static bool is_another_order(const struct yokei_order *o, const int *slots_of, const int *used, int pipeline)
{
    bool ascends = true, divides = true;
    for (int i = 0; i < o->n_kinds; i++) {
        divides = divides && used[i] == slots_of[i] && used[i] % pipeline == 0;
        ascends = ascends && (!i || o->kind[i] > o->kind[i - 1]);
    }
    return divides && !ascends;
}

/* Bound and push the meshes with these replicas, stages, widths and micro-batch. */
static yoke_status push_mesh(struct yokei_searching *s, struct yokei_node *n,
                             const struct yokei_host_links *links, const int *slots_of)
{
    const struct yokei_order *o = &s->order[n->order];
    const struct yokei_predict_config *c = &s->config->predict;
    int used[YOKEI_MOST_KINDS], index;
    const struct yokei_layout l = yokei_node_layout(s, n);
    use_slots(o, slots_of, n->data * n->pipeline, used);
    if (!used[o->n_kinds - 1]) return YOKE_OK; /* a shorter order has this mesh */
    const yoke_status status = yokei_bound_mesh(s->predictor, c, &l, &s->sizes, links, used, &n->bound);
    if (status == YOKE_ENOMEM) return status;
    if (status) { /* the model has no such parts: for instance fewer heads than tensor ranks */
        if (!s->refused[0]) yokei_text(s->refused, sizeof s->refused, "%s", yoke_last_error());
        return YOKE_OK;
    }
    struct yokei_region *region = region_of(s, n->pipeline, n->tensor, &index);
    if (!region) return yoke_fail(YOKE_ENOMEM, "search: no host memory for its regions");
    n->region = (int16_t)index;
    for (n->by_replica = 0; n->by_replica <= (n->data > 1 && n->pipeline > 1); n->by_replica++) {
        if (n->by_replica && is_another_order(o, slots_of, used, n->pipeline)) continue;
        s->result->counts.n_meshes++;
        region->n_meshes++;
        region->bound = fmin(region->bound, n->bound);
        YOKE_TRY(yokei_search_push(s, n));
    }
    return YOKE_OK;
}

static yoke_status push_meshes(struct yokei_searching *s, int order, int tensor)
{
    const struct yokei_predict_config *c = &s->config->predict;
    const struct yokei_order *o = &s->order[order];
    int slots_of[YOKEI_MOST_KINDS], n_slots = 0;
    for (int i = 0; i < o->n_kinds; i++) {
        slots_of[i] = yokei_slots_of(c->cluster, tensor, o->kind[i]);
        if (!slots_of[i]) return YOKE_OK;
        n_slots += slots_of[i];
    }
    struct yokei_node n = { .tensor = (int8_t)tensor, .order = order };
    struct yokei_host_links links;
    yokei_host_links_of(c->cluster, tensor, &links);
    _Static_assert(YOKE_MAX_TENSOR <= INT8_MAX, "a node has room for the tensor ranks");
    const int most_stages = (int)YOKE_MIN((int64_t)YOKE_MIN(n_slots, s->sizes.n_blocks), YOKEI_MOST_CUTS);
    for (int b = 1; b <= c->batch && c->batch % b == 0; b *= 2)
        for (int p = 1; p <= most_stages && !s->is_stopped; yokei_search_show(s, false), p++)
            for (int d = 1; d <= n_slots / p && d <= c->batch / b; d++)
                for (int cut = 0; cut <= (tensor > 1); cut++) {
                    n.micro_batch = b, n.pipeline = (int16_t)p, n.data = d;
                    n.sequence_parallel = (int8_t)cut;
                    YOKE_TRY(push_mesh(s, &n, &links, slots_of));
                }
    return YOKE_OK;
}

/* Whether a list of some host is divided by groups of this width without a rest. */
static bool divides_a_list(const struct yokei_cluster *c, int tensor)
{
    for (int h = 0; h < c->n_hosts; h++)
        for (int l = 0; l < c->host[h].n_lists; l++)
            if (c->host[h].devices[l].n % tensor == 0) return true;
    return false;
}

yoke_status yokei_search_list(struct yokei_searching *s)
{
    const struct yokei_cluster *c = s->config->predict.cluster;
    const int most = s->config->most_tensor ? YOKE_MIN(s->config->most_tensor, YOKE_MAX_TENSOR)
                                            : YOKE_MAX_TENSOR;
    YOKE_TRY(list_orders(s, &(struct yokei_order){ 0 }));
    if (!s->n_orders)
        return yoke_fail(YOKE_ECONFIG,
                         "search: no device of the cluster has a speed in %s: give one, or plan for "
                         "another precision",
                         yoke_dtype_name(s->config->predict.precision));
    for (int t = 1; t <= most; t++)
        for (int o = 0; o < s->n_orders && divides_a_list(c, t); o++) YOKE_TRY(push_meshes(s, o, t));
    if (!s->n_nodes)
        return yoke_fail(YOKE_ECONFIG,
                         "search: the model can be divided in no way over the cluster's devices%s%s",
                         s->refused[0] ? ": " : "", s->refused);
    return YOKE_OK;
}
