/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules as data: an ordered list of actions for each rank. As text (CSV), a schedule has one line per
 * rank, in the order of the ranks:
 *   F0,B0,W0,F1,B1,W1,REDUCE0,REDUCE1,AGREE,STEP
 * or one line per pipeline stage:
 *   F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP
 *   RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,AGREE,STEP
 * F is the forward pass of a stage, B the gradient of its input, and W the gradient of its weights. R repeats
 * the forward pass to fill the stash (the activations that B and W need) again. SA and RA send and receive
 * activations, SG and RG gradients. REDUCE sums a bucket of gradients over the replicas. TIED sums the
 * gradients of parameters that the first and the last stage share. A number is the bucket of a REDUCE, else
 * the micro-batch. ".c" after a micro-batch is the chunk, if it is not 0. Empty lines and lines that begin
 * with # are ignored.
 * If B m comes directly before W m, each layer does both before the next layer begins. A REDUCE directly
 * after the last W starts as soon as the gradients of its bucket are complete. Neither changes a bit of the
 * result.
 */
#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H

#include <yoke/base.h>

/* the name in CSV, and whether a number follows it */
/* clang-format off */
#define YOKEI_ACTIONS(ACTION) \
    ACTION(F, true) \
    ACTION(B, true) \
    ACTION(W, true) \
    ACTION(R, true) \
    ACTION(SA, true) \
    ACTION(RA, true) \
    ACTION(SG, true) \
    ACTION(RG, true) \
    ACTION(REDUCE, true) \
    ACTION(TIED, false) \
    ACTION(AGREE, false) \
    ACTION(STEP, false)
/* clang-format on */

#define YOKEI_ACTION_KIND(name, numbered) YOKEI_ACTION_##name,
enum yokei_action_kind { YOKEI_ACTIONS(YOKEI_ACTION_KIND) YOKEI_N_ACTIONS };
#undef YOKEI_ACTION_KIND

struct yokei_action {
    enum yokei_action_kind kind;
    int index; /* micro-batch, or the bucket of a REDUCE */
    int chunk;
};
struct yokei_actions {
    int n, capacity;
    struct yokei_action *action;
};
struct yokei_schedule {
    int n_ranks;
    struct yokei_actions *rank;
};

/**
 * The kinds of pipeline schedules. Everything that Yoke knows of a kind stands in its row:
 * - its name, as --kind of yoke schedule show, --schedule of yoke train and the layouts of yoke parity take
 *   it;
 * - warm-up: the number of forward passes before the first backward pass (at most all of them);
 * - lag: W is done this many micro-batches later than B (in kinds with one chunk only);
 * - sends early: a backward pass sends its gradient before W;
 * - chunks: each of several stages has two or more chunks (runs of layers);
 * - its help, which continues "NAME: ".
 *
 * The expressions may use p, the number of stages; s, the index of the stage; v, the number of chunks of each
 * stage; and n, the number of forward passes of the stage. Stage 0 needs the longest warm-up to be kept busy.
 */
/* clang-format off */
#define YOKEI_PIPELINES(PIPELINE) \
    PIPELINE(NAIVE, "naive",             0,                               0, false, false, \
             "one micro-batch at a time") \
    PIPELINE(GPIPE, "gpipe",             n,                               0, false, false, \
             "all forward passes, then all backward passes") \
    PIPELINE(1F1B, "1f1b",               p - 1 - s,                       0, false, false, \
             "forward and backward passes in turn") \
    PIPELINE(INTERLEAVED, "interleaved", 2 * (p - 1 - s) + (v - 1) * p,   0, false, true, \
             "1f1b with several chunks of layers on each stage") \
    PIPELINE(ZB_H1, "zb-h1",             p - 1 - s,                       s, true,  false, \
             "1f1b with delayed weight gradients")
/* clang-format on */

#define YOKEI_PIPELINE_KIND(name, ...) YOKEI_PIPELINE_##name,
enum yokei_pipeline_kind { YOKEI_PIPELINES(YOKEI_PIPELINE_KIND) YOKEI_N_PIPELINES };
#undef YOKEI_PIPELINE_KIND
extern const char *const yokei_pipeline_names[YOKEI_N_PIPELINES + 1]; /* ended by NULL */

/* The names for tables of options: "|naive|gpipe|...", and the same without the first bar. */
#define YOKEI_PIPELINE_OR_NAME(kind, text, ...) "|" text
#define YOKEI_PIPELINE_OR_NAMES YOKEI_PIPELINES(YOKEI_PIPELINE_OR_NAME)
#define YOKEI_PIPELINE_CHOICES &(YOKEI_PIPELINE_OR_NAMES)[1]
/* The help of all kinds, for a sentence before it: ". naive: one micro-batch at a time. gpipe: ..." */
#define YOKEI_PIPELINE_HELP_OF(kind, text, warm_up, lag, early, chunks, help) ". " text ": " help
#define YOKEI_PIPELINE_HELP YOKEI_PIPELINES(YOKEI_PIPELINE_HELP_OF)

