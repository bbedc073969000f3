/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter runs the instructions of a step program. With a planner as observer, it only shows the
 * planner which ops the instructions would issue.
 */
#include <math.h>
#include "core/base/base.h"
#include "parallel/op_times.h"
#include "parallel/program.h"

const char *const yokei_instruction_names[YOKEI_N_INSTRUCTIONS] = { "zero",
                                                                    "F",
                                                                    "B",
                                                                    "W",
                                                                    "send activation",
                                                                    "receive activation",
                                                                    "send gradient",
                                                                    "receive gradient",
                                                                    "tied",
                                                                    "replicated",
                                                                    "reduce",
                                                                    "norms",
                                                                    "agree",
                                                                    "step",
                                                                    "gather" };

static void *at_buffer(const struct yokei_machine *k, int buffer)
{
    if (buffer < 0) return NULL;
    return yoke_at(k->base, k->job->state->bytes + k->program->buffer[buffer].offset);
}

/* A layer call that has only the fields that YOKE_CALL needs. */
static struct yoke_layer_call plain_call(const struct yokei_machine *k)
{
    return (struct yoke_layer_call){ .size = sizeof(struct yoke_layer_call),
                                     .device = k->job->device,
                                     .stream = k->stream[YOKEI_COMPUTE],
                                     .observer = k->observer };
}

static yoke_status run_layer(const struct yokei_machine *k, const struct yokei_instruction *i)
{
    const struct yokei_job *job = k->job;
    const struct yokei_state *s = job->state;
    const yoke_layer *layer = job->layers[i->layer];
    const struct yokei_micro_batch *micro = &k->program->micro_batch[i->micro_batch];
    const void *weights[YOKE_MAX_PARAMETERS] = { NULL };
    void *gradients[YOKE_MAX_PARAMETERS] = { NULL };
    struct yoke_shape shape = {
        sizeof shape, s->dtype, micro->B, job->T, k->program->mode, &job->place, yokei_red_zone(job->device)
    };
    struct yoke_pass pass = k->pass;
    size_t first_token = (size_t)(micro->first * job->T);

    pass.micro_batch = i->micro_batch;
    pass.chunk = i->chunk;
    pass.sample_offset += micro->first;
    for (int p = 0; p < job->parameters->n_of_layer[i->layer]; p++) {
        const struct yokei_slot *slot = &s->slot[job->parameters->of_layer[i->layer][p]];
        weights[p] = yoke_at(k->base, slot->weight);
        gradients[p] = i->kind == YOKEI_BACKWARD_WEIGHT ? yoke_at(k->base, slot->gradient) : NULL;
    }
    struct yoke_layer_call call = plain_call(k);
    call.pass = &pass;
    call.shape = &shape;
    call.weights = weights;
    call.gradients = gradients;
    call.fresh = i->fresh;
    call.tokens = yoke_at(k->base, s->tokens + first_token * sizeof(int32_t));
    call.targets = yoke_at(k->base, s->targets + first_token * sizeof(int32_t));
    call.tensor = k->tensor;
    call.losses = yoke_at(k->base, s->losses + first_token * yoke_dtype_bytes(s->wide));
    call.x = at_buffer(k, i->x);
    call.y = at_buffer(k, i->y);
    call.dy = at_buffer(k, i->dy);
    call.dx = at_buffer(k, i->dx);
    for (int part = 0; part < YOKE_N_STASHES; part++) call.stash[part] = at_buffer(k, i->stash[part]);
    call.workspace = at_buffer(k, i->workspace);
    if (i->kind == YOKEI_BACKWARD_INPUT) return layer->type->backward_input(layer, &call);
    if (i->kind == YOKEI_BACKWARD_WEIGHT) return layer->type->backward_weight(layer, &call);
    YOKE_TRY(layer->type->forward(layer, &call));
    return k->after && call.y && !i->recomputes ? k->after(k->context, i, &call) : YOKE_OK;
}

/*
 * Whether this rank's elements of the bucket's next parameter lie directly behind those of this parameter,
 * and a new block of the norm begins between them.
 */
static bool goes_on(const struct yokei_bucket *b, const struct yokei_slot *slot,
                    const struct yokei_slot *next)
{
    return !yokei_is_empty(slot->own) && slot->own.end == slot->n && slot->n % b->norm_block == 0
           && !yokei_is_empty(next->own) && next->own.begin == 0 && next->at == slot->at + slot->n;
}

