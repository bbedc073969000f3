/* SPDX-License-Identifier: Apache-2.0 */
/** The inside of a predictor, shared by predict.c, predict_costs.c and predict_unit.c. */
#ifndef TRAIN_SEARCH_PREDICT_INSIDE_H
#define TRAIN_SEARCH_PREDICT_INSIDE_H

#include "parallel/simulate.h"
#include "train/models/model.h"
#include "train/search/predict.h"
#include "train/trainer/planned.h"

/** The time of a gradient sum that was computed before. group.n is 0 in an empty place of the table. */
struct yokei_known_sum {
    struct yokei_sum_group group;
    int64_t n; /* elements */
    double seconds;
};
/** Units that were computed before. */
struct yokei_known_unit {
    int tensor, recompute, kind;
    bool sequence_parallel, has_most;
    int64_t micro_batch;
    yoke_status status;
    struct yokei_unit unit;
};

struct yokei_predictor {
    struct yokei_predict_config config;
    enum yokei_speed_type type;
    struct yokei_planned_ranks planned;
    int n_sums, sums_capacity; /* capacity: of the hash table, a power of 2 */
    struct yokei_known_sum *sum;
    int n_units, units_capacity;
    struct yokei_known_unit *unit;
};

/** The layout that is being predicted. */
struct yokei_predicting {
    yokei_predictor *p;
    const struct yokei_layout *l;
    struct yokei_fixed_layout fixed;
    struct yoke_trainer_config config;
    char recompute[16];
    int64_t *blocks, *shares; /* [pipeline * chunks], [data] */
    struct yokei_places places;
    /* [n_hosts] ranks that share the links of a host to others: in messages between stages, and in sums */
    int *hop_sharers, *sum_sharers;
    int n_classes, *class_of, *first_of; /* classes of alike replicas; [data], [n_classes] */
    /* [n_classes * pipeline] the tensor rank that takes longest, and what was planned of it */
    struct yokei_planned *line;
    double *line_tensor, *line_again; /* seconds of a step in collectives, and in recomputation */
};

/* ---- predict_costs.c ---- */
/** Seconds of a list of ops on a kind; *together_out gets the part of collectives of the tensor group. */
double yokei_ops_seconds(const struct yokei_predictor *p, int kind, const struct yokei_path *inside,
                         int tensor, const struct yokei_op *ops, int n, double *together_out);
/** The costs of all lines. Free them with yokei_costs_free, also after an error. */
yoke_status yokei_predict_costs(struct yokei_predicting *w, struct yokei_costs *costs_out);

#endif
