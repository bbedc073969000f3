/* SPDX-License-Identifier: Apache-2.0 */
/** What a run writes for dashboards beside metrics.jsonl. docs/DASHBOARDS.md lists all values. */
#ifndef TRAIN_RUN_DASHBOARDS_H
#define TRAIN_RUN_DASHBOARDS_H

#include "train/dashboards/exposition.h"
#include "train/dashboards/gradients.h"
#include "train/run/loop.h"
#include "train/run/step_parts.h"

/** What rank 0 writes. The other ranks have only `gradients`. */
struct yokei_dashboards {
    struct yokei_gradients *gradients; /* NULL: no histograms */
    struct yokei_events *events;       /* NULL: no TensorBoard, or the rank is not rank 0 */
    bool publishes;                    /* whether this rank writes the metrics file */
    struct yokei_exposition text;
    bool warned_events, warned_metrics;  /* a warning about the files is printed once */
    bool described, described_gradients; /* the file has the descriptions of the tags */
    uint64_t flushed_ns, parts_ns, published_ns;
    double started;                        /* seconds since 1970 */
    double before;                         /* seconds of the row before */
    double (*parts)[YOKEI_N_STEP_PARTS];   /* [n_ranks] seconds of the rows since the last event with parts */
    int64_t n_parts;                       /* these rows */
    double (*totals)[YOKEI_N_STEP_PARTS];  /* [n_ranks] seconds of all rows of this process */
    double (*divided)[YOKEI_N_STEP_PARTS]; /* [n_ranks] seconds of the newest row */
    /* for the metrics file: the newest row without its ranks, and what earlier rows had */
    struct yokei_metrics_row row;
    double row_time;        /* seconds since 1970; 0: there is no row */
    double validation_loss; /* NaN: none */
    int64_t skipped;
    int64_t saved_step; /* -1: none */
    double saved_time;
    int exit_code; /* how the run ended; -1: it is running */
};

/* metrics_file.c */
/** Write the metrics file now. */
yoke_status yokei_dashboards_publish(struct yokei_run_state *s);
/* dashboard_settings.c */
/** The settings of the run as Markdown. The caller frees the text with free(). YOKE_ENOMEM. */
yoke_status yokei_dashboards_settings(const struct yokei_run_state *s, char **text_out);

#endif
