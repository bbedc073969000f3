/* SPDX-License-Identifier: Apache-2.0 */
/** yoke schedule: the data from which a drawing, the state at one moment, and JSON are made. */
#ifndef CLI_SHOW_SCHEDULE_H
#define CLI_SHOW_SCHEDULE_H

#include <stdio.h>
#include "parallel/simulate.h"

struct cli_schedule {
    const char *kind;            /* kind of the schedule, or the file's name */
    struct yokei_pipeline shape; /* n_chunks is at least 1 */
    int *buckets;
    bool *recompute;
    struct yokei_schedule schedule;
    struct yokei_costs costs;
    struct yokei_simulated simulated;
    bool has_moment;
    double moment;
    const char *moment_text; /* the moment as the user wrote it; NULL: the user gave a time */
    int width;
};

static inline bool cli_is_work(const struct yokei_action *a) { return a->kind <= YOKEI_ACTION_R; }

/* ---- schedule_label.c ---- */
/** "F1", or "F1a" if stages have several chunks. Numbers in labels count from 1. */
const char *cli_action_label(const struct cli_schedule *s, const struct yokei_action *a, char *out,
                             size_t bytes);
/** Write a time without needless digits. */
const char *cli_time_text(double time, char *out, size_t bytes);

/* ---- schedule_text.c ---- */
yoke_status cli_schedule_ascii(const struct cli_schedule *s, FILE *to);

/* ---- schedule_moment.c ---- */
/**
 * The state of a stage (a part of the pipeline) at s->moment. The numbers are indices into the stage's
 * actions; -1: none.
 */
struct cli_moment {
    int finished; /* the last action that was finished */
    int doing;
    int next;    /* the next action, if the stage is idle */
    bool starts; /* `doing` begins exactly now */
};
void cli_schedule_moment_of(const struct cli_schedule *s, int stage, struct cli_moment *out);
/** Convert "S3 finished F1" to a time. The text of YOKE_EINVAL lists what can be written. */
yoke_status cli_schedule_parse_when(struct cli_schedule *s, const char *text);
/** Print a line for each stage. */
void cli_schedule_moment_text(const struct cli_schedule *s, FILE *to);

/* ---- schedule_draw.c ---- */
yoke_status cli_schedule_json(const struct cli_schedule *s, FILE *to);
void cli_schedule_svg(const struct cli_schedule *s, FILE *to);

#endif
