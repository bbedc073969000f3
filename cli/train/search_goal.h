/* SPDX-License-Identifier: Apache-2.0 */
/** The goal of a run that yoke plan --search plans: tokens or time, failures and checkpoints. */
#ifndef CLI_TRAIN_SEARCH_GOAL_H
#define CLI_TRAIN_SEARCH_GOAL_H

#include <jansson.h>

#include "cli/cli.h"
#include "train/search/advice.h"
#include "train/search/goal.h"

struct cli_goal {
    double tokens;           /* to train; 0: as many as fit into `hours` */
    double hours;            /* the most; 0: no limit */
    double failures_per_day; /* of each device; 0: none */
    double save, restart;    /* seconds */
    double checkpoint_bytes;
    int64_t sequence; /* tokens */
    bool from_steps;  /* neither tokens nor hours were given, so that --steps is the goal */
};

/**
 * Read the options. Errors: YOKE_EINVAL. With --steps alone the goal is this number of steps of `batch`
 * sequences. n_parameters: of the model.
 */
yoke_status cli_goal_read(const struct cli_options *options, int64_t batch, int64_t sequence,
                          double n_parameters, struct cli_goal *goal_out);
void cli_goal_of(const struct cli_goal *goal, const struct yokei_ranked *ranked, struct yokei_goal *out);
/** The mean seconds between failures of the devices of a layout. */
double cli_goal_between(const struct cli_goal *goal, const struct yokei_prediction *prediction);
/** The layout of the result with the lowest price; -1: no prices are known. */
int cli_goal_cheapest(const struct cli_goal *goal, const struct yokei_search_result *result);
/**
 * YOKE_ECONFIG: no layout of the result reaches the tokens within the hours. The text says what would.
 * `advice` may be NULL.
 */
yoke_status cli_goal_check(const struct cli_goal *goal, const struct yokei_search_result *result,
                           const struct yokei_advice *advice);

void cli_goal_show(const struct cli_goal *goal, const struct yokei_search_result *result);
json_t *cli_goal_json(const struct cli_goal *goal, const struct yokei_ranked *ranked);
/** Order layouts of several batches by the time to the goal, or by the tokens within its time. */
void cli_goal_sort(const struct cli_goal *goal, struct yokei_search_result *result);
/** "300 s", "1.5 h", "12 days". */
const char *cli_duration_text(double seconds, char *out, size_t bytes);

#endif