/*
 * Sums of squares for this rank's slice of a bucket. One call covers several parameters if each one's
 * elements begin a new block.
 */
static yoke_status norms_of(const struct yokei_machine *k, const struct yokei_bucket *b)
{
    const struct yokei_state *s = k->job->state;
    struct yoke_layer_call call = plain_call(k);
    for (int i = b->first, next; i < b->end; i = next) {
        const struct yokei_slot *first = &s->slot[s->order[i]], *last = first;
        for (next = i + 1; next < b->end && goes_on(b, last, &s->slot[s->order[next]]); next++)
            last = &s->slot[s->order[next]];
        if (yokei_is_empty(first->own)) continue;
        YOKE_TRY(YOKE_CALL(
            &call, grad_norm, .dtype = s->wide, .n = last->at + last->own.end - first->at - first->own.begin,
            .block = b->norm_block,
            .grad = yoke_at(k->base, first->gradient + (size_t)first->own.begin * yoke_dtype_bytes(s->wide)),
            .scale = 1.0f / k->pass.loss_scale, .out = yoke_at(k->base, first->norms)));
    }
    return YOKE_OK;
}

static yoke_status run_norms(const struct yokei_machine *k)
{
    for (int b = 0; b < k->job->state->n_buckets; b++) YOKE_TRY(norms_of(k, &k->job->state->bucket[b]));
    return YOKE_OK;
}

/* AdamW on elements [begin, end) of a bucket. This rank must keep the moments of these elements. */
static yoke_status step_range(const struct yokei_machine *k, int bucket, int64_t begin, int64_t end,
                              bool decays)
{
    const struct yokei_state *s = k->job->state;
    const struct yokei_bucket *b = &s->bucket[bucket];
    const struct yokei_adamw *a = &k->adamw;
    const size_t wide = yoke_dtype_bytes(s->wide), first = (size_t)begin,
                 kept = (size_t)(begin - b->kept.begin) * wide;
    struct yoke_layer_call call = plain_call(k);
    return YOKE_CALL(&call, adamw, .dtype = s->wide, .copy_dtype = s->dtype, .n = end - begin,
                     .w = yoke_at(k->base, b->has_copy ? b->master + kept : b->weight + first * wide),
                     .m = yoke_at(k->base, b->moment1 + kept), .v = yoke_at(k->base, b->moment2 + kept),
                     .grad = yoke_at(k->base, b->gradient + first * wide),
                     .copy = b->has_copy ? yoke_at(k->base, b->weight + first * yoke_dtype_bytes(s->dtype))
                                         : NULL,
                     .lr = (float)a->learning_rate, .beta1 = (float)a->beta1, .beta2 = (float)a->beta2,
                     .eps = (float)a->eps, .weight_decay = decays ? (float)a->weight_decay : 0.0f,
                     .grad_scale = (float)a->gradient_scale, .step = a->step);
}

/*
 * AdamW on the part of a bucket whose moments this rank keeps. Parameters with the same weight decay that lie
 * side by side share one call. The padding between them is 0 and stays 0.
 */
static yoke_status step_bucket(const struct yokei_machine *k, int bucket)
{
    const struct yokei_state *s = k->job->state;
    const struct yokei_bucket *b = &s->bucket[bucket];
    const struct yoke_parameter *item = k->job->parameters->item;
    for (int i = b->first, next; i < b->end; i = next) {
        const struct yokei_slot *first = &s->slot[s->order[i]];
        for (next = i + 1; next < b->end && item[s->order[next]].decay == item[s->order[i]].decay; next++)
            continue;
        const struct yokei_slot *last = &s->slot[s->order[next - 1]];
        const int64_t begin = YOKE_MAX(first->at, b->kept.begin),
                      end = YOKE_MIN(last->at + last->n, b->kept.end);
        if (begin < end) YOKE_TRY(step_range(k, bucket, begin, end, item[s->order[i]].decay));
    }
    return YOKE_OK;
}

/*
 * Send or receive the activations or the gradient at the border of two stages. The data are rows of a
 * micro-batch; a rank may hold only some of the rows.
 */
static yoke_status run_message(const struct yokei_machine *k, const struct yokei_instruction *i)
{
    const struct yokei_job *job = k->job;
    const struct yokei_chunk all = { 0, job->n_layers },
                             *chunk = job->n_chunks ? &job->chunk[i->chunk] : &all;
    const bool before = i->kind == YOKEI_RECEIVE_ACTIVATION || i->kind == YOKEI_SEND_GRADIENT;
    const int buffer = i->kind == YOKEI_SEND_ACTIVATION || i->kind == YOKEI_SEND_GRADIENT ? i->x : i->y;
    const int64_t n_rows = k->program->micro_batch[i->micro_batch].B * job->T;
    return k->message(k->context, i->kind, at_buffer(k, buffer), n_rows,
                      job->layers[before ? chunk->first - 1 : chunk->end - 1]->out, k->stream[i->stream],
                      k->event[i->record]);
}

