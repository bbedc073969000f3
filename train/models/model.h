/* SPDX-License-Identifier: Apache-2.0 */
/** What a model is made of. */
#ifndef TRAIN_MODELS_MODEL_H
#define TRAIN_MODELS_MODEL_H

#include <yoke/train.h>

struct yoke_model {
    int n_layers;
    yoke_layer **layer;
    int n_trainers; /* that use it */
    /* How a pipeline may cut it: `before` layers, then blocks of per_block layers each, then `after`; 0 per_block: between any two. */
    int before, per_block, after;
};

#endif
