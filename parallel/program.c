/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering: makes one rank's list of instructions from layers, a schedule and shares. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/program.h"

enum { NONE = -1 };

/* The buffers of a layer for a micro-batch, while its calls are lowered. */
struct live {
    int y, dy, stash[YOKE_N_STASHES]; /* dy: gradient of this layer's output */
};

/* The bytes of a layer's parts, and of this rank's part of its output. */
struct sizes {
    unsigned known; /* bit i: part i is known; bit YOKE_N_PARTS: the output is */
    size_t part[YOKE_N_PARTS], output;
};

struct lowering {
    const struct yokei_job *job;
    struct yokei_program *p;
    /* [micro-batch][n_known] the layers of this rank's chunks, and the layers before and behind them */
    struct live *live;
    struct sizes *sizes; /* [n_known][2] of all micro-batches but the last one, and of the last one */
    int n_known, *known; /* known [n_layers]: a layer's index among these; -1: it is none of them */
    const struct yokei_actions *actions;
    int at;                 /* index of the current action */
    bool refills;           /* an R is delayed: the B after it refills the stash, segment by segment */
    struct yokei_chunk all; /* the only chunk of a rank that holds all layers */
    yoke_status status;     /* sticky: out of memory */
};

int yokei_n_micro_batches(int64_t n_sequences, int64_t micro_batch)
{
    return (int)((n_sequences + micro_batch - 1) / micro_batch);
}

static struct yokei_instruction *emit(struct lowering *w, enum yokei_instruction_kind kind)
{
    static struct yokei_instruction nowhere; /* returned after a failure, so that callers need no check */
    struct yokei_program *p = w->p;
    if (p->n == p->capacity) {
        int capacity = p->capacity ? 2 * p->capacity : 256;
        struct yokei_instruction *list = realloc(p->instruction, (size_t)capacity * sizeof *list);
        if (!list) {
            w->status = yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d instructions", capacity);
            return &nowhere;
        }
        p->instruction = list;
        p->capacity = capacity;
    }
    struct yokei_instruction *i = &p->instruction[p->n++];
    *i = (struct yokei_instruction){ .kind = kind,
                                     .layer = NONE,
                                     .record = NONE,
                                     .x = NONE,
                                     .y = NONE,
                                     .dy = NONE,
                                     .dx = NONE,
                                     .stash = { NONE, NONE, NONE },
                                     .workspace = NONE };
    for (int s = 0; s < YOKEI_N_STREAMS; s++) i->wait[s] = NONE;
    return i;
}

/* A new buffer. It lives from the instruction that was emitted last. */
static int buffer(struct lowering *w, enum yokei_buffer_kind kind, size_t bytes)
{
    struct yokei_program *p = w->p;
    if (bytes == 0) return NONE;
    if (p->n_buffers == p->buffer_capacity) {
        int capacity = p->buffer_capacity ? 2 * p->buffer_capacity : 256;
        struct yokei_buffer *list = realloc(p->buffer, (size_t)capacity * sizeof *list);
        if (!list) {
            w->status = yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d buffers", capacity);
            return NONE;
        }
        p->buffer = list;
        p->buffer_capacity = capacity;
    }
    p->buffer[p->n_buffers] = (struct yokei_buffer){
        .bytes = bytes, .first = p->n - 1, .last = p->n - 1, .kind = kind
    };
    return p->n_buffers++;
}

/* The instruction that was emitted last uses buffer b, so b lives at least until then. */
static int touch(struct lowering *w, int b)
{
    if (b != NONE) w->p->buffer[b].last = w->p->n - 1;
    return b;
}

static struct yoke_shape shape_of(const struct lowering *w, int micro_batch)
{
    const struct yokei_program *p = w->p;
    return (struct yoke_shape){
        sizeof(struct yoke_shape),     p->dtype, p->micro_batch[micro_batch].B, p->T, p->mode, &w->job->place,
        yokei_red_zone(w->job->device)
    };
}

