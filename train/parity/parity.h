/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Parity: every layout must compute the same numbers. A model is trained for a few steps in each of a list of
 * layouts, and each result is compared with one host rank, with the gates of gates.h. The comparisons are:
 * (a) gradients of each tensor, and their norm, at steps 1, 10 and 20 from identical weights; (b) the losses
 * of a free run. Layouts that differ only in schedule and recomputation must give the same bits. Ranks that
 * hold the same tensors must hold the same bits.
 *
 * All layouts run in one job of many ranks. Each layout uses some of the ranks, and small layouts run at the
 * same time.
 */
#ifndef TRAIN_PARITY_PARITY_H
#define TRAIN_PARITY_PARITY_H

#include <yoke/train.h>
#include "train/models/model_files.h"

enum { YOKEI_PARITY_MOST = 64, YOKEI_PARITY_STEPS = 20, YOKEI_PARITY_TEXT = 256 };

/** A layout. Its words have the names of the options of yoke train. */
struct yokei_parity_layout {
    char text[YOKEI_PARITY_TEXT]; /* the words of the layout, which are also its name in results */
    int line;                     /* line in the file */
    int64_t data, pipeline, chunks, micro_batch; /* 0: the trainer's default */
    int64_t tensor[YOKEI_PARITY_MOST], n_tensor; /* one number for all stages, or one number per stage */
    /* the layout's first rank; -1: the first rank from which on the devices are the same as from rank 0 on */
    int64_t from;
    int64_t steps;                                    /* 0: the steps of the configuration */
    char schedule[16], recompute[128], precision[32]; /* "": default; precisions are separated by commas */
    int64_t shares[YOKEI_PARITY_MOST], tensor_shares[YOKEI_PARITY_MOST], layers[YOKEI_PARITY_MOST];
    int64_t n_shares, n_tensor_shares, n_layers; /* 0: equal */
    int64_t sequence_parallel, zero;
};

struct yokei_parity_list {
    int n, capacity;
    struct yokei_parity_layout *item;
};

/* ---- layout.c ---- */
/**
 * Parse layouts from text, one per line: "dp=2 pp=2 schedule=zb-h1 recompute=full". Blank lines and text
 * after # are ignored. YOKE_ECONFIG with `name`, the line and the first wrong word.
 */
yoke_status yokei_parity_parse(const char *text, const char *name, struct yokei_parity_list *list_out);
/**
 * The built-in list for n_ranks ranks and a model of n_blocks blocks. It has every mesh and schedule with a
 * few of the other options; with `all` it has every combination.
 */
yoke_status yokei_parity_built_in(bool all, int n_ranks, int64_t n_blocks,
                                  struct yokei_parity_list *list_out);
void yokei_parity_list_free(struct yokei_parity_list *list);
int yokei_parity_n_ranks(const struct yokei_parity_layout *layout);
/** Whether the layout is to be run in this precision: "f32", "bf16" or "f16". */
bool yokei_parity_wants(const struct yokei_parity_layout *l, yoke_dtype precision);

/* ---- results ---- */
/** The largest ratio that a gate measured. */
struct yokei_parity_worst {
    double ratio;   /* at most 1 passes */
    int step, rank; /* the step, and the rank in the job */
    char where[96]; /* the tensor, or the other quantity that was compared */
};

enum yokei_parity_state { YOKEI_PARITY_LEFT_OUT, YOKEI_PARITY_RAN };
struct yokei_parity_result {
    int layout; /* index of the layout in the list */
    yoke_dtype precision;
    enum yokei_parity_state state;
    char why[YOKEI_PARITY_TEXT]; /* why the layout was left out */
    int from;                    /* the layout's first rank */
    struct yokei_parity_worst gradient, against_f32, loss;
    /* ratio 0 or infinity; infinity: two ranks hold different bits of one tensor, or took different steps */
    struct yokei_parity_worst apart;
    uint64_t bits; /* hash of all weights after the last step */
    int like;      /* index of an earlier result that must have the same bits; -1: none */
    bool same_bits;
    double seconds;
};
/** Whether all gates passed. If not, `why` names the gate, step, tensor and rank. */
bool yokei_parity_passed(const struct yokei_parity_result *r, const struct yokei_parity_result *all,
                         const struct yokei_parity_list *list, char *why, size_t bytes);

/* ---- run.c ---- */
struct yokei_parity_config {
    struct yokei_model_config model;
    int64_t batch, sequence, steps; /* steps: at most YOKEI_PARITY_STEPS */
    uint64_t seed;
    double loss_scale;              /* the initial loss scale in f16; 0: the trainer's default */
    bool precisions[YOKE_N_DTYPES]; /* precisions for layouts that name none */
    yoke_device *device;            /* the device of this rank */
    yoke_comm *comm, *control;      /* all ranks, as in a trainer's configuration; NULL: one rank */
    /* called on every rank before a layout, with the number of layouts that are done; may be NULL */
    void (*progress)(void *context, int n_done, int n, const char *text);
    void *context;
};
/**
 * Run all layouts in all precisions. Collective over all ranks, which must pass the same arguments; blocks.
 * results_out is the same on all ranks, and the caller frees it. A gate that fails is reported in the
 * results, not as an error. Errors: YOKE_ECONFIG (the model), YOKE_ENUMERIC (the reference itself),
 * YOKE_ENOMEM, those of devices and of comm.h.
 */
yoke_status yokei_parity_run(const struct yokei_parity_config *config, const struct yokei_parity_list *list,
                             struct yokei_parity_result **results_out, int *n_out);

#endif
