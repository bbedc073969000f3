/* SPDX-License-Identifier: Apache-2.0 */
/**
 * checkpoint.json: what a checkpoint holds, and everything of the run beside its tensors. It is written last; a folder without a
 * readable one is no checkpoint. Its last field is a checksum of the rest.
 */
#ifndef TRAIN_CHECKPOINT_MANIFEST_H
#define TRAIN_CHECKPOINT_MANIFEST_H

#include <yoke/train.h>
#include "train/files/plan.h"

#define YOKEI_MANIFEST_NAME "checkpoint.json"
#define YOKEI_MANIFEST_FORMAT "yoke-checkpoint"
#define YOKEI_MANIFEST_VERSION 1
/** How samples follow from (seed, number): yokei_tokens_sample. */
#define YOKEI_DATA_ORDER "feistel-philox-1"

struct yokei_saved_file {
    char name[64];         /* in the checkpoint's folder */
    int64_t bytes;
    char xxh3[20];         /* of a shard's header with the 8 bytes before it, of other files' bytes */
};
struct yokei_saved_tensor {
    char name[128];        /* "h.0.ln_1.weight"; of moments "h.0.ln_1.weight.moment1" */
    char file[64];
    char xxh3[20];         /* of its bytes */
};

struct yokei_manifest {
    char format[24];
    int64_t version;
    char yoke[32];         /* version that wrote it */
    int64_t step, optimizer_step; /* done so far; overflows are steps without an optimizer step */
    int64_t tokens;        /* seen so far */
    double seconds;        /* of the run's clock, all its processes together */
    char data_order[32];
    int64_t data_next_sample; /* number of the first sample of the next step; with seed and plan.data_hash all of the data's state */
    uint64_t seed;         /* of samples and of whatever is drawn in a step */
    double loss_scale;     /* of the next step */
    int64_t good_steps, skipped_steps; /* since the scale changed; overflows in a row */
    bool replay;           /* the run replays a plan: its progress binds */
    struct yokei_plan plan;
    struct yokei_saved_file *files;
    int64_t n_files;
    struct yokei_saved_tensor *tensors;
    int64_t n_tensors;
    char xxh3[20];         /* of the manifest's text with zeros here */
};

/** FOLDER/checkpoint.json, written whole; fills m->xxh3. YOKE_EIO, YOKE_ENOMEM. */
yoke_status yokei_manifest_write(const char *folder, struct yokei_manifest *m);
/** Read and check; yokei_manifest_free() it. YOKE_EDATA names the file and what is wrong: missing, damaged, of another version. */
yoke_status yokei_manifest_read(const char *folder, struct yokei_manifest *m_out);
void yokei_manifest_free(struct yokei_manifest *m);
/** The text of the file, malloc'ed. */
yoke_status yokei_manifest_text(struct yokei_manifest *m, char **text_out);

/** "", ".moment1", ".moment2": what a tensor's name ends with. */
const char *yokei_saved_suffix(enum yoke_tensor_kind kind);
/** "0123456789abcdef" of a hash. */
void yokei_hash_text(uint64_t hash, char out[20]);

#endif
