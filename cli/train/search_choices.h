/* SPDX-License-Identifier: Apache-2.0 */
/** The batches and the precisions among which yoke plan --search chooses: --batch and --precision. */
#ifndef CLI_TRAIN_SEARCH_CHOICES_H
#define CLI_TRAIN_SEARCH_CHOICES_H

#include "cli/cli.h"
#include "train/search/choices.h"

enum { CLI_MOST_BATCHES = 16, CLI_MOST_CHOICES = 3 * CLI_MOST_BATCHES };

struct cli_choices {
    int n, n_batches, n_precisions;
    struct yokei_search_choice choice[CLI_MOST_CHOICES]; /* every batch with every precision */
    int64_t batch[CLI_MOST_BATCHES];                     /* in ascending order */
};

/** Read the options. A range A..B stands for A, A 3/2, 2 A, 3 A, 4 A, ... and B. Errors: YOKE_EINVAL. */
yoke_status cli_choices_read(const struct cli_options *options, struct cli_choices *choices_out);
/** "256, 384 or 512"; "bf16 or f32". */
const char *cli_batches_text(const struct cli_choices *choices, char *out, size_t bytes);
const char *cli_precisions_text(const struct cli_choices *choices, char *out, size_t bytes);

#endif
