/* SPDX-License-Identifier: Apache-2.0 */
#include "train/checkpoint/dealing.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

/*
 * The numbers that a rank sends for each parameter. REPORT_PART: 0 for nothing, 1 for the whole, otherwise a
 * number that is equal for equal parts. REPORT_COUNT: the number of elements.
 */
enum { REPORT_PART, REPORT_COUNT, N_REPORT };

/*
 * If replicas divide their moments, each replica has a slice of its part. It then also contributes only this
 * slice of the weights.
 */
static struct yoke_range slice_of(const struct yoke_trainer *t, int local)
{
    return t->plan.state.is_divided
               ? t->plan.state.slot[local].own
               : (struct yoke_range){ 0, yokei_local_count(&t->plan.parameters.item[local]) };
}

static double part_of(const struct yoke_parameter *p, struct yoke_range slice)
{
    uint64_t hash = 0;
    if (yokei_is_empty(slice)) return 0;
    if (slice.end - slice.begin == yokei_logical_count(p)) return 1;
    if (slice.end - slice.begin < yokei_local_count(p))
        hash = yokei_hash((int64_t[]){ slice.begin, slice.end }, 2 * sizeof(int64_t), hash);
    for (int d = 0; d < p->n_dims; d++) {
        hash = yokei_hash(&p->shard[d].n, sizeof p->shard[d].n, hash);
        for (int i = 0; i < p->shard[d].n; i++)
            hash = yokei_hash((int64_t[]){ p->shard[d].range[i].begin, p->shard[d].range[i].end },
                              2 * sizeof(int64_t), hash);
    }
    return (double)(2 + (hash >> 12)); /* below 2^53, so exact */
}

static void pack(const struct yokei_dealing *l, double *report)
{
    const struct yoke_trainer *t = l->trainer;
    for (int i = 0; i < l->n_items; i++) {
        const struct yoke_parameter *whole = &t->plan.logical.item[i];
        int local = yokei_parameter_find(&t->plan.parameters, whole->name);
        l->items[i] = (struct yokei_save_item){ .parameter = whole, .local = local };
        /*
         * If the first and the last stage share a parameter in different pieces, the pieces of the first
         * stage are saved.
         */
        if (local < 0 || (t->plan.n_ties && t->plan.tied[local] && t->plan.mesh.s > 0)) continue;
        const struct yoke_range slice = slice_of(t, local);
        report[i * N_REPORT + REPORT_PART] = part_of(&t->plan.parameters.item[local], slice);
        report[i * N_REPORT + REPORT_COUNT] = (double)(slice.end - slice.begin);
    }
}

/* Whether no rank before r has the same part. */
static bool is_first(const double *all, int n, int i, int r)
{
    const double mine = all[((size_t)r * (size_t)n + (size_t)i) * N_REPORT + REPORT_PART];
    for (int q = 0; q < r; q++)
        if (all[((size_t)q * (size_t)n + (size_t)i) * N_REPORT + REPORT_PART] == mine) return false;
    return mine > 0;
}

/* Decide how one tensor is saved. `load` is the number of elements that each rank writes so far. */
static yoke_status settle(struct yokei_dealing *l, const double *all, int i, double *load)
{
    const struct yoke_trainer *t = l->trainer;
    struct yokei_save_item *item = &l->items[i];
    const int64_t count = yokei_logical_count(item->parameter);
    int whole = -1, part = -1;
    double covered = 0;
    for (int r = 0; r < t->plan.n_ranks; r++) {
        const double *report = all + ((size_t)r * (size_t)l->n_items + (size_t)i) * N_REPORT;
        if (report[REPORT_PART] == 1 && (whole < 0 || load[r] < load[whole])) whole = r;
        if (report[REPORT_PART] > 0 && (part < 0 || load[r] < load[part])) part = r;
        if (is_first(all, l->n_items, i, r)) covered += report[REPORT_COUNT];
    }
    item->spread = whole < 0;
    item->owner = item->spread ? part : whole;
    item->contributes = item->spread && is_first(all, l->n_items, i, t->plan.rank);
    if (item->owner < 0 || (item->spread && covered != (double)count))
        return yoke_fail(YOKE_EINTERNAL, "saving %s: all ranks together hold %.0f of its %lld elements",
                         item->parameter->name, covered, (long long)count);
    load[item->owner] += (double)count;
    return YOKE_OK;
}

