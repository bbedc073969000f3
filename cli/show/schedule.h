/* SPDX-License-Identifier: Apache-2.0 */
/** yoke schedule: what a drawing, a moment and JSON are made from. */
#ifndef CLI_SHOW_SCHEDULE_H
#define CLI_SHOW_SCHEDULE_H

#include <stdio.h>
#include "parallel/simulate.h"

struct cli_schedule {
    const char *kind;             /* or the file's name */
    struct yokei_pipeline shape;  /* n_chunks is at least 1 */
    int *buckets;
    bool *recompute;
    struct yokei_schedule schedule;
    struct yokei_costs costs;
    struct yokei_timeline timeline;
    bool has_moment;
    double moment;
    const char *moment_text;      /* what was asked, NULL: a time */
    int width;
};

static inline bool cli_is_work(const struct yokei_action *a) { return a->kind <= YOKEI_ACTION_R; }

/** "F1", in chunks "F1a": as people count, from 1. */
const char *cli_action_label(const struct cli_schedule *s, const struct yokei_action *a, char *out, size_t bytes);
/** A time without needless digits. */
const char *cli_time_text(double time, char *out, size_t bytes);

/* ---- schedule_text.c ---- */
yoke_status cli_schedule_ascii(const struct cli_schedule *s, FILE *to);

/* ---- schedule_moment.c ---- */
/** What a stage is at, at s->moment; indices into its actions, -1: none. */
struct cli_moment {
    int finished; /* the last one that was done */
    int doing;
    int next;     /* the next one, when it does nothing */
    bool starts;  /* `doing` begins just now */
};
void cli_schedule_moment_of(const struct cli_schedule *s, int stage, struct cli_moment *out);
/** "S3 finished F1" to a time. YOKE_EINVAL says what can be written. */
yoke_status cli_schedule_parse_when(struct cli_schedule *s, const char *text);
/** A line per stage. */
void cli_schedule_moment_text(const struct cli_schedule *s, FILE *to);

/* ---- schedule_draw.c ---- */
yoke_status cli_schedule_json(const struct cli_schedule *s, FILE *to);
void cli_schedule_svg(const struct cli_schedule *s, FILE *to);

#endif
