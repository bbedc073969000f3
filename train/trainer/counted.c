/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of programs that nothing runs. See counted.h. */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer/key.h"
#include "train/trainer/trainer.h"

/* A list that grows by doubling, as lowering lets it grow. */
static size_t capacity_of(int64_t n)
{
    int64_t capacity = n ? 256 : 0;
    while (capacity < n) capacity *= 2;
    return (size_t)capacity;
}

size_t yokei_counted_host(const struct yokei_counted_program *p)
{
    return capacity_of(p->n_instructions) * sizeof(struct yokei_instruction)
           + capacity_of(p->n_buffers) * sizeof(struct yokei_buffer)
           + capacity_of(p->n_issued) * sizeof(struct yokei_op)
           + (size_t)p->n_micro_batches * sizeof(struct yokei_micro_batch)
           + (size_t)p->n_zeroed * sizeof(struct yokei_piece);
}

/* ---- the passes ---- */

struct counted {
    struct yokei_key key;
    struct yokei_counted counts;
};

static int compare(const void *a, const void *b)
{
    return yokei_key_compare(&((const struct counted *)a)->key, &((const struct counted *)b)->key);
}

static void free_counted(void *at)
{
    struct counted *counted = at;
    yokei_key_free(&counted->key);
    free(counted->counts.call);
    free(counted->counts.op);
    free(counted);
}

void yokei_counted_free(void **tree)
{
    tdestroy(*tree, free_counted);
    *tree = NULL;
}

/* A list without the room behind its n elements of some bytes. A search keeps thousands of these lists. */
static void *trimmed(void *list, int n, size_t bytes)
{
    void *smaller = n ? realloc(list, (size_t)n * bytes) : NULL;
    return smaller ? smaller : list;
}

static yoke_status no_memory(void) { return yoke_fail(YOKE_ENOMEM, "trainer: no host memory to count ops"); }

/* Everything on which the counts depend. */
static yoke_status put_all(struct yokei_key *key, const struct yoke_trainer_config *c,
                           const struct yokei_schedule_order *o, const struct yokei_trainer_plan *p)
{
    const struct yokei_job *job = &p->train_job;
    const struct yokei_parameters *ps = job->parameters;
    const int64_t numbers[] = { c->precision,
                                job->T,
                                job->n_sequences,
                                job->micro_batch,
                                c->sequence_parallel,
                                job->place.tensor_size,
                                o->n_micro_batches,
                                o->n_chunks,
                                o->warm_up,
                                o->lag,
                                o->sends_early,
                                o->is_first,
                                o->is_last,
                                o->recomputes,
                                o->group };
    yokei_key_put(key, &job->device, sizeof job->device);
    yokei_key_put(key, numbers, sizeof numbers);
    /* the length of the segments depends on all ranks of a tensor group */
    yokei_key_list(key, p->tensor_shares, p->n_tensor_shares);
    yokei_key_number(key, p->tensor_shares ? p->mesh.s : -1);
    yokei_key_number(key, p->tensor_shares ? p->mesh.t : -1);
    for (int k = 0; k < job->n_chunks; k++) {
        yokei_key_number(key, job->chunk[k].first > 0);
        yokei_key_number(key, job->chunk[k].end < job->n_layers);
        /* layers of the rank may share parameters, whose first W may overwrite the gradient */
        for (int l = job->chunk[k].first; l < job->chunk[k].end; l++)
            for (int i = 0; i < ps->n_of_layer[l]; i++) yokei_key_number(key, ps->of_layer[l][i]);
    }
    YOKE_TRY(yokei_key_layers(key, job, &job->place, c->precision));
    return key->failed ? no_memory() : YOKE_OK;
}

static yoke_status size_of(const struct yokei_program *p, struct yokei_counted_program *out)
{
    *out = (struct yokei_counted_program){ .bytes = p->bytes,
                                           .scratch_bytes = p->planner.scratch_bytes,
                                           .n_instructions = p->n,
                                           .n_buffers = p->n_buffers,
                                           .n_issued = p->n_issued,
                                           .n_micro_batches = p->n_micro_batches };
    return yokei_program_parts(p, &out->parts);
}

/* The chunk that has a layer. */
static int chunk_of(const struct yokei_job *job, int layer)
{
    int k = 0;
    while (k + 1 < job->n_chunks && (layer < job->chunk[k].first || layer >= job->chunk[k].end)) k++;
    return k;
}