/** Whether each of several stages has two or more chunks in this kind. */
bool yokei_pipeline_has_chunks(enum yokei_pipeline_kind kind);
/** The kind that is taken if none is named: interleaved for more than one chunk, otherwise 1f1b. */
enum yokei_pipeline_kind yokei_pipeline_default(int n_chunks);
/**
 * The kind of this name; NULL: yokei_pipeline_default(). For an unknown name, YOKE_ECONFIG lists the names.
 */
yoke_status yokei_pipeline_named(const char *name, int n_chunks, enum yokei_pipeline_kind *kind_out);

/** The words for what a stage recomputes (config.recompute of yoke/train.h). The list ends with NULL. */
extern const char *const yokei_recompute_words[];

/**
 * A pipeline's shape. Chunk c of stage s is virtual stage c * n_stages + s. The virtual stages follow the
 * order of the model's layers.
 */
struct yokei_pipeline {
    enum yokei_pipeline_kind kind;
    int n_stages;
    /* chunks per stage; 0 means 1. More than 1 need a kind with chunks, or the user's own schedule */
    int n_chunks;
    int n_micro_batches;
    /* [n_stages] number of buckets that REDUCE sums over the replicas of the stage; NULL: none */
    const int *n_buckets;
    /*
     * [n_stages] whether R fills the stash again before B. NULL: no stage; in a check: each stage may have R.
     */
    const bool *recompute;
    /*
     * The first and the last of several stages share parameters. They sum these gradients after their
     * REDUCEs.
     */
    bool tied;
};

void yokei_schedule_free(struct yokei_schedule *schedule);
/**
 * Generate a schedule with one line per stage. A backward pass is B, W and then SG; in a kind that sends
 * early it is B, SG and then W. A single stage gets the order of data parallelism, whatever the kind. Free
 * the schedule with yokei_schedule_free. YOKE_ECONFIG: several chunks in a kind without chunks; one chunk in
 * a kind with chunks; a kind with chunks if the number of micro-batches is not a multiple of the number of
 * stages.
 */
yoke_status yokei_schedule_pipeline(const struct yokei_pipeline *shape, struct yokei_schedule *schedule_out);
/** The errors of yokei_schedule_pipeline, without the schedule. */
yoke_status yokei_schedule_check_shape(const struct yokei_pipeline *shape);
/** Generate the line of one stage. It is the only line of *schedule_out. The same errors. */
yoke_status yokei_schedule_line(const struct yokei_pipeline *shape, int stage,
                                struct yokei_schedule *schedule_out);
/**
 * Everything that decides the passes and messages of a generated line. Two lines with equal orders are equal
 * up to their first action that is neither.
 */
struct yokei_schedule_order {
    int n_micro_batches, n_chunks, warm_up, lag;
    bool sends_early, is_first, is_last, recomputes;
    int group; /* with chunks: the number of stages; 0: there are no chunks */
};
void yokei_schedule_order(const struct yokei_pipeline *shape, int stage,
                          struct yokei_schedule_order *order_out);
/**
 * Read a schedule from text. `source` is the text's name for messages. YOKE_ECONFIG names the line and the
 * word.
 */
yoke_status yokei_schedule_parse(const char *text, const char *source, struct yokei_schedule *schedule_out);
/** Write a schedule as text. The caller frees the text with free(). */
yoke_status yokei_schedule_print(const struct yokei_schedule *schedule, char **text_out);
/** One action as text, such as "F0.1". Returns `out`. */
const char *yokei_action_text(const struct yokei_action *action, char *out, size_t bytes);
/** Whether an action of this kind has a micro-batch (F B W R SA RA SG RG). */
static inline bool yokei_action_has_micro_batch(enum yokei_action_kind kind)
{
    return kind <= YOKEI_ACTION_RG;
}
/** Add an empty line; add an action to the last line. */
yoke_status yokei_schedule_add_line(struct yokei_schedule *schedule);
yoke_status yokei_schedule_append(struct yokei_schedule *schedule, enum yokei_action_kind kind, int index,
                                  int chunk);
/**
 * Check the stages of a pipeline, or the one stage of a model that is not divided. shape->kind is not read.
 * YOKE_ECONFIG names the stage and the action. The check refuses a schedule that
 * - loses or repeats a micro-batch or a bucket, or does not end in AGREE, STEP;
 * - runs B before F, or W before B;
 * - does not take the micro-batches in the order 0, 1, 2, …, because another order would change bits;
 * - uses data before it is received, or sends data before it is computed;
 * - recomputes after B, or recomputes only some of the micro-batches;
 * - sends messages in another order than the receiver expects;
 * - deadlocks if no message is buffered. Then the error text says what each stage waits for.
 */
yoke_status yokei_schedule_check(const struct yokei_schedule *schedule, const struct yokei_pipeline *shape);

#endif
