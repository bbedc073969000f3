/* SPDX-License-Identifier: Apache-2.0 */
/* The planner of memory. It gives every buffer of a program an address before anything runs. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/gaps.h"
#include "parallel/program.h"

/*
 * Order of placing: by first use. Of buffers with the same first use, the one that lives longest comes first,
 * and so lies lowest.
 */
static bool comes_before(const struct yokei_buffer *x, const struct yokei_buffer *y)
{
    if (x->first != y->first) return x->first < y->first;
    if (x->last != y->last) return x->last > y->last;
    return x < y;
}

/* Buffers are created in the order of their first use, so each one moves only past those of the same use. */
static void sort_by_life(struct yokei_buffer **list, int n)
{
    for (int i = 1; i < n; i++) {
        struct yokei_buffer *b = list[i];
        int k = i;
        for (; k > 0 && comes_before(b, list[k - 1]); k--) list[k] = list[k - 1];
        list[k] = b;
    }
}

/*
 * Sort by last use, in a time that grows with the number of buffers and of uses. count [last + 2] is memory
 * for the number of buffers that end at each use.
 */
static void sort_by_end(struct yokei_buffer *const *from, int n, int last, int *count,
                        struct yokei_buffer **to)
{
    memset(count, 0, ((size_t)last + 2) * sizeof *count);
    for (int i = 0; i < n; i++) count[from[i]->last + 1]++;
    for (int use = 0; use <= last; use++) count[use + 1] += count[use];
    for (int i = 0; i < n; i++) to[count[from[i]->last]++] = from[i];
}

static size_t room_of(const struct yokei_buffer *b, size_t red_zone)
{
    return yoke_align(b->bytes) + red_zone;
}

static int last_use(const struct yokei_buffer *buffers, int n)
{
    int last = 0;
    for (int i = 0; i < n; i++) last = YOKE_MAX(last, buffers[i].last);
    return last;
}

/*
 * Place all buffers that are received, or all that are not, from offset `base` on. *end_out is the end of
 * their memory. begins [n], ends [n] and count are memory for lists.
 */
static yoke_status place(struct yokei_buffer *buffers, int n, bool received, size_t base, size_t red_zone,
                         struct yokei_buffer **begins, struct yokei_buffer **ends, int *count,
                         size_t *end_out)
{
    struct yokei_gaps gaps;
    int n_placed = 0, n_ended = 0;
    *end_out = base;
    for (int i = 0; i < n; i++)
        if (buffers[i].is_received == received) begins[n_placed++] = &buffers[i];
    if (!n_placed) return YOKE_OK;
    YOKE_TRY(yokei_gaps_create(n_placed, &gaps));
    sort_by_end(begins, n_placed, last_use(buffers, n), count, ends);
    sort_by_life(begins, n_placed);
    for (int i = 0; i < n_placed; i++) {
        struct yokei_buffer *b = begins[i];
        for (; ends[n_ended]->last < b->first; n_ended++)
            yokei_gaps_give(&gaps, ends[n_ended]->offset - base, room_of(ends[n_ended], red_zone));
        b->offset = base + yokei_gaps_take(&gaps, room_of(b, red_zone));
        *end_out = YOKE_MAX(*end_out, b->offset + room_of(b, red_zone));
    }
    yokei_gaps_free(&gaps);
    return YOKE_OK;
}

/*
 * Go through the buffers in the order of their first use, and put each one into the lowest gap. A training
 * step allocates stashes in the forward pass and frees them in the reverse order in the backward pass, so
 * this leaves no holes. Received buffers lie behind all others.
 */
yoke_status yokei_place_buffers(struct yokei_buffer *buffers, int n, size_t red_zone, size_t *bytes_out)
{
    struct yokei_buffer **begins = malloc(((size_t)n + 1) * sizeof *begins),
                        **ends = malloc(((size_t)n + 1) * sizeof *ends);
    int *count = malloc(((size_t)last_use(buffers, n) + 2) * sizeof *count);
    size_t end = 0;
    yoke_status status = begins && ends && count
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "planning memory: no host memory for %d buffers", n);
    if (!status) status = place(buffers, n, false, 0, red_zone, begins, ends, count, &end);
    if (!status) status = place(buffers, n, true, end, red_zone, begins, ends, count, bytes_out);
    free(begins);
    free(ends);
    free(count);
    return status;
}

/*
 * `change` has, for each instruction, the bytes of each kind of buffer that begin to live there, minus those
 * that have ended. Add them up, and keep the sums of the instruction with the most live bytes.
 */
static void at_most(const struct yokei_program *p, int64_t (*change)[YOKEI_N_BUFFER_KINDS],
                    struct yokei_program_parts *out)
{
    int64_t now[YOKEI_N_BUFFER_KINDS] = { 0 }, most = -1;
    for (int i = 0; i < p->n; i++) {
        int64_t sum = 0;
        for (int k = 0; k < YOKEI_N_BUFFER_KINDS; k++) sum += now[k] += change[i][k];
        if (sum <= most) continue;
        most = sum;
        for (int k = 0; k < YOKEI_N_BUFFER_KINDS; k++) out->of[k] = (size_t)now[k];
    }
}

yoke_status yokei_program_parts(const struct yokei_program *p, struct yokei_program_parts *out)
{
    int64_t(*change)[YOKEI_N_BUFFER_KINDS] = calloc((size_t)p->n + 2, sizeof *change);
    if (!change) return yoke_fail(YOKE_ENOMEM, "planning memory: no host memory for %d instructions", p->n);
    *out = (struct yokei_program_parts){ { 0 }, 0, 0 };
    size_t end = 0;
    for (int i = 0; i < p->n_buffers; i++) {
        const struct yokei_buffer *b = &p->buffer[i];
        if (b->is_received) continue;
        change[b->first][b->kind] += (int64_t)yoke_align(b->bytes);
        change[b->last + 1][b->kind] -= (int64_t)yoke_align(b->bytes);
        if (b->offset + yoke_align(b->bytes) > end) end = b->offset + yoke_align(b->bytes);
    }
    at_most(p, change, out);
    free(change);
    out->received = p->bytes - end;
    out->unused = end;
    for (int k = 0; k < YOKEI_N_BUFFER_KINDS; k++) out->unused -= out->of[k];
    return YOKE_OK;
}
