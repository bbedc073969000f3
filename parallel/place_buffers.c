/* SPDX-License-Identifier: Apache-2.0 */
/* The planner of memory. It gives every buffer of a program an address before anything runs. */
#include <stdlib.h>
#include <string.h>
#include "parallel/program.h"

/*
 * Order of placing: by first use. Of buffers with the same first use, the one that lives longest comes first,
 * and so lies lowest.
 */
static int by_life(const void *a, const void *b)
{
    const struct yokei_buffer *x = *(const struct yokei_buffer *const *)a,
                              *y = *(const struct yokei_buffer *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last > y->last ? -1 : 1;
    return x < y ? -1 : x > y;
}

/*
 * Find the lowest gap of at least `bytes` between the live buffers, which are sorted by offset. Returns the
 * index in this list at which the new buffer belongs.
 */
static int lowest_gap(struct yokei_buffer *const *live, int n_live, size_t bytes, size_t red_zone,
                      size_t *offset_out)
{
    size_t at = 0;
    int i = 0;
    for (; i < n_live; i++) {
        if (live[i]->offset - at >= bytes) break;
        at = live[i]->offset + yoke_align(live[i]->bytes) + red_zone;
    }
    *offset_out = at;
    return i;
}

/*
 * Place all buffers that are received, or all that are not, from offset `base` on. Returns the end of their
 * memory.
 */
static size_t place(struct yokei_buffer *buffers, int n, bool received, size_t base, size_t red_zone,
                    struct yokei_buffer **order, struct yokei_buffer **live)
{
    int n_order = 0, n_live = 0;
    size_t most = 0;
    for (int i = 0; i < n; i++)
        if (buffers[i].is_received == received) order[n_order++] = &buffers[i];
    qsort(order, (size_t)n_order, sizeof *order, by_life);
    for (int i = 0; i < n_order; i++) {
        struct yokei_buffer *b = order[i];
        int kept = 0;
        for (int j = 0; j < n_live; j++)
            if (live[j]->last >= b->first) live[kept++] = live[j];
        n_live = kept;
        const size_t bytes = yoke_align(b->bytes) + red_zone;
        int at = lowest_gap(live, n_live, bytes, red_zone, &b->offset);
        memmove(live + at + 1, live + at, (size_t)(n_live - at) * sizeof *live);
        live[at] = b;
        n_live++;
        if (b->offset + bytes > most) most = b->offset + bytes;
    }
    for (int i = 0; i < n_order; i++) order[i]->offset += base;
    return base + most;
}

/*
 * Go through the buffers in the order of their first use, and put each one into the lowest gap. A training
 * step allocates stashes in the forward pass and frees them in the reverse order in the backward pass, so
 * this leaves no holes. Received buffers lie behind all others.
 */
yoke_status yokei_place_buffers(struct yokei_buffer *buffers, int n, size_t red_zone, size_t *bytes_out)
{
    struct yokei_buffer **order = malloc(((size_t)n + 1) * sizeof *order),
                        **live = malloc(((size_t)n + 1) * sizeof *live);
    yoke_status status = YOKE_OK;
    if (order && live)
        *bytes_out = place(buffers, n, true, place(buffers, n, false, 0, red_zone, order, live), red_zone,
                           order, live);
    else
        status = yoke_fail(YOKE_ENOMEM, "planning memory: no host memory for %d buffers", n);
    free(order);
    free(live);
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
