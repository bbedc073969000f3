/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks are alike. Everything on which a rank's plan depends is written into a key, and ranks with
 * equal keys are planned once. A key has some 7 KB, and a search keeps a hundred thousand ranks. So of each
 * key only its length and two hashes of 64 bits with different seeds are kept. The probability that any two
 * of a million different keys agree in these is below 1e-26.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/models/model.h"
#include "train/trainer/key.h"
#include "train/trainer/planned.h"

static void count_work(const struct yokei_program *p, struct yokei_planned *out)
{
    for (int i = 0; i < p->n; i++) {
        const struct yokei_instruction *in = &p->instruction[i];
        if (in->kind != YOKEI_FORWARD && in->kind != YOKEI_BACKWARD_INPUT
            && in->kind != YOKEI_BACKWARD_WEIGHT)
            continue;
        for (int o = in->first_op; o < in->first_op + in->n_ops; o++) {
            out->flops += p->planner.ops[o].flops;
            if (in->recomputes) out->recomputed += p->planner.ops[o].flops;
        }
    }
}

void yokei_planned_of(const struct yokei_trainer_plan *p, struct yokei_planned *out)
{
    *out = (struct yokei_planned){ .report = p->report,
                                   .samples = p->shares[p->mesh.d],
                                   .micro_batch = p->micro_batch,
                                   .n_micro_batches = p->train.n_micro_batches,
                                   .divided = p->state.divided_bytes,
                                   .undivided = p->state.undivided_bytes };
    for (int i = 0; i < p->parameters.n; i++) out->n_elements += yokei_local_count(&p->parameters.item[i]);
    if (p->counts) {
        out->n_micro_batches = (int)p->counts->program[YOKEI_COUNTED_TRAIN].n_micro_batches;
        out->counts = p->counts;
        out->flops = p->counts->flops;
        out->recomputed = p->counts->recomputed;
    } else {
        count_work(&p->train, out);
    }
}

/*
 * Two kinds of keys. A key of layers has the layers of the rank, so ranks of several stages or configurations
 * may have the same key. A key of numbers has the place of the rank, and is computed faster.
 */
enum kind { LAYERS, NUMBERS };

/* Put what both kinds of keys have. */
static void put_config(struct yokei_key *k, enum kind kind, const yoke_model *model,
                       const yoke_device *device, const struct yoke_trainer_config *c,
                       const struct yokei_trainer_plan *p)
{
    const void *const objects[] = { model, device, c->comm };
    const struct yokei_mesh *m = &p->mesh;
    const int64_t numbers[] = { kind,          c->precision,
                                c->sequence,   c->sequence_parallel,
                                c->zero,       (int64_t)c->bucket_bytes,
                                m->data,       m->pipeline,
                                m->tensor,     m->chunks,
                                m->s,          p->n_ranks,
                                p->micro_batch };
    yokei_key_put(k, objects, sizeof objects);
    yokei_key_put(k, numbers, sizeof numbers);
    yokei_key_text(k, c->pipeline_kind);
    yokei_key_text(k, c->schedule);
    yokei_key_list(k, p->shares, m->data);
    yokei_key_number(k, p->shares[m->d]);
    yokei_key_list(k, p->tensor_shares, p->n_tensor_shares);
    for (int s = 0; s < m->pipeline; s++) yokei_key_number(k, m->widths ? m->widths[s] : 0);
    /* with unequal parts each rank of a tensor group has a key of its own */
    yokei_key_number(k, m->widths || p->tensor_shares ? m->t : -1);
    if (c->schedule || (c->zero && m->data > 1)) yokei_key_number(k, m->d);
    if (c->zero && m->data > 1) yokei_key_list(k, c->zero_shares, m->data);
}

/* Put the layers that the rank holds. */
static yoke_status put_layers(struct yokei_key *k, const yoke_model *model,
                              const struct yoke_trainer_config *c, const struct yokei_trainer_plan *p)
{
    const struct yokei_job job = { .layers = (const yoke_layer *const *)model->layer,
                                   .n_chunks = p->mesh.chunks,
                                   .chunk = p->chunk,
                                   .recomputed = p->recomputed,
                                   .T = c->sequence,
                                   .n_sequences = p->shares[p->mesh.d],
                                   .micro_batch = p->micro_batch };
    /* Layers may share parameters with layers of other stages. Where blocks are known, no two of them do. */
    for (int l = 0; l < model->n_layers && !model->per_block; l++) yokei_key_number(k, p->stage_of[l]);
    return yokei_key_layers(k, &job, &p->place, c->precision);
}

/* ---- the ranks that are known ---- */

static const uint64_t PRINT_SEED = UINT64_C(0x9e3779b97f4a7c15);

struct print {
    uint64_t n, hash[2]; /* of the key */
};
struct known {
    struct print print;
    struct yokei_planned planned;
    struct yokei_counted_once once; /* empty if the plan had programs */
};