/* Long tensors come first, so that the shards get about the same length. */
static yoke_status deal(struct yokei_dealing *l, const double *all)
{
    double *load = calloc((size_t)l->trainer->plan.n_ranks, sizeof *load);
    bool *done = calloc((size_t)l->n_items + 1, sizeof *done);
    yoke_status status = load && done ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "saving: no host memory");
    for (int k = 0; k < l->n_items && !status; k++) {
        int longest = -1;
        for (int i = 0; i < l->n_items; i++)
            if (!done[i]
                && (longest < 0
                    || yokei_logical_count(l->items[i].parameter)
                           > yokei_logical_count(l->items[longest].parameter)))
                longest = i;
        done[longest] = true;
        status = settle(l, all, longest, load);
    }
    free(load);
    free(done);
    return status;
}

yoke_status yokei_dealing_create(yoke_trainer *t, struct yokei_dealing *dealing_out)
{
    struct yokei_dealing l = { .trainer = t, .n_items = t->plan.logical.n };
    size_t n = (size_t)l.n_items;
    double *report = calloc(n * N_REPORT + 1, sizeof *report),
           *all = calloc(n * N_REPORT * (size_t)t->plan.n_ranks + 1, sizeof *all);
    l.items = calloc(n + 1, sizeof *l.items);
    yoke_status status = report && all && l.items ? YOKE_OK
                                                  : yoke_fail(YOKE_ENOMEM, "saving: no host memory");
    if (!status) {
        pack(&l, report);
        status = yokei_ranks_gather(&t->config, report, (int)n * N_REPORT, all);
    }
    if (!status) status = deal(&l, all);
    free(report);
    free(all);
    bool spread = false;
    for (size_t i = 0; i < n && !status; i++) spread = spread || l.items[i].spread;
    if (!status && spread && !(l.mine = malloc(YOKEI_PIECE * sizeof *l.mine)))
        status = yoke_fail(YOKE_ENOMEM, "saving: no host memory");
    if (status)
        yokei_dealing_free(&l);
    else
        *dealing_out = l;
    return status;
}

void yokei_dealing_free(struct yokei_dealing *l)
{
    free(l->items);
    free(l->mine);
    memset(l, 0, sizeof *l);
}

/* ---- pieces of whole tensors ---- */

struct cut {
    yoke_trainer *trainer;
    enum yoke_tensor_kind kind;
    int local;
    /* range of the part that this rank holds; no other rank contributes these elements */
    struct yoke_range slice;
    int64_t first, n; /* the requested window of the whole tensor */
    float *out;
    yoke_status status;
};

static void cut_run(void *context, int64_t logical, int64_t local, int64_t n)
{
    struct cut *c = context;
    /* relative to the run */
    const int64_t from = YOKE_MAX(local, c->slice.begin) - local,
                  to = YOKE_MIN(local + n, c->slice.end) - local;
    const int64_t begin = YOKE_MAX(logical + from, c->first), end = YOKE_MIN(logical + to, c->first + c->n);
    if (begin >= end || c->status) return;
    c->status = yokei_trainer_get_piece(c->trainer, c->kind, c->local, local + begin - logical, end - begin,
                                        c->out + (begin - c->first));
}

