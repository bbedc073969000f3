/* SPDX-License-Identifier: Apache-2.0 */
/** yoke plan --search --memo: the design memo of the first layout, as Markdown. */
#ifndef CLI_TRAIN_MEMO_H
#define CLI_TRAIN_MEMO_H

#include <stdio.h>

#include "cli/show/schedule.h"
#include "cli/train/plan_search.h"

/** The passes of the layout's first replica, as the memo draws them. */
struct cli_memo_timeline {
    struct cli_schedule drawn;
    bool recompute[YOKEI_MOST_CUTS];
    struct yokei_stage_costs costs[YOKEI_MOST_CUTS]; /* in ms, rounded as in the text */
    char text[YOKEI_MOST_CUTS][96];                  /* these numbers as a line of --costs-file */
};

/**
 * Write the memo. config: that of the search. If no layout is allowed, the memo has the limits, the nearest
 * layout, what it exceeds, and the changes with which a layout is allowed.
 */
yoke_status cli_memo_write(const char *path, const struct cli_options *options,
                           const struct cli_searched *searched, const struct yokei_search_config *config);

/* ---- memo_parts.c ---- */
/** The title, the limits, and the memory of each stage of a layout. */
void cli_memo_head(const struct cli_options *options, const struct cli_searched *searched, FILE *to);
void cli_memo_limits(const struct cli_options *options, const struct cli_searched *searched, FILE *to);
void cli_memo_memory(const struct cli_searched *searched, const struct yokei_prediction *prediction,
                     FILE *to);

/* ---- memo_nothing.c ---- */
/** The memo of a search without an allowed layout. The result has a nearest layout or a least idle one. */
yoke_status cli_memo_nothing(const struct cli_options *options, const struct cli_searched *searched,
                             FILE *to);

/* ---- memo_risks.c ---- */
void cli_memo_risks(const char *precision, const struct cli_searched *searched,
                    const struct yokei_places *places, FILE *to);

/* ---- memo_checks.c ---- */
/** Draw the schedule of a layout with several stages. */
yoke_status cli_memo_timeline(const struct cli_searched *searched, const struct yokei_search_config *config,
                              FILE *to, struct cli_memo_timeline *timeline);
void cli_memo_timeline_free(struct cli_memo_timeline *timeline);
/**
 * The command of the search, and the command that plans a layout alone. Before the first one stands the
 * command that writes the cluster file, if the devices were measured.
 */
yoke_status cli_memo_search_command(const struct cli_options *options, const struct cli_searched *searched,
                                    const char *title, FILE *to);
void cli_memo_layout_command(const struct cli_options *options, const struct yokei_ranked *ranked, FILE *to);
/** The commands that check the memo. timeline: NULL without stages. */
yoke_status cli_memo_checks(const struct cli_options *options, const struct cli_searched *searched,
                            const struct yokei_search_config *config,
                            const struct cli_memo_timeline *timeline, FILE *to);

#endif