/*
 * The sizes of a layer for a micro-batch. All micro-batches are equal except for the last one, so a layer is
 * asked twice.
 */
static struct sizes *sizes_of(struct lowering *w, int layer, int micro_batch)
{
    return &w->sizes[2 * w->known[layer] + (micro_batch + 1 == w->p->n_micro_batches)];
}

static size_t part_bytes(struct lowering *w, int layer, int micro_batch, enum yoke_part part)
{
    struct sizes *z = sizes_of(w, layer, micro_batch);
    if (!(z->known & 1U << part)) {
        const struct yoke_shape shape = shape_of(w, micro_batch);
        const yoke_status status = yoke_layer_bytes(w->job->layers[layer], &shape, part, &z->part[part]);
        if (status) w->status = status;
        z->known |= 1U << part;
    }
    return z->part[part];
}

/* The size of this rank's part of a layer's output, which is the input of the next layer. */
static size_t boundary_bytes(struct lowering *w, int micro_batch, int layer)
{
    struct sizes *z = sizes_of(w, layer, micro_batch);
    if (!(z->known & 1U << YOKE_N_PARTS)) {
        const struct yoke_shape shape = shape_of(w, micro_batch);
        int64_t rows, columns, ld;
        yoke_layer_output(w->job->layers[layer], &shape, &rows, &columns, &ld);
        z->output = (size_t)(rows * ld) * yoke_dtype_bytes(shape.dtype);
        z->known |= 1U << YOKE_N_PARTS;
    }
    return z->output;
}

static struct live *live_of(struct lowering *w, int micro_batch, int layer)
{
    return &w->live[(size_t)micro_batch * (size_t)w->n_known + (size_t)w->known[layer]];
}

static const struct yokei_chunk *chunk_of(const struct lowering *w, int chunk)
{
    return w->job->n_chunks ? &w->job->chunk[chunk] : &w->all;
}

static bool is_recomputed(const struct lowering *w, int layer)
{
    return w->job->recomputed && w->job->recomputed[layer];
}

/*
 * Emit the forward passes of layers [first, end). If `again`, emit only those of layers whose stash is filled
 * again. Their inputs were kept, or are computed again here. The first pass of such a layer leaves only its
 * output, for the next layer. The second pass computes the output again, too.
 */
static void lower_forward(struct lowering *w, int m, int c, int first, int end, bool again)
{
    for (int l = first; l < end; l++) {
        struct live *live = live_of(w, m, l);
        if (again && !is_recomputed(w, l)) continue;
        struct yokei_instruction i = *emit(w, YOKEI_FORWARD);
        i.layer = l, i.micro_batch = m, i.chunk = c, i.recomputes = again;
        if (l > 0) i.x = touch(w, live_of(w, m, l - 1)->y);
        i.y = live->y = buffer(w, YOKEI_BUFFER_BOUNDARY, boundary_bytes(w, m, l));
        for (int part = 0; part < YOKE_B_TO_W; part++)
            i.stash[part] = live->stash[part] = buffer(w, YOKEI_BUFFER_STASH,
                                                       part_bytes(w, l, m, (enum yoke_part)part));
        i.workspace = buffer(w, YOKEI_BUFFER_WORKSPACE, part_bytes(w, l, m, YOKE_WORKSPACE));
        if (!w->status) w->p->instruction[w->p->n - 1] = i;
    }
}

/*
 * Whether R can be delayed. This is so if B comes next, except for receives. Each segment of layers is then
 * filled again directly before its B. So only the inputs of the segments and the stash of one segment are in
 * memory, as in Chen et al. 2016, arXiv:1604.06174.
 */
