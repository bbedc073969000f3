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
    char lost_tuning[1024]; /* a tuning file of the run that is gone; "": none */
};

/** job.c: run a replay in the layout of the run (struct yokei_postmortem_config). */
bool cli_postmortem_run_job(void *context, const struct yokei_postmortem_job *job, char *why, size_t bytes);

/** The ways to go on, and the options that ask for them. */
enum cli_way {
    CLI_WAY_ROLLBACK,   /* resume the checkpoint */
    CLI_WAY_LOWER_RATE, /* begin a new run with its weights and a tenth of the learning rate */
    CLI_WAY_SKIP,       /* resume the checkpoint, and never train on the bad samples */
    CLI_N_WAYS
};
extern const char *const cli_way_names[CLI_N_WAYS];

/** text.c: the report for people; as Markdown, or as plain text. */
void cli_postmortem_text(const struct cli_postmortem *p, bool is_markdown, FILE *to);
/** json.c: the report for programs, as one object. */
yoke_status cli_postmortem_json(const struct cli_postmortem *p, FILE *to);

/**
 * go_on.c: write a configuration for yoke train -c that goes on from the checkpoint behind which the replays
 * began. YOKE_EDATA: the run's options or the checkpoint are not there, or CLI_WAY_SKIP has no bad sample to
 * skip. YOKE_ECONFIG: the samples are more ranges than a run can skip. YOKE_EIO.
 */
yoke_status cli_postmortem_go_on(const struct cli_postmortem *p, const char *path, enum cli_way way);

#endif
