/* SPDX-License-Identifier: Apache-2.0 */
/* The places of the arrays of the state, which lives from step to step. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/state.h"

/* Parameters begin at multiples of EVEN elements, so that 16-bit ones begin at 64 bytes. */
enum { EVEN = 32 };
/*
 * Kinds of buckets: vectors, matrices, and both again for parameters that all ranks of a tensor group hold.
 */
enum { N_KINDS = 4 };

static size_t take(const struct yokei_state *s, size_t *at, size_t bytes)
{
    size_t offset = *at;
    *at += yoke_align(bytes) + (bytes ? s->red_zone : 0);
    return offset;
}

/* n rounded up to a multiple of EVEN: with the rest of its last 64 bytes. */
static int64_t padded(int64_t n) { return (n + EVEN - 1) / EVEN * EVEN; }

/* ---- buckets ---- */

/*
 * The kind of bucket for parameter i; -1: a bucket of its own. Matrices and vectors have separate buckets,
 * because their weights differ in type. Parameters that all ranks of a tensor group hold have separate
 * buckets, too. These buckets have the same slices on all ranks of the group, although the ranks hold
 * different parts of the other parameters. A tied parameter has its own bucket, with the same slices on both
 * of its stages if the stages are equally wide. The gradients of these buckets are also summed slice by slice
 * over those ranks.
 */
static int kind_of(const struct yokei_parameters *ps, const struct yokei_replicas *r, int i)
{
    const bool replicated = r->is_tensor && ps->item[i].replicated_axes & YOKE_AXIS_TENSOR;
    return r->tied && r->tied[i] ? -1 : ps->item[i].matrix + 2 * replicated;
}

static void deal_buckets(const struct yokei_parameters *ps, const struct yokei_replicas *r,
                         size_t bucket_bytes, struct yokei_state *s)
{
    const size_t width = yoke_dtype_bytes(s->wide);
    int open[N_KINDS];
    for (int k = 0; k < N_KINDS; k++) open[k] = -1;
    for (int layer = ps->n_layers - 1; layer >= 0; layer--) {
        for (int i = 0; i < ps->n; i++) {
            if (ps->first_layer[i] != layer) continue;
            const int kind = kind_of(ps, r, i);
            int b = kind < 0 ? -1 : open[kind];
            if (b < 0 || (size_t)s->bucket[b].n * width >= bucket_bytes) b = s->n_buckets++;
            if (kind >= 0) open[kind] = b;
            struct yokei_bucket *bucket = &s->bucket[b];
            s->slot[i].bucket = b;
            s->slot[i].at = bucket->n;
            bucket->n += padded(s->slot[i].n);
            bucket->layer = layer;
            bucket->has_copy = s->slot[i].has_copy;
            bucket->norm_block = ps->item[i].matrix ? YOKEI_NORM_BLOCK : YOKEI_NORM_BLOCK_OF_VECTORS;
            bucket->is_shared = kind < 0 || kind >= N_KINDS / 2;
            bucket->sums_slices = s->is_divided && !(kind < 0 && r->has_ties);
        }
    }
}

/*
 * Sort the buckets by the order in which the backward pass completes them, last layer first. Several buckets
 * were open at a time, so they are not yet in this order.
 */
static yoke_status order_buckets(struct yokei_state *s)
{
    int *now = calloc((size_t)s->n_buckets + 1, sizeof *now); /* [n_buckets] the new index of each bucket */
    struct yokei_bucket *list = calloc((size_t)s->n_buckets + 1, sizeof *list);
    if (!now || !list) {
        free(now);
        free(list);
        return yoke_fail(YOKE_ENOMEM, "buckets: no host memory for %d", s->n_buckets);
    }
    for (int b = 0; b < s->n_buckets; b++) {
        for (int other = 0; other < s->n_buckets; other++)
            now[b] += s->bucket[other].layer > s->bucket[b].layer
                      || (s->bucket[other].layer == s->bucket[b].layer && other < b);
        list[now[b]] = s->bucket[b];
    }
    for (int i = 0; i < s->n; i++) s->slot[i].bucket = now[s->slot[i].bucket];
    free(s->bucket);
    free(now);
    s->bucket = list;
    return YOKE_OK;
}