static bool can_put_off(const struct lowering *w)
{
    const struct yokei_action *r = &w->actions->action[w->at], *next = r + 1,
                              *end = w->actions->action + w->actions->n;
    while (next < end && (next->kind == YOKEI_ACTION_RA || next->kind == YOKEI_ACTION_RG)) next++;
    return w->job->segment > 0 && next < end && next->kind == YOKEI_ACTION_B && next->index == r->index
           && next->chunk == r->chunk;
}

static void lower_again(struct lowering *w, const struct yokei_action *r)
{
    const struct yokei_chunk *chunk = chunk_of(w, r->chunk);
    w->refills = can_put_off(w);
    if (!w->refills) lower_forward(w, r->index, r->chunk, chunk->first, chunk->end, true);
}

/* Called before B of layer l. If a segment ends with layer l, fill its stashes again. */
static void refill(struct lowering *w, int m, int c, int l)
{
    const struct yokei_chunk *chunk = chunk_of(w, c);
    const int at = (l - chunk->first) % w->job->segment;
    if (l + 1 == chunk->end || at + 1 == w->job->segment) lower_forward(w, m, c, l - at, l + 1, true);
}

/* ---- messages of a pipeline ---- */

/* Emit a receive. It fills a buffer of its own: the output of `layer`, or the gradient of that output. */
static int lower_receive(struct lowering *w, enum yokei_instruction_kind kind, const struct yokei_action *a,
                         int layer)
{
    struct yokei_instruction i = *emit(w, kind);
    i.micro_batch = a->index, i.chunk = a->chunk;
    i.stream = kind == YOKEI_RECEIVE_ACTIVATION ? YOKEI_RECEIVES_ACTIVATIONS : YOKEI_RECEIVES_GRADIENTS;
    const int b = i.y = buffer(w, YOKEI_BUFFER_BOUNDARY, boundary_bytes(w, a->index, layer));
    if (b != NONE) w->p->buffer[b].is_received = true;
    if (!w->status) w->p->instruction[w->p->n - 1] = i;
    return b;
}

static void lower_send(struct lowering *w, enum yokei_instruction_kind kind, const struct yokei_action *a,
                       int b)
{
    struct yokei_instruction *i = emit(w, kind);
    i->micro_batch = a->index, i->chunk = a->chunk;
    i->stream = kind == YOKEI_SEND_ACTIVATION ? YOKEI_SENDS_ACTIVATIONS : YOKEI_SENDS_GRADIENTS;
    i->x = touch(w, b);
}

static void lower_message(struct lowering *w, const struct yokei_action *a)
{
    const struct yokei_chunk *chunk = chunk_of(w, a->chunk);
    const int m = a->index, before = chunk->first - 1, last = chunk->end - 1;
    switch (a->kind) {
    case YOKEI_ACTION_SA: lower_send(w, YOKEI_SEND_ACTIVATION, a, live_of(w, m, last)->y); break;
    case YOKEI_ACTION_SG: lower_send(w, YOKEI_SEND_GRADIENT, a, live_of(w, m, before)->dy); break;
    case YOKEI_ACTION_RA:
        live_of(w, m, before)->y = lower_receive(w, YOKEI_RECEIVE_ACTIVATION, a, before);
        break;
    default: live_of(w, m, last)->dy = lower_receive(w, YOKEI_RECEIVE_GRADIENT, a, last); break;
    }
}

/*
 * Set the operands that B and W both have: the tensors that the layer's type declares to be read as late as
 * `until`, and the workspace.
 */
static void operands(struct lowering *w, struct yokei_instruction *i, int l, int m, enum yoke_until until)
{
    const struct yoke_layer_type *type = w->job->layers[l]->type;
    struct live *live = live_of(w, m, l);
    i->layer = l, i->micro_batch = m;
    if (l > 0 && type->input_until >= until) i->x = touch(w, live_of(w, m, l - 1)->y);
    if (type->output_until >= until) i->y = touch(w, live->y);
    if (type->gradient_until >= until) i->dy = touch(w, live->dy);
    i->workspace = buffer(w, YOKEI_BUFFER_WORKSPACE, part_bytes(w, l, m, YOKE_WORKSPACE));
}