static bool same_ops(const struct yokei_counted *c, const struct yokei_counted_call *a,
                     const struct yokei_counted_call *b)
{
    return a->n_ops == b->n_ops
           && !memcmp(c->op + a->first_op, c->op + b->first_op, (size_t)a->n_ops * sizeof *c->op);
}

/*
 * Keep equal lists of ops once, because the layers of all blocks issue equal ops. The calls stand in the
 * order of their ops, so what is kept moves towards the beginning.
 */
static void share_ops(struct yokei_counted *c)
{
    int kept = 0;
    for (int i = 0; i < c->n_calls; i++) {
        struct yokei_counted_call *call = &c->call[i];
        int like = 0;
        while (like < i && !same_ops(c, &c->call[like], call)) like++;
        if (like < i) {
            call->first_op = c->call[like].first_op;
            continue;
        }
        memmove(c->op + kept, c->op + call->first_op, (size_t)call->n_ops * sizeof *c->op);
        call->first_op = kept;
        kept += call->n_ops;
    }
    c->n_ops = kept;
}

/*
 * Collect the calls of a program. Calls that issue the same ops refer to the same place of the list of ops.
 */
static yoke_status collect_calls(const struct yokei_job *job, struct yokei_program *p,
                                 struct yokei_counted *out)
{
    int *call_of = malloc(((size_t)p->planner.n_ops + 1)
                          * sizeof *call_of); /* [ops] -1: no call begins there */
    out->call = malloc(((size_t)p->planner.n_ops + 1) * sizeof *out->call);
    if (!call_of || !out->call) {
        free(call_of);
        return no_memory();
    }
    memset(call_of, 0xff, ((size_t)p->planner.n_ops + 1) * sizeof *call_of);
    for (int n = 0; n < p->n; n++) {
        const struct yokei_instruction *i = &p->instruction[n];
        if (i->layer < 0 || !i->n_ops) continue;
        for (int o = i->first_op; o < i->first_op + i->n_ops; o++) {
            out->flops += p->planner.ops[o].flops;
            if (i->recomputes) out->recomputed += p->planner.ops[o].flops;
        }
        if (call_of[i->first_op] < 0) {
            const int chunk = chunk_of(job, i->layer);
            call_of[i->first_op] = out->n_calls;
            out->call[out->n_calls++] = (struct yokei_counted_call){ .chunk = chunk,
                                                                     .layer = i->layer
                                                                              - job->chunk[chunk].first,
                                                                     .kind = i->kind,
                                                                     .first_op = i->first_op,
                                                                     .n_ops = i->n_ops };
        }
        struct yokei_counted_call *call = &out->call[call_of[i->first_op]];
        if (i->recomputes)
            call->again++;
        else
            call->times++;
    }
    free(call_of);
    out->call = trimmed(out->call, out->n_calls, sizeof *out->call);
    out->op = p->planner.ops;
    p->planner.ops = NULL;
    share_ops(out);
    out->op = trimmed(out->op, out->n_ops, sizeof *out->op);
    return YOKE_OK;
}

static yoke_status count_train(const struct yoke_trainer_config *c, const struct yokei_pipeline *shape,
                               struct yokei_trainer_plan *p, struct yokei_counted *out)
{
    struct yokei_schedule line = { 0, NULL };
    struct yokei_program program;
    struct yokei_pipeline passes = *shape;
    passes.n_buckets = NULL;
    passes.tied = false;
    YOKE_TRY(yokei_schedule_line(&passes, p->mesh.s, &line));
    yoke_status status = yokei_choose_segment(c, &line.rank[0], p);
    if (!status) status = yokei_program_count_train(&p->train_job, &line.rank[0], &program);
    yokei_schedule_free(&line);
    YOKE_TRY(status);
    status = size_of(&program, &out->program[YOKEI_COUNTED_TRAIN]);
    if (!status) status = collect_calls(&p->train_job, &program, out);
    yokei_program_free(&program);
    return status;
}

static yoke_status count_evaluate(const struct yokei_job *job, struct yokei_counted_program *out)
{
    struct yokei_program program;
    YOKE_TRY(yokei_program_count_evaluate(job, &program));
    const yoke_status status = size_of(&program, out);
    yokei_program_free(&program);
    return status;
}

