/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The post-mortem of a training run: why a loss left its path.
 *
 *   look.c    what the black box says: the first odd step, the learning rates, the data;
 *   replay.c  steps of the run are repeated from a checkpoint, in other precisions and on other devices, and
 *             the losses of single samples are computed with the weights of a checkpoint;
 *   layout.c  steps are repeated by a job with the ranks, the devices and the layout of the run;
 *   end.c     where the files of a replay lie, and how it ends;
 *   check.c   compares a step with the formulas of the model in f64 (formulas.c), which share no code with
 *             the layers and the devices;
 *   weights.c finds the weight that changed, in the next checkpoint;
 *   compare.c compares the records of a replay with those of the run, and finds the ranks that differ;
 *   facts.c   puts these together to facts;
 *   judge.c   from facts to a verdict. It is pure: it reads no file and runs nothing.
 */
#ifndef TRAIN_POSTMORTEM_POSTMORTEM_H
#define TRAIN_POSTMORTEM_POSTMORTEM_H

#include <stdbool.h>
#include <stdint.h>
#include <yoke/base.h>
#include "train/text/skips.h"

/* ---- facts ---- */

/** What was odd in the records. */
enum yokei_odd {
    YOKEI_ODD_NONE,
    YOKEI_ODD_LOSS,     /* a spike of the loss */
    YOKEI_ODD_NORM,     /* a spike of the gradient norm */
    YOKEI_ODD_OVERFLOW, /* an output was not finite, or the run ended because of overflows */
    YOKEI_ODD_BAD_LOSS, /* the loss was not finite */
    YOKEI_N_ODDS
};
extern const char *const yokei_odd_names[YOKEI_N_ODDS];

enum { YOKEI_POSTMORTEM_RANKS = 16, YOKEI_POSTMORTEM_MISSING = 12, YOKEI_POSTMORTEM_BAD = 96 };

/** The ranks that differ in a step, where other ranks do not. */
struct yokei_ranks_off {
    int n, rank[YOKEI_POSTMORTEM_RANKS]; /* n is 0: all ranks differ, or no number tells them apart */
    char what[96];                       /* what differs on them: "the loss of its samples" */
    /* they are the whole first stage of a pipeline, so the other stages got wrong numbers from them */
    bool is_first_stage;
};

/** Steps of the run that were repeated, compared with their records. */
struct yokei_replayed {
    bool ran;
    bool is_exact; /* the same device, choices, precision and layout: the bits must be the same */
    int n_ranks;   /* of the replay; more than 1: it had the layout of the run */
    char device[32], precision[8]; /* device: of the first rank */
    int64_t from, n_compared;      /* the step behind which it began, and the steps that were compared */
    int64_t off_step;              /* the first step that differs from its record; -1: none does */
    /* of that step: whether the loss differs; the layers whose numbers differ, and the first one of them */
    bool is_loss_off;
    int n_layers_off, n_layers;
    char layer[64], what[24]; /* what: "output" or "gradient" of the layer */
    struct yokei_ranks_off ranks_off;
    double loss_then, loss_now, norm_then, norm_now, scale_then, scale_now;
    int64_t last_step;   /* the last step that was repeated */
    bool is_cut;         /* a rank of the replay was lost behind that step */
    int64_t failed_step; /* the step in which a loss was not finite, or that overflowed for good; -1: none */
    double last_loss;    /* of the last finite step */
    char why[320];       /* why it did not run */
};

/** A sample whose loss was computed with the weights of a checkpoint. */
struct yokei_sample_loss {
    int64_t sample, token,
        byte; /* number in the run; where it begins in the tokens and in the file; -1: unknown */
    int64_t step;
    int replica;
    double loss; /* per token, of the worst quarter of the sample */
};