static void lower_backward_input(struct lowering *w, int l, int m, int chunk)
{
    const yoke_layer *layer = w->job->layers[l];
    struct live *live = live_of(w, m, l);
    if (!layer->type->backward_input) return;
    struct yokei_instruction i = *emit(w, YOKEI_BACKWARD_INPUT);
    operands(w, &i, l, m, YOKE_UNTIL_B);
    i.chunk = chunk;
    if (l > 0)
        i.dx = live_of(w, m, l - 1)->dy = buffer(w, YOKEI_BUFFER_BOUNDARY, boundary_bytes(w, m, l - 1));
    live->stash[YOKE_B_TO_W] = buffer(w, YOKEI_BUFFER_STASH, part_bytes(w, l, m, YOKE_B_TO_W));
    for (int part = 0; part < YOKE_N_STASHES; part++) i.stash[part] = touch(w, live->stash[part]);
    if (!w->status) w->p->instruction[w->p->n - 1] = i;
}

static void lower_backward_weight(struct lowering *w, int l, int m, int chunk)
{
    struct live *live = live_of(w, m, l);
    if (!w->job->layers[l]->type->backward_weight) return;
    struct yokei_instruction i = *emit(w, YOKEI_BACKWARD_WEIGHT);
    operands(w, &i, l, m, YOKE_UNTIL_W);
    i.chunk = chunk;
    for (int part = YOKE_F_TO_W; part < YOKE_N_STASHES; part++) i.stash[part] = touch(w, live->stash[part]);
    if (!w->status) w->p->instruction[w->p->n - 1] = i;
}

static void lower_reduce(struct lowering *w, int bucket)
{
    struct yokei_instruction *i = emit(w, YOKEI_REDUCE);
    i->bucket = bucket;
    i->stream = YOKEI_COMMUNICATION;
}

/*
 * Emit the steps, bucket after bucket. If the replicas divide the steps, the weights of one bucket are sent
 * to the other replicas while AdamW works on the next bucket.
 */
static void lower_step(struct lowering *w)
{
    for (int b = 0; b < w->job->state->n_buckets; b++) {
        emit(w, YOKEI_STEP)->bucket = b;
        if (!w->job->state->is_divided) continue;
        struct yokei_instruction *i = emit(w, YOKEI_GATHER);
        i->bucket = b;
        i->stream = YOKEI_COMMUNICATION;
    }
}

/* Emit the REDUCE actions that come directly next in the schedule, as soon as their bucket is complete. */
static void lower_ready_reduces(struct lowering *w, int layer)
{
    while (w->at + 1 < w->actions->n && w->actions->action[w->at + 1].kind == YOKEI_ACTION_REDUCE
           && w->job->state->bucket[w->actions->action[w->at + 1].index].layer >= layer)
        lower_reduce(w, w->actions->action[++w->at].index);
}

static void lower_backward(struct lowering *w, const struct yokei_action *action, bool input, bool weight)
{
    const struct yokei_chunk *chunk = chunk_of(w, action->chunk);
    if (weight && input) w->at++;
    for (int l = chunk->end - 1; l >= chunk->first; l--) {
        if (input && w->refills) refill(w, action->index, action->chunk, l);
        if (input) lower_backward_input(w, l, action->index, action->chunk);
        if (weight) lower_backward_weight(w, l, action->index, action->chunk);
        if (weight) lower_ready_reduces(w, l);
    }
    if (input) w->refills = false;
}

