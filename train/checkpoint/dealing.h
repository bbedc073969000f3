/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tensors of a trainer for a save: which rank holds which elements of each tensor, and which rank writes
 * it. This code knows nothing of meshes. Each rank tells which elements of which parameters it holds, and all
 * ranks compute the same result from this.
 */
#ifndef TRAIN_CHECKPOINT_DEALING_H
#define TRAIN_CHECKPOINT_DEALING_H

#include "train/checkpoint/checkpoint.h"
#include "train/trainer/trainer.h"

struct yokei_dealing {
    yoke_trainer *trainer;
    struct yokei_save_item *items; /* all parameters of the model, whichever rank holds them */
    int n_items;
    /* buffer for one piece of this rank's part of a spread tensor; NULL if no tensor is spread */
    float *mine;
};

/**
 * Choose the owner of each tensor. If some ranks hold the whole tensor, the owner is one of these ranks.
 * Otherwise it is a rank that holds a part. Owners are chosen so that all shards have about the same length.
 * Collective. Errors: YOKE_ENOMEM, YOKE_EINTERNAL (the ranks' parts do not cover a tensor), those of comm.h.
 */
yoke_status yokei_dealing_create(yoke_trainer *trainer, struct yokei_dealing *dealing_out);
void yokei_dealing_free(struct yokei_dealing *dealing);
/** `get` and `agree` of struct yokei_save for a dealing. The dealing is the context. */
yoke_status yokei_dealing_get(void *dealing, const struct yokei_save_item *item, enum yoke_tensor_kind kind,
                              int64_t first, int64_t n, float *out);
yoke_status yokei_dealing_agree(void *dealing, yoke_status mine);
/**
 * Load this rank's elements of weights and moments from a checkpoint. The checkpoint may have been saved with
 * any layout. Local. YOKE_EDATA, YOKE_ENOMEM.
 */
yoke_status yokei_checkpoint_load(const struct yokei_checkpoint *checkpoint, yoke_trainer *trainer);

#endif
