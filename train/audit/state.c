/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first part of an audit: the state by hash. Each rank lists its tensors. A key says which elements of
 * which tensor an entry has. So ranks that hold the same elements find each other by the key, whatever the
 * reason for which they hold the same.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/parity/gates.h"
#include "train/audit/audit.h"
#include "train/trainer/memory.h"

enum { WORKING, MASTER, MOMENT1, MOMENT2 };
static const char *const kinds[YOKEI_AUDIT_KINDS] = { "weights", "f32 weights", "first moments",
                                                      "second moments" };

int64_t yokei_audit_count(const struct yokei_audit *a)
{
    return (int64_t)a->t->plan.state.n * YOKEI_AUDIT_KINDS
           + (int64_t)a->t->plan.n_tied_pieces * YOKEI_AUDIT_KINDS;
}

/* The elements of a tensor of this kind that the rank keeps, and where they lie. Empty: none. */
static struct yoke_range kept_of(const struct yokei_state *s, int parameter, int kind, size_t *offset_out,
                                 yoke_dtype *dtype_out)
{
    const struct yokei_slot *slot = &s->slot[parameter];
    *dtype_out = kind == WORKING ? yokei_weight_dtype(s, slot->has_copy) : s->wide;
    *offset_out = kind == WORKING   ? slot->weight
                  : kind == MASTER  ? slot->master
                  : kind == MOMENT1 ? slot->moment1
                                    : slot->moment2;
    if (kind == MASTER && !slot->has_copy) return (struct yoke_range){ 0, 0 };
    return kind == WORKING ? (struct yoke_range){ 0, slot->n } : slot->kept;
}

static yoke_status hash_bytes(struct yokei_audit *a, size_t offset, size_t bytes, uint64_t *hash_out)
{
    yoke_stream *stream = a->t->stream[YOKEI_COMPUTE];
    const size_t piece = (size_t)a->piece * yoke_dtype_bytes(a->t->plan.state.wide);
    uint64_t hash = bytes;
    for (size_t at = 0; at < bytes; at += piece) {
        const size_t some = YOKE_MIN(piece, bytes - at);
        YOKE_TRY(yoke_copy_to_host(stream, a->host, yoke_at(a->t->base, offset + at), some));
        YOKE_TRY(yoke_stream_sync(stream));
        hash = yokei_hash(a->host, some, hash);
    }
    *hash_out = hash;
    return YOKE_OK;
}

static uint64_t hash_range(struct yoke_range r, uint64_t hash)
{
    const int64_t ends[] = { r.begin, r.end };
    return yokei_hash(ends, sizeof ends, hash);
}

/* The key of elements `kept` of this rank's shard. It is never 0: 0 is an entry that is not used. */
static uint64_t key_of(const struct yoke_parameter *p, int kind, struct yoke_range kept)
{
    uint64_t key = yokei_hash(p->name, strlen(p->name), (uint64_t)kind);
    for (int d = 0; d < p->n_dims; d++) {
        key = yokei_hash(&p->shard[d].n, sizeof p->shard[d].n, key);
        for (int i = 0; i < p->shard[d].n; i++) key = hash_range(p->shard[d].range[i], key);
    }
    return hash_range(kept, key) | 1;
}

static yoke_status add(struct yokei_audit *a, int64_t at, int parameter, int kind, uint64_t key,
                       size_t offset, size_t bytes)
{
    struct yokei_audit_entry *e = &a->entry[at];
    e->key = key;
    e->rank = (uint32_t)a->t->plan.rank;
    e->tensor = (uint32_t)(a->logical[parameter] * YOKEI_AUDIT_KINDS + kind);
    return hash_bytes(a, offset, bytes, &e->hash);
}

/*
 * The rows of a tied parameter that this rank has in common with one rank of the other stage. The key has the
 * rows of the whole parameter. A rank that keeps only a slice of these rows has no entry for them.
 */
static yoke_status add_tied(struct yokei_audit *a, int64_t at, const struct yokei_tied_piece *piece, int kind)
{
    const struct yokei_trainer_plan *plan = &a->t->plan;
    const struct yoke_parameter *p = &plan->parameters.item[piece->parameter];
    const int64_t columns = yokei_logical_count(p) / p->shape[0],
                  first = (p->shard[0].n ? p->shard[0].range[0].begin : 0) * columns + piece->at;
    size_t offset;
    yoke_dtype dtype;
    const struct yoke_range kept = kept_of(&plan->state, piece->parameter, kind, &offset, &dtype);
    if (kept.begin > piece->at || kept.end < piece->at + piece->n) return YOKE_OK;
    const size_t width = yoke_dtype_bytes(dtype);
    const uint64_t name = yokei_hash(p->name, strlen(p->name), (uint64_t)kind);
    return add(a, at, piece->parameter, kind,
               hash_range((struct yoke_range){ first, first + piece->n }, name) | 1,
               offset + (size_t)(piece->at - kept.begin) * width, (size_t)piece->n * width);
}

