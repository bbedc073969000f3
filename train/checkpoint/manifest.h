/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The manifest checkpoint.json lists the content of a checkpoint and holds all state of the run except its
 * tensors. It is written last. A folder without a readable manifest is not a checkpoint. The last field is a
 * checksum of the rest.
 */
#ifndef TRAIN_CHECKPOINT_MANIFEST_H
#define TRAIN_CHECKPOINT_MANIFEST_H

#include <yoke/train.h>
#include "train/plan/run_plan.h"

#define YOKEI_MANIFEST_NAME "checkpoint.json"
#define YOKEI_MANIFEST_FORMAT "yoke-checkpoint"
#define YOKEI_MANIFEST_VERSION 1
/** Name of the function from (seed, number) to samples: yokei_tokens_sample. */
#define YOKEI_DATA_ORDER "feistel-philox-1"

struct yokei_saved_file {
    char name[64]; /* in the checkpoint's folder */
    int64_t bytes;
    /* for a shard: hash of its header and the 8 bytes before it; for other files: hash of all bytes */
    char xxh3[20];
};
struct yokei_saved_tensor {
    char name[128]; /* "h.0.ln_1.weight"; for moments "h.0.ln_1.weight.moment1" */
    char file[64];
    char xxh3[20]; /* hash of the tensor's bytes */
};

struct yokei_manifest {
    char format[24];
    int64_t version;
    char yoke[32];                /* the version of Yoke that wrote it */
    int64_t step, optimizer_step; /* steps so far; a step that overflowed is not an optimizer step */
    int64_t tokens;               /* seen so far */
    double seconds;               /* seconds of the run's clock, summed over all its processes */
    char data_order[32];
    /* number of the first sample of the next step; together with seed and plan.data_hash this is the whole
     * state of the data */
    int64_t data_next_sample;
    uint64_t seed;                     /* seed of the samples and of all random draws in a step */
    double loss_scale;                 /* the loss scale that the next step uses */
    int64_t good_steps, skipped_steps; /* good steps since the scale changed; overflows in a row */
    bool replay;                       /* the run replays a plan, so the progress in the plan is binding */
    struct yokei_plan plan;
    struct yokei_saved_file *files;
    int64_t n_files;
    struct yokei_saved_tensor *tensors;
    int64_t n_tensors;
    char xxh3[20]; /* hash of the manifest's text, with zeros in this field */
};

/** Write FOLDER/checkpoint.json atomically, and set m->xxh3. YOKE_EIO, YOKE_ENOMEM. */
yoke_status yokei_manifest_write(const char *folder, struct yokei_manifest *m);
/**
 * Read and check a manifest; the caller calls yokei_manifest_free(). YOKE_EDATA names the file and the
 * problem: missing, damaged, or another version.
 */
yoke_status yokei_manifest_read(const char *folder, struct yokei_manifest *m_out);
void yokei_manifest_free(struct yokei_manifest *m);
/** The text of the file in malloc'ed memory. */
yoke_status yokei_manifest_text(struct yokei_manifest *m, char **text_out);

/** The suffix of a tensor's name: "", ".moment1" or ".moment2". */
const char *yokei_saved_suffix(enum yoke_tensor_kind kind);
/** Write the hash as text: "0123456789abcdef". */
void yokei_hash_text(uint64_t hash, char out[20]);

#endif
