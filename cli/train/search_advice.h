/* SPDX-License-Identifier: Apache-2.0 */
/** What yoke plan --search says about changes of limits and of the hardware. */
#ifndef CLI_TRAIN_SEARCH_ADVICE_H
#define CLI_TRAIN_SEARCH_ADVICE_H

#include <jansson.h>

#include "cli/train/plan_search.h"

/** Try the changes, with a line of progress. seconds: for each change; 0: no change is tried. */
yoke_status cli_advice_make(const struct cli_searched *searched, const struct yokei_search_config *config,
                            const struct yokei_cluster *unlimited, double seconds,
                            struct yokei_advice *advice_out);
/** The sentence that says which limit binds. */
void cli_advice_binding(const struct yokei_advice *advice, double step_seconds, char *out, size_t bytes);
/** "-12.3 %", by which the step changes; "at least" tells that the search was not finished. */
void cli_advice_gain(const struct yokei_change *change, double step_seconds, char *out, size_t bytes);
void cli_advice_show(const struct cli_searched *searched);
json_t *cli_advice_json(const struct cli_searched *searched);
/**
 * The end of the error text if no layout is allowed: "the cheapest change with which a layout WHAT is ...".
 * Without such a change it is `otherwise`.
 */
void cli_advice_allowing(const struct cli_searched *searched, const char *what, const char *otherwise,
                         char *out, size_t bytes);

#endif