static yoke_status list(struct yokei_audit *a)
{
    const struct yokei_trainer_plan *plan = &a->t->plan;
    const struct yokei_state *s = &plan->state;
    memset(a->entry, 0, (size_t)a->n_entries * sizeof *a->entry);
    for (int i = 0; i < s->n; i++)
        for (int kind = 0; kind < YOKEI_AUDIT_KINDS; kind++) {
            size_t offset;
            yoke_dtype dtype;
            const struct yoke_range kept = kept_of(s, i, kind, &offset, &dtype);
            if (yokei_is_empty(kept)) continue;
            YOKE_TRY(add(a, (int64_t)i * YOKEI_AUDIT_KINDS + kind, i, kind,
                         key_of(&plan->parameters.item[i], kind, kept), offset,
                         (size_t)(kept.end - kept.begin) * yoke_dtype_bytes(dtype)));
        }
    for (int k = 0; k < plan->n_tied_pieces; k++)
        for (int kind = 0; kind < YOKEI_AUDIT_KINDS; kind++)
            YOKE_TRY(add_tied(a, ((int64_t)s->n + k) * YOKEI_AUDIT_KINDS + kind, &plan->tied_piece[k], kind));
    return YOKE_OK;
}

static int compare(const void *a, const void *b)
{
    const struct yokei_audit_entry *x = a, *y = b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The hash that most of n entries have, if more than half of them have it. */
static const struct yokei_audit_entry *most(const struct yokei_audit_entry *e, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t alike = 0;
        for (int64_t k = 0; k < n; k++) alike += e[k].hash == e[i].hash;
        if (2 * alike > n) return &e[i];
    }
    return NULL;
}

/* Name the ranks of a group of entries whose hashes differ. A majority is taken to be right. */
static yoke_status differ(const struct yokei_audit *a, const struct yokei_audit_entry *e, int64_t n,
                          int64_t n_tensors)
{
    const struct yokei_audit_entry *right = most(e, n);
    char who[256] = "", more[64] = "";
    int64_t named = 0;
    for (int64_t i = 0; i < n; i++) {
        if (right && e[i].hash == right->hash) continue;
        if (strlen(who) + 64 < sizeof who)
            yokei_text(who + strlen(who), sizeof who - strlen(who), "%srank %u (%s)", named ? ", " : "",
                       (unsigned)e[i].rank, a->t->memory[e[i].rank].device);
        named++;
    }
    if (n_tensors > 1)
        yokei_text(more, sizeof more, ", and so do those of %lld other tensors", (long long)(n_tensors - 1));
    const char *what = kinds[e->tensor % YOKEI_AUDIT_KINDS],
               *name = a->t->plan.logical.item[e->tensor / YOKEI_AUDIT_KINDS].name;
    if (right)
        return yokei_ranks_share(yoke_fail(
            YOKE_ENUMERIC,
            "audit after step %lld: the %s of %s on %s differ from those of the other %lld ranks that hold "
            "the same%s: go on from a checkpoint before this step, and examine the memory of these ranks",
            (long long)a->t->step, what, name, who, (long long)(n - named), more));
    return yokei_ranks_share(yoke_fail(
        YOKE_ENUMERIC,
        "audit after step %lld: the %s of %s differ between %s, which must hold the same%s: go on from a checkpoint "
        "before this step, and examine the memory of these ranks",
        (long long)a->t->step, what, name, who, more));
}

yoke_status yokei_audit_state(struct yokei_audit *a)
{
    const int64_t all = (int64_t)a->t->plan.n_ranks * a->n_entries;
    const struct yokei_audit_entry *first = NULL;
    int64_t n_first = 0, n_differ = 0;
    YOKE_TRY(yokei_ranks_all_well(&a->t->config, list(a)));
    YOKE_TRY(yokei_ranks_gather_bytes(&a->t->config, a->entry, (size_t)a->n_entries * sizeof *a->entry,
                                      a->entries));
    qsort(a->entries, (size_t)all, sizeof *a->entries, compare);
    for (int64_t i = 0, end; i < all; i = end) {
        const struct yokei_audit_entry *e = &a->entries[i];
        bool differs = false;
        for (end = i + 1; end < all && a->entries[end].key == e->key && a->entries[end].tensor == e->tensor;
             end++)
            differs = differs || a->entries[end].hash != e->hash;
        if (!e->key || !differs) continue;
        if (!n_differ++) first = e, n_first = end - i;
    }
    return n_differ ? differ(a, first, n_first, n_differ) : YOKE_OK;
}
