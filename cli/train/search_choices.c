/* SPDX-License-Identifier: Apache-2.0 */
/* The batches and the precisions of a search, from its options. */
#include "cli/train/search_choices.h"

#include <string.h>

#include "core/base/base.h"

static yoke_status add_batch(struct cli_choices *c, int64_t batch)
{
    int at = 0;
    while (at < c->n_batches && c->batch[at] < batch) at++;
    if (at < c->n_batches && c->batch[at] == batch) return YOKE_OK;
    if (c->n_batches == CLI_MOST_BATCHES)
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --batch means more than %d batches: give a shorter range, or name them",
                         CLI_MOST_BATCHES);
    memmove(&c->batch[at + 1], &c->batch[at], (size_t)(c->n_batches++ - at) * sizeof *c->batch);
    c->batch[at] = batch;
    return YOKE_OK;
}

static yoke_status add_range(struct cli_choices *c, int64_t low, int64_t high)
{
    if (low > high)
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --batch %lld..%lld: write the smaller number first: %lld..%lld",
                         (long long)low, (long long)high, (long long)high, (long long)low);
    for (int64_t batch = low; batch < high; batch *= 2) {
        YOKE_TRY(add_batch(c, batch));
        if (batch % 2 == 0 && batch / 2 * 3 < high) YOKE_TRY(add_batch(c, batch / 2 * 3));
    }
    return add_batch(c, high);
}

yoke_status cli_choices_read(const struct cli_options *o, struct cli_choices *c)
{
    const char *at = NULL;
    int64_t low, high;
    *c = (struct cli_choices){ 0 };
    while (cli_next_numbers(o, "batch", &at, &low, &high)) YOKE_TRY(add_range(c, low, high));
    for (int i = 0; i < cli_list_count(o, "precision"); i++) {
        char word[16];
        yoke_dtype precision;
        bool known = false;
        YOKE_TRY(yoke_dtype_parse(cli_list_item(o, "precision", i, word, sizeof word), &precision));
        for (int k = 0; k < c->n_precisions; k++) known = known || c->choice[k].precision == precision;
        if (!known) c->choice[c->n_precisions++].precision = precision;
    }
    for (int b = c->n_batches - 1; b >= 0; b--)
        for (int k = 0; k < c->n_precisions; k++)
            c->choice[b * c->n_precisions + k] = (struct yokei_search_choice){ c->batch[b],
                                                                               c->choice[k].precision };
    c->n = c->n_batches * c->n_precisions;
    return YOKE_OK;
}

static const char *separator(int i, int n) { return !i ? "" : i == n - 1 ? " or " : ", "; }

const char *cli_batches_text(const struct cli_choices *c, char *out, size_t bytes)
{
    out[0] = 0;
    for (int i = 0; i < c->n_batches; i++)
        yokei_text(out + strlen(out), bytes - strlen(out), "%s%lld", separator(i, c->n_batches),
                   (long long)c->batch[i]);
    return out;
}

const char *cli_precisions_text(const struct cli_choices *c, char *out, size_t bytes)
{
    out[0] = 0;
    for (int i = 0; i < c->n_precisions; i++)
        yokei_text(out + strlen(out), bytes - strlen(out), "%s%s", separator(i, c->n_precisions),
                   yoke_dtype_name(c->choice[i].precision));
    return out;
}
