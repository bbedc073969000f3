/* SPDX-License-Identifier: Apache-2.0 */
#include "train/run/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/text/text.h"
#include "train/trainer/trainer.h"

/*
 * Exclude the ids that the tokenizer does not have. A model's vocabulary is often rounded up to a larger
 * number.
 */
static void leave_out_unknown(const struct yokei_bpe *bpe, int64_t V, float *logits)
{
    size_t bytes;
    for (int64_t v = 0; v < V && bpe; v++)
        if (!yokei_bpe_token(bpe, v, &bytes)) logits[v] = -INFINITY;
}

static bool is_stop(const struct yokei_sampling *how, int32_t token)
{
    for (int i = 0; i < how->n_stop; i++)
        if (how->stop[i] == token) return true;
    return false;
}

/*
 * Draw tokens into text [n_prompt + n + T]. The context is a sliding window of the last T tokens. Positions
 * after the context have no effect, because attention is causal.
 */
static yoke_status draw(yoke_trainer *trainer, const struct yokei_sampling *how, int64_t n_prompt,
                        int32_t *text, float *logits, int64_t *n_out)
{
    const int64_t T = trainer->config.sequence,
                  V = yoke_model_layer(trainer->model, trainer->model->n_layers - 1)->out;
    for (*n_out = 0; *n_out < how->n; ++*n_out) {
        const int64_t length = n_prompt + *n_out, start = YOKE_MAX(length - T, 0);
        YOKE_TRY(yoke_trainer_logits(trainer, text + start, length - start - 1, logits));
        leave_out_unknown(how->bpe, V, logits);
        YOKE_TRY(yokei_sample_token(logits, V, how->temperature, how->top_k, how->seed, (uint64_t)*n_out,
                                    &text[length]));
        if (is_stop(how, text[length])) break;
        if (how->report) YOKE_TRY(how->report(how->context, text[length]));
    }
    return YOKE_OK;
}

yoke_status yokei_sample_draw(yoke_trainer *trainer, const struct yokei_sampling *how,
                              const struct yokei_ids *prompt, int32_t *out, int64_t *n_out)
{
    const int64_t T = trainer->config.sequence,
                  V = yoke_model_layer(trainer->model, trainer->model->n_layers - 1)->out;
    if (prompt->n == 0) return yoke_fail(YOKE_EINVAL, "sample: the prompt has no token");
    for (size_t i = 0; i < prompt->n; i++)
        if (prompt->id[i] < 0 || prompt->id[i] >= V)
            return yoke_fail(YOKE_EDATA,
                             "sample: token %zu of the prompt is %d, but the model's vocab_size is %lld", i,
                             (int)prompt->id[i], (long long)V);
    if ((int64_t)prompt->n > T)
        yoke_log(YOKE_LOG_WARN,
                 "sample: the prompt has %zu tokens, and the model sees only the last %lld of them, because "
                 "its context is no longer",
                 prompt->n, (long long)T);
    int32_t *text = calloc(prompt->n + (size_t)(how->n + T), sizeof *text);
    float *logits = malloc((size_t)V * sizeof *logits);
    int64_t n = 0;
    yoke_status status = text && logits ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "sample: no host memory");
    if (!status) memcpy(text, prompt->id, prompt->n * sizeof *text);
    if (!status) status = draw(trainer, how, (int64_t)prompt->n, text, logits, &n);
    if (!status) {
        memcpy(out, text + prompt->n, (size_t)n * sizeof *out);
        *n_out = n;
    }
    free(text);
    free(logits);
    return status;
}

yoke_status yokei_sample_encode(struct yokei_bpe *bpe, const char *text, size_t bytes, unsigned flags,
                                struct yokei_ids *ids)
{
    if (bpe) return yokei_bpe_encode(bpe, text, bytes, flags, ids);
    for (size_t i = 0; i < bytes; i++) YOKE_TRY(yokei_ids_add(ids, (unsigned char)text[i]));
    return YOKE_OK;
}

const unsigned char *yokei_sample_bytes(const struct yokei_bpe *bpe, int32_t token, size_t *bytes_out)
{
    static _Thread_local unsigned char byte;
    if (bpe) return yokei_bpe_token(bpe, token, bytes_out);
    if (token < 0 || token > 255) return NULL; /* the end-of-text token of a byte vocabulary */
    byte = (unsigned char)token;
    *bytes_out = 1;
    return &byte;
}
