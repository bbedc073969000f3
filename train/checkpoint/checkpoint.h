/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checkpoints: folders DIR/step-0000123 that are either complete or not there. docs/CHECKPOINTS.md describes
 * the format.
 *
 * A save writes into a folder with a temporary name. Each rank writes the tensors that it owns. Rank 0 then
 * writes the index, the configuration, the companion files of the model and the manifest. At the end rank 0
 * renames the folder. Every file is synchronised (fsync) before it is renamed, and so are the folders. So the
 * newest complete folder is a checkpoint whenever the process is killed.
 */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_H
#define TRAIN_CHECKPOINT_CHECKPOINT_H

#include "train/checkpoint/manifest.h"
#include "train/models/companions.h"
#include "train/files/problems.h"
#include "train/files/safetensors_header.h"

/* ---- folder.c: the list of checkpoints in a folder ---- */

enum yokei_checkpoint_state {
    YOKEI_CHECKPOINT_COMPLETE,
    YOKEI_CHECKPOINT_INCOMPLETE,
    YOKEI_CHECKPOINT_TEMPORARY
};
struct yokei_checkpoint_entry {
    char name[64];
    int64_t step;
    enum yokei_checkpoint_state state;
    int64_t tokens, bytes; /* tokens seen so far, and size; set for a complete checkpoint */
    double seconds;
    char why[256]; /* why an incomplete folder is not a checkpoint */
};
/**
 * List all step-… folders in `dir`, sorted by step; leftovers of killed saves come last. The caller calls
 * free() on the list. If there is no such folder, the list is empty. YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_checkpoint_list(const char *dir, struct yokei_checkpoint_entry **list_out, size_t *n_out);
/**
 * Find the checkpoint that `path` means. It is `path` itself if that folder has a manifest. Otherwise it is
 * the newest complete checkpoint in `path`. A checkpoint is complete if its manifest is valid and all its
 * files are there with the right sizes. YOKE_EDATA if there is no such checkpoint, or if a folder has shards
 * but no manifest.
 */
yoke_status yokei_checkpoint_locate(const char *path, char *folder_out, size_t bytes);
/**
 * Whether `path` is a checkpoint, a folder with an optimizer's shards, or a folder that contains step-…
 * folders. These may be complete or not.
 */
bool yokei_checkpoint_is(const char *path);
/** The largest step of the complete checkpoints in `dir`; -1: there is none. */
int64_t yokei_checkpoint_newest(const char *dir);
/**
 * Remove the leftovers of killed saves, then create an empty folder for a save of `step` and lock it (see
 * claim.c). YOKE_EIO if another job saves there now.
 */
yoke_status yokei_checkpoint_begin(const char *dir, int64_t step, char *temporary_out, size_t bytes,
                                   int *lock_out);
/** Give the folder its final name. From then on it is the checkpoint of that step. */
yoke_status yokei_checkpoint_commit(const char *temporary, const char *dir, int64_t step);
/**
 * Remove a checkpoint's folder. The folder is renamed first, so that it never looks complete while its files
 * are removed.
 */
yoke_status yokei_checkpoint_remove(const char *folder);
/** Keep the newest `keep` complete checkpoints (at least one) and remove the older ones; 0: keep all. */
yoke_status yokei_checkpoint_prune(const char *dir, int64_t keep);
/** "DIR/step-0000123" */
void yokei_checkpoint_path(const char *dir, int64_t step, char *out, size_t bytes);

/* ---- claim.c ---- */

/**
 * Create a folder that this process will fill. A folder that a killed process left unfinished is taken over
 * and emptied. This process holds the lock until it ends or releases it, also when the folder is renamed.
 * YOKE_EIO if another process fills the folder now, or if `folder` is something else.
 */
yoke_status yokei_folder_claim(const char *folder, int *lock_out);
void yokei_folder_release(const char *folder, int lock);
/** Whether a living process holds the folder's lock. */
bool yokei_folder_is_held(const char *folder);

/* ---- save.c ---- */

enum { YOKEI_PIECE = 1 << 18 }; /* elements that are copied through host memory at a time */

/**
 * One tensor of the model in a save. The list of items is the same on all ranks except for `contributes` and
 * `local`.
 */