yoke_status yokei_dealing_get(void *dealing, const struct yokei_save_item *item, enum yoke_tensor_kind kind,
                              int64_t first, int64_t n, float *out)
{
    struct yokei_dealing *l = dealing;
    if (!item->spread) return yokei_trainer_get_piece(l->trainer, kind, item->local, first, n, out);
    struct cut cut = {
        .trainer = l->trainer, .kind = kind, .local = item->local, .first = first, .n = n, .out = l->mine
    };
    memset(l->mine, 0, (size_t)n * sizeof *l->mine);
    if (item->contributes) cut.slice = slice_of(l->trainer, item->local);
    if (item->contributes) yokei_shard_runs(&l->trainer->plan.parameters.item[item->local], cut_run, &cut);
    YOKE_TRY(cut.status);
    return yokei_ranks_join(&l->trainer->config, l->mine, n, item->owner, out);
}

yoke_status yokei_dealing_agree(void *dealing, yoke_status mine)
{
    struct yokei_dealing *l = dealing;
    return yokei_ranks_all_well(&l->trainer->config, mine);
}

/* ---- loading ---- */

/* Collects the elements that this rank holds, in their order, until a piece is full. */
struct pour {
    yoke_trainer *trainer;
    enum yoke_tensor_kind kind;
    int local;
    const struct yokei_tensor *tensor;
    /* range of the part that this rank holds; replicas may keep only a slice of the moments */
    struct yoke_range wanted;
    float *piece;
    int64_t first, n; /* the destination of the piece, and the number of its elements so far */
    yoke_status status;
};

static void flush(struct pour *p)
{
    if (p->n && !p->status)
        p->status = yokei_trainer_set_piece(p->trainer, p->kind, p->local, p->first, p->n, p->piece);
    p->first += p->n;
    p->n = 0;
}

static void pour_run(void *context, int64_t logical, int64_t local, int64_t n)
{
    struct pour *p = context;
    const int64_t end = YOKE_MIN(local + n, p->wanted.end)
                        - local; /* runs are in the order of the rank's part */
    for (int64_t done = YOKE_MAX(p->wanted.begin - local, 0); done < end && !p->status;) {
        const int64_t some = YOKE_MIN(end - done, YOKEI_PIECE - p->n);
        p->status = yokei_tensor_piece(p->tensor, logical + done, some, YOKE_F32, p->piece + p->n);
        p->n += some;
        done += some;
        if (p->n == YOKEI_PIECE) flush(p);
    }
}

yoke_status yokei_checkpoint_load(const struct yokei_checkpoint *checkpoint, yoke_trainer *t)
{
    static const enum yoke_tensor_kind kinds[] = { YOKE_TENSOR_WEIGHT, YOKE_TENSOR_MOMENT1,
                                                   YOKE_TENSOR_MOMENT2 };
    struct pour p = { .trainer = t, .piece = malloc(YOKEI_PIECE * sizeof *p.piece) };
    if (!p.piece) return yoke_fail(YOKE_ENOMEM, "%s: no host memory", checkpoint->path);
    for (int i = 0; i < t->plan.parameters.n && !p.status; i++) {
        const struct yoke_parameter *parameter = &t->plan.parameters.item[i];
        for (size_t k = 0; k < YOKE_COUNT(kinds) && !p.status; k++) {
            p.tensor = yokei_checkpoint_tensor(checkpoint, parameter->name, kinds[k]);
            p.kind = kinds[k];
            p.local = i;
            p.wanted = (struct yoke_range){ 0, yokei_local_count(parameter) };
            if (kinds[k] != YOKE_TENSOR_WEIGHT) p.wanted = t->plan.state.slot[i].kept;
            p.first = p.wanted.begin;
            p.n = 0;
            if (!p.tensor
                || (int64_t)p.tensor->bytes != yokei_logical_count(parameter) * (int64_t)sizeof(float))
                p.status = yoke_fail(YOKE_EDATA,
                                     "%s: tensor %s%s is not there in the size that the run needs",
                                     checkpoint->path, parameter->name, yokei_saved_suffix(kinds[k]));
            else
                yokei_shard_runs(parameter, pour_run, &p);
            flush(&p);
        }
    }
    free(p.piece);
    return p.status;
}
