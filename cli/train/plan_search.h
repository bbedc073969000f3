/* SPDX-License-Identifier: Apache-2.0 */
/** yoke plan --search: find the fastest layouts on a cluster. */
#ifndef CLI_TRAIN_PLAN_SEARCH_H
#define CLI_TRAIN_PLAN_SEARCH_H

#include <stdio.h>

#include "cli/cli.h"
#include "cli/train/search_choices.h"
#include "cli/train/search_goal.h"
#include "train/run/loop.h"
#include "train/search/advice.h"
#include "train/search/search.h"
#include "train/trainer/memory.h"

/** The input of a search, for its output. */
struct cli_searched {
    const struct yokei_training *training;
    const struct yokei_cluster *cluster;
    const struct yokei_search_result *result;
    const struct cli_goal *goal;
    const struct yokei_advice *advice;
    double seconds;                    /* that the search took */
    const struct cli_choices *choices; /* NULL: one batch in one precision */
    double measured_seconds; /* that the measurement of the devices took; 0: a file describes them */
    /* of a block in a tensor group on two hosts, by yokei_tensor_between; 0: there is one host */
    double between_passes, between_sums;
    const struct yokei_cluster *unlimited; /* the cluster without --memory-limit; a given layout has none */
};

/** The whole of yoke plan --search. Errors: 10 for wrong options or files, YOKE_ENOMEM if nothing fits. */
yoke_status cli_plan_search(const struct cli_context *context);

/**
 * The whole of yoke plan --cluster without --search: predict the layout that the options describe. Errors: 10
 * for wrong options or files, YOKE_ENOMEM if the layout does not fit.
 */
yoke_status cli_plan_predict(const struct cli_context *context);

/* ---- plan_search_show.c ---- */
/** The same for one layout, whose result is the first one. */
void cli_predicted_show(const struct cli_searched *searched);
yoke_status cli_predicted_json(const struct cli_searched *searched);
void cli_search_show(const struct cli_searched *searched);
/** Why the second layout is not the first. Nothing is written if there is one layout. */
void cli_search_difference(const struct cli_searched *searched, FILE *to);
yoke_status cli_search_json(const struct cli_searched *searched);

/* ---- search_layout.c ---- */
/** The layout as text: "dp 8 x pp 8 x tp 1, zb-h1, micro-batch 1, zero 1". */
void cli_layout_text(const struct yokei_cluster *cluster, const struct yokei_layout *layout, char *out,
                     size_t bytes);
/** The same with "by replica". Several batches or precisions: "batch 256 in bf16: " stands first. */
void cli_ranked_text(const struct cli_searched *searched, const struct yokei_ranked *ranked, char *out,
                     size_t bytes);
/** What is proved of the smallest bubble if no layout is within the limit: " (no layout has ...)". */
const char *cli_bubble_bound_text(const struct yokei_search_result *result, char *out, size_t bytes);
/** The layout of a result that has the most tokens per second. */
const struct yokei_ranked *cli_most_tokens(const struct yokei_search_result *result);
/** Whether a part of the memory plan is on the device. The others are on the host. */
bool cli_is_device_part(const struct yokei_memory_part *part);
/** The stage whose ranks need the largest part of their memory. */
const struct yokei_rank_memory *cli_tightest(const struct yokei_prediction *prediction);

/** Read the options of the goal, for batch, sequence and parameters of a plan. Errors: YOKE_EINVAL. */
yoke_status cli_goal_of_plan(const struct cli_options *options, const struct yokei_plan *plan,
                             const yoke_model *model, struct cli_goal *goal_out);

#endif
