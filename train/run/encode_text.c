/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convert the text of a run to tokens with a tokenizer, and compute the numbers and files that depend on it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/files/map.h"
#include "train/run/loop.h"
#include "train/exchange/model_folder.h"
#include "train/trainer/trainer.h"

/* Encode the whole text before the first step. The file is mapped, and its tokens need four bytes each. */
static yoke_status encode_text(struct yokei_run_state *s, const struct yokei_tokens_config *c)
{
    const struct yokei_training *t = s->t;
    const struct yoke_trainer_config ranks = { .comm = t->comm, .control = t->control };
    struct yokei_map map;
    struct yokei_ids ids = { 0 };
    YOKE_TRY(yokei_map_open(t->tokens, YOKE_EDATA, &map));
    yokei_ranks_busy(&ranks, "encoding the text");
    const uint64_t begun = yokei_now_ns();
    const yoke_status status = yokei_bpe_encode(s->bpe, map.data, map.bytes, 0, &ids);
    const double seconds = (double)(yokei_now_ns() - begun) * 1e-9;
    const size_t n = ids.n, bytes = map.bytes;
    yokei_map_close(&map);
    if (status) {
        free(ids.id);
        return yoke_fail_context(status, "%s", t->tokens);
    }
    YOKE_TRY(yokei_tokens_of(t->tokens, ids.id, n, c, &s->tokens));
    yokei_run_note(s, "%s: %zu bytes are %zu tokens (%.2f bytes each), encoded in %.2f s (%.1f k tokens/s)",
                   t->tokens, bytes, n, (double)bytes / (double)n, seconds,
                   seconds > 0 ? (double)n / seconds * 1e-3 : 0.0);
    return YOKE_OK;
}

yoke_status yokei_run_open_tokens(struct yokei_run_state *s, const struct yokei_tokens_config *c)
{
    const struct yokei_training *t = s->t;
    if (!t->tokenizer) return yokei_tokens_open(t->tokens, c, &s->tokens);
    YOKE_TRY(yokei_bpe_open(t->tokenizer, &s->bpe));
    YOKE_TRY(yokei_model_check_tokenizer(s->bpe, c->vocab));
    return t->tokens_are_llmc ? yokei_tokens_open(t->tokens, c, &s->tokens) : encode_text(s, c);
}

yoke_status yokei_run_find_companions(struct yokei_run_state *s)
{
    const struct yokei_training *t = s->t;
    const struct yokei_companion_sources sources = { .from = t->resume ? t->resume : t->init,
                                                     .config = t->resume ? NULL : t->model_file,
                                                     .bpe = s->bpe,
                                                     .model = yokei_plan_model(&t->plan) };
    if (!t->save && !t->export_to) return YOKE_OK;
    return yokei_ranks_all_well(&s->config,
                                s->rank == 0 ? yokei_companions_read(&sources, &s->companions) : YOKE_OK);
}

/*
 * The bytes of the tokens that the validation predicted. These are the targets of its windows, which are
 * consecutive.
 */
yoke_status yokei_run_validation_bytes(const struct yokei_run_state *s, int64_t n_tokens, int64_t *bytes_out)
{
    enum { PIECE = 4096 };
    int32_t piece[PIECE];
    int64_t sum = 0;
    if (!s->bpe) n_tokens = 0;
    for (int64_t at = 0; at < n_tokens; at += PIECE) {
        const int64_t n = YOKE_MIN((int64_t)PIECE, n_tokens - at);
        YOKE_TRY(yokei_tokens_read(s->tokens, YOKEI_TOKENS_VALIDATION, 1 + at, n, piece));
        for (int64_t i = 0; i < n; i++) {
            size_t bytes;
            if (!yokei_bpe_token(s->bpe, piece[i], &bytes))
                return yoke_fail(
                    YOKE_EDATA,
                    "%s: holds the token %d, which %s does not have: give the tokenizer that made it",
                    s->t->tokens, (int)piece[i], yokei_bpe_path(s->bpe));
            sum += (int64_t)bytes;
        }
    }
    *bytes_out = sum;
    return YOKE_OK;
}
