/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ops that the instructions of a program issue, and the gradients that need not be set to 0. Lowering
 * calls these functions when all instructions are known.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/program.h"

enum { NONE = -1 };

/* Whether both have a buffer there, or both have none. */
static bool both_or_none(int a, int b) { return (a == NONE) == (b == NONE); }

/* Whether two calls of the same kind and layer issue the same ops: they differ in addresses only. */
static bool issue_alike(const struct yokei_program *p, const struct yokei_instruction *a,
                        const struct yokei_instruction *b)
{
    bool alike = p->micro_batch[a->micro_batch].B == p->micro_batch[b->micro_batch].B && a->fresh == b->fresh
                 && both_or_none(a->x, b->x) && both_or_none(a->y, b->y) && both_or_none(a->dy, b->dy)
                 && both_or_none(a->dx, b->dx) && both_or_none(a->workspace, b->workspace);
    for (int k = 0; k < YOKE_N_STASHES; k++) alike = alike && both_or_none(a->stash[k], b->stash[k]);
    return alike;
}

/*
 * The calls of layers that have listed their ops. The calls of one layer and one kind form a list. A list is
 * short, because only two things make calls of a kind differ: a micro-batch may be smaller than the others,
 * and the first W may overwrite gradients.
 */
struct asked {
    int *head; /* [n_layers][N_CALLS] the newest instruction of the list; -1: none */
    int *next; /* [n] the instruction that comes after this one in its list; -1: none */
};
enum { N_CALLS = YOKEI_BACKWARD_WEIGHT - YOKEI_FORWARD + 1 };

static int *list_of(const struct asked *asked, const struct yokei_instruction *i)
{
    return &asked->head[i->layer * N_CALLS + (int)(i->kind - YOKEI_FORWARD)];
}

/* Ask an instruction which ops it would issue, unless an instruction like it has been asked. */
static yoke_status plan_instruction(const struct yokei_machine *machine, struct yokei_program *p, int n,
                                    struct asked *asked)
{
    struct yokei_instruction *i = &p->instruction[n];
    i->first_op = p->planner.n_ops;
    if (i->layer == NONE) {
        YOKE_TRY(yokei_run(machine, n, n + 1));
    } else {
        int like = *list_of(asked, i);
        while (like >= 0 && !issue_alike(p, i, &p->instruction[like])) like = asked->next[like];
        if (like >= 0) {
            i->n_ops = p->instruction[like].n_ops;
            p->n_issued += i->n_ops;
            if (p->is_counted) {
                i->first_op = p->instruction[like].first_op;
                return YOKE_OK;
            }
            return yokei_observer_repeat(&p->planner, p->instruction[like].first_op, i->n_ops);
        }
        YOKE_TRY(yokei_run(machine, n, n + 1));
        asked->next[n] = *list_of(asked, i);
        *list_of(asked, i) = n;
    }
    i->n_ops = p->planner.n_ops - i->first_op;
    p->n_issued += i->n_ops;
    return YOKE_OK;
}

/* Find out which ops each instruction issues and what they cost, and whether the device offers them. */
yoke_status yokei_list_ops(const struct yokei_job *job, struct yokei_program *p)
{
    const size_t lists = (size_t)job->n_layers * N_CALLS, n = (size_t)p->n + 1;
    struct asked asked = { malloc((lists + 1) * sizeof *asked.head), malloc(n * sizeof *asked.next) };
    /* Nothing reads at this address. But an optional operand must already look as present as it will be. */
    struct yokei_machine machine = {
        .job = job, .program = p, .observer = &p->planner, .base = (void *)(uintptr_t)4096
    };
    machine.pass = (struct yoke_pass){
        .size = sizeof machine.pass, .mode = p->mode, .normaliser = 1, .loss_scale = 1
    };
    machine.adamw = (struct yokei_adamw){ 0, 0.9, 0.95, 1e-8, 0, 1, 1 };
    yoke_status status = asked.head && asked.next
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d instructions",
                                         p->n);
    for (size_t k = 0; k < lists && !status; k++) asked.head[k] = NONE;
    for (int i = 0; i < p->n && !status; i++) status = plan_instruction(&machine, p, i, &asked);
    free(asked.head);
    free(asked.next);
    return status;
}

/*
 * The first W of a gradient overwrites it, if the layer can do so. Then the gradient need not be set to 0 and
 * read again. `begun` notes each gradient that has had a W, so only the first W in the list counts.
 */
