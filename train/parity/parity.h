/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The same numbers in every layout: a model is trained for a few steps in each of a list of layouts and held, by the gates of gates.h,
 * against one host rank: (a) gradients of each tensor at steps 1, 10 and 20 from identical weights, and their norm; (b) the losses of a
 * free run. What differs in nothing but schedule and recomputation must give the same bits, and so must what holds the same tensors.
 *
 * One start of many ranks serves all layouts: each takes some of the ranks, and small ones run side by side.
 */
#ifndef TRAIN_PARITY_PARITY_H
#define TRAIN_PARITY_PARITY_H

#include <yoke/train.h>
#include "train/files/model_files.h"

enum { YOKEI_PARITY_MOST = 64, YOKEI_PARITY_STEPS = 20, YOKEI_PARITY_TEXT = 256 };

/** A layout, as words of the same names as the options of yoke train. */
struct yokei_parity_layout {
    char text[YOKEI_PARITY_TEXT]; /* the words, which name it in results */
    int line;                     /* of its file */
    int64_t data, pipeline, chunks, micro_batch;         /* 0: as the trainer's default */
    int64_t tensor[YOKEI_PARITY_MOST], n_tensor;         /* one number, or one per stage */
    int64_t from;                 /* its first rank; -1: the first one of those that have the same devices as rank 0 and the ranks behind it */
    int64_t steps;                /* 0: those of the configuration */
    char schedule[16], recompute[128], precision[32];    /* "": default; precisions by commas */
    int64_t shares[YOKEI_PARITY_MOST], tensor_shares[YOKEI_PARITY_MOST], layers[YOKEI_PARITY_MOST];
    int64_t n_shares, n_tensor_shares, n_layers;         /* 0: equal */
    int64_t sequence_parallel, zero;
};

struct yokei_parity_list {
    int n, capacity;
    struct yokei_parity_layout *item;
};

/* ---- layout.c ---- */
/**
 * Layouts from text, a line each: "dp=2 pp=2 schedule=zb-h1 recompute=full"; blank lines and what follows # are left out.
 * YOKE_ECONFIG with `name`, line and word of the first that is wrong.
 */
yoke_status yokei_parity_parse(const char *text, const char *name, struct yokei_parity_list *list_out);
/** The built-in lists for n_ranks ranks and a model of n_blocks blocks: every mesh and schedule with a few of the rest; or all of all. */
yoke_status yokei_parity_built_in(bool all, int n_ranks, int64_t n_blocks, struct yokei_parity_list *list_out);
void yokei_parity_list_free(struct yokei_parity_list *list);
int yokei_parity_n_ranks(const struct yokei_parity_layout *layout);
/** Whether it is to be tried in this precision, "f32", "bf16" or "f16". */
bool yokei_parity_wants(const struct yokei_parity_layout *l, yoke_dtype precision);

/* ---- results ---- */
/** The worst that a gate saw. */
struct yokei_parity_worst {
    double ratio;     /* at most 1 passes */
    int step, rank;   /* rank of the job */
    char where[96];   /* the tensor, or what else was compared */
};

enum yokei_parity_state { YOKEI_PARITY_LEFT_OUT, YOKEI_PARITY_RAN };
struct yokei_parity_result {
    int layout;                 /* index in the list */
    yoke_dtype precision;
    enum yokei_parity_state state;
    char why[YOKEI_PARITY_TEXT]; /* it was left out */
    int from;                   /* its first rank */
    struct yokei_parity_worst gradient, against_f32, loss;
    struct yokei_parity_worst apart; /* ratio 0 or infinity: two ranks hold different bits of one tensor, or took different steps */
    uint64_t bits;              /* of all weights after the last step */
    int like;                   /* an earlier result that must have the same bits; -1: none */
    bool same_bits;
    double seconds;
};
/** Whether all gates were passed; else a text that names the gate, step, tensor and rank. */
bool yokei_parity_passed(const struct yokei_parity_result *r, const struct yokei_parity_result *all, const struct yokei_parity_list *list,
                         char *why, size_t bytes);

/* ---- run.c ---- */
#define YOKEI_PARITY_MODEL(config) yokei_model_of(&(config)->model.gpt2, &(config)->model.llama)
struct yokei_parity_config {
    struct yokei_model_config model;
    int64_t batch, sequence, steps; /* steps: at most YOKEI_PARITY_STEPS */
    uint64_t seed;
    double loss_scale;              /* first one in f16; 0: the trainer's default */
    bool precisions[YOKE_N_DTYPES]; /* of layouts that name none */
    yoke_device *device;            /* this rank's */
    yoke_comm *comm, *control;      /* all ranks, as a trainer takes them; NULL: one rank */
    void (*progress)(void *context, const char *text); /* on every rank; NULL: none */
    void *context;
};
/**
 * Try all layouts in all precisions. Collective over all ranks, which must pass the same; blocks. results_out: on all ranks alike,
 * to be freed. A gate that fails is in the results. Errors: YOKE_ECONFIG (the model), YOKE_ENUMERIC (the reference itself),
 * YOKE_ENOMEM, those of devices and of comm.h.
 */
yoke_status yokei_parity_run(const struct yokei_parity_config *config, const struct yokei_parity_list *list,
                             struct yokei_parity_result **results_out, int *n_out);

#endif