struct yokei_postmortem_facts {
    /* the records */
    bool has_box;
    int n_ranks;
    int n_sharing; /* ranks that share the tensors of a layer; 1: none do */
    char precision[8];
    char skip_samples[YOKEI_SKIPS_BYTES]; /* the samples that the run skipped; "": none */
    int64_t n_steps, last_step;
    bool is_open; /* a rank has not noted the end of the run: it goes on, or it was killed */
    enum yokei_odd odd;
    int64_t odd_step; /* the first odd step; the last step if none is odd */
    double odd_value, odd_median, odd_limit;
    bool has_recovered; /* the loss came back under the limit and stayed there */
    char odd_layer[64]; /* the first layer whose output was not finite; "": none */
    int odd_rank;       /* a rank that has it; -1: unknown */
    double
        worst_update; /* the largest update ratio of a layer at most that many steps before; NaN: unknown */
    char worst_update_layer[64];
    /* the first step whose learning rate is not the plan's; -1: none */
    int64_t rate_step;
    double rate_then, rate_planned;
    double loss_scale; /* at the odd step */
    /* the first step in which a rank read other tokens than the file has now; -1: none */
    int64_t tokens_step;
    int tokens_rank;
    bool are_tokens_checked;
    /* samples of the last steps before the odd one, against samples of steps before them */
    bool are_samples_checked;
    int64_t n_samples, n_others, n_bad_samples;
    double others_median, others_limit, uniform_loss; /* the loss of a uniform guess */
    struct yokei_sample_loss worst_sample, first_bad_sample;
    int64_t bad_sample[YOKEI_POSTMORTEM_BAD]; /* [n_bad_samples] their numbers, or the first ones of them */
    /* where the replays begin; -1: nowhere, because there is no start */
    int64_t start_step;
    bool is_resume; /* the run itself went on from this checkpoint */
    struct yokei_replayed own, f32, other;
    struct yokei_replayed elsewhere; /* the same as `own`, from another start */
    /* if `own` had several ranks: the first steps on one rank of the host */
    struct yokei_replayed alone;
    /*
     * the weight that is furthest from a replay's in the next checkpoint, far more than those of all other
     * tensors; "": none is
     */
    char weight[128], weight_layer[64];
    int64_t weight_at, weight_step;    /* its element, and the step of the checkpoint */
    double weight_apart, others_apart; /* the distance, and the largest one in the other tensors */
    /* with a tenth of the learning rate */
    struct yokei_replayed slower;
    /* the first step behind the start, computed by the formulas of the model in f64 (formulas.h) */
    struct yokei_formula_check {
        bool ran;
        char why[160]; /* why it did not run; "": it was not tried */
        int64_t step;
        double loss_then, loss_now; /* recorded, and by the formulas */
        bool is_loss_off, is_output_off, is_gradient_off;
        /* the first layer whose largest output differs; else the layer whose gradient differs most */
        char layer[64];
        double then, now; /* the layer's largest output, or its gradient's norm and the slope of the loss */
        struct yokei_ranks_off ranks_off;
        struct yokei_replayed reference; /* the same step on the reference device, if something differs */
    } formulas;
    /* the rank's loss in the first step behind the start: as recorded, and as computed now */
    int n_rank_losses;
    struct yokei_rank_loss {
        int rank;
        char device[32];
        double then, now;
        bool is_off;
    } rank_loss[YOKEI_POSTMORTEM_RANKS];
    /* the first step behind a resumed checkpoint, computed with the weights of an older one */
    bool is_stale_tried;
    int64_t stale_step; /* the older checkpoint's step */
    int stale_rank;     /* the losses are those of this rank's samples; -1: of all samples */
    double stale_loss, resumed_loss, recorded_loss;
    char (*devices)[32]; /* [n_ranks] the device of each rank; "": unknown */
    /* what could not be read or done */
    int n_missing;
    char missing[YOKEI_POSTMORTEM_MISSING][320];
};

/** Add a line to the list of what is missing. */
void yokei_postmortem_miss(struct yokei_postmortem_facts *facts, const char *format, ...) YOKE_PRINTF(2, 3);