/* List the parameters in the order of memory. */
static yoke_status list_buckets(struct yokei_state *s)
{
    int n = 0;
    s->order = malloc(((size_t)s->n + 1) * sizeof *s->order);
    if (!s->order) return yoke_fail(YOKE_ENOMEM, "buckets: no host memory for %d parameters", s->n);
    for (int b = 0; b < s->n_buckets; b++) {
        struct yokei_bucket *bucket = &s->bucket[b];
        bucket->first = n;
        for (int i = 0; i < s->n; i++) {
            if (s->slot[i].bucket != b) continue;
            int k = n++;
            for (; k > bucket->first && s->slot[s->order[k - 1]].at > s->slot[i].at; k--)
                s->order[k] = s->order[k - 1];
            s->order[k] = i;
        }
        bucket->end = n;
    }
    return YOKE_OK;
}

/* ---- slices ---- */

static int64_t share_of(const struct yokei_replicas *r, int d) { return r->shares ? r->shares[d] : 1; }

static struct yoke_range cut(struct yoke_range row, const struct yokei_slot *slot)
{
    return (struct yoke_range){ YOKE_MIN(YOKE_MAX(row.begin - slot->at, 0), slot->n),
                                YOKE_MIN(YOKE_MAX(row.end - slot->at, 0), slot->n) };
}

/* The border of two norm blocks that is nearest to `at`, within the parameter that lies there. */
static int64_t between_blocks(const struct yokei_state *s, int bucket, int64_t at)
{
    const int64_t block = s->bucket[bucket].norm_block;
    for (int i = s->bucket[bucket].first; i < s->bucket[bucket].end; i++) {
        const struct yokei_slot *slot = &s->slot[s->order[i]];
        if (at <= slot->at || at >= slot->at + padded(slot->n)) continue;
        const int64_t blocks = (at - slot->at + block / 2) / block * block;
        return slot->at + (blocks < slot->n ? blocks : padded(slot->n));
    }
    return at;
}

/*
 * Cut each bucket into slices by the shares, in the order of the replicas. All replicas compute the same
 * slices. A slice has whole blocks, so it may be too large or too small. The next bucket makes up for the
 * difference.
 */
static yoke_status slice_buckets(const struct yokei_replicas *r, struct yokei_state *s)
{
    int64_t total = 0;
    for (int d = 0; d < r->n; d++) total += share_of(r, d);
    s->counts = calloc((size_t)s->n_buckets * (size_t)r->n + 1, sizeof *s->counts);
    int64_t *lacks = calloc((size_t)r->n, sizeof *lacks);
    if (!s->counts || !lacks) free(lacks);
    if (!s->counts || !lacks)
        return yoke_fail(YOKE_ENOMEM, "buckets: no host memory for the slices of %d replicas", r->n);
    for (int b = 0; b < s->n_buckets; b++) {
        struct yokei_bucket *bucket = &s->bucket[b];
        const int64_t units = bucket->n / EVEN;
        int64_t before = 0, begin = 0;
        bucket->counts = s->counts + (size_t)b * (size_t)r->n;
        for (int d = 0; d < r->n; d++) {
            before += share_of(r, d);
            const int64_t exact = (units / total * before + units % total * before / total) * EVEN,
                          want = exact + (bucket->is_shared ? 0 : lacks[d]);
            const int64_t end = before == total ? bucket->n
                                : before == 0
                                    ? 0
                                    : YOKE_MAX(between_blocks(s, b, YOKE_MIN(want, bucket->n)), begin);
            if (!bucket->is_shared) lacks[d] = want - end;
            if (d == r->d) bucket->own = (struct yoke_range){ begin, end };
            bucket->counts[d] = (size_t)(end - begin);
            begin = end;
        }
        bucket->kept = s->is_divided ? bucket->own : (struct yoke_range){ 0, bucket->n };
    }
    free(lacks);
    for (int i = 0; i < s->n; i++) {
        s->slot[i].own = cut(s->bucket[s->slot[i].bucket].own, &s->slot[i]);
        s->slot[i].kept = cut(s->bucket[s->slot[i].bucket].kept, &s->slot[i]);
    }
    return YOKE_OK;
}