static struct print print_of(const struct yokei_key *key)
{
    return (struct print){
        key->n, { yokei_hash(key->bytes, key->n, 0), yokei_hash(key->bytes, key->n, PRINT_SEED) }
    };
}

static int compare(const void *a, const void *b)
{
    const struct print *x = &((const struct known *)a)->print, *y = &((const struct known *)b)->print;
    if (x->hash[0] != y->hash[0]) return x->hash[0] < y->hash[0] ? -1 : 1;
    if (x->hash[1] != y->hash[1]) return x->hash[1] < y->hash[1] ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

static void free_known(void *at)
{
    struct known *known = at;
    yokei_counted_once_free(&known->once);
    free(known);
}

void yokei_planned_free(struct yokei_planned_ranks *ranks)
{
    tdestroy(ranks->known, free_known);
    yokei_segments_free(&ranks->segments);
    yokei_counted_free(&ranks->counts);
    ranks->known = NULL;
    ranks->n_planned = 0;
}

static yoke_status no_memory(int rank)
{
    return yoke_fail(YOKE_ENOMEM, "trainer: no host memory to plan rank %d", rank);
}

/* Keep the numbers of a rank under a key. The tree takes the rank's other counts if there are any. */
static yoke_status keep(struct yokei_planned_ranks *ranks, const struct yokei_key *key, int rank,
                        struct yokei_counted_once *once, struct yokei_planned *planned)
{
    struct known *known = malloc(sizeof *known);
    if (!known) return no_memory(rank);
    if (once && planned->counts) planned->once = &known->once;
    *known = (struct known){ print_of(key), *planned, once ? *once : (struct yokei_counted_once){ 0 } };
    if (!tsearch(known, &ranks->known, compare)) {
        free(known);
        return no_memory(rank);
    }
    if (once) *once = (struct yokei_counted_once){ 0 };
    return YOKE_OK;
}

static bool find(const struct yokei_planned_ranks *ranks, const struct yokei_key *key,
                 struct yokei_planned *out)
{
    const struct known wanted = { .print = print_of(key) };
    struct known *const *found = tfind(&wanted, &ranks->known, compare);
    if (found) *out = (*found)->planned;
    return found != NULL;
}

yoke_status yokei_planned_rank(struct yokei_planned_ranks *ranks, const yoke_model *model,
                               yoke_device *device, const struct yoke_trainer_config *config, int rank,
                               int n_ranks, struct yokei_trainer_plan *at, struct yokei_planned *out)
{
    struct yoke_trainer_config c = *config;
    struct yokei_key key = { NULL, 0, 0, false };
    YOKE_TRY(yokei_trainer_plan_place(model, &c, rank, n_ranks, at));
    put_config(&key, LAYERS, model, device, &c, at);
    for (int s = 0; s < at->mesh.pipeline; s++) yokei_key_number(&key, at->stage_recomputes[s]);
    yoke_status status = put_layers(&key, model, &c, at);
    if (!status && key.failed) status = no_memory(rank);
    if (status) yokei_trainer_plan_free(at);
    if (!status && !find(ranks, &key, out)) {
        at->segments = &ranks->segments;
        at->count_tree = &ranks->counts;
        status = yokei_trainer_plan_placed(model, device, &c, at);
        if (!status) {
            ranks->n_planned++;
            yokei_planned_of(at, out);
            status = keep(ranks, &key, rank, &at->once, out);
            if (status) yokei_trainer_plan_free(at);
        }
    }
    yokei_key_free(&key);
    return status;
}

yoke_status yokei_planned_numbers(struct yokei_planned_ranks *ranks, const yoke_model *model,
                                  yoke_device *device, const struct yoke_trainer_config *config, int rank,
                                  int n_ranks, struct yokei_planned *out)
{
    struct yoke_trainer_config c = *config;
    struct yokei_key key = { NULL, 0, 0, false };
    struct yokei_trainer_plan at;
    YOKE_TRY(yokei_trainer_plan_position(model, &c, rank, n_ranks, &at));
    put_config(&key, NUMBERS, model, device, &c, &at);
    yokei_key_number(&key, at.mesh.t);
    yokei_key_list(&key, c.stage_blocks, at.mesh.pipeline * at.mesh.chunks);
    yokei_key_text(&key, c.recompute);
    yokei_trainer_plan_free(&at);
    yoke_status status = key.failed ? no_memory(rank) : YOKE_OK;
    if (!status && !find(ranks, &key, out)) {
        status = yokei_planned_rank(ranks, model, device, &c, rank, n_ranks, &at, out);
        if (!status) {
            yokei_trainer_plan_free(&at);
            status = keep(ranks, &key, rank, NULL, out);
        }
    }
    yokei_key_free(&key);
    return status;
}
