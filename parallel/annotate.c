/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device that checks memory accesses is told of a rank's allocation: the place, the name and the
 * lifetime of each tensor. Without it the whole allocation would be one tensor to the device. All that is not
 * a tensor now is forbidden, so the red zones between the tensors need no calls of their own.
 */
#include <stdio.h>
#include "core/base/base.h"
#include "parallel/program.h"

enum { NAME_BYTES = 192 };

/* ---- the state ---- */

static yoke_status say(yoke_device *device, const void *base, size_t offset, size_t bytes,
                       enum yokei_memory_state state, const char *name)
{
    return yokei_annotate(device, NULL,
                          &(struct yokei_annotation){ yoke_at(base, offset), bytes, state, name, 0 });
}

static yoke_status name_arrays(yoke_device *device, const void *base, const struct yokei_state *s)
{
    struct yokei_array array;
    char name[NAME_BYTES];
    for (int i = 0; yokei_state_array(s, i, &array); i++) {
        if (array.bucket < 0)
            yokei_text(name, sizeof name, "%s", array.what);
        else
            yokei_text(name, sizeof name, "%s of bucket %d", array.what, array.bucket);
        YOKE_TRY(say(device, base, array.offset, array.bytes, YOKEI_MEMORY_UNDEFINED, name));
    }
    return YOKE_OK;
}

static yoke_status name_parameter(yoke_device *device, const void *base, const char *parameter,
                                  const struct yokei_state *s, const struct yokei_slot *slot)
{
    const size_t wide = yoke_dtype_bytes(s->wide), all = (size_t)slot->n,
                 kept = yokei_is_empty(slot->kept) ? 0 : (size_t)(slot->kept.end - slot->kept.begin);
    const struct {
        const char *what;
        size_t offset, bytes;
    } tensors[] = {
        { "", slot->weight, all * yoke_dtype_bytes(yokei_weight_dtype(s, slot->has_copy)) },
        { ", master", slot->master, slot->has_copy ? kept * wide : 0 },
        { ", first moment", slot->moment1, kept * wide },
        { ", second moment", slot->moment2, kept * wide },
        { ", gradient", slot->gradient, all * wide },
    };
    char name[NAME_BYTES];
    for (size_t i = 0; i < YOKE_COUNT(tensors); i++) {
        yokei_text(name, sizeof name, "%s%s", parameter, tensors[i].what);
        YOKE_TRY(say(device, base, tensors[i].offset, tensors[i].bytes, YOKEI_MEMORY_AS_IS, name));
    }
    return YOKE_OK;
}

yoke_status yokei_annotate_arena(yoke_device *device, void *base, size_t bytes,
                                 const struct yokei_parameters *parameters, const struct yokei_state *s)
{
    if (!yokei_annotates(device)) return YOKE_OK;
    YOKE_TRY(say(device, base, 0, bytes, YOKEI_MEMORY_FORBIDDEN, NULL));
    YOKE_TRY(name_arrays(device, base, s));
    for (int i = 0; i < s->n; i++)
        YOKE_TRY(name_parameter(device, base, parameters->item[i].name, s, &s->slot[i]));
    return YOKE_OK;
}

yoke_status yokei_annotate_clear(yoke_stream *stream, const void *base, const struct yokei_state *s,
                                 unsigned arrays)
{
    yoke_device *device = yoke_stream_device(stream);
    struct yokei_array array;
    if (!yokei_annotates(device)) return YOKE_OK;
    for (int i = 0; yokei_state_array(s, i, &array); i++) {
        const unsigned kind = array.bucket >= 0 && array.offset >= s->gradients ? YOKEI_CLEAR_GRADIENTS
                              : array.bucket >= 0                               ? 0
                              : array.offset == s->norms                        ? YOKEI_CLEAR_NORMS
                                                                                : YOKEI_CLEAR_BATCH;
        if (!(arrays & kind)) continue;
        YOKE_TRY(yokei_annotate(device, stream,
                                &(struct yokei_annotation){ yoke_at(base, array.offset), array.bytes,
                                                            YOKEI_MEMORY_UNDEFINED, NULL, 0 }));
    }
    return YOKE_OK;
}

/* ---- the buffers of a program ---- */

/* What an instruction, the first that uses the buffer, calls it. */
static const char *role_of(const struct yokei_instruction *i, int buffer)
{
    static const char *const stashes[YOKE_N_STASHES] = { "what F leaves for B", "what F leaves for W",
                                                         "what B leaves for W" };
    for (int part = 0; part < YOKE_N_STASHES; part++)
        if (i->stash[part] == buffer) return stashes[part];
    return buffer == i->workspace                ? "workspace"
           : buffer == i->dx                     ? "dx"
           : i->kind == YOKEI_RECEIVE_ACTIVATION ? "the activation that was received"
           : i->kind == YOKEI_RECEIVE_GRADIENT   ? "the gradient that was received"
                                                 : "y";
}

static yoke_status annotate_buffer(const struct yokei_machine *k, enum yokei_stream stream, int buffer,
                                   enum yokei_memory_state state, int streams, const char *name)
{
    const struct yokei_buffer *b = &k->program->buffer[buffer];
    const struct yokei_annotation note = { yoke_at(k->base, k->job->state->bytes + b->offset), b->bytes,
                                           state, name, streams };
    return yokei_annotate(k->job->device, k->stream[stream], &note);
}

static yoke_status begin(const struct yokei_machine *k, const struct yokei_instruction *i, int buffer)
{
    char name[NAME_BYTES];
    const struct yokei_buffer *b = &k->program->buffer[buffer];
    const char *layer = i->layer >= 0 ? k->job->layers[i->layer]->name : "";
    int streams = 0;
    for (int s = 0; s < YOKEI_N_STREAMS; s++) streams += b->last_on[s] >= 0;
    yokei_text(name, sizeof name, "%s%s%s, micro-batch %d", role_of(i, buffer), *layer ? " of " : "", layer,
               i->micro_batch);
    return annotate_buffer(k, i->stream, buffer, YOKEI_MEMORY_UNDEFINED, streams, name);
}

yoke_status yokei_annotate_begin(const struct yokei_machine *k, int n)
{
    const struct yokei_instruction *i = &k->program->instruction[n];
    int list[YOKEI_N_OPERANDS];
    const int n_list = yokei_operands(i, list);
    for (int o = 0; o < n_list; o++)
        if (k->program->buffer[list[o]].first == n) YOKE_TRY(begin(k, i, list[o]));
    return YOKE_OK;
}

yoke_status yokei_annotate_end(const struct yokei_machine *k, int n)
{
    const struct yokei_instruction *i = &k->program->instruction[n];
    int list[YOKEI_N_OPERANDS];
    const int n_list = yokei_operands(i, list);
    for (int o = 0; o < n_list; o++)
        if (k->program->buffer[list[o]].last_on[i->stream] == n && list[o] != k->program->output)
            YOKE_TRY(annotate_buffer(k, i->stream, list[o], YOKEI_MEMORY_FORBIDDEN, 1, NULL));
    return YOKE_OK;
}

yoke_status yokei_annotate_read(const struct yokei_machine *k)
{
    const struct yokei_program *p = k->program;
    if (p->output < 0) return YOKE_OK;
    return annotate_buffer(k, p->instruction[p->n - 1].stream, p->output, YOKEI_MEMORY_FORBIDDEN, 1, NULL);
}
