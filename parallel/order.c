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

/* For each stream the newest instruction that used some memory; -1: none. */
struct users {
    int last[YOKEI_N_STREAMS];
};

/*
 * The users of the memory of buffers that have ended: a segment tree over the addresses. Cell c is the memory
 * from border c to border c + 1. A buffer covers whole cells. So the users of a range are found in a time
 * that grows with the logarithm of the number of borders. If each buffer were compared with
 * all others, the time would grow with the square of their number.
 */
struct past {
    size_t *border; /* [n_borders] the first and last addresses of all buffers, ascending, each once */
    int n_borders, n_leaves;
    struct users *all;  /* [2 * n_leaves] users of the node's whole memory; leaf c is node n_leaves + c */
    struct users *most; /* [2 * n_leaves] the newest users of any part of the node's memory */
};

struct ordering {
    struct yokei_program *p;
    struct users *users; /* [n_buffers] */
    struct past past;
    int newest[YOKEI_N_STREAMS]; /* newest instruction of each stream so far */
    /* Newest instruction on the communication stream that works on gradients. */
    int summed;
    int sum; /* newest REDUCE; -1: none yet */
    int waited[YOKEI_N_STREAMS]
              [YOKEI_N_STREAMS]; /* [a][b]: newest instruction of stream b that stream a has waited for */
};

/* ---- the users of memory ---- */

static int by_address(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static int cell_of(const struct past *past, size_t address)
{
    const size_t *found = bsearch(&address, past->border, (size_t)past->n_borders, sizeof address,
                                  by_address);
    return (int)(found - past->border);
}

static void keep_newest(struct users *to, const struct users *from)
{
    for (int s = 0; s < YOKEI_N_STREAMS; s++) to->last[s] = YOKE_MAX(to->last[s], from->last[s]);
}

static yoke_status past_create(const struct yokei_program *p, struct past *past)
{
    const size_t n = (size_t)p->n_buffers;
    past->border = malloc((2 * n + 1) * sizeof *past->border);
    for (size_t b = 0; b < n && past->border; b++) {
        past->border[2 * b] = p->buffer[b].offset;
        past->border[2 * b + 1] = p->buffer[b].offset + p->buffer[b].bytes;
    }
    if (past->border) qsort(past->border, 2 * n, sizeof *past->border, by_address);
    for (size_t i = 0; i < 2 * n && past->border; i++)
        if (i == 0 || past->border[i] != past->border[past->n_borders - 1])
            past->border[past->n_borders++] = past->border[i];
    for (past->n_leaves = 1; past->n_leaves < past->n_borders;) past->n_leaves *= 2;
    const size_t bytes = 2 * (size_t)past->n_leaves * sizeof *past->all;
    past->all = malloc(bytes);
    past->most = malloc(bytes);
    if (!past->border || !past->all || !past->most)
        return yoke_fail(YOKE_ENOMEM, "step program: no host memory for the users of %zu buffers", n);
    memset(past->all, 0xff, bytes); /* -1 */
    memset(past->most, 0xff, bytes);
    return YOKE_OK;
}

static void past_free(struct past *past)
{
    free(past->border);
    free(past->all);
    free(past->most);
}

/* Note the users of a buffer that has ended. */
static void past_add(struct past *past, const struct yokei_buffer *b, const struct users *users)
{
    int begin = cell_of(past, b->offset) + past->n_leaves,
        end = cell_of(past, b->offset + b->bytes) + past->n_leaves;
    const int ends[2] = { begin, end - 1 };
    for (; begin < end; begin /= 2, end /= 2) {
        const int node[2] = { begin & 1 ? begin++ : 0, end & 1 ? --end : 0 };
        for (int k = 0; k < 2; k++)
            if (node[k]) keep_newest(&past->all[node[k]], users), keep_newest(&past->most[node[k]], users);
    }
    /* only the nodes above both ends have a part of the buffer without being within it */
    for (int k = 0; k < 2; k++)
        for (int i = ends[k] / 2; i >= 1; i /= 2) {
            keep_newest(&past->most[i], &past->most[2 * i]);
            keep_newest(&past->most[i], &past->most[2 * i + 1]);
        }
}

/* The newest users of any part of a new buffer's memory. */
static struct users past_users(const struct past *past, const struct yokei_buffer *b)
{
    struct users found;
    int begin = cell_of(past, b->offset) + past->n_leaves,
        end = cell_of(past, b->offset + b->bytes) + past->n_leaves;
    memset(&found, 0xff, sizeof found); /* -1 */
    for (int i = begin; i >= 1; i /= 2) keep_newest(&found, &past->all[i]);
    for (int i = end - 1; i >= 1; i /= 2) keep_newest(&found, &past->all[i]);
    for (; begin < end; begin /= 2, end /= 2) {
        if (begin & 1) keep_newest(&found, &past->most[begin++]);
        if (end & 1) keep_newest(&found, &past->most[--end]);
    }
    return found;
}

/* ---- the order ---- */

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

/* The first use of a buffer. Everything that used its memory before must be complete. */
static void take_over(struct ordering *o, int at, int buffer)
{
    const struct users before = past_users(&o->past, &o->p->buffer[buffer]);
    for (int s = 0; s < YOKEI_N_STREAMS; s++) wait_for(o, at, before.last[s]);
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
    for (int k = 0; k < n; k++)
        if (o->p->buffer[list[k]].last == at) past_add(&o->past, &o->p->buffer[list[k]], &o->users[list[k]]);
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
    struct ordering o = { .p = p, .summed = -1, .sum = -1 };
    const size_t bytes = ((size_t)p->n_buffers + 1) * sizeof *o.users;
    yoke_status status = past_create(p, &o.past);
    o.users = malloc(bytes);
    if (!status && !o.users)
        status = yoke_fail(YOKE_ENOMEM, "step program: no host memory for %d buffers", p->n_buffers);
    if (!status) {
        memset(o.users, 0xff, bytes); /* -1 */
        memset(o.newest, 0xff, sizeof o.newest);
        memset(o.waited, 0xff, sizeof o.waited);
        p->n_events = 0;
        for (int at = 0; at < p->n; at++) order(&o, at);
        for (int b = 0; b < p->n_buffers; b++)
            memcpy(p->buffer[b].last_on, o.users[b].last, sizeof p->buffer[b].last_on);
    }
    free(o.users);
    past_free(&o.past);
    return status;
}