static yoke_status run_zero(const struct yokei_machine *k)
{
    const struct yokei_program *p = k->program;
    const struct yoke_layer_call call = plain_call(k);
    for (int i = 0; i < p->n_zeroed; i++)
        YOKE_TRY(yoke_call_zero(&call, yoke_at(k->base, p->zeroed[i].offset), p->zeroed[i].bytes));
    return YOKE_OK;
}

static yoke_status run_one(const struct yokei_machine *k, const struct yokei_instruction *i)
{
    bool runs = !k->observer || k->observer->runs;
    switch (i->kind) {
    case YOKEI_ZERO: return run_zero(k);
    case YOKEI_FORWARD:
    case YOKEI_BACKWARD_INPUT:
    case YOKEI_BACKWARD_WEIGHT:
        return runs && k->slow > 1 ? yokei_run_slowly(k, i, run_layer) : run_layer(k, i);
    case YOKEI_SEND_ACTIVATION:
    case YOKEI_RECEIVE_ACTIVATION:
    case YOKEI_SEND_GRADIENT:
    case YOKEI_RECEIVE_GRADIENT: return runs ? run_message(k, i) : YOKE_OK;
    case YOKEI_REPLICATED:
        return runs && k->replicated ? k->replicated(k->context, k->stream[i->stream]) : YOKE_OK;
    case YOKEI_TIED: return runs && k->tied ? k->tied(k->context, k->stream[i->stream]) : YOKE_OK;
    case YOKEI_REDUCE:
        return runs && k->reduce ? k->reduce(k->context, i->bucket, k->stream[i->stream], k->event[i->record])
                                 : YOKE_OK;
    case YOKEI_GATHER:
        return runs && k->gather ? k->gather(k->context, i->bucket, k->stream[i->stream]) : YOKE_OK;
    case YOKEI_NORMS: return run_norms(k);
    case YOKEI_AGREE: return runs && k->agree ? k->agree(k->context) : YOKE_OK;
    case YOKEI_STEP: return step_bucket(k, i->bucket);
    case YOKEI_N_INSTRUCTIONS: break;
    }
    return yoke_fail(YOKE_EINTERNAL, "step program: instruction of kind %d", (int)i->kind);
}

static yoke_status wait_for_events(const struct yokei_machine *k, const struct yokei_instruction *i)
{
    for (int s = 0; s < YOKEI_N_STREAMS; s++)
        if (i->wait[s] >= 0) YOKE_TRY(yoke_stream_wait(k->stream[i->stream], k->event[i->wait[s]]));
    return YOKE_OK;
}

yoke_status yokei_run(const struct yokei_machine *k, int from, int to)
{
    const bool events = k->event != NULL, annotates = events && yokei_annotates(k->job->device);
    if (k->record) yokei_record_resume(k->record);
    for (int n = from; n < to; n++) {
        const struct yokei_instruction *i = &k->program->instruction[n];
        const char *layer = i->layer >= 0 ? k->job->layers[i->layer]->name : "";
        const char *name = yokei_instruction_names[i->kind];
        if (k->observer) k->observer->layer = layer, k->observer->call = name;
        if (events) YOKE_TRY(wait_for_events(k, i));
        if (annotates) YOKE_TRY(yokei_annotate_begin(k, n));
        if (k->record) YOKE_TRY(yokei_record_begin(k, n));
        yoke_status status = run_one(k, i);
        if (status && !k->observer)
            return yoke_fail_context(status, "%s%s%s", name, *layer ? " of " : "", layer);
        YOKE_TRY(status);
        /* before the event, so that whoever waits for it finds the lifetimes ended */
        if (annotates) YOKE_TRY(yokei_annotate_end(k, n));
        if (events && i->record >= 0 && !yokei_signals(k, i->kind))
            YOKE_TRY(yoke_event_record(k->event[i->record], k->stream[i->stream]));
        if (k->record) YOKE_TRY(yokei_record_end(k, n));
    }
    return k->observer && k->observer->runs ? yokei_op_times_report(k->observer) : YOKE_OK;
}