/* ---- judge.c ---- */

enum yokei_culprit {
    YOKEI_CULPRIT_NONE,    /* no fault found */
    YOKEI_CULPRIT_UNKNOWN, /* something went wrong, and the facts do not say what */
    YOKEI_CULPRIT_DATA,
    YOKEI_CULPRIT_PRECISION,
    YOKEI_CULPRIT_RATE,
    YOKEI_CULPRIT_DEVICE,
    YOKEI_CULPRIT_LAYER,
    YOKEI_CULPRIT_BIT,
    YOKEI_CULPRIT_RESUME,
    YOKEI_N_CULPRITS
};
/** A word for each cause: "none", "unknown", "data", ... */
extern const char *const yokei_culprit_names[YOKEI_N_CULPRITS];
/** A line for each cause. */
extern const char *const yokei_culprit_texts[YOKEI_N_CULPRITS];

enum { YOKEI_VERDICT_LINES = 16, YOKEI_VERDICT_BYTES = 400 };
struct yokei_verdict {
    enum yokei_culprit cause;
    int64_t step;                              /* the first step that is wrong; -1: none */
    char layer[64], parameter[128];            /* "": unknown */
    int n_ranks, rank[YOKEI_POSTMORTEM_RANKS]; /* the ranks at fault; n_ranks 0: unknown, or all of them */
    int n_evidence, n_ruled_out;
    char evidence[YOKEI_VERDICT_LINES][YOKEI_VERDICT_BYTES];
    char ruled_out[YOKEI_VERDICT_LINES][YOKEI_VERDICT_BYTES];
    char prevention[YOKEI_VERDICT_BYTES];
};
void yokei_postmortem_judge(const struct yokei_postmortem_facts *facts, struct yokei_verdict *verdict_out);

/* ---- facts.c ---- */

/** A replay in the layout of the run, for the program that can start jobs. */
struct yokei_postmortem_job {
    int n_ranks;
    const char *devices; /* of the ranks, in the order of the job: "host,opencl:0" */
    const char *folder;  /* for the files of the job; it is there, and empty but for the order */
    const char *order;   /* the path of the file for yokei_replay_order_read; every rank reads it */
    double seconds;      /* the most seconds of the job */
};

struct yokei_postmortem_config {
    const char *run;         /* the run directory */
    const char *data;        /* the file of the tokens; NULL: the file that the black box names */
    bool is_llmc;            /* the file has tokens as llm.c writes them */
    const char *tokenizer;   /* of the run; NULL: bytes, or ids */
    const char *init;        /* the weights with which the run began; NULL: drawn */
    const char *checkpoints; /* the folder of checkpoints; NULL: none */
    const char *folder;      /* where the run was started, for paths that it recorded; NULL: unknown */
    const char *device;      /* the device of the replays; NULL: the device of the run's first rank */
    const char *other;       /* another device; NULL: none */
    bool is_other_optional;  /* nothing is missing if the other device cannot be used */
    double seconds;          /* the most seconds of one replay */
    int64_t most_steps;      /* the most steps that a replay repeats */
    void (*busy)(void *context, const char *text); /* may be NULL */
    /*
     * Run the job, and wait for its end. False: a rank failed, or it took too long, and `why` says what
     * happened. NULL: all replays have one rank.
     */
    bool (*run_job)(void *context, const struct yokei_postmortem_job *job, char *why, size_t bytes);
    void *context;
};
/**
 * Gather the facts of a run. What cannot be read or done is listed in `missing`. yokei_postmortem_free frees
 * the facts, also after an error. YOKE_EDATA: there is no black box. YOKE_ENOMEM.
 */
yoke_status yokei_postmortem_gather(const struct yokei_postmortem_config *config,
                                    struct yokei_postmortem_facts *facts_out);
void yokei_postmortem_free(struct yokei_postmortem_facts *facts);

#endif
