/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The predicted step of a layout on a cluster: its time by part, and the memory of its ranks. The passes and
 * the memory come from the step programs of the ranks, as the trainer would make them. The time of each op
 * comes from the cluster's speeds. The simulator puts the passes, the messages and the sums together.
 *
 * What the prediction assumes:
 *   - an op takes the time of struct yokei_speed; ops of a rank never overlap each other;
 *   - collectives of a tensor group, and the sums that yokei_modelled_time has no formula for, are rings;
 *   - the ranks of a host share its links to other hosts as if all of them sent at once;
 *   - the micro-batches of a replica take equal times.
 */
#ifndef TRAIN_SEARCH_PREDICT_H
#define TRAIN_SEARCH_PREDICT_H

#include <yoke/train.h>

#include "parallel/simulate.h"
#include "train/search/layout.h"

/** What all layouts have in common. */
struct yokei_predict_config {
    const yoke_model *model;
    const struct yokei_cluster *cluster; /* checked, and unchanged while the predictor lives */
    yoke_device *device;                 /* asked for ops and scratch memory, in place of all devices */
    yoke_dtype precision;                /* YOKE_F32, YOKE_F16 or YOKE_BF16 */
    int64_t batch, sequence;
    size_t bucket_bytes; /* 0: the trainer's default */
    double model_flops;  /* operations of the model in a step, by which utilisation is counted; 0: unknown */
};

/** The seconds of a step by part. They add up to the step. */
struct yokei_step_split {
    double arithmetic; /* passes of the slowest line, without collectives and recomputation */
    double recomputation;
    double tensor;       /* collectives of the tensor groups */
    double bubble;       /* waiting for other stages between the first and the last pass, and before */
    double exposed_sums; /* between the last pass and the end of the agreement */
    double optimizer;    /* zeroing, norms, AdamW, and gathers of weights */
};

/** The memory of the ranks of a stage on one kind of device: that of the rank that needs most. */
struct yokei_rank_memory {
    int stage, kind;
    int n_ranks;
    struct yoke_memory_report report;
    uint64_t have;
};

struct yokei_prediction {
    int n_ranks;
    double step_seconds;
    struct yokei_step_split split;
    double bubble; /* mean idle fraction of the stages, by the simulator */
    double tokens_per_second;
    double utilisation;    /* model FLOPs / (step * peaks of the devices in use); NAN: unknown */
    double price_per_hour; /* of the devices in use; hosts count in proportion to their devices */
    bool fits;
    double margin; /* least (have - need) / have of any rank; below 0 if it does not fit */
    int n_memory;
    struct yokei_rank_memory *memory; /* [n_memory] in the order of the stages */
    int n_shares;
    int64_t *shares; /* [data] sequences of each replica */
};

typedef struct yokei_predictor yokei_predictor;

yoke_status yokei_predictor_create(const struct yokei_predict_config *config,
                                   yokei_predictor **predictor_out);
void yokei_predictor_destroy(yokei_predictor *predictor);
/**
 * Predict a layout. YOKE_ECONFIG or YOKE_EUNSUPPORTED: the trainer refuses the layout, or the cluster has too
 * few slots; the text says why. A layout that does not fit into memory is no error. Free the result with
 * yokei_prediction_free. Costs: the programs of the distinct stages, and one simulation with a line for each
 * stage of each distinct replica. Programs that were made for earlier layouts are used again.
 */
yoke_status yokei_predict(yokei_predictor *predictor, const struct yokei_layout *layout,
                          struct yokei_prediction *prediction_out);
void yokei_prediction_free(struct yokei_prediction *prediction);

/** What a layout leaves open, if the caller fixes it. The caller owns both lists. */
struct yokei_fixed_layout {
    /* [data * pipeline] the slot of each tensor group, at yokei_layout_slot; NULL: those of the layout */
    const struct yokei_slot_place *slots;
    const int64_t *shares; /* [data] sequences of each replica, at least 1; NULL: yokei_layout_shares */
};
/** The same with fixed slots or shares. The layout's kinds must have the kinds of the slots. */
yoke_status yokei_predict_fixed(yokei_predictor *predictor, const struct yokei_layout *layout,
                                const struct yokei_fixed_layout *fixed,
                                struct yokei_prediction *prediction_out);

/**
 * The costs with which yokei_predict simulates the first replica of a layout. stages_out: [pipeline]. A
 * message begins only when its receiver takes it. Errors: those above.
 */
yoke_status yokei_predict_stages(yokei_predictor *predictor, const struct yokei_layout *layout,
                                 struct yokei_stage_costs *stages_out);

/**
 * The seconds of a block and of the layers before and behind the blocks, for one micro-batch on one kind of
 * device: the least that any call of the layer takes, and the most that any call on any tensor rank takes.
 * bounds.h builds on them. The most is 0 unless the whole unit was asked for.
 */
struct yokei_layer_seconds {
    double F, B, W, R;
};
struct yokei_unit {
    struct yokei_layer_seconds before, block, after;
    struct yokei_layer_seconds most_before, most_block, most_after;
};
yoke_status yokei_predict_unit(yokei_predictor *predictor, int tensor, bool sequence_parallel, int recompute,
                               int64_t micro_batch, int kind, struct yokei_unit *unit_out);
/** The same with the most, for the tensor ranks, the recomputation and the micro-batch of a layout. */
yoke_status yokei_predict_whole_unit(yokei_predictor *predictor, const struct yokei_layout *layout, int kind,
                                     struct yokei_unit *unit_out);
/**
 * Seconds of the passes of a block of a micro-batch on each rank of a tensor group of two ranks, and of its
 * four sums of activations, if the two ranks were on the two hosts with the fastest link. The micro-batch and
 * the kind are those of a layout. Both are 0 if the cluster has one host.
 */
yoke_status yokei_tensor_between(const struct yokei_predict_config *config, const struct yokei_layout *layout,
                                 double *passes_out, double *sums_out);
/**
 * Deal the batch to the replicas of a layout, in units of the micro-batch (with chunks, of as many
 * micro-batches as there are stages), so that the slowest replica ends as early as possible. seconds [data]:
 * the time of a micro-batch on the slowest stage of each replica. False: there are too few units, or the
 * batch is no multiple of a unit.
 */
bool yokei_layout_shares(const struct yokei_layout *layout, int64_t batch, const double *seconds,
                         int64_t *shares_out);

#endif