/* ---- offsets ---- */

static void place_buckets(struct yokei_state *s, size_t *at)
{
    const size_t width = yoke_dtype_bytes(s->wide);
    size_t masters = 0, all_masters = 0;
    for (int b = 0; b < s->n_buckets; b++) {
        struct yokei_bucket *k = &s->bucket[b];
        k->weight = take(s, at, (size_t)k->n * yoke_dtype_bytes(yokei_weight_dtype(s, k->has_copy)));
    }
    for (int b = 0; b < s->n_buckets; b++) {
        struct yokei_bucket *k = &s->bucket[b];
        if (!k->has_copy) continue;
        k->master = take(s, at, (size_t)(k->kept.end - k->kept.begin) * width);
        masters += (size_t)(k->kept.end - k->kept.begin) * width;
        all_masters += (size_t)k->n * width;
    }
    s->report.weights = *at;
    for (int b = 0; b < s->n_buckets; b++) {
        struct yokei_bucket *k = &s->bucket[b];
        k->moment1 = take(s, at, (size_t)(k->kept.end - k->kept.begin) * width);
        k->moment2 = take(s, at, (size_t)(k->kept.end - k->kept.begin) * width);
    }
    s->report.optimizer = *at - s->report.weights;
    s->gradients = *at;
    for (int b = 0; b < s->n_buckets; b++)
        s->bucket[b].gradient = take(s, at, (size_t)s->bucket[b].n * width);
    s->gradients_bytes = s->report.gradients = *at - s->gradients;
    s->divided_bytes = masters + s->report.optimizer;
    s->undivided_bytes = all_masters
                         + 2 * s->gradients_bytes; /* there are two moments, each as large as the gradients */
}

static void place_slots(struct yokei_state *s)
{
    const size_t width = yoke_dtype_bytes(s->wide);
    for (int i = 0; i < s->n; i++) {
        struct yokei_slot *slot = &s->slot[i];
        const struct yokei_bucket *b = &s->bucket[slot->bucket];
        const size_t at = (size_t)slot->at,
                     kept = yokei_is_empty(slot->kept)
                                ? 0
                                : (size_t)(slot->at + slot->kept.begin - b->kept.begin);
        slot->gradient = b->gradient + at * width;
        slot->weight = b->weight + at * yoke_dtype_bytes(yokei_weight_dtype(s, b->has_copy));
        slot->master = b->has_copy ? b->master + kept * width
                                   : slot->weight + (size_t)slot->kept.begin * width;
        slot->moment1 = b->moment1 + kept * width;
        slot->moment2 = b->moment2 + kept * width;
    }
}

struct yoke_range yokei_slot_range(const struct yokei_state *s, int i, enum yoke_tensor_kind kind,
                                   size_t *offset_out)
{
    const struct yokei_slot *slot = &s->slot[i];
    const struct yoke_range all = { 0, slot->n };
    const bool sums_slices = s->bucket[slot->bucket].sums_slices;
    switch (kind) {
    case YOKE_TENSOR_GRADIENT:
        *offset_out = slot->gradient
                      + (sums_slices ? (size_t)slot->own.begin * yoke_dtype_bytes(s->wide) : 0);
        return sums_slices ? slot->own : all;
    case YOKE_TENSOR_MOMENT1: *offset_out = slot->moment1; return slot->kept;
    case YOKE_TENSOR_MOMENT2: *offset_out = slot->moment2; return slot->kept;
    default:
        *offset_out = slot->has_copy ? slot->master : slot->weight;
        return slot->has_copy ? slot->kept : all;
    }
}

