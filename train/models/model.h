/* SPDX-License-Identifier: Apache-2.0 */
/** The data of a model. */
#ifndef TRAIN_MODELS_MODEL_H
#define TRAIN_MODELS_MODEL_H

#include <yoke/train.h>

struct yoke_model {
    int n_layers;
    yoke_layer **layer;
    int n_trainers;     /* trainers that use the model */
    int64_t n_elements; /* elements of all parameters; a name that several layers declare counts once */
    void *names;        /* a tree of <search.h>: the names of these parameters */
    /*
     * Where a pipeline may cut the model. It has `before` layers, then blocks of per_block layers each, then
     * `after` layers. If per_block is 0, it may be cut between any two layers.
     */
    int before, per_block, after;
};

#endif
