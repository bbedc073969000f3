/* SPDX-License-Identifier: Apache-2.0 */
/** Declarations that the files of the post-mortem share. */
#ifndef TRAIN_POSTMORTEM_INSIDE_H
#define TRAIN_POSTMORTEM_INSIDE_H

#include <math.h>
#include <string.h>

#include "train/blackbox/box.h"
#include "train/plan/run_plan.h"
#include "train/postmortem/postmortem.h"
#include "train/run/loop.h"
#include "train/text/tokens.h"

enum { YOKEI_POSTMORTEM_SAMPLES = 256, YOKEI_POSTMORTEM_LAYERS = 1024 };
/** A layer that changes by more than this part of its norm in one step. */
#define YOKEI_WILD_UPDATE 0.5

/**
 * How far two right computations of a loss may be apart, relative to it, if they round otherwise. The
 * limit, and those of norms that follow from it, were tried with small models on one CPU alone (Zen 5).
 */
static inline double yokei_postmortem_rounding(const char *precision)
{
    return strcmp(precision, "f32") != 0 ? 1e-2 : 1e-3;
}

/** Whether two numbers are further apart than the part `tolerance` of the larger one. */
static inline bool yokei_postmortem_differs(double a, double b, double tolerance)
{
    if (isfinite(a) != isfinite(b)) return true;
    return isfinite(a) && fabs(a - b) > tolerance * fmax(fabs(a), fabs(b));
}

/** The run as its files have it. */
struct yokei_postmortem {
    const struct yokei_postmortem_config *config;
    struct yokei_postmortem_facts *facts;
    struct yokei_boxes *boxes;
    const struct yokei_box_head *head; /* of the first rank that can be read */
    struct yokei_plan plan;            /* plan.json */
    bool has_plan;
    const char *data;                     /* the file of the tokens */
    struct yokei_tokens *tokens;          /* NULL: they cannot be read */
    uint32_t attempt;                     /* the start of the run to which the odd step belongs */
    int64_t end;                          /* the last step that is repeated */
    struct yokei_boxes_layer *then, *now; /* [n_model_layers] */
    bool are_devices_noted;               /* a device that is another one now is listed as missing */
};

/** Where a replay begins. */
struct yokei_postmortem_start {
    int64_t step;
    char checkpoint[4096]; /* "": the beginning of the run */
    bool is_resume;
};

/* ---- look.c ---- */

/** The record of a step that the odd start of the run, or the newest one before it, took; -1: none. */
int64_t yokei_postmortem_find(const struct yokei_postmortem *p, int64_t step);
/** Find the odd step, and check learning rates. */
void yokei_postmortem_look(struct yokei_postmortem *p);
/** Compare the hashes of the tokens of steps first to last with those of the file. */
void yokei_postmortem_check_tokens(struct yokei_postmortem *p, int64_t first, int64_t last);

/* ---- replay.c ---- */

struct yokei_postmortem_order {
    const struct yokei_postmortem_start *start;
    const char *device; /* NULL: the devices and the layout of the run */
    bool in_f32;
    double rate; /* factor for the learning rate */
    int64_t last;
    /* the run's checkpoint of step `last`, with which the weights of the replay are compared; NULL: none */
    const char *beside;
};
/** Repeat steps in a process or a job of its own, and compare them with their records. */
void yokei_postmortem_replay(struct yokei_postmortem *p, const struct yokei_postmortem_order *order,
                             struct yokei_replayed *out);
/** A callback of the trainer (struct yokei_training) that ends a replay behind step `last`. */
void yokei_replay_end_behind(struct yokei_training *t, int64_t first, int64_t last);
/**
 * The losses per token of the worst parts of n samples with the weights of a start, on `device`, in a process
 * of its own. n is at most YOKEI_POSTMORTEM_SAMPLES. False: `why` says why it failed.
 */
bool yokei_postmortem_probe(struct yokei_postmortem *p, const struct yokei_postmortem_start *start,
                            const char *device, const int64_t *samples, int n, double *losses_out, char *why,
                            size_t bytes);

/**
 * The sum of the losses of samples [first, first + count) of a batch that begins with sample `batch`, in a
 * training step behind `step` with the weights of a start; NaN: it cannot be computed. Dropout is that of the
 * step.
 */
double yokei_postmortem_loss(struct yokei_postmortem *p, const struct yokei_postmortem_start *start,
                             int64_t step, int64_t batch, int64_t first, int64_t count);

/* ---- work in a process of its own ---- */

/* What a process tells its parent. It lies in memory that both share. */
struct yokei_postmortem_shared {
    yoke_status status;
    bool has_ended;
    char why[320];
    double losses[YOKEI_POSTMORTEM_SAMPLES];
    /* of the formulas: the largest outputs, and for each layer the slope along its gradient and the norm */
    int n_outputs;
    double largest[YOKEI_POSTMORTEM_LAYERS], slope[YOKEI_POSTMORTEM_LAYERS], norm[YOKEI_POSTMORTEM_LAYERS];
};

struct yokei_postmortem_work {
    yoke_status (*run)(struct yokei_postmortem_work *work);
    struct yokei_postmortem *p;
    const struct yokei_postmortem_order *order;
    const char *folder;     /* for the files of a replay */
    const int64_t *samples; /* of a probe */
    int n;
    int64_t step, batch, first, count; /* of a loss */
    struct yokei_postmortem_shared *shared;
};
/** Memory for w->shared, to be unmapped; NULL: there is none. */
struct yokei_postmortem_shared *yokei_postmortem_share(void);
/** True: the process came to its end, and w->shared says how. Otherwise `why` says what happened. */
bool yokei_postmortem_apart(struct yokei_postmortem_work *w, double seconds, char *why, size_t bytes);
/** A trainer of the whole model on the device of the order, with the weights of its start. */
yoke_status yokei_postmortem_open_trainer(const struct yokei_postmortem_work *w, int64_t batch,
                                          yoke_trainer **trainer_out);

/* ---- check.c ---- */

/** Compare the first step behind a start with the formulas of the model (formulas.h). */
void yokei_postmortem_check_formulas(struct yokei_postmortem *p, const struct yokei_postmortem_start *start);

/* ---- layout.c ---- */

/** Whether the plan and the caller allow a replay in the layout of the run. */
bool yokei_postmortem_has_layout(const struct yokei_postmortem *p);
/**
 * Run the job of a replay, whose files are in `folder`. False: it failed, and `why` says why. Its black box
 * may have steps also then.
 */
bool yokei_postmortem_run_layout(struct yokei_postmortem *p, const struct yokei_postmortem_order *order,
                                 const char *folder, char *why, size_t bytes);
/** The folder of a replay in which it saves a checkpoint, if the order wants one. */
void yokei_postmortem_save_folder(const char *folder, char *path, size_t bytes);

/* ---- weights.c ---- */

/** Compare the checkpoint in `folder` with that of the run (order->beside). */
void yokei_postmortem_compare_weights(struct yokei_postmortem *p, const struct yokei_postmortem_order *order,
                                      const char *folder);

/* ---- compare.c ---- */

/** Compare the black box of a replay in `folder` with that of the run. */
void yokei_postmortem_compare(struct yokei_postmortem *p, const struct yokei_postmortem_order *order,
                              const char *folder, struct yokei_replayed *out);

#endif
