/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Facts of a step, layer by layer, for the black box. Nothing here changes a bit of the training.
 *
 * The gradients' sums of squares, and the elements that are not finite, are counted in every step. The step
 * needs them anyway, so they cost nothing on the device. In steps that are sampled, the outputs of the layers
 * are searched for the largest one, and some elements of the weights are compared before and after AdamW.
 */
#ifndef TRAIN_TRAINER_FACTS_H
#define TRAIN_TRAINER_FACTS_H

#include "train/trainer/trainer.h"

struct yokei_layer_facts {
    /* of the summed gradients in this rank's slices: the squares of finite elements, without the loss scale,
     * and without elements that another rank counts; the number of elements that are not finite */
    double squares;
    int64_t n_bad;
    /* sums of squares of the change of the weights, and of the weights before it; NaN: not sampled */
    double update_squares, weight_squares;
    float largest;       /* the largest finite output in absolute value; NaN: not sampled */
    int64_t outputs_bad; /* outputs that are not finite */
    int64_t n_outputs;   /* outputs that were searched */
};

/** A run of elements of a parameter that is sampled. */
struct yokei_step_facts_piece {
    int parameter;
    size_t offset, at; /* offsets in bytes: on the device from the trainer's base, and in the copies */
    int64_t n;
};

struct yokei_step_facts {
    /* ---- the current step ---- */
    bool samples;                    /* outputs and updates are sampled */
    struct yokei_layer_facts *layer; /* [layers of the model] */
    /* the sequence of this rank's share with the largest loss, or the first one that is not a number, and its
     * loss per token; -1, NaN: this rank computes no loss */
    int64_t worst_sequence;
    double worst_loss;
    int64_t n_bad;  /* the sum of the layers */
    int bad_tensor; /* the first parameter with such an element, in the order of the backward pass; -1 */
    /* the first layer with an output that is not finite, and its micro-batch; -1: none was found */
    int bad_layer, bad_micro_batch;
    /* after yokei_trainer_trace_back: the same of this rank's own gradients, before sums over replicas */
    bool is_traced;
    int64_t own_bad;
    int own_bad_tensor;
    /* ---- memory ---- */
    struct yokei_step_facts_piece *piece; /* [n_pieces] */
    int n_pieces;
    double *factor; /* [parameters] elements of this rank's slice / elements that are sampled */
    void *before, *after, *outputs;
};

/** Collect facts from the next step on. YOKE_ENOMEM. */
yoke_status yokei_step_facts_create(yoke_trainer *trainer);
/** NULL, and a trainer without facts, are allowed. */
void yokei_step_facts_free(yoke_trainer *trainer);
/** Forget the last step. The next step is sampled or not. */
void yokei_step_facts_begin(yoke_trainer *trainer, bool samples);
/** Whether a number of this type is not finite, and the largest finite one, of n numbers in host memory. */
void yokei_step_facts_scan(yoke_dtype dtype, const void *values, int64_t n, float *largest, int64_t *n_bad);

/* ---- for step.c ---- */
/** The sum of the losses of a sequence, which has `tokens` tokens. */
void yokei_step_facts_loss(yoke_trainer *trainer, int64_t sequence, double sum, int64_t tokens);
/** Add the pairs of the norms of a parameter. */
void yokei_step_facts_gradient(yoke_trainer *trainer, int parameter, double squares, double n_bad);
/** For struct yokei_machine: search the output of a layer. */
yoke_status yokei_step_facts_output(void *trainer, const struct yokei_instruction *instruction,
                                    const struct yoke_layer_call *call);
/** Copy the samples of the weights before AdamW, and compare them after it. Both wait for the device. */
yoke_status yokei_step_facts_before_update(yoke_trainer *trainer);
yoke_status yokei_step_facts_after_update(yoke_trainer *trainer);

/* ---- trace_back.c ---- */
/**
 * After a step whose losses or gradients were not finite: repeat its passes with the same tokens, without
 * sums over replicas, and find the first output and the first gradient of this rank that is not finite. The
 * weights are those of the step, because no optimizer step followed. The gradients are lost. Collective over
 * the ranks of a replica; the caller calls it on all ranks or on none. Errors: those of a step.
 */
yoke_status yokei_trainer_trace_back(yoke_trainer *trainer, const int32_t *tokens, const int32_t *targets);

#endif
