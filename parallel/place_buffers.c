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
static int by_life(const void *a, const void *b)
{
    const struct yokei_buffer *x = *(const struct yokei_buffer *const *)a,
                              *y = *(const struct yokei_buffer *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last > y->last ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* A buffer comes after those that end before it. */
static int by_end(const void *a, const void *b)
{
    const struct yokei_buffer *x = *(const struct yokei_buffer *const *)a,
                              *y = *(const struct yokei_buffer *const *)b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return x < y ? -1 : x > y;
}

static size_t room_of(const struct yokei_buffer *b, size_t red_zone)
{
    return yoke_align(b->bytes) + red_zone;
}

/*
 * Place all buffers that are received, or all that are not, from offset `base` on. *end_out is the end of
 * their memory. begins [n] and ends [n] are memory for two lists.
 */
static yoke_status place(struct yokei_buffer *buffers, int n, bool received, size_t base, size_t red_zone,
                         struct yokei_buffer **begins, struct yokei_buffer **ends, size_t *end_out)
{
    struct yokei_gaps gaps;
    int n_placed = 0, n_ended = 0;
    YOKE_TRY(yokei_gaps_create(n, &gaps));
    *end_out = base;
    for (int i = 0; i < n; i++)
        if (buffers[i].is_received == received) begins[n_placed] = ends[n_placed] = &buffers[i], n_placed++;
    qsort(begins, (size_t)n_placed, sizeof *begins, by_life);
    qsort(ends, (size_t)n_placed, sizeof *ends, by_end);
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
    size_t end = 0;
    yoke_status status = begins && ends
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "planning memory: no host memory for %d buffers", n);
    if (!status) status = place(buffers, n, false, 0, red_zone, begins, ends, &end);
    if (!status) status = place(buffers, n, true, end, red_zone, begins, ends, bytes_out);
    free(begins);
    free(ends);
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
