/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's record of when instructions ran, and the times of a step that follow from it. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/program.h"

yoke_status yokei_record_create(int n_instructions, bool eager, struct yokei_record *record_out)
{
    *record_out = (struct yokei_record){ .n = n_instructions,
                                         .eager = eager,
                                         .at = calloc((size_t)n_instructions + 1, sizeof *record_out->at) };
    return record_out->at ? YOKE_OK
                          : yoke_fail(YOKE_ENOMEM, "record of a step: no host memory for %d instructions",
                                      n_instructions);
}

void yokei_record_free(struct yokei_record *r)
{
    yokei_stamps_free(r->stamps);
    free(r->at);
    memset(r, 0, sizeof *r);
}

void yokei_record_clear(struct yokei_record *r)
{
    memset(r->at, 0, (size_t)r->n * sizeof *r->at);
    r->in_layers_ns = 0;
    r->started = false;
}

void yokei_record_resume(struct yokei_record *r) { r->now = yokei_now_ns(); }

static bool waits(const struct yokei_instruction *i)
{
    for (int s = 0; s < YOKEI_N_STREAMS; s++)
        if (i->wait[s] >= 0) return true;
    return false;
}

/* Whether the stream is synchronised, so that the clock shows when the instruction begins and ends on it. */
static bool is_synchronised(const struct yokei_record *r, const struct yokei_instruction *i)
{
    return r->exact && !r->eager && !r->stamps && !yokei_goes_on(i->kind);
}

/* Whether the device measures the instructions of this step. */
static bool is_stamped(const struct yokei_record *r) { return r->started; }

/* Begin to measure on the device, if this step is exact and the device measures times. */
static yoke_status start_stamps(const struct yokei_machine *k)
{
    struct yokei_record *r = k->record;
    if (!r->exact || r->eager || r->started) return YOKE_OK;
    if (!r->stamps) YOKE_TRY(yokei_stamps_create(k->job->device, r->n, &r->stamps));
    if (!r->stamps) return YOKE_OK;
    r->started = true;
    return yokei_stamps_start(r->stamps, k->stream[YOKEI_COMPUTE]);
}

yoke_status yokei_record_begin(const struct yokei_machine *k, int n)
{
    struct yokei_record *r = k->record;
    const struct yokei_instruction *i = &k->program->instruction[n];
    struct yokei_times *t = &r->at[n];
    YOKE_TRY(start_stamps(k));
    if (is_stamped(r)) YOKE_TRY(yokei_stamps_begin(r->stamps, n, k->stream[i->stream]));
    t->posted = r->now;
    if (is_synchronised(r, i)) YOKE_TRY(yoke_stream_sync(k->stream[i->stream]));
    if (waits(i) || is_synchronised(r, i)) r->now = yokei_now_ns();
    t->begin = r->now;
    return YOKE_OK;
}

/* Note the end of all messages and sums before instruction `end` that are complete by now. */
static yoke_status look_back(const struct yokei_machine *k, int end)
{
    for (int n = 0; n < end; n++) {
        const struct yokei_instruction *i = &k->program->instruction[n];
        struct yokei_times *t = &k->record->at[n];
        bool complete = false;
        if (t->end || !t->posted || !yokei_goes_on(i->kind)) continue;
        if (k->record->eager) {
            t->end = yokei_eager_event_ns(k->event[i->record]);
            if (t->end) t->end = YOKE_MAX(t->end, t->begin);
            continue;
        }
        YOKE_TRY(yoke_event_query(k->event[i->record], &complete));
        if (complete) t->end = yokei_now_ns();
    }
    return YOKE_OK;
}

/*
 * The times on the device. A stream reaches an instruction when the one before it has ended, and not when the
 * host issues it.
 */
static yoke_status read_stamps(const struct yokei_machine *k)
{
    struct yokei_record *r = k->record;
    uint64_t free_at[YOKEI_N_STREAMS] = { 0 };
    for (int n = 0; n < r->n; n++) {
        const struct yokei_instruction *i = &k->program->instruction[n];
        struct yokei_times *t = &r->at[n];
        uint64_t begin, end;
        if (!t->returned) continue; /* also the instruction that asks for the times is not over */
        YOKE_TRY(yokei_stamps_read(r->stamps, n, &begin, &end));
        if (!end) continue;
        t->begin = begin;
        t->end = end;
        t->posted = YOKE_MIN(YOKE_MAX(t->posted, free_at[i->stream]), begin);
        t->returned = yokei_goes_on(i->kind) ? begin : end;
        free_at[i->stream] = end;
    }
    return YOKE_OK;
}

yoke_status yokei_record_look(const struct yokei_machine *k)
{
    return is_stamped(k->record) ? read_stamps(k) : look_back(k, k->record->n);
}

yoke_status yokei_record_end(const struct yokei_machine *k, int n)
{
    struct yokei_record *r = k->record;
    const struct yokei_instruction *i = &k->program->instruction[n];
    if (is_stamped(r)) YOKE_TRY(yokei_stamps_end(r->stamps, n, k->stream[i->stream]));
    if (is_synchronised(r, i)) YOKE_TRY(yoke_stream_sync(k->stream[i->stream]));
    r->now = yokei_now_ns();
    r->at[n].returned = r->now;
    if (is_stamped(r)) return YOKE_OK;
    if (r->eager ? !yokei_signals(k, i->kind) : is_synchronised(r, i)) r->at[n].end = r->now;
    return r->exact && !r->eager ? look_back(k, n + 1) : YOKE_OK;
}

/*
 * The seconds for which this instruction kept the interpreter from the next pass. This is the wait before the
 * instruction, and, if it is communication, the time of the instruction itself.
 */
static double stood_still(const struct yokei_machine *k, int n)
{
    const struct yokei_instruction *i = &k->program->instruction[n];
    const struct yokei_times *t = &k->record->at[n];
    double still = waits(i) ? yokei_seconds_between(t->posted, t->begin) : 0;
    const bool is_sum = i->kind == YOKEI_REDUCE || i->kind == YOKEI_TIED || i->kind == YOKEI_REPLICATED;
    if (is_stamped(k->record)) { /* the other streams do not keep the passes from going on */
        const bool blocks = i->stream == YOKEI_COMPUTE && is_sum;
        if (i->stream != YOKEI_COMPUTE) still = 0;
        return still + (blocks ? yokei_seconds_between(t->begin, t->end) : 0);
    }
    /* If the communication is complete when the call returns, the call has waited for it. */
    if ((is_sum || yokei_is_message(i->kind)) && k->record->eager && t->end && t->end <= t->returned)
        still += yokei_seconds_between(t->begin, t->returned);
    return still;
}

void yokei_record_measure(const struct yokei_machine *k, struct yokei_step_times *out)
{
    uint64_t first = 0, last = 0;
    *out = (struct yokei_step_times){ .exposed = (double)k->record->in_layers_ns * 1e-9 };
    for (int n = 0; n < k->record->n; n++) {
        const struct yokei_instruction *i = &k->program->instruction[n];
        const struct yokei_times *t = &k->record->at[n];
        if (!t->posted) continue;
        out->exposed += stood_still(k, n);
        if (i->kind != YOKEI_FORWARD && i->kind != YOKEI_BACKWARD_INPUT && i->kind != YOKEI_BACKWARD_WEIGHT)
            continue;
        if (!first) first = t->begin;
        last = t->end;
        out->busy += yokei_seconds_between(t->begin, t->end);
        if (!i->recomputes) out->useful += yokei_seconds_between(t->begin, t->end);
    }
    out->span = yokei_seconds_between(first, last);
}
