/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Metrics of a run as JSON lines: one object per step, flushed at once, keys in a fixed order. What a row does not know
 * is NaN in the struct and null in the file, so every row has every key.
 */
#ifndef TRAIN_RUN_METRICS_H
#define TRAIN_RUN_METRICS_H

#include <yoke/base.h>

struct yokei_metrics;

struct yokei_metrics_rank {
    char device[32];
    double share;             /* of this step's samples */
    double tokens_per_second; /* while computing */
    double compute_seconds, wait_seconds;
    double mfu;               /* model FLOPs of this rank / (seconds of the step * its device's measured peak) */
    double bubble;            /* idle fraction of the longest time that a rank has from its first pass to its last */
    double exposed_communication_seconds; /* it computed nothing because of a message or a sum */
};
struct yokei_metrics_row {
    int64_t step;             /* from 1 */
    int64_t tokens;           /* seen since the start of the run */
    double seconds;           /* since the start of the run */
    double loss;              /* nats per token, of this step's batch */
    double validation_loss;   /* NaN: not measured at this step */
    double learning_rate, gradient_norm, loss_scale;
    bool skipped;             /* overflow: the optimizer did not step */
    double tokens_per_second;
    double mfu;               /* of all ranks: their model FLOPs / (seconds of the step * the sum of their peaks) */
    double bubble, exposed_communication_seconds; /* means of the ranks; the bubble counts recomputing as idle, as the simulator does */
    struct yokei_metrics_rank *ranks;
    int64_t n_ranks;
};

/**
 * Open for writing. continue_at < 0: a new file. Else rows of steps > continue_at, and a last row cut short by a crash,
 * are removed from the existing file, and new rows follow. Errors: YOKE_EIO; YOKE_EDATA (the existing file is no metrics).
 */
yoke_status yokei_metrics_open(const char *path, int64_t continue_at, struct yokei_metrics **metrics_out);
/** One line. YOKE_EIO names the path and the reason (full disk included); the line is then not there in part. */
yoke_status yokei_metrics_write(struct yokei_metrics *metrics, const struct yokei_metrics_row *row);
/** NULL is allowed. YOKE_EIO where the last bytes could not be written. */
yoke_status yokei_metrics_close(struct yokei_metrics *metrics);

#endif