static void lower_action(struct lowering *w)
{
    const struct yokei_action *a = &w->actions->action[w->at],
                              *next = w->at + 1 < w->actions->n ? a + 1 : NULL;
    switch (a->kind) {
    case YOKEI_ACTION_F:
        lower_forward(w, a->index, a->chunk, chunk_of(w, a->chunk)->first, chunk_of(w, a->chunk)->end, false);
        break;
    case YOKEI_ACTION_R: lower_again(w, a); break;
    case YOKEI_ACTION_SA:
    case YOKEI_ACTION_RA:
    case YOKEI_ACTION_SG:
    case YOKEI_ACTION_RG: lower_message(w, a); break;
    case YOKEI_ACTION_TIED: emit(w, YOKEI_TIED)->stream = YOKEI_COMMUNICATION; break;
    case YOKEI_ACTION_B: {
        bool both = next && next->kind == YOKEI_ACTION_W && next->index == a->index
                    && next->chunk == a->chunk;
        lower_backward(w, a, true, both);
        break;
    }
    case YOKEI_ACTION_W: lower_backward(w, a, false, true); break;
    case YOKEI_ACTION_REDUCE: lower_reduce(w, a->index); break;
    case YOKEI_ACTION_AGREE:
        if (w->job->place.tensor_size > 1) emit(w, YOKEI_REPLICATED)->stream = YOKEI_COMMUNICATION;
        emit(w, YOKEI_NORMS);
        w->p->agree = w->p->n;
        emit(w, YOKEI_AGREE);
        break;
    case YOKEI_ACTION_STEP: lower_step(w); break;
    case YOKEI_N_ACTIONS: break;
    }
}

/*
 * List the layers whose buffers this rank has: those of its chunks, and the neighbours that send to it or
 * receive from it.
 */
static yoke_status list_known(struct lowering *w)
{
    const int n_layers = w->job->n_layers, n_chunks = YOKE_MAX(w->job->n_chunks, 1);
    w->known = malloc(((size_t)n_layers + 1) * sizeof *w->known);
    if (!w->known) return yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d layers", n_layers);
    for (int l = 0; l < n_layers; l++) w->known[l] = NONE;
    for (int c = 0; c < n_chunks; c++) {
        const struct yokei_chunk *chunk = chunk_of(w, c);
        for (int l = YOKE_MAX(chunk->first - 1, 0); l < YOKE_MIN(chunk->end + 1, n_layers); l++)
            if (w->known[l] == NONE) w->known[l] = w->n_known++;
    }
    return YOKE_OK;
}

static yoke_status begin(struct lowering *w, const struct yokei_job *job, enum yoke_mode mode,
                         struct yokei_program *p)
{
    *p = (struct yokei_program){ .mode = mode, .dtype = job->state->dtype, .T = job->T, .output = NONE };
    *w = (struct lowering){ .job = job, .p = p, .all = { 0, job->n_layers } };
    p->n_micro_batches = yokei_n_micro_batches(job->n_sequences, job->micro_batch);
    YOKE_TRY(list_known(w));
    size_t n = (size_t)p->n_micro_batches, cells = n * (size_t)w->n_known;
    p->micro_batch = calloc(n + 1, sizeof *p->micro_batch);
    w->live = malloc((cells + 1) * sizeof *w->live);
    w->sizes = calloc(2 * (size_t)w->n_known + 1, sizeof *w->sizes);
    if (!p->micro_batch || !w->live || !w->sizes)
        return yoke_fail(YOKE_ENOMEM, "step program: no host memory for %zu micro-batches", n);
    for (size_t i = 0; i < cells; i++) w->live[i] = (struct live){ NONE, NONE, { NONE, NONE, NONE } };
    for (int m = 0; m < p->n_micro_batches; m++) {
        int64_t first = m * job->micro_batch;
        p->micro_batch[m] = (struct yokei_micro_batch){ first, YOKE_MIN(job->micro_batch,
                                                                        job->n_sequences - first) };
    }
    return YOKE_OK;
}

