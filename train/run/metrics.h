/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The metrics of a run as JSON lines. Each step has one object with its keys in a fixed order, and each line
 * is flushed at once. An unknown value is NaN in the struct and null in the file. So every row has every key.
 */
#ifndef TRAIN_RUN_METRICS_H
#define TRAIN_RUN_METRICS_H

#include <yoke/base.h>

struct yokei_metrics;

struct yokei_metrics_rank {
    char device[32];
    double share;             /* the rank's share of this step's samples */
    double tokens_per_second; /* while the rank computes */
    double compute_seconds, wait_seconds;
    double mfu; /* model FLOPs of this rank / (seconds of the step * measured peak of its device) */
    /* idle fraction; the whole is the longest time that any rank needs from its first pass to its last */
    double bubble;
    /* seconds in which the rank computed nothing because of a message or a sum */
    double exposed_communication_seconds;
    double busy_seconds; /* seconds of the passes, without the time in which the rank computed nothing */
    double data_seconds; /* seconds in which the rank read this step's data */
    double checkpoint_seconds; /* seconds in which the rank saved after the step before this one */
    /* what the operating system says; struct yoke_rank_report explains these values */
    double processor_seconds, queued_seconds, preemptions, major_faults, compile_seconds;
};
struct yokei_metrics_row {
    int64_t step;           /* from 1 */
    int64_t tokens;         /* tokens since the start of the run */
    double seconds;         /* seconds since the start of the run */
    double loss;            /* nats per token of this step's batch */
    double validation_loss; /* NaN: not measured at this step */
    /*
     * The largest difference of the replicas' gradients in an audit after this step, relative to the gate.
     * NaN: there was no audit, or its gradients overflowed; audit_seconds is NaN only without an audit.
     */
    double audit, audit_seconds;
    double learning_rate, gradient_norm, loss_scale;
    bool skipped; /* the gradients overflowed, so the optimizer did not step */
    double tokens_per_second;
    double mfu; /* sum of all ranks' model FLOPs / (seconds of the step * sum of their peaks) */
    /* means over the ranks; the bubble counts recomputation as idle, as the simulator does */
    double bubble, exposed_communication_seconds;
    struct yokei_metrics_rank *ranks;
    int64_t n_ranks;
};

/**
 * Open a file for writing. With continue_at < 0 it is a new file. Otherwise rows of steps > continue_at are
 * removed from the existing file, and so is an incomplete last row from a crash. New rows follow. Errors:
 * YOKE_EIO; YOKE_EDATA (the existing file does not hold metrics).
 */
yoke_status yokei_metrics_open(const char *path, int64_t continue_at, struct yokei_metrics **metrics_out);
/**
 * Write one line. YOKE_EIO names the path and the reason (also for a full disk); no part of the line is then
 * in the file.
 */
yoke_status yokei_metrics_write(struct yokei_metrics *metrics, const struct yokei_metrics_row *row);
/** NULL is allowed. YOKE_EIO if the last bytes could not be written. */
yoke_status yokei_metrics_close(struct yokei_metrics *metrics);

/** The longest line that is read. A row of 10,000 ranks has about 4 MB. */
#define YOKEI_METRICS_LONGEST ((size_t)16 << 20)
/** What a reader of single lines remembers. The caller frees `ranks` with free(). */
struct yokei_metrics_reader {
    int64_t last_step;
    struct yokei_metrics_rank *ranks; /* [capacity] of the last row */
    int64_t capacity;
};
#define YOKEI_METRICS_READER_INIT \
    {                             \
        .last_step = INT64_MIN    \
    }
/**
 * Read the row in a line without its newline. Path and offset are for messages. The row's ranks are valid
 * until the next call. Errors: YOKE_EDATA (the line is no row, or its step is not above reader->last_step);
 * YOKE_ENOMEM. After an error the reader is unchanged.
 */
yoke_status yokei_metrics_line(const char *path, size_t offset, const char *text, size_t bytes,
                               struct yokei_metrics_reader *reader, struct yokei_metrics_row *row_out);

/** The rows of a file of metrics, by ascending step. The caller frees `rows` with free(). */
struct yokei_metrics_rows {
    struct yokei_metrics_row *rows; /* without the rows of the ranks */
    size_t n;
    bool cut; /* the last line has no newline, because a crash cut it; it is left out */
};
/**
 * Read a file of metrics, and call `visit` with each row. The rows have their ranks, which are valid during
 * the call. *cut_out is that of struct yokei_metrics_rows. Errors: those of yokei_metrics_read; those of
 * `visit`, which end the reading.
 */
typedef yoke_status yokei_metrics_visit(void *context, const struct yokei_metrics_row *row);
yoke_status yokei_metrics_each(const char *path, yokei_metrics_visit *visit, void *context, bool *cut_out);
/**
 * Read a file of metrics, and call `visit` with each row, if `visit` is not NULL. If a line is damaged, *out
 * holds the rows before that line. Errors: YOKE_EDATA (the file is missing; a line is no row, or its step is
 * not above the step of the line before); YOKE_ENOMEM; those of `visit`.
 */
yoke_status yokei_metrics_read(const char *path, yokei_metrics_visit *visit, void *context,
                               struct yokei_metrics_rows *out);

#endif