static void note_fresh(const struct yokei_job *job, struct yokei_program *p, bool *begun, bool *written)
{
    struct yoke_parameter parameter;
    for (int n = 0; n < p->n; n++) {
        struct yokei_instruction *i = &p->instruction[n];
        const yoke_layer *layer = i->kind == YOKEI_BACKWARD_WEIGHT ? job->layers[i->layer] : NULL;
        for (int k = 0; layer && k < job->parameters->n_of_layer[i->layer]; k++) {
            const int index = job->parameters->of_layer[i->layer][k];
            const bool first = !begun[index];
            begun[index] = true;
            if (!first || !layer->type->parameter(layer, &job->place, k, &parameter) || !parameter.overwrites)
                continue;
            i->fresh |= UINT32_C(1) << k;
            written[index] = true;
        }
    }
}

/* Note a piece that must be set to 0. It continues the last one if it lies directly behind it. */
static void note_piece(struct yokei_program *p, size_t begin, size_t end)
{
    struct yokei_piece *last = p->n_zeroed ? &p->zeroed[p->n_zeroed - 1] : NULL;
    if (end <= begin) return;
    if (last && last->offset + last->bytes == begin)
        last->bytes += end - begin;
    else
        p->zeroed[p->n_zeroed++] = (struct yokei_piece){ begin, end - begin };
}

/*
 * Note the memory that must be set to 0: everything between gradients that are overwritten, padding included.
 * Between two buckets there may be a red zone, which nobody may touch.
 */
yoke_status yokei_note_zeroed(const struct yokei_job *job, struct yokei_program *p)
{
    const struct yokei_state *s = job->state;
    const size_t wide = yoke_dtype_bytes(s->wide);
    bool *begun = calloc((size_t)s->n + 1, sizeof *begun),
         *written = calloc((size_t)s->n + 1, sizeof *written);
    p->zeroed = malloc(((size_t)s->n + (size_t)s->n_buckets + 1) * sizeof *p->zeroed);
    yoke_status status = begun && written && p->zeroed
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d gradients", s->n);
    if (!status) note_fresh(job, p, begun, written);
    /* the gradients' places belong to the state, on which a counted program does not depend */
    for (int b = 0; b < s->n_buckets && !status && !p->is_counted; b++) {
        size_t at = s->bucket[b].gradient;
        for (int k = s->bucket[b].first; k < s->bucket[b].end; k++) {
            const struct yokei_slot *slot = &s->slot[s->order[k]];
            if (!written[s->order[k]]) continue;
            note_piece(p, at, slot->gradient);
            at = slot->gradient + (size_t)slot->n * wide;
        }
        note_piece(p, at, s->bucket[b].gradient + (size_t)s->bucket[b].n * wide);
    }
    free(begun);
    free(written);
    return status;
}

yoke_status yokei_program_once(const struct yokei_job *job, struct yokei_program *p)
{
    const int n_buckets = job->state->n_buckets, most = YOKE_MAX(job->n_layers, n_buckets + 2);
    *p = (struct yokei_program){
        .mode = YOKE_TRAIN, .dtype = job->state->dtype, .T = job->T, .output = NONE
    };
    p->instruction = calloc((size_t)most + 1, sizeof *p->instruction);
    if (!p->instruction)
        return yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d instructions", most);
    for (int c = YOKE_MAX(job->n_chunks, 1) - 1; c >= 0; c--) { /* each layer's first W, in their order */
        const struct yokei_chunk all = { 0, job->n_layers }, *chunk = job->n_chunks ? &job->chunk[c] : &all;
        for (int l = chunk->end - 1; l >= chunk->first; l--)
            if (job->layers[l]->type->backward_weight)
                p->instruction[p->n++] = (struct yokei_instruction){ .kind = YOKEI_BACKWARD_WEIGHT,
                                                                     .layer = l };
    }
    yoke_status status = yokei_note_zeroed(job, p);
    p->n = 0;
    p->instruction[p->n++] = (struct yokei_instruction){ .kind = YOKEI_ZERO, .layer = NONE };
    p->instruction[p->n++] = (struct yokei_instruction){ .kind = YOKEI_NORMS, .layer = NONE };
    for (int b = 0; b < n_buckets; b++)
        p->instruction[p->n++] = (struct yokei_instruction){ .kind = YOKEI_STEP, .layer = NONE, .bucket = b };
    return status ? status : yokei_list_ops(job, p);
}
