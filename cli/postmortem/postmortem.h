/* SPDX-License-Identifier: Apache-2.0 */
/** yoke postmortem: why the loss of a run left its path. */
#ifndef CLI_POSTMORTEM_POSTMORTEM_H
#define CLI_POSTMORTEM_POSTMORTEM_H

#include <stdio.h>

#include "cli/cli.h"
#include "cli/report/record.h"
#include "train/postmortem/postmortem.h"

struct cli_postmortem {
    const char *run;
    struct yokei_postmortem_config config;
    struct yokei_postmortem_facts facts;
    struct yokei_verdict verdict;
    struct report_record record;
};

/** text.c: the report for people; as Markdown, or as plain text. */
void cli_postmortem_text(const struct cli_postmortem *p, bool is_markdown, FILE *to);
/** json.c: the report for programs, as one object. */
yoke_status cli_postmortem_json(const struct cli_postmortem *p, FILE *to);

/**
 * go_on.c: write a configuration for yoke train -c that goes on from the checkpoint behind which the replays
 * began. With `lower_rate`, the weights of this checkpoint begin a new run with a tenth of the learning rate.
 * YOKE_EDATA: the run's options or the checkpoint are not there. YOKE_EIO.
 */
yoke_status cli_postmortem_go_on(const struct cli_postmortem *p, const char *path, bool lower_rate);

#endif
