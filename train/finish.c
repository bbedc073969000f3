/* SPDX-License-Identifier: Apache-2.0 */
/* Validation, the yardstick beside it, and a sample. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/data/baseline.h"
#include "train/data/text.h"
#include "train/loop.h"
#include "train/trainer.h"

/* Windows of the validation part that are looked at. */
static int64_t n_windows(const struct yokei_run_state *s)
{
    int64_t T = s->t->plan.sequence, all = yokei_tokens_n_windows(s->tokens, T);
    int64_t most = s->t->validation_tokens > 0 ? YOKE_MAX(s->t->validation_tokens / T, 1) : all;
    return YOKE_MIN(all, most);
}

/* This rank's, and its replica's, windows: as many as its share of a step. */
static void my_windows(const struct yokei_run_state *s, int64_t all, int64_t *begin_out, int64_t *end_out)
{
    int64_t before = 0, batch = s->t->plan.batch;
    for (int d = 0; d < s->mesh.d; d++) before += s->replica_shares[d];
    *begin_out = all * before / batch;
    *end_out = all * (before + s->replica_shares[s->mesh.d]) / batch;
}

static yoke_status sum_losses(struct yokei_run_state *s, int64_t begin, int64_t end, double *sum_out)
{
    enum { SOME = 64 };
    int64_t T = s->t->plan.sequence;
    int32_t *inputs = malloc((size_t)(SOME * T) * 4), *targets = malloc((size_t)(SOME * T) * 4);
    yoke_status status = inputs && targets ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "validation: no host memory");
    double sum = 0;
    for (int64_t w = begin; w < end && !status; w += SOME) {
        int64_t n = YOKE_MIN((int64_t)SOME, end - w);
        double part = 0;
        for (int64_t i = 0; i < n && !status; i++)
            status = yokei_tokens_window(s->tokens, w + i, T, inputs + i * T, targets + i * T);
        if (!status) status = yoke_trainer_evaluate(s->trainer, inputs, targets, n, &part);
        sum += part;
    }
    free(inputs);
    free(targets);
    YOKE_TRY(status);
    *sum_out = sum;
    return YOKE_OK;
}

yoke_status yokei_run_validate(struct yokei_run_state *s, double *loss_out, int64_t *n_tokens_out)
{
    int64_t all = n_windows(s), begin, end;
    *loss_out = NAN;
    *n_tokens_out = all * s->t->plan.sequence;
    if (all == 0) return YOKE_OK;
    double mine = 0, *sums = calloc((size_t)s->n_ranks, sizeof *sums);
    if (!sums) return yoke_fail(YOKE_ENOMEM, "validation: no host memory");
    my_windows(s, all, &begin, &end);
    yoke_status status = sum_losses(s, begin, end, &mine);
    if (!status) status = yokei_ranks_gather(&s->config, &mine, 1, sums);
    double sum = 0;
    for (int r = 0; r < s->n_ranks; r++) sum += sums[r];
    free(sums);
    YOKE_TRY(status);
    *loss_out = sum / (double)*n_tokens_out;
    return YOKE_OK;
}

/* The window slides: the last `sequence` tokens are the context. */
static yoke_status draw_tokens(struct yokei_run_state *s, const int32_t *prompt, int64_t n_prompt, int64_t n, int32_t *out)
{
    const struct yokei_training *t = s->t;
    int64_t T = t->plan.sequence, V = t->plan.model.vocab_size;
    int32_t *text = calloc((size_t)(n_prompt + n + T), sizeof *text);
    float *logits = malloc((size_t)V * sizeof *logits);
    yoke_status status = text && logits ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "sample: no host memory");
    if (!status) memcpy(text, prompt, (size_t)n_prompt * sizeof *text);
    for (int64_t i = 0; i < n && !status; i++) {
        int64_t length = n_prompt + i, start = YOKE_MAX(length - T, 0);
        status = yoke_trainer_logits(s->trainer, text + start, length - start - 1, logits);
        if (!status) status = yokei_sample_token(logits, V, t->temperature, t->top_k, t->plan.seed, (uint64_t)i, &text[length]);
    }
    if (!status) memcpy(out, text + n_prompt, (size_t)n * sizeof *out);
    free(text);
    free(logits);
    return status;
}

static yoke_status sample(struct yokei_run_state *s, struct yokei_training_result *result)
{
    const struct yokei_training *t = s->t;
    const char *prompt = t->prompt && *t->prompt ? t->prompt : "\n";
    bool bytes = yokei_tokens_are_bytes(s->tokens);
    int64_t n_prompt = bytes ? (int64_t)strlen(prompt) : 1, n = t->sample_tokens;
    int32_t *tokens = malloc((size_t)(n_prompt + n) * sizeof *tokens);
    if (!tokens) return yoke_fail(YOKE_ENOMEM, "sample: no host memory");
    for (int64_t i = 0; i < n_prompt; i++) tokens[i] = bytes ? (unsigned char)prompt[i] : 0;
    yoke_status status = draw_tokens(s, tokens, n_prompt, n, tokens + n_prompt);
    char *text = NULL;
    size_t size = 0;
    FILE *to = status ? NULL : open_memstream(&text, &size);
    if (!status && !to) status = yoke_fail(YOKE_ENOMEM, "sample: no host memory");
    for (int64_t i = n_prompt; i < n_prompt + n && to; i++) {
        if (bytes) fputc(tokens[i], to);
        else fprintf(to, "%d ", tokens[i]);
    }
    if (to && fclose(to) && !status) status = yoke_fail(YOKE_ENOMEM, "sample: no host memory");
    free(tokens);
    if (!status && bytes) status = yokei_word_share(s->tokens, text, size, &result->word_share, &result->n_words);
    if (status) {
        free(text);
        return status;
    }
    result->sample = text;
    result->sample_bytes = size;
    return YOKE_OK;
}

/* On the same bytes that the model was judged by. */
static yoke_status yardstick(struct yokei_run_state *s, struct yokei_training_result *result)
{
    struct yokei_baseline *baseline = NULL;
    YOKE_TRY(yokei_baseline_fit(s->tokens, &baseline));
    yoke_status status = yokei_baseline_loss(baseline, s->tokens, 1, result->validation_tokens, &result->baseline_loss);
    yokei_baseline_free(baseline);
    return status;
}

yoke_status yokei_run_finish(struct yokei_run_state *s, struct yokei_training_result *result)
{
    /* Where the model or its masters are divided, all ranks give their parts of the weights and the logits. */
    if (s->rank != 0 && !yokei_run_is_spread(s)) return YOKE_OK;
    if (s->rank == 0) yokei_ranks_busy(&s->config, "writing weights and a sample");
    if (s->t->export_to) YOKE_TRY(yokei_weights_save(s->trainer, &s->t->plan.model, s->rank == 0 ? s->t->export_to : NULL));
    if (s->t->sample_tokens > 0 && (s->rank == 0 || yokei_run_is_divided(s))) YOKE_TRY(sample(s, result));
    if (s->rank == 0 && result->bytes && result->validation_tokens > 0) YOKE_TRY(yardstick(s, result));
    return YOKE_OK;
}