static yoke_status finish(struct lowering *w, yoke_status status)
{
    if (!status) status = w->status;
    if (!status && w->p->mode == YOKE_TRAIN) status = yokei_note_zeroed(w->job, w->p);
    if (!status)
        status = yokei_place_buffers(w->p->buffer, w->p->n_buffers, yokei_red_zone(w->job->device),
                                     &w->p->bytes);
    if (!status && !w->p->is_counted) status = yokei_order_streams(w->p);
    if (!status) status = yokei_list_ops(w->job, w->p);
    if (status) yokei_program_free(w->p);
    return status;
}

static void free_scratch(struct lowering *w)
{
    free(w->live);
    free(w->known);
    free(w->sizes);
}

static yoke_status lower_actions(struct lowering *w, const struct yokei_job *job,
                                 const struct yokei_actions *actions, struct yokei_program *program_out)
{
    yoke_status status = begin(w, job, YOKE_TRAIN, program_out);
    w->actions = actions;
    if (!status) emit(w, YOKEI_ZERO);
    for (; !status && !w->status && w->at < actions->n; w->at++) lower_action(w);
    free_scratch(w);
    return status;
}

yoke_status yokei_program_train(const struct yokei_job *job, const struct yokei_actions *actions,
                                struct yokei_program *program_out)
{
    struct lowering w;
    return finish(&w, lower_actions(&w, job, actions, program_out));
}

yoke_status yokei_program_train_bytes(const struct yokei_job *job, const struct yokei_actions *actions,
                                      size_t *bytes_out)
{
    struct lowering w;
    struct yokei_program p;
    yoke_status status = lower_actions(&w, job, actions, &p);
    if (!status) status = w.status;
    if (!status) status = yokei_place_buffers(p.buffer, p.n_buffers, yokei_red_zone(job->device), bytes_out);
    yokei_program_free(&p);
    return status;
}

yoke_status yokei_program_count_train(const struct yokei_job *job, const struct yokei_actions *actions,
                                      struct yokei_program *program_out)
{
    struct lowering w;
    struct yokei_actions passes = *actions;
    passes.n = 0;
    while (passes.n < actions->n && yokei_action_has_micro_batch(actions->action[passes.n].kind)) passes.n++;
    yoke_status status = lower_actions(&w, job, &passes, program_out);
    program_out->is_counted = true;
    return finish(&w, status);
}

static yoke_status evaluate(const struct yokei_job *job, bool is_counted, struct yokei_program *program_out)
{
    struct lowering w;
    yoke_status status = begin(&w, job, YOKE_EVALUATE, program_out);
    program_out->is_counted = is_counted;
    const int n_chunks = YOKE_MAX(job->n_chunks, 1);
    for (int m = 0; !status && !w.status && m < program_out->n_micro_batches; m++)
        for (int c = 0; c < n_chunks; c++) {
            const struct yokei_chunk *chunk = chunk_of(&w, c);
            if (chunk->first > 0) lower_message(&w, &(struct yokei_action){ YOKEI_ACTION_RA, m, c });
            lower_forward(&w, m, c, chunk->first, chunk->end, false);
            if (chunk->end < job->n_layers)
                lower_message(&w, &(struct yokei_action){ YOKEI_ACTION_SA, m, c });
        }
    program_out->agree = program_out->n;
    if (!status && !w.status && program_out->n)
        program_out->output = program_out->instruction[program_out->n - 1].y;
    free_scratch(&w);
    return finish(&w, status);
}

yoke_status yokei_program_evaluate(const struct yokei_job *job, struct yokei_program *program_out)
{
    return evaluate(job, false, program_out);
}

yoke_status yokei_program_count_evaluate(const struct yokei_job *job, struct yokei_program *program_out)
{
    return evaluate(job, true, program_out);
}

void yokei_program_free(struct yokei_program *p)
{
    free(p->micro_batch);
    free(p->instruction);
    free(p->buffer);
    free(p->zeroed);
    yokei_observer_free(&p->planner);
    memset(p, 0, sizeof *p);
}