static void place_norms(struct yokei_state *s, size_t *at)
{
    const size_t pair = 2 * yoke_dtype_bytes(s->wide);
    for (int i = 0; i < s->n; i++) {
        struct yokei_slot *slot = &s->slot[s->order[i]];
        const int64_t block = s->bucket[slot->bucket].norm_block;
        slot->n_norms = yokei_is_empty(slot->own) ? 0 : (slot->own.end - slot->own.begin + block - 1) / block;
        slot->norms = *at + (size_t)s->n_norms * pair;
        s->n_norms += slot->n_norms;
    }
    s->norms = take(s, at, (size_t)s->n_norms * pair);
}

yoke_status yokei_state_create(const struct yokei_parameters *ps, const struct yokei_replicas *r,
                               yoke_dtype dtype, int64_t n_tokens, size_t bucket_bytes, size_t red_zone,
                               struct yokei_state *state_out)
{
    struct yokei_state s = { .dtype = dtype,
                             .wide = yoke_dtype_wide(dtype),
                             .n = ps->n,
                             .is_divided = r->divides && r->n > 1,
                             .n_tokens = n_tokens,
                             .red_zone = red_zone };
    const size_t width = yoke_dtype_bytes(s.wide);
    size_t at = 0;
    s.report.size = sizeof s.report;
    s.slot = calloc((size_t)ps->n + 1, sizeof *s.slot);
    s.bucket = calloc((size_t)ps->n + 1, sizeof *s.bucket);
    yoke_status status = s.slot && s.bucket
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM,
                                         "the places of weights: no host memory for %d parameters", ps->n);
    for (int i = 0; i < ps->n && !status; i++) {
        s.slot[i].n = yokei_local_count(&ps->item[i]);
        s.slot[i].has_copy = ps->item[i].matrix && dtype != s.wide;
    }
    if (!status) deal_buckets(ps, r, bucket_bytes, &s);
    if (!status) status = order_buckets(&s);
    if (!status) status = list_buckets(&s);
    if (!status) status = slice_buckets(r, &s);
    if (status) {
        yokei_state_free(&s);
        return status;
    }
    place_buckets(&s, &at);
    place_slots(&s);
    s.tokens = take(&s, &at, (size_t)n_tokens * sizeof(int32_t));
    s.targets = take(&s, &at, (size_t)n_tokens * sizeof(int32_t));
    s.losses = take(&s, &at, (size_t)n_tokens * width);
    place_norms(&s, &at);
    s.report.workspace = at - s.tokens;
    s.bytes = at;
    *state_out = s;
    return YOKE_OK;
}

bool yokei_state_array(const struct yokei_state *s, int index, struct yokei_array *out)
{
    enum { OF_BUCKET = 5, OTHERS = 4 };
    const size_t width = yoke_dtype_bytes(s->wide);
    const int rest = index - s->n_buckets * OF_BUCKET;
    if (index < 0 || rest >= OTHERS) return false;
    if (rest >= 0) {
        const size_t n = (size_t)s->n_tokens;
        *out = (const struct yokei_array[OTHERS]){
            { "tokens", -1, s->tokens, n * sizeof(int32_t) },
            { "targets", -1, s->targets, n * sizeof(int32_t) },
            { "losses", -1, s->losses, n * width },
            { "norms", -1, s->norms, (size_t)s->n_norms * 2 * width },
        }[rest];
        return true;
    }
    const struct yokei_bucket *b = &s->bucket[index / OF_BUCKET];
    const size_t all = (size_t)b->n, kept = (size_t)(b->kept.end - b->kept.begin) * width;
    const struct yokei_array of[OF_BUCKET] = {
        { "weights", 0, b->weight, all * yoke_dtype_bytes(yokei_weight_dtype(s, b->has_copy)) },
        { "masters", 0, b->master, b->has_copy ? kept : 0 },
        { "first moments", 0, b->moment1, kept },
        { "second moments", 0, b->moment2, kept },
        { "gradients", 0, b->gradient, all * width },
    };
    *out = of[index % OF_BUCKET];
    out->bucket = index / OF_BUCKET;
    return true;
}

void yokei_state_free(struct yokei_state *s)
{
    free(s->slot);
    free(s->bucket);
    free(s->counts);
    free(s->order);
    memset(s, 0, sizeof *s);
}
