/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checkpoints: folders DIR/step-0000123 that are there whole or not at all. docs/CHECKPOINTS.md describes the format.
 *
 * A save goes on in a folder of a temporary name; each rank writes the tensors that it owns; rank 0 then writes the index, the
 * configuration, the files that go with the model and the manifest, and renames the folder, last. Every file is synchronised before it is renamed, and the folders
 * are, so whenever the process is killed, the newest complete folder is a checkpoint.
 */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_H
#define TRAIN_CHECKPOINT_CHECKPOINT_H

#include "train/checkpoint/manifest.h"
#include "train/files/companions.h"
#include "train/files/problems.h"
#include "train/files/safetensors_header.h"

/* ---- folder.c: the checkpoints of a folder ---- */

enum yokei_checkpoint_state { YOKEI_CHECKPOINT_COMPLETE, YOKEI_CHECKPOINT_INCOMPLETE, YOKEI_CHECKPOINT_TEMPORARY };
struct yokei_checkpoint_entry {
    char name[64];
    int64_t step;
    enum yokei_checkpoint_state state;
    int64_t tokens, bytes; /* of a complete one */
    double seconds;
    char why[256];         /* an incomplete one is no checkpoint */
};
/** All step-… folders in `dir`, by step, leftovers last; free() the list. An empty list for a folder that is not there. YOKE_EIO, YOKE_ENOMEM. */
yoke_status yokei_checkpoint_list(const char *dir, struct yokei_checkpoint_entry **list_out, size_t *n_out);
/**
 * The checkpoint that `path` means: itself when it holds a manifest, else the newest complete one in it. Complete: its manifest
 * is in order, and all its files are there with the right sizes. YOKE_EDATA where there is none, and for a folder of shards without a manifest.
 */
yoke_status yokei_checkpoint_locate(const char *path, char *folder_out, size_t bytes);
/** Whether `path` is a checkpoint, a folder with an optimizer's shards, or one with folders called step-…, complete or not. */
bool yokei_checkpoint_is(const char *path);
/** The largest step of a complete checkpoint in `dir`; -1: none. */
int64_t yokei_checkpoint_newest(const char *dir);
/**
 * Make an empty folder for a save of `step`, and lock it (see claim.c), after removing what saves that were killed left behind.
 * YOKE_EIO where another job saves there now.
 */
yoke_status yokei_checkpoint_begin(const char *dir, int64_t step, char *temporary_out, size_t bytes, int *lock_out);
/** Give it its name; from then on it is the checkpoint of that step. */
yoke_status yokei_checkpoint_commit(const char *temporary, const char *dir, int64_t step);
/** Remove a folder of a checkpoint, renamed first, so that it never looks complete while it goes. */
yoke_status yokei_checkpoint_remove(const char *folder);
/** Keep the newest `keep` complete checkpoints (at least one); 0: all. */
yoke_status yokei_checkpoint_prune(const char *dir, int64_t keep);
/** "DIR/step-0000123" */
void yokei_checkpoint_path(const char *dir, int64_t step, char *out, size_t bytes);

/* ---- claim.c ---- */

/**
 * Make a folder to fill, or take over what a killed process left of it, emptied; the lock is this process's until it ends or
 * releases it, under the name that the folder has then. YOKE_EIO where another process fills it now, and where something else is there.
 */
yoke_status yokei_folder_claim(const char *folder, int *lock_out);
void yokei_folder_release(const char *folder, int lock);
/** Whether a living process fills it. */
bool yokei_folder_is_held(const char *folder);

/* ---- save.c ---- */

enum { YOKEI_PIECE = 1 << 18 }; /* elements that pass through host memory at a time */

/** A tensor of the model as a save sees it; the list is the same on all ranks but for `local`. */
struct yokei_save_item {
    const struct yoke_parameter *parameter; /* its whole shape */
    int owner;        /* the rank that writes it */
    bool spread;      /* no rank holds all of it: all take part in each piece */
    bool contributes; /* spread: this rank's part is nobody's copy */
    int local;        /* for `get`; -1: this rank holds nothing of it */
};
struct yokei_save {
    const char *dir;
    int64_t keep;
    int rank;
    const struct yokei_save_item *items;
    int n_items;
    const struct yokei_companions *companions; /* rank 0: files that go with the model; NULL: none but config.json */
    struct yokei_manifest *manifest; /* all but files, tensors and checksums, which the save fills in on rank 0 */
    void *context;
    /**
     * Elements [first, first + n) of the whole tensor into `out`, n <= YOKEI_PIECE. Called on the owner alone, or of a spread tensor on all
     * ranks in the same order; what `out` holds on others than the owner is not looked at.
     */
    yoke_status (*get)(void *context, const struct yokei_save_item *item, enum yoke_tensor_kind kind, int64_t first, int64_t n, float *out);
    /** Collective: YOKE_OK where all ranks pass YOKE_OK, else the same error on all. NULL: one rank. */
    yoke_status (*agree)(void *context, yoke_status mine);
};
/**
 * Save. Collective. Afterwards DIR/step-N is there, or everything in DIR is as it was before (but for leftovers).
 * Errors, the same on all ranks: YOKE_EIO (full disk included), YOKE_ENOMEM, those of `get` and `agree`.
 */
yoke_status yokei_checkpoint_save(const struct yokei_save *save);

/* ---- open.c ---- */

struct yokei_checkpoint {
    char path[4096];
    struct yokei_manifest manifest;
    struct yokei_safetensors_file *files; /* the shards */
    size_t n_files;
};
/**
 * Open the checkpoint in `folder` and check it: sizes, headers, and with flags 0 the checksum of every tensor (NO_HASH leaves that
 * out); and that it holds weights and moments of the model of its plan, no more and no less, as f32. All problems are listed at
 * once. Errors: YOKE_EDATA, YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_checkpoint_open(const char *folder, unsigned flags, struct yokei_checkpoint **checkpoint_out);
/** NULL is allowed. */
void yokei_checkpoint_close(struct yokei_checkpoint *c);
/** NULL where there is none. `name` is the parameter's. */
const struct yokei_tensor *yokei_checkpoint_tensor(const struct yokei_checkpoint *c, const char *name, enum yoke_tensor_kind kind);
/** Elements [first, first + n) of a tensor, converted as by yokei_tensor_copy. */
yoke_status yokei_tensor_piece(const struct yokei_tensor *tensor, int64_t first, int64_t n, yoke_dtype dtype, void *out);

/* ---- compare.c ---- */

struct yokei_tensor_difference {
    char name[128];
    int64_t n_different;       /* elements whose bits differ */
    double largest, relative;  /* |a - b|; and |a - b| / max(|a|, |b|); infinite where one is no finite number and the bits differ */
    int64_t at;                /* where the largest is */
    const char *problem;       /* NULL; else why it cannot be compared: "only in the first", … */
};
/** Call `visit` for each tensor of either checkpoint, by name; bits decide. */
yoke_status yokei_checkpoint_compare(const struct yokei_checkpoint *a, const struct yokei_checkpoint *b, void *context,
                                     void (*visit)(void *context, const struct yokei_tensor_difference *difference));
/** What of the manifests differs, as "key: a, b" lines; true when something does. Layout, files, times and versions do not count. */
bool yokei_manifest_differs(const struct yokei_manifest *a, const struct yokei_manifest *b, char *text, size_t bytes);

#endif
