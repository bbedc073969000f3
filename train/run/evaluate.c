/* SPDX-License-Identifier: Apache-2.0 */
/* The validation, the baseline loss, and a sample. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/text/baseline.h"
#include "train/text/text.h"
#include "train/run/loop.h"
#include "train/run/sample.h"
#include "train/trainer/trainer.h"

/* The number of windows of the validation part that are evaluated. */
static int64_t n_windows(const struct yokei_run_state *s)
{
    int64_t T = s->t->plan.sequence, all = yokei_tokens_n_windows(s->tokens, T);
    int64_t most = s->t->validation_tokens > 0 ? YOKE_MAX(s->t->validation_tokens / T, 1) : all;
    return YOKE_MIN(all, most);
}

/* The windows of this rank's replica, in proportion to the replica's share of a step. */
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

/* Convert tokens to text. If only the ids of the tokens are known, the text has the ids. */
static yoke_status text_of(const struct yokei_run_state *s, const int32_t *tokens, int64_t n, char **text_out,
                           size_t *size_out)
{
    const bool bytes = yokei_tokens_are_bytes(s->tokens);
    FILE *to = open_memstream(text_out, size_out);
    if (!to) return yoke_fail(YOKE_ENOMEM, "sample: no host memory");
    for (int64_t i = 0; i < n; i++) {
        size_t length = 0;
        const unsigned char *piece = bytes || s->bpe ? yokei_sample_bytes(s->bpe, tokens[i], &length) : NULL;
        if (piece)
            fwrite(piece, 1, length, to);
        else if (!bytes)
            fprintf(to, "%d ", tokens[i]);
    }
    return fclose(to) ? yoke_fail(YOKE_ENOMEM, "sample: no host memory") : YOKE_OK;
}

static yoke_status sample(struct yokei_run_state *s, struct yokei_training_result *result)
{
    const struct yokei_training *t = s->t;
    const char *prompt = t->prompt && *t->prompt ? t->prompt : "\n";
    const struct yokei_sampling how = { .n = t->sample_tokens,
                                        .temperature = t->temperature,
                                        .top_k = t->top_k,
                                        .seed = t->plan.seed,
                                        .bpe = s->bpe };
    const bool bytes = yokei_tokens_are_bytes(s->tokens);
    struct yokei_ids ids = { 0 };
    int64_t n = 0;
    char *text = NULL;
    size_t size = 0;
    int32_t *drawn = malloc((size_t)how.n * sizeof *drawn);
    yoke_status status = drawn ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "sample: no host memory");
    if (!status)
        status = bytes || s->bpe ? yokei_sample_encode(s->bpe, prompt, strlen(prompt), 0, &ids)
                                 : yokei_ids_add(&ids, 0);
    if (!status) status = yokei_sample_draw(s->trainer, &how, &ids, drawn, &n);
    if (!status) status = text_of(s, drawn, n, &text, &size);
    free(ids.id);
    free(drawn);
    if (!status && bytes)
        status = yokei_word_share(s->tokens, text, size, &result->word_share, &result->n_words);
    if (status) {
        free(text);
        return status;
    }
    result->sample = text;
    result->sample_bytes = size;
    return YOKE_OK;
}

/* The baseline loss on the same bytes as the model's validation loss. */
static yoke_status yardstick(struct yokei_run_state *s, struct yokei_training_result *result)
{
    struct yokei_baseline *baseline = NULL;
    YOKE_TRY(yokei_baseline_fit(s->tokens, &baseline));
    yoke_status status = yokei_baseline_loss(baseline, s->tokens, 1, result->validation_tokens,
                                             &result->baseline_loss);
    yokei_baseline_free(baseline);
    return status;
}

yoke_status yokei_run_finish(struct yokei_run_state *s, struct yokei_training_result *result)
{
    /*
     * If the model or its masters are divided, all ranks contribute their parts of the weights and the
     * logits.
     */
    if (s->rank != 0 && !yokei_run_is_spread(s)) return YOKE_OK;
    if (s->rank == 0) yokei_ranks_busy(&s->config, "writing weights and a sample");
    yokei_run_busy(s, "writing weights and a sample");
    if (s->t->export_to)
        YOKE_TRY(yokei_weights_save(s->trainer, yokei_plan_model(&s->t->plan), &s->companions,
                                    s->rank == 0 ? s->t->export_to : NULL));
    if (s->t->sample_tokens > 0 && (s->rank == 0 || yokei_run_is_divided(s))) YOKE_TRY(sample(s, result));
    if (s->rank == 0 && result->bytes && result->validation_tokens > 0) YOKE_TRY(yardstick(s, result));
    return YOKE_OK;
}
