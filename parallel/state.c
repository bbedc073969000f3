/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of what lives across steps. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/state.h"

static size_t take(size_t *at, size_t bytes)
{
    size_t offset = *at;
    *at += yoke_align(bytes);
    return offset;
}

/*
 * Gradients lie in the order in which the backward pass completes them, last layer first, so that a bucket is one
 * contiguous piece that is ready early. A tied parameter is complete with the lowest layer that uses it.
 */
static yoke_status lay_out_gradients(const struct yokei_parameters *ps, size_t bucket_bytes, struct yokei_state *s,
                                     size_t *at)
{
    size_t width = yoke_dtype_bytes(s->wide);
    s->bucket = calloc((size_t)ps->n + 1, sizeof *s->bucket);
    if (!s->bucket) return yoke_fail(YOKE_ENOMEM, "buckets: no host memory for %d parameters", ps->n);
    s->gradients = *at;
    for (int layer = ps->n_layers - 1; layer >= 0; layer--) {
        for (int i = 0; i < ps->n; i++) {
            if (ps->first_layer[i] != layer) continue;
            struct yokei_bucket *b = s->n_buckets ? &s->bucket[s->n_buckets - 1] : NULL;
            if (!b || (size_t)b->n * width >= bucket_bytes) {
                b = &s->bucket[s->n_buckets++];
                b->offset = *at;
            }
            s->slot[i].gradient = take(at, (size_t)s->slot[i].n * width);
            b->n = (int64_t)((*at - b->offset) / width);
            b->layer = layer;
        }
    }
    s->gradients_bytes = *at - s->gradients;
    return YOKE_OK;
}

yoke_status yokei_state_create(const struct yokei_parameters *ps, yoke_dtype dtype, int64_t n_tokens,
                               size_t bucket_bytes, struct yokei_state *state_out)
{
    struct yokei_state s = { .dtype = dtype, .wide = yoke_dtype_wide(dtype), .n = ps->n };
    size_t width = yoke_dtype_bytes(s.wide), narrow = yoke_dtype_bytes(dtype), at = 0;
    s.report.size = sizeof s.report;
    s.slot = calloc((size_t)ps->n + 1, sizeof *s.slot);
    if (!s.slot) return yoke_fail(YOKE_ENOMEM, "the layout of weights: no host memory for %d parameters", ps->n);
    for (int i = 0; i < ps->n; i++) {
        struct yokei_slot *slot = &s.slot[i];
        slot->n = yokei_local_count(&ps->item[i]);
        slot->has_copy = ps->item[i].matrix && dtype != s.wide;
        slot->weight = slot->master = take(&at, (size_t)slot->n * width);
        if (slot->has_copy) slot->weight = take(&at, (size_t)slot->n * narrow);
    }
    s.report.weights = at;
    for (int i = 0; i < ps->n; i++) {
        s.slot[i].moment1 = take(&at, (size_t)s.slot[i].n * width);
        s.slot[i].moment2 = take(&at, (size_t)s.slot[i].n * width);
    }
    s.report.optimizer = at - s.report.weights;
    yoke_status status = lay_out_gradients(ps, bucket_bytes, &s, &at);
    if (status) {
        yokei_state_free(&s);
        return status;
    }
    s.report.gradients = s.gradients_bytes;
    s.tokens = take(&at, (size_t)n_tokens * sizeof(int32_t));
    s.targets = take(&at, (size_t)n_tokens * sizeof(int32_t));
    s.losses = take(&at, (size_t)n_tokens * width);
    s.norms = take(&at, (size_t)ps->n * 2 * width);
    s.report.workspace = at - s.tokens;
    s.bytes = at;
    *state_out = s;
    return YOKE_OK;
}

void yokei_state_free(struct yokei_state *s)
{
    free(s->slot);
    free(s->bucket);
    memset(s, 0, sizeof *s);
}