struct yokei_save_item {
    const struct yoke_parameter *parameter; /* describes the whole tensor */
    int owner;                              /* the rank that writes it */
    bool spread;      /* no rank holds the whole tensor, so all ranks take part in each piece */
    bool contributes; /* for a spread tensor: this rank's part is not a copy of another rank's part */
    int local;        /* index that `get` uses; -1: this rank holds no part of the tensor */
};
struct yokei_save {
    const char *dir;
    int64_t keep;
    int rank;
    const struct yokei_save_item *items;
    int n_items;
    /* rank 0: the companion files of the model; NULL: only config.json */
    const struct yokei_companions *companions;
    /* complete except for files, tensors and checksums, which the save fills in on rank 0 */
    struct yokei_manifest *manifest;
    void *context;
    /**
     * Copy elements [first, first + n) of the whole tensor into `out`, n <= YOKEI_PIECE. For a spread tensor,
     * all ranks call this function in the same order, and only the owner's `out` is used. For other tensors
     * only the owner calls it.
     */
    yoke_status (*get)(void *context, const struct yokei_save_item *item, enum yoke_tensor_kind kind,
                       int64_t first, int64_t n, float *out);
    /**
     * Collective. YOKE_OK if all ranks pass YOKE_OK; otherwise all ranks get the same error. NULL: there is
     * one rank.
     */
    yoke_status (*agree)(void *context, yoke_status mine);
};
/**
 * Save a checkpoint. Collective. Afterwards DIR/step-N is there, or DIR is unchanged except for leftovers.
 * Errors, the same on all ranks: YOKE_EIO (also for a full disk), YOKE_ENOMEM, and the errors of `get` and
 * `agree`.
 */
yoke_status yokei_checkpoint_save(const struct yokei_save *save);

/** The bytes that the tensors of a checkpoint take for each parameter of the model, in any precision. */
size_t yokei_checkpoint_bytes_per_parameter(void);

/* ---- open.c ---- */

struct yokei_checkpoint {
    char path[4096];
    struct yokei_manifest manifest;
    struct yokei_safetensors_file *files; /* the shards */
    size_t n_files;
};
/**
 * Open the checkpoint in `folder` and check it. The checks cover sizes and headers, and with flags 0 the
 * checksum of every tensor (NO_HASH skips the checksums). The checkpoint must hold exactly the weights and
 * moments of the model in its plan, as f32. All problems are listed at once. Errors: YOKE_EDATA, YOKE_EIO,
 * YOKE_ENOMEM.
 */
yoke_status yokei_checkpoint_open(const char *folder, unsigned flags,
                                  struct yokei_checkpoint **checkpoint_out);
/** NULL is allowed. */
void yokei_checkpoint_close(struct yokei_checkpoint *c);
/** Find a tensor by the parameter's name and the kind. NULL if there is none. */
const struct yokei_tensor *yokei_checkpoint_tensor(const struct yokei_checkpoint *c, const char *name,
                                                   enum yoke_tensor_kind kind);

/* ---- compare.c ---- */

struct yokei_tensor_difference {
    char name[128];
    int64_t n_different; /* elements whose bits differ */
    /* largest |a - b| and largest |a - b| / max(|a|, |b|); infinite if a or b is not finite and their bits
     * differ */
    double largest, relative;
    int64_t at;          /* index of the element with the largest difference */
    const char *problem; /* NULL, or why the tensors cannot be compared: "only in the first", … */
};
/**
 * Call `visit` for each tensor of either checkpoint, ordered by name. Elements are equal if their bits are
 * equal.
 */
yoke_status yokei_checkpoint_compare(const struct yokei_checkpoint *a, const struct yokei_checkpoint *b,
                                     void *context,
                                     void (*visit)(void *context,
                                                   const struct yokei_tensor_difference *difference));
/**
 * Compare two manifests and write the differences as "key: a, b" lines. Returns true if they differ. Layout,
 * files, times and versions do not count.
 */
bool yokei_manifest_differs(const struct yokei_manifest *a, const struct yokei_manifest *b, char *text,
                            size_t bytes);

#endif
