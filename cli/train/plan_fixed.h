/* SPDX-License-Identifier: Apache-2.0 */
/** The options of yoke train that a plan fixes. */
#ifndef CLI_TRAIN_PLAN_FIXED_H
#define CLI_TRAIN_PLAN_FIXED_H

#include "cli/train/plan_source.h"

enum cli_fixed_when {
    CLI_FIXED_ALWAYS,    /* by --plan, and by --resume */
    CLI_FIXED_IN_REPLAY, /* by --plan only; --resume may change it */
};
struct cli_fixed_option {
    const char *name;
    int kind;      /* how plan_fixed.c compares it */
    size_t offset; /* of the member of struct yokei_plan that has the value */
    enum cli_fixed_when when;
};
/** The table. A row without a name ends it. */
extern const struct cli_fixed_option cli_fixed_options[];

/**
 * Refuse each option that the user gave and that differs from the plan. `path` is the file or the folder with
 * the plan. `replays` is true for --plan and false for --resume. YOKE_ECONFIG; the text has both values.
 */
yoke_status cli_plan_refuse_others(const struct cli_options *options, const struct yokei_plan *plan,
                                   const char *path, bool replays);

#endif
