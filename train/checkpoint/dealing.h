/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A trainer's tensors for a save: who holds what of each, who writes it. Nothing is known of meshes here: each rank tells which
 * elements of which parameters it holds, and all draw the same conclusions.
 */
#ifndef TRAIN_CHECKPOINT_DEALING_H
#define TRAIN_CHECKPOINT_DEALING_H

#include "train/checkpoint/checkpoint.h"
#include "train/trainer/trainer.h"

struct yokei_layout {
    yoke_trainer *trainer;
    struct yokei_save_item *items;    /* of all parameters of the model, of whatever rank */
    int n_items;
    float *mine;                      /* a piece: this rank's part of a spread tensor; NULL where none is spread */
};

/**
 * Owners: of a tensor that some rank holds whole, one of these ranks, else one that holds a part; so that the shards come out
 * about equally long. Collective. Errors: YOKE_ENOMEM, YOKE_EINTERNAL (ranks' parts do not make up a tensor), those of comm.h.
 */
yoke_status yokei_layout_create(yoke_trainer *trainer, struct yokei_layout *layout_out);
void yokei_layout_free(struct yokei_layout *layout);
/** struct yokei_save.get and .agree of a layout (the context). */
yoke_status yokei_layout_get(void *layout, const struct yokei_save_item *item, enum yoke_tensor_kind kind, int64_t first, int64_t n, float *out);
yoke_status yokei_layout_agree(void *layout, yoke_status mine);
/** This rank's elements of weights and moments from a checkpoint, whatever layout it was saved from. Local. YOKE_EDATA, YOKE_ENOMEM. */
yoke_status yokei_checkpoint_load(const struct yokei_checkpoint *checkpoint, yoke_trainer *trainer);

#endif
