/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of ranks. See key.h. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer/key.h"

void yokei_key_put(struct yokei_key *k, const void *data, size_t n)
{
    if (k->n + n > k->capacity && !k->failed) {
        const size_t capacity = 2 * (k->n + n) + 512;
        unsigned char *bytes = realloc(k->bytes, capacity);
        k->failed = !bytes;
        if (bytes) k->bytes = bytes, k->capacity = capacity;
    }
    if (k->failed) return;
    if (n) memcpy(k->bytes + k->n, data, n);
    k->n += n;
}

void yokei_key_number(struct yokei_key *k, int64_t x) { yokei_key_put(k, &x, sizeof x); }

void yokei_key_text(struct yokei_key *k, const char *text)
{
    yokei_key_number(k, text != NULL);
    yokei_key_put(k, text, text ? strlen(text) + 1 : 0);
}

void yokei_key_list(struct yokei_key *k, const int64_t *list, int n)
{
    yokei_key_number(k, list ? n : -1);
    for (int i = 0, same; list && i < n; i += same) {
        for (same = 1; i + same < n && list[i + same] == list[i];) same++;
        yokei_key_number(k, same);
        yokei_key_number(k, list[i]);
    }
}

void yokei_key_trim(struct yokei_key *k)
{
    unsigned char *bytes = k->n && !k->failed ? realloc(k->bytes, k->n) : NULL;
    if (bytes) k->bytes = bytes, k->capacity = k->n;
}

int yokei_key_compare(const struct yokei_key *a, const struct yokei_key *b)
{
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    return a->n ? memcmp(a->bytes, b->bytes, a->n) : 0;
}

void yokei_key_free(struct yokei_key *k)
{
    free(k->bytes);
    *k = (struct yokei_key){ NULL, 0, 0, false };
}

/* Put a layer, and the extents of the parts that a rank at `place` holds of it. */
static void put_layer(struct yokei_key *k, const yoke_layer *layer, const struct yoke_place *place)
{
    struct yoke_parameter p;
    yokei_key_put(k, &layer->type, sizeof layer->type);
    yokei_key_number(k, layer->in);
    yokei_key_number(k, layer->out);
    yokei_key_put(k, layer->config, layer->type->config_bytes);
    for (int i = 0;
         i < YOKE_MAX_PARAMETERS && layer->type->parameter && layer->type->parameter(layer, place, i, &p);
         i++)
        yokei_key_number(k, yokei_local_count(&p));
}

/* Put the sizes of a layer's parts for a micro-batch. */
static yoke_status put_sizes(struct yokei_key *k, const yoke_layer *layer, const struct yoke_shape *shape)
{
    int64_t rows, columns, ld;
    for (int part = 0; part < YOKE_N_PARTS; part++) {
        size_t bytes;
        YOKE_TRY(yoke_layer_bytes(layer, shape, (enum yoke_part)part, &bytes));
        yokei_key_number(k, (int64_t)bytes);
    }
    yoke_layer_output(layer, shape, &rows, &columns, &ld);
    yokei_key_number(k, rows);
    yokei_key_number(k, columns);
    yokei_key_number(k, ld);
    return YOKE_OK;
}

yoke_status yokei_key_layers(struct yokei_key *k, const struct yokei_job *job, const struct yoke_place *place,
                             yoke_dtype dtype)
{
    const int64_t rest = job->n_sequences % job->micro_batch;
    const struct {
        int64_t B;
        enum yoke_mode mode;
    } uses[] = { { job->micro_batch, YOKE_TRAIN }, { 1, YOKE_EVALUATE }, { rest, YOKE_TRAIN } };
    /*
     * The first rank adds biases and positions. With sequence parallelism the first and the last rank set
     * fewer rows to 0.
     */
    yokei_key_number(k, place->tensor_rank == 0);
    yokei_key_number(k, place->tensor_rank == place->tensor_size - 1);
    for (int c = 0; c < job->n_chunks; c++) {
        yokei_key_number(k, job->chunk[c].end - job->chunk[c].first);
        for (int l = job->chunk[c].first; l < job->chunk[c].end; l++) {
            yokei_key_number(k, job->recomputed[l]);
            put_layer(k, job->layers[l], place);
            for (size_t u = 0; u < YOKE_COUNT(uses); u++) {
                const struct yoke_shape shape = { sizeof shape, dtype, uses[u].B, job->T,
                                                  uses[u].mode, place, 0 };
                if (uses[u].B) YOKE_TRY(put_sizes(k, job->layers[l], &shape));
            }
        }
    }
    return YOKE_OK;
}
