/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules as data: per rank an ordered list of actions. As text (CSV), one line per rank in rank order:
 *   F0,B0,W0,F1,B1,W1,REDUCE0,REDUCE1,AGREE,STEP
 * or per pipeline stage:
 *   F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP
 *   RA0,F0,B0,SG0,W0,RA1,F1,B1,SG1,W1,AGREE,STEP
 * SA and RA send and receive activations, SG and RG gradients; R recomputes a stash; TIED sums the gradients that the first and the
 * last stage share. A number is the micro-batch (".c" behind it is the chunk, when it is not 0) or the bucket (of REDUCE).
 * Lines that begin with # and empty lines say nothing. B m directly before W m is lowered layer by layer, and a REDUCE
 * directly behind the last W starts as soon as the last of its gradients is there: neither changes a bit.
 */
#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H

#include <yoke/base.h>

/* name in CSV, has a number */
#define YOKEI_ACTIONS(ACTION) \
    ACTION(F, true)           \
    ACTION(B, true)           \
    ACTION(W, true)           \
    ACTION(R, true)           \
    ACTION(SA, true)          \
    ACTION(RA, true)          \
    ACTION(SG, true)          \
    ACTION(RG, true)          \
    ACTION(REDUCE, true)      \
    ACTION(TIED, false)       \
    ACTION(AGREE, false)      \
    ACTION(STEP, false)

#define YOKEI_ACTION_KIND(name, numbered) YOKEI_ACTION_##name,
enum yokei_action_kind { YOKEI_ACTIONS(YOKEI_ACTION_KIND) YOKEI_N_ACTIONS };
#undef YOKEI_ACTION_KIND

struct yokei_action {
    enum yokei_action_kind kind;
    int index; /* micro-batch, or bucket */
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

/* Name of the kind (as in --kind), the actions of a stage in words. */
#define YOKEI_PIPELINES(PIPELINE)                                                                                     \
    PIPELINE(NAIVE, "naive")             /* a micro-batch at a time through all stages and back: one stage works */   \
    PIPELINE(GPIPE, "gpipe")             /* all forward, then all backward */                                         \
    PIPELINE(1F1B, "1f1b")               /* p - 1 - stage forward, then forward and backward in turn */               \
    PIPELINE(INTERLEAVED, "interleaved") /* the same with several chunks per stage: more messages, less waiting */    \
    PIPELINE(ZB_H1, "zb-h1")             /* as 1f1b, but gradients leave before W, which stage i puts off by i */

#define YOKEI_PIPELINE_KIND(name, text) YOKEI_PIPELINE_##name,
enum yokei_pipeline_kind { YOKEI_PIPELINES(YOKEI_PIPELINE_KIND) YOKEI_N_PIPELINES };
#undef YOKEI_PIPELINE_KIND
extern const char *const yokei_pipeline_names[YOKEI_N_PIPELINES + 1]; /* ended by NULL */

/** The words that say what of a stage is recomputed (config.recompute of yoke/train.h); the list ends with NULL. */
extern const char *const yokei_recompute_words[];

/** A pipeline's shape. Chunk c of stage s is virtual stage c * n_stages + s; these are in the order of the model's layers. */
struct yokei_pipeline {
    enum yokei_pipeline_kind kind;
    int n_stages;
    int n_chunks;          /* per stage; 0 is 1. More need interleaved, or a schedule of the user's own */
    int n_micro_batches;
    const int *n_buckets;  /* [n_stages] that REDUCE sums over the replicas of the stage; NULL: none */
    const bool *recompute; /* [n_stages] fill the stash again before B; NULL: none. NULL for a check: each stage as it likes */
    bool tied;             /* the first and the last of several stages sum gradients that they share, after their REDUCEs */
};

void yokei_schedule_free(struct yokei_schedule *schedule);
/**
 * A line per stage. Backward is B, W and then SG, in zb-h1 B, SG and W later. One stage has the order of data parallelism,
 * whatever the kind. YOKE_ECONFIG: chunks without interleaved or the other way round; interleaved with micro-batches that are
 * no multiple of the stages.
 */
yoke_status yokei_schedule_pipeline(const struct yokei_pipeline *shape, struct yokei_schedule *schedule_out);
/** Data parallelism with gradient accumulation: rank r runs n_micro_batches[r] micro-batches, which may be none. */
yoke_status yokei_schedule_data_parallel(int n_ranks, const int *n_micro_batches, int n_buckets,
                                         struct yokei_schedule *schedule_out);
/** From text; `source` names it in messages. YOKE_ECONFIG with the line and the word. */
yoke_status yokei_schedule_parse(const char *text, const char *source, struct yokei_schedule *schedule_out);
/** As text; free() it. */
yoke_status yokei_schedule_print(const struct yokei_schedule *schedule, char **text_out);
/** One action as text, "F0.1". */
const char *yokei_action_text(const struct yokei_action *action, char *out, size_t bytes);
/** Whether it carries a micro-batch (F B W R SA RA SG RG). */
static inline bool yokei_action_has_micro_batch(enum yokei_action_kind kind) { return kind <= YOKEI_ACTION_RG; }
/** Add an empty line, and an action to the last line. */
yoke_status yokei_schedule_add_line(struct yokei_schedule *schedule);
yoke_status yokei_schedule_append(struct yokei_schedule *schedule, enum yokei_action_kind kind, int index, int chunk);
/**
 * Refuse a schedule that loses or repeats a micro-batch or a bucket, runs W before B before F, accumulates in another
 * order than 0, 1, 2, … (which would change bits), or does not end in AGREE, STEP. YOKE_ECONFIG names rank and action.
 */
yoke_status yokei_schedule_check(const struct yokei_schedule *schedule, const int *n_micro_batches, int n_buckets);
/**
 * The same for a pipeline's stages (shape->kind is not read). Also refused: what is used before it is received or sent before it is
 * there, a recomputation after B or of only some micro-batches, messages in another order at the other end, and what stands still
 * although no message is buffered (then each stage is named with what it waits for).
 */
yoke_status yokei_schedule_check_pipeline(const struct yokei_schedule *schedule, const struct yokei_pipeline *shape);

#endif
