/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which events the instructions of a program wait for. Streams run side by side, each in the order of the
 * list. An instruction waits for the instructions of other streams that wrote the data that it reads. If it
 * is the first to write into a buffer, it also waits for all instructions that still use the buffer's memory
 * for another buffer.
 * No deadlock is possible. Waits only look back in the list, so they cannot be circular. And messages are
 * never received into memory that another message was sent from (yokei_buffer.is_received). So no rank's
 * receive waits until another rank receives.
 */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/program.h"

/* The last instruction of each stream that touches a buffer; -1: none yet. */
struct users {
    int last[YOKEI_N_STREAMS];
};

struct ordering {
    struct yokei_program *p;
    struct users *users;         /* [n_buffers] */
    int newest[YOKEI_N_STREAMS]; /* newest instruction of each stream so far */
    /* Newest instruction on the communication stream that works on gradients. */
    int summed;
    int sum; /* newest REDUCE; -1: none yet */
    int waited[YOKEI_N_STREAMS]
              [YOKEI_N_STREAMS]; /* [a][b]: newest instruction of stream b that stream a has waited for */
};

int yokei_operands(const struct yokei_instruction *i, int list[YOKEI_N_OPERANDS])
{
    const int all[YOKEI_N_OPERANDS] = { i->x,         i->y,        i->dy,       i->dx,
                                        i->workspace, i->stash[0], i->stash[1], i->stash[2] };
    int n = 0;
    for (int k = 0; k < YOKEI_N_OPERANDS; k++)
        if (all[k] >= 0) list[n++] = all[k];
    return n;
}

/*
 * Let instruction `at` wait for instruction `before`, unless its stream has already waited for `before` or a
 * later instruction of the same stream. before -1: nothing to wait for.
 */
static void wait_for(struct ordering *o, int at, int before)
{
    struct yokei_instruction *i = &o->p->instruction[at], *b = before < 0 ? NULL : &o->p->instruction[before];
    if (!b || b->stream == i->stream || o->waited[i->stream][b->stream] >= before) return;
    o->waited[i->stream][b->stream] = before;
    if (b->record < 0) b->record = o->p->n_events++;
    i->wait[b->stream] = b->record;
}

static bool shares_memory(const struct yokei_buffer *a, const struct yokei_buffer *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The first use of a buffer. Everything that used its memory before must be complete. */
static void take_over(struct ordering *o, int at, int buffer)
{
    const struct yokei_buffer *new = &o->p->buffer[buffer];
    for (int b = 0; b < o->p->n_buffers; b++)
        if (o->p->buffer[b].last < at && shares_memory(&o->p->buffer[b], new))
            for (int s = 0; s < YOKEI_N_STREAMS; s++) wait_for(o, at, o->users[b].last[s]);
}

static bool works_on_gradients(const struct yokei_instruction *i)
{
    return i->kind == YOKEI_REDUCE || i->kind == YOKEI_TIED || i->kind == YOKEI_REPLICATED
           || i->kind == YOKEI_NORMS || i->kind == YOKEI_STEP || i->kind == YOKEI_AGREE;
}

/*
 * W writes gradients on the compute stream. They are summed on the communication stream, and then read again.
 * The gather of a bucket waits for the bucket's step, which is then the newest instruction on the compute
 * stream. The step of the next bucket does not wait for the gather.
 */
static void order_buckets(struct ordering *o, int at)
{
    const struct yokei_instruction *i = &o->p->instruction[at];
    if (works_on_gradients(i))
        wait_for(o, at, i->stream == YOKEI_COMPUTE ? o->summed : o->newest[YOKEI_COMPUTE]);
    if (works_on_gradients(i) && i->stream == YOKEI_COMMUNICATION) o->summed = at;
    if (i->kind == YOKEI_GATHER) wait_for(o, at, o->newest[YOKEI_COMPUTE]);
}

static void order(struct ordering *o, int at)
{
    struct yokei_instruction *i = &o->p->instruction[at];
    int list[YOKEI_N_OPERANDS];
    const int n = yokei_operands(i, list);
    for (int k = 0; k < n; k++) {
        const struct yokei_buffer *b = &o->p->buffer[list[k]];
        if (b->first == at)
            take_over(o, at, list[k]);
        else
            wait_for(o, at, b->first);
        o->users[list[k]].last[i->stream] = at;
    }
    order_buckets(o, at);
    /*
     * A sum of a bucket may run on, even if its stream runs each op within the call. TIED and REPLICATED
     * follow on the same stream and work on the same gradients, so they wait for the newest sum.
     */
    if ((i->kind == YOKEI_TIED || i->kind == YOKEI_REPLICATED) && o->sum >= 0)
        i->wait[i->stream] = o->p->instruction[o->sum].record;
    if (yokei_goes_on(i->kind) && i->record < 0) i->record = o->p->n_events++;
    if (i->kind == YOKEI_REDUCE) o->sum = at;
    o->newest[i->stream] = at;
}

yoke_status yokei_order_streams(struct yokei_program *p)
{
    struct ordering o = { .p = p,
                          .summed = -1,
                          .users = malloc(((size_t)p->n_buffers + 1) * sizeof *o.users) };
    if (!o.users) return yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d buffers", p->n_buffers);
    memset(o.users, 0xff, ((size_t)p->n_buffers + 1) * sizeof *o.users); /* -1 */
    memset(o.newest, 0xff, sizeof o.newest);
    memset(o.waited, 0xff, sizeof o.waited);
    o.sum = -1;
    p->n_events = 0;
    for (int at = 0; at < p->n; at++) order(&o, at);
    for (int b = 0; b < p->n_buffers; b++)
        memcpy(p->buffer[b].last_on, o.users[b].last, sizeof p->buffer[b].last_on);
    free(o.users);
    return YOKE_OK;
}