yoke_status yokei_count_programs(void **tree, const struct yoke_trainer_config *c,
                                 const struct yokei_schedule_order *order, const struct yokei_pipeline *shape,
                                 struct yokei_trainer_plan *p, const struct yokei_counted **counts_out)
{
    struct counted *own = calloc(1, sizeof *own);
    if (!own) return no_memory();
    yoke_status status = put_all(&own->key, c, order, p);
    struct counted *const *known = status ? NULL : tfind(own, tree, compare);
    if (known) {
        *counts_out = &(*known)->counts;
        free_counted(own);
        return YOKE_OK;
    }
    if (!status) status = count_train(c, shape, p, &own->counts);
    if (!status) status = count_evaluate(&p->evaluate_job, &own->counts.program[YOKEI_COUNTED_EVALUATE]);
    if (!status) status = count_evaluate(&p->logits_job, &own->counts.program[YOKEI_COUNTED_LOGITS]);
    if (!status) yokei_key_trim(&own->key);
    if (!status && !tsearch(own, tree, compare)) status = no_memory();
    if (status)
        free_counted(own);
    else
        *counts_out = &own->counts;
    return status;
}

/* ---- what a step does once ---- */

static int64_t elements_of(const struct yokei_trainer_plan *p, const bool *tied)
{
    int64_t n = 0;
    for (int i = 0; i < p->parameters.n; i++) {
        const struct yoke_parameter *x = &p->parameters.item[i];
        if (tied ? tied[i] : p->mesh.tensor > 1 && (x->replicated_axes & YOKE_AXIS_TENSOR))
            n += yokei_local_count(x);
    }
    return n;
}

/*
 * The bytes of masters and moments by which the replica with the largest slices exceeds this rank's replica.
 */
static size_t more_elsewhere(const struct yokei_trainer_plan *p)
{
    const struct yokei_state *s = &p->state;
    size_t own = 0, most = 0;
    for (int d = 0; d < p->mesh.data && s->is_divided; d++) {
        size_t bytes = 0;
        for (int b = 0; b < s->n_buckets; b++)
            bytes += s->bucket[b].counts[d] * yoke_dtype_bytes(s->wide) * (2 + s->bucket[b].has_copy);
        most = YOKE_MAX(most, bytes);
        if (d == p->mesh.d) own = bytes;
    }
    return most - own;
}

/* Take over the list of ops of the instructions ZERO, NORMS and STEP. */
static yoke_status take_once(const struct yokei_trainer_plan *p, struct yokei_program *program,
                             struct yokei_counted_once *out)
{
    const struct yokei_state *s = &p->state;
    *out = (struct yokei_counted_once){ .n_ops = program->planner.n_ops,
                                        .n_zeros = program->instruction[0].n_ops,
                                        .n_norms = program->instruction[1].n_ops,
                                        .op = trimmed(program->planner.ops, program->planner.n_ops,
                                                      sizeof *out->op),
                                        .n_buckets = s->n_buckets,
                                        .is_divided = s->is_divided,
                                        .has_tied = p->has_tied,
                                        .more_elsewhere = more_elsewhere(p),
                                        .n_tied = elements_of(p, p->tied),
                                        .n_replicated = elements_of(p, NULL) };
    program->planner.ops = NULL;
    out->bucket = calloc((size_t)s->n_buckets + 1, sizeof *out->bucket);
    if (!out->bucket) return no_memory();
    for (int b = 0; b < s->n_buckets; b++) {
        const struct yokei_bucket *x = &s->bucket[b];
        const int chunk = chunk_of(&p->train_job, x->layer);
        out->bucket[b] = (struct yokei_counted_bucket){ .n = x->n,
                                                        .chunk = chunk,
                                                        .layer = x->layer - p->train_job.chunk[chunk].first,
                                                        .has_copy = x->has_copy,
                                                        .sums_slices = x->sums_slices };
    }
    return YOKE_OK;
}

yoke_status yokei_count_once(const struct yokei_trainer_plan *p, struct yokei_counted_program *train,
                             struct yokei_counted_once *once_out)
{
    struct yokei_program program;
    const int n_buckets = p->state.n_buckets, last = p->mesh.pipeline - 1;
    const bool ties = p->has_tied && last > 0 && (p->mesh.s == 0 || p->mesh.s == last);
    yoke_status status = yokei_program_once(&p->train_job, &program);
    if (status) {
        yokei_program_free(&program);
        return status;
    }
    train->n_instructions += (p->mesh.data > 1 ? n_buckets : 0) + ties + (p->place.tensor_size > 1)
                             + 2 /* NORMS and AGREE */ + n_buckets * (1 + p->state.is_divided);
    train->n_issued += program.n_issued;
    train->n_zeroed += program.n_zeroed;
    train->scratch_bytes = YOKE_MAX(train->scratch_bytes, program.planner.scratch_bytes);
    status = take_once(p, &program, once_out);
    yokei_program_free(&program);
    if (status) yokei_counted_once_free(once_out);
    return status;
}
